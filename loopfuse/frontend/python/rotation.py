"""Loops in which arrays change places in a ring, `p, u, n = u, n, p`, as waves do.

before:  for t in range(T):            after:  for w in 0..T // 3:
             n[i] = f(u[i], p[i])                  n[i] = f(u[i], p[i])
             p, u, n = u, n, p                     p[i] = f(n[i], u[i])
                                                   u[i] = f(p[i], n[i])
                                               and the last T % 3 passes, each a loop of one pass or none

The body is written as often as it takes until the names are where they were, so that each pass knows
its arrays. Which array a name refers to afterwards depends on the number of passes: it may be
returned, and nothing else. Pairs that are exchanged in a loop need none of this (`pyfunc_exchange`).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from loopfuse.frontend.python import arrays as pyfunc_arrays
from loopfuse.frontend.python.context import Reader
from loopfuse.frontend.python.exchange import exchanged_names, is_exchange, refuse_ring
from loopfuse.frontend.python.ranges import read_range
from loopfuse.frontend.python.types import WEAK_INT
from loopfuse.lang.surface import syntax

LONGEST = 6
"""The most passes until all names are where they were."""

ReadBlock = Callable[[Reader, list[ast.stmt]], tuple[syntax.Stmt, ...]]

Ring = dict[str, str]
"""Where names go in one pass: each to the array that another had."""


def read_rotation(reader: Reader, stmt: ast.For, read_block: ReadBlock) -> list[syntax.Stmt] | None:
    """The loop `stmt` if arrays change places in it in a ring; None for other loops. `read_block` reads its
    body, once for each pass that is written out."""
    ring = _ring(reader, stmt)
    if ring is None:
        return None
    order = _order(ring)
    bounds, parallel = read_range(reader, stmt)
    before = dict(reader.arrays)
    moved = [name for name in ring if ring[name] != name]
    cores = {before[name].name for name in ring}
    within = [part for one in stmt.body for part in ast.walk(one)]
    if (
        len(reader.visible) > 1
        or parallel
        or bounds.step is not None
        or order > LONGEST
        or any(cores & {*pair} for pair in reader.exchanged)
        or any(isinstance(p, ast.expr) and pyfunc_arrays.is_creation(reader, p) for p in within)
    ):
        _refuse(reader, stmt)
    known = pyfunc_arrays.known_sizes(reader)
    count = _minus(bounds.upper, bounds.lower)
    text = _formula(count, known)
    if text is None:
        _refuse(reader, stmt)
    count = _call("max", count, _number(0, count), count)
    rounds = _binary("//", count, _number(order, count))
    out = [_passes(reader, stmt, read_block, bounds, "turn", rounds, order, 0, order)]
    done = _binary("*", rounds, _number(order, count))
    names = [{name: array.name for name, array in reader.arrays.items()}]
    for number in range(order - 1):
        left = _minus(_minus(count, done), _number(number, count))
        once = _call("min", _call("max", left, _number(0, count), count), _number(1, count), count)
        start = _binary("+", done, _number(number, count))
        out.append(_passes(reader, stmt, read_block, bounds, "last", once, 0, start, 1))
        names.append({name: array.name for name, array in reader.arrays.items()})
    reader.arrays.clear()
    for name, array in before.items():
        turns = tuple(each[name] for each in names)
        turned = name in moved and order > 1
        reader.arrays[name] = (
            replace(array, turns=turns, turn=f"max({text}, 0) % {order}") if turned else array
        )
    first = before[next(iter(ring))].name
    reader.exchanged += [(first, before[name].name) for name in ring]
    reader.rotated |= cores
    return out


def _passes(
    reader: Reader,
    stmt: ast.For,
    read_block: ReadBlock,
    bounds: syntax.Range,
    word: str,
    upper: syntax.Expr,
    stride: int,
    start: syntax.Expr | int,
    count: int,
) -> syntax.Stmt:
    """A loop of `count` passes of the body in each of `upper` turns; pass k of turn u has the
    iterator's value lower + u*stride + start + k."""
    assert isinstance(stmt.target, ast.Name)
    name, span = stmt.target.id, reader.python.span(stmt)
    iterator = reader.shared.free(f"{name}_{word}")
    level, reader.level = reader.level, len(reader.visible) + 1
    body: list[syntax.Stmt] = []
    try:
        with reader.inner():
            reader.visible[-1].add(iterator)
            for number in range(count):
                value = bounds.lower
                if stride:
                    turn = syntax.Name(iterator, span=span)
                    value = _plus(value, _binary("*", turn, _number(stride, value)))
                value = _plus(value, _number(start, value) if isinstance(start, int) else start)
                value = _plus(value, _number(number, value))
                reader.unrolled[name] = value, WEAK_INT
                body += read_block(reader, stmt.body)
    finally:
        reader.level = level
        reader.unrolled.pop(name, None)
    header = syntax.Range(iterator, _number(0, upper), upper, None, span=bounds.span)
    return syntax.For((header,), tuple(body), False, span=span)


def _ring(reader: Reader, stmt: ast.For) -> Ring | None:
    """Where names go in a pass; None where only pairs are exchanged, each always with its partner."""
    place: Ring = {}
    pairs: set[frozenset[str]] = set()
    rings = False
    inner = 0
    for part in stmt.body:
        for node in ast.walk(part):
            found = exchanged_names(node)
            if found is None or not is_exchange(reader, *found):
                continue
            names, given = found
            moved = [(a, b) for a, b in zip(names, given) if a != b]
            these = {frozenset(pair) for pair in moved}
            rings = rings or 2 * len(these) != len(moved)
            pairs |= these
            inner += node is not part
            if node is part:
                place = {**place, **{a: place.get(b, b) for a, b in moved}}
    met = [name for pair in pairs for name in pair]
    if not rings and len(met) == len(set(met)):
        return None
    if inner:
        _refuse(reader, stmt)
    return place


def _order(ring: Ring) -> int:
    """After how many passes all names are where they were."""
    order = 1
    for name in ring:
        length, at = 1, ring[name]
        while at != name:
            length, at = length + 1, ring[at]
        order = math.lcm(order, length)
    return order


def _refuse(reader: Reader, stmt: ast.For) -> NoReturn:
    refuse_ring(reader, next(n for n in ast.walk(stmt) if exchanged_names(n)))


# --------------------------------------------------------------------------- expressions of sizes


def _number(value: int, like: syntax.Expr) -> syntax.Expr:
    return syntax.Number(value, span=like.span)


def _binary(op: str, left: syntax.Expr, right: syntax.Expr) -> syntax.Expr:
    return syntax.Binary(op, left, right, span=left.span)


def _call(name: str, left: syntax.Expr, right: syntax.Expr, like: syntax.Expr) -> syntax.Expr:
    return syntax.Call(name, (left, right), span=like.span)


def _plus(left: syntax.Expr, right: syntax.Expr) -> syntax.Expr:
    if isinstance(right, syntax.Number) and right.value == 0:
        return left
    if isinstance(left, syntax.Number) and left.value == 0:
        return right
    return _binary("+", left, right)


def _minus(left: syntax.Expr, right: syntax.Expr) -> syntax.Expr:
    if isinstance(right, syntax.Number) and right.value == 0:
        return left
    return _binary("-", left, right)


def _formula(expr: syntax.Expr, known: set[str]) -> str | None:
    """An expression of sizes and integer parameters as Python text; None for others."""
    match expr:
        case syntax.Number(value=value) if type(value) is int:
            return f"({value})"
        case syntax.Name(name=name) if name in known:
            return name
        case syntax.Unary(op="-", operand=operand):
            inner = _formula(operand, known)
            return inner and f"(-{inner})"
        case syntax.Binary(op="+" | "-" | "*" | "//" | "%" as op, left=left, right=right):
            parts = [_formula(left, known), _formula(right, known)]
            return None if None in parts else f"({parts[0]} {op} {parts[1]})"
        case syntax.Call(function="min" | "max" as name, arguments=arguments):
            texts = [_formula(one, known) for one in arguments]
            return None if None in texts else f"{name}({', '.join(map(str, texts))})"
        case _:
            return None
