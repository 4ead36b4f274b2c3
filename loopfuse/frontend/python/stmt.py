"""Reads the statements of a Python kernel."""

from __future__ import annotations

import ast
from typing import Any

from loopfuse.base import annotations
from loopfuse.base.diagnostics import Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import (
    arrays as pyfunc_arrays,
)
from loopfuse.frontend.python import (
    exchange as pyfunc_exchange,
)
from loopfuse.frontend.python import (
    expr as pyfunc_expr,
)
from loopfuse.frontend.python import (
    helpers as pyfunc_helpers,
)
from loopfuse.frontend.python import (
    refuse as pyfunc_refuse,
)
from loopfuse.frontend.python import (
    results as pyfunc_results,
)
from loopfuse.frontend.python import (
    rotation as pyfunc_rotation,
)
from loopfuse.frontend.python import (
    whole as pyfunc_whole,
)
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.expr import BINARY
from loopfuse.frontend.python.ranges import read_range
from loopfuse.frontend.python.reductions import fold_reductions
from loopfuse.frontend.python.source import MISSING
from loopfuse.frontend.python.subscripts import element, parts_of
from loopfuse.frontend.python.types import Kind, either, gathered
from loopfuse.lang.surface import syntax

CONSEQUENCES = ("maybe-unassigned", "write-outside", "number-subscript", "undefined-name")
"""What may be wrong only because an earlier statement was."""

UPDATES = ("+", "-", "*", "/", "&", "|", "^")
"""Operators that the language has with `=`; the others are written out."""


def read_block(reader: Reader, body: list[ast.stmt]) -> tuple[syntax.Stmt, ...]:
    """The statements of a block; what is wrong in one does not stop the others."""
    out: list[syntax.Stmt] = []
    errors: list[UserError] = []
    for stmt in body:
        try:
            out += _declarations(reader, stmt)
            out += read_statement(reader, stmt)
        except UserError as error:
            if not errors or error.diagnostics[0].code not in CONSEQUENCES:
                errors.append(error)
    if errors:
        raise UserError(*(one for error in errors for one in error.diagnostics))
    return tuple(fold_reductions(reader, out))


def _declarations(reader: Reader, stmt: ast.stmt) -> list[syntax.Stmt]:
    """Variables that `stmt` is the first to set, somewhere inside it."""
    out: list[syntax.Stmt] = []
    for web in reader.webs.declared_before.get(id(stmt), ()):
        kind = web.kind or Kind(DType.F64)
        web.spoken = reader.declare(web.name)
        zero: bool | int | float = (
            False if kind.dtype is DType.BOOL else 0 if kind.dtype.is_integer else 0.0
        )
        span = reader.python.span(web.definitions[0])
        start = syntax.Number(zero, span=span)
        out.append(
            syntax.Let(web.spoken, kind.dtype, start, True, weak=kind.weak, name_span=span, span=span)
        )
    return out


def read_statement(reader: Reader, stmt: ast.stmt) -> list[syntax.Stmt]:
    """One statement."""
    python = reader.python
    match stmt:
        case ast.Assign(targets=[target], value=value):
            return read_assignment(reader, stmt, target, value)
        case ast.Assign(targets=targets, value=value):
            each = [f"`{python.text(target)} = {python.text(value)}`" for target in reversed(targets)]
            python.refuse(
                "chained-assignment",
                "two targets of one assignment, which is neither of numbers nor of elements",
                stmt,
                f"write {', then '.join(each)}",
            )
        case ast.AugAssign(target=target, op=op, value=value):
            return [_update(reader, stmt, target, op, value)]
        case ast.For():
            return pyfunc_rotation.read_rotation(reader, stmt, read_block) or [read_loop(reader, stmt)]
        case ast.If(test=test, body=body, orelse=orelse):
            condition = pyfunc_expr.read_condition(reader, test)
            reader.branches += 1
            with reader.inner():
                then = read_block(reader, body)
            with reader.inner():
                otherwise = read_block(reader, orelse)
            reader.branches -= 1
            return [syntax.If(condition, then, otherwise, span=python.span(stmt.test))]
        case ast.With():
            return [_read_with(reader, stmt)]
        case ast.Assert(test=test):
            return [syntax.Assume(pyfunc_arrays.read_promise(reader, test), span=python.span(stmt))]
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return []
        case ast.Expr(value=value):
            _refuse_expression_statement(reader, value)
        case ast.Return() if stmt is reader.final:
            return pyfunc_results.read_return(reader, stmt)
        case ast.Return():
            python.refuse(
                "early-return",
                "a kernel returns once, at its end",
                stmt,
                "move the `return` to the end, and what it skips under an `if`",
            )
        case _:
            pyfunc_refuse.statement(python, stmt)
    return []


def _refuse_expression_statement(reader: Reader, value: ast.expr) -> None:
    python = reader.python
    if not isinstance(value, ast.Call):
        if isinstance(value, (ast.Yield, ast.YieldFrom, ast.Await)):
            pyfunc_refuse.expression(python, value)
        python.refuse(
            "statement-without-effect",
            f"`{python.text(value)}` alone does nothing",
            value,
            "assign it, or remove it",
        )
    name = python.text(value.func)
    python.refuse(
        "call-statement",
        f"a kernel cannot call `{name}` for what it does",
        value,
        "remove it, or do it around the call of the kernel"
        if name == "print"
        else "assign elements of arrays instead",
    )


# -------------------------------------------------------------------------------- assignments


def read_assignment(
    reader: Reader, stmt: ast.Assign, target: ast.expr, value: ast.expr
) -> list[syntax.Stmt]:
    """`target = value`."""
    python = reader.python
    match target:
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            return _unpack(reader, stmt, targets, value)
        case ast.Name(id=name):
            created = pyfunc_arrays.create(reader, stmt, name, value)
            if created is not None:
                return created
            if name in reader.values:  # a size or a literal, found before
                return []
            pyfunc_whole.refuse_whole(reader, value, name)
            return [assign_name(reader, stmt, target, reader.read(value), value)]
        case ast.Subscript():
            return [assign_element(reader, stmt, target, value)]
        case ast.Starred():
            pyfunc_refuse.expression(python, target)
        case _:
            python.refuse(
                "assignment-target",
                f"`{python.text(target)}` cannot be assigned in a kernel",
                target,
                "assign names and elements of arrays",
            )


def assign_name(
    reader: Reader, stmt: ast.stmt, target: ast.Name, value: Typed, node: ast.expr
) -> syntax.Stmt:
    """`name = value`: declares the local, or sets it."""
    python, name = reader.python, target.id
    if name in reader.arrays and name not in reader.webs_names():
        python.refuse(
            "array-rebound",
            f"`{name}` is an array, and would become something else",
            target,
            f"assign its elements, `{name}[i] = ...`, or use another name",
        )
    if name in reader.iterators:
        python.refuse(
            "iterator-assigned",
            f"`{name}` counts a loop, and cannot be assigned",
            target,
            f"use another name: `{_under_another_name(reader, stmt, name)}`",
        )
    if name in reader.scalars:
        python.refuse(
            "parameter-assigned",
            f"`{name}` is a parameter, which keeps its value",
            target,
            f"use another name: `{_under_another_name(reader, stmt, name)}`",
        )
    if (id(stmt), name) not in reader.webs.of_definition:
        python.refuse(
            "array-rebound",
            f"`{name}` is an array elsewhere in this function, and a number here",
            target,
            "use another name for the number",
        )
    web = reader.webs.of_definition[(id(stmt), name)]
    expr, kind = value
    before = web.kind
    if stmt is web.definitions[0]:
        web.start = kind
    web.kind = kind if before is None else (gathered if web.gathers else either)(before, kind)
    if len(web.definitions) == 1 and kind is not None:
        web.kind = kind.plain
    span, name_span = python.span(stmt), python.span(target)
    if web.home is stmt:
        web.spoken = reader.declare(name)
        if web.is_constant:
            return syntax.Let(web.spoken, None, expr, name_span=name_span, span=span)
        known = web.kind or Kind(DType.F64)
        return syntax.Let(
            web.spoken, known.dtype, expr, True, weak=known.weak, name_span=name_span, span=span
        )
    place = syntax.Name(web.spoken or name, span=name_span)
    op, expr = _accumulation(place, expr)
    made = syntax.Assign(place, op, expr, span=span)
    if op:
        # What is added is read again for its kind alone: `s = s + e` gives that of the sum.
        reader.kept.append(made)
        reader.accumulated[id(made)] = _added_kind(reader, target, node)
    return made


def _under_another_name(reader: Reader, stmt: ast.stmt, name: str) -> str:
    """The assignment to a name that is free."""
    text, free, count = reader.python.text, f"{name}2", 2
    while free in reader.locals or free in reader.arrays or free in reader.scalars:
        count += 1
        free = f"{name}{count}"
    match stmt:
        case ast.Assign(targets=[ast.Name()], value=value):
            return f"{free} = {text(value)}"
        case ast.AugAssign(op=op, value=value):
            return f"{free} = {text(ast.BinOp(ast.Name(name, ast.Load()), op, value))}"
        case _:
            return f"{free} = ..."


def _added_kind(reader: Reader, target: ast.Name, node: ast.expr) -> Kind | None:
    """The kind of `e` in `s = s + e`, `s = max(s, e)` and `s = max(e, s)`."""
    parts: list[ast.expr] = []
    match node:
        case ast.BinOp(right=right):
            parts = [right]
        case ast.Call(args=args):
            parts = [part for part in args if not _is_name(part, target.id)]
        case _:
            pass
    return reader.read(parts[0])[1] if len(parts) == 1 else None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def assign_element(
    reader: Reader, stmt: ast.stmt, target: ast.Subscript, value: ast.expr
) -> syntax.Stmt:
    """`a[i, j] = value`."""
    place = _written(reader, target)
    given = pyfunc_expr.widened(reader, reader.read(value), _dtype_of(reader, target))
    op, expr = _accumulation(place, given[0])
    return syntax.Assign(place, op, expr, span=reader.python.span(stmt))


def _dtype_of(reader: Reader, target: ast.Subscript) -> DType:
    base, _ = parts_of(target)
    assert isinstance(base, ast.Name)
    return reader.arrays[base.id].dtype


def _written(reader: Reader, target: ast.Subscript) -> syntax.Subscript:
    base, parts = parts_of(target)
    if not isinstance(base, ast.Name) or base.id not in reader.arrays:
        python = reader.python
        outer = pyfunc_expr.resolve(reader, base)
        python.refuse(
            "write-outside",
            f"`{python.text(base)}` is not an array of this kernel",
            target,
            "write to an array argument, or to one created here"
            + ("" if outer is MISSING else "; what stands outside is constant"),
        )
    array = reader.arrays[base.id]
    array.written = True
    return element(reader, target, array, parts, reading=False)


def _accumulation(place: syntax.Name | syntax.Subscript, value: syntax.Expr) -> tuple[str, syntax.Expr]:
    """`s = s + e` as `s += e`, and `m = max(m, e)` as `m max= e`: the same bits, and known as a
    reduction."""
    match value:
        case syntax.Binary(op="+" | "*" as op, left=left, right=right) if left == place:
            return op, right
        case syntax.Call(function="min" | "max" as op, arguments=(left, right)):
            if left == place and not _mentions(right, place):
                return op, right
            if right == place and not _mentions(left, place):
                return op, left
            return "", value
        case _:
            return "", value


def _mentions(expr: syntax.Expr, place: syntax.Name | syntax.Subscript) -> bool:
    return repr(place) in repr(expr)


def _update(
    reader: Reader, stmt: ast.AugAssign, target: ast.expr, op: ast.operator, value: ast.expr
) -> syntax.Stmt:
    """`target op= value`."""
    python = reader.python
    if isinstance(op, ast.MatMult):
        python.refuse(
            "matrix-product",
            "`@` multiplies whole matrices",
            stmt,
            "write the loops: `c[i, j] += a[i, k] * b[k, j]`",
        )
    sign = BINARY[type(op)]
    right = reader.read(value)
    span = python.span(stmt)
    if isinstance(target, ast.Subscript):
        place = _written(reader, target)
        _, own = reader.read(target)
        if sign in ("+", "-", "*"):
            right = pyfunc_expr.counted(right, (place, own))
        whole, _ = pyfunc_expr.combine(reader, sign, (place, own), right, stmt)
        if sign in UPDATES:
            return syntax.Assign(place, sign, right[0], span=span)
        return syntax.Assign(place, "", whole, span=span)
    if not isinstance(target, ast.Name):
        python.refuse(
            "assignment-target",
            f"`{python.text(target)}` cannot be assigned in a kernel",
            target,
            "assign names and elements of arrays",
        )
    if target.id in reader.arrays:
        pyfunc_expr.whole_array(reader, target)
    old = pyfunc_expr.read_name(reader, target)
    if sign in ("+", "-", "*"):
        right = pyfunc_expr.counted(right, old)
    whole = pyfunc_expr.combine(reader, sign, old, right, stmt)
    made = assign_name(reader, stmt, target, whole, value)
    # What is read may be another version of the variable than the one that is set.
    if isinstance(made, syntax.Assign) and sign in UPDATES and old[0] == made.target:
        made = syntax.Assign(made.target, sign, right[0], span=span)
        reader.kept.append(made)
        reader.accumulated[id(made)] = right[1]
    return made


def _unpack(
    reader: Reader, stmt: ast.Assign, targets: list[ast.expr], value: ast.expr
) -> list[syntax.Stmt]:
    """`H, W = x.shape`; `a, b = b, a` of arrays; `p, q = e, f`."""
    python = reader.python
    for target in targets:
        if isinstance(target, ast.Starred):
            pyfunc_refuse.expression(python, target)
    match value:
        case ast.Attribute(attr="shape", value=ast.Name(id=name)) if name in reader.arrays:
            array = reader.arrays[name]
            if len(array.extents) != len(targets):
                python.refuse(
                    "unpacking",
                    f"`{name}` has {len(array.extents)} dimension"
                    f"{'s' * (len(array.extents) != 1)}, but {len(targets)} names are given",
                    stmt,
                    f"give {len(array.extents)}",
                )
            out: list[syntax.Stmt] = []
            for target, extent in zip(targets, array.extents):
                if isinstance(target, ast.Name) and target.id not in reader.values:
                    typed = (extent, pyfunc_arrays.extent_kind(extent))
                    out.append(assign_name(reader, stmt, target, typed, value))
                elif not isinstance(target, ast.Name):
                    python.refuse("unpacking", "a shape is given to names", target, "use a name")
            return out
        case ast.Tuple(elts=values) | ast.List(elts=values):
            if len(values) != len(targets):
                python.refuse(
                    "unpacking",
                    f"{len(values)} values for {len(targets)} targets",
                    stmt,
                    "give as many values as targets",
                )
            return _assign_together(reader, stmt, targets, values)
        case ast.Call() if (parts := pyfunc_helpers.call_parts(reader, value, len(targets))) is not None:
            return _set_together(reader, stmt, targets, [value] * len(targets), parts)
        case _:
            python.refuse(
                "unpacking",
                f"`{python.text(value)}` cannot be taken apart",
                value,
                "assign one name at a time, or unpack a shape: `H, W = x.shape`",
            )


def _assign_together(
    reader: Reader, stmt: ast.Assign, targets: list[ast.expr], values: list[ast.expr]
) -> list[syntax.Stmt]:
    python = reader.python
    names = [t.id if isinstance(t, ast.Name) else "" for t in targets]
    given = [v.id if isinstance(v, ast.Name) else "" for v in values]
    if pyfunc_exchange.is_exchange(reader, names, given):
        return pyfunc_exchange.exchange(reader, stmt, names, given)
    if all(name in reader.arrays for name in given):
        python.refuse(
            "array-alias",
            f"`{python.text(stmt)}` gives arrays other names",
            stmt,
            "exchange two arrays with `a, b = b, a`, or copy elements in a loop",
        )
    return _set_together(reader, stmt, targets, values, [reader.read(value) for value in values])


def _set_together(
    reader: Reader, stmt: ast.Assign, targets: list[ast.expr], values: list[ast.expr], read: list[Typed]
) -> list[syntax.Stmt]:
    """Gives each target what was `read` of its value."""
    python = reader.python
    names = [t.id if isinstance(t, ast.Name) else "" for t in targets]
    spans = [python.span(value) for value in values]
    # All values are computed before the first target is set.
    out: list[syntax.Stmt] = []
    if any(
        isinstance(node, ast.Name) and node.id in names
        for value in values
        for node in ast.walk(value)
    ) or any(isinstance(target, ast.Subscript) for target in targets):
        for number, (expr, kind) in enumerate(read):
            if isinstance(expr, syntax.Number):
                continue
            fresh = reader.declare(f"{names[number] or 'part'}_next")
            out.append(syntax.Let(fresh, None, expr, name_span=spans[number], span=spans[number]))
            read[number] = (syntax.Name(fresh, span=spans[number]), kind)
    for target, value, typed in zip(targets, values, read):
        match target:
            case ast.Name(id=name) if name in reader.values:  # a size or a literal, found before
                pass
            case ast.Name():
                out.append(assign_name(reader, stmt, target, typed, value))
            case ast.Subscript():
                place = _written(reader, target)
                out.append(syntax.Assign(place, "", typed[0], span=python.span(stmt)))
            case _:
                python.refuse(
                    "unpacking", "one level of names only", target, "assign one name at a time"
                )
    return out


# ---------------------------------------------------------------------------------- the rest


def read_loop(reader: Reader, stmt: ast.For) -> syntax.For:
    """`for i in range(...)`; loops that hold nothing but a loop share one header."""
    python = reader.python
    if stmt.orelse:
        python.refuse(
            "for-else",
            "a kernel's loop has no `else`",
            stmt.orelse[0],
            "put it after the loop, without `else`",
        )
    bounds, parallel = read_range(reader, stmt)
    assert isinstance(stmt.target, ast.Name)
    name = stmt.target.id
    reader.iterators[name] = bounds
    try:
        with reader.inner():
            reader.visible[-1].add(bounds.iterator)
            body = read_block(reader, stmt.body)
    finally:
        del reader.iterators[name]
    span = python.span(stmt)
    header = Span(span.line, span.column, span.line, bounds.span.end_column)
    if len(body) == 1 and isinstance(body[0], syntax.For) and body[0].parallel == parallel:
        return syntax.For((bounds, *body[0].ranges), body[0].body, parallel, span=header)
    return syntax.For((bounds,), body, parallel, span=header)


def _read_with(reader: Reader, stmt: ast.With) -> syntax.Block:
    python = reader.python
    item = stmt.items[0]
    function: Any = MISSING
    if isinstance(item.context_expr, ast.Call) and not item.context_expr.args:
        function = pyfunc_expr.resolve(reader, item.context_expr.func)
    kind = {annotations.fuse: "fuse", annotations.nofuse: "nofuse"}.get(function)
    if kind is None or len(stmt.items) != 1 or item.optional_vars is not None:
        python.refuse(
            "with-statement",
            f"a kernel cannot enter `{python.text(item.context_expr)}`",
            item.context_expr,
            "use `with loopfuse.fuse():` or `with loopfuse.nofuse():`",
        )
    body = read_block(reader, stmt.body)  # what it declares is still visible afterwards
    span = python.span(stmt)
    return syntax.Block(kind, body, span=Span(span.line, span.column, span.line, span.column + 4))
