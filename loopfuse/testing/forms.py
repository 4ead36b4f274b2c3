"""The ways to run one kernel, each from arguments to what the arrays then hold, and their
comparison, bit by bit. All run on the CPU: the GPU's plan through the LoopTree interpreter.

Arguments are never changed; every way works on copies, in which an array that was passed twice
is still one.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from loopfuse.base import forks
from loopfuse.base.diagnostics import UserError
from loopfuse.explain.text import WIDTH
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.reference import math_functions
from loopfuse.kernels.trial import run_kernel
from loopfuse.lang.nodes import Const
from loopfuse.runtime.arrays import arrays
from loopfuse.testing.subject import Subject, refuse
from loopfuse.tree.looptree import Launch, Loop, TreeNode

REORDERED = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-4, "float64": 1e-11}
"""How far, relative and absolute, a result may move when a reduction changes its order (the first
two: a unit or two in the last place of the stored type)."""

Arrays = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two forms first differ, and in how many elements; `note` instead where shapes do."""

    array: str
    element: tuple[int, ...]
    values: tuple[str, str]
    count: int
    total: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """One way to run: its name, what runs it, whether it equals the others only to the rounding of
    reordered sums, and whether it takes seconds; another form that it is compared with, where not the first."""

    name: str
    run: Callable[[Arrays], Arrays]
    loosely: bool = False
    slow: bool = False
    meaning: Form | None = None


# ------------------------------------------------------------------------------------- running


def copy_of(values: Mapping[str, Any]) -> Arrays:
    """Copies of the arrays, one for each array however often it is passed."""
    made: dict[int, Any] = {}
    out: Arrays = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value = made.setdefault(id(value), value.copy())
        out[name] = value
    return out


def on_host(value: Any) -> Any:
    """An argument as NumPy: arrays of other libraries are copied to main memory."""
    if isinstance(value, (np.ndarray, np.generic)) or not _has_shape(value):
        return value
    for method in ("get", "cpu"):  # CuPy's and PyTorch's ways
        if callable(move := getattr(value, method, None)):
            value = move()
            break
    try:
        return np.asarray(value)
    except Exception as error:
        raise refuse(
            "not-an-array", f"{type(value).__name__} cannot be copied to NumPy", "pass NumPy arrays"
        ) from error


def _has_shape(value: Any) -> bool:
    try:
        return hasattr(value, "shape")
    except Exception:  # what it raises, the call says
        return False


def complete(kernel: Kernel, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arrays:
    """A call's arguments by name on NumPy, omitted `out` arrays made (zeros). UserError for
    whatever the call itself would answer."""
    matched = arrays.match(kernel.signature, args, kwargs, packs=False)
    binding = arrays.allocate_outputs(matched)
    names = [one.name for one in kernel.signature.parameters]
    found = {**dict(zip(names, args)), **kwargs}
    found |= dict(zip((one.name for one in matched.omitted), binding.outputs))
    return found


def _written(kernel: Kernel, held: Mapping[str, Any]) -> Arrays:
    return {one.name: held[one.name] for one in kernel.signature.parameters if one.mode != "in"}


def is_offender(error: UserError) -> bool:
    """A subscript from data was outside its array: every form drops and zeroes alike."""
    return error.diagnostics[0].code == "subscript-out-of-range"


def _compiled(kernel: Kernel) -> Callable[[Arrays], Arrays]:
    def run(arguments: Arrays) -> Arrays:
        held = copy_of(arguments)
        try:
            run_kernel(kernel, held, on_gpu=False)
        except UserError as error:
            if not is_offender(error):
                raise
        return _written(kernel, held)

    return run


def _interpreted(kernel: Kernel, approximated: bool = False) -> Callable[[Arrays], Arrays]:
    # Not `.reference` of a Python kernel, which is CPython's own arithmetic.
    from loopfuse.kernels.reference import approximate_reference_of, reference_of

    reference = approximate_reference_of(kernel) if approximated else reference_of(kernel)

    def run(arguments: Arrays) -> Arrays:
        held = copy_of(arguments)
        try:
            reference(**held)
        except UserError as error:
            if not is_offender(error):
                raise
        return _written(kernel, held)

    return run


def _planned(subject: Subject, fuel: int | None, reassociate: bool) -> Callable[[Arrays], Arrays]:
    """The plan for the subject's target, interpreted."""
    from loopfuse.tree.interp.run import run_tree

    kernel = subject.kernel
    options = replace(subject.options, fuel=fuel, reassociate=reassociate, sizes=())

    def run(arguments: Arrays) -> Arrays:
        held = copy_of(arguments)
        values = arrays.match(kernel.signature, (), held).values
        constants = tuple(sorted((name, int(values[name])) for name in kernel.constants))
        planned = replace(subject, constants=constants).plan(options)
        integers = {name: v for name, v in values.items() if type(v) is int}
        call = {**held, **values, **{n: a for n, a in held.items() if isinstance(a, np.ndarray)}}
        run_tree(planned.tree, call, integers, math_functions(), offences=[])
        return _written(kernel, call)

    return run


def _gpu_form(name: str, subject: Subject, reassociate: bool) -> Form:
    options = replace(subject.options, reassociate=reassociate)
    slow = _is_wide(subject.plan(options).tree.launches)
    meaning = None
    if options.approximates:
        meaning = Form("interpreted with native approximations", _interpreted(subject.kernel, approximated=True))
    return Form(name, _planned(subject, None, reassociate), reassociate, slow, meaning)


def _is_wide(launches: Sequence[Launch]) -> bool:
    """Some launch has a great many threads whatever the sizes, as two-stage reductions have: the
    LoopTree interpreter then takes seconds."""

    def threads(body: Sequence[TreeNode]) -> int:
        most = 1
        for node in body:
            if isinstance(node, Loop):
                wide = isinstance(node.upper, Const) and node.mapping.is_parallel
                count = int(node.upper.value) if isinstance(node.upper, Const) and wide else 1
                most = max(most, count * threads(node.body))
        return most

    return any(threads(launch.body) > 5000 for launch in launches)


_FORMS: WeakKeyDictionary[Kernel, dict[str, tuple[Form, ...]]] = WeakKeyDictionary()
_LOCK = forks.Lock()


def forms_of(subject: Subject) -> tuple[Form, ...]:
    """Every way to run the kernel; the first, the interpreter, is the program's meaning."""
    with _LOCK:
        known = _FORMS.setdefault(subject.kernel, {})
    if subject.target.name not in known:
        known[subject.target.name] = _make_forms(subject)
    return known[subject.target.name]


def _make_forms(subject: Subject) -> tuple[Form, ...]:
    target = subject.target.name
    strict = subject.kernel.with_options(reassociate=False, target="cpu")
    forms = [
        Form("interpreted", _interpreted(strict)),
        Form("fused, compiled for the CPU", _compiled(strict)),
        Form("unfused, compiled for the CPU", _compiled(strict.with_options(fuel=0))),
    ]
    if subject.target.is_gpu:
        forms.append(_gpu_form(f"fused, the {target} plan interpreted", subject, False))
    if subject.options.reassociate:
        cpu = subject.kernel.with_options(target="cpu")
        if cpu.explain(target="cpu").report.reassociated:
            forms.append(Form("fused and reassociated, compiled for the CPU", _compiled(cpu), True))
        if subject.target.is_gpu and subject.report.reassociated:
            forms.append(_gpu_form(f"reassociated, the {target} plan interpreted", subject, True))
    return tuple(forms)


# ------------------------------------------------------------------------------------ comparing


def find_difference(
    name: str, left: Any, right: Any, rtol: float = 0.0, atol: float = 0.0
) -> Difference | None:
    """The first element where `left` and `right` (wanted) differ: in any bit, where both have one
    type and no tolerance is given (two NaNs are equal), else by more than the tolerance."""
    left, right = np.asarray(left), np.asarray(right)
    if left.shape != right.shape:
        note = f"`{name}` has the shapes {_shape(left)} and {_shape(right)}"
        return Difference(name, (), ("", ""), 0, 0, note)
    exact = rtol == 0 and atol == 0
    if not left.size:
        return None
    if left.dtype == right.dtype and exact:
        same = _same_bits(left, right)
    elif exact and not (_is_float(left) or _is_float(right)):
        same = left == right
    else:
        wide = [one.astype(np.float64) for one in (left, right)]
        with np.errstate(all="ignore"):
            same = np.isclose(wide[0], wide[1], rtol, atol, equal_nan=True)
    wrong = int(same.size - np.count_nonzero(same))
    if not wrong:
        return None
    place = tuple(int(k) for k in np.unravel_index(int(np.argmin(same)), left.shape))
    return Difference(name, place, _value_texts(left[place], right[place]), wrong, left.size)


def _is_float(array: Any) -> bool:
    return array.dtype.kind in "fV"


def _same_bits(left: Any, right: Any) -> Any:
    if not _is_float(left):
        return left == right
    bits = np.dtype(f"u{left.dtype.itemsize}")
    one, other = (np.ascontiguousarray(each) for each in (left, right))
    same = one.view(bits) == other.view(bits)
    return same | (np.isnan(one) & np.isnan(other))


def _shape(array: Any) -> str:
    return f"({', '.join(map(str, array.shape))})"


def _value_texts(left: Any, right: Any) -> tuple[str, str]:
    """Both values, in the fewest digits that tell them from their neighbours."""
    texts = (str(left), str(right))
    if left.dtype != right.dtype:
        return f"{texts[0]} ({left.dtype})", f"{texts[1]} ({right.dtype})"
    return texts


def compare_forms(forms: Sequence[Form], arguments: Arrays) -> str:
    """What the forms disagree on, for these arguments; empty where they agree."""
    meaning = forms[0].run(arguments)
    wrong: list[tuple[Form, list[Difference]]] = []
    for form in forms[1:]:
        found = form.run(arguments)
        differences: list[Difference] = []
        for name, wanted in (meaning if form.meaning is None else form.meaning.run(arguments)).items():
            loose = REORDERED.get(str(np.asarray(wanted).dtype), 0.0) if form.loosely else 0.0
            one = find_difference(name, found[name], wanted, loose, loose)
            if one is not None:
                differences.append(one)
        if differences:
            wrong.append((form, differences))
    if not wrong:
        return ""
    parts = [describe(d, form.name, (form.meaning or forms[0]).name) for form, found in wrong for d in found]
    bad = [form for form, _ in wrong]
    agreeing = [form.name for form in forms if form not in bad]
    if len(agreeing) > 1:
        parts.append(_wrapped("agree: ", "; ".join(agreeing)))
    return "\n".join(parts)


def compare_with_cpython(kernel: Kernel, arguments: Arrays) -> str:
    """What a Python kernel, as it was read, and its function disagree on; empty where they agree, and
    for kernels of other doors."""
    from loopfuse.kernels.cpython import as_allocated, run_plainly, tolerance
    from loopfuse.kernels.python import Specialised

    if not isinstance(kernel, Specialised):
        return ""
    strict = kernel.with_options(fp="strict", reassociate=False, target="cpu")
    program = strict.program().kernels[0]
    meant = {
        name: np.array(value, copy=True) if isinstance(value, np.ndarray) else value
        for name, value in as_allocated(kernel, arguments).items()
    }
    try:
        strict.reference(**meant)
    except UserError as error:
        if not is_offender(error):
            raise
        return ""  # a subscript outside its array: Python's may come from the other end
    expected = run_plainly(kernel, arguments)
    dtypes = {p.name: p.dtype for p in kernel.signature.parameters}
    parts: list[str] = []
    for name, value in (expected or {}).items():
        bound = tolerance(program, dtypes[name])
        one = find_difference(name, meant[name], value, bound, bound)
        if one is not None:
            parts.append(describe(one, "as read (strict)", "CPython"))
    return "\n".join(parts)


def describe(difference: Difference, left: str, right: str) -> str:
    """The difference as lines of a message: how many, where first, both values."""
    if difference.note:
        return _wrapped("", difference.note)
    place = difference.array
    if difference.element:
        place += f"[{', '.join(map(str, difference.element))}]"
    plural = "elements" if difference.total != 1 else "element"
    width = max(len(left), len(right))
    return "\n".join(
        [
            f"  `{difference.array}` differs in {difference.count} of {difference.total} {plural}, "
            f"first at {place}",
            f"    {left:<{width}}  {difference.values[0]}",
            f"    {right:<{width}}  {difference.values[1]}",
        ]
    )


def _wrapped(label: str, text: str) -> str:
    return textwrap.fill(
        label + text, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )


# ------------------------------------------------------------------------ against a reference


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the test wrote it."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def fresh(self) -> Call:
        """The same call on copies."""
        named = {str(k): v for k, v in enumerate(self.args)} | self.kwargs
        copies = copy_of(named)
        args = tuple(copies[str(k)] for k in range(len(self.args)))
        return Call(args, {name: copies[name] for name in self.kwargs})

    def arrays(self, names: Sequence[str]) -> Arrays:
        """Its arrays by parameter."""
        every = {**dict(zip(names, self.args)), **self.kwargs}
        return {n: v for n, v in every.items() if isinstance(v, np.ndarray) and n in names}


def call_for(kernel: Kernel, reference: Callable[..., Any], arguments: Arrays) -> Call:
    """How to call both the kernel and `reference` on generated arguments: by name those that the
    reference takes; where its parameters have other names, all but `out` arrays by position."""
    modes = {one.name: one.mode for one in kernel.signature.parameters}
    own = getattr(kernel, "types", modes)  # a Python kernel allocates the others itself
    usable = {name: value for name, value in arguments.items() if name in own or name not in modes}
    try:
        taken = inspect.signature(reference).parameters.values()
    except (TypeError, ValueError):  # a built-in: no names are known
        taken = ()
    if any(one.kind is one.VAR_KEYWORD for one in taken):
        return Call((), usable)
    names = [one.name for one in taken]
    if names and all(name in usable for name in names):
        kept = {name: usable[name] for name in names}
        needed = {n: v for n, v in usable.items() if modes.get(n, "in") != "out"}
        return (
            Call((), needed | kept)
            if set(needed) <= set(names)
            else _mismatch(kernel, needed, names)
        )
    positional = [usable[name] for name in modes if name in usable and modes[name] != "out"]
    if names and len(positional) != sum(one.default is one.empty for one in taken):
        return _mismatch(kernel, [n for n in usable if modes.get(n) != "out"], names)
    return Call(tuple(positional), {})


def _mismatch(kernel: Kernel, wanted: Any, names: Sequence[str]) -> Call:
    raise refuse(
        "reference-arguments",
        f"the reference of `{kernel.name}` takes {', '.join(names)}, the kernel {', '.join(wanted)}",
        "give it the kernel's parameters (`out` arrays may be left out), or pass arguments",
    )


def compare_with(
    kernel: Any,
    specialised: Kernel,
    reference: Callable[..., Any],
    call: Call,
    rtol: float,
    atol: float,
) -> str:
    """What the kernel, called as its users call it, and `reference` disagree on. A reference that
    returns something is compared by that, one that returns nothing by the arrays it wrote."""
    mine, theirs = call.fresh(), call.fresh()
    result, wanted = kernel(*mine.args, **mine.kwargs), reference(*theirs.args, **theirs.kwargs)
    parameters = [one.name for one in specialised.signature.parameters]
    given = mine.arrays(parameters)
    written = [one.name for one in specialised.signature.parameters if one.mode != "in"]
    if wanted is None:
        pairs = [(n, given[n], theirs.arrays(parameters)[n]) for n in written if n in given]
        if not pairs:
            raise refuse(
                "reference-returns-nothing",
                f"the reference of `{specialised.name}` returns nothing and is given no array to write",
                f"return {', '.join(written)}, or pass them",
            )
    else:
        outs = [one.name for one in specialised.signature.parameters if one.mode == "out"]
        names = outs or written
        left = _results(result) if result is not None else [given[n] for n in names if n in given]
        right = _results(wanted)
        if len(left) != len(right):
            raise refuse(
                "reference-results",
                f"the reference of `{specialised.name}` returns {len(right)} arrays, the kernel {len(left)}",
                f"return {', '.join(names)}",
            )
        titles = names if len(names) == len(left) else [f"result {k}" for k in range(len(left))]
        pairs = list(zip(titles, left, right))
    found = [find_difference(name, one, other, rtol, atol) for name, one, other in pairs]
    return "\n".join(describe(d, "kernel", "reference") for d in found if d is not None)


def _results(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]
