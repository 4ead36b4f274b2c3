"""The same input gives the same bytes: files, reports and results, on every run.

Whatever the hash seed, the number of threads, what was compiled before in the process, or the load.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import loopfuse
from loopfuse.base.options import Target
from loopfuse.codegen.targets.ptx import emit_ptx

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = tuple(sorted(each.stem for each in (ROOT / "examples").glob("*.lf")))
FEW = tuple(
    name
    for name in EXAMPLES
    if name in ("unsharp", "stats", "csr_matvec", "wave")
)

DIGESTS = r"""
import hashlib, json, sys, warnings
from pathlib import Path
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, Tuning
warnings.simplefilter("ignore")

root, names, tuning = Path(sys.argv[1]), sys.argv[2].split(","), Tuning(steps=int(sys.argv[3]))
out = {}
for name in names:
    path = root / "examples" / f"{name}.lf"
    source = Source(f"examples/{name}.lf", path.read_text())
    program = pipeline.read_program(source)
    for kernel in program.kernels:
        for target in (CPU, Target("sm_90")):
            emit = {"mlir", "affine", "llvm", "report"} | ({"ptx"} if target.is_gpu else {"object"})
            options = Options(target=target, tuning=tuning)
            made = pipeline.compile_kernel(program, kernel.name, options, emit=emit)
            parts = (
                made.ptx, made.object.hex(), made.mlir, made.affine_mlir, made.fused_mlir, made.llvm,
                json.dumps(made.manifest), json.dumps(made.report),
                json.dumps(pipeline.describe_dependences(program, kernel.name)),
            )
            for number, part in enumerate(parts):
                digest = hashlib.sha256(part.encode()).hexdigest()
                out[f"{kernel.name} {target.name} {number}"] = digest
print(json.dumps(out))
"""


def digests(names: tuple[str, ...], hash_seed: str, **environment: str) -> dict[str, str]:
    """What a fresh process prints for these examples; a few, with blocks of two time steps."""
    steps = "2" if names in (FEW, FEW[::-1]) else "0"
    done = subprocess.run(
        [sys.executable, "-c", DIGESTS, str(ROOT), ",".join(names), steps],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "LOOPFUSE_CACHE": "0", "PYTHONPATH": str(ROOT),
             **environment},
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Which outputs differ."""
    return [name for name in one if one[name] != other.get(name)]


@pytest.mark.parametrize(
    "names", [FEW, pytest.param(EXAMPLES, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_any_hash_seed_and_order_gives_the_same_files(names: tuple[str, ...]) -> None:
    """PTX, object, all three MLIR files, LLVM IR, manifest, report and dependences."""
    first = digests(names, "0")
    again = digests(tuple(reversed(names)), "random", LOOPFUSE_NUM_THREADS="1")
    assert not differing(first, again)


CALLS = """
target triple = "nvptx64-nvidia-cuda"
define internal float @dear(float %x) noinline {
  %y = fmul float %x, %x
  ret float %y
}
define ptx_kernel void @k(ptr addrspace(1) %p) {
  %a = load float, ptr addrspace(1) %p
  %b = call float @dear(float %a)
  store float %b, ptr addrspace(1) %p
  ret void
}
"""


def test_calls_are_counted_anew_in_each_module() -> None:
    """NVPTX numbers them in comments."""
    first = emit_ptx(CALLS, Target("sm_90"))
    assert "callseq 0" in first and emit_ptx(CALLS, Target("sm_90")) == first


SUMS = """
kernel total(x: f32[N], out y: f32[3]):
    y[0] = sum(i in 0..N: x[i])
    y[1] = sum(i in 0..N: x[i] * x[i])
    y[2] = max(i in 0..N: x[i])
"""


def digest(arrays: tuple[np.ndarray, ...]) -> str:
    """The bits of some arrays."""
    return hashlib.sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()


@pytest.mark.parametrize("size", [1, 1000, 1_000_003])
def test_results_do_not_depend_on_threads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums whose order changes keep one order: of program, sizes, target and plan alone."""
    kernel = loopfuse.loads(SUMS)
    x = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    found: set[str] = set()
    for threads in ("1", "2", "3", "8"):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
        for _ in range(3):
            y = np.full(3, np.nan, np.float32)
            kernel(x, y)
            found.add(digest((y,)))
        # The place of an array in memory is no input either.
        room = np.empty(size + 5, np.float32)
        for shift in (1, 3, 4):
            moved = room[shift : shift + size]
            moved[:] = x
            y = np.zeros(3, np.float32)
            kernel(moved, y)
            found.add(digest((y,)))
    assert len(found) == 1


def test_results_do_not_depend_on_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads that call one kernel at once, while others keep the cores busy."""
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "4")
    kernel = loopfuse.loads(SUMS)
    x = np.random.default_rng(2).standard_normal(300_007).astype(np.float32)
    expected = np.zeros(3, np.float32)
    kernel(x, expected)
    found: set[str] = set()
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(range(1000))

    def call() -> None:
        for _ in range(20):
            y = np.zeros(3, np.float32)
            kernel(x, y)
            found.add(digest((y,)))

    busy = [threading.Thread(target=spin) for _ in range(3)]
    callers = [threading.Thread(target=call) for _ in range(8)]
    for thread in (*busy, *callers):
        thread.start()
    for thread in callers:
        thread.join()
    stop.set()
    for thread in busy:
        thread.join()
    assert found == {digest((expected,))}
