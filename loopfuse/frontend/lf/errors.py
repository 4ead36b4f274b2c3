"""Translates the parser's errors into one clear message that points at the place.

The rules of `lf_rules` are asked in order; the first that knows what the user probably meant
answers. Where none does, the message says what was expected, in words.
"""

from __future__ import annotations

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from loopfuse.base.diagnostics import Diagnostic
from loopfuse.frontend.lf.place import Place
from loopfuse.frontend.lf.rules_layout import LAYOUT_RULES
from loopfuse.frontend.lf.rules_ranges import RANGE_RULES
from loopfuse.frontend.lf.rules_words import WORD_RULES


def explain_error(error: UnexpectedInput, text: str, keywords: frozenset[str]) -> Diagnostic:
    """The diagnostic for what Lark refused in `text`."""
    place = _place(error, text, keywords)
    for rule in (*WORD_RULES, *RANGE_RULES, *LAYOUT_RULES):
        diagnostic = rule(place)
        if diagnostic is not None:
            return diagnostic
    return _unexpected(place)


def _place(error: UnexpectedInput, text: str, keywords: frozenset[str]) -> Place:
    if isinstance(error, UnexpectedCharacters):
        return Place(text, "CHARACTER", error.pos_in_stream or 0, frozenset(), keywords)
    assert isinstance(error, UnexpectedToken)
    token: Token = error.token
    accepts = frozenset(error.accepts or ())
    offset = token.start_pos
    if token.type in ("_DEDENT", "$END") and "_NEWLINE" not in str(token.type):
        at_end = token.type == "$END" or offset is None
        offset = len(text) if at_end else offset
    return Place(text, token.type, len(text) if offset is None else offset, accepts, keywords)


_EXPECTED = (
    ("_NEWLINE", "the end of the line"),
    ("_INDENT", "an indented line"),
    ("_DEDENT", "the end of the block"),
    ("COLON", "`:`"),
    ("COMMA", "`,`"),
    ("RPAR", "`)`"),
    ("RSQB", "`]`"),
    ("LPAR", "`(`"),
    ("LSQB", "`[`"),
    ("RANGE", "`..`"),
    ("ARROW", "`->`"),
    ("ASSIGN", "`=`"),
    ("EQUAL", "`=`"),
    ("IN", "`in`"),
    ("ELSE", "`else`"),
    ("RETURN", "`return`"),
    ("FOR", "`for`"),
    ("DOT", "`.`"),
)


def _unexpected(place: Place) -> Diagnostic:
    """Says what was expected, where no rule knows better."""
    what = _what_was_expected(place)
    if place.is_layout:
        return Diagnostic(
            "unexpected-end",
            f"the line ends where {what} should come",
            place.before.after,
            fix="complete the statement, or remove the line",
        )
    return Diagnostic(
        "unexpected-token",
        f"`{place.found.text}` does not fit here",
        place.found.span,
        label=f"expected {what}",
        fix="remove it, or complete what stands before it",
    )


def _what_was_expected(place: Place) -> str:
    if place.wants_item:
        return "`kernel`, `func` or `const`"
    if place.wants_statement:
        return "a statement"
    if place.wants_expression:
        return "an expression"
    words = [words for terminal, words in _EXPECTED if terminal in place.accepts]
    if "NAME" in place.accepts:
        words.insert(0, "a name")
    if place.wants_operator:
        # After an expression nearly anything may follow; what closes it is worth saying.
        words = ["an operator", *[word for word in words if word != "`else`"][:2]]
    words = list(dict.fromkeys(words)) or ["something else"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
