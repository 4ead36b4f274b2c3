"""Updates of sums that tiles of registers hold."""

from __future__ import annotations

from loopfuse.lang.nodes import Call, Compare, Expr, Select
from loopfuse.lang.walk import walk_expr

MOST_OPERATIONS = 24
"""Parts of the value of an update, at most."""


def is_cheap(value: Expr) -> bool:
    """Is the update small enough to be written out for each vector of a tile, without a choice between ways?"""
    inside = [*walk_expr(value)]
    return not any(isinstance(part, Select | Compare | Call) for part in inside) and len(inside) <= MOST_OPERATIONS
