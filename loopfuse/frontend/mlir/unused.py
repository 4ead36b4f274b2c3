"""`let`s that nothing reads, left out: parts of what was read as one operation."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import fields, replace
from typing import Any

from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import Expr, Name, Unary


def without_unused(statements: list[syntax.Stmt]) -> list[syntax.Stmt]:
    """`statements` without `let`s that nothing reads: parts of what was read as one operation."""
    while True:
        used = _used(statements)
        kept = [each for each in (_kept(stmt, used) for stmt in statements) if each is not None]
        if kept == statements:
            return kept
        statements = kept


def _used(statements: list[syntax.Stmt]) -> set[str]:
    """Names that something reads or assigns, but for `let`s that only unused `let`s read."""
    counts: Counter[str] = Counter()
    lets: dict[str, list[Expr]] = {}
    left: list[Any] = list(statements)
    while left:
        node = left.pop()
        if isinstance(node, Name):
            counts[node.name] += 1
        elif isinstance(node, tuple):
            left.extend(node)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(node, syntax.Node):
            if isinstance(node, syntax.Let) and not node.mutable:
                lets.setdefault(node.name, []).append(node.value)
            left.extend(getattr(node, each) for each in _fields_of(type(node)))
    unused = [name for name in lets if not counts[name]]
    while unused:
        values: list[Any] = list(lets.pop(unused.pop(), ()))
        while values:
            node = values.pop()
            if isinstance(node, Name):
                counts[node.name] -= 1
                if not counts[node.name] and node.name in lets:
                    unused.append(node.name)
            elif isinstance(node, tuple):
                values.extend(node)  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(node, syntax.Node):
                values.extend(getattr(node, each) for each in _fields_of(type(node)))
    return {name for name, count in counts.items() if count}


@functools.cache
def _fields_of(kind: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _kept(stmt: syntax.Stmt, used: set[str]) -> syntax.Stmt | None:
    match stmt:
        case syntax.Let(name=name, mutable=False) if name not in used:
            return None
        case syntax.For(body=body) | syntax.Block(body=body):
            left = tuple(each for each in (_kept(one, used) for one in body) if each is not None)
            return replace(stmt, body=left) if left else None
        case syntax.If(then=then, otherwise=otherwise):
            first = tuple(each for each in (_kept(one, used) for one in then) if each is not None)
            last = tuple(
                each for each in (_kept(one, used) for one in otherwise) if each is not None
            )
            if first:
                return replace(stmt, then=first, otherwise=last)
            if not last:
                return None
            return replace(stmt, condition=Unary("not", stmt.condition), then=last, otherwise=())
        case _:
            return stmt
