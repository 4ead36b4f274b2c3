"""`fp="native"` on a GPU: every function's error in ulps over all f32, and special numbers.

Run on a machine with a GPU: `pytest -m gpu tests/gpu/test_native_gpu.py`. With PyTorch every f32 is tried (and 2^28 pairs), the
exact result being that of float64; without, one in 64.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "codegen"))

from case_files import same_bits
from test_native_ptx import ONE, ROWS, SPECIAL, agree, spelled

import loopfuse
from loopfuse.lang import ops

pytestmark = pytest.mark.gpu

CHUNK = 1 << 26
PAIRS = 1 << 28
LEAST, MOST = 2.0**-126, float(np.finfo(np.float32).max)


def library() -> Any:
    """PyTorch or CuPy."""
    try:
        import torch

        return torch
    except ImportError:
        return pytest.importorskip("cupy")


def bits_to_floats(xp: Any, start: int, count: int, step: int) -> Any:
    """`count` f32s on the GPU: those of every `step`th pattern of bits from `start` on."""
    if xp.__name__ == "torch":
        words = xp.arange(count, dtype=xp.int64, device="cuda") * step + start
        return words.to(xp.int32).view(xp.float32)
    return (xp.arange(count, dtype=xp.uint64) * step + start).astype(xp.uint32).view(xp.float32)


def random_floats(xp: Any, count: int, seed: int, low: float, high: float) -> Any:
    """Of all signs and mantissas, with exponents in low..high."""
    if xp.__name__ == "torch":
        made = xp.Generator(device="cuda").manual_seed(seed)
        words = xp.randint(0, 1 << 24, (count,), generator=made, device="cuda", dtype=xp.int64)
        exponent = xp.randint(int(low), int(high), (count,), generator=made, device="cuda", dtype=xp.int64)
        bits = (words & 0x7FFFFF) | (exponent + 127 << 23) | ((words >> 23) << 31)
        return bits.to(xp.int32).view(xp.float32)
    made = xp.random.default_rng(seed)
    words = made.integers(0, 1 << 24, count).astype(xp.uint32)
    exponent = made.integers(int(low), int(high), count).astype(xp.uint32)
    return ((words & 0x7FFFFF) | (exponent + 127 << 23) | ((words >> 23) << 31)).view(xp.float32)


def operands(xp: Any, name: str) -> Iterator[tuple[Any, Any]]:
    """x and w in chunks: all f32, or pairs; of `pow` those whose powers are numbers."""
    if name not in ("div", "pow"):
        step = 1 if xp.__name__ == "torch" else 64
        for start in range(0, 1 << 32, CHUNK * step):
            x = bits_to_floats(xp, start, CHUNK, step)
            yield x, x
        return
    ranges = [(-126, 128), (-40, 40)] if name == "div" else [(-126, 128), (-2, 3)]
    for seed in range(PAIRS // CHUNK):
        low, high = ranges[seed % 2]
        x = random_floats(xp, CHUNK, 2 * seed, low, high)
        w = random_floats(xp, CHUNK, 2 * seed + 1, *((-126, 126) if name == "div" else (-7, 7)))
        yield (abs(x) if name == "pow" else x), w


def wide(xp: Any, value: Any) -> Any:
    return value.double() if xp.__name__ == "torch" else value.astype(xp.float64)


def ulps(xp: Any, exact: Any) -> Any:
    """The unit in the last place that an f32 has there."""
    words = exact.view(xp.int64)
    exponent = (words >> 52 & 0x7FF) - 1023
    exponent = exponent.clamp(-126, 127) if xp.__name__ == "torch" else exponent.clip(-126, 127)
    return (exponent - 23 + 1023 << 52).view(xp.float64)


def exact_of(xp: Any, name: str, x: Any, w: Any) -> Any:
    match name:
        case "div":
            return x / w
        case "rsqrt":
            return 1.0 / xp.sqrt(x)
        case "pow":
            return x**w
        case "erf" if xp.__name__ != "torch":
            return pytest.importorskip("cupyx.scipy.special").erf(x)
        case _:
            return getattr(xp, name)(x)


def growth_of(xp: Any, name: str, x: Any, w: Any) -> Any:
    """What a bound grows with."""
    return abs(x) if name == "exp" else abs(w * xp.log2(x)) if name == "pow" else 0.0 * x


def worst(name: str) -> tuple[float, float, float]:
    """The largest error in ulps of what has normal operands and results, as it is and less what the bound grows by;
    and the operand of the second."""
    xp = library()
    kernel = loopfuse.loads(ONE.format(dtype="f32", value=spelled(name)), fp="native")
    plain, least, where = 0.0, -np.inf, 0.0
    for x, w in operands(xp, name):
        y = xp.zeros_like(x)
        kernel(x, w, y)
        loopfuse.synchronize()
        x64, w64 = wide(xp, x), wide(xp, w)
        exact = exact_of(xp, name, x64, w64)
        usual = (abs(exact) >= LEAST) & (abs(exact) <= MOST) & (abs(x64) >= LEAST) & (abs(x64) <= MOST)
        error = abs(wide(xp, y) - exact) / ulps(xp, exact)
        assert not bool((usual & xp.isnan(error)).any()), name
        grown = error - ops.NATIVE[name].growth * growth_of(xp, name, x64, w64)
        error, grown = (xp.where(usual, each, xp.full_like(each, -1e300)) for each in (error, grown))
        plain = max(plain, float(error.max()))
        if float(grown.max()) > least:
            least, where = float(grown.max()), float(x[int(grown.argmax())])
    return plain, least, where


@pytest.mark.parametrize("name", ops.NATIVE)
def test_error_in_ulps(name: str) -> None:
    plain, grown, where = worst(name)
    assert grown <= ops.NATIVE[name].ulps, (plain, grown, where)


@pytest.mark.parametrize(("value", "bound"), [("x[i] / sqrt(w[i])", 3.0), ("x[i] / 7.3", 1.5)])
def test_quotients_that_are_other_products(value: str, bound: float) -> None:
    xp = library()
    kernel = loopfuse.loads(ONE.format(dtype="f32", value=value), fp="native")
    for seed in range(4):
        x, w = random_floats(xp, CHUNK, 2 * seed, -60, 60), abs(random_floats(xp, CHUNK, 2 * seed + 1, -60, 60))
        y = xp.zeros_like(x)
        kernel(x, w, y)
        loopfuse.synchronize()
        exact = wide(xp, x) / (xp.sqrt(wide(xp, w)) if "sqrt" in value else float(np.float32(7.3)))
        error = abs(wide(xp, y) - exact) / ulps(xp, exact)
        assert float(error.max()) <= bound, float(error.max())


@pytest.mark.parametrize("name", ops.NATIVE)
def test_special_numbers(name: str) -> None:
    xp, rows = library(), SPECIAL[name]
    given = [np.array([row[at] for row in rows] + [np.nan], np.float32) for at in (0, -2, -1)]
    on_gpu = [xp.from_numpy(each).cuda() if xp.__name__ == "torch" else xp.asarray(each) for each in given]
    y = xp.zeros_like(on_gpu[0])
    loopfuse.loads(ONE.format(dtype="f32", value=spelled(name)), fp="native")(on_gpu[0], on_gpu[1], y)
    loopfuse.synchronize()
    got = y.cpu().numpy() if xp.__name__ == "torch" else y.get()
    expected = given[-1]
    with np.errstate(invalid="ignore"):
        same = agree(got, expected) | (np.abs(got - expected) <= 2e-3 * np.abs(expected))
    assert same.all(), (given[0][~same], given[1][~same], got[~same], expected[~same])


@pytest.mark.parametrize("shape", [(37, 141), (513, 1000), (33, 40000)])
@pytest.mark.parametrize("name", ROWS)
def test_fused_has_the_bits_of_unfused(name: str, shape: tuple[int, int]) -> None:
    xp = library()
    data = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    x = xp.from_numpy(data).cuda() if xp.__name__ == "torch" else xp.asarray(data)
    kernel = loopfuse.loads(ROWS[name], fp="native", reassociate=False)
    results = [one(x) for one in (kernel, kernel.with_options(fuel=0), kernel.with_options(fp="fast"))]
    loopfuse.synchronize()
    fused, unfused, fast = (each.cpu().numpy() if xp.__name__ == "torch" else each.get() for each in results)
    assert agree(fused, unfused).all() and not agree(fused, fast).all()


@pytest.mark.parametrize("name", ROWS)
def test_verified_within_its_bounds(name: str) -> None:
    found = loopfuse.loads(ROWS[name], fp="native").verify()
    assert found, str(found)
    assert "interpreted within native's bounds" in str(found)


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs_have_the_bits_of_their_unfused_code(chunk: int) -> None:
    from fuzz import engines
    from fuzz.choices import RandomChoices
    from fuzz.generate import generate
    from fuzz.gpu import call_on_gpu

    from loopfuse.base.diagnostics import LoopfuseError

    compared = 0
    for number in range(12 * chunk, 12 * chunk + 12):
        program = replace(generate(RandomChoices(f"native:{number}"), "math,divisions,storage_floats"), fp="native")
        try:
            with engines.session(program) as it:
                one, other = (call_on_gpu(it, engines.compile_call(it, fuel)) for fuel in (None, 0))
        except LoopfuseError:
            continue
        compared += 1
        for name, value in one.arrays.items():
            assert same_bits(value, other.arrays[name]), f"{name}\n{program}"
    assert compared > 6
