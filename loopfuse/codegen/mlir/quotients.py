"""Quotients of several numbers by one: multiplied by its reciprocal, and corrected.

`div.rn` of an f32 is some fourteen instructions and a branch; behind branches one waits for the other. Of a
reciprocal r of s that is rounded correctly, the corrected quotient `fma(fma(-s, p, a), r, p)` with `p = a * r` has the bits of
`a / s` (Markstein) where nothing on the way is subnormal or overflows: where s lies in 2**-28..2**28 and |a| in 2**-63..2**64.
(Its proof leaves quotients beside the middle of two numbers; `tests/codegen/test_together.py` tries all that are so near that
they could go wrong.) One test says whether all dividends are such numbers. 0 is rare, but needs no division.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loopfuse.codegen.build import F32, I32, Builder
from loopfuse.codegen.ir import Block, Operation, Value

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
