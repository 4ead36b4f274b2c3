"""Rows of the mutation table on `pointwise`: dimensions that run as one where they may not, columns of
several elements that go astray, and rows in pairs."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Binary, Expr, Load, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import TreeNode
from tests.plan.mutate_edit import Edit, Nodes, bounds
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each

HEAD = "kernel f(a: f32[{0}], out b: f32[{0}]{1}):\n    for {2}:\n        b[{3}] = {4}\n"
PLANE = ("H, W", "y in 0..H, x in 0..W", "y, x")
SIZES = {"H": 3, "W": 5}


def plane(value: str, more: str = "", loops: str = PLANE[1]) -> str:
    """A kernel over a plane."""
    return HEAD.format(PLANE[0], more, loops, PLANE[2], value)


def text(extents: str, loops: str, place: str, value: str, more: str) -> str:
    """A kernel over any array."""
    return HEAD.format(extents, more, loops, place, value)


BASES = [
    planned("rows as one", "sm_90", SIZES, {"H": 5, "W": 300}, text=plane("a[y, x] * s", ", s: f32")),
    planned("a factor a column", "sm_90", SIZES, text=plane("a[y, x] * s[x]", ", s: f32[W]")),
    planned("a factor a row", "sm_90", SIZES, text=plane("a[y, x] * s[y]", ", s: f32[H]")),
    planned("columns counted", "sm_90", SIZES, text=plane("a[y, x] + f32(x)")),
    planned("widths counted", "sm_90", SIZES, text=plane("a[y, x] / f32(W)")),
    planned("neighbours", "sm_90", SIZES, text=plane("a.clamp[y, x - 1]")),
    planned("channels", "sm_90", {"C": 2, **SIZES},
            text=text("C, H, W", "c in 0..C, y in 0..H, x in 0..W", "c, y, x", "a[c, y, x] * s[c]",
                      ", s: f32[C]")),
    planned("colours", "sm_90", SIZES, {"H": 1, "W": 1030},
            text=text("H, W, 3", "y in 0..H, x in 0..W, c in 0..3", "y, x, c", "a[y, x, c] * s[c]",
                      ", s: f32[3]")),
    planned("pairs", "sm_90", {"H": 2, "W": 5}, {"H": 3, "W": 257}, {"H": 2, "W": 1},
            text=plane("a[y, x] * s[x]", ", s: f16[W]").replace("f32", "f16")),
]  # fmt: skip


def as_one(*runs: tuple[str, ...]) -> Edit:
    """These sizes as one, whatever they were."""
    return lambda tree: replace(tree, collapsed=runs)


def next_factor(node: TreeNode) -> Nodes:
    """The factor of the next colour."""

    def one(expr: Expr) -> Expr:
        match expr:
            case Load(array="s", index=(Binary(op="mod", left=left, right=right),)):
                moved = combine("mod", combine("add", left, integer(1)), right)
                return replace(expr, index=(moved,))
            case _:
                return expr

    return (replace(node, value=map_expr(one, node.value)),)  # pyright: ignore


BOTH = ("H", "W")
ROWS = [
    Row("factors by the column", "a factor a column gpu", "rows as one", as_one(BOTH)),
    Row("factors by the row", "a factor a row gpu", "rows as one", as_one(BOTH)),
    Row("columns as values", "columns counted gpu", "rows as one", as_one(BOTH)),
    Row("sizes as values", "widths counted gpu", "rows as one", as_one(BOTH)),
    Row("neighbours in a row", "neighbours gpu", "rows as one", as_one(BOTH)),
    Row("channels that differ", "channels gpu", "all three as one", as_one(("C", "H", "W"))),
    Row("others beside", "channels gpu", "channels and rows, not columns", as_one(("C", "H"))),
    Row("the wrong way round", "rows as one gpu", "columns and rows", as_one(("W", "H")),
        harmless="as many rows of one column lie in memory in the same order"),
    Row("rows twice", "rows as one gpu", "and then again", as_one(BOTH, BOTH)),
    Row("one alone", "rows as one gpu", "one size", as_one(("W",))),
    Row("a size that is none", "rows as one gpu", "of no array", as_one(("H", "Z"))),
    Row("too few blocks", "rows as one gpu", "none for the rest", bounds("xb", upper="W // 2048")),
    Row("factors of the next colour", "colours gpu", "everywhere", each("^S1", next_factor)),
    Row("pairs a column later", "pairs gpu", "the first is left out",
        each(r"^if .*% 2 >= 0\)", lambda node: (replace(node, then=(), otherwise=()),))),
    Row("pairs that begin outside", "pairs gpu", "no test",
        each(r"^if .*v\w* >= 0\)", lambda node: node.then)),
    Row("too few blocks of pairs", "pairs gpu", "none for the last", bounds("xb", upper="(W + W % 2 + 61) // 64")),
    Row("a piece too many", "colours gpu", "a fourth", bounds("p", upper="4")),
]  # fmt: skip
