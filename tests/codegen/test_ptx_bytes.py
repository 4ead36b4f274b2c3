"""The low byte of a register is taken before it is stored: ptxas of CUDA 13.0 converts one that an
operation on f32 made (found by a tuning trial of the unsharp mask on bytes, which gave 255 everywhere)."""

from __future__ import annotations

import re

import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Tuning
from loopfuse.kernels import kernel as kernels

ROUNDED = """
kernel f(a: u8[H, W], out c: u8[H, W], k: f32):
    for y in 0..H, x in 0..W:
        c[y, x] = u8(round(min(max(k * (f32(a.clamp[y-1, x]) + f32(a.clamp[y, x+1])), 0.0), 255.0)))
"""


STORE = re.compile(r"st\.[\w.]*\bb8\s+\[[^\]]*\], *(%\w+);")


def ptx_of(text: str, tuning: Tuning) -> str:
    kernel = kernels.load_all(Source("t.lf", text))["f"].with_options(tuning=tuning)
    return kernel.compile("sm_90", emit=frozenset({"ptx"}), index_bits=32).ptx


@pytest.mark.parametrize("windows", [False, True])
def test_bytes_are_cut_before_they_are_stored(windows: bool) -> None:
    """Every byte that goes to memory alone comes from 16 bits, or is cut out of 32."""
    text = ptx_of(ROUNDED, Tuning(windows=windows))
    stored = STORE.findall(text)
    assert windows or stored
    for register in stored:
        assert register.startswith("%rs") or register == "%low", register
    for found in re.finditer(r"\{ \.reg[^}]*\}", text):
        assert re.fullmatch(
            r"\{ \.reg \.b32 %low; and\.b32 %low, %r\d+, 255; "
            r"(@!?%p\d+ +)?st\.[\w.]*b8 \[[^\]]*\], %low; \}",
            found[0],
        ), found[0]


def test_no_vector_of_bytes_is_stored_from_wide_registers() -> None:
    """LLVM packs them into words; if it ever did not, `_cut_bytes` would have to know."""
    for windows in (False, True):
        assert not re.search(r"st\.[\w.]*v\d\.b8\s+\[[^\]]*\], *\{%r\d", ptx_of(ROUNDED, Tuning(windows=windows)))
