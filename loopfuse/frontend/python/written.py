"""Which arguments a function writes to, as far as its text says, before their types are known."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from loopfuse.base.diagnostics import UserError
from loopfuse.frontend.python.source import read_source


def may_write(function: Callable[..., Any], name: str) -> bool:
    """Is something assigned to elements of `name`, or of what it is also called (`u, v = v, u`)?
    False where there is no text."""
    try:
        tree = read_source(function).tree
    except UserError:
        return False
    stored: set[str] = set()
    called: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(ctx=ast.Store()):
                base = node.value
                while isinstance(base, ast.Subscript):  # a[i][j]
                    base = base.value
                if isinstance(base, ast.Name):
                    stored.add(base.id)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for one, other in zip(_parts(target), _parts(value)):
                        if isinstance(one, ast.Name) and isinstance(other, ast.Name):
                            called.setdefault(other.id, set()).add(one.id)
            case _:
                pass
    names, todo = {name}, [name]
    while todo:
        fresh = called.get(todo.pop(), set()) - names
        names |= fresh
        todo += fresh
    return bool(names & stored)


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
