"""A second process: what it loads, and how long its first call takes apart from imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.machine import is_within

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("second_process.py")


@pytest.fixture
def process(tmp_path: Path) -> Any:
    """Runs the script in a new process, on one cache."""

    def run(where: str, example: str = "unsharp.lf") -> dict[str, Any]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("LOOPFUSE")
        }
        environment |= {"LOOPFUSE_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
        said = subprocess.run(
            [sys.executable, str(SCRIPT), where, str(ROOT / "examples" / example)],
            env=environment, capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        return json.loads(said.stdout)

    return run


def test_a_hit_on_the_gpu_path_loads_no_compiler(process: Any) -> None:
    first = process("gpu")
    assert {"lark", "islpy", "llvmlite"} <= set(first["loaded"]) and "xdsl" not in first["loaded"]
    again = [process("gpu") for _ in range(3)]
    for one in again:
        assert one["loaded"] == [] and one["launches"] == first["launches"] == 1
        assert one["result"] == first["result"]
    assert is_within(min(one["call"] for one in again), 60)


def test_a_hit_on_the_gpu_path_for_a_view(process: Any) -> None:
    packed = process("gpu")
    view = process("gpu view")
    assert "islpy" in view["loaded"]  # another kernel: it is compiled
    assert view["result"][0] != packed["result"][0]
    again = process("gpu view")
    assert again["loaded"] == [] and again["result"] == view["result"]


def test_a_hit_on_the_cpu_path_loads_the_linker_alone(process: Any) -> None:
    first = process("cpu")
    again = [process("cpu") for _ in range(3)]
    for one in again:
        assert one["loaded"] == ["llvmlite"] and one["result"] == first["result"]
    assert is_within(min(one["call"] for one in again), 60)


def test_a_damaged_cache_is_made_anew(process: Any, tmp_path: Path) -> None:
    first = process("cpu")
    entries = list(tmp_path.rglob("*.loopfuse"))
    assert entries
    for path in entries:
        path.write_bytes(path.read_bytes()[:100] + b"\0" + path.read_bytes()[101:])
    again = process("cpu")
    assert "islpy" in again["loaded"] and again["result"] == first["result"]
    assert process("cpu")["loaded"] == ["llvmlite"]
