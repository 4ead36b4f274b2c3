"""Refuses trees deeper than the rooms after the parser can walk by recursion.

The layout pass bounds brackets and blocks; what is left is depth without either: long chains of
operators (`a + a + ...` nests to the left), of unary operators, and of `elif`.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.frontend.lf.layout import MAX_NESTING
from loopfuse.lang.surface import syntax

MAX_EXPRESSION_DEPTH = 1000
"""How many operators deep an expression may be: room for 200 brackets with operators between."""


def check_depth(module: syntax.Module) -> None:
    """UserError[nesting-too-deep] if a statement or expression of `module` is too deep."""
    work: list[tuple[object, int, int]] = [(item, 0, 0) for item in module.items]
    while work:
        node, blocks, depth = work.pop()
        if isinstance(node, _STATEMENTS):
            if blocks > MAX_NESTING:
                raise UserError(_too_deep(node, f"statements are nested more than {MAX_NESTING}"))
            work += [(child, blocks + 1, 0) for child in _children(node)]
        else:
            if depth > MAX_EXPRESSION_DEPTH:
                message = f"operators are nested more than {MAX_EXPRESSION_DEPTH}"
                raise UserError(_too_deep(node, message))
            # `a < b < c` is `a < b and b < c`: one deeper for each.
            deeper = len(node.ops) if isinstance(node, syntax.Comparison) else 1
            work += [(child, blocks, depth + deeper) for child in _children(node)]


_STATEMENTS = (syntax.For, syntax.If, syntax.Block)


def _children(node: object) -> Iterator[object]:
    """The nodes directly below `node`, through tuples."""
    work: list[object] = [node]
    first = True
    while work:
        part = work.pop()
        if isinstance(part, tuple):
            work += part
        elif isinstance(part, syntax.Node):
            if first:
                fields = type(part).__dataclass_fields__
                work += [getattr(part, name) for name in fields]
            else:
                yield part
        first = False


def _too_deep(node: object, message: str) -> Diagnostic:
    assert isinstance(node, syntax.Node)
    fix = (
        "name parts of it with `let`"
        if "operators" in message
        else "test the cases in a loop over a const table, or split the `elif` chain"
    )
    return Diagnostic("nesting-too-deep", f"{message} deep", node.span, fix=fix)
