"""Every message proposes something that works: what its fix says is done to the program it is said of,
by a hand that reads the message alone, and what comes out compiles. Where no machine can do it, the table
says why.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixes.calls import CALLS, MORE
from tests.fixes.check import CHECK
from tests.fixes.command_line import COMMAND_LINE, INSTANCES, MANY_INSTANCES, TESTING
from tests.fixes.mlir import MLIR
from tests.fixes.model import BOUNDS, EDGES, PLANNING
from tests.fixes.python import PYTHON
from tests.fixes.said import ByMachine, ByUser, Entry, Said, diagnose
from tests.fixes.syntax import SYNTAX

ROOT = Path(__file__).resolve().parent.parent
TABLES: dict[str, dict[str, Entry]] = {
    "syntax": SYNTAX,
    "check": CHECK,
    "bounds": BOUNDS,
    "planning": PLANNING,
    "python": PYTHON,
    "mlir": MLIR,
    "calls": CALLS,
    "command_line": COMMAND_LINE,
    "testing": TESTING,
}
LATER = 4
"""How many messages may follow one another."""


def sections(page: str) -> dict[str, str]:
    """The text under each code of a page."""
    text = (ROOT / f"docs/errors.d/{page}.md").read_text("utf-8")
    return {part.split("\n", 1)[0].strip(): part for part in text.split("\n### ")[1:]}


def entries() -> list[tuple[str, str, Entry]]:
    """Page, code, what is done."""
    return [(page, code, entry) for page, table in TABLES.items() for code, entry in table.items()] + [*MORE, *EDGES]


def example(page: str, code: str, entry: ByMachine) -> tuple[str, str]:
    """The language and the program that a code is said of."""
    block = re.search(r"^```(lf|python|mlir)\n(.*?)^```$", sections(page)[code], re.M | re.S)
    if entry.program:
        languages = {"python": "python", "mlir": "mlir", "calls": "python", "command_line": "command"}
        if entry.program.startswith("@loopfuse"):
            return "python", entry.program
        return "command" if entry in (INSTANCES, MANY_INSTANCES) else languages.get(page, "lf"), entry.program
    assert block is not None, "no program"
    needs_kernel = block[1] == "lf" and block[2].startswith("func") and "kernel" not in block[2]
    return block[1], block[2] + "kernel k(out o: f32[1]):\n    o[0] = 1.0\n" * needs_kernel


@pytest.mark.parametrize("page", sorted(path.stem for path in (ROOT / "docs/errors.d").glob("*.md")))
def test_every_code_has_an_entry(page: str) -> None:
    assert set(TABLES[page]) == set(sections(page))


def found(page: str, code: str) -> Entry | None:
    """What is done about a code that follows another: that of its page, or of any."""
    tables = (TABLES[page], *TABLES.values())
    return next((table[code] for table in tables if code in table), None)


@pytest.mark.parametrize(
    ("page", "code", "entry"),
    [one for one in entries() if isinstance(one[2], ByMachine)],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_the_fix_works(page: str, code: str, entry: ByMachine) -> None:
    language, text = example(page, code, entry)
    said = diagnose(language, text, code)
    assert said is not None and said.code == code, said
    assert said.fix, "no fix"
    met = [code]
    hand = entry.hand
    while True:
        text = hand(Said(text, said))
        said = diagnose(language, text, code)
        if said is None:
            return
        assert said.code not in met, f"{said}\n{text}"
        met.append(said.code)
        if said.code in entry.then:
            return
        following = found(page, said.code)
        assert isinstance(following, ByMachine) and len(met) <= LATER, f"{said}\n{text}"
        hand = following.hand


def test_reasons_are_given() -> None:
    for _, code, entry in entries():
        if isinstance(entry, ByUser):
            assert len(entry.reason.split()) > 3, code
