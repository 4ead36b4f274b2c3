"""What the benchmarks' PTX must be like: windows in registers, nothing spilled, accesses as wide as
types allow, no barrier where stencils have two dimensions, and no more registers than estimated."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from cases import BY_KEY, ONE_EACH  # noqa: E402
from window_kernels import Compiled, assembled, bytes_moved, compiled, limit_of  # noqa: E402
from window_registers import hold  # noqa: E402

from loopfuse.base.machine import MULTIPROCESSOR  # noqa: E402
from loopfuse.plan.strategies.sliding.windows.shape import Windowed  # noqa: E402

WITHOUT_WINDOWS = {
    "chain", "bias-gelu", "batchnorm", "chain-small", "bias-gelu-f32", "scale-relu-add",
    "colours", "softmax", "l2norm", "softmax-bf16", "layernorm-gelu", "swiglu", "log-sums", "rmsnorm", "column-sums", "column-softmax", "group-norm",
    "batch-norm", "prefix-sum", "recurrence-middle", "recurrence-last", "cross-entropy", "rope", "layernorm-backward", "gated-recurrence", "statistics",
    "unit-vector", "histogram",
}  # fmt: skip
STORED = {"rope": 8}
"""Bytes of a lane that are stored, where what is read is wider than what is written."""

MEASURED: dict[str, tuple[int | None, int, int, int, int]] = {
    "heat": (4, 16, 3, 2, 0),
    "wave": (None, 12, 2, 0, 2),
}
"""Time steps, warps, rows of a warp, planes asked for ahead, and planes that come late."""


@pytest.mark.parametrize("key", ONE_EACH)
def test_ptx_of_case(key: str) -> None:
    """One test, so that one process compiles the case, and once."""
    case = BY_KEY[key]
    found = compiled(case.source.text, case.kernel)
    assert bool(found.windows) == (key not in WITHOUT_WINDOWS)
    spill_nothing(found)
    move_vectors(found, STORED.get(key, 16))
    wait_for_no_other_warp(found)
    if found.windows:
        hold(found)
    if key in MEASURED:
        are_as_measured(found, *MEASURED[key])


def are_as_measured(
    found: Compiled, steps: int | None, warps: int, held: int, asked: int, late: int
) -> None:
    """The first launch has the shape that was best on an H100 (docs/decisions/windows-3d.md), and asks
    for planes ahead, or has them come by themselves, where that helped."""
    name, first = next(iter(found.windows.items()))
    shape, time = first.shape, first.group.time
    assert first.pipeline.between
    assert (time.steps if time else None, shape.warps, shape.rows) == (steps, warps, held)
    assert (shape.asked, shape.copies, first.pipeline.late) == (asked, 2, late)
    assert ("cp.async" in found.entries[name]) == bool(late)
    assert ("prefetch.global.L2" in found.entries[name]) == bool(asked)
    assert "st.shared.v" in found.entries[name] and "ld.shared.v" in found.entries[name]


def spill_nothing(found: Compiled) -> None:
    """Windows are registers, and ptxas keeps them there."""
    assert ".local" not in found.ptx
    registers, spills = assembled(found.ptx)
    assert set(spills.values()) == {0}, (registers, spills)


def move_vectors(found: Compiled, width: int = 16) -> None:
    """16 bytes a lane, or what the columns of a lane have of the type; `width` of what is stored without windows."""
    for name, windowed in found.windows.items():
        entry, (loaded, stored) = found.entries[name], sizes_of(windowed)
        columns = windowed.shape.columns
        for instruction, sizes in (("ld", loaded), ("st", stored)):
            moved = bytes_moved(entry, instruction)
            for size in sizes:
                wide = min(16, columns * size)
                assert moved.count(wide) >= windowed.shape.unroll, (name, instruction, wide, moved)
    for name, strategy in found.strategies.items():
        if strategy == "pointwise":
            assert 16 in bytes_moved(found.entries[name], "ld"), name
            assert width in bytes_moved(found.entries[name], "st"), name


def sizes_of(windowed: Windowed) -> tuple[set[int], set[int]]:
    """Bytes of the elements that are loaded, and stored."""
    arrays = windowed.pipeline.program.arrays
    stages = windowed.pipeline.stages
    loaded = {arrays[s.array].dtype.bytes for s in stages if s.step is None}
    stored = {
        arrays[s.array].dtype.bytes
        for s in stages
        if s.step is not None and arrays[s.array].is_argument
    }
    return loaded, stored


def wait_for_no_other_warp(found: Compiled) -> None:
    """In two dimensions warps share nothing (the strips of shared memory by which rows that start
    anywhere move are their own); in three those of a block wait for each other."""
    for name, windowed in found.windows.items():
        barriers = re.findall(r"\b(?:bar|barrier)\.(?!warp)\w+", found.entries[name])
        assert bool(barriers) == bool(windowed.pipeline.between), name
        if not windowed.pipeline.between:
            assert limit_of(found.entries[name]) in MULTIPROCESSOR.steps()
