"""Does `loopfuse bench` say what a user's own events say?

Ten cases on a GPU (`--cpu`: the same on the CPU, by wall clock): the figures of `loopfuse bench` beside those of
a loop around the user's own calls on PyTorch's arrays, outputs given and left out, single launches and time loops.
Exit 1 where one differs by more than 3 %.

    python benchmarks/bench_truth.py [--cpu] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from results import conditions, write_json

import loopfuse
from loopfuse.commands import bench
from loopfuse.commands.bench_report import Found
from loopfuse.commands.common import Common, open_kernels
from loopfuse.kernels.trial import random_arguments

EXAMPLES = Path(loopfuse.__file__).resolve().parent.parent / "examples"
CALLS = 400

# name: (file in examples or text, sizes on a GPU, sizes on the CPU)
CASES: dict[str, tuple[str, dict[str, int], dict[str, int]]] = {
    "horizontal_diffusion": ("horizontal_diffusion.lf", {"K": 80, "J": 512, "I": 512}, {"K": 8, "J": 128, "I": 128}),
    "unsharp": ("unsharp.lf", {"H": 4096, "W": 4096}, {"H": 1024, "W": 1024}),
    "unsharp_small": ("unsharp.lf", {"H": 512, "W": 512}, {"H": 256, "W": 256}),
    "softmax": ("softmax.lf", {"R": 8192, "C": 4096}, {"R": 512, "C": 1024}),
    "swiglu": (
        "kernel swiglu(a: f32[N], b: f32[N], out y: f32[N]):\n    for i in 0..N:\n"
        "        y[i] = a[i] / (1.0 + exp(-a[i])) * b[i]\n",
        {"N": 1 << 25}, {"N": 1 << 20},
    ),
    "saxpy": (
        "kernel saxpy(x: f32[N], inout y: f32[N], a: f32):\n    for i in 0..N:\n"
        "        y[i] = a * x[i] + y[i]\n",
        {"N": 1 << 26}, {"N": 1 << 21},
    ),
    "border": (
        "kernel border(x: f32[H, W], out y: f32[H, W]):\n    for i in 2..H-2, j in 2..W-2:\n"
        "        y[i, j] = x[i-2, j] + x[i+2, j] + x[i, j-2] + x[i, j+2]\n",
        {"H": 4096, "W": 4096}, {"H": 1024, "W": 1024},
    ),
    "jacobi": ("jacobi.lf", {"N": 2048, "steps": 20}, {"N": 512, "steps": 8}),
    "jacobi_small": ("jacobi.lf", {"N": 512, "steps": 100}, {"N": 128, "steps": 20}),
    "sum": (
        "kernel total(x: f32[N], out s: f32[1]):\n    s[0] = sum(i in 0..N: x[i])\n",
        {"N": 1 << 26}, {"N": 1 << 21},
    ),
}  # fmt: skip


BATCH = 20
"""Calls between two events: with one, a kernel of a few microseconds is as long as the host takes to enqueue
the events and the call around it, in which the GPU has nothing to do."""


def own_times(call: Callable[[], Any], on_gpu: bool) -> float:
    """The median seconds of a call, as a user measures it who calls again and again."""
    for _ in range(5):
        call()
    if not on_gpu:
        spent: list[float] = []
        for _ in range(CALLS):
            start = time.perf_counter()
            call()
            spent.append(time.perf_counter() - start)
        return statistics.median(spent)
    import torch

    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(CALLS // BATCH)
    ]
    torch.cuda.synchronize()
    for start, stop in events:
        start.record()
        for _ in range(BATCH):
            call()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in events) / 1e3 / BATCH


def measure(name: str, on_gpu: bool, folder: Path) -> list[dict[str, Any]]:
    """The rows of one case: `bench` and the user's own, in three turns; the medians of them."""
    text, large, small = CASES[name]
    sizes = large if on_gpu else small
    file = EXAMPLES / text if text.endswith(".lf") else folder / f"{name}.lf"
    if not text.endswith(".lf"):
        file.write_text(text)
    common = Common(target=None if on_gpu else "cpu", sizes=tuple(sizes.items()))
    (kernel,) = open_kernels(str(file), common)
    arguments = random_arguments(kernel, sizes, 0)
    if on_gpu:
        import torch

        arguments = {
            n: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v for n, v in arguments.items()
        }
    outs = [p.name for p in kernel.signature.parameters if p.mode == "out"]
    calls = {"fused": lambda: kernel(**arguments)}
    if outs:
        left = {n: v for n, v in arguments.items() if n not in outs}
        calls["allocated"] = lambda: kernel(**left)
    said: dict[str, list[float]] = {form: [] for form in calls}
    own: dict[str, list[float]] = {form: [] for form in calls}
    seen: list[Found] = []
    shown, kept = bench.say, Found.to_text
    bench.say, Found.to_text = (lambda text: None), (lambda self: seen.append(self) or "")  # type: ignore[method-assign]
    try:
        for _ in range(3):
            bench.bench_file(str(file), common, (), 0)
            for form, call in calls.items():
                said[form].append(seen[-1].seconds(form))
                own[form].append(own_times(call, on_gpu))
    finally:
        bench.say, Found.to_text = shown, kept  # type: ignore[method-assign]
    rows: list[dict[str, Any]] = []
    for form in calls:
        a, b = statistics.median(said[form]), statistics.median(own[form])
        rows.append({"case": name, "form": form, "bench": a, "own": b, "ratio": a / b})
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="on the CPU")
    parser.add_argument("--only", default="", help="cases, separated by commas")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    names = given.only.split(",") if given.only else list(CASES)
    rows: list[dict[str, Any]] = []
    print(f"{'case':<22}{'form':<11}{'bench':>12}{'own':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for row in measure(name, not given.cpu, Path(folder)):
                rows.append(row)
                mark = "" if abs(row["ratio"] - 1) <= 0.03 else "  FAR"
                print(
                    f"{name:<22}{row['form']:<11}{row['bench'] * 1e6:>9.1f} us{row['own'] * 1e6:>9.1f} us"
                    f"{row['ratio']:>8.3f}{mark}", flush=True,
                )  # fmt: skip
    if given.json:
        write_json(given.json, {**conditions(not given.cpu), "unit": "s", "rows": rows})
    return int(any(abs(row["ratio"] - 1) > 0.03 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
