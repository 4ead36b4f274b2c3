"""The scanner finds the tokens that lark's own finds, in texts and in what is no text of the language."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lark import Lark, UnexpectedInput

from loopfuse.base.diagnostics import UserError
from loopfuse.frontend.lf.door import lark_options, parser
from loopfuse.frontend.lf.grammar_file import find_grammar
from tests.case_files import CASES
from tests.case_files import EXAMPLES as FOLDER

EXAMPLES = sorted(FOLDER.glob("*.lf"))
SIGNS = "=<>!*/.-+|&^~()[],:#%01_xe \n\té²\u0660"


def larks_own() -> Lark:
    """The parser with lark's scanner."""
    return Lark(find_grammar().read_text("utf-8"), **{**lark_options(), "_plugins": {}})


def read(which: Lark, text: str) -> list[tuple[str, str, int | None, int | None]] | str:
    """The tokens that reach the parser, or what is wrong."""
    found: list[tuple[str, str, int | None, int | None]] = []
    interactive = which.parse_interactive(text.rstrip(" \t\r\n\f") + "\n")
    try:
        for token in interactive.iter_parse():
            found.append((token.type, str(token), token.line, token.end_column))
    except UnexpectedInput as error:
        allowed = getattr(error, "allowed", None) or getattr(error, "expected", None) or ()
        return f"{type(error).__name__} {error.line}:{error.column} {sorted(allowed)}"
    except UserError as error:
        return str(error)
    return found


@pytest.fixture(scope="module")
def plain() -> Lark:
    """Built once."""
    return larks_own()


@pytest.mark.parametrize("path", [*EXAMPLES[:2], *EXAMPLES[-1:]], ids=lambda path: path.stem)
def test_examples(path: Path, plain: Lark) -> None:
    text = path.read_text()
    assert read(parser(), text) == read(plain, text)


@pytest.mark.parametrize("seed", range(3))
def test_texts_that_were_damaged(seed: int, plain: Lark) -> None:
    rng = random.Random(seed)
    for path in rng.sample([*EXAMPLES, *sorted(CASES.glob("*.lf"))], 4):
        text = list(path.read_text()[:1500])
        for _ in range(rng.randint(1, 2)):
            text[rng.randrange(len(text))] = rng.choice(SIGNS)
        damaged = "".join(text)
        assert read(parser(), damaged) == read(plain, damaged), path.name
