"""Rows of the mutation table on several reductions into one array, on where a buffer keeps the
elements of its array, and on registers that are read under guards."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Iter, Load, Symbol, combine, integer
from loopfuse.lang.walk import map_expr
from loopfuse.tree.looptree import Compute, Copy, Fold, Guard, Loop, LoopTree, Mapping
from loopfuse.tree.printer import print_node
from tests.plan.mutate_edit import (
    Edit,
    all_of,
    before,
    bounds,
    double,
    drop,
    home,
    launches,
    map_bodies,
    put,
    rewrite,
)
from tests.plan.mutate_planned import shifted
from tests.plan.mutate_table import Row, planned
from tests.plan.mutate_windows import each

SEVERAL = """
kernel several(a: f64[N], inout b: f64[2], out d: f64[N]):
    for i in 0..N:
        b[0] += a[i]
    for i in 0..N:
        b[0] *= a[i]
    for i in 0..N:
        b[0] += a[i] * 2.0
    for i in 0..N:
        d[i] = b[0] * a[i]
"""

ELEMENTS = """
kernel elements(a: f64[N], c: f64[N], inout b: f64[2]):
    for i in 0..N:
        b[0] += a[i]
        b[1] += c[i]
"""

STARTED = """
kernel started(a: f64[N], inout b: f64[2]):
    b[0] = b[1] * 2.0
    for i in 0..N:
        b[0] += a[i]
    b[1] = b[0] * b[0]
    for i in 0..N:
        b[0] *= a[i]
"""

ROWS_OF = """
kernel rows(a: f64[N, M], inout b: f64[N]):
    for i in 0..N:
        b[i] min= a[i, 0]
    for i in 0..N - 1:
        for k in 1..M:
            b[i] += a[i, k]
        b[i + 1] = b[i] + b[i + 1]
"""

MIXED = """
kernel mixed(x: f64[2, N], inout w: f64[2], steps: i64):
    for t in 0..steps:
        for i in 0..N:
            w[0] -= x[t % 2, i] * x[t % 2, i] * 0.5
        for i in 0..N:
            w[0] min= x[t % 2, i] - 6.0
"""

HELD = """
kernel held(a: f64[N], out b: f64[N]):
    temp t: f64[N]
    for i in 0..N:
        t[i] = a[i] * 2.0
    for i in 0..N:
        b[i] = t[N - 1 - i] + t[i]
"""

GUARDED = """
kernel guarded(a: f64[N], inout b: f64[N], inout c: f64[N]):
    for i in 0..N:
        var s: f64 = a[i] * 2.0
        if i < N - 2:
            b[i] = s + 1.0
            if i % 2 == 0:
                c[i] = s * s
"""

PLACED = """
kernel placed(a: f64[2], inout b: f64[2], out d: f64[2]):
    b[0] += a[0]
    b[0] += a[1]
    d[0] = b[0] * 2.0
"""

SOLVE = """
kernel solve(L: f64[N, N], b: f64[N], inout x: f64[N]):
    for i in 0..N:
        for j in 0..i:
            x[i] -= L[i, j] * x[j]
        x[i] = x[i] / L[i, i]
"""

FACTORS = """
kernel factors(inout A: f64[N, N]):
    for i in 0..N:
        for j in 0..i:
            for k in 0..j:
                A[i, j] -= A[i, k] * A[j, k]
            A[i, j] /= A[j, j]
        for k in 0..i:
            A[i, i] -= A[i, k] * A[i, k]
"""

# fmt: off
BASES = [
    planned("several", "cpu", {"N": 3}, {"N": 40}, text=SEVERAL),
    planned("elements", "cpu", {"N": 3}, {"N": 40}, text=ELEMENTS),
    planned("started", "cpu", {"N": 3}, {"N": 40}, text=STARTED),
    planned("rows", "cpu", {"N": 4, "M": 5}, {"N": 3, "M": 40}, text=ROWS_OF),
    planned("mixed", "cpu", {"N": 3, "steps": 2}, {"N": 40, "steps": 1}, text=MIXED, fuel=0,
        reassociate=False),
    planned("placed", "cpu", {}, text=PLACED, fuel=0),
    planned("solve", "cpu", {"N": 4}, {"N": 36}, text=SOLVE, fuel=1),
    planned("factors", "cpu", {"N": 4}, {"N": 36}, text=FACTORS, fuel=1),
    planned("held", "cpu", {"N": 2}, {"N": 9}, text=HELD, fuel=0),
    planned("guarded", "cpu", {"N": 3}, {"N": 9}, text=GUARDED),
]
# fmt: on


def into(at: str, place: int, number: int, nth: int = 0) -> Edit:
    """The Fold at `at` adds to b[number] instead of b[place]."""
    return rewrite(at, f"b[{place}]", f"b[{number}]", nth)


def renumbered(node: Compute, name: str, other: str) -> Compute:
    """The update uses accumulator `other`."""

    def go(expr: Expr) -> Expr:
        return replace(expr, array=other) if isinstance(expr, Load) and expr.array == name else expr

    target = go(node.target)
    assert isinstance(target, Load)
    return replace(node, target=target, value=map_expr(go, node.value))


def below(at: str) -> Edit:
    """The node at `at` stands last in its list."""

    def edit(tree: LoopTree) -> LoopTree:
        return map_bodies(
            tree, lambda body: tuple(sorted(body, key=lambda node: at in print_node(node)))
        )

    return edit


def odd() -> Expr:
    """i % 2 == 1."""
    part = Binary("mod", Iter("i"), integer(2), DType.I64)
    return Compare("eq", part, integer(1))


def twice(node: Compute) -> Loop:
    """The node in a loop of two turns; the first ends with 0 in the register."""
    zero = Copy(Load("s", (), DType.F64), Const(0.0, DType.F64))
    return Loop("w", integer(0), integer(2), 1, Mapping.SERIAL, (node, zero))


def instance_of_next(node: Compute) -> Compute:
    """The instance of the next iteration."""
    onward = combine("add", Iter("i"), integer(1))

    def one(expr: Expr) -> Expr:
        return onward if expr == Iter("i") else expr

    return replace(node, iteration=(onward,), value=map_expr(one, node.value))


def by(at: str, operation: str) -> Edit:
    """The Fold at `at` uses another operation."""
    return put(at, lambda node: (Fold(operation, node.target, node.value),))


def order(*places: int) -> Edit:
    """The launches in this order (those left out do not run)."""
    return launches(lambda body: [body[place] for place in places])


def leading(name: str, extents: str, store: int, load: int) -> Edit:
    """Buffer `name` gets copies: one is written, one read."""

    def edit(tree: LoopTree) -> LoopTree:
        def read(expr: Expr) -> Expr:
            if isinstance(expr, Load) and expr.array == name:
                return replace(expr, index=(integer(load), *expr.index))
            return expr

        def node(each: Compute) -> Compute:
            target = each.target
            if target.array == name:
                target = replace(target, index=(integer(store), *target.index))
            return replace(each, target=target, value=map_expr(read, each.value))

        changed = map_bodies(
            tree, lambda body: tuple(node(n) if isinstance(n, Compute) else n for n in body)
        )
        return home(name, extents=extents)(changed)

    return edit


def backwards(at: str, name: str, end: str) -> Edit:
    """The instance of the iteration counted from the other end."""

    def edit(node: Compute) -> tuple[Compute]:
        last = combine("sub", Symbol(end, DType.I64), integer(1))
        onward = combine("sub", last, Iter(name))

        def one(expr: Expr) -> Expr:
            return onward if expr == Iter(name) else expr

        iteration = tuple(map_expr(one, part) for part in node.iteration)
        return (replace(node, iteration=iteration, value=map_expr(one, node.value)),)

    return put(at, edit)


def second() -> Load:
    """w[1]."""
    return Load("w", (integer(1),), DType.F64)


def folded_into(node: Compute) -> tuple[Compute, Fold]:
    """What the node adds to w[1] is folded into w[0] behind it."""
    return node, Fold("sum", Load("w", (integer(0),), DType.F64), second())


def host_order(*places: int) -> Edit:
    """What stands in the host loop that has so many parts, in this order."""
    return launches(lambda body: [body[place] for place in places] if len(body) == len(places) else body)


def diagonal(target: Load) -> Load:
    """A[i, i] of A[i, j]."""
    return replace(target, index=(target.index[0], target.index[0]))


SWAPPED_SUMS = order(4, 5, 2, 3, 0, 1, 6)

# fmt: off
ROWS = [
    # ------------------------------------------------ several: sum, product, sum into one element
    Row("first sum lost", "several cpu", "not added to b[0]", drop("fold sum b[0]")),
    Row("product lost", "several cpu", "not multiplied into b[0]", drop("fold prod b[0]")),
    Row("first sum twice", "several cpu", "added to b[0] twice", double("fold sum b[0]")),
    Row("first sum for the second", "several cpu", "its partial results added again",
        rewrite("fold sum b_total_2[]", "b_partial_2[ib_3_1]", "b_partial[ib_3_1]")),
    Row("both sums in the first's partial results", "several cpu", "the second's replace them",
        rewrite("copy b_partial_2", "b_partial_2[ib_3]", "b_partial[ib_3]")),
    Row("product before the first sum", "several cpu", "their launches swapped",
        order(2, 3, 0, 1, 4, 5, 6)),
    Row("product after both sums", "several cpu", "its launches last but one",
        order(0, 1, 4, 5, 2, 3, 6)),
    Row("sums swapped", "several cpu", "the one behind the product first", SWAPPED_SUMS),
    Row("result read before the second sum", "several cpu", "d's launch first",
        order(0, 1, 2, 3, 6, 4, 5)),
    Row("result read before the last fold", "several cpu", "between the two launches of the sum",
        order(0, 1, 2, 3, 4, 6, 5)),
    Row("product added", "several cpu", "fold sum into b[0]", by("fold prod b[0]", "sum")),
    Row("sum by product", "several cpu", "fold prod into b[0]", by("fold sum b[0]", "prod")),
    Row("product in another element", "several cpu", "into b[1]", into("fold prod b[0]", 0, 1)),
    Row("lanes of the product not started", "several cpu", "accumulators not set",
        drop("copy b_acc_1[l_10")),
    Row("product's last updates missing", "several cpu", "no rest of the elements",
        drop("serial for i_1 in")),
    Row("rest of the second sum twice", "several cpu", "run twice", double("serial for i_2 in")),
    Row("accumulator of two reductions", "several cpu", "the total of the sum starts the product",
        put("copy b_total_1[]", lambda node: (Copy(node.target, Load("b_total", (), DType.F64)),))),
    # ------------------------------------------------ elements: two updates in one kernel
    Row("one accumulator for two elements", "elements cpu", "both updates into that of b[0]",
        each(r"^S2\[", lambda node: (renumbered(node, "b_acc_1", "b_acc"),))),
    Row("results swapped", "elements cpu", "b[1]'s sum into b[0] and the other way round",
        all_of(into("fold sum b[0]", 0, 1, 0), into("fold sum b[1]", 1, 0, 1))),
    Row("both results in one element", "elements cpu", "b[1]'s sum into b[0]",
        into("fold sum b[1]", 1, 0)),
    Row("a result lost", "elements cpu", "b[1]'s sum is not added", drop("fold sum b[1]")),
    Row("a result twice", "elements cpu", "b[1]'s sum is added twice", double("fold sum b[1]")),
    Row("one partial result for two", "elements cpu", "that of b[1] is read for both",
        rewrite("fold sum b_total[]", "b_partial[ib_1]", "b_partial_1[ib_1]")),
    # ------------------------------------------------ started: stores between the reductions
    Row("started after the sum", "started cpu", "b[0] is set when the sum is there",
        order(1, 2, 0, 3, 4)),
    Row("not started", "started cpu", "b[0] is not set", order(1, 2, 3, 4)),
    Row("stored between is too early", "started cpu", "S3 before the sum is added",
        before("S3[]", "fold sum b[0]")),
    Row("product before the sum", "started cpu", "their launches swapped", order(0, 3, 4, 1, 2)),
    Row("product of the sum's partial results", "started cpu", "read by its last step",
        rewrite("fold prod b_total_1[]", "b_partial_1[ib_2_1]", "b_partial[ib_2_1]")),
    # ------------------------------------------------ rows: an element a step of the host loop
    Row("another row's element", "rows cpu", "added to b[i + 1]",
        put("fold sum b[i.1]", lambda node: (replace(node, target=shifted(node.target, 0)),))),
    Row("a row short", "rows cpu", "the host loop ends at N - 2", bounds("i.1", upper="N - 2")),
    Row("element stored before its sum", "rows cpu", "S3 before the fold",
        before("S3[", "fold sum b[i.1]")),
    Row("least after the sums", "rows cpu", "the first launch last",
        lambda tree: replace(tree, body=tree.body[::-1])),
    Row("accumulator kept for the next row", "rows cpu", "the total is not set again",
        drop("copy b_total[] = 0.0")),
    # ------------------------------------------------ mixed: only the least may change its order
    Row("least before the differences", "mixed cpu unfused", "the launch of S1 last",
        order(1, 2, 0), reassociate=False),
    Row("least of the step before", "mixed cpu unfused", "folded before it is gathered",
        order(0, 2, 1), reassociate=False),
    Row("least lost", "mixed cpu unfused", "not folded into w[0]", drop("fold min w[0]"),
        reassociate=False),
    Row("least replaced by the greatest", "mixed cpu unfused", "fold max into w[0]",
        by("fold min w[0]", "max"), reassociate=False),
    Row("least into another element", "mixed cpu unfused", "into w[1]",
        put("fold min w[0]", lambda node: (replace(node, target=second()),)), reassociate=False),
    Row("differences from the last", "mixed cpu unfused", "S1 counts down",
        backwards("S1[t, i]", "i", "N"), reassociate=False),
    Row("differences gathered apart", "mixed cpu unfused", "added to w[1], then folded into w[0]",
        all_of(rewrite("S1[t, i]", "w[0]", "w[1]"), put("S1[t, i]", folded_into)),
        reassociate=False),
    Row("partial results kept for the next step", "mixed cpu unfused",
        "accumulators are not set again", drop("copy w_acc[l"), reassociate=False),
    # ------------------------------------------------ placed: sums added where they are
    Row("result read before the first sum is added", "placed cpu unfused", "the second's launch, d's, the first's",
        order(1, 2, 0)),
    # ------------------------------------------------ solve, factors: operands from the array that is updated
    Row("quotient before its sum", "solve cpu", "S2 before the fold", before("S2[i]", "if i >= 1")),
    Row("sum not added", "solve cpu", "x[i] stays what it was", drop("fold sum x[i]")),
    Row("sum added twice", "solve cpu", "folded into x[i] twice", double("fold sum x[i]")),
    Row("operand from the partial results", "solve cpu", "x_acc[0] in place of x[j]",
        rewrite("S1[i, j]", "x[j]", "x_acc[0]")),
    Row("rest of a row twice", "solve cpu", "run twice", double("serial for j in")),
    Row("quotient of the row before its sum", "factors cpu", "S2 before the fold",
        before("S2[i, j]", "if j >= 1")),
    Row("diagonal before the row", "factors cpu", "its launches in front of those that it needs", host_order(1, 2, 0)),
    Row("sum for the diagonal", "factors cpu", "that of the row",
        put("fold sum A[i, j]", lambda node: (replace(node, target=diagonal(node.target)),))),
    Row("diagonal without its sum", "factors cpu", "A[i, i] stays what it was", drop("fold sum A[i, i]")),
    # ------------------------------------------------ held: one place for each element
    Row("read from another copy", "held cpu unfused", "t has two: one written, one read",
        leading("t", "2, N", 0, 1)),
    # ------------------------------------------------ guarded: a register read under guards
    Row("written after the guard", "guarded cpu", "s is set behind the reads", below("S1[i]:")),
    Row("not written", "guarded cpu", "s keeps the iteration before's", drop("S1[i]:")),
    Row("written under the guard only", "guarded cpu", "where i % 2 == 1",
        put("S1[i]:", lambda node: (Guard(odd(), (node,)),))),
    Row("overwritten under the guard", "guarded cpu", "by 0, before it is read there",
        put("S3[i]:", lambda node: (Copy(Load("s", (), DType.F64), Const(0.0, DType.F64)), node))),
    Row("overwritten before the guard", "guarded cpu", "by 0, between the two reads",
        put("S2[i]:", lambda node: (node, Copy(Load("s", (), DType.F64), Const(0.0, DType.F64))))),
    Row("overwritten in a loop's turn before", "guarded cpu", "S3 runs twice, 0 set in between",
        put("S3[i]:", lambda node: (twice(node),))),
    Row("the next iteration's value", "guarded cpu", "s of i + 1 is read",
        all_of(put("S1[i]:", lambda node: (instance_of_next(node),)), bounds("i_1", lower="N"))),
]
# fmt: on
