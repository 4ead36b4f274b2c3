"""What a group would cost: the largest of bytes at memory bandwidth, operations at peak, plus
launches. A roofline, with few threads counted as little bandwidth.

Sizes that are not known are taken as large. The figures of a device are round numbers of its
class; only ratios decide anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopfuse.lang.affine import evaluate_index
from loopfuse.lang.nodes import Call, Const, Expr, Fma, Iter, Load, Symbol
from loopfuse.lang.walk import children, iterators
from loopfuse.plan.generic import order_dims
from loopfuse.plan.groups import Group
from loopfuse.plan.recompute import Resolver, TooMany, Value
from loopfuse.plan.storage import touches
from loopfuse.plan.window_planes import whole_name
from loopfuse.poly.isl import linear
from loopfuse.poly.model import Loop, PolyProgram, Statement

LARGE = 4096
LARGE_1D = 1 << 24
RUN_TIME_TRIPS = 32
"""What a loop whose bounds depend on data is taken to run."""
CALL_OPERATIONS = 25
"""A math function, in operations."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Bytes and operations a second, seconds a launch, threads for full speed."""

    bandwidth: float
    operations: float
    launch: float
    threads: float
    uncoalesced: float  # bytes moved per byte used when neighbouring threads are far apart
    strided: float  # the same where a thread goes down a column


GPU = Machine(3.0e12, 2.5e13, 4e-6, 60_000, 3.0, 1.0)
CPU = Machine(4.0e10, 4.0e11, 5e-6, 16, 1.0, 8.0)

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


class CostModel:
    """Prices groups of one program at assumed sizes."""

    def __init__(self, program: PolyProgram, device: str, sizes: Mapping[str, int]) -> None:
        self.program = program
        self.machine = GPU if device == "gpu" else CPU
        self.order = {name: number for number, name in enumerate(program.arrays)}
        self.users: dict[str, list[Statement]] = {name: [] for name in program.arrays}
        for s in program.statements:
            for name in arrays_of(s):
                self.users[name].append(s)
        rank = max((len(a.extents) for a in program.arrays.values()), default=1)
        default = LARGE_1D if rank <= 1 else LARGE if rank == 2 else 256
        self.sizes = {name: sizes.get(name, default) for name in program.symbols}
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
            if group.kind == "combine":
                threads = min(threads, 1024.0 * 256)
        mine = {name for u in group.units for s in u.statements for name in arrays_of(s)}
        last = order_dims(group)[-1] if group.dims else ""
        touched = sorted(mine, key=self.order.__getitem__)
        moved = sum(self.traffic(group, name, last) for name in touched)
        speed = min(1.0, max(threads, 1.0) / machine.threads)
        seconds = max(moved / machine.bandwidth, operations / machine.operations) / speed
        launches = 2 if group.kind == "combine" else 1
        return Estimate(seconds + launches * machine.launch, moved, operations, threads, anew)

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
        busy = steps * operations * redundancy / machine.operations
        if reload is not None:  # barriers: nothing overlaps (heat in 1 to 4 steps, on an H100)
            return (moved / machine.bandwidth + busy + machine.launch) / steps
        return (max(moved / machine.bandwidth, busy) + machine.launch) / steps

    def operations(self, group: Group, host: int) -> tuple[float, int]:
        """Operations of the group, and how many values its instances compute anew. Values that
        several members recompute at one point count once; infinite past the limit of
        recomputation."""
        resolver = Resolver(self.program, group)
        total = 0.0
        values: dict[Value, float] = {}
        for placed in group.members:
            at = {c.iterator: c.value() for c in placed.coordinates}
            for s in placed.unit.statements:
                count = self.trips(s.loops[host:])
                total += count * operations_of(s)
                point: dict[str, Expr] = {name: at.get(name, Iter(name)) for name in s.iterators}
                try:
                    for value in resolver.closure(s, point):
                        values[value] = max(count, values.get(value, 0.0))
                except TooMany:
                    return float("inf"), len(values)
        statements = resolver.statements
        total += sum(c * operations_of(statements[v.statement]) for v, c in values.items())
        return total, len(values)

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
                    touched += self.trips(s.loops[host:])
                elif not is_write and (s.id, array) not in fed:
                    reads = True
                    touched += self.trips(s.loops[host:])
                    factor = max(factor, self.stride(group, s, access.load, last))
        if not (reads or writes):
            return 0.0
        if not info.is_argument and self.is_local(group, array):
            return 0.0
        inside = self.written_inside(group, array)
        count = float(reads and not inside) + float(writes)
        elements = self.elements(array)
        moved = touched if touched * FEW < elements else elements * count
        return moved * info.dtype.bytes * factor

    def stride(self, group: Group, statement: Statement, load: Load, dim: str) -> float:
        """How much more than it uses a GPU access moves: neighbouring threads far apart."""
        placed = group.placed.get(statement.id)
        if placed is None or not load.index or not group.dims or not placed.coordinates:
            return 1.0
        if group.kind == "combine":
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

    def written_inside(self, group: Group, array: str) -> bool:
        """Some unit of the group writes the array before another reads it."""
        users = self.users[array]
        writers = {s.id for s in users if s.id in group.ids and s.write.array == array}
        flows = group.scope.flows.get(array, ()) if group.scope else ()
        return any(d.source in writers and d.sink in group.ids for d in flows)

    def is_local(self, group: Group, array: str) -> bool:
        """All uses of a temporary are inside the group, point to point."""
        users = self.users[array]
        if any(s.id not in group.ids for s in users):
            return False
        inner = self.program.arrays[array].extents
        depth = {len(s.loops) for s in users}
        host = len(group.scope.host) if group.scope else 0
        return not inner or max(depth) - host <= len(group.dims)


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


def operations_of(statement: Statement) -> float:
    """Arithmetic and loads of one instance, addresses not counted."""
    total = 0.0

    def visit(expr: Expr) -> None:
        nonlocal total
        match expr:
            case Load():
                total += 1
                return
            case Const() | Iter() | Symbol():
                return
            case Call():
                total += CALL_OPERATIONS
            case Fma():
                total += 1
            case _:
                total += 0.5
        for child in children(expr):
            visit(child)

    visit(statement.value)
    if statement.predicate is not None:
        visit(statement.predicate)
    return total
