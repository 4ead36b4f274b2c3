"""docs/performance.md and README's table are what the measured results make them."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from make_performance import make_page  # noqa: E402
from make_readme import with_table  # noqa: E402


def test_page_is_current() -> None:
    assert (ROOT / "docs" / "performance.md").read_text() == make_page(), (
        "run python benchmarks/make_performance.py"
    )


def test_readme_is_current() -> None:
    readme = (ROOT / "README.md").read_text()
    assert readme == with_table(readme), "run python benchmarks/make_readme.py"
