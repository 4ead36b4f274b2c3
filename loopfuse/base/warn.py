"""Warnings that point at the caller's own line."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from loopfuse.base.printable import printable

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_HEARD: ContextVar[tuple[list[str], ...]] = ContextVar("_HEARD", default=())


@contextmanager
def heard() -> Generator[list[str]]:
    """The texts of what this thread warns of meanwhile, which are told all the same."""
    texts: list[str] = []
    token = _HEARD.set((*_HEARD.get(), texts))
    try:
        yield texts
    finally:
        _HEARD.reset(token)


def warn(text: str) -> None:
    """UserWarning `text`, at the innermost line of the stack that is not loopfuse's: Python prints
    that line under the text."""
    for texts in _HEARD.get():
        texts.append(text)
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(text), stacklevel=level)
