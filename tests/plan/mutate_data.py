"""Rows of the mutation table on places that depend on data, or that isl cannot express, and on
temporaries of an iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Compare, Expr, Iter, Load, Select, Symbol, combine, integer
from loopfuse.lang.walk import map_expr, walk_expr
from loopfuse.tree.looptree import Compute, Guard, TreeNode
from tests.plan.mutate_edit import Edit, all_of, before, bounds, home, launches, put, rewrite
from tests.plan.mutate_planned import in_every_node, renamed
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each

OWN = """
kernel own(a: f64[N, M], out b: f64[N, M], g: i64[N, M]):
    for i in 0..N:
        temp t: f64[M]
        for j in 0..M:
            t[j] = a[i, j] * 2.0
        for j in 0..M:
            b[i, j] = t[g[i, j]]
"""

TURNS = """
kernel turns(a: f64[N, M], inout b: f64[N, M], g: i64[N, M]):
    for i in 1..N:
        temp t: f64[M]
        for j in 0..M:
            t[j] = a[i, j] + b[i - 1, 0]
        for j in 0..M:
            b[i, j] = t[g[i, j]] + b[i - 1, j]
"""

SPARSE = """
kernel sparse(a: f64[N, M], inout b: f64[N]):
    for i in 1..N:
        temp t: f64[M]
        for j in 0..M:
            if a[i, j] > 0.0:
                t[j] = a[i, j] + b[i - 1]
        for j in 0..M:
            b[i] += t[j] * b[i - 1]
"""

SCATTERED = SPARSE.replace("inout b: f64[N])", "inout b: f64[N], g: i64[N, M])").replace(
    "t[j] * b", "t[g[i, j]] * b"
)

APART = """
kernel apart(a: f64[N, M], inout b: f64[N], g: i64[N, M]):
    for i in 1..N:
        temp t: f64[M]
        for j in 0..M:
            t[j] = a[i, j] * 2.0
        for j in 0..M:
            b[i] += t[g[i, j]] * b[i - 1]
"""

MIRRORED = """
kernel mirrored(a: f64[N], out b: f64[N]):
    temp t: f64[N]
    for i in 0..N:
        t[i] = a[i] * 2.0
    for i in 0..N:
        b[i] = t.reflect[N - i + 40] - a[i]
"""
"""How often the edge turns the subscript around depends on N: isl has no such map."""

CHOSEN = """
kernel chosen(a: i32[M], b: i32[M], out c: i32[M], g: i64[M]):
    temp t: i32[M]
    for j in 0..M:
        t[j] = a[j] * b[j]
    for j in 1..M - 2:
        c[j] = b[j] + (t[j] if j != M - 2 else t[g[j]])
"""

BASES = [
    planned("own", "cpu", {"N": 4, "M": 5}, text=OWN),
    planned("turns", "cpu", {"N": 4, "M": 5}, text=TURNS),
    planned("sparse", "cpu", {"N": 4, "M": 5}, text=SPARSE),
    planned("scattered", "cpu", {"N": 4, "M": 5}, text=SCATTERED),
    planned("apart", "cpu", {"N": 4, "M": 5}, text=APART),
    planned("chosen", "cpu", {"M": 9}, {"M": 12}, text=CHOSEN),
    planned("mirrored", "cpu", {"N": 2}, {"N": 9}, text=MIRRORED),
]



def _next(node: Compute) -> Compute:
    """The instance of the next iteration of the host loop."""

    def one(expr: Expr) -> Expr:
        return combine("add", expr, integer(1)) if expr == Iter("i") else expr

    iteration = tuple(map_expr(one, part) for part in node.iteration)
    return replace(node, iteration=iteration, value=map_expr(one, node.value))


def _unmirrored(node: Compute) -> Compute:
    """Reads t where it stores."""

    def one(expr: Expr) -> Expr:
        there = isinstance(expr, Load) and expr.array == "t"
        return replace(expr, index=node.target.index) if there else expr

    return replace(node, value=map_expr(one, node.value))


def in_copy(copy: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """The copy of `t` that is accessed, changed."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.array == "t":
            return replace(expr, index=(copy(expr.index[0]), *expr.index[1:]))
        return expr

    return change


def reads_copy(at: str, copy: Callable[[Expr], Expr]) -> Edit:
    """The nodes of `at` read another copy of `t`."""
    return each(rf"^{at}\[", lambda node: (replace(node, value=map_expr(in_copy(copy), node.value)),))


def arms(condition: int, then: str, otherwise: str) -> Edit:
    """S2 chooses `then` where j != M - `condition`, else `otherwise`: registers, or elements j; also in the loop
    that the planner has made of those j for which the choice is known."""

    def arm(name: str, node: Compute) -> Load:
        index = node.iteration if name in "ab" else ()
        return Load(name, index, DType.I32)

    def edit(node: Compute) -> tuple[TreeNode, ...]:
        chooses = any(isinstance(one, Select) for one in walk_expr(node.value))

        def one(expr: Expr) -> Expr:
            if not (isinstance(expr, Select) if chooses else expr == Load("t", (), DType.I32)):
                return expr
            last = combine("sub", Symbol("M", DType.I64), integer(condition))
            test = Compare("ne", node.iteration[0], last)
            return Select(test, arm(then, node), arm(otherwise, node), DType.I32)

        return (replace(node, value=map_expr(one, node.value)),)

    return each(r"^S2\[", edit)


def first(expr: Expr) -> Expr:
    """Always the first copy."""
    return integer(0)


def last(expr: Expr) -> Expr:
    """The copies in the opposite order."""
    return combine("sub", combine("sub", Symbol("N", DType.I64), integer(1)), expr)


ROWS = [
    # ------------------------------------------------ own: a copy for each iteration
    Row("gather before what it gathers", "own cpu", "the second loop over j first",
        before("serial for j.1", "serial for j in")),
    Row("gather from another iteration's copy", "own cpu", "t[N - 1 - i] where t[i] is meant",
        reads_copy("S2", last)),
    Row("gather from the first iteration's copy", "own cpu", "t[0] where t[i] is meant",
        reads_copy("S2", first)),
    Row("gathered elements missing", "own cpu", "the last one is not computed",
        bounds("j", upper="M - 1")),
    Row("gather at a place of another iteration", "own cpu", "g[i, 0] where g[i, j] is meant",
        rewrite("S2[", "g[i, j.1]", "g[i, 0]")),
    Row("gather checked against another extent", "own cpu", "N where M is meant",
        rewrite("S2[", "M", "N"), "the interpreter tests against the array's own extent"),
    Row("copies of the iterations exchanged", "own cpu", "t[i] is stored in t[N - 1 - i]",
        put("S1[", lambda node: (replace(node, target=in_copy(last)(node.target)),))),
    # ------------------------------------------------ turns: one copy, used in turn
    Row("gather of the iteration before", "turns cpu", "launches swapped",
        launches(lambda body: body[::-1])),
    Row("copy filled for the first iteration only", "turns cpu", "i == 1",
        put("S1[", lambda node: (Guard(Compare("eq", Iter("i"), integer(1)), (node,)),))),
    Row("copy filled but for its last element", "turns cpu", "M - 1 elements",
        bounds("j", upper="min(M - 1, jb * 4096 + 4096)")),
    Row("copy filled by the next iteration's values", "turns cpu", "S1[i + 1] in iteration i",
        all_of(bounds("i", upper="N - 1"), put("S1[", lambda node: (_next(node),)))),
    # ------------------------------------------------ sparse, scattered: elements nothing wrote
    Row("temporary not zeroed", "sparse cpu", "elements that nothing wrote hold anything",
        home("t", zeroed=False)),
    Row("iterations share a copy", "sparse cpu", "elements that nothing wrote are the last iteration's",
        in_every_node(in_copy(first))),
    Row("temporary not zeroed", "scattered cpu", "elements that nothing wrote hold anything",
        home("t", zeroed=False)),
    Row("iterations share a copy", "scattered cpu",
        "elements that nothing wrote are the last iteration's", in_every_node(in_copy(first))),
    Row("gather before what it gathers", "scattered cpu", "launches swapped",
        launches(lambda body: body[::-1])),
    Row("gather from the first iteration's copy", "scattered cpu", "t[0] where t[i - 1] is meant",
        reads_copy("S2", first)),
    # ------------------------------------------------ apart: copies filled before they are read
    Row("copies in another order", "apart cpu", "t[N - 2 - i] where t[i - 1] is meant",
        reads_copy("S2", lambda copy: last(combine("add", copy, integer(1))))),
    # ------------------------------------------------ chosen: a choice that the bounds decide
    Row("the other arm", "chosen cpu", "b[j] where t[j] is meant", arms(2, "b", "t")),
    Row("other arm a load of memory", "chosen cpu", "b[j] is the arm that is not taken",
        arms(2, "t", "b"), "nothing takes it"),
    Row("choice by another condition", "chosen cpu", "j != M - 3, else b[j]", arms(3, "t", "b")),
    # ------------------------------------------------ mirrored: a place that isl cannot express
    Row("mirrored from another place", "mirrored cpu", "N - i + 39 where N - i + 40 is meant",
        rewrite("S2[", "N - i_1 + 40", "N - i_1 + 39")),
    Row("mirrored at another edge", "mirrored cpu", "the edge is repeated",
        rewrite("S2[", "N * 2 - 2 - (N - i_1 + 40) % max(N * 2 - 2, 1)",
                "N * 2 - 1 - (N - i_1 + 40) % max(N * 2 - 2, 1)")),
    Row("not mirrored", "mirrored cpu", "t[i] is read",
        put("S2[", lambda node: (_unmirrored(node),))),
    Row("mirrored before it is there", "mirrored cpu", "launches swapped",
        launches(lambda body: body[::-1])),
    Row("mirrored elements missing", "mirrored cpu", "N - 1 elements",
        bounds("i", upper="min(N - 1, ib * 4096 + 4096)")),
    Row("mirrored from the operand", "mirrored cpu", "a where t is meant",
        put("S2[", lambda node: (replace(node, value=renamed(node.value, "t", "a")),))),
]  # fmt: skip
