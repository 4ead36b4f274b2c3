"""Loops over borders: which run with the rest of their array, what they write together, and why others
run apart."""

from __future__ import annotations

import textwrap
from pathlib import Path
from unittest.mock import patch

import pytest
from fuzz.machines import without_proofs

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.machine import machine_of
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.lang.nodes import Expr, Symbol, combine, integer
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.fusion.decisions import Decisions
from loopfuse.plan.strategies.sliding import strategy
from loopfuse.plan.strategies.sliding.strategy import windows_of
from loopfuse.plan.strategies.sliding.windows.records import Pipeline
from loopfuse.plan.strategies.sliding.windows.regions import as_one_box, is_all
from loopfuse.plan.units.groups import Group, single_group
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.walk import walk_nodes
from tests.window_kernels import assembled, bytes_moved, compiled

pytestmark = pytest.mark.usefixtures("launches_apart")

CASES = Path(__file__).parents[1] / "cases"
SM90 = Target("sm_90")

TWICE = (CASES / "window_borders.lf").read_text()
READ = (CASES / "window_borders_read.lf").read_text()


def planned(
    text: str, kernel: str = "f", target: Target = SM90, tuning: Tuning | None = None
) -> pipeline.Planned:
    """The plan, not proved: cases are."""
    program = pipeline.read_program(Source("t.lf", textwrap.dedent(text)))
    with without_proofs():
        return pipeline.plan_kernel(program, kernel, Options(target=target, tuning=tuning or Tuning()))


def windows(found: pipeline.Planned) -> list[Pipeline]:
    return [windowed.pipeline for windowed in windows_of(found.scheduled.fits.values())]


def reasons(found: pipeline.Planned) -> list[str]:
    return [decision.reason for decision in found.plan.decisions]


@pytest.mark.parametrize("kernel", ["smooth_twice", "corners"])
@pytest.mark.parametrize("target", [SM90, CPU], ids=str)
def test_borders_and_the_rest_are_one_launch(kernel: str, target: Target) -> None:
    """The rest, and each border, write one window: only the last of them is a window of its own."""
    found = planned(TWICE, kernel, target)
    assert len(found.tree.launches) == 1 and all(one.fused for one in found.plan.decisions)
    (pipe,) = windows(found)
    made = [stage for stage in pipe.stages if stage.array == "b" and stage.step is not None]
    assert [stage.name for stage in made if not pipe.passes_on(stage)] == [made[-1].name]
    assert {pipe.holder(stage).name for stage in made} == {made[-1].name}
    assert is_all(pipe.region("b"), pipe.program.arrays["b"]) and len(pipe.boxes("b")) == len(made)


def test_a_border_of_its_neighbours_has_a_window_of_its_own() -> None:
    (pipe,) = windows(planned(READ, "from_neighbours"))
    made = [stage for stage in pipe.stages if stage.array == "b" and stage.step is not None]
    # Rows 0 and H-1 read the rest, columns 0 and W-1 read what then is there.
    assert [pipe.passes_on(stage) for stage in made] == [False, False, False, False, False]
    assert [stage.lag for stage in made] == sorted(stage.lag for stage in made)


def test_interiors_pay_nothing_for_borders() -> None:
    """Tiles that meet no border have the code of the stencils alone: as many loads, stores and shuffles as
    without any borders, and no more registers."""
    alone = """
        kernel f(a: f32[H, W], out c: f32[H, W]):
            temp b: f32[H, W]
            for y in 1..H-1, x in 1..W-1:
                b[y, x] = 0.2 * (a[y, x] + a[y-1, x] + a[y+1, x] + a[y, x-1] + a[y, x+1])
            for y in 2..H-2, x in 2..W-2:
                c[y, x] = 0.2 * (b[y, x] + b[y-1, x] + b[y+1, x] + b[y, x-1] + b[y, x+1])
        """
    bare, whole = compiled(alone, "f"), compiled(TWICE, "smooth_twice")
    (one,), (other,) = bare.entries.values(), whole.entries.values()
    registers, spills = assembled(whole.ptx)
    assert max(spills.values()) == 0
    assert max(registers.values()) <= max(assembled(bare.ptx)[0].values()) + 8
    assert bytes_moved(one, "ld").count(16) == bytes_moved(other, "ld").count(16)
    assert "bar.sync" not in other


FACE = """
    kernel f(a: f32[H, W], out c: f32[H, W]):
        assume H >= 3 and W >= 3
        temp b: f32[H, W]
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = a[y-1, x] + a[y+1, x]
        for y in 1..H-1:
            b[y, 0] = a[y, 0]
        for y in 2..H-2, x in 1..W-1:
            c[y, x] = b[y-1, x] + b[y+1, x]
        for y in 1..H-1:
            c[y, 0] = b[y, 0]
    """


def test_borders_that_only_borders_read_stay_with_the_rest() -> None:
    """The stencil reads no b[y, 0]: it is a web of its own, but of the same array."""
    found = planned(FACE)
    assert "b.2" not in found.program.arrays
    assert len(found.tree.launches) == 1


def test_temporaries_used_twice_are_still_two() -> None:
    found = planned("""
        kernel f(a: f32[H, W], out c: f32[H, W], out d: f32[H, W]):
            temp b: f32[H, W]
            for y in 0..H, x in 0..W:
                b[y, x] = 2.0 * a[y, x]
            for y in 0..H, x in 0..W:
                c[y, x] = b[y, x]
            for x in 0..W:
                b[0, x] = 3.0 * a[0, x]
            for x in 0..W:
                d[0, x] = b[0, x]
        """)
    assert "b.2" in found.program.arrays


def test_a_border_that_updates_what_was_there_runs_apart() -> None:
    """A tile beside it may have updated it already."""
    text = """
        kernel f(a: f32[H, W], inout b: f32[H, W], out c: f32[H, W]):
            assume H >= 3 and W >= 3
            for y in 1..H, x in 1..W-1:
                b[y, x] = a[y-1, x] + a[y, x-1]
            for x in 0..W:
                b[0, x] = a[0, x]
            for y in 1..H, x in 1..W:
                c[y, x] = b[y, x] - b[y-1, x-1]
        """
    assert len(planned(text).tree.launches) == 1
    found = planned(text.replace("b[0, x] = a[0, x]", "b[0, x] = b[0, x] + a[0, x]"))
    assert len(found.tree.launches) > 1
    words = "no windows: a loop reads more of `b` than the one before it writes"
    assert any(words in reason for reason in reasons(found)), reasons(found)


def test_reading_what_a_later_border_writes_keeps_loops_apart() -> None:
    """c reads the old b[0, x]: a tile next to it may have written the new one."""
    found = planned("""
        kernel f(a: f32[H, W], inout b: f32[H, W], out c: f32[H, W]):
            assume H >= 3 and W >= 3
            for y in 1..H, x in 0..W:
                b[y, x] = a[y-1, x] + a[y, x]
            for y in 1..H, x in 1..W:
                c[y, x] = b[y, x] - b[y-1, x-1]
            for x in 0..W:
                b[0, x] = a[0, x]
        """)
    assert len(found.tree.launches) > 1
    text = "a loop reads more of `b` than the one before it writes"
    assert any(text in reason for reason in reasons(found)), reasons(found)


def test_a_nofuse_block_keeps_borders_apart() -> None:
    text = textwrap.dedent(FACE)
    fenced = text.replace(
        "    for y in 1..H-1:\n        b[y, 0] = a[y, 0]\n",
        "    nofuse:\n        for y in 1..H-1:\n            b[y, 0] = a[y, 0]\n",
    )
    assert fenced != text and len(planned(fenced).tree.launches) > 1


@pytest.mark.parametrize("kernel", ["from_neighbours", "left_as_it_was"])
def test_lines_are_for_borders_that_complete_their_array(kernel: str) -> None:
    """On the CPU lines are filled by a pass over all of a row: others run as they are written."""
    found = planned(READ, kernel, CPU)
    assert not windows(found) and len(found.tree.launches) > 1
    with patch.object(strategy, "IN_LINES", 1.0):  # (the price of lines declines it)
        assert windows(planned(READ, "one_side", CPU))


# ------------------------------------------------------------------------------- regions


def test_boxes_that_make_up_a_box() -> None:
    program = planned(FACE).program
    array = program.arrays["b"]
    height, width = array.extents
    one = integer(1)

    def less(end: Expr) -> Expr:
        return combine("sub", end, one)

    middle = ((one, less(height)), (one, less(width)))
    top = ((integer(0), one), (integer(0), width))
    bottom = ((less(height), height), (integer(0), width))
    left = ((one, less(height)), (integer(0), one))
    right = ((one, less(height)), (less(width), width))
    every = (middle, top, bottom, left, right)
    (box,) = as_one_box(every, array, program, program.context)
    assert is_all((box,), array) and not is_all((middle,), array)
    part = as_one_box((middle, left), array, program, program.context)
    assert part == (((one, less(height)), (integer(0), less(width))),)
    for missing in range(1, len(every)):
        rest = (*every[:missing], *every[missing + 1 :])
        found = as_one_box(rest, array, program, program.context)
        # Without the first or last row there is a box still, without a column corners stick out.
        assert (len(found) == 1) == (missing < 3), (missing, found)
    data = ((Symbol("K", height.dtype), height), (integer(0), width))
    assert as_one_box((middle, data), array, program, program.context) == (middle, data)


# --------------------------------------------------------------------------------- prices


def unit_costs(program: PolyProgram, found: pipeline.Planned, device: str) -> list[float]:
    cost = CostModel(program, machine_of("sm_90" if device == "gpu" else "cpu"), {})
    scopes = [(placed.unit, item.scope) for item in found.plan.items for placed in item.members]
    return [cost.group(single_group(unit, scope)).bytes for unit, scope in scopes]


def test_a_border_is_priced_by_what_it_touches() -> None:
    """Row 0 of b is 4096 elements, not the 16 million of the array."""
    found = planned(FACE, tuning=Tuning(windows=False))
    moved = unit_costs(found.program, found, "gpu")
    assert min(moved) < 1e5 < 1e8 < max(moved)


def test_threads_that_go_down_columns_are_dear_on_a_cpu() -> None:
    """Without windows, an interior does not run together with a border over columns alone: a worker would
    go down the columns of both."""
    found = planned(TWICE, "smooth_twice", CPU, Tuning(windows=False))
    for item in found.plan.items:
        for placed in item.members:
            if len(placed.unit.common) == 2 and len(item.dims) == 1:
                assert placed.coordinates[0].iterator.startswith("y")


# ----------------------------------------------------------------------------- time steps


def steps_of(found: pipeline.Planned) -> list[int]:
    times = [pipe.group.time for pipe in windows(found)]
    return [time.steps for time in times if time is not None]


@pytest.mark.parametrize(
    ("case", "kernel", "steps"),
    [
        ("time_borders", "fixed", [8, 8, 2, 2]),
        ("time_borders", "copied", [2, 2, 1, 1]),
        ("lines_borders", "ends_kept", [16, 16, 8, 8, 2, 2]),
        ("lines_borders", "ends_copied", [4, 4, 2, 2]),
        ("time_planes_borders", "heat_set", [3, 3]),
        ("time_planes_copied", "heat_copied", [1, 1]),
    ],
)
def test_steps_of_blocks_with_borders(case: str, kernel: str, steps: list[int]) -> None:
    """As many as are proved before a compile takes too long: borders that are copies of their
    neighbours take longest."""
    found = planned((CASES / f"{case}.lf").read_text(), kernel)
    assert steps_of(found)[: len(steps)] == steps


def test_copies_of_whole_arrays_are_read_in_vectors() -> None:
    """Where all of an array is written in each block, no element stays in the array itself: a launch back
    reads the copy alone."""
    found = planned((CASES / "time_borders.lf").read_text(), "fixed")
    back = found.tree.launches[1]
    loads = {
        node.value.array
        for node in walk_nodes(back.body)
        if hasattr(node, "value") and hasattr(node.value, "array")
    }
    assert "a__copy" in loads and "a" not in loads


def test_refusals_between_loops_that_run_together_are_forgotten() -> None:
    """L1 and L2 alone have no windows; with a third loop they have, and one launch."""
    found = planned(TWICE, "smooth_twice")
    (item,) = found.plan.items
    assert isinstance(item, Group)
    log = Decisions()
    first, second = item.units[0], item.units[-1]
    log.decline(first, second, 2.0, 1e-3)
    log.decide(first, second, True, "no shift")
    log.decide(first, first, False, "runs alone")
    log.decide(first, first, False, "runs alone")
    log.forget_apart(found.plan.items, 1)
    assert [one.fused for one in log] == [False, True, False]
    log.forget_apart(found.plan.items, 0)
    assert [(one.fused, one.reason) for one in log] == [(True, "no shift"), (False, "runs alone")]
