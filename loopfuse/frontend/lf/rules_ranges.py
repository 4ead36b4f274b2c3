"""Error rules about the ranges of loops and reductions.

Each rule looks at a `Place` and answers with a diagnostic if it recognises the mistake.
"""

from __future__ import annotations

from loopfuse.base.diagnostics import Diagnostic
from loopfuse.frontend.lf.place import Place
from loopfuse.frontend.lf.rules_words import Rule


def python_range(place: Place) -> Diagnostic | None:
    """`for i in range(n):`"""
    if "RANGE" not in place.accepts:
        return None
    words = place.words
    start = place.index - 1
    while start > 0 and words[start].text != "in":
        start -= 1
    if words[start + 1].text != "range" or words[start + 2].text != "(":
        return None
    call, end = words[start + 1], place.before
    arguments = _arguments(place, start + 3)
    lower, upper = ("0", arguments[0]) if len(arguments) == 1 else (arguments[0], arguments[1])
    step = f" step {arguments[2]}" if len(arguments) > 2 else ""
    return Diagnostic(
        "python-range",
        "a range is written `a..b`, not `range(a, b)`",
        call.span.to(end.span),
        fix=f"write `{lower}..{upper}{step}`",
    )


def _arguments(place: Place, start: int) -> list[str]:
    """The arguments of the call whose first argument is word `start`, as they were written."""
    parts: list[str] = []
    depth, first = 0, place.words[start].offset
    for word in place.words[start:]:
        if depth == 0 and word.text in (",", ")"):
            parts.append(place.text[first : word.offset].strip())
            first = word.offset + 1
            if word.text == ")":
                break
        depth += (word.text in ("(", "[")) - (word.text in (")", "]"))
    return parts


def ranges(place: Place) -> Diagnostic | None:
    """Other ways to write a loop's range."""
    found, before = place.found, place.before
    if place.is_layout:
        if "RANGE" in place.accepts:
            return _no_end(place)
        return None
    if found.text == "..." or (found.text == ".." and before.text == "."):
        return Diagnostic("range-dots", "a range has two dots", found.span, fix="write `a..b`")
    if found.text == "..=" or (found.text == "=" and before.text == ".."):
        fix = "write `a..b+1`: the end is not part of the range"
        return Diagnostic("inclusive-range", "there is no inclusive range", found.span, fix=fix)
    if found.text == "..=":
        return None
    if "IN" in place.accepts and before.is_name and "RPAR" not in place.accepts:
        message = f"`{before.text}` needs a range of its own"
        fix = f"write `{before.text} in a..b`"
        if place.opening:
            fix = "end the ranges in `:`, as in `sum(i in a..b: x[i])`"
        return Diagnostic("missing-range", message, before.span, fix=fix)
    if before.text == "for" and found.text == "(":
        fix = "write `for i in a..b:`"
        return Diagnostic(
            "bracketed-header", "a loop's header has no brackets", found.span, fix=fix
        )
    if "RANGE" in place.accepts and found.text in ("to", "until", "upto"):
        message = "a range is written with two dots"
        return Diagnostic("range-dots", message, found.span, fix="write `a..b`")
    if "RANGE" in place.accepts and found.text in (":", ","):
        return _no_end(place)
    return None


def _no_end(place: Place) -> Diagnostic:
    found, before = place.found, place.before
    start = place.index - 1
    while start > 0 and place.words[start].text != "in":
        start -= 1
    lower = place.text[place.words[start + 1].offset : before.offset + len(before.text)]
    following = place.word_at(1)
    if not place.is_layout and found.text == ":" and following.line == found.line:
        message, fix = "a range is written with two dots", f"write `{lower}..{following.text}`"
        return Diagnostic("range-dots", message, found.span, fix=fix)
    return Diagnostic(
        "range-end",
        "a loop runs over a range, and this one has no end",
        before.after,
        fix=f"write `0..{lower}` to count up to `{lower}`",
    )


def python_generator(place: Place) -> Diagnostic | None:
    """`sum(b[k] for k in range(n))`"""
    found = place.found
    if place.is_layout or found.text != "for" or not place.opening:
        return None
    message = "a reduction's ranges stand before its value"
    fix = "write `sum(k in a..b: x[k])`"
    return Diagnostic("python-generator", message, found.span, fix=fix)


RANGE_RULES: tuple[Rule, ...] = (python_range, ranges, python_generator)
