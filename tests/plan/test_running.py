"""Reductions in one pass with the sums that depend on them (`tree.rewrite.running`): which pairs of passes are one, what they compute of hard
data, and what is no such pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, parse_target
from loopfuse.explain.text import render_text
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Running
from loopfuse.tree.rewrite.running import erase
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_running import EXPONENTIALS, VARIANCE, small_teams

GPU = Target("sm_90")
Array = np.ndarray[Any, Any]
HEAD = "kernel f(x: f32[R, C], w: f32[C], out z: f32[R], out y: f32[R, C]):\n    for r in 0..R:\n"


def plan(text: str, target: Target = GPU, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    return pipeline.plan_kernel(program, "f", Options(target=target, **options))


def one_pass(planned: pipeline.Planned) -> list[Running]:
    return [node for launch in planned.tree.launches for node in walk_nodes(launch.body) if isinstance(node, Running)]


def plain(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return random.standard_normal(shape).astype(np.float32)


def ascending(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.sort(plain(random, shape), axis=-1) * np.float32(100)


def far(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return plain(random, shape) + np.float32(1e4)


def one_is_far(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    found = plain(random, shape)
    found[..., 0] = 1e4
    return found


def nothing_at_first(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    found = plain(random, shape)
    found[..., : shape[-1] * 2 // 3] = -np.inf
    return found


def nothing_at_all(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.full(shape, -np.inf, np.float32)


def one_infinite(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    found = plain(random, shape)
    found[..., shape[-1] // 2] = np.inf
    return found


def one_nan(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    found = plain(random, shape)
    found[..., shape[-1] // 2] = np.nan
    return found


HARD = [plain, ascending, far, one_is_far, nothing_at_first, nothing_at_all, one_infinite, one_nan]


@pytest.mark.parametrize("hard", HARD)
def test_exponentials(hard: Callable[..., Array]) -> None:
    x = hard(np.random.default_rng(1), (2, 201))
    with small_teams():
        planned = plan(EXPONENTIALS)
    assert planned.verdict.answer == "proved" and one_pass(planned)
    z, w = np.zeros(2, np.float32), np.zeros(2, np.float32)
    run_tree(planned.tree, {"x": x, "z": z, "w": w}, {"R": 2, "C": 201})
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        top = wide.max(1, keepdims=True)
        terms = np.exp(wide - top)
        exact = top[:, 0] + np.log(terms.sum(1)), (terms * wide).sum(1) / terms.sum(1)
    for found, wanted in zip((z, w), exact, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("hard", HARD)
def test_variance(hard: Callable[..., Array]) -> None:
    """No worse than two passes, each of which adds up in pairs."""
    x = hard(np.random.default_rng(2), (2, 9, 70))
    with small_teams():
        planned = plan(VARIANCE)
    assert planned.verdict.answer == "proved" and one_pass(planned)
    y = np.zeros(2, np.float32)
    run_tree(planned.tree, {"x": x, "y": y}, {"N": 2, "D": 9, "P": 70})
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        exact = ((wide - wide.mean((1, 2), keepdims=True)) ** 2).sum((1, 2))
        twice = ((x - x.mean((1, 2), keepdims=True)) ** 2).sum((1, 2))
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(exact))
    if np.isfinite(exact).all():
        assert np.abs(y / exact - 1).max() <= 3 * max(np.abs(twice / exact - 1).max(), 1e-6)


def test_rows_of_no_places() -> None:
    """A sum of nothing is 0, whatever it depends on."""
    with small_teams():
        planned = plan(EXPONENTIALS.replace("z[r] = top + log(total)", "z[r] = total"))
    z, w = np.ones(2, np.float32), np.ones(2, np.float32)
    run_tree(planned.tree, {"x": np.zeros((2, 0), np.float32), "z": z, "w": w}, {"R": 2, "C": 0})
    assert (z == 0).all()


def test_reports_say_by_which_algebra() -> None:
    least = EXPONENTIALS.replace("max(", "min(").replace("x[r, c] - top", "top - x[r, c]")
    for text, wanted in (
        (EXPONENTIALS, "max then sum(exp): one pass by the factor exp(top_old - top_new)"),
        (least, "min then sum(exp): one pass by the factor exp(top_new - top_old)"),
        (VARIANCE, "sum then sum of squares: one pass about each thread's mean, brought to mean"),
    ):
        report = plan(text).report
        assert report.algebra == (wanted,)
        assert wanted in " ".join(render_text(report).split())


def test_the_program_keeps_its_order() -> None:
    for text in (EXPONENTIALS, VARIANCE):
        assert not one_pass(plan(text, reassociate=False)) and not one_pass(plan(text, CPU))


@pytest.mark.parametrize("fp", ["fast", "native"])
def test_other_exponentials(fp: str) -> None:
    """By a positive number, by another base, times and over what does not depend on the greatest."""
    for term in ("exp((x[r, c] - m) * 0.5)", "exp2(x[r, c] - m) * w[c]", "-exp(x[r, c] - m) / w[c]"):
        assert one_pass(plan(f"{HEAD}        let m = max(c in 0..C: x[r, c])\n        z[r] = sum(c in 0..C: {term})\n", fp=fp)), term


@pytest.mark.parametrize(
    "m, term",
    [
        ("max(c in 0..C: x[r, c])", "exp(x[r, c] - 2.0 * m)"),
        ("max(c in 0..C: x[r, c])", "exp((x[r, c] - m) * -0.5)"),
        ("max(c in 0..C: x[r, c])", "exp(m - x[r, c])"),
        ("max(c in 0..C: x[r, c])", "exp(w[c] - m)"),
        ("max(c in 0..C: x[r, c])", "exp(x[r, c] - m) * m"),
        ("max(c in 0..C: x[r, c])", "exp(x[r, c] - m) + m"),
        ("max(c in 0..C: x[r, c])", "(x[r, c] - m) ** 2"),
        ("sum(c in 0..C: x[r, c])", "exp(x[r, c] - m)"),
        ("sum(c in 0..C: x[r, c]) / C", "(w[c] - m) ** 2"),
        ("sum(c in 0..C: x[r, c]) / C", "(x[r, c] - m) ** 3"),
        ("sum(c in 0..C: x[r, c]) / C", "w[c] * (x[r, c] - m) ** 2"),
        ("max(c in 1..C: x[r, c])", "exp(x[r, c] - m)"),
    ],
)
@pytest.mark.filterwarnings("ignore:warning.never-used")
def test_others(m: str, term: str) -> None:
    """What cannot be corrected, or might be of numbers that are too large, is two passes."""
    planned = plan(f"{HEAD}        let m = {m}\n        z[r] = sum(c in 0..C: {term})\n")
    assert planned.verdict.answer == "proved" and not one_pass(planned)


def test_two_passes_are_what_the_checker_sees() -> None:
    tree = plan(VARIANCE, parse_target("sm_80")).tree
    assert not any(isinstance(node, Running) for launch in erase(tree).launches for node in walk_nodes(launch.body))
