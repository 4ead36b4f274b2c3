"""Long columns on a GPU that are read once: blocks have shares of a column's places, and a second launch puts together what they leave.

before:  for c: { s = 0; for r: s = s + x[r, c]; t[c] = s / R }
after:   for each share of the rows, for each 32 columns: threads t: part[share, c] = what threads t of them have added up
         for each 32 columns: threads t: { s = the sum of part[k * T + t, c], added up over t; t[c] = s / R }

How many places a share has is one number, so that there are as many blocks as the array is large, however few its columns are, and the order of a
sum depends on how long a column is alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import loads, moved_to
from loopfuse.plan.mapping.body import Names
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
    one, dims = step.one, order_dims(fit.group)
    shares = ceil_div(combine("max", integer(0), one.length), sizes.SHARE)
    share = site.names.fresh("share")
    parts = parts_of(fit, step, site.names, site.program, shares, Iter(share))
    site.names.declare(parts.buffers)
    first = tidy(one.lower + Iter(share) * sizes.SHARE)
    own = Pass(
        map_expressions(one.nodes, lambda expr: moved_to(expr, parts.places)),
        tuple(replace(update, target=parts.places[update.target], whole=True) for update in one.updates),
        first,
        combine("min", one.upper, tidy(first + sizes.SHARE)),
    )
    of_share = replace(
        fit.body, steps=(own,), values={cell.array: cell for cell in parts.places.values()}, once=frozenset(),
        registers=_registers(fit.body, own.nodes),
    )  # fmt: skip
    chain = [(share, shares, Where.GRID)]
    return (
        _launch(fit, of_share, site, f"{name}{SHARES}", labels, dims, chain),
        together(fit, step, parts, shares, site, name, labels),
    )


@dataclass(frozen=True, slots=True)
class Parts:
    """What shares leave: for each result of a column, the partial result of a share, and the buffers of these."""

    places: dict[Load, Load]
    buffers: tuple[Buffer, ...]


def parts_of(fit: TeamsFit, step: Step, names: Names, program: PolyProgram, shares: Expr, share: Expr) -> Parts:
    """Room for `shares` partial results of each column, and those of one `share`."""
    extents, dims = dim_extents(fit.group, program), order_dims(fit.group)
    counts = [count_of(extents[dim]) for dim in dims]
    column = [tidy(Iter(stands_for(dim)) - extents[dim].lower) for dim in dims]
    places: dict[Load, Load] = {}
    buffers: list[Buffer] = []
    for update in step.one.updates:
        part = names.fresh(f"{update.target.array}_part")
        buffers.append(Buffer(part, "", update.target.dtype, (shares, *counts), Global()))
        places[update.target] = Load(part, (share, *column), update.target.dtype)
    return Parts(places, tuple(buffers))


def together(
    fit: TeamsFit, step: Step, parts: Parts, shares: Expr, site: Site, name: str, labels: tuple[str, ...]
) -> Launch:
    """The launch that puts the partial results of each column together, with what stands around the pass."""
    updates = step.one.updates
    folds = tuple(Fold(update.op, update.target, _at_place(parts.places[update.target])) for update in updates)
    steps = (*step.before, Pass(folds, updates, integer(0), shares), *step.after)
    around = (*step.before, *folds, *step.after)
    body = replace(fit.body, steps=steps, registers=_registers(fit.body, around))
    return _launch(fit, body, site, f"{name}{TOGETHER}", labels, order_dims(fit.group), [])


def _launch(
    fit: TeamsFit, body: Body, site: Site, name: str, labels: tuple[str, ...], dims: Sequence[str], outside: Sequence[tuple[str, Expr, Where]]
) -> Launch:
    """A launch of MANY threads for each column."""
    thread = site.names.fresh("t")
    chain, point, there = fit.grid_of_teams(site, dims, sizes.COLUMNS, [(thread, integer(sizes.MANY), Where.BLOCK)])
    team = Team(Threads(((thread, sizes.MANY),)), 0, least=1, inside=there)
    return fit.launch(name, labels, [*outside, *chain], replace(fit, body=body).nodes(site, point, team))


def _at_place(part: Load) -> Load:
    """The partial result of the share that stands for the place."""
    return replace(part, index=(Iter(COLUMN), *part.index[1:]))


def _registers(body: Body, nodes: Sequence[TreeNode]) -> tuple[Buffer, ...]:
    """Those of a column that the nodes touch."""
    used = {load.array for node in walk_nodes(tuple(nodes)) for expr in node_expressions(node) for load in loads(expr)}
    return tuple(each for each in body.registers if each.name in used)
