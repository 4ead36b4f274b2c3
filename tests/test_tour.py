"""The tour in docs/architecture.md is what the compiler prints today, and its links lead somewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from tools import make_tour  # noqa: E402

from loopfuse.pipeline import STAGES  # noqa: E402


def test_the_tour_is_current() -> None:
    text = make_tour.PAGE.read_text("utf-8")
    assert text == make_tour.page(text), "run python tests/tools/make_tour.py"


def test_its_files_exist() -> None:
    links = re.findall(r"\]\(\.\./([\w./]+)\)", make_tour.PAGE.read_text("utf-8"))
    assert len(links) > 15
    assert not [link for link in links if not (ROOT / link).exists()]


def test_it_stops_at_every_floor() -> None:
    """At every stage that makes something else: what `simplify` does shows in the next, PTX is LLVM's."""
    assert [stop.stage for stop in make_tour.STOPS] == [
        stage for stage in STAGES if stage not in ("simplify", "emit", "assemble")
    ]
