"""Block and chunk sizes to plan with. The usual ones want arrays of thousands of elements before a
second block or chunk has work; with tiny ones ten will do, and the LoopTree interpreter, which
runs idle threads too, takes milliseconds."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest.mock import patch

from loopfuse import pipeline
from loopfuse.base import machine as base_machine
from loopfuse.codegen.mlir import nontemporal
from loopfuse.plan.mapping import threads
from loopfuse.plan.strategies.generic import generic
from loopfuse.proof.check import Verdict
from loopfuse.tree import chains
from loopfuse.tree.rewrite import nontemporal as past_caches


def _strategy(module: str) -> ModuleType | None:
    """A module of a strategy; None where that was taken out (`tests/tools/without.py`)."""
    name = f"loopfuse.plan.strategies.{module}"
    parent, _, _ = name.rpartition(".")
    return import_module(name) if find_spec(parent) and find_spec(name) else None


combine, pointwise = _strategy("reduce"), _strategy("pointwise.pointwise")
rows = _strategy("rows.sizes")
contract, shapes = _strategy("contract.strategy"), _strategy("contract.shape")
scan, scan_cpu, scan_gpu, scan_prefix, scan_tile = (
    _strategy(f"scan.{name}") for name in ("strategy", "cpu", "gpu", "prefix", "tile")
)

def _tiles(*sizes: int) -> Any:
    """Tiles of these sizes for every product."""
    return lambda machine, dtype: shapes and shapes.Shape(*sizes)  # pyright: ignore[reportUnknownLambdaType]


def _shapes(*shapes: tuple[int, int, int, int]) -> Any:
    """How threads share a point of several loops."""
    names = ("short", "middle", "wide", "long")
    return rows and tuple(rows.Shape(name, *each, name in ("wide", "long")) for name, each in zip(names, shapes, strict=True))


_TINY: dict[tuple[Any, str], Any] = {
    (combine, "BLOCKS"): 16, (combine, "ROWS"): 4, (combine, "COLUMNS"): 4, (combine, "THREADS"): 8,
    (combine, "CHUNK"): 6, (combine, "LANES"): 4,
    (past_caches, "PARTS"): 1 << 40, (nontemporal, "LINE"): 16, (nontemporal, "TURN"): 16, (nontemporal, "SHORTEST"): 32,
    (generic, "BLOCK"): 4, (generic, "TILE"): (4, 2), (threads, "CHUNK"): 4,
    (pointwise, "BLOCK"): 4, (pointwise, "TILE"): (4, 2), (pointwise, "SHORT_TILE"): (2, 4),
    (rows, "SHORT"): 2, (rows, "WARPS"): 2, (rows, "FEW_THREADS"): 32, (rows, "MORE_THREADS"): 64, (rows, "THREADS"): 96,
    (rows, "HELD"): 1, (rows, "STAGED"): 1, (rows, "HOLDING"): ((1, 128), (2, 96), (4, 96), (8, 96)), (rows, "SHAPES"): _shapes((2, 2, 2, 1), (3, 4, 4, 1), (4, 4, 8, 2), (0, 1, 32, 1)),
    (rows, "SHARED_PLACES"): 20, (rows, "COLUMNS"): 2, (rows, "HELD_COLUMNS"): 2, (rows, "FEW"): 2, (rows, "NARROW"): 3, (rows, "SHARE"): 40,
    (rows, "ROWS_OF_SHARE"): 3, (rows, "FEW_ROWS"): 2, (rows, "LEAST_SHARED"): 2, (rows, "HELD_OF_SHARE"): 1, (rows, "SHARING_ROWS"): ((1, 32), (2, 32)),
    (contract, "shape_of"): _tiles(2, 1, 2, 1, 2, 2),
    (scan, "SHORT_ROW"): 2, (scan, "ROW_BLOCKS"): (), (chains, "CHAIN"): 2,
    (scan, "SHORT"): {"cpu": 2, "gpu": 2}, (scan_cpu, "PART"): 2, (scan_cpu, "CHAINS"): 2, (scan_cpu, "CHUNK"): 4,
    (scan_cpu, "LANES"): 2, (scan_cpu, "ROUND"): 8, (scan_prefix, "NEIGHBOURS"): 2, (scan_gpu, "PASS_THREADS"): 32, (scan_tile, "PASS_THREADS"): 32,
    (scan_tile, "THREADS"): 32, (scan_tile, "EACH"): 2, (scan_tile, "PARTS"): 1, (scan_gpu, "MIDDLE_THREADS"): 32, (scan_gpu, "MIDDLE_EACH"): 1,
}  # fmt: skip
_SMALL: dict[tuple[Any, str], Any] = {
    (combine, "BLOCKS"): 64, (combine, "ROWS"): 16, (combine, "COLUMNS"): 4, (combine, "THREADS"): 64,
    (combine, "CHUNK"): 32, (combine, "LANES"): 16,
    (past_caches, "PARTS"): 1 << 40, (nontemporal, "TURN"): 64, (nontemporal, "SHORTEST"): 64,
    (generic, "BLOCK"): 32, (generic, "TILE"): (8, 4), (threads, "CHUNK"): 16,
    (pointwise, "BLOCK"): 32, (pointwise, "TILE"): (8, 4),
    (rows, "SHORT"): 8, (rows, "WARPS"): 2, (rows, "FEW_THREADS"): 32, (rows, "MORE_THREADS"): 64, (rows, "THREADS"): 128,
    (rows, "HELD"): 4, (rows, "STAGED"): 2, (rows, "SHAPES"): _shapes((4, 4, 2, 1), (8, 4, 8, 1), (16, 2, 16, 2), (0, 1, 64, 2)),
    (rows, "SHARED_PLACES"): 100, (rows, "COLUMNS"): 4, (rows, "HELD_COLUMNS"): 2, (rows, "FEW"): 4, (rows, "NARROW"): 4,
    (contract, "shape_of"): _tiles(2, 2, 2, 2, 2, 3),
    (scan, "SHORT_ROW"): 4, (scan, "ROW_BLOCKS"): (32,), (chains, "CHAIN"): 4,
    (scan, "SHORT"): {"cpu": 4, "gpu": 4}, (scan_cpu, "PART"): 4, (scan_cpu, "CHAINS"): 2, (scan_cpu, "CHUNK"): 8,
    (scan_cpu, "LANES"): 2, (scan_cpu, "ROUND"): 16, (scan_prefix, "NEIGHBOURS"): 4, (scan_gpu, "PASS_THREADS"): 32, (scan_tile, "PASS_THREADS"): 32,
    (scan_tile, "THREADS"): 64, (scan_tile, "EACH"): 2, (scan_tile, "PARTS"): 2, (scan_gpu, "MIDDLE_THREADS"): 32, (scan_gpu, "MIDDLE_EACH"): 1,
}  # fmt: skip
MACHINES: dict[str, dict[tuple[Any, str], Any]] = {"usual": {}, "tiny": _TINY, "small": _SMALL}


def _uncached() -> Any:
    """Nothing made inside comes from the disk cache or stays there: its keys do not say what is changed here."""
    return patch.dict(os.environ, LOOPFUSE_CACHE="0")


@contextmanager
def machine(name: str) -> Generator[None]:
    """Plan with the sizes of machine `name` inside."""
    sizes = {(module, key): value for (module, key), value in MACHINES[name].items() if module is not None}
    with changed(sizes), _uncached() if sizes else nullcontext():
        yield


@contextmanager
def changed(values: Mapping[tuple[Any, str], Any]) -> Generator[None]:
    """Inside, attributes of modules have these values."""
    before = {(module, key): getattr(module, key) for module, key in values}
    for (module, key), value in values.items():
        setattr(module, key, value)
    try:
        yield
    finally:
        for (module, key), value in before.items():
            setattr(module, key, value)


@contextmanager
def no_array_stays() -> Generator[None]:
    """Inside, arrays of any size are planned for as if no cache could keep them."""
    with patch.dict(base_machine._PLANNED, cpu=replace(base_machine.CPU, resident=0)), _uncached():  # pyright: ignore[reportPrivateUsage]
        yield


@contextmanager
def without_proofs() -> Generator[None]:
    """Plans are not checked inside: for what is proved elsewhere."""
    with patch.object(pipeline, "verify", lambda *_, **__: Verdict("proved", (), 0)), _uncached():
        yield
