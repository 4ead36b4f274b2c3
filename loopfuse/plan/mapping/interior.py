"""Peeling: a serial loop cut into edge, interior and edge, so that the interior has no guards.

before:  for x in 0..W: b[x] = a[max(x-1, 0)]
after:   for x in 0..1: b[x] = a[max(x-1, 0)]; for x in 1..W: b[x] = a[x-1]

Only comparisons of the loop's variable with values that do not change inside the loop are used:
`min`, `max`, guards and selects. Others stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.index import conjoin, greatest, is_affine, is_comparison, least
from loopfuse.lang.linear import Linear, from_linear, linear, linear_form, tidy
from loopfuse.lang.nodes import (
    Binary,
    Compare,
    Const,
    Expr,
    Iter,
    Load,
    Select,
    Symbol,
    Unary,
    combine,
    integer,
)
from loopfuse.lang.walk import (
    children,
    conjuncts,
    loads,
    map_expr,
    substitute,
    walk_expr,
    with_children,
)
from loopfuse.plan.mapping.body import merge_guards
from loopfuse.tree.looptree import Compute, Guard, Loop, Mapping, TreeNode
from loopfuse.tree.rewrite.independent import consecutive_parts
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes

MOST_PEELED = 12
"""More thresholds than this and the loop is left whole."""


NEAR = 16
"""How far from an end of its size a place that is asked for is an edge."""


def split_interior(loop: Loop, fresh: Callable[[str], str]) -> tuple[TreeNode, ...]:
    """`loop` as up to three loops (edges alone, where the interior does nothing), or alone where there is nothing to peel."""
    if loop.step != 1:
        return (loop,)
    above, below, simple = _usual(loop.body, loop.var, _inner_vars(loop.body))
    if not (above or below) or len(above) + len(below) > MOST_PEELED:
        return (loop,)
    start = greatest([loop.lower, *above])
    stop = least([loop.upper, *below])
    start = combine("min", start, loop.upper) if above else loop.lower
    stop = combine("max", start, stop) if below else loop.upper
    out: list[TreeNode] = []
    if above:
        out.append(copied(loop, loop.lower, start, loop.body, fresh))
    if interior := _flat(simple):
        out.append(replace(loop, lower=start, upper=stop, body=interior))
    if below:
        out.append(copied(loop, stop, loop.upper, loop.body, fresh))
    return tuple(out)


def split_inner(nodes: Sequence[TreeNode], fresh: Callable[[str], str]) -> tuple[TreeNode, ...]:
    """The nodes with the innermost loops among them cut so."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Loop(mapping=Mapping.SERIAL) if _is_plain(node):
                out += split_interior(node, fresh)
            case Loop():
                out.append(replace(node, body=split_inner(node.body, fresh)))
            case Guard():
                parts = split_inner(node.then, fresh), split_inner(node.otherwise, fresh)
                out.append(replace(node, then=parts[0], otherwise=parts[1]))
            case _:
                out.append(node)
    return tuple(out)


def _is_plain(loop: Loop) -> bool:
    """Is it a loop over computations, of bounds that are no data?"""
    inside = [*walk_nodes(loop.body)]
    kinds = all(isinstance(node, Compute | Guard) for node in inside)
    return kinds and not loads(loop.lower) and not loads(loop.upper)


def without_guards(loop: Loop, around: Sequence[str], fresh: Callable[[str], str]) -> TreeNode:
    """The loop where guards ask for variables of loops around it: a way for where they have their usual
    answers, beside the general one.

    before:  for x: { if y >= 1: A;  if y < H - 1: B }
    after:   if y >= 1 and y < H - 1: for x: { A; B }
             else: if y >= 1: for x: { A;  if y < H - 1: B }  else: for x: if y < H - 1: B

    One guard LLVM takes out of a loop by itself. A comparison of two variables (`t < y`, where a host's
    loop counts t) has no usual answer.
    """
    inside = [node for node in walk_nodes(loop.body) if isinstance(node, Guard)]
    asking = {g.condition for g in inside if _names(g.condition) & set(around)}
    if len(asking) < 2 or any(not isinstance(n, Compute | Guard | Loop) for n in walk_nodes(loop.body)):
        return loop
    inner = _inner_vars((loop,))
    simple, conditions = loop.body, list[Expr]()
    for var in around:
        above, below, simple = _usual(simple, var, inner, of_sizes=True)
        conditions += [Iter(var) >= each for each in above]
        conditions += [Iter(var) < each for each in below]
    if not 0 < len(conditions) <= MOST_PEELED:
        return loop
    general = _with_first_guard_outside(copied(loop, loop.lower, loop.upper, loop.body, fresh), asking, fresh)
    usual = with_ways(replace(loop, body=_flat(simple)), fresh)
    return Guard(conjoin(*conditions), (usual,), (general,))


def guards_outside(nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
    """The nodes, of which serial loops ask in front for what all in them asks for in each iteration.

    before:  for x: { if y >= 1 and x >= 2: A;  if y >= 1: B }
    after:   if y >= 1: for x: { if x >= 2: A;  B }
    """
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Loop(mapping=Mapping.SERIAL):
                inner = replace(node, body=guards_outside(node.body))
                common = [part for part in _asked(inner.body) if node.var not in _names(part) and not loads(part)]
                out.append(Guard(conjoin(*common), (replace(inner, body=_without(inner.body, common)),)) if common else inner)
            case Guard():
                out.append(replace(node, then=guards_outside(node.then), otherwise=guards_outside(node.otherwise)))
            case _:
                out.append(node)
    return tuple(merge_guards(out))


def _asked(nodes: Sequence[TreeNode]) -> list[Expr]:
    """What is asked for before anything of the nodes happens, in the order of the first."""
    if not all(isinstance(node, Guard) and not node.otherwise for node in nodes):
        return []
    asked = [conjuncts(node.condition) for node in nodes if isinstance(node, Guard)]
    return [part for part in asked[0] if all(part in parts for parts in asked)] if asked else []


def _without(nodes: Sequence[TreeNode], known: Sequence[Expr]) -> tuple[TreeNode, ...]:
    """The nodes, all of them guards, where some of what they ask for is known."""
    out: list[TreeNode] = []
    for node in nodes:
        assert isinstance(node, Guard)
        left = [part for part in conjuncts(node.condition) if part not in known]
        out += (replace(node, condition=conjoin(*left)),) if left else node.then
    return tuple(merge_guards(out))


def _with_first_guard_outside(loop: Loop, conditions: set[Expr], fresh: Callable[[str], str]) -> TreeNode:
    """A loop of guards of which the first comes outside: LLVM takes the other out of what is left."""
    guards = [node for node in loop.body if isinstance(node, Guard) and node.condition in conditions]
    if len(guards) != 2 or len(guards) != len(loop.body) or _names(guards[0].condition) & _inner_vars((loop,)):
        return loop
    return _once_for_each_answer(loop, guards[0].condition, fresh)


def divisions_apart(loop: Loop, fresh: Callable[[str], str]) -> tuple[Loop, ...]:
    """A loop whose statements divide whole numbers of 64 bits, of which no processor makes vectors, as a loop for each of
    these and for what stands between them, where they share elements of an iteration alone.

    before:  for i: { a[i] = x[i] % 7;  b[i] = y[i] * z[i] }
    after:   for i: a[i] = x[i] % 7;    for i: b[i] = y[i] * z[i]

    Vectors of what does not divide are worth it, and so is a loop of each division: two of them in one took 1.2 times as long as in two.
    """
    if not all(isinstance(node, Compute) for node in loop.body) or len(loop.body) < 2:
        return (loop,)

    def alike(node: TreeNode) -> int:
        return id(node) if isinstance(node, Compute) and _divides(node.value) else 0

    parts = consecutive_parts(loop.body, loop.var, alike)
    first, *rest = (tuple(loop.body[position] for position in part) for part in parts)
    return (replace(loop, body=first), *(copied(loop, loop.lower, loop.upper, part, fresh) for part in rest))


def _divides(value: Expr) -> bool:
    """Is there a `//` or `%` of 64-bit data in it, by anything but a power of two? (Subscripts do not count.)"""
    if isinstance(value, Load):
        return False
    if isinstance(value, Binary) and value.op in ("floordiv", "mod") and value.dtype in (DType.I64, DType.U64):
        number = value.right.value if isinstance(value.right, Const) else 0
        if number <= 0 or int(number) & (int(number) - 1):
            return True
    return any(map(_divides, children(value)))


def with_ways(loop: Loop, fresh: Callable[[str], str]) -> TreeNode:
    """The loop once for each answer to what its selects ask of variables around it.

    before:  for x: b[x] = a[x] if t < y else 0
    after:   if t < y: for x: b[x] = a[x]  else: for x: b[x] = 0

    LLVM does so where a loop is small.
    """
    inside = _inner_vars((loop,))
    for expr in _expressions(loop.body):
        for node in walk_expr(expr):
            if isinstance(node, Select) and _is_fixed(node.condition, inside):
                break
        else:
            continue
        return _once_for_each_answer(loop, node.condition, fresh)
    return loop


def _once_for_each_answer(loop: Loop, condition: Expr, fresh: Callable[[str], str]) -> Guard:
    """The loop where a condition on variables around it holds, and where it does not."""
    then, other = (
        _flat(tuple(_simplified(each, _known(loop.body, condition, answer)) for each in loop.body)) for answer in (True, False)
    )
    return Guard(condition, (replace(loop, body=then),), (copied(loop, loop.lower, loop.upper, other, fresh),))


def _known(body: tuple[TreeNode, ...], condition: Expr, answer: bool) -> dict[Expr, bool]:
    """What is known of the comparisons in a body where a condition has an answer: also of those that are written otherwise (`M >= j + 2` of
    `j < M - 1`)."""
    facts = {condition: answer}
    parts = conjuncts(condition)
    if not answer and len(parts) > 1:
        return facts
    forms = {_form(part, answer) for part in parts} - {None}
    for part in (part for expr in _expressions(body) for part in walk_expr(expr) if isinstance(part, Compare)):
        for holds in (True, False):
            if _form(part, holds) in forms:
                facts[part] = holds
    return facts


def _form(comparison: Expr, holds: bool) -> Linear | None:
    """The terms of what is at least 0 exactly where a comparison of whole numbers has this answer."""
    if not isinstance(comparison, Compare) or comparison.left.dtype is not DType.I64 or comparison.op in ("eq", "ne"):
        return None
    left, right = comparison.left, comparison.right
    upwards, strict = comparison.op in ("ge", "gt"), comparison.op in ("gt", "lt")
    if not holds:
        upwards, strict = not upwards, not strict
    return linear_form((left - right if upwards else right - left) - int(strict))


def _is_fixed(condition: Expr, inside: frozenset[str]) -> bool:
    """Is a condition the same in all iterations of a loop, and not in those of the loops around?"""
    names = _names(condition)
    return bool(names) and not names & inside and is_comparison(condition)


def narrowed(loop: Loop) -> TreeNode:
    """A loop that does nothing outside a guard, over what the guard lets through.

    before:  for x in 0..W: { if x >= 2 and y >= 1: A }
    after:   if y >= 1: for x in 2..W: A
    """
    if loop.step != 1 or len(loop.body) != 1 or not isinstance(guard := loop.body[0], Guard):
        return loop
    if guard.otherwise or loads(guard.condition):
        return loop
    inner = _inner_vars(loop.body)
    lower, upper = [loop.lower], [loop.upper]
    outside, inside = list[Expr](), list[Expr]()
    for part in conjuncts(guard.condition):
        found = None
        if isinstance(part, Compare) and part.left.dtype is DType.I64:
            found = _threshold(part.op, part.left, part.right, loop.var, inner)
        if found is not None:
            (lower if found[1] else upper).append(found[0])
        elif loop.var in _names(part):
            inside.append(part)
        else:
            outside.append(part)
    body = (replace(guard, condition=conjoin(*inside)),) if inside else guard.then
    node: TreeNode = replace(loop, lower=greatest(lower), upper=least(upper), body=body)
    return Guard(conjoin(*outside), (node,)) if outside else node


def over_own_places(loop: Loop, parts: Callable[[Loop], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
    """What `parts` makes of the loop, narrowed."""
    match narrowed(loop):
        case Guard(condition=condition, then=(Loop() as inside,)):
            return (Guard(condition, parts(inside)),)
        case Loop() as whole:
            return parts(whole)
        case other:
            return (other,)


def _usual(
    body: tuple[TreeNode, ...], var: str, inner: frozenset[str], of_sizes: bool = False
) -> tuple[list[Expr], list[Expr], tuple[TreeNode, ...]]:
    """The interior is where `var` is at least each of the first and less than each of the second; and
    `body` as it is there. `of_sizes`: by what is known of sizes alone, not of other variables."""
    above: list[Expr] = []
    below: list[Expr] = []
    simple = body
    while tests := [
        test
        for e in _expressions(simple)
        for test in _tests(e, var, inner)
        if not (of_sizes and _names(test[1]))
    ]:
        facts: dict[Expr, bool] = {}
        for test, threshold, upwards, usual in dict.fromkeys(tests):
            # `upwards`: the test is true from the threshold on; else true before it.
            side = above if usual == upwards else below
            if threshold not in side:
                side.append(threshold)
            facts[test] = usual
        simple = tuple(_simplified(node, facts) for node in simple)
    return _strongest(above, max), _strongest(below, min), simple


def _strongest(thresholds: list[Expr], choose: Callable[[int, int], int]) -> list[Expr]:
    """The thresholds, but of those that differ by a constant only the one that counts."""
    found: dict[Expr, int] = {}
    for each in thresholds:
        base, constant = _split_constant(each)
        found[base] = choose(found[base], constant) if base in found else constant
    return [tidy(base + constant) for base, constant in found.items()]


def _split_constant(expr: Expr) -> tuple[Expr, int]:
    match expr:
        case Const(value=value):
            return integer(0), int(value)
        case Binary(op="add" | "sub" as op, left=left, right=Const(value=value)):
            base, constant = _split_constant(left)
            return base, constant + (int(value) if op == "add" else -int(value))
        case _:
            return expr, 0


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


def copied(
    loop: Loop, lower: Expr, upper: Expr, body: tuple[TreeNode, ...], fresh: Callable[[str], str]
) -> Loop:
    """The loop again with other bounds and its own variables."""
    var = fresh(loop.var)
    inside = _renamed(body, {loop.var: Iter(var)}, fresh)
    return Loop(var, lower, upper, loop.step, loop.mapping, inside)


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
            case _:
                out += map_expressions((node,), lambda e: substitute(e, values))
    return tuple(out)


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
            case _:
                out += node_expressions(node)
    return out


def _tests(expr: Expr, var: str, inner: frozenset[str]):
    """(node, threshold, upwards, usual): the value at var = threshold changes a comparison; the
    usual answer is the one in the interior."""
    for node in walk_expr(expr):
        match node:
            case Binary(op="min" | "max" as op, left=left, right=right) if node.dtype is DType.I64:
                # left <= right decides; the operand that goes up with the variable is the usual result
                # (a mirrored subscript goes down beyond the edge).
                first, second = _slope(left, var), _slope(right, var)
                found = _threshold("le", left, right, var, inner)
                if found is not None and (not first) != (not second):
                    yield node, *found, bool(first) == (op == "min")
                elif found is not None and first == -second:
                    yield node, *found, (first > 0) == (op == "min")
            case Binary(op="mod", left=left, right=right, dtype=DType.I64) if not (
                isinstance(right, Const) or var in _names(right) or inner & _names(right)
            ):
                terms = linear(left)
                if terms is not None and terms.get(var) == 1 and _is_bound(right):
                    rest = tidy(left - Iter(var))
                    if not inner & _names(rest):
                        yield node, tidy(0 - rest), True, True
                        yield node, tidy(right - rest), False, True
            case Compare(op="eq" | "ne" as op, left=left, right=right) if left.dtype is DType.I64:
                edge = _edge(left, right, var)
                if edge is not None:
                    where, first = edge
                    yield node, where, first == (op == "ne"), op == "ne"
            case Compare(op=op, left=left, right=right) if left.dtype is DType.I64:
                found = _threshold(op, left, right, var, inner)
                if found is not None:
                    yield node, *found, True
            case _:
                pass


def _edge(left: Expr, right: Expr, var: str) -> tuple[Expr, bool] | None:
    """`var == t` for a t among the first iterations (t + 1 and True: from there on it is false) or the
    last of a size (t and False: before it)."""
    terms = linear(left - right)
    if terms is None or abs(terms.get(var, 0)) != 1:
        return None
    others = {name: -terms[var] * factor for name, factor in terms.items() if name != var}
    constant = others.pop("", 0)
    if not others:
        return (integer(constant + 1), True) if 0 <= constant < NEAR else None
    sizes = [name for name in others if name not in _names(left) | _names(right)]
    if sizes and others == {sizes[0]: 1} and -NEAR <= constant < 0:
        return Symbol(sizes[0], DType.I64) + constant, False
    return None


def _is_bound(expr: Expr) -> bool:
    """May it be part of a loop's bound: affine pieces, as isl has them?"""
    return is_affine(expr) and all(
        isinstance(node.right, Const)
        for node in walk_expr(expr)
        if isinstance(node, Binary) and node.op in ("floordiv", "mod")
    )


def _slope(expr: Expr, var: str) -> int:
    """How much of the variable it holds; 1 where that is no affine part."""
    terms = linear(expr)
    return int(var in _names(expr)) if terms is None else terms.get(var, 0)


def _names(expr: Expr) -> set[str]:
    return {node.name for node in walk_expr(expr) if isinstance(node, Iter)}


def _threshold(
    op: str, left: Expr, right: Expr, var: str, inner: frozenset[str]
) -> tuple[Expr, bool] | None:
    """`left op right` as (t, upwards): true exactly from var >= t on, or exactly before t."""
    terms = linear(left - right) if op in ("le", "lt", "ge", "gt") else None
    if terms is None or not terms.get(var, 0) or any(name in inner for name in terms):
        return None
    sign, size = terms[var], abs(terms[var])
    rest = {n: c for n, c in terms.items() if n != var}
    if any(c % size for n, c in rest.items() if n):
        return None  # a bound would have to be rounded
    iters = {n for n in rest if n and n in (_names(left) | _names(right))}
    symbols = frozenset(rest) - iters - {""}
    # sign*var + rest op 0
    if op in ("ge", "gt"):
        strict = op == "gt"
    else:  # negate: -sign*var - rest >= 0
        strict = op == "lt"
        sign, rest = -sign, {n: -c for n, c in rest.items()}
    constant = rest.pop("", 0) - int(strict)  # +-size*var + rest + constant >= 0
    if sign > 0:  # var >= -(rest + constant) / size, rounded up
        bound = from_linear({n: -c // size for n, c in rest.items()}, symbols)
        return tidy(bound + (-(constant // size))), True
    # var <= (rest + constant) / size, rounded down: true before one more
    bound = from_linear({n: c // size for n, c in rest.items()}, symbols)
    return tidy(bound + (constant // size + 1)), False


def _simplified(node: TreeNode, facts: dict[Expr, bool]) -> TreeNode:
    def decide(expr: Expr) -> Expr:
        if expr in facts:
            match expr:
                case Binary(op="mod", left=left):
                    return left
                case Binary(op="min" | "max" as op, left=left, right=right):
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
        case _:
            (mapped,) = map_expressions((node,), simplify)
            return mapped


def _top_down(function: Callable[[Expr], Expr], expr: Expr) -> Expr:
    while (new := function(expr)) is not expr:
        expr = new
    below = children(expr)
    if not below:
        return expr
    return with_children(expr, tuple(_top_down(function, child) for child in below))
