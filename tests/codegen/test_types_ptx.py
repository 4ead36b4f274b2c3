"""The programs of the types table as MLIR that `mlir-opt` verifies and PTX that ptxas assembles."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import types_programs
from types_programs import Check

from loopfuse import pipeline
from loopfuse.base.options import CPU, Options, Target

PTXAS = next(
    (
        str(found)
        for entry in sys.path
        for found in Path(entry).glob("nvidia/cu*/bin/ptxas")
        if found.is_file()
    ),
    shutil.which("ptxas") or "",
)
MLIR_OPT = shutil.which("mlir-opt-22") or shutil.which("mlir-opt") or ""
CHECKS = (
    *types_programs.operation_checks(),
    *types_programs.promotion_checks(),
    *(one for one in types_programs.reduction_checks() if one.name.endswith("_few")),
)


@pytest.mark.skipif(not PTXAS, reason="no ptxas")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("name", ["sm_80", "sm_90"])
def test_ptx_assembles(name: str, check: Check, tmp_path: Path) -> None:
    program = pipeline.read_program(check.source)
    options = Options(target=Target(name))
    artifact = pipeline.compile_kernel(program, check.name, options, emit=frozenset({"ptx"}))
    (tmp_path / "k.ptx").write_text(artifact.ptx)
    subprocess.run([PTXAS, f"-arch={name}", "-o", "k.cubin", "k.ptx"], cwd=tmp_path, check=True)


@pytest.mark.skipif(not MLIR_OPT, reason="no mlir-opt")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_mlir_verifies(check: Check, tmp_path: Path) -> None:
    program = pipeline.read_program(check.source)
    for target in (CPU, Target("sm_80")):
        emit = frozenset({"mlir", "affine"})
        artifact = pipeline.compile_kernel(program, check.name, Options(target=target), emit=emit)
        for text in (artifact.mlir, artifact.affine_mlir):
            (tmp_path / "k.mlir").write_text(text)
            subprocess.run([MLIR_OPT, "k.mlir", "-o", "o.mlir"], cwd=tmp_path, check=True)
