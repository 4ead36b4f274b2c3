"""Reads helper functions: each becomes a `func` for the kinds of numbers it is called with.

before:  def lerp(a, b, t):                  called with f32, f32, f32
             return a + t * (b - a)
after:   func lerp(a: f32, b: f32, t: f32) -> f32:
             return a + t * (b - a)

A helper is assignments to new names, `if` with `return`s, and a final `return` of one number. One
that returns from branches becomes a conditional expression.
"""

from __future__ import annotations

import ast
from types import FunctionType

from loopfuse.base.diagnostics import UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend import pyfunc_expr, pyfunc_refuse
from loopfuse.frontend.pyfunc_context import Reader, Typed
from loopfuse.frontend.pyfunc_source import PythonSource, read_source
from loopfuse.frontend.pyfunc_types import Kind, either
from loopfuse.lang import syntax


def call_helper(reader: Reader, node: ast.Call, function: FunctionType) -> Typed:
    """A call of a function of the user's own."""
    python, shared = reader.python, reader.shared
    for part in node.args:
        if isinstance(part, ast.Starred):
            pyfunc_refuse.expression(python, part)
        if isinstance(part, ast.Name) and part.id in reader.arrays:
            python.refuse(
                "helper-array",
                f"`{function.__name__}` is given the array `{part.id}`; a helper takes numbers",
                part,
                f"pass the elements it needs, such as `{part.id}[i]`",
            )
    if id(function) in shared.reading:
        python.refuse(
            "recursive-helper",
            f"`{function.__name__}` calls itself",
            node,
            "write the repetition as a loop in the kernel",
        )
    source = read_source(function)
    if source.source != python.source:
        source.override = python.span(node)
    given = _bind(reader, node, source)
    arguments = [pyfunc_expr.read_expression(reader, part) for part in given.values()]
    kinds = tuple(kind.plain if kind else None for _, kind in arguments)
    span = python.span(node)
    if any(kind is None for kind in kinds):
        return syntax.Call(function.__name__, tuple(a[0] for a in arguments), span=span), None
    key = (id(function), kinds)
    if key not in shared.known:
        name = shared.free(function.__name__)
        shared.reading = (*shared.reading, id(function))
        try:
            made, kind = _read_helper(reader, source, name, tuple(given), kinds)
        except UserError as error:
            raise _called_from(error, source, python, node) from None
        finally:
            shared.reading = shared.reading[:-1]
        shared.functions[name] = made
        shared.known[key] = (name, kind)
    name, kind = shared.known[key]
    return syntax.Call(name, tuple(argument[0] for argument in arguments), span=span), kind


def _called_from(
    error: UserError, source: PythonSource, python: PythonSource, node: ast.Call
) -> UserError:
    """The error, with the call that leads to it where that is in another file."""
    from dataclasses import replace

    if source.override is None:
        return error
    notes = (f"in `{source.name}` of {source.source.name}:{source.tree.lineno}",)
    return UserError(
        *(
            replace(one, notes=(*one.notes, *notes), source=python.source)
            if one.source == source.source
            else one
            for one in error.diagnostics
        )
    )


def _bind(reader: Reader, node: ast.Call, source: PythonSource) -> dict[str, ast.expr]:
    """Which argument is which parameter; defaults are read where the helper stands."""
    pyfunc_refuse.parameters(source)
    parameters = source.tree.args
    names = [one.arg for one in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)]
    given: dict[str, ast.expr] = dict(zip(names, node.args))
    for keyword in node.keywords:
        if keyword.arg is None:
            pyfunc_refuse.expression(reader.python, ast.copy_location(ast.Starred(keyword.value), node))
        given[keyword.arg] = keyword.value
    positional = [*parameters.posonlyargs, *parameters.args]
    defaults = dict(zip([one.arg for one in positional][::-1], parameters.defaults[::-1]))
    defaults |= {
        one.arg: value
        for one, value in zip(parameters.kwonlyargs, parameters.kw_defaults)
        if value is not None
    }
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given and name not in defaults]
    if unknown or missing or len(node.args) > len(names):
        reader.python.refuse(
            "helper-arguments",
            f"`{source.name}` is called with the wrong arguments",
            node,
            f"it is `{source.name}({', '.join(names)})`",
        )
    return {name: given.get(name, defaults.get(name)) for name in names}  # type: ignore[misc]


def _read_helper(
    reader: Reader,
    source: PythonSource,
    name: str,
    parameters: tuple[str, ...],
    kinds: tuple[Kind | None, ...],
) -> tuple[syntax.Func, Kind]:
    inner = Reader(source, reader.shared)
    inner.locals = {
        node.id
        for stmt in source.tree.body
        for node in ast.walk(stmt)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    params: list[syntax.Param] = []
    span = source.span(source.tree.args) if source.override else source.span(source.tree)
    for parameter, kind in zip(parameters, kinds):
        assert kind is not None
        inner.scalars[parameter] = kind
        inner.visible[0].add(parameter)
        params.append(syntax.Param(parameter, kind.dtype, weak=kind.weak, span=span))
    lets: list[syntax.Let] = []
    value, kind = _returned(inner, source.tree.body, lets, source.tree)
    result = kind or Kind(DType.F64)
    made = syntax.Func(
        name, tuple(params), result.dtype, tuple(lets), value, weak=result.weak, span=span
    )
    return made, result.plain


def _returned(
    reader: Reader, body: list[ast.stmt], lets: list[syntax.Let], whole: ast.stmt
) -> Typed:
    """The number that a helper's statements return."""
    python = reader.python
    for position, stmt in enumerate(body):
        match stmt:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Assert():
                continue
            case ast.Return(value=ast.expr() as value):
                return pyfunc_expr.read_expression(reader, value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                expr, kind = pyfunc_expr.read_expression(reader, value)
                spoken = reader.declare(name)
                place = python.span(stmt)
                lets.append(syntax.Let(spoken, None, expr, name_span=place, span=place))
                reader.scalars.pop(name, None)
                reader.values[name] = (
                    syntax.Name(spoken, span=place),
                    kind.plain if kind else None,
                )
            case ast.If(test=test, body=then, orelse=orelse):
                condition, _ = pyfunc_expr.read_expression(reader, test)
                count, saved = len(lets), (dict(reader.values), dict(reader.scalars))
                first, first_kind = _returned(reader, then, lets, stmt)
                reader.values, reader.scalars = dict(saved[0]), dict(saved[1])
                rest = orelse or body[position + 1 :]
                second, second_kind = _returned(reader, rest, lets, stmt)
                if len(lets) > count:
                    python.refuse(
                        "helper-statement",
                        f"`{reader.python.name}` assigns inside an `if`",
                        stmt.test,
                        "assign before the `if`, or return a conditional expression",
                    )
                choice = syntax.Conditional(condition, first, second, span=python.span(stmt.test))
                return choice, either(first_kind, second_kind)
            case _:
                if type(stmt) in pyfunc_refuse.STATEMENTS:
                    pyfunc_refuse.statement(python, stmt)
                python.refuse(
                    "helper-statement",
                    f"a helper function is assignments to names and a `return`; `{python.name}` is "
                    "not",
                    pyfunc_refuse.first_line(python, stmt),
                    "move loops and arrays into the kernel",
                )
    python.refuse(
        "helper-return",
        f"`{python.name}` does not return a number on every path",
        pyfunc_refuse.first_line(python, whole),
        "end it with `return ...`",
    )
