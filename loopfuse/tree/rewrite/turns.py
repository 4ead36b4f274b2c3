"""Two launches that are one with its arrays exchanged are one, which the host runs twice.

    before:  host t in 0..T:
               launch k_0: b[y] = f(a[y-1], a[y+1])
               launch k_1: a[y] = f(b[y-1], b[y+1]); last[y] = ...
    after:   buffers from: a, b in turn; to: b, a in turn
             host t in 0..T:
               host half in 0..2 turning from, to:
                 launch k_1: to[y] = f(from[y-1], from[y+1]); if half == 1: last[y] = ...

What a block of time steps reads it must not write, so it goes from an array to its copy, and the next one back:
what differs between the two is names, which half of the steps a statement belongs to, and what only the second stores.

Side condition: the second launch, with the first's names, is the first where `half` is 0. It holds by the way the
merged launch is made: every part is taken from both. The checker does not trust that: `erase` writes the two
halves' names out again, under guards, and all is proved of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from loopfuse.lang.linear import from_linear, linear, linear_form
from loopfuse.lang.nodes import Expr, Iter, Load, compare, integer
from loopfuse.lang.walk import children, iterators, substitute, walk_expr, with_children
from loopfuse.tree.looptree import (
    STREAMED,
    Arrive,
    Barrier,
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    Prefetch,
    Scan,
    TreeNode,
)
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes

Fresh = Callable[[str], str]
"""A name like this one that nothing has."""


def merge(tree: LoopTree, fresh: Fresh) -> LoopTree:
    """The tree with every two launches, one after the other in a host loop, that are one with arrays
    exchanged, made one."""
    added: list[Buffer] = []

    def host(nodes: Sequence[HostNode], is_loop: bool) -> tuple[HostNode, ...]:
        out: list[HostNode] = []
        for node in nodes:
            if isinstance(node, HostLoop):
                out.append(replace(node, body=host(node.body, True)))
                continue
            last = out[-1] if out and is_loop else None
            if isinstance(last, Launch):
                found = _merged(tree, last, node, fresh)
                if found is not None:
                    loop, buffers = found
                    out[-1] = loop
                    added.extend(buffers)
                    continue
            out.append(node)
        return tuple(out)

    body = host(tree.body, False)
    if not added:
        return tree
    tree = replace(tree, buffers=(*tree.buffers, *added), body=body)
    used = {load.array for launch in tree.launches for load in _touched(launch.body)}
    used |= {name for buffer in added for name in buffer.turns}
    used |= {n.buffer for launch in tree.launches for n in walk_nodes(launch.body) if isinstance(n, Combine | Scan)}
    used |= {b.factors for b in tree.buffers if b.name in used}
    kept = tuple(b for b in tree.buffers if b.name in used or isinstance(b.home, Global))
    return replace(tree, buffers=kept)


def erase(tree: LoopTree) -> LoopTree:
    """The tree with the names that buffers have in turn, under guards that ask whose turn it is."""

    def host(node: HostNode, loop: HostLoop | None) -> HostNode:
        if isinstance(node, HostLoop):
            inner = node if node.turns else loop
            return replace(node, turns=(), body=tuple(host(each, inner) for each in node.body))
        return node if loop is None else replace(node, body=_spelled(tree, node.body, loop))

    if not any(buffer.turns for buffer in tree.buffers):
        return tree
    kept = tuple(buffer for buffer in tree.buffers if not buffer.turns)
    return replace(tree, buffers=kept, body=tuple(host(node, None) for node in tree.body))


# ----------------------------------------------------------------------------------- erasing


def _spelled(tree: LoopTree, nodes: Sequence[TreeNode], loop: HostLoop) -> tuple[TreeNode, ...]:
    out: list[TreeNode] = []
    for node in nodes:
        if not any(load.array in loop.turns for load in _touched((node,))):
            out.append(node)
            continue
        match node:
            case Loop(mapping=mapping) if mapping.is_parallel or mapping in (Mapping.SERIAL, *STREAMED):
                out.append(replace(node, body=_spelled(tree, node.body, loop)))
            case Guard(condition=condition, then=then, otherwise=otherwise):
                one, other = (_spelled(tree, way, loop) for way in (then, otherwise))
                out.append(Guard(condition, one, other))
            case _:
                last: tuple[TreeNode, ...] = ()
                for number, names in reversed([*enumerate(tree.in_turn(loop))]):
                    here = map_expressions((node,), lambda expr, names=names: _renamed(expr, names))
                    test = compare("eq", Iter(loop.var), integer(number))
                    last = (Guard(test, here, last),) if last else here
                out += last
    return tuple(out)


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    parts = tuple(_renamed(part, names) for part in children(expr))
    expr = with_children(expr, parts)
    return replace(expr, array=names.get(expr.array, expr.array)) if isinstance(expr, Load) else expr


def _touched(nodes: Sequence[TreeNode]) -> Iterator[Load]:
    for node in walk_nodes(tuple(nodes)):
        for expr in node_expressions(node):
            for part in walk_expr(expr):
                if isinstance(part, Load):
                    yield part


# ----------------------------------------------------------------------------------- merging


@dataclass(slots=True)
class _Unlike(Exception):
    """The two are not one."""


def _merged(
    tree: LoopTree, first: Launch, second: Launch, fresh: Fresh
) -> tuple[HostLoop, tuple[Buffer, ...]] | None:
    """The host loop that runs both, and the buffers that turn with it; None where they are not one."""
    like = replace(second, name=first.name, body=first.body, registers=first.registers)
    if like != first or _length(first.body) > _length(second.body):
        return None
    merger = _Merger(tree, Iter("half"))
    try:
        body = merger.nodes(first.body, second.body)
    except _Unlike:
        return None
    if not merger.turning:  # nothing is exchanged: two launches that happen to be alike
        return None
    half = fresh("half")
    names: dict[str, str] = {}
    buffers: list[Buffer] = []
    written = {load.array for load in _targets(body)}
    for (one, other), name in merger.turning.items():
        array = tree.buffer(one).array
        names[name] = fresh(f"{array}__{'to' if name in written else 'from'}")
        like_both = tree.buffer(other)
        buffers.append(
            replace(like_both, name=names[name], argument=False, zeroed=False, turns=(one, other))
        )
    final = map_expressions(
        body, lambda expr: substitute(_renamed(expr, names), {"half": Iter(half)})
    )
    registers = max(first.registers, second.registers) if first.registers and second.registers else 0
    launch = replace(second, body=final, registers=registers)
    turns = tuple(buffer.name for buffer in buffers)
    return HostLoop(half, integer(0), integer(2), 1, (launch,), turns), tuple(buffers)


def _length(nodes: Sequence[TreeNode]) -> int:
    return sum(1 for _ in walk_nodes(tuple(nodes)))


def _targets(nodes: Sequence[TreeNode]) -> Iterator[Load]:
    for node in walk_nodes(tuple(nodes)):
        if isinstance(node, Compute | Copy | Fold):
            yield node.target


@dataclass(slots=True)
class _Merger:
    """Walks two launches side by side. What is the same in both is the second's, by its names."""

    tree: LoopTree
    half: Iter
    names: dict[str, str] = field(default_factory=dict[str, str])
    """Loop variables and buffers of the first by those of the second, and back (behind a `<`)."""
    turning: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """What stands for each two buffers."""

    def nodes(self, ones: Sequence[TreeNode], others: Sequence[TreeNode]) -> tuple[TreeNode, ...]:
        """The nodes of both; what only the second has runs in its turn."""
        out: list[TreeNode] = []
        rest = list(ones)
        for other in others:
            known = dict(self.names), dict(self.turning)
            if rest:
                try:
                    out.append(self.node(rest[0], other))
                    rest.pop(0)
                    continue
                except _Unlike:
                    self.names, self.turning = known
            out.append(Guard(compare("eq", self.half, integer(1)), (other,)))
        if rest:
            raise _Unlike
        return tuple(out)

    def node(self, one: TreeNode, other: TreeNode) -> TreeNode:
        match one, other:
            case Loop(), Loop():
                at_once = one.mapping is Mapping.VECTOR and other.mapping is Mapping.UNROLLED
                if one.step != other.step or (one.mapping is not other.mapping and not at_once):
                    raise _Unlike
                bounds = self.same(one.lower, other.lower), self.same(one.upper, other.upper)
                if bounds != (other.lower, other.upper):
                    raise _Unlike
                self.pair(one.var, other.var)
                return replace(other, body=self.nodes(one.body, other.body))
            case Guard(), Guard() if self.is_same(one.condition, other.condition):
                ways = self.nodes(one.then, other.then), self.nodes(one.otherwise, other.otherwise)
                return Guard(other.condition, *ways)
            case _, Guard() if other.otherwise:  # both of whose ways are what the first does
                ways = self.nodes((one,), other.then), self.nodes((one,), other.otherwise)
                return Guard(other.condition, *ways)
            case Compute(), Compute() if one.statement == other.statement:
                if (one.predicate is None) != (other.predicate is None) or one.atomic != other.atomic:
                    raise _Unlike
                iteration = tuple(map(self.moved, one.iteration, other.iteration))
                predicate = other.predicate
                if one.predicate is not None and other.predicate is not None:
                    predicate = self.same(one.predicate, other.predicate)
                value, target = self.same(one.value, other.value), self.load(one.target, other.target)
                return replace(
                    other, iteration=iteration, predicate=predicate, value=value, target=target
                )
            case Copy(), Copy() if one.late == other.late:
                value, target = self.same(one.value, other.value), self.load(one.target, other.target)
                return replace(other, value=value, target=target)
            case Prefetch(), Prefetch():
                return Prefetch(self.load(one.source, other.source))
            case (Barrier() | Arrive()), _ if one == other:
                return other
            case _:
                raise _Unlike

    def pair(self, one: str, other: str) -> None:
        """The first's `one` is the second's `other`, and nothing else is either."""
        if self.names.setdefault(one, other) != other or self.names.setdefault(f"<{other}", one) != one:
            raise _Unlike

    def load(self, one: Load, other: Load) -> Load:
        found = self.same(one, other)
        assert isinstance(found, Load)
        return found

    def same(self, one: Expr, other: Expr) -> Expr:
        """The expression that is both."""
        if isinstance(one, Iter) and isinstance(other, Iter):
            if self.names.get(one.name, one.name) != other.name:
                raise _Unlike
            return other
        parts = children(one), children(other)
        if type(one) is not type(other) or len(parts[0]) != len(parts[1]):
            raise _Unlike
        if isinstance(one, Load) and isinstance(other, Load):
            name = self.buffer(one.array, other.array)
            is_memory = isinstance(self.tree.buffer(one.array).home, Global)
            merged = tuple(map(self.moved if is_memory else self.same, *parts))
            one, other = replace(one, array=name), replace(other, array=name)
        else:
            merged = tuple(map(self.same, *parts))
        if not parts[0]:  # not ==, for which 0.0 is -0.0
            is_one = repr(one) == repr(other)
        else:
            is_one = with_children(one, parts[1]) == other
        if not is_one:
            raise _Unlike
        return with_children(other, merged)

    def is_same(self, one: Expr, other: Expr) -> bool:
        try:
            return self.same(one, other) == other
        except _Unlike:
            return False

    def moved(self, one: Expr, other: Expr) -> Expr:
        """The value of an iterator or a subscript in both; of one that moves with a host loop, that of the
        first may be so many less."""
        names = {name: Iter(to) for name, to in self.names.items()}
        (here, terms), (there, others) = linear_form(substitute(one, names)), linear_form(other)
        if terms != others or here == there or iterators(other) <= {*self.names.values()}:
            return self.same(one, other)
        later = self.half * (there - here)
        found = other + (here - there) + later
        sums = linear(found)
        return found if sums is None else from_linear(sums, frozenset(sums) - iterators(found) - {""})

    def buffer(self, one: str, other: str) -> str:
        here, there = self.tree.buffer(one), self.tree.buffer(other)
        if one == other:
            return other
        like = replace(here, name=other, array=there.array, argument=there.argument)
        if isinstance(here.home, Global):
            if replace(like, zeroed=there.zeroed) != there or here.strides is not None:
                raise _Unlike
            return self.turning.setdefault((one, other), f"turn {len(self.turning)}")
        if like != there:
            raise _Unlike
        self.pair(one, other)
        return other
