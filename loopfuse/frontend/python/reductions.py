"""Finds reductions written as loops, and says them as the language does.

before:  s = np.float32(0.0)                   after:  let s = sum(c in 0..C: x[r, c])
         for c in range(C):
             s += x[r, c]

Needs a local that is set to the operation's neutral element and then only accumulated, by one
nest that does nothing else. The bits are the same in program order; as a reduction it may be
reordered, split and fused like any other. The local has the type that the reduction gives: an
integer sum counts in 64 bits, so a sum kept in an i32 stays a loop.
"""

from __future__ import annotations

from dataclasses import fields

from loopfuse.base.dtypes import DType
from loopfuse.frontend.python.context import Reader
from loopfuse.frontend.python.types import Kind
from loopfuse.lang.semantics import neutral
from loopfuse.lang.surface import syntax

_CASTS = {"python.float", *(dtype.value for dtype in DType)}

OPERATIONS = {"+": "sum", "*": "prod", "min": "min", "max": "max"}


def fold_reductions(reader: Reader, block: list[syntax.Stmt]) -> list[syntax.Stmt]:
    """The statements of one block with such loops replaced."""
    out = list(block)
    for start in [one for one in block if isinstance(one, syntax.Let) and one.mutable]:
        _fold(reader, out, start)
    return out


def _fold(reader: Reader, block: list[syntax.Stmt], start: syntax.Let) -> None:
    users = [
        position
        for position, stmt in enumerate(block)
        if stmt is not start and _mentions(stmt, start.name)
    ]
    if not users:
        return
    loop = block[users[0]]
    match loop:
        case syntax.For(
            ranges=ranges,
            body=(syntax.Assign(target=syntax.Name(name=name), op=op, value=value),),
            parallel=False,
        ) if name == start.name and op in OPERATIONS:
            pass
        case _:
            return
    if any(_mentions(part, name) for part in (value, *ranges)) or any(
        _assigns(block[position], name) for position in users[1:]
    ):
        return
    reduction = OPERATIONS[op]
    kind = reader.accumulated.get(id(loop.body[0]))
    if kind is None or kind.weak:
        return
    dtype = _result(reduction, kind)
    if dtype is None or dtype is not start.dtype:
        return
    if _number(start.value) != neutral(reduction, dtype):
        return
    body = syntax.Reduction(reduction, ranges, value, span=loop.span)
    block[users[0]] = syntax.Let(
        name, None, body, name_span=start.name_span, span=loop.span
    )
    block.remove(start)


def _result(reduction: str, kind: Kind) -> DType | None:
    """The type in which `reduction` of such elements is held; None for what stays a loop."""
    if kind.dtype in (DType.F32, DType.F64):
        return kind.dtype
    if not kind.dtype.is_integer:
        return None
    if reduction in ("min", "max"):
        return kind.dtype
    return DType.U64 if kind.dtype.is_unsigned else DType.I64


def _number(expr: syntax.Expr) -> float | None:
    """The value of a literal, also inside a cast or a minus."""
    match expr:
        case syntax.Number(value=value):
            return value
        case syntax.Unary(op="-", operand=operand):
            inner = _number(operand)
            return None if inner is None else -inner
        case syntax.Call(function=function, arguments=(operand,)) if function in _CASTS:
            return _number(operand)
        case _:
            return None


def _mentions(node: object, name: str) -> bool:
    """`name` occurs somewhere in `node`."""
    if isinstance(node, tuple):
        return any(_mentions(part, name) for part in node)
    if isinstance(node, syntax.Name):
        return node.name == name
    if isinstance(node, syntax.Node):
        return any(
            _mentions(getattr(node, one.name), name) for one in fields(node) if one.name != "span"
        )
    return False


def _assigns(node: object, name: str) -> bool:
    if isinstance(node, tuple):
        return any(_assigns(part, name) for part in node)
    if isinstance(node, syntax.Assign):
        return isinstance(node.target, syntax.Name) and node.target.name == name
    match node:
        case syntax.For(body=body) | syntax.Block(body=body):
            return _assigns(body, name)
        case syntax.If(then=then, otherwise=otherwise):
            return _assigns((*then, *otherwise), name)
        case _:
            return False
