"""Loops whose bounds are loaded: does a header read the bounds that the program's loop has?

The model runs such a loop over an interval around all its iterations: two symbols, the same in all
runs of the loop. What is outside the bounds that a run really has changes nothing there (a
predicate undoes it, or its result is private to the iteration), so a tree may leave it out, and no
more than that. A tree's loop loads its bounds, and they are those of each statement inside:

1. each bound that is loaded is one Load, of the scalar that bounds the statement's own loop, and
   the loop's variable is the statement's iterator: the loop then leaves out what does not happen;
2. the Load finds what the program's loop reads: the value that the same run of the loop was given;
3. it finds such a value wherever the header stands, also where nothing inside is to run: else the
   loop would run for as long as the storage happened to say;
4. anything else inside fills storage for readers in the same iteration, which are left out with it.

Races, barriers and the ends of buffers are found as for any other read: headers are in `Accesses`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from loopfuse.lang.nodes import Expr, Iter, Load, Symbol
from loopfuse.lang.walk import loads, symbols
from loopfuse.poly import isl
from loopfuse.poly.isl_relations import is_equal_along
from loopfuse.poly.model import PolyProgram, Statement
from loopfuse.proof.accesses import Accesses, Read, union
from loopfuse.proof.events import Leaf, Undecided
from loopfuse.proof.found import Values
from loopfuse.tree.looptree import (
    Compute,
    Copy,
    Global,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Register,
    strip_of,
)
from loopfuse.tree.printer import print_node
from loopfuse.tree.walk import node_expressions, walk_nodes


@dataclass(frozen=True, slots=True)
class LoadedBound:
    """A bound of `header`'s loop: the read of it, what sets the scalar it is, and maps
    { header -> value } of what the statements inside need it to be."""

    header: Leaf
    read: Read
    setter: Statement
    wanted: tuple[Any, ...]


def invented_symbol(program: PolyProgram, tree: LoopTree) -> str:
    """A symbol of the model alone that the tree uses as if it were a parameter; "" if none."""
    used = (
        {name for expr in _expressions(tree) for name in symbols(expr)} if program.unknown else {}
    )
    return next((name for name in program.unknown if name in used), "")


def _expressions(tree: LoopTree) -> Iterator[Expr]:
    def host(body: tuple[HostNode, ...]) -> Iterator[Expr]:
        for node in body:
            if isinstance(node, HostLoop):
                yield from (node.lower, node.upper)
                yield from host(node.body)
            else:
                for each in walk_nodes(node.body):
                    yield from node_expressions(each)

    yield from host(tree.body)
    for buffer in tree.buffers:
        yield from buffer.extents


def read_headers(values: Values) -> tuple[list[LoadedBound], list[str]]:
    """The loaded bounds of all loops that can start, noted as reads; and what may be left out
    though it happens, as far as these rules know. (Other checks may find that it is missing.)"""
    accesses, events = values.accesses, values.accesses.events
    noted: list[tuple[Leaf, Load, Read]] = []
    for header in events.headers:
        assert isinstance(header.node, Loop)
        if header.points.is_empty():
            continue
        for load in dict.fromkeys((*loads(header.node.lower), *loads(header.node.upper))):
            if strip_of(events.buffers[load.array].home) is not None:
                raise Undecided(f"the bounds of the loop over {header.node.var} are in lanes")
            noted.append((header, load, accesses.add_read(header, load)))
    wanted: dict[tuple[str, Load], list[Any]] = {}
    doubts: list[str] = []
    for leaf in events.leaves:
        if leaf.points.is_empty() or (leaf.run_time and _serves_its_iteration(values, leaf)):
            continue
        try:
            for header, load, value in _wanted(accesses, leaf):
                wanted.setdefault((header.name, load), []).append(value)
        except Undecided as doubt:
            doubts.append(str(doubt))
    found = [
        LoadedBound(
            header, read, _setter(accesses, load), tuple(wanted.get((header.name, load), ()))
        )
        for header, load, read in noted
    ]
    return found, doubts


def _serves_its_iteration(values: Values, leaf: Leaf) -> bool:
    """Does the leaf fill storage that nobody reads but in the same iteration of all the loops
    around it whose bounds are data? Where a loop leaves the leaf out, it leaves out its readers too."""
    node = leaf.node
    if not isinstance(node, Compute | Copy):
        return False
    reads = values.accesses.reads.get(node.target.array, [])
    buffer = values.events.buffers[node.target.array]
    if isinstance(buffer.home, Register):
        return all(values.in_line(read) is not None for read in reads)
    if buffer.argument or not isinstance(buffer.home, Global):
        return False
    return all(_reads_in_its_iteration(values, leaf, read) for read in reads)


def _reads_in_its_iteration(values: Values, leaf: Leaf, read: Read) -> bool:
    """Does the read find what the leaf wrote in the same iteration of those loops alone, if at all?"""
    header = leaf.run_time[-1].node
    assert isinstance(header, Loop)
    outer = leaf.names[: leaf.names.index(header.var) + 1]
    for write, pairs in values.sources_of(read):
        if write.leaf is not leaf or pairs is None:
            continue
        if read.leaf.names[: len(outer)] != outer or read.leaf.launch != leaf.launch:
            return False
        if not all(is_equal_along(pairs, k, k) for k in range(len(outer))):
            return False
    return True


def misread_bound(accesses: Accesses, values: Values, bound: LoadedBound) -> tuple[str, Any] | None:
    """What is wrong with the value of a loaded bound, and a relation that shows it."""
    assert isinstance(bound.header.node, Loop)
    var, buffer = bound.header.node.var, bound.read.buffer
    found = values.at(buffer)[bound.read.name]
    for value in bound.wanted:
        value = value.set_tuple_name(isl.IN, bound.read.name)
        missing = value.subtract(union(found, value))
        if not missing.is_empty():
            return f"the loop over {var} reading its bound {buffer} does not find", missing
    unset = bound.read.cell
    for value in found:
        if isl.range_name(value) == bound.setter.id:
            unset = unset.subtract_domain(value.domain())
    if not unset.is_empty():
        return f"the loop over {var} reads its bound {buffer} where nothing has set it", unset
    return None


def _wanted(accesses: Accesses, leaf: Leaf) -> Iterator[tuple[Leaf, Load, Any]]:
    """(header, bound, { header -> value }) for each loaded bound around a leaf. Raises Undecided
    where the leaf may be left out though it happens."""
    for header in leaf.run_time:
        tree_loop = header.node
        assert isinstance(tree_loop, Loop)
        var, node = tree_loop.var, leaf.node
        assert not isinstance(node, Launch)
        if not isinstance(node, Compute):
            raise Undecided(f"`{print_node(node)}` in the loop over {var}, which may be empty")
        statement = accesses.statement_of(leaf)
        position = _own_loop(statement, node, var)
        if position is None:
            raise Undecided(f"{statement.id} in the loop over {var}, which may be empty")
        loop = statement.loops[position]
        if tree_loop.step != 1 or loop.step != 1:
            raise Undecided(f"the loop over {var}, which starts anywhere, has a step")
        for given, own in ((tree_loop.lower, loop.lower), (tree_loop.upper, loop.upper)):
            if not loads(given):
                continue
            if not (
                isinstance(given, Load)
                and isinstance(own, Symbol)
                and own.name in loop.unknown
                and accesses.events.buffers[given.array].array == own.name
            ):
                raise Undecided(f"the loop over {var} has other bounds than {statement.id}")
            setter = _setter(accesses, given)
            outer = len(setter.iterators)
            if outer > position or setter.iterators != statement.iterators[:outer]:
                raise Undecided(f"{setter.id} does not stand before the loops of {statement.id}")
            place = leaf.relation([Iter(name) for name in header.names], header.name)
            value = leaf.relation(node.iteration[:outer], setter.id)
            yield header, given, place.reverse().apply_range(value)


def _own_loop(statement: Statement, node: Compute, var: str) -> int | None:
    """Which of the statement's loops, one whose bounds are data, the tree's loop over `var` is."""
    for position, (loop, value) in enumerate(zip(statement.loops, node.iteration, strict=True)):
        if loop.unknown and value == Iter(var):
            return position
    return None


def _setter(accesses: Accesses, load: Load) -> Statement:
    """The one statement that sets the scalar a bound is."""
    program = accesses.events.program
    name = accesses.events.buffers[load.array].array
    setters = [each for each in program.statements if each.target.array == name]
    if name not in program.unknown or len(setters) != 1:
        raise Undecided(f"{load.array} is not set once for each run of its loop")
    return setters[0]
