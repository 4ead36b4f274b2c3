"""An error in a notebook's cell: the user's line and the message, and none of our frames."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole
ROOT = Path(__file__).resolve().parent.parent.parent
SHELL = """\
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.colors = "NoColor"
shell.run_line_magic("colors", "nocolor")
for cell in {cells!r}:
    shell.run_cell(cell)
"""
IMPORTS = "import numpy as np\nimport loopfuse\nsaxpy = loopfuse.load('example:saxpy', target='cpu')"
CALL = "def mine(a):\n    return saxpy(a, np.ones(3, np.float32), 2.0)\n\nmine(np.ones(3))"


def shown(*cells: str) -> str:
    """What IPython prints of these cells."""
    pytest.importorskip("IPython", reason="no IPython: pip install 'loopfuse[test]'")
    done = subprocess.run(
        [sys.executable, "-c", SHELL.format(cells=cells)], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": "/nonexistent", "NO_COLOR": "1"},
    )  # fmt: skip
    return done.stdout


def test_a_users_error_shows_the_users_lines() -> None:
    text = shown(IMPORTS, CALL)
    assert "mine(np.ones(3))" in text and "return saxpy(a" in text
    assert "loopfuse/" not in text and len(text.splitlines()) < 25, text
    assert text.rstrip().splitlines()[-1] == "  = fix: convert it with `.astype(np.float32)`"
    assert "error[wrong-dtype]" in text


def test_what_it_came_from_is_not_shown() -> None:
    text = shown(IMPORTS, "loopfuse.load('none.lf')")
    assert "error[cannot-read]" in text and "FileNotFoundError" not in text, text


def test_the_users_mode_counts() -> None:
    text = shown(IMPORTS, "%xmode Minimal", CALL)
    assert "error[wrong-dtype]" in text and "return saxpy(a" not in text, text


def test_a_bug_of_ours_shows_where() -> None:
    broken = "from loopfuse.base.diagnostics import Diagnostic, InternalError\nfrom loopfuse import runtime"
    cell = (
        "from loopfuse.base import warn\nimport loopfuse.kernels.kernel as k\n"
        "def fail(*_): raise InternalError(Diagnostic('unexpected', 'broken'))\n"
        "k.arrays.match = fail\nsaxpy(np.ones(3, np.float32), np.ones(3, np.float32), 2.0)"
    )
    text = shown(IMPORTS, broken, cell)
    assert "loopfuse/kernels/kernel.py" in text and "error[unexpected]: broken" in text, text


def test_python_itself_shows_everything() -> None:
    program = f"{IMPORTS}\n{CALL}\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "loopfuse/kernels/kernel.py" in done.stderr and "error[wrong-dtype]" in done.stderr
