"""A few rows at once, on a CPU: what their sums read besides their own row is loaded once for all of them.

before:  for i: s = 0;  for c: s = s + a[i, c] * x[c];  y[i] = s
after:   for each 4 rows: for m in 0..4: for l in 0..16: part[m, l] = 0
                          for c in 0..n // 16: for m in 0..4: for l in 0..16: part[m, l] = part[m, l] + a[i + m, c * 16 + l] * x[c * 16 + l]
                          for m in 0..4: s = 0;  (part[m, ...] put together);  s = s + part[m, 0];  y[i + m] = s

Rows are the strands that one row's sums have otherwise (`plan.mapping.lanes`): as many additions are under way, and as many streams of
memory as rows. The order of a row's sum depends on the program alone: rows that are left over are summed alike, one by one.
"""

from __future__ import annotations

from collections.abc import Callable

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import iterators, loads, moved_to, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.lanes import (
    CHEAP,
    FEW,
    LANES,
    STRANDS,
    put_together,
    side_by_side,
)
from loopfuse.plan.strategies.rows.body import COLUMN, Body, Pass, own_registers
from loopfuse.tree.looptree import Compute, Copy, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.price import usual_price
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes


def rows_at_once(body: Body, row: str) -> int:
    """How many rows go together, by the variable that stands for the row; 1 where nothing is won: where no reduction reads what
    the rows share, where an iteration does much, or where what a row does besides has to go ahead of its sums."""
    if len(body.passes) != 1:
        return 1
    (one,) = body.passes
    summed = {update.statement for update in one.updates}
    if one.outer or not summed or not all(isinstance(n, Compute) and n.statement in summed and n.predicate is None for n in one.nodes):
        return 1
    asked = {load for node in one.nodes for expr in node_expressions(node) for load in loads(expr)}
    shares = any(COLUMN in iterators(load) and row not in iterators(load) for load in asked)
    targets = {update.target for update in one.updates}
    set_before = {n.target.array for step in body.steps if not isinstance(step, Pass) for n in walk_nodes((step,)) if isinstance(n, Compute)}
    if not shares or usual_price(one.nodes) > CHEAP or any(load.array in set_before for load in asked - targets):
        return 1
    return max(1, STRANDS // len(targets))


def few_rows(at: Callable[[Expr], Body], rows: int, names: Names) -> tuple[TreeNode, ...]:
    """What a worker runs for so many rows; `at(m)` is what is done with row m of them."""
    own = own_registers(at(integer(0)), names)
    updates = _pass(at(integer(0))).updates
    cells = [names.register(f"{update.target.array}_lane", update.target, rows * LANES) for update in updates]

    def lane(number: int, row: Expr, place: Expr) -> Load:
        return Load(cells[number].array, (tidy(row * LANES + place),), updates[number].target.dtype)

    def each_row(body: Callable[[Expr], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        if rows == 1:
            return body(integer(0))
        var = names.fresh("m")
        return (Loop(var, integer(0), integer(rows), 1, Where.UNROLLED, body(Iter(var))),)

    def cleared(row: Expr) -> tuple[TreeNode, ...]:
        out: list[TreeNode] = []
        for number, update in enumerate(updates):
            out += side_by_side(LANES, lambda place, n=number, nothing=update.nothing: (Copy(lane(n, row, place), nothing),), names)
        return tuple(out)

    def added(row: Expr, place: Expr, into: Expr) -> tuple[TreeNode, ...]:
        one = _pass(at(row))
        found = {update.target: lane(number, row, into) for number, update in enumerate(one.updates)}
        return map_expressions(one.nodes, lambda expr: moved_to(tidy(substitute(moved_to(expr, found), {COLUMN: place})), own))

    def ended(row: Expr) -> tuple[TreeNode, ...]:
        """What stands before the sums, the sums, and what stands behind them."""
        out: list[TreeNode] = []
        for step in at(row).steps:
            if not isinstance(step, Pass):
                out += map_expressions((step,), lambda expr: moved_to(expr, own))
                continue
            for number, update in enumerate(step.updates):
                place = own.get(update.target, update.target)
                out += put_together(update, lambda k, n=number: lane(n, row, k), LANES, place, names)
        return tuple(out)

    one = _pass(at(integer(0)))
    count = combine("max", integer(0), one.length)
    out = [*each_row(cleared)]
    before, done = 1, integer(0)
    for width in (LANES, FEW, 1):
        var = names.fresh("c")

        def turn(row: Expr, var: str = var, width: int = width) -> tuple[TreeNode, ...]:
            return side_by_side(width, lambda place: added(row, one.lower + Iter(var) * width + place, place), names)

        out.append(Loop(var, tidy(done * (before // width)), count // width, 1, Where.SERIAL, each_row(turn)))
        before, done = width, count // width
    return (*out, *each_row(ended))


def _pass(body: Body) -> Pass:
    (one,) = body.passes
    return one
