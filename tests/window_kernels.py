"""Kernels with windows, compiled once a process without their proofs (others test those)."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cache

import pytest
from fuzz.machines import without_proofs

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.codegen.targets.assemble import assemble
from loopfuse.plan.strategies.sliding.strategy import SlidingFit
from loopfuse.plan.strategies.sliding.windows.shape import Windowed

SM90 = Target("sm_90")


@dataclass(frozen=True)
class Compiled:
    """The PTX, its entry points by name, the strategy of each, and the windows of those with any."""

    ptx: str
    entries: dict[str, str]
    strategies: dict[str, str]
    windows: dict[str, Windowed]


@cache
def compiled(text: str, kernel: str, index_bits: int = 32) -> Compiled:
    """The kernel as sm_90 gets it."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(text)))
    options = Options(target=SM90, index_bits=index_bits)
    with without_proofs():
        planned = pipeline.plan_kernel(program, kernel, options)
        ptx = pipeline.compile_kernel(program, kernel, options, planned=planned).ptx
    strategies = {launch.name: launch.strategy for launch in planned.tree.launches}
    windows = {n: f.windowed for n, f in planned.scheduled.fits.items() if n in strategies and isinstance(f, SlidingFit)}
    parts = re.split(r"^(?=\.visible \.entry )", ptx, flags=re.MULTILINE)[1:]
    entries = {re.findall(r"\w+", part)[2]: part[: part.index("\n}")] for part in parts}
    assert set(entries) == set(strategies)
    return Compiled(ptx, entries, strategies, windows)


@cache
def assembled(ptx: str) -> tuple[dict[str, int], dict[str, int]]:
    """Registers and spilled bytes of each entry point."""
    made = assemble(ptx, SM90)
    if made is None:
        pytest.skip("no ptxas")
    return made[1], made[2]


def limit_of(entry: str) -> int:
    """The limit of registers that the entry point has."""
    (found,) = re.findall(r"^\.maxnreg (\d+)$", entry, re.MULTILINE)
    return int(found)


def bytes_moved(entry: str, instruction: str) -> list[int]:
    """Bytes that each access to the device's memory moves a lane: `instruction` is `ld` or `st`; copies
    that come late load."""
    found = re.findall(rf"\b{instruction}\.global(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)", entry)
    late = re.findall(r"\bcp\.async\.ca\.shared\.global \[.*\], (\d+);", entry)
    moved = [int(count or 1) * int(bits) // 8 for count, bits in found]
    return moved + [int(size) for size in late if instruction == "ld"]
