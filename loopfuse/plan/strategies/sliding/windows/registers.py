"""How many registers a thread needs whose windows lie in them: an estimate on the safe side.

    what windows keep + the row at hand + addresses of arrays + what never moves

It decides whether windows fit, how many warps a block has, and the limit that the assembler gets.
Left alone ptxas takes a register more than lets a third warp run, or spills a few bytes to save
one (`base.machine`). `tests/plan/test_window_registers.py` holds the estimate against it.
"""

from __future__ import annotations

from loopfuse.base.machine import MULTIPROCESSOR
from loopfuse.lang.nodes import Binary, Expr
from loopfuse.lang.walk import walk_expr
from loopfuse.plan.strategies.sliding.windows.invariants import invariant_words
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, later_name
from loopfuse.poly.model import PolyProgram

REST = 16
"""Registers for counters and tests."""
COLUMN, WORD = 4, 5
"""Registers for each column of the row at hand, and for each word of it: what is read there, parts
of the sum, a row that is on its way."""
OVERLAP = 0.85
"""How much of what windows keep is there at the same time: rows go as others come."""
REACH = 7
"""Registers for each column beside a lane's own but one on each side, where most are read. Elements
of less than 32 bits come several at once."""
INPUT, OUTPUT = 20, 9
"""Registers for each array that is loaded, or stored, but one."""
OTHER = 28
"""Registers for each array but one that a block of time steps keeps."""
MIRRORED = {"clamp": 8, "symmetric": 8, "reflect": 16}
"""Registers for each column of a computed row that is read beyond its ends, by edge mode: copies are
selected from all that a lane may hold. Half as many more where elements share registers."""
MOST_MIRRORED = 84
"""The most registers for that."""
BOXES = 8
"""Registers for each computed window of those read in one step whose every row is read beside a lane's
own columns: the ways at edges have the copies of all its rows at once."""
DIVIDED = 14
"""Registers for the rare ways of divisions."""
TOLERANCE = 16
"""How far above a step of the register file an estimate still gets that step: so much it is too high
on average. `codegen.targets.assemble` takes the next step where it was not."""


def registers(pipeline: Pipeline, columns: int, program: PolyProgram) -> int:
    """Registers of 32 bits that a thread needs where a lane holds `columns` columns and index
    arithmetic has 32 bits, to spill nothing."""
    stages = pipeline.stages
    own = sum(_words_kept(s, program) * s.kept for s in stages if _is_kept(pipeline, s)) * columns
    beside = sum(_words(s, program) * s.kept_beside for s in stages if _is_kept(pipeline, s))
    widest = max(_words(stage, program) for stage in stages)
    rest = REST + (COLUMN + WORD * widest) * columns + invariant_words(pipeline, program)
    mirrored = sum(_mirrored(pipeline, stage, program) for stage in stages) * columns
    divided = (
        DIVIDED if any(_divides(s.value) for u in pipeline.group.units for s in u.statements) else 0
    )
    reach = max(_reach(stage, program) for stage in stages)
    rest += (_at_once(pipeline) - 1) * widest * columns
    rest += BOXES * _boxes_at_once(pipeline) * widest
    total = rest + reach + int(OVERLAP * own) + beside + _arrays(pipeline, program)
    return total + min(mirrored, MOST_MIRRORED) + divided


def most_registers(pipeline: Pipeline, columns: int, program: PolyProgram) -> int:
    """The limit of registers that the assembler gets."""
    return MULTIPROCESSOR.step_for(registers(pipeline, columns, program) - TOLERANCE)


def _arrays(pipeline: Pipeline, program: PolyProgram) -> int:
    """For arrays in memory, but one of each kind."""
    arrays = {s.array for s in pipeline.stages if program.arrays[s.array].is_argument}
    if pipeline.group.time is not None:  # what it does not write of others comes from memory
        return OTHER * max(len(arrays) - 1, 0)
    loaded = {stage.array for stage in pipeline.stages if stage.step is None}
    return INPUT * max(len(loaded) - 1, 0) + OUTPUT * max(len(arrays - loaded) - 1, 0)


def _at_once(pipeline: Pipeline) -> int:
    """How many rows that no window keeps one step makes for another (1: as anywhere)."""
    lags = [
        stage.lag
        for stage in pipeline.stages
        if stage.step is not None and not stage.kept and pipeline.readers(stage)
    ]
    return max([1, *(lags.count(lag) for lag in lags)])


def _boxes_at_once(pipeline: Pipeline) -> int:
    """How many computed windows with neighbours' columns of every row are made in one step."""
    lags = [
        stage.lag
        for stage in pipeline.stages
        if stage.step is not None
        and stage.halos[-1]
        and stage.kept > 1
        and stage.kept_beside >= stage.kept * stage.halos[-1].width
    ]
    return max([0, *(lags.count(lag) for lag in lags)])


def _is_kept(pipeline: Pipeline, stage: Stage) -> bool:
    """Does the window take registers of its own?"""
    later = pipeline.stage(later_name(stage.name))
    if later is None or not later.is_border:
        return True
    return stage.slices > 1 or stage.is_stencil  # but for the border they are the same values


def _mirrored(pipeline: Pipeline, stage: Stage, program: PolyProgram) -> int:
    """Registers for a column of what is computed and read beyond the ends of its rows."""
    mode = stage.frame.modes[stage.frame.position(pipeline.across)]
    if stage.step is None or mode not in MIRRORED:
        return 0
    narrow = program.arrays[stage.array].dtype.bytes < 4
    return MIRRORED[mode] * 3 // 2 if narrow else MIRRORED[mode]


def _reach(stage: Stage, program: PolyProgram) -> int:
    """Registers for columns beside a lane's own."""
    return REACH * max(0, stage.halos[-1].width - 2) * min(4, program.arrays[stage.array].dtype.bytes) // 4


def _divides(value: Expr) -> bool:
    return any(isinstance(each, Binary) and each.op == "div" for each in walk_expr(value))


def _words(stage: Stage, program: PolyProgram) -> int:
    return max(1, program.arrays[stage.array].dtype.bytes // 4)


def _words_kept(stage: Stage, program: PolyProgram) -> float:
    """Registers of an element in a window: what is loaded stays packed until it is used, if then it
    is used up."""
    size = program.arrays[stage.array].dtype.bytes
    is_packed = stage.step is None and size < 4 and stage.kept <= stage.delay
    return size / 4 if is_packed else _words(stage, program)
