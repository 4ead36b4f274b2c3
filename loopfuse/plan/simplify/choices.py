"""Choices between what is alike ask nothing: `x if c else x` is `x`.

This comes behind the dependences, which are of the reads that the program has.
"""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Expr, Kernel, Select
from loopfuse.lang.walk import has_checks, is_alike, map_expr, map_stmt_expressions


def without_idle_choices(kernel: Kernel) -> Kernel:
    """`kernel` without such choices; itself where there are none. A choice by what is checked stays: the check may be an error."""
    found = False

    def one(expr: Expr) -> Expr:
        nonlocal found
        if isinstance(expr, Select) and is_alike(expr.then, expr.otherwise) and not has_checks(expr.condition):
            found = True
            return expr.then
        return expr

    body = tuple(map_stmt_expressions(lambda expr: map_expr(one, expr), stmt) for stmt in kernel.body)
    return replace(kernel, body=body) if found else kernel
