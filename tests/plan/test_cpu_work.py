"""How the CPU's code divides work: by its price, point-wise loops in one row, views by their rows."""

from __future__ import annotations

import functools
import textwrap
import time
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Options
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Symbol, compare, integer
from loopfuse.lang.walk import iterators
from loopfuse.plan.mapping.space import CPU_WRITE
from loopfuse.plan.mapping.transposed import SETS, TOGETHER
from loopfuse.runtime.devices import cpu
from loopfuse.runtime.devices.sharing import Share, Work, share_out, work_of
from loopfuse.runtime.formulas import evaluate
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Compute, Guard, Launch, Loop, Mapping
from loopfuse.tree.walk import walk_nodes

SOFTMAX = """
    kernel softmax(x: f32[R, C], out y: f32[R, C]):
        for r in 0..R:
            let m = max(c in 0..C: x[r, c])
            let s = sum(c in 0..C: exp(x[r, c] - m))
            for c in 0..C:
                y[r, c] = exp(x[r, c] - m) / s
    """
COLUMNS = """
    kernel columns(x: f32[R, C], out s: f32[C]):
        for c in 0..C:
            s[c] = sum(r in 0..R: x[r, c])
    """
TRIANGLE = """
    kernel triangle(x: f32[R, C], out s: f32[R]):
        for r in 0..R:
            s[r] = sum(c in 0..min(r, C): x[r, c])
    """
MAXIMA = """
    kernel maxima(x: f32[R, C], out s: f32[1]):
        var t: f32 = 0.0
        for r in 0..R:
            let m = max(c in 0..C: x[r, c])
            t += m
        s[0] = t
    """
STEPS = """
    kernel steps(inout x: f32[R, C], n: i64):
        for t in 0..n:
            for r in 0..R:
                x[r, 0] = sum(c in 0..C: x[r, c]) * 0.5
    """


EXPONENTIALS = """
    kernel exponentials(x: f32[R], out s: f32[1]):
        s[0] = sum(r in 0..R: exp(x[r]))
    """


def shares(text: str, threads: int, **sizes: int) -> list[Share]:
    """How each launch is dealt out at these sizes, as a call does it, the dearest first."""
    artifact = loopfuse.loads(textwrap.dedent(text)).compile(target="cpu")
    found: list[tuple[int, Share]] = []

    def visit(steps: list[Any], around: dict[str, int]) -> None:
        for step in steps:
            if "loop" in step:
                visit(step["loop"]["body"], {**around, step["loop"]["var"]: 0})
            else:
                one = step["launch"]
                grid = int(evaluate(one["grid"], {**sizes, **around}))
                work = work_of(one, 0, sizes)
                assert work.picoseconds is not None
                found.append((work.nanoseconds(grid), share_out(grid, work, threads)))

    visit(artifact.manifest["steps"], {})
    return [share for _, share in sorted(found, key=lambda one: -one[0])]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (SOFTMAX, {"R": 4096, "C": 4096}),
        (SOFTMAX, {"R": 65536, "C": 256}),
        (SOFTMAX, {"R": 64, "C": 100_000}),
        (COLUMNS, {"R": 8192, "C": 4096}),
        (TRIANGLE, {"R": 8192, "C": 4096}),
        (MAXIMA, {"R": 4096, "C": 4096}),
        (EXPONENTIALS, {"R": 400_000}),
        (STEPS, {"R": 4096, "C": 4096, "n": 3}),
        ("kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i] + 1.0\n",
         {"N": 1 << 22}),
    ],
)  # fmt: skip
def test_all_threads_have_work(text: str, sizes: dict[str, int]) -> None:
    share = shares(text, 12, **sizes)[0]
    # Columns go by strips of cache lines, of which there are fewer.
    assert share.threads == 12 and share.chunks >= (24 if text is COLUMNS else 48), share


def test_little_work_stays_with_the_caller() -> None:
    assert all(share.threads == 1 for share in shares(SOFTMAX, 12, R=4, C=40))


# ------------------------------------------------------------------------------- in one row

POWER = """
    kernel power({x}, out {y}, g: f32):
        for {loops}:
            y[{at}] = sqrt(x[{at}]) / g + 0.5
    """


def power(*extents: str) -> str:
    """A point-wise kernel over these extents."""
    names = ("a", "b", "c", "d")[: len(extents)]
    shape = ", ".join(extents)
    return POWER.format(
        x=f"x: f32[{shape}]", y=f"y: f32[{shape}]", at=", ".join(names),
        loops=", ".join(f"{n} in 0..{e}" for n, e in zip(names, extents)),
    )  # fmt: skip


TWO_STAGES = """
    kernel two(x: f32[H, W, 3], w: f32[H, W, 3], out y: f32[H, W, 3]):
        temp t: f32[H, W, 3]
        for i in 0..H, j in 0..W, c in 0..3:
            t[i, j, c] = sqrt(x[i, j, c]) - w[i, j, c]
        for i in 0..H, j in 0..W, c in 0..3:
            y[i, j, c] = t[i, j, c] * t[i, j, c] + x[i, j, c]
    """


CONDITION = """
    kernel condition(x: f32[H, W, 3], inout y: f32[H, W, 3]):
        for i in 0..H, j in 0..W, c in 0..3:
            if x[i, j, c] > 1.0:
                y[i, j, c] = sqrt(x[i, j, c])
    """


@functools.cache
def planned(text: str) -> pipeline.Planned:
    program = pipeline.read_program(Source("test.lf", textwrap.dedent(text)))
    return pipeline.plan_kernel(program, program.kernels[0].name, Options(target=CPU))


def inner_loops(found: pipeline.Planned) -> list[int]:
    """Loops inside the threads' loops, one number a launch."""
    out: list[int] = []
    for launch in found.tree.launches:
        assert isinstance(launch, Launch)
        body, depth = launch.body, 0
        while isinstance(body[0], Loop):
            depth += body[0].mapping is Mapping.SERIAL
            body = body[0].body
        out.append(depth)
    return out


@pytest.mark.parametrize(
    "text",
    [
        power("H", "W", "3"), power("H", "W", "C"), power("N", "H", "W", "C"), power("H", "2", "3"),
        power("H", "W"), TWO_STAGES, CONDITION,
    ],
)  # fmt: skip
def test_pointwise_loops_run_in_one_row(text: str) -> None:
    found = planned(text)
    assert found.verdict.answer == "proved"
    assert inner_loops(found) == [1]
    assert all(launch.strategy == "pointwise" for launch in found.tree.launches)


def one_each(grid: int, work: Work, threads: int) -> Share:
    return Share(1, grid, min(grid, threads))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (1, 1, 3), (3, 7, 3), (5, 200, 3), (2, 700, 3)])
@pytest.mark.parametrize("text", [power("H", "W", "3"), power("H", "W", "C"), TWO_STAGES, CONDITION])
def test_rows_have_the_same_bits(
    text: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter, the LoopTree interpreter and the code, with one thread and with three."""
    found, kernel = planned(text), loopfuse.loads(textwrap.dedent(text))
    made = np.random.default_rng(1)
    given: dict[str, Any] = {
        array.name: made.random(shape, np.float32) + np.float32(0.5) for array in found.kernel.arrays
    }
    scalars = {"g": np.float32(2.25)} if "g: f32" in text else {}
    sizes = dict(zip(("H", "W", "C"), shape)) if "C" in text else dict(zip(("H", "W"), shape))
    wanted = interpret(found.kernel, {**{k: v.copy() for k, v in given.items()}, **scalars}, sizes)
    held = {**{k: v.copy() for k, v in given.items()}, **scalars}
    run_tree(found.tree, held, {**sizes, **scalars})
    np.testing.assert_array_equal(held["y"], wanted["y"])
    monkeypatch.setattr(cpu, "share_out", one_each)
    for threads in ("1", "3"):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
        run = {**{k: v.copy() for k, v in given.items()}, **scalars}
        kernel(*run.values())
        np.testing.assert_array_equal(run["y"], wanted["y"], strict=True)


def test_what_repeats_in_each_column_is_no_row() -> None:
    """`bias[c]` comes again in each column: columns stay a loop around."""
    found = planned("""
        kernel bias(x: f32[H, W, 3], b: f32[3], out y: f32[H, W, 3]):
            for i in 0..H, j in 0..W, c in 0..3:
                y[i, j, c] = x[i, j, c] + b[c]
        """)
    (launch,) = found.tree.launches
    assert launch.strategy == "generic"
    x, b = np.ones((4, 5, 3), np.float32), np.arange(3, dtype=np.float32)
    kernel = loopfuse.loads(found.source.text)
    np.testing.assert_array_equal(kernel(x, b), x + b)


# ---------------------------------------------------------------------------------- views

BLUR = """
    kernel blur(x: f32[H, W], out y: f32[H, W]):
        for i in 0..H, j in 0..W:
            y[i, j] = 0.25*(x.clamp[i, j - 1] + x.clamp[i, j + 1]) + 0.5*x[i, j]
    """
COLOURS = """
    kernel colours(x: f32[H, W, 3], out y: f32[H, W, 3]):
        for i in 0..H, j in 0..W, c in 0..3:
            y[i, j, c] = 2.0 * x[i, j, c] + 1.0
    """


def stride_arguments(kernel: Any) -> list[set[str]]:
    """The strides that each code of a kernel takes."""
    found: list[set[str]] = []
    for loaded in kernel._loaded.values():
        steps = loaded.manifest["steps"]
        names = {a.get("name", "") for step in steps for a in step["launch"]["arguments"]}
        found.append({name for name in names if "__stride" in name})
    return found


def test_rows_without_gaps_are_known() -> None:
    """A part of an array has the code of whole ones, but for the distance between rows."""
    kernel = loopfuse.loads(textwrap.dedent(BLUR))
    whole = np.random.default_rng(0).random((40, 50), np.float32)
    part = whole[4:-4, 8:-8]
    y = kernel(part)
    assert stride_arguments(kernel) == [{"x__stride0"}]
    np.testing.assert_array_equal(y, kernel(part.copy()))
    for view in (whole[::2, ::2], whole.T, whole[:, ::-1], np.broadcast_to(whole[:, :1], (40, 9))):
        np.testing.assert_array_equal(kernel(view), kernel(view.copy()))
    for view in (whole[::-1], whole[3:4, 5:9], whole[::3, 7:8], np.broadcast_to(whole[:1], (9, 50))):
        target = np.zeros((view.shape[0], view.shape[1] + 6), np.float32)[:, 2:-4]
        kernel(view, target)
        np.testing.assert_array_equal(target, kernel(view.copy()))


def test_two_dimensions_without_gaps() -> None:
    kernel = loopfuse.loads(textwrap.dedent(COLOURS))
    whole = np.random.default_rng(0).random((20, 30, 3), np.float32)
    target = np.zeros((16, 40, 3), np.float32)
    kernel(whole[2:-2, 3:-3], target[:, 5:29])
    np.testing.assert_array_equal(target[:, 5:29], 2 * whole[2:-2, 3:-3] + 1)
    assert not target[:, :5].any() and not target[:, 29:].any()
    assert stride_arguments(kernel) == [{"x__stride0", "y__stride0"}]
    planes = np.random.default_rng(1).random((3, 20, 30), np.float32).transpose(1, 2, 0)
    np.testing.assert_array_equal(kernel(planes), 2 * planes + 1)


def test_the_fast_path_tells_views_apart() -> None:
    """One kernel, views of many kinds in turn, each several times."""
    kernel = loopfuse.loads(textwrap.dedent(BLUR))
    whole = np.random.default_rng(0).random((24, 24), np.float32)
    views = [whole, whole[2:, 3:], whole[:, ::2], whole.T, whole[1:, 2:], whole[2:, 3:].T]
    expected = [kernel(view.copy()) for view in views]
    for _ in range(3):
        for view, wanted in zip(views, expected):
            np.testing.assert_array_equal(kernel(view), wanted)


# ---------------------------------------------------------------------------------- times


def seconds(kernel: Any, *args: Any) -> float:
    """The least time of a call that this thread alone spends: others on the machine do not count."""
    kernel(*args)
    found: list[float] = []
    for _ in range(30):
        start = time.thread_time()
        kernel(*args)
        found.append(time.thread_time() - start)
    return min(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["unsharp", "blur", "harris", "softmax"])
def test_views_of_rows_take_the_time_of_packed_arrays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "1")
    kernel = loopfuse.load(f"examples/{name}.lf")
    whole = np.random.default_rng(0).random((1032, 1040), np.float32)
    part, y = whole[4:-4, 8:-8], np.zeros((1024, 1024), np.float32)
    more = [0.5] * (len(kernel.signature.parameters) - 2)
    packed = seconds(kernel, part.copy(), y, *more)
    assert seconds(kernel, part, y, *more) < 1.4 * packed


@pytest.mark.slow
@pytest.mark.parametrize("last", ["3", "C"])
def test_colours_last_take_the_time_of_colours_first(
    last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "1")
    gamma = "kernel gamma(x: f32[{0}], out y: f32[{0}], g: f32):\n    for {1}:\n        y[i, j, c] = x[i, j, c] ** g\n"
    behind = loopfuse.loads(gamma.format(f"H, W, {last}", f"i in 0..H, j in 0..W, c in 0..{last}"))
    before = loopfuse.loads(gamma.format("C, H, W", "i in 0..C, j in 0..H, c in 0..W"))
    x = np.random.default_rng(0).random((512, 512, 3), np.float32)
    y = np.zeros_like(x)
    first = seconds(before, x.reshape(3, 512, 512), y.reshape(3, 512, 512), 2.2)
    assert seconds(behind, x, y, 2.2) < 1.4 * first


TRANSPOSED = """
    kernel transposed(a: f32[M, N], out c: f32[M, N]):
        temp flipped: f32[N, M]
        for j in 0..N, i in 0..M:
            flipped[j, i] = 2.0 * a[i, j]
        for i in 0..M, j in 0..N:
            c[i, j] = flipped[j, i] + 1.0
    """
TURNED = """
    kernel turned(a: f32[M, N], out c: f32[N, M]):
        for i in 0..M, j in 0..N:
            c[j, i] = a[i, j]
    """


MIRRORED = """
    kernel mirrored(a: f32[M, N], out b: f32[M, N], out c: f32[N, M]):
        for i in 0..M, j in 0..N:
            b[i, j] = a[i, j] + 1.0
            c[j, i] = 2.0 * a[i, j]
    """


@pytest.mark.parametrize(("text", "rows"), [(TURNED, "N"), (MIRRORED, "M")])
def test_columns_of_rows_in_few_sets_go_eight_at_a_time(text: str, rows: str) -> None:
    """Where rows that are gone down are a multiple of so many bytes, half of that where they are stored: lines of a column are used again by the next row."""
    body = planned(text).tree.launches[0].body
    while isinstance(body[0], Loop):
        body = body[0].body
    (guard,) = body
    assert isinstance(guard, Guard)
    together, apart = guard.then[0], guard.otherwise[0]
    bytes_of_rows = SETS if text is TURNED else SETS // CPU_WRITE
    assert guard.condition == compare("eq", Symbol(rows, DType.I64) % (bytes_of_rows // 4), integer(0))
    assert isinstance(together, Loop) and together.step == TOGETHER
    assert isinstance(apart, Loop) and apart.step == 1


@pytest.mark.parametrize("body", ["if a[i, j] > 0.0:\n                c[j, i] = a[i, j]", "c[j, i] = sum(k in 0..N: a[i, k])"])
def test_other_columns_go_one_at_a_time(body: str) -> None:
    """Those that data decides about, and those with a loop of their own."""
    text = f"""
    kernel other(a: f32[M, N], out c: f32[N, M]):
        for i in 0..M, j in 0..N:
            {body}
    """
    (launch,) = planned(text).tree.launches
    assert all(loop.step == 1 for loop in walk_nodes(launch.body) if isinstance(loop, Loop))


@pytest.mark.parametrize("text", [TURNED, MIRRORED])
def test_transposed_elements_are_right(text: str) -> None:
    kernel = loopfuse.loads(textwrap.dedent(text))
    for m, n in (512, 9), (5, 1536), (513, 1031), (512, 1024):
        a = np.random.default_rng(0).random((m, n), np.float32)
        found, wanted = kernel(a), ((a.T,) if text is TURNED else (a + 1, 2 * a.T))
        assert all(map(np.array_equal, found if text is MIRRORED else (found,), wanted))


@pytest.mark.parametrize("text", [TRANSPOSED, TURNED])
def test_the_innermost_loop_writes_neighbours(text: str) -> None:
    """Values in registers have no order in memory; and a column that is written is dearer than one that
    is read."""
    found = planned(text)
    assert found.verdict.answer == "proved"
    (launch,) = found.tree.launches
    innermost = [loop for loop in walk_nodes(launch.body) if isinstance(loop, Loop) and isinstance(loop.body[0], Compute)]
    assert innermost
    for loop in innermost:
        (written,) = [each.target for each in loop.body if isinstance(each, Compute) and each.target.index]
        assert iterators(written.index[-1]) == {loop.var}
    a = np.random.default_rng(0).random((37, 70), np.float32)
    kernel = loopfuse.loads(textwrap.dedent(text))
    assert np.array_equal(kernel(a), a * 2 + 1 if text is TRANSPOSED else a.T)
