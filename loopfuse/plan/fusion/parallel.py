"""`parallel for`: the user says a loop is parallel, and it has to be."""

from __future__ import annotations

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.plan.fusion.explanations import find_witness, witness_in_words
from loopfuse.plan.units.forest import order_is_free
from loopfuse.plan.units.groups import Refusal
from loopfuse.poly.isl_relations import carried_at
from loopfuse.poly.model import Dependence, Dependences, Loop, PolyProgram, Statement


def check_parallel_loops(
    program: PolyProgram, dependences: Dependences, reassociate: bool
) -> None:
    """UserError[not-parallel], with the instance that forbids it, for a `parallel for` that
    carries a dependence (a reduction's own may be relaxed)."""
    by_id = {s.id: s for s in program.statements}
    for dependence in dependences.all:
        source, sink = by_id[dependence.source], by_id[dependence.sink]
        if order_is_free(dependence, source, reassociate):
            continue
        for depth, loop in enumerate(source.loops):
            if depth >= len(sink.loops) or sink.loops[depth].iterator != loop.iterator:
                break
            if loop.parallel and (bad := _carried(dependence, depth)) is not None:
                raise _not_parallel(program, dependence, source, loop, bad)


def _carried(dependence: Dependence, depth: int):
    """The instances the loop at `depth` carries, or None."""
    moving = carried_at(dependence.relation, depth)
    return None if moving.is_empty() else moving


def _not_parallel(
    program: PolyProgram, dependence: Dependence, source: Statement, loop: Loop, bad: object
) -> UserError:
    name = loop.iterator.split(".")[0]
    witness = find_witness(program, dependence, Refusal("", dependence, bad))
    notes = (witness_in_words(witness, dependence.kind),) if witness else ()
    return UserError(
        Diagnostic(
            "not-parallel",
            f"the iterations of `{name}` depend on each other through `{dependence.array}`",
            source.span,
            label=f"this stands in `parallel for {name}`",
            notes=notes,
            fix=f"write `for {name}`, or write to another array",
        )
    )
