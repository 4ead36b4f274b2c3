"""What is shipped, and what README says to someone who has only the package."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_readme_types_what_a_wheel_has() -> None:
    """Its commands name programs as `example:NAME`; a checkout's folder is there for its readers."""
    text = (ROOT / "README.md").read_text("utf-8")
    code = re.findall(r"```(?:sh|python|text)\n(.*?)```", text, re.DOTALL)
    assert len(code) > 6 and not [block for block in code if "examples/" in block]


@pytest.mark.whole
def test_the_source_distribution_is_whole(tmp_path: Path) -> None:
    build = f"from hatchling.build import build_sdist; print(build_sdist({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", build], cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(tmp_path / done.stdout.split()[-1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml", ".ci/run"} <= names
    assert {"loopfuse/cli.py", "grammar/loopfuse.lark", "examples/unsharp.lf", "tests/conftest.py"} <= names


def test_the_changes_have_an_entry_for_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE)[:2] == ["Next", version]


def test_a_source_tree_knows_its_version(tmp_path: Path) -> None:
    """Where nothing is installed: the packages are on the path, loopfuse's metadata is not."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    program = (
        "import importlib.metadata as m\n"
        "def none(name): raise m.PackageNotFoundError(name)\n"
        f"m.version = none\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        "import loopfuse\nprint(loopfuse.__version__)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == version
