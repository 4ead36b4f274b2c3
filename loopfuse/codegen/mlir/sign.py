"""`sign` and `copysign`, in a few operations of the target."""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.codegen.build import Builder
from loopfuse.codegen.ir import Value
from loopfuse.codegen.math.ops import Ops


def copysign(builder: Builder, bits: int, lanes: int, a: Value, b: Value) -> Value:
    """|a| with the sign of b, whatever they are."""
    return Ops(builder, bits, lanes).copysign(a, b)


def sign(builder: Builder, value: Value, dtype: DType) -> Value:
    """-1, 0 or 1 in the value's type; a NaN stays, and -0.0 gives 0.0."""
    kind = value.type

    def number(value: int) -> Value:
        return builder.constant(float(value) if dtype.is_float else value, kind)

    zero, one = number(0), number(1)
    above, below = ("ogt", "olt") if dtype.is_float else ("sgt", "slt")
    if dtype.is_unsigned:
        return builder.select(builder.compare("ne", value, zero), one, zero)
    rest = zero
    if dtype.is_float:
        rest = builder.select(builder.compare("uno", value, value), value, zero)
    rest = builder.select(builder.compare(below, value, zero), number(-1), rest)
    return builder.select(builder.compare(above, value, zero), one, rest)
