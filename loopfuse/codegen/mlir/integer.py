"""Integer division and shifts without traps or undefined results, scalar or vector."""

from __future__ import annotations

from loopfuse.codegen.build import Builder, bits_of, element_type
from loopfuse.codegen.ir import Operation, Value


def divide(builder: Builder, op: str, a: Value, b: Value, signed: bool) -> Value:
    """`floordiv` or `mod`, flooring; by zero gives 0 and the least number by -1 wraps.

    The divisors 0 and (if signed) -1 are replaced by 1 before the division, since x86 traps on
    both, and their results selected afterwards.
    """
    kind = a.type
    constant = _constant(b)
    if constant is not None and constant > 0:
        if not signed:
            return builder.binary("divui" if op == "floordiv" else "remui", a, b)
        quotient = builder.binary("floordivsi", a, b)
        if op == "floordiv":
            return quotient
        return builder.binary("subi", a, builder.binary("muli", quotient, b))
    zero, one = builder.constant(0, kind), builder.constant(1, kind)
    is_zero = builder.compare("eq", b, zero)
    if not signed:
        safe = builder.select(is_zero, one, b)
        value = builder.binary("divui" if op == "floordiv" else "remui", a, safe)
        return builder.select(is_zero, zero, value)
    is_minus = builder.compare("eq", b, builder.constant(-1, kind))
    safe = builder.select(builder.binary("ori", is_zero, is_minus), one, b)
    quotient = builder.binary("floordivsi", a, safe)
    if op == "floordiv":
        quotient = builder.select(is_minus, builder.binary("subi", zero, a), quotient)
        return builder.select(is_zero, zero, quotient)
    # With the divisor replaced by 1, the remainder is 0: right for both 0 and -1.
    return builder.binary("subi", a, builder.binary("muli", quotient, safe))


def remainder(builder: Builder, a: Value, b: Value, signed: bool) -> Value:
    """C's `%`, with the sign of `a`; by zero gives 0."""
    found = divide(builder, "mod", a, b, signed)
    if not signed:
        return found
    zero = builder.constant(0, a.type)
    apart = builder.compare("slt", builder.binary("xori", found, a), zero)
    moved = builder.select(apart, builder.binary("subi", found, b), found)
    return builder.select(builder.compare("eq", found, zero), zero, moved)


def shift(builder: Builder, op: str, a: Value, b: Value, signed: bool) -> Value:
    """`shl` or `shr`; by the width or more (or a negative number) gives 0."""
    kind = a.type
    bits = bits_of(element_type(kind))
    word = "shli" if op == "shl" else ("shrsi" if signed else "shrui")
    constant = _constant(b)
    zero = builder.constant(0, kind)
    if constant is not None:
        return builder.binary(word, a, b) if 0 <= constant < bits else zero
    if bits == 64:
        # Seen on a GPU: LLVM 22 turns the choice below into a PTX shift, which gives 0 by itself
        # for great amounts, but takes only the low 32 bits of this one.
        b = builder.binary("minui", b, builder.constant(bits, kind))
    inside = builder.compare("ult", b, builder.constant(bits, kind))
    safe = builder.select(inside, b, zero)
    return builder.select(inside, builder.binary(word, a, safe), zero)


def _constant(value: Value) -> int | None:
    """The number that a constant holds in every lane, else None."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.name != "arith.constant":
        return None
    number = owner.properties["value"]
    return None if isinstance(number, tuple) else int(number)
