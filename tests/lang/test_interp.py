"""The interpreter: every operation at its edges, against values known independently."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang import semantics
from loopfuse.lang.check.check import check
from loopfuse.lang.interp import OutOfBounds, interpret

NAN, INF = math.nan, math.inf
F32_MAX = float(np.finfo(np.float32).max)
I32_MIN, I32_MAX = -(2**31), 2**31 - 1
I64_MIN, I64_MAX = -(2**63), 2**63 - 1


def kernel(text: str, fp: str = "fast"):
    """The last kernel of `text`."""
    return check(parse(Source("test.lf", text)), fp=fp).kernels[-1]


def run(text: str, *, fp: str = "fast", sizes: dict[str, int] | None = None, **arguments: object):
    """The kernel's outputs."""
    return interpret(kernel(text, fp), arguments, sizes or {})


def compute(value: str, result: str, fp: str = "fast", **scalars: tuple[str, object]):
    """The value of one expression of typed scalar parameters."""
    params = "".join(f"{name}: {kind}, " for name, (kind, _) in scalars.items())
    text = f"kernel test({params}out y: {result}[1]):\n    y[0] = {value}\n"
    return run(text, fp=fp, **{name: value for name, (_, value) in scalars.items()})["y"][0]


def same(a: object, b: object) -> bool:
    """Equal bits, or both NaN."""
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype.kind == "f" and np.isnan(x) and np.isnan(y):
        return True
    return x.dtype == y.dtype and x.tobytes() == y.tobytes()


# -------------------------------------------------------------------------------- integers


@pytest.mark.parametrize(
    ("value", "a", "b", "expected"),
    [
        ("a + b", I32_MAX, 1, I32_MIN),
        ("a - b", I32_MIN, 1, I32_MAX),
        ("a * b", 65536, 65536, 0),
        ("a * b", 46341, 46341, -2147479015),
        ("-a", I32_MIN, 0, I32_MIN),
        ("abs(a)", I32_MIN, 0, I32_MIN),
        ("a // b", 7, 2, 3),
        ("a // b", -7, 2, -4),
        ("a // b", 7, -2, -4),
        ("a // b", -7, -2, 3),
        ("a // b", 7, 0, 0),
        ("a // b", I32_MIN, -1, I32_MIN),
        ("a % b", 7, 3, 1),
        ("a % b", -7, 3, 2),
        ("a % b", 7, -3, -2),
        ("a % b", -7, -3, -1),
        ("a % b", 7, 0, 0),
        ("a % b", I32_MIN, -1, 0),
        ("a << b", 1, 31, I32_MIN),
        ("a << b", 1, 32, 0),
        ("a << b", 1, -1, 0),
        ("a >> b", -8, 1, -4),
        ("a >> b", -8, 32, 0),
        ("a >> b", 8, -1, 0),
        ("a & b", -8, 12, 8),
        ("a | b", -8, 1, -7),
        ("a ^ b", -8, 12, -12),
        ("~a", 5, 0, -6),
        ("min(a, b)", 3, -3, -3),
        ("fmax(a, b)", 3, -3, 3),
        ("a ** 3", 2000, 0, -589934592),
    ],
)
def test_i32_operations(value: str, a: int, b: int, expected: int) -> None:
    assert compute(value, "i32", a=("i32", a), b=("i32", b)) == expected


def test_i64_wraps() -> None:
    assert compute("a + 1", "i64", a=("i64", I64_MAX)) == I64_MIN
    assert compute("a * 2", "i64", a=("i64", I64_MIN)) == 0


def test_integer_division_gives_f64() -> None:
    got = compute("a / b", "f64", a=("i32", 1), b=("i32", 3))
    assert same(got, np.float64(1) / np.float64(3))
    assert compute("a / b", "f64", a=("i32", -1), b=("i32", 0)) == -INF


# ---------------------------------------------------------------------------------- floats

FLOATS = [0.0, -0.0, 1.0, -1.5, 5e-324, 1e-45, F32_MAX, INF, -INF, NAN, 3.7, -3.7, 1e300]


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_arithmetic_is_ieee(kind: str, op: str) -> None:
    dtype = np.float32 if kind == "f32" else np.float64
    with np.errstate(all="ignore"):
        for x in FLOATS:
            for y in FLOATS:
                a, b = dtype(x), dtype(y)
                expected = {"+": a + b, "-": a - b, "*": a * b}.get(op)
                expected = np.divide(a, b) if expected is None else expected
                assert same(compute(f"a {op} b", kind, a=(kind, a), b=(kind, b)), expected)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("function", "a", "b", "expected"),
    [
        ("min", NAN, 1.0, NAN),
        ("min", 1.0, NAN, NAN),
        ("max", NAN, NAN, NAN),
        ("min", 0.0, -0.0, -0.0),
        ("min", -0.0, 0.0, -0.0),
        ("max", 0.0, -0.0, 0.0),
        ("max", -0.0, 0.0, 0.0),
        ("fmin", NAN, 1.0, 1.0),
        ("fmax", 1.0, NAN, 1.0),
        ("fmin", NAN, NAN, NAN),
        ("fmin", 0.0, -0.0, -0.0),
        ("min", INF, 2.0, 2.0),
        ("max", -INF, 2.0, 2.0),
    ],
)
def test_min_and_max(kind: str, function: str, a: float, b: float, expected: float) -> None:
    dtype = np.float32 if kind == "f32" else np.float64
    got = compute(f"{function}(a, b)", kind, a=(kind, a), b=(kind, b))
    assert same(got, dtype(expected))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_floor_division_and_modulo_are_numpys(dtype: type) -> None:
    values = [*FLOATS, 2.0, -2.0, 0.1, 1e10, -1e-20, 7.0, 1 / 3]
    kind = "f32" if dtype is np.float32 else "f64"
    with np.errstate(all="ignore"):
        for x in values:
            for y in values:
                a, b = dtype(x), dtype(y)
                got = compute("a % b", kind, a=(kind, a), b=(kind, b))
                assert same(got, np.remainder(a, b)), (a, b)
                got = compute("a // b", kind, a=(kind, a), b=(kind, b))
                assert same(got, np.floor_divide(a, b)), (a, b)


def test_float_modulo_is_exact_in_f64() -> None:
    # The remainder of the exact quotient, not x - y*floor(x/y).
    assert compute("a % b", "f64", a=("f64", 1e300), b=("f64", 3.0)) == int(1e300) % 3
    assert compute("a % b", "f64", a=("f64", -1.0), b=("f64", INF)) == INF


@pytest.mark.parametrize(
    ("function", "a", "expected"),
    [
        ("round", 0.5, 0.0),
        ("round", 1.5, 2.0),
        ("round", -2.5, -2.0),
        ("trunc", -1.7, -1.0),
        ("floor", -1.2, -2.0),
        ("ceil", -0.2, -0.0),
        ("abs", -0.0, 0.0),
        ("sqrt", 2.0, math.sqrt(2.0)),
        ("sqrt", -1.0, NAN),
        ("sqrt", -0.0, -0.0),
    ],
)
def test_exact_functions(function: str, a: float, expected: float) -> None:
    assert same(compute(f"{function}(a)", "f64", a=("f64", a)), np.float64(expected))
    assert same(compute(f"{function}(a)", "f32", a=("f32", a)), np.float32(expected))


@pytest.mark.parametrize(
    ("value", "kind", "a", "result", "expected"),
    [
        ("i32(a)", "f32", 3.99, "i32", 3),
        ("i32(a)", "f32", -3.99, "i32", -3),
        ("i32(a)", "f64", 1e20, "i32", I32_MAX),
        ("i32(a)", "f64", -INF, "i32", I32_MIN),
        ("i32(a)", "f64", NAN, "i32", 0),
        ("i64(a)", "f32", 1e30, "i64", I64_MAX),
        ("i64(a)", "f64", -1e19, "i64", I64_MIN),
        ("i32(a)", "i64", 2**40 + 5, "i32", 5),
        ("i32(a)", "i64", 2**31, "i32", I32_MIN),
        ("f32(a)", "i32", 16777217, "f32", 16777216.0),
        # One rounding: through f64 this would give 2**60.
        ("f32(a)", "i64", 2**60 + 2**36 + 1, "f32", float(2**60 + 2**37)),
        ("f32(a)", "f64", 1e300, "f32", INF),
        ("f32(a)", "f64", 1e-300, "f32", 0.0),
        ("i32(a)", "bool", True, "i32", 1),
        ("f32(a)", "bool", True, "f32", 1.0),
        ("bool(a)", "f32", NAN, "bool", True),
        ("bool(a)", "f32", -0.0, "bool", False),
        ("bool(a)", "i32", -1, "bool", True),
    ],
)
def test_casts(value: str, kind: str, a: object, result: str, expected: object) -> None:
    assert compute(value, result, a=(kind, a)) == expected


def _exact_fma(a: float, b: float, c: float, kind: str) -> float:
    """a*b+c rounded once, by way of rational numbers."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if kind == "f64":
        return float(exact)
    # Round a rational to f32: the f64 is either exact enough or tells which neighbour is nearer.
    guess = np.float32(float(exact))
    near = [guess, np.nextafter(guess, np.float32(-INF)), np.nextafter(guess, np.float32(INF))]
    return float(min(near, key=lambda f: (abs(Fraction(float(f)) - exact), _odd(f))))


def _odd(value: np.float32) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0] & 1


finite = st.floats(-1e6, 1e6, width=32)


@given(finite, finite, finite)
def test_fma_rounds_once_in_f32(a: float, b: float, c: float) -> None:
    got = semantics.fma_f32(np.float32(a), np.float32(b), np.float32(c))
    expected = _exact_fma(a, b, c, "f32")
    assert float(got) == expected


@given(*[st.floats(-1e100, 1e100)] * 3)
def test_fma_rounds_once_in_f64(a: float, b: float, c: float) -> None:
    got = semantics.fma_f64(np.float64(a), np.float64(b), np.float64(c))
    assert float(got) == _exact_fma(a, b, c, "f64")


def test_fast_and_strict_differ_by_the_fma() -> None:
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(-1)
    scalars = {"a": ("f32", a), "b": ("f32", b), "c": ("f32", c)}
    fast = compute("a * b + c", "f32", **scalars)
    strict = compute("a * b + c", "f32", "strict", **scalars)
    assert strict == a * b + c
    assert float(fast) == float(a) * float(b) - 1  # exact in f64
    assert fast != strict


def test_comparisons_with_nan() -> None:
    for op, truth in (("<", 0), ("<=", 0), ("==", 0), ("!=", 1), (">", 0), (">=", 0)):
        got = compute(f"1 if a {op} b else 0", "i32", a=("f32", NAN), b=("f32", 1.0))
        assert got == truth


# ----------------------------------------------------------------------------- edge modes


@pytest.mark.parametrize(
    ("mode", "pad"),
    [
        ("clamp", {"mode": "edge"}),
        ("wrap", {"mode": "wrap"}),
        ("reflect", {"mode": "reflect"}),
        ("symmetric", {"mode": "symmetric"}),
        ("zero", {"mode": "constant"}),
    ],
)
@pytest.mark.parametrize("shape", [(5, 4), (1, 3), (2, 1)])
def test_edge_modes_are_numpy_pads(mode: str, pad: dict, shape: tuple[int, int]) -> None:
    x = np.arange(1, 1 + shape[0] * shape[1], dtype=np.float32).reshape(shape)
    text = f"""
kernel test(x: f32[H, W], out y: f32[H + 14, W + 14]):
    for i in 0..H+14, j in 0..W+14:
        y[i, j] = x.{mode}[i - 7, j - 7]
"""
    assert np.array_equal(run(text, x=x)["y"], np.pad(x, 7, **pad))


# --------------------------------------------------------------------- statements and state


def test_inputs_are_not_changed_and_unwritten_elements_are_kept() -> None:
    text = """
kernel test(x: f32[N], out y: f32[N], inout z: f32[N]):
    for i in 0..N-1:
        y[i] = x[i] + z[i]
        z[i] = 0.0
"""
    x, y, z = (np.full(3, value, np.float32) for value in (1, 7, 2))
    out = run(text, x=x, y=y, z=z)
    assert out["y"].tolist() == [3, 3, 7] and out["z"].tolist() == [0, 0, 2]
    assert z.tolist() == [2, 2, 2] and set(out) == {"y", "z"}


def test_temporaries_start_at_zero_and_are_private() -> None:
    text = """
kernel test(out y: f32[N]):
    for i in 0..N:
        temp t: f32[N + 1]
        var s: f32 = 0.0
        t[i] += 1.0
        for j in 0..N+1:
            s += t[j]
        y[i] = s
"""
    assert run(text, sizes={"N": 4})["y"].tolist() == [1, 1, 1, 1]


def test_empty_reductions_give_their_neutral_elements() -> None:
    text = """
kernel test(x: f32[N], k: i32[N], out f: f32[4], out i: i64[4], out b: bool[2]):
    f[0] = sum(j in 0..0: x[j])
    f[1] = prod(j in 0..0: x[j])
    f[2] = min(j in 0..0: x[j])
    f[3] = max(j in 0..0: x[j])
    i[0] = sum(j in 0..0: k[j])
    i[1] = prod(j in 0..0: k[j])
    i[2] = min(j in 0..0: k[j])
    i[3] = max(j in 0..0: k[j])
    b[0] = any(j in 0..0: x[j] > 0)
    b[1] = all(j in 0..0: x[j] > 0)
"""
    out = run(text, x=np.ones(1, np.float32), k=np.ones(1, np.int32))
    assert out["f"].tolist() == [0, 1, INF, -INF]
    assert out["i"].tolist() == [0, 1, I32_MAX, I32_MIN]
    assert out["b"].tolist() == [False, True]


def test_reductions_run_in_order() -> None:
    text = """
kernel test(x: f32[R, C], out y: f32[1]):
    y[0] = sum(c in C-1..-1 step -1, r in 0..R: x[r, c])
"""
    x = (np.random.default_rng(0).random((5, 7)) * 1e3).astype(np.float32)
    expected = np.float32(0)
    for c in reversed(range(7)):
        for r in range(5):
            expected += x[r, c]
    assert same(run(text, x=x)["y"][0], expected)


@pytest.mark.parametrize("bounds", ["0..N", "2..N step 3", "N..0 step -1", "N-1..-3 step -2"])
def test_ranges_are_pythons(bounds: str) -> None:
    text = f"""
kernel test(out y: i32[64], out n: i32[1], N: i64):
    for i in {bounds}:
        y[n0(0) + i + 8] = i
        n[0] += 1
""".replace("n0(0) + ", "")
    for size in range(10):
        out = run(text, N=size)
        low, rest = bounds.split("..")
        high, _, step = rest.partition(" step ")
        expected = range(eval(low, {"N": size}), eval(high, {"N": size}), int(step or 1))
        assert out["n"][0] == len(expected)
        for i in expected:
            assert out["y"][i + 8] == i


def test_swap_is_pythons_rebinding() -> None:
    text = """
kernel test(inout a: f64[N], inout b: f64[N], steps: i64, out last: f64[N]):
    for t in 0..steps:
        for i in 1..N-1:
            b[i] = 0.5 * (a[i-1] + a[i+1])
        swap a, b
    for i in 0..N:
        last[i] = a[i]
    swap a, b
    a[0] = 9.0
"""
    a, b = np.arange(6.0) ** 2, np.arange(6.0)
    for steps in range(5):
        out = run(text, a=a, b=b, steps=steps)
        caller = {"a": a.copy(), "b": b.copy()}
        x, y = caller["a"], caller["b"]
        for _ in range(steps):
            for i in range(1, 5):
                y[i] = 0.5 * (x[i - 1] + x[i + 1])
            x, y = y, x
        last = x.copy()
        x, y = y, x
        x[0] = 9.0
        assert np.array_equal(out["last"], last)
        assert np.array_equal(out["a"], caller["a"]) and np.array_equal(out["b"], caller["b"])


def test_swaps_in_a_loop_in_a_loop() -> None:
    text = """
kernel test(inout a: f64[1], inout b: f64[1], steps: i64):
    for t in 0..steps:
        for u in 0..3:
            a[0] = 2.0 * b[0] + 1.0
            swap a, b
        b[0] += 0.5
"""
    for steps in range(4):
        out = run(text, a=np.array([1.0]), b=np.array([2.0]), steps=steps)
        first, second = np.array([1.0]), np.array([2.0])
        x, y = first, second
        for _ in range(steps):
            for _ in range(3):
                x[0] = 2.0 * y[0] + 1.0
                x, y = y, x
            y[0] += 0.5
        assert (out["a"][0], out["b"][0]) == (first[0], second[0])


def test_out_of_bounds_is_refused_and_guards_count() -> None:
    text = """
kernel test(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = x[i - 1]
"""
    with pytest.raises(OutOfBounds):
        run(text, x=np.ones(3, np.float32))
    guarded = text.replace("x[i - 1]", "x[i - 1] if i > 0 and x[i - 1] > 0 else 5.0")
    assert run(guarded, x=np.ones(3, np.float32))["y"].tolist() == [5, 1, 1]


def test_arguments_that_do_not_fit() -> None:
    text = "kernel t(x: f32[N, N], out y: f32[N]):\n    y[0] = x[0, 0]\n"
    with pytest.raises(ValueError, match=r"`x` is float64\[2, 2\]"):
        run(text, x=np.ones((2, 2)))
    with pytest.raises(ValueError, match="`x` is missing"):
        run(text, sizes={"N": 2})
    with pytest.raises(ValueError, match="needs the size"):
        run("kernel t(out y: f32[N]):\n    y[0] = 1\n")


def test_math_functions_can_be_replaced() -> None:
    text = "kernel t(x: f32[N], out y: f32[N]):\n    for i in 0..N: y[i] = exp(x[i]) ** 1.5\n"
    calls: list[tuple] = []

    def fake(*values: np.float32) -> float:
        calls.append(tuple(type(value) for value in values))
        return 2.0

    x = np.zeros(2, np.float32)
    out = interpret(kernel(text), {"x": x}, math={"exp": fake, "pow_f32": fake})
    assert out["y"].tolist() == [2, 2]
    assert calls == [(np.float32,), (np.float32, np.float32)] * 2


@pytest.mark.parametrize(
    "name", ["exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf", "rsqrt"]
)
def test_default_math_functions_are_close(name: str) -> None:
    reference = {"rsqrt": lambda v: 1 / math.sqrt(v), "exp2": lambda v: 2.0**v}.get(
        name, getattr(math, name, None)
    )
    assert reference is not None
    for value in (0.25, 1.0, 2.5):
        assert float(compute(f"{name}(a)", "f64", a=("f64", value))) == pytest.approx(
            reference(value), rel=1e-15
        )


def test_deep_programs_run() -> None:
    terms = " + ".join("a[i]" for _ in range(900))
    loops = "".join("    " * (d + 1) + f"for q{d} in 0..1:\n" for d in range(50))
    text = f"kernel t(a: f64[N], out y: f64[N]):\n    for i in 0..N: y[i] = {terms}\n{loops}"
    text += "    " * 51 + "y[1] += 1.0\n"
    assert run(text, a=np.ones(3))["y"].tolist() == [900, 901, 900]
