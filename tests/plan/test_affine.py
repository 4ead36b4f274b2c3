"""Nests in other orders than the program's: which order is taken, and that every size has the bits of the plain program, in the
tree and in compiled code, by any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.interp import interpret
from loopfuse.plan.strategies.affine.strategy import AffineFit
from loopfuse.tree.interp.run import run_tree
from tests.plan.mutate_affine import (
    CHOLESKY,
    FOLDING,
    LU,
    PATHS,
    RIGHT,
    SWEEPS,
    TRIANGLE,
    no_tiles,
    small_blocks,
)

TILED = {
    "lu": (LU, "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "lu, right-looking": (RIGHT, "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "cholesky": (CHOLESKY, "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "triangular product": (TRIANGLE, "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "triangular product by rows": ("""
kernel f(s: f32, a: f32[N, N], inout b: f32[N, M]):
    for i in 0..N:
        for k in i+1..N, j in 0..M:
            b[i, j] += a[k, i] * b[k, j]
        for j in 0..M:
            b[i, j] *= s
""", "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "triangular system with many right-hand sides": ("""
kernel f(a: f64[N, N], inout b: f64[N, M]):
    for i in 0..N:
        for k in 0..i, j in 0..M:
            b[i, j] -= a[i, k] * b[k, j]
        for j in 0..M:
            b[i, j] /= a[i, i]
""", "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "the same from the last row": ("""
kernel f(a: f64[N, N], inout b: f64[N, M]):
    for i in N-1..-1 step -1:
        for k in N-1..i step -1, j in 0..M:
            b[i, j] -= a[i, k] * b[k, j]
        for j in 0..M:
            b[i, j] /= a[i, i]
""", "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "whole numbers in a triangle": ("""
kernel f(a: i64[N, N], inout b: i64[N, M]):
    for i in 0..N, k in i+1..N, j in 0..M:
        b[i, j] += a[i, k] * b[k, j]
""", "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
    "rows with launches in loops in loops": ("""
kernel f(inout a: f64[N, N]):
    for i in 0..N, k in 0..i:
        a[i, k] /= a[k, k]
        for j in k+1..N:
            a[i, j] -= a[i, k] * a[k, j]
""", "order k, i, j; blocks of 32 k; register tiles over i, j; threads over i"),
}  # fmt: skip

TAKEN = {
    "lu": (LU, "order i, k, j; blocks of 32 k; threads over i; vectors over j"),
    "paths": (PATHS, "order k, i, j; i split at k; j split at k; threads over i; vectors over j"),
    "cholesky": (CHOLESKY, "order i, j, k; 4 of j at once"),
    "sweeps": (SWEEPS, "order t, i, j; 8 of i at once, each 2 of j behind"),
    "forward substitution": ("""
kernel f(a: f64[N, N], b: f64[N], inout x: f64[N]):
    for i in 0..N:
        x[i] = b[i]
        for j in 0..i:
            x[i] -= a[i, j] * x[j]
        x[i] /= a[i, i] * a[i, i] + 1.0
""", "order i, j; 4 of i at once"),
    "a value of each point": ("""
kernel f(inout a: f32[H, W], b: f32[H, W]):
    for y in 1..H-1, x in 1..W-1:
        let q = a[y-1, x] * b[y, x] + a[y, x-1]
        a[y, x] += 0.25 * (q - a[y, x])
""", "order y, x; 4 of y at once, each 1 of x behind"),
    "loops that count down": ("""
kernel f(inout a: f64[H, W]):
    for y in H-2..-1 step -1, x in W-2..-1 step -1:
        a[y, x] += 0.5 * a[y+1, x] - 0.25 * a[y, x+1]
""", "order y, x; 4 of y at once, each 1 of x behind"),
    "whole numbers": ("""
kernel f(inout a: i32[H, W]):
    for y in 1..H, x in 1..W:
        let d = a[y-1, x-1] + 2
        a[y, x] = max(d, a[y-1, x] - 1, a[y, x-1] - 1)
""", "order y, x; tiles 64 x 512 of y, x in diagonals; threads over y"),
    "parts of a sequence": (FOLDING, "order i, j, k; tiles 32 x 32 of i, j in diagonals; threads over i"),
    "rows with launches in loops in loops": (
        TILED["rows with launches in loops in loops"][0], "order i, k, j; blocks of 32 k; threads over i; vectors over j",
    ),
}  # fmt: skip

LEFT = {
    "each needs all before it": """
kernel f(inout w: f64[N], b: f64[N, N]):
    for i in 1..N, k in 0..i:
        w[i] += b[k, i] * w[i-k-1]
""",
    "places that depend on data": """
kernel f(inout a: f64[N], p: i64[N, N]):
    for i in 0..N, j in 0..N:
        a[p[i, j]] = 0.5 * a[p[i, j]] + a[i]
""",
    "steps": """
kernel f(inout a: f64[H, W]):
    for y in 1..H step 2, x in 1..W:
        a[y, x] += 0.5 * a[y-1, x] * a[y, x-1]
""",
}

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 10, 13)


def planned(text: str, target: Target = CPU, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    made = pipeline.plan_kernel(program, "f", Options(target=target, **options))
    assert made.verdict.answer == "proved", made.verdict
    return made


def llvm_of(text: str, cpu: str) -> str:
    """The IR for processors like these, whatever this machine has."""
    program = pipeline.read_program(Source("f.lf", text))
    return pipeline.compile_kernel(program, "f", Options(target=Target("cpu", cpu)), emit={"llvm"}).llvm


def order_of(made: pipeline.Planned) -> str:
    """The order that the plan is in; "" where it is the program's."""
    found = {fit.order.words for fit in made.scheduled.fits.values() if isinstance(fit, AffineFit)}
    return next(iter(found), "")


def given(made: pipeline.Planned, side: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Arguments about as large as a side says."""
    sizes = {"N": side, "M": side + 5, "H": side, "W": side + 3}
    rng = np.random.default_rng(side)
    kernel = made.program.kernel
    found: dict[str, Any] = {scalar.name: 3 for scalar in kernel.scalars}
    for array in kernel.arrays:
        shape = tuple(evaluate_index(extent, sizes) for extent in array.extents)
        value = rng.standard_normal(shape)
        if len(shape) == 2 and shape[0] == shape[1] and array.name == "a":
            value = value @ value.T + 2.0 * side * np.eye(side)
        found[array.name] = (4.0 * value).astype(array.dtype.numpy_name)
    return found, {name: sizes[name] for name in kernel.sizes}


@pytest.fixture
def without_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """The orders behind tiles of registers."""
    monkeypatch.setattr("loopfuse.plan.strategies.affine.orders.find_tiles", no_tiles)


@pytest.mark.parametrize("name", TILED)
def test_tiles_are_taken(name: str) -> None:
    text, words = TILED[name]
    assert order_of(planned(text)) == words


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_sums_of_tiles_are_in_registers(cpu: str) -> None:
    """Of each step a tile of 4 x 2 vectors, or 8 x 2 where there are registers for it, is all FMAs of whole vectors."""
    lanes, rows = (4, 4) if cpu == "x86-64-v3" else (8, 8)
    text = llvm_of(RIGHT, cpu)
    assert text.count(f"call <{lanes} x double> @llvm.fma") == rows * 2


@pytest.mark.parametrize("small", [True, False], ids=["small blocks", "blocks"])
@pytest.mark.parametrize("name", TILED)
def test_tiles_have_the_bits_of_the_program(name: str, small: bool) -> None:
    with small_blocks() if small else nullcontext():
        made = planned(TILED[name][0])
    assert "register tiles" in order_of(made)
    for side in (*SIZES, 16, 17) if small else (9, 35):
        check_tree(made, side)


@pytest.mark.parametrize("name", TILED)
def test_compiled_tiles_have_the_bits_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_compiled(TILED[name][0], (*SIZES, 31, 32, 33, 40, 71, 96, 131), monkeypatch)


@pytest.mark.usefixtures("without_tiles")
@pytest.mark.parametrize("name", TAKEN)
def test_orders_are_taken(name: str) -> None:
    text, words = TAKEN[name]
    assert order_of(planned(text)) == words


@pytest.mark.parametrize("name", LEFT)
def test_other_nests_stay_as_they_are(name: str) -> None:
    assert order_of(planned(LEFT[name])) == ""


BESIDE = """
kernel f(a: f64[N, M], inout b: f64[N, M], inout c: f64[N, M]):
    for i in 1..N, j in 1..M-1:
        b[i, j] = b[i-1, j+1] * b[i, j-1] * a[i, j]
        c[i, j] = sqrt(abs(a[i, j]))
"""


def test_what_threads_can_share_is_no_part_of_what_one_runs() -> None:
    """The second statement waits for nothing; a statement of the rows alone would save nothing."""
    strategies = [launch.strategy for launch in planned(BESIDE).tree.launches]
    assert sorted(strategies) == ["affine", "generic"], strategies


def test_what_the_programs_order_keeps_in_a_register_gets_no_other_one() -> None:
    """A maximum of an element and of numbers: along `i` it would be read and written at each `k`."""
    words = order_of(planned("""
kernel f(a: i32[N], inout t: i32[N], inout b: i32[N, M]):
    for i in 2..N, j in 1..M - 1:
        for k in 0..N - 1:
            t[i] = max(t[i], a[i] + i32(k))
        b[i, j] = max(a[i-1], t[i]) * b[i-1, j]
"""))
    assert words and "vectors" not in words


@pytest.mark.parametrize("name", ["lu", "sweeps"])
def test_a_gpu_has_the_order_of_the_program(name: str) -> None:
    assert order_of(planned(TAKEN[name][0], Target("sm_90"))) == ""


def test_without_fusion_loops_are_in_the_order_of_the_program() -> None:
    assert order_of(planned(LU, fuel=0)) == ""


def check_tree(made: pipeline.Planned, side: int) -> None:
    """The tree gives what the program does."""
    arrays, sizes = given(made, side)
    right = interpret(made.program.kernel, arrays, sizes)
    run_tree(made.tree, arrays, sizes, order="shuffled")
    for key, value in right.items():
        np.testing.assert_array_equal(arrays[key], value, f"{key} at {sizes}")


def check_compiled(text: str, sides: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code gives what the program does, by any number of threads."""
    made = planned(text)
    kernel = loopfuse.loads(text)
    for side in sides:
        arrays, sizes = given(made, side)
        right = interpret(made.program.kernel, arrays, sizes) if side < 40 else None
        first: dict[str, Any] = {}
        for threads in (1, 2, 3, 7):
            monkeypatch.setenv("LOOPFUSE_NUM_THREADS", str(threads))
            mine = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in arrays.items()}
            kernel(*(mine[param.name] for param in made.program.kernel.params))
            for key, value in (right or first or mine).items():
                if isinstance(value, np.ndarray):
                    np.testing.assert_array_equal(mine[key], value, f"{key} at {sizes}, {threads} threads")
            first = first or mine


@pytest.mark.parametrize("small", [True, False], ids=["small blocks", "blocks"])
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.usefixtures("without_tiles")
def test_the_tree_has_the_bits_of_the_program(name: str, small: bool) -> None:
    with small_blocks(tiles=False) if small else nullcontext():
        made = planned(TAKEN[name][0])
    assert order_of(made)
    for side in SIZES if small else (9, 35):
        check_tree(made, side)


@pytest.mark.usefixtures("without_tiles")
@pytest.mark.parametrize("name", TAKEN)
def test_compiled_code_has_the_bits_of_the_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_compiled(TAKEN[name][0], (*SIZES, 33, 40, 71), monkeypatch)


def test_launches_are_counted() -> None:
    made = planned(PATHS)
    assert made.report.launches_after == "3*N"


@pytest.mark.parametrize(("cpu", "lanes"), [("x86-64-v3", 16), ("x86-64-v4", 32)])
def test_vectors_are_vectors(cpu: str, lanes: int) -> None:
    """Whole ones, and a quarter as long for what they leave: none is written out lane by lane."""
    text = llvm_of(PATHS, cpu)
    for size in (lanes, lanes // 4):
        assert text.count(f"store <{size} x float>") == 2 * 3  # left and right of k, in each of three launches
    assert text.count("store float") == 3 * 3
