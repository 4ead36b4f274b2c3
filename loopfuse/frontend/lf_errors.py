"""Translates the parser's errors into one clear message that points at the place."""

from __future__ import annotations

from lark import Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from loopfuse.base.diagnostics import Diagnostic, Span
from loopfuse.frontend.lf_layout import token_span


def explain_error(error: UnexpectedInput, text: str) -> Diagnostic:
    """The diagnostic for what Lark refused in `text`."""
    if isinstance(error, UnexpectedToken):
        token: Token = error.token
        return Diagnostic("unexpected-token", f"`{token}` does not fit here", token_span(token))
    assert isinstance(error, UnexpectedCharacters)
    line, column = error.line, error.column
    return Diagnostic(
        "bad-character", "this character has no meaning here", Span(line, column, line, column + 1)
    )
