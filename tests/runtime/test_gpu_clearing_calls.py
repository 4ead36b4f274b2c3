"""Calls that leave outputs out on a played GPU (see test_fast_gpu): which are cleared by the kernel's own
launch, and which by one before it."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from manifests import array, launch, manifest, pointer, scalar, value
from test_fast_gpu import Machine, Tensor, machine, tensor  # noqa: F401

from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import Diagnostic, InternalError, LimitError
from loopfuse.base.options import parse_target
from loopfuse.kernels import clearing
from loopfuse.runtime import cache
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.arrays.arguments import read_signature
from loopfuse.runtime.call import call_kinds, fast, fast_gpu
from loopfuse.runtime.devices import cuda, gpu_clear
from loopfuse.runtime.devices.gpu_clearing import Table

PLAIN, OTHER, WOVEN = 77, 78, 99
BORDER = [
    {"when": "N >= 1", "bounds": [["0", "1"]], "untouched": True},
    {"when": "N >= 2", "bounds": [["max(1, N - 2)", "N"]], "untouched": True},
]


def scaling(*names: str, unwritten: Any = BORDER, launches: int = 1, loop: bool = False) -> Any:
    """`y[i] = a * x[i]` between the borders, for each output; played by `play`."""
    outs = names or ("y",)
    steps: list[Any] = []
    for number in range(launches):
        one = launch(
            f"scale_{number}", "(N + 3) // 4", pointer("x"), value("N", "i64"), value("a", "f32"),
            *(pointer(name) for name in outs),
        )  # fmt: skip
        one["launch"] |= {"threads": 4 << number}
        steps.append(one)
    if loop:
        steps = [{"loop": {"var": "t", "lower": "0", "upper": "2", "step": 1, "body": steps}}]
    parameters = [array("x", "f32", "in", "N"), scalar("a", "f32")]
    parameters += [{**array(name, "f32", "out", "N"), "unwritten": unwritten} for name in outs]
    return manifest("scale", parameters, ["N"], steps=steps)


@pytest.fixture
def gpu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:  # noqa: F811
    """Launches are of `scaling`; a variant clears what its table says; new memory holds NaN."""

    def play(config: int, function: int, slots: int, extra: int | None) -> int:
        one = fast_gpu.LaunchConfig.from_address(config)
        machine.log.append(("launch", function, one.grid_x, one.block_x, one.stream))
        if machine.status:
            return machine.status
        outs = machine.outs
        words = (ctypes.c_uint64 * (4 + outs)).from_address(slots)
        x = ctypes.c_uint64.from_address(words[0]).value
        count = ctypes.c_int64.from_address(words[1]).value
        factor = ctypes.c_float.from_address(words[2]).value
        for out in range(outs):
            y = ctypes.c_uint64.from_address(words[3 + out]).value
            for k in range(1, count - 2):
                moved = ctypes.c_float.from_address(x + 4 * k).value * factor
                ctypes.c_float.from_address(y + 4 * k).value = moved
        if function == WOVEN:
            table = Table.from_address(words[3 + outs])
            assert table.stride == table.blocks * one.block_x and 0 < table.blocks <= one.grid_x
            for piece in table.pieces[: table.count]:
                base = ctypes.c_uint64.from_buffer(table, piece.array).value
                for row in range(piece.total // piece.width):
                    place = base + piece.offset + row * piece.pitch
                    ctypes.memset(place, 0, piece.width * piece.unit)
        return 0

    def empty(shape: Any, dtype: str, device: Any) -> Tensor:
        return Tensor(np.full(shape, np.nan, np.float32))

    def zeros(shape: Any, dtype: str, device: Any) -> Tensor:
        machine.log.append(("zeros",))
        return Tensor(np.zeros(shape, np.float32))

    def clear_pieces(address: int, pieces: Any, stream: int, index: int = 0) -> None:
        machine.log.append(("clear", stream))
        if isinstance(pieces, gpu_clear.ClearLaunch):
            pieces = [(one.offset, one.pitch, 4 * one.width, one.total // one.width)
                      for one in pieces._pieces if one.total]  # fmt: skip
        for offset, pitch, width, rows in pieces:
            for row in range(rows):
                ctypes.memset(address + offset + row * pitch, 0, width)

    machine.outs = 1  # type: ignore[attr-defined]
    machine.launch = play  # type: ignore[method-assign]
    calls = fast_gpu.Driver(play, machine.clear, machine.current, 0, 0)
    monkeypatch.setattr(fast_gpu, "driver", lambda: calls)
    monkeypatch.setattr(fast_gpu, "clear_pieces", clear_pieces)
    monkeypatch.setattr(fast_gpu, "entries", lambda index: {})
    monkeypatch.setattr(sys.modules["torch"], "empty", empty)
    monkeypatch.setattr(sys.modules["torch"], "zeros", zeros)
    return machine


class Caller:
    """A path over a manifest, whose variants are `WOVEN`; `asked`: the launches they were asked for."""

    def __init__(self, made: Any, *args: Any, variant: int | None = WOVEN) -> None:
        self.asked: list[str] = []
        self.signature = read_signature(made)
        module = cuda.LoadedModule(made, {"scale_0": PLAIN, "scale_1": OTHER}, None)

        def variants(one: Mapping[str, Any]) -> int:
            self.asked.append(one["name"])
            return variant or 0

        found = fast_gpu.machine(module, 0, "torch", None if variant is None else variants)
        assert found is not None
        matched = arrays.match(self.signature, args, {})
        described = call_kinds.describe(self.signature, args, {}, matched, {}, 32, True)
        assert described is not None
        self.path = fast.CallPath(*described, self.signature, made, found)
        self.learn(*args)

    def learn(self, *args: Any) -> None:
        self.path.learn(args, {}, arrays.match(self.signature, args, {}))

    def __call__(self, *args: Any) -> Any:
        return self.path.call(args, {})


def expected(count: int, factor: float) -> Any:
    found = np.zeros(count, np.float32)
    found[1 : max(1, count - 2)] = factor
    return found


def launches(gpu: Machine) -> list[Any]:
    return [(each[1], each[-1]) if each[0] == "launch" else each for each in gpu.log]


def test_one_launch_and_no_other(gpu: Machine) -> None:
    call = Caller(scaling(), tensor(100), 2.0)
    for number in range(4):
        gpu.log.clear()
        y = call(tensor(100, number), 2.0)
        assert np.array_equal(y.held, expected(100, 2.0 * number))
        assert gpu.log == [("launch", WOVEN, 25, 4, 11)]


def test_a_given_output_is_launched_as_before(gpu: Machine) -> None:
    call = Caller(scaling(), tensor(100), 2.0, tensor(100))
    y = tensor(100, 5.0)
    assert call(tensor(100), 2.0, y) is None
    assert launches(gpu) == [(PLAIN, 11)] and not call.asked
    assert (y.held == [5.0] + [2.0] * 97 + [5.0] * 2).all()


def test_streams_in_turn(gpu: Machine) -> None:
    call = Caller(scaling(), tensor(64), 2.0)
    for stream in (11, 0, 5, 5, 11):
        gpu.log.clear()
        gpu.stream = stream
        assert np.array_equal(call(tensor(64), 3.0).held, expected(64, 3.0))
        assert launches(gpu) == [(WOVEN, stream)]


def test_the_variant_is_there_before_the_next_call(gpu: Machine) -> None:
    """Which may be recorded into a graph, where no code can be loaded."""
    call = Caller(scaling(), tensor(64), 2.0)
    assert call.asked == ["scale_0"]
    for _ in range(3):
        call(tensor(64), 2.0)
    assert call.asked == ["scale_0"]
    call.learn(tensor(80), 2.0)
    assert len(call.asked) == 2
    assert np.array_equal(call(tensor(80), 2.0).held, expected(80, 2.0)) and len(call.asked) == 2


def test_sizes_in_turn(gpu: Machine) -> None:
    """Also those at which all of it is to be cleared, or nothing is launched."""
    sizes = (64, 3, 2, 1, 0, 40, 4)
    call = Caller(scaling(), tensor(64), 2.0)
    for count in sizes[1:]:
        call.learn(tensor(count), 2.0)
    for count in (*sizes, *reversed(sizes)):
        found = call(tensor(count), 2.0)
        if count:
            assert np.array_equal(found.held, expected(count, 2.0)), count


def test_several_outputs_in_one_table(gpu: Machine) -> None:
    gpu.outs = 3  # type: ignore[attr-defined]
    call = Caller(scaling("y", "z", "w"), tensor(200), 2.0)
    for factor in (2.0, 3.0):
        gpu.log.clear()
        found = call(tensor(200), factor)
        assert all(np.array_equal(one.held, expected(200, factor)) for one in found)
        assert launches(gpu) == [(WOVEN, 11)]


def test_some_outputs_given(gpu: Machine) -> None:
    gpu.outs = 2  # type: ignore[attr-defined]
    call = Caller(scaling("y", "z"), tensor(200), 2.0, None, tensor(200))
    z = tensor(200, 7.0)
    y = call(tensor(200), 2.0, None, z)
    assert np.array_equal(y.held, expected(200, 2.0)) and z.held[0] == 7.0 and z.held[1] == 2.0


@pytest.mark.parametrize("unwritten", [
    [{**one, "untouched": False} for one in BORDER],
    [{key: one[key] for key in ("when", "bounds")} for one in BORDER],  # an old manifest
    [BORDER[0], {**BORDER[1], "untouched": False}],
])  # fmt: skip
def test_what_a_launch_touches_is_cleared_before_it(gpu: Machine, unwritten: Any) -> None:
    call = Caller(scaling(unwritten=unwritten), tensor(100), 2.0)
    assert np.array_equal(call(tensor(100), 2.0).held, expected(100, 2.0))
    assert launches(gpu) == [("clear", 11), (PLAIN, 11)] and not call.asked


def test_what_is_no_border_is_cleared_before_it(gpu: Machine) -> None:
    """More than a store for each of the threads, which write as much of the array."""
    half = [{"when": "N >= 1", "bounds": [["N - N // 2", "N"]], "untouched": True}]
    call = Caller(scaling(unwritten=half), tensor(1 << 10), 2.0)
    call(tensor(1 << 10), 2.0)
    assert launches(gpu) == [(WOVEN, 11)]  # little: a store for each thread
    gpu.log.clear()
    odd = [{"when": "N >= 1", "bounds": [["N - 1 - N // 2", "N - 1"]], "untouched": True}]
    made = scaling(unwritten=odd)
    made["steps"][0]["launch"]["grid"] = "1"
    call = Caller(made, tensor(1 << 10), 2.0)
    call(tensor(1 << 10), 2.0)
    assert launches(gpu) == [("clear", 11), (PLAIN, 11)]


def test_no_variant(gpu: Machine) -> None:
    for variant in (0, None):
        gpu.log.clear()
        call = Caller(scaling(), tensor(100), 2.0, variant=variant)
        assert np.array_equal(call(tensor(100), 2.0).held, expected(100, 2.0))
        assert launches(gpu) == [("clear", 11), (PLAIN, 11)]


def test_host_loops_clear_before_them(gpu: Machine) -> None:
    call = Caller(scaling(loop=True), tensor(100), 2.0)
    assert np.array_equal(call(tensor(100), 2.0).held, expected(100, 2.0))
    assert launches(gpu) == [("clear", 11), (PLAIN, 11), (PLAIN, 11)] and not call.asked


def test_of_several_launches_one_clears(gpu: Machine) -> None:
    """The one with the most threads."""
    call = Caller(scaling(launches=2), tensor(100), 2.0)
    assert np.array_equal(call(tensor(100), 2.0).held, expected(100, 2.0))
    assert launches(gpu) == [(PLAIN, 11), (WOVEN, 11)] and call.asked == ["scale_1"]


def test_a_refused_launch_says_so(gpu: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Caller(scaling(), tensor(100), 2.0)
    said: list[Any] = []

    def fail(status: int, name: str, grid: int, threads: int) -> None:
        said.append((status, name, grid, threads))
        raise LimitError(Diagnostic("cuda-error", "no"))

    call.path._draft.names["FAIL"] = fail
    call.path.call = call.path._draft.finish()
    gpu.status = 700
    with pytest.raises(LimitError):
        call(tensor(100), 2.0)
    assert said == [(700, "scale_0", 25, 4)]
    gpu.status = 0
    assert np.array_equal(call(tensor(100), 2.0).held, expected(100, 2.0))


def test_an_interrupt_leaves_no_old_address(gpu: Machine) -> None:
    """Ctrl-C anywhere in a call: the next one clears its own array."""
    call = Caller(scaling(), tensor(50), 2.0)
    lines = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != "<loopfuse call>":
            return None
        lines += event == "line"
        if lines == stop:
            raise KeyboardInterrupt
        return trace

    for stop in range(1, 50):
        lines = 0
        sys.settrace(trace)
        try:
            call(tensor(50), 3.0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert np.array_equal(call(tensor(50), 2.0).held, expected(50, 2.0)), stop


def test_threads_at_once(gpu: Machine) -> None:
    call = Caller(scaling(), tensor(40), 2.0)
    wrong: list[int] = []

    def work(number: int) -> None:
        for factor in range(40):
            found = call(tensor(40, number), float(factor))
            if not np.array_equal(found.held, expected(40, number * factor)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


# ------------------------------------------------------------------------------ making variants

PTX = """\
.version 7.0
.target sm_80
.address_size 64

.visible .entry scale_0(
\t.param .u64 scale_0_param_0
)
{
\tret;

}
"""


def artifact(ptx: str = PTX, cubin: bytes = b"machine code") -> Artifact:
    return Artifact("scale", "sm_80", scaling(), {}, ptx=ptx, cubin=cubin, registers={"scale_0": 8})


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[Any]:
    """What was loaded, with functions numbered."""
    found: list[Any] = []

    def load(made: Any, code: Any, index: int) -> cuda.LoadedModule:
        found.append(code)
        (name,) = [one["launch"]["name"] for one in made["steps"]]
        return cuda.LoadedModule(made, {name: 500 + len(found)}, None)

    monkeypatch.setattr(cuda, "load", load)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    return found


def test_a_variant_is_made_once_and_kept(loaded: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import loopfuse.codegen.targets.assemble as assembler

    if assembler.find_ptxas() is None:
        pytest.skip("no ptxas here")
    made: list[str] = []
    real = assembler.assemble
    monkeypatch.setattr(assembler, "assemble", lambda *a: made.append(a[0]) or real(*a))
    target = parse_target("sm_80")
    one = scaling()["steps"][0]["launch"]
    variants = clearing.ClearingVariants(artifact(), target, 0)
    assert not made
    assert [variants(one) for _ in range(3)] == [501] * 3 and len(made) == 1
    assert isinstance(loaded[0], bytes) and ".entry scale_0_clearing(" in made[0]
    # As in a second process: from the disk cache.
    assert clearing.ClearingVariants(artifact(), target, 0)(one) == 502 and len(made) == 1
    assert loaded[1] == loaded[0]
    assert cache.is_enabled()


def test_without_an_assembler_the_driver_translates(loaded: list[Any]) -> None:
    one = scaling()["steps"][0]["launch"]
    assert clearing.ClearingVariants(artifact(cubin=b""), parse_target("sm_80"), 0)(one) == 501
    assert isinstance(loaded[0], str) and "scale_0_clearing" in loaded[0]


def test_text_of_another_form_has_no_variant(loaded: list[Any]) -> None:
    one = scaling()["steps"][0]["launch"]
    variants = clearing.ClearingVariants(artifact(PTX.replace("scale_0", "other")), parse_target("sm_80"), 0)
    assert variants(one) == 0 and not loaded


def test_a_refused_variant_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*given: Any) -> Any:
        raise InternalError(Diagnostic("bad-ptx", "ptxas refused our PTX"))

    monkeypatch.setattr(cuda, "load", load)
    one = scaling()["steps"][0]["launch"]
    variants = clearing.ClearingVariants(artifact(cubin=b""), parse_target("sm_80"), 0)
    with pytest.warns(UserWarning, match="clears its new outputs by a launch of its own"):
        assert variants(one) == 0
    assert variants(one) == 0  # said once
