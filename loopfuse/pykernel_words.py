"""Messages of the checker and the planner, which speak .lf, in Python's spelling; and what the
decorator's options may be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, Label, UserError

_RANGE = re.compile(r"`(\w+) in ([^`]+?)\.\.([^`]+?)(?: step (-?\d+))?`")
_EXTENT = re.compile(r"\b0\.\.([\w+*/() -]+?)(?=$|[;,`])")
_EDGE = re.compile(r"repeat the edge: `(\w+)\.clamp\[([^`\]]*)\]`")
_CAST = re.compile(r"`([^`]*)\b(f16|f32|f64|i8|i16|i32|i64|u8|u16|u32|u64)\(([^`]*)`")
_NUMPY = {"f": "float", "i": "int", "u": "uint"}

FIXES = {
    "assign-to-let": "use another name",
    "not-affine": "use subscripts and bounds made of iterators and sizes, with `+ -` and `* // %` "
    "by constants",
    "fuse-block": "remove `with loopfuse.fuse():`, or change what the note names",
}
"""Fixes that are said otherwise in Python, by code."""


def in_python(diagnostic: Diagnostic) -> Diagnostic:
    """The diagnostic as a Python programmer would say it; others than .lf's stay as they are."""
    labels = tuple(Label(one.span, _extents(one.text)) for one in diagnostic.labels)
    return replace(
        diagnostic,
        label=_extents(diagnostic.label),
        labels=labels,
        notes=tuple(_fix(note) for note in diagnostic.notes),
        fix=FIXES.get(diagnostic.code, _fix(diagnostic.fix)),
    )


def _extents(text: str) -> str:
    return _EXTENT.sub(lambda found: f"range({found[1].strip()})", text)


def _fix(text: str) -> str:
    def loop(found: re.Match[str]) -> str:
        lower, upper, step = found[2], found[3], found[4]
        bounds = [lower, upper] if lower != "0" or step else [upper]
        return f"`for {found[1]} in range({', '.join([*bounds, *([step] if step else [])])})`"

    def edge(found: re.Match[str]) -> str:
        return f"repeat the edge: `{found[1]}[..., loopfuse.clamp(i, n), ...]` with n that extent"

    text = _EDGE.sub(edge, _RANGE.sub(loop, text))
    return _CAST.sub(lambda m: f"`{m[1]}np.{_NUMPY[m[2][0]]}{m[2][1:]}({m[3]}`", text)


def check_options(function: Any, fp: str) -> Callable[..., Any]:
    """The plain function below other decorators; UserError for options that are none."""
    plain = function
    if isinstance(function, FunctionType) and function.__name__ == "<lambda>":
        raise UserError(
            Diagnostic(
                "not-a-function-definition",
                "a kernel is a function written with `def`, not a lambda",
                fix="write `def name(x, y): ...` over loops",
            )
        )
    while not isinstance(plain, FunctionType):
        inner = getattr(plain, "py_func", None) or getattr(plain, "__wrapped__", None)
        if inner is None or inner is plain:
            raise UserError(
                Diagnostic(
                    "not-a-function-definition",
                    f"a kernel is a function written with `def`, not a {type(plain).__name__}",
                    fix="write `def name(x, y): ...` over loops",
                )
            )
        plain = inner
    plain = inspect.unwrap(plain)
    if fp not in ("fast", "strict"):
        raise UserError(
            Diagnostic(
                "kernel-option",
                f"`fp` of `loopfuse.kernel` is {fp!r}",
                fix="it is one of 'fast', 'strict'",
            )
        )
    return plain
