"""Scalars that only depend on parameters are written out where they are used.

before:  let scale = 1.0 / f32(N); for i in 0..N: y[i] = x[i] * scale
after:   for i in 0..N: y[i] = x[i] * (1.0 / f32(N))

They would otherwise cost a launch and a trip through memory; so would a constant that a loop names
(`let half = 0.5`), which is written out too. The operations stay the same, so do the bits. Works
on the model, before dependences are taken for good.
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Expr, Load
from loopfuse.lang.walk import iterators, loads, map_expr
from loopfuse.poly.model import Access, PolyProgram, Statement


def write_out_scalars(program: PolyProgram) -> PolyProgram:
    """`program` with every parameter-only scalar substituted into its readers, and its own
    statement gone; itself where there is none."""
    values: dict[str, Expr] = {}
    gone: set[str] = set()
    for statement in program.statements:
        name = statement.target.array
        if not _is_parameter_only(statement, program):
            continue
        if sum(1 for s in program.statements if s.target.array == name) == 1:
            values[name] = _substituted(statement.value, values)
            if loads(values[name]):
                del values[name]
            else:
                gone.add(statement.id)
    if not values:
        return program
    kept = tuple(_rewritten(s, values) for s in program.statements if s.id not in gone)
    arrays = {name: array for name, array in program.arrays.items() if name not in values}
    return replace(program, statements=kept, arrays=arrays)


def _is_parameter_only(statement: Statement, program: PolyProgram) -> bool:
    return (
        statement.kind == "define"
        and not (statement.loops and iterators(statement.value))
        and statement.predicate is None
        and statement.target.array not in program.unknown  # a loop reads it as its bound
        and program.arrays[statement.target.array].kind == "scalar"
        and all(not access.load.index for access in statement.reads)
    )


def _substituted(expr: Expr, values: dict[str, Expr]) -> Expr:
    def one(node: Expr) -> Expr:
        return values.get(node.array, node) if isinstance(node, Load) else node

    return map_expr(one, expr)


def _rewritten(statement: Statement, values: dict[str, Expr]) -> Statement:
    if not any(access.array in values for access in statement.reads):
        return statement
    target = _substituted(statement.target, values)
    assert isinstance(target, Load)
    return replace(
        statement,
        target=target,
        write=_access(statement.write, values),
        value=_substituted(statement.value, values),
        predicate=None
        if statement.predicate is None
        else _substituted(statement.predicate, values),
        reads=tuple(_access(a, values) for a in statement.reads if a.array not in values),
    )


def _access(access: Access, values: dict[str, Expr]) -> Access:
    """The access, its subscripts written out too."""
    load = _substituted(access.load, values)
    assert isinstance(load, Load)
    return replace(access, load=load)
