"""The estimate of a thread's registers, held against ptxas."""

from __future__ import annotations

import re
import subprocess
import tempfile

from window_kernels import Compiled, assembled, limit_of

from loopfuse.base.register_steps import MOST, step_for
from loopfuse.codegen.assemble import find_ptxas, read_report
from loopfuse.plan.window_registers import TOLERANCE, most_registers, registers
from loopfuse.plan.window_shape import Shape, Windowed


def shape_of(windowed: Windowed) -> Shape | None:
    """The shape of windows in registers of warps that share nothing."""
    return windowed.shape if isinstance(windowed.shape, Shape) and not windowed.pipeline.abreast else None


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


def hold(found: Compiled, is_short: bool = False) -> None:
    """With as many as estimated nothing is spilled; nor with what the assembler ends at. `is_short`:
    the estimate is known to be too low, by less than a step of the register file or by one."""
    wanted = estimates(found.windows)
    assert wanted
    for name, most in wanted.items():
        each = found.windows[name]
        limit = most_registers(each.pipeline, each.shape.columns, each.pipeline.program)  # pyright: ignore
        assert limit_of(found.entries[name]) == limit == step_for(most - TOLERANCE)
    # A thread gets eight at a time. ptxas spills a little now and then with more than it needs.
    enough = {name: min(MOST, -(-most // 8) * 8) for name, most in wanted.items()}
    spilled = {name for name, size in spills_with(found.ptx, enough).items() if size}
    assert bool(spilled) or not is_short, "no longer too low: take it off the list"
    if spilled:
        fewer = {name: enough[name] - 8 for name in spilled}
        more = {name: step_for(step_for(enough[name]) + 1) for name in spilled}
        other = more if is_short else fewer
        assert set(spills_with(found.ptx, other).values()) == {0}, other
    used, spills = assembled(found.ptx)
    assert set(spills.values()) == {0}
    for name, most in enough.items():
        assert used[name] <= max(step_for(most), step_for(limit_of(found.entries[name]) + 1))
