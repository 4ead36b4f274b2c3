"""What an innermost loop does not change stays in front of it."""

from __future__ import annotations

import re
import textwrap

import pytest

import loopfuse
from loopfuse.base.options import CPU, Target
from loopfuse.codegen.llvm.invariants import hold_invariants
from loopfuse.codegen.llvm.passes import parse
from loopfuse.codegen.targets import native

ALONE = """
define void @k(ptr noalias %0, i64 %1, i64 %2) {
  %4 = tail call i64 @llvm.smax.i64(i64 %1, i64 1)
  %5 = add nsw i64 %4, -1
  %6 = mul nsw i64 %5, %2
  %7 = getelementptr inbounds float, ptr %0, i64 %6
  %8 = load i64, ptr %0, align 8
  br label %loop

loop:                                             ; preds = %loop, %3
  %9 = phi i64 [ 0, %3 ], [ %13, %loop ]
  %10 = getelementptr float, ptr %7, i64 %9
  %11 = add i64 %9, %6
  %12 = getelementptr float, ptr %0, i64 %11
  store float 0.0, ptr %10, align 4
  store float 1.0, ptr %12, align 4
  %13 = add i64 %9, 1
  %14 = add i64 %8, %9
  %15 = icmp slt i64 %13, %14
  br i1 %15, label %loop, label %done

done:                                             ; preds = %loop
  ret void
}

declare i64 @llvm.smax.i64(i64, i64)
"""

NESTED = """
define void @k(ptr noalias %a, i64 %n, i1 %some) {
entry:
  br label %outer

outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %latch ]
  %row = mul i64 %i, %n
  %start = getelementptr float, ptr %a, i64 %row
  br label %"inner loop"

"inner loop":
  %j = phi i64 [ 0, %outer ], [ %j.next, %join ]
  %place = getelementptr float, ptr %start, i64 %j
  br i1 %some, label %then, label %join

then:
  %later = getelementptr float, ptr %place, i64 %row
  store float 2.0, ptr %later, align 4
  br label %join

join:
  %j.next = add i64 %j, 1
  %more = icmp slt i64 %j.next, %n
  br i1 %more, label %"inner loop", label %latch

latch:
  %i.next = add i64 %i, 1
  %again = icmp slt i64 %i.next, %n
  br i1 %again, label %outer, label %exit

exit:
  %end = getelementptr float, ptr %start, i64 %row
  store float 3.0, ptr %end, align 4
  ret void
}
"""


def test_what_is_computed_in_front_of_a_loop_is_held_there() -> None:
    text = hold_invariants(ALONE)
    parse(text)
    assert re.findall(r"= freeze .*", text) == ["= freeze i64 %6", "= freeze ptr %7"]
    assert "%10 = getelementptr float, ptr %held.7, i64 %9" in text
    assert "%11 = add i64 %9, %held.6" in text
    assert "%12 = getelementptr float, ptr %0, i64 %11" in text  # an argument needs no holding
    assert "%14 = add i64 %8, %9" in text  # nothing looks through a load
    assert text.index("%held.6 = ") < text.index("loop:")


def test_only_innermost_loops_count_whatever_is_inside() -> None:
    text = hold_invariants(NESTED)
    parse(text)
    assert "%place = getelementptr float, ptr %held.start, i64 %j" in text
    assert "%later = getelementptr float, ptr %place, i64 %held.row" in text
    assert "%start = getelementptr float, ptr %a, i64 %row" in text
    assert "%end = getelementptr float, ptr %start, i64 %row" in text


def test_the_end_of_a_loop_is_held_too() -> None:
    """What LLVM's vectoriser leaves: whole vectors of what a minimum says."""
    end = "  %4 = tail call i64 @llvm.smax.i64(i64 %1, i64 1)"
    text = ALONE.replace(end, f"{end}\n  %end = and i64 %4, 9223372036854775792").replace("i64 %13, %14", "i64 %13, %end")
    held = hold_invariants(text)
    parse(held)
    assert "%held.end = freeze i64 %end" in held
    assert "%15 = icmp slt i64 %13, %held.end" in held
    assert held.index("%held.end = ") < held.index("loop:")


def test_code_without_loops_is_as_it_was() -> None:
    text = "define i64 @k(i64 %a) {\n  %b = add i64 %a, 1\n  %c = add i64 %b, %a\n  ret i64 %c\n}\n"
    assert hold_invariants(text) == text


SMOOTHING = """
    kernel k(v: f32[D, H, W], out s: f32[D, H, W]):
        temp b: f32[D, H, W]
        for z in 0..D, y in 0..H, x in 0..W:
            b[z, y, x] = 0.5 * v.clamp[z-1, y-1, x-1] + 0.25 * v.clamp[z+1, y+1, x+1] - v[z, y, x]
        for z in 0..D, y in 0..H, x in 0..W:
            s[z, y, x] = b.clamp[z, y, x-1] + b.clamp[z, y, x+1] - 2.0 * b.clamp[z+1, y, x] + b.clamp[z, y-1, x]
    """


@pytest.mark.parametrize("held", [True, False])
def test_a_stencil_computes_no_clamps_in_its_loop(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products and conditional moves between the vectors of its inner loop: with what LLVM does by itself there are some,
    which shows that the test can fail."""
    if not held:
        monkeypatch.setattr(native, "hold_invariants", lambda text: text)
    level = Target("cpu", "x86-64-v3")
    llvm = loopfuse.loads(textwrap.dedent(SMOOTHING)).compile("cpu", emit={"llvm"}).llvm
    text = native.host_machine(level).emit_assembly(native.optimize_llvm(llvm, level))
    loops = re.findall(r"^(\.LBB\d+_\d+):\n((?:\t.*\n)*?\tj\w+\t\1\n)", text, re.MULTILINE)
    # At the borders elements are collected one by one.
    vectors = [body for _, body in loops if re.search(r"vmovups\t%ymm\d+, [-\d]*\(", body) and "vinsert" not in body]
    assert vectors
    assert any("imul" in body or "cmov" in body for body in vectors) != held


JACOBI = """
    kernel k(inout a: f64[H, W], n: i64):
        temp b: f64[H, W]
        for t in 0..n:
            for y in 1..H-1, x in 1..W-1:
                b[y, x] = 0.2 * (a[y, x] + a[y, x-1] + a[y, x+1] + a[y+1, x] + a[y-1, x])
            for y in 1..H-1, x in 1..W-1:
                a[y, x] = b[y, x]
    """


@pytest.mark.parametrize("held", [True, False])
def test_time_steps_compute_no_ends_in_their_loops(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row ends is a minimum of a strip's end and the array's: without holding it, it is found again for each vector."""
    if not held:
        monkeypatch.setattr(native, "hold_invariants", lambda text: text)
    level = Target("cpu", "x86-64-v3")
    llvm = loopfuse.loads(textwrap.dedent(JACOBI)).compile("cpu", emit={"llvm"}).llvm
    text = native.host_machine(level).emit_assembly(native.optimize_llvm(llvm, level))
    loops = re.findall(r"^(\.LBB\d+_\d+):\n((?:\t.*\n)*?\tj\w+\t\1\n)", text, re.MULTILINE)
    vectors = [body for _, body in loops if re.search(r"vmulpd\t.*%ymm", body)]
    assert len(vectors) >= 4
    assert any("cmov" in body for body in vectors) != held


def test_every_processor_has_its_objects() -> None:
    llvm = loopfuse.loads(textwrap.dedent(SMOOTHING)).compile("cpu", emit={"llvm"}).llvm
    for target in (CPU, Target("cpu", "x86-64-v2"), Target("cpu", "x86-64-v4")):
        assert native.emit_object(llvm, target)
