"""Small arrays and large ones: warm calls of many programs at sides from 4 to 4,096, beside numba's.

    python benchmarks/sizes.py [--sizes 4,64] [--programs lu,chain] [--turns 7] [--threads 2] [--json FILE]

Wall time of a call, medians. loopfuse, `njit(fastmath=True)` and the same with `parallel=True` take turns; the faster of
numba's two counts. A call may take what numba takes and 20 % more, or 3 us, whichever is more. The table has microseconds
above (a `+`: a miss) or below that; the exit code is 1 where a call is above. Results of all three are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

SIZES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
LEAST, SHARE = 3.0, 0.2
"""What a call may take beyond numba's: microseconds, or a share of numba's."""
TURN_SECONDS = 0.02
LONGEST_CALL = 0.3
"""Sides at which a call takes longer are left out, and all above."""


def ways(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """The function as each of the three runs it."""
    import numba

    import loopfuse

    words = {**function.__globals__, "prange": numba.prange}
    plain = FunctionType(function.__code__, words, function.__name__)
    return {
        "loopfuse": loopfuse.kernel(function),
        "numba": numba.njit(fastmath=True)(plain),
        "numba parallel": numba.njit(fastmath=True, parallel=True)(plain),
    }


def turn(call: Callable[..., Any], arguments: tuple[Any, ...], whole: tuple[tuple[Any, Any], ...], calls: int) -> float:
    """Microseconds of a call, the median of so many after two more; arrays of `whole` are made anew before each."""
    clock = time.perf_counter_ns
    found: list[int] = []
    for _ in range(calls + 2):
        for array, value in whole:
            array[...] = value
        start = clock()
        call(*arguments)
        found.append(clock() - start)
    return statistics.median(found[2:]) / 1e3


def measure(program: Any, made: dict[str, Callable[..., Any]], size: int, turns: int) -> dict[str, float | bool] | None:
    """Microseconds of each way, and whether results agree; None where a call takes too long."""
    import numpy as np

    first = program.arguments(size)
    copies = {name: tuple(one.copy() if isinstance(one, np.ndarray) else one for one in first) for name in made}
    whole = {name: tuple((each[k], first[k]) for k in program.anew) for name, each in copies.items()}
    longest = 0.0
    for name, call in made.items():
        call(*copies[name])
    agree = all(
        np.allclose(one, other, rtol=2e-3, atol=1e-4, equal_nan=True)
        for one, other in zip(copies["loopfuse"], copies["numba"], strict=True)
    )
    for name, call in made.items():
        for array, value in whole[name]:
            array[...] = value
        start = time.perf_counter()
        call(*copies[name])
        longest = max(longest, time.perf_counter() - start)
    if longest > LONGEST_CALL:
        return None
    calls = min(2000, max(3, int(TURN_SECONDS / longest)))
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(turns):
        for name, call in made.items():
            times[name].append(turn(call, copies[name], whole[name], calls))
    return {**{name: statistics.median(each) for name, each in times.items()}, "agree": bool(agree)}


def beyond(row: dict[str, Any]) -> float:
    """Microseconds above what the call may take; below 0 where it keeps to it."""
    peer = min(row["numba"], row["numba parallel"])
    return row["loopfuse"] - peer - max(LEAST, SHARE * peer)


def main() -> int:
    """Print the table; write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--programs", default="")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["LOOPFUSE_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(options.threads)
    from size_programs import PROGRAMS

    names = options.programs.split(",") if options.programs else list(PROGRAMS)
    rows: dict[str, dict[int, Any]] = {}
    print("us beyond the bound, and in brackets loopfuse's / the better of numba's")
    for name in names:
        program, made = PROGRAMS[name], ways(PROGRAMS[name].function)
        rows[name] = {}
        cells: list[str] = []
        for size in map(int, options.sizes.split(",")):
            if size >= program.below:
                break
            row = measure(program, made, size, options.turns)
            if row is None:
                break
            rows[name][size] = row
            peer = min(row["numba"], row["numba parallel"])
            above = beyond(row)
            cells.append(
                f"{size}: {'+' if above > 0 else '-'}{abs(above):.3g} ({row['loopfuse']:.4g} / {peer:.4g})"
                + ("" if row["agree"] else " RESULTS DIFFER")
            )
        print(f"{name}: {'; '.join(cells)}", flush=True)
    missed = [f"{name} at {size}" for name, each in rows.items() for size, row in each.items() if beyond(row) > 0]
    print(f"{len(missed)} of {sum(map(len, rows.values()))} above the bound" + (": " + ", ".join(missed) if missed else ""))
    if options.json:
        from results import conditions

        made_json = {**conditions(False), "load": round(os.getloadavg()[0], 1), "unit": "us", "rows": rows}
        options.json.write_text(json.dumps(made_json, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
