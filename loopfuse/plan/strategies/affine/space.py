"""One space for all statements of a nest, as if every statement stood in its innermost loop.

before:  for i: for j in 0..i: { for k in 0..j: S1;  S2 }      after:  S1 at (i, j, k), S2 at (i, j, j)
         for j in i..N: for k in 0..i: S3                              S3 at (i, j, k)

A statement behind a loop that it is not in has there the value after the loop's last; one before it the first. Text order comes
last. Orders of the space are tried as they are (`orders`): nothing here need be right for every program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Expr
from loopfuse.plan.units.forest import Item, Nest, Unit
from loopfuse.poly.isl_orders import Affine
from loopfuse.poly.model import Statement

DEEPEST = 4
"""Loops of a nest, at most."""

MOST_STATEMENTS = 8
"""Statements of a nest, at most."""


@dataclass(frozen=True, slots=True)
class Space:
    """`dims`: a name for each dimension, outermost first; `values`: where each statement stands in each of them, and
    which of its iterators that is ("": a value of others). `first`: where the loops of the deepest statement start."""

    dims: tuple[str, ...]
    first: tuple[Affine, ...]
    values: Mapping[str, tuple[Affine, ...]]
    own: Mapping[str, tuple[str, ...]]

    def is_full(self, id: str) -> bool:
        """Is every dimension an iterator of the statement's own?"""
        return all(self.own[id])


def find_space(unit: Unit, beside: bool = False) -> Space | None:
    """The space of a nest; None where it has none: a loop whose bounds are data or not affine, or that takes steps. `beside`: loops
    over the same, one behind the other, are the same dimension, and what is before a loop has a place before its first iteration.

    before:  for k: { for i: S1;  for i: for j: S2 }      after:  S1 at (k, i, first j - 1) instead of (k, first i, i)
    """
    if len(unit.statements) > MOST_STATEMENTS or len(unit.items) != 1 or not isinstance(unit.items[0], Nest):
        return None
    loops = {loop.iterator: loop for statement in unit.statements for loop in statement.loops}
    if any(abs(loop.step) != 1 or loop.unknown for loop in loops.values()):
        return None
    if any(linear(end) is None for loop in loops.values() for end in (loop.lower, loop.upper)):
        return None
    deepest = max(unit.statements, key=lambda statement: len(statement.loops))
    depth = len(deepest.loops)
    if not 2 <= depth <= DEEPEST:
        return None
    walk = _Walk(depth, beside)
    walk.items(unit.items, (), ())
    if walk.failed:
        return None
    dims = tuple(loop.iterator.split(".")[0] for loop in deepest.loops)
    first = tuple(
        tuple((name, c if loop.step > 0 else -c) for name, c in (linear(loop.lower) or {}).items()) for loop in deepest.loops
    )
    return Space(dims, first, walk.values, walk.own)


def minus(one: Affine, other: Affine) -> Affine:
    """The difference of two affine values."""
    found = dict(one)
    for name, c in other:
        found[name] = found.get(name, 0) - c
    return tuple((name, c) for name, c in found.items() if c)


Frame = tuple[Sequence[Item], int]
"""Where something stands in a loop's body: what is in it, and which of that it is."""


@dataclass
class _Walk:
    depth: int
    beside: bool

    def __post_init__(self) -> None:
        self.values: dict[str, tuple[Affine, ...]] = {}
        self.own: dict[str, tuple[str, ...]] = {}
        self.failed = False

    def items(self, items: Sequence[Item], at: tuple[Nest, ...], frames: tuple[Frame, ...]) -> None:
        """Places the statements below `at`, the loops around, each of which stands in a frame."""
        for number, item in enumerate(items):
            inside = (*frames, (items, number))
            if isinstance(item, Nest):
                self.items(item.children, (*at, item), inside)
            else:
                self.statement(item, at, inside)

    def in_same_loop(self, at: tuple[Nest, ...], frames: tuple[Frame, ...]) -> tuple[Affine, ...] | None:
        """The values of the loops that are missing, in a loop beside the innermost one that goes over the same: behind their last iterations,
        or before their first."""
        level = len(at) - 1
        if level < 1:
            return None
        siblings, number = frames[level]
        for place, other in enumerate(siblings):
            if place == number or not isinstance(other, Nest) or not _is_alike(other, at[level]):
                continue
            for child in other.children:
                found = _ends(child, self.depth - len(at), place < number) if isinstance(child, Nest) else None
                if found is not None:
                    names = {other.loop.iterator: at[level].loop.iterator}
                    moved = (tuple((names.get(name, name), c) for name, c in value) for value in found)
                    return tuple(moved if place < number else (minus(value, (("", 1),)) for value in moved))
        return None

    def statement(self, item: Statement, at: tuple[Nest, ...], frames: tuple[Frame, ...]) -> None:
        known: list[Affine] = [((nest.loop.iterator, 1 if nest.loop.step > 0 else -1),) for nest in at]
        own = [nest.loop.iterator for nest in at]
        missing = self.depth - len(at)
        inner = self.in_same_loop(at, frames) if missing and self.beside else None
        if inner is not None:
            known += inner
            own += [""] * missing
        elif missing:
            # Behind or before the nearest loop that it is not in; loops of its own inside that place are inner ones.
            for level in range(len(at), 0, -1):
                siblings, number = frames[level]
                found = _beside(siblings, number, missing, int(self.beside))
                if found is not None:
                    known[level:level] = found
                    own[level:level] = [""] * missing
                    break
            else:
                self.failed = True
                return
        self.values[item.id], self.own[item.id] = tuple(known), tuple(own)


def _is_alike(one: Nest, other: Nest) -> bool:
    """Do two loops that stand in one body go over the same?"""
    return (one.loop.lower, one.loop.upper, one.loop.step) == (other.loop.lower, other.loop.upper, other.loop.step)


def _beside(siblings: Sequence[Item], number: int, count: int, apart: int) -> tuple[Affine, ...] | None:
    """The values of `count` loops that stand before a place in a body, behind their last iterations; else of those
    behind it, at their first, or so far `apart` before it."""
    before = [each for each in siblings[:number] if isinstance(each, Nest)]
    after = [each for each in siblings[number + 1 :] if isinstance(each, Nest)]
    firsts = (_ends(nest, count, False) for nest in after)
    found = [
        *(_ends(nest, count, True) for nest in reversed(before)),
        *(None if each is None else tuple(minus(value, (("", apart),)) for value in each) for each in firsts),
    ]
    return next((each for each in found if each is not None), None)


def _chain(nest: Nest, count: int) -> list[Nest]:
    """A loop and those inside it, of each the last that goes as deep as any."""
    out = [nest]
    while len(out) < count:
        inner = [child for child in out[-1].children if isinstance(child, Nest)]
        if not inner:
            break
        out.append(max(inner, key=_depth))
    return out


def _depth(nest: Nest) -> int:
    return 1 + max((_depth(child) for child in nest.children if isinstance(child, Nest)), default=0)


def _affine(expr: Expr, known: Mapping[str, Mapping[str, int]]) -> Affine:
    found: dict[str, int] = {}
    for name, c in (linear(expr) or {}).items():
        for part, factor in known.get(name, {name: 1}).items():
            found[part] = found.get(part, 0) + c * factor
    return tuple((name, c) for name, c in found.items() if c)


def _ends(nest: Nest, count: int, last: bool) -> tuple[Affine, ...] | None:
    known: dict[str, Mapping[str, int]] = {}
    out: list[Affine] = []
    for inner in _chain(nest, count):
        loop = inner.loop
        value = _affine(loop.upper if last else loop.lower, known)
        known[loop.iterator] = dict(value)
        out.append(value if loop.step > 0 else tuple((name, -c) for name, c in value))
    return tuple(out) if len(out) == count else None
