"""How a launch is dealt out: to how many threads, in which chunks, by what it costs.

Never by how many iterations it has: 4096 rows of a softmax are worth two hundred microseconds each,
4096 elements of a sum one all together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopfuse.runtime.formulas import evaluate, names_in

ALONE_NANOSECONDS = 8_000
"""What costs less is run by the caller: others would come too late."""

THREAD_NANOSECONDS = 4_000
"""A thread takes part where there is so much for each."""

CHUNK_NANOSECONDS = 2_000
"""A chunk costs at least so much: taking one costs 50 ns where several do."""

CHUNKS_PER_THREAD = 8
"""Chunks that a thread finds in its range: what one that runs late leaves, others take."""

BYTES_PER_NANOSECOND = 10
"""What one core moves."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch costs: `touched` bytes by the call it belongs to, and where it is known
    `picoseconds` for each iteration of its grid."""

    touched: int
    picoseconds: int | None = None

    def nanoseconds(self, grid: int) -> int:
        """About what one thread takes for a grid."""
        if self.picoseconds is None:
            return self.touched // BYTES_PER_NANOSECOND
        return grid * self.picoseconds // 1000


def work_of(launch: Mapping[str, Any], touched: int, values: Mapping[str, Any]) -> Work:
    """What a launch of a manifest costs in a call of these sizes."""
    price = str(launch.get("price", ""))
    is_known = price and names_in(price) <= values.keys()
    return Work(touched, max(0, int(evaluate(price, values))) if is_known else None)


@dataclass(frozen=True, slots=True)
class Share:
    """`chunks` chunks of `step` iterations (the last may have fewer) on `threads` threads."""

    step: int
    chunks: int
    threads: int


def share_out(grid: int, work: Work, threads: int) -> Share:
    """How a grid of that work is dealt out to at most `threads` threads."""
    cost = work.nanoseconds(grid)
    threads = min(threads, grid, cost // THREAD_NANOSECONDS)
    if threads <= 1 or cost < ALONE_NANOSECONDS:
        return Share(max(grid, 1), 1, 1)
    wanted = min(grid, threads * CHUNKS_PER_THREAD, max(threads, cost // CHUNK_NANOSECONDS))
    step = grid // wanted  # not rounded up: 20 rows are no ten chunks for 16 threads
    chunks = -(-grid // step)
    return Share(step, chunks, min(threads, chunks))
