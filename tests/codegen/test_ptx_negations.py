"""Negations beside integer min and max are spelled so that ptxas 13.0 gets them right."""

from __future__ import annotations

import re

from loopfuse.base.options import Target
from loopfuse.codegen.targets.ptx import emit_ptx

MODULE = """
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr addrspace(1) %p, i32 %x) {{
  %a = load i32, ptr addrspace(1) %p
  %n = sub i32 0, %a
  %m = {operation}
  store i32 %m, ptr addrspace(1) %p
  ret void
}}
declare i32 @llvm.smin.i32(i32, i32)
"""


def test_beside_min_a_negation_is_not_and_plus_one() -> None:
    """`neg` of one register becomes two instructions on the same ones."""
    text = emit_ptx(
        MODULE.format(operation="call i32 @llvm.smin.i32(i32 %n, i32 %x)"), Target("sm_90")
    )
    assert "min.s32" in text
    assert not re.search(r"\bneg\.s32|\bsub\.s32\s+%r\d+, 0,", text)
    assert re.search(r"not\.b32\s+(%r\d+), %r\d+;\s+add\.s32\s+\1, \1, 1;", text)


def test_alone_it_stays() -> None:
    """Modules without integer min or max are as LLVM writes them."""
    text = emit_ptx(MODULE.format(operation="xor i32 %n, %x"), Target("sm_90"))
    assert "not.b32" not in text
    assert re.search(r"\bneg\.s32", text)
