"""Subscripts checked when they run: what the word says that a bad one leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, Source, Span, UserError
from loopfuse.runtime.formulas import evaluate

ERROR_WORD = "?error"
"""The error word's name among a call's pointers; no parameter or workspace has it."""


def raise_offender(manifest: Mapping[str, Any], word: int, values: Mapping[str, Any]) -> None:
    """UserError[subscript-out-of-range] for the offender that `word` tells of (see
    `base.artifact`); nothing where it is 0. `values` are the sizes of the call."""
    if not word:
        return
    check = manifest["checks"][(word & 0xFFFF) - 1]
    raise UserError(describe_offender(check, word >> 16, values))


def describe_offender(
    check: Mapping[str, Any], index: int, values: Mapping[str, Any]
) -> Diagnostic:
    """The diagnostic of subscript `index` outside its array."""
    array, dimension = check["array"], check["dimension"]
    extent = int(evaluate(str(check["extent"]), values))
    span = Span(check["line"], check["column"], check["end_line"], check["end_column"])
    what = "is written" if check["writes"] else "is read"
    effect = "nothing was written there" if check["writes"] else "0 was read instead"
    where = f"dimension {dimension + 1} of `{array}`" if dimension else f"`{array}`"
    note = "a negative subscript does not count from the end" if index < 0 else ""
    return Diagnostic(
        "subscript-out-of-range",
        f"element {index} of {where} {what}, which has {extent}",
        span,
        f"this was {index}",
        notes=tuple(each for each in (f"{effect}; other elements may have the same fault", note) if each),
        fix=f"keep it in 0..{extent}, or say what lies outside: `{array}.clamp[...]`"
        if not check["writes"]
        else f"keep it in 0..{extent}, or write only where it is",
    )


def at_source(error: UserError, source: Source) -> UserError:
    """`error` with the text that its places are in."""
    return UserError(
        *(
            replace(one, source=source) if one.source is None and one.span.line else one
            for one in error.diagnostics
        )
    )
