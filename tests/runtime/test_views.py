"""Views as arguments: what runs on a view is what runs on its copy, bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from manifests import array, manifest

import loopfuse
from loopfuse.base.diagnostics import LimitError, LoopfuseError, UserError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.arrays.arguments import read_signature
from loopfuse.runtime.arrays.index_bits import index_bits_for
from loopfuse.runtime.arrays.overlap import share_memory
from loopfuse.runtime.arrays.views import view

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
COPY = "kernel copy(x: {0}[N], out y: {0}[N]):\n    for i in 0..N:\n        y[i] = x[i]\n"


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    patch = pytest.MonkeyPatch()
    patch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL", "LOOPFUSE_NUM_THREADS"):
        patch.delenv(name, raising=False)
    yield
    patch.undo()


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one at each call that takes the checked path."""
    calls: list[int] = []
    real = arrays.match

    def count(*given: Any) -> Any:
        calls.append(1)
        return real(*given)

    monkeypatch.setattr(arrays, "match", count)
    return calls


def numbers(*shape: int, kind: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).random(shape).astype(kind)


H, W = 12, 17
# Each makes a view of shape (H, W) out of room to spare.
VIEWS: dict[str, Callable[[], Any]] = {
    "packed": lambda: numbers(H, W),
    "transposed": lambda: numbers(W, H).T,
    "part": lambda: numbers(H + 5, W + 9)[3 : 3 + H, 4 : 4 + W],
    "every third column": lambda: numbers(H, 3 * W)[:, 1::3],
    "upside down": lambda: numbers(H, W)[::-1],
    "reversed and thinned": lambda: numbers(2 * H, 4 * W)[::-2, ::-4],
    "reversed transposed": lambda: numbers(W, H).T[::-1, ::-1],
    "of three dimensions": lambda: numbers(H, 3, W)[:, 1, :],
}
SHARED: dict[str, Callable[[], Any]] = {
    "one row": lambda: np.broadcast_to(numbers(W), (H, W)),
    "one column": lambda: np.broadcast_to(numbers(H, 1), (H, W)),
    "one number": lambda: np.broadcast_to(np.float32(0.75), (H, W)),
    "sliding": lambda: np.lib.stride_tricks.sliding_window_view(numbers(H + W - 1), W),
    "reversed sliding": lambda: np.lib.stride_tricks.sliding_window_view(numbers(H + W - 1), W)[::-1, ::-1],
}


@pytest.fixture(scope="module")
def sweep() -> Any:
    return loopfuse.loads(SWEEP)


def plain(sweep: Any, x: Any, row: Any, total: Any) -> tuple[Any, Any]:
    total = np.ascontiguousarray(total).copy()
    y = sweep(np.ascontiguousarray(x), np.ascontiguousarray(row), None, total)
    return y, total


@pytest.mark.parametrize("which", [*VIEWS, *SHARED])
def test_a_view_gives_what_its_copy_gives(sweep: Any, which: str) -> None:
    x = {**VIEWS, **SHARED}[which]()
    for row in (numbers(W), numbers(2 * W)[::-2], np.broadcast_to(np.float32(2), W)):
        total = np.zeros((H, 2))[:, 0]
        expected = plain(sweep, x, row, total)
        np.testing.assert_array_equal(sweep(x, row, None, total), expected[0])
        np.testing.assert_array_equal(total, expected[1])


@pytest.mark.parametrize("which", VIEWS)
def test_writing_through_a_view_writes_nothing_else(sweep: Any, which: str) -> None:
    x, row, total = VIEWS["upside down"](), numbers(W), np.zeros(H)
    expected = plain(sweep, x, row, total)
    for _ in range(3):
        y = VIEWS[which]()
        room = y.base if y.base is not None else y
        untouched = room.copy()
        index = view_into(room, y)
        sweep(x, row, y, np.zeros(3 * H)[::3])
        np.testing.assert_array_equal(y, expected[0])
        untouched.reshape(-1)[index] = 0
        after = room.copy()
        after.reshape(-1)[index] = 0
        np.testing.assert_array_equal(after, untouched)


def view_into(room: Any, y: Any) -> Any:
    """Where the elements of `y` lie in `room`, which is packed."""
    places = np.zeros(y.shape, np.int64) + (y.ctypes.data - room.ctypes.data)
    for axis, step in enumerate(y.strides):
        places += (np.arange(y.shape[axis]) * step).reshape([-1 if k == axis else 1 for k in range(y.ndim)])
    return places.ravel() // y.itemsize


def test_the_interpreter_agrees(sweep: Any) -> None:
    x, row, total = VIEWS["reversed and thinned"](), numbers(W), np.zeros(2 * H)[::2]
    y = sweep(x, row, None, total)
    again = np.zeros(H)
    np.testing.assert_allclose(sweep.reference(x.copy(), row, None, again), y, rtol=1e-6)
    np.testing.assert_allclose(again, total, rtol=1e-6)


@pytest.mark.parametrize("kind", ["u8", "i16", "f16", "bf16", "i32", "u64", "f64", "bool"])
def test_every_width(kind: str) -> None:
    kernel = loopfuse.loads(COPY.format(kind))
    from loopfuse.base.dtypes import DType
    from loopfuse.runtime.binding import numpy_dtype

    x = (np.arange(60) % 7).astype(numpy_dtype(DType(kind)))
    for _ in range(2):
        for one in (x[::-1], x[::2], x[5:50:3], np.broadcast_to(x[3], 9), x):
            np.testing.assert_array_equal(kernel(one), one.copy())


# ---------------------------------------------------------------------------------- call paths


def test_views_have_call_paths(checked: list[int]) -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    for number in range(4):
        for x in (numbers(20) + number, (numbers(20) + number)[::-1], (numbers(40) + number)[::2]):
            y, wide = np.zeros(20, np.float32), np.zeros(60, np.float32)
            kernel(x, y)
            np.testing.assert_array_equal(y, x)
            kernel(x, wide[::3])
            np.testing.assert_array_equal(wide[::3], x)
            assert not wide[1::3].any()
    assert len(checked) == 6
    assert len(kernel._loaded) == 4  # with views as neither, either, both
    assert len(kernel.call_paths.paths) == 4


def test_strides_are_part_of_the_key(checked: list[int]) -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    room = numbers(200)
    for step in (2, 3, -2, -5, 0, 2, 3, -2, -5, 0):
        x = np.lib.stride_tricks.as_strided(room[100:], (20,), (4 * step,))
        np.testing.assert_array_equal(kernel(x), x.copy())
    assert len(checked) == 5


def test_packed_arrays_keep_their_kernel() -> None:
    kernel = loopfuse.loads(SWEEP)
    kernel(numbers(H, W), numbers(W), None, np.zeros(H))
    ((_, loaded),) = kernel._loaded.items()
    assert "__stride" not in str(loaded.manifest["steps"])
    # Arrays of one element, of none and of rank 0 are packed whatever their strides say.
    one = np.lib.stride_tricks.as_strided(numbers(1), (1, 1), (400, -12))
    kernel(one, numbers(9)[4:5][::-1], None, np.zeros(8)[:1])
    kernel(numbers(4, 8)[:0, ::2], numbers(8)[::2][:4].copy(), None, np.zeros(0))
    kernel(numbers(4, 8)[:, :0], numbers(8)[::-1][:0], None, np.zeros(4))
    assert len(kernel._loaded) == 1


def test_threads_on_views(sweep: Any) -> None:
    x, row = VIEWS["transposed"](), numbers(W)
    expected = plain(sweep, x, row, np.zeros(H))
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(200):
            y, total = np.zeros((H, 2 * W), np.float32)[:, ::-2], np.zeros(2 * H)[::2]
            sweep(x, row, y, total)
            if not ((y == expected[0]).all() and (total == expected[1]).all()):
                wrong.append(number)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


# -------------------------------------------------------------------------------------- memory


def test_interleaved_slices_do_not_overlap() -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    for _ in range(3):
        room = numbers(40)
        before = room.copy()
        kernel(room[::2], room[1::2])
        np.testing.assert_array_equal(room[1::2], before[::2])
        np.testing.assert_array_equal(room[::2], before[::2])
        kernel(room[:10], room[10:30:2])
        kernel(room[:20:2][::-1], room[1:20:2])


@pytest.mark.parametrize(
    "pair",
    [
        lambda room: (room, room[::-1]),
        lambda room: (room[::2], room[:20]),
        lambda room: (room[:20], room[1:40:2]),
        lambda room: (room[::-1][:20], room[10:30]),
        lambda room: (np.broadcast_to(room[7:8], 20), room[5:25]),
        lambda room: (room[0::3][:13], room[1::2][:13]),
    ],
)
def test_views_that_share_memory_are_refused(pair: Any) -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    room = numbers(40)
    x, y = pair(room)
    fresh = np.zeros(len(x), np.float32)
    for _ in range(2):  # also on the call path
        with pytest.raises(UserError, match=r"writes `y`, but `x` and `y` share memory") as caught:
            kernel(x, y)
        assert caught.value.diagnostics[0].code == "overlap"
        kernel(x, np.zeros(2 * len(x), np.float32)[::2])
        kernel(x, fresh)
        kernel(fresh, np.zeros(len(x), np.float32))


def test_32_bits_only_where_every_place_fits() -> None:
    signature = read_signature(manifest("k", [array("x", "f32", "in", "N", "M")], ["N", "M"]))

    def bits(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
        seen = view(np.zeros(1, np.float32))
        assert seen is not None
        matched = arrays.match(signature, (np.zeros((2, 2), np.float32),), {})
        sizes = dict(zip("NM", shape))
        one = replace(seen, shape=shape, strides=strides)
        return index_bits_for(signature, replace(matched, views={"x": one}, values=sizes))

    assert bits((2, 1000), ((1 << 31) - 4000 - 4, 4)) == 32
    assert bits((2, 1000), ((1 << 31) - 4000, 4)) == 64
    assert bits((2, 1000), (-(1 << 31) + 4000, 4)) == 64
    assert bits((2, 1000), (-(1 << 30), 4)) == 32
    assert bits((3, 3), (1 << 29, -(1 << 29))) == 64  # each axis alone would fit
    assert bits((1 << 16, 1 << 16), (0, 0)) == 64
    assert bits((1 << 10, 1 << 10), (0, 0)) == 32


def test_far_apart_rows_are_reached() -> None:
    """A stride of more than 2**31 bytes: memory that is never touched costs nothing."""
    kernel = loopfuse.loads("kernel two(x: u8[H, W], out y: u8[H, W]):\n    for i in 0..H, j in 0..W:\n        y[i, j] = x[i, j]\n")
    try:
        room = np.zeros(3 << 30, np.uint8)
    except MemoryError:
        pytest.skip("3 GiB cannot even be reserved here")
    x = np.lib.stride_tricks.as_strided(room, (2, 5), ((3 << 30) - 5, 1))
    x[0], x[1] = 7, 9
    np.testing.assert_array_equal(kernel(x), [[7] * 5, [9] * 5])
    np.testing.assert_array_equal(kernel(x[::-1]), [[9] * 5, [7] * 5])


# ---------------------------------------------------------------------------------- refusals


def refuse(kernel: Any, *args: Any) -> str:
    with pytest.raises(UserError) as caught:
        kernel(*args)
    return str(caught.value)


def test_outputs_whose_elements_share_memory() -> None:
    kernel = loopfuse.loads("kernel k(x: f32[N], out y: f32[M, N]):\n    for i in 0..M, j in 0..N:\n        y[i, j] = x[j]\n")
    rows = np.lib.stride_tricks.as_strided(numbers(8), (3, 8), (0, 4))
    assert refuse(kernel, numbers(8), rows) == (
        "error[self-overlap]: `k` writes `y`, but elements of the array given share memory: "
        "shape [3, 8], [0, 4] bytes apart\n"
        "  = fix: pass an array with memory for each element, such as `y.copy()`"
    )
    windows = np.lib.stride_tricks.as_strided(numbers(20), (3, 8), (4, 8))
    assert "error[self-overlap]" in refuse(kernel, numbers(8), windows)
    apart = np.lib.stride_tricks.as_strided(np.zeros(40, np.float32), (3, 2), (12, 8))
    kernel(numbers(2), apart)  # 0 2 3 5 6 8: no two the same
    np.testing.assert_array_equal(apart, [numbers(2)] * 3)


def test_elements_that_are_not_at_multiples_of_their_size() -> None:
    """By code that was compiled ahead, which makes no copies; `test_packing` has the others."""
    kernel = loopfuse.loads(COPY.format("f32"))
    manifest = kernel.compile("cpu").manifest

    def refuse(kernel: Any, array: Any) -> str:
        with pytest.raises(UserError) as told:
            arrays.bind(manifest, (array,), {})
        return str(told.value)

    records = np.zeros(6, [("tag", "u1"), ("x", "<f4")])
    assert refuse(kernel, records["x"]) == (
        "error[uneven-strides]: `copy` expects `x` as f32[N], but neighbours along axis 0 of the "
        "array given lie 5 bytes apart, no multiple of the element's 4\n"
        "  = fix: pass `x.copy()`"
    )
    late = np.zeros(41, np.uint8)[1:].view(np.float32)
    assert refuse(kernel, late) == (
        "error[unaligned]: `copy` expects `x` as f32[N], but the array given starts at an address "
        "that is no multiple of the element's 4 bytes\n"
        "  = fix: pass `x.copy()`"
    )
    kernel(records["x"].copy())
    kernel(late.copy())
    even = np.zeros(6, [("x", "<f4"), ("n", "<i4")])
    even["x"] = np.arange(6)
    np.testing.assert_array_equal(kernel(even["x"]), np.arange(6))


def test_the_name_of_a_stride_must_be_free() -> None:
    kernel = loopfuse.loads(
        "kernel k(x: f32[N], out y: f32[N], x__stride0: i64):\n    for i in 0..N:\n"
        "        y[i] = x[i] + f32(x__stride0)\n"
    )
    np.testing.assert_array_equal(kernel(numbers(8), 3), numbers(8) + np.float32(3))
    with pytest.raises(LimitError, match="parameter or size `x__stride0`") as caught:
        kernel(numbers(16)[::2], 3)
    assert caught.value.diagnostics[0].code == "name-of-a-stride"


def test_a_masked_array_would_lose_its_mask() -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    message = refuse(kernel, np.ma.masked_array(numbers(3), mask=[0, 1, 0]))
    assert "error[not-an-array]" in message and "the mask of a masked array would be lost" in message


def test_code_compiled_ahead_takes_packed_arrays() -> None:
    made = manifest("k", [array("x", "f32", "in", "N")], ["N"])
    with pytest.raises(UserError, match=r"`k` was compiled for arrays without gaps .* `x` of shape \[5\]"):
        arrays.bind(made, (numbers(10)[::2],), {})


def test_read_only_views() -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    x = numbers(10)
    x.flags.writeable = False
    for _ in range(3):
        np.testing.assert_array_equal(kernel(x[::-1]), x[::-1])
        with pytest.raises(LoopfuseError, match="read-only"):
            kernel(numbers(10), x[::-1])
        kernel(numbers(10), np.zeros(20, np.float32)[::2])


def test_memory_maps(tmp_path: Path) -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    held = np.memmap(tmp_path / "x.bin", np.float32, "w+", shape=(8, 3))
    held[:] = numbers(8, 3)
    np.testing.assert_array_equal(kernel(held[:, 1]), held[:, 1].copy())


def test_explain_for_views(sweep: Any) -> None:
    x = VIEWS["transposed"]()
    told = str(sweep.explain(x, numbers(W), None, np.zeros(H)))
    assert "H=12 W=17" in told


# ------------------------------------------------------------------------------ other libraries


class Foreign:
    """An array of no known library."""

    def __init__(self, held: Any, protocol: str) -> None:
        if protocol == "array":
            self.__array_interface__ = held.__array_interface__
        else:
            self.__dlpack__ = held.__dlpack__
            self.__dlpack_device__ = held.__dlpack_device__


@pytest.mark.parametrize("protocol", ["array", "dlpack"])
def test_views_through_protocols(protocol: str) -> None:
    kernel = loopfuse.loads(COPY.format("f32"))
    room = numbers(40)
    for one in (room, room[::-1], room[::3], np.broadcast_to(room[5], 8)[1:]):
        np.testing.assert_array_equal(kernel(Foreign(one, protocol)), one.copy())
    out = np.zeros(80, np.float32)
    kernel(Foreign(room, protocol), Foreign(out[::-2], protocol))
    np.testing.assert_array_equal(out[::-2], room)
    assert not out[::2].any()
    room.flags.writeable = False
    with pytest.raises(UserError, match="read-only"):
        kernel(numbers(40), Foreign(room, protocol))


def test_an_exporter_that_refuses_is_quoted() -> None:
    class Refusing:
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("this buffer is on loan\nand more")

    kernel = loopfuse.loads(COPY.format("f32"))
    message = refuse(kernel, Refusing())
    assert "error[not-an-array]" in message
    assert message.splitlines()[1] == "  = note: its `__dlpack__` refused: this buffer is on loan"


def test_strides_of_a_cuda_array() -> None:
    class OnGpu:
        shape = (2, 3)

        def __init__(self, strides: Any) -> None:
            self.__cuda_array_interface__ = {
                "version": 3, "shape": (2, 3), "typestr": "<f4", "data": (4096, True),
                "strides": strides,
            }  # fmt: skip

    for strides, kept in ((None, None), ((12, 4), None), ((-4, 8), (-4, 8)), ((0, 4), (0, 4))):
        seen = view(OnGpu(strides))
        assert seen is not None and seen.strides == kept and seen.read_only
        assert seen.contiguous == (kept is None)


def test_jax_arrays_may_be_read() -> None:
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    kernel = loopfuse.loads("kernel k(x: f32[N], y: bf16[N], out z: f32[N]):\n    for i in 0..N:\n        z[i] = x[i] + f32(y[i])\n")
    with jax.default_device(jax.devices("cpu")[0]):
        x, y = jnp.arange(8, dtype=jnp.float32), jnp.ones(8, jnp.bfloat16)
    for _ in range(2):
        made = kernel(x, y)
        assert type(made) is np.ndarray
        np.testing.assert_array_equal(made, np.arange(8) + 1)
    assert "JAX arrays never change" in refuse(kernel, x, y, x)


def test_jax_arrays_are_recognised() -> None:
    """Without JAX: a class of its module's name."""
    x = numbers(6)
    waited: list[int] = []

    def wait(self: Any) -> None:
        waited.append(1)

    kind = type(
        "ArrayImpl", (), {
            "__module__": "jaxlib._jax", "block_until_ready": wait,
            "__dlpack__": lambda self, **options: x.__dlpack__(**options),
        },
    )  # fmt: skip
    seen = view(kind())
    assert seen is not None and seen.library == "jax" and seen.read_only and waited == [1]
    kernel = loopfuse.loads(COPY.format("f32"))
    assert type(kernel(kind())) is np.ndarray
    assert refuse(kernel, kind(), kind()) == (
        "error[read-only]: `copy` writes `y`, but JAX arrays never change\n"
        "  = fix: pass a copy that may, such as `np.array(y)`"
    )


def test_share_memory_does_not_read_memory() -> None:
    seen = view(numbers(10)[::2])
    assert seen is not None
    assert not share_memory(replace(seen, pointer=8), replace(seen, pointer=12))
    assert share_memory(replace(seen, pointer=8), replace(seen, pointer=16))


GATHER = """
kernel gather(x: f32[N, K], idx: i32[M], out y: f32[M, K], inout count: i64[N]):
    for i in 0..M, k in 0..K:
        y[i, k] = x[idx[i], k]
    for i in 0..M:
        count[idx[i]] += 1
"""


def test_subscripts_that_depend_on_data_reach_through_views() -> None:
    kernel = loopfuse.loads(GATHER)
    x, idx = numbers(24, 10)[::-2, 1::3], np.array([3, 0, 11, 3, 7, 9, 5, 5], np.int32)[::2]
    y, count = np.zeros((3, 4), np.float32).T, np.zeros((12, 2), np.int64)
    for number in range(3):
        kernel(x, idx, y, count[:, 1])
        np.testing.assert_array_equal(y, x[idx])
        np.testing.assert_array_equal(count[:, 1], (number + 1) * np.bincount(idx, minlength=12))
        assert not count[:, 0].any()
    bad = np.array([2, 12], np.int32)
    with pytest.raises(LoopfuseError, match="subscript-out-of-range") as caught:
        kernel(x, bad[::-1], y[:2], count[:, 1])
    assert "element 12 of" in str(caught.value)
