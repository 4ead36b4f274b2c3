"""Rows of the mutation table on sliding windows: rows kept in registers, columns handed from lane to
lane, chunks, tiles with two ways, blocks of time steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.base.options import Tuning
from loopfuse.lang.nodes import Compare, Const, Expr, Iter, Load, Unary, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import (
    ALIGNED,
    STREAMED,
    Copy,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Mapping,
    TreeNode,
    Window,
)
from loopfuse.tree.printer import print_expr, print_node
from loopfuse.tree.walk import is_tile, walk_nodes
from tests.plan.mutate_edit import (
    Edit,
    Nodes,
    all_of,
    bounds,
    everywhere,
    home,
    map_bodies,
    put,
)
from tests.plan.mutate_planned import plus
from tests.plan.mutate_table import Row, planned

BLUR = """
kernel f(a: f32[H, W], out c: f32[H, W]):
    temp b: f32[H, W]
    for y in 0..H, x in 1..W-1:
        b[y, x] = a[y, x-1] + 2.0 * a[y, x] + 3.0 * a[y, x+1]
    for y in 1..H-1, x in 1..W-1:
        c[y, x] = b[y-1, x] + 2.0 * b[y, x] - b[y+1, x]
"""

CLAMPED = """
kernel f(a: f64[H, W], out c: f64[H, W]):
    temp b: f64[H, W]
    for y in 0..H, x in 0..W:
        b[y, x] = 2.0 * a.clamp[y, x-1] + a.clamp[y, x+1] - a.clamp[y-1, x]
    for y in 0..H, x in 0..W:
        c[y, x] = b.clamp[y-1, x] + 3.0 * b.clamp[y+2, x] - b.clamp[y, x-1] + b.clamp[y, x+2]
"""

OUTER = """
kernel f(a: i32[N, H, W], bias: i32[N], out c: i32[N, H, W]):
    temp b: i32[N, H, W]
    for n in 0..N, y in 1..H-1, x in 1..W-1:
        b[n, y, x] = a[n, y-1, x] + a[n, y, x-1] - a[n, y+1, x+1] + bias[n]
    for n in 0..N, y in 2..H-2, x in 2..W-2:
        c[n, y, x] = max(b[n, y, x] - b[n, y-1, x+1], 0)
"""

TWO_ARRAYS = """
kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.2 * (a[y, x] + a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = 0.2 * (b[y, x] + b[y, x-1] - b[y, x+1] + b[y+1, x] + b[y-1, x])
"""

TEMPORARY = """
kernel f(inout a: f64[H, W], n: i64):
    temp b: f64[H, W]
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] + a[y+1, x] - a[y-1, x])
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = b[y, x]
"""

SWAP = """
kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.2 * (a[y, x] + a[y, x-1] - a[y, x+1] + a[y+1, x] + a[y-1, x])
        swap a, b
"""

SMALL = Tuning(columns=1, rows=6, warps=1)
STEPS = Tuning(columns=1, rows=6, warps=1, steps=1)

BASES = [
    planned("blur", "sm_90", {"H": 5, "W": 9}, {"H": 19, "W": 62}, {"H": 25, "W": 63},
            text=BLUR, tuning=SMALL),
    planned("pairs", "sm_90", {"H": 20, "W": 124}, text=BLUR,
            tuning=Tuning(columns=2, rows=4, warps=1, ahead=0)),
    planned("clamped", "sm_90", {"H": 3, "W": 4}, {"H": 24, "W": 63}, text=CLAMPED, tuning=SMALL),
    planned("outer", "sm_90", {"N": 2, "H": 5, "W": 6}, {"N": 1, "H": 26, "W": 63}, text=OUTER,
            tuning=SMALL),
    planned("two arrays", "sm_90", {"H": 6, "W": 7, "n": 3}, {"H": 25, "W": 63, "n": 2},
            text=TWO_ARRAYS, tuning=STEPS),
    planned("temporary", "sm_90", {"H": 6, "W": 7, "n": 3}, {"H": 25, "W": 63, "n": 2},
            text=TEMPORARY, tuning=STEPS),
    planned("swapped", "sm_90", {"H": 6, "W": 7, "n": 5}, {"H": 25, "W": 63, "n": 4},
            text=SWAP, tuning=replace(STEPS, steps=2)),
]  # fmt: skip


# ------------------------------------------------------------------------------------ edits


def each(at: str, make: Callable[[Any], Nodes]) -> Edit:
    """Every node whose first line matches the pattern `at`, replaced: in all ways of a tile."""

    def edit(tree: LoopTree) -> LoopTree:
        def body(nodes: Nodes) -> Nodes:
            out: list[TreeNode] = []
            for node in nodes:
                out += make(node) if re.search(at, print_node(node)) else (node,)
            return tuple(out)

        changed = map_bodies(tree, body)
        assert changed != tree, f"nothing changes at {at!r}"
        return changed

    return edit


def way(number: int, edit: Edit) -> Edit:
    """`edit` in one way of each tile only: 0 inside for aligned rows, 1 for others, 2 at the edges,
    3 there for aligned rows (where they have a way of their own)."""

    def one(tree: LoopTree) -> LoopTree:
        changed = edit(tree)

        def host(new: Any, old: Any) -> Any:
            return replace(new, body=tuple(map(chosen, new.body, old.body)))

        def chosen(new: Any, old: Any) -> Any:
            if isinstance(new, Guard) and _ways(new):
                ways = len(_leaves((new,)))
                order = {3: (0, 1, 2), 4: (0, 3, 1, 2)}[ways]  # of planes, aligned rows come first
                return _one_way((old,), (new,), iter(order), number)[0]
            if isinstance(new, Guard):
                return replace(new, then=tuple(map(chosen, new.then, old.then)))
            if isinstance(new, Loop | HostLoop | Launch):
                return host(new, old)
            return new

        out = host(changed, tree)
        assert out != tree, "the way stays as it is"
        return out

    return one


def _leaves(nodes: Nodes) -> list[Nodes]:
    """The ways that a guard chooses from, in text order."""
    if len(nodes) == 1 and isinstance(nodes[0], Guard) and _ways(nodes[0]):
        return [*_leaves(nodes[0].then), *_leaves(nodes[0].otherwise)]
    return [nodes]


def _one_way(old: Nodes, new: Nodes, order: Iterator[int], number: int) -> Nodes:
    """`old`, but for one of its ways, which is that of `new`."""
    if len(old) == 1 and isinstance(old[0], Guard) and _ways(old[0]):
        guard, other = old[0], new[0]
        assert isinstance(other, Guard)
        then = _one_way(guard.then, other.then, order, number)
        otherwise = _one_way(guard.otherwise, other.otherwise, order, number)
        return (Guard(other.condition, then, otherwise),)
    return new if next(order) == number else old


def _ways(node: Guard) -> bool:
    """Does it choose between ways of running a tile?"""
    return is_tile(node)


def reading(at: str, which: str, position: int, by: int) -> Edit:
    """In the nodes at `at`, the loads printed like `which` read `by` rows or columns further."""

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Load) and re.search(which, print_expr(expr)):
            return _moved(expr, position, by)
        return expr

    return each(at, lambda node: (replace(node, value=map_expr(one, node.value)),))


def writing(at: str, position: int, by: int) -> Edit:
    """The nodes at `at` write `by` rows or columns further."""
    return each(at, lambda node: (replace(node, target=_moved(node.target, position, by)),))


def _moved(load: Load, position: int, by: int) -> Load:
    index = list(load.index)
    index[position] = combine("add", index[position], integer(by))
    return replace(load, index=tuple(index))


def from_other(at: str, old: str, new: str) -> Edit:
    """The nodes at `at` read (or write) buffer `new` instead of `old`."""

    def one(expr: Expr) -> Expr:
        return replace(expr, array=new) if isinstance(expr, Load) and expr.array == old else expr

    def change(node: Any) -> Nodes:
        return (replace(node, target=map_expr(one, node.target), value=map_expr(one, node.value)),)

    return each(at, change)


def test(at: str, which: str, by: int | None) -> Edit:
    """In the guards at `at`, the right sides of comparisons printed like `which` grow by `by`;
    None: they are not asked."""

    def one(expr: Expr) -> Expr:
        if isinstance(expr, Compare) and re.search(which, print_expr(expr)):
            if by is None:
                return Const(True, DType.BOOL)
            return replace(expr, right=combine("add", expr.right, integer(by)))
        return expr

    return each(at, lambda node: (replace(node, condition=map_expr(one, node.condition)),))


def behind(at: str, other: str) -> Edit:
    """In each list, the first node at `at` stands right behind the last one at `other`. Both may
    be inside a loop of the list."""

    def matches(node: TreeNode, pattern: str) -> bool:
        inner = walk_nodes((node,)) if not _is_rotated(node) else ()
        return any(re.search(pattern, print_node(each)) for each in inner)

    def edit(tree: LoopTree) -> LoopTree:
        def body(nodes: Nodes) -> Nodes:
            here = next((k for k, node in enumerate(nodes) if matches(node, at)), None)
            there = [k for k, node in enumerate(nodes) if matches(node, other)]
            if here is None or not there or here >= there[-1]:
                return nodes
            last = there[-1]
            return (*nodes[:here], *nodes[here + 1 : last + 1], nodes[here], *nodes[last + 1 :])

        changed = map_bodies(tree, body)
        assert changed != tree, f"nothing to put {at!r} behind {other!r}"
        return changed

    return edit


def _is_rotated(node: TreeNode) -> bool:
    return any(
        isinstance(each, Loop) and each.mapping in STREAMED for each in walk_nodes((node,))
    )


def gone(at: str) -> Edit:
    """The nodes are not there."""
    return each(at, lambda node: ())


def in_launch(number: int, edit: Edit) -> Edit:
    """`edit` in one launch only."""

    def one(tree: LoopTree) -> LoopTree:
        wanted = tree.launches[number].name
        changed = edit(tree)
        new = {launch.name: launch for launch in changed.launches}

        def host(body: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
            return tuple(
                replace(each, body=host(each.body))
                if isinstance(each, HostLoop)
                else new[each.name]
                if each.name == wanted
                else each
                for each in body
            )

        out = replace(tree, body=host(tree.body))
        assert out != tree, "the launch stays as it is"
        return out

    return one


def without(guard: Guard, *numbers: int) -> Guard:
    """The guard without some of its comparisons."""
    number = -1

    def one(expr: Expr) -> Expr:
        nonlocal number
        if isinstance(expr, Compare):
            number += 1
            if number in numbers:
                return Const(True, DType.BOOL)
        return expr

    return replace(guard, condition=map_expr(one, guard.condition))


def constant(at: str, old: float, new: float) -> Edit:
    """The constant `old` is `new` in the nodes at `at`."""

    def one(expr: Expr) -> Expr:
        return replace(expr, value=new) if isinstance(expr, Const) and expr.value == old else expr

    return each(at, lambda node: (replace(node, value=map_expr(one, node.value)),))


def is_store(nodes: Nodes) -> bool:
    """Is it one Copy to memory?"""
    return len(nodes) == 1 and isinstance(nodes[0], Copy) and nodes[0].target.array == "c"


def host_bounds(number: int, change: Callable[[HostLoop], HostLoop]) -> Edit:
    """One of the host's loops changed."""

    def edit(tree: LoopTree) -> LoopTree:
        body = list(tree.body)
        loop = body[number]
        assert isinstance(loop, HostLoop)
        body[number] = change(loop)
        return replace(tree, body=tuple(body))

    return edit


def split_behind_loads(node: Loop) -> Nodes:
    """A loop that loads the first stage's rows, and another that does the rest."""
    moving = [any(isinstance(n, Copy) for n in walk_nodes((each,))) for each in node.body]
    first = moving.index(True) + 1
    return replace(node, body=node.body[:first]), replace(node, body=node.body[first:])


CLAIM = "the iteration occurs in the claim alone"
SAME = "both chunks store the same value"
UNUSED = "nothing that is stored depends on it"
ZERO, SEVEN = Const(0.0, DType.F32), Const(7.0, DType.F32)

ROWS = [
    # ------------------------------------------------ windows: rows
    Row("window a row too small", "blur windows", "2 rows of b instead of 3",
        home("b_window", home=Window(2))),
    Row("loads overwrite rows still read", "blur windows", "2 rows of a instead of 3",
        home("a_window", home=Window(2))),
    Row("rows taken modulo another number", "blur windows", "4 rows of b, read as if they were 3",
        all_of(home("b_window", home=Window(4)), reading("S2", "t.* - 4", 0, 3))),
    Row("shift of a row off by one", "blur windows", "b[y - 2] where b[y - 1] is meant",
        reading(r"^S2", r"b_window\[t\w* - 4", 0, -1)),
    Row("row read before it is computed", "blur windows", "b[y + 2] where b[y + 1] is meant",
        reading(r"^S2", r"b_window\[t\w* - 2", 0, 1)),
    Row("lag off by one", "blur windows", "what is stored is a row further up",
        writing(r"copy c\[", 0, -1)),
    Row("stages swapped", "blur windows", "a row of c is computed before that of b",
        behind(r"^S1", r"^S2")),
    Row("row of another stage's lag", "blur windows", "b is made of the next row of a",
        reading(r"^S1", "a_window", 0, 1)),
    Row("stage written a row late", "blur windows", "b's window is filled a row further",
        writing(r"^S1", 0, 1)),
    Row("load of another row", "blur windows", "a's window gets the next row",
        reading(r"copy a_window\[.*= a\[", r"^a\[", 0, 1)),
    Row("row of the iteration, not of the window", "blur windows",
        "the statement claims to be a row further down",
        each(r"^S1", lambda node: (replace(node, iteration=(plus(node.iteration[0], 1),
                                                            node.iteration[1])),)),
        harmless=CLAIM),
    Row("steps too few", "blur windows", "the last 3 rows of each chunk are missing",
        each("rotated|shifted", lambda node: (replace(node, upper=integer(9)),))),
    # ------------------------------------------------ windows: columns and lanes
    Row("shift of a column off by one", "blur windows", "a[x] where a[x - 1] is meant",
        reading(r"^S1", r"a_window\[.*, v\w*\]", 1, 1)),
    Row("shuffle in the other direction", "blur windows", "the left halo from the lane to the right",
        reading(r"copy a_window.*lane - 1", "a_row", 0, 2)),
    Row("shuffle of a wrong column", "pairs windows", "a lane's first column instead of its last",
        reading(r"copy a_window.*\(h\w* \+ lane \* 2 - 1\)", "a_row", 0, -1)),
    Row("halo copied to the wrong side", "blur windows", "the left halo becomes the right one",
        writing(r"copy a_window.*lane - 1", 1, 2)),
    Row("halo not copied", "blur windows", "the column to the right is missing",
        gone(r"copy a_window.*lane \+ 1")),
    Row("columns not spread", "blur windows", "other lanes see nothing of a", gone(r"copy a_row")),
    Row("columns spread too late", "blur windows", "after the halos are read",
        behind(r"copy a_row", r"copy a_window.*a_row")),
    Row("another stage's row spread", "two arrays windows", "b's halo from a's row",
        from_other(r"copy b_window.*b_row\[", "b_row", "a_row")),
    Row("half of the columns spread", "pairs windows", "one of a lane's two",
        each(r"unrolled for v_(1|6|11) ", lambda node: (replace(node, upper=integer(1)),))),
    Row("halo a column short", "clamped windows", "one of two columns to the right of b",
        each(r"unrolled for h_(3|7|11) ", lambda node: (replace(node, upper=integer(1)),))),
    # ------------------------------------------------ strips and chunks
    Row("strip stored too wide on the left", "blur windows", "from lane 0 instead of 1",
        test(r"lane >= 1", "lane >= 1", -1)),
    Row("strip stored too wide on the right", "blur windows", "to lane 32 instead of 31",
        test(r"lane < 31", "lane < 31", 1)),
    Row("strip stored too narrow", "blur windows", "to lane 30 instead of 31",
        test(r"lane < 31", "lane < 31", -1)),
    Row("strips too far apart", "blur windows", "31 columns, 30 of them stored",
        everywhere("xb * 30", "xb * 31")),
    Row("strips overlap too little", "clamped windows", "a column less before what is stored",
        all_of(test("lane >= 2", "lane >= 2", -1), test("lane >= 1", "lane < 29", -1))),
    Row("strip starts a column late", "blur windows", "all columns but the stored ones moved",
        reading(r"copy a_window\[.*= a\[", r"^a\[", 1, 1)),
    Row("one strip too few", "blur windows", "the last columns are never stored",
        bounds("xb", upper="(W - 31) // 30")),
    Row("chunk warm-up too short", "blur windows", "rows are stored from the first step on",
        test(r"t\w* - 3 >= 1\b", "- 3 >= 1", -1)),
    Row("chunks leave a gap", "blur windows", "a row of each chunk is not stored",
        test(r"t\w* - 3 >= 1\b", "- 3 >= 1", 1)),
    Row("chunks too far apart", "blur windows", "9 rows, 8 of them stored",
        everywhere("yc * 8", "yc * 9")),
    Row("chunks' rows overlap", "two arrays windows", "b is stored where it is not warm",
        in_launch(1, test(r"t_4 - 3 >= 2|t_5 - 3 >= 2|t_6 - 3 >= 2", "- 3 >= 2", -1)),
        harmless=SAME),
    Row("chunk stores beyond its rows", "two arrays windows", "a row of b of the next chunk",
        in_launch(1, test(r" < 11", " < 11", 1)), harmless=SAME),
    Row("one chunk too few", "outer windows", "the last rows are never stored",
        bounds("yc", upper="(H - 5) // 10")),
    Row("outer dimension short", "outer windows", "the last image is missing",
        bounds("n", upper="N - 1")),
    Row("another image loaded", "outer windows", "the first one, for all",
        each(r"copy a_window\[.*= a\[", lambda node: (replace(node, value=replace(
            node.value, index=(integer(0), *node.value.index[1:]))),))),
    # ------------------------------------------------ edges
    Row("mirrored row from the wrong row", "clamped windows", "the row before the last",
        reading(r"copy b_window\[t_2 - 2, c_1", "b_window", 0, -1)),
    Row("mirror's guard widened", "clamped windows", "the last row itself is overwritten too",
        test(r"t_2 \+ yc \* 6 - 4 == H", "== H", -1)),
    Row("second mirrored row missing", "clamped windows", "b[H + 1] is not b[H - 1]",
        gone(r"if t_2 \+ yc \* 6 - 5 == H")),
    Row("first row not mirrored", "clamped windows", "b[-1] holds what was there before",
        gone(r"if t_2 \+ yc \* 6 - 4 == 0$")),
    Row("columns not mirrored", "clamped windows", "b beyond its first and last column is zero",
        gone(r"copy b_window\[t_2 - 2, v_15")),
    Row("column mirrored from its neighbour", "clamped windows", "b[W - 2] for b[W]",
        everywhere("max(min(lane + v_15 + xb * 27 + xw * 27 - 2, W - 1), 0)",
                   "max(min(lane + v_15 + xb * 27 + xw * 27 - 2, W - 2), 0)")),
    Row("column kept before it is taken", "clamped windows", "the element of another step",
        behind(r"copy b_taken\[\] =", r"copy b_window\[t_2 - 2, v_15")),
    Row("column before the first not kept", "clamped windows", "b[-1] holds 0",
        test(r"if not \(\(lane \+ v_15", ">= 0", -1)),
    Row("column behind the last not kept", "clamped windows", "b[W] holds 0",
        test(r"if not \(\(lane \+ v_15", "< W", 1)),
    Row("column lost before it is kept", "clamped windows", "0 in its register",
        each(r"copy b_taken\[\] =", lambda node: (
            node, Copy(node.target, Const(0.0, DType.F64))))),
    Row("column never taken", "clamped windows", "the register is not set",
        each(r"copy b_taken\[\] =", lambda node: (
            Loop("w", integer(0), integer(0), 1, Mapping.SERIAL, (node,)),))),
    Row("mirrored columns not spread", "clamped windows", "halos of the columns before",
        gone(r"unrolled for v_17")),
    Row("load clamped at another row", "clamped windows", "a[H - 2] for a[H]",
        way(2, everywhere("min(yc * 6 - 2 + min(t_2, 9), H - 1)", "min(yc * 6 - 2 + min(t_2, 9), H - 2)"))),
    Row("last row not loaded", "blur windows", "the row before it stands in its place",
        everywhere("min(t, 9)", "min(t, 8)")),
    Row("load beyond the array", "blur windows", "the edge way loads a row too many, into what no"
        " stored row reads", way(2, test(r"yc \* 8 \+ min\(t_2, 9\) < H", "< H$", 1))),
    Row("load before the array", "blur windows", "the edge way loads column -1",
        way(2, test(r"yc \* 8 \+ min\(t_2, 9\) < H", ">= 0$", -1))),
    Row("edge stored where the loop does not run", "blur windows", "c at row 0",
        way(2, each(r"^if t_2 \+ yc \* 8 - 3 >= 1|^if \(t_2 \+ yc \* 8 - 3 >= 1", lambda node:
                    node.then if is_store(node.then) else (node,)))),
    # ------------------------------------------------ two ways of a tile
    Row("interior guard without its last row", "blur windows", "tiles at the bottom are inside",
        put("xb * 30 + xw * 30 - 1 >= 1", lambda node: (without(node, 3),))),
    Row("interior guard without its first column", "blur windows", "tiles at the left are inside",
        put("xb * 30 + xw * 30 - 1 >= 1", lambda node: (without(node, 4, 5),))),
    Row("interior guard without its last column", "blur windows", "tiles at the right are inside",
        put("xb * 30 + xw * 30 - 1 >= 1", lambda node: (without(node, 6, 7),))),
    Row("interior guard without its first row", "clamped windows", "tiles at the top are inside",
        put("xb * 27 + xw * 27 - 2 >= 0", lambda node: (without(node, 0, 1, 2),))),
    Row("interior guard without its last row", "clamped windows", "tiles at the bottom are inside",
        put("xb * 27 + xw * 27 - 2 >= 0", lambda node: (without(node, 3, 4),))),
    Row("interior guard without its first column", "clamped windows",
        "tiles at the left are inside",
        put("xb * 27 + xw * 27 - 2 >= 0", lambda node: (without(node, 5),))),
    Row("interior guard without its last column", "clamped windows",
        "tiles at the right are inside",
        put("xb * 27 + xw * 27 - 2 >= 0", lambda node: (without(node, 6),))),
    Row("interior guard without its rows", "two arrays windows", "tiles at the bottom are inside",
        put("xb * 28 + xw * 28 - 2 >= 1", lambda node: (without(node, 3, 4, 5),))),
    Row("interior guard without its first column", "two arrays windows",
        "tiles at the left are inside",
        put("xb * 28 + xw * 28 - 2 >= 1", lambda node: (without(node, 6),))),
    Row("interior guard without its last column", "two arrays windows",
        "tiles at the right are inside",
        put("xb * 28 + xw * 28 - 2 >= 1", lambda node: (without(node, 7),))),
    Row("interior guard a row too wide", "blur windows", "yc * 8 + 12 <= H + 3",
        test("yc . 8 . 12 <= H", r"yc \* 8 \+ 12 <= H \+ 2$", 1)),
    Row("interior always taken", "clamped windows", "by tiles at the edges too",
        put("xb * 27 + xw * 27 - 2 >= 0", lambda node: node.then)),
    Row("interior of another constant", "blur windows", "3.0 instead of 2.0 in the aligned way",
        way(0, constant(r"^S1", 2.0, 3.0))),
    Row("inside way of another column", "blur windows", "c[x + 1] is stored for c[x]",
        way(1, writing(r"copy c\[", 1, 1))),
    Row("inside way without its store", "blur windows", "nothing of c is stored",
        way(1, gone(r"copy c\["))),
    Row("aligned way without a store", "two arrays windows", "b is not stored",
        way(0, gone(r"copy b\["))),
    Row("aligned way stores too much", "blur windows", "what its neighbour stores too",
        way(0, test("lane >= 1", "lane >= 1", -1))),
    Row("edge way without its store", "blur windows", "nothing of c is stored at the edges",
        way(2, gone(r"copy c\["))),
    Row("store over a store", "blur windows", "the aligned way ends with zeros in c",
        way(0, each(r"copy c\[", lambda node: (node, Copy(node.target, ZERO))))),
    Row("store over a store at the edges", "blur windows", "the edge way ends with sevens in c",
        way(2, each(r"copy c\[", lambda node: (node, Copy(node.target, SEVEN))))),
    Row("store over a store inside", "blur windows", "the inside way ends with sevens in c",
        way(1, each(r"copy c\[", lambda node: (node, Copy(node.target, SEVEN))))),
    Row("aligned way where rows are not", "blur windows", "a way for unaligned calls alone loads"
        " another row", all_of(
            way(0, reading(r"copy a_window\[.*= a\[", r"^a\[", 0, 1)),
            put("if aligned", lambda node: (replace(
                node, condition=Unary("not", ALIGNED, DType.BOOL)),)))),
    # ------------------------------------------------ blocks of time steps
    Row("a step left out", "swapped windows", "the second step of a block copies the first",
        each(r"^S1\[t \* 4 \+ 1,", lambda node: (Copy(node.target, Load(
            "b_window", (plus(node.target.index[0], 0), plus(node.target.index[1], 1)),
            node.target.dtype)),))),
    Row("wrong step in an instance", "swapped windows", "t * 4 + 2 instead of t * 4 + 1",
        each(r"^S1\[t \* 4 \+ 1,", lambda node: (replace(
            node, iteration=(plus(node.iteration[0], 1), *node.iteration[1:])),)),
        harmless=CLAIM),
    Row("two steps swapped", "swapped windows", "the second step of a block before the first",
        behind(r"^S1\[t \* 4,", r"^S1\[t \* 4 \+ 1,")),
    Row("two steps of one field swapped", "two arrays windows", "a of the step before b",
        behind(r"^S1\[t \* 2,", r"^S2\[t \* 2,")),
    Row("array read instead of its copy", "two arrays windows", "in the launch back, inside",
        in_launch(1, way(1, from_other(r"= a__copy", "a__copy", "a")))),
    Row("array read instead of its copy", "temporary windows", "in the launch back, everywhere",
        in_launch(1, from_other(r"= a__copy", "a__copy", "a"))),
    Row("array overwritten while others read it", "temporary windows",
        "the first launch stores to the array instead of its copy",
        all_of(in_launch(0, from_other(r"copy a__copy", "a__copy", "a")),
               in_launch(1, from_other(r"= a__copy", "a__copy", "a")))),
    Row("copy read instead of the array", "two arrays windows", "in the first launch",
        in_launch(0, from_other(r"= a\[", "a", "a__copy"))),
    Row("border read from the copy", "two arrays windows", "which nothing writes",
        in_launch(1, way(2, from_other(r"copy a_window_2.*= a\[", "a", "a__copy")))),
    Row("copy never written", "swapped windows", "the first launch stores to the array",
        in_launch(0, from_other(r"copy a__copy", "a__copy", "a"))),
    Row("block stored a step early", "swapped windows", "what the first of two steps made",
        in_launch(0, each(r"copy a__copy", lambda node: (replace(node, value=Load(
            "b_window", (node.value.index[0], plus(node.value.index[1], 1)),
            node.value.dtype)),)))),
    Row("blocks too few", "two arrays windows", "the last block is not run, nor its steps",
        host_bounds(0, lambda loop: replace(loop, upper=plus(loop.upper, -1)))),
    Row("blocks too many", "two arrays windows", "steps past the last",
        host_bounds(0, lambda loop: replace(loop, upper=plus(loop.upper, 1)))),
    Row("rest starts a step late", "two arrays windows", "an odd step is not run",
        host_bounds(1, lambda loop: replace(loop, lower=plus(loop.lower, 1)))),
    Row("rest starts a step early", "two arrays windows", "a step is run twice",
        host_bounds(1, lambda loop: replace(loop, lower=plus(loop.lower, -1)))),
    Row("rest before the blocks", "two arrays windows", "the loops swapped",
        lambda tree: replace(tree, body=(tree.body[1], tree.body[0])),
        harmless="every step does the same"),
    Row("the launch back is missing", "two arrays windows", "half of each block",
        host_bounds(0, lambda loop: replace(loop, body=loop.body[:1]))),
    Row("the launch there twice", "two arrays windows", "instead of the one back",
        host_bounds(0, lambda loop: replace(loop, body=(
            loop.body[0], replace(loop.body[0], name="again"))))),
    Row("a field not stored back", "two arrays windows", "b of the last step", in_launch(
        1, gone(r"copy b\["))),
    Row("shuffle by half of the warp", "blur windows", "lane 0 takes no part",
        each(r"copy a_window.*lane - 1", lambda node: (Guard(
            Compare("ne", Iter("lane"), integer(0)), (node,)),))),
    Row("another row of the copy", "temporary windows", "in the launch back, inside",
        in_launch(1, way(1, reading(r"= a__copy", "a__copy", 0, 1)))),
    Row("another column of the copy", "two arrays windows", "in the launch back, everywhere",
        in_launch(1, reading(r"= a__copy", "a__copy", 1, 1))),
    Row("copy filled a row off", "swapped windows", "by the first launch, everywhere",
        in_launch(0, writing(r"copy a__copy", 0, 1))),
    Row("loads and the rest in two loops", "temporary windows", "in the launch back, inside",
        in_launch(1, way(1, each(r"rotated|shifted", split_behind_loads)))),
    Row("two writers of one window", "blur windows",
        "a window of c is filled from b before it is stored",
        each(r"^S2", lambda node: (node, Copy(node.target, replace(
            node.target, array="b_window"))))),
    Row("a store read back", "blur windows", "what the aligned way has stored",
        way(0, each(r"copy c\[", lambda node: (node, Copy(node.value, node.target)))),
        harmless="it is what was stored"),
    Row("temporary not computed for a step", "temporary windows", "b of the step before",
        each(r"^S1\[t \* 2 \+ 1", lambda node: ())),
]  # fmt: skip
