"""Everything public says what it is: names, docstrings, and what goes wrong in those that can fail."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import loopfuse
import loopfuse.kernels
import loopfuse.testing
from loopfuse.pykernel import PythonKernel

# What is called for its result and refuses bad input: its docstring names the error.
CAN_FAIL = {
    "loopfuse.load",
    "loopfuse.kernel",
    "loopfuse.synchronize",
    "loopfuse.Kernel.__call__",
    "loopfuse.PythonKernel.__call__",
}


def members() -> Iterator[tuple[str, Any]]:
    """(name, function or class) of all that is exported, and their public methods."""
    for module in (loopfuse, loopfuse.testing):
        for name in module.__all__:
            yield f"{module.__name__}.{name}", getattr(module, name)
    for kind in (loopfuse.Kernel, PythonKernel, loopfuse.Kernels):
        for name, value in vars(kind).items():
            function = value.fget if isinstance(value, property) else value
            if inspect.isfunction(function) and (not name.startswith("_") or name == "__call__"):
                yield f"loopfuse.{kind.__name__}.{name}", function


MEMBERS = [pytest.param(name, value, id=name) for name, value in members()]


def test_the_assertions_are_these() -> None:
    words = "dependence equivalent fuses home launches no_dependence not_fused parallel traffic"
    assert loopfuse.testing.__all__ == ["ANY", *(f"assert_{word}" for word in words.split())]


@pytest.mark.parametrize(("name", "value"), MEMBERS)
def test_it_has_a_docstring(name: str, value: Any) -> None:
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        assert name.rpartition(".")[2].islower() or name.endswith(("__version__", "ANY", "Out"))
        return
    text = inspect.getdoc(value) or ""
    assert len(text) > 15 and text.rstrip().endswith((".", ")", "`", "'")), f"{name}: {text!r}"
    if name in CAN_FAIL:
        assert any(word in text for word in ("UserError", "raises")), name


@pytest.mark.parametrize("name", [n for n in loopfuse.testing.__all__ if n.startswith("assert_")])
def test_assertions_name_their_failure_and_show_an_example(name: str) -> None:
    function = getattr(loopfuse.testing, name)
    text = inspect.getdoc(function) or ""
    assert "AssertionError" in text and ">>> " in text
    for parameter in inspect.signature(function).parameters.values():
        told = {"kernel", "target", "sizes", "args", "call_args", "call_kwargs", "first", "second"}
        page = loopfuse.testing.__doc__ or ""
        known = f"`{parameter.name}`" in text or parameter.name in told or parameter.name in page
        assert known or name == "assert_no_dependence", f"{name} says nothing of {parameter.name}"
