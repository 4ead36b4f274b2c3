"""Reads helper functions: each becomes a `func` for the kinds of numbers it is called with.

before:  def lerp(a, b, t):                  called with f32, f32, f32
             return a + t * (b - a)
after:   func lerp(a: f32, b: f32, t: f32) -> f32:
             return a + t * (b - a)

A helper is assignments to names, `if` and `return`s of one number, or of a tuple that is taken apart at once: a `func` for each part. What depends on a branch becomes a
conditional expression.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FunctionType

from loopfuse.base.diagnostics import UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import (
    expr as pyfunc_expr,
)
from loopfuse.frontend.python import (
    refuse as pyfunc_refuse,
)
from loopfuse.frontend.python import (
    unknown as pyfunc_unknown,
)
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.source import MISSING, PythonSource, callee, read_source
from loopfuse.frontend.python.types import Kind
from loopfuse.lang.surface import syntax


def call_parts(reader: Reader, value: ast.expr, count: int) -> list[Typed] | None:
    """What a call of a helper that returns a tuple gives, number by number; None for anything else."""
    if not isinstance(value, ast.Call):
        return None
    found = pyfunc_expr.resolve(reader, value.func)
    if found is MISSING or hasattr(found, "__loopfuse_kernel__"):
        return None
    function = callee(found)
    if not isinstance(function, FunctionType) or pyfunc_unknown.is_foreign(function):
        return None
    returns = [node.value for node in ast.walk(read_source(function, is_helper=True).tree) if isinstance(node, ast.Return)]
    tuples = [one for one in returns if isinstance(one, ast.Tuple)]
    if not tuples and not any(isinstance(one, ast.Call) for one in returns):
        return None
    if any(len(one.elts) != count for one in tuples):
        reader.python.refuse(
            "unpacking",
            f"`{function.__name__}` returns {len(tuples[0].elts)} values, but {count} names are given",
            value,
            f"give {len(tuples[0].elts)}",
        )
    return [call_helper(reader, value, function, (part, count)) for part in range(count)]


def call_helper(
    reader: Reader, node: ast.Call, function: FunctionType, which: tuple[int, int] | None = None
) -> Typed:
    """A call of a function of the user's own; of one that returns a tuple, the part `which`."""
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
    source = read_source(function, is_helper=True)
    if source.source != python.source:
        source.override = python.span(node)
    given = _bind(reader, node, source)
    arguments = [
        reader.read(part)
        if isinstance(part, ast.expr)
        else pyfunc_expr.outer_value(reader, node, part.value)
        for part in given.values()
    ]
    kinds = tuple(kind.plain if kind else None for _, kind in arguments)
    span = python.span(node)
    if any(kind is None for kind in kinds):
        return syntax.Call(function.__name__, tuple(a[0] for a in arguments), span=span), None
    key = (id(function), kinds, which)
    if key not in shared.known:
        name = shared.free(function.__name__)
        shared.reading = (*shared.reading, id(function))
        try:
            made, kind = _read_helper(reader, source, name, tuple(given), kinds, which)
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


@dataclass(frozen=True, slots=True)
class _Default:
    """A parameter's default: the value that it got when the helper was defined."""

    value: object


def _bind(
    reader: Reader, node: ast.Call, source: PythonSource
) -> dict[str, ast.expr | _Default]:
    """Which argument is which parameter."""
    pyfunc_refuse.parameters(source)
    parameters = source.tree.args
    names = [one.arg for one in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)]
    positional = [one.arg for one in (*parameters.posonlyargs, *parameters.args)]
    given: dict[str, ast.expr | _Default] = dict(zip(positional, node.args))
    doubled = {*given, *(one.arg for one in parameters.posonlyargs)}
    for keyword in node.keywords:
        if keyword.arg is None:
            pyfunc_refuse.expression(reader.python, ast.copy_location(ast.Starred(keyword.value), node))
        given[keyword.arg] = keyword.value
    values = source.function.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(values) :], values))
    defaults |= getattr(source.function, "__kwdefaults__", None) or {}
    unknown = [name for name in given if name not in names]
    unknown += [word.arg for word in node.keywords if word.arg in doubled]
    missing = [name for name in names if name not in given and name not in defaults]
    if unknown or missing or len(node.args) > len(positional):
        reader.python.refuse(
            "helper-arguments",
            f"`{source.name}` is called with the wrong arguments",
            node,
            f"it is `{source.name}({ast.unparse(parameters)})`",
        )
    return {name: given[name] if name in given else _Default(defaults[name]) for name in names}


def _read_helper(
    reader: Reader,
    source: PythonSource,
    name: str,
    parameters: tuple[str, ...],
    kinds: tuple[Kind | None, ...],
    part: tuple[int, int] | None,
) -> tuple[syntax.Func, Kind]:
    inner = Reader(source, reader.shared, reader.expression, part=part)
    inner.locals = {
        node.id
        for stmt in source.tree.body
        for node in ast.walk(stmt)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } | source.declared
    params: list[syntax.Param] = []
    span = source.span(source.tree.args) if source.override else source.span(source.tree)
    for parameter, kind in zip(parameters, kinds):
        assert kind is not None
        inner.scalars[parameter] = kind
        inner.visible[0].add(parameter)
        params.append(syntax.Param(parameter, kind.dtype, weak=kind.weak, span=span))
    lets: list[syntax.Let] = []
    value, kind = _value_of(inner, source.tree.body, lets, source.tree)
    result = kind or Kind(DType.F64)
    made = syntax.Func(
        name, tuple(params), result.dtype, tuple(lets), value, weak=result.weak, span=span
    )
    return made, result.plain


def _value_of(
    reader: Reader, body: list[ast.stmt], lets: list[syntax.Let], whole: ast.stmt
) -> Typed:
    """The number that a helper's statements return."""
    found = _run(reader, body, lets, whole)
    if found is None:
        reader.python.refuse(
            "helper-return",
            f"`{reader.python.name}` does not return a number on every path",
            pyfunc_refuse.first_line(reader.python, whole),
            "end it with `return ...`",
        )
    return found


def _run(
    reader: Reader, body: list[ast.stmt], lets: list[syntax.Let], whole: ast.stmt
) -> Typed | None:
    """Reads statements one after the other: locals become `let`s, and what a branch leaves in them a
    conditional. The number that is returned; None where the end is reached. Both branches of an
    `if` are computed: numbers have no side effects, and no operation of theirs traps."""
    python = reader.python
    for position, stmt in enumerate(body):
        match stmt:
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Assert():
                continue
            case ast.Return(value=ast.expr() as value):
                return reader.read(value) if reader.part is None else _part(reader, value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call() as value) if (
                all(isinstance(one, ast.Name) for one in targets)
                and (parts := call_parts(reader, value, len(targets))) is not None
            ):
                for target, typed in zip(targets, parts):
                    assert isinstance(target, ast.Name)
                    _set(reader, lets, target, typed)
            case ast.Assign(targets=[ast.Name() as target], value=value):
                _set(reader, lets, target, reader.read(value))
            case ast.Assign(
                targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)],
                value=ast.Tuple(elts=values) | ast.List(elts=values),
            ) if len(targets) == len(values) and all(isinstance(one, ast.Name) for one in targets):
                read = [reader.read(value) for value in values]
                for target, typed in zip(targets, read):
                    assert isinstance(target, ast.Name)
                    _set(reader, lets, target, typed)
            case ast.AugAssign(target=ast.Name() as target, op=op, value=value) if (
                type(op) in pyfunc_expr.BINARY
            ):
                old = pyfunc_expr.read_name(reader, target)
                right = reader.read(value)
                sign = pyfunc_expr.BINARY[type(op)]
                _set(reader, lets, target, pyfunc_expr.combine(reader, sign, old, right, stmt))
            case ast.If(test=test, body=then, orelse=orelse):
                condition = pyfunc_expr.read_condition(reader, test)
                span = python.span(test)
                name = reader.declare("condition")
                lets.append(syntax.Let(name, DType.BOOL, condition, name_span=span, span=span))
                condition = syntax.Name(name, span=span)
                before = _State.of(reader)
                if _returns(then) or _returns(orelse):
                    rest = body[position + 1 :]
                    first = _value_of(reader, [*then, *rest], lets, stmt)
                    before.put_back(reader)
                    second = _value_of(reader, [*orelse, *rest], lets, stmt)
                    exprs, kind = pyfunc_expr.one_of(reader, span, first, second)
                    return syntax.Conditional(condition, *exprs, span=span), kind
                _run(reader, then, lets, stmt)
                left = _State.of(reader)
                before.put_back(reader)
                _run(reader, orelse, lets, stmt)
                _join(reader, lets, condition, left, stmt)
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
    return None


def _part(reader: Reader, value: ast.expr) -> Typed:
    """The part that is asked for of a returned tuple."""
    assert reader.part is not None
    part, count = reader.part
    if isinstance(value, ast.Tuple) and len(value.elts) == count:
        return reader.read(value.elts[part])
    parts = call_parts(reader, value, count)
    if parts is None:
        reader.python.refuse(
            "helper-return",
            f"`{reader.python.name}` does not return {count} numbers on every path",
            value,
            f"return a tuple of {count} numbers",
        )
    return parts[part]


def _returns(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Return) for stmt in body for node in ast.walk(stmt))


def _set(reader: Reader, lets: list[syntax.Let], target: ast.Name, value: Typed) -> None:
    """`target = value`: from here on the name is a new `let`."""
    expr, kind = value
    place = reader.python.span(target)
    spoken = reader.declare(target.id)
    lets.append(syntax.Let(spoken, None, expr, name_span=place, span=place))
    reader.scalars.pop(target.id, None)
    reader.values[target.id] = (syntax.Name(spoken, span=place), kind.plain if kind else None)


@dataclass(frozen=True, slots=True)
class _State:
    """What the names of a helper stand for at a place in it."""

    values: dict[str, Typed]
    scalars: dict[str, Kind]

    @staticmethod
    def of(reader: Reader) -> _State:
        """As it is now."""
        return _State(dict(reader.values), dict(reader.scalars))

    def put_back(self, reader: Reader) -> None:
        """Go on from here."""
        reader.values, reader.scalars = dict(self.values), dict(self.scalars)

    def get(self, name: str) -> Typed | None:
        """What `name` stands for; None where it may have no value."""
        if name in self.scalars:
            return syntax.Name(name), self.scalars[name]
        return self.values.get(name)


def _join(
    reader: Reader, lets: list[syntax.Let], condition: syntax.Expr, then: _State, stmt: ast.If
) -> None:
    """After an `if` without `return`: the reader has what its `else` left, `then` what the other
    branch left."""
    otherwise = _State.of(reader)
    for name in dict.fromkeys([*then.values, *otherwise.values]):
        left, right = then.get(name), otherwise.get(name)
        if left is None or right is None:
            reader.values.pop(name, None)
        elif left != right:
            exprs, kind = pyfunc_expr.one_of(reader, condition.span, left, right)
            choice = syntax.Conditional(condition, *exprs, span=condition.span)
            place = ast.copy_location(ast.Name(name, ast.Store()), stmt.test)
            _set(reader, lets, place, (choice, kind))
