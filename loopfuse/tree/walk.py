"""Walking LoopTrees: bodies, expressions, the parallel chain of a launch, ALIGNED and RESIDENT resolved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Binary, Call, Const, Expr, Iter, Load, Select, Symbol
from loopfuse.lang.walk import loads, map_expr, substitute, walk_expr
from loopfuse.tree.looptree import (
    ALIGNED,
    RESIDENT,
    STREAMED,
    Arrive,
    Await,
    Barrier,
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    Home,
    HostLoop,
    HostNode,
    Launch,
    LineBuffer,
    Loop,
    LoopTree,
    Prefetch,
    Raise,
    Register,
    Rescale,
    Running,
    Scan,
    Ticket,
    TreeNode,
    Window,
)
from loopfuse.tree.looptree import Mapping as Where


def bodies(node: TreeNode) -> tuple[tuple[TreeNode, ...], ...]:
    """The node lists directly inside `node`, in text order."""
    match node:
        case Loop(body=body) | Ticket(body=body) | Running(body=body):
            return (body,)
        case Guard(then=then, otherwise=otherwise):
            return (then, otherwise)
        case _:
            return ()


def walk_nodes(nodes: tuple[TreeNode, ...]) -> Iterator[TreeNode]:
    """Every node of `nodes` and inside them, in text order, a parent before its bodies."""
    for node in nodes:
        yield node
        for body in bodies(node):
            yield from walk_nodes(body)


def walk_guarded(nodes: Sequence[TreeNode], under: bool = False) -> Iterator[tuple[TreeNode, bool]]:
    """Every node of `nodes` and of the Guards among them, with whether a Guard stands above it (`under`)."""
    for node in nodes:
        yield node, under
        if isinstance(node, Guard):
            yield from walk_guarded((*node.then, *node.otherwise), True)


def node_expressions(node: TreeNode) -> tuple[Expr, ...]:
    """The expressions `node` itself holds; targets and flags as Loads, targets last."""
    match node:
        case Loop(lower=lower, upper=upper):
            return (lower, upper)
        case Guard(condition=condition):
            return (condition,)
        case Compute(iteration=iteration, target=target, value=value, predicate=predicate):
            first = () if predicate is None else (predicate,)
            return (*iteration, *first, value, target)
        case Copy(target=target, value=value) | Fold(target=target, value=value):
            return (value, target)
        case Raise(flag=flag, value=value) | Await(flag=flag, value=value):
            return (value, flag)
        case Ticket(counter=counter, count=count):
            return (count, counter)
        case Prefetch(source=source):
            return (source,)
        case Scan(index=index):
            return index
        case Rescale(places=places):
            return places
        case Combine() | Barrier() | Arrive() | Running():
            return ()


def touched_by(node: TreeNode) -> set[str]:
    """The buffers that `node` itself names."""
    found = {load.array for expr in node_expressions(node) for load in loads(expr)}
    return found | {node.buffer} if isinstance(node, Combine | Scan) else found


def map_expressions(nodes: Sequence[TreeNode], change: Callable[[Expr], Expr]) -> tuple[TreeNode, ...]:
    """`nodes`, and all inside them, with each expression changed: loops, conditions and what moves values.
    What `change` makes of a place must be a Load."""

    def one(node: TreeNode) -> TreeNode:
        match node:
            case Loop(lower=lower, upper=upper, body=body):
                return replace(node, lower=change(lower), upper=change(upper), body=each(body))
            case Guard(condition=condition, then=then, otherwise=otherwise):
                return replace(node, condition=change(condition), then=each(then), otherwise=each(otherwise))
            case Compute(iteration=iteration, target=target, value=value, predicate=predicate):
                return replace(
                    node,
                    iteration=tuple(map(change, iteration)),
                    target=as_load(change(target)),
                    value=change(value),
                    predicate=None if predicate is None else change(predicate),
                )
            case Copy(target=target, value=value):
                return replace(node, target=as_load(change(target)), value=change(value))
            case Fold(target=target, value=value):
                return replace(node, target=as_load(change(target)), value=as_load(change(value)))
            case Prefetch(source=source):
                return Prefetch(as_load(change(source)))
            case Scan(index=index):
                return replace(node, index=tuple(map(change, index)))
            case Running(body=body):
                return Running(each(body))
            case Rescale(reference=reference, result=result, seen=seen, own=own, sums=sums, factor=factor):

                def places(loads: Sequence[Load]) -> tuple[Load, ...]:
                    return tuple(as_load(change(load)) for load in loads)

                one, other, third = places((reference, result, seen))
                factor = None if factor is None else change(factor)
                return Rescale(node.op, one, other, third, places(own), places(sums), factor, node.last)
            case Combine() | Barrier() | Arrive():
                return node
            case _:
                raise TypeError(f"no expressions are changed in {type(node).__name__}")

    def each(nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        return tuple(map(one, nodes))

    return each(nodes)


def with_new_loops(nodes: Sequence[TreeNode], fresh: Callable[[str], str]) -> tuple[TreeNode, ...]:
    """The nodes with new names for the variables of the loops among them."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Loop(var=old, body=body):
                var = fresh(old)
                inside = map_expressions(body, lambda expr, old=old, var=var: substitute(expr, {old: Iter(var)}))
                out.append(replace(node, var=var, body=with_new_loops(inside, fresh)))
            case Guard(then=then, otherwise=otherwise):
                out.append(replace(node, then=with_new_loops(then, fresh), otherwise=with_new_loops(otherwise, fresh)))
            case Running(body=body):
                out.append(Running(with_new_loops(body, fresh)))
            case _:
                out.append(node)
    return tuple(out)


def split_chain(launch: Launch) -> tuple[tuple[Loop, ...], tuple[TreeNode, ...]]:
    """The chain of parallel loops a launch starts with, and the body of each of its threads."""
    chain: list[Loop] = []
    body = launch.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].mapping.is_parallel:
        chain.append(body[0])
        body = body[0].body
    return tuple(chain), body


def is_tile(node: Guard) -> bool:
    """Does the guard choose between two ways of running the steps of one tile?"""
    return all(
        any(isinstance(n, Loop) and n.mapping in STREAMED for n in walk_nodes(branch))
        for branch in (node.then, node.otherwise)
    )


def has_windows(tree: LoopTree) -> bool:
    """Does the tree keep windows, or lines?"""
    return any(isinstance(buffer.home, Window | LineBuffer) for buffer in tree.buffers)


def open_tiles(tree: LoopTree) -> LoopTree:
    """The tree whose guards that choose between two ways of running a tile take the first where
    they may take it, whatever ALIGNED is: both ways do the same there, as `proof/windows.py` proves."""

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        if not (isinstance(node, Guard) and is_tile(node)):
            return (node,)
        if ALIGNED not in walk_expr(node.condition):
            return (node,)
        aligned, not_aligned = (_with_aligned(node.condition, way) for way in (True, False))
        either = Binary("or", aligned, not_aligned, ALIGNED.dtype)
        return (replace(node, condition=aligned if _is_asked(node.condition) else either),)

    return map_nodes(one, tree)


def _is_asked(condition: Expr) -> bool:
    """Is ALIGNED one of the conditions, all of which must hold, and in no other place?"""
    if isinstance(condition, Binary) and condition.op == "and":
        parts = condition.left, condition.right
        return all(ALIGNED not in walk_expr(p) or _is_asked(p) for p in parts)
    return condition == ALIGNED


def mentions_aligned(tree: LoopTree) -> bool:
    """Does any guard of the tree ask for ALIGNED?"""
    return any(
        isinstance(node, Guard) and ALIGNED in walk_expr(node.condition)
        for launch in tree.launches
        for node in walk_nodes(launch.body)
    )


def written_out(nodes: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
    """The same with UNROLLED loops in place of VECTOR ones."""

    def one(node: TreeNode) -> TreeNode:
        match node:
            case Loop(mapping=mapping, body=body):
                way = Where.UNROLLED if mapping is Where.VECTOR else mapping
                return replace(node, mapping=way, body=written_out(body))
            case Guard(then=then, otherwise=otherwise):
                return replace(node, then=written_out(then), otherwise=written_out(otherwise))
            case Running(body=body):
                return Running(written_out(body))
            case _:
                return node

    return tuple(map(one, nodes))


def without_written_out(tree: LoopTree) -> LoopTree:
    """The tree whose guards on ALIGNED alone take the first way where the second is the same with UNROLLED
    loops in place of VECTOR ones: these run in the same order, and ask less."""

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        is_same = isinstance(node, Guard) and node.condition == ALIGNED and node.otherwise == written_out(node.then)
        return node.then if isinstance(node, Guard) and is_same else (node,)

    return map_nodes(one, tree)


def conditions_with_aligned(tree: LoopTree) -> tuple[tuple[Expr, Expr], ...]:
    """What each guard that asks for ALIGNED tests where it is false, and where it is true."""
    return tuple(
        (_with_aligned(node.condition, False), _with_aligned(node.condition, True))
        for launch in tree.launches
        for node in walk_nodes(launch.body)
        if isinstance(node, Guard) and ALIGNED in walk_expr(node.condition)
    )


def _with_aligned(expr: Expr, aligned: bool) -> Expr:
    def one(node: Expr) -> Expr:
        is_aligned = isinstance(node, Symbol) and node.name == ALIGNED.name
        return Const(aligned, ALIGNED.dtype) if is_aligned else node

    return map_expr(one, expr)


def may_be_predicated(nodes: Sequence[TreeNode], homes: Mapping[str, Home]) -> bool:
    """Could the nodes be calculated where they do not run: from registers, by operations that cannot fault?"""

    def is_safe(part: Expr) -> bool:
        if isinstance(part, Load):
            return isinstance(homes[part.array], Register)
        if isinstance(part, Binary) and part.op in ("floordiv", "mod", "div"):
            return part.dtype.is_float
        return not is_checked(part)

    return all(
        isinstance(node, Compute | Copy)
        and getattr(node, "predicate", None) is None
        and not getattr(node, "late", False)
        and all(map(is_safe, walk_expr(node.value)))
        for node in nodes
    )


def map_nodes(change: Callable[[TreeNode], tuple[TreeNode, ...]], tree: LoopTree) -> LoopTree:
    """The tree with every node replaced by what `change` gives for it, those inside it first."""

    def nodes(body: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        return tuple(new for node in body for new in change(inside(node)))

    def inside(node: TreeNode) -> TreeNode:
        match node:
            case Guard():
                return replace(node, then=nodes(node.then), otherwise=nodes(node.otherwise))
            case Loop() | Ticket() | Running():
                return replace(node, body=nodes(node.body))
            case _:
                return node

    def host(body: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        return tuple(
            replace(node, body=host(node.body))
            if isinstance(node, HostLoop)
            else replace(node, body=nodes(node.body))
            for node in body
        )

    return replace(tree, body=host(tree.body))


def resolve_aligned(tree: LoopTree, aligned: bool) -> LoopTree:
    """The tree that runs when ALIGNED is `aligned`: guards on it replaced by the chosen branch. (Not
    others: `open_tiles` leaves guards that are always true, both of whose ways are to be compared.)"""

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Guard) or ALIGNED not in walk_expr(node.condition):
            return (node,)
        test = _with_aligned(node.condition, aligned)
        if isinstance(test, Const):
            return node.then if test.value else node.otherwise
        return (replace(node, condition=test),)

    return map_nodes(one, tree)


def resolve_resident(tree: LoopTree, resident: Expr) -> LoopTree:
    """The tree with `resident` (a condition on sizes, or a constant) in place of RESIDENT; host loops that then
    never run are left out."""
    if tree.resident is None:
        return tree

    def chosen(node: Expr) -> Expr:
        if not (isinstance(node, Select) and node.condition == RESIDENT):
            return node
        if isinstance(resident, Const):
            return node.then if resident.value else node.otherwise
        return replace(node, condition=resident)

    def host(body: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        out: list[HostNode] = []
        for node in body:
            if isinstance(node, HostLoop):
                lower, upper = (map_expr(chosen, bound) for bound in (node.lower, node.upper))
                if lower != upper or (lower, upper) == (node.lower, node.upper):
                    out.append(replace(node, lower=lower, upper=upper, body=host(node.body)))
            else:
                out.append(node)
        return tuple(out)

    return replace(tree, body=host(tree.body), resident=None)


_UPDATES = {"add": "sum", "min": "min", "max": "max"}


def atomic_update(node: Compute) -> tuple[str, Expr]:
    """The operation of an atomic Compute, and what it updates its target by; "" where its value is no update."""
    match node.value:
        case Binary(op=op, left=left, right=right) if left == node.target and op in _UPDATES:
            return _UPDATES[op], right
        case _:
            return "", node.value


def as_load(expr: Expr) -> Load:
    """`expr`, which the IR's rules say is a Load."""
    if not isinstance(expr, Load):
        raise TypeError(f"expected a Load, got {type(expr).__name__}")
    return expr


def trust_subscripts(tree: LoopTree, is_trusted: Callable[[Call], bool] = lambda _: True) -> LoopTree:
    """`tree` without the checks of those subscripts that depend on data that are trusted (all: `check="off"`).

    before: y[i] = x[inside(idx[i], N)]        after: y[i] = x[idx[i]]
    """

    def plain(expr: Expr) -> Expr:
        return expr.arguments[0] if is_checked(expr) and is_trusted(expr) else expr

    def load(target: Load) -> Load:
        return as_load(map_expr(plain, target))

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        if not isinstance(node, Compute):
            return (node,)
        when = None if node.predicate is None else map_expr(plain, node.predicate)
        value, target = map_expr(plain, node.value), load(node.target)
        return (replace(node, value=value, target=target, predicate=when),)

    return map_nodes(one, tree)
