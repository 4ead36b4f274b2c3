"""A Python kernel against its function in CPython: what the door read is what Python means.

The program is interpreted under `fp="strict"` and compared to the bit with what CPython computes on
copies of the same arguments; where it calls math functions, whose last places differ between libraries,
to rounding. What the compiled forms make of the program is compared with the interpreter elsewhere.
Elements of a created array that nothing sets are 0, as loopfuse allocates them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.kernels.results import known_values
from loopfuse.lang.nodes import Binary, Call, Expr, Kernel
from loopfuse.lang.walk import expressions, walk_expr, walk_stmts
from loopfuse.runtime.binding import numpy_dtype

if TYPE_CHECKING:
    from loopfuse.kernels.python import Specialised

_NO_RESULT = (ArithmeticError, IndexError, ValueError)
"""What Python raises where a kernel has a value: division by zero, a bad root, a bad subscript."""


def run_plainly(kernel: Specialised, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arrays that the function writes or returns, by the kernel's parameter, from `arguments` (NumPy
    arrays and numbers by parameter, not changed); None where Python has no result for them."""
    given: dict[str, Any] = {}
    for name, (sort, *parts) in kernel.types.items():
        value = arguments[name]
        if sort == "array":
            given[name] = np.array(value, copy=True)
        else:
            dtype, weak = parts
            given[name] = value if weak else numpy_dtype(dtype).type(value)
    function = _with_zeros(kernel.function)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(**given)
    except _NO_RESULT:
        return None
    values = result if kernel.returns_tuple else (result,)
    found = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    known = known_values(kernel.signature, arguments)
    dtypes = {p.name: p.dtype for p in kernel.signature.parameters}
    for one, value in zip(kernel.results or (), values):
        name = one.place(known)
        found[name] = _element(value, dtypes[name]) if one.number else value
        if found[name].dtype == object:
            return None  # an integer that no dtype holds
    written = {p.name for p in kernel.signature.parameters if p.is_array and p.mode != "in"}
    return {name: value for name, value in found.items() if name in written}


def _element(value: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A number as an array of one element: of `dtype` where that holds it."""
    array = np.array([value])
    if array.dtype == object:
        return array
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = array.astype(numpy_dtype(dtype))
        back = other.astype(array.dtype)
    return other if bool((back == array).all() or (back != back).all()) else array


def as_allocated(kernel: Specialised, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with zeros for the arrays that the function creates."""
    return {
        name: np.zeros_like(value) if name in kernel.allocated else value
        for name, value in arguments.items()
    }


def is_rounded_elsewhere(kernel: Kernel) -> bool:
    """The program calls functions whose last places are not CPython's."""

    def rounds(expr: Expr) -> bool:
        match expr:
            case Binary(op="pow"):
                return expr.dtype.is_float
            case Call():
                return expr.dtype.is_float and expr.function not in _EXACT
            case _:
                return False

    return any(
        rounds(part)
        for stmt in walk_stmts(kernel.body)
        for expr in expressions(stmt)
        for part in walk_expr(expr)
    )


_EXACT = {
    "abs", "min", "max", "fmin", "fmax", "floor", "ceil", "trunc", "round", "sqrt", "sign", "copysign",
    "clip", "fmod", "isnan", "isinf", "isfinite", "fma", "select", "mod", "floordiv",
}  # fmt: skip


def _with_zeros(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with arrays of zeros where it asks for arrays of anything."""
    assert isinstance(function, FunctionType)
    zeros = {id(np.empty): np.zeros, id(np.empty_like): np.zeros_like}

    def other(value: Any) -> Any:
        return _NumPy() if value is np else zeros.get(id(value), value)

    around = {name: other(value) for name, value in function.__globals__.items()}
    made = FunctionType(
        function.__code__, around, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


class _NumPy:
    """NumPy, but for `empty` and `empty_like`."""

    empty, empty_like = staticmethod(np.zeros), staticmethod(np.zeros_like)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def tolerance(kernel: Kernel, dtype: DType) -> float:
    """How far apart, of their size, elements of this type may be: 0 for the same bits."""
    if not is_rounded_elsewhere(kernel) or not dtype.is_float:
        return 0.0
    return 1e-4 if dtype.bits == 32 else 1e-11 if dtype.bits == 64 else 2.0**-5
