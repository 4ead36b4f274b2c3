"""Why two loops run together or apart, in words, with the instance that forbids and the remedy.

A remedy is tried before it is named: the dependences it would remove are removed, and legality
is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loopfuse.lang.index import evaluate_index
from loopfuse.plan.units.forest import Scope, Unit
from loopfuse.plan.units.groups import Group, Refusal, form_group
from loopfuse.plan.units.records import Decision, Place, Witness
from loopfuse.poly.isl_relations import sample_pair
from loopfuse.poly.model import Dependence, PolyProgram, Statement


def describe_fusion(program: PolyProgram, first: Unit, second: Unit, group: Group) -> Decision:
    """The decision of a fusion that was made."""
    placed = {id(p.unit): p for p in group.members}
    mine, theirs = placed.get(id(first)), placed.get(id(second))
    between = (first.label, second.label)
    absorbed = first in group.absorbed or first.ids & group.recomputed
    wrote = "`, `".join(_written(first, program))
    if absorbed:
        return Decision(between, True, None, f"`{wrote}` is computed again where {second.label} needs it")
    if mine is None or theirs is None or not (mine.coordinates and theirs.coordinates):
        once = mine is None or theirs is None or mine.coordinates or not theirs.coordinates
        text = f"{second.label} runs once, after the last of {first.label}"
        return Decision(between, True, (), text if once else "independent, in one pass")
    shift: list[int] = []
    how: list[str] = []
    for dim in group.dims:
        a, b = mine.coordinate(dim), theirs.coordinate(dim)
        if a.sign == b.sign and a.parameters == b.parameters:
            step = a.constant - b.constant
            shift.append(step)
            if step:
                side = "behind" if step > 0 else "ahead of"
                how.append(f"{second.label} runs {abs(step)} {side} {first.label} along `{_plain(b.iterator)}`")
        else:
            shift.append(0)
            word = "reversed" if a.sign != b.sign else "shifted by a size"
            how.append(f"`{_plain(b.iterator)}` of {second.label} is {word}")
    order = [c.iterator for c in theirs.coordinates]
    if order != sorted(order, key=[lp.iterator for lp in second.common].index):
        how.append(f"the loops of {second.label} are interchanged")
    if not how:
        how.append("no shift: each iteration needs only its own values" if _related(first, second, group) else "independent, over the same iterations")
    if again := _computed_again(first, second, group):
        how.append(f"`{'`, `'.join(again)}` is computed again where {second.label} needs it")
    return Decision(between, True, tuple(shift), "; ".join(how))


def _computed_again(first: Unit, second: Unit, group: Group) -> list[str]:
    """Arrays of loops before `first` that the group computes anew for `second`."""
    dependences = group.scope.dependences if group.scope else ()
    return sorted({
        d.array for d in dependences
        if d.kind == "flow" and d.source in group.recomputed - first.ids and d.sink in second.ids
    })  # fmt: skip


def _related(first: Unit, second: Unit, group: Group) -> bool:
    dependences = group.scope.dependences if group.scope else ()
    return any(d.source in first.ids and d.sink in second.ids for d in dependences)


def _written(unit: Unit, program: PolyProgram) -> list[str]:
    names = [s.write.array for s in unit.statements]
    shown = [n for n in names if program.arrays[n].kind != "scalar"] or names
    return list(dict.fromkeys(shown))


def _plain(iterator: str) -> str:
    return iterator.split(".")[0]


def describe_refusal(
    program: PolyProgram,
    first: Unit,
    second: Unit,
    refusal: Refusal,
    units: Sequence[Unit],
    scope: Scope,
    keep: frozenset[str],
) -> Decision:
    """The decision of a fusion that is not legal."""
    dependence = refusal.dependence
    between = (first.label, second.label)
    if dependence is None:
        return Decision(between, False, None, refusal.reason)
    owner = next((u for u in units if dependence.source in u.ids), first)
    user = next((u for u in units if dependence.sink in u.ids), second)
    witness = find_witness(program, dependence, refusal)
    if owner is user:  # one of the two runs in order by itself
        how = f": {witness_in_words(witness, dependence.kind)}" if witness else ""
        return Decision(between, False, None, refusal.reason + how, witness)
    between = (owner.label, user.label)
    reason = refusal.reason or _reason(dependence, owner, user, witness, refusal)
    return Decision(
        between, False, None, reason, witness, find_remedy(program, dependence, user, units, scope, keep)
    )


def _reason(
    dependence: Dependence, owner: Unit, user: Unit, witness: Witness | None, refusal: Refusal
) -> str:
    element = dependence.array
    if witness is not None and witness.element:
        element = f"{dependence.array}[{', '.join(map(str, witness.element))}]"
    if witness is not None and _is_in_step(witness):
        verbs = {"flow": ("writes", "reads"), "anti": ("reads", "overwrites")}
        first, second = verbs.get(dependence.kind, ("writes", "overwrites"))
        return (
            f"{user.label} {second} `{element}` in the iteration in which {owner.label} {first} it, but no "
            "one way to pair their iterations suits all that passes between them"
        )
    match dependence.kind:
        case "flow":
            text = f"{user.label} reads `{element}` at another iteration than {owner.label} writes it"
            if refusal.why_not_recompute:
                text += f", and `{dependence.array}` cannot be recomputed there: {refusal.why_not_recompute}"
        case "anti":
            text = f"{user.label} overwrites `{element}`, which another iteration of {owner.label} reads"
        case _:
            text = f"{user.label} overwrites `{element}`, which another iteration of {owner.label} writes"
    return text


def _is_in_step(witness: Witness) -> bool:
    """Do both ends have the same iterators' values, loop by loop?"""
    source, sink = witness.source.iteration, witness.sink.iteration
    return [value for _, value in source] == [value for _, value in sink]


def find_witness(
    program: PolyProgram, dependence: Dependence, refusal: Refusal
) -> Witness | None:
    """A smallest instance of the dependence that the fusion would break."""
    offending = refusal.offending if refusal.offending is not None else dependence.relation
    found = sample_pair(offending.intersect_params(program.context))
    if found is None:
        return None
    sizes, source_point, sink_point = found
    source, sink = program.statement(dependence.source), program.statement(dependence.sink)
    ends = (source, source_point) if dependence.kind != "anti" else (sink, sink_point)
    element = _element(ends[0], ends[1], sizes)
    return Witness(
        dependence.array,
        element,
        _place(source, source_point),
        _place(sink, sink_point),
        tuple(sorted((n, v) for n, v in sizes.items() if n not in program.unknown)),
    )


def _element(statement: Statement, point: Sequence[int], sizes: dict[str, int]) -> tuple[int, ...]:
    values = dict(sizes) | dict(zip(statement.iterators, point))
    try:
        return tuple(evaluate_index(each, values) for each in statement.target.index)
    except (KeyError, ValueError):
        return ()


def _place(statement: Statement, point: Sequence[int]) -> Place:
    label = statement.loops[0].label if statement.loops else statement.label
    pairs = tuple((_plain(i), v) for i, v in zip(statement.iterators, point))
    return Place(label, statement.line, pairs)


def find_remedy(
    program: PolyProgram,
    dependence: Dependence,
    user: Unit,
    units: Sequence[Unit],
    scope: Scope,
    keep: frozenset[str],
) -> str | None:
    """The smallest change that makes the group legal, or None if none of ours does."""
    overwritten = [
        d
        for d in scope.touching(user.ids)
        if d.kind != "flow" and d.sink in user.ids and d.source not in user.ids
    ]
    arrays = list(dict.fromkeys([dependence.array, *sorted(d.array for d in overwritten)]))
    owner = next((u for u in units if dependence.source in u.ids), user)
    half = dependence.array
    for array, covered in [(a, c) for c in (frozenset[str](), frozenset({half})) for a in arrays]:
        if not any(d.array == array for d in overwritten) or is_read_again(array, scope, program):
            continue
        changed = writing_elsewhere(user, array)
        kept = tuple(
            d
            for d in scope.dependences
            if not (d.array == array and (d in overwritten or d.source in user.ids))
        )
        trial = form_group(
            [changed if u is user else u for u in units],
            replace(scope, dependences=kept),
            program,
            keep | {f"{array}'"},
            covered=covered,
        )
        if isinstance(trial, Group):
            if covered:
                return (
                    f"let {owner.label} write every element of `{half}` that {user.label} reads, and "
                    f"{user.label} a new array instead of `{array}`"
                )
            return f"let {user.label} write a new array instead of `{array}`"
    return None


def is_read_again(array: str, scope: Scope, program: PolyProgram) -> bool:
    """Does a loop that the host runs around the units read the array? Its next iteration would not
    find there what went elsewhere."""
    host = {loop.iterator for loop in scope.host}
    return any(
        name == array
        for s in program.statements
        if not host.isdisjoint(s.iterators)
        for access in s.reads
        for name, _ in access.parts
    )


def writing_elsewhere(unit: Unit, array: str) -> Unit:
    """The unit, storing into a new array where it stores into `array`."""
    new = f"{array}'"

    def moved(statement: Statement) -> Statement:
        if statement.write.array != array:
            return statement
        load = replace(statement.write.load, array=new)
        parts = tuple((new, relation) for _, relation in statement.write.parts)
        write = replace(statement.write, load=load, parts=parts)
        return replace(statement, target=load, write=write)

    return replace(unit, statements=tuple(moved(s) for s in unit.statements))


def witness_in_words(witness: Witness, kind: str) -> str:
    """`iteration i=1 writes a[1], which iteration i=2 reads`."""

    def at(place: Place) -> str:
        return "iteration " + " ".join(f"{n}={v}" for n, v in place.iteration)

    element = witness.array
    if witness.element:
        element += f"[{', '.join(map(str, witness.element))}]"
    first, second = {
        "flow": ("writes", "reads"),
        "anti": ("reads", "overwrites"),
        "output": ("writes", "overwrites"),
    }[kind]
    return f"{at(witness.source)} {first} `{element}`, which {at(witness.sink)} {second}"
