"""Object files for the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import loopfuse
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


HALVES = """
kernel k(x: f16[N], y: f32[M], z: f64[M], out a: f32[N], out b: f16[M], out c: f16[M], out d: f16[N]):
    for i in 0..N:
        a[i] = f32(x[i])
    for j in 0..M:
        b[j] = f16(y[j])
    for j in 0..M:
        c[j] = f16(z[j])
    for i in 0..N:
        d[i] = x[i] * x[i] + x[i]
"""


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "native"])
def test_halves_are_converted_to_the_same_bits_on_every_processor(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its instructions or by our code: every f16; numbers half way between two, and their neighbours; all exponents."""
    monkeypatch.setenv("LOOPFUSE_CPU", level)
    kernel = loopfuse.loads(HALVES)
    try:
        text = kernel.compile("cpu", emit={"llvm"}).llvm
    except UserError as error:
        pytest.skip(str(error))
    if level != "native":
        assert ("fpext <" in text or "fpext half" in text) == (level != "x86-64-v2")
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    random = np.random.default_rng(0).integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    finite = x[np.isfinite(x)].astype(np.float32)
    with np.errstate(all="ignore"):
        steps = np.spacing(finite.astype(np.float16)).astype(np.float32)
        middle = finite + steps / 2
        y = np.concatenate([random, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))])
        z = np.nextafter(y.astype(np.float64), np.inf)  # an f32 between would round twice
        a, b, c, d = kernel(x, y, z)
        expected = x.astype(np.float32), y.astype(np.float16), z.astype(np.float16), None
        expected = (*expected[:3], (x.astype(np.float64) * x + x).astype(np.float16))
    for found, wanted in zip((a, b, c, d), expected, strict=True):
        nan = np.isnan(wanted)
        assert (np.isnan(found) == nan).all()
        np.testing.assert_array_equal(found[~nan].view(f"u{found.itemsize}"), wanted[~nan].view(f"u{found.itemsize}"))
