"""What a LoopTree does, as isl relations: which leaf runs when, touching which cells.

A *leaf* is a node that reads or writes storage. Its instances are the values of all the tree loops
around it (host loops too). A *header* is a loop whose bounds are loaded when it starts: a leaf that
runs before its iterations do (`proof/headers.py`). Parallel loops are put in one possible order: the
threads of a block take turns between two barriers. `verify` proves separately that any other order
does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import checked, is_checked
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Binary, Call, Const, Expr, Iter, Load, Symbol
from loopfuse.lang.walk import iterators, loads, map_expr
from loopfuse.poly import isl
from loopfuse.poly.model import PolyProgram
from loopfuse.proof.straddled import find_cramped
from loopfuse.proof.tiles import only_second
from loopfuse.tree.form.check import unrolled_ranges
from loopfuse.tree.layout import Layout
from loopfuse.tree.looptree import (
    STREAMED,
    Arrive,
    Await,
    Barrier,
    Buffer,
    Combine,
    Compute,
    Copy,
    DistributedShared,
    Fold,
    Global,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    Prefetch,
    Raise,
    Rescale,
    Running,
    Scan,
    Shared,
    Ticket,
    TreeNode,
    modulus_of,
    owns_lane,
    strip_of,
)
from loopfuse.tree.walk import is_tile, node_expressions, split_chain, walk_nodes

Time = tuple[int | tuple[str, int], ...]
"""Numbers and loop variables (with sign 1), compared lexicographically."""

GRID, CLUSTER, BLOCK, LANE = range(4)
"""Levels of parallel loops, outermost first; a WARP loop counts as BLOCK, THREAD as GRID."""

LEVELS = {
    Mapping.GRID: GRID, Mapping.THREAD: GRID, Mapping.CLUSTER: CLUSTER, Mapping.BLOCK: BLOCK,
    Mapping.WARP: BLOCK, Mapping.LANE: LANE,
}  # fmt: skip

SYNC, READ, WRITE = range(3)
"""Moments within one leaf, in this order."""


class Undecided(Exception):
    """The tree holds something that these relations cannot express."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A VECTOR loop: its variable, and when it runs (its place in the text)."""

    var: str
    time: Time


@dataclass(frozen=True, slots=True)
class Leaf:
    """A node, the loops around it and its instances (named `name` in relations)."""

    name: str
    number: int  # its place in the text
    node: TreeNode | Launch
    launch: int
    host: tuple[str, ...]
    chain: tuple[Loop, ...]
    names: tuple[str, ...]  # the variables of all loops around it, outermost first
    reader: Any
    points: Any  # the instances, as a set without a name
    time: Time
    in_ticket: bool
    crosses_lanes: bool
    run_time: tuple[Leaf, ...]  # the headers around it
    made: dict[tuple[Any, ...], Any]  # of all leaves: relations by instances and values
    vectors: tuple[Vector, ...] = ()  # the VECTOR loops around it
    rotated: Loop | None = None  # the STREAMED loop around it
    tile: Any | None = None  # in the first way of a tile: the { thread } that take it

    def level_vars(self, levels: Sequence[int]) -> list[str]:
        """The variables of the parallel loops of these levels."""
        return [loop.var for loop in self.chain if LEVELS[loop.mapping] in levels]

    def always_equal(self, one: Expr, other: Expr) -> bool:
        """Do two index expressions have one value in all instances of the leaf?"""
        first = self.reader.piecewise(one, self.points)
        second = self.reader.piecewise(other, self.points)
        if first is None or second is None:
            return False
        return bool(self.points.is_subset(first.eq_set(second)))

    def relation(self, values: Sequence[Expr | int], name: str) -> Any:
        """{ leaf -> name[values] } over the leaf's instances."""
        key = (id(self.points), *values)
        found = self.made.get(key)
        if found is None:
            zero = self.reader.constant(0)
            checks = [isinstance(value, Call) and is_checked(value) for value in values]
            parts = [
                zero if check else self._part(value)
                for value, check in zip(values, checks, strict=True)
            ]
            found = isl.relation_of(self.reader.space, parts, name).intersect_domain(self.points)
            for position, check in enumerate(checks):
                if check:
                    found = self._anywhere(found, position, values[position])
            self.made[key] = found
        return found.set_tuple_name(isl.IN, self.name).set_tuple_name(isl.OUT, name)

    def _anywhere(self, found: Any, position: int, subscript: Any) -> Any:
        """`found` with output `position` anything that a checked subscript can be."""
        extent = self.reader.piecewise(subscript.arguments[1], self.points)
        if extent is None:
            raise Undecided("the extent of a dimension is not affine")
        return isl.anywhere(found, position, extent)

    def _part(self, value: Expr | int) -> Any:
        if isinstance(value, int):
            return self.reader.constant(value)
        key = ("part", id(self.points), value)
        part = self.made.get(key)
        if part is None:
            part = self.made[key] = self.reader.piecewise(value, self.points)
        if part is None:
            raise Undecided("a subscript or an iteration that is not affine")
        return part


@dataclass(slots=True)
class _Scope:
    """Where the walk stands."""

    host: tuple[str, ...]
    names: tuple[str, ...]
    reader: Any
    domain: Any
    time: Time
    chain: tuple[Loop, ...] = ()
    launch: int = 0
    run_time: tuple[Leaf, ...] = ()
    waiting: tuple[str, ...] = ()  # variables of threads, not yet part of `time`
    in_ticket: bool = False
    vectors: tuple[Vector, ...] = ()
    rotated: Loop | None = None
    tile: Any | None = None


@dataclass(slots=True)
class Events:
    """All leaves and headers of a tree, in text order."""

    program: PolyProgram
    tree: LoopTree
    leaves: list[Leaf] = field(default_factory=list[Leaf])
    headers: list[Leaf] = field(default_factory=list[Leaf])
    launches: list[Launch] = field(default_factory=list[Launch])
    starts: list[_Scope] = field(default_factory=list[_Scope])
    """Where each launch stands among the host's loops."""
    depth: int = 0  # the length of the longest time

    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    written: set[str] = field(default_factory=set[str])
    late: set[str] = field(default_factory=set[str])
    """The buffers that late copies read or write."""
    context: Any = None
    has_lanes: bool = False
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    whens: dict[tuple[str, int], Any] = field(default_factory=dict[tuple[str, int], Any])
    made: dict[tuple[Any, ...], Any] = field(default_factory=dict[tuple[Any, ...], Any])
    tiles: list[tuple[int, Any]] = field(default_factory=list[tuple[int, Any]])
    """The launch of each tile, and the { thread } that take its first way."""
    calls: dict[int, Any] = field(default_factory=dict[int, Any])
    """The parameters for which a launch runs."""
    exclusive: dict[tuple[int, int], bool] = field(default_factory=dict[tuple[int, int], bool])

    def __post_init__(self) -> None:
        self.buffers = {buffer.name: buffer for buffer in self.tree.buffers}
        self.ranges = unrolled_ranges(self.tree)
        self.has_lanes = any(self.shared_by(buffer) == BLOCK for buffer in self.tree.buffers)
        self.context = isl.context_of(self.program.context)
        space = isl.set_space(self.context, self.program.symbols, ())
        domain = isl.universe(space).intersect_params(self.program.context)
        self._host(self.tree.body, _Scope((), (), isl.Reader(space), domain, ()))
        self.depth = max((len(leaf.time) for leaf in (*self.leaves, *self.headers)), default=0)

    def never_both(self, one: int, other: int) -> bool:
        """Does no call run both launches? Sizes decide between launches for short and for long rows."""
        key = min(one, other), max(one, other)
        if key not in self.exclusive:
            sizes = [self._calls(launch) for launch in key]
            self.exclusive[key] = one != other and bool(sizes[0].is_disjoint(sizes[1]))
        return self.exclusive[key]

    def apart(self, launches: Iterable[int]) -> list[tuple[set[int], Any]]:
        """Groups of these launches, of which no call runs two, and the calls that run one of each group."""
        groups: list[tuple[set[int], Any]] = []
        for launch in launches:
            own, calls = {launch}, self._calls(launch)
            others: list[tuple[set[int], Any]] = []
            for group, theirs in groups:
                if all(self.never_both(launch, each) for each in group):
                    others.append((group, theirs))
                else:
                    own, calls = own | group, calls.union(theirs)
            groups = [*others, (own, calls)]
        return groups

    def _calls(self, launch: int) -> Any:
        if launch not in self.calls:
            self.calls[launch] = self.starts[launch].domain.params()
        return self.calls[launch]

    # ------------------------------------------------------------------------- the walk

    def _enter(self, scope: _Scope, loop: Loop | HostLoop) -> _Scope:
        names = (*scope.names, loop.var)
        space = isl.set_space(self.context, self.program.symbols, names)
        reader = isl.Reader(space)
        last = len(scope.names)
        domain = scope.domain.insert_dims(isl.SET, last, 1).set_dim_name(isl.SET, last, loop.var)
        here = reader.affine({loop.var: 1})
        # Each bound by itself: one of `min(a, b)` would be two pieces.
        lowers = [reader.piecewise(self._bound(each), domain) for each in _parts(loop.lower, "max", loop.step)]
        uppers = [reader.piecewise(self._bound(each), domain) for each in _parts(loop.upper, "min", 1)]
        if any(each is None for each in (here, *lowers, *uppers)):
            raise Undecided(f"the bounds of the loop over {loop.var} are not affine")
        for lower in lowers:
            domain = domain.intersect(here.ge_set(lower))
        for upper in uppers:
            domain = domain.intersect(here.lt_set(upper))
        if loop.step > 1:
            phase = here.sub(lowers[0]).mod_val(loop.step)
            domain = domain.intersect(phase.eq_set(reader.constant(0)))
        return replace(scope, names=names, reader=reader, domain=isl.simplified(domain))

    def _bound(self, expr: Expr) -> Expr:
        """A bound in the model's terms: a data-dependent bound is a symbol there, of an interval
        around all iterations. `proof/headers.py` proves that the tree's loop runs those that
        happen."""

        def one(node: Expr) -> Expr:
            if isinstance(node, Load):
                name = self.buffers[node.array].array
                if name in self.program.unknown:
                    return Symbol(name, node.dtype)
            return node

        return map_expr(one, expr) if self.program.unknown else expr

    def _host(self, nodes: tuple[HostNode, ...], scope: _Scope) -> None:
        for position, node in enumerate(nodes):
            if isinstance(node, HostLoop):
                self._check_plain(node)
                inside = self._enter(scope, node)
                inside.time = (*scope.time, position, (node.var, 1))
                inside.host = (*scope.host, node.var)
                self._host(node.body, inside)
                continue
            chain, body = split_chain(node)
            inside = replace(scope, chain=chain, launch=len(self.launches))
            self.starts.append(replace(scope, time=(*scope.time, position)))
            self.launches.append(node)
            for loop in chain:
                self._check_plain(loop)
                inside = self._enter(inside, loop)
            flags = any(isinstance(each, Raise | Await) for each in walk_nodes(body))
            if flags and any(loop.mapping is Mapping.CLUSTER for loop in chain):
                raise Undecided("flags between the blocks of clusters")
            # The blocks of a cluster take turns too: they meet at its barriers.
            blocks = [loop.var for loop in chain if LEVELS[loop.mapping] < CLUSTER]
            inside.waiting = tuple(loop.var for loop in chain if loop.var not in blocks)
            # 0: what every block runs; 1: what the block with the last ticket runs after it.
            start = (*scope.time, position)
            inside.time = (*start, 0, *((var, 1) for var in blocks))
            last = body[-1] if body and isinstance(body[-1], Ticket) else None
            self._nodes(body if last is None else body[:-1], inside)
            if last is not None:
                inside.time = (*start, 1, *((var, 1) for var in blocks))
                self._ticket(last, inside)

    @staticmethod
    def _check_plain(loop: Loop | HostLoop) -> None:
        """The host and the launch itself load nothing."""
        if loads(loop.lower) or loads(loop.upper):
            raise Undecided(f"the bounds of the loop over {loop.var} are data, outside its launch")

    def _ticket(self, node: Ticket, scope: _Scope) -> None:
        """The body runs once, in some block: it may not matter in which, so take the first."""
        grid = [loop for loop in scope.chain if LEVELS[loop.mapping] < BLOCK]
        blocks = {loop.var for loop in grid}
        trips: Expr = Const(1, DType.I64)
        for loop in grid:
            lower = scope.reader.piecewise(loop.lower, scope.domain)
            here = scope.reader.affine({loop.var: 1})
            if loop.step != 1:
                raise Undecided("a ticket in a grid with a step")
            scope.domain = scope.domain.intersect(here.eq_set(lower))
            size = Binary("sub", loop.upper, loop.lower, DType.I64)
            trips = size if len(grid) == 1 else Binary("mul", trips, size, DType.I64)
        for inner in walk_nodes(node.body):
            if any(iterators(e) & blocks for e in node_expressions(inner)):
                raise Undecided("what the last block does depends on which block it is")
        self._counter(node, scope)
        count, expected = scope.reader.piecewise(node.count), scope.reader.piecewise(trips)
        if count is None or expected is None:
            raise Undecided("the number of blocks is not affine")
        if not scope.domain.is_subset(count.eq_set(expected)):
            raise Undecided("the ticket does not count all blocks")
        self._nodes(node.body, replace(scope, in_ticket=True))

    def _counter(self, node: Ticket, scope: _Scope) -> None:
        """All blocks of a launch count in one place, which is there."""
        own = {loop.var for loop in scope.chain}
        extents = self.buffers[node.counter.array].extents
        for index, extent in zip(node.counter.index, extents, strict=True):
            if iterators(index) & own:
                raise Undecided("blocks take their tickets from several counters")
            place, end = scope.reader.piecewise(index), scope.reader.piecewise(extent)
            if place is None or end is None:
                raise Undecided("the place of a ticket's counter is not affine")
            inside = place.ge_set(scope.reader.constant(0)).intersect(place.lt_set(end))
            if not scope.domain.is_subset(inside):
                raise Undecided("a ticket's counter may be outside its buffer")

    def _nodes(self, nodes: tuple[TreeNode, ...], scope: _Scope) -> None:
        if scope.rotated is None:
            self._check_tiles_end(nodes)
        if scope.waiting and not any(self._synchronises(node) for node in walk_nodes(nodes)):
            scope = self._take_turns(scope)
        for position, node in enumerate(nodes):
            inside = replace(scope, time=(*scope.time, position))
            if inside.waiting and not any(self._synchronises(n) for n in walk_nodes((node,))):
                inside = self._take_turns(inside)
            self._node(node, inside)

    def _check_tiles_end(self, nodes: tuple[TreeNode, ...]) -> None:
        """What the ways of a tile leave in storage of threads, nothing after the tile reads: both
        ways are run here, one after the other, and but one of them is."""
        held: set[str] = set()
        for node in nodes:
            inside = tuple(walk_nodes((node,)))
            for each in inside if held else ():
                combined = {each.buffer} if isinstance(each, Combine | Scan) else set[str]()
                read = {load.array for load in _loads_of(each)} | combined
                if read & held:
                    raise Undecided(f"{min(read & held)} is read after the tile that fills it")
            for each in inside:
                if isinstance(each, Guard) and is_tile(each):
                    held |= {name for name in _targets(each) if not self._is_global(name)}

    def _is_global(self, name: str) -> bool:
        return isinstance(self.buffers[name].home, Global)

    @staticmethod
    def _take_turns(scope: _Scope) -> _Scope:
        """From here on, inside, one thread of the block runs after the other."""
        turns = tuple((var, 1) for var in scope.waiting)
        return replace(scope, time=(*scope.time, *turns), waiting=())

    def _node(self, node: TreeNode, scope: _Scope) -> None:
        match node:
            case Loop():
                if node.mapping is Mapping.STRADDLED and scope.rotated is None:
                    raise Undecided("a loop over rows that start anywhere, outside a tile")
                inside = self._enter(scope, node)
                inside.time = (*scope.time, (node.var, 1))
                if loads(node.lower) or loads(node.upper):
                    # 0: the header, read once; 1: the iterations.
                    header = self._made(
                        node, self._take_turns(replace(scope, time=(*scope.time, 0)))
                    )
                    self.headers.append(header)
                    inside.run_time = (*scope.run_time, header)
                    inside.time = (*scope.time, 1, (node.var, 1))
                if node.mapping in (Mapping.VECTOR, Mapping.STRADDLED):
                    inside.vectors = (*scope.vectors, Vector(node.var, scope.time))
                if node.mapping in STREAMED:
                    inside.rotated = replace(node)  # its own, where one node stands in two places
                self._nodes(node.body, inside)
            case Guard():
                if loads(node.condition):
                    raise Undecided("a guard that reads data")
                holds = scope.reader.condition(node.condition, scope.domain)
                if holds is None:
                    raise Undecided("a guard that is not affine")
                then = replace(
                    scope, domain=scope.domain.intersect(holds), time=(*scope.time, 0)
                )
                if scope.rotated is None and is_tile(node):
                    if len(scope.names) != len(scope.host) + len(scope.chain):
                        raise Undecided("a tile inside a loop")
                    if any(isinstance(each, Raise | Await) for each in walk_nodes((node,))):
                        raise Undecided("flags in a tile")  # the ways not taken raise none
                    if cramped := find_cramped((node,), scope, self._enter, self.buffers):
                        raise Undecided(f"a vector may lie outside {cramped}, in part")
                    # A question of its own, which may take as long as others.
                    every = self.context.ask(lambda: only_second(node, scope, self._enter))
                    if every is not None:
                        self._nodes(every, replace(scope, time=(*scope.time, 1)))
                        return
                    # The second way must be right for every tile: `proof/windows.py` compares.
                    then.tile = then.domain.set_tuple_name("thread")
                    self.tiles.append((scope.launch, then.tile))
                    holds = isl.empty(holds.get_space())
                self._nodes(node.then, then)
                otherwise = replace(
                    scope, domain=scope.domain.subtract(holds), time=(*scope.time, 1)
                )
                self._nodes(node.otherwise, otherwise)
            case Compute() | Copy() | Fold() | Combine() | Scan() | Barrier() | Raise() | Await():
                self._leaf(node, self._take_turns(scope))
            case Prefetch() | Arrive():
                pass  # they neither read nor write
            case Ticket():
                raise Undecided("a ticket that is not the last thing its blocks do")
            case Running() | Rescale():
                raise Undecided("a running reduction that is not erased")

    def _leaf(self, node: TreeNode, scope: _Scope) -> None:
        match node:
            case Copy(target=target, value=value) if target == value:
                return  # it changes nothing
            case Compute(target=target) | Copy(target=target) | Fold(target=target):
                self.written.add(target.array)
            case Combine(buffer=buffer) | Scan(buffer=buffer):
                self.written.add(buffer)
            case _:
                pass
        if isinstance(node, Copy) and node.late:
            self.late |= {load.array for each in (node.target, node.value) for load in loads(each)}
        self.leaves.append(self._made(node, scope))

    def _made(self, node: TreeNode | Launch, scope: _Scope) -> Leaf:
        """The leaf, or header, that stands here."""
        number = len(self.leaves) + len(self.headers)
        return Leaf(
            f"n{number}",
            number,
            node,
            scope.launch,
            scope.host,
            scope.chain,
            scope.names,
            scope.reader,
            scope.domain,
            scope.time,
            scope.in_ticket,
            self._crosses_lanes(node, scope.chain),
            scope.run_time,
            self.made,
            scope.vectors,
            scope.rotated,
            scope.tile,
        )

    def _synchronises(self, node: TreeNode) -> bool:
        waits = isinstance(node, Barrier | Combine | Scan | Raise | Await)
        return waits or self._reads_lanes(node)

    def _lane_reads(self, node: TreeNode | Launch) -> Iterator[tuple[Load, Layout]]:
        if self.has_lanes and isinstance(node, Compute | Copy | Fold):
            for expr in node_expressions(node)[:-1]:
                for load in loads(expr):
                    strip = strip_of(self.buffers[load.array].home)
                    if strip is not None:
                        yield load, strip

    def _reads_lanes(self, node: TreeNode) -> bool:
        return any(True for _ in self._lane_reads(node))

    def _crosses_lanes(self, node: TreeNode | Launch, chain: tuple[Loop, ...]) -> bool:
        lane = next((loop.var for loop in chain if loop.mapping is Mapping.LANE), "")
        return any(
            not owns_lane(strip, load, lane, self.ranges) for load, strip in self._lane_reads(node)
        )

    # ------------------------------------------------------------------------- relations

    def ranges_around(self, leaf: Leaf) -> dict[str, tuple[int, int]]:
        """First and last value of the unrolled and the parallel loops around a leaf, where their
        bounds are constant. (It has other names too, of loops that are not around it.)"""
        key = ("ranges", leaf.launch)
        if key not in self.made:
            found = dict(self.ranges)
            for loop in leaf.chain:
                low, high = constant_value(loop.lower), constant_value(loop.upper)
                found.pop(loop.var, None)
                if low is not None and high is not None and low < high:
                    found[loop.var] = (low, high - 1)
            self.made[key] = found
        return self.made[key]

    def launch_event(self, launch: int, rank: int) -> Leaf:
        """A launch as a whole, for each element of an array of `rank` dimensions: a leaf with the
        instances `launch[host, element]`."""
        key = ("launch", launch, rank)
        if key not in self.made:
            scope = self.starts[launch]
            names = (*scope.names, *(f"element{k}" for k in range(rank)))
            space = isl.set_space(self.context, self.program.symbols, names)
            domain = scope.domain.insert_dims(isl.SET, len(scope.names), rank)
            for position, name in enumerate(names):
                domain = domain.set_dim_name(isl.SET, position, name)
            inside = replace(scope, names=names, reader=isl.Reader(space), domain=domain)
            leaf = self._made(self.launches[launch], replace(inside, launch=launch))
            self.made[key] = replace(leaf, name=f"launch{launch}_{rank}")
        return self.made[key]

    def when(self, leaf: Leaf, moment: int, name: str = "") -> Any:
        """{ leaf -> time } of a moment of the leaf; `name` renames the leaf's tuple."""
        key = (leaf.name, moment)
        if key not in self.whens:
            self.whens[key] = self._when(leaf, moment)
        return self.whens[key].set_tuple_name(isl.IN, name or leaf.name)

    def _when(self, leaf: Leaf, moment: int) -> Any:
        return self._times(leaf, self._padded(leaf.time, moment))

    @staticmethod
    def _times(leaf: Leaf, times: Sequence[int | tuple[str, int]]) -> Any:
        """{ point -> times }, for any point of the space: what it is applied to has the leaf's
        instances only."""
        reader = leaf.reader
        values = [
            reader.constant(time) if isinstance(time, int) else reader.affine({time[0]: 1})
            for time in times
        ]
        return isl.relation_of(reader.space, values, "time")

    def not_before(self, first: tuple[Leaf, int], second: tuple[Leaf, int]) -> Any:
        """{ first leaf -> second leaf }: the pairs where that moment of the first does not come
        before that of the second."""
        one, other = self._differing(first, second)
        return one.lex_ge_map(other)

    def after(self, first: tuple[Leaf, int], second: tuple[Leaf, int]) -> Any:
        """{ first leaf -> second leaf }: the pairs where that moment of the first comes after
        that of the second."""
        one, other = self._differing(first, second)
        return one.lex_gt_map(other)

    def _differing(self, *moments: tuple[Leaf, int]) -> list[Any]:
        """{ leaf -> time } of two moments: only what can differ of their times."""
        times = [self.time_of(leaf, moment) for leaf, moment in moments]
        places: list[int] = []
        for place, (one, other) in enumerate(zip(*times, strict=True)):
            numbers = isinstance(one, int) and isinstance(other, int)
            if not numbers or one != other:
                places.append(place)
            if numbers and one != other:
                break  # what follows no longer matters
        return [
            self._time_map(leaf, [time[place] for place in places])
            for (leaf, _), time in zip(moments, times, strict=True)
        ]

    def _time_map(self, leaf: Leaf, times: Sequence[int | tuple[str, int]]) -> Any:
        key = ("time", leaf.name, *times)
        if key not in self.made:
            self.made[key] = self._times(leaf, times).set_tuple_name(isl.IN, leaf.name)
        return self.made[key]

    def last_before(
        self, sink: Any, when: Any, time: Time, sources: Sequence[tuple[Leaf, Any, int]]
    ) -> list[tuple[Leaf, Any]]:
        """Which of `sources` touched the cell last before `sink` does.

        `sink` is { event -> cell }, `when` and `time` say when the event is; a source is a leaf,
        { leaf -> cell } and a moment. The answer has a map { leaf -> event } for each source that
        is last for some event.
        """
        if sink.is_empty():
            return []
        earlier = [
            (leaf, cell, self._padded(leaf.time, moment), levels)
            for leaf, cell, moment in sources
            if (levels := self._levels(self._padded(leaf.time, moment), time))
        ]
        if not earlier:
            return []
        # What is one number in all of these times tells nothing apart.
        told = [place for place, parts in enumerate(zip(time, *(each for _, _, each, _ in earlier), strict=True)) if _differ(parts)]
        asked: list[tuple[Leaf, isl.Source]] = []
        for leaf, cell, own, levels in earlier:
            times = self._time_map(leaf, [own[place] for place in told])
            asked.append((leaf, isl.Source(cell, times, tuple(told.index(level) for level in levels), True)))
        moments, others = isl.only_outputs(when, told), [source for _, source in asked]
        if sink.is_single_valued():
            answers = isl.last_sources_of_one(sink, moments, others)
        else:
            every = isl.last_sources(sink, moments, others, True)
            answers = [None if each is None else each.range_factor_domain() for each in every]
        found = [(leaf, answer) for (leaf, _), answer in zip(asked, answers, strict=True) if answer is not None]
        return [(leaf, answer) for leaf, answer in found if not answer.is_empty()]

    def _padded(self, time: Time, moment: int) -> Time:
        return (*time, *([0] * (self.depth - len(time))), moment)

    @staticmethod
    def _levels(first: Time, second: Time) -> tuple[int, ...]:
        """At which dimensions can `first` be less than `second`, all before them equal?"""
        levels: list[int] = []
        for level, (one, other) in enumerate(zip(first, second, strict=True)):
            if isinstance(one, int) and isinstance(other, int):
                if one == other:
                    continue
                return tuple([*levels, level] if one < other else levels)
            levels.append(level)
        return tuple(levels)

    def time_of(self, leaf: Leaf, moment: int) -> Time:
        """The time of a moment of the leaf, as long as all others."""
        return self._padded(leaf.time, moment)

    def cell(self, leaf: Leaf, load: Load, hidden: bool = False) -> Any:
        """{ leaf -> buffer[owner..., subscripts] }: the cell an access touches.

        The owner of a copy (the thread, warp, block or cluster, of which launch) is part of a
        cell's name; a buffer in global memory has one copy. `hidden`: a subscript that isl cannot
        express is any place that the program's array has.
        """
        buffer = self.buffers[load.array]
        index: list[Expr] = list(load.index)
        array = self.program.arrays.get(buffer.array)
        if hidden and array is not None and isinstance(buffer.home, Global):
            lead = len(index) - len(array.extents)
            for position, extent in enumerate(array.extents, lead):
                if leaf.reader.piecewise(index[position], leaf.points) is None:
                    index[position] = checked(index[position], extent)
        if modulus := modulus_of(buffer.home):
            rows = Const(modulus, DType.I64)
            index[0] = Binary("mod", index[0], rows, DType.I64)
        return leaf.relation([*self.owner(leaf, buffer), *index], buffer.name)

    def box(self, buffer: Buffer, owners: int) -> Any:
        """The cells a buffer has; its first `owners` dimensions are not bounded."""
        names = [f"p{k}" for k in range(owners)] + [f"d{k}" for k in range(len(buffer.extents))]
        space = isl.set_space(self.context, self.program.symbols, names, buffer.name)
        reader = isl.Reader(space)
        box = isl.universe(space)
        for position, extent in enumerate(buffer.extents):
            here, end = reader.affine({f"d{position}": 1}), reader.piecewise(extent)
            if position == 0 and (modulus := modulus_of(buffer.home)):
                end = reader.constant(modulus)
            if here is None or end is None:
                raise Undecided(f"an extent of {buffer.name} is not affine")
            box = box.intersect(here.ge_set(reader.constant(0))).intersect(here.lt_set(end))
        return box

    @staticmethod
    def shared_by(buffer: Buffer) -> int:
        """The innermost level whose iterations each have a copy of the buffer; -1: none has."""
        match buffer.home:
            case Global():
                return -1
            case DistributedShared():
                return GRID
            case Shared():
                return CLUSTER
            case home:
                return BLOCK if strip_of(home) is not None else LANE

    def owner(self, leaf: Leaf, buffer: Buffer) -> list[Expr | int]:
        """Who holds the copy of the buffer that the leaf touches: a part of its cells' names."""
        level = self.shared_by(buffer)
        if level < 0:
            return []
        owner: list[Expr | int] = [leaf.launch, int(leaf.in_ticket)]
        owner += [Iter(var) for var in leaf.host]
        return owner + [Iter(var) for var in leaf.level_vars(range(level + 1))]


def _parts(bound: Expr, op: str, step: int) -> list[Expr]:
    """The bounds of which it is the least (`min`) or the greatest; itself where steps count from it."""
    if step == 1 and isinstance(bound, Binary) and bound.op == op:
        return [*_parts(bound.left, op, step), *_parts(bound.right, op, step)]
    return [bound]


def _targets(node: TreeNode) -> set[str]:
    """The buffers that the node or what is inside it writes."""
    found: set[str] = set()
    for each in walk_nodes((node,)):
        match each:
            case Compute(target=target) | Copy(target=target) | Fold(target=target):
                found.add(target.array)
            case Combine(buffer=buffer) | Scan(buffer=buffer):
                found.add(buffer)
            case _:
                pass
    return found


def _loads_of(node: TreeNode) -> list[Load]:
    """The Loads of a node itself, all but its target; the target too where it is read."""
    expressions = node_expressions(node)
    if isinstance(node, Compute | Copy) and getattr(node, "predicate", None) is None:
        *rest, target = expressions
        expressions = (*rest, *(target.index if isinstance(target, Load) else ()))
    return [load for expr in expressions for load in loads(expr)]


def _differ(parts: Sequence[int | tuple[str, int]]) -> bool:
    """Are the parts of several times anything but one number?"""
    return not isinstance(parts[0], int) or any(part != parts[0] for part in parts)


def compare_times(first: Time, second: Time) -> bool | None:
    """Is `first` always before `second` (True), never (False), or does it depend (None)?"""
    for one, other in zip(first, second, strict=True):
        if not isinstance(one, int) or not isinstance(other, int):
            return None
        if one != other:
            return one < other
    return False
