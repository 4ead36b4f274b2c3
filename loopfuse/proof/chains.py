"""The updates of a reduction between two other writes of an element, and those of a recurrence, in the program's
order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopfuse.poly import isl, isl_flow
from loopfuse.poly.deps import flow_of_read, names_one_place
from loopfuse.poly.model import Dependences, PolyProgram, Statement
from loopfuse.proof.events import Undecided


def has_episodes(deps: Dependences, updates: Sequence[Statement], writers: list[Statement]) -> bool:
    """Is an element read or written by others between the updates of a reduction? `writers` are
    all statements that write its array."""
    array = updates[0].target.array
    ids = {update.id for update in updates}
    others = {s.id for s in writers} - ids
    only_write = {s.id for s in writers if not _reads_elsewhere(s, array)}
    for each in deps.all:
        if each.array == array and ids & {each.source, each.sink}:
            early = each.kind == "anti" and each.sink in ids and each.source not in only_write
            late = each.kind == "output" and each.sink in others
            if early or late:
                return True
    return False


def _reads_elsewhere(writer: Statement, array: str) -> bool:
    """Does a statement that writes the array read it, but for what it updates or keeps?"""
    if writer.accumulator is not None:
        return writer.has_own_operand
    last = len(writer.reads) - (writer.predicate is not None)
    return any(name == array for access in writer.reads[:last] for name, _ in access.parts)


def find_chain(program: PolyProgram, update: Statement, writers: list[Statement]) -> Any:
    """{ update -> update }: from an update to all of its element up to itself that no other write
    of the element comes after."""
    array = update.target.array
    written = dict(update.write.parts)[array]
    when = program_time(program, update)
    chain = written.apply_range(written.reverse()).intersect(when.lex_ge_map(when))
    others = [s for s in writers if s is not update]
    if not all(names_one_place(s.write) and array in dict(s.write.parts) for s in others):
        raise Undecided(f"{array} may or may not be written between updates")
    levels = tuple(range(when.dim(isl.OUT)))
    sources = [
        isl_flow.Source(dict(s.write.parts)[array], program_time(program, s), levels, True)
        for s in others
    ]
    answers = isl_flow.last_sources(written, when, sources, True)
    for other, answer in zip(others, answers, strict=True):
        if answer is not None:
            last = answer.range_factor_domain().reverse()  # { update -> last other write }
            older = program_time(program, other).lex_gt_map(when)
            chain = chain.subtract(last.apply_range(older))
    return chain


def find_sequence(program: PolyProgram, deps: Dependences, update: Statement) -> Any:
    """{ update -> update }: from an update to all that need its value, by way of others of the statement."""
    array = update.target.array
    number = next(k for k, read in enumerate(update.reads) if read.array == array)
    sources, _ = flow_of_read(program, deps, update.id, number)
    if update.id not in sources:
        return isl.empty_map(update.domain.identity().get_space())
    closure, is_exact = sources[update.id].transitive_closure()
    if not is_exact:
        raise Undecided(f"which instances of {update.id} need which is not known")
    return closure


def program_time(program: PolyProgram, statement: Statement) -> Any:
    """{ statement -> time } in the program's order, times all as long."""
    times: list[int | tuple[str, int]] = []
    for loop, position in zip(statement.loops, statement.positions[:-1], strict=True):
        times += [position, (loop.iterator, 1 if loop.step > 0 else -1)]
    times.append(statement.positions[-1])
    depth = max(len(each.loops) for each in program.statements)
    times += [0] * (2 * depth + 1 - len(times))
    return isl.schedule_of(statement.domain.get_space(), times, statement.domain)
