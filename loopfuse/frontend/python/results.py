"""What a Python kernel returns: arrays by what their names refer to at the end, and numbers.

before:  s = 0.0                       after:  kernel k(x: f32[N], out s_returned: f32[1]):
         for i in range(len(x)):                   let s = sum(i in 0..N: x[i])
             s += x[i]                             s_returned[0] = s
         return s
"""

from __future__ import annotations

import ast

from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python import whole as pyfunc_whole
from loopfuse.frontend.python.context import Array, Reader, Returned
from loopfuse.frontend.python.exchange import connected
from loopfuse.frontend.python.source import PythonSource
from loopfuse.frontend.python.types import ANY, PYTHON_BOOL, Kind
from loopfuse.lang.surface import syntax


def final_return(body: list[ast.stmt]) -> ast.Return | None:
    """The `return` that ends the function, if it returns something."""
    if not body or not isinstance(body[-1], ast.Return):
        return None
    match body[-1].value:
        case None | ast.Constant(value=None):
            return None
        case _:
            return body[-1]


def returned_parts(final: ast.Return | None) -> list[ast.expr]:
    """What stands in the `return`."""
    if final is None or final.value is None:
        return []
    return final.value.elts if isinstance(final.value, ast.Tuple) else [final.value]


def read_return(reader: Reader, final: ast.Return) -> list[syntax.Stmt]:
    """Notes the results in `reader.results`; statements that put numbers where they are returned."""
    out: list[syntax.Stmt] = []
    for part in returned_parts(final):
        if isinstance(part, ast.Name) and part.id in reader.arrays:
            array = reader.arrays[part.id]
            first = array.turns[0] if array.turns else array.name
            reader.results.append(Returned(first, "", array.turns[1:], array.turn))
            continue
        out.append(_return_number(reader, part))
    return out


def _return_number(reader: Reader, part: ast.expr) -> syntax.Stmt:
    _refuse_others(reader.python, part)
    pyfunc_whole.refuse_whole(reader, part)
    typed = reader.read(part)
    kind = typed[1] or Kind(DType.F64)
    if kind.loose == ANY:
        pyfunc_expr.widened(reader, typed, DType.F64 if kind.dtype is not DType.F64 else DType.F32)
    stem = part.id if isinstance(part, ast.Name) else "value"
    name = reader.shared.free(f"{stem}_returned")
    span = reader.python.span(part)
    one = syntax.Number(1, span=span)
    array = Array(name, kind.dtype, (one,), "out", part, is_parameter=False, written=True)
    reader.created[name] = array
    reader.results.append(Returned(name, _python_type(kind)))
    place = syntax.Subscript(name, (syntax.Number(0, span=span),), span=span, array_span=span)
    return syntax.Assign(place, "", typed[0], span=span)


def _python_type(kind: Kind) -> str:
    """What CPython would give: a number of Python, or NumPy's."""
    if kind.dtype is DType.BOOL:
        return "bool" if kind.among == PYTHON_BOOL.among else "numpy"
    if not kind.weak:
        return "numpy"
    return "float" if kind.dtype.is_float else "int"


def _refuse_others(python: PythonSource, part: ast.expr) -> None:
    """What is neither an array nor a number."""
    fix = "return arrays and numbers, or a tuple of them"
    match part:
        case ast.Constant(value=bool() | int() | float()):
            return
        case ast.List(elts=parts):
            fix = f"return a tuple: `return {', '.join(map(python.text, parts))}`" if parts else fix
        case ast.Constant() | ast.Starred() | ast.Tuple() | ast.Dict() | ast.Set():
            pass
        case _:
            return
    python.refuse(
        "return-value", f"a kernel returns arrays and numbers, not `{python.text(part)}`", part, fix
    )


def outputs(reader: Reader) -> set[str]:
    """The created arrays that are parameters: those that are returned, and those that take turns
    in a loop with them or with the function's parameters."""
    returned = {one for result in reader.results for one in (result.array, *result.others)}
    parameters = {array.name for array in reader.arrays.values() if array.is_parameter}
    return connected(returned | parameters, reader.exchanged) - parameters


def in_order(reader: Reader) -> list[str]:
    """The names of the kernel's further parameters: results in the order in which they are
    returned, then the arrays that only take turns with them."""
    first = [one.array for one in reader.results if one.array in reader.created]
    return list(dict.fromkeys([*first, *reader.created]))
