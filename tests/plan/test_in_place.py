"""Accumulators that are the element they end in: which are, that all else stays, that a wrong one is noticed, and the bits."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Load
from loopfuse.plan.simplify.in_place import put_in_place
from loopfuse.plan.strategies.affine.strategy import AffineFit
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.model import Dependences, PolyProgram
from loopfuse.proof.private import keeps_values_in_place
from loopfuse.tree.interp.run import run_tree

FACTORS = """
kernel f(inout a: f64[N, N]):
    for i in 0..N:
        for j in 0..i:
            var w: f64 = a[i, j]
            for k in 0..j:
                w -= a[i, k] * a[k, j]
            a[i, j] = w / a[j, j]
        for j in i..N:
            var w: f64 = a[i, j]
            for k in 0..i:
                w -= a[i, k] * a[k, j]
            a[i, j] = w
"""

SOLVED = """
kernel f(a: f64[N, N], b: f64[N], out x: f64[N]):
    for i in 0..N:
        var w: f64 = b[i]
        for j in 0..i:
            w -= a[i, j] * x[j]
        x[i] = w / a[i, i]
"""

TAKEN = {
    "factors": (FACTORS, "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "a triangular system": (SOLVED, "order i, j; 4 of i at once"),
    "only some of the terms": (SOLVED.replace("            w -=", "            if b[j] > 0.0:\n                w -="), "order i, j; 4 of i at once"),
    "a root": ("""
kernel f(inout a: f64[N, N]):
    for i in 0..N:
        for j in 0..i:
            var w: f64 = a[i, j]
            for k in 0..j:
                w -= a[i, k] * a[j, k]
            a[i, j] = w / a[j, j]
        var d: f64 = a[i, i]
        for k in 0..i:
            d -= a[i, k] * a[i, k]
        a[i, i] = sqrt(d)
""", "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
}  # fmt: skip

LEFT = {
    "the element is read meanwhile": FACTORS.replace("w -= a[i, k] * a[k, j]", "w -= a[i, k] * a[i, j] * a[k, j]"),
    "the element is read at the end": FACTORS.replace("a[i, j] = w", "a[i, j] = 0.5 * a[i, j] + w"),
    "the scalar is read behind the store": """
kernel f(a: f64[N, N], b: f64[N], out x: f64[N], out y: f64[N]):
    for i in 0..N:
        var w: f64 = b[i]
        for j in 0..i:
            w -= a[i, j] * x[j]
        x[i] = 0.5 * w
        y[i] = w
""",
    "nobody needs it later": """
kernel f(a: f64[N, N], out c: f64[N, N]):
    for i in 0..N, j in 0..N:
        var w: f64 = 0.0
        for k in 0..N:
            w += a[i, k] * a[k, j]
        c[i, j] = w
""",
    "other types": SOLVED.replace("out x: f64", "out x: f32").replace("w / a[i, i]", "f32(w / a[i, i])"),
    "stored on a condition": SOLVED.replace("        x[i] =", "        if b[i] > 0.0:\n            x[i] ="),
}


def planned(text: str, target: Target = CPU, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    made = pipeline.plan_kernel(program, "f", Options(target=target, reassociate=False, **options))
    assert made.verdict.answer == "proved", made.verdict
    return made


def scalars_of(made: pipeline.Planned) -> list[str]:
    """The scalars that iterations have."""
    return [array.name for array in made.program.arrays.values() if array.private_to]


def given(made: pipeline.Planned, side: int) -> tuple[dict[str, Any], dict[str, int]]:
    rng = np.random.default_rng(side)
    found: dict[str, Any] = {}
    for array in made.program.kernel.arrays:
        value = rng.standard_normal((side,) * len(array.extents))
        if value.ndim == 2:
            value = value @ value.T + 2.0 * side * np.eye(side)
        found[array.name] = value.astype(array.dtype.numpy_name)
    return found, dict.fromkeys(made.program.kernel.sizes, side)


@pytest.mark.parametrize("name", TAKEN)
def test_accumulators_in_place(name: str) -> None:
    text, words = TAKEN[name]
    made = planned(text)
    assert not scalars_of(made)
    orders = {fit.order.words for fit in made.scheduled.fits.values() if isinstance(fit, AffineFit)}
    assert orders == {words}


@pytest.mark.parametrize("name", LEFT)
def test_others_stay(name: str) -> None:
    assert "w" in scalars_of(planned(LEFT[name]))


def test_a_gpu_keeps_registers() -> None:
    assert "w" in scalars_of(planned(SOLVED, Target("sm_90")))


def modelled(text: str) -> tuple[PolyProgram, Dependences]:
    """A program before anything is in place."""
    made = planned(text, Target("sm_90"))
    return made.program, find_dependences(made.program)


def element(program: PolyProgram, name: str = "w") -> Load:
    """What a scalar ends in."""
    reads = [s for s in program.statements if any(a.array == name for a in s.reads) and s.target.array != name]
    return reads[0].target


@pytest.mark.parametrize("name", ["the element is read meanwhile", "the element is read at the end", "the scalar is read behind the store"])
def test_other_values_are_noticed(name: str) -> None:
    program, deps = modelled(LEFT[name])
    place = element(program)
    moved = put_in_place(program, {"w": place})
    assert not keeps_values_in_place(program, deps, moved, find_dependences(moved), {"w": place})


def test_mutants_are_noticed() -> None:
    program, deps = modelled(SOLVED)
    place = element(program)
    moved = put_in_place(program, {"w": place})

    def holds(other: PolyProgram, where: Load = place) -> bool:
        return keeps_values_in_place(program, deps, other, find_dependences(other), {"w": where})

    assert holds(moved)
    first, update, last = moved.statements
    assert not holds(replace(moved, statements=(first, update)))
    assert not holds(replace(moved, statements=(first, replace(update, value=first.value), last)))
    assert not holds(replace(moved, statements=(replace(first, write=program.statements[2].reads[1]), update, last)))
    shifted = replace(place, index=(place.index[0] + 1,))
    assert not holds(moved, shifted)
    assert not holds(put_in_place(program, {"w": shifted}), shifted)
    assert not holds(program)
    assert not keeps_values_in_place(program, replace(deps, complete=False), moved, find_dependences(moved), {"w": place})


def agrees(text: str, sides: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree and compiled code have the bits of the program, by any number of threads."""
    made = planned(text)
    kernel = loopfuse.loads(text, target="cpu", reassociate=False)
    for side in sides:
        arrays, sizes = given(made, side)
        with np.errstate(all="ignore"):
            right = interpret(made.program.kernel, {key: value.copy() for key, value in arrays.items()}, sizes)
            if side < 12:
                mine = {key: value.copy() for key, value in arrays.items()}
                run_tree(made.tree, mine, sizes, order="shuffled")
                for key, value in right.items():
                    np.testing.assert_array_equal(mine[key], value, f"{key} at {sizes}")
        for threads in (1, 2, 3, 7, 12):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
            mine = {key: value.copy() for key, value in arrays.items()}
            kernel(*(mine[param.name] for param in made.program.kernel.params))
            for key, value in right.items():
                np.testing.assert_array_equal(mine[key], value, f"{key} at {sizes}, {threads} threads")


@pytest.mark.parametrize("name", [*TAKEN, *LEFT])
def test_bits_are_those_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agrees(TAKEN[name][0] if name in TAKEN else LEFT[name], (0, 1, 2, 5, 9, 33, 70), monkeypatch)


def nest(chance: random.Random) -> str:
    """Loops around a scalar that ends in an element, or nearly so."""
    lines = ["kernel f(inout a: f64[N, N], inout b: f64[N, N], c: f64[N]):"]
    for _ in range(chance.choice([1, 1, 2])):
        rows = chance.choice(["i in 0..N", "i in 0..N", "i in N-1..-1 step -1"])
        columns = chance.choice(["j in 0..i", "j in i..N", "j in 0..N", "j in i+1..N"])
        terms = chance.choice(["k in 0..min(i, j)"] * 5 + ["k in 0..j", "k in 0..i", "k in j+1..N", "k in max(i, j)+1..N"])
        loads = ["a[i, k]", "a[k, j]", "a[j, k]", "a[k, i]"] * 4 + ["b[i, k]", "b[k, j]", "c[k]", "a[i, j]", "b[j, i]", "a[j, j]"]
        ends = chance.choice(["a[i, j]"] * 5 + ["a[j, i]", "b[i, j]"])
        begins = chance.choice([ends] * 5 + ["a[i, j]", "c[i]", "0.0"])
        divisor = chance.choice(["a[j, j]", "a[i, i]", "b[i, j]", "c[j]"])
        value = chance.choice(["w", "w", f"w / (1.0 + abs({divisor}))", f"w / (1.0 + abs({divisor}))", "w + a[i, j]", "0.25 * w"])
        one, other = chance.choice(loads), chance.choice(loads)
        lines += [
            f"    for {rows}:", f"        for {columns}:", f"            var w: f64 = {begins}",
            f"            for {terms}:", f"                w {chance.choice(['-=', '+=', 'max='])} 0.125 * {one} * {other}",
            f"            {ends} = {value}",
        ]  # fmt: skip
        if chance.random() < 0.1:
            lines.append(f"            {chance.choice(['b[j, i]', 'a[i, j]'])} += 0.5 * {chance.choice(['w', 'c[j]'])}")
    return "\n".join(lines) + "\n"


class Wanted:
    """Statements of which some are in any set."""

    def __and__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("seed", [1, 8, 12, 13, 15, 16, 28, 36, 40, 45, 50, 60])
def test_random_nests(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place wherever that is right, in another order or not."""
    monkeypatch.setattr(pipeline, "users_of", lambda program, name: Wanted())
    text = nest(random.Random(seed))
    assert "w" not in scalars_of(planned(text))
    agrees(text, (0, 1, 2, 3, 6, 11, 35), monkeypatch)
