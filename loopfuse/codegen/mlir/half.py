"""Conversions to and from f16 and bf16: the same bits everywhere.

An f32 becomes an f16 or bf16 on a GPU, and an f16 on most CPUs (F16C, ARM), by one instruction that
rounds once. Everything else is integer code of our own: LLVM's own lowering on a CPU calls library
functions that may be missing, flushes subnormals (those of bf16) or rounds twice, depending on the
machine.
"""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.codegen.build import BF16, F16, F32, F64, I16, I32, I64, Builder, lanes_of
from loopfuse.codegen.ir import Value

MANTISSA = {DType.F16: 10, DType.BF16: 7, DType.F32: 23, DType.F64: 52}
BIAS = {DType.F16: 15, DType.BF16: 127, DType.F32: 127, DType.F64: 1023}
_TYPE = {DType.F16: F16, DType.BF16: BF16}


class _Words:
    """Integer operations on values of one width, scalar or in lanes."""

    def __init__(self, builder: Builder, like: Value) -> None:
        self.builder, self.kind = builder, like.type

    def constant(self, value: int) -> Value:
        return self.builder.constant(value, self.kind)

    def op(self, name: str, a: Value, b: Value | int) -> Value:
        return self.builder.binary(name, a, self.constant(b) if isinstance(b, int) else b)

    def test(self, predicate: str, a: Value, b: Value | int) -> Value:
        other = self.constant(b) if isinstance(b, int) else b
        return self.builder.compare(predicate, a, other)


def round_half(builder: Builder, value: Value, before: DType, after: DType) -> Value:
    """An f32 or f64 as an f16 or bf16, rounded once to nearest even; a NaN stays one, quiet.

    A normal result is the source's bits, re-biased, with half a unit added and cut off: the carry
    goes into the exponent, and past the largest number to infinity. For a subnormal one, adding a
    power of two whose last place is the result's does the rounding.
    """
    wide, float_type = (I32, F32) if before is DType.F32 else (I64, F64)
    bits = builder.convert("bitcast", value, wide)
    words = _Words(builder, bits)
    width, mantissa, kept = before.bits, MANTISSA[before], MANTISSA[after]
    shift, bias = mantissa - kept, BIAS[before] - BIAS[after]
    infinity = ((1 << (after.bits - 1 - kept)) - 1) << kept
    size = words.op("andi", bits, (1 << (width - 1)) - 1)
    moved = words.op("subi", size, bias << mantissa) if bias else size
    odd = words.op("andi", words.op("shrui", moved, shift), 1)
    result = words.op("addi", words.op("addi", moved, (1 << (shift - 1)) - 1), odd)
    result = words.op("minui", words.op("shrui", result, shift), infinity)
    if bias:
        exponent = 1 - BIAS[after] - kept + mantissa
        magic = builder.constant(2.0**exponent, value.type)
        sum_ = builder.binary("addf", builder.convert("bitcast", size, float_type), magic)
        start = (exponent + BIAS[before]) << mantissa
        small = words.op("subi", builder.convert("bitcast", sum_, wide), start)
        is_small = words.test("ult", size, (bias + 1) << mantissa)
        result = builder.select(is_small, small, result)
    quiet = words.op("ori", words.op("andi", words.op("shrui", size, shift), infinity ^ 0x7FFF), 1 << (kept - 1))
    quiet = words.op("ori", quiet, infinity)
    is_nan = words.test("ugt", size, ((1 << (width - 1 - mantissa)) - 1) << mantissa)
    result = builder.select(is_nan, quiet, result)
    sign = words.op("andi", words.op("shrui", bits, width - 16), 0x8000)
    short = builder.convert("trunci", words.op("ori", result, sign), I16)
    return builder.convert("bitcast", short, _TYPE[after])


def widen_half(builder: Builder, value: Value, before: DType) -> Value:
    """An f16 or bf16 as an f32, exactly."""
    bits = builder.convert("extui", builder.convert("bitcast", value, I16), I32)
    words = _Words(builder, bits)
    if before is DType.BF16:
        return builder.convert("bitcast", words.op("shli", bits, 16), F32)
    size = words.op("shli", words.op("andi", bits, 0x7FFF), 13)
    bias = (127 - 15) << 23
    normal = words.op("addi", size, bias)
    # An exponent of all ones stays one.
    special = words.test("uge", size, 0x1F << 23)
    normal = builder.select(special, words.op("addi", normal, bias), normal)
    # A subnormal is its mantissa times 2**-24; the mantissa lies 13 bits up here.
    scale = 2.0**-37
    small = builder.convert("sitofp", size, F32)
    small = builder.binary("mulf", small, builder.constant(scale, small.type))
    is_small = words.test("ult", size, 1 << 23)
    result = builder.select(is_small, builder.convert("bitcast", small, I32), normal)
    sign = words.op("shli", words.op("andi", bits, 0x8000), 16)
    return builder.convert("bitcast", words.op("ori", result, sign), F32)


def integer_to_half(builder: Builder, value: Value, before: DType, after: DType) -> Value:
    """An integer of 32 or 64 bits as an f16 or bf16, rounded once.

    An f64 holds one of 32 bits. Of a longer one whose magnitude needs more than 53 bits, the low 12
    only count as "there are some", in the last bit that an f64 keeps.
    """
    word = "sitofp" if before.is_signed else "uitofp"
    if before.bits == 64:
        words = _Words(builder, value)
        fits = (
            words.test("ult", words.op("addi", value, 1 << 53), 1 << 54)
            if before.is_signed
            else words.test("ult", value, 1 << 53)
        )
        some = words.test("ne", words.op("andi", value, 0xFFF), 0)
        cut = words.op("andi", value, ~0xFFF)
        cut = builder.select(some, words.op("ori", cut, 0x800), cut)
        value = builder.select(fits, value, cut)
    return round_half(builder, builder.convert(word, value, F64), DType.F64, after)


def cast_half(
    builder: Builder, value: Value, before: DType, after: DType, converted: frozenset[DType]
) -> Value:
    """To an f16 or bf16 `after`; from one, as far as an f32. `converted`: those of the two that the
    machine has instructions for."""
    if before.is_narrow_float:
        value = _widen(builder, value, before) if before in converted else widen_half(builder, value, before)
        before = DType.F32
    if not after.is_narrow_float:
        return value
    if not before.is_float and before.bits <= 16:
        word = "sitofp" if before.is_signed else "uitofp"
        value, before = builder.convert(word, value, F32), DType.F32  # exact
    if not before.is_float:
        return integer_to_half(builder, value, before, after)
    if after in converted and before is DType.F32:
        return builder.convert("truncf", value, _TYPE[after])
    return round_half(builder, value, before, after)


def _widen(builder: Builder, value: Value, before: DType) -> Value:
    """An f16 or bf16 as an f32, by the machine's instruction."""
    lanes = lanes_of(value.type)
    if before is DType.BF16 and lanes and lanes % 2 == 0:
        return _widen_pairs(builder, value)
    return builder.convert("extf", value, F32)


def _widen_pairs(builder: Builder, value: Value) -> Value:
    """A vector of bf16 as f32: each word of 32 bits holds two, the first in its lower half. ptxas
    takes a word apart before it converts the upper half: two instructions for one."""
    both = builder.recast(value, I32)
    words = _Words(builder, both)
    halves = words.op("shli", both, 16), words.op("andi", both, -1 << 16)
    places = range(lanes_of(both.type))
    parts = [builder.extract(half, place) for place in places for half in halves]
    return builder.recast(builder.from_elements(parts), F32)
