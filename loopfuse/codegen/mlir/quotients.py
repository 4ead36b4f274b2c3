"""Several quotients at once: multiplied by a reciprocal, and corrected.

`div.rn` of an f32 is some fourteen instructions and a branch; behind branches one waits for the other. Of a
reciprocal r of s that is rounded correctly, the corrected quotient `fma(fma(-s, p, a), r, p)` with `p = a * r` has the bits of
`a / s` (Markstein) where nothing on the way is subnormal or overflows: where s lies in 2**-28..2**28 and |a| in 2**-63..2**64.
(Its proof leaves quotients beside the middle of two numbers; `tests/codegen/test_together.py` tries all that are so near that
they could go wrong.) One test says whether all dividends are such numbers. 0 is rare, but needs no division.

`divided` has one divisor for all. `quotients` have one each, whose reciprocal is the machine's, corrected once: with
`e = fma(-s, r, 1)`, `fma(r, e, r)` is rounded correctly wherever neither s nor it is subnormal (`rcp.rn` does the same, behind a
branch of its own; tests/gpu/test_quotients_gpu.py tries all significands).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loopfuse.codegen.build import F32, I1, I32, Builder, lanes_of
from loopfuse.codegen.ir import Block, Operation, Value
from loopfuse.codegen.math.native import emit_instruction
from loopfuse.codegen.math.ops import Ops

_LEAST, _DIVISOR_LEAST, _DIVISOR_RANGE = 64, 127 - 28, 56
"""Exponents, as bits: of the least dividend, of the least divisor; how many those of divisors are. Those of dividends are 128."""


@dataclass(frozen=True, slots=True)
class Divisor:
    """One that several divisions share: its value, its reciprocal, and a number below 0 where it is rare."""

    value: Value
    reciprocal: Value
    rare: Value


def _exponents(builder: Builder, value: Value, least: int) -> Value:
    """Twice the bits of `value`, of which the sign then goes, less those of 2**least: an i32."""
    twice = builder.binary("shli", builder.convert("bitcast", value, I32), builder.constant(1, I32))
    return builder.binary("subi", twice, builder.constant(least << 24, I32))


def divisor_of(builder: Builder, value: Value) -> Divisor:
    """The divisor of that value."""
    moved = _exponents(builder, value, _DIVISOR_LEAST)
    usual = builder.compare("ult", moved, builder.constant(_DIVISOR_RANGE << 24, I32))
    rare = builder.select(usual, builder.constant(0, I32), builder.constant(-1, I32))
    return Divisor(value, builder.binary("divf", builder.constant(1.0, F32), value), rare)


def divided(
    builder: Builder, dividends: Sequence[Value], divisor: Divisor, name: str, tests: Sequence[Value] | None = None
) -> Sequence[Value]:
    """Each dividend over the divisor, correctly rounded; `name` is a function that divides. `tests`: numbers of which one is
    below 0 if a dividend is rare."""
    minus, zero, none = builder.unary("negf", divisor.value), builder.constant(0.0, F32), builder.constant(0, I32)

    def corrected(a: Value) -> Value:
        product = builder.binary("mulf", a, divisor.reciprocal)
        return builder.fma(builder.fma(minus, product, a), divisor.reciprocal, product)

    def careful(a: Value) -> Value:
        """(0 has its place here: what is masked is often 0.)"""
        is_zero = builder.compare("oeq", a, zero)
        is_plain = builder.binary("andi", is_zero, builder.compare("ogt", divisor.value, zero))
        value = builder.branch(is_plain, lambda: a, lambda: builder.call(name, [a, divisor.value], F32), F32)
        assert value is not None
        return value

    def arm(make: Callable[[Value], Value]) -> Block:
        """Of both, which share nothing: what is live are the dividends alone."""
        return builder.into(
            Block(), lambda: builder.block.add(Operation("scf.yield", tuple(map(make, dividends))))
        )

    any_rare = divisor.rare
    for each in tests or [_exponents(builder, each, _LEAST) for each in dividends]:
        any_rare = builder.binary("ori", any_rare, each)
    condition = builder.compare("slt", any_rare, none)
    choice = Operation("scf.if", (condition,), [F32] * len(dividends), {"rare": True}, blocks=(arm(careful), arm(corrected)))
    builder.block.add(choice)
    return choice.results


# ------------------------------------------------------------------------------------ a divisor each

_LEAST_INVERTED, _INVERTED_RANGE = 127 - 126, 2 * 126
"""Exponents, as bits: of the least number that is inverted; how many those of others are."""
_LEAST_OF_BOTH, _RANGE = 127 - 60, 2 * 60
"""The same of divisors and dividends."""


def quotients(
    builder: Builder, pairs: Sequence[tuple[Value, Value]], otherwise: Callable[[Value, Value], Value]
) -> Sequence[Value]:
    """Each first number over its second, all scalars of f32 or all vectors; `otherwise` divides where one of them is rare."""
    rare: Value | None = None
    for a, b in pairs:
        for test in _rare(builder, a, b):
            for lane in range(lanes_of(test.type)) or [None]:
                one = test if lane is None else builder.extract(test, lane)
                rare = one if rare is None else builder.binary("ori", rare, one)
    assert rare is not None

    def arm(make: Callable[[Value, Value], Value]) -> Block:
        return builder.into(
            Block(), lambda: builder.block.add(Operation("scf.yield", tuple(make(a, b) for a, b in pairs)))
        )

    arms = (arm(otherwise), arm(lambda a, b: _quotient(builder, a, b)))
    choice = Operation("scf.if", (rare,), [a.type for a, _ in pairs], {"rare": True}, blocks=arms)
    builder.block.add(choice)
    return choice.results


def _rare(builder: Builder, a: Value, b: Value) -> list[Value]:
    """What is true where `_quotient` may err. (Divisors below 0 are rare, since the sign of 0 over them would be lost: there are
    more programs that divide zeros.)"""
    ops = Ops(builder, 32, lanes_of(a.type))
    number = constant_of(a)

    def outside(bits: Value, least: int, most: int) -> Value:
        return builder.compare("ugt", ops.int_op("subi", bits, ops.i(least)), ops.i(most))

    def twice(x: Value) -> Value:
        return ops.shift_left(ops.to_bits(x), 1)

    if number is not None and abs(number) == 1.0:
        return [outside(twice(b), _LEAST_INVERTED << 24, _INVERTED_RANGE << 24)]
    tests = [outside(ops.to_bits(b), _LEAST_OF_BOTH << 23, _RANGE << 23)]
    least, most = 2.0 ** (_LEAST_OF_BOTH - 127), 2.0 ** (_LEAST_OF_BOTH + _RANGE - 127)
    if number is None:
        small = builder.compare("ult", ops.int_op("subi", twice(a), ops.i(1)), ops.i((_LEAST_OF_BOTH << 24) - 1))  # 0 is not
        tests += [small, builder.compare("ugt", ops.abs(a), ops.f(most))]
    elif not (number == 0.0 or least <= abs(number) <= most):
        tests.append(builder.constant(1, I1))
    return tests


def _quotient(builder: Builder, a: Value, b: Value) -> Value:
    ops = Ops(builder, 32, lanes_of(a.type))
    near = _approximate_reciprocal(builder, b)
    error = ops.fma(ops.neg(b), near, ops.f(1.0))
    reciprocal = ops.fma(near, error, near)
    number = constant_of(a)
    if number is not None and abs(number) == 1.0:
        return reciprocal if number > 0 else ops.neg(reciprocal)
    product = ops.mul(a, reciprocal)
    # (Of a = -0 and a = 0 the sign stays, other than with what is left of a: -0 - -0 is 0.)
    beyond = ops.fma(b, product, ops.neg(a))
    return ops.fma(ops.neg(beyond), reciprocal, product)


def _approximate_reciprocal(builder: Builder, value: Value) -> Value:
    """Within an ulp."""
    lanes = lanes_of(value.type)
    if lanes:
        return builder.from_elements([_approximate_reciprocal(builder, builder.extract(value, lane)) for lane in range(lanes)])
    found = emit_instruction(builder, "rcp", value)
    assert found is not None
    return found


def constant_of(value: Value) -> float | None:
    """The number that a value is, in all lanes."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return None
    return float(owner.properties["value"])
