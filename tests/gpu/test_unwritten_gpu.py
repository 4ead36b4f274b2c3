"""Omitted outputs on a real GPU: 0 where the kernel does not write, in memory that held something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.runtime.devices import cuda, gpu_clear

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.gpu() is None, reason=cuda.gpu_problem() or "a GPU is here"),
]

PROGRAMS = {
    "border": "for k in 0..K, i in 2..H-2, j in 1..W-3:\n        y[k, i, j] = x[k, i-2, j]",
    "inside": "for k in 1..K-1, i in 2..H-2, j in 1..W-3:\n        y[k, i, j] = x[k, i-2, j]",
    "row": "for k in 0..K, j in 0..W:\n        y[k, 0, j] = x[k, 0, j]",
    "data": "for k in 0..K, i in 0..H, j in 0..W:\n        if x[k, i, j] > 100:\n"
            "            y[k, i, j] = x[k, i, j]",
}  # fmt: skip


def poison(torch: Any, size: int) -> None:
    """Leave memory in the pool that holds no zeros."""
    torch.full((size,), 0xAB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()


@pytest.mark.parametrize("dtype", ["u8", "u16", "f32", "f64"])
@pytest.mark.parametrize("shape", [(3, 20, 64), (5, 9, 33), (2, 40, 41), (1, 4, 4)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_not_written_is_zero(name: str, shape: tuple[int, ...], dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads(
        f"kernel k(x: {dtype}[K, H, W], out y: {dtype}[K, H, W]):\n    {PROGRAMS[name]}\n"
    )
    kind = {"u8": np.uint8, "u16": np.uint16, "f32": np.float32, "f64": np.float64}[dtype]
    data = np.random.default_rng(1).integers(1, 255, shape).astype(kind)
    expected = np.zeros_like(data)
    kernel.reference(data, expected)
    x = torch.from_numpy(data).cuda()
    for _ in range(4):
        poison(torch, data.nbytes)
        assert np.array_equal(kernel(x).cpu().numpy(), expected)


INSIDE = """
kernel k(x: f32[H, W], out y: f32[H, W]):
    for i in 2..H-2, j in 2..W-2:
        y[i, j] = x[i-2, j] + x[i+2, j] + x[i, j-2] + x[i, j+2]
"""


def inside(torch: Any, x: Any) -> Any:
    y = torch.zeros_like(x)
    y[2:-2, 2:-2] = x[:-4, 2:-2] + x[4:, 2:-2] + x[2:-2, :-4] + x[2:-2, 4:]
    return y


def launched(torch: Any, call: Any) -> list[str]:
    """The names of what ran on the GPU for a call."""
    activities = [torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    events = [one for one in profile.events() if one.device_type == torch.autograd.DeviceType.CUDA]
    return [one.name for one in events]


def test_a_border_is_one_launch() -> None:
    """The kernel's own, which clears; with the output given, the plain one."""
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads(INSIDE)
    x = torch.rand((1000, 1030), device="cuda")
    y = torch.full_like(x, 7.0)
    for _ in range(3):
        kernel(x)
        kernel(x, y)
    launched(torch, lambda: kernel(x))  # what the profiler does at its first use
    poison(torch, 4 * x.numel())
    assert [name.split("(")[0] for name in launched(torch, lambda: kernel(x))] == ["k_0_clearing"]
    assert [name.split("(")[0] for name in launched(torch, lambda: kernel(x, y))] == ["k_0"]
    poison(torch, 4 * x.numel())
    given = torch.zeros_like(x)
    kernel(x, given)
    assert torch.equal(kernel(x), given)
    assert torch.allclose(kernel(x), inside(torch, x))


@pytest.mark.parametrize("name", ["horizontal_diffusion", "harris", "shift", "gauss_seidel"])
def test_examples_without_their_outputs(name: str) -> None:
    """Bit for bit what they are in outputs of zeros, for even and odd sizes."""
    torch = pytest.importorskip("torch")
    from loopfuse.kernels.trial import random_arguments

    kernel = _example(name)
    for size in (37, 64, 130):
        sizes = dict.fromkeys(kernel.signature.sizes, size)
        given = random_arguments(kernel, sizes, 0)
        outs = [one.name for one in kernel.signature.parameters if one.mode == "out"]
        moved = {n: torch.from_numpy(v).cuda() if isinstance(v, np.ndarray) else v for n, v in given.items()}
        zeros = {n: torch.zeros_like(moved[n]) for n in outs}
        kept = {n: v.clone() if hasattr(v, "clone") else v for n, v in moved.items()}
        kernel(**{**kept, **zeros})
        for _ in range(3):
            poison(torch, max(v.nbytes for v in given.values() if isinstance(v, np.ndarray)))
            left = {n: v.clone() if hasattr(v, "clone") else v for n, v in moved.items() if n not in outs}
            made = kernel(**left)
            for one, out in zip(made if isinstance(made, tuple) else (made,), outs, strict=True):
                assert torch.equal(one, zeros[out]), (name, size)


def _example(name: str) -> Any:
    return loopfuse.load(Path(__file__).resolve().parents[2] / "examples" / f"{name}.lf")


def test_on_a_stream_behind_other_work() -> None:
    """What clears waits for what was enqueued before, and what comes next for it."""
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads(INSIDE)
    x = torch.rand((2000, 2000), device="cuda")
    expected = inside(torch, x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(50):
            held = torch.full_like(x, 7.0)  # its memory is the next output's
            del held
            made = kernel(x)
            made.add_(1.0)
        assert torch.allclose(made, expected + 1.0)


def test_captured_after_one_call() -> None:
    """The variant is loaded by the first call."""
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads(INSIDE)
    x = torch.rand((300, 301), device="cuda")
    kernel(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernel(x)
    for _ in range(3):
        y.fill_(7.0)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.allclose(y, inside(torch, x))


def test_several_outputs() -> None:
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads("""
kernel k(x: f64[H, W], out y: f64[H, W], out z: u8[H, W], out w: f32[H, W]):
    for i in 1..H-1, j in 3..W-2:
        y[i, j] = x[i-1, j]
        z[i, j] = 1
    for i in 0..H, j in 0..W:
        w[i, j] = f32(x[i, j])
""")
    for shape in ((200, 130), (200, 131), (3, 6), (2, 5), (1, 1)):
        x = torch.rand(shape, device="cuda", dtype=torch.float64)
        for _ in range(3):
            poison(torch, 8 * x.numel())
            y, z, w = kernel(x)
            expected = torch.zeros_like(x)
            if shape[0] > 2 and shape[1] > 5:
                expected[1:-1, 3:-2] = x[:-2, 3:-2]
            assert torch.equal(y, expected), shape
            assert torch.equal(z, (expected != 0).to(torch.uint8)), shape
            assert torch.equal(w, x.float()), shape


def test_under_graph_capture() -> None:
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads(
        "kernel k(x: f32[H, W], out y: f32[H, W]):\n    for i in 2..H-2, j in 2..W-2:\n"
        "        y[i, j] = x[i, j]\n"
    )
    x = torch.ones((100, 130), device="cuda")
    kernel(x)
    kernel(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernel(x)
    for _ in range(2):
        y.fill_(7.0)
        graph.replay()
        torch.cuda.synchronize()
        assert float(y.sum()) == 96 * 126


@pytest.mark.parametrize("unit", [1, 2, 4, 8, 16])
def test_pieces_of_every_unit(unit: int) -> None:
    torch = pytest.importorskip("torch")
    memory = torch.full((1 << 16,), 255, dtype=torch.uint8, device="cuda")
    pieces = ((unit, 64 * unit, 3 * unit, 50), (4096 * unit // 2, 1, 5 * unit, 1))
    packed = gpu_clear.pack(pieces)
    assert isinstance(packed, gpu_clear.ClearLaunch) and packed.entry == f"clear_{unit}"
    gpu_clear.clear_pieces(memory.data_ptr(), packed, torch.cuda.current_stream().cuda_stream)
    expected = np.full(1 << 16, 255, np.uint8)
    for offset, pitch, width, rows in pieces:
        for row in range(rows):
            expected[offset + row * pitch :][:width] = 0
    assert np.array_equal(memory.cpu().numpy(), expected)
