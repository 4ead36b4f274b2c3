"""The launch around what a tile does: who has which tile."""

from __future__ import annotations

from loopfuse.base.machine import LANES
from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, integer
from loopfuse.plan.mapping.space import count_of, nested
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.tree.looptree import Launch, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def launch_of(
    tile: WindowTile, nodes: tuple[TreeNode, ...], name: str, labels: tuple[str, ...], registers: int
) -> Launch:
    """`nodes` in each lane of each warp of the blocks that have tiles."""
    chain: list[tuple[str, Expr, Where]] = [
        (var, count_of(tile.extents[dim]), Where.GRID) for dim, var in tile.outer.items()
    ]
    for dim, var in tile.blocks.items():
        first, end = tile.stored[dim]
        size = tile.cuts[dim].stored * (1 if tile.has_one(dim) else tile.shape.warps)
        chain.append((var, ceil_div(tidy(end - first), size), Where.GRID))
    chain += [
        (tile.warp, integer(tile.shape.warps), Where.WARP),
        (tile.lane, integer(LANES), Where.LANE),
    ]
    # Images of a batch have their ends all through the launch.
    return Launch(
        name, "sliding", labels, nested(chain, nodes), registers=registers, ends_first=not tile.outer
    )
