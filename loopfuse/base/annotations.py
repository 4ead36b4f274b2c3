"""What a Python kernel may name: types of arguments, `prange`, `fuse`, edges, and two functions
that NumPy lacks. All of it runs in plain Python, where types mean nothing and a wish is ignored.

    @loopfuse.kernel
    def double(x: loopfuse.f32["N"]):
        y = np.empty_like(x)
        for i in loopfuse.prange(len(x)):
            y[i] = 2.0 * x[i]
        return y
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from loopfuse.base.dtypes import DType


@dataclass(frozen=True, slots=True)
class ArrayType:
    """`loopfuse.f32["H", "W"]`: an array argument. `extents` are names of sizes, numbers, or
    expressions of them as text (`"H-2"`); `mode` is "" (found by reading the function) or out."""

    dtype: DType
    extents: tuple[str | int, ...]
    mode: str = ""

    def __repr__(self) -> str:
        inside = ", ".join(repr(extent) for extent in self.extents)
        text = f"loopfuse.{public_name(self.dtype)}[{inside}]"
        return f"loopfuse.Out[{text}]" if self.mode == "out" else text


@dataclass(frozen=True)  # no slots: each instance has a docstring of its own, which `help` shows
class ScalarType:
    """`loopfuse.f32`: a number argument, which is rounded to f32 on entry. Subscripted, it is the
    type of an array."""

    dtype: DType

    def __post_init__(self) -> None:
        object.__setattr__(self, "__doc__", _describe(self.dtype))

    def __getitem__(self, extents: str | int | tuple[str | int, ...]) -> ArrayType:
        parts = extents if isinstance(extents, tuple) else (extents,)
        for part in parts:
            if type(part) not in (str, int):  # the annotation promises it; a user may not
                raise TypeError(f"an extent is a name, a number or text, not {part!r}")
        return ArrayType(self.dtype, parts)

    def __repr__(self) -> str:
        return f"loopfuse.{public_name(self.dtype)}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _scalar_type, (self.dtype.value,)


def public_name(dtype: DType) -> str:
    """What the package calls it: `bool` is Python's, so that ours is `boolean`."""
    return "boolean" if dtype is DType.BOOL else dtype.value


def _describe(dtype: DType) -> str:
    """A docstring: what the type holds, and what it says as an annotation."""
    name, bits = public_name(dtype), dtype.bits
    if dtype.is_integer:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
        what = f"{'a signed' if dtype.is_signed else 'an unsigned'} integer of {bits} bits, {low} to {high}, that wraps"
    else:
        what = {
            DType.BOOL: "true or false, a byte in memory",
            DType.F16: "a float of 16 bits (IEEE binary16); stored, and computed with in f32",
            DType.BF16: "a float of 16 bits with f32's exponent; stored, and computed with in f32",
            DType.F32: "a float of 32 bits (IEEE binary32)",
            DType.F64: "a float of 64 bits (IEEE binary64), as Python's",
        }[dtype]
    library = "ml_dtypes" if dtype is DType.BF16 else "NumPy"
    return (
        f"`{name}`: {what}. {library} calls it {dtype.numpy_name}.\n\n"
        f"As the annotation of a parameter, `{name}` is a number, converted on entry, and\n"
        f'`{name}["H", "W"]` an array of two dimensions, whose sizes are called H and W (an extent\n'
        f'is a name, a number, or text such as "H-2"). `loopfuse.Out[{name}["N"]]` is an array that\n'
        "is only filled."
    )


class Out:
    """`loopfuse.Out[loopfuse.f32["N"]]`: an array that the kernel fills and never needs the
    contents of. A call may leave it out: it is then allocated and returned."""

    def __class_getitem__(cls, array: ArrayType) -> ArrayType:
        if not isinstance(array, ArrayType):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Out[...] takes an array type such as f32['N'], not {array!r}")
        return ArrayType(array.dtype, array.extents, "out")


SCALAR_TYPES: dict[str, ScalarType] = {dtype.value: ScalarType(dtype) for dtype in DType}
"""The exported names: `loopfuse.f32` is `SCALAR_TYPES["f32"]`."""


def _scalar_type(name: str) -> ScalarType:
    """What a pickled one becomes: the one of that name."""
    return SCALAR_TYPES[name]


def prange(*bounds: int) -> range:
    """`range`, and the demand that the loop runs in parallel: an error, with the reason, where it
    cannot."""
    return range(*bounds)


@contextmanager
def fuse() -> Generator[None, None, None]:
    """`with loopfuse.fuse():` demands that the loops inside share one kernel."""
    yield


@contextmanager
def nofuse() -> Generator[None, None, None]:
    """`with loopfuse.nofuse():` keeps the loops inside apart."""
    yield


# ------------------------------------------------------------------------------------- edges


def clamp(index: int, extent: int) -> int:
    """The subscript moved into 0..extent: what lies beyond repeats the edge."""
    return min(max(index, 0), extent - 1)


def wrap(index: int, extent: int) -> int:
    """The subscript modulo the extent: what lies beyond starts again at the other end."""
    return index % extent


def reflect(index: int, extent: int) -> int:
    """The subscript mirrored at the edge elements, which are not repeated (`c b [a b c] b a`)."""
    if extent == 1:
        return 0
    folded = index % (2 * extent - 2)
    return min(folded, 2 * extent - 2 - folded)


def symmetric(index: int, extent: int) -> int:
    """The subscript mirrored between elements, so that edges repeat (`b a [a b c] c b`)."""
    folded = index % (2 * extent)
    return min(folded, 2 * extent - 1 - folded)


# --------------------------------------------------------------------------------- functions


def erf(x: Any) -> Any:
    """The error function, in the type of `x` (NumPy has none); of an integer as a Python float."""
    return _float_type(x)(math.erf(x))


def rsqrt(x: Any) -> Any:
    """`1 / sqrt(x)`, in the type of `x` (of an integer as a Python float); infinity at 0, NaN below it."""
    kind = _float_type(x)
    if x != x or x < 0:
        return kind(math.nan)
    return kind(math.copysign(math.inf, x) if x == 0 else 1.0 / math.sqrt(x))


def _float_type(x: Any) -> Any:
    """The type of `x`, or the float that an integer becomes."""
    return float if isinstance(x, Integral) else type(x)
