"""`loopfuse verify`: the checker's answer, then fused, unfused and interpreted, compared.

Sizes are small and drawn at random among those that satisfy the kernel's preconditions. With
`reassociate=False` all three must agree in every bit (or both be NaN); where the default changes
the order of a reduction, that form must agree to rounding, and is compared besides.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import UserError
from loopfuse.base.options import parse_target
from loopfuse.commands.common import (
    Common,
    known_sizes,
    open_kernels,
    random_arguments,
    refuse,
    run_kernel,
    say,
)
from loopfuse.commands.progress import with_progress
from loopfuse.kernels import Kernel, default_target
from loopfuse.runtime.formulas import evaluate

CASES = 12
# Points (iterations, roughly) the interpreter may visit a case: a few microseconds each.
LARGEST_ARRAY = 3000
_SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 40, 64, 0)


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


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found: true when every case agrees and the checker proved the schedule."""

    kernel: str
    target: str
    checked: str
    cases: int
    mismatches: tuple[Mismatch, ...]
    tried: tuple[tuple[tuple[str, int], ...], ...] = ()
    reassociated: bool = False

    def __bool__(self) -> bool:
        return not self.mismatches

    def __str__(self) -> str:
        head = f"{self.kernel}  {self.target}  {self.checked or 'schedule not checked'}"
        if self:
            also = "; reassociated, to rounding" if self.reassociated else ""
            lines = [head, f"  fused, unfused and interpreted agree on {self.cases} cases{also}"]
            sizes = [" ".join(f"{name}={value}" for name, value in case) for case in self.tried]
            if any(sizes):
                lines += textwrap.wrap(
                    f"sizes: {'; '.join(sizes)}", 78, initial_indent="  ", subsequent_indent="    "
                )
            return "\n".join(lines)
        return "\n".join([head, *(f"  DIFFERS  {one}" for one in self.mismatches)])


def verify_kernel(
    kernel: Kernel,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    target: str | None = None,
) -> Verification:
    """Compare the forms of `kernel` on random data; `sizes` fixes some sizes and integers."""
    where = parse_target(target) if target else default_target(for_running=True)
    strict = kernel.with_options(reassociate=False, target=where.name)
    unfused = strict.with_options(fuel=0)
    default = kernel.with_options(target=where.name)
    report = default.explain(target=where.name).report
    if not report.reassociated:
        strict = default  # nothing to hold in order: the same plan
    if not any(decision.fused for decision in report.decisions):
        unfused = strict  # nothing was fused: the same plan again
    cases = choose_sizes(strict, dict(sizes or {}), where.name, seed, report.preconditions)
    mismatches: list[Mismatch] = []
    tried: list[dict[str, int]] = []
    for number, case in enumerate(with_progress(cases, f"verifying {kernel.name}")):
        arguments = random_arguments(kernel, case, seed + number)
        try:
            interpreted = _interpret(strict, arguments)
        except IndexError:
            if report.checked.startswith("schedule verified"):
                raise
            # No precondition was found, so these sizes were not known to be refused.
            continue
        tried.append(case)
        first = _run(strict, arguments, where.is_gpu)
        forms = [
            ("unfused", _run(unfused, arguments, where.is_gpu), False),
            ("interpreted", interpreted, False),
        ]
        if report.reassociated:
            forms.append(("reassociated", _run(default, arguments, where.is_gpu), True))
        for name, other, loosely in forms:
            for array, value in first.items():
                found = _first_difference(value, other[array], loosely)
                if found is not None:
                    values = (value[found].item(), other[array][found].item())
                    mismatches.append(
                        Mismatch(tuple(case.items()), ("fused", name), array, found, values)
                    )
                    break
    return Verification(
        kernel.name, where.name, report.checked, len(tried), tuple(mismatches),
        tuple(tuple(case.items()) for case in tried), bool(report.reassociated),
    )  # fmt: skip


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


def _interpret(kernel: Kernel, arguments: Mapping[str, Any]) -> dict[str, Any]:
    copied = _fresh(arguments)
    try:
        kernel.reference(**copied)
    except UserError as error:
        if not _is_offender(error):
            raise
    return {p.name: copied[p.name] for p in kernel.signature.parameters if p.mode != "in"}


def _rounding(dtype: Any) -> float:
    """How far apart, of their size, two orders of a reduction may leave an element. A sum is made
    in f32 at least, so that a narrow element is off by its last rounding: a few last places."""
    if dtype.itemsize == 2:
        fraction = 10 if dtype.kind == "f" else 7  # f16; bf16, which NumPy does not know
        return 4 * 2.0**-fraction
    return 1e-4 if dtype.itemsize == 4 else 1e-11


def _first_difference(left: Any, right: Any, loosely: bool) -> tuple[int, ...] | None:
    """The first element where the arrays differ: in any bit (two NaNs are equal), or by more
    than rounding when compared `loosely`."""
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


# ---------------------------------------------------------------------------------------- sizes


def choose_sizes(
    kernel: Kernel,
    fixed: Mapping[str, int],
    target: str,
    seed: int,
    preconditions: Sequence[str] | None = None,
) -> list[dict[str, int]]:
    """Up to `CASES` different choices of sizes and integer parameters that the kernel accepts:
    the `preconditions` of its report, where one was made, say which.

    UserError[no-sizes] where none is found.
    """
    given = known_sizes(kernel, fixed)
    integers = [
        p.name for p in kernel.signature.parameters if not p.is_array and p.dtype.is_integer
    ]
    if preconditions is None:
        made = kernel.compile(target, emit=(_code(target),)).manifest["preconditions"]
        preconditions = [one["text"] for one in made]
    conditions = list(preconditions)
    generator = random.Random(seed)
    found: list[dict[str, int]] = []
    for attempt in range(4000):
        if len(found) == CASES:
            break
        # The likeliest to be accepted come first and again: one value for every size.
        together = generator.choice(_SIDES)
        case = {
            name: together if attempt % 3 == 0 else generator.choice(_SIDES)
            for name in kernel.signature.sizes
        }
        case |= {name: generator.randrange(6) for name in integers}
        case |= given
        if case not in found and _accepts(kernel, case, conditions):
            found.append(case)
            if not kernel.signature.sizes and not integers:
                break
    if not found:
        raise refuse(
            "no-sizes",
            f"no small sizes satisfy what `{kernel.name}` needs: {'; '.join(conditions)}",
            "name some: `--size N=100`",
        )
    return found


def _code(target: str) -> str:
    return "object" if target == "cpu" else "ptx"


def _accepts(kernel: Kernel, case: Mapping[str, int], conditions: list[str]) -> bool:
    for parameter in kernel.signature.parameters:
        count = 1
        for extent in parameter.extents or ():
            size = evaluate(extent, case)
            if size < 0:
                return False
            count *= size
        if count > LARGEST_ARRAY:
            return False
    return all(evaluate(text, case) for text in conditions)


def verify_file(file: str, common: Common, seed: int) -> bool:
    """Verify every chosen kernel of `file` and print what was found; True when all agree."""
    good = True
    sizes = dict(common.sizes)
    for kernel in open_kernels(file, common):
        own = known_sizes(kernel, sizes, strict=False)
        found = verify_kernel(kernel, own, seed, common.target)
        say(str(found))
        good = good and bool(found)
    return good
