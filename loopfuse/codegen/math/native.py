"""The operations of `lang.approximate` in MLIR: intrinsics of NVVM, and functions around them."""

from __future__ import annotations

from typing import Any

from loopfuse.codegen.build import F32, Builder
from loopfuse.codegen.ir import Value
from loopfuse.codegen.math.log import signs_of_power
from loopfuse.codegen.math.ops import Ops
from loopfuse.lang.approximate import INSTRUCTIONS, RECIPES, instruction_of


class _Native(Ops):
    """Scalars of f32, with the hardware's instructions."""

    def hardware(self, name: str, x: Value) -> Value:
        """One of `lang.approximate.INSTRUCTIONS`."""
        return self.builder.intrinsic(INSTRUCTIONS[name].intrinsic, [x], F32)


def emit_instruction(builder: Builder, operation: str, x: Value) -> Value | None:
    """The operation, where it is one instruction; None where it is a function."""
    found = instruction_of(operation)
    return None if found is None else builder.intrinsic(found.intrinsic, [x], F32)


def emit_approximate(operation: str, builder: Builder, *operands: Value) -> Value:
    """The body of a function that is the operation."""
    known = emit_instruction(builder, operation, operands[0])
    if known is not None:
        return known
    ops = _Native(builder, 32, 0)
    value: Any = RECIPES[operation](ops, *operands)
    if operation != "pow.approx":
        return value
    x, y = operands
    return signs_of_power(ops, x, y, value)
