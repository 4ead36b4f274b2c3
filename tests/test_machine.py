"""What stands in `base/machine.py`, and that it stands nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from loopfuse.base.diagnostics import UserError
from loopfuse.base.machine import (
    CPU,
    LANES,
    MACHINES,
    MULTIPROCESSOR,
    Machine,
    machine_of,
    machine_of_device,
)
from loopfuse.base.options import Target, parse_target

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


def test_every_target_has_a_machine() -> None:
    assert machine_of("cpu") is CPU and CPU.device == "cpu"
    for capability in (80, 86, 87, 89, 90, 100, 103, 120, 121):
        machine = machine_of(f"sm_{capability}")
        assert machine.device == "gpu" and machine.has_warps
        assert machine.bandwidth > CPU.bandwidth and machine.threads > CPU.threads
    assert machine_of("sm_80") is MACHINES["a100"] and machine_of("sm_90") is MACHINES["h100"]
    assert machine_of("gfx942").lanes == 64 and not machine_of("gfx942").has_warps


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_by_name_is_its_architecture_planned_for_its_memory(name: str) -> None:
    target = parse_target(name)
    assert target == Target(MACHINES[name].target, machine=MACHINES[name])
    assert target.planned is MACHINES[name] and target.words == name
    assert parse_target(target.words) == target
    assert parse_target(target.name).words == target.name


def test_an_unknown_machine_names_those_there_are() -> None:
    with pytest.raises(UserError, match=r"`h300` is not a target[^`]*`cpu`[\s\S]*`h200`"):
        parse_target("h300")


# Name, target, multiprocessors, clock and memory clock in MHz, bus in bits, as drivers tell them.
DEVICES = {
    "h200": ("NVIDIA H200", "sm_90", 132, 1980, 3201, 6144),
    "h100": ("NVIDIA H100 80GB HBM3", "sm_90", 132, 1980, 2619, 5120),
    "a100": ("NVIDIA A100-SXM4-80GB", "sm_80", 108, 1410, 1593, 5120),
}


def device(name: str, target: str, many: int, clock: int, memory: int, bits: int) -> Machine:
    return machine_of_device(name, target, many, clock * 1e6, memory * 1e6, bits)


@pytest.mark.parametrize("name", DEVICES)
def test_a_device_that_is_what_its_name_says_is_that_machine(name: str) -> None:
    """Else plans for `--target h200` and on an H200 would differ."""
    assert device(*DEVICES[name]) is MACHINES[name]


def test_a_device_that_is_not_is_what_it_tells() -> None:
    slow = device("NVIDIA H100 PCIe", "sm_90", 114, 1755, 1593, 5120)
    assert slow.name == "NVIDIA H100 PCIe" and slow.target == "sm_90"
    assert slow.bandwidth == 1.8e12 and slow.operations == 1.9e13
    assert slow.bandwidth < MACHINES["h100"].bandwidth and slow.threads < MACHINES["h100"].threads
    other = device("NVIDIA GeForce RTX 4090", "sm_89", 128, 2520, 10501, 384)
    assert other.target == "sm_89" and other.bandwidth == 8.7e11
    silent = device("NVIDIA H200", "sm_90", 132, 0, 0, 0)
    assert silent is MACHINES["h200"]


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
