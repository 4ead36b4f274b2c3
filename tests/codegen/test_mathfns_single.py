"""The f32 functions on floats all over their domains, against NumPy's f64 functions.

Every `LOOPFUSE_MATH_STEP`-th float is tried (4099 unless set; 1 tries all, some minutes a
function), and every float near the places where a function's code or result changes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import numpy as np
import pytest

from loopfuse.base.dtypes import DType
from loopfuse.codegen.math.functions import ULP_BOUNDS
from loopfuse.codegen.math.host import compiled_math

STEP = int(os.environ.get("LOOPFUSE_MATH_STEP", "4099"))
LEAST, MOST = 2.0**-149, float(np.finfo(np.float32).max)
REFERENCE = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": lambda x: np.array([math.erf(v) for v in x.tolist()]),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "log10": np.log10,
    "cbrt": np.cbrt,
}
DOMAIN = {
    "exp": (-200.0, 200.0),
    "exp2": (-300.0, 300.0),
    "expm1": (-200.0, 200.0),
    "log": (LEAST, MOST),
    "log2": (LEAST, MOST),
    "log1p": (-1 + 2.0**-24, MOST),
    "tanh": (-20.0, 20.0),
    "erf": (-10.0, 10.0),
    "rsqrt": (LEAST, MOST),
    "sin": (-MOST, MOST),
    "cos": (-MOST, MOST),
    "tan": (-MOST, MOST),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "atan": (-MOST, MOST),
    "sinh": (-100.0, 100.0),
    "cosh": (-100.0, 100.0),
    "asinh": (-MOST, MOST),
    "acosh": (1.0, MOST),
    "atanh": (-1 + 2.0**-24, 1 - 2.0**-24),
    "log10": (LEAST, MOST),
    "cbrt": (-MOST, MOST),
}
LN2 = math.log(2)
PLACES = {
    # Into subnormals, to zero, to infinity; where the integer part changes and the clamps hold.
    "exp": [-126 * LN2, -149 * LN2, -150 * LN2, 128 * LN2, LN2, 3 * LN2, -LN2, 127 * LN2, -104.0, 89.0],
    "exp2": [-126.0, -149.0, -150.0, -151.0, 128.0, 129.0, 1.0, 3.0, -1.0, 127.0],
    "expm1": [128 * LN2, 89.0, 24.5 * LN2, 25.5 * LN2, -17.3, -20.0, LN2 / 2, -LN2 / 2, 2.0**-30],
    "log": [2.0**-126, 0.5**0.5, 2**0.5, 1.0],
    "log2": [2.0**-126, 0.5**0.5, 2**0.5, 1.0, 2.0],
    "log1p": [-0.25, 0.5, 2.0, 2.0**-24, 2.0**24, 2.0**-126],
    "tanh": [0.65, 9.01, 9.5, LN2 / 2, 2.0**-126],
    "erf": [1.0, 3.83, 3.9, 2.0**-126],
    "rsqrt": [2.0**-126, 1.0, 2.0],
    "sin": [2.0**16, math.pi / 4, math.pi, 1e9, 2.0**100, 2.0**-126],
    "cos": [2.0**16, math.pi / 4, math.pi / 2, 1e9, 2.0**100],
    "tan": [2.0**16, math.pi / 4, math.pi / 2, 1e9, 2.0**100, 2.0**-126],
    "asin": [0.5, -0.5, 2.0**-126],
    "acos": [0.5, -0.5],
    "atan": [1.0, -1.0, 2.0**-126, 2.0**24],
    "sinh": [89.41, LN2 / 2, 1.5 * LN2, 2.0**-13, 2.0**-126],
    "cosh": [89.41, LN2 / 2, 1.5 * LN2, 31 * LN2],
    "asinh": [2.0**20, 0.5, 2.0**-13, 2.0**-126],
    "acosh": [2.0**20, 1.001, 2.0],
    "atanh": [0.5, 2.0**-13, 2.0**-126],
    "log10": [2.0**-126, 0.5**0.5, 2**0.5, 1.0, 10.0],
    "cbrt": [2.0**-126, 1.0, 2.0, 0.5, 2**0.5],
}


def floats(begin: int, end: int, step: int) -> Iterator[np.ndarray]:
    """The floats whose bits are begin, begin + step, ... below end, a block at a time."""
    block = step << 20
    for start in range(begin, end, block):
        bits = np.arange(start, min(start + block, end), step, dtype=np.uint64)
        yield bits.astype(np.uint32).view(np.float32)


def bits_of(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in units of the last place of the exact f64 values; infinity counts as 2**128."""
    exponent = np.clip(np.frexp(exact)[1] - 1, -126, 127)
    held = np.clip(exact, -(2.0**128), 2.0**128)
    return np.abs(np.clip(got.astype(float), -(2.0**128), 2.0**128) - held) * 2.0 ** (23 - exponent)


def worst(name: str, blocks: Iterator[np.ndarray]) -> tuple[float, float]:
    """The largest error, and where it is."""
    function = compiled_math()[name, DType.F32]
    found = (0.0, 0.0)
    for x in blocks:
        with np.errstate(all="ignore"):
            errors = ulps(function(x), REFERENCE[name](x.astype(float)))
        assert not np.isnan(errors).any(), x[np.isnan(errors)][:5]
        at = int(np.argmax(errors))
        found = max(found, (float(errors[at]), float(x[at])))
    return found


@pytest.mark.parametrize("name", REFERENCE)
def test_accuracy_all_over(name: str) -> None:
    low, high = DOMAIN[name]
    found = worst(name, floats(bits_of(max(low, LEAST)), bits_of(high) + 1, STEP))
    if low < 0:
        found = max(found, worst(name, floats(bits_of(-LEAST), bits_of(low) + 1, STEP)))
    print(name, found)
    assert found[0] <= ULP_BOUNDS[name, DType.F32], found


@pytest.mark.parametrize("name", REFERENCE)
def test_accuracy_where_the_code_changes(name: str) -> None:
    for place in PLACES[name]:
        middle = bits_of(place)
        found = worst(name, floats(middle - 3000, middle + 3000, 1))
        assert found[0] <= ULP_BOUNDS[name, DType.F32], (place, found)


@pytest.mark.parametrize(
    ("name", "last", "beyond"),
    [
        ("exp", "0x1.62e42ep+6", np.inf),  # the largest float whose result is finite
        ("expm1", "0x1.62e42ep+6", np.inf),
        ("exp2", "0x1.fffffep+6", np.inf),
        ("exp", "-0x1.9fe368p+6", 0.0),  # the smallest whose result is not zero
        ("exp2", "-0x1.2bfffep+7", 0.0),
    ],
)
def test_thresholds_are_exact(name: str, last: str, beyond: float) -> None:
    function = compiled_math()[name, DType.F32]
    x = np.float32(float.fromhex(last))
    assert np.isfinite(function(x)) and function(x) > 0
    assert function(np.nextafter(x, np.float32(np.copysign(np.inf, x)))) == beyond


@pytest.mark.parametrize("name", ("tanh", "erf", "expm1", "log1p"))
def test_small_arguments_stay(name: str) -> None:
    """f(x) = x where x is so small that the next term is lost, subnormals and -0 included."""
    factor = 2 / math.sqrt(math.pi) if name == "erf" else 1.0
    x = np.concatenate([next(floats(0, bits_of(2.0**-60), 4099)), next(floats(0, 3000, 1))])
    for signed in (x, -x):
        got = compiled_math()[name, DType.F32](signed)
        expected = (signed.astype(float) * factor).astype(np.float32)
        if name == "erf":
            assert (ulps(got, signed.astype(float) * factor) <= 1.1).all()
        else:
            assert np.array_equal(got, expected)
        assert np.array_equal(np.signbit(got), np.signbit(signed))


def test_odd_functions_are_odd() -> None:
    x = next(floats(0, bits_of(np.inf) + 1, 4099))
    for name in ("tanh", "erf"):
        function = compiled_math()[name, DType.F32]
        assert np.array_equal(function(-x).view(np.uint32), (-function(x)).view(np.uint32))


def test_powers_of_two_are_exact() -> None:
    n = np.arange(-149, 128).astype(np.float32)
    powers = np.ldexp(np.float32(1), n.astype(np.int32))
    assert np.array_equal(compiled_math()["exp2", DType.F32](n), powers)
    assert np.array_equal(compiled_math()["log2", DType.F32](powers), n)
