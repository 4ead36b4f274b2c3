"""Rows of forty widths, from one place to 262,144: loopfuse beside its peers and a copy, on one GPU.

    python3 benchmarks/widths.py [--json FILE] [--programs softmax-bf16,...] [--widths 127,128] [--peers none|NAME,...]
                                 [--budget SECONDS] [--jobs N]

2^26 elements in rows of each width, device time by events, medians of 15 runs, all in one process; results against float64.
A row may take 4 % longer than the best of its peers; the exit code is 1 where one takes longer or is wrong. Kernels, and
torch.compile's, are compiled ahead in `--jobs` processes. Docs: `python benchmarks/make_performance.py`.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from cases import BY_KEY, Array, Case
from gpu import Bench, compile_ahead, one_line
from make_performance import PROGRAMS, is_behind
from measuring import Clock, random_inputs
from results import conditions, write_json

WIDTHS = (
    1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 48, 63, 64, 96, 127, 128, 200, 255, 256, 384, 511, 512, 768, 1000, 1025, 2048,
    3000, 4095, 4096, 5000, 8192, 10001, 16384, 32767, 32768, 50257, 65536, 100000, 131072, 262144,
)  # fmt: skip
PEERS = ("torch eager", "torch.compile", "jax.jit")
ELEMENTS, RUNS = 1 << 26, 15


def at(program: str, width: int) -> Case:
    """That case with rows of that width."""
    sizes = {"R": ELEMENTS // width, "C": width}
    return dataclasses.replace(BY_KEY[program], round=sizes, pieces=1 if width > 100000 else 8)


class Widths(Bench):
    """The bench of `gpu.py`, for rows that are no rows of its table."""

    def given(self, case: Case) -> tuple[tuple[Array, ...], dict[str, Any]]:
        """The case's arrays, and fresh inputs."""
        arrays = case.arrays(self.kernel(case), "round")
        return arrays, {**random_inputs(arrays, self.device), **case.scalars}

    def compile_part(self, pairs: list[tuple[str, int]]) -> None:
        """Have torch.compile fill its cache with those programs."""
        from peers import PEERS as MAKERS

        for program, width in pairs:
            case = at(program, width)
            MAKERS["torch.compile"](case, *self.given(case)).call()
            self.tidy()

    def measure(self, program: str, width: int, peers: tuple[str, ...]) -> dict[str, Any]:
        """One row: milliseconds of the copy, loopfuse, the same with the hardware's approximations, and the peers."""
        case = at(program, width)
        row: dict[str, Any] = {"program": program, "width": width, "peers": {}}
        try:
            self._time(case, "round", row)
            arrays, inputs = self.given(case)
        except Exception as error:  # one row must not cost the others
            return {**row, "failed": one_line(error)}
        for name in peers:
            found = self._time_peer(case, arrays, inputs, name)
            if found is not None:
                row["peers"][name] = found
            self.tidy()
        return row


def line(row: dict[str, Any]) -> str:
    """A row in one line."""
    head = f"{row['program']:15}{row['width']:>8}"
    if "failed" in row:
        return f"{head} FAILED {row['failed']}"
    native = row.get("native", {})
    parts = [f"{row['loopfuse']:8.4f} ms {row['share']:5.2f} of copy", f"native {native.get('share', 0):5.2f}", "" if row["right"] else "WRONG"]
    for name, found in row["peers"].items():
        parts.append(f"{name} " + (f"{found['ms'] / row['loopfuse']:5.2f}" if "ms" in found else "failed"))
    return head + "  ".join(parts) + ("  BEHIND" if is_behind(row) else "")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--budget", type=float, default=500)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--compile-part", default="")
    given = parser.parse_args()
    programs, widths = given.programs.split(","), [int(one) for one in given.widths.split(",")]
    peers = () if given.peers == "none" else tuple(given.peers.split(","))
    pairs = [(program, width) for program in programs for width in widths]
    deadline = time.monotonic() + given.budget
    bench = Widths(None, "cuda", deadline, Clock("cuda", RUNS))
    if given.compile_part:
        part, of = map(int, given.compile_part.split("/"))
        bench.compile_part(pairs[part::of])
        return 0
    import torch

    major, minor = torch.cuda.get_device_capability()
    compile_ahead(tuple(BY_KEY[one] for one in programs), f"sm_{major}{minor}", given.jobs, deadline)
    if "torch.compile" in peers:
        command = [sys.executable, __file__, "--programs", given.programs, "--widths", given.widths]
        parts = [subprocess.Popen([*command, "--compile-part", f"{k}/{given.jobs}"]) for k in range(given.jobs)]
        for one in parts:
            one.wait()
        print(f"torch.compile is ready after {given.budget - deadline + time.monotonic():.0f} s", flush=True)
    rows: list[dict[str, Any]] = []
    for program, width in pairs:
        if bench.spent:
            print("the budget is spent", flush=True)
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows.append(bench.measure(program, width, peers))
        bench.tidy()
        print(line(rows[-1]), flush=True)
        if given.json:
            write_json(given.json, {**conditions(on_gpu=True), "runs": RUNS, "rows": rows})
    print(f"behind: {sum(map(is_behind, rows))} of {len(rows)}", flush=True)
    return int(any(is_behind(row) or not row.get("right", False) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
