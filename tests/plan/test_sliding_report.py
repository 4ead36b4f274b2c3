"""What reports say of sliding windows and blocks of time steps."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.plan.strategies.sliding.windows.stages import _kept_beside
from loopfuse.plan.units.records import Report

pytestmark = pytest.mark.usefixtures("launches_apart")

ROOT = Path(__file__).parents[2]
GPU = Target("sm_90")
DEFAULT = Tuning()


def report(text: str, tuning: Tuning = DEFAULT) -> Report:
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(text)))
    name = program.kernels[0].name
    options = Options(target=GPU, tuning=tuning)
    return pipeline.plan_kernel(program, name, options).report


def example(name: str) -> str:
    return (ROOT / "examples" / f"{name}.lf").read_text()


def test_a_chain_says_how_far_loops_run_behind() -> None:
    found = report(example("unsharp"), Tuning(columns=4, rows=74))
    (kernel,) = found.kernels
    assert dict(kernel.homes) == {"rows": "window(5)", "blur": "register"}
    assert kernel.detail == (
        "sliding, streams down y, strips of 120 columns, chunks of 74 rows, memory asked 2 rows early"
    )
    said = {one.between: (one.shift, one.reason) for one in found.decisions}
    assert said == {
        ("L1", "L2"): (
            (2, 0),
            "L2 runs 2 rows behind L1: blur[y] needs rows[y-2..y+2]; rows keeps 5 rows in registers",
        ),
        ("L2", "L3"): ((0, 0), "no shift: sharp[y, x] needs only blur[y, x]"),
    }


WAVE = """
    kernel f(inout p: f32[D, H, W], q: f32[D, H, W]):
        for z in 4..D-4, y in 4..H-4, x in 4..W-4:
            p[z, y, x] = 2.0 * q[z, y, x] - p[z, y, x] + q[z-4, y, x] + q[z+4, y, x] + q[z, y-4, x] + q[z, y+4, x] + q[z, y, x-4] + q[z, y, x+4]
    """


@pytest.mark.parametrize(
    ("late", "end"),
    [(2, ", 2 planes ahead by way of shared memory"), (1, ", 1 plane ahead by way of shared memory")],
)
def test_planes_that_come_by_themselves_are_told(late: int, end: str) -> None:
    (kernel,) = report(WAVE, Tuning(late=late, columns=4, warps=8, band=1)).kernels
    assert kernel.detail.endswith(f"8 warps of 1 row{end}")


def test_dimensions_that_run_as_one_are_told() -> None:
    text = """
        kernel f(img: f32[H, W, 3], mean: f32[3], out y: f32[H, W, 3]):
            for i in 0..H, j in 0..W, c in 0..3:
                y[i, j, c] = img[i, j, c] - mean[c]
        """
    (kernel,) = report(text).kernels
    assert kernel.detail == "pointwise, parallel over i, j, c, H x W as one"


SWAP = """
    kernel f(inout a: f32[H, W], inout b: f32[H, W], n: i64):
        for t in 0..n:
            for y in 1..H-1, x in 1..W-1:
                b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
            swap a, b
    """


def test_blocks_count_launches_and_bytes() -> None:
    found = report(SWAP, Tuning(steps=8))
    assert found.launches_before == "n"
    assert found.launches_after == "2*(n//4) - 6*(n//16) + n % 4"
    # A pair reads a twice; its first launch writes a (the copy), its second a and b.
    for part in ("8*(n//16)*H*W", "12*(n//16)*(H - 2)*(W - 2)", "8*(n % 4)*H*W"):
        assert part in found.traffic_after.text
    (decision,) = found.decisions
    assert decision.between == ("L1", "L1") and decision.fused
    assert decision.reason.startswith(
        "8 iterations of `t` run in one pass over the arrays, then 2 of what is left; "
    )
    details = [kernel.detail for kernel in found.kernels]
    assert [text[-25:] for text in details[:4]] == [
        *["8 iterations of `t` a launch"[-25:]] * 2,
        *["2 iterations of `t` a launch"[-25:]] * 2,
    ]


def test_formulas_of_blocks_are_right_for_every_number_of_steps() -> None:
    text = str(report(SWAP, Tuning(steps=8)).launches_after)
    for n in range(70):
        blocks, rest = divmod(n, 16)
        assert eval(text, {"n": n}) == 2 * blocks + 2 * (rest // 4) + rest % 4


def test_left_over_iterations_say_so() -> None:
    found = report(example("jacobi"), Tuning(steps=3))
    apart, fused = found.decisions
    assert not apart.fused and apart.reason.startswith("in iterations left over from blocks: L1.2")
    assert apart.remedy is None  # the next iteration reads what L1.2 writes
    assert fused.fused and "3 iterations of `t` run in one pass" in fused.reason
    assert fused.shift == (1, 0)


@pytest.mark.parametrize(
    ("body", "why", "remedy"),
    [
        (
            "c[y, x] = b.wrap[y-1, x] + b.clamp[y-1, x]",
            "no windows: `b` is read along other dimensions than it is written", None,
        ),
    ],
)  # fmt: skip
def test_why_a_chain_has_no_windows(body: str, why: str, remedy: str | None) -> None:
    text = f"""
        kernel f(a: f32[H, W], out c: f32[H, W]):
            temp b: f32[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = 2.0 * a[y, x]
            for y in 0..H, x in 0..W:
                {body}
        """
    (decision,) = report(text).decisions
    assert decision.reason.endswith(why)
    assert decision.remedy == remedy


def test_sweeps_in_place_say_what_they_need() -> None:
    text = """
        kernel f(inout a: f32[N, N], n: i64):
            for t in 0..n:
                for i in 1..N-1, j in 1..N-1:
                    a[i, j] = 0.25 * (a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1])
        """
    found = report(text)
    (decision,) = found.decisions
    assert decision.between == ("L1", "L1") and not decision.fused
    assert decision.reason.startswith("its iterations run one by one, in one thread")
    assert decision.witness is not None and decision.witness.array == "a"


def test_a_line_that_runs_in_order_says_what_it_needs() -> None:
    """Also where another loop asks; a recurrence means the values that it has made."""
    text = """
        kernel f(b: f32[N], inout x: f32[N], out r: f32[N]):
            for i in 1..N-1:
                x[i] = b[i] + x[i-1] * x[i-1] {more}
            for i in 1..N-1:
                r[i] = b[i] - x[i-1] - x[i+1]
        """
    for more, remedy in (("+ x[i+1]", True), ("", False)):
        alone, pair = report(text.format(more=more)).decisions
        assert alone.between == ("L1", "L1") and bool(alone.remedy) is remedy
        assert pair.between == ("L1", "L2") and not pair.fused
        assert pair.reason == "L1 has no parallel loop: iteration i=1 writes `x[1]`, which iteration i=2 reads"
        for decision in (alone, pair):
            assert decision.witness is not None
            assert decision.witness.source.iteration == (("i", 1),)
            assert decision.witness.sink.iteration == (("i", 2),)


def test_a_sum_in_order_behind_the_loop_that_makes_it() -> None:
    """Its start stands outside the loop; nothing moves there."""
    text = """
        kernel f(x: f32[N], out y: f32[N], out s: f32[1]):
            var t: f32 = 0.0
            for i in 0..N:
                y[i] = 2.0 * x[i]
            for i in 0..N:
                t += y[i]
            s[0] = t
        """
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(text)))
    for target in (CPU, Target("sm_90")):
        planned = pipeline.plan_kernel(program, "f", Options(target=target, reassociate=False))
        pair = next(d for d in planned.report.decisions if d.between == ("L1", "L2"))
        assert pair.witness is not None and pair.reason.startswith("L2 has no parallel loop: iteration i=0 writes `t`")


def test_the_cpu_has_line_buffers() -> None:
    program = pipeline.read_program(Source("t.lf", example("unsharp")))
    planned = pipeline.plan_kernel(program, "unsharp", Options(target=CPU))
    (kernel,) = planned.report.kernels
    assert kernel.strategy == "sliding"
    assert kernel.homes == (("rows", "line(5)"), ("blur", "register"))


def test_far_columns_are_counted_at_once() -> None:
    """A hostile subscript may be a thousand million columns away (it was counted one by one)."""
    assert _kept_beside({10**9: 3, -2: 5, -1: 6}, 1) == 2 * 10**9 + 5 + 4
