"""f32 to u8 and u16 on the GPU, without its slow conversions.

    before:  u8(round(min(max(x, 0.0), 255.0)))     (truncation and the like: as ever)
    after:   the low byte of the bits of  minnum(maxnum(x, 0.0), 255.0) + 8388608.0

A cast saturates, so that limits which the type has anyway are left away; NaN gives 0, which is what
`maxnum` gives. Numbers from 2^23 on have steps of 1: adding it rounds, in the direction of the
addition, and leaves the integer in the lowest bits (an old trick; exact for 0 <= x <= 2^22).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from loopfuse.base.dtypes import DType
from loopfuse.codegen.mlir_build import F32, I32, VALUE, Builder, lanes_of
from loopfuse.lang import nodes

_DIRECTIONS = {"round": "rn", "trunc": "rz", "floor": "rz", "ceil": "rp"}
"""How an addition rounds what is not negative as the function does."""
_STEP = 8388608.0


@dataclass(frozen=True, slots=True)
class Saturation:
    """A cast of `value`, rounded in `direction` (of PTX's), to an unsigned type of `bits`."""

    value: nodes.Expr
    direction: str
    bits: int


def saturation_of(expr: nodes.Cast) -> Saturation | None:
    """The cast as one, if it is: of f32, to u8 or u16."""
    if expr.operand.dtype is not DType.F32 or expr.dtype not in (DType.U8, DType.U16):
        return None
    value, direction, high = expr.operand, "", (1 << expr.dtype.bits) - 1
    while True:
        match value:
            case nodes.Call(function=function, arguments=(inner,)) if (
                function in _DIRECTIONS and not direction
            ):
                value, direction = inner, _DIRECTIONS[function]
            case nodes.Binary(op="min", left=inner, right=nodes.Const(value=limit)) if limit >= high:
                value = inner
            case nodes.Binary(op="min", left=nodes.Const(value=limit), right=inner) if limit >= high:
                value = inner
            case nodes.Binary(op="max", left=inner, right=nodes.Const(value=limit)) if limit <= 0:
                value = inner
            case nodes.Binary(op="max", left=nodes.Const(value=limit), right=inner) if limit <= 0:
                value = inner
            case _:
                # Truncation with `add.rz` gave 255 for u8(0.0) on an H100 (tests/gpu/test_types_gpu.py):
                # until that is understood only rounding to nearest is done this way.
                return Saturation(value, direction, expr.dtype.bits) if direction == "rn" else None


def saturate(builder: Builder, cast: Saturation, value: SSAValue) -> SSAValue:
    """The cast of `value`, scalar or a vector."""
    lanes = lanes_of(value.type)
    if lanes and cast.direction != "rn":  # the intrinsic has no vectors
        parts = [saturate(builder, cast, builder.extract(value, k)) for k in range(lanes)]
        return builder.from_elements(parts)
    low, high = (builder.constant(limit, value.type) for limit in (0.0, float((1 << cast.bits) - 1)))
    inside = builder.binary("minnumf", builder.binary("maxnumf", value, low), high)
    step = builder.constant(_STEP, value.type)
    if cast.direction == "rn":
        moved = builder.binary("addf", inside, step)
    else:
        moved = builder.intrinsic(f"llvm.nvvm.add.{cast.direction}.f", [inside, step], F32)
    bits = builder.convert("bitcast", moved, I32)
    return builder.convert("trunci", bits, VALUE[DType.U8 if cast.bits == 8 else DType.U16])
