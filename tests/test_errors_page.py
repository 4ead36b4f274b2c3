"""docs/errors.md is current and holds every code the source can raise."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "tools"))

from make_errors import make_page  # noqa: E402

INTERNAL = {"isl-expression", "edge-mode", "grammar-missing", "tree-run"}


def test_page_is_current() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == make_page(), (
        "run python tests/tools/make_errors.py"
    )


def test_every_code_of_the_planner_and_options_is_documented() -> None:
    page = make_page()
    for folder in ("plan", "proof", "tree", "base"):
        for path in (ROOT / "loopfuse" / folder).rglob("*.py"):
            for code in re.findall(r'Diagnostic\(\s*"([a-z-]+)"', path.read_text()):
                known = f"### {code}\n" in page or code in INTERNAL or code.startswith("tree-")
                assert known, (path.name, code)


def test_there_are_many_distinct_codes() -> None:
    codes = re.findall(r"^### ([a-z0-9-]+)$", make_page(), re.MULTILINE)
    assert len(set(codes)) >= 60
