"""What fuses, how, and why not: small programs, their decisions, kernels and homes."""

from __future__ import annotations

import functools
import textwrap
import warnings
from pathlib import Path

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source, UserError
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.lang.nodes import Program
from loopfuse.tree.looptree import Global

GPU = Target("sm_90")
CASES = Path(__file__).parent.parent / "cases"
NO_WINDOWS = Tuning(windows=False)
"""Recomputation instead: windows would be taken first."""


@functools.cache
def plan(text: str, target: Target = GPU, **options: object) -> pipeline.Planned:
    """The plan of the only kernel in `text`."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(text)))
    with warnings.catch_warnings():
        # A plan the checker rejects is a failure here, not a warning and an unfused kernel.
        warnings.filterwarnings("error", message=".*(wrongly|not be proved).*")
        return _plan(program, target, options)


def _plan(program: Program, target: Target, options: dict[str, object]) -> pipeline.Planned:
    return pipeline.plan_kernel(
        program, program.kernels[0].name, Options(target=target, **options)  # type: ignore[arg-type]
    )


def homes(planned: pipeline.Planned) -> dict[str, str]:
    """Home per temporary, over all kernels."""
    return {name: home for kernel in planned.report.kernels for name, home in kernel.homes}


def decisions(planned: pipeline.Planned) -> list[tuple[tuple[str, str], bool, object]]:
    """(between, fused, shift) of every decision."""
    return [(d.between, d.fused, d.shift) for d in planned.plan.decisions]


CHAIN = """
    kernel f(x: f32[N], out y: f32[N]):
        temp t: f32[N]
        for i in 0..N:
            t[i] = x[i] * 2.0
        for i in 0..N:
            y[i] = t[i] + 1.0
"""


@pytest.mark.parametrize("target", [GPU, CPU])
def test_vertical_fusion_contracts_the_temporary(target: Target) -> None:
    planned = plan(CHAIN, target)
    assert planned.verdict.answer == "proved"
    assert len(planned.tree.launches) == 1
    assert homes(planned) == {"t": "register"}
    assert decisions(planned) == [(("L1", "L2"), True, (0,))]


def test_fuel_stops_fusion() -> None:
    planned = plan(CHAIN, fuel=0)
    assert len(planned.tree.launches) == 2
    assert homes(planned) == {"t": "global"}
    assert not planned.plan.decisions[0].fused


def test_shift() -> None:
    planned = plan("""
        kernel f(x: f32[N], out a: f32[N], out b: f32[N]):
            for i in 0..N:
                a[i] = x[i] * 2.0
            for i in 0..N-1:
                b[i] = a[i+1] + 1.0
    """)
    assert decisions(planned) == [(("L1", "L2"), True, (1,))]
    assert planned.verdict.answer == "proved"
    assert "1 behind" in planned.plan.decisions[0].reason


def test_permutation_and_reversal() -> None:
    planned = plan("""
        kernel f(x: f32[N, M], out y: f32[M, N]):
            temp t: f32[N, M]
            for i in 0..N, j in 0..M:
                t[i, j] = x[i, j] * 2.0
            for p in 0..M, q in 0..N:
                y[p, q] = t[q, M-1-p]
    """)
    assert len(planned.tree.launches) == 1
    assert homes(planned) == {"t": "register"}
    assert "reversed" in planned.plan.decisions[0].reason
    assert "interchanged" in planned.plan.decisions[0].reason


def test_recomputation_of_a_stencil_producer() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N]):
            temp t: f32[N]
            for i in 0..N:
                t[i] = x[i] * x[i]
            for i in 0..N:
                y[i] = t.clamp[i-1] + t.clamp[i+1]
    """, tuning=NO_WINDOWS)
    assert len(planned.tree.launches) == 1
    assert homes(planned) == {"t": "register"}
    assert planned.plan.decisions[0].fused
    assert "computed again" in planned.plan.decisions[0].reason


def test_a_producer_that_is_live_out_is_stored_and_recomputed() -> None:
    planned = plan("""
        kernel f(x: f32[N], out t: f32[N], out y: f32[N]):
            for i in 0..N:
                t[i] = x[i] * x[i]
            for i in 0..N:
                y[i] = t.clamp[i-1] + t.clamp[i+1]
    """)
    assert planned.verdict.answer == "proved"
    assert len(planned.tree.launches) == 1


@pytest.mark.parametrize("target", [GPU, CPU])
def test_one_value_of_a_loop_is_computed_anew_and_not_stored(target: Target) -> None:
    """Its neighbour in the loop is needed in memory, and kept it there too."""
    planned = plan((CASES / "fuzz_mirrored_two_ways.lf").read_text(), target, tuning=NO_WINDOWS)
    assert planned.verdict.answer == "proved"
    assert ("L1", "L2") in {decision.between for decision in planned.plan.decisions if decision.fused}
    stored = {buffer.array for buffer in planned.tree.buffers if isinstance(buffer.home, Global)}
    assert "t2" in stored and "t1" not in stored


def test_horizontal_fusion_over_a_shared_operand() -> None:
    planned = plan("""
        kernel f(x: f32[N, M], out y: f32[N, M], out z: f32[M, N]):
            for i in 0..N, j in 0..M:
                y[i, j] = x[i, j] + 1.0
            for i in 0..M, j in 0..N:
                z[i, j] = x[j, i] * 2.0
    """)
    assert len(planned.tree.launches) == 1


def test_several_consumers() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N], out z: f32[N]):
            temp t: f32[N]
            for i in 0..N:
                t[i] = x[i] * 2.0
            for i in 0..N:
                y[i] = t[i] + 1.0
            for i in 0..N:
                z[i] = t[i] - 1.0
    """)
    assert len(planned.tree.launches) == 1
    assert homes(planned) == {"t": "register"}


def test_peeled_bounds() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N]):
            for i in 0..N:
                y[i] = 0.0
            for i in 1..N-1:
                y[i] = x[i-1] + x[i+1]
    """)
    assert len(planned.tree.launches) == 1
    assert planned.verdict.answer == "proved"


def test_overwritten_input_is_refused_with_witness_and_remedy() -> None:
    planned = plan("""
        kernel f(inout a: f32[N], out b: f32[N]):
            for i in 1..N-1:
                b[i] = a[i-1] + a[i+1]
            for i in 0..N:
                a[i] = b[i]
    """)
    decision = planned.plan.decisions[0]
    assert not decision.fused
    assert decision.between == ("L1", "L2")
    assert decision.witness is not None
    assert decision.witness.array == "a"
    source = dict(decision.witness.source.iteration)["i"]
    sink = dict(decision.witness.sink.iteration)["i"]
    assert abs(source - sink) == 1
    assert decision.witness.element == (sink,)
    assert decision.remedy == "let L2 write a new array instead of `a`"
    changed = plan("""
        kernel f(a: f32[N], out b: f32[N], out c: f32[N]):
            for i in 1..N-1:
                b[i] = a[i-1] + a[i+1]
            for i in 0..N:
                c[i] = b[i]
    """)
    assert changed.plan.decisions[0].fused  # the remedy helps


def test_a_reduction_must_be_complete() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N]):
            let s = sum(i in 0..N: x[i])
            for i in 0..N:
                y[i] = x[i] / s
    """)
    assert not planned.plan.decisions[-1].fused
    assert planned.verdict.answer == "proved"


def test_whole_reductions_share_a_pass() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[3]):
            let s = sum(i in 0..N: x[i])
            let q = sum(i in 0..N: x[i] * x[i])
            let m = max(i in 0..N: x[i])
            y[0] = s
            y[1] = q
            y[2] = m
    """)
    assert len(planned.tree.launches) == 2
    assert planned.report.reassociated == ("s", "q")
    strict = plan("""
        kernel f(x: f32[N], out y: f32[1]):
            y[0] = sum(i in 0..N: x[i])
    """, reassociate=False)
    assert strict.report.reassociated == ()


def test_distribution_makes_a_separable_statement_parallel() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N], inout s: f32[N]):
            for i in 1..N:
                y[i] = x[i] * 2.0
                s[i] = s[i-1] * s[i-1] + x[i]
    """)
    kinds = {item.legality.value for item in planned.plan.items}  # type: ignore[union-attr]
    assert kinds == {"map", "serial"}
    assert planned.verdict.answer == "proved"


def test_time_loop_is_run_by_the_host() -> None:
    planned = plan("""
        kernel f(inout a: f32[N], inout b: f32[N], steps: i64):
            for t in 0..steps:
                for i in 1..N-1:
                    b[i] = a[i-1] + a[i+1]
                for i in 1..N-1:
                    a[i] = b[i-1] + b[i+1]
    """, tuning=NO_WINDOWS)
    assert planned.report.launches_after == "2*steps"
    decision = planned.plan.decisions[0]
    assert decision.between == ("L1.1", "L1.2")
    assert "elements of `b` that it does not write are read too" in decision.reason


@pytest.mark.parametrize("step", [1, 2])
def test_host_loop_that_counts_down(step: int) -> None:
    planned = plan(f"""
        kernel f(inout a: f32[T, N]):
            for t in T-3..-1 step -{step}:
                for i in 1..N-1:
                    a[t, i] = a[t+{step}, i-1] + a[t+{step}, i+1]
    """)
    assert planned.verdict.answer == "proved"
    assert planned.report.launches_after != 1


def test_dead_statements_do_not_run() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N]):
            temp t: f32[N]
            temp u: f32[N]
            for i in 0..N:
                t[i] = x[i] * 2.0
            for i in 0..N:
                u[i] = t[i] + 1.0
            for i in 0..N:
                y[i] = t[i]
    """)
    assert "u" not in {b.array for b in planned.tree.buffers}


def test_a_temporary_used_twice_is_renamed() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N], out z: f32[N]):
            temp t: f32[N]
            for i in 0..N:
                t[i] = x[i] * 2.0
            for i in 0..N:
                y[i] = t.clamp[i-1] + t.clamp[i+1]
            for i in 0..N:
                t[i] = x[i] + 3.0
            for i in 0..N:
                z[i] = t.clamp[i-1] * t.clamp[i+1]
    """, tuning=NO_WINDOWS)
    assert len(planned.tree.launches) == 1
    assert homes(planned) == {"t": "register"}


def test_nofuse_and_fuse_blocks() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N], out z: f32[N]):
            nofuse:
                for i in 0..N:
                    y[i] = x[i]
                for i in 0..N:
                    z[i] = y[i]
    """)
    assert len(planned.tree.launches) == 2
    assert planned.plan.decisions[0].remedy == "remove the `nofuse:` block"
    with pytest.raises(UserError) as caught:
        plan("""
            kernel f(inout a: f32[N], out b: f32[N]):
                fuse:
                    for i in 0..N:
                        b[i] = a[N-1-i] + a[i]
                    for i in 0..N:
                        a[i] = b[i] * 2.0
        """)
    assert caught.value.diagnostics[0].code == "cannot-fuse"


def test_parallel_for_that_is_not() -> None:
    with pytest.raises(UserError) as caught:
        plan("""
            kernel f(inout x: f32[N]):
                parallel for i in 1..N:
                    x[i] += x[i-1]
        """)
    diagnostic = caught.value.diagnostics[0]
    assert diagnostic.code == "not-parallel"
    assert "writes `x[" in diagnostic.notes[0]


def test_cost_declines_and_says_so() -> None:
    planned = plan("""
        kernel f(x: f32[R, C], out y: f32[R, C], out z: f32[R]):
            for r in 0..R, c in 0..C:
                y[r, c] = exp(x[r, c])
            for r in 0..R:
                z[r] = sum(c in 0..C: y[r, C - 1 - c])
    """)
    decision = planned.plan.decisions[0]
    assert not decision.fused
    assert "slower" in decision.reason
    assert decision.remedy == "wrap both loops in a `fuse:` block"


def test_interior_of_a_cpu_row_has_no_edge_arithmetic() -> None:
    from loopfuse.tree.printer import print_tree

    planned = plan("""
        kernel f(x: f32[H, W], out y: f32[H, W]):
            for i in 0..H, j in 0..W:
                y[i, j] = x.clamp[i, j-1] + x.clamp[i, j+1]
    """, CPU)
    assert planned.verdict.answer == "proved"
    text = print_tree(planned.tree)
    interior = [line for line in text.splitlines() if "S1[" in line and "max(" not in line]
    assert any("min(" not in line for line in interior)
    assert text.count("S1[") == 3


def test_one_result_in_all_beside_one_per_row() -> None:
    planned = plan("""
        kernel f(x: f32[R, C], inout total: f32[1], inout s: f32[R]):
            for r in 0..R, c in 0..C:
                total[0] += x[r, c]
                s[r] += x[r, c]
    """)
    assert planned.verdict.answer == "proved"
    kinds = {item.legality.value for item in planned.plan.items}  # type: ignore[union-attr]
    assert kinds == {"map", "combine"}


def test_a_parameter_only_scalar_costs_no_launch() -> None:
    planned = plan("""
        kernel f(x: f32[N], out y: f32[N]):
            let scale = 1.0 / f32(N)
            for i in 0..N:
                y[i] = x[i] * scale
    """)
    assert len(planned.tree.launches) == 1


def test_results_stored_between_reductions_share_one_pass() -> None:
    planned = plan("""
        kernel f(x: f32[N], out a: f32[1], out b: f32[1]):
            a[0] = sum(i in 0..N: x[i])
            b[0] = max(i in 0..N: x[i])
    """)
    assert len(planned.tree.launches) == 2


@pytest.mark.parametrize("target", [GPU, CPU])
def test_parts_of_a_distributed_loop_share_no_iteration(target: Target) -> None:
    planned = plan("""
        kernel f(a: f32[H, W], inout y: f32[W]):
            for i in 0..H:
                temp line: f32[W]
                for j in 0..W:
                    line[j] = a[i, j] * 2.0
                for j in 0..W:
                    y[j] += line[W-1-j]
    """, target)
    assert planned.verdict.answer == "proved"


@pytest.mark.parametrize("target", [GPU, CPU])
def test_loops_of_one_iteration_are_paired(target: Target) -> None:
    """Both ends of a dependence have one iteration only: the same, or so far apart."""
    planned = plan(
        """
        kernel f(inout a: f64[4, N], inout b: f64[4, N], out y: f64[4, N]):
            for t in 1..2, i in 0..N:
                b[t, i] = 2.0 * a[t, i]
            for i in 0..N, t in 1..2:
                y[t, i] = b[t, i] + 1.0
            for t in 2..3, i in 0..N:
                a[t, i] = b[t - 1, i] + y[t - 1, i]
        """,
        target,
    )
    assert planned.verdict.answer == "proved"
    assert {launch.loops for launch in planned.tree.launches} == {("L1", "L2", "L3")}


def test_a_part_that_is_overwritten_at_one_place_is_no_reason() -> None:
    planned = plan(
        """
        kernel f(a: f64[N], out b: f64[N], out y: f64[N]):
            for i in 0..N:
                b[i] = 2.0 * a[i]
            for i in 0..N:
                if i < 1:
                    b[i] = 1.0
            for i in 0..N:
                y[i] = b[i]
        """
    )
    assert len(planned.tree.launches) == 1


def test_a_reason_in_one_iteration_does_not_speak_of_another() -> None:
    """What keeps these apart is `b`, read in reverse; the witness that is shown is of `c`."""
    planned = plan(
        """
        kernel f(inout a: f64[N], out b: f64[N], out c: f64[N]):
            for i in 0..N-1:
                b[i] = 2.0*a[i]
                c[i] = 3.0*a[i]
            for i in 0..N-1:
                a[i] = c[i] + b[N - 1 - i]
        """,
        CPU,
    )
    apart = next(d for d in planned.plan.decisions if not d.fused)
    assert apart.witness is not None
    assert apart.witness.source.iteration == apart.witness.sink.iteration
    assert "another iteration" not in apart.reason
    assert apart.reason.startswith("L2 reads `c[0]` in the iteration in which L1 writes it")


def test_no_remedy_that_the_next_iteration_would_undo() -> None:
    """Each step reads what the last one wrote: written elsewhere, it would not find it."""
    planned = plan(
        """
        kernel f(inout a: f64[N], out b: f64[N], steps: i64):
            for t in 0..steps:
                for i in 1..N-1:
                    b[i] = a[i-1] + a[i+1]
                for i in 1..N-1:
                    a[i] = b[N-1-i] + b[i]
        """,
        CPU,
    )
    assert [d.remedy for d in planned.plan.decisions if d.between == ("L1.1", "L1.2")] == [None]


OWN_VALUES = {
    "a range of one": """
        kernel k(inout a: f32[N], inout b: f32[N]):
            for i in 0..1:
                b[i] = 2.0*a[i]
            for i in 0..1:
                a[i] = b[i] + 1.0
        """,
    "overwritten here and there": """
        kernel k(x: f32[N], c: f32[N], inout t: f32[N], out y: f32[N]):
            for i in 0..N:
                t[i] = x[i]
            for i in 0..N:
                if c[i] > 0.5:
                    t[i] = 2.0
            for i in 0..N:
                y[i] = t[i]
        """,
}


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda one: one.name)
@pytest.mark.parametrize("name", OWN_VALUES)
def test_own_values_alone_are_the_reason(name: str, target: Target) -> None:
    planned = plan(OWN_VALUES[name], target)
    assert len(planned.report.kernels) == 1
    assert {(one.fused, one.reason, one.remedy) for one in planned.report.decisions} == {
        (True, "no shift: each iteration needs only its own values", None)
    }


@pytest.mark.parametrize("name", ["harris", "lattice_boltzmann", "group_norm"])
@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda one: one.name)
def test_plans_of_examples_are_dumped_in_short_lines(name: str, target: Target) -> None:
    path = Path(__file__).parents[2] / "examples" / f"{name}.lf"
    program = pipeline.read_program(Source(path.name, path.read_text()))
    lines: list[str] = []
    run = pipeline.Run(dump=("fuse",), write=lines.append)
    pipeline.plan_kernel(program, program.kernels[0].name, Options(target=target), run)
    assert len(lines) == 1 and max(map(len, lines[0].splitlines())) < 400


def test_a_plan_is_dumped_in_short_lines() -> None:
    lines: list[str] = []
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(CHAIN)))
    run = pipeline.Run(dump=("fuse",), write=lines.append)
    pipeline.plan_kernel(program, "f", Options(target=CPU), run)
    assert lines[0].splitlines()[:2] == ["== fuse", "map g0: L1 L2"]
    assert lines[0].splitlines()[2].startswith("L1 + L2 fused: no shift")
    assert max(len(line) for line in lines[0].splitlines()) < 300


def test_what_changes_places_is_not_computed_anew() -> None:
    """By the name that it was filled under another array is read then."""
    report = plan((CASES / "swap_filled.lf").read_text(), CPU).report
    assert [kernel.loops for kernel in report.kernels] == [("L1", "L2"), ("L3",)]
    (reason,) = [one.reason for one in report.decisions if one.reason and "by a swap" in one.reason]
    assert "`low` cannot be recomputed there: it is read in turns with another array, by a swap" in reason
