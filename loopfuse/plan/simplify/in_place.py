"""Accumulators in place: a scalar that ends in an element of an array is that element all along.

before:  for i, j: (var w = A[i, j]; for k in 0..j: w -= A[i, k] * A[k, j]; A[i, j] = w / A[j, j])
after:   for i, j: (for k in 0..j: A[i, j] -= A[i, k] * A[k, j]; A[i, j] = A[i, j] / A[j, j])

A scalar of an iteration keeps all of the iteration together; elements let it be run in parts, a block of `k` at a time
(`plan.strategies.affine`). Asked where later iterations need what the scalar ends in, so that they run in order anyhow:
factorisations and triangular systems; and done where a strategy then has another order for the nest, since elsewhere a
register is better. `proof.private` shows that every read finds what it found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
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


def users_of(program: PolyProgram, name: str) -> frozenset[str]:
    """The ids of the statements that touch an array."""
    return frozenset(s.id for s in program.statements if _touches(s, name))


def _touches(statement: Statement, name: str) -> bool:
    return any(name == part for access in (*statement.reads, statement.write) for part, _ in access.parts)


def _feeds_others(final: Statement, deeper: Collection[str], depth: int, deps: Dependences) -> bool:
    """Do loops inside other iterations of its own `depth` loops read what the statement writes?"""
    flows = (d for d in deps.flow if d.source == final.id and d.sink in deeper)
    return any(not is_equal_along(d.relation, k, k) for d in flows for k in range(depth))


def put_in_place(program: PolyProgram, elements: Mapping[str, Load]) -> PolyProgram:
    """The program with scalars as these elements."""
    arrays = {key: array for key, array in program.arrays.items() if key not in elements}
    return replace(program, arrays=arrays, statements=tuple(_moved(s, elements) for s in program.statements))


def _moved(statement: Statement, elements: Mapping[str, Load]) -> Statement:
    if not any(access.array in elements for access in (*statement.reads, statement.write)):
        return statement

    def load(expr: Expr) -> Expr:
        return elements.get(expr.array, expr) if isinstance(expr, Load) else expr

    def access(one: Access) -> Access:
        element = elements.get(one.array)
        if element is None:
            return one
        relation = affine_map(statement.domain, [linear(part) or {} for part in element.index])
        relation = relation.set_tuple_name(OUT, element.array).intersect_domain(statement.domain)
        return replace(one, load=element, parts=((element.array, relation),))

    target = map_expr(load, statement.target)
    assert isinstance(target, Load)
    return replace(
        statement,
        kind="store" if statement.kind == "define" and statement.target.array in elements else statement.kind,
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
