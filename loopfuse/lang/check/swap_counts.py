"""Counts, before a loop's body is elaborated, how often one pass of it swaps each pair."""

from __future__ import annotations

from contextlib import suppress
from typing import NoReturn

from loopfuse.base.diagnostics import LoopfuseError, Span
from loopfuse.lang.check import ranges
from loopfuse.lang.check.context import Context, Poisoned
from loopfuse.lang.check.scope import ArrayEntry
from loopfuse.lang.check.swap import Pair, pair_of
from loopfuse.lang.nodes import Const
from loopfuse.lang.surface import syntax


def count_swaps(context: Context, stmt: syntax.For, position: int) -> dict[Pair, int]:
    """How often one pass of the loop over `stmt.ranges[position]` swaps each pair of arrays that
    live outside it; empty for a loop without swaps."""
    counts = _in_block(context, stmt.body)
    if counts and stmt.parallel:
        context.fail(
            "swap-in-parallel",
            "a `parallel for` cannot swap: its passes have no order",
            stmt.ranges[position].span,
            fix="write `for` without `parallel`",
        )
    for each in stmt.ranges[position + 1 :]:
        counts = _repeat(context, counts, each)
    return counts


def _repeat(context: Context, counts: dict[Pair, int], each: syntax.Range) -> dict[Pair, int]:
    if not any(count % 2 for count in counts.values()):
        return counts
    trips = None
    # Bounds that use what is declared inside fail here; their count is not constant either.
    with suppress(LoopfuseError, Poisoned):
        trips = ranges.bounds(context, each).trips
    if not isinstance(trips, Const):
        too_deep(context, each.span)
    return {pair: count * int(trips.value) for pair, count in counts.items()}


def too_deep(context: Context, span: Span) -> NoReturn:
    """The limit on where a swap may stand."""
    context.limit(
        "swap-too-deep",
        "how often this swaps does not follow from the iterators in an affine way",
        span,
        fix="swap directly in the body of one loop, outside any `if`",
    )


def _in_block(context: Context, stmts: tuple[syntax.Stmt, ...]) -> dict[Pair, int]:
    counts: dict[Pair, int] = {}
    for stmt in stmts:
        inner: dict[Pair, int] = {}
        match stmt:
            case syntax.Swap(left=left, right=right):
                first, second = context.scope.find(left), context.scope.find(right)
                if (
                    isinstance(first, ArrayEntry)
                    and isinstance(second, ArrayEntry)
                    and context.swaps.join(first.core, second.core)
                ):
                    inner = {pair_of(first.core, second.core): 1}
            case syntax.For(ranges=headers, body=body):
                inner = _in_block(context, body)
                for each in headers:
                    inner = _repeat(context, inner, each)
            case syntax.If(then=then, otherwise=otherwise):
                if any_swap(then) or any_swap(otherwise):
                    too_deep(context, stmt.condition.span)
            case syntax.Block(body=body):
                inner = _in_block(context, body)
            case _:
                pass
        for pair, count in inner.items():
            counts[pair] = counts.get(pair, 0) + count
    return counts


def any_swap(stmts: tuple[syntax.Stmt, ...]) -> bool:
    """Whether there is a `swap` anywhere in the statements."""
    for stmt in stmts:
        match stmt:
            case syntax.Swap():
                return True
            case syntax.For(body=body) | syntax.Block(body=body):
                if any_swap(body):
                    return True
            case syntax.If(then=then, otherwise=otherwise):
                if any_swap(then) or any_swap(otherwise):
                    return True
            case _:
                pass
    return False
