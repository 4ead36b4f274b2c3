"""The exported dtypes and `Out` as a type checker sees them; never imported when a program runs.

`x: f32["H", "W"]` and `t: f32` are one class to a type checker, which any array or number is and a
string, a list or None is not: which array it is, dtype and rank, is found when the kernel is called.
"""

from __future__ import annotations

from typing import Any, Protocol

from loopfuse.base.static_array import Array


# Protocols whose base is none: only what a protocol itself defines is asked of an argument.
class _Value(Array, Protocol):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    def __class_getitem__(cls, extents: str | int | tuple[str | int, ...], /) -> Any: ...
    def __abs__(self) -> Any: ...


class Out(Array, Protocol):  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    """`loopfuse.Out[loopfuse.f32["N"]]`: an array that the kernel fills and never needs the
    contents of. A call may leave it out: it is then allocated and returned."""

    def __class_getitem__(cls, array: Any, /) -> Any: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...
    def __len__(self) -> int: ...


class i8(_Value, Protocol):
    """A signed integer of 8 bits; `i8["H", "W"]`: an array of two dimensions."""


class i16(_Value, Protocol):
    """A signed integer of 16 bits; `i16["H", "W"]`: an array of two dimensions."""


class i32(_Value, Protocol):
    """A signed integer of 32 bits; `i32["H", "W"]`: an array of two dimensions."""


class i64(_Value, Protocol):
    """A signed integer of 64 bits; `i64["H", "W"]`: an array of two dimensions."""


class u8(_Value, Protocol):
    """An unsigned integer of 8 bits; `u8["H", "W"]`: an array of two dimensions."""


class u16(_Value, Protocol):
    """An unsigned integer of 16 bits; `u16["H", "W"]`: an array of two dimensions."""


class u32(_Value, Protocol):
    """An unsigned integer of 32 bits; `u32["H", "W"]`: an array of two dimensions."""


class u64(_Value, Protocol):
    """An unsigned integer of 64 bits; `u64["H", "W"]`: an array of two dimensions."""


class f16(_Value, Protocol):
    """A float of 16 bits; `f16["H", "W"]`: an array of two dimensions."""


class bf16(_Value, Protocol):
    """A float of 16 bits with f32's exponent; `bf16["H", "W"]`: an array of two dimensions."""


class f32(_Value, Protocol):
    """A float of 32 bits; `f32["H", "W"]`: an array of two dimensions."""


class f64(_Value, Protocol):
    """A float of 64 bits; `f64["H", "W"]`: an array of two dimensions."""


class boolean(_Value, Protocol):
    """True or false; `boolean["H", "W"]`: an array of two dimensions."""
