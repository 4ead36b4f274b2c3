"""Threads that go along a loop of their own: their loads run ahead, and small arrays of theirs are registers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.explain.text import home_text
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Load
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Arrive, Copy, Global, Loop, Register, Shared
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite import prefetch
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_prefetch import RECURRENCE

HEAD = "kernel f(a: f32[B, T, D], w: f32[T], i: i32[B, T, D], inout s: f32[B, D], out y: f32[B, T, D]):\n"


@functools.cache
def planned(text: str, target: str = "sm_90") -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    made = pipeline.plan_kernel(program, "f", Options(target=CPU if target == "cpu" else Target(target)))
    assert made.verdict.answer == "proved", made.verdict
    return made


def runs_ahead(made: pipeline.Planned) -> set[str]:
    """The arrays that several elements are asked for of before they are needed: copies that come late, and into registers."""
    names = {buffer.name: buffer for buffer in made.tree.buffers}
    copies = (node for launch in made.tree.launches for node in walk_nodes(launch.body) if isinstance(node, Copy))
    return {
        copy.value.array
        for copy in copies
        if names[copy.target.array].extents and isinstance(copy.value, Load) and isinstance(names[copy.value.array].home, Global)
    }


def comes_late(made: pipeline.Planned) -> bool:
    return any(isinstance(node, Arrive) for launch in made.tree.launches for node in walk_nodes(launch.body))


RUNNING = """    for n in 0..B, d in 0..D:
        var h: f32 = s[n, d]
        for t in 0..T:
            h = {value}
            y[n, t, d] = h
"""
TARGETS = ("sm_90", "gfx942")
"""With late copies, and without."""
AHEAD = {
    "a product": ("0.5 * h + a[n, t, d]", {"a"}),
    "the element before": ("0.5 * h + a[n, max(t - 1, 0), d]", {"a"}),
    "what all threads read": ("0.5 * h + a[n, t, d] * w[t]", {"a"}),
    "either way of a condition": ("a[n, t, d] if h > 0.0 else -h", set[str]()),
    "the condition": ("h * 0.5 if a[n, t, d] > 0.0 else -h", {"a"}),
    "a place that data say": ("h + a[n, min(max(i[n, t, d], 0), T - 1), d]", {"i"}),
    "one place all the way": ("h + a[n, 3, d] if T > 3 else h", set[str]()),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", AHEAD)
def test_what_each_iteration_loads_whatever_the_data_are_runs_ahead(name: str, target: str) -> None:
    value, arrays = AHEAD[name]
    made = planned(HEAD + RUNNING.format(value=value), target)
    assert runs_ahead(made) == arrays
    assert comes_late(made) == (target == "sm_90" and bool(arrays))


NOT_AHEAD = {
    "what the loop writes": """    for n in 0..B, d in 0..D:
        for t in 1..T:
            y[n, t, d] = 0.5 * y[n, t - 1, d] + 1.0
""",
    "along neighbours in memory": """    for n in 0..B, t in 0..T:
        var h: f32 = 0.0
        for d in 0..D:
            h = 0.5 * h * h + a[n, t, d]
            y[n, t, d] = h
""",
    "under a condition": """    for n in 0..B, d in 0..D:
        var h: f32 = s[n, d]
        for t in 0..T:
            if h < 1.0:
                h = 0.5 * h + a[n, t, d]
            y[n, t, d] = h
""",
    "few iterations": """    for n in 0..B, d in 0..D:
        var h: f32 = s[n, d]
        for t in 0..7:
            h = 0.5 * h + a[n, t, d]
            y[n, t, d] = h
""",
    "long work of each iteration": """    for n in 0..B, d in 0..D:
        var h: f32 = s[n, d]
        for t in 0..T:
            h = 0.5 * h + a[n, t, d]
            for u in 0..T:
                h = h * w[u]
            y[n, t, d] = h
""",
    "nothing stored on the way": """    for n in 0..B, d in 0..D:
        var h: f32 = s[n, d]
        for t in 0..T:
            h = 0.5 * h + a[n, t, d]
        s[n, d] = h
""",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NOT_AHEAD)
def test_nothing_else_runs_ahead(name: str, target: str) -> None:
    assert runs_ahead(planned(HEAD + NOT_AHEAD[name], target)) == set()


def test_registers_under_way_are_counted() -> None:
    """Wide elements, several arrays and a thread's own array leave fewer iterations ahead."""

    def count(made: pipeline.Planned) -> int:
        (extent,) = {b.extents for b in made.tree.buffers if "_ahead" in b.name}
        return int(str(getattr(extent[0], "value", 0)))

    one = HEAD + RUNNING.format(value="0.5 * h + a[n, t, d]")
    assert count(planned(one, "gfx942")) == prefetch.LONGEST == 32
    assert count(planned(RECURRENCE, "gfx942")) == 16
    assert count(planned(RECURRENCE.replace("f32", "f64"), "gfx942")) == 8
    many = RECURRENCE.replace("f32[2]", "f32[30]").replace("0..2", "0..30").replace("f32", "f64")
    assert not runs_ahead(planned(many, "gfx942"))


def test_bytes_of_rings_are_counted() -> None:
    """Fewer parts for wide elements and several arrays; none where too few would fit, or for elements of 2 bytes."""

    def parts(text: str) -> list[int]:
        return [b.home.rows for b in planned(text).tree.buffers if isinstance(b.home, Shared)]

    assert parts(HEAD + RUNNING.format(value="0.5 * h + a[n, t, d]")) == [prefetch.PARTS] == [8]
    assert parts(RECURRENCE) == [8, 8]
    assert parts(RECURRENCE.replace("f32", "f64")) == [4, 4]
    three = RECURRENCE.replace("w: f32[2]", "c: f32[B, T, D], w: f32[2]").replace("* b[n", "* c[n, t, d] * b[n")
    assert parts(three) == [4, 4, 4]
    assert parts(three.replace("f32", "f64")) == []
    halves = RECURRENCE.replace("f32[B", "f16[B").replace("out y: f16", "out y: f32").replace("+ a[n, t, d]", "+ f32(a[n, t, d])")
    halves = halves.replace("* b[n, t, d]", "* f32(b[n, t, d])")
    assert parts(halves) == [] and runs_ahead(planned(halves)) == {"a", "b"}


OFF_LINES = {
    "rows that are known to be no whole lines": HEAD.replace("D]", "33]") + RUNNING.replace("0..D", "0..33"),
    "from the second element on": HEAD + RUNNING.replace("0..D", "1..D"),
}


@pytest.mark.parametrize("name", OFF_LINES)
def test_what_begins_beside_a_line_of_memory_does_not_come_late(name: str) -> None:
    made = planned(OFF_LINES[name].format(value="0.5 * h + a[n, t, d]"))
    assert runs_ahead(made) == {"a"} and not comes_late(made)


CARRIED = """kernel f(a: f32[B, T, D], inout y: f32[B, T, D]):
    for n in 0..B, d in 0..D:
        for t in {first}..T:
            y[n, t, d] = {value} + a[n, t, d]
"""
ONE_BEFORE = {
    "always": (1, "0.5 * y[n, t - 1, d]", True),
    "behind the first": (0, "(0.5 * y[n, t - 1, d] if t > 0 else 2.0)", True),
    "from the third on": (0, "(0.5 * y[n, t - 1, d] if t > 2 else 2.0)", True),
    "twice": (1, "y[n, t - 1, d] * y[n, t - 1, d]", True),
    "under different conditions": (0, "(y[n, t-1, d] if t > 0 else 2.0) * (y[n, t-1, d] if t > 1 else 3.0)", False),
    "as data say": (1, "(y[n, t - 1, d] if a[n, t, d] > 0.0 else 2.0)", False),
    "two before": (2, "0.5 * y[n, t - 1, d] + 0.25 * y[n, t - 2, d]", False),
}


@pytest.mark.parametrize("name", ONE_BEFORE)
def test_what_the_iteration_before_wrote_stays_in_a_register(name: str) -> None:
    """Where something else is read of what the loop writes, loads run ahead in registers."""
    first, value, is_carried = ONE_BEFORE[name]
    made = planned(CARRIED.format(first=first, value=value))
    assert runs_ahead(made) == {"a"} and comes_late(made) == is_carried
    for steps, width in ((0, 32), (1, 32), (2, 32), (3, 32), (16, 32), (40, 32), (40, 3)):
        rng = np.random.default_rng(steps)
        arrays: dict[str, Any] = {name: rng.random((1, steps, width), np.float32) for name in ("a", "y")}
        sizes = {"B": 1, "T": steps, "D": width}
        right = interpret(made.program.kernel, {k: v.copy() for k, v in arrays.items()}, sizes)
        run_tree(made.tree, arrays, sizes, order="shuffled")
        np.testing.assert_array_equal(arrays["y"], right["y"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17, 31, 32, 33, 48, 53, 128, 150])
def test_any_number_of_iterations(steps: int, target: str) -> None:
    made = planned(RECURRENCE, target)
    rng, width = np.random.default_rng(steps), 32 if target == "sm_90" else 3  # whole lines come late
    arrays: dict[str, Any] = {name: rng.random((2, steps, width), np.float32) for name in ("a", "b")}
    arrays["w"] = rng.random(2, np.float32)
    arrays["y"] = np.full((2, steps, width), np.nan, np.float32)
    sizes = {"B": 2, "T": steps, "D": width}
    right = interpret(made.program.kernel, arrays, sizes)
    run_tree(made.tree, arrays, sizes, order="reverse")
    np.testing.assert_array_equal(arrays["y"], right["y"])


@pytest.mark.parametrize("first, steps", [(1, 0), (1, 1), (1, 70), (3, 2), (3, 90)])
def test_loops_that_start_later(first: int, steps: int) -> None:
    """`1..T` has fewer iterations than none where T is 0."""
    text = f"""kernel f(a: f32[B, T, D], inout y: f32[B, T, D]):
    for n in 0..B:
        for t in {first}..T, d in 0..D:
            y[n, t, d] = 0.5 * y[n, t - 1, d] + a[n, t, d]
"""
    made = planned(text)
    assert not made.used and runs_ahead(made) == {"a"}
    random = np.random.default_rng(steps)
    a, y = (random.standard_normal((1, steps, 3)).astype(np.float32) for _ in range(2))
    wanted, found = y.copy(), {"a": a, "y": y}
    for t in range(first, steps):
        wanted[:, t] = np.float32(0.5) * wanted[:, t - 1] + a[:, t]
    run_tree(made.tree, found, {"B": 1, "T": steps, "D": 3})
    np.testing.assert_allclose(found["y"], wanted, rtol=1e-5, atol=1e-6)


def test_an_array_of_each_thread_is_registers() -> None:
    made = planned(RECURRENCE)
    (own,) = (buffer for buffer in made.tree.buffers if buffer.name == "h")
    assert isinstance(own.home, Register) and len(own.extents) == 1
    for launch in made.tree.launches:
        for node in walk_nodes(launch.body):
            if isinstance(node, Loop) and any(s in node.var for s in ("s", "u")):
                assert node.mapping is Where.UNROLLED, node.var
    (kernel,) = made.report.kernels
    assert dict(kernel.homes)["h"] == "register(2)"


def test_a_register_is_said_as_one() -> None:
    assert home_text("register(1)") == "one register" and home_text("register(4)") == "4 registers"


ELSEWHERE = {
    "too many": RECURRENCE.replace("f32[2]", "f32[33]").replace("0..2", "0..33"),
    "a place that data say": RECURRENCE.replace("h[0] - h[1]", "h[t % 2] - h[1]"),
    "a length that is not known": RECURRENCE.replace("f32[2]", "f32[T]").replace("0..2", "0..min(T, 2)"),
    "another thread's": """
kernel f(a: f32[B, D], out y: f32[B, D]):
    temp h: f32[4]
    for n in 0..4:
        h[n] = a[0, 0] * f32(n)
    for n in 0..B, d in 0..D:
        y[n, d] = a[n, d] + h[d % 4]
""",
}  # fmt: skip


@pytest.mark.parametrize("name", ELSEWHERE)
def test_arrays_that_stay_in_memory(name: str) -> None:
    assert not any(isinstance(b.home, Register) and b.name == "h" for b in planned(ELSEWHERE[name]).tree.buffers)


def test_a_cpu_has_its_stack() -> None:
    assert not any(isinstance(b.home, Register) and b.extents for b in planned(RECURRENCE, "cpu").tree.buffers)
