"""Strategy `contract`: sums of products, each of whose operands is needed for many rows or many columns.

On a CPU a worker has a block of rows and columns, in tiles whose sums lie in registers while a panel of each
operand, packed in the order in which it is needed, passes by (K. Goto and R. van de Geijn, Anatomy of
High-Performance Matrix Multiplication, 2008). Sums keep the loop's own order: no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.lang.nodes import Expr, Iter, combine, integer
from loopfuse.lang.walk import iterators
from loopfuse.plan.mapping.space import (
    CPU_WRITE,
    Extent,
    Site,
    count_of,
    dim_extents,
    hint_of,
    nested,
    order_dims,
    value_at,
)
from loopfuse.plan.mapping.threads import stands_for, symbolic_body
from loopfuse.plan.strategies.contract.columns import COLUMNS, find_columns
from loopfuse.plan.strategies.contract.likely import is_likely
from loopfuse.plan.strategies.contract.product import Product, read_product
from loopfuse.plan.strategies.contract.shape import Shape, shape_of
from loopfuse.plan.strategies.contract.tiles import TileWriter
from loopfuse.plan.strategies.contract.wedge import around
from loopfuse.plan.strategies.generic.generic import plan_map
from loopfuse.plan.strategies.map_fit import parallel_over
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.rules import Rules
from loopfuse.tree.looptree import Buffer, HostLoop, HostNode, Launch, LoopTree
from loopfuse.tree.looptree import Mapping as Where


@dataclass(frozen=True, slots=True)
class Contract(Strategy):
    """The strategy."""

    name: str = "contract"

    def tiles(self, group: Group, device: str) -> bool:
        return device == "cpu" and is_likely(group)

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, ContractFit) for fit in fits):
            yield replace(rules, tiles=False), "products run a row at a time"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if site.device != "cpu" or not site.tiles or group.legality is not Legality.INDEPENDENT or not group.dims:
            return None
        extents = dim_extents(group, site.program)
        if any(extent.step != 1 for extent in extents.values()):
            return None
        nodes, names = symbolic_body(group, site)
        ends = {
            stands_for(dim): Extent(tidy(each.lower), tidy(each.upper), each.step) for dim, each in extents.items()
        }
        kept = frozenset(name for name, store in site.stores.items() if store.home != "global")
        order = [stands_for(dim) for dim in order_dims(group, kept, CPU_WRITE)]
        product = read_product(nodes, order, names.buffers)
        if product is None:
            columns = find_columns(nodes)
            if columns is None:
                return None
            order = [stands_for(dim) for dim in group.dims]
            found = around(columns.extent, COLUMNS, ends)
            if found is None:
                return None
            ends[COLUMNS], conditions = found
            product = read_product(columns.nodes, [*order, COLUMNS], names.buffers, conditions)
        if product is None or any(iterators(end) for each in ends.values() for end in (each.lower, each.upper)):
            return None
        shape = shape_of(site.machine, product.total.dtype)
        return ContractFit(group, product, shape, ends, tuple(names.buffers.values()))


CONTRACT = Contract()


@dataclass(frozen=True, slots=True)
class ContractFit(Fit):
    """The product, its tiles, the ranges of its dimensions, and the buffers that it names."""

    group: Group
    product: Product
    shape: Shape
    ends: Mapping[str, Extent]
    buffers: tuple[Buffer, ...]

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        enough, in_order = self._enough(), replace(site, teams=False)  # the tiles keep the order of sums too
        if constant_value(enough) == 0:
            return (plan_map(self.group, in_order, name, labels),)
        tiled = self._tiled(site, name, labels)
        if constant_value(enough) == 1:
            return (tiled,)
        few = plan_map(self.group, in_order, f"{name}_few", labels)
        least = f"{self._least[0]} rows and {self._least[1]} columns"
        one, other = site.names.fresh("once"), site.names.fresh("once")
        return (
            HostLoop(one, integer(0), enough, 1, (replace(tiled, specialised=(f"at least {least}",)),)),
            HostLoop(other, integer(0), tidy(1 - enough), 1, (replace(few, specialised=(f"not {least}",)),)),
        )

    @property
    def _least(self) -> tuple[int, int]:
        """So many rows and columns, and tiles are worth it: half of one; a whole one where operands are read as
        they lie, so that there is a tile that has them all."""
        part = 2 if len(self.product.loops) == 1 else 1
        return self.shape.rows // part, self.shape.columns // part

    def _enough(self) -> Expr:
        """1 where there are rows and columns for tiles, else 0."""
        out: Expr = integer(1)
        for var, least in zip((self.product.rows, self.product.columns), self._least, strict=True):
            extra = tidy(count_of(self.ends[var]) - (least - 1))
            out = combine("min", out, combine("max", integer(0), extra))
        return tidy(out)

    def _hint(self, var: str) -> str:
        """A readable name for a dimension."""
        return "j" if var == COLUMNS else hint_of(self.group, var.removeprefix("@"))

    def _tiled(self, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
        names, product = site.names, self.product
        names.declare(self.buffers)
        chain: list[tuple[str, Expr, Where]] = []
        point: dict[str, Expr] = {}
        for dim in map(stands_for, self.group.dims):
            if dim not in (product.rows, product.columns):
                var = names.fresh(self._hint(dim))
                chain.append((var, count_of(self.ends[dim]), Where.THREAD))
                point[dim] = value_at(self.ends[dim], Iter(var))
        blocks: list[Expr] = []
        sizes = self.shape.block_rows, self.shape.block_columns
        for var, size in zip((product.rows, product.columns), sizes, strict=True):
            block = names.fresh(f"{self._hint(var)}b")
            chain.append((block, ceil_div(count_of(self.ends[var]), size), Where.THREAD))
            blocks.append(Iter(block))
        ends = self.ends[product.rows], self.ends[product.columns]
        writer = TileWriter(product, self.shape, names, ends, blocks[0], blocks[1], point)
        return Launch(name, "contract", labels, nested(chain, writer.nodes()))

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`contract, register tile 6 x 16 over i, j, parallel over i, j`."""
        if launch.strategy != "contract":
            return f"contract, a row at a time, {parallel_over(self.group)}"
        over = f"{self._hint(self.product.rows)}, {self._hint(self.product.columns)}"
        tile = f"{self.shape.rows} x {self.shape.columns}"
        return f"contract, register tile {tile} over {over}, {parallel_over(self.group)}"
