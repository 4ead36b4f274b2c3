"""What the functions that a Python kernel may call mean, found by the object that a name refers
to: `from math import exp as e` is the same as `math.exp`."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from loopfuse.base import annotations
from loopfuse.base.dtypes import DType, from_numpy_name

NUMPY_FUNCTIONS: dict[Any, str] = {
    np.exp: "exp", np.exp2: "exp2", np.expm1: "expm1", np.log: "log", np.log2: "log2",
    np.log1p: "log1p", np.tanh: "tanh", np.sqrt: "sqrt", np.abs: "abs", np.fabs: "abs",
    np.floor: "floor", np.ceil: "ceil", np.rint: "round", np.round: "round", np.trunc: "trunc",
    annotations.erf: "erf", annotations.rsqrt: "rsqrt",
}  # fmt: skip
"""Functions of one number that give its type."""

MATH_FUNCTIONS: dict[Any, str] = {
    math.exp: "exp", math.expm1: "expm1", math.log2: "log2", math.log1p: "log1p",
    math.tanh: "tanh", math.erf: "erf", math.sqrt: "sqrt", math.fabs: "abs",
    math.log: "log", **({math.exp2: "exp2"} if hasattr(math, "exp2") else {}),
}  # fmt: skip
"""Functions of one number that give a Python float, whatever they are given."""

MATH_FMA: Any = getattr(math, "fma", None)
"""`math.fma`, which Python has from 3.13 on: of three Python floats, rounded once."""

WHOLE_FUNCTIONS: dict[Any, str] = {
    math.floor: "floor", math.ceil: "ceil", math.trunc: "trunc", builtins.round: "round",
}  # fmt: skip
"""Functions of one number that give a Python int."""

NUMPY_EXTREMES: dict[Any, str] = {
    np.minimum: "min", np.maximum: "max", np.fmin: "fmin", np.fmax: "fmax",
}  # fmt: skip
PYTHON_EXTREMES: dict[Any, str] = {builtins.min: "min", builtins.max: "max"}

POWERS = (np.power, builtins.pow, math.pow)

EDGES: dict[Any, str] = {
    annotations.clamp: "clamp",
    annotations.wrap: "wrap",
    annotations.reflect: "reflect",
    annotations.symmetric: "symmetric",
}

CREATIONS: dict[Any, tuple[str, bool]] = {
    np.empty: ("empty", False), np.zeros: ("zeros", False), np.ones: ("ones", False),
    np.full: ("full", False), np.empty_like: ("empty", True), np.zeros_like: ("zeros", True),
    np.ones_like: ("ones", True), np.full_like: ("full", True),
}  # fmt: skip
"""Functions that create an array: what it starts with, and whether it is like another one."""

PYTHON_REDUCTIONS: dict[Any, str] = {
    builtins.sum: "`s = 0.0`, then `s += ...` in a `for`",
    builtins.any: "`found = False`, then `found = found or ...` in a `for`",
    builtins.all: "`good = True`, then `good = good and ...` in a `for`",
    math.fsum: "`s = 0.0`, then `s += ...` in a `for`",
}

LOOPS: dict[Any, str] = {
    builtins.enumerate: "`for i in range(len(x)):` and `x[i]`",
    builtins.zip: "`for i in range(len(x)):`, with `x[i]` and `y[i]`",
    builtins.reversed: "`range(n - 1, -1, -1)`",
    np.ndindex: "one `for` for each dimension",
    np.arange: "`range(n)`",
}


def lookup(table: dict[Any, Any], thing: Any) -> Any:
    """`table[thing]`, or None where there is none (or `thing` cannot be a key)."""
    try:
        return table.get(thing)
    except TypeError:
        return None


def dtype_of(thing: Any) -> DType | None:
    """The dtype that `np.float32`, `np.dtype("float32")`, `"float32"`, `float` or `loopfuse.f32`
    names."""
    if isinstance(thing, annotations.ScalarType):
        return thing.dtype
    if thing in (float, int, bool):
        return {float: DType.F64, int: DType.I64, bool: DType.BOOL}[thing]
    if isinstance(thing, (type, np.dtype, str)):
        try:
            return from_numpy_name(np.dtype(thing).name)
        except TypeError:
            return None
    return None
