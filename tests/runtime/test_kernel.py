"""Kernel objects alone: the compiler is replaced by one that knows a single program, and counts."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import pipeline
from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import Source, UserError
from loopfuse.base.options import Options
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.runtime import cache

SCALE = """
kernel scale(x: f32[N], out y: f32[N], a: f32):
    for i in 0..N:
        y[i] = a * x[i]
"""


class Compiler(ModuleType):
    """Reads programs as the real one; compiles `scale` from a hand-made object."""

    def __init__(self, manifest: Any, code: bytes) -> None:
        super().__init__("loopfuse.pipeline")
        self.Run, self.Stopped = pipeline.Run, pipeline.Stopped
        self.manifest, self.code = manifest, code
        self.reads = 0
        self.compiled: list[Options] = []

    def read_program(
        self, source: Source, fp: str = "fast", constants: Any = None, run: Any = None
    ) -> Any:
        self.reads += 1
        return check(parse(source), fp=fp, constants=constants)

    def compile_kernel(
        self, program: Any, name: str, options: Options, *, emit: Any, run: Any = None
    ) -> Artifact:
        assert program.kernel(name).name == "scale"
        self.compiled.append(options)
        return Artifact(name, options.target.name, self.manifest, {}, object=self.code)


@pytest.fixture
def compiler(
    scale: Any, code: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Compiler:
    made = Compiler(scale, code)
    monkeypatch.setitem(sys.modules, "loopfuse.pipeline", made)
    monkeypatch.setattr(loopfuse, "pipeline", made, raising=False)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("LOOPFUSE_CACHE", raising=False)
    monkeypatch.delenv("LOOPFUSE_FUEL", raising=False)
    return made


def ones(count: int) -> Any:
    return np.ones(count, np.float32)


def test_a_call_compiles_once(compiler: Compiler) -> None:
    kernel = loopfuse.loads(SCALE)
    for count in (3, 1000, 0):
        assert (kernel(ones(count), 2.0) == 2).all()
    assert [options.index_bits for options in compiler.compiled] == [32]
    assert compiler.compiled[0].target.name == "cpu"


def test_the_disk_cache_saves_reading_and_compiling(compiler: Compiler) -> None:
    loopfuse.loads(SCALE)(ones(3), 2.0)
    reads = compiler.reads
    again = loopfuse.loads(SCALE)
    assert (again(ones(5), 3.0) == 3).all()
    assert compiler.reads == reads and len(compiler.compiled) == 1
    loopfuse.loads(SCALE, reassociate=False)(ones(3), 2.0)
    assert len(compiler.compiled) == 2
    assert cache.clear() == 3


def test_large_arrays_and_sizes_get_64_bits(compiler: Compiler) -> None:
    from loopfuse.kernels.kernel import index_bits_for
    from loopfuse.runtime.arrays.arrays import match

    kernel = loopfuse.loads(SCALE)
    matched = match(kernel.signature, (ones(4), 1.0), {})
    assert index_bits_for(kernel.signature, matched) == 32
    large = replace(matched, values=matched.values | {"N": 1 << 29})
    assert index_bits_for(kernel.signature, large) == 64  # y would have 2**31 bytes
    given = {name: replace(seen, shape=(1 << 29,)) for name, seen in matched.views.items()}
    assert index_bits_for(kernel.signature, replace(matched, views=given)) == 64
    # Beside an extent of 0 no array bounds a size: 2**29 floats are 2**31 bytes.
    for size, bits in ((1 << 29, 64), ((1 << 29) - 1, 32)):
        empty = {name: replace(seen, shape=(size, 0)) for name, seen in matched.views.items()}
        beside = replace(matched, views=empty, omitted=(), values={"a": 1.0, "N": size})
        assert index_bits_for(kernel.signature, beside) == bits
    for rows, bits in ((1 << 10, 64), ((1 << 9) - 1, 32)):  # nor their product
        shaped = {name: replace(seen, shape=(0, 1 << 20, rows)) for name, seen in matched.views.items()}
        assert index_bits_for(kernel.signature, replace(matched, views=shaped, omitted=())) == bits
    counted = replace(matched, values=matched.values | {"steps": -(1 << 31)})
    assert index_bits_for(kernel.signature, counted) == 64


def test_a_large_workspace_gets_64_bits(compiler: Compiler) -> None:
    work = {"name": "work", "dtype": "i8", "extents": ["N * N"], "zeroed": False}
    compiler.manifest = compiler.manifest | {"buffers": [work]}
    kernel = loopfuse.loads(SCALE)
    with pytest.raises(UserError, match="cannot allocate `work`"):
        kernel(np.ones(1 << 24, np.float32), 1.0)
    assert [options.index_bits for options in compiler.compiled] == [32, 64]


def test_nothing_runs_before_preconditions_hold(compiler: Compiler) -> None:
    condition = {"text": "N >= 4", "message": "too short", "line": 4, "column": 9}
    compiler.manifest = compiler.manifest | {"preconditions": [condition]}
    kernel = loopfuse.loads(SCALE)
    out = np.full(3, 7, np.float32)
    with pytest.raises(UserError) as caught:
        kernel(ones(3), out, 2.0)
    assert (out == 7).all()
    assert "--> <string>:4:9" in str(caught.value) and "y[i] = a * x[i]" in str(caught.value)


def test_many_threads_compile_once(compiler: Compiler) -> None:
    kernel = loopfuse.loads(SCALE)
    results: list[float] = []
    workers = [
        threading.Thread(target=lambda k=k: results.append(float(kernel(ones(9), float(k))[8])))
        for k in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(results) == [float(k) for k in range(8)]
    assert len(compiler.compiled) == 1


def test_several_kernels_are_attributes(compiler: Compiler, tmp_path: Path) -> None:
    path = tmp_path / "two.lf"
    path.write_text(SCALE + SCALE.replace("scale", "other"))
    both = loopfuse.load(path)
    assert list(both) == ["scale", "other"] and len(both) == 2
    assert both.other.name == "other" and both["scale"] is both.scale
    with pytest.raises(AttributeError, match="no kernel `third`; there are scale, other"):
        _ = both.third
    assert "scale(x: f32[N], out y: f32[N], a: f32)" in repr(both.scale)


def test_gpu_kernels_refuse_numpy(compiler: Compiler) -> None:
    kernel = loopfuse.loads(SCALE, target="sm_90")
    with pytest.raises(UserError, match="its arrays are in main memory"):
        kernel(ones(3), 1.0)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.write_bytes(b"kernel \xff"), "not-utf8"),
        (lambda path: path.mkdir(), "cannot-read"),
        (lambda path: None, "cannot-read"),
        (lambda path: path.write_text("# nothing\n"), "no-kernel"),
    ],
)
def test_unreadable_files(compiler: Compiler, tmp_path: Path, make: Any, code: str) -> None:
    path = tmp_path / "program.lf"
    make(path)
    with pytest.raises(UserError) as caught:
        loopfuse.load(path)
    assert caught.value.diagnostics[0].code == code
    assert str(path) in str(caught.value)


def test_a_byte_order_mark_is_dropped(compiler: Compiler, tmp_path: Path) -> None:
    path = tmp_path / "marked.lf"
    path.write_bytes(b"\xef\xbb\xbf" + SCALE.encode())
    assert loopfuse.load(path).name == "scale"


def test_compile_refuses_unknown_names(compiler: Compiler) -> None:
    with pytest.raises(UserError, match="no size or integer parameter `M`"):
        loopfuse.loads(SCALE).compile("cpu", M=3)
    loopfuse.loads(SCALE).compile("cpu", N=3)
    assert compiler.compiled[-1].sizes == (("N", 3),)


def test_synchronize_without_a_gpu_is_nothing() -> None:
    loopfuse.synchronize()
