"""A case of the CPU's table: a plain loop function, its arguments, and the same work as peers' users write it."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

F = np.float32

Function = Callable[..., Any]
Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """`function` is the plain loops: `prange` in it is `range` to loopfuse, numba's `prange` to numba.
    `make(random, **sizes)` gives its arguments by name, in its order. `written`: what is compared, names
    of arguments, or `return` for what it returns. `inout`: the arrays given back before every run.

    Peers: `numba` is a form of the loops that suits numba better, `parallel` one for `parallel=True`
    (a str: why there is none). `libraries` is the work as NumPy, PyTorch and JAX spell it alike,
    `forms` those spelled otherwise (None: not this one). They take arguments by name and give the
    values of `written`. `inside` is the width of the border that nobody writes, which their values lack;
    `lower`: only triangles below the diagonal are compared. `reason`: why loopfuse is slower than numba
    where it is, found by looking.
    """

    key: str
    group: str
    function: Function
    make: Callable[..., Arguments]
    sizes: Mapping[str, int]
    tiny: Mapping[str, int]
    written: tuple[str, ...]
    tolerance: float
    inout: tuple[str, ...] = ()
    numba: Function | None = None
    parallel: Function | str | None = None
    libraries: Function | None = None
    forms: Mapping[str, Function | None] = field(default_factory=dict)
    inside: int = 0
    lower: bool = False
    unfused: bool = False
    note: str = ""
    reason: str = ""

    def form(self, library: str) -> Function | None:
        """The work as a library's users write it."""
        return self.forms.get(library, self.libraries)

    def arguments(self, tiny: bool = False) -> Arguments:
        """Fresh random arguments by name, the same in every process."""
        sizes = self.tiny if tiny else self.sizes
        return self.make(np.random.default_rng(7), **sizes)

    def results(self, held: Arguments, returned: Any) -> tuple[np.ndarray, ...]:
        """What the loops wrote, in the order of `written`, without the border that nobody writes."""
        gave = iter(returned if isinstance(returned, tuple) else (returned,))
        found = [np.asarray(next(gave) if name == "return" else held[name]) for name in self.written]
        if self.inside:
            i = self.inside
            found = [value[(..., *[slice(i, -i)] * 2)] for value in found]
        return tuple(found)

    def error(self, got: tuple[Any, ...], right: tuple[np.ndarray, ...]) -> float:
        """The largest difference over the largest value; of integers, how many differ."""
        worst = 0.0
        for ours, theirs in zip(got, right, strict=True):
            ours = np.asarray(ours).reshape(theirs.shape)
            if self.lower:
                ours, theirs = np.tril(ours), np.tril(theirs)
            if theirs.dtype.kind in "iu":
                worst = max(worst, float(np.count_nonzero(ours != theirs)))
                continue
            scale = float(np.max(np.abs(theirs))) or 1.0
            here = float(np.max(np.abs(ours.astype(np.float64) - theirs))) / scale
            worst = max(worst, here if here == here else np.inf)
        return worst


def wide(arguments: Arguments) -> Arguments:
    """Copies, floats in f64."""
    return {
        name: np.array(value, np.float64 if value.dtype.kind == "f" else value.dtype)
        if isinstance(value, np.ndarray | np.generic)
        else value
        for name, value in arguments.items()
    }


def bound(function: Function, words: Mapping[str, Any], wrap: Callable[[Function], Function]) -> Function:
    """The function with other meanings of some global names; functions that it calls go through `wrap`."""
    names = function.__code__.co_names
    known = function.__globals__
    called = {
        name: wrap(bound(known[name], words, wrap))
        for name in names
        if name not in words and isinstance(known.get(name), FunctionType)
    }
    return FunctionType(function.__code__, {**known, **called, **words}, function.__name__, function.__defaults__)


def pranges(function: Function, *loops: int) -> Function:
    """The function with `prange` for `range` in the loops of these numbers, in text order from 0. `inspect` has its text."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list = []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    found.sort(key=lambda node: node.lineno)
    for number in loops:
        call = found[number].iter
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        call.func.id = "prange"
    text, name = ast.unparse(tree), f"<{function.__name__} with prange>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    words = dict(function.__globals__)
    exec(compile(text, name, "exec"), words)
    return words[function.__name__]


def f32(random: np.random.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Random f32 between two numbers."""
    return random.random(shape, np.float32) * F(high - low) + F(low)


def f64(random: np.random.Generator, *shape: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Random f64 between two numbers."""
    return random.random(shape) * (high - low) + low


@cache
def _words(library: str) -> Any:
    import words

    return {"numpy": lambda: words.Numpy, "torch": lambda: words.torch_words(False), "jax": words.jax_words}[library]()


def by(formula: Function, names: str, *libraries: str, **constants: float) -> dict[str, Function | None]:
    """The forms for libraries (all three) that a formula of `benchmarks/formulas.py` is, by its arrays' names."""

    def made(library: str) -> Function:
        def form(*values: Any) -> Any:
            arrays = dict(zip(names.split(), values, strict=True))
            return tuple(formula(_words(library), {**arrays, **constants}).values())

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = [inspect.Parameter(name, kind) for name in names.split()]
        form.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return form

    return {library: made(library) for library in libraries or ("numpy", "torch", "jax")}


def sizes(words: str) -> dict[str, int]:
    """`N=9 M=7` as sizes by name."""
    return {name: int(value) for name, _, value in (word.partition("=") for word in words.split())}
