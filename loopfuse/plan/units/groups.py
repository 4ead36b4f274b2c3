"""Fusion groups: units that become one kernel, and whether they legally can.

`form_group` is the legality question in one place: it aligns the units, lets consumers recompute
a cheap producer whose distance is not constant, and answers with a `Group` or a `Refusal` that
holds the dependence instances in the way.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.plan.units.align import (
    Coordinate,
    Placed,
    find_offsets,
    find_violation,
    with_dims,
)
from loopfuse.plan.units.forest import (
    Scope,
    Unit,
    carries_nothing,
    in_order,
    order_is_free,
    serial_because,
)
from loopfuse.poly.deps import names_one_place
from loopfuse.poly.isl_relations import equate, solve_dimensions
from loopfuse.poly.model import Access, Dependence, Loop, PolyProgram, Statement

if TYPE_CHECKING:
    from loopfuse.plan.strategies.strategy import Fit

Box = tuple[tuple[Expr, Expr], ...]
"""The first element and the one after the last in each dimension of an array."""

Region = tuple[Box, ...]
"""Some part of an array, the largest box of it first."""


def whole_name(array: str) -> str:
    """The program's array that a plane is of; the array itself where it is none."""
    return array.partition("@")[0]


@dataclass(frozen=True, slots=True)
class TimeBlock:
    """`steps` iterations of the time loop `iterator` in one launch. The host numbers pairs of
    launches; the launch's first iteration is `lower` + the number * 2 * `steps` + `first`, an even
    number after `origin` but for `first`. Launches take turns: one from the arrays to their copies, the next
    (`back`) from the copies to the arrays. `stored`: the arrays that the launch writes to memory;
    `copied`: those that it reads from copies, and where in each dimension the copy holds them.
    `whole`: the launch to the copies fills them whole, with what the loop never writes."""

    iterator: str
    steps: int
    lower: Expr
    origin: Expr
    first: int = 0
    back: bool = False
    stored: frozenset[str] = frozenset()
    copied: tuple[tuple[str, Region], ...] = ()
    whole: bool = False

    @staticmethod
    def of(loop: Loop, steps: int) -> TimeBlock:
        """The first launch of a pair, in a loop over nothing but such blocks."""
        return TimeBlock(loop.iterator, steps, loop.lower, loop.lower)

    def region(self, array: str) -> Region | None:
        """Where the copy of the array holds it; None where it is not read from a copy."""
        return dict(self.copied).get(array)


class ProgramOrder(enum.Enum):
    """How a nest runs in the program's order."""

    ALONE = "alone"  # one thread runs a part of it in order
    LAUNCHED = "launched"  # the host starts launches in loops in loops
    SHARED = "shared"  # threads share its iterations


class Legality(enum.Enum):
    """How the iterations of a group's dimensions may run, as dependences have it; the values are what plans
    print."""

    INDEPENDENT = "map"  # in any order
    REDUCED = "combine"  # in any order but for reductions, whose partial results are combined
    STREAMED = "window"  # as a chain: each loop so far behind the one before it that what it needs is there
    SERIAL = "serial"  # one after the other, by one thread; there are no dimensions


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two groups as one pass: `along` goes along the rows of `arrays`, which its dimension `dim` numbers, and `across` has a result
    for each column of them, in `results`. Each `share` rows add to a copy of these. `between`: the labels of the
    loops that meet there, in the program's order."""

    along: Group
    across: Group
    dim: str
    arrays: tuple[str, ...]
    results: tuple[str, ...]
    between: tuple[str, str]
    share: int

    @property
    def reason(self) -> str:
        """What reports say of it."""
        arrays, results = ("`, `".join(names) for names in (self.arrays, self.results))
        return f"in one pass over the rows of `{arrays}`: each {self.share} of them add to a copy of `{results}`"


@dataclass(frozen=True)  # no slots: what follows from the fields is kept once it is asked for
class Group:
    """Units that run as one kernel.

    `members` are in order;
    `recomputed` are ids of statements whose values consumers compute anew where they need them;
    a recomputed unit that nothing else needs is in `absorbed`, not in `members`. A block of
    time steps (`time`) reads the arrays `loaded` before it makes anything of them.
    """

    legality: Legality
    dims: tuple[str, ...]
    members: tuple[Placed, ...]
    recomputed: frozenset[str] = frozenset()
    absorbed: tuple[Unit, ...] = ()
    scope: Scope | None = None
    time: TimeBlock | None = None
    loaded: frozenset[str] = frozenset()
    crossing: Crossing | None = field(default=None, compare=False, repr=False)
    """It and the group before it in the plan are one pass, where a strategy takes both."""
    fit: Fit | None = field(default=None, compare=False, repr=False)
    """How it is run, once a strategy has decided on it."""

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """All units, absorbed ones included, as they run."""
        every = (*self.absorbed, *(placed.unit for placed in self.members))
        return in_order(every)

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of all statements."""
        return frozenset(id for unit in self.units for id in unit.ids)

    @cached_property
    def placed(self) -> dict[str, Placed]:
        """Where each statement that the group runs stands, by id."""
        return {id: placed for placed in self.members for id in placed.unit.ids}

    @cached_property
    def running(self) -> frozenset[str]:
        """The ids of the statements that the group runs (absorbed ones are not)."""
        return frozenset(self.placed)

    @cached_property
    def fed(self) -> frozenset[tuple[str, str]]:
        """(statement id, array) of the reads that recomputed values feed."""
        return frozenset(
            (d.sink, d.array)
            for d in (self.scope.touching(self.recomputed) if self.scope else ())
            if d.kind == "flow" and d.source in self.recomputed
        )

    def beside(self, other: Group) -> Group:
        """What both run, as one: to be looked at."""
        return Group(self.legality, (), (*self.members, *other.members), scope=self.scope)


@dataclass(frozen=True, slots=True)
class HostGroup:
    """A loop the host runs around launches, and the plan of its body. `blocks`: it is a time loop
    in so many blocks; the tree's loop numbers them from 0. `resident`: the condition on sizes under which
    there are none, and what is left over is the whole loop."""

    loop: Loop
    body: tuple[PlanItem, ...]
    blocks: Expr | None = None
    resident: Expr | None = None

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all statements inside."""
        return frozenset(id for item in self.body for id in item.ids)


PlanItem = Group | HostGroup


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why units cannot share a kernel: the dependence and the instances of it in the way
    (`offending` is None where the reason is not an instance), and what would not work about
    recomputing the producer (`could`: nothing, it was just not asked for)."""

    reason: str
    dependence: Dependence | None = None
    offending: Any | None = None
    why_not_recompute: str = ""
    could: bool = False


def single_group(unit: Unit, scope: Scope) -> Group:
    """The group of one unit: map where a loop is parallel, else combine where reductions may
    change order, else serial."""
    if unit.parallel:
        legality, names = Legality.INDEPENDENT, unit.parallel
    elif unit.relaxed and unit.carried:
        legality, names = Legality.REDUCED, unit.relaxed
    else:
        return Group(Legality.SERIAL, (), (Placed(unit, ()),), scope=scope)
    order = [loop.iterator for loop in unit.common if loop.iterator in names]
    dims = tuple(f"g{k}" for k in range(len(order)))
    coordinates = tuple(Coordinate(d, i, 1) for d, i in zip(dims, order))
    return Group(legality, dims, (Placed(unit, coordinates),), scope=scope)


def form_group(
    units: Sequence[Unit],
    scope: Scope,
    program: PolyProgram,
    keep: frozenset[str],
    anew: frozenset[str] = frozenset(),
    in_place: bool = False,
    covered: frozenset[str] = frozenset(),
) -> Group | Refusal:
    """`units` (program order) as one group, or why not. `anew`: statements to recompute from the
    start, whether or not alignment asks for it. `in_place`: recompute nothing else. `covered`:
    arrays that are taken to be written wherever they are read (to try a remedy).

    `keep`: arrays whose values are needed after these units (arguments, and temporaries read by
    others), so that a recomputed producer of one still stores it.
    """
    recompute: set[str] = set(anew)
    strict = True
    first: Refusal | None = None
    while True:
        attempt = _align_all(units, scope, frozenset(recompute), keep, strict)
        if isinstance(attempt, Group):
            return attempt
        dependence = attempt.dependence
        if dependence is not None and dependence.kind == "flow":
            more, why = _with_producers(dependence, units, scope, program, covered)
            if not why and not more <= recompute:
                if in_place:
                    return Refusal(attempt.reason, dependence, attempt.offending, could=True)
                recompute |= more
                continue
            attempt = Refusal(attempt.reason, dependence, attempt.offending, why)
        first = first or attempt
        if not strict:
            return first
        strict = False  # a dimension may be given up after all: it then runs serially inside


def without_dead(group: Group, keep: frozenset[str]) -> Group:
    """`group` without the statements whose values every reader computes anew, in units of which others are
    needed: they are absorbed. `keep`: arrays whose values are needed after the group."""
    members: list[Placed] = []
    absorbed = list(group.absorbed)
    for placed in group.members:
        unit = placed.unit
        used = {s.id for s in unit.statements if any(name in keep for name, _ in s.write.parts)}
        dead = (unit.ids - used) & group.recomputed
        if dead and dead != unit.ids:
            absorbed.append(unit.only(dead))
            placed = replace(placed, unit=unit.only(unit.ids - dead))
        members.append(placed)
    return replace(group, members=tuple(members), absorbed=tuple(absorbed))


def _with_producers(
    dependence: Dependence,
    units: Sequence[Unit],
    scope: Scope,
    program: PolyProgram,
    covered: frozenset[str] = frozenset(),
) -> tuple[set[str], str]:
    """Statements to recompute so that `dependence` need not be met in place: its source's unit
    and every unit that feeds that one. The second result says why not, if not."""
    found: set[str] = set()
    waiting = [dependence]
    while waiting:
        flow = waiting.pop()
        producer = next(u for u in units if flow.source in u.ids)
        if producer.ids <= found:
            continue
        inside = {id for u in units for id in u.ids} - producer.ids
        # The unit is computed anew as a whole: for whoever reads any of what it writes.
        leaving = {
            (d.source, d.array): d
            for d in scope.touching(producer.ids)
            if d.kind == "flow" and d.source in producer.ids and d.sink in inside
        }
        for each in ({(flow.source, flow.array): flow} | leaving).values():
            why = why_not_recomputable(producer, each, units, scope, program, covered)
            if why:
                return set(), why
        found |= producer.ids
        waiting += [
            d
            for d in scope.touching(producer.ids)
            if d.kind == "flow" and d.sink in producer.ids and d.source in inside
        ]
    return found, ""


def recomputable_producers(
    units: Sequence[Unit], consumer: Unit, scope: Scope, program: PolyProgram
) -> frozenset[str]:
    """Statements of `units` that `consumer` could compute anew instead of reading."""
    found: set[str] = set()
    inside = {id for u in units if u is not consumer for id in u.ids}
    for d in scope.touching(consumer.ids):
        if d.kind == "flow" and d.source in inside and d.sink in consumer.ids:
            more, why = _with_producers(d, units, scope, program)
            if not why:
                found |= more
    return frozenset(found)


def extend_group(group: Group, unit: Unit, scope: Scope) -> Group | None:
    """The easy case of `form_group`: `unit` fits a map group as it stands, point to point. None
    where the whole group must be thought over."""
    if group.legality is not Legality.INDEPENDENT or not unit.parallel or not group.dims:
        return None
    mine = scope.touching(unit.ids)
    if any(d.source in group.recomputed or d.sink in group.recomputed for d in mine):
        return None
    near = Scope(scope.host, tuple(mine), scope.reassociate)
    found = _find_coordinates(group.members, unit, near, frozenset(), Legality.INDEPENDENT, True)
    if isinstance(found, Refusal) or any(dim not in found for dim in group.dims):
        return None
    placed = Placed(unit, tuple(found[dim] for dim in group.dims))
    members = (*group.members, placed)
    if find_violation(members, group.dims, mine, scope) is not None:
        return None
    return Group(Legality.INDEPENDENT, group.dims, members, group.recomputed, group.absorbed, scope)


def why_not_recomputable(
    producer: Unit,
    dependence: Dependence,
    units: Sequence[Unit],
    scope: Scope,
    program: PolyProgram,
    covered: frozenset[str] = frozenset(),
) -> str:
    """Why consumers cannot compute the producer's values anew; "" if they can. `covered`: arrays
    that are taken to be written wherever they are read."""
    if any(s.kind in ("init", "update") or s.reduction for s in producer.statements):
        return "it is a reduction"
    if any(s.predicate is not None for s in producer.statements):
        return "it is conditional on data"
    if any(len(access.parts) > 1 for s in producer.statements for access in (*s.reads, s.write)):
        return "it accesses a swapped array"
    if not carries_nothing(producer, scope):
        return "its own iterations depend on each other"
    # All that read it in these units would compute it anew, not this one alone.
    inside = {id for unit in units for id in unit.ids}
    flows = [
        d
        for d in scope.touching((dependence.source,))
        if d.kind == "flow"
        and (d.array, d.source) == (dependence.array, dependence.source)
        and d.sink in inside
    ]
    for flow in (dependence, *flows):
        reads = [r for r in program.statement(flow.sink).reads if flow.array in (name for name, _ in r.parts)]
        if any(len(r.parts) > 1 for r in reads):
            return "it is read in turns with another array, by a swap"
        if any(is_checked(e) for r in reads for e in r.load.index):
            return "it is read at a place that depends on data"
        if not all(names_one_place(r) for r in reads):
            return "it is read at a place that is not affine"
        if _keeps(program.statement(flow.sink), flow.array):
            return "what it writes is overwritten under a condition on data"
        if flow.array not in covered and any(_reads_more(r, flow, program) for r in reads):
            return f"elements of `{flow.array}` that it does not write are read too"
    if _leaves_out_tests(producer, (dependence, *flows), units, scope, program):
        return "subscripts that depend on data would be tested in a part of its iterations only"
    source = program.statement(dependence.source)
    if solve_target(source, scope, program) is None:
        return "its subscripts cannot be turned back into its iteration"
    writers = program.writers.get(dependence.array, ())
    other_values = any(
        d.kind == "flow"
        and (d.array, d.sink) == (dependence.array, dependence.sink)
        and d.source != dependence.source
        for d in scope.touching((dependence.sink,))
    )
    if len(writers) > 1 and (other_values or program.arrays[dependence.array].kind != "scalar"):
        return f"`{dependence.array}` is written in several places"
    read = {name for s in producer.statements for a in s.reads for name, _ in a.parts}
    if _reads_what_was_left(producer):
        # An iteration of a loop outside this scope may read what one before it left in storage.
        return "it reads what it writes"
    if mixed := _mixed_inside(producer, scope, program):
        return f"what it reads of `{mixed}` comes from several places in it"
    if lost := _overwritten_inside(producer, scope, program):
        return f"it overwrites `{lost}`, which it reads"
    written_here = {
        name
        for unit in units
        if unit is not producer
        for s in unit.statements
        for name, _ in s.write.parts
    }
    for array in sorted(read & written_here):
        sources = {
            d.source
            for d in scope.touching(producer.ids)
            if d.kind == "flow" and d.sink in producer.ids and d.array == array
        }
        writers_here = {
            s.id
            for unit in units
            for s in unit.statements
            if any(name == array for name, _ in s.write.parts)
        }
        if writers_here - sources:
            return f"`{array}`, which it reads, is overwritten"
    return ""


def _leaves_out_tests(
    producer: Unit,
    flows: Sequence[Dependence],
    units: Sequence[Unit],
    scope: Scope,
    program: PolyProgram,
) -> bool:
    """Would iterations not run whose values nobody reads, though a subscript that is data is tested
    in them, or in what they read? Whether such a one is reported must not depend on fusion."""
    near = {s.id: s for unit in units for s in unit.statements}
    upstream = set(producer.ids)
    while True:
        more = {
            d.source
            for d in scope.touching(tuple(upstream))
            if d.kind == "flow" and d.sink in upstream and d.source in near
        } - upstream
        if not more:
            break
        upstream |= more
    tested = (near[id] for id in upstream if id in near)
    if not any(is_checked(e) for s in tested for r in s.reads for e in r.load.index):
        return False
    rest = program.statement(flows[0].source).domain.intersect_params(program.context)
    for flow in flows:
        rest = rest.subtract(flow.relation.domain())
    return not rest.is_empty()


def _keeps(sink: Statement, array: str) -> bool:
    """Does the statement overwrite the array where a condition on data holds? Elsewhere it leaves
    in storage what was there, which a value computed anew would never reach."""
    return sink.predicate is not None and any(name == array for name, _ in sink.write.parts)


def _reads_what_was_left(producer: Unit) -> bool:
    """Does it read an array that it writes, elsewhere than at the element that a statement before
    has just written in the same iteration?"""
    written = {name for s in producer.statements for name, _ in s.write.parts}
    for position, s in enumerate(producer.statements):
        before = [t.target for t in producer.statements[:position] if t.loops == s.loops]
        for access in s.reads:
            if not written.isdisjoint(name for name, _ in access.parts) and not any(
                (t.array, t.index) == (access.load.array, access.load.index) for t in before
            ):
                return True
    return False


def _mixed_inside(producer: Unit, scope: Scope, program: PolyProgram) -> str:
    """An array or variable that a statement of the producer reads, and that some instances of it find
    as one of the others left it, and some as another or none did (an assignment under a condition
    on iterators): a value computed anew has one source. "" where there is none."""
    sources: dict[tuple[str, str], Dependence] = {}
    for d in scope.touching(producer.ids) if len(producer.statements) > 1 else ():
        if d.kind != "flow" or d.source not in producer.ids or d.sink not in producer.ids:
            continue
        if sources.setdefault((d.sink, d.array), d).source != d.source:
            return d.array
    for (sink, array), d in sources.items():
        reads = (r for r in program.statement(sink).reads if r.array == array)
        if any(_reads_more(r, d, program) for r in reads):
            return array
    return ""


def _overwritten_inside(producer: Unit, scope: Scope, program: PolyProgram) -> str:
    """An array whose elements the producer reads and then overwrites (in the same iteration: it
    carries nothing), so that a second run would read other values; "" where there is none."""
    lost = {
        d.array
        for d in scope.touching(producer.ids)
        if d.kind == "anti" and d.source in producer.ids and d.sink in producer.ids
    }
    for s in producer.statements:
        lost |= {name for a in s.reads for name, _ in a.parts if name == s.target.array}
    return min((name for name in lost if program.arrays[name].kind != "scalar"), default="")


def _reads_more(access: Access, flow: Dependence, program: PolyProgram) -> bool:
    """Does the access also read elements that the flow's source has not written?"""
    if flow.by_element is None:
        return False
    for name, relation in access.parts:
        if name == flow.array:
            missing = relation.wrap().subtract(flow.by_element.range())
            if not missing.intersect_params(program.context).is_empty():
                return True
    return False


@dataclass(frozen=True, slots=True)
class Solved:
    """How the instance of a statement that wrote an element is found from a read of the element.

    `subscripts`: iterator -> (position, offset), with iterator = the read's subscript there - offset.
    `derived`: iterators that the domain determines, each by those before it; in that order. All
    others are the reader's own: of loops that the element is private to, or that the host runs.
    """

    subscripts: dict[str, tuple[int, Expr]]
    derived: tuple[tuple[str, Expr], ...] = ()


def solve_target(statement: Statement, scope: Scope, program: PolyProgram) -> Solved | None:
    """How to get the statement's iterators back from its target's subscripts; None where some
    iterator is no subscript plus a constant, and nothing else says what it is.

    before:  for i in 0..N, j in i..i + 1, t in 1..2: a[j] = ...
    after:   j is the subscript, i = j, t = 1
    """
    from loopfuse.lang.linear import from_linear, split_iterator

    found: dict[str, tuple[int, Expr]] = {}
    for position, subscript in enumerate(statement.target.index):
        split = split_iterator(subscript)
        if split is None:
            return None
        iterator, offset = split
        if iterator is not None and iterator not in found:
            found[iterator] = (position, offset)
    own = {loop.iterator for loop in scope.host}
    own.update(program.arrays[statement.target.array].private_to)
    known = (own | found.keys()) & frozenset(statement.iterators)
    missing = [name for name in statement.iterators if name not in known]
    if not missing:
        return Solved(found)
    solved = solve_dimensions(statement.domain, known)
    if any(name not in solved for name in missing):
        return None
    symbols = frozenset(program.symbols)
    return Solved(found, tuple((name, from_linear(terms, symbols)) for name, terms in solved.items()))


def _align_all(
    units: Sequence[Unit],
    scope: Scope,
    recompute: frozenset[str],
    keep: frozenset[str],
    strict: bool = True,
) -> Group | Refusal:
    """One attempt: align every unit that still runs its own iterations. `strict`: no dimension
    that two units could share is given up."""
    absorbed = [
        u
        for u in units
        if u.ids <= recompute
        and not any(name in keep for s in u.statements for name, _ in s.write.parts)
    ]
    staying = [u for u in units if u not in absorbed]
    covered = frozenset(
        ("flow", d.source, d.sink)
        for d in scope.touching(recompute)
        if d.source in recompute and d.kind == "flow"
    )
    if len(staying) == 1:
        group = single_group(staying[0], scope)
        return Group(group.legality, group.dims, group.members, recompute, tuple(absorbed), scope)
    relaxed_only = [u for u in staying if not u.parallel]
    if not any(u.common for u in staying):
        bare = tuple(Placed(u, ()) for u in staying)  # lone statements: one thread, in order
        return Group(Legality.SERIAL, (), bare, recompute, tuple(absorbed), scope)
    if not all(u.common for u in staying):
        return _append_scalars(staying, scope, recompute, keep, tuple(absorbed))
    if relaxed_only:
        if any(not u.relaxed for u in staying):
            blocked = next(u for u in staying if not u.relaxed)
            dependence, moving = serial_because(blocked, scope)
            scattered = {s.target.array for s in blocked.statements if s.scatter}
            if dependence is not None and dependence.array in scattered:
                place = f"`{dependence.array}` at places that depend on data"
                return Refusal(f"{blocked.label} updates {place}, where any two of its iterations may meet")
            return Refusal(f"{blocked.label} has no parallel loop", dependence, moving)
        legality = Legality.REDUCED
    else:
        legality = Legality.INDEPENDENT
    for unit in staying if legality is Legality.REDUCED else ():
        if unit.parallel and set(unit.parallel) != set(unit.relaxed):
            return Refusal(f"{unit.label} keeps one result per iteration, the others one in all")
    placed = _place(staying, scope, covered, legality, strict)
    if isinstance(placed, Refusal):
        return placed
    dims = tuple(c.dim for c in placed[0].coordinates)
    near = scope.touching(id for unit in staying for id in unit.ids)
    violation = find_violation(placed, dims, near, scope, covered, relax=legality is Legality.REDUCED)
    while violation is not None and len(dims) > 1 and legality is Legality.INDEPENDENT and not strict:
        # Keep the dimensions along which nothing moves; the rest stays serial inside.
        dims = tuple(dim for dim in dims if dim != violation.dim)
        placed = tuple(with_dims(p, dims) for p in placed)
        violation = find_violation(placed, dims, near, scope, covered)
    if violation is not None:
        return Refusal("", violation.dependence, violation.offending)
    if legality is Legality.REDUCED and (bad := _early_use(placed, scope)):
        return bad
    return Group(legality, dims, placed, recompute, tuple(absorbed), scope)


def _append_scalars(
    staying: Sequence[Unit],
    scope: Scope,
    recompute: frozenset[str],
    keep: frozenset[str],
    absorbed: tuple[Unit, ...],
) -> Group | Refusal:
    """Lone statements run in the last step of a combining group, behind every loop: none of its
    loops may need one of them."""
    body = [u for u in staying if u.common]
    tail = [u for u in staying if not u.common]
    before = {id for u in tail for id in u.ids}
    for d in scope.touching(before):
        needy = next((u for u in body if d.sink in u.ids), None)
        if d.source in before and needy is not None:
            return Refusal(f"{needy.label} needs `{d.array}` first", d, d.relation)
    inner = _align_all(body, scope, recompute, keep) if len(body) > 1 else single_group(body[0], scope)
    if isinstance(inner, Refusal):
        return inner
    if inner.legality is not Legality.REDUCED:
        return Refusal(f"{tail[0].label} runs once, {body[-1].label} many times")
    members = (*inner.members, *(Placed(unit, ()) for unit in tail))
    return Group(inner.legality, inner.dims, members, recompute, absorbed, scope)


def _early_use(placed: Sequence[Placed], scope: Scope) -> Refusal | None:
    """In a combining group, a reduction's result is complete only after the last iteration: what reads it, or
    overwrites it, comes too early. (A dependence's source is the last update of the loop's own order alone.)"""
    where = {s.id: k for k, p in enumerate(placed) for s in p.unit.statements}
    carried = frozenset[str]().union(*(p.unit.carried for p in placed))
    for dependence in scope.touching(carried):
        if dependence.kind == "anti" or dependence.reduction:
            continue
        if dependence.source in where and dependence.sink in where:
            k, m = where[dependence.source], where[dependence.sink]
            if dependence.source in carried and k != m:
                label, array = placed[m].unit.label, dependence.array
                return Refusal(
                    f"{label} needs the whole `{array}` first"
                    if dependence.kind == "flow"
                    else f"{label} overwrites `{array}`, which must be whole by then",
                    dependence,
                    dependence.relation,
                )
    return None


def _place(
    units: Sequence[Unit],
    scope: Scope,
    covered: frozenset[tuple[str, str, str]],
    legality: Legality,
    strict: bool,
) -> tuple[Placed, ...] | Refusal:
    """Coordinates for every unit on common dimensions; dimensions not all share are dropped."""
    placed: list[Placed] = []
    names = units[0].relaxed if legality is Legality.REDUCED else units[0].parallel
    order = [loop.iterator for loop in units[0].common if loop.iterator in names]
    dims = tuple(f"g{k}" for k in range(len(order)))
    placed.append(Placed(units[0], tuple(Coordinate(d, i, 1) for d, i in zip(dims, order))))
    for unit in units[1:]:
        found = _find_coordinates(placed, unit, scope, covered, legality, strict)
        if isinstance(found, Refusal):
            return found
        kept = [dim for dim in dims if dim in found]
        if not kept:
            return Refusal(f"{unit.label} shares no parallel loop with the loops before it")
        dims = tuple(kept)
        placed = [with_dims(p, dims) for p in placed]
        placed.append(Placed(unit, tuple(found[dim] for dim in dims)))
    return tuple(placed)


def _find_coordinates(
    placed: Sequence[Placed],
    unit: Unit,
    scope: Scope,
    covered: frozenset[tuple[str, str, str]],
    legality: Legality,
    strict: bool,
) -> dict[str, Coordinate] | Refusal:
    allowed = set(unit.relaxed if legality is Legality.REDUCED else unit.parallel)
    statements = {s.id: s for s in unit.statements}
    found: dict[str, Coordinate] = {}
    related = False
    near = scope.touching(statements)
    for p in placed:
        others = {s.id: s for s in p.unit.statements}
        for d in near:
            if (d.kind, d.source, d.sink) in covered:
                continue
            if d.source in others and d.sink in statements:
                source, sink, forward = others[d.source], statements[d.sink], True
            elif d.source in statements and d.sink in others:
                source, sink, forward = statements[d.source], others[d.sink], False
            else:
                continue
            if legality is Legality.REDUCED and order_is_free(d, source, scope.reassociate):
                continue
            related = True
            offsets = find_offsets(p, source, sink, d.relation, forward)
            for dim, coordinate in offsets.items():
                if coordinate.iterator in allowed and dim not in found and coordinate.iterator not in {
                    c.iterator for c in found.values()
                }:
                    found[dim] = coordinate
            usable = [c for c in offsets.values() if c.iterator in allowed]
            wanted = min(len(p.coordinates), len(allowed)) if strict else 1
            if len(usable) < wanted:
                return Refusal("", d, moving_part(d.relation, source, sink, p, unit, forward))
    if related:
        return found
    by_operand = _match_operands(placed, unit, allowed)
    by_bounds = _match_bounds(placed, unit, allowed)
    return by_bounds if len(by_bounds) > len(by_operand) else by_operand


def moving_part(
    relation: Any, source: Statement, sink: Statement, placed: Placed, unit: Unit, forward: bool
) -> Any:
    """The instances of a dependence whose ends differ when parallel loops are paired in order."""
    theirs = [lp.iterator for lp in unit.common if lp.iterator in unit.parallel]
    mine = [c.iterator for c in placed.coordinates]
    pairs: list[tuple[int, int]] = []
    for a, b in zip(mine, theirs):
        first, second = (a, b) if forward else (b, a)
        if first in source.iterators and second in sink.iterators:
            pairs.append((source.iterators.index(first), sink.iterators.index(second)))
    moving = relation.subtract(equate(relation, pairs))
    return relation if moving.is_empty() else moving


def _match_operands(
    placed: Sequence[Placed], unit: Unit, allowed: set[str]
) -> dict[str, Coordinate]:
    """No dependence: align so that both read the same element of a shared array together."""
    best: dict[str, Coordinate] = {}
    for p in placed:
        for mine in p.unit.statements:
            for theirs in unit.statements:
                for a in (*mine.reads, mine.write):
                    for b in (*theirs.reads, theirs.write):
                        if a.array != b.array or not a.load.index or len(a.parts) != 1:
                            continue
                        if len(b.parts) != 1:
                            continue
                        relation = a.parts[0][1].apply_range(b.parts[0][1].reverse())
                        offsets = find_offsets(p, mine, theirs, relation, True)
                        good = {d: c for d, c in offsets.items() if c.iterator in allowed}
                        if _rank(good) > _rank(best):
                            best = good
    return best


def _rank(found: dict[str, Coordinate]) -> tuple[int, int]:
    """More dimensions first, then the smaller shift."""
    shift = sum(abs(c.constant) + len(c.parameters) + (c.sign < 0) for c in found.values())
    return len(found), -shift


def _match_bounds(
    placed: Sequence[Placed], unit: Unit, allowed: set[str]
) -> dict[str, Coordinate]:
    """No dependence and no shared operand: pair loops of equal bounds, in order."""
    found: dict[str, Coordinate] = {}
    first = placed[0]
    loops = {loop.iterator: loop for loop in first.unit.common}
    used: set[str] = set()
    for c in first.coordinates:
        loop = loops[c.iterator]
        for other in unit.common:
            if other.iterator in used or other.iterator not in allowed:
                continue
            same = (loop.lower, loop.upper, loop.step) == (other.lower, other.upper, other.step)
            if same and not isinstance(loop.lower, Iter) and c.sign == 1 and not c.parameters:
                found[c.dim] = Coordinate(c.dim, other.iterator, 1, (), c.constant)
                used.add(other.iterator)
                break
    return found


def groups_of(items: Sequence[PlanItem]) -> list[Group]:
    """All groups, in order, host loops entered."""
    out: list[Group] = []
    for item in items:
        out += groups_of(item.body) if isinstance(item, HostGroup) else [item]
    return out
