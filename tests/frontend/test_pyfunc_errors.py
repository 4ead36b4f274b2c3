"""Every diagnostic of the Python door: its program in docs/errors.d/python.md, its text in
python_errors.txt beside this file.

    python tests/frontend/test_pyfunc_errors.py    writes the texts anew: read the difference
"""

from __future__ import annotations

import ast
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError

ROOT = Path(__file__).resolve().parent.parent.parent
PINNED = Path(__file__).with_name("python_errors.txt")
MAKERS = ("refuse", "Diagnostic")
# Codes that no program of the page can provoke: what remains when all else was told apart.
REST = {"unknown-statement", "unknown-expression"}
# Codes explained on other pages, which the Python door also says.
SHARED = {
    "too-many-arguments", "doubled-argument", "other-python", "torch-op-result", "missing-argument",
    "unknown-argument",
}  # fmt: skip
# Codes of the page that all options share (`base.options`).
OPTIONS = {"kernel-option"}


def programs() -> dict[str, str]:
    """The Python block under each code of the page."""
    page = (ROOT / "docs/errors.d/python.md").read_text("utf-8")
    return dict(re.findall(r"^### ([a-z-]+)$.*?^```python\n(.*?)^```$", page, re.M | re.S))


def message(code: str, text: str, folder: Path) -> str:
    """What the program is answered, with its file called `code.py`."""
    path = folder / f"{code.replace('-', '_')}.py"
    path.write_text(text, "utf-8")
    scope = {"np": np, "math": math, "loopfuse": loopfuse, "__name__": "page"}
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), scope)
        kernel = scope["k"]
        kernel.specialise().program()  # type: ignore[attr-defined]
    except LoopfuseError as error:
        return re.sub(r"--> \S*/", "--> ", str(error))
    return "accepted"


def pinned() -> dict[str, str]:
    """The pinned texts by code."""
    parts = re.split(r"^=== ([a-z-]+)\n", PINNED.read_text("utf-8"), flags=re.M)[1:]
    return {code: text.strip("\n") for code, text in zip(parts[::2], parts[1::2])}


@pytest.mark.parametrize("code", sorted(programs()))
def test_text(code: str, tmp_path: Path) -> None:
    said = message(code, programs()[code], tmp_path)
    assert said.startswith(f"error[{code}]: "), said
    assert said == pinned()[code]
    assert "= fix: " in said


def test_nothing_else_is_pinned() -> None:
    assert set(pinned()) == set(programs())
    assert len(pinned()) >= 35


def test_every_code_of_the_door_is_on_the_page() -> None:
    said: set[str] = set()
    files = list((ROOT / "loopfuse/frontend/python").glob("*.py"))
    files += [ROOT / f"loopfuse/kernels/{name}.py" for name in ("python", "scope", "types", "words", "sent", "results")]
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if name in MAKERS:
                    said.add(str(node.args[0].value))
            if isinstance(node, ast.Dict):
                for value in node.values:
                    if isinstance(value, ast.Tuple) and len(value.elts) == 3 and all(
                        isinstance(part, ast.Constant) and isinstance(part.value, str) for part in value.elts
                    ):
                        said.add(value.elts[0].value)  # type: ignore[attr-defined]
    assert (said - REST - SHARED) | OPTIONS == set(programs())


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        texts = [
            f"=== {code}\n{message(code, text, Path(folder))}\n" for code, text in programs().items()
        ]
    PINNED.write_text("\n".join(texts), "utf-8")
    sys.stdout.write(f"{len(texts)} texts\n")
