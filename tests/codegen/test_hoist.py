"""Divisions of index arithmetic stand under no condition on data, in any form of condition."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
from guarded import SIDES, guard_all, run_apart

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options
from loopfuse.codegen.ir import Block, BlockArgument, Operation
from loopfuse.codegen.llvm import lanes as llvm_lanes
from loopfuse.codegen.mlir.module import emit_module
from loopfuse.codegen.targets import native
from loopfuse.kernels import kernel as kernels

READS = {
    "reflect": "x.reflect[a+1, b, c]",
    "reflect_all": "x.reflect[a+1, b-1, c+2]",
    "wrap": "x.wrap[a-3, b, c]",
    "wrap_last": "x.wrap[a, b, c+1]",
    "symmetric": "x.symmetric[a, b+2, c]",
    "modulo": "x[(a + 5) % D, b, c]",
    "modulo_of_two": "x[(a + b) % D, b, c]",
    "floor": "x[a // 2, b, c]",
    "clamp": "x.clamp[a // 2 + 1, (b + 1) % H, c]",
    "zero": "x.zero[(7 * a) % D + 1, b, c]",
}
FORMS = {
    "if": ["if m[a, b, c] > u8(1):", "    o[a, b, c] = {read}"],
    "else": ["if m[a, b, c] > u8(1):", "    o[a, b, c] = x[a, b, c]", "else:", "    o[a, b, c] = {read}"],
    "select": ["o[a, b, c] = {read} if m[a, b, c] > u8(1) else x[a, b, c]"],
    "nested": ["if m[a, b, c] > u8(1):", "    if b >= 1:", "        o[a, b, c] = {read}"],
    "outside": ["if b >= 1:", "    if m[a, b, c] > u8(1):", "        o[a, b, c] = {read}"],
    "iterators": ["if c >= 1 and c < W - 1:", "    o[a, b, c] = {read}", "else:", "    o[a, b, c] = x[a, b, c]"],
    "elif": ["if m[a, b, c] > u8(2):", "    o[a, b, c] = x[a, b, c]", "elif m[a, b, c] > u8(1):", "    o[a, b, c] = {read}"],
    "local": ["var t: u64 = u64(0)", "if m[a, b, c] > u8(1):", "    t = {read}", "o[a, b, c] = t"],
    "ragged": ["if m[a, b, c] > u8(1):", "    for k in rows[a]..rows[a+1]:", "        o[a, b, c] += {read}"],
    "in ragged": ["for k in rows[a]..rows[a+1]:", "    if m[a, b, c] > u8(1):", "        o[a, b, c] += {read}"],
    "gathered": ["if m[a, b, c] > u8(1):", "    o[a, b, c] = {read} + x[rows[a], b, c]"],
    "scattered": ["if m[a, b, c] > u8(1):", "    o[rows[a], b, c] = {read}"],
    "reduction": ["if m[a, b, c] > u8(1):", "    o[a, b, c] = sum(k in 0..2: {read})"],
}  # fmt: skip
HEAD = "kernel k(x: u64[D, H, W], m: u8[D, H, W], rows: i64[D + 1], inout o: u64[D, H, W]):\n    for a in 0..D, b in 0..H, c in 0..W:\n"


def text_of(form: str, read: str) -> str:
    lines = [line.replace("{read}", READS[read]) for line in FORMS[form]]
    return HEAD + "".join(f"        {line}\n" for line in lines)


def divisions(block: Block, around: tuple[Operation, ...] = ()) -> Iterator[tuple[Operation, tuple[Operation, ...]]]:
    """The divisions by what is not constant, with the loops and conditions around each."""
    for operation in block.ops:
        if operation.name in ("arith.floordivsi", "arith.divui", "arith.remui"):
            by = operation.operands[1].owner
            if not (isinstance(by, Operation) and by.name == "arith.constant"):
                yield operation, around
        for each in operation.blocks:
            yield from divisions(each, (*around, operation))


def reads_memory(condition: Operation) -> bool:
    """Whether a load is among what the condition is made of."""
    waiting = [condition.operands[0]]
    while waiting:
        value = waiting.pop()
        if isinstance(value, BlockArgument):
            continue
        if "load" in value.owner.name:  # type: ignore[union-attr]
            return True
        waiting += value.owner.operands  # type: ignore[union-attr]
    return False


@pytest.mark.filterwarnings("ignore:.*never-used", "ignore:.*not-affine")
@pytest.mark.parametrize("form", FORMS)
def test_no_division_stands_under_a_condition_on_data(form: str) -> None:
    """In the module, and in what LLVM made of it for this machine."""
    for read in READS:
        program = pipeline.read_program(Source("k.lf", text_of(form, read)))
        planned = pipeline.plan_kernel(program, "k", Options(target=CPU, fuel=0))
        module = emit_module(planned.tree, planned.kernel, CPU)
        for function in module.blocks[0].ops:
            for division, around in divisions(function.blocks[0]):
                assert not any(
                    each.name == "scf.if" and reads_memory(each) for each in around
                ), f"{form} {read}: {division}"
        llvm = pipeline.emit_llvm(module, CPU)
        assert not llvm_lanes.has_guarded_quotient(str(native.optimize_llvm(llvm, CPU)))


REFLECTED = """\
kernel k(x: u64[D, H, W], inout io: u64[D, H, W], out o: u8[D, H, W]):
    for a in 0..D, b in 0..H, c in 0..W:
        if b >= 1 and b < H - 1:
            io[a, b, c] = x.zero[a+1, b, c]
        else:
            io[a, b, c] = x[a, b, c]
    for a in 0..D, b in 0..H, c in 0..W:
        if u8(x.zero[a, b-1, c]) != u8(1):
            o[a, b, c] = (~u8(io.zero[a, b, c+1])) ^ (u8(1) if u8(x[a, b, c]) == u8(2) else u8(io.zero[a+1, b, c-1]))
        else:
            o[a, b, c] = u8(x.reflect[a+1, b, c])
"""


WRONG = """\
define void @k(i32 %a, i32 %b, i1 %c) {
body:
  br i1 %c, label %if, label %join

if:                                               ; preds = %body
  %q = udiv i32 %a, %b
  %w = zext i32 %q to i64
  br label %join

join:                                             ; preds = %if, %body
  %p = phi i64 [ poison, %body ], [ %w, %if ]
  ret void
}
"""


def test_a_quotient_under_a_condition_is_noticed() -> None:
    """The scalar that the loop vectoriser merges with `poison`; not the one that becomes a lane, and
    not what has nothing to do with a division."""
    lane = WRONG.replace("zext i32 %q to i64", "insertelement <4 x i32> poison, i32 %q, i64 0")
    lane = lane.replace("phi i64", "phi <4 x i32>")
    assert llvm_lanes.has_guarded_quotient(WRONG) and llvm_lanes.divides(WRONG)
    assert llvm_lanes.has_guarded_quotient(WRONG + lane) and llvm_lanes.has_guarded_quotient(lane + WRONG)
    assert not llvm_lanes.has_guarded_quotient(lane)
    assert not llvm_lanes.has_guarded_quotient(WRONG.replace("udiv", "mul"))
    assert not llvm_lanes.divides(WRONG.replace("udiv i32", "fdiv float"))


DATA = """\
kernel k(x: f32[R, M], a: u32[N], b: u32[N], m: i32[N, M], out s: f64[N], out o: f32[N, M]):
    for i in 0..N:
        s[i] = f64(a[i]) * f64(b[i])
        for j in 0..M:
            if m[i, j] > 0:
                o[i, j] = x[i64(a[i] // b[i]), j]
            else:
                o[i, j] = 0.0
"""


@pytest.mark.parametrize("kind", ["reflected", "data", "trusted"])
def test_rows_under_a_condition_are_read_where_they_are(kind: str) -> None:
    """They were read at a row of garbage (x86-64 with masked loads): a reflected one, and one that is a
    quotient of data, where nothing tests subscripts."""
    run_apart("codegen.test_hoist", kind)


def _data(check: str) -> None:
    kernel = kernels.load_all(Source("k.lf", DATA), check=check)["k"]
    rng = np.random.default_rng(0)
    for n, m, r in ((5, 37, 7), (3, 70, 6)):
        x, b = rng.random((r, m), dtype=np.float32), np.full(n, 3, np.uint32)
        a, mask = rng.integers(0, 3 * r, n).astype(np.uint32), rng.integers(0, 2, (n, m)).astype(np.int32)
        for side in SIDES:
            print(n, m, r, side, flush=True)
            held = guard_all({"x": x, "a": a, "b": b, "m": mask, "o": np.zeros((n, m), np.float32)}, side)
            kernel(**held)
            assert np.array_equal(held["o"], np.where(mask > 0, x[a // b], 0))


def main() -> None:
    """The programs above, between guard pages, against NumPy."""
    if sys.argv[1] != "reflected":
        return _data("off" if sys.argv[1] == "trusted" else "lazy")
    kernel = kernels.load_all(Source("k.lf", REFLECTED))["k"]
    rng = np.random.default_rng(0)
    for shape in ((3, 5, 9), (4, 18, 37), (8, 20, 70)):
        x, io = (rng.integers(0, 4, shape).astype(np.uint64) for _ in range(2))
        for side in SIDES:
            held = guard_all({"x": x, "io": io, "o": np.zeros(shape, np.uint8)}, side)
            print(shape, side, flush=True)
            kernel(**held)
            above = np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
            row = np.minimum(np.arange(shape[0]) + 1, 2 * shape[0] - 3 - np.arange(shape[0]))
            mirrored = x[row].astype(np.uint8)
            same = (above.astype(np.uint8) == 1)
            assert np.array_equal(held["o"][same], mirrored[same])


if __name__ == "__main__":
    main()
