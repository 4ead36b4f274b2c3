"""What the core has one word for and upstream none, in `arith` and `math`."""

from __future__ import annotations

from loopfuse.codegen.build import Builder
from loopfuse.codegen.ir import Operation, Value

_ENDLESS = float("inf")


def hypot(builder: Builder, a: Value, b: Value) -> Value:
    """m sqrt(1 + (n/m)^2), m the greater of both sizes."""
    zero, one, endless = (builder.constant(number, a.type) for number in (0.0, 1.0, _ENDLESS))
    first, second = builder.unary("absf", a), builder.unary("absf", b)
    most, least = (builder.binary(word, first, second) for word in ("maximumf", "minimumf"))
    ratio = builder.binary("divf", least, most)
    root = builder.unary("sqrt", builder.fma(ratio, ratio, one))
    level = builder.compare("oeq", least, zero)
    found = builder.select(level, most, builder.binary("mulf", most, root))
    for size in (first, second):
        found = builder.select(builder.compare("oeq", size, endless), endless, found)
    return found


def approximate(builder: Builder, operation: str, *operands: Value) -> Value:
    """An operation of `fp="native"`, with the flag that allows an approximation of it."""

    def word(name: str, *values: Value) -> Value:
        return builder.add(Operation(name, values, (values[0].type,), {"fastmath": "afn"}))

    x, *_ = operands
    match operation.removesuffix(".approx"):
        case "rcp":
            return word("arith.divf", builder.constant(1.0, x.type), x)
        case "log2p1":
            return word("math.log2", builder.binary("addf", x, builder.constant(1.0, x.type)))
        case "pow":
            return word("math.powf", *operands)
        case name:
            return word(f"math.{name}", x)


def float_floordiv(builder: Builder, a: Value, b: Value) -> Value:
    """From the exact remainder, so that it agrees with `%` (`floor(a / b)` rounds first)."""
    zero, one, half = (builder.constant(number, a.type) for number in (0.0, 1.0, 0.5))
    whole, rest = builder.binary("divf", a, b), builder.binary("remf", a, b)
    exact = builder.binary("divf", builder.binary("subf", a, rest), b)
    uneven = builder.compare("une", rest, zero)
    apart = builder.binary("xori", builder.compare("olt", rest, zero), builder.compare("olt", b, zero))
    both = builder.binary("andi", uneven, apart)
    quotient = builder.select(both, builder.binary("subf", exact, one), exact)
    floor = builder.unary("floor", quotient)
    far = builder.compare("ogt", builder.binary("subf", quotient, floor), half)
    near = builder.select(far, builder.binary("addf", floor, one), floor)
    nothing = builder.compare("oeq", quotient, zero)
    finite = builder.select(nothing, _copysign(builder, zero, whole), near)
    return builder.select(builder.compare("oeq", b, zero), whole, finite)


def float_mod(builder: Builder, a: Value, b: Value) -> Value:
    """fmod, moved to the divisor's sign."""
    rest = builder.binary("remf", a, b)
    zero, one = builder.constant(0.0, a.type), builder.constant(1.0, a.type)
    apart = builder.compare("one", _copysign(builder, one, rest), _copysign(builder, one, b))
    moved = builder.select(apart, builder.binary("addf", rest, b), rest)
    return builder.select(builder.compare("oeq", rest, zero), _copysign(builder, rest, b), moved)


def integer_division(builder: Builder, op: str, a: Value, b: Value, signed: bool) -> Value:
    """`floordiv`, `mod`, or `fmod` with C's sign; by zero gives 0."""
    zero, one = builder.constant(0, a.type), builder.constant(1, a.type)
    is_zero = builder.compare("eq", b, zero)
    safe = builder.select(is_zero, one, b)
    if op == "fmod":
        found = builder.binary("remsi" if signed else "remui", a, safe)
    else:
        found = builder.binary("floordivsi" if signed else "divui", a, safe)
        if op == "mod":
            found = builder.binary("subi", a, builder.binary("muli", found, safe))
    return builder.select(is_zero, zero, found)


def shift(builder: Builder, op: str, a: Value, b: Value, signed: bool) -> Value:
    """`shl` or `shr`; by the width or more (or a negative number) gives 0."""
    word = "shli" if op == "shl" else f"shr{'s' if signed else 'u'}i"
    inside = builder.compare("ult", b, builder.constant(a.type.bits, a.type))
    return builder.select(inside, builder.binary(word, a, b), builder.constant(0, a.type))


def index_operation(builder: Builder, op: str, a: Value, b: Value) -> Value:
    """One operation on index values; divisors are not 0."""
    if op == "mod":
        quotient = builder.binary("floordivsi", a, b)
        return builder.binary("subi", a, builder.binary("muli", quotient, b))
    return builder.binary({"min": "minsi", "max": "maxsi", "floordiv": "floordivsi"}.get(op, f"{op}i"), a, b)


def edge(builder: Builder, mode: str, index: Value, size: Value) -> Value:
    """Where an edge mode sends a subscript of a dimension of so many elements."""
    if mode == "zero":
        return index
    if mode == "wrap":
        return index_operation(builder, "mod", index, size)
    one, zero = builder.constant(1, index.type), builder.constant(0, index.type)
    last = builder.binary("subi", size, one)
    if mode == "clamp":
        return builder.binary("maxsi", builder.binary("minsi", index, last), zero)
    two = builder.constant(2, index.type)
    # reflect: period 2 (n - 1), at least 1; symmetric: period 2 n, mirrored about n - 1/2.
    span = last if mode == "reflect" else size
    period = builder.binary("maxsi", builder.binary("muli", span, two), one)
    place = index_operation(builder, "mod", index, period)
    mirror = period if mode == "reflect" else builder.binary("subi", period, one)
    return builder.binary("minsi", place, builder.binary("subi", mirror, place))


def _copysign(builder: Builder, a: Value, b: Value) -> Value:
    return builder.word("math.copysign", (a, b))


