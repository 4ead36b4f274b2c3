"""What hurts a compiler costs little: each bomb of `bombs` is compiled or refused in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from bombs import QUICK, SLOW
from measure import measure

REFUSED = {
    "brackets": "nesting-too-deep", "square brackets": "nesting-too-deep",
    "minus": "nesting-too-deep", "conditionals": "nesting-too-deep", "elifs": "nesting-too-deep",
    "comparisons": "nesting-too-deep", "indents": "nesting-too-deep", "long sum": "nesting-too-deep",
    "long integer": "number-out-of-range", "functions": "expression-too-large",
    "unrolled": "kernel-too-large", "unrolled range": "unroll-too-large",
    "many parameters": "kernel-too-large", "huge step": "index-too-large",
    "huge offset": "index-too-large", "huge extent": "index-too-large",
    "power tower": "integer-power", "constant squares": "literal-range",
}  # fmt: skip
"""The code of the diagnostic, where it is worth pinning."""

FEW = ("comparisons", "unrolled", "many parameters", "functions", "huge step", "huge offset",
       "long sum", "long integer", "12 dimensions", "500 arrays", "lets doubling")  # fmt: skip
"""Tried in every run: what once failed, and what is most likely to."""


def explode(name: str, folder: Path, seconds: float = 10.0) -> None:
    file = folder / "bomb.lf"
    file.write_text({**QUICK, **SLOW}[name]())
    assert file.stat().st_size <= 101_000
    done = measure("compile", str(file), "--target", "sm_90", "-o", str(folder / "out"))
    done.check(0, 1, seconds=seconds)
    if name in REFUSED:
        assert done.code == 1 and f"[{REFUSED[name]}]" in done.text, done.text[-2000:]


@pytest.mark.parametrize("name", FEW)
def test_bomb(name: str, tmp_path: Path) -> None:
    explode(name, tmp_path)


LONGER = {"200 kernels": 60.0, "500 loops": 20.0, "500 loops apart": 30.0, "nested reductions": 20.0,
          "deep loops": 20.0, "triangles": 20.0}  # fmt: skip
"""Whole compiles of many kernels, of 500 loops or of nests nobody writes: bounded, but not by
10 s of a slow machine."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in (*QUICK, *SLOW) if name not in FEW])
def test_every_bomb(name: str, tmp_path: Path) -> None:
    explode(name, tmp_path, LONGER.get(name, 10.0))
