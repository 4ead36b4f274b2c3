"""Rows of the mutation table on loops whose bounds are data, and on conditions that are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Compare, Expr, Iter, Load, Symbol, combine, integer
from loopfuse.lang.walk import map_expr, substitute
from loopfuse.tree.looptree import (
    Barrier,
    Compute,
    Global,
    Guard,
    Launch,
    Loop,
    LoopTree,
    Shared,
    TreeNode,
)
from tests.plan.mutate_edit import (
    Edit,
    all_of,
    before,
    bounds,
    drop,
    everywhere,
    home,
    put,
    rewrite,
)
from tests.plan.mutate_table import Row, planned

ROWS_OF_DATA = """
kernel k(start: i32[R+1], v: f32[Z], w: f32[R], out most: f32[R], out twice: f32[R]):
    for r in 0..R:
        twice[r] = w[r] * 2.0
        var m: f32 = -9.0
        for k in start[r]..start[r+1]:
            m max= v[k]
        most[r] = m
"""

NESTED = """
kernel k(start: i32[R+1], len: i32[S], v: f64[Z], out y: f64[R]):
    for r in 0..R:
        var s: f64 = 0.0
        for j in start[r]..start[r+1]:
            for k in 0..len[j]:
                s += v[k] * f64(j + 1)
        y[r] = s
"""

PART_OF_THE_ROWS = """
kernel k(a: i32[M], inout b: i32[M], out c: i32[M], len: i32[M]):
    for i in 0..M:
        b[i] = b[i] * 2
    for i in 2..M - 2:
        c[i] = b[i] + max(p in 0..len[i]: a[p])
"""

ANEW = """
kernel k(a: f64[M], inout b: f64[M], inout c: f64[M], start: i64[M + 1]):
    temp t: f64[M]
    fuse:
        for i in 0..M:
            t[i] = a[i] * 2.0
        for i in 1..M - 2:
            for j in start[i]..start[i+1]:
                b[i] = b[i] - t[i+2]
            c[i] = b[i] + t[i-1]
"""

CONDITION = """
kernel k(inout x: f32[N], inout y: f32[N]):
    for i in 0..N:
        if x[i] > 0.0:
            y[i] = 1.0
        x[i] = x[i] - 1.0
"""

SUMS_IN_LANES = """
kernel k(q: f32[H, T], len: i32[H], inout y: f32[H]):
    for h in 0..H:
        for p in 0..len[h]:
            temp row: f32[T]
            for j in 0..T:
                row[j] = q[h, j] * f32(p + 1)
            for j in 0..T:
                y[h] += row[j]
"""

Nodes = tuple[TreeNode, ...]


def kept(extent: str, place: str) -> Edit:
    """The bounds of all rows are kept in memory, each in its own element."""
    return all_of(
        *(home(name, extents=extent, home=Global()) for name in ("k_start", "k_end")),
        *(everywhere(f"{name}[]", f"{name}[{place}]") for name in ("k_start", "k_end")),
    )


def apart(tree: LoopTree) -> LoopTree:
    """The bounds of all rows first, then the rows."""
    tree = kept("R", "r")(tree)
    (launch,) = tree.body
    assert isinstance(launch, Launch)
    (chunk,) = launch.body
    assert isinstance(chunk, Loop)
    (rows,) = chunk.body
    assert isinstance(rows, Loop)
    first = tuple(n for n in rows.body if isinstance(n, Compute) and n.statement.startswith("S_"))
    rest = tuple(n for n in rows.body if n not in first)
    both = (replace(rows, body=first), replace(rows, body=rest))
    return replace(tree, body=(replace(launch, body=(replace(chunk, body=both),)),))


def mirrored(tree: LoopTree) -> LoopTree:
    """Each of 8 threads finds the bounds of its row; its neighbour on the other side runs it."""
    tree = all_of(
        everywhere("256", "8"), everywhere("255", "7"),
        *(home(name, extents="8", home=Shared()) for name in ("k_start", "k_end")),
        *(everywhere(f"{name}[]", f"{name}[rt]") for name in ("k_start", "k_end")),
    )(tree)  # fmt: skip
    (launch,) = tree.body
    assert isinstance(launch, Launch)
    grid = launch.body[0]
    assert isinstance(grid, Loop)
    block = grid.body[0]
    assert isinstance(block, Loop)
    guard = block.body[0]
    assert isinstance(guard, Guard)
    first = tuple(n for n in guard.then if isinstance(n, Compute) and n.statement.startswith("S_"))
    other = {"rt": combine("sub", integer(7), Iter("rt"))}
    rest = tuple(_substituted(n, other) for n in guard.then if n not in first)
    body = (
        Guard(guard.condition, first),
        Barrier("block"),
        Guard(substitute(guard.condition, other), rest),
    )
    return replace(
        tree,
        body=(replace(launch, body=(replace(grid, body=(replace(block, body=body),)),)),),
    )


def _substituted(node: TreeNode, values: dict[str, Expr]) -> TreeNode:
    match node:
        case Loop():
            lower, upper = substitute(node.lower, values), substitute(node.upper, values)
            body = tuple(_substituted(each, values) for each in node.body)
            return replace(node, lower=lower, upper=upper, body=body)
        case Compute():
            target = substitute(node.target, values)
            assert isinstance(target, Load)
            return replace(
                node,
                iteration=tuple(substitute(part, values) for part in node.iteration),
                target=target,
                value=substitute(node.value, values),
                predicate=None if node.predicate is None else substitute(node.predicate, values),
            )
        case _:
            raise AssertionError(node)


BASES = [
    planned("ragged", "cpu", {"R": 5, "Z": 9}, text=ROWS_OF_DATA),
    planned("ragged apart", "cpu", {"R": 5, "Z": 9}, text=ROWS_OF_DATA, shrink=apart),
    planned("ragged mirrored", "sm_90", {"R": 13, "Z": 9}, text=ROWS_OF_DATA, shrink=mirrored),
    planned("ragged in ragged", "cpu", {"R": 5, "S": 9, "Z": 9}, text=NESTED),
    planned("ragged part", "sm_90", {"M": 9}, text=PART_OF_THE_ROWS, shrink=everywhere("256", "8")),
    planned("ragged anew", "cpu", {"M": 9}, text=ANEW),
    planned("ragged sums", "cpu", {"H": 3, "T": 35}, text=SUMS_IN_LANES),
    planned("condition", "cpu", {"N": 9}, text=CONDITION),
]


def into_loop(at: str, var: str) -> Edit:
    """The node at `at` stands at the end of the loop over `var`, before it, instead."""

    def edit(tree: LoopTree) -> LoopTree:
        found: list[TreeNode] = []

        def keep(node: TreeNode) -> Nodes:
            found.append(node)
            return ()

        tree = put(at, keep)(tree)
        return put(f"for {var} in", lambda loop: (replace(loop, body=(*loop.body, *found)),))(tree)

    return edit


def before_loop(at: str, var: str) -> Edit:
    """The node at `at`, which stands in the loop over `var`, runs before it, for its iteration 0."""

    def edit(tree: LoopTree) -> LoopTree:
        found: list[TreeNode] = []

        def keep(node: TreeNode) -> Nodes:
            found.append(_substituted(node, {var: integer(0)}))
            return ()

        tree = put(at, keep)(tree)
        return put(f"for {var} in", lambda loop: (*found, loop))(tree)

    return edit


def where(at: str, condition: Callable[[], Expr]) -> Edit:
    """The node at `at` runs only under a condition."""
    return put(at, lambda node: (Guard(condition(), (node,)),))


def in_first(at: str) -> Edit:
    """The Compute at `at` uses register t_1 instead of t_2."""

    def one(expr: Expr) -> Expr:
        is_other = isinstance(expr, Load) and expr.array == "t_2"
        return Load("t_1", (), DType.F64) if is_other else expr

    def renamed(node: Compute) -> Nodes:
        target = one(node.target)
        assert isinstance(target, Load)
        return (replace(node, target=target, value=map_expr(one, node.value)),)

    return put(at, renamed)


def is_not_empty() -> Expr:
    """Has this row an element?"""
    return Compare("lt", Load("k_start", (), DType.I64), Load("k_end", (), DType.I64))


def out_of_guard(guard: Guard) -> Nodes:
    """A guard around each of its nodes; one with a loop inside stands in the loop."""
    return tuple(
        replace(node, body=(Guard(guard.condition, node.body),))
        if isinstance(node, Loop)
        else Guard(guard.condition, (node,))
        for node in guard.then
    )


def to(var: str, scalar: str, further: int = 0) -> Edit:
    """The loop over `var` ends at `scalar`, or so much after it."""
    end = combine("add", Load(scalar, (), DType.I64), integer(further))
    return put(f"for {var} in", lambda loop: (replace(loop, upper=end),))


def prefetched(compute: Compute) -> Nodes:
    """The bound of the next row, in the same place."""
    further = {"r": combine("add", Iter("r"), integer(1))}
    later = _substituted(compute, further)
    assert isinstance(later, Compute)
    inside = Compare("lt", further["r"], Symbol("R", DType.I64))
    return (compute, Guard(inside, (replace(later, target=compute.target),)))


def with_sums(change: Callable[[tuple[TreeNode, ...], Guard], tuple[Guard | None, Guard, Guard | None]]) -> Edit:
    """What stands before the loop over p, last in it and behind it, made of the guard of its lanes and what that holds."""

    def edit(loop: Loop) -> Nodes:
        guard = loop.body[-1]
        assert isinstance(guard, Guard)
        before_it, last, behind = change(guard.then, guard)
        around = (before_it, replace(loop, body=(*loop.body[:-1], last)), behind)
        return tuple(node for node in around if node is not None)

    return put("for p in", edit)


def alone(guard: Guard, node: TreeNode) -> Guard:
    """The guard around one node."""
    return replace(guard, then=(node,), otherwise=())


CLEARED_BEFORE = with_sums(lambda nodes, guard: (alone(guard, nodes[0]), replace(guard, then=nodes[1:]), None))
FOLDED_BEHIND = with_sums(lambda nodes, guard: (None, replace(guard, then=nodes[:-1]), alone(guard, nodes[-1])))
FOLDED_FIRST = with_sums(lambda nodes, guard: (None, replace(guard, then=(nodes[-1], *nodes[:-1])), None))


ROWS = [
    # ------------------------------------------------ bounds in registers
    Row("bound read before it is set", "ragged cpu", "the loop stands before k_end is found",
        before("for k in", "S_2[")),
    Row("bound of the next row", "ragged cpu", "k_end is overwritten before the loop starts",
        put("S_2[", prefetched)),
    Row("bound overwritten inside", "ragged cpu", "k_start is found again, for the next row, in the loop",
        all_of(put("S_1[", prefetched), into_loop("if r + 1 < R", "k"))),
    Row("wrong bound", "ragged cpu", "the loop ends at k_start", to("k", "k_start")),
    Row("bound one too small", "ragged cpu", "the loop ends at k_end - 1",
        to("k", "k_end", -1)),
    Row("bound one too large", "ragged cpu", "the loop ends at k_end + 1",
        to("k", "k_end", 1), "what it runs too much is behind a predicate"),
    Row("every second iteration", "ragged cpu", "the loop has a step of 2",
        put("for k in", lambda loop: (replace(loop, step=2),))),
    Row("bound is a symbol of the model", "ragged cpu", "k_end is taken for a parameter",
        put("for k in", lambda loop: (replace(loop, upper=Symbol("k_end", DType.I64)),))),
    Row("bound found from the wrong element", "ragged cpu", "start[r] instead of start[r + 1]",
        rewrite("S_2[", "start[r + 1]", "start[r]")),
    Row("result only where the loop runs", "ragged cpu", "most[r] is stored in the loop over k",
        into_loop("S4[", "k")),
    Row("another result only where the loop runs", "ragged cpu", "twice[r] is stored in the loop",
        into_loop("S1[", "k")),
    Row("result only where the row is not empty", "ragged cpu", "most[r] under k_start < k_end",
        where("S4[", is_not_empty)),
    # ------------------------------------------------ bounds in memory
    Row("bound an element off", "ragged apart cpu", "k_end[r - 1] instead of k_end[r]",
        bounds("k", upper="k_end[r - 1]")),
    Row("bound always of the first row", "ragged apart cpu", "k_end[0] instead of k_end[r]",
        bounds("k", upper="k_end[0]")),
    Row("bounds of half of the rows set", "ragged apart cpu", "S_2 runs where r >= 1 only",
        where("S_2[", lambda: Compare("ge", Iter("r"), integer(1)))),
    Row("bounds set after they are read", "ragged apart cpu", "the loops over r swapped",
        put("thread for rb", lambda loop: (replace(loop, body=loop.body[::-1]),))),
    Row("bound outside its buffer", "ragged apart cpu", "the ends of R - 1 rows are kept",
        home("k_end", extents="R - 1")),
    Row("barrier removed", "ragged mirrored gpu", "between setting a bound and reading it",
        drop("barrier")),
    Row("barrier of a warp", "ragged mirrored gpu", "a block's threads are not in one warp",
        put("barrier", lambda _: (Barrier("warp"),)),
        "8 threads are one warp, but the rule is for any block"),
    Row("barrier in a loop of its own length", "ragged mirrored gpu", "after each iteration over k",
        put("for k in", lambda loop: (replace(loop, body=(*loop.body, Barrier("block"))),))),
    Row("another thread's bound", "ragged mirrored gpu", "k_end[rt] instead of k_end[7 - rt]",
        bounds("k", upper="k_end[rt]")),
    # ------------------------------------------------ bounds of loops in such loops
    Row("inner bound found once", "ragged in ragged cpu", "k_end is found before the loop over j",
        before_loop("S_3[", "j")),
    Row("inner bound read a row late", "ragged in ragged cpu", "k_end is found after the loop over k",
        before("for k in", "S_3[")),
    Row("bounds exchanged", "ragged in ragged cpu", "the loop over k ends at j_end",
        to("k", "j_end")),
    # ------------------------------------------------ a bound that not every row has
    Row("bound read where it is not set", "ragged part gpu", "the loop over p starts in all rows",
        put("if (M >= ", out_of_guard)),
    # ------------------------------------------------ values computed anew in such loops
    Row("value needed behind only where the loop runs", "ragged anew cpu", "t[i - 1] is found in it",
        into_loop("S1[i - 1]", "j")),
    Row("value behind its reader", "ragged anew cpu", "t[i + 2] is found after S2",
        before("S2[", "S1[i + 2]")),
    Row("value of the first iteration only", "ragged anew cpu", "t[i + 2] where j is 1",
        where("S1[i + 2]", lambda: Compare("eq", Iter("j"), integer(1)))),
    Row("one register for both", "ragged anew cpu", "t[i - 1], found before the loop, overwritten",
        all_of(in_first("S1[i - 1]"), in_first("S3["), before("S1[i - 1]", "for j in"))),
    Row("value that the loop leaves behind", "ragged anew cpu", "t[i - 1], and S3 reads it there",
        all_of(into_loop("S1[i - 1]", "j"), in_first("S1[i - 1]"), in_first("S3["))),
    # ------------------------------------------------ sums in lanes in such loops
    Row("sums of too few iterations", "ragged sums cpu", "the loop over p ends at p_end - 1", to("p", "p_end", -1)),
    Row("sums of every second iteration", "ragged sums cpu", "the loop over p has a step of 2",
        put("for p in", lambda loop: (replace(loop, step=2),))),
    Row("lanes cleared for all iterations", "ragged sums cpu", "before the loop over p: what one adds, the next adds again",
        CLEARED_BEFORE),
    Row("lanes folded once", "ragged sums cpu", "behind the loop over p: they hold what the last iteration left",
        FOLDED_BEHIND),
    Row("lanes folded before they are filled", "ragged sums cpu", "the last fold of y stands first in the loop over p",
        FOLDED_FIRST),
    # ------------------------------------------------ conditions
    Row("condition overwritten before it is read", "condition cpu", "x is changed first",
        before("S2[", "S1[")),
    Row("condition of another element", "condition cpu", "x[N - 1 - i] instead of x[i]",
        rewrite("S1[", "x[i]", "x[N - 1 - i]")),
    Row("condition of another array", "condition cpu", "y[i] instead of x[i]",
        rewrite("S1[", "x[i]", "y[i]")),
    Row("condition dropped", "condition cpu", "every y[i] is stored",
        put("S1[", lambda node: (replace(node, predicate=None),))),
]  # fmt: skip
