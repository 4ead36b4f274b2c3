"""Peeling: a serial loop cut into edge, interior and edge, so that the interior has no guards.

before:  for x in 0..W: b[x] = a[max(x-1, 0)]
after:   for x in 0..1: b[x] = a[max(x-1, 0)]; for x in 1..W: b[x] = a[x-1]

Only comparisons of the loop's variable with values that do not change inside the loop are used:
`min`, `max`, guards and selects. Others stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.affine import combine, integer, is_affine
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter, Load, Select, Unary
from loopfuse.lang.walk import map_expr, substitute, walk_expr
from loopfuse.plan.expressions import from_linear, greatest, least
from loopfuse.plan.looptree import Compute, Guard, Loop, TreeNode
from loopfuse.plan.recompute import tidy
from loopfuse.poly.isl import linear

MOST_PEELED = 12
"""More thresholds than this and the loop is left whole."""


def split_interior(loop: Loop, fresh: Callable[[str], str]) -> tuple[TreeNode, ...]:
    """`loop` as up to three loops, or alone where there is nothing to peel."""
    if loop.step != 1:
        return (loop,)
    inner = _inner_vars(loop.body)
    above: list[Expr] = []  # the interior is where var >= each of these
    below: list[Expr] = []  # and var < each of these
    simple = loop.body
    while tests := [t for e in _expressions(simple) for t in _tests(e, loop.var, inner)]:
        facts: dict[Expr, bool] = {}
        for test, threshold, upwards, usual in dict.fromkeys(tests):
            # `upwards`: the test is true from the threshold on; else true before it.
            side = above if usual == upwards else below
            if threshold not in side:
                side.append(threshold)
            facts[test] = usual
        simple = tuple(_simplified(node, facts) for node in simple)
    if not (above or below) or len(above) + len(below) > MOST_PEELED:
        return (loop,)
    start = greatest([loop.lower, *above])
    stop = least([loop.upper, *below])
    start = combine("min", start, loop.upper) if above else loop.lower
    stop = combine("max", start, stop) if below else loop.upper
    out: list[TreeNode] = []
    if above:
        out.append(_copy(loop, loop.lower, start, loop.body, fresh))
    out.append(replace(loop, lower=start, upper=stop, body=_flat(simple)))
    if below:
        out.append(_copy(loop, stop, loop.upper, loop.body, fresh))
    return tuple(out)


def _flat(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
    """Guards decided by the facts replaced by what they hold."""
    out: list[TreeNode] = []
    for node in nodes:
        if isinstance(node, Guard) and isinstance(node.condition, Const):
            out += _flat(node.then if node.condition.value else node.otherwise)
        elif isinstance(node, Guard):
            out.append(replace(node, then=_flat(node.then), otherwise=_flat(node.otherwise)))
        elif isinstance(node, Loop):
            out.append(replace(node, body=_flat(node.body)))
        else:
            out.append(node)
    return tuple(out)


def _copy(
    loop: Loop, lower: Expr, upper: Expr, body: tuple[TreeNode, ...], fresh: Callable[[str], str]
) -> Loop:
    """The loop again with other bounds and its own variables."""
    var = fresh(loop.var)
    return Loop(var, lower, upper, 1, loop.mapping, _renamed(body, {loop.var: Iter(var)}, fresh))


def _renamed(
    nodes: tuple[TreeNode, ...], values: dict[str, Expr], fresh: Callable[[str], str]
) -> tuple[TreeNode, ...]:
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Loop():
                var = fresh(node.var)
                inside = {**values, node.var: Iter(var)}
                out.append(
                    Loop(
                        var,
                        substitute(node.lower, values),
                        substitute(node.upper, values),
                        node.step,
                        node.mapping,
                        _renamed(node.body, inside, fresh),
                    )
                )
            case Guard():
                out.append(
                    Guard(
                        substitute(node.condition, values),
                        _renamed(node.then, values, fresh),
                        _renamed(node.otherwise, values, fresh),
                    )
                )
            case Compute():
                out.append(_mapped(node, lambda e: substitute(e, values)))
            case _:
                out.append(node)
    return tuple(out)


def _mapped(node: Compute, function: Callable[[Expr], Expr]) -> Compute:
    target = function(node.target)
    assert isinstance(target, Load)
    return Compute(
        node.statement,
        tuple(function(each) for each in node.iteration),
        target,
        function(node.value),
        None if node.predicate is None else function(node.predicate),
    )


def _inner_vars(nodes: tuple[TreeNode, ...]) -> frozenset[str]:
    out: set[str] = set()
    for node in nodes:
        if isinstance(node, Loop):
            out |= {node.var, *_inner_vars(node.body)}
        elif isinstance(node, Guard):
            out |= _inner_vars((*node.then, *node.otherwise))
    return frozenset(out)


def _expressions(nodes: tuple[TreeNode, ...]) -> list[Expr]:
    out: list[Expr] = []
    for node in nodes:
        match node:
            case Loop():
                out += _expressions(node.body)
            case Guard():
                out += [node.condition, *_expressions((*node.then, *node.otherwise))]
            case Compute():
                out += [*node.iteration, node.target, node.value]
                out += [] if node.predicate is None else [node.predicate]
            case _:
                pass
    return out


def _tests(expr: Expr, var: str, inner: frozenset[str]):
    """(node, threshold, upwards, usual): the value at var = threshold changes a comparison; the
    usual answer is the one in the interior."""
    for node in walk_expr(expr):
        match node:
            case Binary(op="min" | "max" as op, left=left, right=right) if node.dtype is DType.I64:
                # left <= right decides; the operand that holds the variable is the usual result.
                side = var in _names(left)
                found = _threshold("le", left, right, var, inner)
                if found is not None and side != (var in _names(right)):
                    usual = side == (op == "min")
                    yield node, *found, usual
            case Binary(op="mod", left=left, right=right, dtype=DType.I64) if not (
                isinstance(right, Const) or var in _names(right) or inner & _names(right)
            ):
                terms = linear(left)
                if terms is not None and terms.get(var) == 1 and _is_bound(right):
                    rest = tidy(combine("sub", left, Iter(var)))
                    if not inner & _names(rest):
                        yield node, tidy(combine("sub", integer(0), rest)), True, True
                        yield node, tidy(combine("sub", right, rest)), False, True
            case Compare(op=op, left=left, right=right) if left.dtype is DType.I64:
                found = _threshold(op, left, right, var, inner)
                if found is not None:
                    yield node, *found, True
            case _:
                pass


def _is_bound(expr: Expr) -> bool:
    """May it be part of a loop's bound: affine pieces, as isl has them?"""
    return is_affine(expr) and all(
        isinstance(node.right, Const)
        for node in walk_expr(expr)
        if isinstance(node, Binary) and node.op in ("floordiv", "mod")
    )


def _names(expr: Expr) -> set[str]:
    return {node.name for node in walk_expr(expr) if isinstance(node, Iter)}


def _threshold(
    op: str, left: Expr, right: Expr, var: str, inner: frozenset[str]
) -> tuple[Expr, bool] | None:
    """`left op right` as (t, upwards): true exactly from var >= t on, or exactly before t."""
    terms = linear(combine("sub", left, right)) if op in ("le", "lt", "ge", "gt") else None
    if terms is None or abs(terms.get(var, 0)) != 1 or any(name in inner for name in terms):
        return None
    sign = terms[var]
    rest = {n: c for n, c in terms.items() if n != var}
    iters = {n for n in rest if n and n in (_names(left) | _names(right))}
    symbols = frozenset(rest) - iters - {""}
    # sign*var + rest op 0
    if op in ("ge", "gt"):
        strict = op == "gt"
    else:  # negate: -sign*var - rest >= 0
        strict = op == "lt"
        sign, rest = -sign, {n: -c for n, c in rest.items()}
    if sign > 0:  # var >= -rest (+1 if strict)
        bound = from_linear({n: -c for n, c in rest.items()}, symbols)
        return tidy(combine("add", bound, integer(int(strict)))), True
    # var <= rest (-1 if strict): true before rest + 1 (or rest)
    bound = from_linear(rest, symbols)
    return tidy(combine("add", bound, integer(int(not strict)))), False


def _simplified(node: TreeNode, facts: dict[Expr, bool]) -> TreeNode:
    def decide(expr: Expr) -> Expr:
        if expr in facts:
            match expr:
                case Binary(op="mod", left=left):
                    return left
                case Binary(op=op, left=left, right=right):
                    return left if facts[expr] == (op == "min") else right
                case _:
                    return Const(facts[expr], DType.BOOL)
        return expr

    def fold(expr: Expr) -> Expr:
        match expr:
            case Binary(op="and", left=left, right=right, dtype=DType.BOOL):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, Const):
                        return other if one.value else one
            case Binary(op="or", left=left, right=right, dtype=DType.BOOL):
                for one, other in ((left, right), (right, left)):
                    if isinstance(one, Const):
                        return one if one.value else other
            case Unary(op="not", operand=Const(value=value)):
                return Const(not value, DType.BOOL)
            case Select(condition=Const(value=value), then=then, otherwise=otherwise):
                return then if value else otherwise
            case _:
                pass
        return expr

    def simplify(expr: Expr) -> Expr:
        # Outermost first: a fact speaks of the expression as it stands in the loop.
        return tidy(map_expr(fold, _top_down(decide, expr)))

    match node:
        case Loop():
            return replace(
                node,
                lower=simplify(node.lower),
                upper=simplify(node.upper),
                body=tuple(_simplified(each, facts) for each in node.body),
            )
        case Guard():
            return Guard(
                simplify(node.condition),
                tuple(_simplified(each, facts) for each in node.then),
                tuple(_simplified(each, facts) for each in node.otherwise),
            )
        case Compute():
            return _mapped(node, simplify)
        case _:
            return node


def _top_down(function: Callable[[Expr], Expr], expr: Expr) -> Expr:
    from loopfuse.lang.walk import children, with_children

    while (new := function(expr)) is not expr:
        expr = new
    below = children(expr)
    if not below:
        return expr
    return with_children(expr, tuple(_top_down(function, child) for child in below))
