"""What one iteration of a CPU launch costs, as a formula in the sizes: what threads are given work by.

Instructions are counted (`lang.price`) with the loops around them; a loop whose bounds follow
another one is as long as in the middle of that. Twenty take about a nanosecond, in vectors, from a
cache. That is rough, and only decides how many threads take part and in what portions, never a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import assert_never

from loopfuse.lang.index import evaluate_index, trip_count
from loopfuse.lang.nodes import Binary, Call, Const, Expr, Load, combine, integer
from loopfuse.lang.price import OPERATION, expression_price
from loopfuse.lang.walk import iterators, substitute, symbols, walk_expr
from loopfuse.tree.looptree import (
    Arrive,
    Await,
    Barrier,
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Prefetch,
    Raise,
    Rescale,
    Running,
    Scan,
    Ticket,
    TreeNode,
)
from loopfuse.tree.looptree import (
    Mapping as Where,
)

PICOSECONDS = 50
"""An instruction for one element."""
RESCALE = 24
"""An exponential and what is done with it."""
DATA_TRIPS = 32
"""What a loop whose bounds depend on data is taken to run."""
LARGE = 1024
"""What a size is taken to be where it is not known."""
MOST_NODES = 100
"""A longer formula, as of lines with their edges, is made a number, at such sizes."""

Middles = Mapping[str, Expr]
"""The middle of each loop around, by its variable."""


def launch_prices(tree: LoopTree) -> dict[int, Expr]:
    """Picoseconds of one iteration of each launch's THREAD loops, by the launch's `id`."""
    found: dict[int, Expr] = {}

    def visit(nodes: tuple[HostNode, ...], around: Middles) -> None:
        for node in nodes:
            if isinstance(node, HostLoop):
                visit(node.body, {**around, node.var: _middle(node.lower, node.upper, around)})
            else:
                found[id(node)] = _launch(node, around)

    visit(tree.body, {})
    return found


def _launch(launch: Launch, around: Middles) -> Expr:
    body, middles = launch.body, dict(around)
    while len(body) == 1 and isinstance(loop := body[0], Loop) and loop.mapping is Where.THREAD:
        middles[loop.var] = _middle(loop.lower, loop.upper, middles)
        body = loop.body
    found = price(body, middles)
    if sum(1 for _ in walk_expr(found)) > MOST_NODES:
        found = integer(_at_usual_sizes(found))
    return found * PICOSECONDS


def price(body: tuple[TreeNode, ...], middles: Middles) -> Expr:
    """Instructions that a run of `body` takes."""
    total: Expr = integer(0)
    for node in body:
        total = total + _node(node, middles)
    return total


def usual_price(body: tuple[TreeNode, ...]) -> int:
    """The same as a number, where nothing is known of the sizes and the loops around."""
    return _at_usual_sizes(price(body, {}))


def _at_usual_sizes(found: Expr) -> int:
    return max(1, evaluate_index(found, dict.fromkeys(iterators(found) | symbols(found), LARGE)))


def _node(node: TreeNode, middles: Middles) -> Expr:
    match node:
        case Loop(mapping=Where.VECTOR, body=(Copy(value=Const()),)):
            return integer(0)  # registers that begin with a number
        case Loop(var=var, lower=lower, upper=upper, step=step):
            if any(isinstance(part, Load | Call) for end in (lower, upper) for part in walk_expr(end)):
                trips, middle = integer(DATA_TRIPS), integer(DATA_TRIPS // 2)
            else:
                left = _left_over(lower, upper)
                lower, upper = substitute(lower, middles), substitute(upper, middles)
                trips, middle = left or trip_count(lower, upper, step), _middle(lower, upper, {})
            return trips * price(node.body, {**middles, var: middle})
        case Guard(then=then, otherwise=otherwise):
            return combine("max", price(then, middles), price(otherwise, middles))
        case Compute(value=value, predicate=predicate):
            tested = 0.0 if predicate is None else expression_price(predicate, "cpu")
            return integer(ceil(OPERATION + expression_price(value, "cpu") + tested))
        case Ticket() | Running():
            return price(node.body, middles)
        case Rescale():
            return integer(RESCALE)
        case Copy() | Fold() | Combine() | Scan() | Prefetch() | Raise() | Await():
            return integer(OPERATION)
        case Barrier() | Arrive():
            return integer(0)
        case _:
            assert_never(node)


def _left_over(lower: Expr, upper: Expr) -> Expr | None:
    """Half the iterations that `n // 16 * 4 .. n // 4`, or `n // 16 * 16 .. n`, may have: what whole parts leave; None for other loops."""
    match lower:
        case Binary(op="mul", left=Binary(op="floordiv", left=whole, right=Const(value=size)), right=Const(value=factor)):
            match upper:
                case Binary(op="floordiv", left=same, right=Const(value=part)) if same == whole and part * factor == size:
                    return integer(int(factor) // 2)
                case _:
                    return integer(int(factor) // 2) if upper == whole and size == factor else None
        case _:
            return None


def _middle(lower: Expr, upper: Expr, middles: Middles) -> Expr:
    both = substitute(lower, middles) + substitute(upper, middles)
    return both // 2
