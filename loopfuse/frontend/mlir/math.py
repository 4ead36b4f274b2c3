"""Operations of upstream's `math` that xDSL lacks."""

from __future__ import annotations

from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloatConstr, IntegerType
from xdsl.ir import Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure


class _Test(IRDLOperation):
    operand = operand_def(AnyFloatConstr)
    result = result_def(IntegerType(1))
    traits = traits_def(Pure())


@irdl_op_definition
class IsNaNOp(_Test):
    """`math.isnan`: whether a float is no number."""

    name = "math.isnan"
    assembly_format = "$operand attr-dict `:` type($operand)"


@irdl_op_definition
class IsInfOp(_Test):
    """`math.isinf`: whether a float is an infinity."""

    name = "math.isinf"
    assembly_format = "$operand attr-dict `:` type($operand)"


@irdl_op_definition
class IsFiniteOp(_Test):
    """`math.isfinite`: whether a float is a finite number."""

    name = "math.isfinite"
    assembly_format = "$operand attr-dict `:` type($operand)"


MATH = Dialect(
    "math",
    [*math.Math.operations, IsNaNOp, IsInfOp, IsFiniteOp],
    list(math.Math.attributes),
)
"""xDSL's dialect and what it lacks."""
