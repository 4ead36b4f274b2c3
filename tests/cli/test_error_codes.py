"""Every code that the runtime and the command line may say is explained in docs/errors.d."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PLACES = (
    "runtime", "tuning", "commands", "kernels/kernel.py", "kernels/sent.py", "kernels/results.py",
    "kernels/sizes.py", "kernels/sources.py", "kernels/trial.py", "watch.py", "cli.py", "base",
)  # fmt: skip
MAKERS = ("Diagnostic", "_refuse", "refuse")


def codes_said() -> set[str]:
    """The first argument of every call that makes a diagnostic."""
    found: set[str] = set()
    for place in PLACES:
        path = ROOT / "loopfuse" / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    first = node.args[0] if node.args else None
                    if node.func.id in MAKERS and isinstance(first, ast.Constant):
                        found.add(str(first.value))
    return found


def codes_explained(*pages: str) -> list[str]:
    """The headings of the pages."""
    return [
        title
        for page in pages
        for title in re.findall(r"^### (\S+)$", (ROOT / "docs/errors.d" / page).read_text(), re.M)
    ]


def test_every_code_is_explained_once_and_none_is_stale() -> None:
    explained = codes_explained("calls.md", "command_line.md")
    assert len(explained) == len(set(explained))
    of_decorators = {"kernel-option"}  # python.md explains it
    assert codes_said() - of_decorators == set(explained)
    assert len(explained) > 30
