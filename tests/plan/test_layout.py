"""Layouts: element by element against what devices and planned trees say of the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, parse_target
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Iter, Load, integer
from loopfuse.tree.layout import Digit, Layout, Level, print_layout
from loopfuse.tree.looptree import (
    STREAMED,
    Copy,
    Lanes,
    LineBuffer,
    Loop,
    Shared,
    TreeNode,
    Window,
    layout_of,
    modulus_of,
    strip_of,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import walk_nodes

EXAMPLES = Path(__file__).parents[2] / "examples"
DIGIT = re.compile(r"\((\S+) ([A-Z]+) (\d+)(?: step (\d+))?\)")


def parsed(text: str, dims: str) -> Layout:
    """A layout from how it is printed."""
    digits = [
        Digit(None if dim == "-" else dims.index(dim), Level[by], int(count), int(step or 0))
        for dim, by, count, step in DIGIT.findall(text)
    ]
    rings = {dim: int(size) for size, dim in re.findall(r"ring (\d+) of (\w+), ", text)}
    return Layout(tuple(digits), tuple(rings.get(dim, 0) for dim in dims) if rings else ())


# ------------------------------------------------------------------------------------ tensor cores

MMA_A = "(k SLOT 2)(m SLOT 2)(m LANE 8)(k LANE 4)(k SLOT 2)"
MMA_B = "(k SLOT 2)(n LANE 8)(k LANE 4)(k SLOT 2)"
MMA_C = "(m SLOT 2)(m LANE 8)(n LANE 4)(n SLOT 2)"


def mma_a(lane: int, i: int) -> tuple[int, int]:
    """PTX ISA, mma.m16n8k16 of 16-bit elements, fragment A: element i of a lane, (row, column)."""
    row = lane // 4 if i < 2 or 4 <= i < 6 else lane // 4 + 8
    return row, lane % 4 * 2 + (i & 1) + (8 if i >= 4 else 0)


def mma_b(lane: int, i: int) -> tuple[int, int]:
    """The same, fragment B."""
    return lane % 4 * 2 + (i & 1) + (8 if i >= 2 else 0), lane // 4


def mma_c(lane: int, i: int) -> tuple[int, int]:
    """The same, the accumulator."""
    return lane // 4 + (0 if i < 2 else 8), lane % 4 * 2 + (i & 1)


@pytest.mark.parametrize(
    ("text", "dims", "formula", "size"),
    [(MMA_A, "mk", mma_a, (16, 16)), (MMA_B, "kn", mma_b, (16, 8)), (MMA_C, "mn", mma_c, (16, 8))],
)
def test_operands_of_mma(
    text: str, dims: str, formula: Callable[[int, int], tuple[int, int]], size: tuple[int, int]
) -> None:
    layout = parsed(text, dims)
    assert print_layout(layout, dims) == text
    assert (layout.extent(0), layout.extent(1)) == size
    held = list(layout.held(2))
    assert len({element for _, element in held}) == len(held) == size[0] * size[1]
    for numbers, element in held:
        assert element == formula(numbers[Level.LANE], numbers[Level.SLOT]), numbers
        assert layout.places(element) == [numbers]


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_accumulator_of_wgmma(columns: int) -> None:
    """wgmma.m64nNk16: register i of a thread of the warpgroup."""
    layout = parsed(f"(m WARP 4)(n SLOT {columns // 8})(m SLOT 2)(m LANE 8)(n LANE 4)(n SLOT 2)", "mn")
    held = list(layout.held(2))
    assert len({element for _, element in held}) == len(held) == 64 * columns
    for numbers, element in held:
        lane, i = numbers[Level.LANE], numbers[Level.SLOT]
        row = numbers[Level.WARP] * 16 + lane // 4 + 8 * (i // 2 % 2)
        assert element == (row, i // 4 * 8 + lane % 4 * 2 + i % 2), numbers


def test_an_operand_with_two_digits_exchanged_is_another() -> None:
    wrong = parsed("(m LANE 8)(m SLOT 2)(n LANE 4)(n SLOT 2)", "mn")
    found = {element for numbers, element in wrong.held(2) if element != mma_c(numbers[Level.LANE], numbers[Level.SLOT])}
    assert len(found) > 64


# ------------------------------------------------------------------------------------ homes


def test_lanes_hold_neighbours() -> None:
    for columns in (1, 2, 4, 8):
        strip = strip_of(Lanes(columns))
        assert strip is not None and strip.extent(0) == 32 * columns
        for x in range(32 * columns):
            assert strip.places((x,)) == [{Level.LANE: x // columns, Level.SLOT: x % columns}]


def test_rings_come_round() -> None:
    for home in (Window(5), LineBuffer(5), Shared(5)):
        assert modulus_of(home) == 5 and strip_of(home) is None
        assert [layout_of(home).places((y,)) for y in (0, 4, 5, 13)] == [[{Level.SLOT: y}] for y in (0, 4, 0, 3)]
    assert modulus_of(Shared()) == 0 and layout_of(Shared()).digits == ()
    rows = strip_of(Window(3, 2))
    assert rows is not None and rows.places((4, 37)) == [{Level.SLOT: 1 * 2 + 1, Level.LANE: 18}]


def test_own_elements_of_a_lane() -> None:
    strip, v, lane = strip_of(Lanes(4)), Iter("v"), Iter("lane")
    assert strip is not None
    ranges = {"v": (0, 3), "h": (0, 1)}
    for subscript, is_own in (
        (lane * 4 + v, True), (lane * 4 + 3, True), (lane * 4 + v + 1, False), (lane * 4 - 1, False),
        (lane * 2 + v, False), (integer(0), False), (lane * 4 + Iter("k"), False), ((lane * 4 + v) % 128, False),
        (lane * 4 + Iter("h") * 2 + 1, True), (lane * 4 + Iter("h") * 3, True), (lane * 4 + Iter("h") * 4, False),
    ):  # fmt: skip
        assert strip.owns(Level.LANE, "lane", 0, subscript, ranges) is is_own, subscript


def test_copies_and_overlaps() -> None:
    maximum = parsed("(- THREAD 4)(x SLOT 2)", "x")
    assert maximum.places((1,)) == [{Level.THREAD: t, Level.SLOT: 1} for t in range(4)]
    strips = parsed("(x WARP 3 step 6)(x LANE 4)(x SLOT 2)", "x")
    assert print_layout(strips, "x") == "(x WARP 3 step 6)(x LANE 4)(x SLOT 2)"
    assert strips.extent(0) == 20 and strips.steps == (6, 2, 1)
    assert [len(strips.places((x,))) for x in range(21)] == [1] * 6 + [2, 2] + [1] * 4 + [2, 2] + [1] * 6 + [0]


# ------------------------------------------------------------------------------------ planned trees


def planned(text: str) -> pipeline.Planned:
    program = pipeline.read_program(Source("layout.lf", text))
    return pipeline.plan_kernel(program, program.kernels[0].name, Options(target=parse_target("sm_90")))


def instances(nodes: tuple[TreeNode, ...], fixed: dict[str, int], wanted: Callable[[Copy], bool]) -> Iterator[tuple[Copy, dict[str, int]]]:
    """Copies that are `wanted`, with the values of the loops around them that have constant bounds, or those `fixed`."""
    for node in nodes:
        if isinstance(node, Copy):
            if wanted(node):
                yield node, dict(fixed)
        elif isinstance(node, Loop):
            low, high = constant_value(node.lower), constant_value(node.upper)
            values = range(low, high) if low is not None and high is not None else [0]
            for value in [fixed[node.var]] if node.var in fixed else values:
                yield from instances(node.body, {**fixed, node.var: value}, wanted)
        else:
            yield from instances((*getattr(node, "then", ()), *getattr(node, "otherwise", ())), fixed, wanted)


SOFTMAX = """kernel f(x: DTYPE[R, 4096], out y: DTYPE[R, 4096]):
    temp m: f32[R]
    temp s: f32[R]
    for r in 0..R:
        m[r] = max(c in 0..4096: f32(x[r, c]))
    for r in 0..R:
        s[r] = sum(c in 0..4096: exp(f32(x[r, c]) - m[r]))
    for r in 0..R, c in 0..4096:
        y[r, c] = DTYPE(exp(f32(x[r, c]) - m[r]) / s[r])
"""


@pytest.mark.parametrize(
    ("dtype", "text"), [("bf16", "(c SLOT 4)(c THREAD 128)(c SLOT 8)"), ("f64", "(c SLOT 8)(c SLOT 4)(c THREAD 128)")]
)
def test_a_row_of_a_block(dtype: str, text: str) -> None:
    """Who asks for which place of a row, and which register it comes to."""
    found = planned(SOFTMAX.replace("DTYPE", dtype))
    layout, (launch,) = parsed(text, "c"), found.tree.launches
    (thread,) = (loop.var for loop in walk_nodes(launch.body) if isinstance(loop, Loop) and loop.mapping is Where.BLOCK)
    seen: list[int] = []
    for copy, values in instances(launch.body, {"r": 0}, lambda copy: copy.target.array.startswith("x_row")):
        assert isinstance(copy.value, Load)
        place, slot = evaluate_index(copy.value.index[-1], values), evaluate_index(copy.target.index[0], values)
        assert layout.places((place,)) == [{Level.SLOT: slot, Level.THREAD: values[thread]}]
        seen.append(place)
    assert sorted({*seen}) == [*range(layout.extent(0))] == [*range(4096)]


def test_strips_of_unsharp() -> None:
    """Which columns of the image the lanes of a block's warps load, and how they stand in the row that lanes read of each
    other."""
    found = planned((EXAMPLES / "unsharp.lf").read_text())
    (launch,) = found.tree.launches
    lane = next(loop.var for loop in walk_nodes(launch.body) if isinstance(loop, Loop) and loop.mapping is Where.LANE)
    warp = next(loop.var for loop in walk_nodes(launch.body) if isinstance(loop, Loop) and loop.mapping is Where.WARP)
    layout = parsed("(x WARP 4 step 120)(x LANE 32)(x SLOT 4)", "x")
    windows = {buffer.name: buffer.home for buffer in found.tree.buffers}
    outside = (Where.GRID, *STREAMED)
    fixed = {loop.var: 1 for loop in walk_nodes(launch.body) if isinstance(loop, Loop) and loop.mapping in outside}
    fixed |= {"H": 1 << 20, "W": 1 << 20}
    loads = 0
    for copy, values in instances(launch.body, fixed, lambda copy: isinstance(copy.value, Load)):
        assert isinstance(copy.value, Load)
        home = windows[copy.target.array]
        if copy.value.array == "img" and isinstance(home, Window):
            x = evaluate_index(copy.value.index[-1], values)
            slot = evaluate_index(copy.target.index[-1], values) - 2  # behind the two that other lanes have
            where = {Level.WARP: values[warp], Level.LANE: values[lane], Level.SLOT: slot}
            assert where in layout.places((x - 480 + 4,))
            loads += 1
        elif isinstance(home, Lanes):
            x = evaluate_index(copy.target.index[-1], values)
            (where,) = layout_of(home).places((x,))
            assert where[Level.LANE] == values[lane]
    assert loads >= 2 * 4 * 32 * 4
