"""Accumulators in place: a scalar that ends in an element of an array is that element all along.

before:  for i, j: (var w = A[i, j]; for k in 0..j: w -= A[i, k] * A[k, j]; A[i, j] = w / A[j, j])
after:   for i, j: (for k in 0..j: A[i, j] -= A[i, k] * A[k, j]; A[i, j] = A[i, j] / A[j, j])

A scalar of an iteration keeps all of the iteration together; elements let it be run in parts, a block of `k` at a time
(`plan.strategies.affine`). Done where later iterations need what the scalar ends in, so that they run in order anyhow:
factorisations and triangular systems. Elsewhere a register is as good. `proof.private` shows that every read finds
what it found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Expr, Load
from loopfuse.lang.walk import map_expr
from loopfuse.poly.isl import OUT
from loopfuse.poly.isl_relations import affine_map, is_equal_along
from loopfuse.poly.model import Access, Dependences, PolyProgram, Statement


def accumulators(program: PolyProgram, deps: Dependences) -> Iterator[tuple[str, Load]]:
    """Scalars that inner loops update, and the elements that they end in and might be."""
    if not deps.complete:
        return
    for name, array in program.arrays.items():
        if array.is_argument or array.extents or not array.private_to:
            continue
        users = [s for s in program.statements if _touches(s, name)]
        depth = len(array.private_to)
        if any(s.kind == "init" or s.iterators[:depth] != array.private_to for s in users):
            continue
        if any(len(access.parts) > 1 or not access.exact for s in users for access in (*s.reads, s.write)):
            continue
        if not any(s.write.array == name and len(s.loops) > depth for s in users):
            continue
        deeper = {s.id for s in program.statements if len(s.loops) > depth and s.iterators[:depth] == array.private_to}
        for final in users:
            target = program.arrays[final.target.array]
            if final.write.array == name or len(final.loops) > depth or final.predicate is not None:
                continue
            if target.private_to or not target.extents or target.dtype is not array.dtype:
                continue
            if any(linear(part) is None for part in final.target.index):
                continue
            if _feeds_others(final, deeper, depth, deps):
                yield name, final.target


def _touches(statement: Statement, name: str) -> bool:
    return any(name == part for access in (*statement.reads, statement.write) for part, _ in access.parts)


def _feeds_others(final: Statement, deeper: Collection[str], depth: int, deps: Dependences) -> bool:
    """Do loops inside other iterations of its own `depth` loops read what the statement writes?"""
    flows = (d for d in deps.flow if d.source == final.id and d.sink in deeper)
    return any(not is_equal_along(d.relation, k, k) for d in flows for k in range(depth))


def put_in_place(program: PolyProgram, name: str, element: Load) -> PolyProgram:
    """The program with a scalar as that element."""
    arrays = {key: array for key, array in program.arrays.items() if key != name}
    return replace(
        program, arrays=arrays,
        statements=tuple(_moved(s, name, element) if _touches(s, name) else s for s in program.statements),
    )  # fmt: skip


def _moved(statement: Statement, name: str, element: Load) -> Statement:
    values = [linear(part) or {} for part in element.index]

    def load(expr: Expr) -> Expr:
        return element if isinstance(expr, Load) and expr.array == name else expr

    def access(one: Access) -> Access:
        if one.array != name:
            return one
        relation = affine_map(statement.domain, values).set_tuple_name(OUT, element.array)
        return replace(one, load=element, parts=((element.array, relation.intersect_domain(statement.domain)),))

    target = map_expr(load, statement.target)
    assert isinstance(target, Load)
    return replace(
        statement,
        kind="store" if statement.kind == "define" and target is not statement.target else statement.kind,
        target=target,
        write=access(statement.write),
        value=map_expr(load, statement.value),
        predicate=None if statement.predicate is None else map_expr(load, statement.predicate),
        reads=tuple(map(access, statement.reads)),
    )


def without_copies(program: PolyProgram) -> PolyProgram:
    """The program without statements that store what an element holds in that element."""
    kept = tuple(s for s in program.statements if not _is_copy(s))
    if len(kept) == len(program.statements):
        return program
    absorbed = dict(program.absorbed)
    for copy in filter(_is_copy, program.statements):
        beside = next((s for s in kept if s.target == copy.target), None)
        if beside is not None:
            absorbed[beside.label] = (*absorbed.get(beside.label, ()), copy.label)
    return replace(program, statements=kept, absorbed=absorbed)


def _is_copy(statement: Statement) -> bool:
    return statement.value == statement.target and statement.write.exact and len(statement.write.parts) == 1
