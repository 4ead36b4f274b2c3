"""Which dimensions may run as one: where a product of sizes stands for the sizes themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.interp import interpret
from loopfuse.poly.bounds import find_preconditions
from loopfuse.poly.build import build_model
from loopfuse.poly.collapse import find_collapses, may_collapse

HEAD = "kernel f(a: f32[H, W], inout b: f32[H, W], row: f32[W], one: f32[1], s: f32, k: i64):\n"
LOOP = "    for y in 0..H, x in 0..W:\n"


def found(text: str):
    """What `find_collapses` says of the first kernel of a text."""
    kernel = check(parse(Source("f.lf", text))).kernels[0]
    model = build_model(kernel)
    preconditions, context = find_preconditions(model)
    return find_collapses(replace(model, preconditions=preconditions, context=context))


YES = {
    "element-wise": LOOP + "        b[y, x] = a[y, x] * s + b[y, x]\n",
    "a constant place elsewhere": LOOP + "        b[y, x] = a[y, x] * one[0]\n",
    "two nests": LOOP + "        b[y, x] = a[y, x]\n" + LOOP + "        b[y, x] = b[y, x] + 1.0\n",
    "x outside": "    for x in 0..W, y in 0..H:\n        b[y, x] = a[y, x]\n",
    "a temporary": "    temp t: f32[H, W]\n" + LOOP + "        t[y, x] = a[y, x]\n" + LOOP + "        b[y, x] = t[y, x]\n",
    "a local": LOOP + "        let v = a[y, x]\n        b[y, x] = v * v\n",
    "steps at a point": LOOP + "        for t in 0..k:\n            b[y, x] = b[y, x] * 0.5\n",
    "steps around": "    for t in 0..k, y in 0..H, x in 0..W:\n        b[y, x] = b[y, x] * 0.5\n",
    "chosen by a parameter": LOOP + "        if k > 3:\n            b[y, x] = a[y, x]\n",
    "chosen by what is there": LOOP + "        if a[y, x] > 0.0:\n            b[y, x] = a[y, x]\n",
}  # fmt: skip

NO = {
    "a row's factor": LOOP + "        b[y, x] = a[y, x] * row[x]\n",
    "a neighbour": "    for y in 0..H, x in 1..W:\n        b[y, x] = a[y, x - 1]\n",
    "a neighbour in the same row or none": LOOP + "        b[y, x] = a.clamp[y, x - 1]\n",
    "all but the last row": "    for y in 0..H - 1, x in 0..W:\n        b[y, x] = a[y, x]\n",
    "every other row": "    for y in 0..H step 2, x in 0..W:\n        b[y, x] = a[y, x]\n",
    "backwards": "    for y in H - 1..-1 step -1, x in 0..W:\n        b[y, x] = a[y, x]\n",
    "a triangle": LOOP + "        if x <= y:\n            b[y, x] = a[y, x]\n",
    "the place as a value": LOOP + "        b[y, x] = a[y, x] + f32(x)\n",
    "the size as a value": LOOP + "        b[y, x] = a[y, x] / f32(W)\n",
    "the size in a condition": LOOP + "        if W > 3:\n            b[y, x] = a[y, x]\n",
    "steps by the size": "    for t in 0..H, y in 0..H, x in 0..W:\n        b[y, x] = b[y, x] * 0.5\n",
    "another place": LOOP + "        b[y, x] = b[0, 0] + a[y, x]\n",
    "a sum": "    var v: f32 = 0.0\n" + LOOP + "        v += a[y, x]\n    for i in 0..1:\n        b[i, 0] = v\n",
    "a row of one of them": "    temp t: f32[W]\n" + "    for y in 0..H:\n        for x in 0..W:\n            t[x] = a[y, x]\n        for x in 0..W:\n            b[y, x] = t[x]\n",
    "one of them twice": "    for y in 0..H, x in 0..W, z in 0..W:\n        b[y, x] = b[y, x] + a[y, z]\n",
    "sizes that are assumed": "    assume W > 4\n" + LOOP + "        b[y, x] = a[y, x]\n",
    "sizes that are equal": "    assume W == H\n" + LOOP + "        b[y, x] = a[y, x]\n",
}  # fmt: skip


@pytest.mark.parametrize("name", YES)
def test_dimensions_that_run_as_one(name: str) -> None:
    assert found(HEAD + YES[name]) == (("H", "W"),)


@pytest.mark.parametrize("name", NO)
def test_dimensions_that_do_not(name: str) -> None:
    assert found(HEAD + NO[name]) == ()


def test_the_longest_run_and_what_is_left_of_it() -> None:
    text = "kernel f(a: f32[N, C, H, W], inout b: f32[N, C, H, W], {}):\n    for n in 0..N, c in 0..C, y in 0..H, x in 0..W:\n        b[n, c, y, x] = a[n, c, y, x] * {}\n"
    assert found(text.format("s: f32", "s")) == (("N", "C", "H", "W"),)
    assert found(text.format("s: f32[C]", "s[c]")) == (("H", "W"),)
    assert found(text.format("s: f32[N]", "s[n]")) == (("C", "H", "W"),)
    assert found(text.format("s: f32[H, W]", "s[y, x]")) == (("N", "C"), ("H", "W"))
    assert found(text.format("s: f32[C, H]", "s[c, y]")) == (("C", "H"),)
    assert found(text.format("s: f32[N, W]", "s[n, x]")) == (("C", "H"),)


def test_what_is_made_once_a_channel() -> None:
    text = """kernel f(a: f32[C, H, W], g: f32[C], inout b: f32[C, H, W]):
    temp t: f32[C]
    for c in 0..C:
        t[c] = g[c] * 2.0
    for c in 0..C, y in 0..H, x in 0..W:
        b[c, y, x] = a[c, y, x] * t[c]
"""
    assert found(text) == (("H", "W"),)


def test_it_does_the_same_called_so() -> None:
    """What the definition says, run: the interpreter on (H, W) and on (1, H*W)."""
    for name, body in YES.items():
        kernel = check(parse(Source("f.lf", HEAD + body))).kernels[0]
        generator = np.random.default_rng(len(name))
        a, b = (generator.standard_normal((3, 5)).astype(np.float32) for _ in range(2))
        rest = {"row": np.ones(5, np.float32), "one": np.ones(1, np.float32) * 3, "s": 1.5, "k": 2}
        flat = b.copy().reshape(1, 15)
        interpret(kernel, {"a": a, "b": b, **rest})
        interpret(kernel, {"a": a.reshape(1, 15), "b": flat, **rest, "row": np.ones(15, np.float32)})
        np.testing.assert_array_equal(b.ravel(), flat.ravel(), err_msg=name)


def test_names_that_are_no_sizes() -> None:
    kernel = check(parse(Source("f.lf", HEAD + YES["element-wise"]))).kernels[0]
    model = build_model(kernel)
    for sizes in (("H",), ("H", "H"), ("W", "H"), ("H", "k"), ("H", "Z")):
        assert not may_collapse(model, sizes)


SQUARES = "kernel f(a: f32[H, H, C], inout b: f32[H, H, C], s: f32[H], t: f32[H, C]):\n    for y in 0..H, x in 0..H, c in 0..C:\n        "


def test_squares_of_colours() -> None:
    """A size may stand twice among those that become 1, but not beside the one that becomes the product."""
    assert found(SQUARES + "b[y, x, c] = a[y, x, c] + 1.0\n") == (("H", "H", "C"),)
    for other in ("a[x, y, c]", "a[y, y, c]", "a[y, x, c] * s[y]", "a[y, x, c] * t[x, c]", "a.clamp[y, x + 1, c]"):
        assert found(SQUARES + f"b[y, x, c] = {other}\n") == ()
    assert found(SQUARES + "b[x, y, c] = a[x, y, c]\n") == ()
    last = "kernel f(a: f32[C, H, H], inout b: f32[C, H, H]):\n    for c in 0..C, y in 0..H, x in 0..H:\n        b[c, y, x] = a[c, y, x]\n"
    assert found(last) == ()


def test_a_square_image_in_python_runs_as_one_row() -> None:
    @loopfuse.kernel(target="cpu", fp="strict")
    def lighter(x: Any) -> Any:
        y = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                for c in range(x.shape[2]):
                    y[i, j, c] = x[i, j, c] * np.float32(0.5) + np.float32(0.25)
        return y

    image = np.random.default_rng(0).random((6, 6, 3), np.float32)
    np.testing.assert_array_equal(lighter(image), lighter.reference(image))
    np.testing.assert_array_equal(lighter(image[:5]), lighter.reference(image[:5]))
    assert "as one" in str(lighter.explain(image))
