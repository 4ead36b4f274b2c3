"""The interior of a CPU loop has no edge in it, however edges are nested: subscripts are sums there."""

from __future__ import annotations

import functools
import textwrap
from pathlib import Path

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options
from loopfuse.lang.index import conjoin
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Binary, Compare, Iter, Load, compare, integer
from loopfuse.lang.walk import iterators, walk_expr
from loopfuse.plan.mapping.interior import guards_outside
from loopfuse.tree.looptree import Compute, Guard, Loop, Mapping, TreeNode
from loopfuse.tree.walk import walk_nodes

CASES = Path(__file__).parent.parent / "cases"
TWICE = """
    kernel twice(x: f32[N], out y: f32[N]):
        temp b: f32[N]
        for i in 0..N:
            b[i] = x.{first}[i-1] + x.{first}[i+2]
        for i in 0..N:
            y[i] = b.{second}[i-2] - b.{second}[i+1]
    """
MODES = ("clamp", "wrap", "reflect", "symmetric")


def folds(nodes: tuple[TreeNode, ...]) -> list[int]:
    """For each innermost loop: how many operations but sums its subscripts have."""
    found: list[int] = []
    for node in nodes:
        if isinstance(node, Loop):
            inside = folds(node.body)
            found += inside or [sum(map(_folds, node.body))]
    return found


def _folds(node: TreeNode) -> int:
    assert isinstance(node, Compute)
    parts = [part for load in walk_expr(node.value) if isinstance(load, Load) for part in load.index]
    operations = [each for part in parts for each in walk_expr(part) if isinstance(each, Binary)]
    return sum(each.op not in ("add", "sub") for each in operations)


@pytest.mark.parametrize("second", MODES)
@pytest.mark.parametrize("first", MODES)
def test_the_interior_is_plain(first: str, second: str) -> None:
    text = textwrap.dedent(TWICE).format(first=first, second=second)
    program = pipeline.read_program(Source("k.lf", text))
    found = pipeline.plan_kernel(program, "twice", Options(target=CPU))
    assert found.verdict.answer == "proved"
    (launch,) = found.tree.launches
    counts = folds(launch.body)
    assert len(counts) == 3 and counts[1] == 0 < min(counts[0], counts[2])


PLACES = """
    kernel places(x: f32[N], out y: f32[N], out z: f32[N]):
        temp t: f32[N]
        for i in 0..N:
            t[i] = 2.0 * x[i]
        for i in 0..N:
            if i == 0 or i == N - 1 or t[i] > 0.5:
                y[i] = t[i]
            elif i != 2:
                y[i] = t[i] - t[i-1] + t[i+1]
            else:
                y[i] = 9.0
            z[i] = t[i] if N - 2 == i else 1.0
    """


def asked_places(nodes: tuple[TreeNode, ...]) -> list[int]:
    """For each innermost loop: how often it asks where it is."""
    found: list[int] = []
    for node in nodes:
        if isinstance(node, Loop):
            found += asked_places(node.body) or [sum(map(_asked, node.body))]
    return found


def _asked(node: TreeNode) -> int:
    if isinstance(node, Guard):
        return 1 + sum(map(_asked, (*node.then, *node.otherwise)))
    assert isinstance(node, Compute)
    parts = [node.value, *([] if node.predicate is None else [node.predicate])]
    compared = [each for part in parts for each in walk_expr(part) if isinstance(each, Compare)]
    return sum(each.left.dtype is DType.I64 for each in compared)


def test_places_that_are_asked_for_are_edges() -> None:
    text = textwrap.dedent(PLACES)
    program = pipeline.read_program(Source("k.lf", text))
    found = pipeline.plan_kernel(program, "places", Options(target=CPU))
    assert found.verdict.answer == "proved"
    (launch,) = found.tree.launches
    counts = asked_places(launch.body)
    assert len(counts) == 3 and counts[1] == 0 < min(counts[0], counts[2])
    kernel = loopfuse.loads(text)
    for count in (1, 2, 3, 4, 5, 9, 600):
        x = np.random.default_rng(count).random(count, np.float32)
        given = {"x": x, "y": np.zeros_like(x), "z": np.zeros_like(x)}
        wanted = interpret(program.kernels[0], given, {"N": count})
        for got, name in zip(kernel(x), ("y", "z"), strict=True):
            assert np.array_equal(got, wanted[name]), (count, name)


PAIRS = [("reflect", "reflect"), ("symmetric", "reflect"), ("wrap", "symmetric"), ("clamp", "wrap")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_edges_are_where_they_were(first: str, second: str) -> None:
    """Extents around the reach of the edges, beside the interpreter."""
    text = textwrap.dedent(TWICE).format(first=first, second=second)
    kernel, program = loopfuse.loads(text), pipeline.read_program(Source("k.lf", text))
    for count in (1, 2, 3, 4, 5, 9, 40, 530):
        x = np.random.default_rng(count).random(count, np.float32)
        wanted = interpret(program.kernels[0], {"x": x, "y": np.zeros_like(x)}, {"N": count})["y"]
        assert np.array_equal(kernel(x), wanted), count


INSIDE_A_THREAD = """
    kernel k(a: f32[M], inout b: f32[N, M]):
        temp t: f32[N, M]
        for i in 0..N, j in 0..M:
            t[i, j] = sqrt(abs(b.symmetric[i, j+4] - a.clamp[j-2]))
        for i in 2..N - 2:
            for j in 2..M - 2:
                b[i, j] = t[i, j]
    """
GUARDED_ROWS = """
    kernel k(a: i64[N, M], b: i64[N], c: i64[N, M], inout d: i64[N, M]):
        for i in 2..N - 1, j in 0..M:
            if c[i, j] > 0:
                d[i, j] = a.wrap[i+3, j]
        for i in 0..N, j in 0..M:
            if i >= 1 and i < N - 1:
                d[i, j] = d[i, j] + b.clamp[i+2]
            else:
                d[i, j] = b.zero[i-4]
    """


@functools.cache
def planned(text: str, name: str = "k") -> pipeline.Planned:
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(text)))
    found = pipeline.plan_kernel(program, name, Options(target=CPU))
    assert found.verdict.answer == "proved"
    return found


def test_loops_inside_a_thread_have_interiors() -> None:
    """Fused along rows, the loop over a row is a thread's own, and was left whole."""
    (launch,) = planned(INSIDE_A_THREAD).tree.launches
    (rows,) = launch.body
    assert isinstance(rows, Loop)
    counts = folds(rows.body[:3])
    assert len(rows.body) == 4 and counts[1] == 0 < min(counts[0], counts[2])


def test_guards_of_rows_are_asked_once_a_row() -> None:
    (launch,) = planned(GUARDED_ROWS).tree.launches
    (rows,) = launch.body
    assert isinstance(rows, Loop)
    (asked,) = [node for node in rows.body if isinstance(node, Guard)]
    (fast,) = asked.then
    assert isinstance(fast, Loop) and all(isinstance(node, Compute) for node in fast.body)


OF_SOME_ROWS = """
    kernel k(a: f32[N, M], out b: f32[N, M], out c: f32[N, M]):
        for y in 0..N, x in 0..M:
            b[y, x] = 2 * a[y, x]
        for y in 1..N-1:
            temp t: f32[M]
            for x in 0..M:
                t[x] = max(p in 0..3: a[y, x] + p)
            for x in 1..M:
                c[y, x] = t[x] + b[y, x-1]
    """


def test_what_is_of_some_rows_is_asked_once_for_all_their_loops() -> None:
    (launch,) = planned(OF_SOME_ROWS).tree.launches
    (rows,) = launch.body
    assert isinstance(rows, Loop)
    all_rows, some = rows.body
    assert isinstance(all_rows, Loop) and isinstance(some, Guard) and iterators(some.condition) == {rows.var}
    assert all(isinstance(loop, Loop) for loop in some.then) and len(some.then) == 2
    assert not any(isinstance(node, Guard) for node in walk_nodes(some.then))


def test_what_is_asked_of_a_loops_own_place_stays_in_it() -> None:
    x, y = Iter("x"), Iter("y")
    load = Load("a", (y, x), DType.F32)
    one, other = compare("ge", y, integer(1)), compare("ge", x, y)
    both = Guard(conjoin(one, other), (Compute("A", (y, x), load, load),)), Guard(one, (Compute("B", (y, x), load, load),))
    (asked,) = guards_outside([Loop("x", integer(0), integer(9), 1, Mapping.SERIAL, both)])
    assert isinstance(asked, Guard) and asked.condition == one
    (loop,) = asked.then
    assert isinstance(loop, Loop)
    assert loop.body == (Guard(other, both[0].then), *both[1].then)
    mixed = (*both, Compute("C", (y, x), load, load))
    whole = Loop("x", integer(0), integer(9), 1, Mapping.SERIAL, mixed)
    assert guards_outside([whole]) == (whole,)


def test_what_asks_for_a_step_has_two_ways() -> None:
    """`t < i` has no usual answer, so it is no edge of the rows: their usual way is there once for each
    answer, and neither asks again."""
    text = (CASES / "fuzz_overwritten_behind_a_scalar.lf").read_text()
    found = [node for launch in planned(text, "random").tree.launches for node in walk_nodes(launch.body)]
    asked = [node for node in found if isinstance(node, Guard) and node.otherwise]
    (ways,) = [node for node in asked if "t" in iterators(node.condition)]
    assert isinstance(ways.condition, Compare)
    (usual,) = (node for node in asked if node.then == (ways,))
    (first,) = usual.otherwise
    assert isinstance(first, Guard), "of two guards LLVM takes one out of a loop by itself"
    for (loop,) in (first.then, first.otherwise):
        assert isinstance(loop, Loop) and sum(isinstance(node, Guard) for node in walk_nodes(loop.body)) == 1
    for way in (ways.then, ways.otherwise):
        inside = [node for node in walk_nodes(way) if isinstance(node, Compute)]
        assert inside and all("t" not in iterators(node.value) for node in inside)


@pytest.mark.parametrize("text", [INSIDE_A_THREAD, GUARDED_ROWS, OF_SOME_ROWS])
@pytest.mark.parametrize("size", [3, 5, 8, 30])
def test_ways_for_rows_change_no_bit(text: str, size: int) -> None:
    random = np.random.default_rng(size)
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(text)))
    kernel, sizes = loopfuse.loads(textwrap.dedent(text)), {"N": size, "M": size + 4}
    given: dict[str, np.ndarray] = {}
    for parameter in kernel.signature.parameters:
        shape = tuple(sizes[extent] for extent in parameter.extents or ())
        given[parameter.name] = (9 * random.standard_normal(shape)).astype(parameter.dtype.numpy_name)
    fused = {name: array.copy() for name, array in given.items()}
    kernel(**fused)
    for array, wanted in interpret(program.kernels[0], given, sizes).items():
        assert np.array_equal(fused[array], wanted)


BACKWARDS = """
    kernel k(a: f32[N, M], inout b: f32[N, M], out t: f32[N, M], out d: f32[N, M]):
        for i in 0..N:
            for j in M - 2..-1 step -1:
                b[i, j] = b[i, j+1] * a[i, j]
        for i in 0..N, j in M - 1..-1 step -1:
            t[i, j] = a.wrap[i, j+3]
        for i in 0..N, j in 0..M:
            d[i, j] = t[i, min(j, 1)] + b[i, 0]
    """


def test_a_loop_counts_up_where_its_iterations_are_independent() -> None:
    """Fused over the rows alone, each loop over a row keeps its own direction only where that matters; and the
    interior of the one that wraps is a copy, as it is alone."""
    program = pipeline.read_program(Source("k.lf", textwrap.dedent(BACKWARDS)))
    found = pipeline.plan_kernel(program, "k", Options(target=CPU))
    assert found.verdict.answer == "proved"
    (launch,) = found.tree.launches
    computes = {node.statement: node for node in walk_nodes(launch.body) if isinstance(node, Compute)}
    assert not isinstance(computes["S1"].iteration[1], Iter)
    assert all(isinstance(node.iteration[1], Iter) for name, node in computes.items() if name != "S1")
    wraps = [_folds(node) for node in walk_nodes(launch.body) if isinstance(node, Compute) and node.statement == "S2"]
    assert sorted(wraps) == [0, 1, 1]


DIVISIONS = """
    kernel k(a: i64[N], inout b: i64[N], out c: i64[N], out d: i32[N]):
        for i in 0..N:
            b[i] = (a[i] - b[i]) % 7
        for i in 0..N:
            c[i] = a[i] * 3 + b[i]
        for i in 0..N:
            d[i] = i32(b[i] // 5)
    """


def test_divisions_of_64_bits_are_loops_of_their_own() -> None:
    """They are no vectors, what stands between them is, and all three are one pass over memory."""
    (launch,) = planned(DIVISIONS).tree.launches
    (chunks,) = launch.body
    assert isinstance(chunks, Loop)
    assert [[each.statement for each in walk_nodes((loop,)) if isinstance(each, Compute)] for loop in chunks.body] == [["S1"], ["S2"], ["S3"]]


@pytest.mark.parametrize("text", [DIVISIONS.replace("i64", "i32"), DIVISIONS.replace("% 7", "% 8").replace("// 5", "// 4")])
def test_what_is_vectors_stays_together(text: str) -> None:
    """Divisions of 32 bits, and by powers of two."""
    (launch,) = planned(text).tree.launches
    (chunks,) = launch.body
    assert isinstance(chunks, Loop)
    (loop,) = chunks.body
    assert isinstance(loop, Loop) and len(loop.body) == 3


EDGES_ALONE = """
    kernel k(inout a: i64[N]):
        for i in 0..N:
            if i == 3:
                a[i] = a[i] // 7
    """


def test_an_interior_that_does_nothing_is_no_loop() -> None:
    (launch,) = planned(EDGES_ALONE).tree.launches
    (chunks,) = launch.body
    assert isinstance(chunks, Loop)
    (edge,) = chunks.body
    assert isinstance(edge, Loop) and edge.body
