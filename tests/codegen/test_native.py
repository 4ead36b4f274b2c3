"""Object files for the CPU."""

from __future__ import annotations

import pytest

from loopfuse.base.diagnostics import Source, UserError
from loopfuse.base.options import CPU, Options, Target
from loopfuse.codegen.targets import native
from loopfuse.pipeline import compile_kernel, read_program
from loopfuse.runtime.devices import cpu

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


def test_code_is_made_for_the_level_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`LOOPFUSE_CPU` decides what LLVM makes code for, and is part of the cache's key."""
    plain = native.host_cpu(CPU), cpu.host_cpu()
    monkeypatch.setenv("LOOPFUSE_CPU", "native")
    assert (native.host_cpu(CPU), cpu.host_cpu()) == plain
    monkeypatch.setenv("LOOPFUSE_CPU", "skylake")
    with pytest.raises(UserError) as caught:
        native.host_cpu(CPU)
    assert caught.value.diagnostics[0].code == "unknown-cpu"
    assert "x86-64-v3" in caught.value.diagnostics[0].fix
    monkeypatch.setenv("LOOPFUSE_CPU", "x86-64-v2")
    monkeypatch.setattr(native.binding, "get_host_cpu_features", lambda: dict[str, bool]())
    with pytest.raises(UserError, match="has no sse4"):
        native.host_cpu(CPU)
    has = dict.fromkeys(native._NEEDED["x86-64-v2"], True)
    monkeypatch.setattr(native.binding, "get_host_cpu_features", lambda: has)
    assert native.host_cpu(CPU) == ("x86-64-v2", "") and cpu.host_cpu() == "x86-64-v2"
    assert native.host_cpu(Target("cpu", "x86-64-v3")) == ("x86-64-v3", "")
