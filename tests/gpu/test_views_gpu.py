"""Views on a real GPU: what runs on a view is what runs on its copy. `pytest -m gpu`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.devices import cuda
from loopfuse.runtime.devices.gpu_arrays import DeviceArray

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.gpu() is None, reason=cuda.gpu_problem() or "a GPU is here"),
]

SWEEP = """
kernel sweep(x: f32[H, W], row: f32[W], out y: f32[H, W], inout total: f64[H]):
    temp t: f32[H, W]
    for i in 0..H, j in 0..W:
        t[i, j] = x.clamp[i-1, j] + 2.0 * x[i, j] + x.clamp[i, j+1]
    for i in 0..H, j in 0..W:
        y[i, j] = t.wrap[i, j-1] * row[j]
    for i in 0..H:
        total[i] = total[i] + f64(sum(j in 0..W: t[i, j]))
"""
SOFTMAX = """
kernel softmax(x: f32[R, C], out y: f32[R, C]):
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        let s = sum(c in 0..C: exp(x[r, c] - m))
        for c in 0..C:
            y[r, c] = exp(x[r, c] - m) / s
"""
COPY = "kernel copy(x: {0}[N], out y: {0}[N]):\n    for i in 0..N:\n        y[i] = x[i]\n"


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    """The library's functions that tests need, over both."""
    module = pytest.importorskip(request.param)

    class Library:
        @staticmethod
        def put(array: Any) -> Any:
            if request.param == "torch":
                return module.as_tensor(array, device="cuda")
            return module.asarray(array)

        @staticmethod
        def get(array: Any) -> Any:
            return array.cpu().numpy() if hasattr(array, "cpu") else array.get()

        @staticmethod
        def broadcast(array: Any, shape: tuple[int, ...]) -> Any:
            return module.broadcast_to(array, shape)

        reverses = request.param == "cupy"  # torch has no negative strides

    return Library


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


H, W = 70, 131


def views(library: Any) -> list[Any]:
    found = [
        library.put(numbers(W, H)).T,
        library.put(numbers(H + 5, W + 9))[3 : 3 + H, 4 : 4 + W],
        library.put(numbers(H, 3 * W))[:, 1::3],
        library.put(numbers(H, 3, W))[:, 1, :],
        library.broadcast(library.put(numbers(W)), (H, W)),
        library.broadcast(library.put(numbers(H, 1)), (H, W)),
    ]
    if library.reverses:
        found += [library.put(numbers(H, W))[::-1], library.put(numbers(2 * H, 2 * W))[::-2, ::-2]]
    return found


@pytest.mark.parametrize("text", [SWEEP, SOFTMAX])
def test_a_view_gives_what_its_copy_gives(library: Any, text: str) -> None:
    kernel = loopfuse.loads(text)
    for x in views(library):
        rest = [] if text is SOFTMAX else [library.put(numbers(W)), None]
        totals = [library.put(np.zeros((H, 2)))[:, 0] for _ in range(2)]
        packed = library.put(np.ascontiguousarray(library.get(x)))
        expected = library.get(kernel(packed, *rest, *(totals[:1] if rest else [])))
        for _ in range(2):
            totals[1][:] = 0
            got = library.get(kernel(x, *rest, *(totals[1:] if rest else [])))
            np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(library.get(totals[0]), library.get(totals[1]))
        room = library.put(np.zeros((W, 2 * H), np.float32))
        y = room[:, ::2].T
        if rest:
            kernel(x, rest[0], y, library.put(np.zeros(H)))
        else:
            kernel(x, y)
        np.testing.assert_array_equal(library.get(y), expected)
        assert not library.get(room)[:, 1::2].any()


def test_calls_on_views_take_a_path(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    x, y = library.put(numbers(4000))[::2], library.put(np.zeros(6000, np.float32))[::3]
    kernel(x, y)

    def never(*given: Any) -> Any:
        raise AssertionError("the checked path was taken")

    monkeypatch.setattr(arrays, "match", never)
    for _ in range(3):
        kernel(x, y)
    np.testing.assert_array_equal(library.get(y), library.get(x))


def test_what_is_written_needs_memory_of_its_own(library: Any) -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    room = library.put(numbers(40))
    kernel(room[::2], room[1::2])
    found = library.get(room)
    np.testing.assert_array_equal(found[1::2], found[::2])
    with pytest.raises(UserError, match="share memory"):
        kernel(room[:20], room[10:30])
    with pytest.raises(UserError, match="self-overlap"):
        kernel(room[:20], library.broadcast(room[:1], (20,)))


def test_far_apart_elements(library: Any) -> None:
    """More than 2**31 bytes between neighbours: 64-bit indices."""
    kernel = loopfuse.loads(COPY.format("u8"))
    big = library.put(np.zeros((5 << 30) // 2, np.uint8))
    x = big[:: (1 << 31) + 7]
    x[0], x[1] = 3, 9
    np.testing.assert_array_equal(library.get(kernel(x)), [3, 9])


def test_foreign_arrays_run_on_the_default_stream(library: Any) -> None:
    """Through `__cuda_array_interface__` and DLPack, mixed with the library's own."""
    kernel = loopfuse.loads("kernel add(x: f32[N], z: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i] + z[i]\n")
    x = numbers(1000)

    class Lent:
        def __init__(self) -> None:
            self.held = library.put(x)

        def __dlpack__(self, **options: Any) -> Any:
            return self.held[::2].__dlpack__()

    z = library.put(x)[::2]
    for _ in range(3):
        got = kernel(DeviceArray(np.ascontiguousarray(x[::2])), z)
        assert type(got) is type(z)
        np.testing.assert_array_equal(library.get(got), 2 * x[::2])
        np.testing.assert_array_equal(library.get(kernel(Lent(), z)), 2 * x[::2])


def test_pinned_and_managed_memory() -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    torch = pytest.importorskip("torch")
    pinned = torch.arange(100, dtype=torch.float32).pin_memory()
    assert torch.equal(kernel(pinned[::2]), pinned[::2])
    cupy = pytest.importorskip("cupy")
    memory = cupy.cuda.malloc_managed(400)
    managed = cupy.ndarray((100,), cupy.float32, memory)
    managed[:] = cupy.arange(100)
    np.testing.assert_array_equal(kernel(managed[::-1]).get(), np.arange(100)[::-1])


def test_jax_arrays_may_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    kernel = loopfuse.loads(COPY.format("f32"))
    make = jax.jit(lambda k: jax.numpy.sin(jax.numpy.arange(1 << 20, dtype="float32") * k))
    out = torch.zeros(1 << 20, device="cuda")
    for number in range(5):
        kernel(make(number), out)  # the argument is let go as soon as the call returns
        make(7).block_until_ready()
        expected = np.asarray(make(number))
        np.testing.assert_array_equal(out.cpu().numpy(), expected)
    with pytest.raises(UserError, match="JAX arrays never change"):
        kernel(make(1), make(2))
    with pytest.raises(UserError, match="cannot-allocate"):
        kernel(make(1))


EDGES = """
kernel edges(x: f32[H, W], out y: f32[H, W]):
    temp t: f32[H, W]
    for i in 0..H, j in 0..W:
        t[i, j] = x.MODE[i-1, j] + 2.0 * x[i, j] - x.MODE[i, j+2]
    for i in 0..H, j in 0..W:
        y[i, j] = t.MODE[i+1, j] - t.MODE[i, j-1] * t[i, j]
"""


@pytest.mark.parametrize("mode", ["clamp", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (70, 130), (257, 517)])
def test_windows_with_edges_on_views(library: Any, mode: str, shape: tuple[int, int]) -> None:
    """Rows with gaps, every second column, transposed; and packed: all as on the CPU."""
    kernel = loopfuse.loads(EDGES.replace("MODE", mode))
    height, width = shape
    room = np.random.default_rng(3).standard_normal((2 * height + 3, 2 * width + 3))
    room = room.astype(np.float32)
    on_device = library.put(room)
    turned = np.ascontiguousarray(room.T)
    views = [
        (room[:height, :width].copy(), library.put(room[:height, :width].copy())),
        (room[1 : height + 1, 2 : width + 2], on_device[1 : height + 1, 2 : width + 2]),
        (room[: 2 * height : 2, : 2 * width : 2], on_device[: 2 * height : 2, : 2 * width : 2]),
        (room[:height, :width], library.put(turned).T[:height, :width]),
    ]
    for host, device in views:
        expected = kernel(host.copy())
        np.testing.assert_array_equal(library.get(kernel(device)), expected)
