"""The source of a Python function: its syntax tree with places in the file, and what the names
it uses refer to."""

from __future__ import annotations

import ast
import builtins
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from types import FunctionType
from typing import Any, NoReturn

from loopfuse.base.diagnostics import NOWHERE, Diagnostic, Label, Source, Span, UserError
from loopfuse.base.function_text import ChangedText, NoText, text_of

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
    turns: set[int] = field(default_factory=set[int])
    "The elements (by id) that loops over elements set their names to."
    declared: set[str] = field(default_factory=set[str])
    "Names that annotations without a value make local: `n: int`."

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
        labels: tuple[tuple[ast.AST | Span, str], ...] = (),
        notes: tuple[str, ...] = (),
    ) -> NoReturn:
        """Raise the user's mistake at `node`."""
        span = node if isinstance(node, Span) else self.span(node)
        places = tuple(
            Label(place if isinstance(place, Span) else self.span(place), text) for place, text in labels
        )
        raise UserError(
            Diagnostic(code, message, span, label, places, notes, fix, source=self.source)
        )


def callee(function: Any) -> Any:
    """The plain function that a call of `function` runs: below numba's dispatcher and functools'
    caches, which keep what it computes. A wrapper written in Python is itself such a function."""
    seen: set[int] = set()
    while not isinstance(function, FunctionType) and id(function) not in seen:
        seen.add(id(function))
        function = getattr(function, "py_func", None) or getattr(function, "__wrapped__", function)
    return function


def unwrap(function: Any) -> Any:
    """The plain function below all decorators that keep it (functools.wraps, numba)."""
    function = callee(function)
    return inspect.unwrap(function) if isinstance(function, FunctionType) else function


def read_source(function: Callable[..., Any], is_helper: bool = False) -> PythonSource:
    """The source of `function`, a kernel's, whose decorators are ignored, or a helper's, which is
    what a call of it runs: a wrapper that a decorator made, a lambda.

    UserError[no-source] where Python has no text for it, [not-a-function-definition] for a
    lambda, a class or a built-in.
    """
    plain = callee(function) if is_helper else unwrap(function)
    is_lambda = getattr(plain, "__name__", "") == "<lambda>"
    if not isinstance(plain, FunctionType) or (is_lambda and not is_helper):
        raise UserError(
            Diagnostic(
                "not-a-function-definition",
                f"a kernel is a function written with `def`, not {_kind(plain)}",
                fix="write `def name(x, y): ...` over loops",
            )
        )
    try:
        found_text = text_of(plain)
    except ChangedText:
        raise UserError(
            Diagnostic(
                "no-source",
                f"the text of `{plain.__name__}` has changed since `{plain.__name__}` was loaded",
                notes=(f"{_shown(plain.__code__.co_filename)} holds another text now, and CPython runs the old one",),
                fix="reload its module, or run its cell again",
            )
        ) from None
    except NoText:
        raise UserError(
            Diagnostic(
                "no-source",
                f"the source text of `{plain.__name__}` cannot be found",
                notes=("a kernel is read as text, so it must stand in a file or a notebook cell",),
                fix="put it in a file, or pass .lf text to `loopfuse.loads`",
            )
        ) from None
    first = found_text.first
    text = "".join(found_text.block)
    # An indented function is read inside an `if`: so its columns stay those of the file.
    indented = text[:1] in (" ", "\t")
    try:
        module = ast.parse(f"if 1:\n{text}" if indented else text)
    except SyntaxError:  # a lambda in the middle of a statement
        module = ast.Module([ast.Pass()], [])
    ast.increment_lineno(module, first - 1 - indented)
    found = module.body[0]
    if indented and isinstance(found, ast.If):
        found = found.body[0]
    if is_lambda:
        found = _definition_of_lambda(plain, module)
    whole = "".join(line if line.endswith("\n") else line + "\n" for line in found_text.lines)
    source = Source(_shown(found_text.path), whole)
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
    declared = _drop_annotations(found)
    _separate_throwaways(found)
    python = PythonSource(plain, found, source, _cells(plain), lines=source.text.split("\n"), namespace=plain.__globals__)
    python.declared |= declared
    return python


def _definition_of_lambda(function: FunctionType, module: ast.Module) -> ast.FunctionDef:
    """The lambda as a `def` that returns its expression."""
    names = function.__code__.co_varnames
    found = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Lambda)
        and tuple(one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
        == names
    ]
    if len(found) != 1:
        raise UserError(
            Diagnostic(
                "no-source",
                "the source text of a lambda cannot be found",
                notes=("it must stand on lines that read alone, apart from others like it",),
                fix="write it as `def name(x): return ...`",
            )
        )
    node = found[0]
    body = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef("lambda_", node.args, [body], [], lineno=node.lineno, col_offset=node.col_offset)
    return ast.copy_location(made, node)


def _drop_annotations(tree: ast.FunctionDef) -> set[str]:
    """Makes annotated assignments plain ones, since CPython never looks at the annotations of locals;
    the names that are only annotated.

    before: n: int = len(x)        after: n = len(x)
    """
    declared: set[str] = set()

    class Plain(ast.NodeTransformer):
        def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
            if node.value is not None:
                return ast.copy_location(ast.Assign([node.target], node.value), node)
            if isinstance(node.target, ast.Name):
                declared.add(node.target.id)
            return ast.copy_location(ast.Pass(), node)

    plain = Plain()
    tree.body = [plain.visit(stmt) for stmt in tree.body]
    return declared


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
