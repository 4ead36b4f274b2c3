"""Long columns on a GPU that are read once: blocks have shares of a column's places, and a second launch puts together what they leave.

before:  for c: { s = 0; for r: s = s + x[r, c]; t[c] = s / R }
after:   for each share of the rows, for each 32 columns: threads t: part[share, c] = what threads t of them have added up
         for each 32 columns: threads t: { s = the sum of part[k * T + t, c], added up over t; t[c] = s / R }

How many places a share has is one number, so that there are as many blocks as the array is large, however few its columns are, and the order of a
sum depends on how long a column is alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import loads, moved_to
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, order_dims
from loopfuse.plan.mapping.threads import stands_for
from loopfuse.plan.strategies.rows import sizes
from loopfuse.plan.strategies.rows.blocks import Step, find_steps
from loopfuse.plan.strategies.rows.body import COLUMN, Body, Pass
from loopfuse.plan.strategies.rows.gpu import Team, Threads
from loopfuse.plan.strategies.rows.teams import TeamsFit
from loopfuse.plan.units.groups import Group
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Buffer, Fold, Global, Launch, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes

SHARES, TOGETHER = "_shares", "_together"
"""How the names of the two launches end."""


def step_in_shares(body: Body, group: Group, program: PolyProgram) -> Step | None:
    """The pass over a column that may go in shares, with what stands around it; None where a column is read again or leaves nothing,
    or how long it is depends on loops of the host, and with it what shares leave."""
    steps = find_steps(body)
    if steps is None or len(steps) != 1 or not steps[0].one.updates or (group.scope and group.scope.host):
        return None
    return steps[0] if all(each.step == 1 for each in dim_extents(group, program).values()) else None


def share_launches(fit: TeamsFit, step: Step, site: Site, name: str, labels: tuple[str, ...]) -> tuple[Launch, Launch]:
    """The two launches, for columns of a place at least."""
    one, dims, extents = step.one, order_dims(fit.group), dim_extents(fit.group, site.program)
    shares = ceil_div(combine("max", integer(0), one.length), sizes.SHARE)
    counts = [count_of(extents[dim]) for dim in dims]
    column = [tidy(Iter(stands_for(dim)) - extents[dim].lower) for dim in dims]
    share = site.names.fresh("share")
    parts: dict[Load, Load] = {}
    for update in one.updates:
        part = site.names.fresh(f"{update.target.array}_part")
        site.names.add(Buffer(part, "", update.target.dtype, (shares, *counts), Global()))
        parts[update.target] = Load(part, (Iter(share), *column), update.target.dtype)

    first = tidy(one.lower + Iter(share) * sizes.SHARE)
    own = Pass(
        map_expressions(one.nodes, lambda expr: moved_to(expr, parts)),
        tuple(replace(update, target=parts[update.target], whole=True) for update in one.updates),
        first,
        combine("min", one.upper, tidy(first + sizes.SHARE)),
    )
    of_share = replace(
        fit.body, steps=(own,), values={cell.array: cell for cell in parts.values()}, once=frozenset(), registers=_registers(fit.body, own.nodes)
    )
    folds = tuple(Fold(update.op, update.target, _at_place(parts[update.target])) for update in one.updates)
    together = Pass(folds, one.updates, integer(0), shares)
    around = (*step.before, *folds, *step.after)
    of_column = replace(fit.body, steps=(*step.before, together, *step.after), registers=_registers(fit.body, around))

    def launch(body: Body, called: str, outside: list[tuple[str, Expr, Where]]) -> Launch:
        thread = site.names.fresh("t")
        chain, point, there = fit.grid_of_teams(site, dims, sizes.COLUMNS, [(thread, integer(sizes.MANY), Where.BLOCK)])
        team = Team(Threads(((thread, sizes.MANY),)), 0, least=1, inside=there)
        return fit.launch(called, labels, [*outside, *chain], replace(fit, body=body).nodes(site, point, team))

    return (
        launch(of_share, f"{name}{SHARES}", [(share, shares, Where.GRID)]),
        launch(of_column, f"{name}{TOGETHER}", []),
    )


def _at_place(part: Load) -> Load:
    """The partial result of the share that stands for the place."""
    return replace(part, index=(Iter(COLUMN), *part.index[1:]))


def _registers(body: Body, nodes: Sequence[TreeNode]) -> tuple[Buffer, ...]:
    """Those of a column that the nodes touch."""
    used = {load.array for node in walk_nodes(tuple(nodes)) for expr in node_expressions(node) for load in loads(expr)}
    return tuple(each for each in body.registers if each.name in used)
