"""Finds `loopfuse.lark`, the grammar, wherever loopfuse runs from.

In a checkout and in an editable install the file is `grammar/loopfuse.lark` beside the package;
a wheel carries a copy of that folder inside the package, as `loopfuse/_grammar` (pyproject.toml).
"""

from __future__ import annotations

from pathlib import Path

from loopfuse.base.diagnostics import Diagnostic, InternalError

GRAMMAR = "loopfuse.lark"


def find_grammar(package: Path | None = None) -> Path:
    """The grammar's path, for the package folder `package` (default: the one this file is in).

    A copy inside the package wins: an installed loopfuse must not read a stray `grammar/` that
    happens to lie in site-packages.
    """
    package = Path(__file__).resolve().parents[2] if package is None else package
    places = (package / "_grammar" / GRAMMAR, package.parent / "grammar" / GRAMMAR)
    for place in places:
        if place.is_file():
            return place
    raise InternalError(
        Diagnostic(
            "grammar-missing",
            f"`{GRAMMAR}` was not found; this installation of loopfuse is not complete",
            notes=tuple(f"looked for {place}" for place in places),
            fix="install loopfuse again: `pip install --force-reinstall loopfuse`",
        )
    )
