"""Shuffles: a value of another lane of the warp."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from loopfuse.base.dtypes import DType
from loopfuse.codegen.mlir_build import I16, I32, VALUE, ShuffleOp
from loopfuse.codegen.mlir_emit import Emitter


def shuffle(emitter: Emitter, mode: str, value: SSAValue, offset: SSAValue) -> SSAValue:
    """`gpu.shuffle` over the whole warp."""
    width = emitter.builder.constant(32, I32)
    return emitter.builder.add(
        ShuffleOp.create(
            operands=(value, offset, width),
            result_types=(value.type, VALUE[DType.BOOL]),
            properties={"mode": StringAttr(mode)},
        )
    )


def shuffled(
    emitter: Emitter, mode: str, value: SSAValue, offset: SSAValue, dtype: DType
) -> SSAValue:
    """`value` of another lane, of any type: what is narrower than 32 bits travels in 32."""
    builder = emitter.builder
    if value.type == VALUE[DType.BOOL]:
        wide = shuffle(emitter, mode, builder.convert("extui", value, I32), offset)
        return builder.compare("ne", wide, builder.constant(0, I32))
    if dtype.bits < 32:
        kind = value.type
        bits = builder.convert("bitcast", value, I16) if dtype.is_float else value
        wide = shuffle(emitter, mode, builder.convert("extui", bits, I32), offset)
        narrow = builder.convert("trunci", wide, bits.type)
        return builder.convert("bitcast", narrow, kind) if dtype.is_float else narrow
    return shuffle(emitter, mode, value, offset)
