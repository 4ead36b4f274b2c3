"""Object files for the CPU."""

from __future__ import annotations

from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options
from loopfuse.pipeline import compile_kernel, read_program

BACKWARDS = """
kernel k(inout b: i32[M, N], inout d: i32[M, N]):
    for i in M - 2..1 step -2, j in N - 2..0 step -1:
        let v: i32 = abs(-3) + max(d[i-2, j+1], b[i-1, j+1])
        d[i, j] = d[i-1, j-1]
        for k in 0..N - 2:
            b[i, j] = i32(i)
        b[i+1, j+1] = v
"""


def test_llvm_schedules_what_it_vectorises() -> None:
    """LLVM 22's SLP vectoriser aborts the process over this loop, with its copyable elements."""
    program = read_program(Source("k.lf", BACKWARDS))
    compiled = compile_kernel(program, "k", Options(target=CPU, index_bits=32))
    assert compiled.object
