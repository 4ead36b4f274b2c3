"""The tree of an order: the loops that isl writes for it, run as the order's axes say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loopfuse.base.machine import Machine
from loopfuse.lang.index import TRUE, conjoin
from loopfuse.lang.linear import constant_value, ends_of, tidy
from loopfuse.lang.nodes import Expr, Iter, combine, integer
from loopfuse.lang.walk import iterators, substitute
from loopfuse.plan.mapping.body import BodyBuilder
from loopfuse.plan.mapping.interior import split_inner
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.affine.orders import Axis, Order
from loopfuse.plan.strategies.affine.registers import TileWriter
from loopfuse.plan.strategies.affine.tiled import COLUMN, STEP, TILE_COLUMN
from loopfuse.plan.units.groups import Group
from loopfuse.poly.isl import Unknown
from loopfuse.poly.isl_orders import (
    ScanIf,
    ScanLeaf,
    ScanLoop,
    ScanNode,
    inner_loops,
    leaves,
    scan,
    variable_of,
)
from loopfuse.poly.isl_relations import condition_expr
from loopfuse.poly.model import PolyProgram, Statement
from loopfuse.tree.looptree import Compute, Guard, HostLoop, HostNode, Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where

VECTORS = 2
"""Vector registers that one vector of the innermost loop fills."""


SMALLER, FEWEST_LANES = 4, 4
"""How many times smaller the vectors are that take what whole ones leave, and the fewest lanes that they have."""


def vector_size(machine: Machine, bytes: int) -> int:
    """How many elements of so many bytes a vector of the innermost loop has."""
    return machine.vector * VECTORS // bytes


def scan_order(order: Order, program: PolyProgram) -> tuple[ScanNode, ...]:
    """The loops of an order."""
    parts = [(id, number, each) for number, piece in enumerate(order.pieces) for id, each in piece.maps.items()]
    written = [k for k, axis in enumerate(order.axes) if axis is Axis.PART]
    nodes = scan(parts, program.context, program.symbols, written, order.whole)
    _read_tiles(nodes, order)
    return nodes


def _read_tiles(nodes: Sequence[ScanNode], order: Order) -> None:
    """Raises Unknown where isl wrote tiles of registers in a form that cannot be read."""
    for node in nodes:
        if is_tiled(node, order):
            for _ in tile_ways(node):
                pass
        elif not isinstance(node, ScanLeaf):
            _read_tiles((*node.body, *(node.otherwise if isinstance(node, ScanIf) else ())), order)


def is_tiled(node: ScanNode, order: Order) -> bool:
    """Does the node run a whole tile of registers?"""
    return all(order.pieces[tag].is_tiled for _, tag in leaves((node,)))


@dataclass(frozen=True, slots=True)
class Part:
    """What one launch runs: a loop that threads share, or whatever one thread does; where `conditions` hold."""

    nodes: tuple[ScanNode, ...]
    threads: bool
    conditions: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class HostRun:
    """Launches in a loop of the host."""

    loop: ScanLoop
    body: tuple[HostItem, ...]


HostItem = HostRun | Part


def host_items(nodes: Sequence[ScanNode], order: Order, conditions: tuple[Expr, ...] = ()) -> list[HostItem]:
    """What the host does to run these loops."""
    out: list[HostItem] = []
    waiting: list[ScanNode] = []

    def is_launched(node: ScanNode) -> bool:
        """Does the host, or do threads, run the loop?"""
        if not isinstance(node, ScanLoop):
            return False
        axis = order.axes[node.depth]
        return axis is Axis.HOST or (axis is Axis.THREADS and is_independent(node, order))

    def flush() -> None:
        if waiting:
            out.append(Part(tuple(waiting), False, conditions))
            waiting.clear()

    for node in nodes:
        if isinstance(node, ScanLoop) and is_launched(node):
            flush()
            if order.axes[node.depth] is Axis.HOST:
                out.append(HostRun(node, tuple(host_items(node.body, order, conditions))))
            else:
                out.append(Part((node,), True, conditions))
        elif isinstance(node, ScanIf) and not node.otherwise and any(map(is_launched, node.body)):
            flush()
            out += host_items(node.body, order, (*conditions, node.condition))
        else:
            waiting.append(node)
    flush()
    return out


def launched(items: Sequence[HostItem]) -> tuple[int, Expr | None]:
    """How many launches there are in the text, and how many run; None where no simple formula says it."""
    count, total = 0, integer(0)
    simple = True
    for item in items:
        if isinstance(item, Part):
            count, total = count + 1, total + 1
            continue
        inside, each = launched(item.body)
        count += inside
        if each is None or iterators(item.loop.lower) | iterators(item.loop.upper):
            simple = False
        else:
            total = total + each * tidy(item.loop.upper - item.loop.lower)
    return count, tidy(total) if simple else None


def has_threads(items: Sequence[HostItem]) -> bool:
    """Is there a launch that threads share?"""
    return any(item.threads if isinstance(item, Part) else has_threads(item.body) for item in items)


def is_independent(node: ScanLoop, order: Order) -> bool:
    """Is the loop's dimension independent in every piece that it runs?"""
    found = set(leaves(node.body))
    ids = {id for id, _ in found}
    return all(order.pieces[tag].is_independent(node.depth, ids) for _, tag in found)


def is_cut(node: ScanLoop, order: Order) -> bool:
    """Does the loop run the steps of one point of a tile that is not whole?"""
    return all(order.pieces[tag].columns_at == TILE_COLUMN for _, tag in leaves(node.body))


def tile_ways(node: ScanNode) -> Iterator[tuple[Expr | None, ScanLoop]]:
    """The ways to run a place of tiles, the first of which whose condition holds is taken (None: always); raises Unknown where isl
    wrote something else."""
    match node:
        case ScanLoop(depth=depth, body=(ScanLeaf(),), step=1) if depth == STEP:
            yield None, node
        case ScanIf(condition=condition, body=(ScanLoop() as steps,), otherwise=otherwise) if len(otherwise) <= 1:
            for inner, loop in tile_ways(steps):
                yield condition if inner is None else conjoin(condition, inner), loop
            for other in otherwise:
                yield from tile_ways(other)
        case _:
            raise Unknown("a tile in another form")


@dataclass
class TreeWriter:
    """Writes the launches of an order, called after `name`."""

    order: Order
    group: Group
    site: Site
    name: str
    labels: tuple[str, ...]
    count: int = 0
    known: dict[str, list[Expr]] = field(default_factory=dict[str, list[Expr]])

    def __post_init__(self) -> None:
        site = self.site
        self.builder = BodyBuilder(site.program, self.group, dict(site.stores), site.names, dict(site.extents))
        if self.order.tiles is not None:
            self.tiles = TileWriter(self.order.tiles, site, self.instance)

    # ----------------------------------------------------------------------------- the host

    def host(self, items: Sequence[HostItem], at: Mapping[str, Expr]) -> list[HostNode]:
        """The launches, and the loops of the host around them. `at`: what variables of the scan are in the tree."""
        out: list[HostNode] = []
        for item in items:
            if isinstance(item, Part):
                out.append(self.one(item, at))
                continue
            loop = item.loop
            var = self.fresh(loop)
            body = self.host(item.body, {**at, variable_of(loop.depth): Iter(var)})
            out.append(HostLoop(var, self.value(loop.lower, at), self.value(loop.upper, at), loop.step, tuple(body)))
        return out

    def one(self, part: Part, at: Mapping[str, Expr]) -> Launch:
        conditions = tuple(self.value(each, at) for each in part.conditions)
        match part.nodes:
            case (ScanLoop() as node,) if part.threads:
                return self.threads(node, at, conditions)
            case _:
                return self.alone(self.nodes(part.nodes, at), conditions)

    def threads(self, node: ScanLoop, at: Mapping[str, Expr], conditions: tuple[Expr, ...]) -> Launch:
        var = self.fresh(node)
        inside = {**at, variable_of(node.depth): Iter(var)}
        body = self.guarded(self.nodes(node.body, inside), conditions)
        loop = Loop(var, self.value(node.lower, at), self.value(node.upper, at), node.step, Where.THREAD, tuple(body))
        return self.launch((loop,))

    def alone(self, body: list[TreeNode], conditions: tuple[Expr, ...]) -> Launch:
        var = self.site.names.fresh("one")
        return self.launch((Loop(var, integer(0), integer(1), 1, Where.THREAD, tuple(self.guarded(body, conditions))),))

    def launch(self, body: tuple[TreeNode, ...]) -> Launch:
        name = self.name if not self.count else f"{self.name}_{self.count}"
        self.count += 1
        return Launch(name, "affine", self.labels, body if self.order.tiles else split_inner(body, self.site.names.fresh))

    @staticmethod
    def guarded(body: list[TreeNode], conditions: tuple[Expr, ...]) -> list[TreeNode]:
        return [Guard(conjoin(*conditions), tuple(body))] if conditions else body

    # ----------------------------------------------------------------------------- a thread

    def nodes(self, nodes: Sequence[ScanNode], at: Mapping[str, Expr]) -> list[TreeNode]:
        if any(is_tiled(node, self.order) for node in nodes):
            return self.tile(nodes, at)
        out: list[TreeNode] = []
        for node in nodes:
            match node:
                case ScanLeaf():
                    out += self.leaf(node, at)
                case ScanIf(condition=condition, body=body, otherwise=otherwise):
                    ways = tuple(self.nodes(body, at)), tuple(self.nodes(otherwise, at))
                    out.append(Guard(self.value(condition, at), *ways))
                case ScanLoop():
                    out += self.loop(node, at)
        return out

    def loop(self, node: ScanLoop, at: Mapping[str, Expr]) -> list[TreeNode]:
        axis = self.order.axes[node.depth]
        if self.order.tiles is not None and node.depth == TILE_COLUMN:
            return self.tile_columns(node, at)
        if self.order.tiles is not None and node.depth == COLUMN and is_cut(node, self.order):
            return self.tiles.point(node, at)
        if axis is Axis.LANES and is_independent(node, self.order):
            return self.vectors(node, at)
        if axis is Axis.ROWS and is_independent(node, self.order):
            rows = self.rows(node, at)
            if rows is not None:
                return rows
        var = self.fresh(node)
        inside = {**at, variable_of(node.depth): Iter(var)}
        lower, upper = self.value(node.lower, at), self.value(node.upper, at)
        return [Loop(var, lower, upper, node.step, Where.SERIAL, tuple(self.nodes(node.body, inside)))]

    def tile_columns(self, node: ScanLoop, at: Mapping[str, Expr]) -> list[TreeNode]:
        """A loop over tiles by columns, each behind the panels that its tiles need."""
        var = self.fresh(node)
        inside = {**at, variable_of(node.depth): Iter(var)}
        lower, upper = self.value(node.lower, at), self.value(node.upper, at)
        found = [each for each in inner_loops(node.body, STEP) if is_tiled(each, self.order)]
        present = next((self.order.pieces[tag].present for each in found for _, tag in leaves((each,))), TRUE)
        fixed = dict(node.fixed)
        if self.order.tiles is not None and found and variable_of(0) not in at:  # one block: isl leaves its dimension out
            fixed.setdefault(variable_of(0), found[0].lower // self.order.tiles.shape.steps)
        with self.tiles.panels(found, inside) as packed:
            condition = self.value(substitute(present, fixed), inside)
            packing = [Guard(condition, packed)] if packed else []
            body = (*packing, *self.nodes(node.body, inside))
        return [Loop(var, lower, upper, node.step, Where.SERIAL, body)]

    def tile(self, nodes: Sequence[ScanNode], at: Mapping[str, Expr]) -> list[TreeNode]:
        """What runs at the place of a tile.

        before: if whole: for k: first point        for k: points        after: if whole: the tile  else: for k: points"""
        out = self.nodes([node for node in nodes if not is_tiled(node, self.order)], at)
        whole = [way for node in nodes if is_tiled(node, self.order) for way in tile_ways(node)]
        for condition, steps in reversed(whole):
            tile = self.tiles.steps(steps, at)
            if condition is not None:
                tile: list[TreeNode] = [Guard(self.value(condition, at), tuple(tile), tuple(out))]
            out = tile
        return out

    def vectors(self, node: ScanLoop, at: Mapping[str, Expr]) -> list[TreeNode]:
        """before: for j in a..b: S
        after:  for j in a..a + (b - a) // 16 * 16 step 16: for v in 0..16: S;  for j in ..b: S

        What is left is done in smaller vectors first: rows may be shorter than one vector and a half."""
        lower, upper = self.value(node.lower, at), self.value(node.upper, at)
        variable = variable_of(node.depth)
        if all(self.order.pieces[tag].columns_at >= 0 for _, tag in leaves(node.body)):
            return self.in_tile(node, at, lower, upper)
        names, hint = self.site.names, self.order.names[node.depth]
        tail = names.fresh(hint)
        rest = tuple(self.nodes(node.body, {**at, variable: Iter(tail)}))
        if node.step != 1 or not all(isinstance(each, Compute) and each.predicate is None for each in rest):
            return [Loop(tail, lower, upper, node.step, Where.SERIAL, rest)]
        most = vector_size(self.site.machine, max(each.target.dtype.bytes for each in rest if isinstance(each, Compute)))
        count, start = combine("max", integer(0), tidy(upper - lower)), lower
        out: list[TreeNode] = []
        for size in (most, most // SMALLER):
            if size < FEWEST_LANES and out:
                break
            first, lane = names.fresh(hint), names.fresh("v")
            body = tuple(self.nodes(node.body, {**at, variable: tidy(Iter(first) + Iter(lane))}))
            end = tidy(lower + count // size * size)
            out.append(Loop(first, start, end, size, Where.SERIAL, (Loop(lane, integer(0), integer(size), 1, Where.VECTOR, body),)))
            start = end
        return [*out, Loop(tail, start, upper, 1, Where.SERIAL, rest)]

    def in_tile(self, node: ScanLoop, at: Mapping[str, Expr], lower: Expr, upper: Expr) -> list[TreeNode]:
        """before: for j in max(a, 16 t)..min(b, 16 t + 16): S
        after:  if a <= 16 t and b >= 16 t + 16: for v in 0..16: S at 16 t + v;  else: for j: S"""
        assert self.order.tiles is not None
        variable, names, size = variable_of(node.depth), self.site.names, self.order.tiles.shape.columns
        hint = self.order.names[node.depth]
        one = names.fresh(hint)
        alone = Loop(one, lower, upper, node.step, Where.SERIAL, tuple(self.nodes(node.body, {**at, variable: Iter(one)})))
        numbers = {at.get(variable_of(self.order.pieces[tag].columns_at)) for _, tag in leaves(node.body)}
        number = numbers.pop()
        if numbers or number is None or not all(isinstance(each, Compute) and each.predicate is None for each in alone.body):
            return [alone]
        first, lane = tidy(number * size), names.fresh("v")
        inside = tuple(self.nodes(node.body, {**at, variable: tidy(first + Iter(lane))}))
        lanes = Loop(lane, integer(0), integer(size), 1, Where.VECTOR, inside)
        room = [tidy(first - each) for each in ends_of(lower, "max")] + [tidy(each - first - size) for each in ends_of(upper, "min")]
        known = [constant_value(each) for each in room]
        if any(each is not None and each < 0 for each in known):
            return [alone]
        whole = conjoin(*(each >= integer(0) for each, value in zip(room, known, strict=True) if value is None))
        one_way: TreeNode = lanes if whole == TRUE else Guard(whole, (lanes,), (alone,))
        return [one_way]

    def rows(self, node: ScanLoop, at: Mapping[str, Expr]) -> list[TreeNode] | None:
        """A block's rows, written out; None where there are not as many."""
        lower, upper = self.value(node.lower, at), self.value(node.upper, at)
        if constant_value(tidy(upper - lower)) != self.order.size or node.step != 1:
            return None
        row = self.site.names.fresh("r")
        inside = {**at, variable_of(node.depth): tidy(lower + Iter(row))}
        return [Loop(row, integer(0), integer(self.order.size), 1, Where.UNROLLED, tuple(self.nodes(node.body, inside)))]

    def leaf(self, node: ScanLeaf, at: Mapping[str, Expr]) -> list[TreeNode]:
        statement = self.site.program.statement(node.statement)
        values = [self.value(each, at) for each in node.iteration]
        return self.instance(statement, dict(zip(statement.iterators, values, strict=True)))

    def instance(self, statement: Statement, iteration: Mapping[str, Expr]) -> list[TreeNode]:
        """An instance of a statement, inside its loops."""
        if statement.id not in self.known:
            self.known[statement.id] = [condition_expr(statement.domain, self.site.program.symbols)]
        return self.builder.statement(statement, iteration, self.known[statement.id])

    # ------------------------------------------------------------------------------ helpers

    def fresh(self, node: ScanLoop) -> str:
        return self.site.names.fresh(self.order.names[node.depth])

    @staticmethod
    def value(expr: Expr, at: Mapping[str, Expr]) -> Expr:
        return tidy(substitute(expr, dict(at)))
