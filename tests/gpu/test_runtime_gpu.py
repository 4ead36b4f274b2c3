"""The runtime on a real GPU: PyTorch and CuPy arrays, streams, errors. `pytest -m gpu`.

PTX here is written by hand, so that these tests stand without the compiler; the examples run
through the compiler in `test_cases_gpu.py`.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopfuse.base.diagnostics import LoopfuseError, UserError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.devices import cuda
from loopfuse.runtime.devices.gpu_arrays import DeviceArray, Timer, copy_device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(cuda.gpu() is None, reason=cuda.gpu_problem() or "a GPU is here"),
]

PTX = """
.version 7.8
.target sm_80
.address_size 64
// y[i] = flag ? a * x[i] : x[i]
.visible .entry scale_0(.param .u64 x, .param .u64 y, .param .u64 n, .param .f32 a,
                        .param .u8 flag)
{
    .reg .pred %p<3>;
    .reg .b32 %r<5>;
    .reg .b64 %d<8>;
    .reg .f32 %f<4>;
    .reg .b16 %h<2>;
    ld.param.u64 %d0, [x];
    ld.param.u64 %d1, [y];
    ld.param.u64 %d2, [n];
    ld.param.f32 %f0, [a];
    ld.param.u8 %h0, [flag];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    cvt.u64.u32 %d3, %r3;
    setp.ge.u64 %p0, %d3, %d2;
    @%p0 ret;
    shl.b64 %d4, %d3, 2;
    add.u64 %d5, %d0, %d4;
    add.u64 %d6, %d1, %d4;
    ld.global.f32 %f1, [%d5];
    setp.ne.u16 %p1, %h0, 0;
    mul.f32 %f2, %f1, %f0;
    selp.f32 %f3, %f2, %f1, %p1;
    st.global.f32 [%d6], %f3;
    ret;
}
// y[i] += t * work[i]; work[i] += 1
.visible .entry step_0(.param .u64 y, .param .u64 work, .param .u64 t, .param .u64 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %d<14>;
    ld.param.u64 %d0, [y];
    ld.param.u64 %d1, [work];
    ld.param.u64 %d2, [t];
    ld.param.u64 %d3, [n];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    cvt.u64.u32 %d4, %r3;
    setp.ge.u64 %p0, %d4, %d3;
    @%p0 ret;
    shl.b64 %d5, %d4, 3;
    add.u64 %d6, %d0, %d5;
    add.u64 %d7, %d1, %d5;
    ld.global.u64 %d8, [%d6];
    ld.global.u64 %d9, [%d7];
    mad.lo.u64 %d10, %d2, %d9, %d8;
    st.global.u64 [%d6], %d10;
    add.u64 %d11, %d9, 1;
    st.global.u64 [%d7], %d11;
    ret;
}
"""

POINTERS = [{"kind": "pointer", "name": "x"}, {"kind": "pointer", "name": "y"}]
SIZE = {"kind": "value", "name": "N", "dtype": "i64"}


def launch(name: str, arguments: list[Any], threads: int = 128) -> dict[str, Any]:
    return {
        "launch": {
            "name": name, "arguments": arguments, "grid": f"(N + {threads - 1}) // {threads}",
            "threads": threads, "shared_bytes": 0, "cluster": 1,
        }
    }  # fmt: skip


@pytest.fixture
def scale() -> dict[str, Any]:
    a = {"kind": "value", "name": "a", "dtype": "f32"}
    aligned = {"kind": "aligned", "dtype": "bool"}
    return {
        "schema": 1, "kernel": "scale", "target": "sm_80", "index_bits": 64, "sizes": ["N"],
        "parameters": [
            {"name": "x", "kind": "array", "dtype": "f32", "mode": "in", "extents": ["N"]},
            {"name": "y", "kind": "array", "dtype": "f32", "mode": "out", "extents": ["N"]},
            {"name": "a", "kind": "scalar", "dtype": "f32"},
        ],
        "preconditions": [], "buffers": [],
        "steps": [launch("scale_0", [*POINTERS, SIZE, a, aligned])],
    }  # fmt: skip


@pytest.fixture
def stepper(scale: dict[str, Any]) -> dict[str, Any]:
    step = launch(
        "step_0",
        [
            {"kind": "pointer", "name": "y"},
            {"kind": "pointer", "name": "work"},
            {"kind": "value", "name": "t", "dtype": "i64"},
            SIZE,
        ],
    )
    return scale | {
        "kernel": "stepper",
        "parameters": [
            {"name": "y", "kind": "array", "dtype": "i64", "mode": "inout", "extents": ["N"]},
            {"name": "steps", "kind": "scalar", "dtype": "i64"},
        ],
        "buffers": [{"name": "work", "dtype": "i64", "extents": ["N"], "zeroed": True}],
        "steps": [
            {"loop": {"var": "t", "lower": "0", "upper": "steps", "step": 1, "body": [step]}}
        ],
    }


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    """torch or cupy, with three small functions the same for both."""
    module = pytest.importorskip(request.param)
    if request.param == "torch" and not module.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")

    class Library:
        name = request.param

        @staticmethod
        def put(array: Any) -> Any:
            return module.as_tensor(array, device="cuda") if request.param == "torch" \
                else module.asarray(array)

        @staticmethod
        def get(array: Any) -> Any:
            return array.cpu().numpy() if request.param == "torch" else array.get()

        @staticmethod
        def stream() -> Any:
            return module.cuda.Stream() if request.param == "torch" \
                else module.cuda.Stream(non_blocking=True)

        @staticmethod
        def use(stream: Any) -> Any:
            return module.cuda.stream(stream) if request.param == "torch" else stream

    return Library


def run(manifest: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    binding = arrays.bind(manifest, args, kwargs)
    cuda.run(cuda.load(manifest, PTX), binding)
    return binding.result


def test_outputs_are_allocated_in_the_same_library(scale: Any, library: Any) -> None:
    x = np.random.default_rng(0).random(100_003, np.float32)
    given = library.put(x)
    y = run(scale, given, 2.5)
    assert type(y) is type(given)
    np.testing.assert_array_equal(library.get(y), x * np.float32(2.5))


def test_aligned_is_false_for_an_odd_start(scale: Any, library: Any) -> None:
    x = library.put(np.arange(33, dtype=np.float32))[1:]
    np.testing.assert_array_equal(library.get(run(scale, x, 5.0)), np.arange(1, 33))


def test_no_copy_is_made(scale: Any, library: Any) -> None:
    x, y = library.put(np.ones(64, np.float32)), library.put(np.zeros(64, np.float32))
    assert run(scale, x, y, 3.0) is None
    assert (library.get(y) == 3).all()


def test_workspaces_and_host_loops(stepper: Any, library: Any) -> None:
    y = library.put(np.zeros(5000, np.int64))
    run(stepper, y, 6)
    assert set(library.get(y).tolist()) == {sum(t * t for t in range(6))}


def test_the_current_stream_is_used(stepper: Any, library: Any) -> None:
    """Work enqueued before and after on a stream of the caller's stays in order with ours."""
    stream = library.stream()
    with library.use(stream):
        y = library.put(np.zeros(1 << 22, np.int64))
        for _ in range(20):
            run(stepper, y, 3)
            y += 1
        stream.synchronize()
        assert set(library.get(y).tolist()) == {20 * 6}


def test_an_empty_array(scale: Any, library: Any) -> None:
    assert library.get(run(scale, library.put(np.zeros(0, np.float32)), 1.0)).shape == (0,)


def test_strided_and_mixed_are_refused(scale: Any, library: Any) -> None:
    x = library.put(np.zeros(20, np.float32))
    with pytest.raises(UserError, match="strided"):
        arrays.bind(scale, (x[::2], 1.0), {})
    with pytest.raises(UserError, match="`x` on cuda:0 and `y` on cpu"):
        arrays.bind(scale, (x, np.zeros(20, np.float32), 1.0), {})


def test_threads_may_share_a_kernel(scale: Any, library: Any) -> None:
    loaded = cuda.load(scale, PTX)
    wrong: list[int] = []

    def work(factor: int) -> None:
        x = library.put(np.full(10_000, 2, np.float32))
        for _ in range(50):
            binding = arrays.bind(scale, (x, float(factor)), {})
            cuda.run(loaded, binding)
            if not (library.get(binding.result) == 2 * factor).all():
                wrong.append(factor)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_arrays_of_our_own(scale: Any) -> None:
    x = np.arange(1000, dtype=np.float32)
    there, out = DeviceArray(x), DeviceArray(np.zeros_like(x))
    run(scale, there, out, 4.0)
    np.testing.assert_array_equal(out.download(), 4 * x)


def test_bad_code_is_one_clear_error(scale: Any) -> None:
    with pytest.raises(LoopfuseError, match=r"(loading|looking up) .*`scale.* failed: CUDA_ERROR"):
        cuda.load(scale, PTX.replace("mad.lo.u32", "mad.no.u32"))


def test_a_missing_entry_is_one_clear_error(scale: Any) -> None:
    scale["steps"][0]["launch"]["name"] = "elsewhere"
    with pytest.raises(LoopfuseError, match="looking up `elsewhere` failed"):
        cuda.load(scale, PTX)


def test_a_refused_launch_is_one_clear_error(scale: Any) -> None:
    scale["steps"][0]["launch"]["threads"] = 4096
    x = DeviceArray(np.zeros(8, np.float32))
    y = DeviceArray(np.zeros(8, np.float32))
    with pytest.raises(LoopfuseError, match=r"launching `scale_0` .* failed: CUDA_ERROR_INVALID"):
        run(scale, x, y, 1.0)


def test_the_timer_times() -> None:
    there, here = (DeviceArray(np.zeros(1 << 24, np.uint8)) for _ in range(2))
    timer = Timer()
    timer.start()
    for _ in range(10):
        copy_device(there, here, 1 << 24)
    assert 1e-6 < timer.stop() < 1.0


def test_the_command_line_runs_and_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`run` and `bench` need neither CuPy nor PyTorch."""
    from loopfuse.cli import _run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "saxpy.lf").write_text(
        "kernel saxpy(x: f32[N], inout y: f32[N], a: f32):\n"
        "    for i in 0..N:\n        y[i] = a * x[i] + y[i]\n"
    )
    x, y = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    np.save("x.npy", x)
    np.save("y.npy", y)
    assert _run(["run", "saxpy.lf", "x=x.npy", "y=y.npy", "a=2", "--save", "y=out.npy"]) == 0
    np.testing.assert_array_equal(np.load("out.npy"), 2 * x + y)
    assert "sm_" in capsys.readouterr().out
    assert _run(["bench", "saxpy.lf", "--size", "N=1000000"]) == 0
    assert _run(["verify", "saxpy.lf"]) == 0


def test_synchronize_waits() -> None:
    cuda.synchronize()
