"""Tiles of registers of an order in tiles: sums that stay in registers through the steps of a block.

before:  for k: for the rows and columns of a tile: A[i, j] -= A[i, k] * A[k, j]
after:   sums = A[i, j];  for k: sums[r, c] -= A[i, k] * panel[k, c];  A[i, j] = sums

What is another for each column is packed for all tiles of the same columns that follow each other, in the order in which they need it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from loopfuse.lang.linear import constant_value, linear, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.lang.walk import iterators, loads, map_expr, subscript_iterators, substitute
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.affine.tiled import COLUMN, STEP, TILE_ROW, Tiles
from loopfuse.poly.isl import Unknown
from loopfuse.poly.isl_orders import ScanLeaf, ScanLoop, variable_of
from loopfuse.poly.model import Statement
from loopfuse.tree.looptree import (
    Buffer,
    Compute,
    Copy,
    Guard,
    LineBuffer,
    Loop,
    Register,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import as_load

ROW, PLACE, STEP_VAR = "@row", "@column", "@step"
"""Variables that stand for the row and column of a tile, from 0 on, and for the step."""

Nodes = tuple[TreeNode, ...]


@dataclass
class TileWriter:
    """Writes tiles. `instance`: the nodes that run an instance of a statement."""

    tiles: Tiles
    site: Site
    instance: Callable[[Statement, Mapping[str, Expr]], list[TreeNode]]
    packed: dict[Load, tuple[str, Expr]] = field(default_factory=dict[Load, tuple[str, Expr]])
    """By operand: the panel that holds it, and its first step."""

    # ------------------------------------------------------------------------------- tiles

    def steps(self, node: ScanLoop, at: Mapping[str, Expr]) -> list[TreeNode]:
        """The loop over the steps of a tile, between taking up its sums and putting them back."""
        (leaf,) = node.body
        assert isinstance(leaf, ScanLeaf)
        one = self.update(leaf, at)
        shape, total = self.tiles.shape, one.target
        name = self.site.names.fresh(f"{total.array}_sums")
        extents = tuple(map(integer, (shape.rows, shape.vectors, shape.lanes)))
        self.site.names.add(Buffer(name, self.site.names.buffers[total.array].array, total.dtype, extents, Register()))

        def sums(r: Expr, u: Expr, v: Expr) -> Load:
            return Load(name, (r, u, v), total.dtype)

        def there(load: Load, r: Expr, u: Expr, v: Expr) -> Load:
            return as_load(_at(load, {ROW: r, PLACE: tidy(u * shape.lanes + v)}))

        var = self.site.names.fresh(self.hint(0))

        def step(r: Expr, u: Expr, v: Expr) -> Nodes:
            known = {ROW: r, PLACE: tidy(u * shape.lanes + v), STEP_VAR: Iter(var)}

            def moved(expr: Expr) -> Expr:
                if not isinstance(expr, Load):
                    return expr
                if expr == total:
                    return sums(r, u, v)
                if expr in self.packed:
                    panel, first = self.packed[expr]
                    return Load(panel, (integer(0), tidy(Iter(var) - first), u, v), expr.dtype)
                return as_load(_at(expr, known))

            value = _at(map_expr(moved, one.value), known)
            return (Compute(one.statement, tuple(tidy(substitute(each, known)) for each in one.iteration), sums(r, u, v), value),)

        lower, upper = (tidy(substitute(end, dict(at))) for end in (node.lower, node.upper))
        return _if_any(lower, upper, [
            self.over_tile(lambda r, u, v: (Copy(sums(r, u, v), there(total, r, u, v)),)),
            Loop(var, lower, upper, 1, Where.SERIAL, (self.over_tile(step),)),
            self.over_tile(lambda r, u, v: (Copy(there(total, r, u, v), sums(r, u, v)),)),
        ])  # fmt: skip

    def point(self, node: ScanLoop, at: Mapping[str, Expr]) -> list[TreeNode]:
        """The loop over the steps of one point, its sum in a register."""
        leaf = node.body[0]
        if len(node.body) > 1 or not isinstance(leaf, ScanLeaf):
            raise Unknown("points of a tile in another form")
        names = self.site.names
        var = names.fresh(self.hint(0))
        statement = self.site.program.statement(leaf.statement)
        known = {**at, variable_of(COLUMN): Iter(var)}
        values = [tidy(substitute(value, known)) for value in leaf.iteration]
        (one,) = self.instance(statement, dict(zip(statement.iterators, values, strict=True)))
        assert isinstance(one, Compute) and one.predicate is None
        sum = names.register(f"{one.target.array}_sum", one.target)
        value = map_expr(lambda part: sum if part == one.target else part, one.value)
        lower, upper = (tidy(substitute(end, dict(at))) for end in (node.lower, node.upper))
        steps = Loop(var, lower, upper, 1, Where.SERIAL, (replace(one, target=sum, value=value),))
        return _if_any(lower, upper, [Copy(sum, one.target), steps, Copy(one.target, sum)])

    def update(self, leaf: ScanLeaf, at: Mapping[str, Expr]) -> Compute:
        """The update of a tile, in terms of its row, column and step."""
        statement = self.site.program.statement(leaf.statement)
        update = self.tiles.updates[leaf.statement]
        known = {**at, variable_of(STEP): Iter(STEP_VAR)}
        iteration = {
            name: tidy(substitute(value, known)) for name, value in zip(statement.iterators, leaf.iteration, strict=True)
        }
        row = iteration[update.row]
        iteration[update.row] = tidy(row - Iter(ROW) if update.turned else row + Iter(ROW))
        iteration[update.column] = tidy(iteration[update.column] + Iter(PLACE))
        (found,) = self.instance(statement, iteration)
        assert isinstance(found, Compute) and found.predicate is None
        return found

    # ------------------------------------------------------------------------------- panels

    @contextmanager
    def panels(self, found: Sequence[ScanLoop], at: Mapping[str, Expr]) -> Generator[Nodes]:
        """What packs the operands of the tiles of a column, which these loops over steps run and inside which they are read from there."""
        ends = {(each.lower, each.upper) for each in found}
        nodes: list[TreeNode] = []
        before = dict(self.packed)
        for each in found:
            (lower, upper), *others = ends
            if others or variable_of(TILE_ROW) in {*iterators(lower), *iterators(upper)}:
                break
            (leaf,) = each.body
            assert isinstance(leaf, ScanLeaf)
            one = self.update(leaf, at)
            for load in dict.fromkeys(loads(one.value)):
                if load != one.target and PLACE in subscript_iterators(load) and load not in self.packed:
                    first, end = (tidy(substitute(bound, dict(at))) for bound in (lower, upper))
                    nodes += self.panel(load, first, end)
        yield tuple(nodes)
        self.packed = before

    def panel(self, load: Load, first: Expr, end: Expr) -> Nodes:
        """What packs an operand's elements for the columns of a tile, of the steps from `first` to before `end`."""
        shape, names = self.tiles.shape, self.site.names
        name = names.fresh(f"{load.array}_panel")
        extents = tuple(map(integer, (1, shape.steps, shape.vectors, shape.lanes)))
        names.add(Buffer(name, names.buffers[load.array].array, load.dtype, extents, LineBuffer(1)))
        self.packed[load] = name, first
        var = names.fresh(self.hint(0))

        def one(u: Expr, v: Expr) -> Nodes:
            source = as_load(_at(load, {PLACE: tidy(u * shape.lanes + v), STEP_VAR: Iter(var)}))
            return (Copy(Load(name, (integer(0), tidy(Iter(var) - first), u, v), load.dtype), source),)

        def step(body: TreeNode) -> Loop:
            return Loop(var, first, end, 1, Where.SERIAL, (body,))

        if (linear(load.index[-1]) or {}).get(PLACE) == 1 and not any(PLACE in iterators(part) for part in load.index[:-1]):
            return (step(self.over_columns(one)),)
        u, v = names.fresh("u"), names.fresh("v")
        inside = Loop(var, first, end, 1, Where.SERIAL, one(Iter(u), Iter(v)))
        lanes = Loop(v, integer(0), integer(shape.lanes), 1, Where.SERIAL, (inside,))
        return (Loop(u, integer(0), integer(shape.vectors), 1, Where.SERIAL, (lanes,)),)

    # ------------------------------------------------------------------------------ helpers

    def hint(self, which: int) -> str:
        """The name of a dimension: of steps, rows, columns."""
        return self.tiles.names[self.tiles.dims[which]]

    def over_tile(self, body: Callable[[Expr, Expr, Expr], Nodes]) -> Loop:
        """All sums of a tile, written out."""
        row = self.site.names.fresh("r")
        columns = self.over_columns(lambda u, v: body(Iter(row), u, v))
        return Loop(row, integer(0), integer(self.tiles.shape.rows), 1, Where.UNROLLED, (columns,))

    def over_columns(self, body: Callable[[Expr, Expr], Nodes]) -> Loop:
        """All columns of a tile, in vectors."""
        u, v = self.site.names.fresh("u"), self.site.names.fresh("v")
        lanes = Loop(v, integer(0), integer(self.tiles.shape.lanes), 1, Where.VECTOR, body(Iter(u), Iter(v)))
        return Loop(u, integer(0), integer(self.tiles.shape.vectors), 1, Where.UNROLLED, (lanes,))


def _if_any(lower: Expr, upper: Expr, nodes: list[TreeNode]) -> list[TreeNode]:
    """The nodes around a loop, where it has an iteration: sums that nothing is added to stay where they are."""
    count = constant_value(tidy(upper - lower))
    return nodes if count is not None and count > 0 else [Guard(lower < upper, tuple(nodes))]


def _at(expr: Expr, known: Mapping[str, Expr]) -> Expr:
    """The expression with variables that stand for others, its subscripts in short."""
    return map_expr(lambda part: tidy(part) if isinstance(part, Load) else part, substitute(expr, dict(known)))
