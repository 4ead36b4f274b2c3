"""A kernel is what was loaded, not what its file holds by now."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base import function_text
from loopfuse.base.diagnostics import UserError

HEAD = "import numpy as np\nimport loopfuse\n\n"
TWO = """
@loopfuse.kernel
def a(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = x[i] + 1
    return y

@loopfuse.kernel
def b(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = x[i] + 2
    return y
"""
THIRD = TWO[: TWO.index("\n@loopfuse.kernel\ndef b")].replace("def a", "def c").replace("+ 1", "+ 9")
HELPED = """
def more(v):
    return v + 1

@loopfuse.kernel
def k(x):
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = more(x[i])
    return y
"""
PLAIN = HELPED.replace("@loopfuse.kernel\n", "")

X = np.arange(4.0)
Load = Callable[[str], ModuleType]


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Writes the module's file; loads it the first time."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "edited_kernels.py"

    def write(text: str) -> ModuleType:
        path.write_text(HEAD + text)
        if "edited_kernels" in sys.modules:
            return sys.modules["edited_kernels"]
        importlib.invalidate_caches()
        return importlib.import_module("edited_kernels")

    yield write
    sys.modules.pop("edited_kernels", None)


def _kernel(function: Any) -> Any:
    return loopfuse.kernel(function)


def _values(result: Any) -> list[float]:
    return [float(one) for one in result]


@pytest.mark.parametrize("called", [False, True])
def test_lines_that_moved(edited: Load, called: bool) -> None:
    module = edited(TWO)
    if called:
        module.b(X)
    edited(THIRD + TWO)
    assert _values(module.b(X)) == _values(X + 2)
    assert _values(module.b(X.astype(np.float32))) == _values(X + 2)
    assert _values(module.a(X)) == _values(X + 1)


@pytest.mark.parametrize("called", [False, True])
def test_text_that_changed(edited: Load, called: bool) -> None:
    module = edited(TWO)
    if called:
        module.b(X)
    edited(TWO.replace("+ 2", "+ 7"))
    assert _values(module.b(X.astype(np.float32))) == _values(X + 2)
    assert _values(importlib.reload(module).b(X)) == _values(X + 7)


@pytest.mark.parametrize("called", [False, True])
def test_helper_that_changed(edited: Load, called: bool) -> None:
    module = edited(HELPED)
    if called:
        module.k(X)
    edited(HELPED.replace("+ 1", "+ 5"))
    assert _values(module.k(X.astype(np.float32))) == _values(X + 1)


def test_reference_kept_across_a_reload(edited: Load) -> None:
    module = edited(TWO)
    old = module.b
    edited(TWO.replace("+ 2", "+ 7"))
    importlib.reload(module)
    assert _values(old(X)) == _values(X + 2)
    assert _values(module.b(X)) == _values(X + 7)


@pytest.mark.parametrize("change", [("v + 1", "v + 5"), ("more(x[i])", "more(x[i]) + more(x[i])")])
def test_text_that_was_never_kept(edited: Load, change: tuple[str, str]) -> None:
    module = edited(PLAIN)
    edited(PLAIN.replace(*change))
    kernel: Any = loopfuse.kernel(module.k)
    name = "more" if "v" in change[0] else "k"
    with pytest.raises(UserError, match=f"the text of `{name}` has changed") as caught:
        kernel(X)
    assert caught.value.diagnostics[0].code == "no-source"
    assert "reload" in caught.value.diagnostics[0].fix
    fresh = importlib.reload(module)
    assert _values(_kernel(fresh.k)(X)) == _values(fresh.k(X))


def test_lines_that_moved_before_it_was_decorated(edited: Load) -> None:
    module = edited(PLAIN)
    edited(THIRD + PLAIN)
    assert _values(_kernel(module.k)(X)) == _values(X + 1)


def test_file_that_does_not_compile_now(edited: Load) -> None:
    module = edited(TWO)
    edited(TWO + "\ndef half(")
    assert _values(module.b(X)) == _values(X + 2)


def test_closures_classes_lambdas_and_defaults(edited: Load) -> None:
    text = """
def make(step):
    double = lambda v, by=2.0: v * by
    def add(v, more=-0.0):
        '''Adds.'''
        return double(v) + step + more
    @loopfuse.kernel
    def k(x: "loopfuse.f64['N']"):
        "Text."
        assert len(x) % 2 == 0
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = add(x[i])
        return y
    return k

class Kernels:
    __by = 3.0

    @loopfuse.kernel(fp="strict")
    def scaled(x):
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = x[i] * 3.0
        return y

k = make(1.0)
"""
    module = edited(text)
    edited("\n\n" + THIRD + text)
    assert _values(module.k(X)) == _values(X * 2 + 1)
    assert _values(module.Kernels.scaled(X)) == _values(X * 3)


def test_cells_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell's text is put into linecache, and run again under the same name."""
    text = HEAD + PLAIN
    name = "<cell of test_python_text>"
    scope: dict[str, Any] = {}
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(True), name))
    exec(compile(text, name, "exec"), scope)
    kernel: Any = loopfuse.kernel(scope["k"])
    changed = text.replace("+ 1", "+ 4")
    monkeypatch.setitem(linecache.cache, name, (len(changed), None, changed.splitlines(True), name))
    assert _values(kernel(X)) == _values(X + 1)
    exec(compile(changed, name, "exec"), scope)
    assert _values(_kernel(scope["k"])(X)) == _values(X + 4)


def test_assertions_that_pytest_rewrote() -> None:
    """This file is such a module: the code of a function with `assert` is not what its text gives."""

    @loopfuse.kernel
    def k(x: Any) -> Any:
        assert len(x) % 2 == 0
        y = np.empty_like(x)
        for i in range(len(x)):
            y[i] = x[i] + 1
        return y

    assert "@pytest_ar" in k.reference.__code__.co_names
    assert _values(k(X)) == _values(X + 1)


def test_what_is_kept_is_bounded(edited: Load) -> None:
    module = edited(TWO)
    for number in range(20):
        edited(TWO + f"\nn = {number}\n")
        importlib.reload(module)
    assert len(function_text._states[str(module.__file__)]) <= function_text.KEPT  # pyright: ignore[reportPrivateUsage]
