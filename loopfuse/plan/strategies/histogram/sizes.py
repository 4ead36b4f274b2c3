"""What was measured: how large tables are, how many, and from how many iterations on they gain."""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES

# ---------------------------------------------------------------------------------- on a GPU

WARPS = 32
"""Of a block with a table. (A table for more warps is cleared and added less often: of 8, 16 and 32 warps a block, 2^28
bytes into 256 bins took 161, 114 and 92 us.)"""
BLOCKS = 528
"""Blocks with a table, at most: each clears its own and adds it to the result."""
SECTOR = 32
"""Bytes that a thread takes at a time of the widest array that it reads: a sector of memory."""
NARROW_READ = 4
"""Bytes of an element of which no fewer than a vector is taken at a time, and that is meant where no array is read along."""
MOST_EACH = 32
"""Iterations that it takes at a time, at most."""
TABLE = 16 * 1024
"""Bytes of a block's table, with all its copies. (Of 32 KiB random bytes take as long, and constant ones a quarter longer.)"""
MOST_SHARED = 8192
"""Bins for which a block has a table, at most, where how many there are is known."""
USUAL_SHARED = 1024
"""The same where it is asked when the kernel is called."""
DIRECT_BLOCK = 256
"""Threads of a block without a table: an iteration each."""
ONE_THREAD = 64
DIRECT = 1 << 14
"""Iterations up to which one thread runs the loop, and up to which no table is worth being cleared and added."""


SHORT_ROW = 2048
"""Iterations of a row whose histogram is its own, up to which no table is worth it."""
ROW_WARPS, ROW_BLOCKS = 8, 4
LONG_ROW, MANY_ROWS = 1 << 18, 1 << 12
"""Warps of a block and blocks of a row, up to so many iterations of it, or of its outer loop."""
FEW_ROWS = 64
"""Iterations of the outer loop of a nest, whose inner ones warps have, up to which no table is worth it."""


MANY = {"cpu": 8, "gpu": 1 << 16}
"""Iterations of parallel loops around, by device, up to which a nest is run here all the same; of unknown length
there are so many."""


def copies_of(bins: int, dtype: DType) -> int:
    """Copies of a block's table: a lane each, so that no two lanes meet; or as many as fit."""
    copies = LANES
    while copies > 1 and copies * bins * dtype.bytes > TABLE:
        copies //= 2
    return copies


ADDING = 256
"""Threads that add what blocks of one warp, whose lanes have a table each, have for a bin."""
MOST_ALONE = 4096
ALONE = 24 << 20
"""Such blocks, at most, and bytes that all their tables have together: as many run at once."""
ALONE_TABLE = 64 * 1024
"""Bytes of the tables of a warp, at most: three run on a multiprocessor then, of half as many bytes six."""
ALONE_SECTOR = 64
"""Bytes that a thread takes at a time of the widest array: there are few threads to keep memory busy. (Of 32, 64 and 128, 2^26
weights of f32 took 236, 175 and 181 us.)"""
USUAL_ALONE = 256
"""Bins of them, at most, where that is asked when the kernel is called."""
ALONE_SHORT = 1 << 11
"""Iterations up to which one thread runs the loop instead."""


def alone_of(bins: int, dtype: DType) -> int:
    """Blocks of one warp, at most."""
    fitting = min(MOST_ALONE, ALONE // (bins * LANES * dtype.bytes))
    return max(ADDING, fitting // ADDING * ADDING)


# ---------------------------------------------------------------------------------- on a CPU

TABLES = 4
"""Tables of a chunk, taken in turn: an update of an element need not wait for the one before."""
NEAR = 64 * 1024
"""Bytes of them all, at most: larger ones would leave the nearest cache, and there is one."""
CHUNK = 1 << 16
"""Iterations of a chunk, at least."""
PER_BIN = 32
"""The same for each bin: so small a part is what clearing and adding a table takes."""
MOST_BINS = 1 << 16
USUAL_BINS = 1 << 11
"""Bins for which a chunk has tables, at most: known, and asked when the kernel is called."""
SHORT = 1 << 16
"""Iterations up to which one worker runs the loop."""
PARTS = 16
"""Parts of the outer loop of a nest, which have tables each."""
LONG = 256
"""Iterations of the outer and of the inner loop of a nest, more than which are worth that."""
BINS_AT_ONCE = 64
"""Bins that a worker adds up at a time."""


def tables_of(bins: int, dtype: DType) -> int:
    """Tables of a chunk for so many bins."""
    return TABLES if TABLES * bins * dtype.bytes <= NEAR else 1


def chunk_of(bins: int) -> int:
    """Iterations of a chunk for so many bins: a power of two."""
    return max(CHUNK, 1 << (PER_BIN * bins - 1).bit_length())
