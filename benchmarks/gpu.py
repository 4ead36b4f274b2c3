"""Times loopfuse against torch.compile, jax.jit and torch eager on one GPU, beside a plain copy.

    python3 benchmarks/gpu.py [--json FILE] [--only WORD] [--no-peers]

Device time by events, medians over 25 runs after a warm-up, fresh random data, outputs poisoned
before the checked run, results compared with the same formula in float64. GB/s counts each input
and output once; the copy is measured in the same run.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from cases import CASES, Case  # noqa: E402

import loopfuse  # noqa: E402
from loopfuse import kernels  # noqa: E402
from loopfuse.base.diagnostics import Source  # noqa: E402

RUNS = 25


class Torch:
    """The words of the cases, in PyTorch."""

    relu, tanh, sigmoid, sqrt = torch.relu, torch.tanh, torch.sigmoid, torch.sqrt
    gelu = staticmethod(torch.nn.functional.gelu)

    @staticmethod
    def softmax(x: Any) -> Any:
        return torch.softmax(x, 1)

    @staticmethod
    def pad_edge(x: Any, rows: int, columns: int) -> Any:
        pad = (columns, columns, rows, rows)
        return torch.nn.functional.pad(x[None, None], pad, mode="replicate")[0, 0]


def jax_words() -> Any:
    """The same in JAX; None where it is not installed."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None

    class Jax:
        relu, sigmoid = staticmethod(jax.nn.relu), staticmethod(jax.nn.sigmoid)
        tanh, sqrt = staticmethod(jnp.tanh), staticmethod(jnp.sqrt)

        @staticmethod
        def gelu(x: Any) -> Any:
            return jax.nn.gelu(x, approximate=False)

        @staticmethod
        def softmax(x: Any) -> Any:
            return jax.nn.softmax(x, 1)

        @staticmethod
        def pad_edge(x: Any, rows: int, columns: int) -> Any:
            return jnp.pad(x, ((rows, rows), (columns, columns)), mode="edge")

    return jax, Jax


AHEAD: list[Any] = []


def ahead() -> Any:
    """The target of a copy of about a millisecond; its source is AHEAD[1]."""
    if not AHEAD:
        AHEAD.extend(torch.rand(3 << 27, device="cuda") for _ in range(2))
    return AHEAD[0]


def median_ms(call: Callable[[], Any], runs: int = RUNS) -> float:
    """The median device milliseconds of a call."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(runs):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Work ahead of the clock keeps the GPU busy while the host prepares the call, so that
        # the events hold device time alone.
        ahead().copy_(AHEAD[1])
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def copy_ms(count: int) -> float:
    """A device-to-device copy that reads and writes `count` bytes together."""
    source = torch.rand(count // 8, device="cuda")
    target = torch.empty_like(source)
    return median_ms(lambda: target.copy_(source))


def jax_ms(case: Case, arrays: dict[str, Any]) -> float | None:
    """Milliseconds a call of jax.jit, ten in flight at a time."""
    words = jax_words()
    if words is None or case.jax is None:
        return None
    jax, module = words
    given = {k: jax.dlpack.from_dlpack(v) if torch.is_tensor(v) else v for k, v in arrays.items()}
    function = case.jax

    def body(inputs: dict[str, Any]) -> Any:
        return function(module, inputs)

    compiled = jax.jit(body)
    compiled(given).block_until_ready()
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        results = [compiled(given) for _ in range(10)]
        results[-1].block_until_ready()
        times.append((time.perf_counter() - start) / 10 * 1e3)
        del results
    return statistics.median(times)


def measure(case: Case, peers: bool) -> dict[str, Any]:
    """All times of one case, in milliseconds, and the error against float64."""
    path = ROOT / "examples" / f"{case.example}.lf"
    source = Source(path.name, path.read_text())
    dtype = torch.float64 if case.dtype == "f64" else torch.float32
    arrays: dict[str, Any] = {
        name: torch.rand(shape, device="cuda", dtype=dtype) + 0.01
        for name, shape in case.shapes.items()
    }
    outs = {
        name: torch.full(shape, float("nan"), device="cuda", dtype=dtype)
        for name, shape in case.outs.items()
    }
    row: dict[str, Any] = {"case": case.name, "bytes": case.perfect}
    row["copy"] = copy_ms(case.perfect)
    for key, fuel in (("loopfuse", None), ("unfused", 0)):
        kernel = kernels.load_all(source, fuel=fuel)[case.example]
        start = time.perf_counter()
        kernel(**arrays, **outs, **case.scalars)
        torch.cuda.synchronize()
        row[f"{key}_first_call"] = (time.perf_counter() - start) * 1e3
        if fuel is None:
            wide = {k: v.double() for k, v in arrays.items()} | dict(case.scalars)
            exact = case.torch(Torch, wide)
            got = next(iter(outs.values())).double()
            if case.crop:
                got = got[case.crop : -case.crop, case.crop : -case.crop]
            row["error"] = float((got - exact).norm() / exact.norm())
            del wide, exact, got
            gc.collect()
            torch.cuda.empty_cache()
        row[key] = median_ms(lambda kernel=kernel: kernel(**arrays, **outs, **case.scalars))
    if peers:
        inputs = arrays | dict(case.scalars)

        def eager() -> Any:
            return case.torch(Torch, inputs)

        row["torch_eager"] = median_ms(eager)
        compiled = torch.compile(lambda given: case.torch(Torch, given))
        row["torch_compile"] = median_ms(lambda: compiled(inputs))
        row["jax_jit"] = jax_ms(case, inputs)
    return row


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    heads = ("copy", "loopfuse", "unfused", "torch_eager", "torch_compile", "jax_jit")
    print(f"{'case':42}" + "".join(f"{h:>14}" for h in heads) + "   of copy   GB/s    error")
    for case in CASES:
        if options.only not in case.name:
            continue
        try:
            row = measure(case, not options.no_peers)
        except Exception as error:  # one case must not cost the others
            print(f"{case.name:42} failed: {type(error).__name__}: {str(error)[:200]}")
            continue
        rows.append(row)
        cells = "".join(f"{row[h]:14.4f}" if row.get(h) else f"{'':14}" for h in heads)
        rate = row["bytes"] / row["loopfuse"] / 1e6
        share = row["copy"] / row["loopfuse"]
        bad = "" if row["error"] <= case.tolerance else "  WRONG"
        print(f"{case.name:42}{cells}  {share:8.2f}{rate:7.0f}  {row['error']:.1e}{bad}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        torch._dynamo.reset()
    if options.json:
        made = {
            "device": torch.cuda.get_device_name(),
            "date": datetime.now(UTC).date().isoformat(),
            "versions": {"loopfuse": loopfuse.__version__, "torch": torch.__version__},
            "unit": "ms",
            "runs": RUNS,
            "rows": rows,
        }
        options.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
