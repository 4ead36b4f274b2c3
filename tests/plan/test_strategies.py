"""A strategy from outside: a class, and a line in the registry. It plans, is proved, compiles, is reported and
has choices, and nothing else knows its name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.lang.index import ceil_div
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Iter, combine, integer
from loopfuse.plan import registry
from loopfuse.plan.chosen import find_choices
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, value_at
from loopfuse.plan.mapping.threads import thread_body
from loopfuse.plan.strategies.map_fit import MapFit
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Launch, Loop, TreeNode
from loopfuse.tree.looptree import Mapping as Where

ROOT = Path(__file__).resolve().parents[2]
TEXT = """
kernel f(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = 2.0 * x[i] + 1.0
"""


@dataclass(frozen=True, slots=True)
class Blocks(Strategy):
    """Toy: independent iterations along one dimension, one block each."""

    name: str = "toy"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if group.legality is not Legality.INDEPENDENT or len(group.dims) != 1 or site.device != "gpu":
            return None
        return BlocksFit(group, self.name, _plan)


@dataclass(frozen=True, slots=True)
class BlocksFit(MapFit):
    def choices(self, tuning: Tuning) -> Tuning:  # type: ignore[override]
        return replace(tuning, warps=1)


def _plan(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    (dim,), extents = group.dims, dim_extents(group, site.program)
    block, thread = site.names.fresh("b"), site.names.fresh("t")
    body: tuple[TreeNode, ...] = thread_body(group, site, extents, {dim: value_at(extents[dim], Iter(block))})
    body = (Loop(thread, integer(0), integer(1), 1, Where.BLOCK, body),)
    return Launch(name, "toy", labels, (Loop(block, integer(0), count_of(extents[dim]), 1, Where.GRID, body),))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "STRATEGIES", (Blocks(), *registry.STRATEGIES))


def test_a_strategy_from_outside(toy: None) -> None:
    program = pipeline.read_program(Source("t.lf", TEXT))
    options = Options(target=Target("sm_90"))
    planned = pipeline.plan_kernel(program, "f", options)
    assert planned.verdict.answer == "proved"
    assert [launch.strategy for launch in planned.tree.launches] == ["toy"]
    (kernel,) = planned.report.kernels
    assert (kernel.strategy, kernel.detail) == ("toy", "toy, parallel over i")
    found = find_choices(planned.scheduled, Tuning())
    assert found.tuning.warps == 1 and found.streams
    x = np.arange(7, dtype=np.float32)
    arguments = {"x": x, "y": np.zeros(7, np.float32)}
    expected = interpret(program.kernel("f"), dict(arguments), {"N": 7})
    run_tree(planned.tree, arguments, {"N": 7})
    assert np.array_equal(arguments["y"], expected["y"])
    assert ".entry f_0" in pipeline.compile_kernel(program, "f", options).ptx


@dataclass(frozen=True, slots=True)
class Chunks(Strategy):
    """Toy of a CPU: a worker has so many iterations in a row as the tuning says, or 8."""

    name: str = "chunks"

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if group.legality is not Legality.INDEPENDENT or len(group.dims) != 1 or site.device != "cpu":
            return None
        return ChunksFit(group, self.name, _plan_chunks, site.tuning.rows or 8)


@dataclass(frozen=True, slots=True)
class ChunksFit(MapFit):
    rows: int = 8

    def choices(self, tuning: Tuning) -> Tuning:  # type: ignore[override]
        return replace(tuning, rows=self.rows)


def _plan_chunks(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
    (dim,), extents = group.dims, dim_extents(group, site.program)
    extent, rows = extents[dim], site.tuning.rows or 8
    chunk, inner = site.names.fresh("b"), site.names.fresh("i")
    body = thread_body(group, site, extents, {dim: Iter(inner)})
    low = combine("add", extent.lower, combine("mul", Iter(chunk), integer(rows)))
    high = combine("min", extent.upper, combine("add", low, integer(rows)))
    body = (Loop(inner, low, high, 1, Where.SERIAL, body),)
    return Launch(name, "chunks", labels, (Loop(chunk, integer(0), ceil_div(count_of(extent), rows), 1, Where.THREAD, body),))


def test_a_strategy_from_outside_is_tuned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The search knows which choices it has from its fit, and how to ask for others from the tuning."""
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(registry, "STRATEGIES", (Chunks(), *registry.STRATEGIES))
    seen: set[int] = set()
    plan = _plan_chunks

    def noted(group: Group, site: Site, name: str, labels: tuple[str, ...]) -> Launch:
        seen.add(site.tuning.rows)
        return plan(group, site, name, labels)

    monkeypatch.setitem(globals(), "_plan_chunks", noted)
    x = np.arange(20_000, dtype=np.float32)
    kernel = loopfuse.loads(TEXT, target="cpu", tune=True, tune_budget=20.0)
    found = kernel.tune(x)
    assert found.tried > 1 and not found.wrong
    assert 0 in seen and len(seen) > 1  # the strategy's own choice, and others
    assert np.array_equal(kernel(x), 2 * x + 1)


def test_others_are_as_they_were(toy: None) -> None:
    program = pipeline.read_program(Source("t.lf", TEXT))
    planned = pipeline.plan_kernel(program, "f", Options(target=CPU))
    assert "toy" not in {launch.strategy for launch in planned.tree.launches}


def test_nobody_asks_for_a_name() -> None:
    """No code outside a strategy compares the name of a strategy, or of what a group is."""
    names = "|".join([*(strategy.name for strategy in registry.STRATEGIES), "map", "combine", "window", "serial"])
    asks = re.compile(rf"(strategy|legality|\bkind)\W*(==|!=|is|in)\W*[\"']({names})[\"']")
    for file in (ROOT / "loopfuse").rglob("*.py"):
        if not {"plan", "pipeline.py", "kernels", "testing"} & {*file.parts} or "strategies" in file.parts:
            continue
        for line in file.read_text().splitlines():
            assert not asks.search(line), f"{file}: {line}"
