"""What stands in `base/machine.py`, and that it stands nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from loopfuse.base.machine import CPU, GPU, LANES, MULTIPROCESSOR, machine_for

PACKAGE = Path(__file__).resolve().parent.parent / "loopfuse"
FACTS = {"LANES", "WARP", "SHARED", "SHARED_BYTES", "REGISTER_FILE", "BANDWIDTH"}
"""Names of facts about hardware that files of their own once had. (`LANES = 16` are accumulators.)"""


def test_a_multiprocessor_holds_what_its_registers_allow() -> None:
    """Of an A100 and an H100 (CUDA's occupancy calculator): 65,536 registers, granules of 8 a thread."""
    assert MULTIPROCESSOR.registers == 4 * 16384 and LANES == 32
    held = {32: 64, 33: 48, 40: 48, 64: 32, 96: 20, 128: 16, 129: 12, 168: 12, 169: 8, 255: 8}
    assert {many: MULTIPROCESSOR.warps_with(many) for many in held} == held
    for warps in range(1, 65):
        many = MULTIPROCESSOR.registers_with(warps)
        assert MULTIPROCESSOR.warps_with(many) >= warps
        assert many == 255 or -(-warps // 4) * (many + 8) * LANES > 16384


def test_shared_memory_of_a_block_fits_every_gpu() -> None:
    assert MULTIPROCESSOR.shared_declared < MULTIPROCESSOR.shared_of_block <= MULTIPROCESSOR.shared
    assert MULTIPROCESSOR.shared_of_block == 101_376  # sm_86, sm_89: 100 KiB less one that the system takes


def test_machines_by_device() -> None:
    assert machine_for("gpu") is GPU and machine_for("cpu") is CPU
    assert GPU.bandwidth > CPU.bandwidth and GPU.threads > CPU.threads


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_other_file_has_facts_of_machines(file: Path) -> None:
    if file.name == "machine.py" and file.parent.name == "base":
        return
    for node in ast.parse(file.read_text("utf-8")).body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        known = isinstance(node.value, ast.Constant) and name == "LANES" and node.value.value == 16
        assert name not in FACTS or known, f"{file}:{node.lineno}: {name} belongs to base/machine.py"
