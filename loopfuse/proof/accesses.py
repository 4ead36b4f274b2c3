"""Every read and write of a tree as a relation: which instance touches which cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from loopfuse.lang.nodes import Load
from loopfuse.poly import isl
from loopfuse.poly.isl_flow import pieces_of
from loopfuse.poly.model import Statement
from loopfuse.proof.events import Events, Leaf
from loopfuse.tree.looptree import Combine, Compute, Copy, Fold, Global, Scan


@dataclass(frozen=True, slots=True)
class Read:
    """One Load of a leaf, as a relation of its own: { `name`[instance] -> cell }.

    `number` says which read of `statement` it is; without a statement, the read only moves a
    value (Copy, Fold, Combine, Scan). `ask` finds out what it must find, once, when that is needed.
    """

    name: str
    leaf: Leaf
    load: Load
    cell: Any
    ask: Callable[[], tuple[Any, ...]] = tuple
    what: str = ""
    statement: Statement | None = None
    number: int = 0

    @property
    def wanted(self) -> tuple[Any, ...]:
        """The maps { name[instance] -> value } that say what it must find."""
        return self.ask()

    @property
    def buffer(self) -> str:
        """The buffer it reads."""
        return self.load.array

    @property
    def array(self) -> str:
        """The array the program reads here, "" if this is no statement's read."""
        return "" if self.statement is None else self.statement.reads[self.number].array


@dataclass(frozen=True, slots=True)
class Write:
    """The write of a leaf: { leaf -> cell }; `value` is { leaf -> value } where that is one
    instance's value, or zero."""

    leaf: Leaf
    load: Load
    cell: Any
    value: Any | None


class Accesses:
    """Every read and write of a tree, by buffer."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.reads: dict[str, list[Read]] = {}
        self.reads_of: dict[str, list[Read]] = {}  # by leaf
        self.writes: dict[str, list[Write]] = {}
        self.tile_writes: list[Write] = []  # to memory, by the first way of a tile
        self.copied: dict[str, Read] = {}  # by leaf: what a Copy copies
        self.instances: dict[str, Any] = {}  # by leaf: { leaf -> statement instance } of a Compute
        self.moved: dict[str, Read] = {}  # by leaf: what a Copy, Fold, Combine or Scan takes in
        self.composed: set[str] = set()  # the statements whose instances are put together as linear maps
        self.summed: set[str] = set()  # those that add to their own value of the iteration before, elsewhere than in the array
        self.count = 0

    @property
    def recurrences(self) -> set[str]:
        """Both of these."""
        return self.composed | self.summed

    def statement_of(self, leaf: Leaf) -> Statement:
        """The statement that a Compute runs."""
        assert isinstance(leaf.node, Compute)
        return self.events.program.statement(leaf.node.statement)

    def add_read(
        self,
        leaf: Leaf,
        load: Load,
        where: Any | None = None,
        wanted: Callable[[], Sequence[Any]] = tuple,
        what: str = "",
        of: tuple[Statement | None, int] = (None, 0),
        hidden: bool = False,
    ) -> Read:
        """Note a read, in the instances `where` (all, if None); `wanted` is asked once at most.
        `hidden`: where isl cannot express a subscript, it may be any element."""
        name = f"{leaf.name}r{self.count}"
        self.count += 1
        cell = self.events.cell(leaf, load, hidden)
        if where is not None:
            cell = cell.intersect_domain(where)

        @cache
        def ask() -> tuple[Any, ...]:
            return tuple(each.set_tuple_name(isl.IN, name) for each in wanted())

        read = Read(name, leaf, load, cell.set_tuple_name(isl.IN, name), ask, what, *of)
        self.reads.setdefault(load.array, []).append(read)
        self.reads_of.setdefault(leaf.name, []).append(read)
        if isinstance(leaf.node, Copy):
            self.copied[leaf.name] = read
        if isinstance(leaf.node, Copy | Fold | Combine | Scan):
            self.moved[leaf.name] = read
        return read

    def add_write(self, leaf: Leaf, target: Load, value: Any | None) -> None:
        """Note a write."""
        write = Write(leaf, target, self.events.cell(leaf, target), value)
        if leaf.tile is not None and isinstance(self.events.buffers[target.array].home, Global):
            self.tile_writes.append(write)
        else:
            self.writes.setdefault(target.array, []).append(write)

    def moves(self) -> list[tuple[Write, Read]]:
        """What Copies, Folds, Combines and Scans write, with what they take in."""
        writes = (write for each in self.writes.values() for write in each)
        return [(write, self.moved[write.leaf.name]) for write in writes if write.leaf.name in self.moved]


def without(value: Any, maps: Sequence[Any]) -> Any:
    """The value without those of the maps that have its space. Mostly nothing is left, which is few questions. What
    is left is asked piece by piece, of what meets the piece: isl would split each by all the others first."""
    like = isl.range_name(value)
    same = [one for one in maps if isl.range_name(one) == like]
    if same and _is_within(value, reduce(lambda one, other: one.union(other), same)):
        return isl.empty_map(value.get_space())
    parts = [each for one in same for each in pieces_of(one)]
    missing = isl.empty_map(value.get_space())
    for piece in pieces_of(value):
        rest = piece
        for part in parts:
            if rest.is_empty():
                break
            if not rest.is_disjoint(part):
                rest = rest.subtract(part)
        missing = missing.union(rest)
    return missing


def _is_within(value: Any, whole: Any) -> bool:
    """Is { read -> value } a part of the other map? Where a read has one value, that is so where it has one in both,
    and reads alone are compared, in fewer dimensions."""
    for piece in pieces_of(value):
        if piece.plain_is_single_valued():
            is_part = piece.domain().is_subset(piece.intersect(whole).domain())
        else:
            is_part = piece.is_subset(whole)
        if not is_part:
            return False
    return True


def union_by_kind(values: Iterable[Any]) -> list[Any]:
    """Maps { read -> value }, one a kind of value (the name of the range)."""
    kinds: dict[str, Any] = {}
    for value in values:
        kind = isl.range_name(value)
        kinds[kind] = kinds[kind].union(value) if kind in kinds else value
    return list(kinds.values())


def union(maps: Sequence[Any], like: Any | None) -> Any:
    """The union of those maps that have the spaces of `like` (all, where it is None).

    None if there is none and no `like`; else an empty map.
    """
    out: Any = None if like is None else isl.empty_map(like.get_space())
    for each in maps:
        if like is not None and isl.range_name(each) != isl.range_name(like):
            continue
        out = each if out is None else out.union(each)
    return out
