"""Rows of the mutation table on windows of planes: rows handed from warp to warp through shared
memory, barriers between filling and reading it, tiles of rows and columns."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Compare, Iter, Load, integer
from loopfuse.tree.looptree import (
    STREAMED,
    Barrier,
    Copy,
    Global,
    Guard,
    Loop,
    LoopTree,
    Shared,
    TreeNode,
    Window,
)
from loopfuse.tree.printer import print_node
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_edit import Edit, Nodes, all_of, everywhere, home, map_bodies
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import (
    each,
    from_other,
    gone,
    in_launch,
    reading,
    test,
    way,
    writing,
)
from tests.plan.treekit import of_doubled

STAR = """
kernel f(a: f32[D, H, W], out b: f32[D, H, W]):
    for z in 1..D-1, y in 1..H-1, x in 1..W-1:
        b[z, y, x] = a[z, y, x] + a[z-1, y, x] - 2.0 * a[z+1, y, x] + 3.0 * a[z, y-1, x] + 4.0 * a[z, y+1, x] + 5.0 * a[z, y, x-1] - a[z, y, x+1]
"""

CHAIN = """
kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
    temp b: f32[D, H, W]
    for z in 1..D-1, y in 1..H-1, x in 1..W-1:
        b[z, y, x] = a[z-1, y, x] + a[z, y-1, x] - a[z, y, x+1] + a[z+1, y, x]
    for z in 2..D-2, y in 2..H-2, x in 2..W-2:
        c[z, y, x] = b[z-1, y, x] + b[z, y-1, x] - b[z, y+1, x+1] + b[z+1, y, x]
"""

FAR = """
kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
    temp b: f32[D, H, W]
    for z in 1..D-1, y in 0..H, x in 1..W-1:
        b[z, y, x] = a[z-1, y, x] - a[z, y, x+1] + a[z+1, y, x]
    for z in 2..D-2, y in 2..H-2, x in 2..W-2:
        c[z, y, x] = b[z-1, y, x] + b[z, y-2, x] - b[z, y+2, x+1] + b[z+1, y, x]
"""

IN_PLACE = """
kernel f(a: f32[D, H, W], inout b: f32[D, H, W]):
    for z in 1..D-1, y in 1..H-1, x in 1..W-1:
        b[z, y, x] = b[z, y, x] + a[z-1, y, x] - a[z+1, y, x] + 3.0 * a[z, y-1, x] + 5.0 * a[z, y, x-1]
"""

MIRRORED = of_doubled(
    "b.clamp[z-1, y, x] + 2.0 * b.clamp[z+1, y, x] - b.clamp[z, y-1, x] + 3.0 * b.clamp[z, y+1, x] - b.clamp[z, y, x+1]"
)

FOLDED = of_doubled(
    "b.reflect[z-1, y, x] + 2.0 * b.reflect[z+1, y, x] - b.symmetric[z, y-1, x] + 3.0 * b.clamp[z, y, x+1]"
)

TORUS = """
kernel f(a: f32[D, H, W], out c: f32[D, H, W]):
    temp b: f32[D, H, W]
    for z in 0..D, y in 0..H, x in 0..W:
        b[z, y, x] = a.wrap[z-1, y, x] + 2.0 * a.wrap[z, y+1, x]
    for z in 0..D, y in 0..H, x in 0..W:
        c[z, y, x] = b.wrap[z+1, y, x] - b.wrap[z, y-1, x] + 3.0 * b.wrap[z, y, x-1]
"""

HEAT = """
kernel f(inout a: f32[D, H, W], n: i64):
    temp b: f32[D, H, W]
    for t in 0..n:
        for z in 1..D-1, y in 1..H-1, x in 1..W-1:
            b[z, y, x] = 0.5 * (a[z-1, y, x] + a[z+1, y, x] - a[z, y-1, x] + a[z, y+1, x] - a[z, y, x+1])
        for z in 1..D-1, y in 1..H-1, x in 1..W-1:
            a[z, y, x] = b[z, y, x]
"""

SMALL = Tuning(columns=1, rows=4, warps=2, band=2)
WIDE = replace(SMALL, band=4)
SIZE = {"D": 9, "H": 8, "W": 33}

BASES = [
    planned("planes", "sm_90", {"D": 4, "H": 5, "W": 6}, SIZE, text=STAR, tuning=SMALL),
    planned("planes of two", "sm_90", {**SIZE, "H": 14}, text=CHAIN, tuning=WIDE),
    planned("planes in place", "sm_90", SIZE, text=IN_PLACE, tuning=SMALL),
    planned("planes mirrored", "sm_90", {"D": 3, "H": 4, "W": 5}, SIZE, text=MIRRORED, tuning=SMALL),
    planned("planes folded", "sm_90", {"D": 3, "H": 4, "W": 5}, SIZE, text=FOLDED, tuning=SMALL),
    planned("planes wrapped", "sm_90", {"D": 3, "H": 4, "W": 5}, SIZE, text=TORUS, tuning=WIDE),
    planned("planes of heat", "sm_90", {**SIZE, "n": 3}, text=HEAT, tuning=replace(SMALL, band=6, steps=1)),
    planned("planes inside", "sm_90", {"D": 15, "H": 7, "W": 62}, text=STAR, tuning=SMALL),
    planned("planes held", "sm_90", {"D": 8, "H": 11, "W": 33}, text=FAR,
            tuning=replace(SMALL, warps=8, band=1)),
]  # fmt: skip

FILL = r"copy a_window\[.*= a_plane"
SPREAD = r"copy a_plane"
LOAD = r"copy a_window\[.*= a\["


# ------------------------------------------------------------------------------------ edits


def rotated(change: Callable[[Nodes], Nodes]) -> Edit:
    """The steps of a tile changed, in all ways."""

    def body(nodes: Nodes) -> Nodes:
        return tuple(
            replace(node, body=change(node.body))
            if isinstance(node, Loop) and node.mapping in STREAMED
            else node
            for node in nodes
        )

    def edit(tree: LoopTree) -> LoopTree:
        changed = map_bodies(tree, body)
        assert changed != tree, "the steps stay as they are"
        return changed

    return edit


def holds(node: TreeNode, at: str) -> bool:
    """Is there something at `at` in the node?"""
    return any(re.search(at, print_node(one)) for one in walk_nodes((node,)))


def barrier_behind(at: str) -> Edit:
    """The barrier stands right behind the last of the steps' parts that hold `at`."""

    def change(nodes: Nodes) -> Nodes:
        rest = [node for node in nodes if not isinstance(node, Barrier)]
        last = max(k for k, node in enumerate(rest) if holds(node, at))
        return (*rest[: last + 1], Barrier("block"), *rest[last + 1 :])

    return rotated(change)


def last_first(at: str) -> Edit:
    """The last of the steps' parts that holds `at` comes first."""

    def change(nodes: Nodes) -> Nodes:
        last = max(k for k, node in enumerate(nodes) if holds(node, at))
        return (nodes[last], *nodes[:last], *nodes[last + 1 :])

    return rotated(change)


def only(at: str, which: str, number: int, op: str = "eq") -> Edit:
    """The nodes at `at` run for one value of a variable."""
    return each(
        at, lambda node: (Guard(Compare(op, Iter(which), integer(number)), (node,)),)
    )


def bare(array: str) -> Edit:
    """The guards around loads of the array in the steps are gone."""

    def make(node: Any) -> Nodes:
        if isinstance(node, Guard) and node.otherwise:
            inner = [n for n in walk_nodes(node.then) if isinstance(n, Copy | Loop | Guard)]
            copies = [n for n in inner if isinstance(n, Copy)]
            if copies and all(
                isinstance(n.value, Load) and n.value.array == array for n in copies
            ) and not any(isinstance(n, Guard) for n in inner):
                return node.then
        return (node,)

    return each(r"^if .*lane >= ", make)


IN_STEP = "the interpreter's warps meet at shuffles nearly in step"

ROWS = [
    # ------------------------------------------------------------- barriers
    Row("no barrier", "planes windows", "between the steps", gone("^barrier")),
    Row("barrier of a warp", "planes windows", "instead of a block's",
        each("^barrier", lambda node: (Barrier("warp"),)), harmless=IN_STEP),
    Row("barrier for one warp", "planes windows", "the other does not come", only("^barrier", "yw", 0)),
    Row("barrier every other row", "planes windows", "a lane decides", only("^barrier", "lane", 3, "ne")),
    Row("barrier too early", "planes windows", "between reading a plane and filling the next",
        barrier_behind(FILL)),
    Row("one plane for two", "planes windows", "the next is filled over the one that is read",
        home("a_plane", home=Shared(1)), harmless=IN_STEP),
    Row("plane without rows", "planes windows", "as many planes as there are steps",
        home("a_plane", home=Shared(0))),
    Row("window of planes in shared memory", "planes windows", "all threads have one",
        home("a_window", home=Shared(4))),
    Row("plane of memory", "planes windows", "instead of shared memory", home("a_plane", home=Global())),
    Row("plane in registers", "planes windows", "each thread has its own", home("a_plane", home=Window(2))),
    Row("a barrier in the aligned way only", "planes windows", "none in the others",
        all_of(*(way(number, gone("^barrier")) for number in (1, 2, 3)))),
    Row("no barrier where rows are aligned", "planes inside windows", "but in the others",
        way(0, gone("^barrier"))),
    Row("no barrier at aligned edges", "planes inside windows", "but in the others",
        way(3, gone("^barrier"))),
    # ------------------------------------------------------- rows of others
    Row("plane read too early", "planes windows", "while it is filled", reading(FILL, r"^a_plane", 0, 1)),
    Row("rows of another plane", "planes windows", "of the one before", writing(FILL, 0, 1)),
    Row("another row of a plane", "planes windows", "the row beyond", reading(FILL, r"^a_plane", 1, 1)),
    Row("another column of a plane", "planes windows", "the neighbour's", reading(FILL, r"^a_plane", 2, 1)),
    Row("rows not taken over", "planes windows", "the window holds zeros there", gone(FILL)),
    Row("rows taken over by one warp", "planes windows", "not by the other", only(FILL, "yw", 0)),
    Row("rows filled for others a row off", "planes windows", "each a row too far down",
        writing(SPREAD, 1, 1)),
    Row("rows of the plane before handed on", "planes windows", "which the next step knows already",
        reading(SPREAD, r"^a_window", 0, -1)),
    Row("rows handed on by one warp", "planes windows", "not by the other", only(SPREAD, "yw", 1)),
    Row("rows handed on by half of the lanes", "planes windows", "not by the others",
        only(SPREAD, "lane", 16, "lt")),
    Row("rows handed on by two warps", "planes windows", "both write the first one's",
        each(SPREAD, lambda node: (replace(node, target=replace(node.target, index=(
            node.target.index[0], integer(1), *node.target.index[2:]))),))),
    Row("a step's rows handed on first", "planes of two windows", "before b is computed",
        last_first(r"copy b_plane")),
    Row("kept row of another", "planes of two windows", "the last row where the first is kept",
        reading(r"copy b_plane", r"^b_window", 1, 1)),
    # ------------------------------------------------- windows and columns
    Row("another row of the window", "planes windows", "stored a row off",
        writing(r"copy b\[", 1, 1)),
    Row("loads of another row", "planes windows", "in all ways", reading(LOAD, r"^a\[", 1, 1)),
    Row("loads of another plane", "planes inside windows", "inside only", way(1, reading(LOAD, r"^a\[", 0, 1))),
    Row("another neighbour's columns", "planes windows", "one lane further",
        reading(r"copy a_window\[.*= a_row", r"^a_row", 0, 1)),
    Row("columns of another row", "planes windows", "the first row's for the second",
        from_other(r"copy a_window\[.*= a_row_1", "a_row_1", "a_row")),
    # ------------------------------------------------------- tiles and chunks
    Row("a row stored too many", "planes of two windows", "which the tile below stores too",
        test(r"^if .*lane >= ", r"yw \* 4 < ", 1)),
    Row("a row stored too few", "planes of two windows", "nobody stores it",
        test(r"^if .*lane >= ", r"yw \* 4 < ", -1)),
    Row("rows above stored", "planes of two windows", "which only feed the tile's own",
        test(r"^if .*lane >= ", r"yw \* 4 >= ", -1)),
    Row("planes before stored", "planes windows", "which only feed the chunk's own",
        test(r"^if .*lane >= ", r"t\w* - 2 >= ", -1)),
    Row("loaded past the last column at aligned edges", "planes inside windows", "the next row's first",
        way(3, test(r"^if \(t\w* \+ zc", r"xb \* 30 - 1 < W", 1))),
    Row("stored past the last column at aligned edges", "planes inside windows", "by whole vectors",
        way(3, test(r"^if .*lane >= ", r"< W - 1", 1))),
    Row("a warp stores what it does not compute", "planes held windows", "the last row of the tile",
        test(r"^if \(t\w* - 3 >= 2\) & \(yw >= 2\) & \(yw < 6\)$", r"yw < ", -1)),
    Row("planes not computed", "planes held windows", "the first of each chunk that is stored",
        test(r"^if \(t\w* - 3 >= 2\) & \(yw >= 2\) & \(yw < 6\)$", r"t\w* - 3 >= ", 1)),
    Row("rows not fetched", "planes windows", "those above and below the tile are zero",
        gone(r"copy a_fetched")),
    Row("another row fetched", "planes windows", "the one above",
        reading(r"copy a_fetched", r"^a\[", 1, -1)),
    Row("another plane fetched", "planes windows", "the one before",
        reading(r"copy a_fetched", r"^a\[", 0, -1)),
    Row("rows fetched are not handed over", "planes windows", "nobody fills the plane's ends",
        gone(r"copy a_plane.*= a_fetched")),
    Row("rows handed over to others' places", "planes windows", "a row further",
        writing(r"copy a_plane.*= a_fetched", 1, 1)),
    Row("rows handed over in the wrong plane", "planes windows", "that of the step before",
        writing(r"copy a_plane.*= a_fetched", 0, -1)),
    Row("rows below fetched from above", "planes windows", "the second warp takes the first's row",
        everywhere("min(max(k_3 + yw, 0), 1)", "min(max(k_3 + yw, 0), 0)")),
    Row("interior without its last row", "planes inside windows", "tiles at the bottom are inside",
        test(r"^if .*<= H", r"<= H", None)),
    Row("interior without its last plane", "planes inside windows", "chunks at the end are inside",
        test(r"^if .*<= D", r"<= D", None)),
    # --------------------------------------------------------------- in place
    Row("neighbours' elements loaded too", "planes in place windows", "which they overwrite meanwhile",
        bare("b"), harmless="what is made of them is not stored"),
    Row("loaded beyond what is stored", "planes in place windows", "a column of the tile before",
        test(r"^if .*lane >= ", r"lane >= ", -1)),
    # --------------------------------------------------------------- mirrored
    Row("rows beyond the edge from another", "planes mirrored windows", "a row further",
        reading(r"copy b_window\[.*= b_plane\[.*max\(", r"^b_plane", 1, 1)),
    Row("planes beyond the edge missing", "planes mirrored windows", "they hold what came before",
        gone(r"copy b_window\[.*= b_window")),
    Row("planes beyond the edge from another", "planes mirrored windows", "a plane further",
        reading(r"copy b_window\[.*= b_window", r"^b_window", 0, -1)),
    Row("columns beyond the edge missing", "planes mirrored windows", "they hold what was computed there",
        gone(r"copy b_window\[.*= b_row\w*\[max")),
    # ----------------------------------------------------------------- reflected and symmetric
    Row("folded planes missing", "planes folded windows", "they hold what came before",
        gone(r"copy b_window\[.*= b_window")),
    Row("folded planes from another", "planes folded windows", "a plane nearer",
        reading(r"copy b_window\[.*= b_window", r"^b_window", 0, 1)),
    Row("folded rows from another", "planes folded windows", "a row further",
        reading(r"copy b_window\[.*= b_plane\[.*max\(", r"^b_plane", 1, 1)),
    # ----------------------------------------------------------------- wrapped
    Row("plane not computed behind the last", "planes wrapped windows", "b[D] is zero",
        test(r"^if \(0 < D\)", r"< D \+ 1$", -1)),
    Row("row not computed above the first", "planes wrapped windows", "b[0, -1] is zero",
        test(r"^if \(0 < D\)", r"yw \* 4 - 1 >= -1$", 1)),
    Row("column not computed before the first", "planes wrapped windows", "b[0, 0, -1] is zero",
        test(r"^if \(0 < D\)", r"xb \* 31 - 1 >= -1$", 1)),
    Row("plane not loaded before the first", "planes wrapped windows", "a[-1] is zero",
        test(r"^if \(t\w* \+ zc \* 4 - 1 >= -1\)", r"zc \* 4 - 1 >= -1$", 1)),
    Row("load wrapped by another period", "planes wrapped windows", "planes wrap a plane late",
        everywhere("(t_1 + zc * 4 - 1) % D", "(t_1 + zc * 4 - 1) % (D + 1)")),
    # -------------------------------------------------------------- time steps
    Row("planes read from the array", "planes of heat windows", "instead of its copy, in the launch back",
        in_launch(1, from_other(r"= a__copy", "a__copy", "a"))),
    Row("planes overwritten", "planes of heat windows", "the first launch stores to the array",
        all_of(in_launch(0, from_other(r"copy a__copy", "a__copy", "a")),
               in_launch(1, from_other(r"= a__copy", "a__copy", "a")))),
    Row("no barrier in the launch back", "planes of heat windows", "between its steps",
        in_launch(1, gone("^barrier"))),
]  # fmt: skip
