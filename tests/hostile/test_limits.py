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
    "rank 800": "rank-too-large", "power tower": "integer-power", "constant squares": "literal-range",
}  # fmt: skip
"""The code of the diagnostic, where it is worth pinning."""

FEW = ("comparisons", "unrolled", "many parameters", "functions", "huge step", "huge offset",
       "long sum", "long integer", "12 dimensions", "500 arrays", "lets doubling", "remainders", "remainders in place", "rank 800")  # fmt: skip
"""Tried in every run: what once failed, and what is most likely to."""


def explode(name: str, folder: Path) -> str:
    """Compile the bomb; what was said."""
    file = folder / "bomb.lf"
    file.write_text({**QUICK, **SLOW}[name]())
    assert file.stat().st_size <= 101_000
    done = measure("compile", str(file), "--target", "sm_90", "-o", str(folder / "out"))
    done.check(0, 1)
    if name in REFUSED:
        assert done.code == 1 and f"[{REFUSED[name]}]" in done.text, done.text[-2000:]
    return done.text


@pytest.mark.parametrize("name", FEW)
def test_bomb(name: str, tmp_path: Path) -> None:
    explode(name, tmp_path)


HEAVY = {"200 kernels": "launches 1 -> 1", "500 loops": "launches 501 -> 8",
         "500 loops apart": "times less traffic", "30 deep loops": "launches 1 -> 1",
         "deep loops": "launches 1 -> 1"}  # fmt: skip
"""What once took longer than it may, and what must still be said of it: the loops are fused, or
the kernel runs unfused, and never is anything left out. Each takes 4 to 7 s."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_bomb(name: str, tmp_path: Path) -> None:
    assert HEAVY[name] in explode(name, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in (*QUICK, *SLOW) if name not in (*FEW, *HEAVY)])
def test_every_bomb(name: str, tmp_path: Path) -> None:
    explode(name, tmp_path)
