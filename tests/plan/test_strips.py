"""On the CPU, loops down columns come out of loops over neighbours, a strip of them at a time."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterator

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.codegen.targets.native import optimize_llvm
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.interp import interpret
from loopfuse.lang.walk import iterators, loads
from loopfuse.pipeline import Planned
from loopfuse.plan.mapping.strips import STRIP
from loopfuse.plan.mapping.threads import SHORTEST_STRIP
from loopfuse.runtime.formulas import evaluate
from loopfuse.tree.looptree import Compute, Guard, LineBuffer, Loop, Mapping, TreeNode

COLUMN_SUM = """
    kernel k(x: f32[R, C], out s: f32[C]):
        for c in 0..C:
            s[c] = sum(r in 0..R: x[r, c])
    """
ROW_SUM = """
    kernel k(x: f32[R, C], out s: f32[R]):
        for r in 0..R:
            s[r] = sum(c in 0..C: x[r, c])
    """
PRODUCT = """
    kernel k(a: f32[M, K], b: f32[K, N], out c: f32[M, N]):
        for i in 0..M, j in 0..N:
            c[i, j] = sum(k in 0..min(i, K): a[i, k] * b[k, j])
    """
TAPS = """
    kernel k(x: f32[N + K], w: f32[K], out y: f32[N]):
        for i in 0..N:
            y[i] = sum(k in 0..K: w[k] * x[i + k])
    """
TRIANGLE = """
    kernel k(x: f32[N, N], out s: f32[N]):
        for c in 0..N:
            s[c] = sum(r in 0..c: x[r, c])
    """
DIAGONAL = """
    kernel k(a: i64[N, N], inout b: i64[M, N], out s: i64[N]):
        for i in 0..M, j in 0..N:
            b[i, j] = a[j, j] + 1
        for j in 0..N:
            s[j] = max(i in 0..M: b[i, j])
    """
LATER = """
    kernel k(a: i32[M, N], inout t: i32[M, N], out b: i32[N]):
        for i in 1..M:
            for j in 2..N - 1:
                t[i, j] = max(a[i, j], 0) - 2 * t[i, j]
        for j in 2..N - 1:
            b[j] = max(p in 1..M: t[p, j])
    """
PRODUCER = """
    kernel k(a: f32[M, N], out b: f32[N]):
        temp t: f32[M, N]
        for i in 0..M, j in 0..N:
            t[i, j] = 2.0 * a[i, j] + 1.0
        for j in 0..N:
            b[j] = sum(p in 0..M: t[p, j] * t[p, j])
    """
OVERWRITTEN = """
    kernel k(a: i32[M, N], out c: i32[M, N], K: i64):
        for t in 0..K:
            for i in 0..M, j in 1..N:
                c[i, j] = a[i, j-1] + (a[i, j] if j == t else 0)
    """
FEWER = """
    kernel k(a: f64[M, N], out s: f64[N], out t: f64[N]):
        for j in 0..N:
            t[j] = max(p in 0..M: a[p, j])
        for j in 2..N - 2:
            s[j] = sum(p in 1..M: a[p, j])
    """
BOTH = """
    kernel k(a: f32[M, N], out b: f32[N], out c: f32[N]):
        for j in 0..N:
            let total = sum(p in 0..M: a[p, j])
            let high = max(p in 0..M: a[p, j])
            b[j] = total
            c[j] = high
    """
SUM_BESIDE = """
    kernel k(x: f32[R, C], inout t: f32[C, R], out s: f32[R]):
        fuse:
            for r in 0..R:
                s[r] = sum(c in 0..C: x[r, c])
            for r in 1..R, c in 0..C:
                t[c, r] = t[c, r] + s[r-1]
    """
ALL = {
    "column sum": COLUMN_SUM, "row sum": ROW_SUM, "product": PRODUCT, "taps": TAPS, "triangle": TRIANGLE,
    "diagonal": DIAGONAL, "later": LATER, "producer": PRODUCER, "both": BOTH,
    "overwritten": OVERWRITTEN, "fewer": FEWER, "sum beside": SUM_BESIDE,
}  # fmt: skip


@functools.cache
def planned(text: str) -> Planned:
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(text)))
    # (Sums of columns that may be in another order are added up in blocks of rows.)
    keeps_order = text in (COLUMN_SUM, BOTH)
    found = pipeline.plan_kernel(program, "k", Options(target=CPU, reassociate=not keeps_order))
    assert found.verdict.answer == "proved"
    return found


def nests(nodes: tuple[TreeNode, ...], around: tuple[str, ...] = ()) -> Iterator[tuple[Compute, tuple[str, ...]]]:
    """Each computation with the variables of the loops around it, but for those that are written out."""
    for node in nodes:
        match node:
            case Loop(var=var, mapping=mapping, body=body):
                yield from nests(body, around if mapping is Mapping.UNROLLED else (*around, var))
            case Guard(then=then, otherwise=otherwise):
                yield from nests((*then, *otherwise), around)
            case Compute():
                yield node, around
            case _:
                pass


def computes(text: str) -> list[tuple[Compute, tuple[str, ...]]]:
    return [one for launch in planned(text).tree.launches for one in nests(launch.body)]


@pytest.mark.parametrize("text", [COLUMN_SUM, PRODUCT, TAPS, DIAGONAL, LATER, PRODUCER, BOTH, OVERWRITTEN])
def test_the_innermost_loop_goes_along_rows(text: str) -> None:
    for node, around in computes(text):
        if text is OVERWRITTEN:
            assert any(around[-1] in iterators(part) for part in node.target.index), node
        for load in (node.target, *loads(node.value)):
            if around and load.index and load.array != "a":  # a diagonal goes along no rows
                assert all(around[-1] not in iterators(part) for part in load.index[:-1]), node


@pytest.mark.parametrize("text", [ROW_SUM, TRIANGLE])
def test_what_goes_along_rows_or_follows_the_iteration_stays(text: str) -> None:
    assert not any(isinstance(buffer.home, LineBuffer) for buffer in planned(text).tree.buffers)


def test_a_register_becomes_a_line() -> None:
    tree = planned(COLUMN_SUM).tree
    (line,) = [buffer for buffer in tree.buffers if isinstance(buffer.home, LineBuffer)]
    assert line.array == "s.sum" and not any(buffer.name == "s.sum" for buffer in tree.buffers)


def test_loops_over_the_same_columns_are_one() -> None:
    """What two reductions read comes once."""
    updates = [around for node, around in computes(BOTH) if loads(node.value)[:1] and len(around) > 2]
    assert len(updates) == 2 and len(set(updates)) == 1


def test_a_strip_runs_where_its_guard_lets_it() -> None:
    """Edges of a strip, which do nothing, are no loops of their own in each round of the loop outside."""
    (launch,) = planned(FEWER).tree.launches
    (strips,) = launch.body
    assert isinstance(strips, Loop)
    rounds = [node for node in strips.body if isinstance(node, Loop) and node.var.startswith("p")]
    inside = [node for each in rounds for node in each.body]
    assert len(rounds) == len(inside) == 2
    assert all(isinstance(one, Loop) and isinstance(one.body[0], Compute) for one in inside)


LONG = """
    kernel k(x: f32[R, C], inout y: f32[R, C], out s: f32[C]):
        for c in 0..C:
            s[c] = sum(r in 0..R, k in 0..R: x[r, c] * x[k, c])
    """


@pytest.mark.parametrize("text, length", [(COLUMN_SUM, STRIP), (LONG, SHORTEST_STRIP)])
def test_strips_of_long_work_are_short(text: str, length: int) -> None:
    """A hundred columns of a millisecond each would be the work of one thread."""
    (launch,) = planned(text).tree.launches
    (strips,) = launch.body
    assert isinstance(strips, Loop)
    assert evaluate_index(strips.upper, {"C": 4 * length + 1}) == 5


def test_a_sum_of_columns_is_a_vector() -> None:
    """LLVM kept it scalar, down each column: 30 times slower."""
    wide = Target("cpu", "x86-64-v3")
    artifact = loopfuse.loads(textwrap.dedent(COLUMN_SUM)).compile("cpu", emit={"llvm"})
    assert artifact.llvm is not None
    assert re.search(r"fadd <(8|16) x float>", str(optimize_llvm(artifact.llvm, wide)))


def test_sums_along_rows_are_in_lanes_beside_loops_down_columns() -> None:
    """Under the condition of their own loop, too: the other one runs elsewhere."""
    found = planned(SUM_BESIDE)
    (launch,) = found.tree.launches
    lanes = {buffer.name for buffer in found.tree.buffers if "_lane" in buffer.name}
    sums = [node for node, _ in nests(launch.body) if node.statement == "S1"]
    assert lanes and {node.target.array for node in sums} > lanes
    assert found.report.reassociated
    x = np.random.default_rng(0).standard_normal((5, 1000)).astype(np.float32)
    s = loopfuse.loads(textwrap.dedent(SUM_BESIDE))(x, np.zeros((1000, 5), np.float32))
    np.testing.assert_allclose(s, x.astype(float).sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 5, STRIP - 1, STRIP + 3, 2 * STRIP])
@pytest.mark.parametrize("name", ALL)
def test_strips_change_no_bit(name: str, size: int) -> None:
    text = textwrap.dedent(ALL[name])
    program = pipeline.read_program(Source("k.lf", text))
    # Rows are reduced in lanes otherwise, which is another order.
    kernel, random = loopfuse.loads(text, reassociate=False), np.random.default_rng(size)
    sizes = {one: size if one in ("C", "N") else 4 for one in ("R", "C", "M", "N", "K")}
    if name == "triangle":
        sizes["N"] = min(size, 40)
    given: dict[str, np.ndarray] = {}
    for parameter in kernel.signature.parameters:
        if not parameter.is_array:
            continue
        shape = tuple(int(evaluate(extent, sizes)) for extent in parameter.extents or ())
        numbers = 100 * random.standard_normal(shape)
        given[parameter.name] = numbers.astype(parameter.dtype.numpy_name)
    scalars = {} if name != "overwritten" else {"K": 3}
    fused, plain = ({n: a.copy() for n, a in given.items()} for _ in range(2))
    kernel(**fused, **scalars)
    kernel.with_options(fuel=0)(**plain, **scalars)
    for array, wanted in interpret(program.kernels[0], {**given, **scalars}, sizes).items():
        assert np.array_equal(fused[array], plain[array])
        assert np.array_equal(fused[array], wanted)
