"""Arrays larger than caches are stored past them: which, by what, and that each element comes where it belongs."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from fuzz.machines import changed

import loopfuse
from loopfuse import pipeline
from loopfuse.base import machine as base_machine
from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.codegen.llvm.nontemporal import store_past_caches
from loopfuse.codegen.llvm.passes import parse
from loopfuse.codegen.mlir import nontemporal
from loopfuse.codegen.targets import native
from loopfuse.lang.index import TRUE
from loopfuse.lang.nodes import Compare
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.rewrite import nontemporal as rewrite

TYPES = {"f32": "f4", "f64": "f8", "f16": "f2", "i32": "i4", "u8": "u1", "bool": "?"}
IS_X86 = platform.machine() in ("x86_64", "AMD64")
WIDTHS = (0, 1, 7, 63, 64, 65, 200, 511, 1000)


@pytest.fixture(autouse=True)
def _past_any_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows of a line or more go past the caches, however small the array."""
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    monkeypatch.setitem(base_machine._PLANNED, "cpu", replace(base_machine.CPU, resident=1 << 20))  # pyright: ignore[reportPrivateUsage]
    with changed({(rewrite, "PARTS"): 1 << 40, (nontemporal, "TURN"): 64, (nontemporal, "SHORTEST"): 64}):
        yield


def kernel_of(text: str) -> loopfuse.Kernel:
    found = loopfuse.loads(text, target="cpu")
    assert isinstance(found, loopfuse.Kernel)
    return found


def optimised(text: str, target: Target = CPU) -> str:
    llvm = kernel_of(text).compile("cpu", emit={"llvm"}).llvm
    assert llvm is not None
    return str(native.optimize_llvm(llvm, target))


def planned(text: str) -> pipeline.Planned:
    program = pipeline.read_program(Source("k.lf", text))
    return pipeline.plan_kernel(program, program.kernels[0].name, Options(target=CPU))


def placed(shape: tuple[int, ...], dtype: str, ahead: int) -> tuple[np.ndarray, np.ndarray]:
    """An array that begins so many bytes behind a line of memory, and all bytes around it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.full(size + 512, 0xA5, np.uint8)
    begin = 128 - memory.ctypes.data % 64 + ahead
    return memory[begin : begin + size].view(dtype).reshape(shape), memory


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("ahead", (0, 16, 40))
def test_every_element_comes_where_it_belongs(dtype: str, ahead: int) -> None:
    kernel = kernel_of(f"kernel copies(x: {dtype}[N], out y: {dtype}[N]):\n    for i in 0..N:\n        y[i] = x[i]\n")
    for width in WIDTHS:
        x = np.random.default_rng(width).integers(0, 2, width).astype(TYPES[dtype])
        y, memory = placed((width,), TYPES[dtype], ahead)
        before = memory.copy()
        kernel(x=x, y=y)
        assert np.array_equal(x, y)
        begin = y.ctypes.data - memory.ctypes.data
        before[begin : begin + y.nbytes] = y.view(np.uint8).ravel()
        assert np.array_equal(memory, before), "and nothing around it"


TWO = """
kernel both(x: f32[N, M], out y: f32[N, M], out z: f32[N, M]):
    for i in 0..N, j in 0..M:
        y[i, j] = 2.0 * x[i, j]
        z[i, j] = x[i, j] + 1.0
"""
RUNNING = """
kernel running(x: f64[N, M], out y: f64[N, M]):
    for i in 0..N:
        var s: f64 = 0.0
        for j in 0..M:
            s = 0.5 * s + x[i, j]
            y[i, j] = s
"""


@pytest.mark.parametrize("ahead", (0, 16))
@pytest.mark.parametrize("width", WIDTHS)
def test_lines_of_two_arrays(ahead: int, width: int) -> None:
    """They begin together, or they do not."""
    kernel = kernel_of(TWO)
    x = np.random.default_rng(0).normal(size=(5, width)).astype(np.float32)
    y, z = placed(x.shape, "f4", 32)[0], placed(x.shape, "f4", ahead)[0]
    kernel(x=x, y=y, z=z)
    assert np.array_equal(y, 2 * x) and np.array_equal(z, x + np.float32(1))


def test_iterations_keep_their_order() -> None:
    kernel = kernel_of(RUNNING)
    for width in WIDTHS:
        x = np.random.default_rng(0).normal(size=(3, width))
        y = placed(x.shape, "f8", 24)[0]
        kernel(x=x, y=y)
        running = np.zeros(3)
        for j in range(width):
            running = 0.5 * running + x[:, j]
            assert np.allclose(y[:, j], running, rtol=1e-14)


def test_whole_vectors_are_nontemporal() -> None:
    for target in (Target("cpu", "x86-64-v2"), Target("cpu", "x86-64-v3"), CPU) if IS_X86 else ():
        text = optimised(TWO, target)
        stores = [line for line in text.splitlines() if "!nontemporal" in line]
        assert len(stores) >= 2 and all(re.search(r"store <\d+ x float> .*, align (16|32|64),", line) for line in stores)
        assert text.count("call void @llvm.x86.sse.sfence()") == text.count("  ret void")


MARKED = """
define void @k(ptr %p, <4 x float> %v, float %x) {
  store <4 x float> %v, ptr %p, align 16, !llvm.access.group !0
  store <4 x float> %v, ptr %p, align 8, !llvm.access.group !0
  store <4 x float> %v, ptr %p, align 16
  store float %x, ptr %p, align 16, !llvm.access.group !0
  ret void
}

define void @early(ptr %p, <4 x float> %v, i1 %c) {
  br i1 %c, label %here, label %there

there:                                            ; preds = %0, %here
  ret void

here:                                             ; preds = %0
  store <4 x float> %v, ptr %p, align 16, !llvm.access.group !0
  br label %there
}

define void @other(ptr %p, <4 x float> %v) {
  store <4 x float> %v, ptr %p, align 16
  ret void
}

!0 = distinct !{}
"""


def test_marks_become_stores_past_the_caches() -> None:
    """Those of aligned vectors; and the function ends by a fence, wherever its end stands."""
    made = str(parse(store_past_caches(str(parse(MARKED)))))
    assert made.count("!nontemporal") == 2
    first, second = made.split("define void @other")
    assert first.count("  call void @llvm.x86.sse.sfence()\n  ret void") == 2 and "call" not in second
    plain = MARKED.replace(", !llvm.access.group !0", "")
    assert store_past_caches(plain) == plain


def test_what_goes_past_the_caches() -> None:
    """Arrays that their launch writes and does not read, where they are larger than caches."""
    tree = planned(TWO).tree
    (launch,) = tree.launches
    assert [name for name, _ in launch.nontemporal] == ["y", "z"]
    assert all(isinstance(test, Compare) and test.op == "gt" for _, test in launch.nontemporal)
    in_place = planned("kernel k(inout y: f32[N]):\n    for i in 0..N:\n        y[i] = y[i] + 1.0\n")
    assert not in_place.tree.launches[0].nontemporal
    with patch.object(rewrite, "PARTS", 2):  # of 1 MB
        for rows, wanted in ((1 << 9, ()), (1 << 10, (("y", TRUE),))):
            shape = f"f32[{rows}, 256]"
            known = planned(f"kernel k(x: {shape}, out y: {shape}):\n    for i in 0..{rows}, j in 0..256:\n        y[i, j] = x[i, j]\n")
            assert known.tree.launches[0].nontemporal == wanted


@pytest.mark.parametrize("ahead, views", ((0, 2), (3, 2), (-3, 1)))
def test_one_array_where_loads_lag(ahead: int, views: int) -> None:
    """What is loaded behind what is stored waits for it, of more than one array."""
    text = TWO.replace("x[i, j] + 1.0", f"x[i, j + {ahead}] + 1.0").replace("0..M", "3..M - 3").replace("+ -", "- ")
    mlir = kernel_of(text).compile("cpu", emit={"mlir"}).mlir
    assert mlir is not None and mlir.count("memref.assume_alignment") == views
    x = np.random.default_rng(0).normal(size=(5, 1000)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    kernel_of(text)(x=x, y=y, z=z)
    assert np.array_equal(y[:, 3:-3], 2 * x[:, 3:-3])
    assert np.array_equal(z[:, 3:-3], x[:, 3 + ahead : 997 + ahead] + np.float32(1))


def test_borders_have_one_loop() -> None:
    """Loops that are short have no second form."""
    text = "kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x.clamp[i-1] + x.clamp[i+1]\n"
    mlir = kernel_of(text).compile("cpu", emit={"mlir"}).mlir
    assert mlir is not None and mlir.count("memref.assume_alignment") == 1


def test_short_strips_have_one_loop() -> None:
    """Whatever the sizes, each is shorter than what is worth it."""
    text = """
kernel k(x: f32[N, M], out y: f32[N, M]):
    for i in 0..N, jb in 0..M // 32:
        for j in 32*jb..32*jb + 32:
            y[i, j] = 2.0 * x[i, j]
"""
    with patch.object(nontemporal, "SHORTEST", 1024):
        mlir = kernel_of(text).compile("cpu", emit={"mlir"}).mlir
    assert mlir is not None and "memref.assume_alignment" not in mlir


AGAIN = """
kernel k(x: f32[N, M], out y: f32[N, M]):
    for i in 0..N:
        for j in 0..M:
            y[i, j] = 2.0 * x[i, j]
        for j in 0..{width}:
            y[i, {place}] = 1.0 + x[i, j]
"""


@pytest.mark.parametrize("width, place, wanted", (("M - 2", "j", []), ("M - 4", "j + 4", []), ("1", "j", ["y"]), ("1", "M - 1", ["y"])))
def test_what_a_launch_writes_twice_finds_the_first_in_a_cache(width: str, place: str, wanted: list[str]) -> None:
    """Borders alone do not count."""
    text = AGAIN.format(width=width, place=place)
    (launch,) = planned(text).tree.launches
    assert [name for name, _ in launch.nontemporal] == wanted
    x = np.random.default_rng(0).normal(size=(5, 300)).astype(np.float32)
    y = np.zeros_like(x)
    kernel_of(text)(x=x, y=y)
    right = 2 * x
    at = {"M - 2": slice(0, 298), "M - 4": slice(4, 300), "1": slice(299, 300) if place == "M - 1" else slice(0, 1)}[width]
    right[:, at] = 1 + x[:, : right[:, at].shape[1]]
    assert np.array_equal(y, right)


def test_what_is_read_may_not_go_past_the_caches() -> None:
    made = planned("kernel k(inout y: f32[N], out z: f32[N]):\n    for i in 0..N:\n        y[i] = y[i] + 1.0\n        z[i] = y[i]\n").tree
    check_tree(made)
    (launch,) = made.launches
    for name, why in (("y", "or reads"), ("nobody", "is nothing that")):
        wrong = replace(made, body=(replace(launch, nontemporal=((name, TRUE),)),))
        with pytest.raises(InternalError, match=why):
            check_tree(wrong)
