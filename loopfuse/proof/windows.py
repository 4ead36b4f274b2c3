"""Windows and strips inside a STREAMED loop: which write each read finds, without asking isl for
the last of all.

Whoever holds a window (a thread; a warp for a strip) runs the loop alone and in order, so the time
of an access is its step t and its place in the text. A window's row is `t + c` modulo the number of
rows R; so of the writes by one leaf to the cell that a read at step t touches, the last is that of
step `t - d`, with d the one number in 0..R-1 (1..R, if the leaf comes after the read in the text)
that makes the rows equal. Candidates are asked in order of d; what the nearest leaves open (a guard,
columns it does not write) the next may have written. What none has written within R steps stays
open: a reader that needs a value there has none.

A plane in shared memory is like a window, but any thread of the block may have written the cell.
Threads run the loop together: where they do not race (`proof/races.py`), a barrier stands between two
threads' accesses to a cell, so that those of an earlier step, or earlier in the text of the same
step, come first, whoever makes them.

Also: tiles. A guard around STREAMED loops chooses between two ways of running one tile. The second
must be right everywhere; the first is then compared with it, write by write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopfuse.lang.linear import coefficients, interval, same_index
from loopfuse.lang.nodes import Expr, Iter
from loopfuse.poly import isl
from loopfuse.proof.accesses import Accesses, Read, Write, union
from loopfuse.proof.events import Leaf, Undecided
from loopfuse.tree.looptree import (
    Global,
    Home,
    Lanes,
    LineBuffer,
    Shared,
    Window,
    modulus_of,
    strip_of,
)

if TYPE_CHECKING:
    from loopfuse.proof.found import Values


@dataclass(frozen=True, slots=True)
class Candidate:
    """A write that may be the last before a read: `back` steps ago, as { read -> write };
    `is_one`: each read has one, by the way the map is written."""

    back: int
    write: Write
    pairs: Any
    is_one: bool = False


def sources_in_window(values: Values, read: Read) -> list[tuple[Write, Any]] | None:
    """(write, { read -> write it finds }) for a read of a window or a strip; None where it is not
    as the module says."""
    buffer = values.events.buffers[read.buffer]
    home = buffer.home
    if not isinstance(home, Lanes | Window | LineBuffer | Shared):
        return None
    if isinstance(home, Window) and strip_of(home) is not None:
        return None
    if isinstance(home, Shared) and not home.rows:
        return None
    loop = read.leaf.rotated
    if loop is None:
        return None
    candidates: list[Candidate] = []
    for write in values.accesses.writes.get(read.buffer, []):
        if write.leaf.rotated is not loop:
            if loop.var in write.leaf.names and write.leaf.launch == read.leaf.launch:
                return None  # in another STREAMED loop inside this one
            continue  # before or after this loop, or in the other way of its tile
        found = _candidate(values, read, write)
        if found is None:
            return None
        if found.pairs is not None and not found.pairs.is_empty():
            candidates.append(found)
    if _is_order_open(candidates, loop.var, home):
        return None
    candidates.sort(key=lambda each: (each.back, -each.write.leaf.number))
    out: list[tuple[Write, Any]] = []
    rest: Any = None  # reads that have found none yet; None: all
    for number, candidate in enumerate(candidates, 1):
        pairs = candidate.pairs
        if rest is not None:
            pairs = pairs.intersect_domain(rest)
            if pairs.is_empty():
                continue
        if not candidate.is_one and not pairs.is_single_valued():
            return None
        out.append((candidate.write, pairs))
        if number < len(candidates):
            rest = (read.cell.domain() if rest is None else rest).subtract(pairs.domain())
            if rest.is_empty():
                break
    return out


def _is_order_open(candidates: Sequence[Candidate], step: str, home: Home) -> bool:
    """May two of them write one cell in one step, in the iterations of a loop that they share?
    Then the order of the text does not say which comes last."""
    for number, one in enumerate(candidates):
        for other in candidates[:number]:
            here, there = one.write.leaf, other.write.leaf
            if one.back == other.back and _shares_inner_loop(here, there, step):
                first = int(modulus_of(home) > 0)
                index, besides = one.write.load.index[first:], other.write.load.index[first:]
                if not _same(index, besides) or not _is_own(index, here, there, step):
                    return True
    return False


def _candidate(values: Values, read: Read, write: Write) -> Candidate | None:
    """The last time that `write` touched what `read` touches."""
    here, there = read.leaf, write.leaf
    assert here.rotated is not None
    step = here.rotated.var
    home = values.events.buffers[read.buffer].home
    later = there.number >= here.number
    index, other = list(read.load.index), list(write.load.index)
    back = 0
    if rows := modulus_of(home):
        one, two = _ahead(index.pop(0), step), _ahead(other.pop(0), step)
        if one is None or two is None:
            return None
        back = (two - one) % rows
        if _shares_inner_loop(here, there, step):
            # Iterations of loops inside come between: only a cell of their own is in order.
            same = _same(index, other) and _is_own(index, here, there, step)
            if back == 0 and not (same and not isinstance(home, Shared)):
                return None
        if back == 0 and later:
            back = rows
    elif later:
        return Candidate(0, write, None)
    elif _shares_inner_loop(here, there, step):
        return None
    if _are_apart(values, read, index, other):
        return Candidate(back, write, None)
    earlier = Iter(step) - back
    inner = None
    if isinstance(home, Window | LineBuffer):
        inner = _inner_values(there, step, index, other)
    if inner is not None:
        depth = here.names.index(step)
        around: list[Expr | int] = [Iter(name) for name in here.names[:depth]]
        iterations, fixed = inner
        pairs = here.relation([*around, earlier, *iterations], there.name)
        pairs = pairs.intersect_range(there.points.set_tuple_name(there.name))
        for part, constant in fixed:
            place = here.reader.piecewise(part, here.points)
            if place is None:
                return None
            there_too = place.eq_set(here.reader.constant(constant))
            pairs = pairs.intersect_domain(there_too.set_tuple_name(here.name))
        pairs = pairs.set_tuple_name(isl.IN, read.name).intersect_domain(read.cell.domain())
        return Candidate(back, write, pairs, True)
    # Both in one run of the loop, by whoever holds the window.
    chain = {loop.var for loop in here.chain}
    outer = [Iter(name) for name in here.names[: here.names.index(step)] if name not in chain]
    owners = [*values.events.owner(here, values.events.buffers[read.buffer]), *outer]
    theirs = [*values.events.owner(there, values.events.buffers[read.buffer]), *outer]
    first = here.relation([*owners, earlier, *index], "held")
    second = there.relation([*theirs, Iter(step), *other], "held")
    first = first.set_tuple_name(isl.IN, read.name).intersect_domain(read.cell.domain())
    return Candidate(back, write, first.apply_range(second.reverse()))


def _are_apart(values: Values, read: Read, index: Sequence[Expr], other: Sequence[Expr]) -> bool:
    """Does some column of the one lie beyond all of the other, by the bounds of loops?"""
    ranges = values.events.ranges_around(read.leaf)
    for one, two in zip(index, other, strict=True):
        first, second = interval(one, ranges), interval(two, ranges)
        if first and second and (first[1] < second[0] or second[1] < first[0]):
            return True
    return False


def _inner_values(
    there: Leaf, step: str, index: Sequence[Expr], other: Sequence[Expr]
) -> tuple[list[Expr], list[tuple[Expr, int]]] | None:
    """Which iterations of the loops inside the step write the cell at `index`: i - c of each, where
    the iteration v writes at v + c; and which parts of `index` must be which constants. None where
    cells and iterations do not belong together so plainly."""
    inner = there.names[there.names.index(step) + 1 :]
    found: dict[str, Expr] = {}
    fixed: list[tuple[Expr, int]] = []
    for here, part in zip(index, other, strict=True):
        constant, named, linear = coefficients(part)
        moving = {name: n for name, n in named.items() if n}
        if not linear:
            return None
        if not moving:
            fixed.append((here, constant))
            continue
        if len(moving) != 1 or set(moving.values()) != {1} or not moving.keys() <= set(inner):
            return None
        (name,) = moving
        if name in found:
            return None
        found[name] = here - constant
    if len(found) != len(inner):
        return None
    return [found[name] for name in inner], fixed


def _same(index: Sequence[Expr], other: Sequence[Expr]) -> bool:
    return all(same_index(one, two) for one, two in zip(index, other, strict=True))


def _ahead(row: Expr, step: str) -> int | None:
    """c of a row `step + c`."""
    constant, named, linear = coefficients(row)
    if not linear or {name: n for name, n in named.items() if n} != {step: 1}:
        return None
    return constant


def _shares_inner_loop(one: Leaf, other: Leaf, step: str) -> bool:
    depth = one.names.index(step) + 1
    return one.names[depth : depth + 1] == other.names[depth : depth + 1] != ()


def _is_own(index: Sequence[Expr], one: Leaf, other: Leaf, step: str) -> bool:
    """Is the cell another one in each iteration of the loops inside that both share? Each of those
    then moves a subscript of its own."""
    depth = one.names.index(step) + 1
    inner = [a for a, b in zip(one.names[depth:], other.names[depth:], strict=False) if a == b]
    parts = [coefficients(part) for part in index]
    if not inner or not all(linear for _, _, linear in parts):
        return False
    for name in inner:
        others = [each for each in inner if each != name]
        if not any(
            abs(named.get(name, 0)) == 1 and not any(named.get(each) for each in others)
            for _, named, _ in parts
        ):
            return False
    return True


# ----------------------------------------------------------------------------------- tiles


def different_tile(values: Values) -> tuple[str, Any | None] | None:
    """What the first way of a tile writes to memory otherwise than the second, where it may run;
    None: no difference."""
    accesses = values.accesses
    for launch, inside in values.events.tiles:
        ours: dict[str, list[Write]] = {}
        for write in accesses.tile_writes:
            if write.leaf.tile is inside:
                ours.setdefault(write.load.array, []).append(write)
        theirs: dict[str, list[Write]] = {}
        for name, writes in accesses.writes.items():
            if isinstance(values.events.buffers[name].home, Global):
                here = [write for write in writes if write.leaf.launch == launch]
                theirs |= {name: here} if here else {}
        for name in {**ours, **theirs}:
            if name not in theirs:
                return f"only the first way of a tile writes {name}", None
            found = _different(values, name, ours.get(name, []), theirs[name], inside)
            if found is not None:
                return found
            _check_apart(accesses, name, ours.get(name, []), inside)
    return None


def _different(
    values: Values, name: str, first: Sequence[Write], second: Sequence[Write], inside: Any
) -> tuple[str, Any] | None:
    """`different_tile` for one buffer: the writes of the first way and of the second."""
    theirs = _touched(second)
    assert theirs is not None
    theirs = theirs.intersect_domain(inside)
    ours = _touched(first)
    if ours is None:
        ours = isl.empty_map(theirs.get_space())
    if not (extra := ours.subtract(theirs)).is_empty():
        return f"the first way of a tile writes more of {name}", extra
    if not (missing := theirs.subtract(ours)).is_empty():
        return f"the first way of a tile writes less of {name}", missing
    for way in (first, second):
        if not _writes_once(way, inside):
            # Both values would be among those of the other way, whichever is the last.
            raise Undecided(f"a way of a tile writes an element of {name} twice")
    whole = ours.wrap()
    for value in _written(values, first):
        wrong = value.subtract(union(_written(values, second), value))
        if not wrong.is_empty():
            return f"the first way of a tile writes something else to {name}", wrong
        whole = whole.subtract(value.domain())
    if not whole.is_empty():
        return f"the first way of a tile writes what is no value to {name}", whole.unwrap()
    return None


def _writes_once(writes: Sequence[Write], inside: Any) -> bool:
    """Does each thread that takes the tile write a cell once at most?"""
    before: Any = None
    for write in writes:
        where = _thread(write.leaf).intersect_range(inside).range_product(write.cell)
        if not where.is_injective():
            return False
        cells = where.range()
        if before is not None and not before.is_disjoint(cells):
            return False
        before = cells if before is None else before.union(cells)
    return True


def _check_apart(accesses: Accesses, name: str, writes: Sequence[Write], inside: Any) -> None:
    """The first way of a tile reads nothing of what it writes itself: which comes first is asked
    of the second way only."""
    written = _touched(writes)
    for read in accesses.reads.get(name, []) if written is not None else ():
        if read.leaf.tile is not None and read.leaf.launch == writes[0].leaf.launch:
            cell = read.cell.set_tuple_name(isl.IN, read.leaf.name)
            seen = _thread(read.leaf).reverse().apply_range(cell).intersect_domain(inside)
            if not seen.is_disjoint(written):
                raise Undecided(f"a tile reads what it writes itself to {name}")


def _touched(writes: Sequence[Write]) -> Any | None:
    """{ thread -> cell }: what each thread writes."""
    return union([_thread(write.leaf).reverse().apply_range(write.cell) for write in writes], None)


def _written(values: Values, writes: Sequence[Write]) -> list[Any]:
    """Maps { [thread -> cell] -> value }, one a kind of value."""
    found: dict[str, Any] = {}
    for write in writes:
        where = _thread(write.leaf).range_product(write.cell)
        for value in values.written(write):
            one = where.reverse().apply_range(value)
            name = isl.range_name(one)
            found[name] = found[name].union(one) if name in found else one
    return list(found.values())


def _thread(leaf: Leaf) -> Any:
    """{ leaf -> thread }: which thread of which launch runs it."""
    own: list[Expr | int] = [Iter(var) for var in (*leaf.host, *(lp.var for lp in leaf.chain))]
    return leaf.relation(own, "thread")

