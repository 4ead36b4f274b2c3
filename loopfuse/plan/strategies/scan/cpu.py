"""Scans on a CPU: two parallel sweeps over chunks, and between them one worker over what their parts add.

A chunk is CHAINS parts of PART iterations, side by side in memory. The first sweep reduces each part in lanes, as
vectors do; the second goes along neighbours in lanes (`prefix`). Where neighbours cannot be lanes both go along all
parts of a chunk at once: their running values do not wait for each other, where one after the other each addition waits
for the one before. (Whole numbers do not wait, and LLVM makes lanes of them. Maps of a linear recurrence are put together
in order, so they have no lanes.) A ROUND of chunks at a time, so that the second sweep finds in a cache what the first
has read.

    for rounds r:
        worker c:  for parts p of chunk c: partial[p] = sum in lanes of x[p * PART..]
        one:       s = all totals before r;  for parts p of r: start[p] = s;  s = s + partial[p]
                   total[r] = sum of partial[p]
        worker c:  for p: run[p] = start[c * CHAINS + p]
                   for j in 0..PART: for p: run[p] = run[p] + x[(c * CHAINS + p) * PART + j];  y[..] = run[p]
    one:  s = s + all totals

All numbers are constants, and with them the order of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.scan.body import Accumulator, Body
from loopfuse.plan.strategies.scan.launches import (
    Between,
    LaunchWriter,
    at_place,
    cell,
    cleared,
    declare_between,
    finished,
    folded,
    inside_loops,
    points,
    positive,
    set_before,
    started,
)
from loopfuse.plan.strategies.scan.prefix import has_lanes, running
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import Copy, Guard, HostLoop, HostNode, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.independent import independent_parts

PART = 4096 + 80
"""Iterations of a part of a chunk. (Were it a power of two, parts side by side would share sets of a cache.)"""
CHAINS = 4
"""Parts of a chunk."""
CHUNK = PART * CHAINS
LANES = 16
"""Accumulators of a part, so that the loop can use vector registers and additions need not wait."""
ROUND = CHUNK * 96
"""Iterations that are swept twice before the next: what they touch stays in a last cache (13 MB of f64), and launches count little. (Of 16 chunks
twelve threads had two turns, the second for a third of them, and too many launches: 2^24 of f64 took 12.7 ms for 3.5, two threads 17 for 14.)"""


def plan_cpu(group: Group, body: Body, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
    """The launches: three for each round, and one for what the loop leaves."""
    counts = tuple(positive(count) for _, count in points(group, site)[0])
    rounds = _count(body, ROUND)
    between = declare_between(body, site, counts, _count(body, PART), rounds)
    turn = site.names.fresh("round")
    writer = _Writer(group, body, site, between, Iter(turn))
    inside = tuple(
        Launch(f"{name}_{suffix}", "scan", labels, nodes)
        for suffix, nodes in (("a", writer.partial()), ("b", writer.starts()), ("c", writer.again()))
    )
    out: list[HostNode] = [HostLoop(turn, integer(0), rounds, 1, inside)]
    if any(map(body.is_memory, body.accumulators)) or body.after:
        out.append(Launch(f"{name}_d", "scan", labels, writer.left()))
    return tuple(out)


def plan_in_lanes(group: Group, body: Body, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    """The launch where a worker has all iterations of a point of the group, neighbours in lanes."""
    return Launch(name, "scan", labels, _Writer(group, body, site, Between({}, {}, {}), integer(0)).all_in_lanes())


def _count(body: Body, size: int) -> Expr:
    """How many pieces of so many iterations there are."""
    return ceil_div(tidy(body.upper - body.lower), size * body.step)


def _unrolled(var: str, count: int, nodes: Sequence[TreeNode], first: int = 0) -> Loop:
    return Loop(var, integer(first), integer(count), 1, Where.UNROLLED, tuple(nodes))


def _waits(a: Accumulator) -> bool:
    """Does an update take long enough that one after the other would wait? (A whole number is added in a cycle.)"""
    return a.place.dtype.is_float or a.is_linear or a.op == "prod"


class _Writer(LaunchWriter):
    """Writes the launches of the round `turn`."""

    outermost = Where.THREAD

    def __init__(self, group: Group, body: Body, site: Site, between: Between, turn: Expr) -> None:
        super().__init__(group, body, site, between)
        self.turn = turn

    def chunk_loop(self, body: Body) -> Loop:
        """The chunks of the round, each a worker's."""
        return self.in_round(body, f"{body.hint}b", CHUNK, Where.THREAD)

    def in_round(self, body: Body, hint: str, size: int, where: Where) -> Loop:
        """A loop over the round's pieces of so many iterations."""
        low = tidy(self.turn * (ROUND // size))
        high = combine("min", _count(body, size), tidy(low + ROUND // size))
        return Loop(self.names.fresh(hint), low, high, 1, where, ())

    def parts_loop(self, body: Body, chunk: Loop) -> Loop:
        """The parts of a chunk."""
        low = tidy(Iter(chunk.var) * CHAINS)
        high = combine("min", _count(body, PART), tidy(low + CHAINS))
        return Loop(self.names.fresh("p"), low, high, 1, Where.SERIAL, ())

    def range(self, body: Body, part: Loop) -> tuple[Expr, Expr]:
        """The first place of a part, and the one behind its last."""
        size = PART * body.step
        low = tidy(body.lower + Iter(part.var) * size)
        return low, combine("min", body.upper, tidy(low + size))

    # ------------------------------------------------------------------------- the launches

    def partial(self) -> tuple[TreeNode, ...]:
        """What each part adds: in lanes, or, where its order matters, beside the other parts of its chunk."""
        chain, body, own = self.begin()
        chunk = self.chunk_loop(body)
        if any(a.is_linear for a in body.accumulators):
            whole, rest = self.partial_side_by_side(body, chunk, own), self.partial_in_turn(body, chunk, own)
            nodes: tuple[TreeNode, ...] = (Guard(self.is_whole(body, chunk), whole, (rest,)),)
        else:
            nodes = (self.partial_in_lanes(body, chunk, own),)
        return inside_loops([*chain, chunk], (*set_before(body, own), *nodes))

    def partial_in_lanes(self, body: Body, chunk: Loop, own: Mapping[Load, Load]) -> Loop:
        """One part of a chunk after the other, each in lanes."""
        part = self.parts_loop(body, chunk)
        lanes = self.partial_results(body, "lane", LANES)
        first = {place: cell(held, integer(0)) for place, held in lanes.items()}
        nodes: list[TreeNode] = []
        for a in body.accumulators:
            lane = self.names.fresh("l")
            nodes.append(_unrolled(lane, LANES, [cleared(a, cell(lanes[a.place], Iter(lane)))]))
        nodes += self.in_lanes(body, part, own, lanes)
        for a in body.accumulators:
            lane = self.names.fresh("l")
            fold = folded(a, first[a.place], cell(lanes[a.place], Iter(lane)))
            nodes.append(_unrolled(lane, LANES, [fold], 1))
            nodes.append(Copy(self.of(self.between.partial, a, Iter(part.var)), first[a.place]))
        return replace(part, body=tuple(nodes))

    def partial_side_by_side(self, body: Body, chunk: Loop, own: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
        """All parts of a whole chunk at once."""
        held = self.partial_results(body, "part", CHAINS)
        first, last = self.names.fresh("p"), self.names.fresh("p")
        clear = [cleared(a, cell(held[a.place], Iter(first))) for a in body.accumulators]
        number = tidy(Iter(chunk.var) * CHAINS + Iter(last))
        store = [
            Copy(self.of(self.between.partial, a, number), cell(held[a.place], Iter(last))) for a in body.accumulators
        ]
        along = self.along_parts(body, chunk, own, held, body.feeding)
        return (_unrolled(first, CHAINS, clear), along, _unrolled(last, CHAINS, store))

    def partial_in_turn(self, body: Body, chunk: Loop, own: Mapping[Load, Load]) -> Loop:
        """One part of a chunk after the other."""
        held = self.partial_results(body, "part")
        part, place = self.parts_loop(body, chunk), self.names.fresh(body.hint)
        low, high = self.range(body, part)
        nodes = (
            *(cleared(a, held[a.place]) for a in body.accumulators),
            Loop(place, low, high, body.step, Where.SERIAL, at_place(body.feeding, Iter(place), {**own, **held})),
            *(Copy(self.of(self.between.partial, a, Iter(part.var)), held[a.place]) for a in body.accumulators),
        )
        return replace(part, body=nodes)

    def in_lanes(
        self, body: Body, part: Loop, own: Mapping[Load, Load], lanes: Mapping[Load, Load]
    ) -> list[TreeNode]:
        """The updates of a part: whole rounds of LANES iterations, then what is left, in the first lane."""
        low, high = self.range(body, part)
        rest = self.names.fresh(body.hint)
        first = {place: cell(held, integer(0)) for place, held in lanes.items()}
        tail = at_place(body.feeding, Iter(rest), {**own, **first})
        if not any(a.place.dtype.is_float for a in body.accumulators):
            return [Loop(rest, low, high, body.step, Where.SERIAL, tail)]  # LLVM makes lanes of whole numbers
        size = LANES * body.step
        rounds = (high - low) // size

        def turns(keep: tuple[int, ...] | None) -> Loop:
            turn, lane = self.names.fresh("k"), self.names.fresh("l")
            place = tidy(low + (Iter(turn) * LANES + Iter(lane)) * body.step)
            cells = {**own, **{place: cell(held, Iter(lane)) for place, held in lanes.items()}}
            inner = at_place(body.feeding, place, cells)
            kept = inner if keep is None else [inner[number] for number in keep]
            return Loop(turn, integer(0), rounds, 1, Where.SERIAL, (_unrolled(lane, LANES, kept),))

        whole = turns(None)
        (inside,) = whole.body
        assert isinstance(inside, Loop)
        alone = independent_parts(inside.body)
        return [
            *([whole] if len(alone) == 1 else map(turns, alone)),
            Loop(rest, tidy(low + rounds * size), high, body.step, Where.SERIAL, tail),
        ]

    def starts(self) -> tuple[TreeNode, ...]:
        """What stands before each part of the round, and what the round adds."""
        chain, body, own = self.begin()
        carry = self.registers(body, "carry")
        total = self.partial_results(body, "sum")
        part = self.in_round(body, "p", PART, Where.SERIAL)
        each: list[TreeNode] = []
        for a in body.accumulators:
            added = self.of(self.between.partial, a, Iter(part.var))
            each.append(Copy(self.of(self.between.start, a, Iter(part.var)), carry[a.place]))
            each += [folded(a, carry[a.place], added), folded(a, total[a.place], added)]
        nodes = (
            *started(body, own, carry),
            self.totals(body, carry, self.turn),
            *(cleared(a, total[a.place]) for a in body.accumulators),
            replace(part, body=tuple(each)),
            *(Copy(self.of(self.between.total, a, self.turn), total[a.place]) for a in body.accumulators),
        )
        return inside_loops(chain or [self.one()], nodes)

    def left(self) -> tuple[TreeNode, ...]:
        """What the loop leaves."""
        chain, body, own = self.begin()
        carry = self.registers(body, "carry")
        nodes = (
            *started(body, own, carry),
            self.totals(body, carry, _count(body, ROUND)),
            *finished(body, own, carry),
        )
        return inside_loops(chain or [self.one()], nodes)

    def again(self) -> tuple[TreeNode, ...]:
        """All of each chunk, from what stands before its parts."""
        chain, body, own = self.begin()
        chunk = self.chunk_loop(body)
        if has_lanes(body):
            return inside_loops([*chain, chunk], (*set_before(body, own), self.near(body, chunk, own)))
        one_by_one = not any(map(_waits, body.accumulators))
        whole = (self.in_turn(body, chunk, own, True),) if one_by_one else self.side_by_side(body, chunk, own)
        ways = Guard(self.is_whole(body, chunk), whole, (self.in_turn(body, chunk, own, False),))
        return inside_loops([*chain, chunk], (*set_before(body, own), ways))

    def near(self, body: Body, chunk: Loop, own: Mapping[Load, Load]) -> Loop:
        """One part of a chunk after the other, each in lanes."""
        run = self.registers(body, "run")
        part = self.parts_loop(body, chunk)
        low, high = self.range(body, part)
        start = (Copy(run[a.place], self.of(self.between.start, a, Iter(part.var))) for a in body.accumulators)
        return replace(part, body=(*start, *running(self, body, own, run, low, high, tidy(high - low))))

    def is_whole(self, body: Body, chunk: Loop) -> Expr:
        """Has the chunk all its iterations?"""
        return tidy(body.lower + (Iter(chunk.var) * CHUNK + (CHUNK - 1)) * body.step) < body.upper

    def side_by_side(self, body: Body, chunk: Loop, own: Mapping[Load, Load]) -> tuple[TreeNode, ...]:
        """All parts of a whole chunk."""
        runs = self.registers(body, "run", CHAINS)
        first = self.names.fresh("p")
        number = tidy(Iter(chunk.var) * CHAINS + Iter(first))
        copies = [
            Copy(cell(runs[a.place], Iter(first)), self.of(self.between.start, a, number)) for a in body.accumulators
        ]
        return (_unrolled(first, CHAINS, copies), self.along_parts(body, chunk, own, runs, body.each))

    def along_parts(
        self, body: Body, chunk: Loop, own: Mapping[Load, Load], held: Mapping[Load, Load], nodes: Sequence[TreeNode]
    ) -> Loop:
        """`nodes` along all parts of a whole chunk at once, each with its own of `held`."""
        turn, lane = self.names.fresh("j"), self.names.fresh("p")
        away = (Iter(chunk.var) * CHAINS + Iter(lane)) * PART + Iter(turn)
        cells = {**own, **{place: cell(each, Iter(lane)) for place, each in held.items()}}
        element = at_place(nodes, tidy(body.lower + away * body.step), cells)
        return Loop(turn, integer(0), integer(PART), 1, Where.SERIAL, (_unrolled(lane, CHAINS, element),))

    def in_turn(self, body: Body, chunk: Loop, own: Mapping[Load, Load], is_whole: bool) -> Loop:
        """One part of a chunk after the other, all of which it has or not."""
        run = self.registers(body, "run")
        part, place = self.parts_loop(body, chunk), self.names.fresh(body.hint)
        low, high = self.range(body, part)
        nodes: list[TreeNode] = [
            Copy(run[a.place], self.of(self.between.start, a, Iter(part.var))) for a in body.accumulators
        ]
        cells = {**own, **run}
        if is_whole:
            element = at_place(body.each, tidy(low + Iter(place) * body.step), cells)
            nodes.append(Loop(place, integer(0), integer(PART), 1, Where.SERIAL, element))
            return replace(part, upper=tidy(part.lower + CHAINS), body=tuple(nodes))
        nodes.append(Loop(place, low, high, body.step, Where.SERIAL, at_place(body.each, Iter(place), cells)))
        return replace(part, body=tuple(nodes))

    def all_in_lanes(self) -> tuple[TreeNode, ...]:
        """All there is."""
        chain, body, own = self.begin()
        run = self.registers(body, "run")
        nodes = (
            *started(body, own, run),
            *running(self, body, own, run, body.lower, body.upper, positive(tidy(body.upper - body.lower))),
            *finished(body, own, run),
        )
        return inside_loops(chain or [self.one()], nodes)

    # ------------------------------------------------------------------------- small things

    def totals(self, body: Body, carry: Mapping[Load, Load], count: Expr) -> Loop:
        """What so many rounds add."""
        turn = self.names.fresh("q")
        folds = (folded(a, carry[a.place], self.of(self.between.total, a, Iter(turn))) for a in body.accumulators)
        return Loop(turn, integer(0), count, 1, Where.SERIAL, tuple(folds))
