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
4. anything else inside fills storage for readers in the same iteration, which are left out with it, or
   is a Fold of what updates in the same iteration left (which 1 to 3 are asked of): where these do not happen, it would
   add nothing. What it adds to was not set anew in that iteration by a Copy alone, or is read in no other.

Races, barriers and the ends of buffers are found as for any other read: headers are in `Accesses`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    Fold,
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


def read_headers(values: Values, ask: Callable[[Callable[[], Any]], Any]) -> tuple[list[LoadedBound], list[str]]:
    """The loaded bounds of all loops that can start, noted as reads; and what may be left out
    though it happens, as far as these rules know. (Other checks may find that it is missing.) `ask` answers each question
    within isl's limit."""
    accesses, events = values.accesses, values.accesses.events
    noted: list[tuple[Leaf, Load, Read]] = []
    for header in events.headers:
        assert isinstance(header.node, Loop)
        if header.points.is_empty():
            continue
        for load in dict.fromkeys((*loads(header.node.lower), *loads(header.node.upper))):
            if strip_of(events.buffers[load.array].home) is not None:
                raise Undecided(f"the bounds of the loop over {header.node.var} are in lanes")
            read = ask(lambda header=header, load=load: accesses.add_read(header, load))
            noted.append((header, load, read))
    wanted: dict[tuple[str, Load], list[Any]] = {}
    doubts: list[str] = []
    for leaf in events.leaves:
        if leaf.points.is_empty() or (leaf.run_time and ask(lambda leaf=leaf: _is_left_out_with_it(values, leaf))):
            continue
        try:
            for header, load, value in ask(lambda leaf=leaf: [*_wanted(accesses, leaf)]):
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


def _is_left_out_with_it(values: Values, leaf: Leaf) -> bool:
    """Is what a loop leaves out with an iteration that does not happen nothing that others miss?"""
    return _gathers_in_its_iteration(values, leaf) if isinstance(leaf.node, Fold) else _serves_its_iteration(values, leaf)


def _gathers_in_its_iteration(values: Values, leaf: Leaf) -> bool:
    """Does the Fold take in what was left in the same iteration of all the loops around it whose bounds are data?"""
    taken = values.accesses.moved[leaf.name]
    outer = _outer(leaf, leaf.run_time[-1])
    if not all(_in_one_iteration(outer, write.leaf, leaf, pairs) for write, pairs in values.sources_of(taken)):
        return False
    assert isinstance(leaf.node, Fold)
    reads = values.accesses.reads.get(leaf.node.target.array, [])
    return all(
        _reads_in_its_iteration(values, leaf, read, header)
        for header in leaf.run_time
        if _is_copied_into(values, leaf.node.target.array, header)
        for read in reads
    )


def _is_copied_into(values: Values, buffer: str, header: Leaf) -> bool:
    """Does a Copy write the buffer in iterations of the header's loop?"""
    writes = values.accesses.writes.get(buffer, [])
    return any(isinstance(write.leaf.node, Copy) and header in write.leaf.run_time for write in writes)


def _outer(leaf: Leaf, header: Leaf) -> tuple[str, ...]:
    """The loops around a leaf, down to the header's."""
    assert isinstance(header.node, Loop)
    return leaf.names[: leaf.names.index(header.node.var) + 1]


def _in_one_iteration(outer: tuple[str, ...], one: Leaf, other: Leaf, pairs: Any | None) -> bool:
    """Are both leaves in the loops `outer` of one launch, and related by `pairs` in the same iterations of them alone?"""
    if one.launch != other.launch or not one.names[: len(outer)] == other.names[: len(outer)] == outer:
        return False
    return pairs is None or all(is_equal_along(pairs, k, k) for k in range(len(outer)))


def _serves_its_iteration(values: Values, leaf: Leaf) -> bool:
    """Does the leaf fill storage that nobody reads but in the same iteration of all the loops
    around it whose bounds are data? Where a loop leaves the leaf out, it leaves out its readers too."""
    node = leaf.node
    if not isinstance(node, Compute | Copy):
        return False
    reads = values.accesses.reads.get(node.target.array, [])
    if isinstance(node, Compute) and any(isinstance(read.leaf.node, Fold) for read in reads):
        return False  # what a Fold takes of it may be seen anywhere
    buffer, header = values.events.buffers[node.target.array], leaf.run_time[-1]
    if not isinstance(buffer.home, Register) and (buffer.argument or not isinstance(buffer.home, Global)):
        return False
    return all(values.in_line(read) is not None or _reads_in_its_iteration(values, leaf, read, header) for read in reads)


def _reads_in_its_iteration(values: Values, leaf: Leaf, read: Read, header: Leaf) -> bool:
    """Does the read find what the leaf wrote in the same iteration of the header's loop and those around it alone, if at all?"""
    outer = _outer(leaf, header)
    found = ((write.leaf, pairs) for write, pairs in values.sources_of(read))
    return all(_in_one_iteration(outer, source, read.leaf, pairs) for source, pairs in found if source is leaf)


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
