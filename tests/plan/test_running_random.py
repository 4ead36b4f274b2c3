"""Random programs of a reduction and sums that depend on it, along rows, down columns and over nests: the tree of a GPU, interpreted, against the program."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, parse_target
from loopfuse.lang.interp import interpret
from loopfuse.plan.strategies.rows import sizes
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Running
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_running import small_teams

SEEDS = 48
TYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}


def program(seed: int) -> tuple[str, dict[str, int], tuple[str, ...], str, str]:
    """A text, sizes, the names of x's extents, its type and the type of what is computed."""
    pick = random.Random(seed)
    given = pick.choice(["f32", "f32", "f32", "f64", "bf16"])
    wide = "f64" if given == "f64" else "f32"
    outer = ["d"] if pick.random() < 0.35 else []
    index = ["r", *outer, "c"] if pick.random() < 0.65 else [*outer, "c", "r"]
    extents = tuple(name.upper() for name in index)
    around = "".join(f"{name} in 0..{name.upper()}, " for name in outer) + f"c in {pick.choice('001')}..C"
    x = f"x[{', '.join(index)}]" if given == wide else f"{wide}(x[{', '.join(index)}])"
    e = pick.choice([x, x, f"{x} * 0.5", f"abs({x})", f"({x} + {wide}(c))"])
    op = pick.choice(["max", "min", "sum", "sum"])
    if op == "sum":
        lines = [f"let m = sum({around}: {e}) / {pick.choice(['7.0', 'C'])}"]
        terms = [pick.choice([f"({e} - m) ** 2", f"({e} - m) * ({e} - m)", f"(m - {e}) ** 2"])]
    else:
        lines = [f"let m = {op}({around}: {e})"]
        away = f"{e} - m" if op == "max" else f"m - {e}"
        forms = [f"exp({away})", f"exp(({away}) * 0.25)", f"exp({away}) * {x}", f"exp({away}) * w[c]", f"-exp({away})"]
        terms = [pick.choice(forms) for _ in range(pick.choice([1, 1, 2]))]
    names = ("a", "b")[: len(terms)]
    lines += [f"let {name} = sum({around}: {term})" for name, term in zip(names, terms, strict=True)]
    lines.append(f"z[r] = {' + '.join(names)} + m * 0.0")
    stored = pick.random() < 0.4
    if stored:
        lines += [f"for {''.join(f'{name} in 0..{name.upper()}, ' for name in outer)}c in 0..C:", f"    y[{', '.join(index)}] = {x} * a"]
    out = f", out y: {wide}[{', '.join(extents)}]" if stored else ""
    head = f"kernel f(x: {given}[{', '.join(extents)}], w: {wide}[C], out z: {wide}[R]{out}):\n    for r in 0..R:\n        "
    all_of = {"R": pick.choice([1, 3, 40]), "D": pick.choice([1, 2, 5]), "C": pick.choice([0, 1, 7, 33, 65, 130, 201])}
    return head + "\n        ".join(lines) + "\n", {name: all_of[name] for name in ("R", "C", *extents)}, extents, given, wide


def planned(text: str, seed: int) -> pipeline.Planned:
    target, fp = parse_target(("sm_80", "sm_90")[seed % 2]), ("fast", "strict")[seed // 2 % 2]
    # (Clusters put results of 32 threads together.)
    with small_teams(), patch.object(sizes, "MANY", 32 if target.name == "sm_90" else 4):
        return pipeline.plan_kernel(pipeline.read_program(Source("f.lf", text)), "f", Options(target=target, fp=fp))


def arguments(seed: int, extent_of: dict[str, int], extents: tuple[str, ...], given: str, wide: str) -> dict[str, Any]:
    """Numbers near 0 or 50, in one of seven arrays one that is none or infinite; outputs full of sevens."""
    made = np.random.default_rng(seed)
    shape = tuple(extent_of[name] for name in extents)
    x = made.standard_normal(shape) * 3 + made.choice([0, 50])
    if seed % 7 == 0 and x.size:
        x.flat[made.integers(x.size)] = made.choice([np.inf, -np.inf, np.nan])
    w = made.standard_normal(extent_of["C"])
    return {
        "x": x.astype(TYPES[given]), "w": w.astype(TYPES[wide]),
        "z": np.full(extent_of["R"], 7, TYPES[wide]), "y": np.full(shape, 7, TYPES[wide]),
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.filterwarnings("ignore:warning.never-used")
def test_random_programs(seed: int) -> None:
    text, extent_of, extents, given, wide = program(seed)
    found = planned(text, seed)
    assert found.verdict.answer == "proved", text
    held = {name: array for name, array in arguments(seed, extent_of, extents, given, wide).items() if f" {name}: " in text or f"({name}: " in text}
    with np.errstate(all="ignore"):
        wanted = interpret(found.kernel, held, extent_of)
        run_tree(found.tree, held, extent_of)
    close = 2e-4 if wide == "f32" else 1e-9
    for name, array in wanted.items():
        size = max(1.0, np.abs(array[np.isfinite(array)]).max(initial=0))
        np.testing.assert_allclose(held[name], array, rtol=close, atol=close * size, err_msg=text)


def test_many_of_them_are_one_pass() -> None:
    def is_one(seed: int) -> bool:
        tree = planned(program(seed)[0], seed).tree
        return any(isinstance(node, Running) for launch in tree.launches for node in walk_nodes(launch.body))

    assert sum(map(is_one, range(12))) >= 5
