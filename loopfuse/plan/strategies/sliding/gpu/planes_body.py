"""Statements whose arrays lie in windows of planes; loops over what a thread holds of a plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.strategies.sliding.gpu.block import BlockTile
from loopfuse.plan.strategies.sliding.gpu.rows import WindowBody
from loopfuse.poly.model import Statement
from loopfuse.tree.looptree import Guard, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where


def rows_and_columns(
    tile: BlockTile,
    rows: tuple[int, int],
    columns: tuple[int, int],
    where: Where,
    make: Callable[[Expr, Expr], tuple[TreeNode, ...]],
    *around: Callable[[Expr], tuple[Expr, tuple[TreeNode, ...]]],
) -> list[TreeNode]:
    """Loops over rows and columns (half open) around what `make` gives for one of each; `around`:
    guards around each row, the outermost first, each with what is done instead."""
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        return []
    names = tile.site.names
    row, column = names.fresh("r"), names.fresh("v")
    here = tidy(Iter(row) + rows[0])
    there = tidy(Iter(column) + columns[0])
    count = integer(columns[1] - columns[0])
    body: tuple[TreeNode, ...] = (Loop(column, integer(0), count, 1, where, make(here, there)),)
    for guard in reversed(around):
        test, otherwise = guard(here)
        body = (Guard(test, body, otherwise),)
    return [Loop(row, integer(0), integer(rows[1] - rows[0]), 1, Where.UNROLLED, body)]


class PlaneBody(WindowBody):
    """Bodies whose arrays lie in windows of planes."""

    def __init__(self, tile: BlockTile) -> None:
        super().__init__(tile)
        self.block_tile = tile

    def cell(
        self, load: Load, name: str, statement: Statement, iteration: Mapping[str, Expr]
    ) -> Load:
        """The window's cell that an access goes to."""
        tile = self.block_tile
        stage = tile.pipeline.stage(name)
        if stage is None:
            return super().cell(load, name, statement, iteration)
        place: list[Expr] = []
        for dim, base in (
            (tile.pipeline.stream, tile.base),
            (tile.pipeline.abreast, tile.own_row),
            (tile.pipeline.across, tile.own),
        ):
            position = stage.frame.position(dim)
            start = base + stage.frame.shifts[position]
            place.append(tidy(load.index[position] - start))
        return tile.cell_at(stage, place[0], place[1], place[2])
