"""The core's operations that are one operation of `arith` or `math`, or few: scalar or in SIMD lanes.

What needs more (divisions, shifts, signs, functions of our own) has a file of its own.
"""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import not_lowered
from loopfuse.codegen.build import VALUE, Builder, intrinsic_suffix, like
from loopfuse.codegen.ir import Scalar, Value

_FLOAT = {
    "add": "addf",
    "sub": "subf",
    "mul": "mulf",
    "div": "divf",
    "min": "minimumf",
    "max": "maximumf",
}
_INTEGER = {"add": "addi", "sub": "subi", "mul": "muli", "and": "andi", "or": "ori", "xor": "xori"}
_DIRECT = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}


def value_type(dtype: DType) -> Scalar:
    """The type that values of `dtype` have; a bool is an i1."""
    kind = VALUE.get(dtype)
    if kind is None:
        raise not_lowered(f"{dtype.value} values")
    return kind


def unary(builder: Builder, op: str, value: Value, dtype: DType) -> Value:
    """`neg`, `not` of a bool, `invert` of bits."""
    if op == "neg" and dtype.is_float:
        return builder.unary("negf", value)
    if op == "neg":
        return builder.binary("subi", builder.constant(0, value.type), value)
    # All ones, which of an i1 is 1.
    return builder.binary("xori", value, builder.constant(-1, value.type))


def binary(builder: Builder, op: str, a: Value, b: Value, dtype: DType) -> Value | None:
    """A binary operation on values of one type and shape that is one of `arith`; None for others."""
    if dtype.is_float:
        word = _FLOAT.get(op)
    elif op in ("min", "max", "fmin", "fmax"):
        word = f"{op[-3:]}{'s' if dtype.is_signed else 'u'}i"
    else:
        word = _INTEGER.get(op)
    return None if word is None else builder.binary(word, a, b)


def direct(builder: Builder, function: str, value: Value, dtype: DType) -> Value | None:
    """A function of one argument that is one operation of `math`; None for others."""
    if function == "abs":
        if dtype.is_unsigned:
            return value
        return builder.unary("absf" if dtype.is_float else "absi", value)
    word = _DIRECT.get(function)
    return None if word is None else builder.unary(word, value)


def predicate(op: str, dtype: DType) -> str:
    """What a comparison of values of `dtype` is called in `arith`: false for NaNs, `ne` true."""
    if dtype.is_float:
        return "une" if op == "ne" else f"o{op}"
    if op in ("eq", "ne"):
        return op
    return f"{'s' if dtype.is_signed else 'u'}{op}"


def cast(builder: Builder, value: Value, before: DType, after: DType) -> Value:
    """A conversion: floats become integers as near as these go, integers lose their upper bits."""
    if before is after:
        return value
    kind = value_type(after)
    if after is DType.BOOL:
        zero = builder.constant(0.0 if before.is_float else 0, value.type)
        return builder.compare(predicate("ne", before), value, zero)
    if before.is_float and after.is_float:
        return builder.convert("extf" if before.bits < after.bits else "truncf", value, kind)
    if after.is_float:
        return builder.convert("sitofp" if before.is_signed else "uitofp", value, kind)
    if before.is_float:
        word = "fptosi" if after.is_signed else "fptoui"
        target = like(value.type, kind)
        name = f"llvm.{word}.sat.{intrinsic_suffix(target)}.{intrinsic_suffix(value.type)}"
        return builder.intrinsic(name, [value], target)
    if before is not DType.BOOL and before.bits == after.bits:
        return value
    if before is not DType.BOOL and before.bits > after.bits:
        return builder.convert("trunci", value, kind)
    return builder.convert("extsi" if before.is_signed else "extui", value, kind)
