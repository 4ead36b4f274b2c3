"""A CPU launch beside busy neighbours: a stencil call while another process spins on each core.

    python benchmarks/neighbours.py [--layer own] [--size 1024] [--calls 400]

Times calls of a 1024 x 1024 stencil one by one, quiet and with one spinning process pinned to each CPU,
in turns, and prints medians (and means) and their ratio. A pool that waits for threads which the system
does not run shows ratios of 10 and more, or a few calls of many milliseconds, which only the mean shows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

STENCIL = """
kernel smooth(x: f32[H, W], out y: f32[H, W]):
    for i in 1..H - 1, j in 1..W - 1:
        y[i, j] = 0.2 * (x[i, j] + x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])
"""
SPIN = "import os, sys\nos.sched_setaffinity(0, [int(sys.argv[1])])\nwhile True: pass"


@contextmanager
def neighbours(cpus: set[int]) -> Iterator[None]:
    """One spinning process on each CPU."""
    others = [subprocess.Popen([sys.executable, "-c", SPIN, str(cpu)]) for cpu in sorted(cpus)]
    try:
        time.sleep(0.3)  # until they spin
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure(size: int, calls: int, turns: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each call: quiet, and beside neighbours."""
    import loopfuse

    kernel = loopfuse.loads(STENCIL)
    x = np.random.default_rng(0).random((size, size), np.float32)
    y = np.zeros_like(x)

    def times() -> list[float]:
        found: list[float] = []
        for _ in range(calls // turns):
            start = time.perf_counter()
            kernel(x, y)
            found.append(1e3 * (time.perf_counter() - start))
        return found

    times()
    quiet: list[float] = []
    beside: list[float] = []
    for _ in range(turns):
        quiet += times()
        with neighbours(os.sched_getaffinity(0)):
            beside += times()
    return quiet, beside


def ratio(quiet: list[float], beside: list[float]) -> float:
    """How many times the quiet median the other one is."""
    return statistics.median(beside) / statistics.median(quiet)


def text(times: list[float]) -> str:
    """The median and the mean."""
    return f"{statistics.median(times):.3f} ms (mean {statistics.mean(times):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layer", default="own", choices=("own", "numba"))
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--calls", type=int, default=1200)
    parser.add_argument("--turns", type=int, default=6)
    given = parser.parse_args()
    os.environ["LOOPFUSE_THREAD_LAYER"] = given.layer
    quiet, beside = measure(given.size, given.calls, given.turns)
    print(
        f"{given.layer} threads, {len(os.sched_getaffinity(0))} CPUs, {given.size} x {given.size}: "
        f"quiet {text(quiet)}, beside a spinning neighbour on each CPU {text(beside)}, "
        f"{ratio(quiet, beside):.1f} times"
    )


if __name__ == "__main__":
    main()
