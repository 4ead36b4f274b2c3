"""Windows in words: how a launch streams, where its temporaries live, how far loops run behind each
other, and why a chain of stencils got no windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.nodes import Expr
from loopfuse.plan.fusion.explanations import find_witness, is_read_again, writing_elsewhere
from loopfuse.plan.strategies.sliding.time_blocks import fit_pair, most_resident, why_no_blocks
from loopfuse.plan.strategies.sliding.windows.align import moves
from loopfuse.plan.strategies.sliding.windows.edges import inner_of
from loopfuse.plan.strategies.sliding.windows.passes import find_passes, lines_of
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, Step
from loopfuse.plan.strategies.sliding.windows.shape import Windowed, fit_windows
from loopfuse.plan.strategies.sliding.windows.tile import stored_stages
from loopfuse.plan.units.forest import Scope, Unit, make_unit
from loopfuse.plan.units.groups import Group, Refusal, TimeBlock, whole_name
from loopfuse.plan.units.records import Decision
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.storage import Store
from loopfuse.poly.model import Loop, PolyProgram

OBVIOUS = ("not all loops are parallel", "it has no stencil")
"""Reasons that go without saying: others have said it, or no windows were to be expected."""


def window_detail(windowed: Windowed) -> str:
    """`sliding, streams down y, strips of 120 columns, chunks of 64 rows`; along a line `sliding,
    strips of 496 points of i`; in three dimensions `sliding, streams down z, tiles of 26 rows and 120
    columns, chunks of 64 planes, 8 warps of 4 rows, 2 planes ahead by way of shared memory`."""
    shape, group = windowed.shape, windowed.group
    pipeline, stored = windowed.pipeline, shape.strip.stored
    noun = "plane" if pipeline.between else "row"
    if not pipeline.stream:
        across = _iterator(pipeline, pipeline.across)
        text = f"sliding, strips of {stored} points of {across}"
    else:
        text = f"sliding, streams down {_iterator(pipeline, pipeline.stream)}, "
        if pipeline.between:
            text += f"tiles of {shape.cuts[1].stored} rows and {stored} columns"
        else:
            text += f"strips of {stored} columns"
        text += f", chunks of {shape.chunk.stored} {noun}s"
        if pipeline.between:
            text += f", {shape.warps} warps of {_count(shape.rows, 'row')}"
    return text + _early(windowed, noun) + _blocked(group)


def _early(windowed: Windowed, unit: str) -> str:
    """How many rows, or planes, memory is asked for before they are loaded, or come by themselves."""
    shape, late = windowed.shape, windowed.pipeline.late
    if late:
        return f", {_count(late, unit)} ahead by way of shared memory"
    if shape.asked:
        return f", memory asked {_count(shape.asked, unit)} early"
    return ""


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def _blocked(group: Group) -> str:
    """How many time steps a launch makes; nothing without a time loop."""
    time = group.time
    return f", {_iterations(time.steps, time.iterator)} a launch" if time is not None else ""


def window_home(windowed: Windowed, array: str, stores: Mapping[str, Store]) -> str:
    """Where the launch keeps an array: `window(5)`, as many rows as must be there at once (its
    buffer may have more, so that all windows come round together); `register` where each value is
    used at the point that makes it; `global` where it is loaded or stored."""
    pipeline = windowed.pipeline
    stages = [stage for stage in pipeline.stages if whole_name(stage.array) == array]
    stored = stored_stages(pipeline, stores)
    if stages and pipeline.lines and not any(stage in stored for stage in stages):
        return _line_home(pipeline, stages)
    if not stages or any(stage.step is None or stage in stored for stage in stages):
        return "global" if stages or stores[array].home == "global" else "register"
    rows = max(stage.slices for stage in stages)
    if rows == 1 and not any(stage.is_stencil for stage in stages):
        return "register"
    return f"window({rows})"


def _line_home(pipeline: Pipeline, stages: Sequence[Stage]) -> str:
    """`line(5)`, or `register` where one pass over a row makes and uses each value."""
    kept = lines_of(pipeline, find_passes(pipeline))
    rows = max((stage.slices for stage in stages if stage in kept), default=0)
    return f"line({rows})" if rows else "register"


def describe_windows(pipeline: Pipeline, first: Unit, second: Unit) -> Decision:
    """The decision of a fusion into windows: `L2 runs 2 rows behind L1: blur[y] needs
    rows[y-2..y+2]; rows keeps 5 rows in registers`."""
    one, other = _step_of(pipeline, first), _step_of(pipeline, second)
    shift: list[int] = []
    for dim in pipeline.group.dims:
        a, b = one.placed.coordinate(dim), other.placed.coordinate(dim)
        behind = a.constant - b.constant
        if dim == pipeline.stream:
            behind += _lag(pipeline, other) - _lag(pipeline, one)
        shift.append(behind)
    dims = pipeline.group.dims
    rows = shift[dims.index(pipeline.stream)] if pipeline.stream else 0
    needs = _needs(pipeline, one, other)
    if rows:
        noun = "row" if abs(rows) == 1 else "rows"
        text = f"{second.label} runs {abs(rows)} {noun} {'behind' if rows > 0 else 'ahead of'} {first.label}"
    else:
        text = "no shift" if needs else "independent, in one pass over the same rows"
    parts = [f"{text}: {needs}" if needs else text, *_kept(pipeline, one)]
    return Decision((first.label, second.label), True, tuple(shift), "; ".join(parts))


def describe_time(
    made: Sequence[Windowed],
    groups: Sequence[Group],
    units: Sequence[Unit],
    loop: Loop,
    scope: Scope,
    program: PolyProgram,
    rules: Rules,
    live: frozenset[str],
    resident: Expr | None,
) -> list[Decision]:
    """The decision about the iterations of a time loop around `groups`: the blocks of them that were
    `made`, longest first, except where sizes are such that `resident`; or why there are none; nothing where no
    loop is a stencil."""
    first, last = units[0], units[-1]
    if made:
        blocks = [one.group.time.steps for one in made if one.group.time is not None]
        text = f"{_iterations(blocks[0], loop.iterator)} run in one pass over the arrays"
        if len(blocks) > 1:
            text += f", then {' and '.join(map(str, blocks[1:]))} of what is left"
        if resident is not None:
            most = most_resident(units, loop, rules) >> 20
            text += f" (one by one where the arrays take {most} MiB or less, which caches keep)"
        pipeline = made[0].pipeline
        if first is last:
            kept = _kept(pipeline, None)
            return [Decision((loop.label, loop.label), True, None, "; ".join([text, *kept]))]
        inside = describe_windows(pipeline, first, last)
        return [replace(inside, reason=f"{text}; {inside.reason}")]
    if reads_neighbours(units, program) and (why := why_no_blocks(groups, loop)):
        reason = f"the iterations of `{_plain(loop.iterator)}` run one by one: {why}"
        return [Decision((loop.label, loop.label), False, None, reason)]
    block = TimeBlock.of(loop, rules.tuning.steps or 2)
    why, remedy = describe_apart(units, scope, program, rules, block)
    if not why and reads_neighbours(units, program):
        pair = fit_pair(tuple(units), scope, program, rules, block, live)
        why = pair if isinstance(pair, str) else ""
    if not why:
        return []
    if rules.tuning.steps:
        why = f"blocks of {_iterations(block.steps, loop.iterator)} do not fit: {why}"
    reason = f"the iterations of `{_plain(loop.iterator)}` run one by one: {why}"
    return [Decision((loop.label, loop.label), False, None, reason, None, remedy)]


def unproved_time(loop: Loop) -> list[Decision]:
    """The decision where blocks of time steps were planned, and not proved."""
    reason = f"the iterations of `{_plain(loop.iterator)}` run one by one: blocks of them were not proved"
    return [Decision((loop.label, loop.label), False, None, reason)]


def describe_serial(program: PolyProgram, unit: Unit, scope: Scope) -> list[Decision]:
    """The decision about a nest of stencils that runs in one thread, as in-place sweeps do: the
    iterations that need each other."""
    if not reads_neighbours((unit,), program) or max(len(s.loops) for s in unit.statements) < 1:
        return []
    for d in scope.touching(unit.ids):
        if (
            d.kind != "flow"
            or not {d.source, d.sink} <= unit.ids
            or not program.arrays[d.array].extents
        ):
            continue
        witness = find_witness(program, d, Refusal("", d))
        text = "its iterations run one by one, in one thread: each needs what others before it make"
        remedy = None
        sweeps = any(a.kind == "anti" and a.array == d.array and {a.source, a.sink} <= unit.ids for a in scope.touching(unit.ids))
        # (A recurrence, which reads only what it has made, means those values.)
        free = _parallel_without(unit, scope, d.array) if sweeps else 0
        if free:
            depth = max(len(s.loops) for s in unit.statements) - len(scope.host)
            name = _name(d.array)
            # The next sweep reads what this one made.
            again = scope.host or free < depth
            what = f"a new array instead of `{name}`"
            if again:
                what = f"a new array `{name}_new` instead of `{name}`, and `swap {name}, {name}_new` after each sweep"
            remedy = f"let it write {what} (Jacobi's form): then all elements of a sweep are independent"
        return [Decision((unit.label, unit.label), False, None, text, witness, remedy)]
    return []


def _parallel_without(unit: Unit, scope: Scope, array: str) -> int:
    """How many loops of a sweep would be parallel, if it did not read what it writes to the array: all of
    the nest's, or all but the first (which then is time). 0: fewer."""
    kept = tuple(d for d in scope.dependences if d.array != array or d.kind == "output")
    depth = max(len(s.loops) for s in unit.statements) - len(scope.host)
    other = make_unit(unit.label, unit.items, replace(scope, dependences=kept))
    return len(other.parallel) if len(other.parallel) >= depth - 1 else 0


def describe_apart(
    units: Sequence[Unit],
    scope: Scope,
    program: PolyProgram,
    rules: Rules,
    time: TimeBlock | None = None,
) -> tuple[str, str | None]:
    """(why a chain of stencils got no windows, the change that would allow them); nothing where
    the units are no such chain, or fit. The change is tried before it is named."""
    if not reads_neighbours(units, program):
        return "", None
    units = tuple(units)
    found = fit_windows(units, scope, program, rules, time)
    if isinstance(found, Windowed) or found in OBVIOUS:
        return "", None
    if time is None:
        for unit in units:
            for array in dict.fromkeys(s.write.array for s in unit.statements):
                if not program.arrays[array].extents or is_read_again(array, scope, program):
                    continue
                changed = tuple(writing_elsewhere(u, array) if u is unit else u for u in units)
                wider = _with_array(program, array)
                if isinstance(fit_windows(changed, scope, wider, rules), Windowed):
                    return found, f"let {unit.label} write a new array instead of `{_name(array)}`"
    return found, None


def _with_array(program: PolyProgram, array: str) -> PolyProgram:
    """The program with the array that `writing_elsewhere` invents."""
    new = replace(program.arrays[array], name=f"{array}'")
    return replace(program, arrays={**program.arrays, new.name: new})


def reads_neighbours(units: Sequence[Unit], program: PolyProgram) -> bool:
    """Does some loop read, beside the element it stands at, what these loops write?"""
    written: dict[str, list[tuple[Expr, ...]]] = {}
    for unit in units:
        for s in unit.statements:
            for name, _ in s.write.parts:
                written.setdefault(name, []).append(s.target.index)
    for unit in units:
        for s in unit.statements:
            for access in s.reads:
                if access.array not in written or not access.load.index:
                    continue
                for target in written[access.array]:
                    for here, there in zip(access.load.index, target):
                        a, b = moves(inner_of(here)), moves(inner_of(there))
                        if a is not None and b is not None and a[1] != b[1]:
                            return True
    return False


# ------------------------------------------------------------------------------------- pieces


def _step_of(pipeline: Pipeline, unit: Unit) -> Step:
    """The unit's first step."""
    return next(step for step in pipeline.steps if step.placed.unit.ids <= unit.ids)


def _lag(pipeline: Pipeline, step: Step) -> int:
    """Rows that the step stays behind the loads."""
    return max(stage.lag for stage in pipeline.stages if stage.name in step.writes.values())


def _iterator(pipeline: Pipeline, dim: str) -> str:
    """What the source calls the dimension."""
    return _plain(pipeline.steps[0].placed.coordinate(dim).iterator)


def _plain(iterator: str) -> str:
    return iterator.split(".")[0]


def _iterations(count: int, iterator: str) -> str:
    return f"{count} {'iteration' if count == 1 else 'iterations'} of `{_plain(iterator)}`"


def _kept(pipeline: Pipeline, maker: Step | None) -> list[str]:
    """`rows keeps 5 rows in registers`, for the stencils that `maker` (or anyone) makes."""
    rows: dict[str, int] = {}
    for stage in pipeline.stages:
        made = stage.name in maker.writes.values() if maker else stage.step is not None
        if made and stage.is_stencil:
            name = _name(stage.array)
            rows[name] = max(stage.slices, rows.get(name, 0))
    where = "in a line buffer" if pipeline.lines else "in registers"
    if not pipeline.stream:
        return [f"{array} stays {where}" for array in rows]
    return [
        f"{array} keeps {count} {'row' if count == 1 else 'rows'} {where}"
        for array, count in rows.items()
    ]


def _needs(pipeline: Pipeline, one: Step, other: Step) -> str:
    """`blur[y] needs rows[y-2..y+2]`: the subscripts that differ; all where none does."""
    texts: list[str] = []
    for name in one.writes.values():
        stage = pipeline.stage(name)
        if stage is None or name not in other.reads.values():
            continue
        stores = [s for s in other.placed.unit.statements if s.target.index]
        direct = [s for s in stores if any(a.array == stage.array for a in s.reads)]
        reader = (direct or stores)[0]
        spans = _spans(stage, other)
        wide = [position for position, (_, low, high) in enumerate(spans) if low or high]
        shown = [spans[position] for position in wide] or spans
        names = ", ".join(iterator for iterator, _, _ in shown)
        reads = ", ".join(_span(*span) for span in shown)
        only = "" if wide else "only "
        texts.append(
            f"{_name(reader.target.array)}[{names}] needs {only}{_name(stage.array)}[{reads}]"
        )
    return ", ".join(texts)


def _spans(stage: Stage, reader: Step) -> list[tuple[str, int, int]]:
    """(iterator, least offset, greatest offset) of each subscript the step reads the stage at."""
    found: list[tuple[str, int, int]] = []
    loads = [
        access.load
        for s in reader.placed.unit.statements
        for access in s.reads
        if access.load.index and reader.reads.get(reader.array_of(access.load)) == stage.name
    ]
    for position in range(len(stage.frame.dims)):
        met = [move for load in loads if (move := moves(inner_of(load.index[position])))]
        offsets = [constant for _, constant in met]
        found.append((_plain(met[0][0]), min(offsets), max(offsets)))
    return found


def _span(iterator: str, low: int, high: int) -> str:
    def at(offset: int) -> str:
        return f"{iterator}{offset:+d}" if offset else iterator

    return at(low) if low == high else f"{at(low)}..{at(high)}"


def _name(array: str) -> str:
    """The array's name without its plane, and without the number that renaming gave it."""
    array = whole_name(array)
    head, _, tail = array.rpartition(".")
    return head if head and tail.rstrip("x").isdecimal() else array
