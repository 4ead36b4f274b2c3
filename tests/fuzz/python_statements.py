"""Statements of random Python functions: locals set, updated and exchanged, branches, loops, elements.

What a local is called with stays what Python gives it: a local that a loop carries is brought back at
the end of the body to the type and the numbers it had at its start, if by an assignment of its own.
"""

from __future__ import annotations

from dataclasses import replace

from fuzz.python_builder import Array, Builder, Iterator
from fuzz.python_expressions import (
    EXACT,
    bounded,
    condition,
    element,
    float_arithmetic,
    floating,
    integer,
    number_or_integer,
    of_kind,
    truth,
)
from fuzz.python_values import FLOATS, INTEGERS, Value, cast, fits, joined

MOST = 5000
"""An integer that a loop carries is at most so large."""


def statement(b: Builder) -> None:
    """One, or a few."""
    form = b.integer(0, 19)
    arrays = [] if b.in_helper else [one for one in b.arrays if not one.held.is_unsigned or b.chance(2)]
    if arrays and form <= 6:
        assign_element(b, b.pick(arrays))
    elif form <= 9:
        assign_local(b)
    elif form <= 14:
        if not update_local(b):
            assign_local(b)
    elif form == 15:
        exchange_locals(b)
    elif form <= 18 or b.in_helper or len(b.scope) > 2 or b.room < 3:
        branch(b)
    else:
        inner_loop(b)


# -------------------------------------------------------------------------------------- locals


def assign_local(b: Builder) -> None:
    """`v = e`, of any type; often a local that is there."""
    name = b.pick(list(b.values)) if b.values and not b.chance(3) else b.fresh("v")
    if len(b.values) > 6 and name not in b.values:
        name = b.pick(list(b.values))
    before = b.values.get(name)
    kept = _kept(b, name)
    if b.chance(12) and b.values:
        other = b.pick(list(b.values))
        text, value = (b.pick(EXACT), Value("float")) if b.chance(2) else ("2", Value("int", 2, 2))
        b.line(f"{name} = {other} = {text}")
        b.assign(name, value)
        b.assign(other, value)
        return
    like = kept or before
    if like is not None and not b.chance(5):
        text, value = of_kind(b, like.kind, 2, like if like.is_integer else None), like
    elif b.chance(5):
        text, value = start(b)
    else:
        text, value = b.pick((integer, floating, floating, truth))(b, 2)
    b.line(f"{name} = {_outer(text)}")
    b.assign(name, value)


def start(b: Builder) -> tuple[str, Value]:
    """What a local may start with: a Python number that takes the type of what it gathers later."""
    kind = b.pick(("float", "f32", "f64", "int", "i64", "i32", "f32", "f64"))
    if kind in FLOATS:
        text = b.pick(("0.0", "1.0", "0.5", "0.0"))
        typed = b.chance(3) and kind != "float"
        return (cast(text, kind) if typed else text), Value(kind)
    text = b.pick(("0", "1", "3"))
    typed = b.chance(2) and kind != "int"
    return (cast(text, kind) if typed else text), Value(kind if typed else "int", int(text), int(text))


def _outer(text: str) -> str:
    """Without the parentheses around all of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def _kept(b: Builder, name: str) -> Value | None:
    return next((held[name] for held in reversed(b.kept) if name in held), None)


def update_local(b: Builder) -> bool:
    """`v op= e`, of every kind; twice at times."""
    known = {name: value for name, value in b.values.items() if value is not None}
    if not known:
        return False
    name = b.pick(list(known))
    for _ in range(1 + (not b.choices.choice(3))):
        value = b.values[name]
        if value is None:
            break
        if value.is_float:
            _update_float(b, name, value)
        elif value.is_integer:
            _update_integer(b, name, value)
        else:
            text, other = truth(b, 1)
            b.line(f"{name} {b.pick('&|^')}= {text}")
            b.assign(name, value if value.kind == other.kind else Value("b1"))
    return True


def _update_float(b: Builder, name: str, value: Value) -> None:
    op = b.pick(("+", "+", "-", "*", "/", "+"))
    if b.chance(6):
        extreme = b.pick(("min", "max"))
        text = of_kind(b, value.kind if value.kind != "float" else b.pick(("float", "f64")), 1)
        both = (name, text) if b.chance(2) else (text, name)
        b.line(f"{name} = {extreme}({', '.join(both)})")
        return
    right = floating(b, 2) if not b.chance(4) else number_or_integer(b, 1)
    made = float_arithmetic(b, op, (name, value), right)
    if made is None:
        made = (f"({name} + 1.0)", value)
        op, right = "+", ("1.0", value)
    if made[1].kind != value.kind and _kept(b, name) and not b.chance(4):
        text = made[0][len(f"({name} {op} ") : -1]
        b.line(f"{name} {op}= {cast(text, value.kind)}")
        return
    if b.chance(5):
        b.line(f"{name} = {_outer(made[0])}")
    else:
        b.line(f"{name} {op}= {_outer(made[0][len(f'({name} {op} ') : -1])}")
    b.assign(name, made[1])


def _update_integer(b: Builder, name: str, value: Value) -> None:
    form = b.integer(0, 9)
    if form <= 2 and (not value.is_unsigned or not b.kept):
        # A counter: what it grows by is small, and loops are short.
        count = b.integer(1, 3)
        op = b.pick(("+", "+", "-")) if not value.is_unsigned else "+"
        if not fits(Value("", value.low - 3, value.high + 3), value.kind):
            b.line(f"{name} //= 2")
            return
        if b.chance(4):
            asked, _ = truth(b, 1)
            b.line(f"{name} {op}= {asked}")
            return
        b.line(f"{name} {op}= {count}")
        if not b.kept:
            b.assign(name, replace(value, low=value.low - 3 * (op == "-"), high=value.high + 3 * (op == "+")))
        return
    if form <= 4:
        op, right = b.pick(("//", "%")), b.integer(2, 9)
        b.line(f"{name} {op}= {right}")
        if op == "%":
            b.assign(name, Value(value.kind, 0, right - 1))
        return
    if form == 5:
        op, right = b.pick((("&", 15), ("&", 7), ("^", 3), ("|", 4), (">>", 1), (">>", 2)))
        b.line(f"{name} {op}= {right}")
        if op == "&":
            b.assign(name, Value(value.kind, 0, right))
        elif op in "^|":
            most = (1 << max(abs(value.low), abs(value.high), right).bit_length()) - 1
            if fits(Value("", -most - 1 if value.low < 0 else 0, most), value.kind):
                b.assign(name, Value(value.kind, -most - 1 if value.low < 0 else 0, most))
        return
    text, right = integer(b, 1)
    op = b.pick(("+", "-", "*"))
    kind = joined(value, right)
    if not kind or kind not in INTEGERS:
        b.line(f"{name} += 1")
        return
    text, right = bounded(b, text, right, Value(right.kind, 0 if right.is_unsigned else -100, 100))
    corners = [x * y for x in (value.low, value.high) for y in (right.low, right.high)]
    low, high = {
        "+": (value.low + right.low, value.high + right.high),
        "-": (value.low - right.high, value.high - right.low),
        "*": (min(corners), max(corners)),
    }[op]
    made = Value(kind, low, high)
    if not fits(made, kind) or right.low < -1000 or right.high > 1000:
        b.line(f"{name} %= 13")
        b.assign(name, Value(value.kind, 0, 12))
        return
    b.line(f"{name} {op}= {_outer(text)}")
    b.assign(name, made)
    if high > MOST or low < -MOST:
        modulus = b.pick((97, 101, 127))
        b.line(f"{name} %= {modulus}")
        b.assign(name, Value(kind, 0, modulus - 1))


def exchange_locals(b: Builder) -> None:
    """`v, w = w, v + 1`: all values are made before the first is set."""
    known = [name for name, value in b.values.items() if value is not None]
    if len(known) < 2:
        assign_local(b)
        return
    one = b.pick(known)
    other = b.pick([name for name in known if name != one])
    first, second = b.values[one], b.values[other]
    assert first is not None and second is not None
    texts = [other, one]
    values = [second, first]
    if b.chance(2):
        kind = first if not b.chance(3) else second
        texts[0] = of_kind(b, kind.kind, 2, kind if kind.is_integer else None)
        values[0] = kind
    b.line(f"{one}, {other} = {texts[0]}, {texts[1]}")
    b.assign(one, values[0])
    b.assign(other, values[1])


# ------------------------------------------------------------------------------------ elements


def assign_element(b: Builder, array: Array) -> None:
    """`a[i] = e` or `a[i] op= e`."""
    place = element(b, array, writes=True)
    held = array.held
    if b.chance(3):
        _update_element(b, place, held)
    elif held.is_float:
        text, value = floating(b, 3) if not b.chance(6) else number_or_integer(b, 2)
        if value.is_bool and b.chance(2):
            text = of_kind(b, held.kind, 1)
        b.line(f"{place} = {_outer(text)}")
    elif held.is_integer:
        b.line(f"{place} = {_outer(_integer_for(b, held))}")
    else:
        b.line(f"{place} = {_outer(truth(b, 2)[0])}")


def _integer_for(b: Builder, held: Value) -> str:
    """An integer that an array of these takes."""
    text, value = bounded(b, *integer(b, 3), held)
    if not (held.low <= value.low and value.high <= held.high):
        return of_kind(b, held.kind, 1, held)
    narrower = value.kind in ("int", held.kind) or (
        not held.is_unsigned and joined(value, Value(held.kind)) == held.kind
    )
    return text if narrower or (not held.is_unsigned and b.chance(3)) else cast(text, held.kind)


def _update_element(b: Builder, place: str, held: Value) -> None:
    if held.is_float:
        made = None
        while made is None:
            op, right = b.pick(("+", "-", "*", "/", "+")), floating(b, 2)
            made = float_arithmetic(b, op, (place, held), right)
        b.line(f"{place} {op}= {_outer(made[0][len(f'({place} {op} ') : -1])}")
    elif held.is_integer:
        if held.kind in ("i32", "i64") and b.chance(2):
            right, modulus = of_kind(b, b.pick(("int", held.kind)), 1), b.pick((97, 50, 11))
            b.line(f"{place} {b.pick('+-')}= {_outer(right)}")
            if not b.chance(4):
                b.line(f"{place} %= {modulus}")
            return
        op, right = b.pick((("//", 3), ("%", 50), ("&", 63), (">>", 1), ("//", 7), ("%", 10)))
        b.line(f"{place} {op}= {right}")
    else:
        b.line(f"{place} {b.pick('&|^')}= {truth(b, 1)[0]}")


# -------------------------------------------------------------------------- branches and loops


def branch(b: Builder) -> None:
    """`if`, with `elif` and `else` at times."""
    before = dict(b.values)
    ends: list[dict[str, Value | None]] = []
    arms = b.integer(1, 2)
    for arm in range(arms):
        b.values = dict(before)
        with b.block(f"{'elif' if arm else 'if'} {_outer(condition(b))}:"):
            body(b, b.integer(1, 2))
        ends.append(b.values)
    b.values = dict(before)
    if b.chance(2):
        with b.block("else:"):
            body(b, b.integer(1, 2))
    ends.append(b.values)
    b.values = {name: None for end in ends for name in end}
    for name in b.values:
        found = [end.get(name) for end in ends]
        b.values[name] = _either(b, [one for one in found if one is not None], len(ends))


def _either(b: Builder, found: list[Value], count: int) -> Value | None:
    """What is known after branches that leave these."""
    if len(found) < count:
        return None
    if len({value.kind for value in found}) > 1:
        return None
    low, high = min(v.low for v in found), max(v.high for v in found)
    return Value(found[0].kind, low, high)


def body(b: Builder, count: int) -> None:
    """So many statements."""
    for _ in range(count):
        if b.room > 0:
            statement(b)


def enter(b: Builder) -> dict[str, Value | None]:
    """A loop begins: some locals are carried by it, nothing is known of the others. What was known."""
    before = dict(b.values)
    kept: dict[str, Value] = {}
    for name, value in before.items():
        if value is None:
            continue
        bound = 100 if value.kind == "i8" else 200 if value.is_unsigned else MOST
        if value.is_integer and not -bound <= value.low <= value.high <= bound:
            continue
        if b.kept and name not in b.kept[-1] and b.chance(2):
            continue
        low = 0 if value.is_unsigned else -bound
        kept[name] = replace(value, low=low, high=bound) if value.is_integer else value
    b.kept.append(kept)
    b.values = {name: kept.get(name) for name in before}
    return before


def leave(b: Builder, before: dict[str, Value | None]) -> None:
    """The loop's body ends: what is carried is as it was."""
    kept = b.kept.pop()
    changed = b.values
    for name, value in kept.items():
        now = changed[name]
        if now is None or now.kind != value.kind:
            text = of_kind(b, value.kind, 1, value if value.is_integer else None)
            if now is not None and b.chance(2) and (now.is_float or not value.is_integer):
                text = cast(name, value.kind) if not value.is_integer else text
            b.line(f"{name} = {_outer(text)}")
        elif value.is_integer and not value.low <= now.low <= now.high <= value.high:
            b.line(f"{name} %= 61")
    # What was set in the body may have no value behind it, where nothing was before.
    touched = {name for name in changed if changed[name] != before.get(name)}
    b.values = dict.fromkeys(changed)
    for name, value in before.items():
        b.values[name] = kept.get(name) or (None if name in touched else value)


def ranges(b: Builder, dim: str, name: str, whole: bool = False) -> tuple[str, Iterator]:
    """A `range` over an extent, or a part of it."""
    form = 0 if whole or b.chance(2) else b.integer(1, 9)
    text, below, above = (
        (f"range({dim})", 0, 0), (f"range(1, {dim} - 1)", 1, 1), (f"range(2, {dim})", 2, 0),
        (f"range({dim} - 1, -1, -1)", 0, 0), (f"range(0, {dim}, 2)", 0, 0),
        (f"range({dim} - 1, 0, -2)", 1, 0), (f"range({dim} - 2, -1, -1)", 0, 1),
        (f"range(1, {dim}, 3)", 1, 0), (f"range(0, {dim} - 2)", 0, 2), (f"range({dim} - 1)", 0, 1),
    )[form]  # fmt: skip
    return text, Iterator(name, dim, below, above)


def loop(b: Builder, text: str, it: Iterator, count: int) -> None:
    """A loop around so many statements."""
    before = enter(b)
    b.scope.append(it)
    with b.block(f"for {it.name} in {text}:"):
        body(b, count)
        leave(b, before)
    b.scope.pop()


def inner_loop(b: Builder) -> None:
    """A short loop, a window, a triangle."""
    name = b.fresh("k")
    outer = [it for it in b.scope if it.dim]
    form = b.integer(0, 4)
    if form >= 2 and outer:
        it = outer[-1]
        text, made = b.pick((
            (f"range({it.name} + 1)", replace(it, name=name, below=0)),
            (f"range({it.name}, {it.dim})", replace(it, name=name, above=0)),
            (f"range({it.name}, -1, -1)", replace(it, name=name, below=0)),
        ))  # fmt: skip
    elif form == 1:
        text, made = ranges(b, b.pick(b.dims), name)
    else:
        text, least = b.pick((("range(3)", 0), ("range(-1, 2)", -1), ("range(4, 0, -1)", 0), ("range(0, 7, 3)", 0)))
        made = Iterator(name, least=least)
    loop(b, text, made, b.integer(1, 3))


def nest(b: Builder, array: Array, count: int) -> None:
    """Loops over an array's extents, around an assignment to its elements and other statements."""
    befores: list[dict[str, Value | None]] = []
    for position, dim in enumerate(array.dims):
        text, it = ranges(b, dim, b.fresh("ij"[position]))
        b.line(f"for {it.name} in {text}:")
        befores.append(enter(b))
        b.scope.append(it)
        b.depth += 1
        if position + 1 < len(array.dims) and b.chance(4):
            body(b, 1)
    body(b, count)
    if not b.chance(5):
        assign_element(b, array)
    else:
        body(b, 1)
    for before in reversed(befores):
        if b.lines[-1].endswith(":"):
            b.line("pass")
        leave(b, before)
        b.scope.pop()
        b.depth -= 1
