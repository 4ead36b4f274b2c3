"""Strategy `sliding`, CPU: chains of stencils in one pass. A worker owns a chunk of rows of a strip
of columns and streams down the rows; every array between the loops is a few lines in L1 or L2.

    before:  for y, x: b[y, x] = f(a[y, x-1..x+1])      for y, x: c[y, x] = g(b[y-1..y+1, x])
    after:   for each chunk, strip (threads): for y: { for x: a row of b; for x: a row of c }

Strips overlap by the chain's halo of columns, chunks by that of rows. Each stage runs exactly over what is needed of it, so that its loop over a row has no guard.
"""

from __future__ import annotations

from loopfuse.lang.nodes import integer
from loopfuse.plan.mapping.space import Site, nested
from loopfuse.plan.strategies.sliding.cpu.rows import pass_nodes
from loopfuse.plan.strategies.sliding.cpu.tile import LineTile
from loopfuse.plan.strategies.sliding.windows.cuts import Shape
from loopfuse.plan.strategies.sliding.windows.records import Pipeline
from loopfuse.tree.looptree import Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def plan_lines(
    pipeline: Pipeline, shape: Shape, site: Site, name: str, labels: tuple[str, ...]
) -> Launch:
    """The launch of a window group on the CPU."""
    tile = LineTile(pipeline, shape, site)
    body: list[TreeNode] = []
    for each in tile.passes:
        body += pass_nodes(tile, each)
    steps = integer(shape.chunk.size)
    nodes: tuple[TreeNode, ...] = (
        Loop(tile.step, integer(0), steps, 1, Where.ROTATED, tuple(body)),
    )
    chain = [(*each, Where.THREAD) for each in tile.counts(lambda dim: 1)]
    return Launch(name, "sliding", labels, nested(chain, nodes))
