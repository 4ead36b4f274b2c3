"""How the lexer finds the token at a place: the terminals that may stand there are tried one after the other.

lark joins those of each state of the parser into one regular expression. To compile these, some twenty for a short
text, takes longer than to read it; here each terminal is compiled once, when first tried, and words and signs never.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from lark.lexer import BasicLexer, ContextualLexer, PatternStr, TerminalDef
from lark.lexer import _create_unless as create_unless  # pyright: ignore[reportPrivateUsage] (lark's own part)

Find = Callable[[str, int], str | None]
"""The token that a terminal has at a place of a text, if it has one there."""


class Scanner:
    """The terminals of one state, in lark's order: the first that matches is the one."""

    def __init__(self, terminals: Sequence[TerminalDef]) -> None:
        self.allowed_types = {terminal.name for terminal in terminals}
        self._terminals = terminals
        self._by_first: dict[str, list[tuple[str, Find]]] = {}

    def match(self, text: Any, pos: int) -> tuple[str, str] | None:
        """The token at a place of a text (of lark 1.3 on, of a slice of it), and its terminal."""
        whole: str = text if isinstance(text, str) else text.text
        first = whole[pos]
        finds = self._by_first.get(first)
        if finds is None:
            finds = [(each.name, _find_of(each)) for each in self._terminals if _may_start(each, first)]
            self._by_first[first] = finds
        for name, find in finds:
            found = find(whole, pos)
            if found is not None:
                return found, name
        return None


class Lexer(BasicLexer):
    """lark's, with this scanner. The texts that it reads end where their slice ends."""

    def _build_scanner(self) -> Any:
        words = [each for each in self.terminals if _word_of(each)]  # no sign is a word
        others = [each for each in self.terminals if not _word_of(each)]
        kept, self.callback = create_unless(others, self.g_regex_flags, self.re, self.use_bytes)
        known = {each.name for each in (*words, *kept)}
        made: Any = Scanner([each for each in self.terminals if each.name in known])
        self._scanner = made  # lark 1.2 looks for it here
        return made


class StateLexer(ContextualLexer):
    """lark's lexer that knows the parser's state, with this scanner in each."""

    BasicLexer = Lexer


def _word_of(terminal: TerminalDef) -> str:
    """The word that a terminal is, and nothing else; "" for any other."""
    pattern = terminal.pattern
    word = pattern.value.removesuffix("\\b")
    is_word = word != pattern.value and word.isascii() and word.isalpha() and not pattern.flags
    return word if is_word else ""


def _sign_of(terminal: TerminalDef) -> str:
    """The characters that a terminal is, whatever stands around them; "" for any other."""
    pattern = terminal.pattern
    return pattern.value if isinstance(pattern, PatternStr) and not pattern.flags else ""


def _may_start(terminal: TerminalDef, character: str) -> bool:
    """May a token of the terminal start with a character?"""
    text = _word_of(terminal) or _sign_of(terminal)
    return not text or text[0] == character


def _find_of(terminal: TerminalDef) -> Find:
    if word := _word_of(terminal):
        return functools.partial(_find_word, word)
    if sign := _sign_of(terminal):
        return functools.partial(_find_sign, sign)
    return _find_expression(terminal.pattern.to_regexp())


def _find_word(word: str, text: str, pos: int) -> str | None:
    if not text.startswith(word, pos):
        return None
    after = text[pos + len(word) : pos + len(word) + 1]
    return None if after.isalnum() or after == "_" else word


def _find_sign(sign: str, text: str, pos: int) -> str | None:
    return sign if text.startswith(sign, pos) else None


@functools.cache
def _find_expression(expression: str) -> Find:
    compiled: list[re.Pattern[str]] = []

    def find(text: str, pos: int) -> str | None:
        if not compiled:
            compiled.append(re.compile(expression))
        found = compiled[0].match(text, pos)
        return found.group() if found else None

    return find
