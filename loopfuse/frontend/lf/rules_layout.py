"""Error rules about statements: headers, ranges, assignments, blocks, items.

Each rule looks at a `Place` and answers with a diagnostic if it recognises the mistake.
"""

from __future__ import annotations

import difflib

from loopfuse.base.diagnostics import Diagnostic, Label, Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.lf.place import Place, Word
from loopfuse.frontend.lf.rules_words import Rule
from loopfuse.frontend.lf.transform import EDGE_MODES

_DTYPES = frozenset(dtype.value for dtype in DType)
_HEADERS = frozenset({"kernel", "func", "for", "if", "elif", "else", "parallel", "fuse", "nofuse"})

_ONLY_INDENT = frozenset({"_INDENT"})
_ONLY_DEDENT = frozenset({"_DEDENT"})
_ONLY_BRACKET = frozenset({"LSQB"})


def equals(place: Place) -> Diagnostic | None:
    """`=` where it cannot assign."""
    found = place.found
    if place.is_layout or found.text != "=":
        return None
    words = place.line_words
    if place.opening and words[0] in ("kernel", "func"):
        message = "parameters have no default values"
        fix = "remove the value, and give it in the call"
        return Diagnostic("default-value", message, found.span, fix=fix)
    if place.opening and place.opening[-1].text == "(":
        return Diagnostic(
            "keyword-argument",
            "arguments are given by position, and `=` compares nothing",
            found.span,
            fix="write `==` to compare, or the value alone as an argument",
        )
    if words and words[0] in ("if", "elif", "assume"):
        message = "`=` assigns; a condition compares with `==`"
        return Diagnostic("assignment-in-condition", message, found.span, fix="write `==`")
    if "=" in words:
        message = "a statement assigns once"
        fix = "write one assignment a line, or `==` to compare"
        return Diagnostic("chained-assignment", message, found.span, fix=fix)
    return None


_FOREIGN_STATEMENTS = {
    "while": ("there is no `while`", "loop over a range: `for i in a..b:`"),
    "def": ("there is no `def`", "write `kernel name(...):`, or `func name(...) -> f32:`"),
    "fn": ("there is no `fn`", "write `kernel name(...):`, or `func name(...) -> f32:`"),
    "void": ("there is no `void`", "write `kernel name(...):`"),
    "function": ("there is no `function`", "write `func name(...) -> f32:`"),
    "print": ("there is no `print`", "store what you want to see in an `out` array"),
    "break": ("there is no `break`", "guard the rest of the loop with an `if`"),
    "continue": ("there is no `continue`", "guard the rest of the loop with an `if`"),
    "pass": ("there is no `pass`", "leave the block out"),
    "import": ("there is no `import`", "one file is one program"),
    "from": ("there is no `import`", "one file is one program"),
    "assert": ("there is no `assert`", "write `assume condition`"),
    "return": ("a kernel returns nothing", "store the result in an `out` array"),
    "foreach": ("there is no `foreach`", "write `for i in a..b:`"),
    "switch": ("there is no `switch`", "write `if`, `elif` and `else`"),
    "match": ("there is no `match`", "write `if`, `elif` and `else`"),
}


def statements(place: Place) -> Diagnostic | None:
    """A statement of another language, or one that is misspelt."""
    first, found = place.first, place.found
    offset_in_line = place.index - place.line_start
    if place.opening or offset_in_line > 2:
        return None
    if not place.is_layout and found.text == "return" and place.wants_statement:
        message, fix = _FOREIGN_STATEMENTS["return"]
        return Diagnostic("return-in-kernel", message, found.span, fix=fix)
    if first.text in _FOREIGN_STATEMENTS and first.text != "return":
        message, fix = _FOREIGN_STATEMENTS[first.text]
        return Diagnostic("unknown-statement", message, first.span, fix=fix)
    if place.is_layout or offset_in_line == 0:
        return None
    if offset_in_line == 1 and first.text in _DTYPES and found.is_name:
        message = "a variable is declared with `let` or `var`"
        fix = f"write `let {found.text}: {first.text} = ...`, or `var` if it changes"
        return Diagnostic("type-first", message, first.span, fix=fix)
    if offset_in_line == 1 and found.text == ":" and "ASSIGN" in place.accepts:
        message = "a variable is declared with `let` or `var`"
        fix = f"write `let {first.text}: ...`, or `var` if it changes"
        return Diagnostic("missing-let", message, first.span, fix=fix)
    if offset_in_line == 1 and found.text == "(" and "ASSIGN" in place.accepts:
        message = "a call alone does nothing: functions only return values"
        fix = "assign the result"
        return Diagnostic("call-statement", message, first.span, fix=fix)
    if offset_in_line == 1 and first.is_name and found.is_name and "ASSIGN" in place.accepts:
        guess = difflib.get_close_matches(first.text, sorted(place.keywords), 1, 0.6)
        if guess:
            message = f"`{first.text}` starts no statement"
            fix = f"did you mean `{guess[0]}`?"
            return Diagnostic("unknown-statement", message, first.span, fix=fix)
    return None


def _last_let(place: Place) -> str:
    """The name that the `let` before the place declares; else `x`."""
    for index in range(place.index - 1, 0, -1):
        if place.words[index - 1].text == "let":
            return place.words[index].text
        if place.words[index].text in ("func", "kernel"):
            break
    return "x"


def tuple_assignment(place: Place) -> Diagnostic | None:
    """`a, b = b, a`"""
    if place.is_layout or place.found.text != "," or "ASSIGN" not in place.accepts:
        return None
    left, right = place.before.text, place.word_at(1).text
    exchanges = [place.word_at(k).text for k in range(2, 6)] == ["=", right, ",", left]
    names = f"{left}, {right}" if exchanges else "a, b"
    return Diagnostic(
        "tuple-assignment",
        "a statement assigns to one place",
        place.found.span,
        fix=f"write one assignment a line; two arrays are exchanged by `swap {names}`",
    )


def items(place: Place) -> Diagnostic | None:
    """Something at the first column that is no item."""
    found = place.found
    if place.is_layout or not place.wants_item:
        return None
    if found.text in ("else", "elif"):
        return None
    if found.text in place.keywords:
        return Diagnostic(
            "statement-outside",
            f"`{found.text}` stands outside of any kernel",
            found.span,
            fix="indent it under a `kernel name(...):`, or declare a `const`",
        )
    guess = difflib.get_close_matches(found.text, ("kernel", "func", "const"), 1, 0.6)
    return Diagnostic(
        "unknown-item",
        f"`{found.text}` starts neither a `kernel`, a `func` nor a `const`",
        found.span,
        fix=f"did you mean `{guess[0]}`?" if guess else "indent it under a `kernel name(...):`",
    )


def headers(place: Place) -> Diagnostic | None:
    """Headers of kernels, functions, loops and conditions."""
    found, before, first = place.found, place.before, place.first
    accepts = place.accepts
    if not place.is_layout:
        if found.text == "->" and "COLON" in accepts:
            message, fix = _FOREIGN_STATEMENTS["return"]
            return Diagnostic("kernel-result", message, found.span, fix=fix)
        if found.text == ":" and "ARROW" in accepts:
            message = "a `func` says what type it returns"
            fix = "write `) -> f32:`"
            return Diagnostic("missing-result-type", message, found.span, fix=fix)
        if before.text == "else" and found.text == "if":
            message = "`else if` is one word"
            whole = before.span.to(found.span)
            return Diagnostic("else-if", message, whole, fix="write `elif`")
        if found.text in ("else", "elif") and (place.wants_statement or place.wants_item):
            message = f"this `{found.text}` belongs to no `if`"
            fix = "give it the indentation of its `if`, and put nothing between"
            return Diagnostic("else-without-if", message, found.span, fix=fix)
        if first.text in ("kernel", "func") and "COLON" in accepts and place.opening:
            return _parameter(found, before)
    wants_block = "COLON" in accepts and first.text in _HEADERS and not place.opening
    if place.is_layout and wants_block:
        message = f"the header of this `{first.text}` does not end in `:`"
        return Diagnostic("missing-colon", message, before.after, fix="write `:` here")
    return None


def _parameter(found: Word, before: Word) -> Diagnostic | None:
    """A parameter without a type, or with the type in front."""
    if before.text in _DTYPES and found.is_name:
        message = "a parameter's type stands behind its name"
        fix = f"write `{found.text}: {before.text}`"
        return Diagnostic("type-first", message, before.span.to(found.span), fix=fix)
    if found.is_name and found.text not in _DTYPES:
        return None
    message = f"`{before.text}` needs a type"
    fix = f"write `{before.text}: f32`, or `{before.text}: f32[N]` for an array"
    return Diagnostic("missing-type", message, before.span, fix=fix)


def blocks(place: Place) -> Diagnostic | None:
    """Indentation without a header, headers without a block, functions without a return."""
    accepts, found, before = place.accepts, place.found, place.before
    if accepts == _ONLY_INDENT:
        header = place.words[place.line_start] if place.is_layout else _header(place)
        return Diagnostic(
            "missing-block",
            f"nothing is indented under this `{header.text}`",
            before.span,
            fix="indent what belongs to it by 4 spaces",
        )
    if place.kind == "_INDENT":
        return Diagnostic(
            "unexpected-indent",
            "this line is indented, but no block starts here",
            Span(found.line, 1, found.line, found.column),
            fix="give it the indentation of the line above, or end that line in `:`",
        )
    if "RETURN" in accepts:
        if place.is_layout:
            message = "this `func` ends without a `return`"
            fix = f"end it in `return {_last_let(place)}`"
            return Diagnostic("missing-return", message, before.after, fix=fix)
        message = f"a `func` holds `let`s and one `return`, no `{found.text}`"
        fix = "compute the value in one expression, or move the statements into a kernel"
        return Diagnostic("statement-in-func", message, found.span, fix=fix)
    if accepts == _ONLY_DEDENT and not place.is_layout:
        message = "nothing may follow the `return` of a `func`"
        return Diagnostic("after-return", message, found.span, fix="remove it")
    return None


def _header(place: Place) -> Word:
    """The first word of the line above the place."""
    return place.words[place.row_start(place.index - 1)]


def subscripts(place: Place) -> Diagnostic | None:
    """`a[i][j]`, `a.shape`, `a[1:2]`, `f32[N] x`."""
    found, before = place.found, place.before
    if place.word_at(-2).text == "." and place.accepts == _ONLY_BRACKET:
        whole = place.word_at(-3).span.to(before.span)
        name = f"{place.word_at(-3).text}.{before.text}"
        if found.text == "(" and not place.is_layout and before.text in EDGE_MODES:
            message = f"`.{before.text}` is an edge mode, not a function"
            fix = f"write `{name}[...]`"
            return Diagnostic("attribute", message, found.span, fix=fix)
        return Diagnostic(
            "attribute",
            f"`{name}` is not a value",
            whole,
            notes=("a dot puts an edge mode before a subscript: `a.clamp[i-1]`",),
            fix="name the extents instead: `a: f32[H, W]` declares the sizes `H` and `W`",
        )
    if place.is_layout:
        return None
    if found.text == "[" and before.text == "]" and place.word_at(1).text != "]":
        fix = "put all subscripts in one bracket: `a[i, j]`"
        return Diagnostic(
            "double-subscript", "subscripts stand in one bracket", found.span, fix=fix
        )
    if found.text == ":" and place.opening and place.opening[-1].text == "[":
        fix = "loop over the elements: `for i in a..b:`"
        return Diagnostic("slice", "slices are not part of this language", found.span, fix=fix)
    return None


def array_variables(place: Place) -> Diagnostic | None:
    """`let x: f32[N] = 0.0`, `temp t: f32`"""
    first = place.first.text
    is_typed = first in ("let", "var") and place.line_words[2:3] == (":",)
    if is_typed and not place.is_layout and place.found.text == "[":
        message = f"a `{first}` holds one value"
        fix = f"write `temp {place.line_words[1]}: ...` for an array, and fill it in a loop"
        return Diagnostic("array-variable", message, place.found.span, fix=fix)
    if first == "temp" and place.accepts == _ONLY_BRACKET:
        message = "a `temp` is an array and needs its extents"
        fix = "write `temp t: f32[N]`, or `var` for one value"
        return Diagnostic("array-variable", message, place.before.after, fix=fix)
    return None


def incomplete(place: Place) -> Diagnostic | None:
    """An operator without its right side; a conditional without `else`."""
    before = place.before
    if "ELSE" in place.accepts and "IF" not in place.accepts and not place.wants_statement:
        index = place.index - 1
        while index > 0 and place.words[index].text != "if":
            index -= 1
        return Diagnostic(
            "missing-else",
            "a conditional expression needs an `else`",
            before.after,
            labels=(Label(place.words[index].span, "for this `if`"),),
            fix="write `a if condition else b`",
        )
    ends = place.is_layout or place.found.text in (")", "]", ",", ":")
    if place.wants_expression and not place.wants_statement and ends:
        return Diagnostic(
            "missing-expression",
            f"an expression is missing after `{before.text}`",
            before.after,
            fix="write a value here, such as `1`",
        )
    return None


LAYOUT_RULES: tuple[Rule, ...] = (
    equals,
    statements,
    tuple_assignment,
    headers,
    items,
    blocks,
    subscripts,
    array_variables,
    incomplete,
)
