"""What a group would cost: on a GPU the largest of bytes at memory bandwidth and operations at peak, plus
launches. A roofline, with few threads counted as little bandwidth. On a CPU the two together, by which
loops are innermost (`cpu_nest`).

Sizes that are not known are taken as large. The figures of a device are round numbers of its
class; only ratios decide anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loopfuse.base.machine import IN_CACHE, VECTOR, Machine
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.linear import constant_value, linear, tidy
from loopfuse.lang.nodes import Binary, Expr, Iter, Load, Symbol
from loopfuse.lang.price import OPERATION, expression_price
from loopfuse.lang.walk import children, iterators, loads, substitute, symbols
from loopfuse.plan.mapping.cpu_nest import LINE, MIXED, CpuNest, find_nest, have_mixed_steps
from loopfuse.plan.mapping.space import CPU_WRITE, order_dims
from loopfuse.plan.mapping.strips import LONG_STRIP, STRIP, is_short_loop
from loopfuse.plan.units.forest import Scope, innermost, may_reorder, order_is_free
from loopfuse.plan.units.groups import Group, HostGroup, Legality, PlanItem, whole_name
from loopfuse.plan.units.recompute import Resolver, TooMany, Value
from loopfuse.plan.units.storage import touches
from loopfuse.poly.isl_relations import carried_at
from loopfuse.poly.model import Access, Loop, PolyProgram, Statement

LARGE = 4096
LARGE_1D = 1 << 24
RUN_TIME_TRIPS = 32
"""What a loop whose bounds depend on data is taken to run."""


RIVALS = 1.25
"""How many times as much a gather moves beside one of another array, which takes of its cache."""

IN_WINDOWS = 0.75
"""What a block of time steps takes on a GPU of the operations that are counted: its loads are mostly registers. (Without it an
H200, whose memory is faster, took 12 steps of a wave equation together where 16 are 19 % faster, and 6 of a box where 8
are 4 %.)"""

IN_TILES = 6.0
"""How many times as fast as they are counted the operations of a product in tiles of registers are: its operands are in registers
for many sums."""

IN_ROWS = 3.0
"""What a block of time steps on a CPU takes of the time in which a sweep moves as many bytes: it reads and writes a row of each
array in turn, where a sweep moves through all of them at once, and its copies are read before they are written. (FDTD,
2048 x 2048, two threads: 29 GB/s in blocks, 76 in sweeps; jacobi in blocks of 8 sweeps takes 0.6 of its sweeps' time.)"""

STARTS = 3.0
"""Vectors of a strip that its loop would take in the time that it takes to start."""

LANES_END = 256.0
"""Iterations of a reduction in lanes that would take the time that is needed for what is left of whole vectors, and to add up the
lanes."""

FEW = 32
"""A group that touches fewer than one in so many elements of an array, as a loop over a border does, is
taken to move just those."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds, and what they are made of."""

    seconds: float
    bytes: float
    operations: float
    threads: float
    anew: int = 0
    """How many values its instances compute anew."""
    few: float = 0.0
    """Seconds on a CPU that has few threads."""


class CostModel:
    """Prices groups of one program at assumed sizes. `team`: how many threads run one point of a group
    together, neighbours in memory along its inner loop (`Strategy.team`). `tiles`: is a group run in tiles of registers
    (`Strategy.tiles`)?"""

    def __init__(
        self,
        program: PolyProgram,
        machine: Machine,
        sizes: Mapping[str, int],
        team: Callable[[Group, PolyProgram, str], int] | None = None,
        tiles: Callable[[Group, str], bool] | None = None,
    ) -> None:
        self.program = program
        self._tiles = tiles
        self._tiled: dict[int, tuple[Group, bool]] = {}
        self._team = team
        self._teams: dict[int, tuple[Group, int]] = {}
        self.machine, self.device = machine, machine.device
        self.order = {name: number for number, name in enumerate(program.arrays)}
        self.users: dict[str, list[Statement]] = {name: [] for name in program.arrays}
        for s in program.statements:
            for name in arrays_of(s):
                self.users[name].append(s)
        rank = max((sum(constant_value(e) is None for e in a.extents) for a in program.arrays.values()), default=1)
        default = LARGE_1D if rank <= 1 else LARGE if rank == 2 else 256
        self.sizes = {name: sizes.get(name, default) for name in program.symbols}
        if self.device == "cpu":  # a number that is no extent, as a bound: somewhere in the middle
            extents = {n for array in program.arrays.values() for e in array.extents for n in symbols(e)}
            for name in self.sizes.keys() - extents - sizes.keys():
                self.sizes[name] = default // 2
        for name in program.unknown:  # an inner loop of unknown length: a few iterations
            self.sizes[name] = 0 if _is_lower(program, name) else RUN_TIME_TRIPS

    def number(self, expr: Expr, values: Mapping[str, int] | None = None) -> int:
        """An index expression at the assumed sizes; iterators not given count as the middle."""
        known = dict(self.sizes) | dict(values or {})
        for name in iterators(expr):
            known.setdefault(name, LARGE // 2)
        try:
            return evaluate_index(expr, known)
        except (KeyError, ValueError):
            return LARGE

    def trips(self, loops: tuple[Loop, ...]) -> float:
        """How many iterations a nest runs; triangular bounds at the middle of the outer loop."""
        total, values = 1.0, dict[str, int]()
        for loop in loops:
            lower, upper = self.number(loop.lower, values), self.number(loop.upper, values)
            count = max(0, (upper - lower) if loop.step > 0 else (lower - upper)) / abs(loop.step)
            values[loop.iterator] = (lower + upper) // 2
            total *= max(count, 0.0)
        return total

    def elements(self, array: str) -> float:
        """Elements of an array."""
        total = 1.0
        for extent in self.program.arrays[array].extents:
            total *= max(0, self.number(extent))
        return total

    def group(self, group: Group) -> Estimate:
        """The cost of one run of a group (one iteration of the host loops around)."""
        machine = self.machine
        host = len(group.scope.host) if group.scope else 0
        operations, anew = self.operations(group, host)
        threads = 1.0
        if group.members and group.dims:
            first = group.members[0]
            names = {c.iterator for c in first.coordinates}
            threads = self.trips(tuple(lp for lp in first.unit.common if lp.iterator in names))
            threads *= self.team(group)
            if group.legality is Legality.REDUCED:
                threads = min(threads, 1024.0 * 256)
        if self.is_tiled(group):
            operations /= IN_TILES
        moved = sum(self.moved(group).values())
        speed = min(1.0, max(threads, 1.0) / machine.threads)
        memory, busy = moved / machine.bandwidth, operations / machine.operations
        memory *= 1.0 if group.fit is None else group.fit.waiting
        # Threads of a GPU compute while others wait for memory; a CPU has too few for that.
        seconds = (max(memory, busy) if self.device == "gpu" else memory + busy) / speed
        launches, few = launches_of(group) * machine.launch, seconds
        if self.device == "cpu":
            memory *= machine.bandwidth / machine.bandwidth_of_few
            few = (memory + busy * machine.threads / machine.threads_of_few) / min(1.0, max(threads, 1.0) / machine.threads_of_few)
        return Estimate(seconds + launches, moved, operations, threads, anew, few + launches)

    def seconds(self, group: Group) -> float:
        """Seconds of one run of a group where it stands: in a loop around launches of a CPU threads are awake."""
        in_loop = self.device == "cpu" and group.scope is not None and bool(group.scope.host)
        return self._turn(group) if in_loop else self.group(group).seconds

    def moved(self, group: Group) -> dict[str, float]:
        """Bytes that a run of a group moves, of each array."""
        mine = {name for u in group.units for s in u.statements for name in arrays_of(s)}
        touched = sorted(mine, key=self.order.__getitem__)
        if self.device == "cpu" and group.legality is Legality.INDEPENDENT and group.dims and not self.is_tiled(group):
            return {name: self.cpu_traffic(group, name) for name in touched}
        last = self.dims(group)[-1] if group.dims else ""
        return {name: self.traffic(group, name, last) for name in touched}

    def whole(self, items: Sequence[PlanItem]) -> tuple[float, float]:
        """Seconds and bytes of all that a plan runs."""
        seconds = moved = 0.0
        for item in items:
            if isinstance(item, HostGroup):
                trips, (each, bytes_each) = self.trips((item.loop,)), self.whole(item.body)
                seconds, moved = seconds + trips * each, moved + trips * bytes_each
            else:
                seconds, moved = seconds + self.seconds(item), moved + sum(self.moved(item).values())
        return seconds, moved

    def turn(self, items: Sequence[PlanItem]) -> float:
        """Seconds of groups and loops of launches in one turn of a CPU's loop around them: what is worth little is
        run by the caller."""
        return sum(self.trips((item.loop,)) * self.turn(item.body) if isinstance(item, HostGroup) else self._turn(item) for item in items)

    def _turn(self, group: Group) -> float:
        machine, launches = self.machine, launches_of(group)
        alone, threads = self.alone(group)
        return min(alone / threads + launches * machine.turn, alone + launches * machine.turn_alone)

    def alone(self, group: Group) -> tuple[float, float]:
        """Seconds of a group in a turn of a CPU's loop, by one thread, without its launch; and how many threads could share
        them. What a turn uses of lines of elements lies in a cache since the last one, if it is little."""
        machine, found = self.machine, self.group(group)
        threads = min(max(found.threads, 1.0), machine.threads)
        near = sum(moved for name, moved in self.moved(group).items() if self._is_used_again(group, name))
        saved = near * (1 - 1 / IN_CACHE) / machine.bandwidth if near <= machine.cache else 0.0
        shared = found.seconds - launches_of(group) * machine.launch
        return max(0.0, shared * threads - saved * machine.threads), threads

    def _is_used_again(self, group: Group, name: str) -> bool:
        """Does the next turn of the loops around launches touch the same of an array? A line of elements counts as that."""
        host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
        accesses = (a.load for s in self.users[name] if s.id in group.ids for a in (*s.reads, s.write) if a.array == name)
        return len(self.program.arrays[name].extents) < 2 or not any(host & moving(part) for load in accesses for part in load.index)

    def team(self, group: Group) -> int:
        """How many threads run a point of the group together (asked for each of its accesses)."""
        if self._team is None:
            return 1
        if id(group) not in self._teams:
            self._teams[id(group)] = group, self._team(group, self.program, self.device)
        return self._teams[id(group)][1]

    def is_tiled(self, group: Group) -> bool:
        """Is the group run in tiles of registers?"""
        if self._tiles is None:
            return False
        if id(group) not in self._tiled:
            self._tiled[id(group)] = group, self._tiles(group, self.device)
        return self._tiled[id(group)][1]

    def takes_tiles(self, group: Group) -> bool:
        """Might tiles of registers run a part of the group: does it update something by what it reads at other places?"""
        if self._tiles is None or self.device == "gpu":
            return False
        statements = (s for unit in group.units for s in unit.statements)
        return any(s.target in loads(s.value) and len(s.reads) > 2 for s in statements)

    def dims(self, group: Group) -> tuple[str, ...]:
        """The group's dimensions, slowest first."""
        return order_dims(group, write=1 if self.device == "gpu" else CPU_WRITE)

    def time_block(
        self, group: Group, redundancy: float, steps: int, reload: float | None = None
    ) -> float:
        """Seconds for one iteration of a time loop, `steps` of them in one launch. `reload`: how
        often each element is loaded, where that is not about once."""
        machine = self.machine
        operations, _ = self.operations(group, len(group.scope.host) if group.scope else 0)
        mine = {name for u in group.units for s in u.statements for name in arrays_of(s)}
        written = {s.write.array for u in group.units for s in u.statements}
        moved = sum(
            self.elements(name) * self.program.arrays[name].dtype.bytes * (1 + (name in written))
            for name in mine
            if self.program.arrays[name].kind != "scalar"
        )
        if reload is not None:
            loaded = {whole_name(name) for name in group.loaded}
            moved = sum(
                self.elements(name)
                * self.program.arrays[name].dtype.bytes
                * (reload * (name in loaded) + (name in written))
                for name in mine
                if self.program.arrays[name].kind != "scalar"
                and (name in loaded or self.program.arrays[name].is_argument)
            )
        if self.device == "cpu":  # too few threads for some to compute while others wait
            busy = steps * operations * redundancy / machine.operations
            return (IN_ROWS * moved / machine.bandwidth + busy + machine.launch) / steps
        busy = steps * operations * redundancy * IN_WINDOWS / machine.operations
        if reload is not None:  # barriers: nothing overlaps (heat in 1 to 4 steps, on an H100)
            return (moved / machine.bandwidth + busy + machine.launch) / steps
        return (max(moved / machine.bandwidth, busy) + machine.launch) / steps

    def operations(self, group: Group, host: int) -> tuple[float, int]:
        """Operations of the group, and how many values its instances compute anew. Values that
        several members recompute at one point count once; infinite past the limit of
        recomputation."""
        total, values = self._counted(group, host)
        statements = self.program.by_id
        again = sum(c * operations_of(statements[v.statement], self.device) for v, c in values.items())
        return total + again, len(values)

    def values_anew(self, group: Group) -> tuple[Value, ...]:
        """The values that the group's instances compute anew; those found before the limit."""
        _, values = self._counted(group, len(group.scope.host) if group.scope else 0)
        return tuple(values)

    def _counted(self, group: Group, host: int) -> tuple[float, dict[Value, float]]:
        """Operations of the statements themselves, and how often each value is computed anew."""
        resolver = Resolver(self.program, group)
        scalar = self.scalar(group)
        total = 0.0
        values: dict[Value, float] = {}
        for placed in group.members:
            at = {c.iterator: c.value() for c in placed.coordinates}
            for s in placed.unit.statements:
                count = self.trips(s.loops[host:])
                total += count * scalar(s) * operations_of(s, self.device)
                point: dict[str, Expr] = {name: at.get(name, Iter(name)) for name in s.iterators}
                try:
                    for value in resolver.closure(s, point):
                        values[value] = max(count, values.get(value, 0.0))
                except TooMany:
                    return float("inf"), values
        return total, values

    def scalar(self, group: Group) -> Callable[[Statement], float]:
        """How many instructions a statement of the group takes where its lanes would be one."""
        if self.device == "cpu" and group.legality is Legality.SERIAL and group.scope is not None:
            return self._in_turn(group, group.scope)
        if self.device == "gpu" or group.legality is not Legality.INDEPENDENT or not group.dims:
            return lambda statement: 1.0
        dims = self.dims(group)
        mixed = have_mixed_steps(group, dims[-1])
        short = self.have_short(group, dims[-1]) or self.may_meet(group, dims[-1])
        nests = {s.id: find_nest(group, s, dims) for placed in group.members for s in placed.unit.statements}
        in_strips = any(nest is not None and nest.strips for nest in nests.values())
        reorders = self._team is not None and not in_strips and group.scope is not None and group.scope.reassociate

        def one(statement: Statement) -> float:
            nest = nests[statement.id]
            if reorders and nest is not None and nest.has_lanes(statement) and may_reorder(statement, True):
                return self.lanes(nest.own[-1] if nest.own else statement.loops[-1])  # (beside strips they are priced in order, also where lanes take them)
            lanes = max(1.0, VECTOR / statement.write.load.dtype.bytes)
            if nest is None or (nest.is_vector(statement) and not (mixed or short)):
                strip = STRIP if len(dims) == 1 else LONG_STRIP
                return 1.0 + STARTS * lanes / strip if nest is not None and nest.strips else 1.0
            return lanes * MIXED if mixed else lanes

        return one

    def lanes(self, loop: Loop) -> float:
        """How many instructions an update of an innermost loop takes in lanes, for each that a vector takes."""
        return 1.0 + LANES_END / max(1.0, self.trips((loop,)))

    def _in_turn(self, group: Group, scope: Scope) -> Callable[[Statement], float]:
        """The same of a nest that one thread runs as it stands. What waits makes others of its loop wait."""
        waiting: dict[str, bool] = {}
        for beside in (each for placed in group.members for each in innermost(placed.unit.items)):
            loop = beside[0].loops[-1]
            waiting |= dict.fromkeys((s.id for s in beside), self.waits_in_turn(beside, loop, scope))

        def one(statement: Statement) -> float:
            lanes = max(1.0, VECTOR / statement.write.load.dtype.bytes)
            loops = [lp for lp in statement.loops[len(scope.host) :] if not is_short_loop(lp.lower, lp.upper, lp.step)]
            if not loops:
                return lanes
            nest = CpuNest(loops[-1].iterator, loops[-2].iterator if len(loops) > 1 else "", own=tuple(loops))
            if scope.reassociate and nest.has_lanes(statement) and may_reorder(statement, True):
                return 1.0
            return 1.0 if nest.is_vector(statement) and not waiting[statement.id] else lanes

        return one

    def waits_in_turn(self, statements: Sequence[Statement], loop: Loop, scope: Scope) -> bool:
        """Does an iteration of a loop that one thread runs in order wait for what these of its statements did before?"""
        return any(self._waits(each, loop, scope) for each in statements)

    def _waits(self, statement: Statement, loop: Loop, scope: Scope) -> bool:
        """Does an iteration of one of the statement's loops need what one before it did, the loops around it standing still?"""
        depth = statement.loops.index(loop)
        for d in scope.touching((statement.id,)):
            source, sink = self.program.statement(d.source), self.program.statement(d.sink)
            if order_is_free(d, source, scope.reassociate) or not (
                source.loops[: depth + 1] == sink.loops[: depth + 1] == statement.loops[: depth + 1]
            ):
                continue
            if not carried_at(d.relation, depth).is_empty():
                return True
        return False

    def may_meet(self, group: Group, dim: str) -> bool:
        """Does the group write an array that it also reads where LLVM cannot tell that iterations along a dimension do not
        meet: at one element for all of them, or in a row that is no linear function of iterators? Then there are no vectors.
        (Loops of a thread's own are each a loop by itself.)"""
        written: dict[str, set[tuple[Expr, ...]]] = {}
        read: dict[str, set[tuple[Expr, ...]]] = {}
        for placed in group.members:
            at = {c.iterator: c.value() for c in placed.coordinates}
            host = len(group.scope.host) if group.scope else 0
            for s in placed.unit.statements:
                if any(loop.iterator not in at for loop in s.loops[host:]):
                    continue
                for access in (*s.reads, s.write):
                    if access is not s.write and (s.id, access.array) in group.fed:
                        continue  # computed anew
                    place = tuple(tidy(substitute(part, at)) for part in access.load.index)
                    (written if access is s.write else read).setdefault(access.array, set()).add(place)
        return any(
            place not in places and not self._is_told_apart(place, dim) and not all(_are_rows_apart(place, each, dim) for each in places)
            for name, places in written.items()
            if self.program.arrays[name].is_argument or not self.is_local(group, name)
            for place in read.get(name, ())
        )

    @staticmethod
    def _is_told_apart(place: tuple[Expr, ...], dim: str) -> bool:
        linear_forms = [linear(part) for part in place]
        return all(form is not None for form in linear_forms) and any(dim in iterators(part) for part in place)

    def have_short(self, group: Group, dim: str) -> bool:
        """Do some members have many times the iterations of others along a dimension? Only where all of
        them run is a loop free of guards (`plan.mapping.interior`)."""
        trips: list[float] = []
        for placed in group.members:
            names = {c.iterator for c in placed.coordinates if c.dim == dim}
            trips += [self.trips((loop,)) for loop in placed.unit.common if loop.iterator in names]
        return bool(trips) and min(trips) * FEW < max(trips)

    def traffic(self, group: Group, array: str, last: str) -> float:
        """Bytes of `array` the group moves: each element read once and written once, nothing for
        values that stay in registers. `last` is the dimension neighbouring threads lie along."""
        reads = writes = False
        factor, touched = 1.0, 0.0
        host = len(group.scope.host) if group.scope else 0
        info = self.program.arrays[array]
        fed = group.fed
        members = group.running
        for s in self.users[array]:
            if s.id not in group.ids:
                continue
            for access, is_write in touches(s, array):
                if is_write and s.id in members:
                    writes = True
                    touched += self.places(s.loops[host:], access)
                elif not is_write and (s.id, array) not in fed:
                    reads = True
                    touched += self.places(s.loops[host:], access)
                    factor = max(factor, self.stride(group, s, access.load, last))
        if not (reads or writes):
            return 0.0
        if not info.is_argument and self.is_local(group, array):
            return 0.0
        inside = self.written_inside(group.ids, group, array)
        count = float(reads and not inside) + float(writes)
        elements = self.elements(array)
        moved = touched if touched * FEW < elements else elements * count
        return moved * info.dtype.bytes * factor

    def cpu_traffic(self, group: Group, array: str) -> float:
        """The same on the CPU, of a map: what an iteration holds in a cache moves once for all units of
        the group, else for each; by how its innermost loops go through memory."""
        info = self.program.arrays[array]
        if not info.is_argument and self.is_local(group, array):
            return 0.0
        dims = self.dims(group)
        bytes, gathered = info.dtype.bytes, self.gathered(group)
        far = array in gathered and self.elements(array) * bytes > self.machine.cache
        moves: list[tuple[float, float]] = []  # read and written by each unit, in elements
        held = 0.0
        for placed in group.members:
            read = written = 0.0
            for s in placed.unit.statements:
                nest = find_nest(group, s, dims)
                for access, is_write in touches(s, array):
                    if not is_write and (s.id, array) in group.fed:
                        continue
                    moved = self.touched(group, array, s, access)
                    if far and any(loads(part) for part in access.load.index):
                        moved *= LINE * (RIVALS if len(gathered) > 1 else 1.0)
                    elif nest is not None:
                        moved *= nest.moved(access, is_write)
                    if is_write:
                        written = max(written, moved)
                    else:
                        read = max(read, moved)
                    if nest is not None:
                        runs = self.trips(nest.held(access)) * nest.room(access)
                        held = max(held, runs * (STRIP if nest.strips else 1))
            if self.written_inside(placed.unit.ids, group, array):
                read = 0.0
            moves.append((read, written))
        if held * bytes > self.machine.cache:
            return bytes * sum(read + written for read, written in moves)
        first = 0.0 if self.written_inside(group.ids, group, array) else max(r for r, _ in moves)
        return bytes * (first + max(w for _, w in moves))

    def touched(self, group: Group, array: str, statement: Statement, access: Access) -> float:
        """How many elements an access touches: all, or those of a border, a diagonal or the like."""
        used = {name for part in access.load.index for name in iterators(part)}
        host = len(group.scope.host) if group.scope else 0
        found = self.trips(tuple(lp for lp in statement.loops[host:] if lp.iterator in used))
        elements = self.elements(array)
        return found if found * FEW < elements else elements

    def places(self, loops: tuple[Loop, ...], access: Access) -> float:
        """How many places an access names in the iterations of a nest."""
        used = {name for part in access.load.index for name in iterators(part)}
        used |= {*self.program.arrays[access.array].private_to}
        return self.trips(tuple(loop for loop in loops if loop.iterator in used))

    def gathered(self, group: Group) -> frozenset[str]:
        """The arrays that the group reads where data says."""
        return frozenset(
            access.array
            for placed in group.members
            for s in placed.unit.statements
            for access in s.reads
            if any(loads(part) for part in access.load.index)
        )

    def stride(self, group: Group, statement: Statement, load: Load, dim: str) -> float:
        """How much more than it uses a GPU access moves: neighbouring threads far apart."""
        placed = group.placed.get(statement.id)
        if placed is None or not load.index or not group.dims or not placed.coordinates:
            return 1.0
        if group.legality is Legality.REDUCED or self.team(group) > 1:
            return 1.0
        last = placed.coordinate(dim).iterator
        if all(last not in iterators(e) for e in load.index):
            return 1.0
        terms = linear(load.index[-1])
        fine = terms is None or abs(terms.get(last, 0)) == 1
        if not fine:
            return self.machine.uncoalesced
        inner = set(statement.iterators) - {c.iterator for c in placed.coordinates}
        inner -= {loop.iterator for loop in group.scope.host} if group.scope else set()
        down = any(iterators(part) & inner for part in load.index[:-1])
        return self.machine.strided if down and not iterators(load.index[-1]) & inner else 1.0

    def written_inside(self, ids: frozenset[str], group: Group, array: str) -> bool:
        """Some statement of `ids`, of the group, writes the array before another reads it."""
        users = self.users[array]
        writers = {s.id for s in users if s.id in ids and s.write.array == array}
        flows = group.scope.flows.get(array, ()) if group.scope else ()
        return any(d.source in writers and d.sink in ids for d in flows)

    def is_local(self, group: Group, array: str) -> bool:
        """All uses of a temporary are inside the group, point to point."""
        users = self.users[array]
        if any(s.id not in group.ids for s in users):
            return False
        inner = self.program.arrays[array].extents
        depth = {len(s.loops) for s in users}
        host = len(group.scope.host) if group.scope else 0
        return not inner or max(depth) - host <= len(group.dims)


def _are_rows_apart(one: tuple[Expr, ...], other: tuple[Expr, ...], dim: str) -> bool:
    """Are these elements of rows that never meet, whatever happens along a dimension? (Code generation says so to LLVM.)"""
    for a, b in zip(one, other, strict=True):
        if dim not in iterators(a) | iterators(b) and (constant_value(a - b) or 0) != 0:
            return True
    return False


def moving(subscript: Expr) -> frozenset[str]:
    """The iterators that a subscript goes along with: not those of which it takes a remainder by a number."""
    if isinstance(subscript, Binary) and subscript.op == "mod" and constant_value(subscript.right) is not None:
        return frozenset()
    return frozenset({subscript.name}) if isinstance(subscript, Iter) else frozenset().union(*map(moving, children(subscript)))


def launches_of(group: Group) -> int:
    """How many launches a group is: partial results are put together by a second one."""
    return 2 if group.legality is Legality.REDUCED else 1


def arrays_of(statement: Statement) -> tuple[str, ...]:
    """The arrays a statement touches, each once, in the order of its accesses."""
    accesses = (*statement.reads, statement.write)
    return tuple(dict.fromkeys(name for access in accesses for name, _ in access.parts))


def _is_lower(program: PolyProgram, name: str) -> bool:
    """Is the symbol the lower bound of a loop?"""
    return any(
        isinstance(loop.lower, Symbol) and loop.lower.name == name
        for statement in program.statements
        for loop in statement.loops
    )


def operations_of(statement: Statement, device: str) -> float:
    """Arithmetic and loads of one instance, addresses not counted, in operations of the machine."""
    found = expression_price(statement.value, device)
    if statement.predicate is not None:
        found += expression_price(statement.predicate, device)
    return found / OPERATION
