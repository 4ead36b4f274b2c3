"""How much code a pipeline of windows becomes: what it computes is written out for every column that a
lane holds and for every row of a window.

    2 columns, windows of 3 rows, 4 iterations of `b = a[i-1] + a[i+1]`: 2 * 3 * 4 additions

Where that passes `MOST`, blocks of time steps are shorter, or there are no windows: proofs, LLVM and the
assembler would take longer than anybody waits, and the code would leave the instruction cache.
"""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.lang import ops
from loopfuse.lang.nodes import Binary, Call, Cast, Const, Expr, Fma, Iter, Load, Symbol, Unary
from loopfuse.lang.walk import children
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage

MOST = 50_000
"""Instructions of one way of a tile, at most. Of usual blocks of time steps the longest (heat in three
dimensions) have about 3,000; a bilateral filter of 5 x 5 has 44,000, which ptxas takes seconds for."""
MOST_OF_STEPS = 15_000
"""The same where more time steps in a block only save traffic: of so much code it is the arithmetic that takes
time. (`sin` of five places a step, f32: two steps were 9.5 MB of PTX, and 40 s.)"""

FEW = 5
"""Planes of a window whose moves are cheap beside what a step computes."""

SMALL = 1
"""What an operation counts whose like the machine has."""
INTEGER_DIVISION = 16
"""Instructions of LLVM that `//` and `%` of integers are, which guard against 0 and round down."""
SATURATION = 2
"""Of a conversion to an integer."""
FUNCTIONS = {
    "exp": (20, 41), "exp2": (19, 35), "expm1": (24, 55), "log": (30, 53), "log2": (30, 57), "log10": (54, 58),
    "log1p": (30, 80), "pow": (173, 184), "rsqrt": (3, 3), "cbrt": (67, 69), "hypot": (39, 39),
    "sin": (217, 245), "cos": (216, 244), "tan": (230, 258), "asin": (40, 48), "acos": (47, 55),
    "atan": (41, 54), "atan2": (55, 68), "sinh": (66, 74), "cosh": (57, 65), "tanh": (40, 79),
    "asinh": (83, 87), "acosh": (85, 89), "atanh": (92, 96), "erf": (31, 98),
    "mod": (1600, 1600), "floordiv": (1600, 1600), "fmod": (1600, 1600),
}  # fmt: skip
"""Instructions that functions become, of f32 (and narrower) and of f64, as
`tests/plan/test_code_size.py` counts them. `mod`, `fmod` and `floordiv` are 50 to 80, but loop around
remainders of 64 bits, which no GPU has: what they count is what ptxas takes for them (as long for 240
of them as for 400,000 others)."""
OTHER_FUNCTION = 4
"""Of a function that is not in the table: a few operations of the machine's (`sign`, `clip`, `floor`)."""


def is_written_once(pipeline: Pipeline) -> bool:
    """May the loop over a border tile's steps be SHIFTED: written once, its windows' rows moved? A move costs
    issue slots, and no load is asked for a row ahead. Not so for narrow elements, whose strips are wide, and
    batches of images: there many tiles are border tiles; nor for more than `FEW` planes (figures in
    docs/decisions/rings.md)."""
    elements = {pipeline.program.arrays[stage.array].dtype.bytes for stage in pipeline.stages}
    if min(elements) < 4 or pipeline.outer or not pipeline.stream:
        return False
    return not pipeline.between or max(stage.slices for stage in pipeline.stages) <= FEW


def code_of(pipeline: Pipeline, columns: int, rows: int) -> int:
    """Instructions that the pipeline's body computes with, once all is written out for `columns` of a
    lane and `rows` (those of a window, times those of a tile that a warp holds)."""
    return sum(_stage(stage) for stage in pipeline.stages) * columns * rows


def _stage(stage: Stage) -> int:
    if stage.step is None:
        return SMALL
    return sum(size_of(s.value) for s in stage.step.placed.unit.statements)


def size_of(expr: Expr) -> int:
    """Instructions that an expression becomes, its loads' subscripts aside."""
    match expr:
        case Load():
            return SMALL
        case Const() | Iter() | Symbol():
            return 0
        case Call(function=function):
            own = _function(function, expr.dtype)
        case Binary(op=op) if op in FUNCTIONS:
            own = _function(op, expr.dtype) if expr.dtype.is_float else INTEGER_DIVISION
        case Cast(operand=operand):
            own = SATURATION if operand.dtype.is_float and expr.dtype.is_integer else SMALL
        case Fma() | Unary() | Binary():
            own = SMALL
        case _:
            own = SMALL
    return own + sum(size_of(child) for child in children(expr))


def _function(name: str, dtype: DType) -> int:
    if name in ops.APPROXIMATE:
        return int(ops.BY_NAME[name].gpu.single)
    single, double = FUNCTIONS.get(name, (OTHER_FUNCTION, 2 * OTHER_FUNCTION))
    return double if dtype is DType.F64 else single
