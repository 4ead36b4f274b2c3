"""Which instances that fill windows and strips must be right: those that something outside needs.

From what leaves the windows (stores to memory, mostly) back to what fills them. The answer for a
leaf may be larger than needed (a hull), never smaller; then what feeds the hull is needed too. All
of these instances find what they must, so all of them are right: by induction over time, as each
reads what earlier ones made that are needed as well.
"""

from __future__ import annotations

from typing import Any

from loopfuse.lang.linear import coefficients
from loopfuse.lang.nodes import Expr, Iter, Load
from loopfuse.lang.walk import has_checks, walk_expr
from loopfuse.poly import isl
from loopfuse.proof.accesses import Read, Write
from loopfuse.proof.events import Leaf, Undecided
from loopfuse.proof.found import Values
from loopfuse.tree.looptree import (
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    Lanes,
    Mapping,
    Register,
    Scan,
    Shared,
    Window,
    columns_of,
    modulus_of,
)
from loopfuse.tree.walk import node_expressions


class Needs:
    """The instances that must be right, found when first asked for."""

    def __init__(self, values: Values) -> None:
        self.values, self.accesses = values, values.accesses
        self.fed: dict[str, list[tuple[Read, Any]]] = {}  # by writing leaf: the reads it feeds
        self.known: dict[str, Any] = {}
        self.windowed = values.has_windows
        self.folded = {  # what adds to a partial result needs it, without a read of its own
            _target(leaf) for leaf in values.events.leaves if isinstance(leaf.node, Fold | Combine | Scan)
        }
        strips = [columns_of(b.home) for b in values.events.tree.buffers if isinstance(b.home, Lanes)]
        self.columns = max(strips, default=1)
        self.rows = _rows_of_a_warp(values)
        for reads in values.accesses.reads.values() if self.windowed else ():
            for read in reads:
                found = values.events.context.ask(lambda read=read: self.sources(read))
                for write, pairs in found or ():
                    self.fed.setdefault(write.leaf.name, []).append((read, pairs))

    def sources(self, read: Read) -> list[tuple[Write, Any]] | None:
        """(write, { read -> write it finds }) for a read of a window, a strip or a register."""
        just = self.values.in_line(read)
        if just is None:
            found = self.values.in_window(read)
            return self.values.in_branches(read) if found is None else found
        here = read.leaf.points.identity().set_tuple_name(isl.IN, read.name)
        return [(just, here.set_tuple_name(isl.OUT, just.leaf.name))]

    def may_be_junk(self, leaf: Leaf) -> bool:
        """Does the leaf fill a window, a strip or a register? And nothing but a STREAMED loop reads
        those."""
        if not self.windowed or leaf.rotated is None or not isinstance(leaf.node, Compute | Copy):
            return False  # a Combine or a Scan takes what other threads have
        target = _target(leaf)
        if target in self.folded:
            return False
        expressions = node_expressions(leaf.node)
        if has_checks(*expressions):
            return False  # of junk, a subscript would be reported as outside its array
        home = self.values.events.buffers[target].home
        return isinstance(home, Window | Lanes | Register) or modulus_of(home) > 0

    def of(self, leaf: Leaf) -> Any:
        """{ leaf }: its instances that must be right."""
        whole = leaf.points.set_tuple_name(leaf.name)
        if not self.may_be_junk(leaf) or not self._only_in_windows(leaf):
            return whole
        if leaf.name in self.known:
            found = self.known[leaf.name]
            if found is None:
                raise Undecided(f"{_target(leaf)} is filled from itself, in a circle")
            return found
        self.known[leaf.name] = None
        found = isl.empty(whole.get_space())
        for read, pairs in self.fed.get(leaf.name, []):
            needed = self.of(read.leaf).set_tuple_name(read.name)
            found = found.union(pairs.intersect_domain(needed).range())
        if not found.is_empty():
            found = self._box(leaf, found).set_tuple_name(leaf.name)
        self.known[leaf.name] = found
        return found

    def _box(self, leaf: Leaf, needed: Any) -> Any:
        """The instances between the first and the last step, the first and the last column of the
        warp's strip, and the first and the last row of the block's tile, that are needed."""
        assert leaf.rotated is not None
        points, box = needed.reset_tuple_id(), leaf.points
        for expr in (Iter(leaf.rotated.var), self._column(leaf), *self._row(leaf)):
            value = leaf.reader.piecewise(expr, points)
            if value is None:
                continue
            least, greatest = isl.range_over(value, points)
            if least is not None:
                box = box.intersect(value.ge_set(leaf.reader.constant(least)))
            if greatest is not None:
                box = box.intersect(leaf.reader.constant(greatest).ge_set(value))
        return box

    def _column(self, leaf: Leaf) -> Expr:
        """Which column of the strip an instance fills."""
        load = _target_load(leaf)
        if not load.index:
            inner = leaf.names[-1]  # a register has no column: that of the loop over them
            return self._column_of(leaf, Iter(inner))
        return self._column_of(leaf, load.index[-1])

    def _column_of(self, leaf: Leaf, place: Expr) -> Expr:
        load = _target_load(leaf)
        lane = next((lp.var for lp in leaf.chain if lp.mapping is Mapping.LANE), "")
        if isinstance(self.values.events.buffers[load.array].home, Lanes) or not lane:
            return place
        return Iter(lane) * self.columns + place

    def _row(self, leaf: Leaf) -> tuple[Expr, ...]:
        """Which row of a block's tile an instance fills, where warps share a tile: any number would
        do, as what lies between two rows is only taken to be needed too."""
        warp = next((lp.var for lp in leaf.chain if lp.mapping is Mapping.WARP), "")
        if not self.rows or not warp:
            return ()
        load = _target_load(leaf)
        home = self.values.events.buffers[load.array].home
        first = Iter(warp) * self.rows
        if isinstance(home, Lanes):
            return (first,)
        if isinstance(home, Window):
            return (first + load.index[-2],) if len(load.index) > 2 else ()
        if load.index:
            return (load.index[-2],) if len(load.index) > 2 else ()
        assert leaf.rotated is not None
        inner = leaf.names[leaf.names.index(leaf.rotated.var) + 1 :]
        return (first + Iter(inner[0]),) if len(inner) > 1 else ()

    def _only_in_windows(self, leaf: Leaf) -> bool:
        """Is every read of what the leaf fills one whose source is known in its loop? What other
        launches read is storage of their own."""
        reads = self.accesses.reads.get(_target(leaf), [])
        here = [read for read in reads if read.leaf.launch == leaf.launch]
        return all(self.sources(read) is not None for read in here)


def _rows_of_a_warp(values: Values) -> int:
    """How many rows apart the warps of a block stand, where they share planes; 0 elsewhere."""
    buffers = values.events.buffers
    if not any(isinstance(b.home, Shared) and b.home.rows for b in buffers.values()):
        return 0
    apart = 0
    for leaf in values.events.leaves:
        warp = next((lp.var for lp in leaf.chain if lp.mapping is Mapping.WARP), "")
        for expr in node_expressions(leaf.node) if isinstance(leaf.node, Compute | Copy) else ():
            for load in walk_expr(expr):
                if isinstance(load, Load) and isinstance(buffers[load.array].home, Global):
                    apart = max(apart, *(coefficients(p)[1].get(warp, 0) for p in load.index), 0)
    return apart


def _target_load(leaf: Leaf) -> Load:
    assert isinstance(leaf.node, Compute | Copy | Fold)
    return leaf.node.target


def _target(leaf: Leaf) -> str:
    match leaf.node:
        case Compute(target=target) | Copy(target=target) | Fold(target=target):
            return target.array
        case Combine(buffer=buffer) | Scan(buffer=buffer):
            return buffer
        case _:
            return ""
