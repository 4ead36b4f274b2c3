"""A bug of ours: exit code 70, what a report needs is saved, and the message asks for it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import cli, pipeline
from loopfuse.base.diagnostics import InternalError

TEXT = "kernel k(a: f32[N], out b: f32[N]):\n    for i in 0..N:\n        b[i] = a[i] * 3.25\n"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A planner that fails where it should not."""

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(pipeline, "build_tree", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.usefixtures("broken")
def test_the_command_line_ends_with_70_and_saves_the_ir(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.lf"
    file.write_text(TEXT)
    with pytest.raises(SystemExit) as ended:
        cli.main(["compile", str(file), "--target", "sm_90", "-o", str(tmp_path / "out")])
    assert ended.value.code == 70
    said = capsys.readouterr().err
    assert said.startswith("bug[unexpected]: loopfuse failed to compile `k`: KeyError: 'planted'")
    assert "Traceback" not in said and "please report it" in said
    found = re.search(r"with the file (\S+)", said)
    assert found is not None
    saved = Path(found[1])
    text = saved.read_text()
    for part in (TEXT, "== model", "== dependences", "Traceback", "planted", "Options("):
        assert part in text
    assert oct(os.stat(saved).st_mode & 0o777) == "0o600"
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("broken")
def test_from_python_it_is_an_internal_error_with_its_cause() -> None:
    with pytest.raises(InternalError) as caught:
        loopfuse.loads(TEXT, target="cpu")(np.ones(3, np.float32))
    assert caught.value.diagnostics[0].code == "unexpected"
    assert isinstance(caught.value.__cause__, KeyError)
