"""`@loopfuse.kernel`: a Python function over arrays as a kernel.

The function is read when the types of its arguments are known: from annotations, or at the first
call with arrays of these dtypes and ranks. Each combination of types, and of values of the
constants around it, is a kernel of its own, compiled and cached as those of .lf files are. The
function itself stays callable: `.reference`.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, overload

from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import Diagnostic, LoopfuseError, Source, UserError
from loopfuse.base.options import parse_check
from loopfuse.kernels import Kernel
from loopfuse.pykernel_scope import Scope, capture
from loopfuse.pykernel_types import (
    Type,
    annotated_types,
    call_parameters,
    to_arguments,
    type_of_value,
)
from loopfuse.pykernel_words import in_python
from loopfuse.runtime import cache
from loopfuse.tuning.session import BUDGET, check_budget, check_tune
from loopfuse.watch import current_run, is_watched

EMPTY = inspect.Parameter.empty
NUMBERS = (float, int, bool)
QUICK_LIMIT = 64
VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


@contextmanager
def _python_words() -> Generator[None, None, None]:
    """Messages about the program in Python's spelling."""
    try:
        yield
    except LoopfuseError as error:
        raise type(error)(*(in_python(one) for one in error.diagnostics)) from None


class Specialised(Kernel):
    """A Python kernel for arguments of given types: everything a Kernel is, read from a function."""

    def __init__(
        self,
        function: Callable[..., Any],
        types: Mapping[str, Type],
        scope: Scope,
        **options: Any,
    ) -> None:
        self.function = function
        self.types = dict(types)
        self.scope = scope
        self._modules: list[Any] = []
        self._given_options = options
        described, source = self._describe(options.get("fp", "fast"))
        self.results: tuple[str, ...] | None = (
            tuple(described["results"]) if described["results"] is not None else None
        )
        self.returns_tuple: bool = described["returns_tuple"]
        super().__init__(source, described["kernel"], **options)
        self.allocated = tuple(p.name for p in self.signature.parameters if p.name not in self.types)
        self.returns_what_it_allocates = not self.returns_tuple or len(self.allocated) > 1
        self.returns_what_it_allocates &= (self.results or ()) == self.allocated

    @property
    def identity(self) -> str:
        """The function's text with its helpers and constants, and the types."""
        return f"{self.scope.text}\n{sorted(self.types.items(), key=str)!r}"

    def _module(self) -> Any:
        if not self._modules:
            from loopfuse.frontend.pyfunc import read_function

            self._modules.append(read_function(self.function, to_arguments(self.types)))
        return self._modules[0]

    def _describe(self, fp: str) -> tuple[dict[str, Any], Source]:
        """What a caller must know of the kernel, from the disk cache where it was read before."""
        key = cache.key_of("python", self.identity, fp)
        hit = None if is_watched() else cache.get(key)
        if hit is not None:
            # Its lines are needed only for messages: the file is read then.
            stored = hit[0]
            return stored, Source(stored["file"], "".join(_lines(self.function)))
        from loopfuse.signatures import describe_kernel

        with _python_words():
            reading = self._module()
            program = self._read(fp, None)
        described: dict[str, Any] = {
            "kernel": describe_kernel(program.kernels[0]),
            "results": list(reading.results) if reading.results is not None else None,
            "returns_tuple": reading.returns_tuple,
            "file": reading.module.source.name,
        }
        cache.put(key, described)
        return described, reading.module.source

    def _read(self, fp: str, constants: Mapping[str, int] | None) -> Any:
        from loopfuse import pipeline

        module = self._module().module
        return pipeline.read_program(
            module.source, fp, constants, current_run(), door=lambda _: module
        )

    def program(self, constants: Mapping[str, int] | None = None) -> Any:
        """The checked program."""
        with _python_words(), self._lock:
            if () not in self._programs:
                self._programs[()] = self._read(self._fp, None)
            return self._programs[()]

    def _compile(self, *args: Any, **kwargs: Any) -> Artifact:
        with _python_words():
            return super()._compile(*args, **kwargs)

    def with_options(self, **changes: Any) -> Specialised:
        """The same kernel under other options; None keeps this one's."""
        given = {name: value for name, value in changes.items() if value is not None}
        return Specialised(self.function, self.types, self.scope, **{**self._given_options, **given})


def _lines(function: Callable[..., Any]) -> list[str]:
    import linecache

    return linecache.getlines(inspect.getsourcefile(function) or "")


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
            except AttributeError:
                return None
    return tuple(key)


@dataclass(frozen=True, slots=True)
class _Bound:
    """A call's arguments by parameter (without those left out), and sizes given by name."""

    given: dict[str, Any]
    others: dict[str, Any]


class PythonKernel:
    """A Python function that is compiled for the types it is called with. Call it as the function
    itself; `.reference` is the function."""

    __loopfuse_kernel__ = True

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        target: str | None = None,
        fp: str = "fast",
        reassociate: bool = True,
        check: str = "lazy",
        tune: bool = False,
        tune_budget: float = BUDGET,
        fuel: int | None = None,
    ) -> None:
        from loopfuse.pykernel_words import check_options

        plain = check_options(function, fp)
        functools.update_wrapper(self, plain, updated=())
        self.function = plain
        self._options: dict[str, Any] = {
            "target": target, "fp": fp, "reassociate": reassociate, "fuel": fuel,
            "check": parse_check(check), "tune": check_tune(tune),
            "tune_budget": check_budget(tune_budget),
        }  # fmt: skip
        self._parameters = call_parameters(plain)
        self._names = tuple(self._parameters)
        self._annotated: dict[str, Type] | None = None
        self._scope: Scope | None = None
        self._kernels: dict[object, Specialised] = {}
        self._latest: Specialised | None = None
        self._quick: dict[tuple[int, tuple[Any, ...]], Specialised] = {}
        self._lock = threading.RLock()

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def reference(self) -> Callable[..., Any]:
        """The plain function, which CPython runs: the same results, slowly."""
        return self.function

    def __repr__(self) -> str:
        return f"<loopfuse kernel {self.name}({', '.join(self._names)}) in Python>"

    def __get__(self, instance: object, owner: type | None = None) -> PythonKernel:
        return self  # a kernel in a class is a static one: it has no `self`

    # ---- specialising

    def specialise(self, *args: Any, **kwargs: Any) -> Specialised:
        """The kernel for arguments like these: arrays and numbers, or types such as
        `loopfuse.f32["H", "W"]`. With nothing: by the annotations, or the latest call's types."""
        return self._specialised(self._bind(args, kwargs).given)

    def _types(self, given: Mapping[str, Any]) -> dict[str, Type]:
        if self._annotated is None:
            if VARIADIC & {p.kind for p in inspect.signature(self.function).parameters.values()}:
                from loopfuse.frontend.pyfunc import read_function

                read_function(self.function, ())  # says which, and where
            self._annotated = annotated_types(self.function)
        types: dict[str, Type] = {}
        for name in self._names:
            if name in self._annotated:
                types[name] = self._annotated[name]
            elif name in given:
                types[name] = type_of_value(self.name, name, given[name])
            else:
                raise self._missing(name)
        return types

    def _missing(self, name: str) -> UserError:
        return UserError(
            Diagnostic(
                "python-types-unknown",
                f"the type of `{name}` of `{self.name}` is not known yet",
                fix=f"call it with arrays first, pass `{name}`, or annotate it: "
                f'`{name}: loopfuse.f32["N"]`',
            )
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
        key = (scope.text, *types.values())
        found = self._kernels.get(key)
        if found is None:
            with self._lock:
                found = self._kernels.get(key)
                if found is None:
                    found = Specialised(self.function, types, scope, **self._options)
                    self._kernels[key] = found
        self._latest = found
        return found

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Bound:
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on the arguments, as the function would; arrays that it creates and returns are of
        the arguments' library. One UserError for whatever is wrong, before anything runs."""
        key = _quick_key(args) if not kwargs and len(args) == len(self._names) else None
        if key is not None and self._scope is not None and self._scope.holds():
            quick = self._quick.get((id(self._scope), key))
            if quick is not None:
                return quick(*args)
        bound = self._bind(args, kwargs)
        kernel = self._specialised(bound.given)
        given = bound.given
        if key is not None and kernel.returns_what_it_allocates:
            if len(self._quick) > QUICK_LIMIT:
                self._quick.clear()
            self._quick[(id(self._scope), key)] = kernel
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
        if kernel.results == omitted and not kernel.returns_tuple:
            return result
        if kernel.results is None:
            return result
        made = dict(zip(omitted, result if len(omitted) > 1 else (result,)))
        values = tuple(made[n] if n in made else given[n] for n in kernel.results)
        return values if kernel.returns_tuple else values[0]

    # ---- asking

    def _for(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Specialised, _Bound]:
        bound = self._bind(args, {n: v for n, v in kwargs.items() if n in self._names})
        integers = {
            n: v for n, v in bound.given.items() if type(v) is int and self._knows_number(n)
        }
        if set(integers) == set(bound.given):
            bound = _Bound({}, integers)  # only sizes and integers to plan for
        others = {n: v for n, v in kwargs.items() if n not in self._names}
        return self._specialised(bound.given), _Bound(bound.given, {**bound.others, **others})

    def _knows_number(self, name: str) -> bool:
        if self._annotated is None:
            self._annotated = annotated_types(self.function)
        known = self._annotated.get(name) or (self._latest and self._latest.types.get(name))
        return bool(known) and known[0] == "number"

    def explain(self, *args: Any, target: str | None = None, **kwargs: Any) -> Any:
        """What was fused and what was not, and why: for a call's arguments, for sizes by name
        (`explain(H=4096, W=4096)`), or with nothing as formulas."""
        kernel, bound = self._for(args, kwargs)
        arrays = {n: v for n, v in bound.given.items() if hasattr(v, "shape")}
        with _python_words():
            if arrays:
                return kernel.explain(target=target, **bound.given, **bound.others)
            return kernel.explain(target=target, **bound.others)

    def dependences(
        self, sizes: Mapping[str, int] | None = None, *, instances: bool = False
    ) -> dict[str, Any]:
        """Every dependence, as the `deps` JSON, for the annotated types or the latest call's."""
        with _python_words():
            return self._specialised({}).dependences(sizes, instances=instances)

    def compile(self, target: str | None = None, **types: Any) -> Artifact:
        """Compile without running. Keywords give types (`x=loopfuse.f32["N"]`), arrays, or sizes
        to plan for; `emit` and `index_bits` as for .lf kernels."""
        rest = {n: types.pop(n) for n in ("emit", "index_bits") if n in types}
        kernel, bound = self._for((), types)
        return kernel.compile(target, **rest, **bound.others)

    def tune(self, *args: Any, **kwargs: Any) -> Any:
        """Search for the fastest choices for calls like this one, on copies of its arrays, and
        remember them: see `loopfuse.Kernel.tune`."""
        bound = self._bind(args, kwargs)
        with _python_words():
            return self._specialised(bound.given).tune(**bound.given, **bound.others)

    def verify(self, *args: Any, **kwargs: Any) -> Any:
        """Check the schedule and compare fused, unfused and interpreted on random data."""
        kernel, _ = self._for(args, kwargs)
        with _python_words():
            return kernel.verify()

    def with_options(self, **changes: Any) -> PythonKernel:
        """The same function under other options; None keeps this one's."""
        given = {name: value for name, value in changes.items() if value is not None}
        return PythonKernel(self.function, **{**self._options, **given})


@overload
def kernel(fn: Callable[..., Any], /) -> PythonKernel: ...


@overload
def kernel(
    *,
    target: str | None = None,
    fp: str = "fast",
    reassociate: bool = True,
    check: str = "lazy",
    tune: bool = False,
    tune_budget: float = BUDGET,
) -> Callable[[Callable[..., Any]], PythonKernel]: ...


def kernel(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Compile a function of loops over arrays: `@loopfuse.kernel`, `@loopfuse.kernel(fp="strict")`
    or `loopfuse.kernel(function, target="cpu")`.

    `target` is `cpu`, `sm_90`, ... (where the arrays are, if not given); `fp="strict"` forms no
    FMAs; `reassociate=False` keeps the order of reductions. `check` says how subscripts that
    depend on data are checked (`lazy`, `sync`, `off`). `tune=True`: the first call with arrays of
    new sizes searches for what is fastest on them, for about `tune_budget` seconds, and what it
    finds is remembered on disk. UserError if `fn` is no function that can be
    read; what is wrong inside is told at the first call, or by `compile`.
    """
    if fn is None:
        return functools.partial(PythonKernel, **options)
    return PythonKernel(fn, **options)
