"""Tuning on a real GPU. `pytest -m gpu tests/gpu/test_tuning_gpu.py`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.options import Tuning
from loopfuse.runtime.arrays.arrays import match
from loopfuse.runtime.devices import cuda, gpu_arrays
from loopfuse.runtime.devices.gpu_arrays import DeviceArray
from loopfuse.tuning.copies import Copies
from loopfuse.tuning.timing import GpuTimer, seconds_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.gpu() is None, reason=cuda.gpu_problem() or "a GPU is here"),
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def random(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).random(shape).astype(dtype)


def test_a_stencil() -> None:
    kernel = loopfuse.load(EXAMPLES / "unsharp.lf", tune=True, tune_budget=20.0)
    picture = random(2048, 2050)
    image, plain, tuned = (
        DeviceArray(picture),
        *(DeviceArray(np.zeros_like(picture)) for _ in range(2)),
    )
    kernel.with_options(tune=False)(image, plain, 1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no trial computes something else
        found = kernel.tune(image, tuned, 1.5)
    assert not found.wrong and found.tried > 3 and 1.0 <= found.gain < 3.0
    assert found.default_seconds is not None and 5e-6 < found.default_seconds < 5e-3
    assert not tuned.download().any() and np.array_equal(image.download(), picture)
    kernel(image, tuned, 1.5)
    assert tuned.download().tobytes() == plain.download().tobytes()


@pytest.mark.parametrize("size", [1024, 1021])
def test_time_steps_in_place(size: int) -> None:
    kernel = loopfuse.load(EXAMPLES / "jacobi.lf", tune=True, tune_budget=20.0)
    fields = random(size, size, dtype=np.float64), random(size, size, dtype=np.float64)
    plain, tuned = ([DeviceArray(one) for one in fields] for _ in range(2))
    kernel.with_options(tune=False)(*plain, 13)
    found = kernel.tune(*tuned, 13)
    assert not found.wrong and all(np.array_equal(a.download(), b) for a, b in zip(tuned, fields))
    kernel(*tuned, 13)
    for one, other in zip(plain, tuned):
        assert one.download().tobytes() == other.download().tobytes()


def test_every_choice_of_shape_gives_the_same_bits() -> None:
    kernel = loopfuse.load(EXAMPLES / "harris.lf")
    picture = DeviceArray(random(700, 901))
    results: set[bytes] = set()
    for tuning in (
        Tuning(),
        Tuning(columns=2),
        Tuning(warps=1, rows=32),
        Tuning(ahead=0),
        Tuning(windows=False),
    ):
        out = DeviceArray(np.zeros((700, 901), np.float32))
        kernel.with_options(tuning=tuning)(picture, out)
        results.add(out.download().tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("size", [1 << 20, 1 << 26])
def test_the_timer_agrees_with_many_launches_in_a_row(size: int) -> None:
    """A short kernel is not as slow as its launch; a long one takes what it takes in a row."""
    kernel = loopfuse.load(EXAMPLES / "saxpy.lf")
    given = {
        p.name: DeviceArray(random(size)) if p.is_array else 1.5
        for p in kernel.signature.parameters
    }
    matched = match(kernel.signature, (), given)
    loaded = kernel._ready(kernel._target_for(matched), matched, {}, Tuning())
    copies = Copies(matched)
    timer = GpuTimer(copies)
    once = seconds_of(timer, lambda: loaded.run(copies.binding))
    timer.close()
    many = gpu_arrays.Timer()
    kernel(**given)
    many.start()
    for _ in range(200):
        kernel(**given)
    in_a_row = many.stop() / 200
    copies.close()
    assert once < 3 * in_a_row + 5e-6
    if size > 1 << 25:  # a call takes the host less than the kernel takes
        assert once > 0.5 * in_a_row


def test_with_torch_on_a_side_stream_and_in_a_graph() -> None:
    torch = pytest.importorskip("torch")
    kernel = loopfuse.load(EXAMPLES / "blur.lf", tune=True, tune_budget=10.0)
    image = torch.rand(1000, 1200, device="cuda")
    expected = kernel.with_options(tune=False)(image)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        found = kernel.tune(image)
        assert torch.equal(kernel(image), expected) and not found.wrong
    torch.cuda.synchronize()
    out = torch.zeros_like(image)
    kernel(image, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(image, out)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


def test_memory_is_given_back() -> None:
    driver = cuda.driver_api()
    kernel = loopfuse.load(EXAMPLES / "blur.lf", tune_budget=5.0)
    image, out = DeviceArray(random(2000, 2000)), DeviceArray(random(2000, 2000))
    kernel(image, out)

    def free() -> int:
        with cuda.on_gpu(0):
            return int(cuda.check_call(driver.cuMemGetInfo(), "asking for memory")[0])

    kept: list[int] = []
    for _ in range(4):  # other processes take and give back memory of the device too
        before = free()
        kernel.tune(image, out)
        kept.append(before - free())
        if kept[-1] < 64 << 20:  # the code of the trials stays loaded
            return
    raise AssertionError(f"bytes that were kept: {kept}")
