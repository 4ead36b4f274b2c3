"""The names that printed Python functions use, as the Python door sees them and as CPython runs
them.

The two differ only where docs/python.md says that CPython may: math functions (ours hold their ulp
bounds, so CPython is given ours), `min` and `max` of NaN and of zeros, floats cast to integers that
do not hold them, shifts by the width, `**`, and elements of temporaries that nothing wrote. Where
a function uses none of these names, CPython runs it as any user would.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import engines
import ml_dtypes
import numpy as np

import loopfuse
from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.lang import ops, semantics

OURS = tuple(name for name in ops.OURS if name != "pow")
EXACT = (
    "sqrt", "floor", "ceil", "trunc", "rint", "copysign", "fmod", "sign", "isnan", "isinf", "isfinite",
)  # fmt: skip
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
EDGES = ("clamp", "wrap", "reflect", "symmetric")


def shift_right(value: Any, count: Any) -> Any:
    """`>>`, of which NumPy says otherwise where `count` is the width or more."""
    return value >> count


def door_names() -> dict[str, Any]:
    """What the door resolves the names to."""
    names: dict[str, Any] = {
        "np": np,
        "math": math,
        "bfloat16": ml_dtypes.bfloat16,
        "empty": np.empty,
        "power": pow,
        "shift_right": shift_right,
        "minimum": np.minimum,
        "maximum": np.maximum,
        "fmin": np.fmin,
        "fmax": np.fmax,
        "Out": loopfuse.Out,
        "boolean": loopfuse.boolean,
        "prange": loopfuse.prange,
        "fuse": loopfuse.fuse,
        "nofuse": loopfuse.nofuse,
        "min": min,
        "max": max,
    }
    names |= {name: getattr(np, name) for name in EXACT}
    for name in OURS:
        spelled = (*ops.BY_NAME[name].numpy, "")[0]
        names[name] = getattr(np, spelled, None) or getattr(loopfuse, name)
    names |= {f"to_{name}": np.dtype(name).type for name in INTEGERS}
    names |= {name: getattr(loopfuse, name) for name in EDGES}
    names |= {t.value: getattr(loopfuse, t.value) for t in DType if t is not DType.BOOL}
    return names


def plain_names() -> dict[str, Any]:
    """What CPython runs them with."""
    names = door_names()
    names |= {name: functools.partial(_ours, name) for name in OURS}
    names |= {f"to_{name}": functools.partial(_saturated, name) for name in INTEGERS}
    names |= {
        "empty": np.zeros,
        "power": _power,
        "shift_right": _shift_right,
        "min": functools.partial(_extreme, semantics.minimum),
        "max": functools.partial(_extreme, semantics.maximum),
        "minimum": functools.partial(_extreme, semantics.minimum),
        "maximum": functools.partial(_extreme, semantics.maximum),
        "fmin": functools.partial(_extreme, semantics.minimum_number),
        "fmax": functools.partial(_extreme, semantics.maximum_number),
    }
    return names


def dtype_of(value: Any) -> DType:
    """The dtype of a NumPy scalar or a Python number."""
    found = from_numpy_name(np.asarray(value).dtype.name)
    assert found is not None
    return found


def _ours(name: str, *values: Any) -> Any:
    kind = np.result_type(*values).type
    work = "f64" if kind is np.float64 else "f32"
    wide = np.float64 if work == "f64" else np.float32
    return kind(engines.our_math()[f"{name}_{work}"](*map(wide, values)))


def _saturated(name: str, value: Any) -> Any:
    target = from_numpy_name(name)
    assert target is not None
    return np.dtype(name).type(semantics.cast(DType.F64, target)(np.float64(value)))


def _shift_right(value: Any, count: Any) -> Any:
    return value >> count if 0 <= count < dtype_of(value).bits else type(value)(0)


def _power(base: Any, exponent: Any) -> Any:
    """Multiplications for 2 to 4 and for whole numbers, else our `pow`."""
    whole = isinstance(base, (int, np.integer))
    if type(exponent) is int and (2 <= exponent <= 4 or (whole and exponent >= 0)):
        result = base if exponent else type(base)(1)
        for _ in range(exponent - 1):
            result = result * base
        return result
    both = np.result_type(*(v if isinstance(v, np.generic) else type(v) for v in (base, exponent)))
    both = np.result_type(base, exponent) if both.kind == "f" else np.dtype(np.float64)
    work = "f64" if both == np.float64 else "f32"
    wide = np.float64 if work == "f64" else np.float32
    made = both.type(engines.our_math()[f"pow_{work}"](wide(base), wide(exponent)))
    return made if isinstance(base, np.generic) or isinstance(exponent, np.generic) else float(made)


def _extreme(which: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """`minimum` and its kin, in NumPy's common type; of Python numbers a Python number."""
    if not isinstance(left, np.generic) and not isinstance(right, np.generic):
        plain = float if float in (type(left), type(right)) else int
        return plain(which(plain(left), plain(right)))
    kind = np.result_type(left, right).type
    return kind(which(kind(left), kind(right)))


NAMES = frozenset(door_names()) | {"abs", "bool", "float", "int", "range"}
"""Names that a function of the program must not have."""
