"""Edge modes of windowed reads: what a subscript is below them, and loads without them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from loopfuse.lang.index import is_affine
from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import iterators, map_expr, walk_expr
from loopfuse.plan.units.forest import Item, Nest, Unit, statements_of
from loopfuse.poly.edges import lower_subscript
from loopfuse.poly.model import PolyProgram, Statement

MODES = ("clamp", "reflect", "symmetric", "wrap")
MIRRORED = ("reflect", "symmetric")
"""The modes by which what lies beyond an edge stands as far before it."""


def inner_of(subscript: Expr) -> Expr:
    """The subscript below an edge mode (or a `min`, `max` or `%` by hand): the one affine part
    that holds its iterators."""
    if is_affine(subscript) and linear(subscript) is not None:
        return subscript
    found = {
        part
        for part in walk_expr(subscript)
        if linear(part) is not None and iterators(part) and iterators(part) == iterators(subscript)
    }
    largest = [p for p in found if not any(p is not q and p in set(walk_expr(q)) for q in found)]
    return largest[0] if len(largest) == 1 else subscript


def edge_of(subscript: Expr, extent: Expr) -> tuple[str, Expr] | None:
    """(mode, subscript below it) of a lowered subscript; the mode "" where there is none."""
    if linear(subscript) is not None:
        return "", subscript
    inner = inner_of(subscript)
    for mode in MODES:
        for low in (False, True):
            for high in (False, True):
                if lower_subscript(mode, inner, extent, low, high) == subscript:
                    return mode, inner
    return None


def before_wrap(iterator: str) -> str:
    """The name of an iterator's value before it wrapped."""
    return f"{iterator}'"


def unfolded(
    unit: Unit,
    is_windowed: Callable[[Load], bool],
    program: PolyProgram,
    wrapped: Collection[str] = (),
) -> Unit:
    """The unit with the edge modes of windowed reads taken off: the window holds what they read
    beyond the edge. Of the `wrapped` iterators, windowed accesses use the value before they
    wrapped (`before_wrap`)."""

    def places(load: Load, index: Sequence[Expr]) -> Load:
        def renamed(node: Expr) -> Expr:
            if isinstance(node, Iter) and node.name in wrapped:
                return replace(node, name=before_wrap(node.name))
            return node

        return replace(load, index=tuple(map_expr(renamed, part) for part in index))

    def one(node: Expr) -> Expr:
        if not isinstance(node, Load) or not node.index or not is_windowed(node):
            return node
        extents = program.arrays[node.array].extents
        index: list[Expr] = []
        for subscript, extent in zip(node.index, extents, strict=True):
            edge = edge_of(subscript, extent)
            index.append(subscript if edge is None else edge[1])
        return places(node, index)

    def statement(s: Statement) -> Statement:
        target = places(s.target, s.target.index) if is_windowed(s.target) else s.target
        return replace(s, value=map_expr(one, s.value), target=target)

    def item(each: Item) -> Item:
        if isinstance(each, Nest):
            return replace(each, children=tuple(item(child) for child in each.children))
        return statement(each)

    items = tuple(item(each) for each in unit.items)
    return replace(unit, items=items, statements=statements_of(items))
