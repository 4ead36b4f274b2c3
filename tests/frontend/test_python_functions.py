"""Every name of NumPy and `math` that the table of operations gives, in a Python kernel beside
CPython: NumPy's in f32, f64 and of integers, `math`'s as Python floats; within the stated bounds and those of
the other library."""

from __future__ import annotations

import importlib.util
import itertools
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from loopfuse.frontend.python import vocabulary as words
from loopfuse.lang import ops

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5, 1e-40, 1e30, -1e30, math.inf, -math.inf, math.nan]
ARITY = {1: "x[i]", 2: "x[i], w[i]", 3: "x[i], w[i], v[i]"}
NUMPY = {word: name for word, name in ops.named("numpy").items() if hasattr(np, word)}
MATH = {word: name for word, name in ops.named("math").items() if hasattr(math, word)}


def load(folder: Path, text: str) -> ModuleType:
    """The text as a module with a file of its own."""
    path = folder / "kernels_of_functions.py"
    path.write_text("import math\nimport numpy as np\nimport loopfuse\n" + text, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernel_text(library: str, names: dict[str, str], dtype: str) -> str:
    """A kernel with one row of its result for each name."""
    lines = [f"        r[{row}, i] = {library}.{word}({ARITY[ops.BY_NAME[name].arity]})"
             for row, (word, name) in enumerate(names.items())]
    return "\n".join([
        "@loopfuse.kernel(fp='strict', reassociate=False)", "def k(x, w, v):",
        f"    r = np.empty(({len(lines)}, x.shape[0]), np.{dtype})",
        "    for i in range(len(x)):", *lines, "    return r", "",
    ])  # fmt: skip


def close(name: str, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Equal, or within the bound and what the other library may add; NaN is like NaN."""
    limit = (ops.BY_NAME[name].ulps or (0, 0))[got.dtype == np.float64]
    exact = (got == expected) & (np.signbit(got) == np.signbit(expected))
    if name in ("min", "max", "fmin", "fmax", "clip"):  # of both zeros NumPy takes either
        exact = got == expected
    with np.errstate(all="ignore"):
        near = np.abs(got - expected) <= (limit + 4) * np.spacing(np.abs(expected))
    return exact | (np.isnan(got) & np.isnan(expected)) | (near & (limit > 0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numpy(dtype: str, tmp_path: Path) -> None:
    module = load(tmp_path, kernel_text("np", NUMPY, dtype))
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype)
    x, w = (np.ascontiguousarray(each) for each in pairs.T)
    v = np.roll(w, 5)
    with np.errstate(all="ignore"):
        got, expected = module.k(x, w, v), module.k.reference(x, w, v)
    for word, a, b in zip(NUMPY, got, expected):
        good = close(NUMPY[word], a, b)
        if word == "power":  # NumPy makes a square root of it, which differs for -0.0 and -inf
            good |= w == 0.5
        assert good.all(), (word, x[~good][:3], w[~good][:3], a[~good][:3], b[~good][:3])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64"])
def test_numpy_of_integers(dtype: str, tmp_path: Path) -> None:
    """Floats of integers are f16, f32 or f64, by the integer's width; `abs`, `sign`, `clip`, `fmod`,
    `minimum` keep their type."""
    names = {
        word: name for word, name in NUMPY.items()
        if ops.BY_NAME[name].gives != "bool" and name != "pow"  # which NumPy refuses below 0
    }  # fmt: skip
    module = load(tmp_path, kernel_text("np", names, "float64"))
    some = [0, 1, 2, 6, 77] if dtype[0] == "u" else [-7, -1, 0, 1, 2, 6]
    values = np.array(list(itertools.product(some, [3, 1, 2, 5] if dtype[0] == "u" else [-3, 1, 2, 5])), dtype)
    x, w = (np.ascontiguousarray(each) for each in values.T)
    with np.errstate(all="ignore"):
        got, expected = module.k(x, w, w + x.dtype.type(2)), module.k.reference(x, w, w + x.dtype.type(2))
        for word, a, b in zip(names, got, expected):
            gives = getattr(np, word)(*np.ones(ops.BY_NAME[names[word]].arity, dtype)).dtype
            kept = gives if gives.kind == "f" else np.dtype(np.float64)
            assert np.array_equal(a, a.astype(kept), equal_nan=True), word
            good = close(names[word], a.astype(kept), b.astype(kept))
            assert good.all(), (word, x[~good][:3], w[~good][:3], a[~good][:3], b[~good][:3])


def test_numpy_of_integers_of_two_widths(tmp_path: Path) -> None:
    """The narrowest float that holds both, not that of their sum; a Python float makes it f64."""
    text = """
@loopfuse.kernel(fp="strict", reassociate=False)
def k(u, s, h, k, x):
    r = np.empty((8, len(u)), np.float64)
    for i in range(len(u)):
        r[0, i] = np.copysign(u[i], s[i]) * 0.1
        r[1, i] = np.copysign(u[i], h[i]) * 0.1
        r[2, i] = np.copysign(k[i], u[i]) * 0.1
        r[3, i] = np.copysign(u[i], -1) * 0.1
        r[4, i] = np.copysign(u[i], 2.0) * 0.1
        r[5, i] = np.copysign(x[i], h[i]) * 0.1
        r[6, i] = np.sqrt(u[i]) * 0.1 + np.rint(u[i]) * 0.1 + np.fabs(h[i]) * 0.1
        r[7, i] = loopfuse.rsqrt(u[i]) * 0.1 + loopfuse.rsqrt(2) * x[i] + loopfuse.erf(h[i]) * x[i]
    return r
"""
    module = load(tmp_path, text)
    values = np.array([1, 3, 7, 100])
    parts = [values.astype(kind) for kind in (np.uint8, np.int8, np.int16, np.int32, np.float16)]
    got, expected = module.k(*parts), module.k.reference(*parts)
    assert np.array_equal(got[:7], expected[:7])
    assert np.allclose(got[7], expected[7], rtol=1e-15)


@pytest.mark.parametrize("word", sorted(MATH))
def test_every_name_of_math_is_read(word: str) -> None:
    """None is left out of the door's tables."""
    function: Any = getattr(math, word)
    tables = (words.MATH_FUNCTIONS, words.MATH_PAIRS, words.TESTS)
    assert any(function in table for table in tables) or function is words.MATH_FMA or word == "pow"


def test_math(tmp_path: Path) -> None:
    """f32 elements widen first, and what comes is a Python float; `acosh` needs what `asin` may not
    have."""
    points = itertools.product([0.125, 0.25, 0.5, 0.75], [1.0, 2.0, 3.0], [0.5, 3.0])
    x, w, v = (np.ascontiguousarray(each) for each in np.array(list(points), np.float32).T)
    inverse = {"acosh": "acosh"}
    rest = {word: name for word, name in MATH.items() if word not in inverse}
    for names, first in ((rest, x), (inverse, w)):
        module = load(tmp_path, kernel_text("math", names, "float64"))
        got, expected = module.k(first, w, v), module.k.reference(first, w, v)
        for word, a, b in zip(names, got, expected):
            assert close(names[word], a, b).all(), (word, a, b)
