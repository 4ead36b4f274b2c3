"""Masked loads keep their masks in AVX-512 code: LLVM 22 takes them out of the instructions that it made them
operands of, without the mask (`codegen/llvm/lanes.py`)."""

from __future__ import annotations

import re

import pytest

import loopfuse
from loopfuse.base.options import Target
from loopfuse.codegen.llvm.lanes import hold_masked_loads
from loopfuse.codegen.llvm.passes import parse, target_machine
from loopfuse.codegen.targets.native import optimize_llvm

V4 = Target("cpu", "x86-64-v4")
TRIPLE = "x86_64-unknown-linux-gnu"
SMALLEST = """
const W: i64[3] = [1, 2, 3]
const OFF: i32[3] = [-1, 0, 2]
kernel k(b: i64[N], out w: i64[1]):
    w[0] = min(p in 0..N: sum(q in 0..3: W[q] * b.zero[p + OFF[q]]))
"""
BARE = re.compile(r"\tvmovdqu64\t-8\(\S+, %[xyz]mm\d+$", re.MULTILINE)
KEPT = re.compile(r"\tvmovdqu64\t-8\(\S+, %[xyz]mm\d+ \{%k\d\} \{z\}$", re.MULTILINE)
LOAD = """\
define {kind} @f(ptr %p, {mask} %m) {{
entry:
  %0 = tail call {kind} @llvm.masked.load.{name}.p0(ptr align 1 %p, {mask} %m, {kind} poison)
  %1 = select {mask} %m, {kind} %0, {kind} zeroinitializer
  ret {kind} %1
}}
declare {kind} @llvm.masked.load.{name}.p0(ptr, {mask}, {kind})
"""


def test_no_load_loses_its_mask() -> None:
    """The element before the first is read by nobody, though the instruction that uses it is masked too."""
    llvm = loopfuse.loads(SMALLEST, reassociate=False).compile("cpu", index_bits=32).llvm
    assert llvm is not None
    made = optimize_llvm(llvm, V4)
    assembly = target_machine(TRIPLE, "x86-64-v4", "").emit_assembly(made)
    assert KEPT.search(assembly) and not BARE.search(assembly)


@pytest.mark.parametrize(("count", "element", "name"), [
    (4, "double", "v4f64"), (8, "double", "v8f64"), (4, "float", "v4f32"), (2, "float", "v2f32"),
    (16, "i32", "v16i32"), (8, "i16", "v8i16"), (4, "i16", "v4i16"), (4, "i8", "v4i8"), (64, "i8", "v64i8"),
    (2, "i64", "v2i64"),
])  # fmt: skip
def test_loads_of_every_type_are_held(count: int, element: str, name: str) -> None:
    text = LOAD.format(kind=f"<{count} x {element}>", mask=f"<{count} x i1>", name=name)
    held = hold_masked_loads(text)
    assert held is not None and held.count(' asm "", "=v,0"(') == 1
    assembly = target_machine(TRIPLE, "x86-64-v4", "").emit_assembly(parse(f'target triple = "{TRIPLE}"\n{held}'))
    assert re.search(r"\tvmov\w+\t\(%rdi\), %[xyz]mm\d+ \{%k\d\} \{z\}", assembly), assembly


def test_what_no_register_holds_is_told() -> None:
    for count, element, name in ((16, "double", "v16f64"), (3, "float", "v3f32"), (8, "i24", "v8i24"), (8, "half", "v8f16")):
        assert hold_masked_loads(LOAD.format(kind=f"<{count} x {element}>", mask=f"<{count} x i1>", name=name)) is None
    assert hold_masked_loads("define void @f() {\n  ret void\n}\n") == "define void @f() {\n  ret void\n}\n"
