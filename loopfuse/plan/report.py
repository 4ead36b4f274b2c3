"""Everything `explain` shows, gathered from the records of a compile; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from loopfuse.base.dtypes import DType
from loopfuse.base.options import Options
from loopfuse.lang.index_text import to_python
from loopfuse.lang.nodes import Binary, Call, Const, Expr, Iter, integer
from loopfuse.lang.printer import print_expr
from loopfuse.lang.walk import children, iterators, loads, substitute, walk_expr, with_children
from loopfuse.plan.fusion.fuse import FusionPlan
from loopfuse.plan.schedule import Scheduled
from loopfuse.plan.units.groups import Group, HostGroup, PlanItem, groups_of, whole_name
from loopfuse.plan.units.records import Decision, Formula, KernelInfo, LoopInfo, Report
from loopfuse.plan.units.storage import Store, touches
from loopfuse.poly.model import Dependence, Dependences, Loop, PolyProgram, Statement
from loopfuse.poly.needs import summarise_needs
from loopfuse.poly.reuse import Moved, is_border, traffic
from loopfuse.tree.looptree import Launch, LineBuffer, LoopTree, Running
from loopfuse.tree.rewrite.running import algebra, rescale_of
from loopfuse.tree.walk import node_expressions, walk_nodes


@dataclass(frozen=True, slots=True)
class Unfused:
    """The plan with fusion off, of what, and where its arrays live."""

    program: PolyProgram
    dependences: Dependences
    items: tuple[PlanItem, ...]
    stores: dict[str, Store]


def build_report(
    program: PolyProgram,
    dependences: Dependences,
    plan: FusionPlan,
    scheduled: Scheduled,
    *,
    source_name: str,
    options: Options,
    unfused: Unfused,
    checked: str,
    ulp_bounds: Mapping[tuple[str, DType], float],
) -> Report:
    """The report of one planned kernel."""
    before = moved(unfused.program, unfused.dependences, unfused.items, unfused.stores)
    after = moved(program, dependences, scheduled.items, scheduled.stores)
    sizes = {n: v for n, v in options.sizes if n in program.symbols}
    blocked = any(group.time is not None for group in groups_of(plan.items))
    temporaries = [a for a in program.arrays.values() if a.kind == "temp"]
    return Report(
        kernel=program.kernel.name,
        target=options.target.name,
        machine=options.target.machine_name,
        fp=options.fp,
        source_name=source_name,
        line=program.kernel.span.line,
        sizes=options.sizes,
        loops=loop_infos(unfused.program, plan),
        launches_before=count_launches(unfused.items),
        launches_after=count_launches(scheduled.items),
        traffic_before=traffic(unfused.program, before, sizes),
        traffic_after=traffic(program, after, sizes),
        passes=(0, 0) if blocked else (passes(unfused.program, before), passes(program, after)),
        kernels=kernel_infos(program, scheduled),
        decisions=decisions_made(program, plan, scheduled),
        preconditions=summarise_needs(program),
        temporary_bytes=tuple(
            (a.name, array_bytes(a.extents, a.dtype, sizes)) for a in temporaries
        ),
        reassociated=tuple(dict.fromkeys(reassociated(program, scheduled))),
        algebra=one_pass_of_two(scheduled.tree),
        math_bounds=_math_bounds(program, ulp_bounds),
        copies=tuple(
            (a.name, tuple(name.split(".")[0] for name in store.leading))
            for a in temporaries
            if (store := scheduled.stores.get(a.name)) is not None and store.home == "global" and store.leading
        ),
        checked=checked,
    )


def decisions_made(program: PolyProgram, plan: FusionPlan, scheduled: Scheduled) -> tuple[Decision, ...]:
    """The plan's decisions, as the schedule has them: what it could not run in one pass is apart. Those about a loop and what was
    calculated ahead of it are none of the source's."""
    apart = {(one.between, one.reason) for one in scheduled.apart}
    ahead = {program.statement(id).loops[0].label for id in program.ahead}
    return tuple(
        Decision(one.between, False, None, "one pass over the rows does not suit the way in which each of them runs")
        if (one.between, one.reason) in apart
        else one
        for one in plan.decisions
        if not ({*one.between} <= ahead and len({*one.between}) == 1)
    )


# --------------------------------------------------------------------------------- traffic


def moved(
    program: PolyProgram,
    dependences: Dependences,
    items: Sequence[PlanItem],
    stores: Mapping[str, Store],
    times: tuple[Loop, ...] = (),
) -> list[Moved]:
    """What each launch moves: one entry per launch, array and direction. Values made inside a
    launch are not read from memory by it; a temporary that is not in memory moves nothing."""
    return _moved(_Users(program, dependences), items, stores, times)


class _Users:
    """Who touches what, found once for a whole program."""

    def __init__(self, program: PolyProgram, dependences: Dependences) -> None:
        self.program = program
        self.place = {s.id: k for k, s in enumerate(program.statements)}
        self.order = {name: k for k, name in enumerate(program.arrays)}
        self.reads = {
            s.id: dict.fromkeys(n for a in s.reads for n, _ in a.parts) for s in program.statements
        }
        self.writes = {s.id: dict.fromkeys(n for n, _ in s.write.parts) for s in program.statements}
        self.flows: dict[tuple[str, str], list[Dependence]] = {}
        for d in dependences.flow:
            self.flows.setdefault((d.sink, d.array), []).append(d)


def _moved(
    users: _Users,
    items: Sequence[PlanItem],
    stores: Mapping[str, Store],
    times: tuple[Loop, ...],
) -> list[Moved]:
    arrays = users.program.arrays
    out: list[Moved] = []
    for item in in_passes(items):
        if isinstance(item, HostGroup):
            out += _moved(users, item.body, stores, (*times, counted(item)))
            continue
        block = item.time
        running = {id for placed in item.members for id in placed.unit.ids}
        fed = item.fed
        ids = sorted(running | item.ids, key=users.place.__getitem__)
        names = {name for id in ids for name in (*users.reads[id], *users.writes[id])}
        for name in sorted(names, key=users.order.__getitem__):
            array = arrays[name]
            if array.kind == "scalar" or (not array.is_argument and stores[name].home != "global"):
                continue
            writes = [id for id in ids if id in running and name in users.writes[id]]
            writers = set(writes)
            reads = [
                id
                for id in ids
                if id in item.ids
                and name in users.reads[id]
                and (id, name) not in fed
                and not _made_inside(users.flows.get((id, name), ()), id, name, writers, item)
            ]
            loaded = stored = 0
            if block is not None:  # an array may be several, one a plane
                loaded = sum(whole_name(each) == name for each in item.loaded)
                stored = sum(whole_name(each) == name for each in block.stored)
            if reads and (loaded or block is None):
                out.append(Moved(name, "read", tuple(reads), times, loaded))
            if writes and (stored or block is None):
                whole = block is not None and block.whole
                out.append(Moved(name, "write", tuple(writes), times, stored, whole))
    return out


def in_passes(items: Sequence[PlanItem]) -> Iterator[PlanItem]:
    """The items, with two groups that are one pass as one."""
    for number, item in enumerate(items):
        behind = items[number + 1] if number + 1 < len(items) else None
        if isinstance(item, HostGroup) or item.crossing is None:
            yield item.beside(behind) if isinstance(item, Group) and isinstance(behind, Group) and behind.crossing else item


def _made_inside(
    mine: Sequence[Dependence], reader: str, name: str, writers: set[str], item: Group
) -> bool:
    """Every value of the array that `reader` sees was made by the same launch. `mine`: the flow
    that gives it these values."""
    if not mine or not all(d.source in writers for d in mine):
        return False
    return bool(item.scope) and any(
        d.kind == "flow" and d.sink == reader for d in item.scope.flows.get(name, ())
    )


def counted(item: HostGroup) -> Loop:
    """The host's loop, for counting: blocks of time steps are numbered from 0. `max(n, 0)` is
    dropped: sizes are taken as large."""
    loop = item.loop
    if item.blocks is not None:
        return replace(loop, lower=integer(0), upper=without_corners(item.blocks), step=1)
    if loop.step == 1 and any(
        isinstance(n, Binary) and n.op == "floordiv" for n in walk_expr(loop.lower)
    ):
        rest = without_corners(loop.upper - loop.lower)  # what blocks leave over
        return replace(loop, lower=integer(0), upper=rest)
    return loop


def without_corners(expr: Expr) -> Expr:
    """`max(x, 0)` as `x`; `x - 4*(x//4)` as `x % 4`."""
    below = children(expr)
    if below:
        expr = with_children(expr, tuple(without_corners(child) for child in below))
    match expr:
        case Binary(op="max", left=x, right=Const(value=0)):
            return x
        case Binary(op="sub", left=x, right=Binary(op="add", left=a, right=b)):
            for one, other in ((a, b), (b, a)):
                if (rest := _remainder(x, one)) is not None:
                    return without_corners(rest - other)
            return expr
        case Binary(op="sub", left=x, right=y):
            rest = _remainder(x, y)
            return expr if rest is None else rest
        case _:
            return expr


def _remainder(x: Expr, blocks: Expr) -> Expr | None:
    """`x % k` where `blocks` is `(x//k)*k`."""
    match blocks:
        case (
            Binary(op="mul", left=Binary(op="floordiv", left=y, right=Const(value=j)), right=Const(value=k))
            | Binary(op="mul", left=Const(value=k), right=Binary(op="floordiv", left=y, right=Const(value=j)))
        ) if j == k and x == y:  # fmt: skip
            match x:
                case Binary(op="mod", left=z, right=Const(value=m)) if int(m) % int(k) == 0:
                    return z % int(k)
                case _:
                    return x % int(k)
        case _:
            return None


def passes(program: PolyProgram, entries: Sequence[Moved]) -> int:
    """Traversals of whole arrays: launch, array and direction each count one; arrays of the
    highest rank only (a bias vector is no pass over memory, nor is a border)."""
    ranks = {name: len(array.extents) for name, array in program.arrays.items()}
    top = max((ranks[e.array] for e in entries), default=0)
    wide = [entry for entry in entries if ranks[entry.array] == top]
    return sum(1 for entry in wide if top == 0 or not is_border(program, entry))


def array_bytes(extents: Sequence[Expr], dtype: DType, sizes: Mapping[str, int]) -> Formula:
    """The bytes of a whole array."""
    total: Expr = integer(dtype.bytes)
    for extent in extents:
        total = total * extent
    text = to_python(total)
    try:
        return Formula(
            text, int(eval(text, {"__builtins__": {}, "min": min, "max": max}, dict(sizes)))
        )
    except NameError:
        return Formula(text)


# -------------------------------------------------------------------------------- launches


def count_launches(items: Sequence[PlanItem]) -> int | str:
    """How many kernels run: a number, or a formula where the host loops."""
    text = to_python(_launches(items))
    return int(text) if text.lstrip("-").isdecimal() else text


def _launches(items: Sequence[PlanItem]) -> Expr:
    total: Expr = integer(0)
    for item in items:
        if isinstance(item, HostGroup):
            loop = counted(item)
            low, high = (loop.lower, loop.upper) if loop.step > 0 else (loop.upper, loop.lower)
            trips = high - low
            step = abs(loop.step)
            if step != 1:
                trips = (trips + (step - 1)) // step
            each = over_turns(loop, trips, _launches(item.body))
        else:
            each = integer(1) if item.fit is None else item.fit.runs
        total = total + each
    return total


def over_turns(loop: Loop, trips: Expr, each: Expr) -> Expr:
    """`each`, summed over the turns of `loop`.

    before: each = 3*i + 2, i in 0..N
    after:  2*N + 3*(N*(N - 1)//2)

    By Newton's differences of the first turns, of which those of a polynomial in the iterator end; where they do not
    within the fourth, as if every turn were the first.
    """
    if loop.iterator not in iterators(each):
        return each * trips
    row = [substitute(each, {loop.iterator: loop.lower + turn * loop.step}) for turn in range(5)]
    total, places = integer(0), trips
    for degree in range(4):
        total = total + row[0] * places
        row = [after - before for before, after in pairwise(row)]
        if all(to_python(one) == "0" for one in row):
            return total
        places = places * (trips - (degree + 1)) // (degree + 2)
    return substitute(each, {loop.iterator: loop.lower}) * trips


# ----------------------------------------------------------------------------- loops, kernels


def loop_infos(program: PolyProgram, plan: FusionPlan) -> tuple[LoopInfo, ...]:
    """The outermost loops of the source in text order, with the parts that were planned on their own."""
    order: dict[str, list[Statement]] = {}
    for s in program.statements:
        if s.loops:
            order.setdefault(s.loops[0].label, []).append(s)
    units = {
        u.label: [program.by_id[s.id] for s in u.statements if s.id in program.by_id]
        for group in groups_of(plan.items)
        for u in group.units
    }
    out: list[LoopInfo] = []
    for label, statements in order.items():
        parts = tuple(
            _loop_info(name, members, program)
            for name, members in units.items()
            if name.startswith(f"{label}.")
        )
        out.append(_loop_info(label, statements, program, parts))
    return tuple(out)


def _loop_info(
    label: str,
    statements: Sequence[Statement],
    program: PolyProgram,
    parts: tuple[LoopInfo, ...] = (),
) -> LoopInfo:
    lines = [loop.line for s in statements for loop in s.loops if loop.label == label]
    written = list(dict.fromkeys(s.write.array for s in statements))
    shown = [n for n in written if program.arrays[n].kind != "scalar"] or written
    read = [
        n
        for s in statements
        for access in s.reads
        for n, _ in access.parts
        if program.arrays[n].kind != "scalar"
    ]
    writes = tuple(dict.fromkeys(map(base_name, shown)))
    return LoopInfo(
        label,
        min(lines, default=statements[0].line),
        writes,
        tuple(dict.fromkeys(map(base_name, read))),
        tuple(dict.fromkeys(label for s in statements for label in _labels(s, program))),
        parts,
    )


def _labels(statement: Statement, program: PolyProgram) -> tuple[str, ...]:
    """What the source calls the statement, after those that became part of it."""
    return (*program.absorbed.get(statement.label, ()), statement.label)


def base_name(name: str) -> str:
    """A name without the numbers that renaming gave it."""
    head, _, tail = name.rpartition(".")
    return base_name(head) if head and tail.rstrip("x").isdecimal() else name


def kernel_infos(program: PolyProgram, scheduled: Scheduled) -> tuple[KernelInfo, ...]:
    """One entry per launched kernel."""
    return tuple(
        _kernel_info(launch, scheduled.groups[launch.name], program, scheduled)
        for launch in scheduled.tree.launches
    )


def _kernel_info(
    launch: Launch, group: Group, program: PolyProgram, scheduled: Scheduled
) -> KernelInfo:
    stores, fit = scheduled.stores, scheduled.fits[launch.name]
    homes: dict[str, str] = {}
    used = {load.array for node in walk_nodes(launch.body) for e in node_expressions(node) for load in loads(e)}
    lines = {b.array for b in scheduled.tree.buffers if isinstance(b.home, LineBuffer) and b.name in used}
    for name, array in program.arrays.items():
        if array.kind != "temp":
            continue
        if not any(touches(s, name) for u in group.units for s in u.statements):
            continue
        home = "global" if stores[name].home == "global" else "register"
        if home == "register" and name in lines:
            home = "line(1)"
        if elements := stores[name].elements:
            home = f"register({elements})"
        home = fit.home(name, stores) or home
        shown = base_name(name)
        homes[shown] = max(home, homes.get(shown, home), key=_room)
    return KernelInfo(
        launch.name,
        launch.strategy,
        launch.loops,
        tuple(homes.items()),
        specialised=launch.specialised,
        detail="; ".join((fit.detail(launch, scheduled.tree), *_calculated_once(group, program))),
    )


def _calculated_once(group: Group, program: PolyProgram) -> Iterator[str]:
    """The values that statements of the source shared out to one of their own."""
    for statement in program.statements:
        if statement.id in program.ahead & group.running:
            names: dict[str, Expr] = {name: Iter(base_name(name)) for name in statement.iterators}
            yield f"{print_expr(substitute(statement.value, names))} once, in {base_name(statement.target.array)}"


def _room(home: str) -> tuple[int, int]:
    """Homes by what they take, of the parts that renaming made of one temporary."""
    kind, _, rows = home.removesuffix(")").partition("(")
    return ("register", "window", "line", "global").index(kind), int(rows or 0)


def reassociated(program: PolyProgram, scheduled: Scheduled) -> list[str]:
    """The sums, products and linear recurrences of floats that some launch makes in another order."""
    changed = frozenset[str]().union(*(fit.reordered() for fit in scheduled.fits.values()))
    return [
        s.target.array.split(".")[0]
        for s in program.statements
        if s.id in changed and s.target.dtype.is_float and s.operation in ("sum", "prod", "")
    ]


def one_pass_of_two(tree: LoopTree) -> tuple[str, ...]:
    """What a tree reduces in one pass though the program has two, and by which algebra."""
    found = (rescale_of(node) for launch in tree.launches for node in walk_nodes(launch.body) if isinstance(node, Running))
    return tuple(dict.fromkeys(algebra(one, base_name(tree.buffer(one.result.array).array)) for one in found))


def _math_bounds(
    program: PolyProgram, ulp_bounds: Mapping[tuple[str, DType], float]
) -> tuple[str, ...]:
    used = {
        (node.function, node.dtype)
        for s in program.statements
        for node in walk_expr(s.value)
        if isinstance(node, Call)
    }
    return tuple(
        f"{name} ({dtype.value}): within {ulp_bounds[(name, dtype)]:g} ulp"
        for name, dtype in sorted(used, key=lambda pair: (pair[0], pair[1].value))
        if (name, dtype) in ulp_bounds
    )
