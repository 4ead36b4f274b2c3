"""What is done along a loop with running values, read off the nodes that one thread would run.

    s = 0                                      before
    for i in 0..N:                             the loop
        e = exp(x[i])                              feeding: what the updates need
        s = s + e                                  an update of the accumulator s
        y[i] = s / e                               what reads the running value
    t = s                                      after

Its rules are those of dependences (`plan.units.running`) and of form: one loop whose bounds no iterator and no data
decide, of computations, perhaps under conditions; what stands before it sets registers; what stands after it
needs nothing of it but the accumulators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.slope import is_one, slope
from loopfuse.lang.walk import iterators, loads, subscript_iterators, substitute
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.mapping.threads import stands_for, symbolic_body
from loopfuse.plan.strategies.scan.likely import is_along
from loopfuse.plan.strategies.scan.recurrence import in_registers
from loopfuse.plan.units.forest import fold_of
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.running import find_running, may_recur
from loopfuse.poly.model import Statement
from loopfuse.tree.looptree import LINEAR, Buffer, Compute, Global, Guard, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import as_load, map_expressions, node_expressions, walk_nodes

PLACE = "@place"
"""Stands for the loop's variable in what `read_body` returns."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A running value of the program's array `name`: its update's statement, the operation, and where it lies. Partial results of a linear
    recurrence are maps."""

    statement: str
    op: str
    place: Load
    name: str

    @property
    def is_linear(self) -> bool:
        """Is it one of a linear recurrence?"""
        return self.op == LINEAR


@dataclass(frozen=True, slots=True)
class Body:
    """What is done, in order; loops run from `lower` in steps of `step` to before `upper`, and `each` is an
    iteration, at PLACE. `feeding`: the part of it that makes the partial results. `kept`: the accumulators lie in
    memory. `registers`: those of the iterations and of what stands around them, but for accumulators. `carried`: the recurrences
    (statements) through arrays, whose accumulators are registers of the strategy's own (`recurrence`)."""

    before: tuple[TreeNode, ...]
    after: tuple[TreeNode, ...]
    lower: Expr
    upper: Expr
    step: int
    each: tuple[TreeNode, ...]
    feeding: tuple[TreeNode, ...]
    accumulators: tuple[Accumulator, ...]
    registers: tuple[Load, ...]
    memory: tuple[Buffer, ...]
    hint: str
    carried: frozenset[str] = frozenset()

    def at(self, point: Mapping[str, Expr]) -> Body:
        """The same at a point of the group: with these values of the variables that stand for it."""

        def moved(expr: Expr) -> Expr:
            return tidy(substitute(expr, point))

        def nodes(each: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
            return map_expressions(each, moved)

        return replace(
            self,
            before=nodes(self.before),
            after=nodes(self.after),
            each=nodes(self.each),
            feeding=nodes(self.feeding),
            accumulators=tuple(replace(a, place=as_load(moved(a.place))) for a in self.accumulators),
        )

    def is_memory(self, a: Accumulator) -> bool:
        """Does the program's accumulator lie in memory?"""
        return any(buffer.name == a.place.array for buffer in self.memory)


def _is_serial(node: TreeNode) -> bool:
    return isinstance(node, Loop) and node.mapping is Where.SERIAL


class _Other(Exception):
    """The nodes have another form."""


def read_body(group: Group, site: Site) -> Body | None:
    """What is done at a point of the group; None where there are no running values, or the form is another."""
    if group.scope is None or group.legality not in (Legality.INDEPENDENT, Legality.SERIAL):
        return None
    if group.recomputed or group.absorbed:
        return None
    if not any(s.reduction or may_recur(s) for p in group.members for s in p.unit.statements):
        return None
    nodes, names = symbolic_body(group, site)
    loops = [number for number, node in enumerate(nodes) if isinstance(node, Loop)]
    if len(loops) > 1 and not (site.device == "cpu" and group.dims):
        return None
    for number in loops:
        try:
            return _read(group, site, names.copy(), nodes, number)
        except _Other:
            continue
    return None


def _read(group: Group, site: Site, names: Names, nodes: Sequence[TreeNode], number: int) -> Body:
    """The same, where the loop is the one of that number. Others stand before and after it where one worker runs them all."""
    assert group.scope is not None
    before, loop, after = tuple(nodes[:number]), nodes[number], tuple(nodes[number + 1 :])
    assert isinstance(loop, Loop)
    bounds = (loop.lower, loop.upper)
    if loop.mapping is not Where.SERIAL or any(iterators(each) or loads(each) for each in bounds):
        raise _Other
    by_worker = site.device == "cpu" and bool(group.dims)
    if not all(isinstance(each, Compute | Guard) for each in walk_nodes(loop.body)):
        raise _Other
    if not all(isinstance(each, Compute | Guard) or (by_worker and _is_serial(each)) for each in walk_nodes((*before, *after))):
        raise _Other
    inside = {n.statement: site.program.statement(n.statement) for n in walk_nodes(loop.body) if isinstance(n, Compute)}
    iterator = _iterator(group, tuple(inside.values()))
    running = find_running(tuple(inside.values()), iterator, group.scope)
    if isinstance(running, str):
        raise _Other
    carried = frozenset(id for id, load in running.before.items() if load != inside[id].target)
    nodes, runs = in_registers(nodes, carried, names)
    if runs.keys() != carried:
        raise _Other
    if carried:
        place = len(nodes) - len(after) - 1
        before, loop = tuple(nodes[:place]), nodes[place]
        assert isinstance(loop, Loop)
    each = map_expressions(loop.body, lambda expr: substitute(expr, {loop.var: Iter(PLACE)}))
    accumulators = tuple(
        _accumulator(inside[id], id in running.before, each, runs.get(id))
        for id in running.updates
    )
    if len({a.place for a in accumulators}) < len(accumulators):
        raise _Other
    _check_private(each, accumulators, before, names)
    own = {a.place.array for a in accumulators}
    if not by_worker:
        _check_around(group, before, after, {*inside}, own | {inside[id].target.array for id in carried}, names, site.device == "gpu")
    needed = running.feeding | frozenset(running.updates)
    kept = {n.target.array for n in walk_nodes(each) if isinstance(n, Compute) and n.statement in running.feeding}
    if not all(isinstance(names.buffers[name].home, Register) for name in kept):
        raise _Other  # it would be written twice
    registers = {
        load: None
        for node in walk_nodes((*before, *each, *after))
        for expr in node_expressions(node)
        for load in loads(expr)
        if isinstance(names.buffers[load.array].home, Register) and load.array not in own
    }
    if any(load.index for load in registers):
        raise _Other
    memory = tuple(b for b in names.buffers.values() if isinstance(b.home, Global))
    return Body(
        before, after, loop.lower, loop.upper, loop.step, each, _only(each, needed, own), accumulators,
        tuple(registers), memory, iterator.split(".")[0], carried,
    )  # fmt: skip


def _iterator(group: Group, statements: Sequence[Statement]) -> str:
    """The loop of the program around all the statements that a point of the group runs itself."""
    host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
    found: set[tuple[str, ...]] = set()
    for s in statements:
        around = host | {c.iterator for c in group.placed[s.id].coordinates}
        found.add(tuple(name for name in s.iterators if name not in around))
    if len(found) != 1 or len(one := found.pop()) != 1:
        raise _Other
    return one[0]


def _accumulator(update: Statement, recurs: bool, each: Sequence[TreeNode], run: Load | None) -> Accumulator:
    found = [n for n in walk_nodes(tuple(each)) if isinstance(n, Compute) and n.statement == update.id]
    own = [n for n in found if run is None or n.target == run]
    if len(own) != 1:
        raise _Other  # it stands in a version for each parity of a swap
    (node,) = own
    if node.target.dtype.is_narrow_float:
        raise _Other  # nothing is added up in it, and partial results would be
    # A recurrence that adds to its value of the iteration before is a sum.
    op = fold_of(update.reduction) if not recurs else "sum" if is_one(slope(node.value, node.target)) else LINEAR
    count = loads(node.value).count(node.target)
    if count < 1 or (count > 1 and op != LINEAR) or any(PLACE in iterators(part) or loads(part) for part in node.target.index):
        raise _Other
    return Accumulator(update.id, op, node.target, update.target.array)


def _check_private(
    each: Sequence[TreeNode], accumulators: Sequence[Accumulator], before: Sequence[TreeNode], names: Names
) -> None:
    """An accumulator is accessed at its one place; registers that an iteration sets are its own."""
    places = {a.place.array: a.place for a in accumulators}
    for node in walk_nodes((*each, *before)):
        for load in (load for expr in node_expressions(node) for load in loads(expr)):
            if load != places.get(load.array, load):
                raise _Other
    outside = {n.target.array for n in walk_nodes(tuple(before)) if isinstance(n, Compute)}
    outside = {name for name in outside if isinstance(names.buffers[name].home, Register)}
    for node in walk_nodes(tuple(each)):
        if isinstance(node, Compute) and node.target.array not in places and node.target.array in outside:
            raise _Other


def _check_around(
    group: Group,
    before: Sequence[TreeNode],
    after: Sequence[TreeNode],
    inside: set[str],
    accumulators: set[str],
    names: Names,
    by_block: bool,
) -> None:
    """What stands before the loop sets registers, or, where a block runs it, memory that the loop does not need (but for what
    `accumulators` start from); what stands after it needs nothing that the loop leaves but its accumulators, and sets nothing that the
    loop needs."""
    set_first = [n.target.array for n in walk_nodes(tuple(before)) if isinstance(n, Compute)]
    homes = (Register, Global) if by_block else Register
    if not all(isinstance(names.buffers[name].home, homes) for name in {*set_first} - accumulators):
        raise _Other
    assert group.scope is not None
    parts = [{n.statement for n in walk_nodes(tuple(part)) if isinstance(n, Compute)} for part in (before, after)]
    for d in group.scope.touching(parts[0] | parts[1]):
        ends = {d.source, d.sink}
        between = sum(bool(ends & part) for part in (*parts, inside)) > 1
        is_own = d.kind == "flow" and d.source in parts[0]  # each thread sets it for itself
        if between and d.array not in accumulators and not is_own:
            raise _Other


def _only(nodes: Sequence[TreeNode], wanted: frozenset[str], own: Set[str]) -> tuple[TreeNode, ...]:
    """The computations of these statements alone, under their conditions, but for those that only show what is in an
    accumulator (one of `own`)."""
    out: list[TreeNode] = []
    for node in nodes:
        if isinstance(node, Guard):
            then, otherwise = _only(node.then, wanted, own), _only(node.otherwise, wanted, own)
            if then or otherwise:
                out.append(replace(node, then=then, otherwise=otherwise))
        elif isinstance(node, Compute) and node.statement in wanted:
            reads = {load.array for load in loads(node.value)}
            if node.target.array in own or reads.isdisjoint(own):
                out.append(node)
    return tuple(out)


def along(body: Body, dims: Sequence[str]) -> bool:
    """Do iterations touch neighbours in memory, or one place, wherever they touch it, and neighbours of their own
    somewhere? (Of points along `dims` that go along what they all share, neighbours are better run by neighbours.)"""
    own = {stands_for(dim) for dim in dims}
    touched = {load for node in walk_nodes(body.each) for expr in node_expressions(node) for load in loads(expr)}
    return all(is_along(load, PLACE) for load in touched) and any(
        PLACE in (names := subscript_iterators(load)) and (not own or not own.isdisjoint(names)) for load in touched
    )
