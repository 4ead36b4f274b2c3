"""A number that a kernel left in an array of one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.runtime.binding import numpy_dtype

PYTHON: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "bool": bool}


def read_number(array: Any, number: str, dtype: DType) -> Any:
    """The only element of `array`, as a number of Python or NumPy; waits for a GPU."""
    if isinstance(array, np.ndarray):
        value = array[0]
        return value.item() if number in PYTHON else value
    value = array[0].item()
    return PYTHON[number](value) if number in PYTHON else numpy_dtype(dtype).type(value)
