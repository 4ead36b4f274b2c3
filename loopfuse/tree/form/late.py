"""Late copies: does everything that touches their places, or writes their sources, wait for them?

A thread runs the steps of a STREAMED loop, or of a SERIAL one by ones, one Arrive in each. A late copy to plane
`t + a` of a ring of K planes meets an access to plane `t + b` that comes (a - b) modulo K steps later
(K, where it stands before the copy in the text and the numbers are equal). So many Arrives lie
between them, one more or less by where they stand in the step; with `pending` groups still under
way after the last of them, one more than that must. A source is asked for like a ring without end.

Everything else about them is true of copies that come at once, and proved with those: in particular
that each cell is one thread's own, which `owner_fault` asks for as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopfuse.lang.linear import coefficients, same_index
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import walk_expr
from loopfuse.tree.looptree import (
    STREAMED,
    Arrive,
    Barrier,
    Buffer,
    Compute,
    Copy,
    Fold,
    Guard,
    Loop,
    LoopTree,
    Shared,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import bodies, node_expressions, split_chain, walk_nodes

Buffers = Mapping[str, Buffer]


def late_fault(tree: LoopTree) -> str:
    """What touches the place of a late copy too early, or writes its source; "" if nothing does."""
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    for launch in tree.launches:
        chain, body = split_chain(launch)
        late = [n for n in walk_nodes(body) if isinstance(n, Copy) and n.late]
        if not late:
            continue
        rings = {copy.target.array for copy in late}
        for ring in rings:
            if fault := owner_fault(ring, chain, body, buffers[ring]):
                return fault
            if fault := _outside(ring, body):
                return fault
        loops = [node for node in walk_nodes(body) if isinstance(node, Loop)]
        for loop in loops:
            if _has_steps(loop) and (fault := _fault_in_loop(loop, buffers)):
                return fault
    return ""


def _has_steps(loop: Loop) -> bool:
    """Is it one along which late copies may come: STREAMED, or SERIAL by ones?"""
    return loop.mapping in STREAMED or (loop.mapping is Where.SERIAL and loop.step == 1)


def spread_fault(loop: Loop) -> str:
    """What is wrong with the form of a SPREAD loop; "" if nothing is: it holds late copies, and guards
    around those and around copies to the same places."""
    inside = list(walk_nodes(loop.body))
    places = {node.target.array for node in inside if isinstance(node, Copy) and node.late}
    for node in inside:
        if not isinstance(node, Guard | Copy):
            return "it holds late copies and guards"
        if isinstance(node, Copy) and not node.late and {node.target.array} != places:
            return "it holds copies to where none comes late"
    return "" if len(places) == 1 else "late copies go to one ring in it"


def owner_fault(
    ring: str, chain: tuple[Loop, ...], body: tuple[TreeNode, ...], buffer: Buffer
) -> str:
    """What shows that a thread touches another's cells of a ring; "" if nothing does: each
    subscript that is a loop of the block's threads is the same in all accesses."""
    if not isinstance(buffer.home, Shared) or not buffer.home.rows:
        return f"late copies to {ring}, which is no ring of planes"
    touched = [load for load in _touches(body) if load.array == ring]
    threads = [loop.var for loop in chain if loop.mapping in _INNER]
    for var in threads:
        places = [k for k in range(1, len(buffer.extents)) if touched[0].index[k] == Iter(var)]
        if not any(all(each.index[k] == Iter(var) for each in touched) for k in places):
            return f"the threads of {var} do not each have cells of {ring} of their own"
    return ""


_INNER = (Where.BLOCK, Where.WARP, Where.LANE)


def _outside(ring: str, nodes: tuple[TreeNode, ...]) -> str:
    """What touches the ring before or after the one loop that does in a thread's run; "" for
    nothing. Of the two ways of a guard, a thread takes one."""
    using = [node for node in nodes if ring in {load.array for load in _touches((node,))}]
    if not using:
        return ""
    if len(using) > 1:
        return f"two loops, one after the other, touch {ring}, to which copies come late"
    (node,) = using
    if isinstance(node, Loop):
        return "" if _has_steps(node) else f"a loop around the steps that touch {ring}"
    if not bodies(node):
        return f"{ring} is touched outside the steps in which copies to it come late"
    return next((fault for body in bodies(node) if (fault := _outside(ring, body))), "")


@dataclass(frozen=True, slots=True)
class _Touch:
    """An access of a step: by which of the nodes that make up the step, and by what inside it;
    `around`: the loops and the branches of guards there."""

    number: int
    load: Load
    node: TreeNode
    writes: bool
    around: tuple[tuple[TreeNode, int], ...]

    @property
    def is_late(self) -> bool:
        """Is it the place of a late copy?"""
        return self.writes and isinstance(self.node, Copy) and self.node.late

    @property
    def is_spread(self) -> bool:
        """May another lane do it?"""
        return any(isinstance(n, Loop) and n.mapping is Where.SPREAD for n, _ in self.around)


def _fault_in_loop(loop: Loop, buffers: Buffers) -> str:
    touches = [t for number, node in enumerate(loop.body) for t in _inside(number, node, ())]
    if not any(touch.is_late for touch in touches):
        return ""
    arrives = [(k, node) for k, node in enumerate(loop.body) if isinstance(node, Arrive)]
    if len(arrives) != 1 or sum(isinstance(n, Arrive) for n in walk_nodes(loop.body)) > 1:
        return f"the steps of {loop.var} wait for late copies once, whatever is the case"
    ((place, arrive),) = arrives
    barriers = [
        k
        for k, node in enumerate(loop.body)
        if isinstance(node, Barrier) and node.scope in ("warp", "block")
    ]
    for copy in (touch for touch in touches if touch.is_late):
        assert isinstance(copy.node, Copy) and isinstance(copy.node.value, Load)
        if not all(_has_own_cells(node, copy.load) for node, _ in copy.around):
            return f"late copies of one step to {copy.load.array} may meet"
        home, source = buffers[copy.load.array].home, copy.node.value
        for other in touches:
            if other.load.array == copy.load.array:
                steps = _steps_round(
                    copy, other, loop.var, home.rows if isinstance(home, Shared) else 1
                )
            elif other.writes and other.load.array == source.array:
                steps = _steps_apart(source.index, other.load.index, loop.var)
                if steps is not None and steps < 0:
                    continue  # written before: what the copy then reads is asked elsewhere
            else:
                continue
            name = other.load.array
            if steps is None:
                return f"which step touches a plane of {name} is not plain"
            waited = steps - 1 + (place > copy.number) + (place < other.number)
            if waited <= arrive.pending:
                return f"{name} is touched before a late copy has come"
            is_seen = any(place < barrier < other.number for barrier in barriers)
            if copy.is_spread and not other.is_late and not is_seen:
                return f"{name} is touched before other lanes' late copies are seen"
            if copy.is_spread and not _takes_turns(copy, other, barriers):
                return f"late copies of other lanes to {name} begin while it is read"
    return ""


def _takes_turns(copy: _Touch, other: _Touch, barriers: list[int]) -> bool:
    """Is there a barrier after an access to a plane, and before the next copy to one?"""
    if other.number == copy.number or other.load.array != copy.load.array:
        return True  # a lane's turn comes to both together
    if other.number < copy.number:
        return any(other.number < barrier < copy.number for barrier in barriers)
    return any(barrier > other.number or barrier < copy.number for barrier in barriers)


def _steps_round(copy: _Touch, other: _Touch, step: str, rows: int) -> int | None:
    """How many steps after the copy begins the other touches its plane; None where that is not
    plain."""
    here, there = _ahead(copy.load.index[0], step), _ahead(other.load.index[0], step)
    if here is None or there is None or not same_index(here[1], there[1]):
        return None
    steps = (here[0] - there[0]) % rows
    if steps or other.number > copy.number:
        return steps
    if other.number < copy.number or other is copy or _are_apart(copy, other):
        return rows
    return None


def _are_apart(one: _Touch, other: _Touch) -> bool:
    """Do the two, inside one node of a step, touch no cell both: either the one or the other
    is done, in each iteration of the loops around them, which has cells of its own?"""
    for (node, branch), (like, way) in zip(one.around, other.around, strict=False):
        if node is not like:
            return False
        if branch != way:
            return True
        if not (_has_own_cells(node, one.load) and _has_own_cells(node, other.load)):
            return False
        if isinstance(node, Loop):
            place = one.load.index.index(Iter(node.var))
            if other.load.index[place] != Iter(node.var):
                return False
    return False


def _has_own_cells(node: TreeNode, load: Load) -> bool:
    """Does each iteration of a loop around the access (any other node has one) touch cells of its
    own?"""
    return not isinstance(node, Loop) or Iter(node.var) in load.index


def _steps_apart(here: tuple[Expr, ...], there: tuple[Expr, ...], step: str) -> int | None:
    """How many steps after the one that touches `here` the one comes that touches `there` at the
    same place along some dimension; None where that is not plain."""
    for one, other in zip(here, there, strict=True):
        first, second = _ahead(one, step), _ahead(other, step)
        if first is not None and second is not None and same_index(first[1], second[1]):
            return first[0] - second[0]
    return None


def _ahead(part: Expr, step: str) -> tuple[int, Expr] | None:
    """(c, rest) of a subscript `step + c + rest`."""
    constant, named, linear = coefficients(part)
    if not linear or named.get(step) != 1:
        return None
    rest: Expr = part - constant
    return constant, rest - Iter(step)


def _inside(
    number: int, node: TreeNode, around: tuple[tuple[TreeNode, int], ...]
) -> Iterator[_Touch]:
    expressions = node_expressions(node)
    for expr in expressions:
        for load in walk_expr(expr):
            if isinstance(load, Load):
                writes = isinstance(node, Compute | Copy | Fold) and load is expressions[-1]
                yield _Touch(number, load, node, writes, around)
    for branch, body in enumerate(bodies(node)):
        for inner in body:
            yield from _inside(number, inner, (*around, (node, branch)))


def _touches(nodes: tuple[TreeNode, ...]) -> Iterator[Load]:
    for node in walk_nodes(nodes):
        for expr in node_expressions(node):
            yield from (each for each in walk_expr(expr) if isinstance(each, Load))
