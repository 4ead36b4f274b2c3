"""The digests of all plans (tests/tools/print_plans.py): those of some programs here, all of them in
`.ci/run`; and that a changed plan is seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tests" / "tools" / "print_plans.py"
SOME = ("examples/unsharp", "examples/softmax_loops", "cases/apart_", "cases/error_fuse")


def tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *arguments, "--jobs", "1"]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


def test_plans_are_as_stored() -> None:
    done = tool("check", "--targets", "cpu,sm_90", *(word for name in SOME for word in ("--only", name)))
    assert done.returncode == 0, (
        f"{done.stdout}{done.stderr}\nif that is wanted: python tests/tools/print_plans.py store 'the reason'"
    )


def test_every_program_has_digests() -> None:
    """A new case, example or benchmark kernel is stored too, and a deleted one is not."""
    stored = (ROOT / "tests" / "plans.txt").read_text().splitlines()
    names = {line.split(" ")[0].split(":")[0] for line in stored if not line.startswith("#")}
    folders = {"examples": "examples", "cases": "tests/cases", "benchmarks": "benchmarks/kernels"}
    folders |= {suite: f"tests/{suite}" for suite in ("polybench", "livermore", "algorithms")}
    there = {
        f"{room}/{path.stem}"
        for room, folder in folders.items()
        for path in (ROOT / folder).iterdir()
        if path.suffix in (".lf", ".mlir")
    }
    assert names == there


@pytest.mark.parametrize("part", ["tree", "report", "manifest", "llvm", "ptx"])
def test_a_difference_is_shown(tmp_path: Path, part: str) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    sections = ("tree", "report", "manifest", "llvm", "ptx")
    for folder in (one, other):
        folder.mkdir()
        text = "".join(
            f"==== a:f cpu: {each}\nfirst\n{'x' if folder == other and each == part else 'y'}\n" for each in sections
        )
        (folder / "a.cpu.txt").write_text(text)
    done = tool("compare", str(one), str(other))
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == f"---- a:f cpu: {part}"
    assert "-y\n+x\n" in done.stdout and "1 texts differ" in done.stdout
    assert tool("compare", str(one), str(one)).returncode == 0


def test_a_reason_is_asked_for() -> None:
    done = tool("store")
    assert done.returncode == 2 and "store REASON" in done.stderr
