"""Warnings that point at the caller's own line."""

from __future__ import annotations

import inspect
import os
import warnings

from loopfuse.base.printable import printable

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def warn(text: str) -> None:
    """UserWarning `text`, at the innermost line of the stack that is not loopfuse's: Python prints
    that line under the text."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(text), stacklevel=level)
