"""Everything public says what it is: names, docstrings, and what goes wrong in those that can fail."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from collections.abc import Iterator
from typing import Any

import pytest

import loopfuse
import loopfuse.kernels.kernel
import loopfuse.testing
from loopfuse.base.dtypes import DType
from loopfuse.kernels.python import PythonKernel

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


def test_only_public_names_are_listed() -> None:
    assert dir(loopfuse) == sorted(loopfuse.__all__)
    text = pydoc.render_doc(loopfuse, renderer=pydoc.plaintext)
    for internal in ("PackageNotFoundError", "SCALAR_TYPES", "pykernel lazily", "annotations\n"):
        assert internal not in text


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_says_what_it_is(dtype: DType) -> None:
    name = "boolean" if dtype is DType.BOOL else dtype.value
    public = getattr(loopfuse, name)
    text = inspect.getdoc(public) or ""
    assert text.startswith(f"`{name}`: ") and dtype.numpy_name in text
    assert repr(public) == f"loopfuse.{name}" and repr(public["N"]) == f"loopfuse.{name}['N']"
    assert "bits" in text or dtype is DType.BOOL
    assert text in inspect.cleandoc(pydoc.render_doc(public, renderer=pydoc.plaintext)).replace(
        "\n    ", "\n"
    )
    assert pickle.loads(pickle.dumps(public)) is public and copy.deepcopy(public) is public
    assert pickle.loads(pickle.dumps(public["H", 3])) == public["H", 3]


def soften(img: loopfuse.f32["H", "W"], amount: float = 0.5, *, sizes: int = 3) -> Any:
    """Softens."""


def test_decorated_functions_stay_what_they_are() -> None:
    kernel = loopfuse.kernel(soften)
    assert inspect.signature(kernel) == inspect.signature(soften)
    assert (kernel.__name__, kernel.__qualname__, kernel.__doc__) == ("soften", "soften", "Softens.")
    assert kernel.__module__ == __name__ and kernel.__wrapped__ is soften
    assert "amount" in pydoc.render_doc(kernel, renderer=pydoc.plaintext)


def test_lf_kernels_have_signatures_and_say_what_they_do() -> None:
    unsharp: Any = loopfuse.load("example:unsharp")
    assert str(inspect.signature(unsharp)) == (
        "(img: 'f32[H, W]', amount: 'f32', *, sharp: 'out f32[H, W]' = None)"
    )
    assert unsharp.__doc__.startswith("Sharpen an image: two stencil stages")
    text = "# All.\n\n# First.\nkernel k(inout x: i32[N]):\n    for i in 0..N:\n        x[i] = 1\n"
    both = loopfuse.loads(text + text.replace("# First.\n", "").replace("k(", "lambda("))
    assert both.k.__doc__ == "First." and both["lambda"].__doc__ is None
    assert str(inspect.signature(both.k)) == "(x: 'inout i32[N]')"
    odd = loopfuse.loads("kernel k(class: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = class[i]\n")
    assert list(inspect.signature(odd).parameters) == ["class_", "y"]
