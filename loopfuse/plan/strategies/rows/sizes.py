"""How many threads have a row, a point of several loops, or a column, and how much each of them takes: chosen by
measurements on H100s and H200s (docs/decisions/rows.md)."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.machine import LANES

SHORT = 24
"""Places up to which a column, or a row of a length that is known, is one thread's: a warp would mostly idle."""
STAGED = 8
"""Elements of an array that a thread mostly asks for before it needs the first: its part of a chunk of the row."""
STAGED_APART = 4
"""The same where it holds a row's elements one by one: of the last chunk each is asked for, also where the row has one."""
FEW_ASKED = 3
"""Elements of a place that rows of narrow elements are asked for, at most, where they go by pairs and by teams of a warp too."""
STAGED_BYTES = 64
"""Bytes that it asks for instead, where it has neighbours and the row is read again."""
STAGED_NARROW = 16
"""Narrow elements that it asks for one by one, where the row is read again and has no whole vectors."""
BROUGHT_BYTES = 128
"""Bytes that it asks for where it brings a row to shared memory."""
KEEPING = 2
"""Blocks of a processor that keep a row there."""
BESIDE = 1536
"""Bytes of shared memory of each that it has for other things, or the driver."""
HELD = 32
"""Elements that a thread holds of each array that is read again."""
REGISTERS = 96
"""The most registers for that."""
THREADS = 512
"""Threads of a block that has a long row."""
CLUSTERS = (2, 4, 8)
"""Blocks that have a longer one together, where the machine lets them wait for each other."""
CLUSTERED = 4
"""Bytes of the elements for which they do. Rows of narrow ones are kept in shared memory, or read again, which is faster, but for those
that HOLDING has."""
HOLDING = ((1, 1024), (8, 256), (8, 512), (8, 1024))
"""Blocks, and threads of each, that have a long row of narrow elements, where what is held was computed: a row has all registers of a
processor, or a cluster that is small while the row is. (The last where passes make elements for others: three reads of two arrays cost more than one.)"""
COSTLY = 8
"""Instructions of what passes compute alike from which on it is held rather than computed again."""

# ------------------------------------------------------------------------------------ rows

WARPS = 4
"""Warps of a block in which each has a row."""
PARTS = ((1, 4), (2, 8), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32))
"""Threads of a warp that have a short row together, and how many elements each holds at most."""
NARROW_PARTS = ((1, 8), (2, 8), (4, 8), (8, 16), (16, 16), (16, 32))
"""The same of narrow elements, one by one."""
VECTOR_PARTS = ((1, 8), (2, 32), (4, 32), (8, 32), (16, 32))
"""The same of rows of whole vectors: few threads, each of which has many neighbours."""
PARTS_THREADS = 128
"""Threads of a block of such teams."""
FEW_THREADS, MORE_THREADS = 128, 256
"""Threads of a block that has a row; longer ones have blocks of THREADS."""

# ----------------------------------------------------------------------------------- nests


@dataclass(frozen=True, slots=True)
class Shape:
    """Up to `most` places of the innermost loop (0: any number) go to `inner` neighbours, who ask for `staged` of theirs at a
    time; `outer` groups of these have the outermost. `shares`: where that is long, blocks of a cluster share it."""

    name: str
    most: int
    outer: int
    inner: int
    staged: int
    shares: bool


SHAPES = (
    Shape("short", 32, 8, 16, 2, False),
    Shape("middle", 128, 8, 32, 4, False),
    Shape("wide", 512, 4, 64, 8, True),
    Shape("long", 0, 4, THREADS // 4, STAGED, True),
)
"""How threads share a point of several loops, by the innermost."""
FEW_ITERATIONS = 2
"""Iterations of the outermost loop up to which a short innermost one leaves a thread's work."""
SHARED_PLACES = 1 << 14
"""Places of a row from which on it is a cluster's, at least."""

# --------------------------------------------------------------------------------- columns

COLUMNS = LANES
"""Columns of a block."""
HELD_COLUMNS = LANES // 2
"""The same where a cluster holds them: half as many threads, so that two blocks have room."""
FEW, MANY = 8, 32
"""Threads of a block that have one column together, short or long. (Clusters put results of 32 together.)"""
NARROW = 2048
"""So few columns leave processors without a block, so that a cluster of SHARING has what no block holds, or blocks have shares of what is read once."""
SHARE = 2048
"""Places of such a share."""
SHARING = 8
"""Blocks of such a cluster."""

# ---------------------------------------------------------------------- rows and columns in one pass

ROWS_OF_SHARE = 32
"""Rows of which a block has copies of the results of columns."""
FEW_ROWS = 2048
"""Rows up to which the loops stay apart: their shares are too few for all processors."""
LEAST_SHARED = 256
"""Places of a row up to which they do: a block has one row at a time."""
HELD_OF_SHARE = 8
"""Places of a row that each thread has."""
SHARING_ROWS = ((1, FEW_THREADS), (1, 2 * FEW_THREADS), (1, THREADS), (4, THREADS))
"""Blocks, and threads of each, that go along them, by how long they are."""
