"""What is known of a value in a random Python function: its type in CPython, and between which numbers
an integer lies.

`int`, `float` and `bool` are Python's own numbers, the others NumPy scalars. What is combined here gives
the types that NumPy 2 gives (NEP 50).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = ("int", "i8", "i16", "i32", "i64", *UNSIGNED)
FLOATS = ("float", "f32", "f64")
BOOLS = ("bool", "b1")
"""Python's, and NumPy's."""

NUMPY = {
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f32": "float32",
    "f64": "float64", "b1": "bool_",
}  # fmt: skip
LIMIT = 1 << 50
"""Beyond this no integer may come, of whatever type it is."""

_BOUNDS = {
    "u8": (0, 255), "u16": (0, (1 << 16) - 1), "u32": (0, (1 << 32) - 1), "u64": (0, LIMIT), "i8": (-128, 127),
    "i16": (-(1 << 15), (1 << 15) - 1), "i32": (-(1 << 31), (1 << 31) - 1),
    "i64": (-LIMIT, LIMIT), "int": (-LIMIT, LIMIT),
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """A value's type; `low` and `high` of an integer. `literal`: it is a number in the text, and
    `exact`: one that an f32 holds."""

    kind: str
    low: int = 0
    high: int = 0
    literal: bool = False
    exact: bool = False

    @property
    def is_integer(self) -> bool:
        """An integer; a bool is none."""
        return self.kind in INTEGERS

    @property
    def is_unsigned(self) -> bool:
        """An integer that is not below 0."""
        return self.kind in UNSIGNED

    @property
    def is_float(self) -> bool:
        """A float."""
        return self.kind in FLOATS

    @property
    def is_bool(self) -> bool:
        """A bool."""
        return self.kind in BOOLS

    @property
    def is_weak(self) -> bool:
        """A number of Python's."""
        return self.kind in ("int", "float", "bool")


FLOAT, F32, F64, BOOL, B1 = Value("float"), Value("f32"), Value("f64"), Value("bool"), Value("b1")


def fits(value: Value, kind: str) -> bool:
    """An integer is one of type `kind`."""
    low, high = _BOUNDS[kind]
    return low <= value.low and value.high <= high


def joined(left: Value, right: Value) -> str:
    """The type of `left + right`; "" where Python may raise OverflowError for a number that does
    not fit."""
    one, other = ("int" if v.kind == "bool" else v.kind for v in (left, right))
    if one in ("int", "float") and other in ("int", "float"):
        return "float" if "float" in (one, other) else "int"
    if one in ("int", "float") or other in ("int", "float"):
        weak, typed, value = (one, other, left) if one in ("int", "float") else (other, one, right)
        if typed == "b1":
            return "i64" if weak == "int" else "f64"
        if weak == "float":
            return typed if typed in FLOATS else "f64"
        if typed in INTEGERS and value.kind != "bool" and not fits(value, typed):
            return ""
        return typed
    if "u64" in (one, other) and {one, other} & {"i8", "i16", "i32", "i64"}:
        return ""  # NumPy makes an f64 of both
    name = np.result_type(NUMPY[one].rstrip("_"), NUMPY[other].rstrip("_")).name
    return next((kind for kind, spoken in NUMPY.items() if spoken.rstrip("_") == name), "")


def compares(left: Value, right: Value) -> bool:
    """They may be compared: integers all may, exactly."""
    return (left.is_integer and right.is_integer) or bool(joined(left, right))


def cast(text: str, kind: str) -> str:
    """`text` converted to `kind`."""
    return f"{kind if kind in ('int', 'float', 'bool') else 'np.' + NUMPY[kind]}({text})"
