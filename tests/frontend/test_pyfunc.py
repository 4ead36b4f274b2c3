"""The Python door's meaning: what CPython computes is what is compiled, for what a kernel may
hold; types, locals, constants, results, and the decorator's object."""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError, UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.python.door import Argument, read_function
from loopfuse.lang.check.check import check
from loopfuse.lang.printer import print_kernel

RNG = np.random.default_rng(7)
X = RNG.standard_normal(13).astype(np.float32)
D = RNG.standard_normal(13)
M = RNG.standard_normal((6, 9)).astype(np.float32)
INTS = RNG.integers(-50, 50, 13).astype(np.int32)


def bits(value: np.ndarray) -> np.ndarray:
    return value if value.dtype.kind != "f" else value.view(f"u{value.dtype.itemsize}")


def agree(function: Any, *arguments: Any) -> Any:
    """CPython and compiled code give the same bits, written and returned; gives the result."""
    kernel = loopfuse.kernel(fp="strict", reassociate=False, target="cpu")(function)
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2)]
    with np.errstate(all="ignore"):
        expected = function(*copies[0])
    got = kernel(*copies[1])
    assert type(expected) is type(got), (expected, got)
    pairs = list(zip(copies[0], copies[1]))
    pairs += list(zip(expected, got)) if isinstance(expected, tuple) else [(expected, got)]
    for left, right in pairs:
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype and left.shape == right.shape
            np.testing.assert_array_equal(bits(left), bits(right))
    return got


def core(function: Any, *arguments: Argument) -> str:
    """The core program of a function, as text."""
    return print_kernel(check(read_function(function, arguments).module, fp="strict").kernels[0])


F32 = Argument("x", DType.F32, 1)


# ------------------------------------------------------------------------------- statements


def both_spellings(a, y):
    for i in range(a.shape[0]):
        for j in range(len(y)):
            y[j] += a[i][j] * a[i, j]


def steps(x, y):
    n = len(x)
    for i in range(0, n, 3):
        y[i] = x[i] + 1.0
    for i in range(n - 1, -1, -2):
        y[i] = y[i] - x[n - 1 - i]


def branches(x, y):
    for i in range(len(x)):
        if x[i] > 0.5:
            y[i] = 1.0
        elif x[i] > -0.5 and i != 3:
            y[i] = x[i] if i % 2 == 0 else -x[i]
        else:
            y[i] = -1.0 if -2.0 < x[i] <= -1.0 else -2.0


def locals_of_branches(x, y):
    for i in range(len(x)):
        if x[i] > 0.0:
            t = x[i] * 2.0
            u = t
        else:
            t = -x[i]
            u = np.float32(0.5)
        y[i] = t + u
        t = y[i] * t
        y[i] = t


def carried(x, y):
    last = np.float32(0.0)
    best = np.float32(-math.inf)
    for i in range(len(x)):
        y[i] = last - x[i]
        last = x[i]
        if best < x[i]:
            best = x[i]
    y[0] = best


def counts(x, y):
    n = 0
    for i in range(len(x)):
        if x[i] > 0.0:
            n += 1
        y[i] = x[i] * n


def exchanges(a, b):
    n = len(a)
    for _ in range(3):
        for i in range(n):
            b[i] = a[i] + 1.0
        a, b = b, a


def pairs(x, y):
    p, q = 0.0, np.float32(1.0)
    for i in range(len(x)):
        p, q = q, x[i]
        y[i] = p - q


def temporaries(a, y):
    H, W = a.shape
    ones = np.ones(W, np.float32)
    table = np.full((H, W), 0.25, np.float32)
    zeros = np.zeros_like(table)
    for i in range(H):
        line = np.zeros(W, a.dtype)
        for j in range(W):
            line[j] += a[i, j] * table[i, j] + zeros[i, j]
        for j in range(W):
            y[j] += line[W - 1 - j] * ones[j]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (both_spellings, (M, np.zeros(9, np.float32))),
        (steps, (X, X * 0)),
        (branches, (X, X * 0)),
        (locals_of_branches, (X, X * 0)),
        (carried, (X, X * 0)),
        (counts, (X, X * 0)),
        (exchanges, (D, D * 0)),
        (pairs, (X, X * 0)),
        (temporaries, (M, np.zeros(9, np.float32))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_statements(function: Any, arguments: tuple[Any, ...]) -> None:
    agree(function, *arguments)


# -------------------------------------------------------------------------------- expressions


def integers(k, x, m, y):
    for i in range(len(k)):
        m[i] = (k[i] // 3 << 2) | (k[i] % 7) ^ (k[i] & 12)
        y[i] = abs(k[i]) / 3 + k[i] // 4 % 3
        x[i] = np.float32(k[i]) + i / 4


def functions(x, y):
    for i in range(len(x)):
        a = abs(x[i])
        y[i] = np.sqrt(a) + np.floor(x[i]) * np.ceil(x[i]) - np.rint(x[i]) + np.trunc(x[i])
        y[i] += min(a, 0.5, x[i]) + max(x[i], 0.25) + np.minimum(x[i], 0.0) - np.maximum(a, 1.0)


def python_numbers(x, y, scale):
    for i in range(len(x)):
        wide = math.sqrt(abs(x[i])) * scale
        y[i] = x[i] * wide + float(x[i]) * 0.1 + int(x[i] * 10.0) * x[i] + round(x[i]) * 0.3
        y[i] -= math.floor(x[i]) * x[i]


def numpy_numbers(x, y):
    for i in range(len(x)):
        y[i] = x[i] * np.sqrt(2.0) + np.float64(0.1) * x[i] + x.dtype.type(0.1) * x[i]


def sizes(a, y):
    H, W = a.shape
    half = W // 2
    scale = 1.0 / (H * W)
    for j in range(half):
        y[j] = a[0, 2 * j] * scale + a.size + a.ndim + W / 7 + j * 0.1


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (integers, (INTS, X * 0, INTS * 0, D * 0)),
        (functions, (X, X * 0)),
        (python_numbers, (X, X * 0, 0.7)),
        (numpy_numbers, (X, D * 0)),
        (sizes, (M, np.zeros(9, np.float32))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_expressions(function: Any, arguments: tuple[Any, ...]) -> None:
    agree(function, *arguments)


# -------------------------------------------------------------------------------------- edges


def edges_by_functions(x):
    n = len(x)
    y = np.empty_like(x)
    for i in range(n):
        y[i] = x[loopfuse.clamp(i - 2, n)] + x[loopfuse.wrap(i + 3, n)]
        y[i] += x[loopfuse.reflect(i - 5, n)] - x[loopfuse.symmetric(i + 6, n)]
    return y


def edges_written_out(a):
    H, W = a.shape
    y = np.empty_like(a)
    for i in range(H):
        for j in range(W):
            y[i, j] = a[min(max(i - 1, 0), H - 1), min(max(j + 1, 0), W - 1)] - a[max(i - 1, 0), j]
            y[i, j] += a[i, j - 2] if j >= 2 else 0.0
    return y


def test_edges() -> None:
    for size in (1, 2, 3, 13):
        agree(edges_by_functions, X[:size].copy())
    agree(edges_written_out, M)
    text = core(edges_written_out, Argument("a", DType.F32, 2))
    assert "a.clamp[i - 1, j + 1]" in text and "a[max(i - 1, 0), j]" in text
    modes = core(edges_by_functions, F32)
    assert all(f"x.{mode}[" in modes for mode in ("clamp", "wrap", "reflect", "symmetric"))


def test_a_clamp_that_could_hide_a_mistake_is_no_edge_mode() -> None:
    def kernel(a):
        H, W = a.shape
        y = np.zeros_like(a)
        for i in range(H - 1):
            for j in range(W):
                y[i, j] = a[i + 1, min(max(j - 1, 0), W - 1)]
        return y

    agree(kernel, M)
    assert ".clamp[" not in core(kernel, Argument("a", DType.F32, 2))


def test_subscripts_that_depend_on_data() -> None:
    def gather(x, where, y):
        for i in range(len(y)):
            y[i] = x[where[i]] + 1.0

    agree(gather, X, np.arange(13)[::-1].copy(), X * 0)


# ------------------------------------------------------------------------- locals and scoping


def test_a_local_of_two_loops_is_two_values() -> None:
    def kernel(x, y):
        for i in range(len(x)):
            t = x[i]
            y[i] = t * t
        for i in range(len(x)):
            t = y[i]
            y[i] = t + 1.0

    agree(kernel, X, X * 0)
    text = core(kernel, F32, Argument("y", DType.F32, 1))
    assert text.count("let t") == 2 and "var" not in text


def test_a_loop_that_only_accumulates_is_a_reduction() -> None:
    def kernel(a):
        H, W = a.shape
        y = np.empty(H, np.float32)
        for i in range(H):
            s = 0.0
            for j in range(W):
                s += a[i, j] * a[i, j]
            m = -math.inf
            for j in range(W):
                m = max(a[i, j], m)
            y[i] = s / W + m
        return y

    agree(kernel, M)
    text = core(kernel, Argument("a", DType.F32, 2))
    assert "sum s: f32 over j in 0..W" in text and "max m: f32 over j" in text


def test_a_sum_that_starts_elsewhere_stays_a_loop() -> None:
    def kernel(x, y):
        s = np.float32(1.0)
        for i in range(len(x)):
            s += x[i]
        y[0] = s

    agree(kernel, X, X * 0)
    assert "var s: f32 = 1.0" in core(kernel, F32, Argument("y", DType.F32, 1))


def test_integer_accumulators_of_the_reduction_s_type_are_reductions() -> None:
    def kernel(k):
        total = np.int64(0)
        for i in range(len(k)):
            total += k[i]
        low = np.int32(2147483647)
        for i in range(len(k)):
            low = min(low, k[i])
        y = np.empty(2, np.int64)
        y[0] = total
        y[1] = low
        return y

    agree(kernel, INTS)
    text = core(kernel, Argument("k", DType.I32, 1))
    assert "sum total: i64 over i in" in text and "min low: i32 over i" in text


def test_a_sum_that_wraps_in_32_bits_stays_a_loop() -> None:
    def kernel(k, y):
        s = np.int32(0)
        for i in range(len(k)):
            s += k[i]
        y[0] = s

    big = INTS + np.int32(2**31 - 100)  # the sum wraps, as NumPy's does
    agree(kernel, big, INTS * 0)
    assert "var s: i32 = 0" in core(
        kernel, Argument("k", DType.I32, 1), Argument("y", DType.I32, 1)
    )


def test_underscores_throw_away_and_do_not_meet() -> None:
    def kernel(a, steps):
        _, W = a.shape
        for _ in range(steps):
            for _ in range(2):
                for j in range(W):
                    a[0, j] = 0.5 * a[0, j]

    agree(kernel, M, 3)


# -------------------------------------------------------------------------- scope and helpers

FACTOR = 0.5
TAPS = (0.25, 0.5, 0.25)
GRID = np.array([[0.5, -1.0], [2.0, 4.0]], np.float32)


def limited(value, low=0.0, high=1.0):
    """A helper with defaults and branches."""
    if value < low:
        return low
    if value > high:
        return high
    return value


def mix(a, b):
    middle = 0.5 * (a + b)
    return middle * middle - a * b


def uses_outside(x, y):
    for i in range(1, len(x) - 1):
        total = np.float32(0.0)
        for k in range(3):
            total += TAPS[k] * x[i + k - 1]
        y[i] = limited(mix(total, x[i]), high=0.75) * FACTOR + GRID[1, 0] * GRID[0][1]


def test_constants_tables_and_helpers() -> None:
    agree(uses_outside, X, X * 0)


def test_a_changed_constant_is_seen() -> None:
    state = {"factor": 2.0}

    def make():
        factor = state["factor"]

        @loopfuse.kernel
        def kernel(x):
            y = np.empty_like(x)
            for i in range(len(x)):
                y[i] = factor * x[i] * TABLE[0]
            return y

        def change(value):
            nonlocal factor
            factor = value

        return kernel, change

    global TABLE
    TABLE = [1.0]
    kernel, change = make()
    np.testing.assert_array_equal(kernel(X), 2.0 * X)
    change(3.0)
    np.testing.assert_array_equal(kernel(X), np.float32(3.0) * X)
    TABLE[0] = 0.5
    np.testing.assert_array_equal(kernel(X), np.float32(1.5) * X)
    change(2.0)
    TABLE[0] = 1.0
    np.testing.assert_array_equal(kernel(X), 2.0 * X)
    assert len(kernel._kernels) == 3


TABLE: list[float] = [1.0]


# ------------------------------------------------------------------------------- the object


@loopfuse.kernel
def add(x, y, scale=2.0):
    """Adds."""
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = x[i] + scale * y[i]
    return out


def test_types_are_those_of_the_call() -> None:
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        x = (10 * D).astype(dtype)
        scale = 2 if np.dtype(dtype).kind == "i" else 2.0
        got = add(x, x, scale)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, add.reference(x, x, scale))
    np.testing.assert_array_equal(add(X, y=X), add.reference(X, X))
    assert add.__name__ == "add" and add.__doc__ == "Adds." and callable(add.reference)


def test_results() -> None:
    def kernel(x, y):
        a = np.zeros(3, x.dtype)
        for i in range(3):
            a[i] = x[i]
            y[i] = a[i] + 1.0
        return y, a

    compiled, y = loopfuse.kernel(kernel), X * 0
    first, second = compiled(X, y)
    assert first is y
    np.testing.assert_array_equal(second, X[:3])

    def one(x):
        a = np.zeros(3, x.dtype)
        for i in range(3):
            a[i] = x[i]
        return (a,)

    (only,) = loopfuse.kernel(one)(X)
    np.testing.assert_array_equal(only, X[:3])


def test_annotations_pin_types() -> None:
    @loopfuse.kernel
    def kernel(x: loopfuse.f32["N"], y: loopfuse.Out[loopfuse.f32["N"]], a: loopfuse.f32):
        for i in range(len(x)):
            y[i] = a * x[i]

    np.testing.assert_array_equal(kernel(X, a=2.0), 2.0 * X)
    out = X * 0
    assert kernel(X, out, 2.0) is None
    np.testing.assert_array_equal(out, 2.0 * X)
    with pytest.raises(UserError, match="wrong-dtype"):
        kernel(D, a=2.0)
    assert kernel.explain(N=64).to_dict()["launches"]["after"] == 1
    assert ".visible .entry" in kernel.compile(target="sm_80").ptx
    assert kernel.dependences()["kernel"] == "kernel"
    assert kernel.verify()


def test_types_for_a_compile_without_a_call() -> None:
    @loopfuse.kernel
    def kernel(x, y):
        for i in range(len(x)):
            y[i] = 2.0 * x[i]

    f32 = loopfuse.f32
    assert kernel.compile(target="cpu", x=f32["N"], y=f32["N"]).object
    assert kernel.explain(X, X * 0).to_dict()["loops"][0]["writes"] == ["y"]


def test_promises_wishes_and_parallel_loops() -> None:
    def kernel(x, y, n: int):
        assert x.shape == y.shape and n >= 1, "alike"
        with loopfuse.nofuse():
            for i in loopfuse.prange(len(x)):
                y[i] = x[i] * n
        with loopfuse.fuse():
            for i in range(len(x)):
                t = y[i]
                y[i] = t + 1.0
            for i in range(len(x)):
                t = y[i]
                y[i] = t + 1.0

    agree(kernel, X, X * 0, 3)
    @loopfuse.kernel
    def serial(x):
        for i in loopfuse.prange(1, len(x)):
            x[i] = x[i - 1] + 1.0

    with pytest.raises(LoopfuseError, match="parallel"):
        serial(X.copy())


def test_other_decorators_are_ignored() -> None:
    def loud(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args)

        return inner

    @loopfuse.kernel
    @loud
    def kernel(x):
        for i in range(len(x)):
            x[i] = 1.0

    x = X.copy()
    kernel(x)
    assert (x == 1.0).all()


def test_places_are_those_of_the_file() -> None:
    @loopfuse.kernel
    def kernel(x, y):
        for ä in range(len(x)):
            y[ä] = x[ä - 1]

    with pytest.raises(UserError) as caught:
        kernel(X, X * 0)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "subscript-range"
    assert diagnostic.source is not None and diagnostic.source.name.endswith("test_pyfunc.py")
    line = diagnostic.source.line(diagnostic.span.line)
    assert line[diagnostic.span.column - 1 :].startswith("ä - 1")
    assert "for ä in range(1, " in diagnostic.fix


def test_second_process_reads_no_compiler(tmp_path: Path) -> None:
    """A hit in the disk cache loads neither the readers of text nor the compiler."""
    import os
    import subprocess

    program = tmp_path / "program.py"
    program.write_text(
        "import sys, numpy as np, loopfuse\n\n@loopfuse.kernel(target='cpu')\ndef k(x):\n"
        "    y = np.empty_like(x)\n    for i in range(len(x)):\n        y[i] = 2.0 * x[i]\n"
        "    return y\n\nprint(k(np.ones(3)), [m for m in ('lark', 'islpy', 'xdsl', "
        "'loopfuse.pipeline') if m in sys.modules])\n"
    )
    environment = {
        **os.environ,
        "LOOPFUSE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(loopfuse.__file__).parent.parent),
    }
    said = [
        subprocess.run(
            [sys.executable, str(program)], env=environment, capture_output=True, text=True
        )
        for _ in range(2)
    ]
    assert "loopfuse.pipeline" in said[0].stdout, said[0].stderr
    assert said[1].stdout == "[2. 2. 2.] []\n", said[1].stderr
