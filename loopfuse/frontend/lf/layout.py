"""Layout: line ends and indentation become tokens, as in Python.

before: NAME = FLOAT _NEWLINE("\\n        ") NAME = FLOAT
after:  NAME = FLOAT _NEWLINE _INDENT NAME = FLOAT _NEWLINE _DEDENT

Line ends inside brackets are dropped. All state lives in the generator, so one parser object
serves many threads. Brackets are counted here too: the parser itself has no depth limit, but the
rooms after it recurse over the tree.
"""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token
from lark.lark import PostLex

from loopfuse.base.diagnostics import Diagnostic, Span, UserError

MAX_NESTING = 200
"""How deep blocks, and brackets, may nest."""

_OPENING = frozenset({"LPAR", "LSQB"})
_CLOSING = frozenset({"RPAR", "RSQB"})


def token_span(token: Token) -> Span:
    """Where `token` stands."""
    line, column = token.line or 1, token.column or 1
    return Span(line, column, token.end_line or line, token.end_column or column + len(token))


class Layout(PostLex):  # pyright: ignore[reportUntypedBaseClass] - lark types it where it is defined only
    """The post-lexer that Lark runs between its lexer and its parser."""

    always_accept = ("_NEWLINE",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens of `stream`, with layout.

        The lexer is contextual, so indentation must be known from the line end alone, before the
        next token is lexed. The text's last character must therefore not be a space.
        """
        levels = [0]
        opening: list[Token] = []
        last: Token | None = None
        for token in stream:
            if token.type == "_NEWLINE":
                if not opening:
                    yield from _line_end(token, levels, first=last is None)
                continue
            if last is None and token.line == 1 and token.column != 1:
                raise UserError(_unexpected_indent(token_span(token)))
            if token.type in _OPENING:
                opening.append(token)
                if len(opening) > MAX_NESTING:
                    raise UserError(_too_deep(token_span(token), "brackets"))
            elif token.type in _CLOSING and opening:
                opening.pop()
            last = token
            yield token
        for _ in levels[1:]:
            yield Token("_DEDENT", "")


def _line_end(newline: Token, levels: list[int], first: bool) -> Iterator[Token]:
    """The line end, and the blocks that the indentation after it opens or closes.

    `first`: no token came before, so there is no line to end.
    """
    margin = str(newline).rsplit("\n", 1)[1]
    if "#" in margin:  # a comment that ends the text: no line follows
        margin = ""
    line = newline.end_line or 1
    width = len(margin)
    here = Span(line, 1, line, width + 1)
    place = Token.new_borrow_pos("_NEWLINE", "", newline)
    place.line, place.column = line, width + 1
    if "\t" in margin:
        span = Span(line, margin.index("\t") + 1, line, margin.rindex("\t") + 2)
        raise UserError(
            Diagnostic(
                "tab-indentation",
                "this line is indented with a tab",
                span,
                fix="indent with 4 spaces for each level",
            )
        )
    if first:
        if width:
            raise UserError(_unexpected_indent(here))
        return
    yield newline
    if width > levels[-1]:
        levels.append(width)
        if len(levels) > MAX_NESTING + 1:
            raise UserError(_too_deep(here, "blocks"))
        yield Token.new_borrow_pos("_INDENT", "", place)
        return
    open_levels = tuple(levels)
    while width < levels[-1]:
        levels.pop()
        yield Token.new_borrow_pos("_DEDENT", "", place)
    if width != levels[-1]:
        raise UserError(_bad_indentation(here, width, open_levels))


def _unexpected_indent(span: Span) -> Diagnostic:
    return Diagnostic(
        "unexpected-indent",
        "this line is indented, but no block starts here",
        span,
        fix="start the line at the first column",
    )


def _bad_indentation(span: Span, width: int, levels: tuple[int, ...]) -> Diagnostic:
    near = ", ".join(str(level) for level in levels)
    return Diagnostic(
        "bad-indentation",
        f"this line is indented by {width} spaces, which matches no block around it",
        span,
        notes=(f"the blocks open above it are indented by {near}",),
        fix="give it the indentation of the block it belongs to",
    )


def _too_deep(span: Span, what: str) -> Diagnostic:
    return Diagnostic(
        "nesting-too-deep",
        f"{what} are nested more than {MAX_NESTING} deep",
        span,
        fix="name an inner part with `let`, or move it into a `func`"
        if what == "brackets"
        else "move inner loops into one header: `for i in 0..N, j in 0..M:`",
    )


__all__ = ["MAX_NESTING", "Layout", "token_span"]
