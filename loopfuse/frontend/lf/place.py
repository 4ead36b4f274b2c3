"""Where the parser stopped, in terms a message can be made of: words, lines and open brackets.

The error rules look at words of the text around the place, not at the parser's state: the text is
what the user wrote, also where the lexer saw no token of ours in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from loopfuse.base.diagnostics import Span

_WORD = re.compile(
    r"[A-Za-z_]\w*"
    r"|[0-9]\w*(?:\.[0-9]\w*(?:(?<=[eE])[-+][0-9]+)?)?"
    r"|\*\*=|//=|<<=|>>=|===|\.\.\.|\.\.=|\*\*|//|<<|>>|->|<>|&&|\|\||\+\+|--|\.\.|:=|=>|=<"
    r"|[-+*/%&|^=!<>]="
    r"|\S"
)

_DEPTH = {"(": 1, "[": 1, ")": -1, "]": -1}


@dataclass(frozen=True, slots=True)
class Word:
    """A word or sign of the text, and where it stands (1-based line and column)."""

    text: str
    line: int
    column: int
    starts_line: bool
    offset: int

    @property
    def span(self) -> Span:
        """Its place."""
        return Span(self.line, self.column, self.line, self.column + len(self.text))

    @property
    def after(self) -> Span:
        """The place just behind it: where something is missing."""
        column = self.column + len(self.text)
        return Span(self.line, column, self.line, column + 1)

    @property
    def is_name(self) -> bool:
        """Whether it is spelled as a name (keywords are too)."""
        return self.text[0] == "_" or self.text[0].isalpha()

    @property
    def is_number(self) -> bool:
        """Whether it starts with a digit."""
        return self.text[0].isdigit()


NO_WORD = Word("\n", 0, 0, True, 0)
"""Stands for the words before the first and after the last."""


def split_words(text: str) -> tuple[Word, ...]:
    """The words of `text`, without comments."""
    words: list[Word] = []
    offset = 0
    for number, line in enumerate(text.split("\n"), 1):
        code = line.split("#", 1)[0]
        matches = _WORD.finditer(code)
        for count, match in enumerate(matches):
            start = match.start()
            words.append(Word(match.group(), number, start + 1, count == 0, offset + start))
        offset += len(line) + 1
    return tuple(words)


@dataclass(frozen=True)
class Place:
    """Where the parser stopped.

    `kind` is the type of the token it refused (a terminal of the grammar; `CHARACTER` where no
    token starts), `accepts` the terminals it would have taken, `offset` where in the text.
    """

    text: str
    kind: str
    offset: int
    accepts: frozenset[str]
    keywords: frozenset[str]

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """All words of the text."""
        return split_words(self.text)

    @cached_property
    def index(self) -> int:
        """The number of the word at the place; of the next one where it is a line end."""
        for index, word in enumerate(self.words):
            if self.offset < word.offset + len(word.text):
                return index
        return len(self.words)

    def word_at(self, step: int) -> Word:
        """The word `step` after the place; NO_WORD past either end."""
        index = self.index + step
        return self.words[index] if 0 <= index < len(self.words) else NO_WORD

    @property
    def found(self) -> Word:
        """The word at the place, or the first after it."""
        return self.word_at(0)

    @property
    def before(self) -> Word:
        """The word before the place."""
        return self.word_at(-1)

    @property
    def is_layout(self) -> bool:
        """Whether the parser stopped at a line end, an indentation or the end of the text."""
        return self.kind in ("_NEWLINE", "_INDENT", "_DEDENT", "$END")

    @cached_property
    def line_start(self) -> int:
        """The number of the first word of the line that the place, or the word before it, is on:
        a line goes on in the next one where a bracket is open."""
        last = self.index - 1 if self.is_layout else min(self.index, len(self.words) - 1)
        start = depth = 0
        for index, word in enumerate(self.words[: last + 1]):
            if word.starts_line and depth == 0:
                start = index
            depth = max(depth + _DEPTH.get(word.text, 0), 0)
        return start

    @property
    def line_words(self) -> tuple[str, ...]:
        """The words of that line up to the place, as text."""
        return tuple(word.text for word in self.words[self.line_start : self.index])

    @property
    def row_words(self) -> tuple[str, ...]:
        """The words before the place in its row of the text, whatever is open."""
        start = self.row_start(self.index)
        return tuple(word.text for word in self.words[start : self.index])

    def row_start(self, index: int) -> int:
        """The number of the first word in the row of word `index`."""
        while index > 0 and not (index < len(self.words) and self.words[index].starts_line):
            index -= 1
        return index

    @property
    def first(self) -> Word:
        """The first word of that line."""
        return self.words[self.line_start] if self.words else NO_WORD

    @cached_property
    def opening(self) -> tuple[Word, ...]:
        """The brackets open at the place, outermost first."""
        stack: list[Word] = []
        for word in self.words[: self.index]:
            if _DEPTH.get(word.text) == 1:
                stack.append(word)
            elif word.text in _DEPTH and stack:
                stack.pop()
        return tuple(stack)

    @property
    def wants_expression(self) -> bool:
        """Whether an expression could stand here."""
        return {"LPAR", "NAME", "INTEGER"} <= self.accepts

    @property
    def wants_statement(self) -> bool:
        """Whether a statement could stand here."""
        return {"LET", "FOR", "NAME"} <= self.accepts

    @property
    def wants_item(self) -> bool:
        """Whether a kernel could start here."""
        return "KERNEL" in self.accepts

    @property
    def wants_operator(self) -> bool:
        """Whether an expression has just ended."""
        return "MULTIPLY" in self.accepts

    def rest_of_line(self, index: int) -> str:
        """The text from word `index` to the end of its line, without a comment."""
        word = self.words[index]
        line = self.text.split("\n")[word.line - 1]
        return line.split("#", 1)[0][word.column - 1 :].rstrip()
