"""Renaming: a temporary used for two unrelated values becomes two temporaries.

before:  t = f(a); b = t; t = g(a); c = t        after:  t = f(a); b = t; t.2 = g(a); c = t.2

Removes the storage-only (anti and output) dependences between the two uses. A use is a web:
writers and readers connected by flow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopfuse.lang.nodes import Expr, Load
from loopfuse.lang.walk import map_expr
from loopfuse.poly.isl_relations import rename_range
from loopfuse.poly.model import Access, Dependences, PolyProgram, Statement


def rename_webs(program: PolyProgram, dependences: Dependences) -> PolyProgram:
    """`program` with one array per web of each temporary; itself where nothing changes."""
    renames: dict[tuple[str, str], str] = {}  # (statement id, array) -> new name
    arrays = dict(program.arrays)
    if not dependences.complete:
        return program
    for name, array in program.arrays.items():
        if array.is_argument:
            continue
        webs = _webs(program, dependences, name)
        for number, web in enumerate(webs[1:], start=2):
            new = f"{name}.{number}"
            while new in arrays:
                new += "x"
            arrays[new] = replace(array, name=new)
            for id in web:
                renames[(id, name)] = new
    if not renames:
        return program
    statements = tuple(_renamed(s, renames) for s in program.statements)
    return replace(program, arrays=arrays, statements=statements)


def _webs(program: PolyProgram, dependences: Dependences, name: str) -> list[list[str]]:
    """Statement ids that touch the array, grouped; only statements with one web each, and only
    if no read can see an element nothing wrote (then the webs share that)."""
    users = [s for s in program.statements if _touches(s, name)]
    if any(len(a.parts) > 1 for s in users for a in (*s.reads, s.write)):
        return []
    parent = {s.id: s.id for s in users}

    def root(id: str) -> str:
        while parent[id] != id:
            id = parent[id]
        return id

    for d in dependences.flow:
        if d.array == name and d.source in parent and d.sink in parent:
            parent[root(d.source)] = root(d.sink)
    for s in users:
        reads = any(a.array == name for a in s.reads)
        writes = s.write.array == name
        fed = any(d.sink == s.id and d.array == name for d in dependences.flow)
        if (reads and writes and not s.reduction) or (reads and not fed):
            return []  # its own read and write may be of different webs
    for s in users:  # an accumulator's init and updates stay together
        for t in users:
            if s.label == t.label:
                parent[root(s.id)] = root(t.id)
    groups: dict[str, list[str]] = {}
    for s in users:
        groups.setdefault(root(s.id), []).append(s.id)
    return list(groups.values())


def _touches(statement: Statement, name: str) -> bool:
    return any(n == name for a in (*statement.reads, statement.write) for n, _ in a.parts)


def _renamed(statement: Statement, renames: Mapping[tuple[str, str], str]) -> Statement:
    mine = {array: new for (id, array), new in renames.items() if id == statement.id}
    if not mine:
        return statement

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
