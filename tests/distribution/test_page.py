"""The C programs in docs/distribution.md are compiled, and the one for the CPU runs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from c_programs import STRICT, compile_c, run_c

import loopfuse
from loopfuse.cli import _run

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "distribution.md").read_text("utf-8")
HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def test_the_programs_in_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^loopfuse (compile .*--emit c)$", PAGE, re.M)
    programs = re.findall(r"^```c\n(.*?)^```$", PAGE, re.M | re.S)
    builds = re.findall(r"^cc (.*)$", PAGE, re.M)
    assert len(commands) == len(programs) == 2 and len(builds) == 2
    assert _run(commands[0].split()) == 0
    (tmp_path / "main.c").write_text(programs[0])
    for build in builds:
        compile_c(tmp_path, *build.split(), "-o", "main")
        # A point of light on black, sharpened: its centre stands out more.
        assert float(run_c(tmp_path)) > 1.5
    assert _run(commands[1].split()) == 0
    stub = (HERE / "cuda_stub.h").read_text()
    wait = "CUresult cuStreamSynchronize(CUstream hStream);\n#endif\n"
    (tmp_path / "cuda.h").write_text(stub.removesuffix("#endif\n") + wait)
    (tmp_path / "sharpen.c").write_text(programs[1])
    for name in ("unsharp.c", "sharpen.c"):
        compile_c(tmp_path, *STRICT, "-I.", "-c", name)


def test_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(ROOT)
    (block,) = re.findall(r"^```text\n(unsharp = .*?)^```$", PAGE, re.M | re.S)
    names = {"loopfuse": loopfuse, "torch": torch}
    # The eager back end: the default one needs a C++ compiler and takes seconds.
    exec(block.replace("1.5))(", '1.5), backend="eager")('), names)
