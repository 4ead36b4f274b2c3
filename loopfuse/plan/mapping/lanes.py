"""Reductions in lanes, on a CPU: several accumulators, as vectors have them, where one sum after the other would wait for
each addition.

before:  for k: s = s + f(k)
after:   for l in 0..16: part[l] = 0
         for k in 0..n // 16: for l in 0..16: part[l] = part[l] + f(k * 16 + l)
         for k in n // 16 * 4..n // 4: for l in 0..4: part[l] = part[l] + f(k * 4 + l)
         for k in n // 4 * 4..n: part[0] = part[0] + f(k)
         for l in 0..8: part[l] = part[l] + part[l + 8]        (and so on: 4, 2, 1)
         s = s + part[0]

An iteration that does little waits for the addition before: then there are four times as many lanes, and one loop more.

How many there are is one number for all machines and all sizes, and with it the order of a sum. Loops that turn out to
have few iterations stay as they are: what is put together at the end would take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.linear import are_neighbours, constant_value, tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, combine, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import (
    has_checks,
    iterators,
    loads,
    moved_to,
    subscript_iterators,
    substitute,
)
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.units.forest import fold_of, may_reorder, order_is_free
from loopfuse.plan.units.groups import Group
from loopfuse.poly.isl_relations import carried_at
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Buffer, Compute, Copy, Fold, Guard, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.price import usual_price
from loopfuse.tree.rewrite.independent import independent_parts
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes

LANES = 16
"""Accumulators of a reduction: two vectors of f32 on most machines, so that an addition need not wait."""

STRANDS = 4
"""How many times as many lanes an iteration has that would wait for the one before: so many additions are under way."""

CHEAP = 24
"""Instructions of such an iteration, at most: what others do fills the time of an addition."""

FEW = 4
"""Lanes of what is left of whole rounds."""

PLACE = "@place"
"""Stands for an iteration."""

LEAST = 2 * LANES
"""Iterations of a loop that has lanes, at least."""

At = Callable[[Expr, Mapping[Load, Load]], tuple[TreeNode, ...]]
"""What an iteration at a place does, with what its updates add to found in cells."""


@dataclass(frozen=True, slots=True)
class Update:
    """An update of a reduction, into `target`. `whole`: the reduction starts from nothing; otherwise it adds to
    what the target holds."""

    statement: str
    op: str
    target: Load
    whole: bool

    @property
    def nothing(self) -> Const:
        """What a lane begins with."""
        return Const(neutral(self.op, self.target.dtype), self.target.dtype)


def in_lanes(
    updates: Sequence[Update],
    lower: Expr,
    upper: Expr,
    at: At,
    names: Names,
    inside: Callable[[list[TreeNode]], list[TreeNode]] = lambda nodes: nodes,
    place_of: Callable[[Load], Load] = lambda target: target,
) -> list[TreeNode]:
    """A loop from `lower` to before `upper` with its updates in lanes; `inside` puts loops around it, and `place_of` says
    where what an update adds to lies."""
    first = at(lower, {})
    parts = sharing(independent_parts(first), at(Iter(PLACE), {}), PLACE)
    summed = {u.statement for u in updates}
    strands = strands_of([[first[k] for k in part] for part in parts], summed)
    cells = {u.target: names.register(f"{u.target.array}_lane", u.target, strands * LANES) for u in updates}
    zero = integer(0)

    def loop(lower: Expr, upper: Expr, mapping: Where, body: Callable[[Expr], tuple[TreeNode, ...]]) -> Loop:
        var = names.fresh("c" if mapping is Where.SERIAL else "l")
        return Loop(var, lower, upper, 1, mapping, body(Iter(var)))

    def lane(target: Load, number: Expr) -> Load:
        return Load(cells[target].array, (tidy(number),), target.dtype)

    def one(place: Expr, number: Expr, keep: tuple[int, ...]) -> tuple[TreeNode, ...]:
        nodes = at(tidy(place), {target: lane(target, number) for target in cells})
        return tuple(nodes[position] for position in keep)

    # No places at all may be fewer than none: `2..N-2` of two.
    count = combine("max", zero, tidy(upper - lower))

    def turns(keep: tuple[int, ...]) -> list[TreeNode]:
        """Whole rounds of all lanes, of one part of them, of a few, and what is left."""
        out: list[TreeNode] = []
        before, done = 1, zero
        for parts, width in dict.fromkeys(((strands, LANES), (1, LANES), (1, FEW), (1, 1))):
            size = parts * width

            def turn(number: Expr, parts: int = parts, width: int = width, size: int = size) -> tuple[TreeNode, ...]:
                return in_strands(parts, width, lambda k: one(lower + number * size + k, k, keep), names)

            out.append(loop(tidy(done * (before // size)), count // size, Where.SERIAL, turn))
            before, done = size, count // size
        return out

    def cleared(update: Update) -> tuple[TreeNode, ...]:
        return in_strands(strands, LANES, lambda k: (Copy(lane(update.target, k), update.nothing),), names)

    out: list[TreeNode] = [node for update in updates for node in cleared(update)]
    out += inside([node for part in parts for node in turns(part)])
    for update in updates:
        out += put_together(update, lambda k, target=update.target: lane(target, k), strands * LANES, place_of(update.target), names)
    return out


def in_strands(
    parts: int, width: int, body: Callable[[Expr], tuple[TreeNode, ...]], names: Names, where: Where = Where.VECTOR
) -> tuple[TreeNode, ...]:
    """What `body` says of each of `parts` times `width` lanes."""
    if parts == 1:
        return side_by_side(width, body, names, where)
    var = names.fresh("l")
    inner = in_strands(1, width, lambda lane: body(Iter(var) * width + lane), names, where)
    return (Loop(var, integer(0), integer(parts), 1, Where.UNROLLED, inner),)


def side_by_side(
    width: int, body: Callable[[Expr], tuple[TreeNode, ...]], names: Names, where: Where = Where.VECTOR
) -> tuple[TreeNode, ...]:
    """What `body` says of each of so many neighbours, as a vector."""
    if width == 1:
        return body(integer(0))
    var = names.fresh("l")
    return (Loop(var, integer(0), integer(width), 1, where, body(Iter(var))),)


def put_together(update: Update, lane: Callable[[Expr], Load], count: int, place: Load, names: Names) -> list[TreeNode]:
    """So many lanes of an update added up by halves, and the result in its place."""
    out: list[TreeNode] = []
    while count := count // 2:

        def folded(k: Expr, half: int = count) -> tuple[TreeNode, ...]:
            return (Fold(update.op, lane(k), lane(k + half)),)

        out += side_by_side(count, folded, names)
    total = lane(integer(0))
    out.append(Copy(place, total) if update.whole else Fold(update.op, place, total))
    return out


def strands_of(parts: Sequence[Sequence[TreeNode]], summed: Collection[str]) -> int:
    """How many times as many lanes there are where these parts each have a loop, by the updates in them (of statements `summed`)."""
    updates = [sum(isinstance(node, Compute) and node.statement in summed for node in part) for part in parts]
    together = tuple(node for part in parts for node in part)
    return max(1, STRANDS // max(1, *updates)) if usual_price(together) <= CHEAP else 1


def sharing(parts: Sequence[tuple[int, ...]], nodes: Sequence[TreeNode], var: str) -> list[tuple[int, ...]]:
    """Independent parts of what an iteration of `var` does, joined where they read the same element of it: that is loaded once, and
    so are several streams of memory under way."""
    out: list[tuple[tuple[int, ...], set[Load]]] = []
    for part in parts:
        asked = {load for k in part for expr in node_expressions(nodes[k]) for load in loads(expr) if var in iterators(load)}
        together = [one for one in out if one[1] & asked]
        out = [one for one in out if not one[1] & asked]
        whole = sorted({*part}.union(*(one for one, _ in together)))
        out.append((tuple(whole), asked.union(*(found for _, found in together))))
    return sorted(part for part, _ in out)


# ----------------------------------------------------------------------------- of any loops


def with_lanes(nodes: Sequence[TreeNode], group: Group, program: PolyProgram, names: Names) -> tuple[TreeNode, ...]:
    """What a thread runs, its innermost loops in lanes where their sums may be in another order and neighbouring
    iterations read neighbours in memory."""
    out: list[TreeNode] = []
    for node in nodes:
        hoisted = _without_guard(node)
        if hoisted is not None and find_updates(hoisted[1], group, program, names.buffers):
            condition, loop = hoisted
            out.append(Guard(condition, with_lanes((loop,), group, program, names)))
            continue
        match node:
            case Loop(lower=lower, upper=upper, body=body) if updates := find_updates(node, group, program, names.buffers):

                def at(place: Expr, cells: Mapping[Load, Load], loop: Loop = node) -> tuple[TreeNode, ...]:
                    return map_expressions(
                        loop.body, lambda expr: tidy(substitute(moved_to(expr, cells), {loop.var: place}))
                    )

                lanes = tuple(in_lanes(updates, lower, upper, at, names))
                is_known = constant_value(upper - lower) is not None
                out += lanes if is_known else (Guard(tidy(upper - lower) >= LEAST, lanes, (node,)),)
            case Loop(body=body):
                out.append(replace(node, body=with_lanes(body, group, program, names)))
            case Guard(then=then, otherwise=otherwise):
                ways = [with_lanes(each, group, program, names) for each in (then, otherwise)]
                out.append(replace(node, then=ways[0], otherwise=ways[1]))
            case _:
                out.append(node)
    return tuple(out)


def statements_in_lanes(
    nodes: Sequence[TreeNode], group: Group, program: PolyProgram, buffers: Mapping[str, Buffer]
) -> frozenset[str]:
    """The statements whose updates `with_lanes` makes in another order."""
    loops = ((_without_guard(node) or (None, node))[1] for node in walk_nodes(tuple(nodes)) if isinstance(node, Loop))
    return frozenset(u.statement for loop in loops for u in find_updates(loop, group, program, buffers))


def _without_guard(node: TreeNode) -> tuple[Expr, Loop] | None:
    """before: for k: if c: s = s + f(k)        after: c        for k: s = s + f(k)"""
    match node:
        case Loop(var=var, body=(Guard(condition=condition, then=then, otherwise=()),)):
            is_fixed = var not in iterators(condition) and not loads(condition)
            return (condition, replace(node, body=then)) if is_fixed else None
        case _:
            return None


def find_updates(
    loop: Loop, group: Group, program: PolyProgram, buffers: Mapping[str, Buffer]
) -> tuple[Update, ...]:
    """The updates of an innermost loop that may run in lanes; none where the loop gains nothing by it, or its iterations
    have an order for another reason."""
    body = [node for node in loop.body if isinstance(node, Compute) and not has_checks(*_asked(node), node.value)]
    count = constant_value(loop.upper - loop.lower)
    if len(body) < len(loop.body) or not body or loop.mapping is not Where.SERIAL or loop.step != 1:
        return ()
    if (count is not None and count < LEAST) or loads(loop.lower) or loads(loop.upper) or group.scope is None:
        return ()
    if any(not node.iteration or node.iteration[-1] != Iter(loop.var) for node in body):
        return ()
    updates = tuple(u for node in body if (u := _update_of(node, loop, program, group.scope.reassociate)) is not None)
    targets = {update.target for update in updates}
    own = [node for node in body if node.target not in targets]
    if not updates or len(targets) < len(updates) or not _are_own(own, body, buffers):
        return ()
    if any(node.predicate is not None for node in own):
        return ()
    asked = [load for node in body for part in _asked(node) for load in loads(part)]
    if any(load in targets for load in asked) or any(
        each in loads(node.value) for node in body for each in targets - {node.target}
    ):
        return ()  # a partial result is used
    used = [*asked, *(load for node in body for load in loads(node.value) if load not in targets)]
    is_vector = all(are_neighbours(load.index, loop.var) for load in used)
    return updates if is_vector and _is_free(body, group, program) else ()


def _asked(node: Compute) -> tuple[Expr, ...]:
    """What decides whether the statement runs."""
    return () if node.predicate is None else (node.predicate,)


def _update_of(node: Compute, loop: Loop, program: PolyProgram, reassociate: bool) -> Update | None:
    """The update of a sum of floats that a node is: of others LLVM makes vectors itself."""
    statement = program.by_id[node.statement]
    if not statement.reduction or statement.kind == "init" or not may_reorder(statement, reassociate):
        return None
    is_fixed = loop.var not in subscript_iterators(node.target)
    if not node.target.dtype.is_float or not is_fixed or loads(node.value).count(node.target) != 1:
        return None
    return Update(statement.id, fold_of(statement.reduction), node.target, False)


def _are_own(own: Sequence[Compute], body: Sequence[Compute], buffers: Mapping[str, Buffer]) -> bool:
    """Are these registers that each iteration sets before it reads them?"""
    names = {node.target.array for node in own}
    if not all(isinstance(buffers[name].home, Register) and not node.target.index for node in own for name in names):
        return False
    known: set[str] = set()
    for node in body:
        if any(load.array in names - known for load in loads(node.value)):
            return False
        known.add(node.target.array)
    return True


def _is_free(body: Sequence[Compute], group: Group, program: PolyProgram) -> bool:
    """Does nothing but the reductions themselves keep the iterations of the statements' innermost loop in order?"""
    assert group.scope is not None
    statements = {node.statement: program.by_id[node.statement] for node in body}
    inner = {statement.loops[-1].iterator for statement in statements.values()}
    depths = {len(statement.loops) for statement in statements.values()}
    if len(inner) > 1 or len(depths) > 1:
        return False
    (depth,) = depths
    own: set[str] = set()
    for d in group.scope.touching(statements):
        if d.source not in statements or d.sink not in statements:
            continue
        if order_is_free(d, statements[d.source], group.scope.reassociate):
            own |= {d.source}
            continue
        if not carried_at(d.relation, depth - 1).is_empty():
            return False
    # Where the analysis gave up, it does not know of them either.
    return own >= {node.statement for node in body if statements[node.statement].reduction}
