"""Dead statements: what computes nothing the caller sees, or never runs, is not compiled.

before:  t = f(x); u = g(x); out = t; b[i] = b[i]        after:  t = f(x); out = t
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.walk import has_checks
from loopfuse.plan.simplify.starts import reductions_of, starts_of
from loopfuse.poly.model import Dependences, PolyProgram, Statement


def live_statements(program: PolyProgram, dependences: Dependences) -> frozenset[str]:
    """Ids of the statements that some element the caller sees depends on, and that change one."""
    empty = frozenset(
        s.id
        for s in program.statements
        if _changes_nothing(s) or s.domain.intersect_params(program.context).is_empty()
    )
    live = {id for by_id in dependences.live_out.values() for id in by_id}
    arguments = {a.name for a in program.arrays.values() if a.is_live_out}
    if not dependences.complete:
        return frozenset(s.id for s in program.statements) - empty
    for statement in program.statements:
        # A write that may or may not happen keeps what it may keep.
        if statement.write.array in arguments and statement.predicate is not None:
            live.add(statement.id)
    scalars = {s.write.array for s in reductions_of(program.statements)}
    unwritten = any(s.write.array in scalars and s.id not in live for s in program.statements)
    while True:
        more = {d.source for d in dependences.flow if d.sink in live} - live
        labels = {s.label for s in program.statements if s.id in live and s.kind == "update"}
        more |= {
            s.id for s in program.statements if s.kind == "init" and s.label in labels
        } - live
        if not more and unwritten:
            reductions = reductions_of([s for s in program.statements if s.id in live])
            more = {start.id for s in reductions for start in starts_of(program, s)} - live
        if not more:
            return frozenset(live) - empty
        live |= more


def _changes_nothing(statement: Statement) -> bool:
    """Does the statement store what is there?"""
    asked = () if statement.predicate is None else (statement.predicate,)
    same = statement.kind == "store" and statement.value == statement.target
    return same and not has_checks(statement.target, *asked)


def remove_dead(program: PolyProgram, live: frozenset[str]) -> PolyProgram:
    """The program with only its live statements, and the arrays they use."""
    statements = tuple(s for s in program.statements if s.id in live)
    return replace(program, statements=statements)
