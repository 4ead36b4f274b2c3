"""What the functions that a Python kernel may call mean, found by the object that a name refers
to: `from math import exp as e` is the same as `math.exp`."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from loopfuse.base import annotations
from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.lang import ops

EXTREMES = ("min", "max", "fmin", "fmax")


def _functions(library: Any, names: dict[str, str], arity: int, gives: tuple[str, ...]) -> dict[Any, str]:
    """The library's own functions that mean an operation of so many operands."""
    return {
        getattr(library, word): name
        for word, name in names.items()
        if hasattr(library, word)  # Python 3.10 has no `math.cbrt`, NumPy 1 no `np.acos`
        and ops.BY_NAME[name].arity == arity
        and ops.BY_NAME[name].gives in gives
        and name not in (*EXTREMES, "pow")
    }


_NUMBER = ("same", "float")
NUMPY_FUNCTIONS: dict[Any, str] = {
    **_functions(np, ops.named("numpy"), 1, _NUMBER),
    annotations.erf: "erf",
    annotations.rsqrt: "rsqrt",
}
"""Functions of one number that give its type."""

NUMPY_PAIRS = _functions(np, ops.named("numpy"), 2, _NUMBER)
"""Functions of two numbers that give a float, or (`np.fmod`) their type."""

MATH_FUNCTIONS = _functions(math, ops.named("math"), 1, _NUMBER)
MATH_PAIRS = _functions(math, ops.named("math"), 2, _NUMBER)
"""Functions of one number, and of two, that give a Python float, whatever they are given."""

NUMPY_OPERATORS: dict[Any, str] = {
    getattr(np, word): meaning for word, meaning in ops.NUMPY_OPERATORS.items() if hasattr(np, word)
}
"""Functions that are operators, and the operation on `x` and `y` that each is."""

MATH_ANGLES = tuple(getattr(math, word) for word in ops.MATH_ANGLES)

TESTS = _functions(np, ops.named("numpy"), 1, ("bool",)) | _functions(
    math, ops.named("math"), 1, ("bool",)
)
"""Functions of one number that give a bool."""

MATH_FMA: Any = getattr(math, "fma", None)
"""`math.fma`, which Python has from 3.13 on: of three Python floats, rounded once."""

WHOLE_FUNCTIONS: dict[Any, str] = {
    **_functions(math, ops.named("whole"), 1, _NUMBER),
    builtins.round: "round",
}
"""Functions of one number that give a Python int."""

CLIP: Any = np.clip
NUMPY_EXTREMES: dict[Any, str] = {
    getattr(np, word): name for word, name in ops.named("numpy").items() if name in EXTREMES
}
PYTHON_EXTREMES: dict[Any, str] = {
    getattr(builtins, word): name
    for word, name in ops.named("python").items()
    if name in EXTREMES
}

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
    np.ones_like: ("ones", True), np.full_like: ("full", True), np.copy: ("copy", True),
    np.array: ("copy", True),
}  # fmt: skip
"""Functions that create an array: what it starts with, and whether it is like another one."""

PYTHON_REDUCTIONS: dict[Any, str] = {
    builtins.sum: "`s = 0.0`, then `s += ...` in a `for`",
    builtins.any: "`found = False`, then `found = found or ...` in a `for`",
    builtins.all: "`good = True`, then `good = good and ...` in a `for`",
    math.fsum: "`s = 0.0`, then `s += ...` in a `for`",
}

LOOPS: dict[Any, str] = {
    builtins.enumerate: "`for i in range(len(x)):`, and `x[i]`",
    builtins.zip: "`for i in range(len(x)):`, and `x[i]`",
    builtins.reversed: "`for i in range(len(x) - 1, -1, -1):`, and `x[i]`",
    np.ndindex: "`for i, j in np.ndindex(x.shape):`, with a name for each dimension",
    np.arange: "`for i in range(n):`",
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
