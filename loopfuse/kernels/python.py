"""`@loopfuse.kernel`: a Python function over arrays as a kernel.

The function is read when the types of its arguments are known: from annotations, or at the first
call with arrays of these dtypes and ranks. Each combination of types, and of values of the
constants around it, is a kernel of its own, compiled and cached as those of .lf files are. The
function itself stays callable: `.reference`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from loopfuse.base import forks, function_text
from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import Diagnostic, LoopfuseError, Source, UserError
from loopfuse.base.options import Check, Fp, parse_check, parse_flag, parse_fp
from loopfuse.base.words import spell
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.results import (
    Result,
    describe_results,
    hand_back,
    known_values,
    no_operator,
    read_results,
)
from loopfuse.kernels.scope import Scope, capture
from loopfuse.kernels.types import (
    Dimensions,
    Type,
    annotated_types,
    call_parameters,
    equal_extents,
    holds,
    in_both,
    shapes_of,
    to_arguments,
    type_of_value,
)
from loopfuse.kernels.words import extent_text, in_python, remedy_in_python, unnamed_sizes
from loopfuse.runtime import cache
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.call.fast import MISS
from loopfuse.tuning.remember import Tuned
from loopfuse.tuning.session import BUDGET, check_budget, check_tune
from loopfuse.watch import current_run, is_watched

if TYPE_CHECKING:
    from loopfuse.base.static_array import MYPY
    from loopfuse.base.static_types import Out
    from loopfuse.explain.dependences import DependencesDict
    from loopfuse.explain.explanation import Explanation
    from loopfuse.kernels.verify import Verification

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
EMPTY = inspect.Parameter.empty
NUMBERS = (float, int, bool)
QUICK_LIMIT = 64
KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


@contextmanager
def _python_words(kernel: Specialised | None = None) -> Generator[None, None, None]:
    """Messages about the program in Python's spelling, with the arrays of `kernel`, once known."""
    try:
        yield
    except LoopfuseError as error:
        raise _in_python(error, kernel) from None


def _in_python(error: LoopfuseError, kernel: Specialised | None = None) -> LoopfuseError:
    """The error in Python's spelling."""
    shapes, spelled = (kernel.shapes(), kernel.spelled()) if kernel is not None else ({}, {})
    return type(error)(*(in_python(one, shapes, spelled) for one in error.diagnostics))


class Specialised(Kernel):
    """A Python kernel for arguments of given types: everything a Kernel is, read from a function."""

    _door = "python"

    def __init__(
        self,
        function: Callable[..., Any],
        types: Mapping[str, Type],
        scope: Scope,
        equal: tuple[Dimensions, ...] = (),
        like: Specialised | None = None,
        **options: Any,
    ) -> None:
        """`like`: the same under other options, which has read the function."""
        self.function = function
        self.types = dict(types)
        self.scope = scope
        self.equal = equal
        self._modules: list[Any] = [] if like is None else like._modules
        self._readings: dict[str, Any] = {} if like is None else like._readings
        self._told: set[str] = set() if like is None else like._told
        self._given_options = options
        described, source = self._describe(options.get("fp", "fast"))
        self.results = read_results(described["results"])
        self.returns_tuple: bool = described["returns_tuple"]
        self._typed: list[list[str]] = described["typed"]
        super().__init__(source, described["kernel"], **options)
        self.__doc__ = function.__doc__
        self.allocated = tuple(p.name for p in self.signature.parameters if p.name not in self.types)
        self.returns_what_it_allocates = not self.returns_tuple or len(self.allocated) > 1
        plain = tuple(Result(name) for name in self.allocated)
        self.returns_what_it_allocates &= (self.results or ()) == plain

    def hand_back(self, result: Any, omitted: tuple[str, ...], given: Mapping[str, Any]) -> Any:
        """What the function would return, from what the kernel did: the arrays `omitted` from the
        call, of those `given`. Numbers are read back from where they were computed, which waits for
        a GPU."""
        made = dict(zip(omitted, result if len(omitted) > 1 else (result,)))
        if self.results is None:
            left_out = tuple(made[name] for name in omitted if name in self.types)
            return left_out if len(left_out) > 1 else left_out[0] if left_out else None
        return hand_back(self.results, self.returns_tuple, self.signature, made, given)

    @property
    def identity(self) -> str:
        """The function's text with its helpers and constants, the types, and extents that are one
        size."""
        return f"{self.scope.text}\n{sorted(self.types.items(), key=str)!r}{self.equal or ''}"

    def _module(self) -> Any:
        if not self._modules:
            from loopfuse.frontend.python.door import read_function

            self._modules.append(read_function(self.function, to_arguments(self.types), self.equal))
        return self._modules[0]

    def _describe(self, fp: str) -> tuple[dict[str, Any], Source]:
        """What a caller must know of the kernel, from the disk cache where it was read before."""
        key = cache.key_of("python", self.identity, fp)
        hit = None if is_watched() else cache.get(key)
        if hit is not None:
            # Its lines are needed only for messages: the file is read then.
            stored = hit[0]
            return stored, Source(stored["file"], "".join(function_text.text_of(self.function).lines))
        from loopfuse.kernels.signatures import describe_kernel

        with _python_words():
            reading = self._module()
            program = self._read(fp)
        described: dict[str, Any] = {
            "kernel": describe_kernel(program.kernels[0]),
            "results": describe_results(reading.results, program.kernels[0]),
            "returns_tuple": reading.returns_tuple,
            "typed": [list(one) for one in reading.typed],
            "file": reading.module.source.name,
        }
        cache.put(key, described)
        return described, reading.module.source

    def _read(self, fp: str) -> Any:
        """The program, read once for all kernels of these types; each warning is told once."""
        from loopfuse import pipeline

        if fp not in self._readings or is_watched():
            module = self._module().module
            self._readings[fp] = pipeline.read_program(
                module.source, fp, None, current_run(), door=lambda _: module, words=in_python,
                told=self._told,
            )
        return self._readings[fp]

    def program(self, constants: Mapping[str, int] | None = None) -> Any:
        """The checked program."""
        with _python_words(), self._lock:
            if () not in self._programs:
                self._programs[()] = self._read(self._fp)
            return self._programs[()]

    def shapes(self) -> dict[str, tuple[str, ...]]:
        """The extents of the arrays that the function is given."""
        return {
            p.name: p.extents
            for p in self.signature.parameters
            if p.extents is not None and p.name in self.types
        }

    def spelled(self) -> dict[str, str]:
        """What a programmer writes for sizes that have no name in the function: `len(x)` for `x_0`."""
        annotated = (str(one) for one in self.types.values())
        words = {word for text in (self.scope.text, *annotated) for word in re.findall(r"\w+", text)}
        return unnamed_sizes(self.shapes(), words)

    def _compile(self, *args: Any, **kwargs: Any) -> Artifact:
        with _python_words(self):
            return super()._compile(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        kernel = PythonKernel(self.function, **self._given_options)
        return _specialise_again, (kernel, self.types, self.equal)

    def as_torch_op(self, name: str, run: Callable[..., Any] | None = None) -> Any:
        """The operator of these types: arrays that the function creates come back in the order in
        which it returns them; a parameter that it returns is an argument written in place. `run`
        runs a call, of this kernel or one for its shapes."""
        from loopfuse.distribution.torch_op import register

        made = {p.name: p for p in self.signature.parameters if p.mode == "out"}
        results = tuple(r for r in self.results or () if {r.array, *r.others} & {*made})
        if any(one.number or not {one.array, *one.others} <= {*made} for one in results):
            raise UserError(no_operator(self.name, results, self.signature))
        returned = {name for one in results for name in (one.array, *one.others)}
        left_out = (Result(n) for n in made if n in self.types and n not in returned)
        order = (*dict.fromkeys(results), *left_out)
        taken = tuple(p for p in self.signature.parameters if p.mode != "out")

        def call(**given: Any) -> Any:
            result = (run or self)(**given)
            arrays = dict(zip(made, result if len(made) > 1 else (result,)))
            known = known_values(self.signature, given)
            return tuple(arrays[one.place(known)] for one in order)

        ordered = (*taken, *(made[one.array] for one in order))
        return register(call, replace(self.signature, parameters=ordered), name)

    def with_options(self, **changes: Any) -> Specialised:
        """The same kernel under other options; None keeps this one's."""
        given = {name: value for name, value in changes.items() if value is not None}
        options = {**self._given_options, **given}
        return Specialised(self.function, self.types, self.scope, self.equal, self, **options)

    @property
    def from_python(self) -> Specialised:
        """This kernel."""
        return self

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """As for .lf kernels; what the shapes of the first call are taken to show is among what
        the kernel needs."""
        found = super().explain(*args, **kwargs)
        spelled = self.spelled()
        decisions = tuple(
            replace(
                one,
                reason=spell(one.reason, spelled),
                remedy=spell(remedy_in_python(one.remedy), spelled) if one.remedy else one.remedy,
            )
            for one in found.report.decisions
        )
        typed = tuple(
            f"`{name}` is {dtype}: it starts as a Python number, and is updated with {dtype} values"
            for name, dtype in self._typed
        )
        found = type(found)(replace(found.report, decisions=decisions, typed=typed, spelled=tuple(spelled.items())))
        if not self.equal:
            return found
        said = f"{self._equal_shapes(spelled)} as at the first call (for others another kernel is compiled)"
        needs = (*found.report.preconditions, said)
        return type(found)(replace(found.report, preconditions=needs))

    def _equal_shapes(self, spelled: Mapping[str, str]) -> str:
        """The extents that are one size: by the names that the function gives them, if it does."""
        extents = {p.name: p.extents or () for p in self.signature.parameters if p.is_array}
        names = dict.fromkeys(name for group in self.equal for name, _ in group)
        if not any(size in spelled for name in names for size in extents[name]):
            return "shapes " + ", ".join(f"{name}[{', '.join(extents[name])}]" for name in names)
        return ", ".join(
            " == ".join(extent_text(name, axis, len(extents[name])) for name, axis in group)
            for group in self.equal
        )


def _specialise_again(
    kernel: PythonKernel, types: Mapping[str, Type], equal: tuple[Dimensions, ...] = ()
) -> Specialised:
    """What a pickled `Specialised` becomes."""
    return kernel.for_types(types, equal)


def _quick_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Tells calls apart by the types of their arguments, without looking at them closely; None
    where that says too little."""
    key: list[Any] = []
    for value in args:
        kind = type(value)
        if kind in NUMBERS:
            key.append(kind)
        else:
            try:
                key.append((kind, value.dtype, value.ndim))
            except Exception:  # no array, or one that another library cannot describe
                return None
    return tuple(key)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A call's arguments by parameter (without those left out), and sizes given by name."""

    given: dict[str, Any]
    others: dict[str, Any]


class PythonKernel(Generic[P, R]):
    """A Python function that is compiled for the types it is called with. Call it as the function
    itself; `.reference` is the function."""

    __loopfuse_kernel__ = True

    def __init__(
        self,
        function: Callable[P, R],
        *,
        target: str | None = None,
        fp: Fp = "fast",
        reassociate: bool = True,
        check: Check = "lazy",
        tune: bool = False,
        tune_budget: float = BUDGET,
        fuel: int | None = None,
    ) -> None:
        from loopfuse.kernels.words import plain_function

        plain = plain_function(function)
        functools.update_wrapper(self, plain, updated=())
        self.function = plain
        function_text.keep(plain)
        self._options: dict[str, Any] = {
            "target": target, "fp": parse_fp(fp), "fuel": fuel,
            "reassociate": parse_flag("reassociate", reassociate),
            "check": parse_check(check), "tune": check_tune(tune),
            "tune_budget": check_budget(tune_budget),
        }  # fmt: skip
        self._parameters = call_parameters(plain)
        self._names = tuple(self._parameters)
        kinds = inspect.signature(plain).parameters
        self._positional = tuple(n for n in self._names if kinds[n].kind is not KEYWORD_ONLY)
        self._annotated: dict[str, Type] | None = None
        self._scope: Scope | None = None
        self._kernels: dict[object, list[Specialised]] = {}
        self._latest: Specialised | None = None
        self._quick: dict[tuple[int, tuple[Any, ...]], Specialised] = {}
        self._last: tuple[Scope | None, Specialised] | None = None
        """What ran the last call that gave all arguments by position."""
        self._lock = forks.Lock()

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def reference(self) -> Callable[P, R]:
        """The plain function, which CPython runs: the same results, slowly."""
        return self.function

    def __repr__(self) -> str:
        return f"<loopfuse kernel {self.name}({', '.join(self._names)}) in Python>"

    @property
    def options(self) -> dict[str, Any]:
        """What the decorator was given, with defaults."""
        return dict(self._options)

    def __reduce__(self) -> tuple[Any, ...]:
        from loopfuse.kernels.sent import reduce_kernel

        return reduce_kernel(PythonKernel, self.function, self._options)

    def __copy__(self) -> PythonKernel[P, R]:
        return self  # nothing of it changes but what it remembers

    def __deepcopy__(self, memo: dict[int, Any]) -> PythonKernel[P, R]:
        return self

    def __get__(self, instance: object, owner: type | None = None) -> PythonKernel[P, R]:
        return self  # a kernel in a class is a static one: it has no `self`

    # ---- specialising

    def specialise(self, *args: Any, **kwargs: Any) -> Specialised:
        """The kernel for arguments like these: arrays and numbers, or types such as
        `loopfuse.f32["H", "W"]`. With nothing: by the annotations, or the latest call's types."""
        return self._specialised(self._bind(args, kwargs).given)

    def _types(self, given: Mapping[str, Any]) -> dict[str, Type]:
        if self._annotated is None:
            if VARIADIC & {p.kind for p in inspect.signature(self.function).parameters.values()}:
                from loopfuse.frontend.python.door import read_function

                read_function(self.function, ())  # says which, and where
            self._annotated = annotated_types(self.function)
        types: dict[str, Type] = {}
        for name in self._names:
            if name in self._annotated:
                types[name] = self._annotated[name]
            elif name in given:
                types[name] = type_of_value(
                    self.name, name, given[name], lambda one=name: self._writes(one)
                )
            else:
                raise self._missing(name)
        return types

    def _writes(self, name: str) -> bool:
        from loopfuse.frontend.python.written import may_write

        return may_write(self.function, name)

    def _missing(self, name: str) -> UserError:
        return UserError(
            Diagnostic(
                "python-types-unknown",
                f"the type of `{name}` of `{self.name}` is not known yet",
                fix=f"call it with arrays first, pass `{name}`, or annotate it: "
                f'`{name}: loopfuse.f32["N"]`',
            )
        )

    def _incomplete(self, bound: _Bound, error: UserError) -> UserError:
        """What is wrong with a call whose types are not known: not the types."""
        if error.diagnostics[0].code != "python-types-unknown":
            return error
        if bound.others:
            what = f"`{self.name}` has no parameter `{next(iter(bound.others))}`"
            return UserError(
                Diagnostic("unknown-argument", what, fix=f"its parameters are {', '.join(self._names)}")
            )
        known = self._annotated or {}
        absent = next(name for name in self._names if name not in bound.given and name not in known)
        what = f"`{self.name}` needs `{absent}`, which was not given"
        return UserError(
            Diagnostic("missing-argument", what, fix=f"pass it in order or as `{absent}=...`")
        )

    def _specialised(self, given: Mapping[str, Any]) -> Specialised:
        scope = self._scope
        if scope is None or not scope.holds():
            self._scope = scope = capture(self.function)
        if not given and self._latest is not None and self._latest.scope is scope:
            return self._latest
        if not given and self._latest is not None:
            types = self._latest.types
        else:
            types = self._types(given)
        return self._of_types(scope, types, shapes_of(types, given))

    def for_types(
        self, types: Mapping[str, Type], equal: tuple[Dimensions, ...] = ()
    ) -> Specialised:
        """The kernel for parameters of these types; `equal`: extents that are one size."""
        scope = self._scope
        if scope is None or not scope.holds():
            self._scope = scope = capture(self.function)
        return self._of_types(scope, types, {}, equal)

    def _of_types(
        self,
        scope: Scope,
        types: Mapping[str, Type],
        shapes: Mapping[str, tuple[int, ...]],
        equal: tuple[Dimensions, ...] | None = None,
    ) -> Specialised:
        """The kernel of these types for arrays of `shapes`: extents that are equal at the first
        call are one size, and where a later call's differ, another kernel has those as one that
        were equal at both. Without shapes: the one of the first call, or for `equal` extents."""
        key = (scope.text, *types.values())
        found = self._fitting(key, shapes, equal)
        if found is None:
            with self._lock:
                found = self._fitting(key, shapes, equal)
                if found is None:
                    known = self._kernels.setdefault(key, [])
                    if equal is None:
                        equal = equal_extents(shapes)
                        if known and shapes:
                            equal = in_both(known[-1].equal, equal)
                    found = Specialised(self.function, types, scope, equal, **self._options)
                    known.append(found)
        self._latest = found
        return found

    def _fitting(
        self,
        key: object,
        shapes: Mapping[str, tuple[int, ...]],
        equal: tuple[Dimensions, ...] | None,
    ) -> Specialised | None:
        for known in self._kernels.get(key, ()):
            if known.equal == equal if equal is not None else holds(known.equal, shapes):
                return known
        return None

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Bound:
        named = self._names[len(self._positional) :]
        if named and len(self._positional) < len(args) <= len(self._names):
            raise UserError(
                Diagnostic(
                    "too-many-arguments",
                    f"`{self.name}` takes {len(self._positional)} "
                    f"argument{'s' * (len(self._positional) != 1)} by position, but got {len(args)}",
                    fix="pass by name what follows `*`: " + ", ".join(f"`{name}=...`" for name in named),
                )
            )
        if len(args) > len(self._names):
            raise UserError(
                Diagnostic(
                    "too-many-arguments",
                    f"`{self.name}` takes {len(self._names)} arguments, but got "
                    f"{len(args) + len(kwargs)}",
                    fix="its parameters are " + ", ".join(self._names),
                )
            )
        given = dict(zip(self._names, args))
        others: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in given:
                raise UserError(
                    Diagnostic(
                        "doubled-argument",
                        f"`{self.name}` got `{name}` both by position and by name",
                        fix="give it once",
                    )
                )
            (given if name in self._parameters else others)[name] = value
        if given:
            for name, default in self._parameters.items():
                if name not in given and default is not EMPTY:
                    given[name] = default
        return _Bound(given, others)

    # ---- running

    if TYPE_CHECKING:
        # An Out array may be left out, and is then returned. (For mypy its plugin says so.)
        if MYPY:

            def __call__(  # pyright: ignore[reportRedeclaration]
                self, *args: P.args, **kwargs: P.kwargs
            ) -> R: ...

        else:

            @overload
            def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

            @overload
            def __call__(
                self: PythonKernel[Concatenate[Out, Q], Any], /, *args: Q.args, **kwargs: Q.kwargs
            ) -> Any: ...

            @overload
            def __call__(
                self: PythonKernel[Concatenate[A, Out, Q], Any], a: A, /, *args: Q.args, **kwargs: Q.kwargs
            ) -> Any: ...

            @overload
            def __call__(
                self: PythonKernel[Concatenate[A, B, Out, Q], Any], a: A, b: B, /,
                *args: Q.args, **kwargs: Q.kwargs,
            ) -> Any: ...  # fmt: skip

            def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the arguments, as the function would; arrays that it creates and returns are of
        the arguments' library. One UserError for whatever is wrong, before anything runs."""
        complete = not kwargs and len(args) == len(self._names) == len(self._positional)
        if complete and self._last is not None:
            scope, kernel = self._last  # its call paths look at every argument
            if scope is self._scope and scope is not None and scope.holds():
                result = kernel.again(args, kwargs)
                if result is not MISS:
                    if kernel.returns_what_it_allocates:
                        return result
                    return kernel.hand_back(result, kernel.allocated, dict(zip(self._names, args)))
        key = _quick_key(args) if complete else None
        if key is not None and self._scope is not None and self._scope.holds():
            quick = self._quick.get((id(self._scope), key))
            if quick is not None:
                try:
                    result = quick(*args)
                    self._last = self._scope, quick
                    if quick.returns_what_it_allocates:
                        return result
                    return quick.hand_back(result, quick.allocated, dict(zip(self._names, args)))
                except UserError as error:
                    # Nothing has run. Other shapes than it is for are not wrong.
                    if not quick.equal or error.diagnostics[0].code != "size-mismatch":
                        raise _in_python(error, quick) from None
        bound = self._bind(args, kwargs)
        given = bound.given
        try:
            kernel = self._specialised(given)
        except UserError as error:
            raise self._incomplete(bound, error) from None
        if key is not None:
            if len(self._quick) > QUICK_LIMIT:
                self._quick.clear()
            self._quick[(id(self._scope), key)] = kernel
        try:
            result, omitted = self._run(kernel, bound)
        except UserError as error:
            raise _in_python(error, kernel) from None
        return kernel.hand_back(result, omitted, {**given, **bound.others})

    def _run(self, kernel: Specialised, bound: _Bound) -> tuple[Any, tuple[str, ...]]:
        """What the kernel returns, and the arrays that it made for that."""
        given = bound.given
        if len(given) == len(self._names) and not bound.others:
            result = kernel(*[given[name] for name in self._names])
            omitted = kernel.allocated
        else:
            result = kernel(**given, **bound.others)
            left_out = tuple(
                p.name for p in kernel.signature.parameters
                if p.mode == "out" and p.name in self._parameters and p.name not in given
            )  # fmt: skip
            omitted = (*left_out, *kernel.allocated)
        return result, omitted

    if not TYPE_CHECKING:
        __call__ = _call

    # ---- asking

    def _for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Specialised, _Bound]:
        bound = self._bind(args, {n: v for n, v in kwargs.items() if n in self._names})
        integers = {
            n: v for n, v in bound.given.items() if type(v) is int and self._knows_number(n)
        }
        if set(integers) == set(bound.given):
            bound = _Bound({}, integers)  # only sizes and integers to plan for
        others = {n: v for n, v in kwargs.items() if n not in self._names}
        kernel = self._specialised(bound.given)
        if kernel.equal and not set(others) <= {*kernel.signature.sizes, "emit"}:
            kernel = self.for_types(kernel.types)  # sizes by names that only the general one has
        return kernel, _Bound(bound.given, {**bound.others, **others})

    def _knows_number(self, name: str) -> bool:
        if self._annotated is None:
            self._annotated = annotated_types(self.function)
        known = self._annotated.get(name) or (self._latest and self._latest.types.get(name))
        return bool(known) and known[0] == "number"

    def explain(self, *args: Any, target: str | None = None, **kwargs: Any) -> Explanation:
        """What was fused and what was not, and why: for a call's arguments, for sizes by name
        (`explain(H=4096, W=4096)`), or with nothing as formulas."""
        kernel, bound = self._for(args, kwargs)
        arrays = {n: v for n, v in bound.given.items() if hasattr(v, "shape")}
        with _python_words(kernel):
            if arrays:
                return kernel.explain(target=target, **bound.given, **bound.others)
            return kernel.explain(target=target, **bound.others)

    def dependences(
        self, *args: Any, sizes: Mapping[str, int] | None = None, instances: bool = False, **kwargs: Any
    ) -> DependencesDict:
        """Every dependence, as the `deps` JSON: for a call's arguments, at its sizes; else for the
        annotated types or the latest call's, at `sizes` (a mapping, or by name) or for all of them.
        `instances` (needs sizes) lists the pairs."""
        if len(args) == 1 and isinstance(args[0], Mapping) and sizes is None:
            args, sizes = (), args[0]
        with _python_words():
            kernel, bound = self._for(args, kwargs)
        with _python_words(kernel):
            known = {**(sizes or {}), **{n: v for n, v in bound.others.items() if type(v) is int}}
            if any(hasattr(value, "shape") for value in bound.given.values()):
                matched = arrays.match(kernel.signature, (), {**bound.given, **bound.others})
                known |= {n: v for n, v in matched.values.items() if type(v) is int}
            return kernel.dependences(known or None, instances=instances)

    def compile(self, target: str | None = None, **types: Any) -> Artifact:
        """Compile without running. Keywords give types (`x=loopfuse.f32["N"]`), arrays, or sizes
        to plan for; `emit` and `index_bits` as for .lf kernels."""
        rest = {n: types.pop(n) for n in ("emit", "index_bits") if n in types}
        kernel, bound = self._for((), types)
        return kernel.compile(target, **rest, **bound.others)

    def tune(self, *args: Any, **kwargs: Any) -> Tuned:
        """Search for the fastest choices for calls like this one, on copies of its arrays, and
        remember them: see `loopfuse.Kernel.tune`."""
        bound = self._bind(args, kwargs)
        with _python_words():
            kernel = self._specialised(bound.given)
        with _python_words(kernel):
            return kernel.tune(**bound.given, **bound.others)

    def as_torch_op(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """This kernel, for the annotated types, for arguments like these, or for the latest call's
        types, as the PyTorch operator `name` (`"namespace::name"`): opaque to torch.compile, with
        shapes known to it. Arrays that the function creates are returned, those that it writes are
        written in place. Needs PyTorch; UserError where the types are not known."""
        from loopfuse.distribution.torch_op import free_sizes

        found, _ = self._for(args, kwargs)
        # An operator is for types: the extents that were equal in a sample are sizes of their own.
        general = self.for_types(found.types) if found.equal else found

        def run(**given: Any) -> Any:
            shapes = shapes_of(general.types, given)
            return self._of_types(general.scope, general.types, shapes)(**given)

        return general.as_torch_op(name, None if free_sizes(general.signature) else run)

    def verify(self, *args: Any, **kwargs: Any) -> Verification:
        """Check the schedule and compare fused, unfused, interpreted and CPython on random data of many
        sizes; those given by name (`verify(N=100)`) as they are."""
        kernel, bound = self._for(args, kwargs)
        with _python_words(kernel):
            return kernel.verify(**bound.others)

    def with_options(
        self,
        *,
        target: str | None = None,
        fp: Fp | None = None,
        reassociate: bool | None = None,
        check: Check | None = None,
        tune: bool | None = None,
        tune_budget: float | None = None,
        fuel: int | None = None,
    ) -> PythonKernel[P, R]:
        """The same function under other options; None keeps this one's."""
        changes: dict[str, Any] = {
            "target": target, "fp": fp, "reassociate": reassociate, "check": check, "tune": tune,
            "tune_budget": tune_budget, "fuel": fuel,
        }  # fmt: skip
        given = {name: value for name, value in changes.items() if value is not None}
        return PythonKernel(self.function, **{**self._options, **given})


@overload
def kernel(
    fn: Callable[P, R],
    /,
    *,
    target: str | None = None,
    fp: Fp = "fast",
    reassociate: bool = True,
    check: Check = "lazy",
    tune: bool = False,
    tune_budget: float = BUDGET,
) -> PythonKernel[P, R]: ...


@overload
def kernel(
    fn: None = None,
    /,
    *,
    target: str | None = None,
    fp: Fp = "fast",
    reassociate: bool = True,
    check: Check = "lazy",
    tune: bool = False,
    tune_budget: float = BUDGET,
) -> Callable[[Callable[P, R]], PythonKernel[P, R]]: ...


def kernel(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    target: str | None = None,
    fp: Fp = "fast",
    reassociate: bool = True,
    check: Check = "lazy",
    tune: bool = False,
    tune_budget: float = BUDGET,
) -> Any:
    """Compile a function of loops over arrays: `@loopfuse.kernel`, `@loopfuse.kernel(fp="strict")`
    or `loopfuse.kernel(function, target="cpu")`.

    `target` is `cpu`, `sm_90`, ... (where the arrays are, if not given); `fp="strict"` forms no
    FMAs, `fp="native"` divides and calls math functions of f32 by a GPU's approximations; `reassociate=False` keeps the order of reductions. `check` says how subscripts that
    depend on data are checked (`lazy`, `sync`, `off`). `tune=True`: the first call with arrays of
    new sizes searches for what is fastest on them, for about `tune_budget` seconds, and what it
    finds is remembered on disk. UserError if `fn` is no function that can be
    read; what is wrong inside is told at the first call, or by `compile`.
    """
    make = functools.partial(
        PythonKernel, target=target, fp=fp, reassociate=reassociate, check=check, tune=tune,
        tune_budget=tune_budget,
    )  # fmt: skip
    return make if fn is None else make(fn)
