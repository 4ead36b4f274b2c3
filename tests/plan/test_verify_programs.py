"""The checker proves what the planner makes of whole programs, fused and not, for both devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fuzz.machines import machine

from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options, Target
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter, Select, Symbol, Unary
from loopfuse.lang.walk import children, walk_expr, with_children
from loopfuse.pipeline import plan_kernel, read_program
from loopfuse.proof.check import verify
from loopfuse.tree.looptree import ALIGNED, Compute, Guard, Loop, LoopTree, Mapping, TreeNode
from loopfuse.tree.walk import resolve_aligned, walk_nodes

PROGRAMS = {
    "reduction under a condition on data": """
kernel k(x: f32[R, C], out y: f32[R]):
    for r in 0..R:
        if x[r, 0] > 1.5:
            y[r] = 1.0
        else:
            y[r] = sum(c in 0..C: x[r, c] * x[r, c])
""",
    "var under a condition on data": """
kernel k(x: f32[R, C], out y: f32[R]):
    for r in 0..R:
        if x[r, 0] > 0.0:
            var s: f32 = 0.0
            for c in 0..C:
                if x[r, c] > 0.0:
                    s += x[r, c]
            y[r] = s
""",
    "an argument that is never really written": """
kernel k(a: f32[N], inout b: f32[N]):
    for i in 2..N:
        if i == 1:
            b[i] = a[i]
""",
    "swapped arrays under a condition on data": """
kernel k(inout b: f32[M], inout d: f32[M], inout c: f32[M], steps: i64):
    for t in 0..steps:
        for i in 0..M:
            if c[i] > 0.0:
                c[i] = sum(p in 0..M: d[p])
                b[i] = c[i]
        swap b, d
""",
    "moved before it is read at a place that data says": """
kernel k(a: f32[N, M], inout b: f32[N, N], out d: f32[N, M], g: u8[N, M]):
    for i in 0..N, j in 1..M - 1:
        d[i, j] = (a[i, j - 1] + a[i, j + 1]) - b[i, i]
    for i in 0..N, j in 0..M:
        b[i, i] = b[g[i, j], i]
""",
    "conditions that the interior decides": """
kernel k(a: bool[N], b: bool[N], out c: bool[N], out d: f32[N], inout e: bool[N]):
    for i in 0..N:
        c[i] = (a[i] != b.zero[i - 1]) ^ (i < 7)
        d[i] = 1.0 if i > 3 and a[i] or i >= N - 2 else 2.0
        e[i] &= false
""",
    "sums under a condition on data": """
kernel k(x: f32[N], inout total: f32[2]):
    for i in 0..N:
        if x[i] > 0.0:
            total[0] += x[i]
""",
    "products that are read and overwritten in between": """
kernel k(c: f32[N], w: f32[M], inout z: f32[N], out b: f32[N]):
    for i in 1..N - 1, j in 0..M:
        if w[j] <= c[i]:
            for k in 0..M:
                z[i] *= w[k]
            z[i] = max(c[i + 1], z[i] - w[j])
    for i in 0..N:
        for k in 0..M:
            z[i] *= w[k]
        b[i] = z[i]
        for k in 0..M:
            z[i] *= c[i]
""",
    "sums added to cells": """
kernel k(x: f32[R, C], inout total: f32[2], inout s: f32[R]):
    for r in 0..R, c in 0..C:
        total[0] += x[r, c]
    for r in 0..R:
        for c in 0..C:
            s[r] += x[r, c]
""",
    "every edge mode": """
kernel k(a: i32[N], out b: i32[N]):
    for i in 0..N:
        b[i] = a.wrap[i - 3] + a.reflect[i + 2] + a.symmetric[i - 2] + a.zero[i + 1] + a.clamp[i - 1]
""",
}


@pytest.mark.filterwarnings("error")  # no second try without fusion
@pytest.mark.parametrize("fuel", [None, 0])
@pytest.mark.parametrize("target", [CPU, Target("sm_90")], ids=["cpu", "gpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_planned_programs_are_proved(name: str, target: Target, fuel: int | None) -> None:
    program = read_program(Source("test.lf", PROGRAMS[name]))
    planned = plan_kernel(program, "k", Options(target=target, fuel=fuel))
    assert planned.verdict.answer == "proved", planned.verdict


# Found by random programs on a machine of small tiles.
SMALL = {
    "a strip that starts at the larger of two": """
kernel k(a: f64[M], inout b: f64[N, M], c: f64[N, M], m: i64):
    for i in 2..N, j in max(m - 1, 0)..min(m + 3, M):
        b[i, j] = a[j]
        b[i, j] = (b[i, j] - c[i-2, j]) + c[i-1, max(j-4, 0)]
""",
    "registers under a guard": """
func f(u: i64, v: i64) -> i64:
    let h: i64 = u * v
    return 3 * u + h
kernel k(t: i64[N], b: i64[N], out y: i64[N]):
    for i in 0..N:
        y[i] = f(t.clamp[i-2], t[i]) if i <= 2 else f(b[i], t.clamp[i-3])
""",
}


@pytest.mark.filterwarnings("error")  # no second try without windows
@pytest.mark.parametrize("name", SMALL)
def test_small_tiles_are_proved(name: str) -> None:
    with machine("tiny"):
        program = read_program(Source("test.lf", SMALL[name]))
        planned = plan_kernel(program, "k", Options(target=Target("sm_90")))
    assert planned.verdict.answer == "proved", planned.verdict


def test_a_register_is_filled_wherever_it_is_read() -> None:
    """The guard of its write must be as wide as the condition under which it is read."""
    with machine("tiny"):
        program = read_program(Source("test.lf", SMALL["registers under a guard"]))
        planned = plan_kernel(program, "k", Options(target=Target("sm_90")))
        *_, guard = [  # in the way of a tile at an edge: no other has these elements
            node
            for launch in planned.tree.launches
            for node in walk_nodes(launch.body)
            if isinstance(node, Guard)
            and isinstance(node.condition, Compare)
            and node.condition.op == "le"
            and node.condition.right == Const(2, DType.I64)
        ]
        assert isinstance(guard.condition, Compare)
        narrow = replace(guard.condition, right=Const(1, DType.I64))
        wrong = _replaced(planned.tree, guard, replace(guard, condition=narrow))
        assert verify(planned.program, planned.dependences, wrong).answer == "wrong"


def test_what_is_moved_is_moved_in_time() -> None:
    """The second launch overwrites what the first copies into registers."""
    text = PROGRAMS["moved before it is read at a place that data says"]
    planned = plan_kernel(read_program(Source("test.lf", text)), "k", Options(target=Target("sm_90")))
    turned = replace(planned.tree, body=planned.tree.body[::-1])
    assert len(turned.body) == 2
    verdict = verify(planned.program, planned.dependences, turned)
    assert verdict.answer == "wrong", verdict


MANY_PIECES = """
kernel k(a: f32[M], inout b: f32[M], sN: f32[N], m: i32):
    fuse:
        for i in M - 3..0 step -2:
            for j in 0..M - 2:
                b[i] = a[i-1]
        for i in max(m, 0)..M:
            b[i] = 0.0 // b[i]
            b[i] = b[i] * a[i] * (b[i] + a[i])
        for i in max(m, 0)..M, j in N - 3..1 step -1:
            var s: f32 = 1.0
            for k in max(m, 0)..N:
                s *= -b.clamp[2 * i + 4]
            b[i] = b[i]
"""
"""Bounds by min and max of a parameter, peeled: hundreds of pieces of a few shapes."""


@pytest.mark.filterwarnings("ignore")  # `s` and `sN` are not used
def test_threads_of_many_pieces_are_compared() -> None:
    with machine("tiny"):
        program = read_program(Source("test.lf", MANY_PIECES))
        planned = plan_kernel(program, "k", Options())
    assert planned.verdict.answer == "proved", planned.verdict
    assert len(planned.tree.launches) == 1  # not run again unfused


MANY_WAYS = """
kernel k(a: f32[M, N], inout b: f32[M]):
    for i in 2..M:
        b[i] = (b[i-2] - b[i]) * b[i-1]
        let v: f32 = b[i-1]
        b[i] = (b[i-1] - b[i-2]) * min(p in 2..N - 1: a[i-1, p] - b[i])
    temp t: f32[M]
    for i in 0..M:
        t[i] = b[i]
    temp u: f32[M, N]
    for i in 0..M, j in 0..N:
        u[i, j] = b[i] - (t[i] + a[i, j])
    for i in 1..M - 2:
        b[i] = t[i+1] + max(p in 1..N - 1: u[i-1, p+1] + u[i-1, p])
"""
"""The lanes' parts of a minimum arrive by ways that bounds split into many pieces."""


@pytest.mark.filterwarnings("ignore")  # `v` is not used
def test_parts_that_arrive_in_many_pieces_are_counted() -> None:
    with machine("tiny"):
        program = read_program(Source("test.lf", MANY_WAYS))
        planned = plan_kernel(program, "k", Options(target=Target("sm_80"), fuel=0))
    assert planned.verdict.answer == "proved", planned.verdict


def _spoilt(expr: Expr) -> Iterator[Expr]:
    """`expr` with one mistake: a limit moved, arms exchanged, an operand of `and`/`or` lost."""
    match expr:
        case Compare(op=op, left=left, right=Const(value=value, dtype=DType.I64)):
            yield Compare(op, left, Const(value + 1, DType.I64))
        case Compare(op="lt", left=left, right=right):
            yield Compare("le", left, right)
        case Select(condition=condition, then=then, otherwise=otherwise, dtype=dtype):
            yield Select(condition, otherwise, then, dtype)
            yield then
            yield otherwise
        case Binary(op="and" | "or" as op, left=left, right=right, dtype=DType.BOOL):
            yield left
            yield right
            yield Binary("or" if op == "and" else "and", left, right, DType.BOOL)
        case Binary(op="xor", left=left, right=right, dtype=dtype):
            yield left
        case _:
            pass
    below = children(expr)
    for k, child in enumerate(below):
        for other in _spoilt(child):
            yield with_children(expr, (*below[:k], other, *below[k + 1 :]))


def test_values_with_a_mistake_are_rejected() -> None:
    text = PROGRAMS["conditions that the interior decides"]
    # In the unfused GPU tree nothing is decided, so every mistake matters.
    options = Options(target=Target("sm_90"), fuel=0)
    planned = plan_kernel(read_program(Source("test.lf", text)), "k", options)
    program, deps, tree = planned.program, planned.dependences, planned.tree
    count = 0
    for node in [n for launch in tree.launches for n in walk_nodes(launch.body)]:
        if not isinstance(node, Compute) or node.statement == "S3":
            continue
        for value in _spoilt(node.value):
            wrong = resolve_aligned(_replaced(tree, node, replace(node, value=value)), False)
            verdict = verify(program, deps, wrong)
            assert verdict.answer == "wrong", (value, verdict)
            count += 1
    assert count > 15


@pytest.mark.parametrize("value, answer", [("i - 1", "proved"), ("i", "wrong")])
def test_iterators_of_statement_and_tree_are_told_apart(value: str, answer: str) -> None:
    """A loop of the tree has the name of the statement's iterator, but runs one ahead."""
    text = """
kernel k(out b: i64[N]):
    for i in 0..N:
        b[i] = i
"""
    planned = plan_kernel(read_program(Source("test.lf", text)), "k", Options(fuel=0))
    (statement,) = planned.program.statements
    here, one = Iter(statement.iterators[0]), Const(1, DType.I64)
    before = Binary("sub", here, one, DType.I64)
    target = replace(statement.target, index=(before,))
    node = Compute(statement.id, (before,), target, before if value == "i - 1" else here)
    end = Binary("add", Symbol("N", DType.I64), one, DType.I64)
    loop = Loop(here.name, one, end, 1, Mapping.THREAD, (node,))
    tree = replace(planned.tree, body=(replace(planned.tree.launches[0], body=(loop,)),))
    assert verify(planned.program, planned.dependences, tree).answer == answer


@pytest.mark.parametrize("turned", [False, True], ids=["aligned", "not aligned"])
@pytest.mark.parametrize("branch", ["then", "otherwise"])
def test_each_branch_of_aligned_is_checked(branch: str, turned: bool) -> None:
    text = """
kernel k(a: f32[N], out b: f32[N]):
    for i in 0..N:
        b[i] = 2.0 * a[i]
"""
    planned = plan_kernel(read_program(Source("test.lf", text)), "k", Options(Target("sm_90")))
    program, deps, tree = planned.program, planned.dependences, planned.tree
    nodes = [n for launch in tree.launches for n in walk_nodes(launch.body)]
    (guard,) = [n for n in nodes if isinstance(n, Guard) and ALIGNED in walk_expr(n.condition)]
    right = guard
    if turned:  # the other way round: `not aligned or ...`
        right = Guard(Unary("not", guard.condition, DType.BOOL), guard.otherwise, guard.then)
    assert verify(program, deps, _replaced(tree, guard, right)).answer == "proved"
    wrong = Guard(
        right.condition,
        () if branch == "then" else right.then,
        () if branch == "otherwise" else right.otherwise,
    )
    assert verify(program, deps, _replaced(tree, guard, wrong)).answer == "wrong"


def _replaced(tree: LoopTree, old: TreeNode, new: TreeNode) -> LoopTree:
    def inside(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        out: list[TreeNode] = []
        for node in nodes:
            match node:
                case _ if node is old:
                    out.append(new)
                case Loop():
                    out.append(replace(node, body=inside(node.body)))
                case Guard():
                    then, otherwise = inside(node.then), inside(node.otherwise)
                    out.append(Guard(node.condition, then, otherwise))
                case _:
                    out.append(node)
        return tuple(out)

    launches = tuple(replace(each, body=inside(each.body)) for each in tree.launches)
    return replace(tree, body=launches)
