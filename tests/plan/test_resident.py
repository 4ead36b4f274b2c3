"""Time loops on the CPU whose arrays stay in its caches: blocks of steps save nothing there, and do not run.

What they compute, which way runs at which sizes, and that a tree that is wrong one way alone is rejected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isqrt
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from fuzz.machines import no_array_stays

import loopfuse
from loopfuse import pipeline
from loopfuse.base import machine
from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.base.dtypes import DType
from loopfuse.base.machine import resident_bytes
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.codegen.abi import build_manifest
from loopfuse.lang.index import TRUE
from loopfuse.lang.nodes import Compare, Const, Expr, Iter, Load, Select, integer
from loopfuse.plan.fusion import cost
from loopfuse.plan.strategies.sliding import time_blocks
from loopfuse.proof.check import verify
from loopfuse.runtime.formulas import evaluate
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import RESIDENT, HostLoop, Launch, LoopTree

SWEEPS = """
kernel sweeps(inout a: f32[H, W], steps: i64):
    temp b: f32[H, W]
    for t in 0..steps:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = b[y, x]
"""
LITERAL = SWEEPS.replace("H, W]", "{0}, {0}]").replace("H-1", "{1}").replace("W-1", "{1}")


@cache
def planned(text: str, target: Target = CPU, tuning: Tuning | None = None) -> Any:
    """With blocks of two steps, whose proof takes little."""
    program = pipeline.read_program(Source("k.lf", text))
    options = Options(target=target, tuning=tuning or Tuning())
    with patch.object(time_blocks, "STEPS", (2,)), patch.object(cost, "IN_ROWS", 0.1):
        return pipeline.plan_kernel(program, program.kernels[0].name, options)


def loops_of(tree: LoopTree) -> list[HostLoop]:
    return [node for node in tree.body if isinstance(node, HostLoop)]


def bounds(made: Any, height: int, width: int, steps: int) -> list[tuple[int, int]]:
    """Of each host loop, as a call finds them."""
    manifest = build_manifest(made.tree, made.program.kernel, CPU, 64, {})
    values = {"H": height, "W": width, "steps": steps}
    ends = [(each["loop"]["lower"], each["loop"]["upper"]) for each in manifest["steps"]]
    return [(evaluate(lower, values), evaluate(upper, values)) for lower, upper in ends]


def test_small_arrays_are_swept_one_step_at_a_time() -> None:
    made = planned(SWEEPS)
    blocks, rest = loops_of(made.tree)
    assert made.tree.resident is not None and len(blocks.body) == 2
    assert bounds(made, 100, 100, 41) == [(0, 0), (0, 41)]
    assert bounds(made, 100_000, 10_000, 41) == [(0, 10), (40, 41)]
    assert [launch.strategy for launch in rest.body if isinstance(launch, Launch)] == ["generic", "generic"]


def test_the_limit_is_the_machines() -> None:
    """Both arrays count, the temporary too."""
    limit = CPU.planned.resident * 3 // 32
    made = planned(SWEEPS)
    width = 1 << 10
    height = limit // (2 * 4 * width)
    assert bounds(made, height, width, 16)[-1] == (0, 16)
    assert bounds(made, height + 1, width, 16)[-1] != (0, 16)


@pytest.mark.parametrize(("steps", "share"), [("steps", 0.75), ("9", 1.0), ("40", 0.75)])
def test_it_is_more_where_nothing_is_copied_and_for_few_steps(steps: str, share: float) -> None:
    made = planned(f"""
kernel sweep(inout a: f32[H, W], inout b: f32[H, W], steps: i64):
    for t in 0..{steps}:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = 0.25 * (a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
        swap a, b
""")
    resident = made.tree.resident
    assert isinstance(resident, Compare) and resident.right == integer(int(CPU.planned.resident * share))


def test_extents_that_are_known_decide_when_it_is_planned() -> None:
    small, large = (planned(LITERAL.format(n, n - 1)).tree for n in (128, 65536))
    assert small.resident is None and all(launch.strategy == "generic" for launch in small.launches)
    assert large.resident is None and large.launches[0].strategy == "sliding"


def test_steps_that_were_asked_for_run_at_any_size() -> None:
    made = planned(SWEEPS, tuning=Tuning(steps=2))
    assert made.tree.resident is None and made.tree.launches[0].strategy == "sliding"


def describe_cache(folder: Path, level: int, size: str, sharing: str) -> None:
    place = folder / f"index{level}"
    place.mkdir()
    (place / "size").write_text(f"{size}\n")
    (place / "shared_cpu_map").write_text(f"{sharing}\n")


def test_the_machines_last_cache_is_asked_of_the_system(tmp_path: Path) -> None:
    assert resident_bytes(tmp_path) == 32 << 20, "where it does not say"
    describe_cache(tmp_path, 0, "32K", "1")
    assert resident_bytes(tmp_path, 8) == 32 << 10
    describe_cache(tmp_path, 3, "65536K", "0000,0000ffff")
    assert resident_bytes(tmp_path, 16) == resident_bytes(tmp_path, 99) == 64 << 20
    assert resident_bytes(tmp_path, 4) == isqrt(64 * 16 << 40), "between all of it and a share"
    describe_cache(tmp_path, 4, "what", "ever")
    assert resident_bytes(tmp_path, 16) == 64 << 20


def test_a_virtual_machine_has_its_share_of_a_cache_that_others_use(tmp_path: Path) -> None:
    """It is told of its own two processors, and of all 300 MiB."""
    describe_cache(tmp_path, 3, "307200K", "3")
    assert resident_bytes(tmp_path, 2) == isqrt(300 * 24 << 40)
    assert resident_bytes(tmp_path, 1) == isqrt(300 * 12 << 40)


def test_the_number_of_threads_says_nothing_of_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is compiled serves any number of them."""
    describe_cache(tmp_path, 3, "65536K", "ffff")
    of_all = resident_bytes(tmp_path)
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "1")
    assert resident_bytes(tmp_path) == of_all


def test_what_was_compiled_for_other_caches_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = loopfuse.loads(SWEEPS)

    def key(resident: int) -> str:
        monkeypatch.setitem(machine._PLANNED, "cpu", replace(machine.CPU, resident=resident))  # pyright: ignore[reportPrivateUsage]
        return sweeps._artifact_key(Options(target=CPU), frozenset({"object"}), None)  # pyright: ignore[reportPrivateUsage]

    assert key(1 << 20) == key(1 << 20) != key(2 << 20)


def test_a_gpu_asks_nothing() -> None:
    assert planned(SWEEPS, Target("sm_90")).tree.resident is None


def test_the_report_says_it() -> None:
    reasons = " ".join(decision.reason for decision in planned(SWEEPS).plan.decisions)
    most = CPU.planned.resident * 3 // 32 >> 20
    assert f"(one by one where the arrays take {most} MiB or less, which caches keep)" in reasons


@pytest.mark.parametrize("resident", [True, False, None])
def test_both_ways_compute_the_same(resident: bool | None) -> None:
    made = planned(SWEEPS).tree
    a = np.random.default_rng(1).standard_normal((9, 11)).astype(np.float32)
    b, expected = np.zeros_like(a), a.copy()
    for _ in range(21):
        b[1:-1, 1:-1] = np.float32(0.25) * (
            expected[1:-1, :-2] + expected[1:-1, 2:] + expected[2:, 1:-1] + expected[:-2, 1:-1]
        )
        expected[1:-1, 1:-1] = b[1:-1, 1:-1]
    run_tree(made, {"a": a, "steps": 21}, {"H": 9, "W": 11}, resident=resident)
    np.testing.assert_allclose(a, expected, rtol=1e-5, atol=1e-6)


def test_compiled_code_has_the_same_bits_both_ways() -> None:
    a = np.random.default_rng(2).standard_normal((70, 90)).astype(np.float32)
    swept, blocked = a.copy(), a.copy()
    loopfuse.loads(SWEEPS)(swept, 21)
    with no_array_stays():
        loopfuse.loads(SWEEPS.replace("sweeps", "blocks"))(blocked, 21)
    np.testing.assert_array_equal(swept, blocked)
    assert (swept != a).any()


# ------------------------------------------------------------------------------- trees that are wrong


def _with_bounds(tree: LoopTree, place: int, lower: Expr | None = None, upper: Expr | None = None) -> LoopTree:
    loop = tree.body[place]
    assert isinstance(loop, HostLoop)
    changed = replace(loop, lower=lower or loop.lower, upper=upper or loop.upper)
    return replace(tree, body=(*tree.body[:place], changed, *tree.body[place + 1 :]))


def _select(bound: Expr) -> Select:
    assert isinstance(bound, Select)
    return bound


MUTANTS: dict[str, Callable[[LoopTree], LoopTree]] = {
    "blocks run too where arrays stay": lambda tree: _with_bounds(
        tree, 0, upper=_select(loops_of(tree)[0].upper).otherwise
    ),
    "no blocks elsewhere": lambda tree: _with_bounds(tree, 0, upper=integer(0)),
    "the ways exchanged": lambda tree: _with_bounds(
        tree, -1 % len(tree.body),
        lower=replace(
            _select(loops_of(tree)[-1].lower),
            then=_select(loops_of(tree)[-1].lower).otherwise, otherwise=_select(loops_of(tree)[-1].lower).then,
        ),
    ),
    "a step left out where arrays stay": lambda tree: _with_bounds(
        tree, -1 % len(tree.body), lower=replace(_select(loops_of(tree)[-1].lower), then=integer(1))
    ),
    "all steps again elsewhere": lambda tree: _with_bounds(tree, -1 % len(tree.body), lower=integer(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_tree_that_is_wrong_one_way_is_rejected(name: str) -> None:
    made = planned(SWEEPS)  # (proved)
    assert verify(made.program, made.dependences, MUTANTS[name](made.tree)).answer == "wrong"


BAD_FORMS: dict[str, tuple[Callable[[LoopTree], LoopTree], str]] = {
    "unsaid": (lambda tree: replace(tree, resident=None), "does not say when RESIDENT is true"),
    "no condition": (lambda tree: replace(tree, resident=integer(1)), "it is a condition"),
    "of a GPU": (lambda tree: replace(tree, device="gpu", resident=TRUE), "of a tree for a CPU"),
    "of an iteration": (lambda tree: replace(tree, resident=Iter("t") < 3), "asked of sizes"),
    "of data": (
        lambda tree: replace(tree, resident=Compare("lt", Load("a", (integer(0), integer(0)), DType.F32), Const(3.0, DType.F32))),
        "asked of sizes",
    ),
    "of itself": (lambda tree: replace(tree, resident=RESIDENT), "asked of sizes"),
    "in a part of a bound": (
        lambda tree: _with_bounds(tree, 0, upper=loops_of(tree)[0].upper + 1), "bounds of host loops alone, as a whole",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FORMS)
def test_what_breaks_the_form_is_said(name: str) -> None:
    change, words = BAD_FORMS[name]
    with pytest.raises(InternalError) as caught:
        check_tree(change(planned(SWEEPS).tree))
    assert words in caught.value.diagnostics[0].message
