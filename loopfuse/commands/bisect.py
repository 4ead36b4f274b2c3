"""`loopfuse verify --bisect`: which fusion makes a program compute something else.

Fuel n lets the planner make its first n fusions. Between a fuel that agrees with the interpreter
and one that does not, bisection finds two neighbours: the fusion between them is guilty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopfuse.base.diagnostics import UserError
from loopfuse.base.options import parse_target
from loopfuse.commands.common import Common, open_kernels, say
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.targets import default_target
from loopfuse.kernels.trial import constants_of, sizes_for
from loopfuse.kernels.verify import verify_kernel

MOST_FUSIONS = 1 << 16


@dataclass(frozen=True, slots=True)
class Guilt:
    """What bisection found. `fuel` is the least number of fusions that goes wrong (0: it goes
    wrong with none; None: not with all of them); `fusion` names the loops and the reason of the
    fusion that makes the difference, `finding` what went wrong; `total` counts all fusions."""

    kernel: str
    total: int
    fuel: int | None
    fusion: str = ""
    finding: str = ""

    def __str__(self) -> str:
        count = f"{self.total} fusion{'' if self.total == 1 else 's'}"
        if self.fuel is None:
            return f"{self.kernel}  {count}: all forms agree, nothing to bisect"
        if self.fuel == 0:
            return (
                f"{self.kernel}  wrong without any fusion (LOOPFUSE_FUEL=0): no fusion is guilty\n"
                f"  {self.finding}"
            )
        return (
            f"{self.kernel}  fusion {self.fuel} of {self.total} is guilty: LOOPFUSE_FUEL="
            f"{self.fuel - 1} agrees, LOOPFUSE_FUEL={self.fuel} does not\n"
            f"  {self.fusion}\n  {self.finding}"
        )


def find_guilty(
    kernel: Kernel,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    target: str | None = None,
) -> Guilt:
    """Bisect `kernel`: every step verifies it under another fuel, on the same random data. An
    error that is not the user's (a crash of the compiler) counts as going wrong."""
    where = (parse_target(target) if target else default_target(for_running=True)).words

    def finding(fuel: int) -> str:
        try:
            found = verify_kernel(kernel.with_options(fuel=fuel), sizes, seed, where)
        except UserError:
            raise
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return str(found.mismatches[0]) if found.mismatches else ""

    constants = constants_of(kernel, sizes or {})
    total = _count_fusions(kernel, where, constants)
    wrong = finding(total)
    if not wrong:
        return Guilt(kernel.name, total, None)
    unfused = finding(0) if total else wrong
    if unfused:
        return Guilt(kernel.name, total, 0, "", unfused)
    good, bad = 0, total  # `good` fusions agree, `bad` do not
    while bad - good > 1:
        middle = (good + bad) // 2
        text = finding(middle)
        if text:
            bad, wrong = middle, text
        else:
            good = middle
    return Guilt(kernel.name, total, bad, _difference(kernel, where, bad, constants), wrong)


def _fused(
    kernel: Kernel, target: str, fuel: int, constants: Mapping[str, int]
) -> list[str]:
    """The fusions made with this fuel, as text: which loops, and why that was right."""
    report = kernel.with_options(fuel=fuel).explain(target=target, **constants).report
    return [f"{' + '.join(one.between)}: {one.reason}" for one in report.decisions if one.fused]


def _count_fusions(kernel: Kernel, target: str, constants: Mapping[str, int]) -> int:
    """The least fuel that changes nothing. Not the number of fused pairs in the report: a trial
    that the planner takes back has used its fuel."""
    everything = _fused(kernel, target, MOST_FUSIONS, constants)
    low, high = -1, max(1, len(everything))
    while _fused(kernel, target, high, constants) != everything and high < MOST_FUSIONS:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if _fused(kernel, target, middle, constants) == everything:
            high = middle
        else:
            low = middle
    return high


def _difference(kernel: Kernel, target: str, fuel: int, constants: Mapping[str, int]) -> str:
    """The fusion that is made with `fuel` and not with one less."""
    before = _fused(kernel, target, fuel - 1, constants)
    for one in _fused(kernel, target, fuel, constants):
        if one in before:
            before.remove(one)
        else:
            return one
    return "a trial that the planner took back"


def bisect_file(file: str, common: Common, seed: int) -> bool:
    """Bisect every chosen kernel of `file` and print what was found; True when all agree."""
    good = True
    kernels = open_kernels(file, common)
    for kernel, own in zip(kernels, sizes_for(kernels, dict(common.sizes))):
        found = find_guilty(kernel, own, seed, common.target)
        say(str(found))
        good = good and found.fuel is None
    return good
