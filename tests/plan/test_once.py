"""Dear values that several loops calculate are calculated once: where they are, that a wrong one is noticed, and the bits."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.lang.interp import interpret
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.simplify.once import calculated_once, shared_values
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.model import Dependences, PolyProgram
from loopfuse.proof.once import keeps_values_made_once
from loopfuse.tree.interp.run import run_tree
from tests.plan.calls import called, calls, copied

SOFTMAX = """
kernel f(x: f32[R, C], out y: f32[R, C]):
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        let s = sum(c in 0..C: exp(x[r, c] - m))
        for c in 0..C:
            y[r, c] = exp(x[r, c] - m) / s
"""

IN_LOOPS = """
kernel f(x: f32[R, C], out y: f32[R, C]):
    temp m: f32[R]
    temp s: f32[R]
    for r in 0..R:
        m[r] = -inf
        for c in 0..C:
            m[r] max= x[r, c]
    for r in 0..R:
        s[r] = 0.0
        for c in 0..C:
            s[r] += exp(x[r, c] - m[r])
    for r in 0..R, c in 0..C:
        y[r, c] = exp(x[r, c] - m[r]) / s[r]
"""

ROOT_OF_SQUARES = """
kernel f(x: f32[R, C], g: f32[C], out y: f32[R, C]):
    for r in 0..R:
        let s = sum(c in 0..C: tanh(x[r, c]) * tanh(x[r, c]))
        for c in 0..C:
            y[r, c] = g[c] * (tanh(x[r, c]) / sqrt(s))
"""

TAKEN = {
    "softmax": SOFTMAX,
    "a loop for each step": IN_LOOPS,
    "twice in one value": ROOT_OF_SQUARES,
    "in place": SOFTMAX.replace("x: f32[R, C], out y: f32[R, C]", "inout x: f32[R, C]").replace("y[", "x["),
    "two sums": SOFTMAX.replace("        for c in", "        let q = sum(c in 0..C: exp(x[r, c] - m) * x[r, c])\n        for c in").replace("/ s", "/ s + q"),
    "under a condition": SOFTMAX.replace("let s = sum(c in 0..C: exp(x[r, c] - m))", "var s: f32 = 0.0").replace(
        "        for c", "        for c in 0..C:\n            if x[r, c] > 0.0:\n                s += exp(x[r, c] - m)\n        for c"),
    "part of a row": SOFTMAX.replace("c in 0..C", "c in 1..C"),
    "what is stored is the value": SOFTMAX.replace(" / s", "").replace("        for c", "        t[r] = s\n        for c").replace("out y", "out t: f32[R], out y"),
    "down": SOFTMAX.replace("for c in 0..C", "for c in C-1..-1 step -1"),
}  # fmt: skip

LEFT = {
    "cheap": SOFTMAX.replace("exp(", "("),
    "other types": SOFTMAX.replace("out y: f32", "out y: f16").replace("exp(x[r, c] - m) / s", "f16(exp(x[r, c] - m) / s)"),
    "a shorter row": SOFTMAX.replace("for c in 0..C", "for c in 0..C - 1"),
    "another value": SOFTMAX.replace("y[r, c] = exp(x[r, c] - m)", "y[r, c] = exp(x[r, c] + m)"),
    "stored on a condition": SOFTMAX.replace("            y[", "            if x[r, c] > 0.0:\n                y["),
    "the row is read meanwhile": SOFTMAX.replace("out y", "inout y").replace(" / s", " / s + y[r, c]"),
    "what it reads changes": SOFTMAX.replace("x: f32[R, C], ", "inout x: f32[R, C], ").replace(
        "        for c", "        for c in 0..C:\n            x[r, c] = 0.5 * x[r, c]\n        for c"),
    "the whole of memory": """
kernel f(x: f32[N], out y: f32[N]):
    let s = sum(c in 0..N: exp(x[c]))
    for c in 0..N:
        y[c] = exp(x[c]) / s
""",
}  # fmt: skip


def planned(text: str, target: Target = CPU, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    made = pipeline.plan_kernel(program, "f", Options(target=target, **options))
    assert made.verdict.answer == "proved", made.verdict
    return made


def is_once(made: pipeline.Planned) -> bool:
    """Was a value calculated ahead?"""
    return bool(made.program.ahead)


@pytest.mark.parametrize("name", TAKEN)
def test_values_are_calculated_once(name: str) -> None:
    made = planned(TAKEN[name])
    assert is_once(made)
    assert len(made.tree.launches) == 1


@pytest.mark.parametrize("name", LEFT)
def test_others_stay(name: str) -> None:
    assert not is_once(planned(LEFT[name]))


def test_a_gpu_keeps_registers() -> None:
    assert not is_once(planned(SOFTMAX, Target("sm_90")))


def test_unfused_code_is_as_it_is_written() -> None:
    assert not is_once(planned(SOFTMAX, fuel=0))
    assert planned(IN_LOOPS).report.launches_before == 3


def modelled(text: str) -> tuple[PolyProgram, Dependences]:
    made = planned(text, fuel=0)
    return made.program, find_dependences(made.program)


def test_mutants_are_noticed() -> None:
    program, deps = modelled(SOFTMAX)
    (shared,) = shared_values(program)
    once = calculated_once(program, shared)

    def holds(other: PolyProgram) -> bool:
        return keeps_values_made_once(program, deps, other, find_dependences(other))

    assert holds(once)
    ids = [s.id for s in once.statements]
    assert ids == ["S1.init", "S1", "S3.once", "S2.init", "S2", "S3"]
    largest, ahead, total, last = (once.statements[k] for k in (1, 2, 4, 5))

    def swapped(old: Any, new: Any) -> PolyProgram:
        return replace(once, statements=tuple(new if s is old else s for s in once.statements))

    x_less_m = ahead.value.arguments[0]  # pyright: ignore
    assert not holds(swapped(ahead, replace(ahead, value=replace(ahead.value, function="exp2"))))  # pyright: ignore
    assert not holds(swapped(ahead, replace(ahead, value=replace(ahead.value, arguments=(replace(x_less_m, op="add"),)))))  # pyright: ignore
    assert not holds(swapped(total, replace(total, value=replace(total.value, op="sub"))))  # pyright: ignore
    assert not holds(swapped(last, replace(last, value=last.value.left)))  # pyright: ignore
    assert not holds(swapped(ahead, replace(ahead, positions=(0, 0, 0))))  # ahead of the largest
    assert not holds(swapped(ahead, replace(ahead, positions=(0, 9, 0))))  # behind them all
    assert not holds(swapped(ahead, replace(ahead, positions=total.positions)))  # beside the sum
    short = ahead.domain.subtract(ahead.domain.lexmin())
    assert not holds(swapped(ahead, replace(ahead, domain=short, write=within(ahead.write, short), reads=tuple(within(r, short) for r in ahead.reads))))
    assert not holds(swapped(largest, replace(largest, value=largest.value.right)))  # pyright: ignore
    assert not holds(replace(once, statements=tuple(s for s in once.statements if s is not total)))
    assert not keeps_values_made_once(program, replace(deps, complete=False), once, find_dependences(once))


def within(access: Any, domain: Any) -> Any:
    return replace(access, parts=tuple((name, relation.intersect_domain(domain)) for name, relation in access.parts))


@pytest.mark.parametrize("name", ["the row is read meanwhile", "what it reads changes"])
def test_other_values_are_noticed(name: str) -> None:
    program, deps = modelled(LEFT[name])
    (shared,) = shared_values(program)
    once = calculated_once(program, shared)
    assert not keeps_values_made_once(program, deps, once, find_dependences(once))


def agrees(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree has the bits of the program, and compiled code those of the unfused code, by any number of threads."""
    made = planned(text, reassociate=False)
    kernel = loopfuse.loads(text, target="cpu", reassociate=False)
    unfused = kernel.with_options(fuel=0)
    sides = ((0, 0), (1, 1), (3, 2), (5, 17), (4, 70), (0, 3), (3, 0))
    every = [dict(zip(made.program.kernel.sizes, each, strict=False)) for each in sides]
    for known, arrays in calls(made, every, lambda rng, shape: rng.standard_normal(shape)):
        with np.errstate(all="ignore"):
            right, mine = interpret(made.program.kernel, copied(arrays), known), copied(arrays)
            run_tree(made.tree, mine, known, order="shuffled")
        for key, value in right.items():
            np.testing.assert_array_equal(mine[key], value, f"{key} at {known}")
        plain = called(unfused, made, arrays)
        for threads in (1, 3):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
            mine = called(kernel, made, arrays)
            for key, value in plain.items():
                np.testing.assert_array_equal(mine[key], value, f"{key} at {known}, {threads} threads")


@pytest.mark.parametrize("name", [*TAKEN, *LEFT])
def test_bits_are_those_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees(TAKEN[name] if name in TAKEN else LEFT[name], monkeypatch)


def nests(chance: random.Random) -> str:
    """Loops over rows that share a dear value, or nearly so, with other statements between them."""
    value = chance.choice(["exp(0.1 * x[r, c])", "tanh(x[r, c] + g[c])", "exp(y[r, c] - 2.0)", "log(1.0 + abs(x[r, c] * m))"])
    columns = chance.choice(["c in 0..C"] * 4 + ["c in 1..C", "c in 0..r + 1"])
    bound = f"min({columns.split('..')[1]}, C)"
    columns = f"{columns.split('..')[0]}..{bound}"
    lines = ["kernel f(inout x: f32[R, C], g: f32[C], inout y: f32[R, C], inout z: f32[R]):", "    for r in 0..R:"]
    lines.append("        let m = max(c in 0..C: x[r, c])")
    between = ["z[r] = m", "x[r, 0] = m", "y[r, 0] += m", "z[r] += s"]
    sums = chance.choice([f"let s = sum({columns}: {value})", f"let s = sum({columns}: {value} * g[c])", f"let s = max({columns}: 2.0 * {value})"])
    lines.append(f"        {sums}")
    if chance.random() < 0.5:
        lines.append(f"        {chance.choice(between[:1] * 3 + between).replace('[r, 0]', '[r, C - 1]')}")
    if chance.random() < 0.3:
        lines.append(f"        let t = sum({columns}: {value})")
        lines.append("        z[r] = t")
    target = chance.choice(["y[r, c]"] * 4 + ["x[r, c]", "y[r, C - 1 - c]"])
    last = chance.choice([f"{value} / s", f"{value} * {value}", value, f"s - {value} + x[r, c]", f"{value} + y[r, c]"])
    lines += [f"        for {columns}:", f"            {target} = {last}"]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(12))
def test_random_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calculated once wherever that is right, cheaper or not."""
    turns = count()
    monkeypatch.setattr(CostModel, "whole", lambda self, items: (-float(next(turns)), 0.0))  # pyright: ignore
    agrees(nests(random.Random(seed)), monkeypatch)


def test_random_rows_are_both() -> None:
    """Some may be calculated once, and some may not."""
    found = []
    for seed in range(12):
        program, deps = modelled(nests(random.Random(seed)))
        right = [
            keeps_values_made_once(program, deps, once, find_dependences(once))
            for once in (calculated_once(program, shared) for shared in shared_values(program))
        ]
        found += right
    assert 3 <= sum(found) < len(found)
