"""Native functions as builtins of Python: what a call through ctypes takes 0.4 us for, these take 0.05 for.

A builtin is bound to an array of words, which it finds by NumPy's own layout of arrays (`NUMPY_LAYOUT`):

    released(words)()         function(words[1], ..., words[4]), while other threads run; its answer
    numpy_reader              reads the arrays among its arguments, see there

CPython's C API makes them (`PyCFunction_NewEx`). There are none where objects do not look as they do in CPython with its
lock, and none where NumPy's arrays do not look as its C headers say (`PyArrayObject_fields`): both are tried at first use.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from loopfuse.runtime.memory import MEMORY
from loopfuse.runtime.native_code import addresses_for_good

DATA, RANK, EXTENTS, STRIDES, BASE, DTYPE, FLAGS = range(2, 9)
"""Where NumPy's arrays have what, in words from the beginning of the object; the rank and the flags are of 32 bits."""

_LOW = (1 << 32) - 1


def _looks_like(array: Any) -> bool:
    """Is what stands in an array's memory what Python says of it?"""
    at = id(array) >> 3
    words = MEMORY[at : at + FLAGS + 1]
    base = 0 if array.base is None else id(array.base)
    same = (
        words[1] == id(type(array))
        and words[DATA] == array.__array_interface__["data"][0]
        and words[RANK] & _LOW == array.ndim
        and words[BASE] == base
        and words[DTYPE] == id(array.dtype)
        and words[FLAGS] & _LOW == array.flags.num
    )
    if not same or not array.ndim:
        return same
    return all(
        tuple(ctypes.c_int64(MEMORY[(words[where] >> 3) + k]).value for k in range(array.ndim)) == said
        for where, said in ((EXTENTS, array.shape), (STRIDES, array.strides))
    )


@lru_cache(maxsize=1)
def are_possible() -> bool:
    """Do objects look as they do in CPython with its lock, and arrays as NumPy's headers say?"""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != 16:
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or np.ndarray.__basicsize__ < 8 * (FLAGS + 1):
        return False
    base = np.arange(24, dtype=np.int16).reshape(4, 6)
    fixed = np.zeros((2, 3), np.float32)
    fixed.flags.writeable = False
    tried = (
        base, base[1:], base[:, 2:], base[::-1], base.T, base.reshape(2, 3, 4), fixed,
        np.zeros(()), np.zeros((0, 3), np.uint8), np.zeros(5, ">f8"), np.zeros((2, 1, 3), bool, order="F"),
    )  # fmt: skip
    return all(map(_looks_like, tried))


# ------------------------------------------------------------------------------ making them


class _Definition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("text", ctypes.c_char_p)]


_NO_ARGUMENTS, FAST = 0x4, 0x80
"""METH_NOARGS, METH_FASTCALL."""


class Maker:
    """Makes builtins of the native function at `address`: `(self, arguments, how many) -> object`."""

    def __init__(self, name: str, address: int, flags: int) -> None:
        self._definition = _Definition(name.encode(), address, flags, None)
        self._keep.append(self._definition)  # longer than any builtin lives
        self._make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )

    _keep: ClassVar[list[Any]] = []

    def __call__(self, words: Any) -> Callable[..., int]:
        """A builtin bound to an array of words, which it keeps alive."""
        return self._make(ctypes.addressof(self._definition), words, None)


def words_of(values: Sequence[int]) -> tuple[Any, Any]:
    """Words for a builtin: as the array to bind it to, and as what Python reads and writes fast."""
    array = np.array([value & (1 << 64) - 1 for value in values], np.uint64)
    return array, (ctypes.c_uint64 * len(values)).from_buffer(array.data)


def python_function(name: str) -> int:
    """The address of a function of CPython's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


_FUNCTION, _SAVE, _RESTORE, _ANSWER, _MASK = 0, 5, 6, 7, 8
"""Its words; the arguments' are those between."""

_READ_WORDS = "\n  ".join(
    f"%at{k} = getelementptr ptr, ptr %words, i64 {k}\n  %w{k} = load ptr, ptr %at{k}" for k in range(_MASK + 1)
)
RELEASED = f"""
define ptr @released(ptr %self, ptr %nothing) {{
  %words.at = getelementptr i64, ptr %self, i64 {DATA}
  %words = load ptr, ptr %words.at
  {_READ_WORDS}
  %thread = call ptr %w{_SAVE}()
  %found = call i64 %w{_FUNCTION}(ptr %w1, ptr %w2, ptr %w3, ptr %w4)
  call void %w{_RESTORE}(ptr %thread)
  %mask = ptrtoint ptr %w{_MASK} to i64
  %told = and i64 %found, %mask
  %object = call ptr %w{_ANSWER}(i64 %told)
  ret ptr %object
}}
"""


@lru_cache(maxsize=1)
def _releasing() -> Maker | None:
    found = addresses_for_good(("released",), RELEASED) if are_possible() else None
    return Maker("released", found[0], _NO_ARGUMENTS) if found else None


def released(function: int, arguments: Sequence[int], answers: bool) -> Callable[[], int] | None:
    """Calls the C function at an address with up to four words, without Python's lock. `answers`: it returns an
    integer of 64 bits (otherwise: 0). None where there are no builtins."""
    make = _releasing()
    if make is None:
        return None
    names = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromSsize_t")
    given = [*arguments, *[0] * (4 - len(arguments))]
    return make(words_of([function, *given, *map(python_function, names), -1 if answers else 0])[0])
