"""docs/polybench.md is what the compiler makes of the suites, row by row; a sample by default."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from case_files import Case, read_suites

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import make_polybench as made

PROGRAMS = read_suites()


def named(case: Case) -> str:
    """How pytest shows a program."""
    return case.title


@pytest.mark.parametrize("case", PROGRAMS, ids=named)
def test_row_is_current(case: Case) -> None:
    line, _ = made.rows_of(made.PAGE.read_text("utf-8"))[case.title]
    assert line == made.row(case), f"run python tests/tools/make_polybench.py --only {case.title}"


def test_the_rest_is_current() -> None:
    """What stands around the rows, and which there are, in which order."""
    page = made.PAGE.read_text("utf-8")
    assert list(made.rows_of(page)) == [case.title for case in PROGRAMS]
    assert page == made.make_page("no program's name", is_timed=False)
