"""Products in tiles of registers: which are taken, and that every size has the bits of the plain program."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.machine import CPU as MACHINE
from loopfuse.base.machine import with_vectors
from loopfuse.base.options import CPU, Options, Target
from loopfuse.codegen.targets.native import host_machine, optimize_llvm
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.interp import interpret
from loopfuse.lang.semantics import fma
from loopfuse.plan import registry
from loopfuse.plan.strategies.contract.shape import Shape, shape_of
from loopfuse.plan.units.rules import Rules
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Copy, Register
from loopfuse.tree.walk import walk_nodes
from tests.plan.mutate_contract import (
    CONVOLUTION,
    IN_PLACE,
    PRODUCT,
    ROWS_OF_THEIR_OWN,
    small_tiles,
)

HEAD = "kernel f(a: f32[M, K], b: f32[K, N], d: f32[N, K], e: f32[K, M], w: f32[K], inout c: f32[M, N], out y: f32[M, N]):\n"

TAKEN = {
    "a sum": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "the right operand across": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: a[i, k] * d[j, k])
""",
    "the left operand across": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: e[k, i] * b[k, j])
""",
    "columns outside": """    for j in 0..N, i in 0..M:
        y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "a place in memory": """    for i in 0..M, j in 0..N:
        y[i, j] = 1.0
        for k in 0..K:
            y[i, j] += a[i, k] * b[k, j]
""",
    "another order of loops": """    for k in 0..K, i in 0..M, j in 0..N:
        c[i, j] += a[i, k] * b[k, j]
""",
    "operands in expressions": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: (2.0 * a[i, k] + 1.0) * w[k] * (b[k, j] - 0.5))
""",
    "a difference": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: (a[i, k] - b[k, j]) ** 2)
""",
    "the greatest": """    for i in 0..M, j in 0..N:
        y[i, j] = max(k in 0..K: a[i, k] + b[k, j])
""",
    "part of the steps": """    for i in 1..M, j in 2..N-1:
        y[i, j] = sum(k in 1..K-1: a[i-1, k+1] * b[k, j+1])
""",
    "what stands behind reads the sum": """    for i in 0..M, j in 0..N:
        let s = sum(k in 0..K: a[i, k] * b[k, j])
        let t = s * 0.5
        y[i, j] = max(t, 0.0) if t < 3.0 else t
        c[i, j] = s
""",
    "used and added to": """    for i in 0..M, j in 0..N:
        for k in 0..K:
            c[i, j] += a[i, k] * b[k, j]
        y[i, j] = c[i, j]
""",
}  # fmt: skip

WEDGES = {
    "an upper triangle": """    for i in 0..M, j in i..N:
        y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "a lower triangle": """    for i in 0..M, j in 0..N:
        if j <= i:
            y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "columns outside, down to the diagonal": """    for j in 0..N, i in 0..M:
        if i < j:
            c[i, j] += 1.0
            for k in 0..K:
                c[i, j] += a[i, k] * b[k, j]
""",
    "columns of their own": """    for i in 0..M:
        for j in 0..min(i, N):
            c[i, j] *= 0.5
        for k in 0..K:
            for j in 0..min(i, N):
                c[i, j] += a[i, k] * b[k, j]
""",
    "columns of their own, from the diagonal on": """    for i in 0..M:
        for k in 0..K:
            let v = a[i, k] * 2.0
            for j in i+1..N:
                c[i, j] += v * b[k, j]
""",
    "a band": """    for i in 0..M, j in 0..N:
        if i <= j + 2 and j < i + 3:
            c[i, j] += sum(k in 0..K: a[i, k] * b[k, j])
""",
    "a steep edge": """    for i in 0..M, j in 0..N:
        if j >= 2*i - 3:
            y[i, j] = max(sum(k in 0..K: a[i, k] * b[k, j]), 0.25)
""",
    "a gentle edge to the left": """    for i in 0..M, j in 0..N:
        if i + j < N:
            y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "some rows": """    for i in 0..M, j in 0..N:
        if i >= 2:
            y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "both halves": """    for i in 0..min(M, N), j in i..min(M, N):
        c[i, j] = sum(k in 0..K: a[i, k] * b[k, j]) * 0.5
        c[j, i] = c[i, j]
""",
    "the greatest": """    for i in 0..M, j in i..N:
        y[i, j] = max(k in 0..K: a[i, k] + b[k, j])
""",
}  # fmt: skip
"""Parts of the rows and columns."""

APART = {
    "an element of each row before": (["generic", "contract", "generic"], """    for i in 0..min(M, N):
        c[i, i] = 1.0
        for j in i+1..min(M, N):
            c[i, j] = 0.0
            for k in 0..K:
                c[i, j] += a[i, k] * b[k, j]
            c[j, i] = c[i, j]
"""),
    "the result where the row was": (["contract", "generic", "pointwise"], """    for i in 0..M:
        temp line: f32[N]
        for j in 0..N:
            line[j] = sum(k in 0..min(K, N): c[i, k] * b[k, j])
        for j in 0..N:
            c[i, j] = line[j]
"""),
    "what another column writes": (["contract", "generic", "pointwise"], """    for i in 0..M:
        for j in 0..N:
            y[i, j] = 0.0
        for k in 0..min(K, N):
            for j in 0..N:
                y[i, j] += c[i, k] * b[k, j]
        for j in 0..N:
            c[i, j] = y[i, j]
"""),
    "rows of the result put in proportion": (["contract", "generic", "generic"], """    temp t: f32[M, N]
    for i in 0..M, j in 0..N:
        t[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
    for i in 0..M:
        let s = sum(j in 0..N: t[i, j])
        for j in 0..N:
            y[i, j] = t[i, j] / s
"""),
}  # fmt: skip
"""Loops of which a part is a product: with the strategies of their launches."""

LEFT = {
    "one operand": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: b[k, j] * w[k])
""",
    "a row at a time": """    for i in 0..M:
        y[i, 0] = sum(k in 0..K: a[i, k] * w[k])
""",
    "steps that rows bound": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..min(i, K): a[i, k] * b[k, j])
""",
    "columns two apart": """    for i in 0..M, j in 0..N:
        if 2 * j >= i:
            y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "what is neither here nor there": """    for i in 0..M, j in 0..N:
        if i != j:
            y[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
    "a condition": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: a[i, k] * b[k, j] if i != j else 0.0)
""",
    "a partial sum that is used": """    for i in 0..M, j in 0..N:
        var s: f32 = 0.0
        for k in 0..K:
            s += a[i, k] * b[k, j]
            y[i, j] = max(s, y[i, j]) if k > 0 else s
""",
    "rows that need the ones before": """    for i in 1..min(M, K), j in 0..N:
        for k in 0..i:
            c[i, j] += a[i, k] * c[k, j]
""",
    "twice the result in the other half": """    for i in 0..min(M, N), j in i..min(M, N):
        for k in 0..K:
            c[i, j] += a[i, k] * b[k, j]
        c[j, i] = 2.0 * c[i, j]
""",
    "a function of each": """    for i in 0..M, j in 0..N:
        y[i, j] = sum(k in 0..K: exp(a[i, k] * b[k, j]))
""",
}  # fmt: skip


@functools.cache
def planned(text: str, reassociate: bool = True, target: Target = CPU) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    made = pipeline.plan_kernel(program, "f", Options(target=target, reassociate=reassociate))
    assert made.verdict.answer == "proved", made.verdict
    return made


def strategies(made: pipeline.Planned) -> list[str]:
    return [launch.strategy for launch in made.tree.launches]


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("reassociate", [True, False])
def test_products_are_taken(name: str, reassociate: bool) -> None:
    made = planned(HEAD + TAKEN[name], reassociate)
    assert strategies(made) == ["contract", "generic"]


@pytest.mark.parametrize("name", WEDGES)
def test_products_on_a_part_of_rows_and_columns_are_taken(name: str) -> None:
    assert strategies(planned(HEAD + WEDGES[name])) == ["contract", "generic"]


@pytest.mark.parametrize("name", APART)
def test_loops_are_distributed_for_products(name: str) -> None:
    wanted, text = APART[name]
    assert strategies(planned(HEAD + text, reassociate=False)) == wanted


def test_loops_are_not_distributed_without_fusion() -> None:
    program = pipeline.read_program(Source("f.lf", HEAD + APART["the result where the row was"][1]))
    assert strategies(pipeline.plan_kernel(program, "f", Options(target=CPU, fuel=0))) == ["generic"]


@pytest.mark.parametrize("name", LEFT)
def test_nothing_else_is(name: str) -> None:
    assert "contract" not in strategies(planned(HEAD + LEFT[name]))


def test_a_gpu_has_none() -> None:
    assert "contract" not in strategies(planned(PRODUCT, target=Target("sm_90")))


# ------------------------------------------------------------------------------------ bits


def given(made: Any, sizes: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(sum(sizes.values()))
    kernel = made.program.kernel
    found: dict[str, Any] = {scalar.name: 0.75 for scalar in kernel.scalars}
    for array in kernel.arrays:
        shape = tuple(evaluate_index(extent, sizes) for extent in array.extents)
        found[array.name] = rng.standard_normal(shape).astype(array.dtype.numpy_name)
    return found


PARTS = [HEAD + text for text in (*WEDGES.values(), *(text for _, text in APART.values()))]

SMALL_SIZES = [(0, 3, 3), (3, 0, 3), (3, 3, 0), (1, 1, 1), (2, 4, 3), (3, 5, 4), (5, 9, 2), (4, 8, 6), (9, 17, 7)]


@pytest.mark.parametrize("text", [PRODUCT, IN_PLACE, ROWS_OF_THEIR_OWN, *(HEAD + text for text in TAKEN.values()), *PARTS])
def test_the_tree_has_the_bits_of_the_program(text: str) -> None:
    with small_tiles():
        made = planned(text, reassociate=False)
    for m, n, k in SMALL_SIZES:
        sizes = {"M": m, "N": n, "K": k}
        arrays = given(made, sizes)
        right = interpret(made.program.kernel, arrays, sizes)
        run_tree(made.tree, arrays, sizes, order="shuffled")
        for name, value in right.items():
            np.testing.assert_array_equal(arrays[name], value, f"{name} at {sizes}")


def _edges(shape: Shape) -> list[tuple[int, int, int]]:
    rows, columns, steps = shape.rows, shape.columns, shape.steps
    return [
        (0, columns, 3), (rows, 0, 3), (rows, columns, 0), (1, 1, 1), (rows // 2, columns // 2, 2),
        (rows // 2 - 1, columns, 2), (rows, columns // 2 - 1, 2), (rows, columns, steps), (rows + 1, columns + 1, 3),
        (2 * rows - 1, 2 * columns - 1, steps + 1), (shape.block_rows + 1, 5, 2), (3, shape.block_columns + 1, 2),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("text", [PRODUCT, IN_PLACE, ROWS_OF_THEIR_OWN])
def test_compiled_code_has_the_bits_of_the_program(text: str, dtype: str) -> None:
    text = text.replace("f32", dtype)
    if dtype == "i32":
        text = re.sub(r"\b0\.0\b", "0", text)
    kernel = loopfuse.loads(text, reassociate=False)
    made = planned(text, reassociate=False)
    assert "contract" in strategies(made)
    here = with_vectors(MACHINE, "")
    for m, n, k in _edges(shape_of(here, DType(dtype))):
        sizes = {"M": m, "N": n, "K": k}
        arrays = given(made, sizes)
        if dtype == "i32":
            arrays |= {key: 2 for key in ("alpha", "beta") if key in arrays}
        wanted = dict(arrays)
        for name, value in arrays.items():
            wanted[name] = value.copy() if isinstance(value, np.ndarray) else value
        kernel(*(arrays[param.name] for param in made.program.kernel.params))
        plain(wanted)
        for name, value in wanted.items():
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(arrays[name], value, f"{name} at {sizes}")


@pytest.mark.parametrize("text", PARTS, ids=[*WEDGES, *APART])
def test_compiled_parts_have_the_bits_of_the_program(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At sizes around those of tiles, by one thread and by several."""
    made = planned(text, reassociate=False)
    kernel = loopfuse.loads(text, reassociate=False)
    shape = shape_of(with_vectors(MACHINE, ""), DType.F32)
    sides = [
        (0, 3, 2), (1, 1, 1), (shape.rows + 1, shape.columns + 1, shape.steps + 1), (shape.block_rows + 1, 5, 2),
        (3, shape.block_columns + 1, 2), (2 * shape.rows + 1, shape.columns - 1, 3),
    ]  # fmt: skip
    for threads, (m, n, k) in zip("123721", sides, strict=True):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
        sizes = {"M": m, "N": n, "K": k}
        arrays = given(made, sizes)
        right = interpret(made.program.kernel, arrays, sizes)
        kernel(*(arrays[param.name] for param in made.program.kernel.params))
        for name, value in right.items():
            np.testing.assert_array_equal(arrays[name], value, f"{name} at {sizes}")


def plain(v: dict[str, Any]) -> None:
    """The kernels in NumPy, a step of all sums at a time, in the loop's order."""
    a, b, c = v["a"], v["b"], v["c"]
    total = c.copy() if "bias" not in v else np.zeros_like(c)
    if "beta" in v:
        total = (total * a.dtype.type(v["beta"])).astype(a.dtype)
        a = (a * a.dtype.type(v["alpha"])).astype(a.dtype)
    for k in range(a.shape[1]):
        one, other = a[:, k, None], b[None, k, :]
        total = total + one * other if a.dtype.kind == "i" else fused(one, other, total)
    c[...] = np.maximum(total + v["bias"], 0) if "bias" in v else total


def fused(one: Any, other: Any, total: Any) -> Any:
    """Each `one * other + total`, rounded once."""
    kind = DType.F32 if total.dtype == np.float32 else DType.F64
    return np.frompyfunc(fma(kind), 3, 1)(one, other, total).astype(total.dtype)


@pytest.mark.parametrize(("channels", "width", "filters", "taps"), [(0, 9, 3, 2), (3, 40, 9, 3), (2, 34, 8, 3), (1, 5, 2, 2), (2, 300, 17, 5)])
def test_convolutions(channels: int, width: int, filters: int, taps: int) -> None:
    made = planned(CONVOLUTION, reassociate=False)
    assert strategies(made) == ["contract", "generic"]
    kernel = loopfuse.loads(CONVOLUTION, reassociate=False)
    sizes = {"C": channels, "W": width, "K": filters, "S": taps}
    arrays = given(made, sizes)
    right = interpret(made.program.kernel, arrays, sizes)
    kernel(*(arrays[param.name] for param in made.program.kernel.params))
    np.testing.assert_array_equal(arrays["y"], right["y"])


# ------------------------------------------------------------------------------------ what is made of it


def test_reports_say_the_tile() -> None:
    made = planned(PRODUCT, target=Target("cpu", "x86-64-v3"))
    details = [kernel.detail for kernel in made.report.kernels]
    assert details[0].startswith("contract, register tile 6 x 16 over i, j"), details
    assert details[1].startswith("contract, a row at a time"), details


def test_tiles_follow_the_registers() -> None:
    def tile(cpu: str, dtype: DType) -> tuple[int, int]:
        shape = shape_of(with_vectors(MACHINE, cpu), dtype)
        return shape.rows, shape.columns

    assert tile("x86-64-v2", DType.F32) == (6, 8)
    assert tile("x86-64-v3", DType.F32) == (6, 16) and tile("x86-64-v3", DType.F64) == (6, 8)
    assert tile("x86-64-v4", DType.F32) == (8, 32) and tile("x86-64-v4", DType.F64) == (8, 16)


def test_blocks_fit_a_second_cache() -> None:
    for cpu in ("x86-64-v2", "x86-64-v3", "x86-64-v4"):
        for dtype in (DType.I8, DType.F16, DType.F32, DType.F64):
            shape = shape_of(with_vectors(MACHINE, cpu), dtype)
            elements = shape.block_rows * (shape.block_columns + shape.steps) + shape.block_columns * shape.steps
            assert elements * dtype.bytes <= 640 << 10


@pytest.mark.parametrize(("cpu", "sums"), [("x86-64-v3", 12), ("x86-64-v4", 16)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_sums_stay_in_registers(cpu: str, sums: int, dtype: str) -> None:
    """The innermost loop is as many FMAs as a tile has vectors, and touches no stack."""
    target = Target("cpu", cpu)
    program = pipeline.read_program(Source("f.lf", PRODUCT.replace("f32", dtype)))
    made = pipeline.compile_kernel(program, "f", Options(target=target), emit={"llvm"})
    text = host_machine(target).emit_assembly(optimize_llvm(made.llvm, target))
    blocks = re.split(r"^\.LBB\w+:", text, flags=re.MULTILINE)
    loops = [block for block in blocks if len(re.findall(rf"\bvfmadd\w+p{'s' if dtype == 'f32' else 'd'}\b", block)) >= sums]
    assert loops
    inner = min(loops, key=len)
    body = inner[: inner.index("\tj", inner.rindex("vfmadd"))]
    assert "rsp" not in body, body


def test_a_known_number_of_columns_has_one_launch() -> None:
    text = PRODUCT.replace("M, K]", "64, K]").replace("N]", "64]").replace("0..M", "0..64").replace("0..N", "0..64").replace("M, 64", "64, 64")
    assert strategies(planned(text)) == ["contract"]
    thin = text.replace("b: f32[K, 64]", "b: f32[K, 3]").replace("bias: f32[64]", "bias: f32[3]").replace("c: f32[64, 64]", "c: f32[64, 3]").replace("j in 0..64", "j in 0..3")
    assert strategies(planned(thin)) == ["generic"]


def test_panels_are_packed_once_a_block() -> None:
    made = planned(PRODUCT)
    homes = {buffer.name: buffer.home for buffer in made.tree.buffers}
    copies = [node for launch in made.tree.launches for node in walk_nodes(launch.body) if isinstance(node, Copy)]
    assert {node.target.array for node in copies if node.target.array.endswith("panel")} == {"a_panel", "b_panel"}
    assert isinstance(homes["s_sums"], Register)


def test_an_easier_plan_has_no_tiles() -> None:
    made = planned(PRODUCT)
    rules = Rules.of(made.options, made.program)
    ((easier, words),) = registry.easier([*made.scheduled.fits.values()], rules)
    assert words == "products run a row at a time" and not easier.tiles
