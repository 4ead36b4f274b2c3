"""LLVM IR for AMD's gfx942, read and assembled by the AMDGPU back end of the same LLVM. Nothing of it is run: what
is tested is that plans, trees and MLIR know nothing of NVIDIA, and that one record says what LLVM calls things."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import loopfuse
from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import UserError
from loopfuse.cli import cli
from loopfuse.codegen.llvm.device import AMD
from loopfuse.codegen.llvm.passes import optimize, parse, target_machine

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXTS = {
    "pointwise": """
kernel axpy(x: f32[N], inout y: f32[N], a: f32):
    for i in 0..N:
        y[i] = y[i] + a * x[i]
""",
    "generic": """
kernel product(a: f32[M, K], b: f32[K, N], out c: f32[M, N]):
    for i in 0..M, j in 0..N:
        c[i, j] = sum(k in 0..K: a[i, k] * b[k, j])
""",
}
SUM = """
kernel total(x: f32[N], out s: f32[1]):
    s[0] = sum(i in 0..N: x[i])
"""


def assembled(llvm: str) -> str:
    """The assembly that LLVM makes of it; it is verified first."""
    machine = target_machine(AMD.triple, "gfx942", "")
    module = parse(llvm)
    optimize(module, machine, vectorize=False)
    return machine.emit_assembly(module)


def check(artifact: Artifact) -> str:
    assert artifact.target == "gfx942" and artifact.manifest["target"] == "gfx942"
    assert not artifact.ptx and not artifact.object
    assert "nvvm" not in artifact.llvm and "asm" not in artifact.llvm
    assembly = assembled(artifact.llvm)
    entries = re.findall(r"^define amdgpu_kernel void @(\w+)\(", artifact.llvm, re.MULTILINE)
    assert entries and sorted(entries) == sorted(re.findall(r"\.amdhsa_kernel (\w+)\n", assembly))
    return assembly


@pytest.mark.parametrize("strategy", TEXTS)
def test_strategies_that_know_no_warps(strategy: str) -> None:
    kernel = loopfuse.loads(TEXTS[strategy])
    found = kernel.compile("gfx942")
    assert [each["strategy"] for each in found.report["kernels"]] == [strategy]
    assembly = check(found)
    if strategy == "pointwise":  # accesses of 16 bytes, as on every GPU
        assert "global_load_dwordx4" in assembly and "global_store_dwordx4" in assembly
    # One FMA where the program has one, and no contraction beyond.
    assert "llvm.fma.f32" in found.llvm and "v_fma" in assembly.replace("v_fmac", "v_fma")
    assert "llvm.amdgcn.workgroup.id.x" in found.llvm and "llvm.amdgcn.workitem.id.x" in found.llvm


def test_a_reduction_moves_between_the_lanes_of_a_wave() -> None:
    found = loopfuse.loads(SUM).compile("gfx942")
    assembly = check(found)
    assert "ds_bpermute_b32" in assembly and "s_barrier" in assembly
    assert 'fence syncscope("workgroup") release' in found.llvm


@pytest.mark.parametrize("name", ["softmax", "unsharp", "jacobi", "gather_rows", "scatter_add", "csr_matvec", "attention"])
def test_examples(name: str) -> None:
    kernel = loopfuse.load(EXAMPLES / f"{name}.lf")
    found = kernel.compile("gfx942")
    assert {each["strategy"] for each in found.report["kernels"]} <= {"generic", "pointwise", "reduce"}
    check(found)


def test_command_line_writes_llvm(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["compile", "example:chain", "--target", "gfx942", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["chain.json", "chain.ll"]
    for wrong in ("ptx", "object", "c"):
        done = CliRunner().invoke(cli, ["compile", "example:chain", "--target", "gfx942", "--emit", wrong])
        assert isinstance(done.exception, UserError) and done.exception.diagnostics[0].code == "bad-emit"


def test_nothing_runs_it() -> None:
    kernel = loopfuse.loads(TEXTS["pointwise"]).with_options(target="gfx942")
    one = np.ones(4, np.float32)
    with pytest.raises(UserError, match="gfx942"):
        kernel(one, one.copy(), 2.0)


