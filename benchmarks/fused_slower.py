"""Is fused code anywhere slower than unfused code, on the CPU?

    python benchmarks/fused_slower.py [--random 200] [--seed 0] [--elements 16e6] [--seconds 0.3]
                                      [--only TEXT] [--part 0/8] [--worst 10] [--json FILE]

Every example, every test case, the benchmarks' kernels and random programs, each at sizes that make its
arrays about so large, beyond caches (smaller where a call would take long), time loops of 24 iterations and
more: fused and unfused in turns, on copies of the
same arrays, outputs given. Programs whose code is the same both ways are counted, not timed. The worst are
printed, then measured again for five times as long, with the copies exchanged: where arrays lie in memory makes
up to a fifth. A program counts as slower where both its median and its quickest calls are, on either copy: what a
busy machine does to one of them does not count. Exits with 1 where something is more than 5 % slower both times.
`--part k/n`: every n-th program from the k-th on, for several processes on processors of their own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from case_files import Case, make_arguments, read_case, read_cases, read_examples  # noqa: E402
from fuzz.choices import RandomChoices  # noqa: E402
from fuzz.generate import generate  # noqa: E402

from loopfuse.base.diagnostics import LoopfuseError, Source  # noqa: E402
from loopfuse.commands.bench_clock import WallClock, time_in_turns  # noqa: E402
from loopfuse.kernels.kernel import Kernel, load_all  # noqa: E402

LIMIT = 1.05
"""Slower than this is slower."""
STEPS = 24
"""Iterations of a time loop, at least: blocks of them are longer than some tests run."""
LONGEST = 0.2
"""Seconds of a call, at most; sizes are taken down until it is."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of a program both ways, and how many times slower fused is, at least."""

    name: str
    sizes: dict[str, int]
    fused: float
    unfused: float
    slower: float

    def line(self) -> str:
        """One line of the table."""
        sizes = " ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{self.slower:6.2f}  {self.fused:10.4f}  {self.unfused:10.4f}  {self.name}  {sizes}"


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel both ways, and how to call it."""

    name: str
    case: Case
    fused: Kernel

    @property
    def unfused(self) -> Kernel:
        """Every loop a launch of its own."""
        return self.fused.with_options(fuel=0)


def programs(count: int, seed: int) -> Iterator[Program]:
    """Examples, cases, the benchmarks' kernels, and `count` random programs."""
    folder = sorted((ROOT / "benchmarks" / "kernels").glob("*.lf"))
    for case in (*read_examples(), *read_cases(), *map(read_case, folder)):
        if case.error is None:
            yield from kernels_of(case.path.stem, case)
    for number in range(seed, seed + count):
        made = generate(RandomChoices(number))
        case = Case(Path(f"random_{number}.lf"), made.text, sizes=(made.sizes,), args=made.scalars)
        yield from kernels_of(f"random {number}", case)


def kernels_of(name: str, case: Case) -> Iterator[Program]:
    """The kernels of a text."""
    try:
        found = load_all(Source(case.path.name, case.text), target="cpu")
    except LoopfuseError:
        return
    for kernel in found.values():
        yield Program(name if len(found) == 1 else f"{name}:{kernel.name}", case, kernel)


def is_same(program: Program) -> bool:
    """Both ways give the same code."""
    one, other = program.fused.compile("cpu", emit={"llvm"}), program.unfused.compile("cpu", emit={"llvm"})
    return one.llvm == other.llvm


def growing(program: Program, elements: float) -> Iterator[dict[str, int]]:
    """The case's sizes times 1, 2, 4 and so on, until the largest array has about so many elements."""
    given = program.case.sizes[-1] if program.case.sizes else {}
    base = {name: given[name] if given.get(name, 0) >= 4 else 8 for name in program.fused.signature.sizes}
    steps = dict.fromkeys(sorted(steps_of(program, base)), STEPS)
    base = {name: value for name, value in base.items() if name not in steps}
    factor = 1
    while factor == 1 or (base and factor < 1 << 24 and _elements(program, base, factor) <= elements):
        yield {name: value * factor for name, value in base.items()} | steps
        factor *= 2


def _elements(program: Program, base: dict[str, int], factor: int) -> int:
    largest = 0
    for parameter in program.fused.signature.parameters:
        count = 1
        for extent in parameter.extents or ():
            count *= base.get(extent, 0) * factor or (int(extent) if extent.isdigit() else factor)
        largest = max(largest, count)
    return largest


def arguments_of(program: Program, sizes: dict[str, int]) -> dict[str, Any]:
    """Arrays of random numbers, and scalars."""
    kernel = program.fused.program().kernel(program.fused.name)
    data = "small" if program.case.data == "small" else "random"
    given = dict(program.case.args or {})
    integers = [p.name for p in program.fused.signature.parameters if not p.is_array]
    steps = {name: max(int(given.get(name, 0)), STEPS) for name in steps_of(program, integers)}
    values = make_arguments(kernel, sizes, {**given, **steps}, data)
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in values.items() if name not in arrays}
    taken = {p.name for p in program.fused.signature.parameters}
    needed = {name: value for name, value in sizes.items() if not _is_fixed_by(program, name)}
    return {**arrays, **{k: v for k, v in scalars.items() if k in taken}, **needed}


def steps_of(program: Program, names: Iterable[str]) -> set[str]:
    """Those of `names` that count launches, of a time loop, and are extents of no array."""
    formula = str(program.fused.explain().report.launches_before)
    extents = (each for p in program.fused.signature.parameters for each in p.extents or ())
    spread = {name for each in extents for name in re.findall(r"\w+", each)}
    return {name for name in names if name not in spread and re.search(rf"\b{re.escape(name)}\b", formula)}


def _is_fixed_by(program: Program, size: str) -> bool:
    return any(size in (p.extents or ()) for p in program.fused.signature.parameters)


def copied(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same numbers in other memory."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}


def measure(program: Program, elements: float, seconds: float, exchanged: bool = False) -> Timed | None:
    """The program both ways, at the largest sizes whose calls are short; None where all are refused. `exchanged`: each way
    has the arrays that the other one has otherwise."""
    fused, unfused = program.fused, program.unfused
    chosen: tuple[dict[str, int], dict[str, Any]] | None = None
    for sizes in growing(program, elements):
        try:
            arguments = arguments_of(program, sizes)
            one, other = copied(arguments), copied(arguments)
            unfused(**other)
            fused(**one)
            start = time.perf_counter()
            unfused(**other)
            took = time.perf_counter() - start
        except (LoopfuseError, MemoryError, ValueError):
            break
        if took > LONGEST and chosen is not None:
            break
        chosen = sizes, arguments
        if took > LONGEST / 8:  # the next may take eight times as long
            break
    if chosen is None:
        return None
    sizes, one = chosen
    other = copied(one)
    if exchanged:
        one, other = other, one
    a, b = time_in_turns(
        [lambda: fused(**one), lambda: unfused(**other)], WallClock(), seconds
    )
    slower = min(a.median / b.median, a.quickest / b.quickest)
    return Timed(program.name, sizes, a.median * 1e3, b.median * 1e3, slower)


def main() -> int:
    """Time all, print the worst, measure those again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--random", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--elements", type=float, default=16e6)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    timed: dict[str, tuple[Timed, Program]] = {}
    same = refused = 0
    part, parts = map(int, given.part.split("/"))
    for number, program in enumerate(programs(given.random, given.seed)):
        if number % parts != part or given.only not in program.name:
            continue
        try:
            if is_same(program):
                same += 1
                continue
            found = measure(program, given.elements, given.seconds)
        except (LoopfuseError, ArithmeticError):
            found = None
        if found is None:
            refused += 1
            continue
        timed[program.name] = found, program
        if found.slower > LIMIT:
            print(found.line(), flush=True)
    worst = sorted(timed.values(), key=lambda pair: -pair[0].slower)[: given.worst]
    print(f"{len(timed)} programs timed, {same} have the same code both ways, {refused} not called")
    print("the worst, as measured first and again\nslower    fused ms  unfused ms  program\n")
    again: list[Timed] = []
    for first, program in worst:
        print(first.line())
        more = measure(program, given.elements, 5 * given.seconds, exchanged=True)
        if more is not None:
            again.append(replace(more, slower=min(more.slower, first.slower)))
            print(more.line(), flush=True)
    if given.json:
        rows = {"timed": [asdict(one) for one, _ in timed.values()], "again": [asdict(one) for one in again]}
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(one.slower > LIMIT for one in again))


if __name__ == "__main__":
    sys.exit(main())
