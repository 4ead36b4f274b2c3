"""Kinds of operations of structured MLIR, and questions about them that no state is needed for.

`affine` and `scf` say the same things in different words: here they are one.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import affine, memref, scf
from xdsl.ir import Operation, Region, SSAValue

from loopfuse.base.dtypes import DType

LOADS = (affine.LoadOp, memref.LoadOp)
STORES = (affine.StoreOp, memref.StoreOp)
LOOPS = (affine.ForOp, scf.ForOp)
IFS = (affine.IfOp, scf.IfOp)
TERMINATORS = ("affine.yield", "scf.yield", "func.return")

UPDATES = {
    "arith.addf": "+", "arith.addi": "+", "arith.mulf": "*", "arith.muli": "*",
    "arith.minimumf": "min", "arith.minsi": "min", "arith.minui": "min",
    "arith.maximumf": "max", "arith.maxsi": "max", "arith.maxui": "max", "arith.ori": "|",
    "arith.andi": "&", "arith.xori": "^",
}  # fmt: skip
"""Operations `a op b` that the language writes as an assignment `a op= b`."""


def maker(value: SSAValue) -> Operation | None:
    """The operation that makes `value`."""
    return value.owner if isinstance(value.owner, Operation) else None


def arms_of(op: Any) -> list[Region]:
    """The regions of an `if`."""
    if isinstance(op, affine.IfOp):
        return [op.then_region, op.else_region]
    return [op.true_region, op.false_region]


def starts_of(op: Any) -> list[SSAValue]:
    """What the values that a loop carries are before it."""
    if isinstance(op, affine.ForOp):
        return list(op.inits)
    return list(op.iter_args)


def is_within(op: Operation, outer: Operation) -> bool:
    """Whether `op` is `outer` or stands in a region of it."""
    here: Operation | None = op
    while here is not None:
        if here is outer:
            return True
        here = here.parent_op()
    return False


def is_update(name: str, dtype: DType) -> bool:
    """Whether the operation on `dtype` is the language's update of that name."""
    if dtype.is_narrow_float:
        return True
    if name.endswith("ui"):
        return dtype.is_unsigned
    if name.endswith("si"):
        return dtype.is_integer and not dtype.is_unsigned
    if dtype is DType.BOOL:
        return name in ("arith.andi", "arith.ori", "arith.xori")
    return True
