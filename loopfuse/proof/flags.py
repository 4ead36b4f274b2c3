"""Flags between the blocks of a grid: are they raised in time, and what order do they give?

`proof/events.py` lets the blocks run one after the other. That is a run the device may make if every
Await finds its flag raised by then: by a block with a smaller index, or before in its own block.
Any other run does the same if all conflicting accesses of two blocks are ordered by flags: the
first comes before a Raise, the Raise before an Await (of the same flag, for a value no smaller),
the Await before the second; or several such steps. That a flag has reached a value says which
Raises happened only if its values grow and one block alone raises it in a launch.
"""

from __future__ import annotations

from typing import Any

from loopfuse.lang.nodes import Iter
from loopfuse.poly import isl
from loopfuse.proof.accesses import Accesses, Read, Write
from loopfuse.proof.events import BLOCK, GRID, LANE, READ, SYNC, WRITE, Leaf, Undecided
from loopfuse.tree.looptree import Await, Raise, Ticket
from loopfuse.tree.walk import walk_nodes

HOPS = 3
"""Through how many flags an order is followed; more are not found, which is safe."""


def flag_leaves(accesses: Accesses) -> list[Leaf]:
    """The Raises and Awaits of the tree."""
    return [each for each in accesses.events.leaves if isinstance(each.node, Raise | Await)]


def misused_flag(accesses: Accesses) -> tuple[str, Any] | None:
    """What is wrong with the tree's flags by themselves, with a relation that shows it."""
    leaves = flag_leaves(accesses)
    events = accesses.events
    names = {_flag(leaf).array for leaf in leaves}
    counters = {
        node.counter.array
        for launch in events.tree.launches
        for node in walk_nodes(launch.body)
        if isinstance(node, Ticket)
    }
    if names & counters or (names | counters) & {*accesses.reads, *accesses.writes}:
        raise Undecided("a flag or a ticket's counter is used for something else too")
    if any(leaf.in_ticket for leaf in leaves):
        raise Undecided("flags in what the last block does")
    for leaf in leaves:
        outside = _cell(accesses, leaf).subtract_range(
            events.box(events.buffers[_flag(leaf).array], 0)
        )
        if not outside.is_empty():
            return f"a flag outside {_flag(leaf).array}", outside
    raises = [leaf for leaf in leaves if isinstance(leaf.node, Raise)]
    for one in raises:
        small = _value(one).intersect_range(_at_most_zero(one))
        if not small.is_empty():
            return "a flag is raised to less than 1", small
        for other in raises:
            same = _same_flag(accesses, one, other)
            later = events.when(one, SYNC).lex_lt_map(events.when(other, SYNC))
            falls = same.intersect(later).intersect(_value(one).lex_ge_map(_value(other)))
            if not falls.is_empty():
                return "a flag does not grow", falls
            if one.launch == other.launch:
                here = _same(one, other, list(one.host))
                blocks = [loop.var for loop in one.chain if loop.var in one.level_vars((GRID,))]
                apart = same.intersect(here).subtract(_same(one, other, [*one.host, *blocks]))
                if not apart.is_empty():
                    return "two blocks raise one flag", apart
    for leaf in leaves:
        if isinstance(leaf.node, Await):
            waiting = _first(leaf, _cell(accesses, leaf))
            for source in raises:
                before = events.when(leaf, SYNC).lex_gt_map(events.when(source, SYNC))
                enough = _value(leaf).lex_le_map(_value(source))
                pairs = _same_flag(accesses, leaf, source).intersect(before).intersect(enough)
                waiting = waiting.subtract_domain(pairs.domain())
            if not waiting.is_empty():
                return "a flag is awaited that no block before raises", waiting
    return None


def unordered_blocks(accesses: Accesses, here: list[Read | Write]) -> Any | None:
    """{ access -> access } of two blocks of one launch that touch one cell, one writing it, with
    no flags between them; None if there are none."""
    launch = here[0].leaf.launch
    leaves = [leaf for leaf in flag_leaves(accesses) if leaf.launch == launch]
    raises = [leaf for leaf in leaves if isinstance(leaf.node, Raise)]
    awaits = [leaf for leaf in leaves if isinstance(leaf.node, Await)]
    ways = _ways(accesses, raises, awaits)
    for one in here:
        for other in here:
            if not (isinstance(one, Write) or isinstance(other, Write)):
                continue
            pairs = _conflicts(one, other)
            for source, target, way in ways:
                if pairs.is_empty():
                    break
                leaving = _program_order(accesses, one, source)
                entering = _program_order(accesses, other, target).reverse()
                ordered = leaving.apply_range(way).apply_range(entering)
                pairs = pairs.subtract(ordered)
            if not pairs.is_empty():
                return pairs
    return None


def _flag(leaf: Leaf) -> Any:
    assert isinstance(leaf.node, Raise | Await)
    return leaf.node.flag


def _threads(leaf: Leaf) -> set[str]:
    return set(leaf.level_vars(range(BLOCK, LANE + 1)))


def _first(leaf: Leaf, relation: Any) -> Any:
    """Only for the first thread of each block: all its threads come together."""
    meet = leaf.relation([0 if n in _threads(leaf) else Iter(n) for n in leaf.names], leaf.name)
    return relation.intersect_domain(meet.range())


def _cell(accesses: Accesses, leaf: Leaf) -> Any:
    return _first(leaf, accesses.events.cell(leaf, _flag(leaf)))


def _value(leaf: Leaf) -> Any:
    assert isinstance(leaf.node, Raise | Await)
    return _first(leaf, leaf.relation([leaf.node.value], "value"))


def _at_most_zero(leaf: Leaf) -> Any:
    zero = leaf.relation([0], "value").range()
    return isl.universe(zero.get_space()).lex_le_set(zero).domain()


def _same_flag(accesses: Accesses, one: Leaf, other: Leaf) -> Any:
    first, second = _cell(accesses, one), _cell(accesses, other)
    if _flag(one).array != _flag(other).array:
        return isl.empty_map(one.relation([], "x").apply_range(other.relation([], "x").reverse()).get_space())
    return first.apply_range(second.reverse())


def _same(one: Leaf, other: Leaf, names: list[str]) -> Any:
    """{ one -> other } with equal variables."""
    values = [Iter(name) for name in names]
    return one.relation(values, "here").apply_range(other.relation(values, "here").reverse())


def _ways(
    accesses: Accesses, raises: list[Leaf], awaits: list[Leaf]
) -> list[tuple[Leaf, Leaf, Any]]:
    """{ raise -> await }: what the raise comes before, directly and through other blocks."""
    direct: dict[tuple[int, int], Any] = {}
    for i, source in enumerate(raises):
        for k, target in enumerate(awaits):
            pairs = _same_flag(accesses, source, target).intersect(_same(source, target, list(source.host)))
            direct[i, k] = pairs.intersect(_value(source).lex_le_map(_value(target)))
    ways = dict(direct)
    for _ in range(HOPS - 1):
        longer = dict(ways)
        for (i, k), way in ways.items():
            for j, relay in enumerate(raises):
                inside = _between(accesses, awaits[k], relay)
                for m in range(len(awaits)):
                    more = way.apply_range(inside).apply_range(direct[j, m])
                    if not more.is_empty():
                        longer[i, m] = longer[i, m].union(more)
        ways = longer
    return [(raises[i], awaits[k], way) for (i, k), way in ways.items()]


def _between(accesses: Accesses, one: Leaf, other: Leaf) -> Any:
    """{ await -> raise } of one block, in this order."""
    events = accesses.events
    names = [*one.host, *(loop.var for loop in one.chain)]
    order = events.when(one, SYNC).lex_lt_map(events.when(other, SYNC))
    return _same(one, other, names).intersect(order)


def _conflicts(one: Read | Write, other: Read | Write) -> Any:
    """{ one -> other } that touch one cell, `one` in a block before that of `other`."""
    first, second = one.leaf, other.leaf
    cells = [a.cell.set_tuple_name(isl.IN, a.leaf.name) for a in (one, other)]
    pairs = cells[0].apply_range(cells[1].reverse())
    pairs = pairs.intersect(_same(first, second, list(first.host)))
    blocks = [
        leaf.relation([Iter(var) for var in leaf.level_vars((GRID,))], "block")
        for leaf in (first, second)
    ]
    return pairs.intersect(blocks[0].lex_lt_map(blocks[1]))


def _program_order(accesses: Accesses, access: Read | Write, sync: Leaf) -> Any:
    """{ access -> flag's first thread }: a Raise after the access, or an Await before it, in the
    thread of the access."""
    leaf, events = access.leaf, accesses.events
    moment = WRITE if isinstance(access, Write) else READ
    same = _same(leaf, sync, [*leaf.host, *(loop.var for loop in leaf.chain)])
    when, there = events.when(leaf, moment), events.when(sync, SYNC)
    is_raise = isinstance(sync.node, Raise)
    order = when.lex_lt_map(there) if is_raise else when.lex_gt_map(there)
    meet = [0 if n in _threads(sync) else Iter(n) for n in sync.names]
    return same.intersect(order).apply_range(sync.relation(meet, sync.name))

