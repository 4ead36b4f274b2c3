"""The small language our math functions are written in: `+ - * fma`, bit moves and selects.

An `Ops` fixes a shape (scalar or `vector<N>`) and a float type; every function is one straight
line of these operations, so each lane of each shape on each machine goes through the same
roundings. Nothing here may be reassociated or contracted: no operation carries a flag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopfuse.codegen.build import F32, F64, I32, I64, Builder, vector_type
from loopfuse.codegen.ir import Block, Operation, Value


class Ops:
    """Operations on values of one shape; `f` and `i` make constants."""

    def __init__(self, builder: Builder, bits: int, lanes: int) -> None:
        self.builder = builder
        self.bits = bits
        self.lanes = lanes
        element, integer = (F32, I32) if bits == 32 else (F64, I64)
        self.float_type = vector_type(element, lanes) if lanes else element
        self.int_type = vector_type(integer, lanes) if lanes else integer
        self.mantissa = 23 if bits == 32 else 52
        self.bias = 127 if bits == 32 else 1023

    def f(self, value: float | str) -> Value:
        """A float constant; text is hexadecimal."""
        number = float.fromhex(value) if isinstance(value, str) else float(value)
        return self.builder.constant(number, self.float_type)

    def i(self, value: int) -> Value:
        """An integer constant as wide as the float."""
        return self.builder.constant(value, self.int_type)

    # ------------------------------------------------------------------------------ floats

    def add(self, a: Value, b: Value) -> Value:
        """a + b, rounded."""
        return self.builder.binary("addf", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """a - b, rounded."""
        return self.builder.binary("subf", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """a * b, rounded."""
        return self.builder.binary("mulf", a, b)

    def div(self, a: Value, b: Value) -> Value:
        """a / b, correctly rounded."""
        return self.builder.binary("divf", a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, rounded once."""
        return self.builder.fma(a, b, c)

    def neg(self, a: Value) -> Value:
        """-a, exact."""
        return self.builder.unary("negf", a)

    def abs(self, a: Value) -> Value:
        """|a|, exact."""
        return self.builder.unary("absf", a)

    def minimum(self, a: Value, b: Value) -> Value:
        """The smaller; a NaN if either is one."""
        return self.builder.binary("minimumf", a, b)

    def maximum(self, a: Value, b: Value) -> Value:
        """The larger; a NaN if either is one."""
        return self.builder.binary("maximumf", a, b)

    def sqrt(self, a: Value) -> Value:
        """The square root, correctly rounded."""
        return self.builder.unary("sqrt", a)

    def horner(self, x: Value, coefficients: Sequence[str | float]) -> Value:
        """c0 + c1 x + c2 x^2 + ... by fma, the last coefficient first."""
        total = self.f(coefficients[-1])
        for each in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.f(each))
        return total

    # ---------------------------------------------------------------------- bits and choices

    def to_bits(self, a: Value) -> Value:
        """The float's bits as an integer."""
        return self.builder.convert("bitcast", a, I32 if self.bits == 32 else I64)

    def from_bits(self, a: Value) -> Value:
        """The float with these bits."""
        return self.builder.convert("bitcast", a, F32 if self.bits == 32 else F64)

    def to_float(self, a: Value) -> Value:
        """A (small) signed integer as a float, exact."""
        return self.builder.convert("sitofp", a, F32 if self.bits == 32 else F64)

    def int_op(self, name: str, a: Value, b: Value) -> Value:
        """An integer operation of `arith`, by name."""
        return self.builder.binary(name, a, b)

    def shift_left(self, a: Value, count: int) -> Value:
        """a with its bits moved up."""
        return self.int_op("shli", a, self.i(count))

    def less(self, a: Value, b: Value) -> Value:
        """a < b; false for a NaN."""
        return self.builder.compare("olt", a, b)

    def equal(self, a: Value, b: Value) -> Value:
        """a == b; false for a NaN."""
        return self.builder.compare("oeq", a, b)

    def unordered(self, a: Value) -> Value:
        """Whether a is a NaN."""
        return self.builder.compare("uno", a, a)

    def compare(self, predicate: str, a: Value, b: Value) -> Value:
        """Any comparison, by its MLIR predicate."""
        return self.builder.compare(predicate, a, b)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """a where the condition holds, else b."""
        return self.builder.select(condition, a, b)

    def rare(
        self,
        condition: Value,
        unusual: Callable[[], Sequence[Value]],
        usual: Sequence[Value],
    ) -> Sequence[Value]:
        """`unusual()` where the condition holds, else `usual`; it is skipped where no lane needs
        it, which changes no bits."""
        builder, any_lane = self.builder, condition
        if self.lanes:
            any_lane = builder.extract(condition, 0)
            for lane in range(1, self.lanes):
                any_lane = builder.binary("ori", any_lane, builder.extract(condition, lane))

        def arm(make: Callable[[], Sequence[Value]]) -> Block:
            def run() -> None:
                builder.block.add(Operation("scf.yield", tuple(make())))

            return builder.into(Block(), run)

        def chosen() -> Sequence[Value]:
            return [self.select(condition, a, b) for a, b in zip(unusual(), usual, strict=True)]

        arms = (arm(chosen), arm(lambda: usual))
        operation = Operation("scf.if", (any_lane,), [each.type for each in usual], blocks=arms)
        builder.block.add(operation)
        return operation.results

    # ------------------------------------------------------------------------ common pieces

    def power_of_two(self, n: Value) -> Value:
        """2**n for an integer n in the normal range, by setting exponent bits."""
        biased = self.int_op("addi", n, self.i(self.bias))
        return self.from_bits(self.int_op("shli", biased, self.i(self.mantissa)))

    def copysign(self, magnitude: Value, sign: Value) -> Value:
        """|magnitude| with the sign of `sign`."""
        top = -(1 << (self.bits - 1))
        bits = self.int_op("andi", self.to_bits(magnitude), self.i(~top))
        return self.from_bits(
            self.int_op("ori", bits, self.int_op("andi", self.to_bits(sign), self.i(top)))
        )

    def with_sign(self, magnitude: Value, sign: Value) -> Value:
        """As `copysign`, for a magnitude whose own sign is not set; of an f32 one instruction of a GPU."""
        if self.bits == 32 and not self.lanes:
            return self.builder.word("math.copysign", (magnitude, sign))
        top = self.int_op("andi", self.to_bits(sign), self.i(-(1 << (self.bits - 1))))
        return self.from_bits(self.int_op("ori", self.to_bits(magnitude), top))

    def two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """s + e = a + b exactly, s the rounded sum (Knuth)."""
        s = self.add(a, b)
        t = self.sub(s, a)
        return s, self.add(self.sub(a, self.sub(s, t)), self.sub(b, t))

    def fast_two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """As `two_sum`, for |a| >= |b| (Dekker)."""
        s = self.add(a, b)
        return s, self.sub(b, self.sub(s, a))

    def two_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        """p + e = a * b exactly, p the rounded product."""
        p = self.mul(a, b)
        return p, self.fma(a, b, self.neg(p))

    def round_to_integer(self, x: Value) -> tuple[Value, Value]:
        """x (|x| below 2**22 or 2**51) rounded to an integer, as a float and as an integer.

        Adding 1.5 * 2**mantissa leaves the integer in the low bits (no rounding instruction is
        needed, and NaNs or huge x give some integer, never a trap)."""
        shift = self.f(1.5 * 2.0**self.mantissa)
        moved = self.add(x, shift)
        number = self.int_op("subi", self.to_bits(moved), self.to_bits(shift))
        return self.sub(moved, shift), number
