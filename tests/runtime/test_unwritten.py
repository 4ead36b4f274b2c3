"""Omitted outputs: what the kernel writes is not filled, what it does not write is 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.options import parse_target
from loopfuse.runtime import unwritten
from loopfuse.runtime.arrays import arrays, views
from loopfuse.runtime.call import fast
from loopfuse.runtime.devices import gpu_clear
from loopfuse.runtime.formulas import evaluate

PROGRAMS: dict[str, tuple[str, int]] = {
    # name: (body, elements that are filled of an array of 24 x 40; -1: zeros as before)
    "whole": ("for i in 0..H, j in 0..W:\n        y[i, j] = x[i, j]", 0),
    "border": ("for i in 2..H-2, j in 1..W-3:\n        y[i, j] = x[i-2, j]", 24 * 40 - 20 * 36),
    "one_row": ("for j in 0..W:\n        y[0, j] = x[0, j]", 23 * 40),
    "even_columns": ("for i in 0..H, j in 0..W step 2:\n        y[i, j] = x[i, j]", 24 * 39),
    "two_parts": ("for i in 0..H, j in 0..7:\n        y[i, j] = x[i, j]\n"
                  "    for i in 0..H, j in 7..W:\n        y[i, j] = x[i, j]", 0),
    "triangle": ("for i in 0..H, j in i..W:\n        y[i, j] = x[i, j]", 23 * 23),
    "steps": ("for t in 0..steps:\n        for i in 0..H, j in 0..W:\n            y[i, j] = x[i, j]", 0),
    "read_first": ("for i in 0..H, j in 1..W:\n        y[i, j] = y[i, j-1] + x[i, j]", 24),
    "accumulated": ("for i in 0..H, j in 0..W:\n        y[i, j] += x[i, j]", -1),
    "on_data": ("for i in 0..H, j in 0..W:\n        if x[i, j] > 0.5:\n            y[i, j] = x[i, j]", -1),
    "then_on_data": ("for i in 0..H, j in 0..W:\n        y[i, j] = 0.5\n"
                     "    for i in 0..H, j in 0..W:\n        if x[i, j] > 0.5:\n"
                     "            y[i, j] = x[i, j]", 0),
    "guarded": ("for i in 0..H, j in 0..W:\n        if i >= 1 and j < W - 1:\n"
                "            y[i, j] = x[i, j]", 40 + 23),
}  # fmt: skip


def kernel_of(name: str) -> Any:
    steps = ", steps: i64" if "steps" in PROGRAMS[name][0] else ""
    body = PROGRAMS[name][0]
    return loopfuse.loads(f"kernel k(x: f32[H, W], out y: f32[H, W]{steps}):\n    {body}\n")


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many elements were filled of each output made since; new memory holds NaN."""
    found: list[int] = []
    empty, zeros = np.empty, np.zeros

    def poisoned(shape: Any, dtype: Any = float, *rest: Any, **more: Any) -> Any:
        made = empty(shape, dtype, *rest, **more)
        if made.dtype == np.float32:
            made.view(np.uint32)[...] = 0xFFFFFFFF
        return made

    def cleared(shape: Any, dtype: Any = float, *rest: Any, **more: Any) -> Any:
        if np.dtype(dtype) == np.float32:
            found.append(-1)
        return zeros(shape, dtype, *rest, **more)

    def clear(array: Any, boxes: Any, stream: int = 0) -> None:
        before = array.copy()
        unwritten.clear_boxes(array, boxes)
        found.append(int(np.count_nonzero(np.isnan(before) & ~np.isnan(array))))

    monkeypatch.setattr(np, "empty", poisoned)
    monkeypatch.setattr(np, "zeros", cleared)
    monkeypatch.setattr(views, "clear_boxes", clear)
    monkeypatch.setattr(fast, "clear_boxes", clear)
    monkeypatch.setattr(fast.Machine, "clear", staticmethod(clear))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_what_is_not_written_is_filled(name: str, filled: list[int]) -> None:
    kernel = kernel_of(name)
    # sixteenths: sums of them are exact, in whatever order a scan adds them
    x = np.random.default_rng(3).integers(1, 17, (24, 40)).astype(np.float32) / 16
    more = (3,) if "steps" in PROGRAMS[name][0] else ()
    expected = np.full_like(x, 0.0)
    kernel.reference(x, expected, *more)
    filled.clear()
    for _ in range(3):  # the checked path, then the learnt one
        found = kernel(x, None, *more)
        assert np.array_equal(found, expected)
    wanted = PROGRAMS[name][1]
    assert [each for each in filled if each] == ([wanted] * 3 if wanted else [])
    assert kernel.call_paths.calls


def boxed(described: Any, values: dict[str, int], shape: tuple[int, ...], untouched: bool) -> Any:
    """Whether an element is in a box (that is untouched)."""
    found = np.zeros(shape, bool)
    for box in described:
        if box["untouched"] or not untouched:
            for part in unwritten.boxes_at([box], values, shape) or [(slice(None),) * len(shape)]:
                inside = evaluate(box["when"], values)
                found[part] |= bool(inside)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_boxes_against_the_program(name: str) -> None:
    """Every element that is not written lies in a box; of an untouched one, what it holds stays, and
    nothing depends on it."""
    kernel = kernel_of(name)
    (out,) = [
        one for one in kernel.compile("sm_80", emit={"ptx"}).manifest["parameters"] if one.get("mode") == "out"
    ]
    described = out.get("unwritten")
    if described is None:
        return
    more = (3,) if "steps" in PROGRAMS[name][0] else ()
    for shape in ((1, 1), (1, 7), (4, 4), (5, 6), (9, 5), (8, 12)):
        if name == "two_parts" and shape[1] < 7:
            continue  # a call that is refused
        values = {"H": shape[0], "W": shape[1], "steps": 3}
        x = np.random.default_rng(3).random(shape).astype(np.float32) + 0.1
        held = [np.full(shape, start, np.float32) for start in (7.0, 9.0)]
        for each in held:
            kernel.reference(x, each, *more)
        kept = (held[0] == 7.0) & (held[1] == 9.0)
        assert not (kept & ~boxed(described, values, shape, False)).any(), shape
        safe = boxed(described, values, shape, True)
        assert kept[safe].all(), shape
        # What it held has no say in anything else.
        other = np.full(shape, 7.0, np.float32)
        other[safe] = 100.0
        kernel.reference(x, other, *more)
        assert np.array_equal(other[~safe], held[0][~safe]), shape


@pytest.mark.parametrize("shape", [(1, 1), (3, 9), (4, 4), (5, 5), (0, 7), (2, 100)])
def test_sizes_at_which_nothing_is_written(shape: tuple[int, int], filled: list[int]) -> None:
    kernel = kernel_of("border")
    x = np.ones(shape, np.float32)
    expected = np.full_like(x, 0.0)
    kernel.reference(x, expected)
    for _ in range(2):
        assert np.array_equal(kernel(x), expected)


def test_a_loop_that_runs_no_times(filled: list[int]) -> None:
    kernel = kernel_of("steps")
    x = np.ones((24, 40), np.float32)
    for steps in (2, 0, 2, 0, -1):
        assert np.array_equal(kernel(x, None, steps), x if steps > 0 else 0 * x)


def test_the_manifest_says_which() -> None:
    manifest = kernel_of("border").compile("sm_80").manifest
    (out,) = [one for one in manifest["parameters"] if one.get("mode") == "out"]
    rows = {"when": "H >= 5 and W >= 5", "bounds": [["0", "2"], ["0", "W"]], "untouched": True}
    assert rows in out["unwritten"]
    whole = kernel_of("whole").compile("sm_80").manifest
    assert [one["unwritten"] for one in whole["parameters"] if one.get("mode") == "out"] == [[]]


def test_boxes_as_memory() -> None:
    generator = np.random.default_rng(5)
    for _ in range(200):
        rank = int(generator.integers(1, 5))
        shape = tuple(int(n) for n in generator.integers(1, 6, rank))
        boxes = []
        for _ in range(int(generator.integers(0, 4))):
            low = [int(generator.integers(0, n)) for n in shape]
            high = [int(generator.integers(a + 1, n + 1)) for a, n in zip(low, shape)]
            boxes.append(tuple(map(slice, low, high)))
        pieces = unwritten.pieces_at(tuple(boxes), shape, 4)
        if pieces is None:
            continue
        expected = np.ones(shape, np.int32)
        unwritten.clear_boxes(expected, tuple(boxes))
        memory = np.ones(4 * expected.size, np.uint8)
        for offset, pitch, width, rows in pieces:
            for row in range(rows):
                memory[offset + row * pitch : offset + row * pitch + width] = 0
        assert np.array_equal(memory.reshape(-1, 4)[:, 0].reshape(shape) == 0, expected == 0)


def test_without_a_manifest_all_of_it_is_zero() -> None:
    kernel = kernel_of("whole")
    matched = arrays.match(kernel.signature, (np.ones((3, 4), np.float32),), {})
    assert not arrays.allocate_outputs(matched).result.any()


def test_one_launch_clears_several_pieces() -> None:
    boxes = tuple(unwritten.boxes_at([
        {"when": "True", "bounds": [["0", "5"], ["0", "2"], ["0", "12"]]},
        {"when": "True", "bounds": [["0", "5"], ["0", "9"], ["10", "12"]]},
        {"when": "5 < 3", "bounds": [["0", "5"], ["0", "9"], ["0", "12"]]},
    ], {}, (5, 9, 12)) or ())  # fmt: skip
    pieces = unwritten.pieces_at(boxes, (5, 9, 12), 4)
    assert pieces is not None and pieces == ((0, 432, 96, 5), (40, 48, 8, 45))
    packed = gpu_clear.pack(pieces)
    assert isinstance(packed, gpu_clear.ClearLaunch)
    assert packed.entry == "clear_8" and packed.grid == (1, 2)
    assert gpu_clear.pack(pieces[:1]) == pieces[:1] and gpu_clear.pack(None) is None


def test_the_kernel_that_clears_assembles() -> None:
    from loopfuse.codegen.targets.assemble import assemble

    made = assemble(gpu_clear.kernel_text(), parse_target("sm_80"))
    if made is None:
        pytest.skip("no ptxas here")
    assert set(made[1]) == {f"clear_{unit}" for unit in (1, 2, 4, 8, 16)}
