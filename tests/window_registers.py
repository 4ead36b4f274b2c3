"""The estimate of a thread's registers, held against ptxas."""

from __future__ import annotations

import re
import subprocess
import tempfile

from window_kernels import Compiled, assembled, limit_of

from loopfuse.base.machine import MULTIPROCESSOR
from loopfuse.codegen.targets.assemble import find_ptxas, read_report
from loopfuse.plan.strategies.sliding.windows.blocks import block_registers
from loopfuse.plan.strategies.sliding.windows.cuts import Shape
from loopfuse.plan.strategies.sliding.windows.invariants import invariant_words
from loopfuse.plan.strategies.sliding.windows.registers import TOLERANCE, most_registers, registers
from loopfuse.plan.strategies.sliding.windows.shape import Windowed


def shape_of(windowed: Windowed) -> Shape | None:
    """The shape of windows in registers of warps that share nothing."""
    return None if windowed.pipeline.lines or windowed.pipeline.between else windowed.shape


def estimates(windows: dict[str, Windowed]) -> dict[str, int]:
    """The estimate for each entry point whose warps share nothing."""
    return {
        name: registers(each.pipeline, shape.columns, each.pipeline.program)
        for name, each in windows.items()
        if (shape := shape_of(each)) is not None
    }


def spills_with(text: str, limits: dict[str, int]) -> dict[str, int]:
    """Spilled bytes of entry points under these limits of registers."""
    for name, most in limits.items():
        start = text.index(f".visible .entry {name}(")
        head, rest = text[:start], text[start:]
        text = head + re.sub(r"^\.maxnreg \d+", f".maxnreg {most}", rest, count=1, flags=re.MULTILINE)
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(text)
        file.flush()
        command = [find_ptxas() or "", "-v", "-arch=sm_90", file.name, "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name: read_report(done.stderr + done.stdout)[1][name] for name in limits}


def plane_estimates(windows: dict[str, Windowed]) -> dict[str, int]:
    """The estimate for each entry point whose blocks stream down planes; no more than a thread of such
    a block can have."""
    found: dict[str, int] = {}
    for name, each in windows.items():
        shape, pipeline = each.shape, each.pipeline
        if pipeline.between:
            kept = invariant_words(pipeline, pipeline.program)
            most = block_registers(pipeline, shape, pipeline.program, kept)
            found[name] = min(most, MULTIPROCESSOR.registers_with(shape.warps))
    return found


def hold(found: Compiled) -> None:
    """With as many as estimated nothing is spilled; nor with what the assembler ends at."""
    planes = plane_estimates(found.windows)
    wanted = estimates(found.windows) | planes
    assert wanted
    for name, most in wanted.items():
        each = found.windows[name]
        if name not in planes:
            limit = most_registers(each.pipeline, each.shape.columns, each.pipeline.program)
            assert limit_of(found.entries[name]) == limit == MULTIPROCESSOR.step_for(most - TOLERANCE)
    used, spills = assembled(found.ptx)
    assert set(spills.values()) == {0}
    # A thread gets eight at a time. Where ptxas ended at no more than that, that was enough.
    enough = {name: min(MULTIPROCESSOR.most_registers, -(-most // 8) * 8) for name, most in wanted.items()}
    above = {name: most for name, most in enough.items() if used[name] > most}
    spilled = {name for name, size in spills_with(found.ptx, above).items() if size} if above else set[str]()
    if spilled:  # ptxas spills a little now and then with more than it needs
        fewer = {name: enough[name] - 8 for name in spilled}
        assert set(spills_with(found.ptx, fewer).values()) == {0}, fewer
    for name in wanted.keys() - planes.keys():
        assert used[name] <= max(MULTIPROCESSOR.step_for(enough[name]), MULTIPROCESSOR.step_for(limit_of(found.entries[name]) + 1))
