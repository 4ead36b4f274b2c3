"""The `.lf` door: text to surface tree.

`parse` is the whole interface. The syntax is in `grammar/loopfuse.lark`; around it stand
`lf_layout` (indentation), `lf_transform` (the tree) and `lf_errors` (what went wrong, in words).
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import cast

from lark import Lark, UnexpectedInput

from loopfuse.base.diagnostics import Source, UserError
from loopfuse.frontend.lf.depth import check_depth
from loopfuse.frontend.lf.errors import explain_error
from loopfuse.frontend.lf.grammar_file import find_grammar
from loopfuse.frontend.lf.layout import Layout
from loopfuse.frontend.lf.scanner import StateLexer
from loopfuse.frontend.lf.tables import read_tables
from loopfuse.frontend.lf.transform import BuildSyntax
from loopfuse.lang.surface.syntax import Const, Func, Kernel, Module

Items = tuple[Func | Const | Kernel, ...]


def parse(source: Source) -> Module:
    """The surface tree of a `.lf` text; UserError with one diagnostic where it is not `.lf`.

    A byte order mark is dropped: `Module.source` is the text that spans count in.
    """
    source = replace(source, text=source.text.removeprefix("\ufeff"))
    try:
        # The layout pass needs the text to end in a line end and nothing after it.
        result: object = parser().parse(source.text.rstrip(" \t\r\n\f") + "\n")
        module = Module(cast(Items, result), source, find_comments(source.text))
        check_depth(module)
        return module
    except UnexpectedInput as error:
        diagnostic = explain_error(error, source.text, keywords())
        raise UserError(replace(diagnostic, source=source)) from None
    except UserError as error:
        placed = (replace(diagnostic, source=source) for diagnostic in error.diagnostics)
        raise UserError(*placed) from None


@functools.cache
def parser() -> Lark:
    """The one parser object. It keeps no state between or during parses."""
    place = find_grammar()
    grammar = place.read_text(encoding="utf-8")
    tables = read_tables(place, grammar)
    if tables is None:
        return build_parser(grammar)
    options = lark_options()
    # As the parsers that `lark.tools.standalone` writes load theirs.
    return Lark._load_from_dict(  # pyright: ignore[reportPrivateUsage] (lark's own way)
        *tables, postlex=options["postlex"], transformer=options["transformer"], _plugins=options["_plugins"]
    )


def build_parser(grammar: str) -> Lark:
    """The parser, made from the grammar's text."""
    return Lark(grammar, **lark_options())


@functools.cache
def keywords() -> frozenset[str]:
    """The reserved words, read off the grammar."""
    patterns = (terminal.pattern.value for terminal in parser().terminals)
    return frozenset(value[:-2] for value in patterns if re.fullmatch(r"[a-z]+\\b", value))


def lark_options() -> dict[str, object]:
    """How the grammar is to be used: shared with the test that looks for conflicts."""
    return {
        "parser": "lalr",
        "lexer": "contextual",
        "postlex": Layout(),
        "transformer": BuildSyntax(),
        "maybe_placeholders": True,
        "_plugins": {"ContextualLexer": StateLexer},
    }


def find_comments(text: str) -> tuple[tuple[int, str], ...]:
    """The comments as (1-based line, text from `#` on). The language has no strings, so every `#`
    starts a comment."""
    return tuple(
        (number, match.group().rstrip())
        for number, line in enumerate(text.split("\n"), 1)
        if (match := re.search("#.*", line))
    )
