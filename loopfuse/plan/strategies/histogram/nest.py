"""What is done in a nest with scattered updates, read off the nodes that one thread would run.

    for y: for x: let b = img[y, x] // 4;  h[b] += 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import iterators, loads, map_expr, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.mapping.threads import symbolic_body
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.scattered import Scattered, find_scattered
from loopfuse.tree.looptree import Buffer, Compute, Guard, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, walk_nodes

FEW = 16
"""An inner loop of so many iterations, as of colours, is part of one of the loop around it."""


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops, outermost first and without their bodies, and what an iteration does. `result`: the buffer that is
    updated, at `index`. `buffers`: all that are used. `rows`: loops around, each of which says one subscript of the
    result; each row is a histogram of its own."""

    loops: tuple[Loop, ...]
    body: tuple[TreeNode, ...]
    found: Scattered
    result: Buffer
    buffers: tuple[Buffer, ...]
    variables: frozenset[str]
    index: tuple[Expr, ...]
    rows: tuple[Loop, ...] = ()

    def in_rows(self) -> Nest:
        """The nest of one row, where outer loops say subscripts of the result; itself where they do not."""
        names = [part.name for part in self.index if isinstance(part, Iter)]
        count = 0
        while count < len(self.loops) - 1 and names.count(self.loops[count].var) == 1:
            count += 1
        return replace(self, rows=(*self.rows, *self.loops[:count]), loops=self.loops[count:])

    def is_row(self, dimension: int) -> bool:
        """Does a loop over rows say the subscript?"""
        return any(self.index[dimension] == Iter(loop.var) for loop in self.rows)

    @property
    def extents(self) -> tuple[Expr, ...]:
        """Those of a row's histogram."""
        return tuple(extent for k, extent in enumerate(self.result.extents) if not self.is_row(k))

    @property
    def bins(self) -> int | None:
        """How many elements a row's histogram has; None where that is not known."""
        count = 1
        for extent in self.extents:
            size = constant_value(extent)
            if size is None:
                return None
            count *= size
        return count

    @property
    def neutral(self) -> Const:
        """What changes nothing."""
        dtype = self.result.dtype
        return Const(neutral(self.found.operation, dtype), dtype)

    def declare(self, names: Names) -> None:
        """Makes the buffers known, and keeps the variables that stand in `body` from being used otherwise."""
        names.declare(self.buffers)
        names.used.update(self.variables)

    def is_update(self, node: TreeNode) -> bool:
        """Is it the update?"""
        return isinstance(node, Compute) and node.statement in self.found.updates

    def at(
        self, place: Mapping[str, Expr], table: str = "", lead: Sequence[Expr] = (), held: Mapping[Load, Load] | None = None
    ) -> tuple[TreeNode, ...]:
        """An iteration at values of the loops' variables. `table`: what is updated instead of the result, behind these
        subscripts; `held`: what lies in registers, by where it is read."""

        def one(expr: Expr) -> Expr:
            if not isinstance(expr, Load):
                return expr
            if held and expr in held:
                return held[expr]
            if not table or expr.array != self.result.name:
                return expr
            index = (integer(0) if self.is_row(k) else part for k, part in enumerate(expr.index))
            return Load(table, (*lead, *index), expr.dtype, span=expr.span)

        def moved(expr: Expr) -> Expr:
            return tidy(substitute(map_expr(one, expr), place))

        return map_expressions(self.body, moved)


def read_nest(group: Group, site: Site) -> Nest | None:
    """What the group does; None where it has no scattered updates, or another form."""
    if group.scope is None or group.legality is not Legality.SERIAL or len(group.members) != 1:
        return None
    if group.recomputed or group.absorbed or group.time is not None:
        return None
    found = find_scattered(group.members[0].unit, group.scope, site.program)
    if isinstance(found, str):
        return None
    nodes, names = symbolic_body(group, site)
    loops: list[Loop] = []
    while len(nodes) == 1 and isinstance(loop := nodes[0], Loop) and loop.mapping is Where.SERIAL:
        nodes = loop.body
        loops.append(replace(loop, body=()))
    bounds = [bound for loop in loops for bound in (loop.lower, loop.upper)]
    if not loops or any(iterators(each) or loads(each) for each in bounds):
        return None
    variables = frozenset(loop.var for loop in loops)
    while len(loops) > 1 and (_length(loops[-1]) or FEW + 1) <= FEW:
        nodes = (replace(loops.pop(), body=tuple(nodes)),)
    inside = [*walk_nodes(nodes)]
    if not all(isinstance(node, Compute | Guard | Loop) for node in inside):
        return None
    updates = [node for node in inside if isinstance(node, Compute) and node.statement in found.updates]
    kept = [names.buffers[n.target.array] for n in inside if isinstance(n, Compute) and n not in updates]
    if frozenset(node.statement for node in updates) != found.updates or not all(isinstance(b.home, Register) and not b.extents for b in kept):
        return None
    result = names.buffers[updates[0].target.array]
    if result.array != found.array or any(node.target.array != result.name for node in updates) or len(result.extents) != len(updates[0].target.index):
        return None
    places = {node.target.index for node in updates}
    # Of several places a subscript that is not the same in all is any.
    index = tuple(parts[0] if len({*parts}) == 1 else integer(0) for parts in zip(*places, strict=True))
    return Nest(tuple(loops), nodes, found, result, tuple(names.buffers.values()), variables, index)


def _length(loop: Loop) -> int | None:
    return constant_value(length_of(loop))


def bin_at(nest: Nest, number: Expr) -> tuple[Expr, ...]:
    """The subscripts of element `number` of a row's histogram, row-major."""
    extents = nest.extents
    index: list[Expr] = []
    for extent in reversed(extents[1:]):
        size = constant_value(extent)
        assert size is not None
        index.append(tidy(number % size))
        number = tidy(number // size)
    return (number, *reversed(index))


def count_of(nest: Nest) -> Expr:
    """How many elements a row's histogram has; its one extent where that is a size."""
    count = nest.bins
    return nest.extents[0] if count is None else integer(count)


def with_rows(nest: Nest, index: Sequence[Expr], rows: Mapping[str, Expr]) -> tuple[Expr, ...]:
    """The subscripts of an element of the result: those of a row's histogram, and the row's own (by loops' variables)."""
    rest = iter(index)
    out: list[Expr] = []
    for k, part in enumerate(nest.index):
        out.append(rows[part.name] if nest.is_row(k) and isinstance(part, Iter) else next(rest))
    return tuple(out)


def length_of(loop: Loop) -> Expr:
    """The distance between a loop's ends."""
    return tidy(loop.upper - loop.lower)


def place_at(loop: Loop, number: Expr) -> Expr:
    """The value of a loop's variable in iteration `number`."""
    return tidy(loop.lower + number * loop.step)
