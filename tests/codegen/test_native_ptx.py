"""`fp="native"` as PTX: the instructions that it is for and none of what they replace, run on the PTX machine.

There the approximations are correctly rounded, as in the interpreters' models, which have the same bits then; or they are
wrong by an ulp now and then, and fused kernels still have the bits of unfused ones. What a GPU's own errors are is measured
in `tests/gpu/test_native_gpu.py`.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_machine import Machine, Memory, read_ptx
from ptx_runs import numpy_kind
from upstream import has_upstream, verify_all

import loopfuse
from loopfuse import pipeline
from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.codegen.targets.assemble import assemble
from loopfuse.lang import native, ops
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Program
from loopfuse.lang.printer import print_kernel
from loopfuse.runtime.devices.steps import run_steps

H100 = Target("sm_90")
ONE = "kernel f(x: {dtype}[N], w: {dtype}[N], out y: {dtype}[N]):\n    for i in 0..N:\n        y[i] = {value}\n"
SPELLED = {"div": "x[i] / w[i]", "pow": "pow(x[i], w[i])"}
EXACT = {
    "div": lambda x, w: x / w, "sqrt": lambda x, w: np.sqrt(x), "rsqrt": lambda x, w: 1 / np.sqrt(x),
    "exp": lambda x, w: np.exp(x), "exp2": lambda x, w: np.exp2(x), "log": lambda x, w: np.log(x),
    "log2": lambda x, w: np.log2(x), "log10": lambda x, w: np.log10(x), "log1p": lambda x, w: np.log1p(x),
    "pow": lambda x, w: np.power(x, w), "tanh": lambda x, w: np.tanh(x),
    "erf": lambda x, w: np.vectorize(math.erf)(x),
}  # fmt: skip
GROWS = {"exp": lambda x, w: np.abs(x), "pow": lambda x, w: np.abs(w * np.log2(np.abs(x)))}
SLOW = re.compile(r"\b(div\.rn|sqrt\.rn|rcp\.rn|call|div\.full)\b")
APPROXIMATE = re.compile(r"\b\w+\.approx\S*")


def spelled(name: str) -> str:
    """A use of the function."""
    return SPELLED.get(name, f"{name}(x[i])")


def read(text: str, fp: str = "native") -> Program:
    return pipeline.read_program(Source("t.lf", text.lstrip()), fp)


@cache
def compiled(text: str, fp: str = "native", target: Target = H100, fuel: int | None = None) -> Artifact:
    options = Options(target=target, fp=fp, index_bits=32, fuel=fuel)
    return pipeline.compile_kernel(read(text, fp), "f", options, emit=frozenset({"ptx"}))


def ran(
    text: str, arrays: Mapping[str, Any], sizes: Mapping[str, int], fuel: int | None = None, inexact: bool = False
) -> dict[str, Any]:
    """All arrays after a run on the PTX machine."""
    artifact, memory = compiled(text, fuel=fuel), Memory({})
    held = {name: data.copy() for name, data in arrays.items()}
    pointers: dict[str, int] = {}
    address = 1 << 20
    made = {
        buffer["name"]: np.zeros(
            [int(eval(str(each), {}, dict(sizes))) for each in buffer["extents"]], numpy_kind(buffer["dtype"], short=True)
        )
        for buffer in artifact.manifest["buffers"]
    }
    for name, data in (held | made).items():
        memory.place(address, data)
        pointers[name] = address
        address += (data.nbytes + (1 << 12)) // 256 * 256
    entries = read_ptx(artifact.ptx)

    def launch(one: Any, grid: int, block: Any) -> None:
        Machine(
            entries[one["name"]], list(block.words), grid, one["threads"], memory, one["shared_bytes"],
            cluster=one["cluster"], inexact=inexact,
        ).run()  # fmt: skip

    run_steps(artifact.manifest, pointers, dict(sizes), True, launch)
    return held


def arguments(name: str) -> tuple[Any, Any]:
    """Numbers of every size and sign, and those that are special."""
    random = np.random.default_rng(len(name))
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-149, -(2.0**-127), 2.0**-126, 2.0**127, 3.4e38, 0.75, 1.25,
         1.0000001, 0.99999994, -0.25, 0.25], np.float32)  # fmt: skip
    anywhere = (random.choice([-1.0, 1.0], 100) * 2.0 ** random.uniform(-140, 127, 100)).astype(np.float32)
    middle = random.uniform(-100, 100, 100).astype(np.float32)
    near = (1 + random.uniform(-0.4, 0.4, 100)).astype(np.float32)
    x = np.concatenate([special, anywhere, middle, near])
    return x, random.permutation(x)


def agree(one: Any, other: Any) -> Any:
    bits = np.dtype(f"u{one.dtype.itemsize}")
    return (one.view(bits) == other.view(bits)) | (np.isnan(one) & np.isnan(other))


@pytest.mark.parametrize("name", ops.NATIVE)
def test_the_instruction_stands_there_and_nothing_slow(name: str) -> None:
    """Of both sides of each kernel's borders: the same, and no more of them than elements of a thread."""
    text = ONE.format(dtype="f32", value=spelled(name))
    ptx = compiled(text).ptx
    assert not SLOW.search(ptx), name
    found = set(APPROXIMATE.findall(ptx))
    assert ops.NATIVE[name].instruction in found
    assert found <= {ops.NATIVE[name].instruction, *(["lg2.approx.ftz.f32"] if name == "pow" else [])}
    assert assemble(ptx, H100) is not None
    exact = ops.NATIVE["div"].instruction if name == "div" else ""  # which is then corrected: `codegen.mlir.quotients`
    for fp in ("fast", "strict"):
        assert set(APPROXIMATE.findall(compiled(text, fp).ptx)) <= {exact}


@pytest.mark.parametrize("name", ops.NATIVE)
def test_bits_of_the_model(name: str) -> None:
    """And the model is near what it is a model of."""
    text = ONE.format(dtype="f32", value=spelled(name))
    x, w = arguments(name)
    got = ran(text, {"x": x, "w": w, "y": np.zeros_like(x)}, {"N": len(x)})["y"]
    with np.errstate(all="ignore"):
        expected = interpret(native.approximated(read(text).kernel("f")), {"x": x, "w": w}, {"N": len(x)})["y"]
        same = agree(got, expected)
        assert same.all(), (x[~same], w[~same], got[~same], expected[~same])
        exact = EXACT[name](x.astype(np.float64), w.astype(np.float64))
        usual = usual_of(name, x, w, exact)
        assert usual.sum() > 40
        error = np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))
        limit = np.full(x.shape, ops.NATIVE[name].ulps)
        if name in GROWS:
            limit += ops.NATIVE[name].growth * GROWS[name](x.astype(np.float64), w.astype(np.float64))
    wrong = usual & ~(error <= limit)
    assert not wrong.any(), (x[wrong], w[wrong], got[wrong], exact[wrong], error[wrong])


def usual_of(name: str, x: Any, w: Any, exact: Any) -> Any:
    """Where the bound holds: what is read and what is given are normal numbers, and a divisor's reciprocal is one."""
    least, most = 2.0**-126, np.finfo(np.float32).max
    operands = (x, w) if name in ("div", "pow") else (x,)
    found = (np.abs(exact) >= least) & (np.abs(exact) <= most)
    for each in operands:
        found &= (np.abs(each) >= least) & np.isfinite(each)
    return found & (np.abs(w) <= 2.0**126) if name == "div" else found


SPECIAL: dict[str, list[tuple[float, ...]]] = {
    "exp": [(0.0, 1.0), (2.0**-140, 1.0), (-np.inf, 0.0), (np.inf, np.inf), (89.0, np.inf), (-88.0, 0.0), (-1000.0, 0.0)],
    "exp2": [(0.0, 1.0), (-0.0, 1.0), (-np.inf, 0.0), (np.inf, np.inf), (128.0, np.inf), (-127.0, 0.0), (3.0, 8.0)],
    "log": [(1.0, 0.0), (0.0, -np.inf), (-0.0, -np.inf), (np.inf, np.inf), (-1.0, np.nan), (2.0**-140, -np.inf)],
    "log2": [(1.0, 0.0), (0.0, -np.inf), (np.inf, np.inf), (-np.inf, np.nan), (8.0, 3.0)],
    "log10": [(1.0, 0.0), (0.0, -np.inf), (np.inf, np.inf), (-1.0, np.nan)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (2.0**-149, 2.0**-149), (-1.0, -np.inf), (np.inf, np.inf), (-2.0, np.nan)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (2.0**-149, 2.0**-149), (np.inf, 1.0), (-np.inf, -1.0), (5.0, 1.0)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (2.0**-140, 2.0**-140), (np.inf, 1.0), (-np.inf, -1.0), (20.0, 1.0)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (np.inf, np.inf), (-1.0, np.nan), (2.0**-130, 0.0), (4.0, 2.0)],
    "rsqrt": [(0.0, np.inf), (-0.0, -np.inf), (-(2.0**-130), -np.inf), (np.inf, 0.0), (-1.0, np.nan), (2.0**-130, np.inf), (4.0, 0.5)],
    "div": [
        (1.0, 0.0, np.inf), (-1.0, 0.0, -np.inf), (1.0, -0.0, -np.inf), (0.0, 0.0, np.nan), (np.inf, np.inf, np.nan),
        (1.0, np.inf, 0.0), (1.0, -np.inf, -0.0), (np.inf, 2.0, np.inf), (3.0, 2.0**127, 0.0), (1.0, 2.0**-140, np.inf), (6.0, 2.0, 3.0),
    ],
    "pow": [
        (2.0, 3.0, 8.0), (-2.0, 3.0, -8.0), (-2.0, 2.0, 4.0), (-2.0, 0.5, np.nan), (0.0, 0.0, 1.0), (1.0, np.nan, 1.0),
        (np.nan, 0.0, 1.0), (-1.0, np.inf, 1.0), (0.0, -1.0, np.inf), (-0.0, -1.0, -np.inf), (-0.0, 3.0, -0.0),
        (np.inf, -1.0, 0.0), (-np.inf, 3.0, -np.inf), (0.5, np.inf, 0.0), (2.0, -np.inf, 0.0), (1.0, np.inf, 1.0),
    ],
}  # fmt: skip
"""Operands, and what comes of them: the table of docs/types.md."""


@pytest.mark.parametrize("name", ops.NATIVE)
def test_special_numbers(name: str) -> None:
    rows = SPECIAL[name]
    x = np.array([row[0] for row in rows] + [np.nan], np.float32)
    w = np.array([row[-2] for row in rows] + [2.0], np.float32)
    expected = np.array([row[-1] for row in rows] + [np.nan], np.float32)
    got = ran(ONE.format(dtype="f32", value=spelled(name)), {"x": x, "w": w, "y": np.zeros_like(x)}, {"N": len(x)})["y"]
    same = agree(got, expected)
    assert same.all(), (x[~same], w[~same], got[~same], expected[~same])


STAYS = [
    ("f64", "exp(x[i]) / w[i] + tanh(x[i]) + sqrt(w[i])"),
    ("i32", "x[i] // w[i] + x[i] % w[i] + min(x[i], w[i])"),
    ("f32", "sinh(x[i]) + sin(w[i]) + expm1(x[i]) + x[i] // w[i] + x[i] % w[i] + cbrt(x[i])"),
    ("f32", "max(x[i], w[i]) + fma(x[i], w[i], 1.0) + floor(x[i]) + x[i] / 1.0e-40"),
]


@pytest.mark.parametrize(("dtype", "value"), STAYS, ids=["f64", "integers", "other functions", "exact"])
def test_what_has_no_approximation_has_the_code_of_fast(dtype: str, value: str) -> None:
    text = ONE.format(dtype=dtype, value=value)
    assert compiled(text).ptx == compiled(text, "fast").ptx


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_elsewhere_it_is_fast(target: str) -> None:
    text = ONE.format(dtype="f32", value="exp(x[i]) / w[i] + x[i] * w[i]")
    codes: list[str] = []
    for fp in ("native", "fast"):
        options = Options(target=Target(target, "x86-64-v3" if target == "cpu" else ""), fp=fp)
        codes.append(pipeline.compile_kernel(read(text, fp), "f", options, emit=frozenset({"llvm"})).llvm)
    assert codes[0] == codes[1] and "approx" not in codes[0]


def test_halves_are_approximated_in_f32() -> None:
    for dtype in ("f16", "bf16"):
        ptx = compiled(ONE.format(dtype=dtype, value="exp(x[i]) / w[i]")).ptx
        assert {"ex2.approx.ftz.f32", "rcp.approx.ftz.f32"} == set(APPROXIMATE.findall(ptx)) and not SLOW.search(ptx)


def test_a_constant_divides_as_its_reciprocal_multiplies() -> None:
    ptx = compiled(ONE.format(dtype="f32", value="x[i] / 3.0")).ptx
    assert not APPROXIMATE.search(ptx) and not SLOW.search(ptx) and "fma.rn" not in ptx
    assert f"0f{np.float32(1 / 3).view(np.uint32):08X}" in ptx


@pytest.mark.parametrize(("value", "products"), [("-x[i]", 1), ("-0.5 * x[i]", 1), ("x[i] * -4.0", 1), ("0.3 * x[i]", 2)])
def test_an_exponential_takes_signs_and_powers_of_two_into_its_constant(value: str, products: int) -> None:
    """And no other factor, whose product with the constant would be rounded once more."""
    kernel = native.approximated(read(ONE.format(dtype="f32", value=f"exp({value})")).kernel("f"))
    text = print_kernel(kernel)
    assert text.count(" * ") == products, text
    x, w = arguments("exp")
    got = ran(ONE.format(dtype="f32", value=f"exp({value})"), {"x": x, "w": w, "y": np.zeros_like(x)}, {"N": len(x)})["y"]
    with np.errstate(all="ignore"):
        assert agree(got, interpret(kernel, {"x": x, "w": w}, {"N": len(x)})["y"]).all()


def test_what_a_row_is_divided_by_has_one_reciprocal() -> None:
    """In each chunk of 4 elements; and a row's exponential is one multiplication and one instruction."""
    ptx = compiled(ROWS["softmax"]).ptx
    for entry in ptx.split(".visible .entry")[1:]:
        assert not SLOW.search(entry)
    warp = next(each for each in ptx.split(".visible .entry")[1:] if each.split("(")[0].strip().endswith("warp"))
    assert warp.count("rcp.approx") <= warp.count("ex2.approx") // 4


ROWS = {
    "softmax": """
kernel f(x: f32[R, C], out y: f32[R, C]):
    for r in 0..R:
        let m = max(c in 0..C: x[r, c])
        let s = sum(c in 0..C: exp(x[r, c] - m))
        for c in 0..C:
            y[r, c] = exp(x[r, c] - m) / s
""",
    "norm and GELU": """
kernel f(x: f32[R, C], out y: f32[R, C]):
    temp t: f32[R, C]
    for r in 0..R:
        let mean = sum(c in 0..C: x[r, c]) / 7.0
        let spread = sum(c in 0..C: (x[r, c] - mean) * (x[r, c] - mean)) / 7.0
        for c in 0..C:
            t[r, c] = (x[r, c] - mean) / sqrt(spread + 0.00001)
    for r in 0..R, c in 0..C:
        let u = t[r, c]
        y[r, c] = 0.5 * u * (1.0 + tanh(0.7978845608 * (u + 0.044715 * u * u * u)))
""",
    "gates": """
kernel f(x: f32[R, C], out y: f32[R, C]):
    temp a: f32[R, C]
    temp b: f32[R, C]
    for r in 0..R, c in 0..C:
        a[r, c] = x[r, c] / (1.0 + exp(-x[r, c]))
    for r in 0..R, c in 0..C:
        b[r, c] = log1p(exp(a[r, c])) + pow(abs(a[r, c]), 1.5)
    for r in 0..R, c in 0..C:
        y[r, c] = b[r, c] / (a[r, c] * a[r, c] + rsqrt(b[r, c] + 1.0)) + log(b[r, c] + 1.0)
""",
    "stencil": """
kernel f(x: f32[R, C], out y: f32[R, C]):
    temp a: f32[R, C]
    for r in 0..R, c in 0..C:
        a[r, c] = exp(x.clamp[r-1, c] / 3.0) + sqrt(abs(x.clamp[r+1, c]))
    for r in 0..R, c in 0..C:
        y[r, c] = (a.clamp[r, c-1] + a.clamp[r, c+1]) / (1.0 + a.clamp[r-1, c] + a.clamp[r+1, c])
""",
}


@pytest.mark.parametrize("inexact", [False, True], ids=["rounded", "an ulp off"])
@pytest.mark.parametrize("name", ROWS)
def test_fused_has_the_bits_of_unfused(name: str, inexact: bool) -> None:
    x = np.random.default_rng(2).standard_normal((5, 7)).astype(np.float32)
    given, sizes = {"x": x, "y": np.zeros_like(x)}, {"R": 5, "C": 7}
    fused, unfused = (ran(ROWS[name], given, sizes, fuel, inexact)["y"] for fuel in (None, 0))
    assert agree(fused, unfused).all() and np.isfinite(fused).all()
    default = loopfuse.loads(ROWS[name], target="cpu")(x)
    assert not agree(fused, default).all()
    assert np.allclose(fused, default, 2e-3 if "tanh" in ROWS[name] else 2e-6, 1e-3 if "tanh" in ROWS[name] else 1e-7)


@pytest.mark.skipif(not has_upstream(), reason="no mlir-opt")
@pytest.mark.parametrize("name", ["all", "gates", "stencil"])
def test_its_modules_are_upstreams(name: str) -> None:
    """What is compiled has NVVM's intrinsics; for other tools, operations say that they may be approximated."""
    text = ROWS.get(name) or ONE.format(dtype="f32", value=" + ".join(map(spelled, ops.NATIVE)))
    wanted = frozenset({"mlir", "affine"})
    artifact = pipeline.compile_kernel(read(text), "f", Options(target=H100, fp="native"), emit=wanted)
    assert 'llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"' in artifact.mlir and "fastmath" not in artifact.mlir
    assert "fastmath" not in artifact.affine_mlir and "approx" not in artifact.affine_mlir
    assert "approx" in artifact.fused_mlir or "fastmath<afn>" in artifact.fused_mlir
    assert not verify_all([artifact.mlir, artifact.affine_mlir, artifact.fused_mlir])
