"""This process's memory, as words."""

from __future__ import annotations

import ctypes
from typing import Any


def _memory() -> Any:
    return (ctypes.c_uint64 * (1 << 44)).from_address(0)


MEMORY = _memory()
"""Its k-th word lies at address 8 * k."""
