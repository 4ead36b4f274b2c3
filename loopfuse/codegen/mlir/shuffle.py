"""Shuffles: a value of another lane of the warp."""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.codegen.build import I16, I32, VALUE
from loopfuse.codegen.ir import Operation, Value
from loopfuse.codegen.mlir.emit import Emitter


def shuffle(emitter: Emitter, mode: str, value: Value, offset: Value) -> Value:
    """`gpu.shuffle` over the whole warp."""
    width = emitter.builder.constant(32, I32)
    return emitter.builder.add(
        Operation(
            "gpu.shuffle", (value, offset, width), (value.type, VALUE[DType.BOOL]), {"mode": mode}
        )
    )


def shuffled(
    emitter: Emitter, mode: str, value: Value, offset: Value, dtype: DType
) -> Value:
    """`value` of another lane, of any type: what is narrower than 32 bits travels in 32."""
    builder = emitter.builder
    if value.type is VALUE[DType.BOOL]:
        wide = shuffle(emitter, mode, builder.convert("extui", value, I32), offset)
        return builder.compare("ne", wide, builder.constant(0, I32))
    if dtype.bits < 32:
        kind = value.type
        bits = builder.convert("bitcast", value, I16) if dtype.is_float else value
        wide = shuffle(emitter, mode, builder.convert("extui", bits, I32), offset)
        narrow = builder.convert("trunci", wide, bits.type)
        return builder.convert("bitcast", narrow, kind) if dtype.is_float else narrow
    return shuffle(emitter, mode, value, offset)
