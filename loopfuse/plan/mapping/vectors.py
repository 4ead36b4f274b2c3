"""How many neighbours along a loop a vector may take."""

from __future__ import annotations

from loopfuse.base.machine import ACCESS
from loopfuse.lang.linear import constant_value, linear, tidy
from loopfuse.lang.nodes import Expr, Load, compare, integer
from loopfuse.lang.walk import iterators, substitute
from loopfuse.tree.looptree import Buffer


def vector_along(load: Load, buffer: Buffer, var: str, first: Expr, most: int) -> tuple[int, tuple[Expr, ...]]:
    """How many elements that iterations of `var` one after the other touch are a vector, `most` at most, and what must hold for
    that; 1: there are none. `first`: the place of `var` that vectors begin from."""
    width = min(most, ACCESS // load.dtype.bytes)
    *outer, last = load.index
    terms = linear(last)
    if width < 2 or buffer.strides is not None or terms is None:
        return 1, ()
    if terms.pop(var, 0) != 1 or any(var in iterators(part) for part in outer):
        return 1, ()
    start = linear(tidy(substitute(last, {var: first})))
    if start is None or any(count % width for count in start.values()):
        return 1, ()
    length = constant_value(buffer.extents[-1])
    if not outer:
        return width, ()
    if length is not None:
        return (width, ()) if length % width == 0 else (1, ())
    return width, (compare("eq", buffer.extents[-1] % width, integer(0)),)
