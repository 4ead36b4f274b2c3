"""The source of a Python function: its syntax tree with places in the file, and what the names
it uses refer to."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from types import FunctionType
from typing import Any, NoReturn

from loopfuse.base.diagnostics import NOWHERE, Diagnostic, Label, Source, Span, UserError

MISSING = object()
"""What `PythonSource.find` gives for a name that nothing around the function defines."""


@dataclass(slots=True)
class PythonSource:
    """One function: `tree` is its definition, `source` the text of the whole file, so that places
    in the tree are places in the file."""

    function: FunctionType
    tree: ast.FunctionDef
    source: Source
    cells: dict[str, Any]
    override: Span | None = None
    "Where everything of this function is said to stand (a helper from another file)."
    lines: list[str] = field(default_factory=list[str])
    namespace: dict[str, Any] = field(default_factory=dict[str, Any])
    "The globals that the function sees."

    @property
    def name(self) -> str:
        """The function's name."""
        return self.tree.name

    def find(self, name: str) -> Any:
        """What a name that is not local to the function refers to, or MISSING."""
        if name in self.cells:
            return self.cells[name]
        around = self.namespace
        return around[name] if name in around else getattr(builtins, name, MISSING)

    def span(self, node: ast.AST) -> Span:
        """Where a node stands. Python counts columns in bytes; we count characters."""
        if self.override is not None:
            return self.override
        line, end_line = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        if not line or not end_line:
            return NOWHERE
        column = self._column(line, getattr(node, "col_offset", 0))
        return Span(line, column, end_line, self._column(end_line, getattr(node, "end_col_offset", 0)))

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if text.isascii():
            return offset + 1
        return len(text.encode("utf-8")[:offset].decode("utf-8", "ignore")) + 1

    def text(self, node: ast.AST) -> str:
        """A node as Python text, on one line."""
        return ast.unparse(node)

    def refuse(
        self,
        code: str,
        message: str,
        node: ast.AST | Span,
        fix: str = "",
        *,
        label: str = "",
        labels: tuple[tuple[ast.AST, str], ...] = (),
        notes: tuple[str, ...] = (),
    ) -> NoReturn:
        """Raise the user's mistake at `node`."""
        span = node if isinstance(node, Span) else self.span(node)
        places = tuple(Label(self.span(place), text) for place, text in labels)
        raise UserError(
            Diagnostic(code, message, span, label, places, notes, fix, source=self.source)
        )


def unwrap(function: Any) -> Any:
    """The plain function below decorators that keep it (functools.wraps, numba)."""
    seen: set[int] = set()
    while not isinstance(function, FunctionType) and id(function) not in seen:
        seen.add(id(function))
        function = getattr(function, "py_func", None) or getattr(function, "__wrapped__", function)
    if isinstance(function, FunctionType):
        function = inspect.unwrap(function)
    return function


def read_source(function: Callable[..., Any]) -> PythonSource:
    """The source of `function`; decorators are ignored.

    UserError[no-source] where Python has no text for it, [not-a-function-definition] for a
    lambda, a class or a built-in.
    """
    plain = unwrap(function)
    if not isinstance(plain, FunctionType) or plain.__name__ == "<lambda>":
        raise UserError(
            Diagnostic(
                "not-a-function-definition",
                f"a kernel is a function written with `def`, not {_kind(plain)}",
                fix="write `def name(x, y): ...` over loops",
            )
        )
    try:
        block, first = inspect.getsourcelines(plain)
    except (OSError, TypeError):
        raise UserError(
            Diagnostic(
                "no-source",
                f"the source text of `{plain.__name__}` cannot be found",
                notes=("a kernel is read as text, so it must stand in a file or a notebook cell",),
                fix="put it in a file, or pass .lf text to `loopfuse.loads`",
            )
        ) from None
    text = "".join(block)
    # An indented function is read inside an `if`: so its columns stay those of the file.
    indented = text[:1] in (" ", "\t")
    module = ast.parse(f"if 1:\n{text}" if indented else text)
    ast.increment_lineno(module, first - 1 - indented)
    found = module.body[0]
    if indented:
        assert isinstance(found, ast.If)
        found = found.body[0]
    path = inspect.getsourcefile(plain) or plain.__code__.co_filename
    whole = linecache.getlines(path, plain.__globals__)
    lines = whole or [*([""] * (first - 1)), *block]
    source = Source(_shown(path), "".join(line if line.endswith("\n") else line + "\n" for line in lines))
    if not isinstance(found, ast.FunctionDef):
        what = "an `async` function" if isinstance(found, ast.AsyncFunctionDef) else "this"
        raise UserError(
            Diagnostic(
                "not-a-function-definition",
                f"a kernel is a function written with `def`, not {what}",
                fix="write `def name(x, y): ...` over loops",
                source=source,
            )
        )
    _separate_throwaways(found)
    return PythonSource(plain, found, source, _cells(plain), lines=source.text.split("\n"), namespace=plain.__globals__)


def _separate_throwaways(tree: ast.FunctionDef) -> None:
    """Gives each `_` that only throws a value away a name of its own: `_, W = x.shape` and
    `for _ in range(steps)` in one function are not the same variable."""
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    places = [node for node in names if node.id == "_"]
    if any(isinstance(node.ctx, ast.Load) for node in places):
        return
    taken = {node.id for node in names} | {
        node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)
    }
    fresh = (name for number in count(2) if (name := f"_{number}") not in taken)
    for node in places[1:]:
        node.id = next(fresh)


def _kind(thing: Any) -> str:
    if isinstance(thing, FunctionType):
        return "a lambda"
    return f"a {type(thing).__name__}"


def _shown(path: str) -> str:
    """The path as messages print it: short where it lies below the working directory."""
    try:
        short = os.path.relpath(path)
    except ValueError:
        return path
    return path if short.startswith("..") else short


def _cells(function: FunctionType) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return cells
