"""What has no effect of its own: operations that are read as an expression where they are used.

A loop is one of them where it only carries a reduction, an `if` where its arms only compute.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import affine, func, memref
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Operation, SSAValue

from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.arith import Unread, dtype_of, is_constant
from loopfuse.frontend.mlir.ops import IFS, LOADS, LOOPS, arms_of, maker, starts_of
from loopfuse.frontend.mlir.state import State
from loopfuse.lang.semantics import neutral

_PURE = (affine.ApplyOp, affine.MinOp, memref.DimOp, affine.VectorLoadOp, *LOADS)
_PURE_NAMES = ("affine.max", "llvm.call_intrinsic", "vector.broadcast")
LARGEST_REGION = 400
"""Operations of a loop or `if` that becomes an expression."""

STEPS = {
    "arith.addf": "sum", "arith.addi": "sum", "arith.mulf": "prod", "arith.muli": "prod",
    "arith.minimumf": "min", "arith.minsi": "min", "arith.minui": "min", "arith.maximumf": "max",
    "arith.maxsi": "max", "arith.maxui": "max", "arith.ori": "any", "arith.andi": "all",
    "math.fma": "sum",
}  # fmt: skip
"""Operations that a reduction of the language repeats."""


def is_pure(state: State, op: Operation) -> bool:
    """Whether the operation is read as an expression where its result is used."""
    if op in state.pure:
        return state.pure[op]
    found = _judge(state, op)
    state.pure[op] = found
    return found


def _judge(state: State, op: Operation) -> bool:
    if (
        isinstance(op, _PURE)
        or op.name in _PURE_NAMES
        or op.name.split(".")[0] in ("arith", "math")
    ):
        return True
    if isinstance(op, func.CallOp):
        return len(op.results) == 1
    if isinstance(op, IFS) and op.results:
        regions = arms_of(op)
        return all(
            region.blocks
            and len(region.block.ops) <= LARGEST_REGION
            and all(is_pure(state, each) for each in list(region.block.ops)[:-1])
            for region in regions
        )
    if isinstance(op, LOOPS):
        return carried_reduction_of(state, op) is not None
    return False


def carried_reduction_of(state: State, op: Any) -> tuple[list[Any], Operation, SSAValue] | None:
    """The loops, the step and the accumulator, where `op` is loops that carry one reduction:
    the step is `accumulator op e`, and nothing else uses the accumulator."""
    loops: list[Any] = []
    outer = op
    while True:
        if len(outer.results) != 1:
            return None
        loops.append(outer)
        block = outer.body.block
        accumulator = block.args[1]
        ops = list(block.ops)
        if len(ops) > LARGEST_REGION:
            return None
        last = maker(ops[-1].operands[0])
        if isinstance(last, LOOPS) and last.parent_block() is block:
            start = starts_of(last)[0] if starts_of(last) else None
            if (
                start is accumulator
                and len(list(accumulator.uses)) == 1
                and all(each is last or is_pure(state, each) for each in ops[:-1])
            ):
                outer = last
                continue
            return None
        break
    if last is None or last.parent_block() is not block or last.name not in STEPS:
        return None
    position = 2 if last.name == "math.fma" else 0
    if last.operands[position] is not accumulator:
        if last.name == "math.fma" or last.operands[1] is not accumulator:
            return None
        if last.name not in ("arith.addf", "arith.addi", "arith.mulf", "arith.muli"):
            return None
    if len(list(accumulator.uses)) != 1 or len(list(last.results[0].uses)) != 1:
        return None
    if not all(is_pure(state, each) for each in ops[:-1]):
        return None
    kind = STEPS[last.name]
    try:
        dtype = dtype_of(op.results[0].type)
    except Unread:
        return None
    if kind in ("any", "all") and dtype is not DType.BOOL:
        return None
    if kind in ("sum", "prod") and dtype not in (DType.F32, DType.F64, DType.I64):
        return None  # the language adds up narrow types in wider ones
    if "ui" in last.name[-3:] or isinstance(op.results[0].type, (IndexType, VectorType)):
        return None
    start = starts_of(loops[0])[0]
    if not is_constant(start, neutral(kind, dtype)):
        return None
    return loops, last, accumulator
