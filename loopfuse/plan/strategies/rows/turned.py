"""Rows of an odd number of narrow elements, which start at even places of memory and at odd ones in turn.

What two neighbours of two bytes are is one access where the first lies at an even place. A row of an odd number of places
that starts at an odd place has pairs from its second place on, and one place is left over; one that starts at an even
place has pairs from its first on, and its last place is left over. So the row is *turned*, by 0 or 1: place `s` of a
thread is column `(s + turn) % C`, of which all but the last are neighbours, and pairs (from `s = 0` on) start at even
places of memory in every row. The tests of the last chunk of a row, and which thread has what, are those of a row that is not turned.

    C = 5, row 0 (starts at 0):  s = 0 1 | 2 3 | 4     columns  0 1 | 2 3 | 4
           row 1 (starts at 5):                                  1 2 | 3 4 | 0
"""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.lang.linear import constant_value, linear_form, tidy
from loopfuse.lang.nodes import Expr, Load, combine, integer
from loopfuse.lang.walk import loads, subscript_iterators
from loopfuse.plan.strategies.rows.body import COLUMN, Body
from loopfuse.tree.looptree import Buffer
from loopfuse.tree.walk import node_expressions, walk_nodes

PAIR = 2


def turn_of(body: Body, memory: Mapping[str, Buffer]) -> Expr:
    """By how many places the row at hand is turned: 1 where it starts at an odd place of the arrays that have rows."""
    length = constant_value(body.length)
    rows = [
        load
        for one in body.passes
        for node in walk_nodes(one.nodes)
        for expr in node_expressions(node)
        for load in loads(expr)
        if COLUMN in subscript_iterators(load) and len(load.index) > 1 and not any(any(loads(each)) for each in load.index)
    ]
    if not rows or (length is not None and length % PAIR == 0):
        return integer(0)
    number = _parity(rows[0], memory[rows[0].array])
    return tidy(number if length is not None else combine("min", number, body.length % PAIR))


def _parity(load: Load, buffer: Buffer) -> Expr:
    """The number of the row in its array modulo 2, of an odd number of places: 0 or 1. (A product of 0s and 1s is their minimum.)"""
    total = load.index[-2]
    odd: Expr | None = None
    for index, extent in zip(load.index[-3::-1], buffer.extents[-2:0:-1], strict=True):
        odd = extent % PAIR if odd is None else combine("min", odd, extent % PAIR)
        total = total + combine("min", index % PAIR, odd)
    return total % PAIR


def halved(place: Expr) -> Expr:
    """The number of the pair that starts at a place, whose terms are all even."""
    constant, terms = linear_form(place)
    assert not any(each % PAIR for each in (constant, *(factor for _, factor in terms))), place
    return tidy(sum((atom * (factor // PAIR) for atom, factor in terms), integer(constant // PAIR)))
