"""Our math functions against mpmath: accuracy, special values, and one set of bits everywhere."""

from __future__ import annotations

import ctypes
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from loopfuse.base.dtypes import DType
from loopfuse.base.options import Target
from loopfuse.codegen.lower.lower import emit_llvm
from loopfuse.codegen.math.functions import FUNCTIONS, ULP_BOUNDS, make_math_function
from loopfuse.codegen.math.host import (
    NAMES,
    TWO_ARGUMENTS,
    compiled_math,
    host_math_function,
    host_math_module,
)
from loopfuse.codegen.mlir.print import print_module

from .trees import V2, V3, check_mlir

F32, F64 = DType.F32, DType.F64
BOTH = (F32, F64)
ONE = [name for name in FUNCTIONS if name not in TWO_ARGUMENTS]
REFERENCE = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log1p": mpmath.log1p,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "pow": lambda x, y: x**y,
    "log10": mpmath.log10,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "hypot": mpmath.hypot,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "atan2": mpmath.atan2,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
}
INF, NAN = float("inf"), float("nan")


def numpy_type(dtype: DType) -> type[np.floating]:
    return np.float32 if dtype is F32 else np.float64


def ulps(got: float, exact: mpf, dtype: DType) -> float:
    """The error in units of the last place that the exact value has in `dtype`."""
    mantissa, least, most = (23, -126, 128) if dtype is F32 else (52, -1022, 1024)
    exponent = mpmath.frexp(abs(exact))[1] - 1 if exact else least
    unit = mpf(2) ** (max(exponent, least) - mantissa)
    if np.isinf(got):
        # An overflow: right if the exact value rounds past the largest number.
        got_value = mpf(2) ** most * (1 if got > 0 else -1)
        return float(max(0, abs(got_value) - abs(exact)) / unit) if exact * got > 0 else INF
    return float(abs(mpf(got) - exact) / unit)


def points(name: str, dtype: DType, count: int = 250) -> np.ndarray:
    """Points all over the domain, near the thresholds of the code, and subnormal."""
    random = np.random.default_rng(7)
    small, big, top = (-149, 88.7, 126) if dtype is F32 else (-1074, 709.7, 1022)
    signs = random.choice([-1.0, 1.0], count)
    spread = 2.0 ** random.uniform(small, 6, count)
    parts = [
        random.uniform(-1, 1, count),
        random.uniform(-12, 12, count),
        signs * spread,
        signs * 2.0 ** random.uniform(-30, 3, count),
    ]
    match name:
        case "exp" | "expm1":
            parts += [random.uniform(-1.2 * big, 1.001 * big, count), _around(np.log(2) / 2)]
            parts += [_around(each) for each in (big, -1.18 * big, -big, -17.3, -37.4)]
        case "exp2":
            parts += [random.uniform(small - 2, big * 1.44, count), _around(0.5), _around(small)]
        case "log" | "log2" | "log10" | "rsqrt":
            parts = [np.abs(part) for part in parts] + [random.uniform(0.5, 2, 2 * count)]
            parts += [_around(1.0), _around(np.sqrt(0.5)), _around(np.sqrt(2))]
        case "log1p":
            parts = [np.abs(part) for part in parts] + [random.uniform(-0.999, 1, count)]
            parts += [2.0 ** random.uniform(0, 120, count), 2.0 ** -random.uniform(1, 20, 90) - 1]
            parts += [_around(np.sqrt(0.5) - 1), _around(np.sqrt(2) - 1), -np.abs(spread) / 128]
        case "sin" | "cos" | "tan":
            quarters = random.integers(-9999, 9999, count) * (np.pi / 2)
            parts += [random.uniform(-1000, 1000, count), quarters, _around(np.pi / 4)]
            parts += [signs * 2.0 ** random.uniform(6, top, count), _around(2.0**16), _around(2.0**30)]
        case "asin" | "acos" | "atanh":
            parts = [np.clip(part, -1, 1) for part in parts]
            parts += [signs * (1 - 2.0 ** -random.uniform(0, 50, count)), _around(0.5)]
        case "atan" | "asinh" | "cbrt":
            parts += [signs * 2.0 ** random.uniform(small, top, count), _around(1.0)]
            parts += [_around(2.0**20), _around(2.0**54)]
        case "acosh":
            parts = [np.abs(part) + 1 for part in parts]
            parts += [1 + 2.0 ** -random.uniform(1, 50, count), 2.0 ** random.uniform(0, 120, count)]
        case "sinh" | "cosh":
            parts += [random.uniform(-big, big, count), _around(np.log(2) / 2), _around(big + 0.6)]
        case "tanh" | "erf":
            parts += [random.uniform(-6, 6, count)]
            parts += [_around(each) for each in (0.65, 0.9277, 1.0, 3.93, 9.5, 20.0, 5.93)]
        case _:
            pass
    found = np.concatenate(parts).astype(numpy_type(dtype))
    keep = np.isfinite(found) & (found != 0)
    return found[keep & (np.abs(found) < 1)] if name == "atanh" else found[keep]


def _around(value: float) -> np.ndarray:
    steps = np.arange(-12, 13)
    return np.concatenate([value * (1 + steps * 2.0**-53), value * (1 + steps * 2.0**-24)])


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", ONE)
def test_accuracy(name: str, dtype: DType) -> None:
    x = points(name, dtype)
    # Of 2**1023 its sine needs as many bits again.
    with mpmath.workprec(1400 if name in ("sin", "cos", "tan") else 240):
        got = compiled_math()[name, dtype](x)
        errors = [
            ulps(b, REFERENCE[name](mpf(a)), dtype) for a, b in zip(x.tolist(), got.tolist())
        ]
    worst = int(np.argmax(errors))
    assert errors[worst] <= ULP_BOUNDS[name, dtype], (x[worst], got[worst], errors[worst])


@pytest.mark.parametrize("dtype", BOTH)
def test_pow_accuracy(dtype: DType) -> None:
    random = np.random.default_rng(3)
    count = 1500
    limit = 87 if dtype is F32 else 708
    base = np.exp(random.uniform(-limit, limit, count))
    base = np.concatenate([base, random.uniform(0.5, 2, count), 1 + random.uniform(-1, 1, 300) / 512])
    base = base.astype(numpy_type(dtype)).astype(float)
    logs = np.where(base == 1, 1, np.log(base))
    power = random.uniform(-1.18 * limit, limit, base.size) / logs
    power = np.clip(power, -1e30, 1e30).astype(numpy_type(dtype))
    base = base.astype(numpy_type(dtype))
    got = compiled_math()["pow", dtype](base, power)
    with mpmath.workprec(240):
        errors = [
            ulps(c, mpf(a) ** mpf(b), dtype)
            for a, b, c in zip(base.tolist(), power.tolist(), got.tolist())
        ]
    worst = int(np.argmax(errors))
    assert errors[worst] <= ULP_BOUNDS["pow", dtype], (base[worst], power[worst], errors[worst])


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", ("atan2", "hypot"))
def test_accuracy_of_two(name: str, dtype: DType) -> None:
    """Operands of any size, and of nearly the same; results from subnormal to the largest."""
    x = points("atan", dtype, 500)
    random = np.random.default_rng(2)
    y = (x[::-1] * 2.0 ** random.uniform(-4, 4, x.size)).astype(numpy_type(dtype))
    near = (x * random.uniform(-3, 3, x.size)).astype(numpy_type(dtype))
    x, y = np.concatenate([x, x]), np.concatenate([y, near])
    keep = np.isfinite(y) & (y != 0)
    x, y = x[keep], y[keep]
    got = compiled_math()[name, dtype](x, y)
    with mpmath.workprec(240):
        errors = [
            ulps(c, REFERENCE[name](mpf(a), mpf(b)), dtype)
            for a, b, c in zip(x.tolist(), y.tolist(), got.tolist())
        ]
    worst = int(np.argmax(errors))
    assert errors[worst] <= ULP_BOUNDS[name, dtype], (x[worst], y[worst], errors[worst])


HARDEST = {
    # What is nearest to a multiple of pi / 2 of all numbers of its type, and the greatest powers.
    F32: (16367173 * 2.0**72, 2.0**127, 2.0**100, 33554432.0),
    F64: (6381956970095103 * 2.0**797, 2.0**1023, 2.0**1000, 2.0**31 + 1),
}


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", ("sin", "cos", "tan"))
def test_arguments_nearest_to_quarter_turns(name: str, dtype: DType) -> None:
    for x in HARDEST[dtype]:
        for signed in (x, -x):
            value = numpy_type(dtype)(signed)
            got = compiled_math()[name, dtype](value)
            with mpmath.workprec(1400):
                exact = REFERENCE[name](mpf(float(value)))
                assert ulps(float(got), exact, dtype) <= ULP_BOUNDS[name, dtype], (x, got)


SPECIAL = {
    "exp": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (1e9, INF), (-1e9, 0.0)],
    "exp2": [(INF, INF), (-INF, 0.0), (0.0, 1.0), (-0.0, 1.0), (1e9, INF), (-1e9, 0.0), (3.0, 8.0), (-1.0, 0.5)],
    "expm1": [(INF, INF), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e9, INF), (-1e9, -1.0)],
    "log": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (1.0, 0.0)],
    "log2": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (1.0, 0.0), (8.0, 3.0), (0.25, -2.0)],
    "log1p": [(INF, INF), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-1.5, NAN)],
    "tanh": [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e9, 1.0)],
    "erf": [(INF, 1.0), (-INF, -1.0), (0.0, 0.0), (-0.0, -0.0), (1e9, 1.0)],
    "log10": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, -INF), (-1.0, NAN), (1.0, 0.0), (1000.0, 3.0)],
    "cbrt": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (27.0, 3.0), (-0.125, -0.5)],
    "sin": [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "cos": [(INF, NAN), (-INF, NAN), (0.0, 1.0), (-0.0, 1.0)],
    "tan": [(INF, NAN), (-INF, NAN), (0.0, 0.0), (-0.0, -0.0)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN), (1.0, np.pi / 2), (-1.0, -np.pi / 2)],
    "acos": [(1.0, 0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN), (-1.0, np.pi), (0.0, np.pi / 2)],
    "atan": [(INF, np.pi / 2), (-INF, -np.pi / 2), (0.0, 0.0), (-0.0, -0.0), (1e30, np.pi / 2)],
    "sinh": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (1e9, INF), (-1e9, -INF)],
    "cosh": [(INF, INF), (-INF, INF), (0.0, 1.0), (-0.0, 1.0), (1e9, INF), (-1e9, INF)],
    "asinh": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0)],
    "acosh": [(INF, INF), (-INF, NAN), (1.0, 0.0), (0.5, NAN), (0.0, NAN), (-3.0, NAN)],
    "atanh": [(1.0, INF), (-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (-1.5, NAN), (INF, NAN)],
    "rsqrt": [(INF, 0.0), (-INF, NAN), (0.0, INF), (-0.0, -INF), (-1.0, NAN), (4.0, 0.5)],
}


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", ONE)
def test_special_values(name: str, dtype: DType) -> None:
    kind = numpy_type(dtype)
    for argument, expected in [*SPECIAL[name], (NAN, NAN)]:
        got = compiled_math()[name, dtype](kind(argument))
        assert np.array_equal(got, kind(expected), equal_nan=True), (argument, got)
        if not np.isnan(expected):
            assert np.signbit(got) == np.signbit(kind(expected)), argument


@pytest.mark.parametrize("dtype", BOTH)
def test_pow_special_values(dtype: DType) -> None:
    """Every pair of a list of hard values, against C's pow."""
    kind = numpy_type(dtype)
    tiny = float(np.finfo(kind).smallest_subnormal)
    huge = float(np.finfo(kind).max)
    values = [0.0, 1.0, 0.5, 2.0, 3.0, 2.5, tiny, huge, INF, 1e9 + 1, 16777215.0, 16777217.0]
    values = np.array([*values, *(-v for v in values), NAN], kind)
    base, power = (each.ravel() for each in np.meshgrid(values, values))
    got = compiled_math()["pow", dtype](base, power)
    with np.errstate(all="ignore"):
        expected = np.array([_c_pow(a, b) for a, b in zip(base.tolist(), power.tolist())])
    with np.errstate(all="ignore"):
        expected = expected.astype(kind)
    finite = np.isfinite(expected) & (expected != 0)
    same = np.where(
        finite,
        np.isclose(got, expected, rtol=1e-6 if dtype is F32 else 1e-14, atol=tiny),
        (got == expected) | (np.isnan(got) & np.isnan(expected)),
    )
    same &= np.isnan(expected) | (np.signbit(got) == np.signbit(expected))
    assert same.all(), list(zip(base[~same], power[~same], got[~same], expected[~same]))[:5]


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", ("atan2", "hypot", "fmod"))
def test_special_pairs(name: str, dtype: DType) -> None:
    """Every pair of hard values, against NumPy's: C99's annex F."""
    kind = numpy_type(dtype)
    tiny, huge = float(np.finfo(kind).smallest_subnormal), float(np.finfo(kind).max)
    values = [0.0, 1.0, 0.5, 3.0, tiny, huge, huge / 2, INF]
    values = np.array([*values, *(-v for v in values), NAN], kind)
    x, y = (each.ravel() for each in np.meshgrid(values, values))
    function = {"atan2": np.arctan2, "hypot": np.hypot, "fmod": np.fmod}[name]
    with np.errstate(all="ignore"):
        got, expected = compiled_math()[name, dtype](x, y), function(x, y)
    if name == "fmod":
        assert np.array_equal(got, expected, equal_nan=True)
    else:
        close = np.isclose(got, expected, rtol=4 * np.finfo(kind).eps, atol=tiny, equal_nan=True)
        exact = (expected == 0) | ~np.isfinite(expected)
        same = np.where(exact, (got == expected) | (np.isnan(got) & np.isnan(expected)), close)
        assert same.all(), list(zip(x[~same], y[~same], got[~same], expected[~same]))[:5]
    plain = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[plain]), np.signbit(expected[plain]))


def _c_pow(a: float, b: float) -> float:
    function = ctypes.CDLL(None).pow
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_double]
    return function(a, b)


@pytest.mark.parametrize("dtype", BOTH)
def test_mod_is_exact(dtype: DType) -> None:
    kind = numpy_type(dtype)
    random = np.random.default_rng(1)
    low, high = (-149, 127) if dtype is F32 else (-1074, 1020)
    exponents = random.uniform(low, high, 1200)
    near = exponents + random.uniform(-3, 70, 1200)
    x = (2.0 ** np.where(random.random(1200) < 0.5, near, random.uniform(low, high, 1200)).clip(low, high))
    y = 2.0**exponents
    x, y = (v * random.choice([-1, 1], 1200) for v in (x, y))
    x, y = np.concatenate([x, random.integers(-9, 9, 200)]), np.concatenate([y, random.integers(1, 5, 200)])
    x, y = x.astype(kind), y.astype(kind)
    keep = y != 0
    x, y = x[keep], y[keep]
    got = compiled_math()["mod", dtype](x, y)
    for a, b, r in zip(x.tolist(), y.tolist(), got.tolist()):
        exact = Fraction(a) % Fraction(b)
        if exact == 0:
            assert r == 0 and np.signbit(r) == np.signbit(b)
        elif (exact > 0) == (a > 0):
            assert Fraction(r) == exact, (a, b, r)
        else:
            assert r == float(kind(float(np.fmod(kind(a), kind(b)) + kind(b)))), (a, b, r)


@pytest.mark.parametrize("dtype", BOTH)
def test_mod_special_values(dtype: DType) -> None:
    kind = numpy_type(dtype)
    values = np.array([0.0, -0.0, 1.0, -1.5, INF, -INF, NAN], kind)
    x, y = (each.ravel() for each in np.meshgrid(values, values))
    got = compiled_math()["mod", dtype](x, y)
    with np.errstate(all="ignore"):
        expected = np.mod(x, y)
    assert np.array_equal(got, expected, equal_nan=True)
    plain = ~np.isnan(expected)
    assert np.array_equal(np.signbit(got[plain]), np.signbit(expected[plain]))


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", NAMES)
def test_same_bits_in_every_shape_and_on_every_cpu(name: str, dtype: DType) -> None:
    kind = numpy_type(dtype)
    words = np.random.default_rng(5).integers(0, 2**dtype.bits, 3000, np.uint64)
    anything = words.astype(np.uint32 if dtype is F32 else np.uint64).view(kind)
    x = np.concatenate([anything, points("tanh", dtype), kind([0, INF, -INF, NAN])])
    arguments = (x, x[::-1].copy()) if name in TWO_ARGUMENTS else (x,)
    with np.errstate(all="ignore"):
        expected = compiled_math()[name, dtype](*arguments)
    for target, lanes in ((V2, 0), (V3, 0), (V3, 4), (Target("cpu"), 8)):
        got = host_math_function(name, dtype, target, lanes)(*arguments)
        assert np.array_equal(got, expected, equal_nan=True), (target, lanes)
        plain = ~np.isnan(expected)
        assert np.array_equal(np.signbit(got[plain]), np.signbit(expected[plain]))


@pytest.mark.parametrize("lanes", (0, 4))
def test_mlir_is_accepted(lanes: int) -> None:
    for name in NAMES:
        for dtype in BOTH:
            check_mlir(print_module(host_math_module(name, dtype, lanes)))


def test_no_f64_in_f32_functions() -> None:
    """f64 is slow on a GPU: f32 functions never touch it, and never branch, but around the rare
    path of large arguments."""
    for name in FUNCTIONS:
        text = print_module(host_math_module(name, F32))
        assert "f64" not in text
        assert text.count("scf.if") == (name in ("sin", "cos", "tan"))


def test_math_is_made_only_of_exact_operations() -> None:
    """No `math.exp` and the like, which a back end would expand as it pleases."""
    allowed = {"math.fma", "math.absf", "math.copysign", "math.sqrt", "math.trunc"}
    for name in FUNCTIONS:
        for dtype in BOTH:
            function = make_math_function(name, dtype)
            used = {op.name for op in function.walk() if op.name.startswith("math.")}
            assert used <= allowed


def test_llvm_keeps_the_operations() -> None:
    """No contraction or fast-math flag on the way to PTX."""
    text = emit_llvm(host_math_module("exp", F32), Target("cpu"))
    assert "fast" not in text and "contract" not in text and "reassoc" not in text
    assert "define internal float @lf_exp_f32" in text
