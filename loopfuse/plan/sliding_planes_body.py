"""Statements whose arrays lie in windows of planes."""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.lang.affine import combine, integer
from loopfuse.lang.nodes import Expr, Load
from loopfuse.plan.recompute import tidy
from loopfuse.plan.sliding_block import BlockTile
from loopfuse.plan.sliding_rows import WindowBody
from loopfuse.poly.model import Statement


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
            start = combine("add", base, integer(stage.frame.shifts[position]))
            place.append(tidy(combine("sub", load.index[position], start)))
        return tile.cell_at(stage, place[0], place[1], place[2])
