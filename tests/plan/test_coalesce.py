"""Loops of one launch that run as one row: which, how they run, and the bits they give."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, parse_target
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Binary, Const
from loopfuse.pipeline import plan_kernel
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Launch, Loop
from loopfuse.tree.rewrite.coalesce import coalesce
from loopfuse.tree.rewrite.collapse import as_one
from loopfuse.tree.walk import walk_nodes

HEAD = "kernel f(a: f32[H, W, C], out b: f32[H, W, C], out z: f32[H, W, C], s: f32[C], g: f32):\n"
POINTS = "    for y in 0..H, x in 0..W, c in 0..C:\n        b[y, x, c] = a[y, x, c] ** g\n"
ALONG_ROWS = "    for y in 0..H, x in 1..W - 1, c in 0..C:\n        z[y, x, c] = 0.25 * (b[y, x - 1, c] + b[y, x + 1, c]) + 0.5 * b[y, x, c]\n"
DOWN = "    for y in 1..H - 1, x in 0..W, c in 0..C:\n        z[y, x, c] = 0.25 * (b[y - 1, x, c] + b[y + 1, x, c]) + 0.5 * b[y, x, c]\n"
BOTH = "    for y in 1..H - 1, x in 1..W - 1, c in 0..C:\n        z[y, x, c] = b[y - 1, x - 1, c] + b[y + 1, x + 1, c]\n"
FACTOR = "    for y in 0..H, x in 0..W, c in 0..C:\n        z[y, x, c] = b[y, x, c] * s[c]\n"
APART = "    nofuse:\n" + indent(POINTS + FACTOR, "    ")
ALL = ("y", "x", "C")


def made(body: str, strided: tuple[str, ...] = (), head: str = HEAD, target: str = "cpu") -> Any:
    program = check(parse(Source("f.lf", head + body)))
    plan = plan_kernel(program, "f", Options(target=parse_target(target), strided=strided))
    assert plan.verdict.answer == "proved", plan.verdict
    return program.kernels[0], plan.tree


def ones(tree: Any) -> list[tuple[str, ...]]:
    """What runs as one in each launch, by the program's names."""
    return [tuple(name.split("_")[0] for name in launch.coalesced) for launch in tree.launches]


@pytest.mark.parametrize(
    "body, expected",
    [
        (POINTS + ALONG_ROWS, [ALL, ("x", "C")]),
        (POINTS + BOTH, [ALL, ("x", "C")]),
        (APART, [ALL, ()]),
        (POINTS.replace("y in 0..H, x in 0..W", "x in 0..W, y in 0..H") + ALONG_ROWS, [ALL, ("x", "C")]),
    ],
)  # fmt: skip
def test_each_launch_has_its_own(body: str, expected: list[tuple[str, ...]]) -> None:
    _, tree = made(body)
    assert ones(tree) == expected
    assert all(len(launch.coalesced) == 0 or launch.strategy == "pointwise" for launch in tree.launches)


def test_where_all_launches_do_the_same_the_program_is_called_with_other_sizes() -> None:
    _, tree = made(POINTS + DOWN)
    assert tree.collapsed == (("W", "C"),) and ones(tree) == [(), ()]


def test_columns_of_colours() -> None:
    _, tree = made((POINTS + ALONG_ROWS).replace("0..C", "0..3"), head=HEAD.replace("W, C]", "W, 3]"))
    assert ones(tree)[0] == ("y", "W")


def test_colours_go_by_whole_lines() -> None:
    """Of bytes, a line holds 64, and so do 64 colours of three."""
    head = "kernel f(a: {0}[H, W, 3], out b: {0}[H, W, 3]):\n"
    body = "    for y in 0..H, x in 0..W, c in 0..3:\n        b[y, x, c] = a[y, x, c]\n"
    for dtype, whole in (("u8", 64), ("f32", 16), ("f64", 8)):
        _, tree = made(body, head=head.format(dtype))
        chunks = next(node for node in walk_nodes(tree.launches[0].body) if isinstance(node, Loop) and node.var == "xb")
        assert isinstance(chunks.upper, Binary) and isinstance(chunks.upper.right, Const)
        assert int(chunks.upper.right.value) % whole == 0


def test_views_do_not() -> None:
    assert ones(made(POINTS + ALONG_ROWS, ("a", "b", "z"))[1]) == [(), ()]
    assert ones(made(POINTS + ALONG_ROWS, ("a",))[1]) == [(), ("x", "C")]
    assert ones(made(POINTS + ALONG_ROWS, ("z",))[1]) == [ALL, ()]


REST = "    nofuse:\n        for y in 0..H, x in 1..W - 1, c in 0..C:\n            {}\n"


@pytest.mark.parametrize(
    "line",
    [
        "z[y, x, c] = b[y, x - 1, c] * s[c]",
        "z[y, x, c] = b[y, x - 1, c] + f32(x)",
        "z[y, x, c] = b[y, x - 1, c] + f32(c)",
        "z[y, x, c] = b[y, x - 1, c] if x > 3 else 0.0",
        "z[y, x, c] = b[y, W - x, c]",
        "z[y, x, c] = b[y, x - 1, C - 1 - c]",
        "z[y, x, c] = b[y, x - 1, 0]",
    ],
)
def test_other_uses_of_the_place_do_not(line: str) -> None:
    _, tree = made(POINTS + REST.format(line))
    assert ones(tree)[1] == ()


def test_beside_a_loop_of_the_host() -> None:
    """With any contents of memory: what is left of earlier steps too."""
    head = "kernel f(inout a: f32[H, W, C], inout b: f32[H, W, C], steps: i64):\n"
    body = """    for t in 0..steps:
        for y in 0..H, x in 0..W, c in 0..C:
            b[y, x, c] = 0.5 * a[y, x, c]
        for y in 0..H, x in 1..W - 1, c in 0..C:
            a[y, x, c] = b[y, x - 1, c] + b[y, x + 1, c]
"""
    kernel, tree = made(body, head=head)
    assert ones(tree)[-2:] == [ALL, ("x", "C")]
    given = {name: np.random.default_rng(k).standard_normal((2, 5, 3), np.float32) for k, name in enumerate("ab")}
    for steps in (1, 3):
        _agrees(kernel, tree, {**given, "steps": steps}, {"H": 2, "W": 5, "C": 3})


def _agrees(kernel: Any, tree: Any, given: dict[str, Any], sizes: dict[str, int]) -> None:
    right = interpret(kernel, given, sizes)
    for order in ("forward", "reverse", "shuffled"):
        held = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in given.items()}
        run_tree(tree, held, sizes, order=order)
        for name, value in right.items():
            assert np.array_equal(value, held[name])


SHAPES = [(2, 5, 3), (1, 1, 1), (3, 40, 7), (2, 3, 16), (2, 9, 1), (0, 4, 3), (2, 0, 3), (4, 1, 3), (3, 2, 3), (2, 5, 0)]


def _given(shape: tuple[int, ...], names: str = "abz") -> dict[str, Any]:
    random = np.random.default_rng(1)
    arrays: dict[str, Any] = {name: random.random(shape, np.float32) for name in names}
    return {**arrays, "s": random.random(shape[-1:], np.float32), "g": np.float32(2.0)}


@pytest.mark.parametrize("body", [POINTS + ALONG_ROWS, POINTS + DOWN, POINTS + BOTH, APART], ids=["along", "down", "both", "factor"])
def test_tree_has_the_bits_of_the_program(body: str) -> None:
    kernel, tree = made(body)
    for shape in SHAPES[:5]:
        _agrees(kernel, tree, _given(shape), dict(zip("HWC", shape)))


@pytest.mark.parametrize("body", [POINTS + ALONG_ROWS, POINTS + DOWN, POINTS + BOTH, APART], ids=["along", "down", "both", "factor"])
@pytest.mark.parametrize("colours", [False, True], ids=["size", "three"])
def test_cpu_has_the_bits_of_the_program(body: str, colours: bool) -> None:
    """Of arrays as they are, and of views, which have a version of their own."""
    text = HEAD + body.replace("a[y, x, c] ** g", "sqrt(a[y, x, c]) * g")
    if colours:
        text = text.replace("W, C]", "W, 3]").replace("0..C", "0..3").replace("f32[C]", "f32[3]")
    program = loopfuse.loads(text, target="cpu")
    kernel = check(parse(Source("f.lf", text))).kernels[0]
    for shape in SHAPES:
        if colours and shape[-1] != 3:
            continue
        given = _given(shape)
        right = interpret(kernel, given, {"H": shape[0], "W": shape[1]} | ({} if colours else {"C": shape[2]}))
        for is_view in (False, True):
            held = dict(given)
            for name in "abz":
                around = np.zeros((shape[0], shape[1] + 1, shape[2] + 2), np.float32)
                held[name] = around[:, : shape[1], : shape[2]] if is_view else np.empty(shape, np.float32)
                held[name][...] = given[name]
            program(held["a"], held["b"], held["z"], given["s"], given["g"])
            assert all(np.array_equal(held[name], right[name]) for name in "bz"), (shape, is_view)


def test_what_runs() -> None:
    """The joined loop is gone, those inside go on, and no size stands in another place."""
    _, tree = made(POINTS + ALONG_ROWS)
    before, after = tree.launches[1], as_one(tree).launches[1]
    variables = [[node.var for node in walk_nodes(each.body) if isinstance(node, Loop)] for each in (before, after)]
    assert variables == [["y_1", "x_1", "c_1b", "c_1"], ["y_1", "c_1b", "c_1"]]
    assert coalesce(after) == after
    plain = Launch("plain", "generic", (), ())
    assert coalesce(plain) is plain


def test_reports_say_so() -> None:
    report = str(loopfuse.loads(HEAD + POINTS + ALONG_ROWS, target="cpu").explain())
    assert "with y, x, c as one" in " ".join(report.split()).replace("| ", "")
