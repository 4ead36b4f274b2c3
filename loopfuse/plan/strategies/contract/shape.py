"""How large the tiles of a product are: of registers, and of what a worker keeps in its caches.

A tile of registers is `rows` by `columns` sums. Of each reduced step a row takes one element, spread over a vector,
and the columns some vectors; the sums take the other registers. On a machine with 16 vector registers that is 6 rows
by 2 vectors (12 + 2 + 1), on one with 32 it is 8 by 2 (with 12 rows, which fit, the panels of rows and columns are
further from square, and no product was faster).
"""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import Machine

VECTORS = 2
"""Vectors of a row of sums."""
FEW_ROWS, ROWS = 6, 8
"""Rows of sums, with 16 vector registers and with more."""
MOST_LANES = 16
"""Lanes of a VECTOR loop, at most."""

BLOCK_ROWS = 144
"""Rows that a worker has at a time: so often a panel of columns is used once it is packed. (With twice as many the
panels would fill a second cache of 1 MiB, and products of some hundred rows leave threads without work.)"""
BLOCK_BYTES = 1024
"""Bytes of a row of the sums that a worker has at a time."""
STEPS = 192
"""Reduced steps that are taken at a time: so many of the columns and rows of one tile lie in a first cache of 32 KiB."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of tiles and blocks, in elements."""

    rows: int
    """Rows of a tile of registers."""
    vectors: int
    """Vectors of a row of it."""
    lanes: int
    """Elements of a vector."""
    row_tiles: int
    """Tiles of rows in a block of a worker."""
    column_tiles: int
    """Tiles of columns in it."""
    steps: int
    """Reduced steps of a panel."""

    @property
    def columns(self) -> int:
        """Columns of a tile of registers."""
        return self.vectors * self.lanes

    @property
    def block_rows(self) -> int:
        """Rows of a worker's block."""
        return self.rows * self.row_tiles

    @property
    def block_columns(self) -> int:
        """Columns of a worker's block."""
        return self.columns * self.column_tiles


def shape_of(machine: Machine, dtype: DType) -> Shape:
    """The tiles of a product whose sums have this type."""
    lanes = min(MOST_LANES, max(2, machine.vector // dtype.bytes))
    rows = ROWS if machine.vector_registers > 16 else FEW_ROWS
    columns = VECTORS * lanes
    block = max(columns, BLOCK_BYTES // dtype.bytes)
    return Shape(rows, VECTORS, lanes, BLOCK_ROWS // rows, block // columns, STEPS)
