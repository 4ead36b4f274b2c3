"""Hand trees to code: run on the CPU against NumPy; PTX through ptxas, MLIR through mlir-opt."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from loopfuse.base.diagnostics import InternalError, LimitError
from loopfuse.codegen.lower.lower import lower
from loopfuse.codegen.math.host import compiled_math
from loopfuse.codegen.targets import native
from loopfuse.lang import nodes as n
from loopfuse.tree import looptree as t

from .trees import (
    BOOL,
    CPU,
    F32,
    F64,
    I32,
    I64,
    SM80,
    SM90,
    V2,
    V3,
    M,
    add,
    both,
    buffer,
    c,
    call,
    compute,
    gpu,
    it,
    kernel,
    launch,
    load,
    loop,
    lt,
    mul,
    op,
    param,
    run_cpu,
    size,
    tree,
)  # fmt: skip

N, H, W = size("N"), size("H"), size("W")
RANDOM = np.random.default_rng(0)


def chain_value(x: n.Expr) -> n.Expr:
    """max(x * a + 1.5, 0) - 0.25."""
    fused = n.Fma(x, n.Symbol("a", F32), c(1.5, F32), F32)
    return op("sub", op("max", fused, 0.0), c(0.25, F32))


CHAIN = kernel(param("x", N), param("y", N, mode="out"), n.ScalarParam("a", F32))


def chain_cpu() -> t.LoopTree:
    return tree(
        CHAIN,
        launch(loop("i", 0, N, M.THREAD,
            compute(load("r"), chain_value(load("x", it("i")))),
            compute(load("y", it("i")), mul(load("r"), c(2.0, F32))))),
        buffers=(buffer("r", t.Register()),),
    )  # fmt: skip


def chain_gpu() -> t.LoopTree:
    i = add(mul(it("b"), 1024), add(mul(it("t"), 4), it("v")))
    last = add(mul(it("b"), 1024), add(mul(it("t"), 4), 3))

    def body(mapping: t.Mapping, *around: t.TreeNode) -> t.TreeNode:
        del around
        computes = (
            compute(load("r"), chain_value(load("x", i))),
            compute(load("y", i), mul(load("r"), c(2.0, F32))),
        )
        if mapping is M.VECTOR:
            return loop("v", 0, 4, mapping, *computes)
        return loop("v", 0, 4, mapping, t.Guard(lt(i, N), computes))

    guard = t.Guard(both(t.ALIGNED, lt(last, N)), (body(M.VECTOR),), (body(M.UNROLLED),))
    return tree(
        CHAIN,
        launch(loop("b", 0, op("floordiv", add(N, 1023), 1024), M.GRID, loop("t", 0, 256, M.BLOCK, guard))),
        device="gpu",
        buffers=(buffer("r", t.Register()),),
    )  # fmt: skip


def chain_expected(x: np.ndarray, a: float) -> np.ndarray:
    wide = (x.astype(np.float64) * np.float64(np.float32(a)) + 1.5).astype(np.float32)
    return (np.maximum(wide, np.float32(0)) - np.float32(0.25)) * np.float32(2)


@pytest.mark.parametrize("target", (CPU, V2, V3))
@pytest.mark.parametrize("bits", (32, 64))
def test_pointwise_chain_on_the_cpu(target, bits: int) -> None:
    x = RANDOM.standard_normal(1003).astype(np.float32)
    y = np.zeros_like(x)
    run_cpu(chain_cpu(), CHAIN, {"x": x, "y": y, "a": 0.7, "N": 1003}, target, bits)
    assert np.array_equal(y, chain_expected(x, 0.7))


@pytest.mark.parametrize("bits", (32, 64))
def test_pointwise_chain_on_the_gpu(bits: int) -> None:
    out = gpu(chain_gpu(), CHAIN, bits)
    assert "ld.global.nc.v4.b32" in out.ptx and "st.global.v4.b32" in out.ptx
    assert ("fma.rn.f32" in out.ptx and "max.NaN.f32" in out.ptx and "sub.rn.f32" in out.ptx) or "add.rn.f32" in out.ptx
    assert "mul.rn.f32" in out.ptx or "add.rn.f32" in out.ptx
    assert not re.search(r"\b(mul|add|sub|fma)\.f32", out.ptx)
    assert ".ftz" not in out.ptx and "approx" not in out.ptx
    assert ".reqntid 256" in out.ptx


def test_the_manifest() -> None:
    out = lower(chain_gpu(), CHAIN, SM90)
    assert out.manifest["steps"] == [
        {
            "launch": {
                "name": "k_0",
                "arguments": [
                    {"kind": "pointer", "name": "x"},
                    {"kind": "pointer", "name": "y"},
                    {"kind": "value", "name": "N", "dtype": "i64"},
                    {"kind": "value", "name": "a", "dtype": "f32"},
                    {"kind": "aligned", "dtype": "bool"},
                ],
                "grid": "max(0, (N + 1023) // 1024)",
                "threads": 256,
                "shared_bytes": 0,
                "cluster": 1,
            }
        }
    ]
    assert out.manifest["sizes"] == ["N"] and out.manifest["index_bits"] == 64


# ---------------------------------------------------------------------------- two dimensions

STENCIL = kernel(param("u", H, W), param("v", H, W, mode="out"), sizes=("H", "W"))


def around(y: n.Expr, x: n.Expr) -> n.Expr:
    total: n.Expr = load("u", y, x)
    for dy, dx in ((0, -1), (0, 1), (-1, 0), (1, 0)):
        total = add(total, load("u", add(y, dy), add(x, dx)))
    return mul(total, c(0.2, F32))


def stencil_expected(u: np.ndarray) -> np.ndarray:
    v = np.zeros_like(u)
    m = u[1:-1, 1:-1] + u[1:-1, :-2]
    v[1:-1, 1:-1] = (((m + u[1:-1, 2:]) + u[:-2, 1:-1]) + u[2:, 1:-1]) * np.float32(0.2)
    return v


def stencil_cpu(inner: t.Mapping) -> t.LoopTree:
    body = compute(load("v", it("y"), it("x")), around(it("y"), it("x")))
    return tree(
        STENCIL,
        launch(loop("y", 1, op("sub", H, 1), M.THREAD, loop("x", 1, op("sub", W, 1), inner, body))),
    )


@pytest.mark.parametrize("target", (CPU, V2))
@pytest.mark.parametrize("bits", (32, 64))
@pytest.mark.parametrize("inner", (M.SERIAL, M.THREAD))
@pytest.mark.parametrize("chunks", (1, 7))
def test_stencil_on_the_cpu(target, bits: int, inner: t.Mapping, chunks: int) -> None:
    for shape in ((9, 31), (3, 3), (2, 5), (30, 4)):
        u = RANDOM.standard_normal(shape).astype(np.float32)
        v = np.zeros_like(u)
        values = {"u": u, "v": v, "H": shape[0], "W": shape[1]}
        run_cpu(stencil_cpu(inner), STENCIL, values, target, bits, chunks)
        assert np.array_equal(v, stencil_expected(u))


@pytest.mark.parametrize("bits", (32, 64))
def test_stencil_on_the_gpu(bits: int) -> None:
    x = add(mul(it("b"), 128), it("t"))
    inside = both(lt(c(0), x), lt(x, op("sub", W, 1)))
    body = t.Guard(inside, (compute(load("v", it("y"), x), around(it("y"), x)),))
    tr = tree(
        STENCIL,
        launch(loop("y", 1, op("sub", H, 1), M.GRID,
            loop("b", 0, op("floordiv", add(W, 127), 128), M.GRID, loop("t", 0, 128, M.BLOCK, body)))),
        device="gpu",
    )  # fmt: skip
    out = gpu(tr, STENCIL, bits)
    assert out.ptx.count("ld.global.nc") == 5
    assert out.manifest["steps"][0]["launch"]["grid"] == "max(0, H - 1 - 1) * max(0, (W + 127) // 128)"


GELU = kernel(param("x", N), param("y", N, mode="out"))


def gelu(function: str) -> t.LoopTree:
    x = load("x", it("i"))
    value = mul(mul(x, c(0.5, F32)), add(call(function, mul(x, c(0.70710677, F32))), c(1.0, F32)))
    return tree(GELU, launch(loop("i", 0, N, M.THREAD, compute(load("y", it("i")), value))))


@pytest.mark.parametrize("function", ("erf", "tanh", "exp"))
def test_math_functions_in_a_kernel(function: str) -> None:
    x = RANDOM.standard_normal(777).astype(np.float32)
    y = np.zeros_like(x)
    run_cpu(gelu(function), GELU, {"x": x, "y": y, "N": 777}, V3)
    inner = compiled_math()[function, F32](x * np.float32(0.70710677))
    assert np.array_equal(y, (x * np.float32(0.5)) * (inner + np.float32(1)))


@pytest.mark.parametrize("make", (lambda: (chain_cpu(), CHAIN), lambda: (stencil_cpu(M.SERIAL), STENCIL),
    lambda: (stencil_cpu(M.THREAD), STENCIL),
    *(lambda f=f: (gelu(f), GELU) for f in ("exp", "erf", "tanh", "log", "exp2", "expm1", "log1p", "rsqrt"))))  # fmt: skip
@pytest.mark.parametrize("bits", (32, 64))
def test_inner_loops_vectorise_without_alias_checks(make, bits: int) -> None:
    tr, k = make()
    llvm = lower(tr, k, V3, bits).llvm
    text = str(native.optimize_llvm(llvm, V3))
    assert "vector.body" in text and "vector.memcheck" not in text
    assert "<8 x float>" in text


def test_objects_need_only_libm() -> None:
    """What stays unresolved is libm's fma, where the CPU has none."""
    x = load("x", it("i"))
    value: n.Expr = n.Fma(x, x, c(1.0, F32), F32)
    for function in ("exp", "log", "erf", "floor", "round", "trunc", "ceil", "sqrt", "abs"):
        value = add(value, call(function, x))
    value = add(value, op("mod", x, c(0.75, F32)))
    tr = tree(GELU, launch(loop("i", 0, N, M.THREAD, compute(load("y", it("i")), value))))
    for target, allowed in ((V2, {"fma", "fmaf"}), (V3, set()), (CPU, set())):
        assert undefined(lower(tr, GELU, target).object) <= allowed | {"memset"}


def test_copies_are_loops() -> None:
    """No `memcpy`: some of them take ten times as long where source and destination begin at other bytes of their pages."""
    tr = tree(GELU, launch(loop("i", 0, N, M.THREAD, compute(load("y", it("i")), load("x", it("i"))))))
    for target in (V2, V3, CPU):
        assert not undefined(lower(tr, GELU, target).object)


def undefined(data: bytes) -> set[str]:
    """What an object needs of others."""
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        file.write(data)
        file.flush()
        done = subprocess.run(["nm", "-u", file.name], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines()} - {"_GLOBAL_OFFSET_TABLE_"}


# -------------------------------------------------------------------------------- semantics


def elementwise(value: n.Expr, result=F32, **dtypes) -> tuple[t.LoopTree, n.Kernel]:
    arrays = [param(name, N, dtype=dtype) for name, dtype in dtypes.items()]
    k = kernel(*arrays, param("out", N, dtype=result, mode="out"))
    body = compute(load("out", it("i"), dtype=result), value)
    return tree(k, launch(loop("i", 0, N, M.THREAD, body))), k


def evaluate(value: n.Expr, result=F32, target=CPU, **arrays: np.ndarray) -> np.ndarray:
    names = {"float32": F32, "float64": F64, "int32": I32, "int64": I64, "bool": BOOL}
    dtypes = {name: names[str(each.dtype)] for name, each in arrays.items()}
    tr, k = elementwise(value, result, **dtypes)
    count = next(iter(arrays.values())).size
    out = np.zeros(count, result.numpy_name)
    run_cpu(tr, k, {**arrays, "out": out, "N": count}, target)
    to_gpu(value, result, dtypes)
    return out


def to_gpu(value: n.Expr, result, dtypes) -> str:
    arrays = [param(name, N, dtype=dtype) for name, dtype in dtypes.items()]
    k = kernel(*arrays, param("out", N, dtype=result, mode="out"))
    body = t.Guard(lt(it("i"), N), (compute(load("out", it("i"), dtype=result), value),))
    tr = tree(k, launch(loop("b", 0, N, M.GRID, loop("i", 0, 64, M.BLOCK, body))), device="gpu")
    return gpu(tr, k).ptx


@pytest.mark.parametrize("dtype", (I32, I64))
@pytest.mark.parametrize("target", (CPU, V2))
def test_integer_division(dtype, target) -> None:
    info = np.iinfo(dtype.numpy_name)
    hard = np.array([0, 1, -1, 2, -2, 3, -3, 7, -7, info.min, info.max, info.min + 1], dtype.numpy_name)
    a, b = (each.ravel().copy() for each in np.meshgrid(hard, hard))
    x, y = load("a", it("i"), dtype=dtype), load("b", it("i"), dtype=dtype)
    with np.errstate(all="ignore"):
        quotient, rest = np.floor_divide(a, b), np.mod(a, b)
    quotient[b == 0] = 0
    rest[b == 0] = 0
    least = (a == info.min) & (b == -1)
    quotient[least], rest[least] = info.min, 0
    assert np.array_equal(evaluate(op("floordiv", x, y), dtype, target, a=a, b=b), quotient)
    assert np.array_equal(evaluate(op("mod", x, y), dtype, target, a=a, b=b), rest)
    for divisor in (1, 2, 3, 7, 8, 10, 641, -3, 0):
        number = c(divisor, dtype)
        quotient = a // divisor if divisor else a * 0
        assert np.array_equal(evaluate(op("floordiv", x, number), dtype, target, a=a), quotient)
        rest = a % divisor if divisor else a * 0
        assert np.array_equal(evaluate(op("mod", x, number), dtype, target, a=a), rest)


def test_shifts() -> None:
    a = np.array([1, -1, 5, -8, 2**31 - 1] * 8, np.int32)
    b = np.repeat(np.array([0, 1, 31, 32, 33, 100, -1, 2], np.int32), 5)
    x, y = load("a", it("i"), dtype=I32), load("b", it("i"), dtype=I32)
    inside = (b >= 0) & (b < 32)
    safe = np.where(inside, b, 0)
    left = np.where(inside, np.left_shift(a, safe), 0)
    right = np.where(inside, np.right_shift(a, safe), 0)
    assert np.array_equal(evaluate(op("shl", x, y), I32, a=a, b=b), left)
    assert np.array_equal(evaluate(op("shr", x, y), I32, a=a, b=b), right)


@pytest.mark.parametrize("source, dtype", ((F32, np.float32), (F64, np.float64)))
def test_float_to_integer_saturates(source, dtype) -> None:
    a = np.array([0.5, -0.5, 1.9, -1.9, 3e9, -3e9, 1e30, -1e30, np.inf, -np.inf, np.nan], dtype)
    for result in (I32, I64):
        info = np.iinfo(result.numpy_name)
        got = evaluate(n.Cast(load("a", it("i"), dtype=source), result), result, a=a)
        exact = [0 if np.isnan(v) else max(info.min, min(info.max, _truncate(v))) for v in a.tolist()]
        assert got.tolist() == exact


def _truncate(value: float) -> int:
    if np.isinf(value):
        return 2**70 if value > 0 else -(2**70)
    return int(value)


def test_other_casts() -> None:
    a = np.array([0, 1, -1, 2**31 - 1, -(2**31), 77], np.int32)
    x = load("a", it("i"), dtype=I32)
    assert np.array_equal(evaluate(n.Cast(x, I64), I64, a=a), a.astype(np.int64))
    assert np.array_equal(evaluate(n.Cast(x, F32), F32, a=a), a.astype(np.float32))
    assert np.array_equal(evaluate(n.Cast(x, F64), F64, a=a), a.astype(np.float64))
    assert np.array_equal(evaluate(n.Cast(x, BOOL), BOOL, a=a), a != 0)
    wide = a.astype(np.int64) * 2**20
    y = load("a", it("i"), dtype=I64)
    assert np.array_equal(evaluate(n.Cast(y, I32), I32, a=wide), wide.astype(np.int32))
    f = np.array([0.0, -0.0, 1.5, np.nan, 1e300], np.float64)
    z = load("a", it("i"), dtype=F64)
    assert np.array_equal(evaluate(n.Cast(z, BOOL), BOOL, a=f), f != 0)
    with np.errstate(over="ignore"):
        assert np.array_equal(evaluate(n.Cast(z, F32), F32, a=f), f.astype(np.float32), equal_nan=True)
    flags = np.array([True, False, True])
    w = load("a", it("i"), dtype=BOOL)
    assert np.array_equal(evaluate(n.Cast(w, I32), I32, a=flags), flags.astype(np.int32))
    assert np.array_equal(evaluate(n.Cast(w, F32), F32, a=flags), flags.astype(np.float32))


@pytest.mark.parametrize("source, dtype", ((F32, np.float32), (F64, np.float64)))
def test_minimum_and_maximum(source, dtype) -> None:
    hard = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], dtype)
    a, b = (each.ravel().copy() for each in np.meshgrid(hard, hard))
    x, y = load("a", it("i"), dtype=source), load("b", it("i"), dtype=source)
    for word, function, ignore in (("min", np.minimum, np.fmin), ("max", np.maximum, np.fmax)):
        got = evaluate(op(word, x, y), source, a=a, b=b)
        assert np.array_equal(got, function(a, b), equal_nan=True)
        zeros = (a == 0) & (b == 0)
        negative = (np.signbit(a) | np.signbit(b)) if word == "min" else (np.signbit(a) & np.signbit(b))
        assert np.array_equal(np.signbit(got[zeros]), negative[zeros])
        assert np.array_equal(evaluate(op(f"f{word}", x, y), source, a=a, b=b), ignore(a, b), equal_nan=True)


def test_rounding_functions_and_float_division() -> None:
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4, -2.6, np.inf, np.nan, -0.0, 1e9], np.float32)
    x = load("a", it("i"))
    for name, function in (("floor", np.floor), ("ceil", np.ceil), ("round", np.rint),
                           ("trunc", np.trunc), ("abs", np.abs)):  # fmt: skip
        got = evaluate(call(name, x), F32, a=a)
        assert np.array_equal(got, function(a), equal_nan=True)
        assert np.array_equal(np.signbit(got), np.signbit(function(a)))
    b = RANDOM.standard_normal(11).astype(np.float32)
    with np.errstate(all="ignore"):
        assert np.array_equal(evaluate(op("div", x, load("b", it("i"))), F32, a=a, b=b), a / b, equal_nan=True)
        assert np.array_equal(evaluate(call("sqrt", x), F32, a=a), np.sqrt(a), equal_nan=True)
    ptx = to_gpu(op("div", call("sqrt", x), load("b", it("i"))), F32, {"a": F32, "b": F32})
    assert "div.rn.f32" in ptx and "sqrt.rn.f32" in ptx


def test_logic_bits_and_selects() -> None:
    a = np.array([True, True, False, False])
    b = np.array([True, False, True, False])
    x, y = load("a", it("i"), dtype=BOOL), load("b", it("i"), dtype=BOOL)
    assert np.array_equal(evaluate(n.Binary("and", x, y, BOOL), BOOL, a=a, b=b), a & b)
    assert np.array_equal(evaluate(n.Binary("xor", x, y, BOOL), BOOL, a=a, b=b), a ^ b)
    assert np.array_equal(evaluate(n.Unary("not", x, BOOL), BOOL, a=a), ~a)
    i = np.array([0, 1, -5, 2**31 - 1], np.int32)
    z = load("i", it("i"), dtype=I32)
    assert np.array_equal(evaluate(n.Unary("invert", z, I32), I32, i=i), ~i)
    assert np.array_equal(evaluate(n.Unary("neg", z, I32), I32, i=i), -i)
    f = RANDOM.standard_normal(50).astype(np.float32)
    w = load("f", it("i"))
    relu = n.Select(n.Compare("gt", w, c(0.0, F32)), w, c(0.0, F32), F32)
    assert np.array_equal(evaluate(relu, F32, f=f), np.where(f > 0, f, np.float32(0)))


def test_an_iterator_is_a_value() -> None:
    i = n.Cast(mul(it("i"), 3), F32)
    a = np.zeros(9, np.float32)
    got = evaluate(add(i, load("a", it("i"))), F32, a=a)
    assert np.array_equal(got, np.arange(9, dtype=np.float32) * 3)


def test_an_arm_out_of_bounds_is_not_read() -> None:
    """The array ends at a page that cannot be read: only the chosen arm may be."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    whole = np.frombuffer(memory, np.float32)
    address = whole.ctypes.data
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(address + page), page, 0) == 0
    x = whole[: page // 4]
    x[:] = RANDOM.standard_normal(x.size)
    size_ = x.size
    after = add(it("i"), 1)
    value = n.Select(lt(after, N), load("a", after), c(0.0, F32), F32)
    tr, k = elementwise(value, F32, a=F32)
    out = np.zeros(size_, np.float32)
    run_cpu(tr, k, {"a": x, "out": out, "N": size_})
    expected = np.append(x[1:], np.float32(0))
    libc.mprotect(ctypes.c_void_p(address + page), page, 3)
    assert np.array_equal(out, expected)
    to_gpu(value, F32, {"a": F32})


def test_predicates_select_what_is_written() -> None:
    a = RANDOM.standard_normal(100).astype(np.float32)
    k = kernel(param("a", N), param("out", N, mode="inout"))
    x = load("a", it("i"))
    body = compute(load("out", it("i")), mul(x, x), n.Compare("gt", x, c(0.0, F32)))
    tr = tree(k, launch(loop("i", 0, N, M.THREAD, body)))
    out = np.full(100, 7, np.float32)
    run_cpu(tr, k, {"a": a, "out": out, "N": 100})
    assert np.array_equal(out, np.where(a > 0, a * a, np.float32(7)))


# ------------------------------------------------------------------------------- reductions

SUM = kernel(param("x", N), param("s", 1, mode="out"))


def sum_gpu(threads: int = 256, op_: str = "sum", dtype=F32, neutral: float = 0.0) -> tuple[t.LoopTree, n.Kernel]:
    """Grid-strided partial sums, a Combine a block, and the last block adds the partials."""
    k = kernel(param("x", N, dtype=dtype), param("s", 1, dtype=dtype, mode="out"))
    fold = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}[op_]
    at = add(it("k"), add(mul(it("b"), threads), it("t")))
    acc = load("acc", dtype=dtype)
    partial = compute(acc, op(fold, acc, load("x", at, dtype=dtype)))
    first = t.Guard(n.Compare("eq", it("t"), c(0)), (t.Copy(load("part", it("b"), dtype=dtype), acc),))
    last = (
        t.Copy(acc, c(neutral, dtype)),
        loop("q", it("t"), 64, M.SERIAL, t.Fold(op_, acc, load("part", it("q"), dtype=dtype)), step=threads),
        t.Combine(op_, "acc", ("t",)),
        t.Guard(n.Compare("eq", it("t"), c(0)), (t.Copy(load("s", 0, dtype=dtype), acc),)),
    )
    body = (
        t.Copy(acc, c(neutral, dtype)),
        loop("k", 0, N, M.SERIAL, t.Guard(lt(at, N), (partial,)), step=64 * threads),
        t.Combine(op_, "acc", ("t",)),
        first,
        t.Ticket(load("count", 0, dtype=I32), c(64), last),
    )
    buffers = (
        buffer("acc", t.Register(), dtype=dtype),
        buffer("part", t.Global(), 64, dtype=dtype),
        buffer("count", t.Global(), 1, dtype=I32, zeroed=True),
    )
    tr = tree(k, launch(loop("b", 0, 64, M.GRID, loop("t", 0, threads, M.BLOCK, *body))), device="gpu", buffers=buffers)
    return tr, k


@pytest.mark.parametrize("threads", (32, 256, 96, 1024))
def test_two_stage_reduction_on_the_gpu(threads: int) -> None:
    tr, k = sum_gpu(threads)
    out = gpu(tr, k, 32)
    assert "shfl.sync.down" in out.ptx
    # Fences around the ticket: all writes before are seen after.
    assert re.search(r"fence.acq_rel.gpu;\s+atom.*?;\s+fence.acq_rel.gpu;", out.ptx)
    assert out.manifest["buffers"][1] == {"name": "count", "dtype": "i32", "extents": ["1"], "zeroed": True}
    # The partial sums are written in this kernel: never through the read-only cache.
    assert out.ptx.count("ld.global.nc") == out.ptx.count("ld.global.nc.b32")


@pytest.mark.parametrize("op_, dtype, neutral", (("max", F64, -np.inf), ("sum", I64, 0), ("min", I32, 2**31 - 1), ("prod", F64, 1.0)))
def test_reductions_of_other_kinds(op_: str, dtype, neutral) -> None:
    gpu(*sum_gpu(128, op_, dtype, neutral))


def test_serial_reduction_on_the_cpu() -> None:
    """Two launches: partial sums by thread, then one iteration adds them."""
    k = SUM
    at = add(mul(it("p"), op("floordiv", add(N, 7), 8)), it("j"))
    acc = load("acc")
    first = launch(
        loop("p", 0, 8, M.THREAD,
            t.Copy(acc, c(0.0, F32)),
            loop("j", 0, op("floordiv", add(N, 7), 8), M.SERIAL,
                t.Guard(lt(at, N), (compute(acc, add(acc, load("x", at))),))),
            t.Copy(load("part", it("p")), acc)),
        name="k_0",
    )  # fmt: skip
    second = launch(
        t.Copy(acc, c(0.0, F32)),
        loop("q", 0, 8, M.SERIAL, t.Fold("sum", acc, load("part", it("q")))),
        t.Copy(load("s", 0), acc),
        name="k_1",
    )
    tr = tree(k, first, second, buffers=(buffer("acc", t.Register()), buffer("part", t.Global(), 8)))
    x = RANDOM.integers(-9, 9, 1001).astype(np.float32)
    s = np.zeros(1, np.float32)
    out = run_cpu(tr, k, {"x": x, "s": s, "N": 1001})
    assert s[0] == x.sum()
    assert [each["launch"]["grid"] for each in out.manifest["steps"]] == ["8", "1"]


def test_row_softmax_with_shared_memory() -> None:
    """A block a row, the row in shared memory, two Combines broadcast through it."""
    k = kernel(param("x", H, 512), param("y", H, 512, mode="out"), sizes=("H",))
    column = add(mul(it("j"), 128), it("t"))
    acc, big = load("acc"), load("big")
    row = load("row", column)
    body = (
        t.Copy(acc, c(-np.inf, F32)),
        loop("j", 0, 4, M.UNROLLED,
            t.Copy(row, load("x", it("r"), column)), compute(acc, op("max", acc, row))),
        t.Combine("max", "acc", ("t",)),
        t.Guard(n.Compare("eq", it("t"), c(0)), (t.Copy(load("one", 0), acc),)),
        t.Barrier("block"),
        t.Copy(big, load("one", 0)),
        t.Barrier("block"),
        t.Copy(acc, c(0.0, F32)),
        loop("j", 0, 4, M.UNROLLED,
            compute(row, call("exp", op("sub", row, big))), compute(acc, add(acc, row))),
        t.Combine("sum", "acc", ("t",)),
        t.Guard(n.Compare("eq", it("t"), c(0)), (t.Copy(load("one", 0), acc),)),
        t.Barrier("block"),
        loop("j", 0, 4, M.UNROLLED, compute(load("y", it("r"), column), op("div", row, load("one", 0)))),
    )  # fmt: skip
    tr = tree(k, launch(loop("r", 0, H, M.GRID, loop("t", 0, 128, M.BLOCK, *body))), device="gpu",
              buffers=(buffer("acc", t.Register()), buffer("big", t.Register()),
                       buffer("row", t.Shared(), 512), buffer("one", t.Shared(), 1)))  # fmt: skip
    out = gpu(tr, k)
    assert "bar.sync" in out.ptx and "ld.shared" in out.ptx


# -------------------------------------------------------------- host loops, windows and flags


def test_a_host_loop_with_its_variable() -> None:
    k = kernel(param("a", 2, N, mode="inout"), n.ScalarParam("steps", I64))
    old, new = op("mod", it("t"), 2), op("mod", add(it("t"), 1), 2)
    body = compute(load("a", new, it("i")), add(load("a", old, it("i")), n.Cast(it("t"), F32)))
    inner = launch(loop("i", 0, N, M.THREAD, body))
    tr = tree(k, t.HostLoop("t", c(0), n.Symbol("steps", I64), 1, (inner,)))
    for bits in (32, 64):
        a = np.zeros((2, 5), np.float32)
        out = run_cpu(tr, k, {"a": a, "N": 5, "steps": 4}, bits=bits)
        assert a[0].tolist() == [6.0] * 5 and a[1].tolist() == [3.0] * 5
    assert out.manifest["steps"][0]["loop"]["upper"] == "steps"


def test_host_variables_may_hold_dots() -> None:
    k = kernel(param("a", N, mode="inout"), n.ScalarParam("steps", I64))
    body = compute(load("a", it("i")), add(load("a", it("i")), n.Cast(it("t.1"), F32)))
    upper = n.Select(lt(N, 3), c(0), n.Symbol("steps", I64), I64)
    inner = launch(loop("i", 0, N, M.THREAD, body))
    tr = tree(k, t.HostLoop("t.1", c(0), upper, 1, (inner,)))
    a = np.zeros(5, np.float32)
    out = run_cpu(tr, k, {"a": a, "N": 5, "steps": 4})
    assert a.tolist() == [6.0] * 5
    assert out.manifest["steps"][0]["loop"]["var"] == "t__1"
    assert out.manifest["steps"][0]["loop"]["upper"] == "(0 if (N < 3) else steps)"


def test_a_bound_that_depends_on_a_condition() -> None:
    k = kernel(param("y", N, mode="out"))
    upper = n.Select(n.Compare("ge", N, c(10)), op("sub", N, 3), op("floordiv", N, 2), I64)
    tr = tree(k, launch(loop("i", 1, upper, M.THREAD, compute(load("y", it("i")), c(1.0, F32)))))
    for count in (4, 12):
        y = np.zeros(count, np.float32)
        run_cpu(tr, k, {"y": y, "N": count}, bits=32)
        assert y.sum() == (count - 4 if count >= 10 else count // 2 - 1)


def test_scalar_parameters_may_be_larger_than_32_bits() -> None:
    k = kernel(param("y", N, dtype=I64, mode="out"), n.ScalarParam("k", I64))
    inside = lt(it("i"), n.Symbol("k", I64))
    value = n.Select(inside, mul(n.Symbol("k", I64), it("i")), c(-1), I64)
    tr = tree(k, launch(loop("i", 0, N, M.THREAD, compute(load("y", it("i"), dtype=I64), value))))
    for big in (2**40 + 3, 2**32, -5, 3, 2**63 - 1):
        y = np.zeros(6, np.int64)
        run_cpu(tr, k, {"y": y, "N": 6, "k": big}, bits=32)
        with np.errstate(over="ignore"):
            expected = np.where(np.arange(6) < big, np.int64(big) * np.arange(6), -1)
        assert np.array_equal(y, expected)


def test_windows_and_line_buffers() -> None:
    """Three rows behind: w[y % 3] holds what x[y] was."""
    k = kernel(param("x", N), param("y", N, mode="out"))
    for home, extents in ((t.Window(3), (N,)), (t.LineBuffer(3), (c(300),))):
        del extents
        at = it("i")
        write = t.Copy(load("w", at), load("x", at))
        total = add(add(load("w", op("sub", at, 2)), load("w", op("sub", at, 1))), load("w", at))
        later = t.Guard(lt(c(1), at), (compute(load("y", at), total),))
        tr = tree(k, launch(loop("i", 0, N, M.SERIAL, write, later)),
                  buffers=(buffer("w", home, 300),))  # fmt: skip
        x = RANDOM.integers(0, 9, 20).astype(np.float32)
        y = np.zeros_like(x)
        run_cpu(tr, k, {"x": x, "y": y, "N": 20})
        assert np.array_equal(y[2:], x[:-2] + x[1:-1] + x[2:])


def test_a_window_in_an_unrolled_loop_is_in_registers() -> None:
    k = kernel(param("x", N, W), param("y", N, W, mode="out"), sizes=("N", "W"))
    row = add(it("i"), it("u"))
    column = add(mul(it("b"), 64), it("t"))
    write = t.Copy(load("w", row), load("x", row, column))
    total = add(load("w", row), load("w", op("sub", row, 1)))
    body = loop("i", 0, N, M.SERIAL,
                loop("u", 0, 3, M.UNROLLED, t.Guard(lt(row, N), (write, compute(load("y", row, column), total)))),
                step=3)  # fmt: skip
    tr = tree(k, launch(loop("b", 0, op("floordiv", W, 64), M.GRID, loop("t", 0, 64, M.BLOCK, body))),
              device="gpu", buffers=(buffer("w", t.Window(3), 300),))  # fmt: skip
    gpu(tr, k, 32)


def test_flags_between_blocks() -> None:
    k = kernel(param("x", N), param("y", N, mode="out"))
    flag = load("flag", 0, dtype=I32)
    body = (
        t.Await(flag, it("b")),
        t.Guard(lt(it("t"), c(1)), (compute(load("y", it("b")), add(load("x", it("b")), c(1.0, F32))),)),
        t.Raise(flag, add(it("b"), 1)),
    )
    tr = tree(k, launch(loop("b", 0, N, M.GRID, loop("t", 0, 32, M.BLOCK, *body))), device="gpu",
              buffers=(buffer("flag", t.Global(), 1, dtype=I32, zeroed=True),))  # fmt: skip
    out = gpu(tr, k)
    assert "atom" in out.ptx and "bar.sync" in out.ptx


def test_vector_loops_of_every_kind_of_access() -> None:
    """Unit stride, invariant, strided, gathered and private values, on the CPU against NumPy."""
    k = kernel(param("x", N), param("f", N, dtype=BOOL), param("y", N, mode="out"), param("z", N, mode="out"))
    i = add(mul(it("i"), 4), it("v"))
    x = load("x", i)
    backward = load("x", op("sub", op("sub", N, 1), i))
    body = loop("v", 0, 4, M.VECTOR,
        compute(load("r"), mul(x, load("x", 0))),
        compute(load("y", i), add(add(load("r"), backward), n.Cast(i, F32))),
        compute(load("z", i), n.Select(load("f", i, dtype=BOOL), call("exp", x), load("r"), F32)),
        compute(load("z", i), c(5.0, F32), n.Compare("gt", x, c(1.0, F32))))  # fmt: skip
    tr = tree(k, launch(loop("i", 0, op("floordiv", N, 4), M.THREAD, body)), buffers=(buffer("r", t.Register()),))
    x_ = RANDOM.standard_normal(64).astype(np.float32)
    f = RANDOM.random(64) < 0.5
    y, z = np.zeros_like(x_), np.zeros_like(x_)
    for bits in (32, 64):
        run_cpu(tr, k, {"x": x_, "f": f, "y": y, "z": z, "N": 64}, bits=bits)
        r = x_ * x_[0]
        assert np.array_equal(y, (r + x_[::-1]) + np.arange(64, dtype=np.float32))
        exp = compiled_math()["exp", F32](x_)
        assert np.array_equal(z, np.where(x_ > 1, np.float32(5), np.where(f, exp, r)))


# ------------------------------------------------------------------------------------ limits


def test_what_cannot_be_lowered_says_so() -> None:
    tr = tree(CHAIN, launch(loop("b", 0, N, M.GRID, loop("c", 0, 2, M.CLUSTER, loop("t", 0, 32, M.BLOCK)))), device="gpu")
    with pytest.raises(LimitError, match="a cluster of blocks on sm_80") as error:
        lower(tr, CHAIN, SM80)
    assert error.value.diagnostics[0].code == "tree-not-lowered"
    assert ".reqnctapercluster 2, 1, 1" in lower(tr, CHAIN, SM90).ptx
    inside = tree(CHAIN, launch(loop("i", 0, N, M.SERIAL, loop("j", 0, N, M.THREAD))))
    with pytest.raises(InternalError):
        lower(inside, CHAIN, CPU)


def test_equal_input_gives_equal_bytes() -> None:
    """Whatever the hash seed: no set or dict order reaches the text."""
    program = (
        "import hashlib; from tests.codegen.test_lower import *\n"
        "a = lower(chain_gpu(), CHAIN, SM90); b = lower(gelu('erf'), GELU, V3); d = lower(sum_gpu()[0], sum_gpu()[1], SM90)\n"
        "print(hashlib.sha256(repr((a, b, d)).encode()).hexdigest())\n"
    )
    root = Path(__file__).parents[2]
    seen = set()
    for seed in ("1", "2"):
        done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True,
                              env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"})  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout)
    assert len(seen) == 1
