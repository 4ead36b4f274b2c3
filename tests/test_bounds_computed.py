"""Bounds that are known when a loop is entered, computed by any integer operation from sizes, integer
parameters, iterators and integer locals: in both doors, for the CPU and the GPU, fused and unfused."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import LimitError, loads
from loopfuse.testing import assert_equivalent, assert_parallel

STRICT = {"target": "cpu", "fp": "strict", "reassociate": False}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    yield


BOUNDS = {
    "rest": "0..p % T + 1",
    "from": "p % T..T",
    "both": "p % T..p // T + 2",
    "step": "1..p % T step 2",
    "down": "p % T..0 step -1",
    "least": "0..min(p % T, 3)",
    "offset": "0..(p + 3) % T",
    "parameter": "0..p % m",
    "sizes": "0..M % T",
    "shift": "0..(p >> 1) & 7",
    "square": "0..p * p % T",
    "chosen": "0..(p % T if p > 4 else p // T)",
}


def _first_alone(names: Iterable[str]) -> list[Any]:
    """The others belong to the longer run."""
    return [pytest.param(one, marks=[pytest.mark.whole] * (k > 0)) for k, one in enumerate(names)]


@pytest.mark.parametrize("name", _first_alone(BOUNDS))
def test_every_form_computes_the_same(name: str) -> None:
    kernel = loads(
        f"kernel k(x: f32[M, T], out y: f32[P], m: i64):\n    for p in 0..P:\n"
        f"        y[p] = sum(j in {BOUNDS[name]}: x[p % M, j] + f32(j))\n"
    )
    sizes = {"M": 6, "T": 5, "P": 23, "m": 4}
    assert_equivalent(kernel, sizes=sizes, target="sm_90")
    assert_parallel(kernel, "p")
    assert kernel.with_options(target="cpu").verify(**{**sizes, "m": 0})


@pytest.mark.whole
@pytest.mark.parametrize("name", ["rest", "from", "step"])
def test_loops_that_write(name: str) -> None:
    kernel = loads(
        f"kernel k(x: f32[P, T], inout y: f32[P, T]):\n    for p in 0..P:\n        let i = p % T\n"
        f"        for j in {BOUNDS[name].replace('p % T', 'i')}:\n"
        "            y[p, j] += x[p, j] * 2.0\n"
    )
    assert_equivalent(kernel, sizes={"T": 5, "P": 23}, target="sm_90")


def test_exact_where_the_range_is_near() -> None:
    """A few periods are told apart as before: nothing is checked when it runs."""
    for header, bound in (("0..2*T", "p % T + 1"), ("0..T", "(p + 7) % T"), ("0..P", "p % T")):
        assumed = "    assume P <= 5*T\n" if header == "0..P" else ""
        kernel = loads(
            f"kernel k(x: f32[T], out y: f32[P]):\n{assumed}    for p in {header}:\n"
            f"        y[min(p, P - 1)] = sum(j in 0..{bound}: x[j])\n"
            if assumed
            else f"kernel k(x: f32[T], out y: f32[2*T]):\n    for p in {header}:\n"
            f"        y[p] = sum(j in 0..{bound}: x[j])\n",
            target="cpu",
        )
        assert not kernel.compile("cpu", emit=("object",)).manifest["checks"]


def causal(q, out):  # pyright: ignore
    H, T = q.shape
    for p in range(H * T):
        h = p // T
        i = p % T
        s = np.float32(0)
        for j in range(i + 1):
            s += q[h, j]
        out[h, i] = s


def attention(q, k, v, out):  # pyright: ignore
    P, D = q.shape
    T = k.shape[1]
    for p in range(P):
        h, i = p // T, p % T
        row = np.zeros(T, np.float32)
        m = np.float32(-np.inf)
        for j in range(i + 1):
            s = np.float32(0)
            for d in range(D):
                s += q[p, d] * k[h, j, d]
            row[j] = s
            m = max(m, s)
        t = np.float32(0)
        for j in range(i + 1):
            row[j] = abs(row[j] - m) + np.float32(1)
            t += row[j]
        for d in range(D):
            s = np.float32(0)
            for j in range(i + 1):
                s += row[j] * v[h, j, d]
            out[p, d] = s / t


def heads(q, k, v, out):  # pyright: ignore
    H, T, D = q.shape
    for p in range(H * T):
        h = p // T
        i = p % T
        row = np.empty(T, np.float32)
        m = np.float32(-np.inf)
        for j in range(i + 1):
            s = np.float32(0)
            for d in range(D):
                s += q[h, i, d] * k[h, j, d]
            row[j] = s
            m = max(m, s)
        for d in range(D):
            s = np.float32(0)
            for j in range(i + 1):
                s += (row[j] - m) * v[h, j, d]
            out[h, i, d] = s


def two(x, out, m: int):  # pyright: ignore
    T = x.shape[1]
    for p in range(len(out)):
        n = p * 7 % T
        if p > 3:
            n = (p ^ 5) % T
        for j in range(n, T - p % m):
            out[p] += x[p % 4, j]


SHAPES: dict[Callable[..., None], tuple[Any, ...]] = {
    causal: ((3, 5), (3, 5)),
    attention: ((15, 4), (3, 5, 4), (3, 5, 4), (15, 4)),
    heads: ((3, 5, 4),) * 4,
    two: ((4, 9), (19,), 4),
}


@pytest.mark.parametrize(
    "function",
    [pytest.param(f, marks=[pytest.mark.whole] * (f in (heads, two)), id=f.__name__) for f in SHAPES],
)
def test_python_gives_the_bits_of_cpython(function: Callable[..., None]) -> None:
    rng = np.random.default_rng(1)
    given = [rng.random(s, np.float32) if isinstance(s, tuple) else s for s in SHAPES[function]]
    kernel = loopfuse.kernel(function, **STRICT)  # pyright: ignore
    expected = [one.copy() if isinstance(one, np.ndarray) else one for one in given]
    kernel.reference(*expected)
    assert_equivalent(kernel, *given, target="sm_90")
    kernel(*given)
    for one, other in zip(given, expected):
        np.testing.assert_array_equal(one, other)
    if function is attention:
        assert_parallel(kernel, "p", args=given)
        assert "parallel over p" in str(kernel.explain(*given))


def test_what_stays_refused_says_what_to_do() -> None:
    head = "kernel k(x: f32[H, T], out y: i64[H, T]):\n    for h in 0..H, t in 0..T:\n        "
    body = "y[h, t] = argmax(j in 0..(h + t) % T + 1: x[h, j])\n"
    with pytest.raises(LimitError) as caught:
        loads(head + body).compile("cpu", emit=("object",))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "data-dependent-bound" and "`(h + t) % T` is not" in diagnostic.message
    assert "`(h + t) % T` the iterator of a loop" in diagnostic.fix
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loads("kernel k(x: f32[T], out y: f32[T]):\n    for t in 0..T:\n"
              "        y[t] = sum(j in 0..(t + 1) % T: x[j])\n").compile("cpu", emit=("object",))  # fmt: skip
