"""Iterations that nobody needs: which are found, and that leaving out others is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.lang.nodes import Iter
from loopfuse.pipeline import read_program
from loopfuse.plan.simplify.iterations import without_idle_iterations
from loopfuse.poly.bounds import find_preconditions
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.isl import Reader
from loopfuse.poly.model import Access, PolyProgram, Statement
from loopfuse.proof.private import keeps_needed_values
from loopfuse.tree.printer import print_expr

ABOVE = """
kernel k(a: f32[N], inout c: f32[N, N]):
    for i in 0..N:
        temp t: f32[N]
        for j in 0..N:
            t[j] = a[j]
        for j in 0..i + 1:
            c[i, j] = t[j]
"""
LAST = """
kernel k(a: f32[N], inout b: f32[N]):
    temp t: f32[N]
    for i in 0..N:
        for k in 0..N:
            t[i] = a[k]
        b[i] = t[i]
"""
BORDER = """
kernel k(a: f32[N], inout b: f32[N]):
    temp t: f32[N]
    for i in 0..N:
        t[i] = a[i]
    for i in 1..N - 1:
        b[i] = t[i]
"""
SUM = """
kernel k(a: f32[N], inout b: f32[N]):
    for i in 0..N:
        b[i] = sum(k in 0..N: a[k])
"""
CHECKED = """
kernel k(a: f32[N], rows: i64[N], inout b: f32[N]):
    temp t: f32[N]
    for i in 0..N:
        for k in 0..N:
            t[i] = a[rows[k]]
        b[i] = t[i]
"""
MAYBE = """
kernel k(a: f32[N], m: f32[N], inout b: f32[N]):
    temp t: f32[N]
    for i in 0..N:
        t[i] = 0.0
        for k in 0..N:
            if m[k] > 0.5:
                t[i] = a[k]
        b[i] = t[i]
"""


def model_of(text: str) -> PolyProgram:
    program = build_model(read_program(Source("k.lf", text)).kernel("k"))
    preconditions, context = find_preconditions(program)
    return replace(program, preconditions=preconditions, context=context)


def ranges(program: PolyProgram) -> dict[str, str]:
    """The bounds of each loop."""
    loops = dict.fromkeys(loop for s in program.statements for loop in s.loops)
    return {loop.iterator: f"{print_expr(loop.lower)}..{print_expr(loop.upper)}" for loop in loops}


@pytest.mark.parametrize(
    ("text", "iterator", "bounds"),
    [(ABOVE, "j", "0..min(N, i + 1)"), (LAST, "k", "max(0, N - 1)..N")],
    ids=["above", "last"],
)
def test_what_nobody_needs_is_left_out(text: str, iterator: str, bounds: str) -> None:
    program = model_of(text)
    deps = find_dependences(program)
    shorter = without_idle_iterations(program, deps)
    assert ranges(shorter)[iterator] == bounds
    assert keeps_needed_values(program, deps, shorter, find_dependences(shorter))


@pytest.mark.parametrize("text", [BORDER, SUM, CHECKED, MAYBE], ids=["border", "sum", "checked", "maybe"])
def test_the_rest_stays(text: str) -> None:
    program = model_of(text)
    assert without_idle_iterations(program, find_dependences(program)) is program


@pytest.mark.parametrize("text", [ABOVE, LAST, SUM], ids=["above", "last", "sum"])
@pytest.mark.parametrize("number", range(4))
def test_too_few_iterations_are_noticed(text: str, number: int) -> None:
    """One iteration fewer than are needed, at an end of a loop."""
    program = model_of(text)
    deps = find_dependences(program)
    shorter = without_idle_iterations(program, deps)
    loops = list(dict.fromkeys(loop for s in shorter.statements for loop in s.loops))
    loop = loops[min(number // 2, len(loops) - 1)]
    ends = {"upper": loop.upper - 1} if number % 2 else {"lower": loop.lower + 1}
    less = replace(loop, **ends)
    statements: list[Statement] = []
    for s in shorter.statements:
        if loop not in s.loops:
            statements.append(s)
            continue
        holds = Reader(s.domain.get_space()).condition(
            Iter(loop.iterator) < less.upper if number % 2 else Iter(loop.iterator) >= less.lower
        )
        domain = s.domain.intersect(holds)

        def cut(access: Access, domain: Any = domain) -> Access:
            return replace(access, parts=tuple((name, relation.intersect_domain(domain)) for name, relation in access.parts))

        statements.append(
            replace(
                s, loops=tuple(less if each == loop else each for each in s.loops), domain=domain,
                write=cut(s.write), reads=tuple(map(cut, s.reads)),
            )
        )  # fmt: skip
    wrong = replace(shorter, statements=tuple(statements))
    assert not keeps_needed_values(program, deps, wrong, find_dependences(wrong))
