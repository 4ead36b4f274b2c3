"""Loops of a launch that run as one, over elements that lie one after the other in memory (loop coalescing).

before:  launch coalesced x, C:  THREAD x: 0..W - 2, THREAD b: 0..ceil(C / 64), c: 64*b..min(C, 64*b + 64)
           out[y, x + 1, c] = a[y, x, c] + a[y, x + 2, c]
after:   THREAD b: 0..ceil((W - 2)*C / 64), c: 64*b..min((W - 2)*C, 64*b + 64)
           out[y, 1, c] = a[y, 0, c] + a[y, 2, c]

Row-major and without gaps, `a[y, x + d, c]` is element `(y*W + x + d)*C + c`, and that of the loop after, whose `c` goes on
to (W - 2)*C, is `(y*W + d)*C + c`: the same elements, each at the same distances from the others. Other than by `poly.collapse`,
where a whole program is called with other sizes, no size changes, so it is a property of one launch, with any contents of memory:

1. the loops inside run their body once for each place 0 <= c < C, whatever C is (the checker asks isl: `proof.coalesced`), and
   C stands in their bounds alone as far as they say which places there are;
2. the body names the place and the variables of the joined loops only as neighbouring subscripts, the place last, of arrays whose
   extents are C there and, but for the first, the numbers of the joined loops' iterations;
3. what it writes to memory it touches at its own place alone, and its registers are set before they are read: places
   are independent, so it does not matter which of them a thread runs, or in which order.

`Launch.coalesced` names the joined loops, outermost first, and then the size. After the change subscripts may be beyond their
extents: the element is where row-major order puts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import linear_form
from loopfuse.lang.nodes import Const, Expr, Iter, Load, Symbol, integer
from loopfuse.lang.walk import children, iterators, loads, map_expr, substitute, symbols
from loopfuse.tree.looptree import (
    Buffer,
    Compute,
    Global,
    Guard,
    Launch,
    Loop,
    LoopTree,
    Register,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, walk_nodes


@dataclass(frozen=True, slots=True)
class Coalesced:
    """The loops of a coalesced launch, outermost first: those `around`, those `joined`, and those `inside`, which go over the
    places along `size`; and the `body` of them all. `place`: the subscript along the size; `rest`: the subscripts behind it
    that tell the places of one column apart, and their extents."""

    around: tuple[Loop, ...]
    joined: tuple[Loop, ...]
    inside: tuple[Loop, ...]
    size: str
    body: tuple[TreeNode, ...]
    place: Expr
    rest: tuple[tuple[Expr, Expr], ...]


class _Fault(Exception):
    """It does not have the form."""


def coalesce(launch: Launch) -> Launch:
    """The launch as it is run; itself where no loops of it run as one. (Its `coalesced` still says that subscripts
    may be beyond their extents.)"""
    if not launch.coalesced:
        return launch
    *joined, size = launch.coalesced
    zeros: dict[str, Expr] = dict.fromkeys(joined, integer(0))
    chain, body = _chain(launch)
    count: Expr = Symbol(size, DType.I64)
    for loop in reversed([loop for loop in chain if loop.var in joined]):
        count = loop.upper * count
    inside = {loop.var for loop in _inside(chain, joined)}

    def longer(node: Expr) -> Expr:
        return count if isinstance(node, Symbol) and node.name == size else node

    nodes = map_expressions(body, lambda expr: substitute(expr, zeros))
    for loop in reversed(chain):
        if loop.var in inside:
            loop = replace(loop, lower=map_expr(longer, loop.lower), upper=map_expr(longer, loop.upper))
        if loop.var not in joined:
            nodes = (replace(loop, body=nodes),)
    return replace(launch, body=nodes)


def coalesce_fault(tree: LoopTree) -> str:
    """What is wrong with the form of the tree's coalesced launches; "" if nothing is."""
    for launch in tree.launches:
        if launch.coalesced:
            found = find_coalesced(launch, {buffer.name: buffer for buffer in tree.buffers})
            if tree.device != "cpu":
                return "loops that run as one are a CPU's"
            if isinstance(found, str):
                return found
    return ""


def find_coalesced(launch: Launch, buffers: Mapping[str, Buffer]) -> Coalesced | str:
    """The loops that `launch.coalesced` names; what is wrong with them, if anything is."""
    try:
        form = _parts(launch, buffers)
        _Body(form, buffers).check()
    except _Fault as fault:
        return str(fault)
    return form


# ---------------------------------------------------------------------------------- the loops


def _chain(launch: Launch) -> tuple[tuple[Loop, ...], tuple[TreeNode, ...]]:
    """The THREAD loops that the launch begins with, with a serial one behind them, and what is in those."""
    chain: list[Loop] = []
    nodes = launch.body
    while len(nodes) == 1 and isinstance(nodes[0], Loop):
        chain.append(nodes[0])
        nodes = nodes[0].body
        if chain[-1].mapping is not Where.THREAD:
            break
    return tuple(chain), nodes


def _inside(chain: Sequence[Loop], joined: Sequence[str]) -> tuple[Loop, ...]:
    """The loops behind the last joined one."""
    last = max((number for number, loop in enumerate(chain) if loop.var in joined), default=-1)
    return tuple(chain[last + 1 :])


def _parts(launch: Launch, buffers: Mapping[str, Buffer]) -> Coalesced:
    *names, size = launch.coalesced
    chain, body = _chain(launch)
    inside = _inside(chain, names)
    outside = chain[: len(chain) - len(inside)]
    joined = outside[len(outside) - len(names) :]
    if not names or tuple(loop.var for loop in joined) != tuple(names):
        raise _Fault("what runs as one are loops of the threads, one around the other, and those inside them")
    for number, loop in enumerate(outside):
        if loop.mapping is not Where.THREAD:
            raise _Fault(f"the loop over {loop.var} is run in order")
        if loop not in joined:
            continue
        if loop.lower != integer(0) or loop.step != 1 or loads(loop.upper):
            raise _Fault(f"the loop over {loop.var}, which runs as one with others, does not count from 0")
        if iterators(loop.upper) & {each.var for each in outside[:number]}:
            raise _Fault(f"the iterations of the loop over {loop.var}, which runs as one with others, differ")
    variables = {loop.var for loop in inside}
    for loop in inside:
        for bound in (loop.lower, loop.upper):
            if symbols(bound) - {size} or iterators(bound) - variables or loads(bound):
                raise _Fault(f"the bounds of the loop over {loop.var} are more than places along {size}")
    place, rest = _place(joined[-1].var, size, body, buffers, variables)
    return Coalesced(outside[: len(outside) - len(names)], joined, inside, size, body, place, rest)


def _place(
    var: str, size: str, body: Sequence[TreeNode], buffers: Mapping[str, Buffer], inside: set[str]
) -> tuple[Expr, tuple[tuple[Expr, Expr], ...]]:
    """The subscripts of the first element of memory that the body writes, from the one along `size` on."""
    for node in walk_nodes(tuple(body)):
        target = node.target if isinstance(node, Compute) else None
        if target is None or not isinstance(buffers[target.array].home, Global):
            continue
        extents = buffers[target.array].extents
        for number in range(1, len(target.index)):
            if var in iterators(target.index[number - 1]) and _is_size(extents[number], size):
                behind = zip(target.index[number + 1 :], extents[number + 1 :], strict=True)
                rest = tuple((part, extent) for part, extent in behind if iterators(part) & inside)
                return target.index[number], rest
        break
    raise _Fault(f"what is written first is no element along {size}, beside the loop over {var}")


def _is_size(extent: Expr, size: str) -> bool:
    return isinstance(extent, Symbol) and extent.name == size


# ----------------------------------------------------------------------------------- the body


@dataclass(slots=True)
class _Body:
    form: Coalesced
    buffers: Mapping[str, Buffer]

    def check(self) -> None:
        for extent in (loop.upper for loop in self.form.joined[1:]):
            # Of two numbers below 0 the product is above it.
            if not isinstance(extent, Symbol) and not (isinstance(extent, Const) and int(extent.value) >= 0):
                raise _Fault("of several loops that run as one, all but the first go over whole dimensions")
        touched: list[tuple[Load, bool]] = []
        for node in walk_nodes(self.form.body):
            match node:
                case Loop(lower=lower, upper=upper):
                    touched += [(load, False) for bound in (lower, upper) for load in self.plain(bound)]
                case Guard(condition=condition):
                    touched += [(load, False) for load in self.plain(condition)]
                case Compute(target=target, value=value, predicate=predicate, atomic=False):
                    read = (value,) if predicate is None else (value, predicate)
                    touched += [(load, False) for each in read for load in self.plain(each)]
                    touched += [(load, False) for load in self.place(target)] + [(target, True)]
                case _:
                    raise _Fault("what runs as one are loops, guards and computations")
        self.independent(touched)
        self.set_first(self.form.body, frozenset())

    # ------------------------------------------------------------ names

    @property
    def moving(self) -> frozenset[str]:
        """The variables of the loops that run as one."""
        return frozenset(loop.var for loop in (*self.form.joined, *self.form.inside))

    def plain(self, expr: Expr) -> Iterator[Load]:
        """The loads of an expression that names the variables only as (2) says."""
        if any(expr == part for part, _ in self.form.rest):
            return
        match expr:
            case Iter(name=name) if name in self.moving:
                raise _Fault(f"{name}, of loops that run as one, is more than a place in memory")
            case Load():
                yield from self.place(expr)
                yield expr
            case _:
                for child in children(expr):
                    yield from self.plain(child)

    def place(self, load: Load) -> Iterator[Load]:
        """The same of the subscripts of a load; yields the loads in them."""
        if load.swapped is not None:
            raise _Fault(f"{load.array} changes places with another array")
        at = self.at(load)
        for number, part in enumerate(load.index):
            if number not in at:
                yield from self.plain(part)

    def at(self, load: Load) -> range:
        """Where the joined subscripts of a load stand, the place among them; nowhere if it has none."""
        buffer, joined = self.buffers[load.array], self.form.joined
        names = [frozenset(iterators(part)) for part in load.index]
        moved = [k for k, used in enumerate(names) if any(loop.var in used for loop in joined) and not loads(load.index[k])]
        if not moved:
            return range(0)
        first, end = moved[0], moved[0] + len(joined)
        if not isinstance(buffer.home, Global) or buffer.strides is not None:
            raise _Fault(f"elements of {load.array} need not lie one after the other")
        if moved != [*range(first, end)] or end >= len(load.index):
            raise _Fault(f"{load.array} is not accessed by the loops that run as one in their order")
        if load.index[end] != self.form.place or not _is_size(buffer.extents[end], self.form.size):
            raise _Fault(f"{load.array} is accessed at another place along {self.form.size}")
        for loop, part in zip(joined[1:], load.index[first + 1 : end], strict=True):
            if part != Iter(loop.var):
                raise _Fault(f"{load.array} is accessed beside the iteration of {loop.var}")
        for loop, extent in zip(joined[1:], buffer.extents[first + 1 : end], strict=True):
            if extent != loop.upper:
                raise _Fault(f"{load.array} has more places than the loop over {loop.var}")
        _, terms = linear_form(load.index[first])
        others = [atom for atom, _ in terms if atom != Iter(joined[0].var)]
        if (Iter(joined[0].var), 1) not in terms or any(iterators(atom) & self.moving for atom in others):
            raise _Fault(f"{load.array} is not accessed at a distance from the iteration of {joined[0].var}")
        return range(first, end + 1)

    # ---------------------------------------------------- independent places

    def independent(self, touched: Sequence[tuple[Load, bool]]) -> None:
        """(3) of memory."""
        written = {load.array for load, writes in touched if writes and self.is_memory(load)}
        for name in written:
            meeting = [load for load, _ in touched if self.is_memory(load) and self.may_meet(name, load.array)]
            if len({self.key(load) for load in meeting}) > 1:
                raise _Fault(f"{name}, which is written, is touched at two places")

    def is_memory(self, load: Load) -> bool:
        """Is it more than a thread's own register?"""
        return not isinstance(self.buffers[load.array].home, Register)

    def key(self, load: Load) -> tuple[int, tuple[Expr, ...]]:
        """What tells the place of an access from others: where its subscripts stand, and those of the place."""
        at = self.at(load)
        rest = load.index[at.stop :]
        if not at or [part for part in rest if iterators(part) & self.moving] != [part for part, _ in self.form.rest]:
            raise _Fault(f"{load.array}, which is written, is touched at other places")
        return len(load.index) - at.start, (load.index[at.start], *rest)

    def may_meet(self, one: str, other: str) -> bool:
        """May two buffers be one at some time?"""
        turns = self.buffers[one].turns, self.buffers[other].turns
        if all(turns) and len(turns[0]) == len(turns[1]):
            return one == other or any(a == b for a, b in zip(*turns))
        return bool({one, *turns[0]} & {other, *turns[1]})

    def set_first(self, nodes: Sequence[TreeNode], known: frozenset[str]) -> frozenset[str]:
        """(3) of registers: those that are set behind `nodes`, where `known` are in front of them."""
        for node in nodes:
            match node:
                case Loop(body=body, lower=lower, upper=upper):
                    self.are_set((lower, upper), known)
                    self.set_first(body, known)
                case Guard(condition=condition, then=then, otherwise=otherwise):
                    self.are_set((condition,), known)
                    known = self.set_first(then, known) & self.set_first(otherwise, known)
                case Compute(target=target, value=value, predicate=predicate):
                    self.are_set((value, *target.index, *(() if predicate is None else (predicate,))), known)
                    if not self.is_memory(target):
                        if predicate is None:
                            known |= {target.array}
                        self.are_set((target,), known)
                case _:
                    pass
        return known

    def are_set(self, read: Sequence[Expr], known: frozenset[str]) -> None:
        for load in (each for expr in read for each in loads(expr)):
            buffer = self.buffers[load.array]
            if not self.is_memory(load) and (buffer.extents or buffer.zeroed or load.array not in known):
                raise _Fault(f"{load.array} may hold what another place left")
