"""Columns, and points of several loops: the PTX of every version, as it is compiled, on the machine of `tests/ptx_machine.py`
against NumPy, at lengths around those where versions change."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.codegen.lower.lower import Lowered, lower
from tests.codegen.test_clusters_ptx import runs

CASES = Path(__file__).resolve().parents[1] / "cases"
SM90 = Target("sm_90")


@cache
def lowered(name: str, bits: int) -> Lowered:
    program = pipeline.read_program(Source("f.lf", (CASES / f"{name}.lf").read_text()))
    planned = pipeline.plan_kernel(program, name, Options(target=SM90, index_bits=bits))
    return lower(planned.tree, planned.kernel, SM90, bits)


def integers(most: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(shape[0]).integers(-most, most, shape).astype(np.int32)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    "length, columns, blocks",
    [(24, 33, 1), (25, 33, 1), (256, 3, 1), (257, 17, 1), (1024, 5, 1), (1025, 17, 2), (2049, 2, 4), (4097, 2, 8), (8193, 2, 8)],
)
def test_columns(length: int, columns: int, blocks: int, bits: int) -> None:
    x, w, sizes = integers(100, length, columns), integers(9, length), {"R": length, "C": columns}
    made = {name: np.zeros(columns, np.int32) for name in ("total", "most")}
    arrays = {"x": x, "w": w, **made, "y": np.zeros_like(x)}
    assert runs(lowered("columns_every_length", bits), arrays, sizes) == [blocks]
    total, most = 7 + (x * w[:, None]).sum(0), np.maximum(-1000, x.max(0))
    for name, wanted in (("total", total), ("most", most), ("y", x * w[:, None] - (total - 2 * most))):
        assert np.array_equal(arrays[name], wanted), name
    arrays = {"x": x, **{name: np.zeros(columns, np.int32) for name in ("total", "squares")}}
    runs(lowered("columns_read_once", bits), arrays, sizes)
    assert np.array_equal(arrays["total"], x.sum(0)) and np.array_equal(arrays["squares"], (x * x).sum(0))


@pytest.mark.parametrize("length, columns, launches", [(256, 5, 1), (257, 5, 2), (2048, 33, 2), (2049, 3, 2), (4500, 2, 2), (300, 2049, 1)])
def test_columns_in_shares(length: int, columns: int, launches: int) -> None:
    """Around where shares begin, and where columns are many."""
    x = integers(100, length, columns)
    arrays = {"x": x, **{name: np.zeros(columns, np.int32) for name in ("total", "squares")}}
    assert len(runs(lowered("columns_read_once", 32), arrays, {"R": length, "C": columns})) == launches
    assert np.array_equal(arrays["total"], x.sum(0)) and np.array_equal(arrays["squares"], (x * x).sum(0))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    "points, outer, inner",
    [(2, 1, 1), (1, 2, 3), (1, 3, 32), (1, 40, 7), (2, 1, 33), (1, 9, 64), (1, 130, 130), (1, 3, 511), (1, 2, 513), (1, 31, 520), (1, 29, 513)],
)
def test_points_of_two_loops(points: int, outer: int, inner: int, bits: int) -> None:
    x, gain = integers(100, points, outer, inner), integers(9, outer)
    arrays = {"x": x, "gain": gain, "total": np.zeros(points, np.int32), "y": np.zeros_like(x)}
    runs(lowered("nests_every_shape", bits), arrays, {"N": points, "D": outer, "P": inner})
    total = (x * gain[:, None]).sum((1, 2))
    assert np.array_equal(arrays["total"], total)
    assert np.array_equal(arrays["y"], x * gain[:, None] - (total + x.max((1, 2)))[:, None, None])


def test_blocks_of_a_thousand_threads_can_be_launched() -> None:
    """65,536 registers are 64 for each, wide addresses or not."""
    for bits in (32, 64):
        text = lowered("columns_every_length", bits).ptx
        large = [entry for entry in text.split(".visible")[1:] if ".reqntid 1024" in entry]
        assert large and all(int(entry.split(".maxnreg ")[1].split()[0]) <= 64 for entry in large if ".maxnreg" in entry)
