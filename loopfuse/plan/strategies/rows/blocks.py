"""Columns on a CPU: a worker has a block of rows, of which it goes along each, and adds up what lies above each other there.

before:  for c: { s[c] = 0; for r: s[c] += x[r, c]; t[c] = s[c] / R }
after:   for each block of rows: for c: part[block, c] = 0
                                 for r in block: for c: part[block, c] += x[r, c]
         for c: { s[c] = 0; for each block: s[c] += part[block, c]; t[c] = s[c] / R }

Memory is read along rows, so that it comes as fast as it can, and there are as many blocks as rows are long. How many rows a block has is one number
for all machines and sizes, and with it the order of a sum. Some of its rows are added in one turn: so what they are added to is loaded once for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, combine, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import loads, moved_to, substitute
from loopfuse.plan.mapping.lanes import Update
from loopfuse.plan.mapping.space import Extent, Site, dim_extents, hint_of, in_chunks
from loopfuse.plan.mapping.threads import stands_for
from loopfuse.plan.strategies.generic.generic import plan_map
from loopfuse.plan.strategies.map_fit import parallel_over
from loopfuse.plan.strategies.rows.body import COLUMN, Body, Pass, own_registers, touched
from loopfuse.plan.strategies.strategy import Fit
from loopfuse.plan.strategies.versions import by_length
from loopfuse.plan.units.groups import Group
from loopfuse.tree.looptree import (
    Buffer,
    Compute,
    Copy,
    Fold,
    Global,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import map_expressions, node_expressions, walk_nodes

ROWS = 256
"""Rows of a block."""
TURN = 4
"""Rows that are added in one turn."""
ROW_BYTES = 8192
"""Bytes of a row that a worker goes along at a time: with what they are added to, half of a first cache."""
POINTS = 1024
"""Columns whose partial results a worker puts together at a time."""


@dataclass(frozen=True, slots=True)
class Step:
    """A pass, and what is done with each column once its results are there: `before` sets what they are added to."""

    one: Pass
    before: tuple[TreeNode, ...]
    after: tuple[TreeNode, ...]


def find_steps(body: Body) -> tuple[Step, ...] | None:
    """The passes, each with what stands around it; None where a column needs registers from one launch to the next."""
    if body.has_nests or not all(isinstance(node, Compute) for one in body.passes for node in one.nodes):
        return None
    parts: list[list[TreeNode]] = [[]]
    for step in body.steps:
        if isinstance(step, Pass):
            parts.append([])
        elif isinstance(step, Compute):
            parts[-1].append(step)
        else:
            return None
    before: list[list[TreeNode]] = [[*parts[0]], *([] for _ in body.passes[1:])]
    after: list[list[TreeNode]] = [[] for _ in body.passes]
    results = [{update.target.array for update in one.updates} for one in body.passes]
    registers = {each.name for each in body.registers}
    for number, part in enumerate(parts[1:]):
        for node in part:
            later = [k for k in range(number + 1, len(results)) if _target(node) in results[k] & registers]
            (before[later[0]] if later else after[number]).append(node)
    steps = tuple(map(Step, body.passes, map(tuple, before), map(tuple, after)))
    return steps if _are_apart(steps, registers, {_target(node) for node in parts[0]}) else None


def _target(node: TreeNode) -> str:
    assert isinstance(node, Compute)
    return node.target.array


def _are_apart(steps: Sequence[Step], registers: set[str], first: set[str]) -> bool:
    """Is each register one launch's, and does no pass need what stands before its results?"""
    owner: dict[str, tuple[int, bool]] = {}
    for number, step in enumerate(steps):
        results = {update.target.array for update in step.one.updates}
        in_passes, around = touched(step.one) - results, set().union(results, *map(touched, (*step.before, *step.after)))
        for names, is_pass in ((in_passes, True), (around, False)):
            for name in names & registers:
                if owner.setdefault(name, (number, is_pass)) != (number, is_pass):
                    return False
        if in_passes & {_target(node) for node in step.before} or (number == 0 and in_passes & first):
            return False
    return True


@dataclass(frozen=True, slots=True)
class BlocksFit(Fit):
    """Blocks of rows, and what they leave put together for each column."""

    group: Group
    body: Body
    memory: tuple[Buffer, ...]

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        def few(least: int, most: int) -> tuple[HostNode, ...]:
            return self.few(site, f"{name}_few", labels)

        def many(least: int, most: int) -> tuple[HostNode, ...]:
            return tuple(self._launches(site, name, labels))

        return by_length(site.names, self.body.length, [(2 * ROWS, few), (0, many)], "columns of {} places")

    def few(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        """The launch for columns that are too short for blocks."""
        return (plan_map(self.group, site, name, labels),)

    def _launches(self, site: Site, name: str, labels: tuple[str, ...]) -> Iterator[Launch]:
        site.names.declare(self.memory)
        steps = find_steps(self.body)
        assert steps is not None
        for number, step in enumerate(steps):
            suffix = f"_{number}" if len(steps) > 1 else ""
            writer = self.writer(site, step, ROWS)
            yield Launch(f"{name}_blocks{suffix}", "rows", labels, writer.blocks_of_columns())
            if step.one.updates or step.before or step.after:
                yield Launch(f"{name}_columns{suffix}", "rows", labels, writer.together())

    def writer(self, site: Site, step: Step, rows: int) -> BlockWriter:
        """What writes a step's launches, with `rows` rows in a block."""
        (dim,) = self.group.dims
        return BlockWriter(site, self.body, step, dim, hint_of(self.group, dim), dim_extents(self.group, site.program)[dim], rows)

    def reordered(self) -> frozenset[str]:
        return self.body.reordered

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`rows, columns added up in blocks of 256 rows, parallel over c`."""
        if launch.strategy != "rows":
            return f"rows, a worker a column, {parallel_over(self.group)}"
        if "_columns" in launch.name:
            return f"rows, blocks put together, {parallel_over(self.group)}"
        return f"rows, columns added up in blocks of {ROWS} rows, {parallel_over(self.group)}"


class BlockWriter:
    """Writes what becomes of blocks of `rows` rows of a step, whose columns dimension `dim` of the group numbers."""

    def __init__(self, site: Site, body: Body, step: Step, dim: str, hint: str, extent: Extent, rows: int) -> None:
        self.names, self.body, self.step, self.rows = site.names, body, step, rows
        self.column, self.hint, self.extent = stands_for(dim), hint, extent
        self.blocks = ceil_div(combine("max", integer(0), step.one.length), rows)
        count = combine("max", integer(0), tidy(extent.upper - extent.lower))
        self.parts: dict[Load, str] = {}
        for update in step.one.updates:
            part = self.names.fresh(f"{update.target.array}_part")
            self.names.add(Buffer(part, "", update.target.dtype, (self.blocks, count), Global()))
            self.parts[update.target] = part
        self.registers: dict[Load, Load] = {}

    def blocks_of_columns(self) -> tuple[TreeNode, ...]:
        """What workers do with some columns of a block of rows."""
        most = max((load.dtype.bytes for node in self.step.one.nodes for expr in node_expressions(node) for load in loads(expr)), default=8)
        block, chunk = self.names.fresh("rb"), self.names.fresh(f"{self.hint}b")
        chunks, low, high = in_chunks(self.extent, ROW_BYTES // most, chunk)
        first, last = self.rows_of(Iter(block))
        self.begin()
        turn, rest = self.names.fresh("k"), self.names.fresh("r")
        turns = tidy(last - first) // TURN
        nodes = (
            *self.cleared(Iter(block), low, high),
            Loop(turn, integer(0), turns, 1, Where.SERIAL, (self.turn(Iter(block), tidy(first + Iter(turn) * TURN), low, high),)),
            Loop(rest, tidy(first + turns * TURN), last, 1, Where.SERIAL, (self.one(Iter(block), Iter(rest), low, high),)),
        )
        inner = Loop(chunk, integer(0), chunks, 1, Where.THREAD, nodes)
        return (Loop(block, integer(0), self.blocks, 1, Where.THREAD, (inner,)),)

    def rows_of(self, block: Expr) -> tuple[Expr, Expr]:
        """The first row of a block, and the one behind its last."""
        first = tidy(self.step.one.lower + block * self.rows)
        return first, combine("min", self.step.one.upper, tidy(first + self.rows))

    def begin(self) -> None:
        """Begins a launch over rows, which has registers of its own."""
        self.registers = self._registers(self.step.one.nodes)

    def cleared(self, block: Expr, low: Expr, high: Expr) -> list[TreeNode]:
        """Nothing in a block's partial results of some columns."""
        out: list[TreeNode] = []
        for update in self.step.one.updates:
            column = self.names.fresh(self.hint)
            clear = Copy(self._cell(update.target, block, Iter(column)), _nothing(update))
            out.append(Loop(column, low, high, 1, Where.SERIAL, (clear,)))
        return out

    def turn(self, block: Expr, first: Expr, low: Expr, high: Expr) -> TreeNode:
        """TURN rows of a block from `first` on, added up in some columns."""
        of_turn, column = self.names.fresh("l"), self.names.fresh(self.hint)
        row = self._row(block, tidy(first + Iter(of_turn)), Iter(column))
        inside = Loop(of_turn, integer(0), integer(TURN), 1, Where.UNROLLED, row)
        return Loop(column, low, high, 1, Where.SERIAL, (inside,))

    def one(self, block: Expr, place: Expr, low: Expr, high: Expr) -> TreeNode:
        """A row of a block, added in some columns."""
        column = self.names.fresh(self.hint)
        return Loop(column, low, high, 1, Where.SERIAL, self._row(block, place, Iter(column)))

    def _cell(self, target: Load, block: Expr, column: Expr) -> Load:
        return Load(self.parts[target], (block, tidy(column - self.extent.lower)), target.dtype)

    def _row(self, block: Expr, place: Expr, column: Expr) -> tuple[TreeNode, ...]:
        cells = {**self.registers, **{target: self._cell(target, block, column) for target in self.parts}}
        return _placed(self.step.one.nodes, cells, {COLUMN: place, self.column: column})

    def together(self) -> tuple[TreeNode, ...]:
        """What blocks leave put together, with what stands before and behind."""
        step, names = self.step, self.names
        chunk, column = names.fresh(f"{self.hint}b"), names.fresh(self.hint)
        chunks, low, high = in_chunks(self.extent, POINTS, chunk)
        targets = tuple(Copy(each, each) for each in self.parts)
        registers = self._registers((*step.before, *targets, *step.after))
        values = {self.column: Iter(column)}
        nodes: list[TreeNode] = [*_placed(step.before, registers, values)]
        for update in step.one.updates:
            total, block = names.register(f"{update.target.array}_total", update.target), names.fresh("rb")
            part = self._cell(update.target, Iter(block), Iter(column))
            nodes.append(Copy(total, _nothing(update)))
            nodes.append(Loop(block, integer(0), self.blocks, 1, Where.SERIAL, (Fold(update.op, total, part),)))
            (place,) = _placed((Copy(update.target, update.target),), registers, values)
            assert isinstance(place, Copy)
            nodes.append(Copy(place.target, total) if update.whole else Fold(update.op, place.target, total))
        nodes += _placed(step.after, registers, values)
        loop = Loop(column, low, high, 1, Where.SERIAL, tuple(nodes))
        return (Loop(chunk, integer(0), chunks, 1, Where.THREAD, (loop,)),)

    def _registers(self, nodes: Sequence[TreeNode]) -> dict[Load, Load]:
        """Registers of a launch's own, for those of a column that the nodes touch."""
        used = {load.array for node in walk_nodes(tuple(nodes)) for expr in node_expressions(node) for load in loads(expr)}
        registers = tuple(each for each in self.body.registers if each.name in used)
        return own_registers(replace(self.body, registers=registers), self.names)


def _placed(nodes: Sequence[TreeNode], cells: Mapping[Load, Load], values: Mapping[str, Expr]) -> tuple[TreeNode, ...]:
    """The nodes at a place, with what lies in cells read and written there."""
    marks = {load: replace(load, array=f"@{number}", index=()) for number, load in enumerate(cells)}
    back = {marks[load]: cell for load, cell in cells.items()}

    def change(expr: Expr) -> Expr:
        return moved_to(tidy(substitute(moved_to(expr, marks), values)), back)

    return map_expressions(nodes, change)


def _nothing(update: Update) -> Const:
    return Const(neutral(update.op, update.target.dtype), update.target.dtype)
