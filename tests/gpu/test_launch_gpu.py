"""Generated call paths on a real GPU: results, streams, graphs, errors. `pytest -m gpu`."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.devices import cuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.gpu() is None, reason=cuda.gpu_problem() or "a GPU is here"),
]

SCALE = """
kernel scale(x: f32[N], out y: f32[N], a: f32):
    for i in 0..N:
        y[i] = a * x[i]
"""
NORM = """
kernel norm(x: f32[N], out y: f32[N]):
    let s = sum(i in 0..N: x[i] * x[i])
    for i in 0..N:
        y[i] = x[i] / sqrt(s)
"""
HEAT = """
kernel heat(inout a: f64[N], steps: i64):
    temp b: f64[N]
    for t in 0..steps:
        for i in 1..N-1:
            b[i] = 0.5 * (a[i-1] + a[i+1])
        for i in 1..N-1:
            a[i] = b[i]
"""
GATHER = """
kernel gather(x: f32[M], at: i32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = x[at[i]]
"""


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows at each call that takes the checked path."""
    calls: list[int] = []
    real = arrays.match

    def count(*given: Any) -> Any:
        calls.append(1)
        return real(*given)

    monkeypatch.setattr(arrays, "match", count)
    return calls


@pytest.fixture(params=["torch", "cupy"])
def put(request: pytest.FixtureRequest) -> Any:
    """Moves a NumPy array to the GPU."""
    module = pytest.importorskip(request.param)
    if request.param == "torch":
        return lambda array: module.as_tensor(array, device="cuda")
    return module.asarray


def get(array: Any) -> Any:
    return array.cpu().numpy() if hasattr(array, "cpu") else array.get()


def test_the_second_call_is_fast_and_right(put: Any, checked: list[int]) -> None:
    kernel = loopfuse.loads(SCALE)
    for number in range(6):
        x = np.random.default_rng(number).random(10_007, np.float32)
        y = put(np.zeros_like(x))
        assert kernel(put(x), y, 0.5 + number) is None
        np.testing.assert_array_equal(get(y), x * np.float32(0.5 + number))
        made = kernel(put(x), 2.0)
        np.testing.assert_array_equal(get(made), 2 * x)
    assert len(checked) == 2


def test_checked_subscripts(put: Any, checked: list[int]) -> None:
    kernel = loopfuse.loads(GATHER)
    x = np.random.default_rng(0).random(1000, np.float32)
    at = np.random.default_rng(1).integers(0, 1000, 5000).astype(np.int32)
    for _ in range(3):
        np.testing.assert_array_equal(get(kernel(put(x), put(at))), x[at])
    bad = at.copy()
    bad[77] = 1234
    for _ in range(2):
        made = get(kernel(put(x), put(bad)))
        assert made[77] == 0 and (np.delete(made, 77) == np.delete(x[at], 77)).all()
        with pytest.raises(LoopfuseError, match="element 1234 of `x` is read, which has 1000"):
            kernel(put(x), put(at))
        np.testing.assert_array_equal(get(kernel(put(x), put(at))), x[at])
    assert len(checked) == 1


def test_unaligned_views(put: Any, checked: list[int]) -> None:
    kernel = loopfuse.loads(SCALE)
    for start in (0, 1, 2, 4, 0):
        x = np.arange(5000, dtype=np.float32)
        y = put(np.zeros(5001, np.float32))
        kernel(put(x)[start : start + 4000], y[start : start + 4000], 3.0)
        np.testing.assert_array_equal(get(y)[start : start + 4000], 3 * x[start : start + 4000])
    assert len(checked) == 1


def test_workspaces_and_host_loops(put: Any, checked: list[int]) -> None:
    x = np.random.default_rng(0).random(1_000_003, np.float32)
    norm, heat = loopfuse.loads(NORM), loopfuse.loads(HEAT)
    first = get(norm(put(x)))
    np.testing.assert_allclose(first, x / np.linalg.norm(x.astype(float)), rtol=1e-5)
    for _ in range(3):
        np.testing.assert_array_equal(get(norm(put(x))), first)
    expected = b = np.arange(500.0) ** 2
    for _ in range(7):
        b = expected.copy()
        b[1:-1] = 0.5 * (expected[:-2] + expected[2:])
        expected = b
    for _ in range(3):
        a = put(np.arange(500.0) ** 2)
        heat(a, 7)
        np.testing.assert_array_equal(get(a), expected)
    assert len(checked) == 2


def test_errors_are_the_same_after_good_calls(put: Any) -> None:
    def ones(*shape: int, dtype: Any = np.float32) -> Any:
        return put(np.ones(shape, dtype))

    room = ones(300)
    bad: list[tuple[Any, ...]] = [
        (ones(10, dtype=np.float64), ones(10), 1.0),
        (ones(10), ones(11), 1.0),
        (ones(10, 1), ones(10), 1.0),
        (room[:20:2], room[10:20], 1.0),
        (np.ones(10, np.float32), ones(10), 1.0),
        (room[:100], room[99:199], 1.0),
        (room, room, 1.0),
        (ones(10), ones(10), "1"),
        (ones(10), ones(10), True),
    ]
    warm = loopfuse.loads(SCALE)
    for count in (10, 100, 300):
        for _ in range(2):
            warm(ones(count), ones(count), 1.0)
    for args in bad:
        said: list[str] = []
        for kernel in (loopfuse.loads(SCALE), warm):
            with pytest.raises(LoopfuseError) as caught:
                kernel(*args)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_streams_and_threads(put: Any) -> None:
    """Each thread has a stream of its own, and no context before its first call."""
    kernel = loopfuse.loads(SCALE)
    wrong: list[int] = []
    libraries = [name for name in ("torch", "cupy") if name in type(put(np.ones(1))).__module__]

    def work(factor: int) -> None:
        if libraries == ["torch"]:
            import torch

            stream: Any = torch.cuda.Stream()
            use = torch.cuda.stream(stream)
        else:
            import cupy

            use = stream = cupy.cuda.Stream(non_blocking=True)
        with use:
            x = put(np.full(50_000, 2, np.float32))
            y = put(np.zeros(50_000, np.float32))
            for _ in range(200):
                kernel(x, y, float(factor))
                y += 1
                stream.synchronize()
                if not (get(y) == 2 * factor + 1).all():
                    wrong.append(factor)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_thread_without_a_context(put: Any) -> None:
    kernel = loopfuse.loads(SCALE)
    x, y = put(np.ones(100, np.float32)), put(np.zeros(100, np.float32))
    for _ in range(2):
        kernel(x, y, 1.0)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(3):
                kernel(x, y, 5.0)
            loopfuse.synchronize()
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert not errors and (get(y) == 5).all()


def test_graph_capture() -> None:
    """A captured call with a workspace replays on new contents, also between eager calls."""
    torch = pytest.importorskip("torch")
    kernel = loopfuse.loads(NORM)
    x = torch.rand(300_001, device="cuda")
    y = torch.empty_like(x)
    for _ in range(3):
        kernel(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y)
    for _ in range(3):
        x.copy_(torch.rand_like(x))
        expected = kernel(x)
        y.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, expected)


def test_a_call_is_cheap(put: Any) -> None:
    """Far from the checked path's cost; benchmarks/launch.py measures it properly."""
    import time

    kernel = loopfuse.loads(SCALE)
    x, y = put(np.ones(100, np.float32)), put(np.zeros(100, np.float32))
    for _ in range(10):
        kernel(x, y, 1.0)
    best = 1.0
    for _ in range(10):
        loopfuse.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            kernel(x, y, 1.0)
        best = min(best, (time.perf_counter() - start) / 100)
    assert best < 30e-6
