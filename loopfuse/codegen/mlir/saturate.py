"""f32 to u8 and u16 on the GPU, without its slow conversions.

    before:  u8(round(min(max(x, 0.0), 255.0)))
    after:   the low byte of the bits of  minnum(maxnum(x, 0.0), 255.0) + 8388608.0

A cast saturates, so that limits which the type has anyway are left away, and those that the value
never passes (`value_ranges`: sums of bytes); NaN gives 0, which is what `maxnum` gives. Numbers
from 2^23 on have steps of 1: adding it rounds to the nearest and leaves the integer in the lowest
bits (an old trick; exact for 0 <= x <= 2^22). Only `round` is done this way: truncation by `add.rz`
gave 255 for u8(0.0) on an H100 (tests/gpu/test_types_gpu.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.dtypes import DType
from loopfuse.codegen.build import I32, VALUE, Builder
from loopfuse.codegen.ir import Value
from loopfuse.codegen.select.value_ranges import Range
from loopfuse.lang import nodes

_STEP = 8388608.0


@dataclass(frozen=True, slots=True)
class Saturation:
    """A cast of `value`, rounded to the nearest, to an unsigned type of `bits`."""

    value: nodes.Expr
    bits: int


def saturation_of(expr: nodes.Cast) -> Saturation | None:
    """The cast as one, if it is: of f32, to u8 or u16."""
    if expr.operand.dtype is not DType.F32 or expr.dtype not in (DType.U8, DType.U16):
        return None
    value, rounded, high = expr.operand, False, (1 << expr.dtype.bits) - 1
    while True:
        match value:
            case nodes.Call(function="round", arguments=(inner,)) if not rounded:
                value, rounded = inner, True
            case nodes.Binary(op="min", left=inner, right=nodes.Const(value=limit)) if limit >= high:
                value = inner
            case nodes.Binary(op="min", left=nodes.Const(value=limit), right=inner) if limit >= high:
                value = inner
            case nodes.Binary(op="max", left=inner, right=nodes.Const(value=limit)) if limit <= 0:
                value = inner
            case nodes.Binary(op="max", left=nodes.Const(value=limit), right=inner) if limit <= 0:
                value = inner
            case _:
                return Saturation(value, expr.dtype.bits) if rounded else None


def saturate(builder: Builder, cast: Saturation, value: Value, known: Range | None) -> Value:
    """The cast of `value`, scalar or a vector, which is known to lie in a range."""
    high = float((1 << cast.bits) - 1)
    if known is None or known.low < 0:
        value = builder.binary("maxnumf", value, builder.constant(0.0, value.type))
    if known is None or known.high > high:
        value = builder.binary("minnumf", value, builder.constant(high, value.type))
    moved = builder.binary("addf", value, builder.constant(_STEP, value.type))
    bits = builder.convert("bitcast", moved, I32)
    return builder.convert("trunci", bits, VALUE[DType.U8 if cast.bits == 8 else DType.U16])
