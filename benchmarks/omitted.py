"""What it costs to leave an output out: calls with their outputs given and left out, in turns.

`given` are calls with a new uninitialised output each, as a user makes one: where arrays lie in memory is worth some
per cent of a call. `kept` are calls with one and the same output.

By events around PyTorch's own calls on a GPU (`--cpu`: NumPy's, by wall clock). An output that is left out comes
from the pool, and only what the kernel does not write of it is cleared: on a GPU by the kernel's own launch where that
is a border. `apart` are such calls with a launch for it before the kernel's (only where there is something to clear).
Exit 1 where a large call without its outputs takes over 2 % longer on the GPU.

    python benchmarks/omitted.py [--cpu] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from results import conditions, write_json

import loopfuse

EXAMPLES = Path(loopfuse.__file__).resolve().parent.parent / "examples"
SWIGLU = """\
kernel swiglu(a: {t}[R, C], b: {t}[R, C], out y: {t}[R, C]):
    for r in 0..R, c in 0..C:
        y[r, c] = a[r, c] / ({one} + exp(-a[r, c])) * b[r, c]
"""
BORDER = """\
kernel border(x: f32[H, W], out y: f32[H, W]):
    for i in 2..H-2, j in 2..W-2:
        y[i, j] = x[i-2, j] + x[i+2, j] + x[i, j-2] + x[i, j+2]
"""
# name: (text or file, shapes of the inputs on a GPU, on the CPU, scalars)
CASES: dict[str, tuple[str, list[tuple[int, ...]], list[tuple[int, ...]], list[float]]] = {
    "horizontal_diffusion": ("horizontal_diffusion.lf", [(80, 512, 512)] * 2, [(16, 256, 256)] * 2, []),
    "unsharp": ("unsharp.lf", [(4096, 4096)], [(1024, 1024)], [1.5]),
    "swiglu": (SWIGLU.format(t="f32", one="1.0"), [(8192, 4096)] * 2, [(512, 1024)] * 2, []),
    "border": (BORDER, [(4096, 4096)], [(1024, 1024)], []),
    "border_odd": (BORDER, [(4095, 4095)], [(1023, 1023)], []),
    "border_small": (BORDER, [(256, 256)], [(64, 64)], []),
}
HELD = ("horizontal_diffusion", "unsharp", "swiglu", "border")
"""What exit 1 is for: of the others, the host's part of a call is what takes time."""
TURNS, CALLS = 15, 20


def times(call: Callable[[], Any], on_gpu: bool) -> list[float]:
    """Seconds of each of `CALLS` calls after one more."""
    if not on_gpu:
        found: list[float] = []
        for _ in range(CALLS + 1):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
        return found[1:]
    import torch

    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(CALLS + 1)
    ]
    for start, stop in events:
        start.record()
        call()
        stop.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(stop) / 1e3 for start, stop in events[1:]]


def open_kernel(name: str, on_gpu: bool) -> Any:
    """A kernel of its own, with call paths of its own."""
    text, target = CASES[name][0], None if on_gpu else "cpu"
    if text.endswith(".lf"):
        return loopfuse.load(EXAMPLES / text, target=target)
    return loopfuse.loads(text, target=target)


@contextmanager
def launches_apart() -> Iterator[None]:
    """Calls that are learnt inside are cleared by a launch before the kernel's."""
    from loopfuse.runtime.call import fast_gpu

    choose = fast_gpu.choose
    fast_gpu.choose = lambda arrays, threads: ()
    try:
        yield
    finally:
        fast_gpu.choose = choose


def measure(name: str, on_gpu: bool) -> dict[str, Any]:
    """Medians of every sort of calls, in turns."""
    _, large, small, scalars = CASES[name]
    kernel = open_kernel(name, on_gpu)
    generator = np.random.default_rng(0)
    arrays: list[Any] = [
        generator.random(shape, np.float32) for shape in (large if on_gpu else small)
    ]
    new: Callable[..., Any] = np.empty_like
    if on_gpu:
        import torch

        arrays = [torch.from_numpy(array).cuda() for array in arrays]
        new = torch.empty_like
    output = new(arrays[0])
    calls: dict[str, Callable[[], Any]] = {
        "kept": lambda: kernel(*arrays, output, *scalars),
        "given": lambda: kernel(*arrays, new(arrays[0]), *scalars),
        "omitted": lambda: kernel(*arrays, None, *scalars),
    }
    if on_gpu and any(one.get("unwritten") for one in kernel.compile(emit={"ptx"}).manifest["parameters"]):
        apart = open_kernel(name, on_gpu)
        with launches_apart():
            for _ in range(3):
                apart(*arrays, None, *scalars)
        calls["apart"] = lambda: apart(*arrays, None, *scalars)
    found: dict[str, list[float]] = {form: [] for form in calls}
    for call in calls.values():
        times(call, on_gpu)
    for turn in range(TURNS):
        for form in list(calls)[:: 1 if turn % 2 else -1]:
            found[form] += times(calls[form], on_gpu)
    medians = {form: statistics.median(each) for form, each in found.items()}
    return {"case": name, **medians, "ratio": medians["omitted"] / medians["given"]}


def main(arguments: list[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="on the CPU")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    print(f"{'case':<24}{'kept':>12}{'given':>12}{'omitted':>12}{'ratio':>8}{'apart':>12}")
    for name in CASES:
        row = measure(name, not given.cpu)
        rows.append(row)
        apart = f"{row['apart'] * 1e6:>9.1f} us" if "apart" in row else ""
        print(
            f"{name:<24}{row['kept'] * 1e6:>9.1f} us{row['given'] * 1e6:>9.1f} us{row['omitted'] * 1e6:>9.1f} us{row['ratio']:>8.3f}{apart}"
        )
    if given.json:
        write_json(given.json, {**conditions(not given.cpu), "unit": "s", "rows": rows})
    return int(not given.cpu and any(row["ratio"] > 1.02 for row in rows if row["case"] in HELD))


if __name__ == "__main__":
    sys.exit(main())
