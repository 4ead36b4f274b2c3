"""Rows of the mutation table on trees that the planner made of real programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Call, Compare, Const, Expr, Iter, Load, Symbol, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import (
    ALIGNED,
    Compute,
    Copy,
    Guard,
    Loop,
    LoopTree,
    Mapping,
    Register,
    TreeNode,
)
from tests.plan.mutate_edit import (
    Edit,
    all_of,
    before,
    bounds,
    double,
    drop,
    everywhere,
    home,
    launches,
    map_bodies,
    put,
    remap,
    rewrite,
    unguard,
)
from tests.plan.mutate_table import Row, planned

IMAGES = ({"H": 5, "W": 9}, {"H": 2, "W": 3})
"""Small, and smaller than the reach of a 5-point stencil."""

SMALLER = all_of(
    everywhere("262143", "31"), everywhere("262144", "32"), everywhere("256", "8"),
    bounds("ib", upper="4"), bounds("t_1", upper="2"), bounds("k", upper="2"),
    everywhere("k * 8", "k * 2"), home("total_partial", extents="4"),
)  # fmt: skip
"""1024 blocks of 256 threads are too many to interpret: 4 blocks of 8, folded by 2 threads."""

ROWS = """
kernel k(a: f32[H, W], b: f32[W], out c: f32[H, W]):
    for y in 0..H, x in 0..W:
        c[y, x] = a[y, x] + b[x]
"""
STAIRS = """
kernel matmul_bias_relu(a: f32[M, K], b: f32[K, N], bias: f32[N], out c: f32[M, N]):
    temp product: f32[M, N]
    temp biased: f32[M, N]
    for i in 0..M, j in 0..N:
        product[i, j] = 0.0
        for k in 0..min(i + 2, K):
            product[i, j] += a[i, k] * b[k, j]
    for i in 0..M, j in 0..N:
        biased[i, j] = product[i, j] + bias[j]
    for i in 0..M, j in 0..N:
        c[i, j] = max(biased[i, j], 0.0)
"""
"""The example, but for a bound that makes it no product for tiles."""
IN_PLACE = """
kernel k(inout a: f64[N, M], out b: f64[N, M]):
    temp t: f64[N, M]
    temp u: f64[N, M]
    for i in 0..N, j in 0..M:
        t[i, j] = a[i, M-1-j] * 2.0
    for i in 0..N, j in 0..M:
        u[i, j] = t[i, M-1-j] + t[N-1-i, j]
    for i in 0..N, j in 0..M:
        a[i, j] = u[N-1-i, M-1-j]
    for i in 0..N, j in 0..M:
        b[i, j] = a[N-1-i, j] - u[i, j]
"""

PREDICATED = """
kernel k(x: f32[N], inout y: f32[N]):
    for i in 0..N:
        if x[i] > 0.0:
            y[i] = x[i]
"""

LENGTHS = """
kernel softmax(x: f32[R, C], out y: f32[R, C]):
    for r in 0..R:
        let m = max(c in 0..min(r + 2, C): x[r, c])
        let s = sum(c in 0..min(r + 2, C): exp(x[r, c] - m))
        for c in 0..min(r + 2, C):
            y[r, c] = exp(x[r, c] - m) / s
"""
"""The example, but for rows of different lengths, each of which a thread takes."""
LENGTH = combine("min", combine("mul", Iter("rb"), integer(256)) + Iter("rt") + 2, Symbol("C", DType.I64))
"""That of a thread's row."""

CARRIED = """
kernel f(x: f32[R, C], inout y: f32[R, 5]):
    for r in 0..R, k in 0..4:
        y[r, k + 1] = y[r, k] * x[r, 0] + 1.0
"""

BASES = [
    planned("unsharp", "sm_90", *IMAGES),
    planned("blur", "cpu", *IMAGES),
    planned("softmax", "sm_90", {"R": 9, "C": 9}, {"R": 12, "C": 2}, text=LENGTHS),
    planned("jacobi", "cpu", {"N": 6, "steps": 3}),
    planned("harris", "sm_90", {"H": 8, "W": 9}),
    planned("l2norm", "sm_90", {"N": 71}, shrink=SMALLER),
    planned("l2norm", "cpu", {"N": 16384 + 37}),
    planned("saxpy", "sm_90", {"N": 8}, {"N": 7}, {"N": 0}, {"N": 1025}, {"N": 2051}),
    planned("rows", "sm_90", {"H": 3, "W": 8}, {"H": 2, "W": 7}, text=ROWS),
    planned("scatter_add", "sm_90", {"M": 40, "V": 4, "D": 3}),
    planned("linear_recurrence", "sm_90", {"B": 2, "T": 4, "D": 3}),
    planned("prefix_sum", "cpu", {"N": 7}),
    planned("carried", "cpu", {"R": 3, "C": 5}, text=CARRIED),
    planned("transpose_add", "sm_90", {"M": 4, "N": 6}),
    planned("csr_matvec", "sm_90", {"R": 4, "C": 5, "Z": 9}),
    planned("wave", "cpu", {"N": 7, "steps": 3}),
    planned("matmul_bias_relu", "cpu", {"M": 3, "N": 4, "K": 5}, text=STAIRS),
    planned("in_place", "cpu", {"N": 4, "M": 5}, text=IN_PLACE),
    planned("predicated", "cpu", {"N": 6}, text=PREDICATED),
]


def renamed(expr: Any, old: str, new: str) -> Any:
    """Loads of `old` are of `new`."""

    def one(each: Expr) -> Expr:
        match each:
            case Load(array=array) if array == old:
                return replace(each, array=new)
            case _:
                return each

    return map_expr(one, expr)


def plus(expr: Expr, number: int) -> Expr:
    """expr + number."""
    return combine("add", expr, integer(number))


def shifted(load: Load, dimension: int) -> Load:
    """One further along a dimension."""
    index = list(load.index)
    index[dimension] = plus(index[dimension], 1)
    return replace(load, index=tuple(index))


def unchecked(load: Load) -> Load:
    """Without the checks of its subscripts."""
    index = tuple(part.arguments[0] if isinstance(part, Call) else part for part in load.index)
    return replace(load, index=index)


def alias(name: str, other: str) -> Edit:
    """All accesses of `name` go to `other`."""

    def edit(tree: LoopTree) -> LoopTree:
        def body(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
            return tuple(
                replace(
                    node,
                    target=renamed(node.target, name, other),
                    value=renamed(node.value, name, other),
                )
                if isinstance(node, Compute)
                else node
                for node in nodes
            )

        return map_bodies(tree, body)

    return edit


def in_every_node(change: Callable[[Expr], Expr]) -> Edit:
    """All expressions of all Computes changed."""

    def edit(tree: LoopTree) -> LoopTree:
        def body(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
            return tuple(_changed(node) if isinstance(node, Compute) else node for node in nodes)

        def _changed(node: Compute) -> Compute:
            target = map_expr(change, node.target)
            assert isinstance(target, Load)
            return replace(
                node,
                iteration=tuple(map_expr(change, part) for part in node.iteration),
                target=target,
                value=map_expr(change, node.value),
            )

        return map_bodies(tree, body)

    return edit


def wider_check(expr: Expr) -> Expr:
    """`inside(x, n)` is `inside(x, n + 1)`."""
    if isinstance(expr, Call) and expr.function == "inside":
        return replace(expr, arguments=(expr.arguments[0], plus(expr.arguments[1], 1)))
    return expr


def backwards(var: str, count: Expr) -> Edit:
    """The loop over `var`, of so many iterations, runs them from the last to the first."""
    last = combine("sub", count, integer(1))
    there = combine("sub", last, Iter(var))
    return in_every_node(lambda e: there if e == Iter(var) else e)


def colliding(grid: Loop) -> tuple[TreeNode, ...]:
    """A block for each update of each column."""
    update = grid
    while not isinstance(update, Compute):
        update = (update.then if isinstance(update, Guard) else update.body)[0]
    one, columns, updates = integer(0), Symbol("D", DType.I64), Symbol("M", DType.I64)
    inner = Loop("m", one, updates, 1, Mapping.GRID, (update,))
    return (Loop("db", one, columns, 1, Mapping.GRID, (inner,)),)


def vectorised(loop: Loop) -> tuple[TreeNode, ...]:
    """Four iterations at once; the body has i * 4 + v already."""
    here = plus(combine("mul", Iter("i"), integer(4)), 0)
    inside = Compare("lt", combine("add", here, Iter("v")), loop.upper)
    vector = Loop("v", integer(0), integer(4), 1, Mapping.VECTOR, (Guard(inside, loop.body),))
    count = combine("floordiv", plus(loop.upper, 3), integer(4))
    return (Loop("i", integer(0), count, 1, Mapping.SERIAL, (vector,)),)


SHARP = "S3[yb * 8 + yt, xb * 32 + xt]"
ROWS = [
    # ------------------------------------------------ unsharp: recomputed rows, edges clamped
    Row("shift off by one", "unsharp gpu", "rows[y - 2] is computed at y - 1",
        rewrite("rows_2[] =", "yb * 8 + yt - 2", "yb * 8 + yt - 1")),
    Row("stale recompute", "unsharp gpu", "rows[y + 1] is not computed for this pixel",
        drop("rows_5[] =")),
    Row("two recomputed rows exchanged", "unsharp gpu", "rows[y + 2] goes where rows[y - 2] is read",
        all_of(rewrite("rows_2[] =", "rows_2[]", "blur"), rewrite("rows_3[] =", "rows_3[]", "rows_2"))),
    Row("edge clamp dropped at the first row", "unsharp gpu", "row y - 1 instead of max(y - 1, 0)",
        rewrite("rows_4[] =", "max(yb * 8 + yt - 1, 0)", "yb * 8 + yt - 1")),
    Row("edge clamp dropped in one read", "unsharp gpu", "img[y, x + 2] past the last column",
        rewrite("rows_1[] =", "min(xb * 32 + xt + 2, W - 1)", "xb * 32 + xt + 2")),
    Row("clamped to the wrong edge", "unsharp gpu", "to H - 2 instead of H - 1",
        rewrite("rows_3[] =", "H - 1", "H - 2")),
    Row("guard of the block's rest removed", "unsharp gpu", "threads outside the image run too",
        unguard("if (yb * 8 + yt < H)")),
    Row("guard widened by a row", "unsharp gpu", "y < H + 1",
        rewrite("if (yb * 8 + yt < H)", "H", "H + 1")),
    Row("grid too small", "unsharp gpu", "H // 8 blocks instead of (H + 7) // 8",
        bounds("yb", upper="H // 8")),
    Row("blocks overlap wrongly", "unsharp gpu", "7 rows apart and 8 high",
        everywhere("yb * 8", "yb * 7"), "both blocks store the same value"),
    Row("consumer before its producer", "unsharp gpu", "sharp is stored before blur is computed",
        before(SHARP, "blur[] =")),
    Row("wrong constant", "unsharp gpu", "amount instead of 1 + amount",
        rewrite(SHARP, "1.0f32 + amount", "amount")),
    Row("another array read", "unsharp gpu", "sharp from sharp instead of img",
        put(SHARP, lambda node: (replace(node, value=renamed(node.value, "img", "sharp")),))),
    # ------------------------------------------------ blur: an interior without clamps
    Row("interior too wide on the left", "blur cpu", "from column 0 instead of 2",
        all_of(bounds("x_1", upper="0"), bounds("x", lower="0"))),
    Row("interior too wide on the right", "blur cpu", "to column W instead of W - 1",
        all_of(bounds("x", upper="max(min(2, W), W)"), bounds("x_2", lower="max(min(2, W), W)"))),
    Row("a column between border and interior missing", "blur cpu", "the interior starts at 3",
        bounds("x", lower="min(3, W)")),
    Row("vector loop reads a stale register", "blur cpu", "rows_2 is computed after its use",
        before("smooth[y, x] =", "rows_2[] = (img[y, x - 1]")),
    # ------------------------------------------------ softmax: reductions in a thread
    Row("wrong neutral element", "softmax gpu", "the maximum starts at 0",
        put("m[] = -inf", lambda node: (replace(node, value=Const(0.0, DType.F32)),))),
    Row("reduction not started again", "softmax gpu", "s is not set to 0 for the row",
        drop("S2.init")),
    Row("last element of a sum missing", "softmax gpu", "c ends one before the row does",
        bounds("c.1", upper="min(rb * 256 + rt + 1, C - 1)")),
    Row("first element counted twice", "softmax gpu", "the sum also runs c = 0 before",
        put("serial for c.1", lambda node: (replace(node, upper=Const(1, DType.I64)), node))),
    Row("sum before the maximum is known", "softmax gpu", "the loops over c swapped",
        before("serial for c.1", "serial for c in")),
    Row("maximum of half of the row", "softmax gpu", "every second element",
        put("serial for c in", lambda node: (replace(node, step=2),))),
    Row("results of the wrong row", "softmax gpu", "stored a row further down",
        put("y[rb", lambda node: (replace(node, target=shifted(node.target, 0)),))),
    Row("sum used before it is complete", "softmax gpu", "y is stored before the sum",
        before("serial for c.2", "serial for c.1")),
    Row("fold order changed", "softmax gpu", "the sum runs backwards, with reassociate=False",
        backwards("c.1", LENGTH), reassociate=False),
    # ------------------------------------------------ jacobi: a time loop around launches
    Row("a launch dropped", "jacobi cpu", "the second half of each step", launches(lambda body: body[:1])),
    Row("launches swapped", "jacobi cpu", "the second half first", launches(lambda body: body[::-1])),
    Row("host loop a step short", "jacobi cpu", "to steps - 1", bounds("t", upper="steps - 1")),
    Row("host loop a step long", "jacobi cpu", "to steps + 1", bounds("t", upper="steps + 1")),
    Row("halo read from the wrong side", "jacobi cpu", "b[i, j + 1] where b[i, j - 1] is meant",
        rewrite("S2[", "b[i_1 + 1, j_1 - 1]", "b[i_1 + 1, j_1 + 1]")),
    Row("in place", "jacobi cpu", "the second half reads and writes a",
        put("S2[", lambda node: (replace(node, value=renamed(node.value, "b", "a")),))),
    Row("border overwritten", "jacobi cpu", "j starts at 0", bounds("j", lower="0")),
    # ------------------------------------------------ harris: two launches, workspaces between
    Row("a chunk's halo too short", "harris gpu", "the first launch stops a column early",
        rewrite("if (yb * 8 + yt + 1 < H - 1)", "W - 1", "W - 2")),
    Row("a launch dropped", "harris gpu", "the one that fills the workspaces",
        launches(lambda body: body[1:])),
    Row("launches swapped", "harris gpu", "the workspaces are read before they are filled",
        launches(lambda body: body[::-1])),
    Row("a temporary's home too small", "harris gpu", "ixx has a column less",
        home("ixx", extents="H, W - 2")),
    Row("a workspace reused while live", "harris gpu", "iyy is kept in ixx's storage",
        alias("iyy", "ixx")),
    Row("store through another workspace", "harris gpu", "ixy goes into iyy",
        put("ixy[yb", lambda node: (replace(node, target=renamed(node.target, "ixy", "iyy")),))),
    Row("a workspace made a register", "harris gpu", "ixx does not outlive its launch",
        home("ixx", home=Register())),
    Row("two windows one column apart", "harris gpu", "sxy sums ixy a column further right",
        rewrite("sxy[] =", "ixy[yb_1 * 8 + yt_1 + 1, xb_1 * 32 + xt_1 + 1]",
                "ixy[yb_1 * 8 + yt_1 + 1, xb_1 * 32 + xt_1 + 4]")),
    # ------------------------------------------------ l2norm: a reduction in two stages
    Row("neutral element missing", "l2norm gpu", "the threads' accumulators are not set",
        drop("copy total_acc[] = 0.0")),
    Row("wrong neutral element", "l2norm gpu", "the second stage starts at 1",
        put("copy total_total[] = 0.0", lambda node: (Copy(node.target, Const(1.0, DType.F32)),))),
    Row("a partial result dropped", "l2norm gpu", "the fold starts at 1", bounds("k", lower="1")),
    Row("a partial result double counted", "l2norm gpu", "folded twice", double("fold sum")),
    Row("the same partial result by all threads", "l2norm gpu", "k * 2 instead of k * 2 + t",
        rewrite("fold sum", "k * 2 + t_1", "k * 2")),
    Row("combine missing", "l2norm gpu", "only thread 0's sum counts", drop("combine sum total_acc")),
    Row("combined by another operation", "l2norm gpu", "max of the threads' sums",
        put("combine sum total_acc", lambda node: (replace(node, op="max"),))),
    Row("combined twice", "l2norm gpu", "the second time with undefined copies",
        double("combine sum total_total")),
    Row("store of every thread", "l2norm gpu", "partial results of threads other than 0 too",
        unguard("if t == 0")),
    Row("partial results in one place", "l2norm gpu", "total_partial[0] for all blocks",
        rewrite("copy total_partial[ib]", "ib", "0")),
    Row("elements shared by threads", "l2norm gpu", "threads 7 apart, 8 a block",
        everywhere("ib * 8", "ib * 7")),
    Row("last elements missing", "l2norm gpu", "N // 32 rounds", bounds("i", upper="N // 32")),
    Row("stages in one launch's order swapped", "l2norm gpu", "folded before they are there",
        launches(lambda body: body[::-1])),
    Row("accumulator of a lane forgotten", "l2norm cpu", "31 of 32 lanes folded into the others",
        bounds("l_5", upper="31")),
    Row("rest of the elements twice", "l2norm cpu", "the rest starts 16 early",
        put("serial for i in", lambda node: (replace(node, lower=plus(node.lower, -16)),))),
    Row("a partial result a chunk early", "l2norm cpu", "stored before the lanes are folded",
        before("copy total_partial[ib]", "vector for l_5")),
    # ------------------------------------------------ saxpy: a fast path for aligned arrays
    Row("vector over the end", "saxpy gpu", "wherever one element is left",
        rewrite("if ib * 2048 + it * 4 + p_1 * 1024", "ib * 2048 + it * 4 + p_1 * 1024 + 4",
                "ib * 2048 + it * 4 + p_1 * 1024 + 1")),
    Row("part of a vector missing", "saxpy gpu", "the elements behind the last whole vector",
        put("if ib * 2048 + it * 4 + p_1 * 1024", lambda node: (replace(node, otherwise=()),))),
    Row("block taken for a whole one", "saxpy gpu", "where half of it is inside",
        rewrite("if ib * 2048 + 2048 <= N", "ib * 2048 + 2048", "ib * 2048 + 1024")),
    Row("second vector over the first", "saxpy gpu", "p * 0 instead of p * 1024",
        everywhere("p * 1024", "p * 0")),
    Row("slow path missing", "saxpy gpu", "nothing runs where arrays are not aligned",
        put("if aligned", lambda node: (replace(node, otherwise=()),))),
    Row("slow path too far apart", "saxpy gpu", "u * 257 instead of u * 256",
        everywhere("u_3 * 256", "u_3 * 257")),
    Row("vector too narrow", "saxpy gpu", "2 lanes for 4 elements", bounds("v", upper="2")),
    Row("fast path where it does not fit", "rows gpu", "without W % 4 == 0",
        put("if aligned", lambda node: (replace(node, condition=ALIGNED),))),
    Row("rows behind the last", "rows gpu", "without a test of y", unguard("if y * 32 + yt < H")),
    Row("part of a row taken for a whole one", "rows gpu", "written out where columns are missing",
        rewrite("if xb * 32 + 32 <= W", "xb * 32 + 32", "xb * 32 + 1")),
    # ------------------------------------------------ scatter: places that depend on data
    Row("colliding updates in parallel", "scatter_add gpu", "the loop over m is one of blocks",
        all_of(everywhere("db * 64 + dt", "db"), put("grid for db", colliding))),
    Row("updates backwards", "scatter_add gpu", "m runs from the last to the first",
        backwards("m", Symbol("M", DType.I64)), reassociate=False),
    Row("subscript's bound widened", "scatter_add gpu", "up to V + 1", in_every_node(wider_check),
        "the interpreter tests against the array's own extent"),
    Row("an update missing", "scatter_add gpu", "m starts at 1", bounds("m", lower="1")),
    Row("check of a subscript dropped", "scatter_add gpu", "table_grad is written unchecked",
        put("S1[", lambda node: (replace(node, target=unchecked(node.target)),))),
    # ------------------------------------------------ recurrences
    Row("start value read too late", "linear_recurrence gpu", "after the loop over time",
        before("if D % 32 == 0", "S1[")),
    Row("result before the update", "linear_recurrence gpu", "h holds the state of t - 1",
        before("S3[", "S2[")),
    Row("carried dimension made parallel", "prefix_sum cpu", "a worker for each element",
        put("thread for one", lambda node: (replace(node.body[0], mapping=Mapping.THREAD),))),
    Row("carried dimension made a vector", "prefix_sum cpu", "four elements at once",
        all_of(everywhere("i", "i * 4 + v"), put("serial for i in", vectorised))),
    Row("carried loop made a vector", "carried cpu", "all of its iterations at once", remap("serial for k in", Mapping.VECTOR)),
    Row("recurrence backwards", "prefix_sum cpu", "from the last to the first",
        backwards("i", Symbol("N", DType.I64))),
    Row("guard of the first element moved", "prefix_sum cpu", "i_1 == 1 instead of i_1 == 0",
        put("if i_1 == 0", lambda node: (replace(node, condition=Compare(
            "eq", node.condition.left, Const(1, DType.I64))),))),
    # ------------------------------------------------ others
    Row("transposed wrongly", "transpose_add gpu", "b[i, j] instead of b[j, i]",
        rewrite("S2[", "b[jb * 8 + jt, ib * 32 + it]", "b[ib * 32 + it, jb * 8 + jt]")),
    Row("predicated store made unconditional", "predicated cpu", "y[i] where x[i] is negative too",
        put("S1[", lambda node: (replace(node, predicate=None),))),
    Row("predicate negated", "predicated cpu", "x[i] <= 0 instead of x[i] > 0",
        put("S1[", lambda node: (replace(node, predicate=replace(node.predicate, op="le")),))),
    Row("row's end loaded from its start", "csr_matvec gpu", "start[r] twice",
        rewrite("k_end[] =", "rb * 256 + rt + 1", "rb * 256 + rt")),
    Row("a loop's loaded bound too small", "csr_matvec gpu", "k starts one late",
        bounds("k", lower="k_start + 1")),
    Row("wrong half of a swap", "wave cpu", "the two parities of t exchanged",
        put("if t % 2 == 1", lambda node: (replace(
            node, then=node.otherwise, otherwise=node.then),))),
    Row("chunks of a worker overlap", "wave cpu", "4096 apart and 4097 long",
        put("serial for i in", lambda node: (replace(node, upper=plus(node.upper, 1)),))),
    Row("accumulator not set again", "matmul_bias_relu cpu", "only for the first column",
        put("S1[", lambda node: (Guard(Compare("eq", Iter("j"), Const(0, DType.I64)), (node,)),))),
    Row("store before the sum is complete", "matmul_bias_relu cpu", "before the loop over k",
        before("serial for j_2", "serial for k")),
    Row("a register read after it is overwritten", "in_place cpu",
        "a's new value is taken where u is meant", rewrite("S4[", "u_2[]", "u_1")),
    Row("stale value of a renamed register", "in_place cpu", "b reads a before it is stored",
        before("S4[", "a_1[] =")),
    Row("a let evaluated after its operand is overwritten", "in_place cpu",
        "t's launch runs after a has been written", launches(lambda body: body[::-1])),
    Row("aliased workspace", "in_place cpu", "t is kept in b, which is stored while t is read",
        alias("t", "b")),
]  # fmt: skip
