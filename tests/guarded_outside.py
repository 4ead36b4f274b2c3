"""`python -m guarded_outside WHERE` reads one element outside a guarded array: that kills it."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
from guarded import guarded, memory


def main() -> None:
    """See the module."""
    where = sys.argv[1]
    print(where, flush=True)
    numbers = np.arange(10, dtype=np.float32)
    match where:
        case "before":
            place = guarded(numbers, "low").ctypes.data - 1
        case "behind":
            place = guarded(numbers, "high").ctypes.data + numbers.nbytes
        case "before a view":
            place = guarded(numbers[::-2], "low")[-1:].ctypes.data - 4
        case "behind a workspace":
            place = memory(128, "high").ctypes.data + 128
        case _:
            raise ValueError(where)
    ctypes.string_at(place, 1)


if __name__ == "__main__":
    main()
