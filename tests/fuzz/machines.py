"""Block and chunk sizes to plan with. The usual ones want arrays of thousands of elements before a
second block or chunk has work; with tiny ones ten will do, and the LoopTree interpreter, which
runs idle threads too, takes milliseconds."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from loopfuse.plan.strategies import reduce as combine
from loopfuse.plan.strategies.generic import generic
from loopfuse.plan.strategies.pointwise import pointwise

_TINY: dict[tuple[Any, str], Any] = {
    (combine, "BLOCKS"): 16, (combine, "ROWS"): 4, (combine, "COLUMNS"): 4, (combine, "THREADS"): 8,
    (combine, "CHUNK"): 6, (combine, "LANES"): 4,
    (generic, "BLOCK"): 4, (generic, "TILE"): (4, 2), (generic, "CHUNK"): 4,
    (pointwise, "BLOCK"): 4, (pointwise, "TILE"): (4, 2),
}  # fmt: skip
_SMALL: dict[tuple[Any, str], Any] = {
    (combine, "BLOCKS"): 64, (combine, "ROWS"): 16, (combine, "COLUMNS"): 4, (combine, "THREADS"): 64,
    (combine, "CHUNK"): 32, (combine, "LANES"): 16,
    (generic, "BLOCK"): 32, (generic, "TILE"): (8, 4), (generic, "CHUNK"): 16,
    (pointwise, "BLOCK"): 32, (pointwise, "TILE"): (8, 4),
}  # fmt: skip
MACHINES: dict[str, dict[tuple[Any, str], Any]] = {"usual": {}, "tiny": _TINY, "small": _SMALL}


@contextmanager
def machine(name: str) -> Generator[None]:
    """Plan with the sizes of machine `name` inside."""
    changed = MACHINES[name]
    before = {(module, key): getattr(module, key) for module, key in changed}
    for (module, key), value in changed.items():
        setattr(module, key, value)
    try:
        yield
    finally:
        for (module, key), value in before.items():
            setattr(module, key, value)
