"""Renaming: a temporary used for two unrelated values becomes two temporaries.

before:  t = f(a); b = t; t = g(a); c = t        after:  t = f(a); b = t; t.2 = g(a); c = t.2

Removes the storage-only (anti and output) dependences between the two uses. A use is a web:
writers and readers connected by flow. A border that no one reads together with the rest of its
array is a web too, and stays with the rest all the same: it has elements of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopfuse.lang.nodes import Expr, Load
from loopfuse.lang.walk import iterators, map_expr
from loopfuse.plan.simplify.starts import reductions_of, starts_of
from loopfuse.poly.isl_relations import rename_range
from loopfuse.poly.model import Access, Dependence, Dependences, PolyProgram, Statement


def rename_webs(program: PolyProgram, dependences: Dependences) -> PolyProgram:
    """`program` with one array per web of each temporary; itself where nothing changes."""
    renames: dict[tuple[str, str], str] = {}  # (statement id, array) -> new name
    arrays = dict(program.arrays)
    if not dependences.complete:
        return program
    users: dict[str, list[Statement]] = {}
    for s in program.statements:
        for touched in {n for a in (*s.reads, s.write) for n, _ in a.parts}:
            users.setdefault(touched, []).append(s)
    flows: dict[str, list[Dependence]] = {}
    for d in dependences.flow:
        flows.setdefault(d.array, []).append(d)
    for name, array in program.arrays.items():
        if array.is_argument:
            continue
        webs = _webs(program, users.get(name, []), flows.get(name, []), name)
        if len(webs) > 1:
            webs = _with_borders(webs, program, name)
        for number, web in enumerate(webs[1:], start=2):
            new = f"{name}.{number}"
            while new in arrays:
                new += "x"
            arrays[new] = replace(array, name=new)
            for id in web:
                renames[(id, name)] = new
    if not renames:
        return program
    mine: dict[str, dict[str, str]] = {}
    for (id, name), new in renames.items():
        mine.setdefault(id, {})[name] = new
    statements = tuple(
        _renamed(s, mine[s.id]) if s.id in mine else s for s in program.statements
    )
    return replace(program, arrays=arrays, statements=statements)


def _webs(
    program: PolyProgram, users: Sequence[Statement], flows: Sequence[Dependence], name: str
) -> list[list[str]]:
    """The ids of `users` (who touch the array), grouped; only statements with one web each, and
    only if no read can see an element nothing wrote (then the webs share that). `flows`: the flow
    over the array."""
    if any(len(a.parts) > 1 for s in users for a in (*s.reads, s.write)):
        return []
    parent = {s.id: s.id for s in users}

    def root(id: str) -> str:
        while parent[id] != id:
            id = parent[id]
        return id

    for d in flows:
        if d.source in parent and d.sink in parent:
            parent[root(d.source)] = root(d.sink)
    sinks = {d.sink for d in flows}
    for s in users:
        reads = any(a.array == name for a in s.reads)
        writes = s.write.array == name
        if (reads and writes and not s.reduction) or (reads and s.id not in sinks):
            return []  # its own read and write may be of different webs
    for s in users:  # an accumulator's init and updates stay together
        for t in users:
            if s.label == t.label:
                parent[root(s.id)] = root(t.id)
    if len({root(s.id) for s in users}) > 1:
        for s in reductions_of([s for s in users if s.write.array == name]):
            for start in starts_of(program, s):
                parent[root(start.id)] = root(s.id)
    groups: dict[str, list[str]] = {}
    for s in users:
        groups.setdefault(root(s.id), []).append(s.id)
    return list(groups.values())


def _with_borders(webs: list[list[str]], program: PolyProgram, name: str) -> list[list[str]]:
    """The webs, those of borders together with a web that touches none of their elements."""
    by_id = program.by_id
    rest: list[tuple[list[str], Any]] = []
    borders: list[tuple[list[str], Any]] = []
    for web in webs:
        touched, at_border = _touched(web, program, name), True
        for id in web:
            if by_id[id].write.array == name:
                at_border &= not all(map(iterators, by_id[id].target.index))
        (borders if at_border else rest).append((web, touched))
    for web, touched in borders:
        for number, (other, theirs) in enumerate(rest):
            if theirs.intersect(touched).is_empty():
                rest[number] = [*other, *web], theirs.union(touched)
                break
        else:
            rest.append((web, touched))
    order = {id: number for number, web in enumerate(webs) for id in web}
    return sorted((web for web, _ in rest), key=lambda web: order[web[0]])


def _touched(web: Sequence[str], program: PolyProgram, name: str) -> Any:
    """The elements of the array that statements touch."""
    accesses = [access for id in web for access in (program.by_id[id].write, *program.by_id[id].reads)]
    parts = [part.range() for access in accesses for found, part in access.parts if found == name]
    out = parts[0]
    for part in parts[1:]:
        out = out.union(part)
    return out.intersect_params(program.context)


def _renamed(statement: Statement, mine: Mapping[str, str]) -> Statement:
    def load(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array in mine:
            return replace(expr, array=mine[expr.array])
        return expr

    def access(one: Access) -> Access:
        parts: list[tuple[str, Any]] = [
            (mine.get(n, n), rename_range(m, mine[n]) if n in mine else m) for n, m in one.parts
        ]
        new = map_expr(load, one.load)
        assert isinstance(new, Load)
        return replace(one, load=new, parts=tuple(parts))

    target = map_expr(load, statement.target)
    assert isinstance(target, Load)
    return replace(
        statement,
        target=target,
        write=access(statement.write),
        value=map_expr(load, statement.value),
        predicate=None if statement.predicate is None else map_expr(load, statement.predicate),
        reads=tuple(access(one) for one in statement.reads),
    )
