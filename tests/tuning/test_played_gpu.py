"""Tuning on a GPU that is played (`played_gpu`): what is chosen, restored, dropped, remembered."""

from __future__ import annotations

import ctypes
import gc
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.options import Tuning
from loopfuse.runtime.arrays.arrays import match
from loopfuse.runtime.devices import cuda
from loopfuse.runtime.devices.gpu_arrays import DeviceArray
from loopfuse.tuning import space
from loopfuse.tuning.copies import Copies
from tests.tuning.played_gpu import Launch, PlayedGpu, play

BLUR = """\
kernel blur(img: f32[H, W], out smooth: f32[H, W]):
    temp rows: f32[H, W]
    for y in 0..H, x in 0..W:
        rows[y, x] = 0.25*(img.clamp[y, x-1] + img.clamp[y, x+1]) + 0.5*img[y, x]
    for y in 0..H, x in 0..W:
        smooth[y, x] = 0.25*(rows.clamp[y-1, x] + rows.clamp[y+1, x]) + 0.5*rows[y, x]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests here: compiled code does not depend on the device's name."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def few(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few choices: each is compiled."""
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(folder))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(space, "GPU", {"steps": (4, 8), "warps": (1, 2, 4), "rows": (64, 128)})


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedGpu]:
    """A GPU on which blocks of 64 threads are fastest, and fewer blocks are."""
    played = PlayedGpu(lambda one: 1e-4 * (1 + abs(one.threads - 64) / 64) + 1e-7 * one.grid)
    yield play(monkeypatch, played)
    gc.collect()  # arrays are freed while there is a GPU


def blur(**options: Any) -> Any:
    return loopfuse.loads(BLUR, target="sm_80", **{"tune_budget": 1000.0, **options})


def arrays() -> tuple[DeviceArray, DeviceArray, Any]:
    picture = np.random.default_rng(0).random((300, 500), np.float32)
    return DeviceArray(picture), DeviceArray(np.full_like(picture, 7.0)), picture


def test_the_fastest_is_found_and_used(gpu: PlayedGpu) -> None:
    kernel = blur()
    image, smooth, _ = arrays()
    found = kernel.tune(image, smooth)
    assert found.tuning.warps == 2 and found.gain > 1.4 and found.complete and not found.wrong
    assert found.tried == len(found.trials) >= 4
    used = len(gpu.launches)
    blur(tune=True)(image, smooth)
    assert len(gpu.launches) == used + 1, "what is remembered is not searched for"
    assert gpu.launches[-1].threads == 64
    blur()(image, smooth)
    assert gpu.launches[-1].threads == 128


def test_the_callers_arrays_are_not_written_and_nothing_is_kept(gpu: PlayedGpu) -> None:
    image, smooth, picture = arrays()
    own = {array.__cuda_array_interface__["data"][0] for array in (image, smooth)}
    written: set[int] = set()

    def act(one: Launch) -> None:
        written.add(one.words[1])
        ctypes.memset(one.words[1], 1, 64)

    gpu.act = act
    before = set(gpu.held)
    assert not blur().tune(image, smooth).wrong
    assert len(written) == 1 and not own & written
    assert set(gpu.held) == before
    assert np.array_equal(image.download(), picture) and (smooth.download() == 7.0).all()


def test_every_trial_finds_the_same_data(gpu: PlayedGpu) -> None:
    kernel = loopfuse.loads(
        BLUR.replace("out smooth", "inout smooth"), target="sm_80", tune_budget=1e3
    )
    image, smooth, _ = arrays()
    found_there: set[bytes] = set()

    def act(one: Launch) -> None:
        found_there.add(ctypes.string_at(one.words[1], 4000))
        ctypes.memset(one.words[1], 0x40, 4000)

    gpu.act = act
    assert kernel.tune(image, smooth).tried >= 4
    # The final turns run twice on what is restored: the second run finds what the first wrote.
    assert found_there == {np.full(1000, 7.0, np.float32).tobytes(), b"\x40" * 4000}


def test_what_computes_something_else_is_dropped(gpu: PlayedGpu) -> None:
    def act(one: Launch) -> None:
        ctypes.memset(one.words[1] + 8, one.threads != 64, 4)

    gpu.act = act
    image, smooth, _ = arrays()
    with pytest.warns(UserWarning, match="tuning-differs") as told:
        found = blur().tune(image, smooth)
    assert "element 2 of `smooth`" in str(told[0].message) and "warps=2" in str(told[0].message)
    assert found.tuning.warps != 2 and len(found.wrong) == len(told) >= 1


def test_two_nans_are_equal(gpu: PlayedGpu) -> None:
    def act(one: Launch) -> None:
        at = (ctypes.c_uint32 * 1).from_address(one.words[1])
        at[0] = 0x7FC00000 + one.threads

    gpu.act = act
    image, smooth, _ = arrays()
    assert blur().tune(image, smooth).tuning.warps == 2


def test_a_choice_that_does_not_launch_is_dropped(
    gpu: PlayedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = cuda.driver_api()
    plain = driver.cuLaunchKernel

    class Refused(int):
        name = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"

    def launch(function: int, grid: int, *given: Any) -> Any:
        return Refused(701) if given[2] == 64 else plain(function, grid, *given)

    monkeypatch.setattr(driver, "cuLaunchKernel", launch)
    image, smooth, _ = arrays()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = blur().tune(image, smooth)
    assert found.tuning.warps != 2
    assert any("OUT_OF_RESOURCES" in trial.problem for trial in found.trials)


def test_no_room_for_copies_is_a_warning(gpu: PlayedGpu) -> None:
    image, smooth, _ = arrays()
    gpu.room = sum(array.size for array in gpu.held.values()) + 1000
    kernel = blur(tune=True)
    with pytest.warns(UserWarning, match="tuning-memory"):
        kernel(image, smooth)
    kernel(image, smooth)  # once is enough
    assert [one.threads for one in gpu.launches] == [128, 128]


def test_nothing_is_measured_while_a_stream_is_captured(gpu: PlayedGpu) -> None:
    image, smooth, _ = arrays()
    gpu.capturing = 1
    kernel = blur(tune=True)
    kernel(image, smooth)
    assert len(gpu.launches) == 1
    gpu.capturing = 0
    kernel(image, smooth)
    assert len(gpu.launches) > 5 and gpu.launches[-1].threads == 64
    done, gpu.capturing = len(gpu.launches), 1
    kernel(image, smooth)
    assert len(gpu.launches) == done + 1 and gpu.launches[-1].threads == 64


def test_other_sizes_are_searched_for_on_their_own(gpu: PlayedGpu) -> None:
    kernel = blur(tune=True)
    image, smooth, _ = arrays()
    kernel(image, smooth)
    before = len(gpu.launches)
    near = [DeviceArray(np.ones((290, 520), np.float32)) for _ in range(2)]
    kernel(*near)
    assert len(gpu.launches) == before + 1  # the same class
    far = [DeviceArray(np.ones((2, 520), np.float32)) for _ in range(2)]
    kernel(*far)
    assert len(gpu.launches) > before + 5


@pytest.mark.slow
def test_steps_of_a_time_loop(gpu: PlayedGpu) -> None:
    text = """\
kernel sweep(inout a: f32[N, N], inout b: f32[N, N], steps: i64):
    for t in 0..steps:
        for i in 1..N-1, j in 1..N-1:
            b[i, j] = 0.25 * (a[i, j-1] + a[i, j+1] + a[i+1, j] + a[i-1, j])
        for i in 1..N-1, j in 1..N-1:
            a[i, j] = 0.25 * (b[i, j-1] + b[i, j+1] + b[i+1, j] + b[i-1, j])
"""
    gpu.seconds = lambda one: 1e-4  # only the number of launches counts
    kernel = loopfuse.loads(text, target="sm_80")
    fields = [DeviceArray(np.ones((200, 200), np.float32)) for _ in range(2)]
    found = kernel.with_options(tune_budget=1000.0).tune(*fields, 24)
    launched = len(gpu.launches)
    kernel.with_options(tuning=found.tuning)(*fields, 24)
    tuned = len(gpu.launches) - launched
    kernel.with_options(tuning=Tuning(windows=False))(*fields, 24)
    assert 0 < tuned < len(gpu.launches) - launched - tuned
    assert any(trial.tuning.steps for trial in found.trials)


def test_a_copy_has_the_alignment_of_its_array(gpu: PlayedGpu) -> None:
    _, smooth, _ = arrays()
    whole = smooth.__cuda_array_interface__
    shifted = SimpleNamespace(
        __cuda_array_interface__={
            **whole,
            "shape": (300, 499),
            "data": (whole["data"][0] + 4, False),
        }
    )
    image = DeviceArray(np.ones((300, 499), np.float32))
    before = set(gpu.held)
    copies = Copies(match(blur().signature, (image, shifted), {}))
    assert copies.binding.views["smooth"].pointer % 256 == 4
    copies.restore()
    assert (copies.results()["smooth"].view(np.float32) == 7.0).all()
    assert len(gpu.held) == len(before) + 1
    copies.close()
    assert set(gpu.held) == before


def test_the_benchmark_of_defaults(
    gpu: PlayedGpu,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "benchmarks"))
    import tuned

    monkeypatch.setattr(space, "GPU", {"warps": (2, 4)})
    file = tmp_path / "tuned.json"
    arguments = [
        "--sizes",
        "tiny",
        "--only",
        "blur,chain",
        "--seconds",
        "1000",
        "--json",
        str(file),
    ]
    assert tuned.main(arguments) == 1, "the played GPU is far faster with two warps"
    (row,) = json.loads(file.read_text())["rows"]  # a chain of points has nothing to choose
    assert row["case"] == "blur" and row["found"]["warps"] == 2 and row["gain"] > 1.1
    assert "FAR" in capsys.readouterr().out
    assert tuned.main([*arguments, "--within", "3"]) == 0
