"""The program as written, in upstream's affine dialect: every example and case of the project."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError, Source
from loopfuse.base.options import CPU, Target
from loopfuse.codegen.upstream.affine import emit_affine, emit_fused
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check

from .test_lower import CHAIN, STENCIL, chain_gpu, stencil_cpu, sum_gpu
from .trees import M, check_mlir

SM_80 = Target("sm_80")
ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").glob("*.lf")), *sorted((ROOT / "tests" / "cases").glob("*.lf"))]


def affine(text: str) -> str:
    program = check(parse(Source("k.lf", text)))
    return "".join(emit_affine(kernel) for kernel in program.kernels)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_case_is_accepted(path: Path) -> None:
    try:
        text = affine(path.read_text())
    except LoopfuseError as error:
        assert error.diagnostics[0].code != "tree-not-lowered", error
        pytest.skip(f"refused on purpose: {error.diagnostics[0].code}")
    check_mlir_parts(text)


def check_mlir_parts(text: str) -> None:
    for part in text.split("\nmodule {"):
        check_mlir(part if part.startswith("module {") else "module {" + part)


JACOBI = """
kernel jacobi(inout a: f64[N, N], inout b: f64[N, N], steps: i64):
    for t in 0..steps:
        for i in 1..N-1, j in 1..N-1:
            b[i, j] = 0.2 * (a[i, j] + a[i, j-1])
"""


def test_loops_and_subscripts_are_affine() -> None:
    text = affine(JACOBI)
    assert text.count("affine.for") == 3 and text.count("affine.load") == 2
    assert "scf" not in text and "memref.load" not in text
    head = 'func.func @jacobi(%a: memref<?x?xf64> {loopfuse.mode = "inout", loopfuse.extents = ["N", "N"]}'
    assert head in text


def test_upstream_lowers_and_runs_it() -> None:
    """The whole of upstream's pipeline down to the LLVM dialect takes the text."""
    tool = shutil.which("mlir-opt-22")
    if tool is None:
        pytest.skip("no mlir-opt-22")
    command = [tool, "--lower-affine", "--convert-scf-to-cf", "--convert-to-llvm", "--reconcile-unrealized-casts"]
    done = subprocess.run(command, input=affine(JACOBI), capture_output=True, text=True)
    assert done.returncode == 0 and "llvm.func @jacobi" in done.stdout, done.stderr


def test_the_fused_form_has_no_mapping() -> None:
    text = emit_fused(chain_gpu(), CHAIN, SM_80)
    check_mlir(text)
    assert "gpu." not in text and "vector" not in text and text.count("scf.for") == 4
    text = emit_fused(stencil_cpu(M.THREAD), STENCIL, CPU)
    check_mlir(text)
    assert text.count("scf.for") == 3
    tr, k = sum_gpu()
    check_mlir(emit_fused(tr, k, SM_80))


def test_the_fused_form_of_threads_that_work_together_is_the_target_s() -> None:
    """Clusters are of sm_90 alone."""
    kernel = loopfuse.loads((ROOT / "examples" / "softmax.lf").read_text("utf-8"))
    text = kernel.compile("sm_90", emit={"affine"}).fused_mlir
    check_mlir(text)
    assert "barrier.cluster" in text
