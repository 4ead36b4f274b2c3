"""Error rules about words and signs: names, numbers, operators, brackets.

Each rule looks at a `Place` and answers with a diagnostic if it recognises the mistake.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from loopfuse.base.diagnostics import Diagnostic, Label, Span
from loopfuse.frontend.lf.place import NO_WORD, Place, Word

Rule = Callable[[Place], Diagnostic | None]

_CHARACTERS = {
    ";": ("semicolon", "`;` does not end statements here", "end the line instead"),
    "!": ("unknown-operator", "`!` is not an operator", "write `not`"),
    "?": ("unknown-operator", "`?` is not an operator", "write `a if condition else b`"),
    "@": ("unknown-operator", "`@` is not an operator",
          "write the sum out: `sum(k in 0..K: a[i, k] * b[k, j])`"),
    "{": ("curly-bracket", "blocks are not put in `{ }`", "end the header in `:` and indent"),
    "}": ("curly-bracket", "blocks are not put in `{ }`", "end the header in `:` and indent"),
    '"': ("string-literal", "there are no strings in this language", "start a comment with `#`"),
    "'": ("string-literal", "there are no strings in this language", "start a comment with `#`"),
    "\\": ("line-continuation", "`\\` does not continue a line",
           "put the expression in brackets: lines continue inside them"),
}  # fmt: skip

_LOOKALIKES = {
    "×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "—": "-", "…": "..", "≤": "<=", "≥": ">=",
    "≠": "!=", "π": "pi", "∞": "inf", "“": "", "”": "", "∧": "and", "∨": "or", "¬": "not",
    "→": "->", "\u00a0": " ", "²": "**2", "³": "**3",
}  # fmt: skip


def bad_character(place: Place) -> Diagnostic | None:
    """No token starts with this character."""
    if place.kind != "CHARACTER":
        return None
    character = place.text[place.offset]
    line = place.text.count("\n", 0, place.offset) + 1
    column = place.offset - place.text.rfind("\n", 0, place.offset)
    span = Span(line, column, line, column + 1)
    if place.found.text in _OPERATORS:
        return _unknown_operator(place.found)
    if character == "@" and place.found.starts_line:
        message = "there are no decorators"
        return Diagnostic("unknown-statement", message, span, fix="remove it")
    if character in "{}" and place.first.text == "const":
        message = "tables are not put in `{ }`"
        return Diagnostic("curly-bracket", message, span, fix="write `[1, 2, 3]`")
    if character in _CHARACTERS:
        code, message, fix = _CHARACTERS[character]
        return Diagnostic(code, message, span, fix=fix)
    if character == "\r":
        message = "a carriage return stands here without a line feed"
        return Diagnostic("bad-character", message, span, fix="end lines in LF or CR LF")
    name = unicodedata.name(character, f"U+{ord(character):04X}")
    shown = character if character.isprintable() else f"\\u{ord(character):04x}"
    what = f"`{shown}` ({name})" if ord(character) > 126 else f"`{shown}`"
    if character.isalpha() and character not in _LOOKALIKES:
        message, fix = f"{what} cannot stand in a name", "names are made of a-z A-Z 0-9 and _"
    else:
        message, fix = f"{what} has no meaning here", ""
        if character in _LOOKALIKES:
            put = _LOOKALIKES[character]
            fix = f"write `{put}`" if put.strip() else "write a plain space" if put else "remove it"
    return Diagnostic("bad-character", message, span, fix=fix)


_OPERATORS = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "++": "write `x += 1`",
    "--": "write `x -= 1`",
    "<>": "write `!=`",
    "===": "write `==`",
    ":=": "write `=`",
    "=>": "write `>=`",
    "=<": "write `<=`",
    "//=": "write it out: `x = x // y`",
    "%=": "write it out: `x = x % y`",
    "**=": "write it out: `x = x ** y`",
    "<<=": "write it out: `x = x << y`",
    ">>=": "write it out: `x = x >> y`",
}


def unknown_operator(place: Place) -> Diagnostic | None:
    """An operator of another language."""
    found, before = place.found, place.before
    if not place.is_layout and found.text == "=>" and "ARROW" in place.accepts:
        message = "`=>` is not an operator"
        return Diagnostic("unknown-operator", message, found.span, fix="write `->`")
    if not place.is_layout and found.text in _OPERATORS:
        return _unknown_operator(found)
    if before.text in ("++", "--") and (place.is_layout or found.text in (")", "]")):
        return _unknown_operator(before)
    return None


def _unknown_operator(word: Word) -> Diagnostic:
    message = f"`{word.text}` is not an operator"
    return Diagnostic("unknown-operator", message, word.span, fix=_OPERATORS[word.text])


def bad_number(place: Place) -> Diagnostic | None:
    """A number the lexer saw only the first part of, or a dot without digits on both sides."""
    found, before = place.found, place.before
    if place.is_layout or place.kind == "CHARACTER":
        return None
    if found.text == "." and before.is_number and before.after.column == found.column:
        fix = f"write `{before.text}.0`"
        whole = Span(before.line, before.column, found.line, found.column + 1)
        return Diagnostic(
            "float-digits", "a float has digits on both sides of its dot", whole, fix=fix
        )
    following = place.word_at(1)
    if found.text == "." and following.is_number and following.offset == found.offset + 1:
        fix = f"write `0.{following.text}`"
        whole = found.span.to(following.span)
        return Diagnostic(
            "float-digits", "a float has digits on both sides of its dot", whole, fix=fix
        )
    if not (found.is_number and place.offset > found.offset):
        return None
    text = found.text
    notes: tuple[str, ...] = ()
    if match := re.fullmatch(r"([0-9]+\.[0-9]+|[0-9]+)(f|F|h|d|l|L|u|U|ul|UL|f32|f64)", text):
        fix = f"write `{match[1]}`"
        notes = ("a number takes the type of what stands beside it; a cast is `f32(x)`",)
    elif match := re.fullmatch(r"0[bBoO]([0-7]+)", text):
        fix = f"write `{hex(int(text, 0))}`" if _is_int(text) else ""
    elif re.fullmatch(r"0[0-9_]+", text):
        fix = f"write `{text.lstrip('0_') or '0'}`"
    elif match := re.fullmatch(r"([1-9][0-9]*)([A-Za-z]\w*)", text):
        fix = f"write `{match[1]} * {match[2]}` if a product is meant"
    else:
        fix = "write digits, with single `_` between them if you like"
    return Diagnostic("bad-number", f"`{text}` is not a number", found.span, notes=notes, fix=fix)


def _is_int(text: str) -> bool:
    try:
        int(text, 0)
    except ValueError:
        return False
    return True


_PROPOSALS = {
    "in": "input", "out": "output", "inout": "state", "step": "stride", "temp": "scratch",
    "var": "variance", "let": "value", "const": "constant", "func": "function", "if": "condition",
    "return": "result", "pi": "angle", "inf": "infinity", "nan": "missing", "true": "yes",
    "false": "no", "kernel": "weights", "for": "count", "swap": "swapped", "fuse": "fused",
    "parallel": "in_parallel", "assume": "assumed", "else": "other", "and": "both", "or": "either",
    "not": "negated", "elif": "other", "nofuse": "unfused",
}  # fmt: skip


_ONLY_NAME = frozenset({"NAME"})


def keyword_as_name(place: Place) -> Diagnostic | None:
    """A reserved word where a name is declared or used."""
    found, before, following = place.found, place.before, place.word_at(1)
    if place.is_layout:
        return None
    acts_as_name = following.text in ("=", "[", ".", "+=", "-=", "*=", "/=", "min", "max")
    if found.text in place.keywords:
        modes = ("in", "out", "inout")
        if found.text in modes and before.text in modes and following.text != ":":
            return None  # twice a mode: another rule
        declared = "NAME" in place.accepts and not place.wants_expression
        if declared and not (place.wants_statement or place.wants_item):
            return _keyword_as_name(found)
        statement = place.wants_statement or found.starts_line
        if statement and acts_as_name and found.line == following.line:
            return _keyword_as_name(found)
        words_of_expressions = ("if", "else", "and", "or", "not", "for", "return")
        if place.wants_expression and found.text not in words_of_expressions:
            return _keyword_as_name(found)
    if found.text == ":" and before.text in ("in", "out", "inout") and place.accepts == _ONLY_NAME:
        return _keyword_as_name(before)
    starts = before.starts_line and before.text in place.keywords and found.line == before.line
    assigns = found.text in ("=", "[", ".", "+=", "-=", "*=")
    if starts and assigns and before.text not in ("else", "return", "if", "elif"):
        return _keyword_as_name(before)
    return None


def _keyword_as_name(word: Word) -> Diagnostic:
    return Diagnostic(
        "keyword-as-name",
        f"`{word.text}` is a reserved word and cannot be a name",
        word.span,
        fix=f"call it something else, such as `{_PROPOSALS.get(word.text, word.text + '_value')}`",
    )


def duplicate_mode(place: Place) -> Diagnostic | None:
    """`out out y`, `in out y`."""
    found, before = place.found, place.before
    modes = ("in", "out", "inout")
    if place.is_layout or found.text not in modes or before.text not in modes:
        return None
    same = found.text == before.text
    fix = f"write `{found.text}` once" if same else "write `inout` for an array read and written"
    return Diagnostic(
        "duplicate-mode",
        "a parameter has one of `in`, `out` and `inout`",
        found.span,
        labels=(Label(before.span, "the first is here"),),
        fix=fix,
    )


def misplaced_word(place: Place) -> Diagnostic | None:
    """`a: out f32[N]`, `const S: i64` as a parameter, `func` in a kernel, `for` behind a `:`."""
    found, before, first = place.found, place.before, place.first
    if place.is_layout:
        return None
    in_header = first.text in ("kernel", "func") and bool(place.opening)
    if in_header and found.text in ("in", "out", "inout") and before.text == ":":
        name = place.word_at(-2).text
        message = f"`{found.text}` stands before the parameter's name"
        fix = f"write `{found.text} {name}: ...`"
        return Diagnostic("misplaced-word", message, found.span, fix=fix)
    following = place.word_at(1)
    if in_header and found.text == "const" and following.is_name and before.text in ("(", ","):
        message = "`const` stands before the parameter's type"
        fix = f"write `{following.text}: const i64`"
        return Diagnostic("misplaced-word", message, found.span, fix=fix)
    if found.text in ("kernel", "func", "const") and place.wants_statement and following.is_name:
        message = f"a `{found.text}` stands outside of kernels"
        fix = "move it to the first column"
        return Diagnostic("misplaced-word", message, found.span, fix=fix)
    starts_block = found.text in ("for", "if", "parallel", "fuse", "nofuse")
    if starts_block and before.text == ":" and not found.starts_line:
        message = f"a `{found.text}` starts a line of its own"
        fix = "move it to the next line, indented by 4 spaces more"
        if found.text in ("for", "parallel") and first.text in ("for", "parallel"):
            fix = "put both iterators in one header: `for i in a..b, j in c..d:`"
        return Diagnostic("header-on-line", message, found.span, fix=fix)
    return None


_STATEMENT_WORDS = frozenset(
    {"kernel", "func", "const", "for", "let", "var", "temp", "swap", "assume", "fuse", "nofuse"}
    | {"parallel", "return", "elif"}
)


def brackets(place: Place) -> Diagnostic | None:
    """A bracket that is not closed, closes nothing, or closes one of the other kind."""
    found = place.found
    closes = not place.is_layout and found.text in (")", "]")
    if not place.opening:
        if closes:
            message = f"`{found.text}` closes no bracket"
            return Diagnostic("unopened-bracket", message, found.span, fix="remove it")
        return None
    opening = place.opening[-1]
    wanted = {"(": ")", "[": "]"}[opening.text]
    label = Label(opening.span, "opened here")
    if closes and found.text != wanted:
        message = f"`{found.text}` does not close `{opening.text}`"
        fix = f"write `{wanted}`"
        return Diagnostic("mismatched-bracket", message, found.span, labels=(label,), fix=fix)
    if not _runs_on(place, opening, wanted):
        return None
    return Diagnostic(
        "unclosed-bracket",
        f"`{opening.text}` is never closed",
        opening.span,
        fix=f"close it with `{wanted}`",
    )


def _runs_on(place: Place, opening: Word, wanted: str) -> bool:
    """Whether the text from `opening` on reads as if its bracket should have been closed."""
    found = place.found
    if place.is_layout or found is NO_WORD:
        return True
    if found.starts_line and found.line > opening.line:
        return found.text in _STATEMENT_WORDS or place.wants_operator or _takes(wanted, place)
    if found.text in ("=", "+=", "-=", "*=", "/="):
        starts = re.fullmatch(r"\w+(?: \[.*)?", " ".join(place.row_words)) is not None
        return opening.text == "[" or (starts and found.line > opening.line)
    if found.text == ":" and wanted in "])":
        return wanted not in place.rest_of_line(place.index) and _takes(wanted, place)
    return False


def _takes(wanted: str, place: Place) -> bool:
    """Whether the parser would take the closing bracket `wanted` at `place`."""
    return {")": "RPAR", "]": "RSQB"}[wanted] in place.accepts


WORD_RULES: tuple[Rule, ...] = (
    bad_character,
    bad_number,
    duplicate_mode,
    brackets,
    misplaced_word,
    keyword_as_name,
    unknown_operator,
)
