"""Chains of stencils on the CPU: fused (line buffers, time blocks) against loopfuse's unfused loops
and against `numba.njit(parallel=True)` of the same plain function.

    python benchmarks/cpu.py [--size 4096] [--runs 21] [--threads 2] [--json FILE]

Wall time of a call, medians; the three take turns, so that whatever else the machine does falls on
all of them. Temporaries are allocated by the call, as the function says, from memory that the C
library keeps: fresh pages for each call would cost unfused loops and numba more than their work.
Results are compared: fused and unfused to the bit, numba (which fuses no multiply-adds) to rounding.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36)}
"""The C library's settings, read when a process starts, that let it keep what is freed."""


def host_name() -> str:
    """The CPU's name, as the kernel has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "a CPU"


def ways(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The function as each of the three runs it."""
    import numba

    import loopfuse

    words = {**function.__globals__, "prange": numba.prange}
    plain = FunctionType(function.__code__, words, function.__name__)
    fused = loopfuse.kernel(function)
    return {
        "fused": fused,
        "unfused": fused.with_options(fuel=0),
        "numba": numba.njit(parallel=True)(plain),
    }


def measure(function: Callable[..., Any], size: int, runs: int) -> dict[str, Any]:
    """Median, least and greatest milliseconds of each way, and whether results agree."""
    import numpy as np

    random = np.random.default_rng(0)
    image = random.random((size, size), dtype=np.float32)
    made = ways(function)
    arrays = {name: (image.copy(), image.copy()) for name in made}
    for name, run in made.items():
        run(*arrays[name])
    same = all(np.array_equal(a, b) for a, b in zip(arrays["fused"], arrays["unfused"]))
    near = all(
        np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(arrays["fused"], arrays["numba"])
    )
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(runs):
        for name, run in made.items():
            start = time.perf_counter()
            run(*arrays[name])
            times[name].append((time.perf_counter() - start) * 1e3)
    found = {
        name: {"ms": statistics.median(each), "low": min(each), "high": max(each)}
        for name, each in times.items()
    }
    ratios = {name: found[name]["ms"] / found["fused"]["ms"] for name in ("unfused", "numba")}
    return {"ways": found, "ratios": ratios, "same_bits": same, "numba_agrees": near}


def main() -> None:
    """Print the table; write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--runs", type=int, default=21)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in KEEPING.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPING})
    os.environ["LOOPFUSE_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(options.threads)
    import llvmlite
    import numba
    import numpy as np
    from stencils import CASES

    rows: dict[str, Any] = {}
    for title, function in CASES.items():
        rows[title] = row = measure(function, options.size, options.runs)
        cells = ", ".join(f"{name} {each['ms']:.1f} ms" for name, each in row["ways"].items())
        ratios = ", ".join(f"{name} {value:.2f}x" for name, value in row["ratios"].items())
        print(f"{title}: {cells}; {ratios}; same bits {row['same_bits']}, numba {row['numba_agrees']}")
    if options.json:
        made = {
            "device": host_name(),
            "threads": options.threads,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "versions": {"numba": numba.__version__, "llvmlite": llvmlite.__version__,
                         "numpy": np.__version__, "python": sys.version.split()[0]},
            "load": round(os.getloadavg()[0], 1),
            "size": options.size,
            "runs": options.runs,
            "unit": "ms",
            "rows": rows,
        }  # fmt: skip
        options.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
