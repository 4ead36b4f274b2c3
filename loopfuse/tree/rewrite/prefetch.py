"""Loads of a serial loop run ahead of what needs them, in registers.

    before:  serial t in 0..T: h[] = fma(a[t], h[], b[]);  y[t] = h[]
    after:   serial q in 0..T // 32:
               if q == 0: u in 0..32: ahead[u] = a[u]
               u in 0..32: now[u] = ahead[u]
               if q + 1 < T // 32: u in 0..32: ahead[u] = a[(q + 1) * 32 + u]
               u in 0..32: h[] = fma(now[u], h[], b[]);  y[q * 32 + u] = h[]
             serial t in T // 32 * 32..T: h[] = fma(a[t], h[], b[]);  y[t] = h[]

Side condition: the launch writes nothing that runs ahead, and each iteration loads it whatever happens, at a place
that no data names. The checker sees the copies as it sees every other. What all threads of a warp load from one place
stays where it is: a cache has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, Symbol, combine, compare, integer
from loopfuse.lang.walk import iterators, loads, map_expr, substitute, sure_loads
from loopfuse.tree.looptree import Buffer, Compute, Copy, Global, Guard, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import bodies, map_expressions, walk_nodes

AHEAD = 64
"""Registers of 4 bytes for what is under way and for arrays of a thread's own, at most."""
LONGEST, SHORTEST = 32, 4
"""Iterations whose loads run ahead together."""
MOST_WRITTEN = 512
"""Computations that they are written out as, at most."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a tree's names are: its buffers by name (those made here are added), new names, the buffers that the
    launch writes, and the loop that tells neighbouring threads apart."""

    buffers: dict[str, Buffer]
    fresh: Callable[[str], str]
    written: frozenset[str]
    thread: str

    def register(self, load: Load, count: int) -> str:
        """So many registers for what `load` loads."""
        name = self.fresh(f"{load.array}_ahead")
        self.buffers[name] = Buffer(name, self.buffers[load.array].array, load.dtype, (integer(count),), Register())
        return name


def written_in(nodes: Sequence[TreeNode]) -> frozenset[str]:
    """The buffers that computations and copies write."""
    return frozenset(node.target.array for node in walk_nodes(tuple(nodes)) if isinstance(node, Compute | Copy))


def with_loads_ahead(nodes: Sequence[TreeNode], scope: Scope) -> tuple[TreeNode, ...]:
    """The nodes with loads ahead in those of their serial loops that store as they go."""
    out: list[TreeNode] = []
    for node in nodes:
        match node:
            case Loop(mapping=Where.SERIAL) if stores_as_it_goes(node, scope.buffers):
                out += ahead(node, scope)
            case Loop(body=body):
                out.append(replace(node, body=with_loads_ahead(body, scope)))
            case Guard(then=then, otherwise=otherwise):
                ways = with_loads_ahead(then, scope), with_loads_ahead(otherwise, scope)
                out.append(replace(node, then=ways[0], otherwise=ways[1]))
            case _:
                out.append(node)
    return tuple(out)


def stores_as_it_goes(loop: Loop, buffers: Mapping[str, Buffer]) -> bool:
    """Does each iteration store to memory, at a place of its own, whose neighbours are not the loop's?"""
    targets = [node.target for node in loop.body if isinstance(node, Compute)]
    return any(isinstance(buffers[t.array].home, Global) and goes_across(loop.var, t) for t in targets)


def goes_across(var: str, load: Load) -> bool:
    """Does the place move with the variable, but not to a neighbour in memory?"""
    *leading, last = [iterators(part) for part in load.index] or [frozenset[str]()]
    return any(var in names for names in leading) and var not in last


def ahead(loop: Loop, scope: Scope) -> tuple[TreeNode, ...]:
    """The loop with its loads ahead; as it is where there are none, or too many."""
    wanted = list(dict.fromkeys(_streamed(loop, scope)))
    if loop.step != 1 or not wanted or loads(loop.lower) or loads(loop.upper):
        return (loop,)
    if any(isinstance(node, Loop) and node.mapping is not Where.UNROLLED for node in walk_nodes(loop.body)):
        return (loop,)  # that takes longer than its loads
    registers = sum(_words(load.dtype) for load in wanted)
    free = AHEAD - _in_arrays(loop.body, scope)
    most = min(LONGEST, free // registers, MOST_WRITTEN // _computations(loop.body))
    count = 1 << max(most, 0).bit_length() >> 1
    trips = tidy(loop.upper - loop.lower)
    if count < SHORTEST or (isinstance(trips, Const) and trips.value < 2 * count):
        return (loop,)
    # `1..T` of no places at all has fewer than none.
    some = trips if isinstance(trips, Const | Symbol) else combine("max", integer(0), trips)
    chunk, chunks = scope.fresh(f"{loop.var}q"), tidy(some // count)

    def at(number: Expr, u: Expr) -> dict[str, Expr]:
        return {loop.var: tidy(loop.lower + number * count + u)}

    def written_out(body: Callable[[Expr], tuple[TreeNode, ...]]) -> Loop:
        var = scope.fresh("u")
        return Loop(var, integer(0), integer(count), 1, Where.UNROLLED, body(Iter(var)))

    under_way = {load: scope.register(load, count) for load in wanted}
    come = {load: scope.register(load, count) for load in wanted}

    def cell(cells: dict[Load, str], load: Load, u: Expr) -> Load:
        return Load(cells[load], (u,), load.dtype, span=load.span)

    def asked(number: Expr) -> Loop:
        return written_out(
            lambda u: tuple(
                Copy(cell(under_way, load, u), _moved(load, at(number, u))) for load in wanted
            )
        )

    def computed(u: Expr) -> tuple[TreeNode, ...]:
        def change(expr: Expr) -> Expr:
            held = map_expr(lambda e: cell(come, e, u) if isinstance(e, Load) and e in come else e, expr)
            return tidy(substitute(held, at(Iter(chunk), u)))

        return map_expressions(_renamed(loop.body, scope), change)

    body = (
        Guard(compare("eq", Iter(chunk), integer(0)), (asked(integer(0)),)),
        written_out(lambda u: tuple(Copy(cell(come, load, u), cell(under_way, load, u)) for load in wanted)),
        Guard(Iter(chunk) + 1 < chunks, (asked(Iter(chunk) + 1),)),
        written_out(computed),
    )
    rest = tidy(loop.lower + chunks * count)
    return (
        Loop(chunk, integer(0), chunks, 1, Where.SERIAL, body),
        replace(loop, lower=rest),
    )


def _moved(load: Load, values: dict[str, Expr]) -> Load:
    moved = tidy(substitute(load, values))
    assert isinstance(moved, Load)
    return moved


def _renamed(nodes: Sequence[TreeNode], scope: Scope) -> tuple[TreeNode, ...]:
    """The nodes with new names for the loops among them."""
    out: list[TreeNode] = []
    for node in nodes:
        if isinstance(node, Loop):
            var = scope.fresh(node.var)
            inside = map_expressions(node.body, lambda e, old=node.var, new=var: substitute(e, {old: Iter(new)}))
            out.append(replace(node, var=var, body=_renamed(inside, scope)))
        else:
            out.append(node)
    return tuple(out)


def _streamed(loop: Loop, scope: Scope) -> Iterator[Load]:
    """Loads from memory that each iteration of the loop does, whatever its data are, each at a place of its own,
    and neighbouring threads at neighbouring places."""
    inside = {node.var for node in walk_nodes(loop.body) if isinstance(node, Loop)}
    for load in _loaded(loop.body):
        names = {name for part in load.index for name in iterators(part)}
        if not goes_across(loop.var, load) or scope.thread not in iterators(load.index[-1]):
            continue
        if names & inside or load.array in scope.written:
            continue
        if isinstance(scope.buffers[load.array].home, Global) and not any(loads(part) for part in load.index):
            yield load


def _loaded(nodes: Sequence[TreeNode]) -> Iterator[Load]:
    """The loads of values that the nodes compute whatever the data are."""
    for node in nodes:
        match node:
            case Compute(value=value, predicate=None):
                yield from sure_loads(value)
            case Loop(body=body) if constant_value(node.upper - node.lower):
                yield from _loaded(body)
            case _:
                pass


def _words(dtype: DType) -> int:
    """Registers of 4 bytes for a value."""
    return max(dtype.bytes // 4, 1)


def _in_arrays(nodes: Sequence[TreeNode], scope: Scope) -> int:
    """Registers of the thread's own arrays that the nodes write."""
    own = [buffer for name in written_in(nodes) if isinstance((buffer := scope.buffers[name]).home, Register) and buffer.extents]
    return sum(_words(buffer.dtype) * prod(constant_value(extent) or 1 for extent in buffer.extents) for buffer in own)


def _computations(nodes: Sequence[TreeNode]) -> int:
    """How many computations the nodes are, written out."""
    found = 0
    for node in nodes:
        trips = constant_value(node.upper - node.lower) if isinstance(node, Loop) and node.mapping is Where.UNROLLED else 1
        found += isinstance(node, Compute) + (trips or 1) * sum(map(_computations, bodies(node)))
    return found
