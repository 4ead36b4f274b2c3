"""The extents of arrays."""

from __future__ import annotations

from collections.abc import Sequence

from loopfuse.lang.check.context import Context
from loopfuse.lang.check.indices import check_extent, to_index
from loopfuse.lang.nodes import Expr
from loopfuse.lang.surface import syntax

MAX_RANK = 64
"""The most dimensions of an array, which is NumPy's and PyTorch's limit too."""


def check_extents(context: Context, array: str, parts: Sequence[syntax.Expr]) -> tuple[Expr, ...]:
    """The extents of a parameter or temporary; LimitError[rank-too-large] where they are too many."""
    if len(parts) > MAX_RANK:
        context.limit(
            "rank-too-large",
            f"`{array}` has {len(parts)} dimensions, and an array has at most {MAX_RANK}",
            parts[MAX_RANK].span,
            fix="leave out dimensions of 1, or make one dimension of several",
        )
    return tuple(
        check_extent(
            context, to_index(context, context.elaborate(part), "extent", part.span), part.span
        )
        for part in parts
    )
