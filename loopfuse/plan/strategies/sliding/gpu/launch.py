"""The launch around what a tile does: who has which tile."""

from __future__ import annotations

from loopfuse.base.machine import LANES
from loopfuse.lang.nodes import integer
from loopfuse.plan.mapping.space import nested
from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile
from loopfuse.tree.looptree import Launch, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def launch_of(
    tile: WindowTile, nodes: tuple[TreeNode, ...], name: str, labels: tuple[str, ...], registers: int
) -> Launch:
    """`nodes` in each lane of each warp of the blocks that have tiles."""
    chain = [
        *((*each, Where.GRID) for each in tile.counts(lambda dim: 1 if tile.has_one(dim) else tile.shape.warps)),
        (tile.warp, integer(tile.shape.warps), Where.WARP),
        (tile.lane, integer(LANES), Where.LANE),
    ]
    # Images of a batch have their ends all through the launch.
    return Launch(
        name, "sliding", labels, nested(chain, nodes), registers=registers, ends_first=not tile.outer
    )
