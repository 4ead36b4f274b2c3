"""Rows of the mutation table on coalesced loops: those that run as one where they may not, and places that are left out."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import compare
from loopfuse.tree.looptree import Compute, HostNode, Launch, LoopTree, TreeNode
from tests.plan.mutate_edit import Edit, Nodes, all_of, bounds
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each

SIZES = {"H": 2, "W": 5, "C": 3}
MORE = {"H": 2, "W": 40, "C": 3}
BEFORE = """    for y in 0..H, x in 0..W, c in 0..C:
        b[y, x, c] = a[y, x, c] ** g
"""
BLUR = """    for y in 0..H, x in 1..W - 1, c in 0..C:
        z[y, x, c] = b[y, x - 1, c] + b[y, x + 1, c]
"""
HEAD = "kernel f(a: f32[H, W, C], out b: f32[H, W, C], out z: f32[H, W, C], g: f32{}):\n"
BESIDE = BEFORE + "    for y in 0..H, x in 0..W, c in 0..C:\n        z[y, x, c] = {}\n"


def text(value: str, more: str = "") -> str:
    """A kernel whose second nest is no launch of coalesced loops."""
    return HEAD.format(more) + "    nofuse:\n" + (BESIDE.format(value)).replace("    ", "        ", 1).replace("\n    ", "\n        ")


BASES = [
    planned("taps", "cpu", SIZES, MORE, text=HEAD.format("") + BEFORE + BLUR),
    planned("short taps", "cpu", SIZES, {"H": 2, "W": 20, "C": 4}, text=HEAD.format("") + "    assume C <= 64\n" + BEFORE + BLUR),
    planned("a factor a place", "cpu", SIZES, text=text("b[y, x, c] * s[c]", ", s: f32[C]")),
    planned("a factor a column of places", "cpu", SIZES, text=text("b[y, x, c] * s[x]", ", s: f32[W]")),
    planned("places counted", "cpu", SIZES, text=text("b[y, x, c] + f32(c)")),
    planned("columns of places counted", "cpu", SIZES, text=text("b[y, x, c] + f32(x)")),
    planned("neighbours of places", "cpu", SIZES, text=text("b.clamp[y, x, c - 1]")),
    planned("a local a place", "cpu", SIZES, {"H": 2, "W": 40, "C": 1},
            text=HEAD.format("") + BEFORE.replace("        b[y, x, c] = ", "        let v = 2.0 * a[y, x, c]\n        b[y, x, c] = v * ") + BLUR),
    planned("colours in rows", "cpu", {"H": 3, "W": 20},
            text=(HEAD.format("") + BEFORE + "    for y in 0..H, x in 0..W:\n        z[y, x, 0] = b.clamp[y, x - 1, 1]\n")
            .replace("W, C]", "W, 3]").replace("0..C", "0..3")),
]  # fmt: skip


def joined(number: int, *names: str) -> Edit:
    """These loops as one, of the launch of that number, whatever they were."""

    def edit(tree: LoopTree) -> LoopTree:
        def one(node: HostNode) -> HostNode:
            is_it = isinstance(node, Launch) and node.name.endswith(f"_{number}")
            return replace(node, coalesced=names) if is_it else node  # pyright: ignore

        return replace(tree, body=tuple(map(one, tree.body)))

    return edit


def sometimes(node: TreeNode) -> Nodes:
    """A register that is set where an element is not 0."""
    assert isinstance(node, Compute)
    return (replace(node, predicate=compare("ne", node.value, node.value)),)


ALL = ("y_1", "x_1", "C")
ROWS = [
    Row("rows of taps as one", "taps cpu", "the loop over rows with them", joined(1, *ALL)),
    Row("taps against their order", "taps cpu", "columns outside rows", joined(0, "x", "y", "C")),
    Row("rows of places, not columns", "taps cpu", "the loop over rows alone", joined(0, "y", "C")),
    Row("places of another size", "taps cpu", "W for C", joined(1, "x_1", "W")),
    Row("a size alone", "taps cpu", "no loops", joined(1, "C")),
    Row("a loop that is none", "taps cpu", "of another launch", joined(1, "x", "C")),
    Row("too few chunks", "taps cpu", "none for the rest", bounds("cb", upper="C // 64")),
    Row("chunks that meet", "taps cpu", "an iteration more", bounds("c", upper="min(C, cb * 64 + 65)"),
        harmless="both threads write the same"),
    Row("a place too many", "taps cpu", "the first chunk begins before it", bounds("c", lower="max(0, cb * 64 - 1)"),
        harmless="both threads write the same"),
    Row("all places in one chunk", "short taps cpu", "of 64, as there are no more in a column",
        all_of(bounds("cb", upper="1"), bounds("c", upper="min(C, 64)"))),
    Row("factors by the place", "a factor a place cpu", "loops as one", joined(1, *ALL)),
    Row("factors by the column of places", "a factor a column of places cpu", "loops as one", joined(1, *ALL)),
    Row("places as values", "places counted cpu", "loops as one", joined(1, *ALL)),
    Row("columns of places as values", "columns of places counted cpu", "loops as one", joined(1, *ALL)),
    Row("neighbours in a column", "neighbours of places cpu", "loops as one", joined(1, *ALL)),
    Row("a local of another place", "a local a place cpu", "set for some only", each(r"^S1.*v\[\] =", sometimes)),
    Row("a colour of three as places", "colours in rows cpu", "loops as one", joined(1, "y_1", "W")),
    Row("colours twice", "colours in rows cpu", "a fourth", bounds("x", upper="min(32, W - xb * 32) * 4")),
    Row("columns of colours left out", "colours in rows cpu", "none for the rest", bounds("xb", upper="W // 32")),
]  # fmt: skip
