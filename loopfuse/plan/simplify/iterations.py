"""Loops without the iterations that nobody needs.

before:  for j in 0..N: t[j] = f(j)                  for j in 0..i + 1: c[j] = t[j]
after:   for j in 0..min(N, i + 1): t[j] = f(j)      for j in 0..i + 1: c[j] = t[j]

What an iteration writes is needed where another one reads it, or the caller sees it. (Whether that one is needed is not
asked: few programs would have less to do.) A few iterations more or less stay, such as a border that is written again: loops over the same fuse best.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Iter, combine
from loopfuse.lang.walk import has_checks, loads
from loopfuse.poly.isl import Reader, constant_of
from loopfuse.poly.isl_relations import ends_within
from loopfuse.poly.isl_text import value_expr
from loopfuse.poly.model import Dependences, Loop, PolyProgram, Statement


def without_idle_iterations(program: PolyProgram, dependences: Dependences) -> PolyProgram:
    """The program with the ends of loops taken off that compute what nobody reads; itself where there are none."""
    if not dependences.complete:
        return program
    needed = {s.id: _needed(s, dependences) for s in program.statements}
    idle = {s.id for s in program.statements if not s.domain.intersect_params(program.context).is_subset(needed[s.id])}
    if not idle:
        return program
    loops = dict.fromkeys(loop for s in program.statements if s.id in idle for loop in s.loops)
    for loop in loops:
        program = _shortened(program, loop, needed)
    return program


def _needed(statement: Statement, dependences: Dependences) -> Any:
    """The instances whose values somebody needs, or that do something else."""
    asked = () if statement.predicate is None else (statement.predicate,)
    if asked or statement.kind == "init" or statement.operation or not statement.write.exact:
        return statement.domain
    if has_checks(statement.target, statement.value):
        return statement.domain
    found = statement.domain.subtract(statement.domain)
    for d in dependences.flow:
        if d.source == statement.id:
            found = found.union(d.relation.domain())
    for by_id in dependences.live_out.values():
        if statement.id in by_id:
            found = found.union(by_id[statement.id].domain())
    return found.intersect(statement.domain)


def _shortened(program: PolyProgram, loop: Loop, needed: dict[str, Any]) -> PolyProgram:
    inside = [s for s in program.statements if loop in s.loops]
    if loop.step != 1 or loop.unknown or loop.reduction or loads(loop.lower) or loads(loop.upper):
        return program
    depth = inside[0].loops.index(loop)
    ends = ends_within([needed[s.id] for s in inside], depth, program.context)
    every = ends_within([s.domain for s in inside], depth, program.context)
    if ends is None or every is None:
        return program
    lower, upper = loop.lower, loop.upper
    # Where the loop has no iterations, it must have none behind this.
    if constant_of(ends[0].sub(every[0]).coalesce()) is None:
        lower = combine("max", lower, tidy(value_expr(ends[0], program.symbols)))
    if constant_of(every[1].sub(ends[1]).coalesce()) is None:
        upper = combine("min", upper, tidy(value_expr(ends[1], program.symbols) + 1))
    if (lower, upper) == (loop.lower, loop.upper):
        return program
    shorter = replace(loop, lower=tidy(lower), upper=tidy(upper))
    statements = tuple(_inside(s, loop, shorter) if s in inside else s for s in program.statements)
    for s in statements:
        needed[s.id] = needed[s.id].intersect(s.domain)
    return replace(program, statements=statements)


def _inside(statement: Statement, loop: Loop, shorter: Loop) -> Statement:
    reader, here = Reader(statement.domain.get_space()), Iter(loop.iterator)
    domain = statement.domain
    for condition in (here >= shorter.lower, here < shorter.upper):
        holds = reader.condition(condition)
        assert holds is not None  # isl wrote the ends
        domain = domain.intersect(holds)
    domain = domain.coalesce()

    def cut(access: Any) -> Any:
        return replace(access, parts=tuple((name, relation.intersect_domain(domain)) for name, relation in access.parts))

    loops = tuple(shorter if each == loop else each for each in statement.loops)
    return replace(
        statement, loops=loops, domain=domain, write=cut(statement.write), reads=tuple(map(cut, statement.reads))
    )
