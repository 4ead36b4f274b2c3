"""Loops join over the loops that they share; where that keeps later ones from joining over more, they stay apart if that is faster."""

from __future__ import annotations

from pathlib import Path

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options
from loopfuse.tree.looptree import Register

BATCH_NORM = (Path(__file__).parents[2] / "examples" / "batchnorm_relu_add.lf").read_text()
SHARED = """
kernel shared(x: f32[C, W], v: f32[C], out y: f32[C, W]):
    temp s: f32[C]
    for c in 0..C:
        s[c] = 1.0 / sqrt(v[c])
    for c in 0..C, w in 0..W:
        y[c, w] = s[c] * x[c, w]
"""


def planned(text: str, fuel: int | None = None) -> pipeline.Planned:
    program = pipeline.read_program(Source("k.lf", text))
    return pipeline.plan_kernel(program, program.kernels[0].name, Options(target=CPU, fuel=fuel))


def test_later_loops_stay_together() -> None:
    """The three large loops are one, with nothing in memory between them, and the small one is a launch of its own."""
    tree = planned(BATCH_NORM).tree
    assert [set(launch.loops) for launch in tree.launches] == [{"L1"}, {"L2", "L3", "L4"}]
    assert {tree.buffer(name).home for name in ("normal", "positive")} == {Register()}
    report = " ".join(str(loopfuse.loads(BATCH_NORM, target="cpu").explain()).split())  # pyright: ignore
    assert "7 passes over memory -> 3" in report and "as one kernel they keep their other loops apart" in report


def test_loops_join_where_nothing_is_kept_apart() -> None:
    assert len(planned(SHARED).tree.launches) == 1


def test_with_so_many_fusions_the_first_ones_are_made() -> None:
    assert [set(launch.loops) for launch in planned(BATCH_NORM, 1).tree.launches] == [{"L1", "L2"}, {"L3"}, {"L4"}]
