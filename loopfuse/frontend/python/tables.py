"""Reads elements of tables: tuples, lists and small NumPy arrays of the enclosing scope.

before:  W = ((-1, 0.25), (0, 0.5))         after:  const W_0 = [-1, 0]; const W_1 = [0.25, 0.5]
         ... x[i + W[k][0]] * W[k][1]                ... x[i + W_0[k]] * W_1[k]

Of a table of several types, an element whose subscripts are constants is the number itself. Any other may
be each of those that the subscripts which vary can reach: Python's numbers may be ints and floats, NumPy's
are of one type.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NoReturn, cast

import numpy as np

from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python.context import Reader, Typed
from loopfuse.frontend.python.types import Kind, either, literal
from loopfuse.lang.surface import syntax

LARGEST_TABLE = 4096
_EXACT = 1 << 53
"""Integers up to here are floats, too."""

Table = tuple[object, ...]
"""Numbers, or rows of such."""


def numbers_in(table: object) -> Iterator[Any]:
    """All numbers of a table."""
    if isinstance(table, (tuple, list)) or (isinstance(table, np.ndarray) and table.ndim):
        for part in cast("Table", table):
            yield from numbers_in(part)
    else:
        yield table


def is_mixed(numbers: Iterator[Any]) -> bool:
    """They are of several types."""
    return len({type(one) for one in numbers}) > 1


def table_element(
    reader: Reader, node: ast.Subscript, base: ast.expr, table: Any, parts: list[ast.expr]
) -> Typed:
    """An element of a tuple, list or NumPy array of the enclosing scope."""
    python, span = reader.python, reader.python.span(base)
    rows = _rows(reader, base, table)
    extents = _extents(rows)
    ends = [syntax.Number(extent, span=span) for extent in extents]
    index = tuple(
        from_the_end(pyfunc_expr.whole_number(reader, part, "subscript"), end)
        for part, end in zip(parts, [*ends, *([None] * (len(parts) - len(ends)))])
    )
    key, name = f"{id(table)}", python.text(base).replace(".", "_")
    if len(index) == len(extents) and is_mixed(numbers_in(rows)):
        fixed = tuple(one.value if isinstance(one, syntax.Number) else None for one in index)
        reached = _reached(rows, fixed)
        if not isinstance(reached, tuple):
            return pyfunc_expr.outer_value(reader, node, reached)
        if reached and any(place is not None for place in fixed):
            rows = cast("Table", reached)
            index = tuple(one for one, place in zip(index, fixed) if place is None)
            key, name = f"{key} {fixed}", "_".join([name, *(f"{p}" for p in fixed if p is not None)])
    dtype, values, kind = _constant(reader, base, rows)
    known = reader.shared.constants.get(key)
    if known is None:
        known = syntax.Const(reader.shared.free(name), dtype, None, values, span=span)
        reader.shared.constants[key] = known
    return syntax.Subscript(known.name, index, span=python.span(node), array_span=span), kind


def _extents(table: object) -> list[int]:
    """The lengths of a table, its first row, and so on."""
    extents: list[int] = []
    while isinstance(table, tuple):
        rows = cast("Table", table)
        extents.append(len(rows))
        table = rows[0] if rows else None
    return extents


def _reached(table: object, fixed: tuple[Any, ...]) -> object:
    """What the subscripts that vary can reach; empty where a constant one is out of range."""
    if not fixed or not isinstance(table, tuple):
        return table
    rows = cast("Table", table)
    if fixed[0] is not None:
        return _reached(rows[fixed[0]], fixed[1:]) if 0 <= fixed[0] < len(rows) else ()
    found = tuple(_reached(row, fixed[1:]) for row in rows)
    return () if any(isinstance(one, tuple) and not one for one in found) else found


def _rows(reader: Reader, base: ast.expr, table: Any) -> Table:
    """The table as nested tuples of numbers."""
    python = reader.python
    text = python.text(base)
    if isinstance(table, np.ndarray) and (
        from_numpy_name(table.dtype.name) is None or table.size > LARGEST_TABLE or table.size == 0
    ):
        python.refuse(
            "unsupported-table",
            f"`{text}` is an array of the enclosing scope, {table.dtype.name}{list(table.shape)}",
            base,
            f"pass it as an argument (tables of 1 to {LARGEST_TABLE} numbers may stay outside)",
        )

    def nest(value: Any) -> object:
        if isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim):
            return tuple(nest(part) for part in cast("Table", value))
        value = value[()] if isinstance(value, np.ndarray) else value
        if not isinstance(value, (bool, int, float)) and _dtype(value) is None:
            python.refuse(
                "unsupported-table",
                f"`{text}` holds {value!r}, which is not a number",
                base,
                "a table from outside is a tuple of numbers, or of tuples of equal length",
            )
        return value

    values = cast("Table", nest(table))
    count = sum(1 for _ in numbers_in(values))
    if count > LARGEST_TABLE or not count:
        python.refuse(
            "unsupported-table",
            f"`{text}` holds {count} numbers",
            base,
            f"pass it as an array (tables of 1 to {LARGEST_TABLE} numbers may stay outside)",
        )
    return values


def _dtype(value: Any) -> DType | None:
    """The dtype of a number of NumPy's."""
    return from_numpy_name(value.dtype.name) if isinstance(value, np.generic) else None


def _constant(
    reader: Reader, base: ast.expr, rows: Table
) -> tuple[DType | None, tuple[object, ...], Kind | None]:
    """The dtype of a constant of these numbers (None where Python's they are), the numbers, and what
    kind each may be."""
    span = reader.python.span(base)

    def number(value: Any) -> object:
        if isinstance(value, tuple):
            return tuple(map(number, cast("Table", value)))
        dtype = _dtype(value)
        plain = value if dtype is None else float(value) if dtype is DType.BF16 else value.item()
        return syntax.Number(plain, span=span)

    values = cast("tuple[object, ...]", number(rows))
    numbers = list(numbers_in(rows))
    dtypes = {_dtype(one) for one in numbers}
    if len(dtypes) > 1:
        _refuse_mixed(reader, base, numbers)
    dtype = dtypes.pop()
    if dtype is not None:
        return dtype, values, Kind(dtype)
    if any(isinstance(one, float) for one in numbers) and any(
        isinstance(one, int) and abs(one) > _EXACT for one in numbers
    ):
        _refuse_mixed(reader, base, numbers)
    kind: Kind | None = None
    for one in numbers:
        made = literal(one).plain
        kind = made if kind is None else either(kind, made)
    return None, values, kind


def _refuse_mixed(reader: Reader, base: ast.expr, numbers: list[Any]) -> NoReturn:
    """Refuse an element that may be of several types, which one constant does not hold."""
    text = reader.python.text(base)
    names = dict.fromkeys(type(one).__name__ for one in numbers)
    of_numpy = next((one for one in numbers if isinstance(one, np.generic)), np.float64())
    reader.python.refuse(
        "unsupported-table",
        f"`{text}` holds numbers of several types, {', '.join(names)}, and which of them is meant is not "
        "known here",
        base,
        f"write all of them as one type, such as `np.{type(of_numpy).__name__}(...)`, or subscript it with "
        "a constant",
    )


def from_the_end(index: syntax.Expr, extent: syntax.Expr | None) -> syntax.Expr:
    """A constant negative subscript counts from the end, as Python has it: `a[-1]` is
    `a[len(a) - 1]`. The bounds' proof asks each call for an array long enough."""
    match index:
        case syntax.Unary(op="-", operand=syntax.Number(value=int(value))):
            below = value
        case syntax.Number(value=int(value)):
            below = -value
        case _:
            return index
    if below <= 0 or extent is None:
        return index
    if isinstance(extent, syntax.Number) and isinstance(extent.value, int):
        return syntax.Number(extent.value - below, span=index.span)
    return syntax.Binary("-", extent, syntax.Number(below, span=index.span), span=index.span)
