"""Kernels from text, and their models."""

from __future__ import annotations

from pathlib import Path

from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.nodes import Kernel

ROOT = Path(__file__).resolve().parents[2]


def kernel(text: str) -> Kernel:
    """The one kernel in `text`."""
    return check(parse(Source("<test>", text))).kernels[0]


def example(name: str) -> Kernel:
    """The first kernel of examples/NAME.lf."""
    return kernel((ROOT / "examples" / f"{name}.lf").read_text())
