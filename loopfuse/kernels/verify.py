"""Verification: the checker's answer, then fused, unfused and interpreted, compared.

Sizes are small and drawn at random among those that satisfy the kernel's preconditions. With
`reassociate=False` all three must agree in every bit (or both be NaN); where the default changes
the order of a reduction, that form must agree to rounding, and is compared besides.

Under `fp="native"` on a GPU, fused and unfused agree in every bit; interpreted are the program's approximations, rounded
correctly, and what runs may differ from that as far as errors within their bounds move it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loopfuse.base.diagnostics import UserError
from loopfuse.base.options import parse_target
from loopfuse.base.printable import printable
from loopfuse.base.progress import with_progress
from loopfuse.kernels.sizes import choose_sizes
from loopfuse.kernels.targets import default_target
from loopfuse.kernels.trial import (
    constants_of,
    random_arguments,
    run_kernel,
)

if TYPE_CHECKING:
    from loopfuse.kernels.kernel import Kernel


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Where two forms first differ: at which sizes, in which array, at which element."""

    sizes: tuple[tuple[str, int], ...]
    forms: tuple[str, str]
    array: str
    element: tuple[int, ...]
    values: tuple[Any, Any]

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes)
        place = f"{self.array}[{', '.join(map(str, self.element))}]"
        return (
            f"{place} is {self.values[0]!r} {self.forms[0]}, expected {self.values[1]!r} "
            f"({self.forms[1]}), at {sizes}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Verification:
    """What `verify` found: true when every case agrees and the checker proved the schedule."""

    kernel: str
    target: str
    checked: str
    cases: int
    mismatches: tuple[Mismatch, ...]
    tried: tuple[tuple[tuple[str, int], ...], ...] = ()
    reassociated: bool = False
    with_cpython: bool = False
    approximated: bool = False

    def __bool__(self) -> bool:
        return not self.mismatches

    def __repr__(self) -> str:
        return str(self)  # what an interactive session shows

    def _repr_html_(self) -> str:
        from loopfuse.kernels.verify_html import render_verification

        return render_verification(self)

    def __str__(self) -> str:
        head = f"{self.kernel}  {self.target}  {self.checked or 'schedule not checked'}"
        if self:
            also = "; reassociated, to rounding" if self.reassociated else ""
            *forms, last = [
                *("fused", "unfused"), *["interpreted"] * (not self.approximated), *["CPython"] * self.with_cpython
            ]  # fmt: skip
            bounded = ", interpreted within native's bounds" * self.approximated
            lines = [head, f"  {', '.join(forms)} and {last} agree on {self.cases} cases{bounded}{also}"]
            sizes = [" ".join(f"{name}={value}" for name, value in case) for case in self.tried]
            if any(sizes):
                lines += textwrap.wrap(
                    f"sizes: {'; '.join(sizes)}", 78, initial_indent="  ", subsequent_indent="    "
                )
            return printable("\n".join(lines))
        return printable("\n".join([head, *(f"  DIFFERS  {one}" for one in self.mismatches)]))


def verify_kernel(
    kernel: Kernel,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    target: str | None = None,
) -> Verification:
    """Compare the forms of `kernel` on random data; `sizes` fixes some sizes and integers."""
    where = parse_target(target) if target else default_target(for_running=True)
    strict = kernel.with_options(reassociate=False, target=where.words)
    unfused = strict.with_options(fuel=0)
    default = kernel.with_options(target=where.words)
    # Not what a Python kernel adds for its reader: its conditions are evaluated.
    report = default.report(target=where.words, **constants_of(kernel, sizes or {}))
    if not report.reassociated:
        strict = default  # nothing to hold in order: the same plan
    if not any(decision.fused for decision in report.decisions):
        unfused = strict  # nothing was fused: the same plan again
    cases = choose_sizes(strict, dict(sizes or {}), where.words, seed, report.preconditions)
    plainly = _against_cpython(kernel)
    approximates = strict.options(where).approximates
    mismatches: list[Mismatch] = []
    tried: list[dict[str, int]] = []
    for number, case in enumerate(with_progress(cases, f"verifying {kernel.name}")):
        arguments = random_arguments(kernel, case, seed + number)
        try:
            interpreted = _approximated(strict, arguments) if approximates else _interpret(strict, arguments)
        except IndexError:
            if report.checked.startswith("schedule verified"):
                raise
            # No precondition was found, so these sizes were not known to be refused.
            continue
        tried.append(case)
        first = _run(strict, arguments, where.is_gpu)
        room = _room(strict, arguments, interpreted) if approximates else {}
        forms: list[tuple[str, dict[str, Any], bool, Mapping[str, Any]]] = [
            ("unfused", _run(unfused, arguments, where.is_gpu), False, {}),
            ("interpreted", interpreted, False, room),
        ]
        if report.reassociated:
            forms.append(("reassociated", _run(default, arguments, where.is_gpu), True, {}))
        for name, other, loosely, allowed in forms:
            for array, value in first.items():
                if array in allowed:
                    found = first_outside(value, other[array], allowed[array])
                else:
                    found = _first_difference(value, other[array], loosely)
                if found is not None:
                    values = (value[found].item(), other[array][found].item())
                    mismatches.append(
                        Mismatch(tuple(case.items()), ("fused", name), array, found, values)
                    )
                    break
        if plainly is not None:
            mismatches += plainly(arguments, case)
    return Verification(
        kernel.name, where.words, report.checked, len(tried), tuple(mismatches),
        tuple(tuple(case.items()) for case in tried), bool(report.reassociated), plainly is not None,
        approximates,
    )  # fmt: skip


def _against_cpython(
    kernel: Kernel,
) -> Callable[[Mapping[str, Any], Mapping[str, int]], list[Mismatch]] | None:
    """Compares a Python kernel, as it was read, with its function; None for others."""
    written = kernel.from_python
    if written is None:
        return None
    from loopfuse.kernels.cpython import as_allocated, run_plainly, tolerance

    strict = kernel.with_options(fp="strict", reassociate=False)
    program = strict.program().kernels[0]
    bounds = {p.name: tolerance(program, p.dtype) for p in kernel.signature.parameters}

    def compare(arguments: Mapping[str, Any], case: Mapping[str, int]) -> list[Mismatch]:
        try:
            meant = _interpret(strict, as_allocated(written, arguments), may_offend=False)
        except UserError:
            return []  # a subscript outside its array: Python's may come from the other end
        expected = run_plainly(written, arguments)
        for array, value in (expected or {}).items():
            found = _first_difference(meant[array], value, bool(bounds[array]))
            if found is not None:
                values = (meant[array][found].item(), value[found].item())
                forms = ("as read (strict)", "CPython")
                return [Mismatch(tuple(case.items()), forms, array, found, values)]
        return []

    return compare


def _fresh(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()}


def _is_offender(error: UserError) -> bool:
    """A data-dependent subscript was outside its array, as happens with random data: the arrays
    are written all the same, and alike in every form."""
    return error.diagnostics[0].code == "subscript-out-of-range"


def _run(kernel: Kernel, arguments: Mapping[str, Any], on_gpu: bool) -> dict[str, Any]:
    held = _fresh(arguments)
    try:
        found = run_kernel(kernel, held, on_gpu).arrays
    except UserError as error:
        if not _is_offender(error):
            raise
        # On the GPU that was the call before; on the CPU it was this one, which has written.
        found = run_kernel(kernel, _fresh(arguments), on_gpu).arrays if on_gpu else held
    return {p.name: found[p.name] for p in kernel.signature.parameters if p.mode != "in"}


def _interpret(
    kernel: Kernel, arguments: Mapping[str, Any], may_offend: bool = True
) -> dict[str, Any]:
    return _written_by(kernel.reference, kernel, arguments, may_offend)


def _approximated(kernel: Kernel, arguments: Mapping[str, Any], seed: int | None = None) -> dict[str, Any]:
    """What `fp="native"` computes on a GPU, approximations rounded correctly; with a `seed` wrong as far as they may be."""
    from loopfuse.kernels.reference import approximate_reference_of

    return _written_by(approximate_reference_of(kernel, seed), kernel, arguments, True)


def _written_by(
    reference: Callable[..., Any], kernel: Kernel, arguments: Mapping[str, Any], may_offend: bool
) -> dict[str, Any]:
    copied = _fresh(arguments)
    try:
        reference(**copied)
    except UserError as error:
        if not (may_offend and _is_offender(error)):
            raise
    return {p.name: copied[p.name] for p in kernel.signature.parameters if p.mode != "in"}


DISTURBED = 3
"""How often the interpreter runs with approximations that are wrong by as much as they may be."""

_ROOM = 8
"""How many times as far as then a GPU's result may lie from that of exact ones, and last places of its type besides: its
errors are others, and may add up where those cancelled."""


def _room(kernel: Kernel, arguments: Mapping[str, Any], interpreted: Mapping[str, Any]) -> dict[str, Any]:
    """Of each array of numbers, how far each element may be off."""
    runs = [_approximated(kernel, arguments, seed) for seed in range(1, DISTURBED + 1)]
    return {
        name: room_of(value, [run[name] for run in runs]) for name, value in interpreted.items() if value.dtype.kind in "iufV"
    }


def room_of(value: Any, runs: Sequence[Any]) -> Any:
    """How far a result may lie from `value`, where disturbed ones are `runs`."""
    exact = value.astype(np.float64)
    with np.errstate(all="ignore"):
        moved = np.nan_to_num(np.max([np.abs(run.astype(np.float64) - exact) for run in runs], axis=0), nan=0.0)
        if value.dtype.kind in "iu":
            return _ROOM * moved
        fraction = {2: 10 if value.dtype.kind == "f" else 7, 4: 23, 8: 52}[value.dtype.itemsize]
        return _ROOM * (moved + np.abs(exact) * 2.0**-fraction)


def first_outside(left: Any, right: Any, room: Any) -> tuple[int, ...] | None:
    """The first element where `left` is further from `right` than there is room; two NaNs are equal."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (one == other) | (np.abs(one - other) <= room) | (np.isnan(one) & np.isnan(other))
    if bool(np.all(same)):
        return None
    return tuple(int(k) for k in np.unravel_index(int(np.argmin(same)), left.shape))


def _rounding(dtype: Any) -> float:
    """How far apart, of their size, two orders of a reduction may leave an element. A sum is made
    in f32 at least, so that a narrow element is off by its last rounding: a few last places."""
    if dtype.itemsize == 2:
        fraction = 10 if dtype.kind == "f" else 7  # f16; bf16, which NumPy does not know
        return 4 * 2.0**-fraction
    return 1e-4 if dtype.itemsize == 4 else 1e-11


def _first_difference(left: Any, right: Any, loosely: bool) -> tuple[int, ...] | None:
    """The first element where the arrays differ: in any bit (two NaNs are equal), or by more
    than rounding when compared `loosely`. Of two types (a returned number, and CPython's) by value."""
    if left.dtype != right.dtype:
        left, right = left.astype(np.float64), right.astype(np.float64)
    if left.dtype.kind not in "fV":
        same = left == right
    elif loosely:
        wide = np.float64
        bound = _rounding(left.dtype)
        same = np.isclose(left.astype(wide), right.astype(wide), bound, bound, equal_nan=True)
    else:
        bits = np.dtype(f"u{left.dtype.itemsize}")
        same = (left.view(bits) == right.view(bits)) | (np.isnan(left) & np.isnan(right))
    if bool(np.all(same)):
        return None
    return tuple(int(k) for k in np.unravel_index(int(np.argmin(same)), left.shape))
