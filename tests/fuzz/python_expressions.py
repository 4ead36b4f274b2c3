"""Expressions of random Python functions: text, with what is known of the value.

Integers stay inside their types and divisors are not zero; so that few functions are refused, a Python
number that is no f32 seldom meets one in `max`, a conditional or a branch.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from fuzz.python_builder import Array, Builder, Helper, Iterator
from fuzz.python_values import (
    B1,
    BOOL,
    F32,
    F64,
    FLOAT,
    INTEGERS,
    LIMIT,
    NUMPY,
    UNSIGNED,
    Value,
    cast,
    compares,
    fits,
    joined,
)

Typed = tuple[str, Value]
EXACT = ("0.5", "2.0", "0.0", "1.0", "0.25", "1.5", "-1.0", "3.0", "-0.75")
INEXACT = ("0.1", "0.3", "1.7", "3.14159", "-0.2", "1e-3")


def number(b: Builder, of: str = "") -> Typed:
    """A literal: an integer or a float."""
    if of == "int" or (not of and b.chance(2)):
        value = b.pick((1, 2, 3, 0, 5, 7, 10, -1, -3, 12))
        return _signed(str(value)), Value("int", value, value, literal=True, exact=True)
    if b.chance(3):
        return _signed(b.pick(INEXACT)), Value("float", literal=True)
    return _signed(b.pick(EXACT)), Value("float", literal=True, exact=True)


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


# ------------------------------------------------------------------------------------ elements


def subscript(b: Builder, dim: str, writes: bool = False) -> str:
    """One subscript inside an extent: an iterator, moved or folded; an integer held between the edges."""
    counting = [it for it in b.scope if it.dim == dim]
    if not counting:
        if b.chance(2) or writes:
            return b.pick(("0", f"{dim} - 1"))
        return _held(b, dim)
    it = b.pick(counting[::-1]) if b.chance(4) else counting[-1]
    form = 0 if writes or b.chance(2) else b.integer(0, 9)
    step = b.integer(1, 2)
    match form:
        case 1:
            step = min(step, it.below)
            return f"{it.name} - {step}" if step else it.name
        case 2:
            step = min(step, it.above)
            return f"{it.name} + {step}" if step else it.name
        case 3:
            return f"max({it.name} - {step}, 0)"
        case 4:
            return f"min({it.name} + {step}, {dim} - 1)"
        case 5:
            return f"({it.name} + {step}) % {dim}"
        case 6:
            return f"{dim} - 1 - {it.name}"
        case 7:
            return _held(b, dim)
        case 8:
            edge = b.pick(("clamp", "wrap"))
            return f"loopfuse.{edge}({it.name} {b.pick('+-')} {step}, {dim})"
        case _:
            return it.name


def _held(b: Builder, dim: str) -> str:
    """Any integer, between the edges."""
    if b.inside:
        return b.pick(("0", f"{dim} - 1"))
    b.inside += 1
    text, value = integer(b, 1)
    b.inside -= 1
    if value.is_unsigned or value.literal:
        text = cast(text, "int")
    return b.pick(
        (f"min(max({text}, 0), {dim} - 1)", f"loopfuse.clamp({text}, {dim})", f"{cast(text, 'int')} % {dim}")
    )


def element(b: Builder, array: Array, writes: bool = False) -> str:
    """`a[i, j]`, or `a[i][j]`."""
    parts = [subscript(b, dim, writes) for dim in array.dims]
    if len(parts) == 2 and b.chance(8):
        return f"{array.name}[{parts[0]}][{parts[1]}]"
    return f"{array.name}[{', '.join(parts)}]"


def _loads(b: Builder, kinds: tuple[str, ...]) -> list[Array]:
    return [] if b.in_helper else [one for one in b.arrays if one.held.kind in kinds]


def _locals(b: Builder, kinds: tuple[str, ...]) -> list[Typed]:
    return [(name, value) for name, value in b.readable().items() if value.kind in kinds]


# ------------------------------------------------------------------------------------ integers


def integer(b: Builder, depth: int = 2) -> Typed:
    """An integer."""
    if depth <= 0 or b.chance(4):
        return _integer_leaf(b)
    for _ in range(4):
        found = _integer_operation(b, depth)
        if found is not None and (not found[1].kind or fits(found[1], found[1].kind)):
            return found
    return _integer_leaf(b)


def _integer_leaf(b: Builder) -> Typed:
    form = b.integer(0, 9)
    here = _locals(b, INTEGERS)
    if form <= 3 and here:
        return b.pick(here[::-1])
    arrays = _loads(b, INTEGERS)
    if form <= 6 and arrays:
        array = b.pick(arrays)
        return element(b, array), array.held
    if form <= 8 and b.scope:
        it = b.pick(b.scope[::-1])
        return it.name, Value("int", it.least, 80)
    if not b.in_helper and b.chance(6):
        array = b.pick(b.arrays)
        text = b.pick((f"len({array.name})", f"{array.name}.shape[{len(array.dims) - 1}]", array.dims[0]))
        return text, Value("int", 0, 80)
    return number(b, "int")


def _integer_operation(b: Builder, depth: int) -> Typed | None:
    form = b.integer(0, 15)
    if form <= 5:
        op = b.pick(("+", "-", "*"))
        return _arithmetic(op, integer(b, depth - 1), integer(b, depth - 1))
    if form <= 8:
        op = b.pick(("//", "%"))
        left = integer(b, depth - 1)
        value = b.pick((2, 3, 5, 7, 16, -2, -3, 11))
        right: Typed = (_signed(str(value)), Value("int", value, value, literal=True))
        if b.chance(3):
            right = integer(b, depth - 1)
        return divided(b, op, left, right)
    if form == 9:
        return _bits(b, b.pick(("&", "|", "^")), integer(b, depth - 1), integer(b, depth - 1))
    if form == 10:
        left, count = integer(b, depth - 1), b.integer(0, 5)
        if left[1].literal:
            return None
        if b.chance(2):
            return f"({left[0]} >> {count})", replace(left[1], low=left[1].low >> count, high=left[1].high >> count)
        value = Value(left[1].kind, left[1].low << count, left[1].high << count)
        return f"({left[0]} << {count})", value
    if form == 11:
        text, value = integer(b, depth - 1)
        match b.pick(("-", "~", "abs", "+", "**")):
            case "-":
                return f"(-{text})", Value(value.kind, -value.high, -value.low)
            case "~" if not value.is_unsigned:
                return f"(~{text})", Value(value.kind, ~value.high, ~value.low)
            case "abs":
                most = max(abs(value.low), abs(value.high))
                return f"abs({text})", Value(value.kind, 0, most)
            case "**":
                most = max(abs(value.low), abs(value.high))
                power = b.integer(2, 3)
                if most**power > LIMIT:
                    return None
                low = -(most**power) if power == 3 and value.low < 0 else 0
                return f"({text} ** {power})", Value(value.kind, low, most**power)
            case _:
                return f"(+{text})", replace(value, literal=False)
    if form == 12:
        return _extreme(b, integer(b, depth - 1), integer(b, depth - 1))
    if form == 13:
        return choose(b, integer(b, depth - 1), integer(b, depth - 1), depth)
    if form == 14:
        text, value = floating(b, depth - 1)
        if value.literal:
            return None
        inside = f"min(max({cast(text, 'float')}, -50.0), 50.0)"
        return f"{b.pick(('int', 'math.floor', 'math.ceil', 'round'))}({inside})", Value("int", -50, 50)
    text, value = b.pick((integer, truth))(b, depth - 1)
    if value.is_bool:
        return cast(text, "int"), Value("int", 0, 1)
    kind = b.pick(INTEGERS)
    return (cast(text, kind), replace(value, kind=kind, literal=False)) if fits(value, kind) else None


def _arithmetic(op: str, left: Typed, right: Typed) -> Typed | None:
    kind = joined(left[1], right[1])
    if not kind:
        return None
    (a, b), (c, d) = ((v.low, v.high) for v in (left[1], right[1]))
    match op:
        case "+":
            low, high = a + c, b + d
        case "-":
            low, high = a - d, b - c
        case _:
            corners = (a * c, a * d, b * c, b * d)
            low, high = min(corners), max(corners)
    return f"({left[0]} {op} {right[0]})", Value(kind, low, high)


def divided(b: Builder, op: str, left: Typed, right: Typed) -> Typed | None:
    """`left // right` or `left % right`, guarded where the divisor may be 0."""
    kind = joined(left[1], right[1])
    if not kind or kind not in INTEGERS or not (fits(left[1], kind) and fits(right[1], kind)):
        return None
    most = max(abs(right[1].low), abs(right[1].high))
    size = max(abs(left[1].low), abs(left[1].high))
    if op == "%":
        low, high = (0 if right[1].low >= 0 else -most), (0 if right[1].high <= 0 else most)
    else:
        low = 0 if left[1].low >= 0 and right[1].low >= 0 else -size - 1
        high = size + 1
    if kind in UNSIGNED:
        high = min(high, size)
    text = f"({left[0]} {op} {right[0]})"
    if right[1].low <= 0 <= right[1].high:
        if right[1].literal:
            return None
        zero = cast("0", kind) if kind != "int" else "0"
        text = f"({text} if {right[0]} != 0 else {zero})"
        low, high = min(low, 0), max(high, 0)
    return text, Value(kind, low, high)


def _bits(b: Builder, op: str, left: Typed, right: Typed) -> Typed | None:
    kind = joined(left[1], right[1])
    if not kind:
        return None
    most = max(abs(v) for one in (left[1], right[1]) for v in (one.low, one.high))
    bound = (1 << most.bit_length()) - 1
    signed = left[1].low < 0 or right[1].low < 0
    return f"({left[0]} {op} {right[0]})", Value(kind, -bound - 1 if signed else 0, bound)


def _extreme(b: Builder, left: Typed, right: Typed) -> Typed | None:
    """`max(a, b)` and the like."""
    kind = joined(left[1], right[1])
    if not kind:
        return _whole(b, f"{b.pick(('min', 'max'))}({left[0]}, {right[0]})", left[1], right[1])
    numpy = b.chance(4) and not (left[1].is_weak and right[1].is_weak)
    name = b.pick(("np.minimum", "np.maximum") if numpy else ("min", "max"))
    low, high = min(left[1].low, right[1].low), max(left[1].high, right[1].high)
    value = Value(kind, low, high)
    if value.is_integer and not fits(value, kind):
        return None
    # What is one or the other in CPython has one type from here on.
    text = f"{name}({left[0]}, {right[0]})"
    if not numpy and left[1].kind != right[1].kind and not b.chance(6):
        text = cast(text, kind)
    return text, value


def _whole(b: Builder, text: str, left: Value, right: Value) -> Typed | None:
    """What is an integer of NumPy's or one of Python's that its type does not hold, as Python's."""
    if not compares(left, right) or not (left.is_integer and right.is_integer):
        return None
    value = Value("int", min(left.low, right.low), max(left.high, right.high))
    return text if b.chance(4) else cast(text, "int"), value


def choose(b: Builder, left: Typed, right: Typed, depth: int) -> Typed | None:
    """`a if c else b`."""
    kind = joined(left[1], right[1])
    asked, _ = truth(b, depth - 1)
    if not kind:
        return _whole(b, f"({left[0]} if {asked} else {right[0]})", left[1], right[1])
    low, high = min(left[1].low, right[1].low), max(left[1].high, right[1].high)
    value = Value(kind, low, high)
    if value.is_integer and not fits(value, kind):
        return None
    text = f"({left[0]} if {asked} else {right[0]})"
    if left[1].kind != right[1].kind and not b.chance(6):
        text = cast(text, kind)
    return text, value


# -------------------------------------------------------------------------------------- floats


def floating(b: Builder, depth: int = 2) -> Typed:
    """A float."""
    if depth <= 0 or b.chance(4):
        return _float_leaf(b)
    for _ in range(4):
        found = _float_operation(b, depth)
        if found is not None:
            return found
    return _float_leaf(b)


def _float_leaf(b: Builder) -> Typed:
    form = b.integer(0, 9)
    here = _locals(b, ("float", "f32", "f64"))
    if form <= 3 and here:
        return b.pick(here[::-1])
    arrays = _loads(b, ("f32", "f64"))
    if form <= 8 and arrays:
        array = b.pick(arrays)
        return element(b, array), array.held
    if here and b.chance(2):
        return b.pick(here)
    if b.chance(3):
        text, value = _integer_leaf(b)
        if not value.literal:
            kind = b.pick(("f32", "f64", "float"))
            return cast(text, kind), Value(kind)
    return number(b, "float")


MATH = ("exp", "tanh", "log1p", "exp2", "sqrt", "expm1")


def _float_operation(b: Builder, depth: int) -> Typed | None:
    form = b.integer(0, 15)
    if form <= 7:
        left = floating(b, depth - 1)
        right = floating(b, depth - 1) if not b.chance(5) else number_or_integer(b, depth - 1)
        if b.chance(3):
            left, right = right, left
        op = b.pick(("+", "-", "*", "*", "+", "/"))
        return float_arithmetic(b, op, left, right)
    if form == 8:
        text, value = floating(b, depth - 1)
        if value.literal:
            return None
        return b.pick((f"(-{text})", f"abs({text})", f"(+{text})")), Value(value.kind)
    if form in (9, 10):
        left, right = floating(b, depth - 1), floating(b, depth - 1)
        return _mixable(b, _extreme, left, right)
    if form in (11, 12):
        left, right = floating(b, depth - 1), floating(b, depth - 1)
        return _mixable(b, lambda b, left, right: choose(b, left, right, depth), left, right)
    if form == 13:
        return call(b, depth)
    if form == 14 and b.has("math"):
        text, value = floating(b, depth - 1)
        if value.literal:
            return None
        name = b.pick(MATH)
        if name in ("exp", "exp2", "expm1", "tanh"):
            text = f"min({text}, {text})" if b.chance(9) else text
        else:
            text = f"abs({text})"
        if b.chance(2) or value.is_weak:
            return f"math.{name}({text})", FLOAT
        return f"np.{name}({text})", Value(value.kind)
    if form == 15:
        text, value = floating(b, depth - 1)
        kind = b.pick(("f32", "f64", "float"))
        return cast(text, kind), Value(kind)
    text, value = floating(b, depth - 1)
    if b.has("float remainders") and not value.literal:
        op, divisor = b.pick(("//", "%")), b.pick(("0.5", "2.0", "3.0", "(-1.5)"))
        return f"({text} {op} {divisor})", value
    return None


def number_or_integer(b: Builder, depth: int) -> Typed:
    """What may stand beside a float."""
    return integer(b, depth) if b.chance(2) else truth(b, 0) if b.chance(6) else number(b)


def float_arithmetic(b: Builder, op: str, left: Typed, right: Typed) -> Typed | None:
    """`left op right`, of which one is a float; no division by what may be a Python zero."""
    kind = joined(left[1], right[1])
    if kind not in ("float", "f32", "f64"):
        return None
    if op == "/":
        if right[1].literal and float(right[0].strip("()")) == 0.0:
            return None
        if not right[1].literal:
            right = (f"(abs({right[0]}) + {b.pick(('0.5', '1.0', '2'))})", right[1])
    return f"({left[0]} {op} {right[0]})", Value(kind)


def _mixable(b: Builder, make: object, left: Typed, right: Typed) -> Typed | None:
    """`max` or a conditional of two floats: a number that an f32 does not hold is converted first."""
    if {left[1].kind, right[1].kind} == {"float", "f32"} and not b.chance(12):
        both = [left, right]
        for k, (text, value) in enumerate(both):
            if value.kind == "float" and not (value.exact and b.chance(2)):
                both[k] = (cast(text, "f32"), F32)
        left, right = both
    return make(b, left, right)  # type: ignore[operator]


# --------------------------------------------------------------------------------------- bools


def truth(b: Builder, depth: int = 2) -> Typed:
    """A condition that is a bool."""
    form = b.integer(0, 11)
    if depth > 0 and form <= 2:
        word = b.pick(("and", "or"))
        parts = [truth(b, depth - 1) for _ in range(b.integer(2, 3))]
        weak = all(value.is_weak for _, value in parts)
        same = len({value.kind for _, value in parts}) == 1
        text = "(" + f" {word} ".join(part for part, _ in parts) + ")"
        return text, (BOOL if weak else B1) if same else BOOL
    if depth > 0 and form == 3:
        return f"(not {truth(b, depth - 1)[0]})", BOOL
    if form == 4 and (held := _locals(b, ("bool", "b1"))):
        return b.pick(held[::-1])
    if form == 5 and (arrays := _loads(b, ("b1",))):
        return element(b, b.pick(arrays)), B1
    if form == 6 and depth > 0:
        one, other = truth(b, depth - 1), truth(b, depth - 1)
        if one[1].kind == other[1].kind:
            return f"({one[0]} {b.pick(('&', '|', '^', '==', '!='))} {other[0]})", one[1]
    return comparison(b, depth)


def comparison(b: Builder, depth: int) -> Typed:
    """`a < b`, or a chain of them."""
    for _ in range(3):
        if b.chance(2) and not (b.in_helper and b.chance(2)):
            parts = [integer(b, depth - 1) for _ in range(3 if b.chance(4) else 2)]
        else:
            parts = [floating(b, depth - 1) for _ in range(3 if b.chance(4) else 2)]
            if b.chance(5):
                parts[1] = number_or_integer(b, depth - 1)
        pairs = list(itertools.pairwise(parts))
        if all(compares(one[1], other[1]) for one, other in pairs) and not all(
            value.literal for _, value in parts
        ):
            break
    else:
        return "True" if b.chance(2) else "False", BOOL
    ops = [b.pick(("<", "<=", ">", ">=", "==", "!=")) for _ in pairs]
    text = parts[0][0] + "".join(f" {op} {part}" for op, (part, _) in zip(ops, parts[1:]))
    weak = all(value.is_weak for _, value in parts)
    return f"({text})", BOOL if weak else B1


def condition(b: Builder, depth: int = 2) -> str:
    """What stands behind `if`: a bool, or now and then a number."""
    if b.chance(10):
        return integer(b, depth)[0]
    return truth(b, depth)[0]


# ------------------------------------------------------------------------------------- helpers


def call(b: Builder, depth: int) -> Typed | None:
    """A call of a helper that is there; defaults left out, and names given, at times."""
    if not b.helpers:
        return None
    helper: Helper = b.pick(b.helpers)
    given: list[str] = []
    count = b.integer(helper.least, len(helper.takes))
    for position, kind in enumerate(helper.takes[:count]):
        text = of_kind(b, kind, depth - 1)
        given.append(f"p{position}={text}" if position == count - 1 and b.chance(4) else text)
    return f"{helper.name}({', '.join(given)})", helper.gives


def of_kind(b: Builder, kind: str, depth: int = 2, within: Value | None = None) -> str:
    """An expression of exactly this type; an integer between the numbers of `within`."""
    if kind in ("bool", "b1"):
        text, value = truth(b, depth)
        return text if value.kind == kind else cast(text, kind)
    if kind in ("float", "f32", "f64"):
        text, value = floating(b, depth) if not b.chance(8) else integer(b, depth)
        return text if value.kind == kind else cast(text, kind)
    bounds = within or Value(kind, -20 if kind not in UNSIGNED else 0, 20)
    for _ in range(4):
        text, value = integer(b, depth)
        text, value = bounded(b, text, value, bounds)
        if bounds.low <= value.low and value.high <= bounds.high and fits(value, kind):
            return text if value.kind == kind else cast(text, kind)
    held = b.integer(max(0, bounds.low), max(0, min(bounds.high, 9)))
    return str(held) if kind == "int" else cast(str(held), kind)


def bounded(b: Builder, text: str, value: Value, bounds: Value) -> Typed:
    """The integer brought between the numbers of `bounds`."""
    if bounds.low <= value.low and value.high <= bounds.high:
        return text, value
    top = max(1, min(bounds.high, 1 << 15))
    modulus = b.pick([m for m in (7, 13, 16, 50, 100, 251) if m <= top] or [top])
    if value.kind in ("u8", "i8") and modulus > 100:
        modulus = 100
    if value.literal:
        return text, value
    return f"({text} % {modulus})", Value(value.kind, 0, modulus - 1)


__all__ = [
    "B1", "BOOL", "F32", "F64", "FLOAT", "NUMPY", "Iterator", "bounded", "call", "condition",
    "element", "floating", "integer", "of_kind", "truth",
]  # fmt: skip
