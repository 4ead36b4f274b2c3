"""How loopfuse and each peer runs a case of the CPU's table: each made on demand, each allowed to fail."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cpu_cases import halide_forms
from cpu_cases.case import Arguments, Case, Function, bound, wide
from cpu_compiled import dace_function, pythran_function

FAST = {"reassoc", "contract", "nsz", "arcp", "nnan", "afn"}
"""What numba may do with floats: what `fp="fast"` lets loopfuse do, and no NaN besides."""


@dataclass(frozen=True, slots=True)
class Way:
    """`run` computes; `reset` gives the inputs back before it; `results` are those of the last run."""

    run: Callable[[], Any]
    reset: Callable[[], None]
    results: Callable[[], tuple[Any, ...]]


def copies(arguments: Arguments) -> Arguments:
    """The arguments, arrays copied."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}


def of_loops(case: Case, arguments: Arguments, function: Function) -> Way:
    """A function that takes the arguments in the case's order."""
    held = copies(arguments)
    values = tuple(held.values())
    pairs = [(held[name], arguments[name]) for name in case.inout]
    kept: list[Any] = [None]

    def run() -> None:
        kept[0] = None
        kept[0] = function(*values)

    def reset() -> None:
        for target, source in pairs:
            np.copyto(target, source)

    return Way(run, reset, lambda: case.results(held, kept[0]))


def loopfuse_kernel(case: Case, **options: Any) -> Any:
    """The case as loopfuse compiles it: `prange` is `range` to it, and what is parallel it finds out."""
    import loopfuse

    words = {"prange": range, "erf": loopfuse.erf}
    kernel = loopfuse.kernel(bound(case.function, words, lambda function: function))
    return kernel.with_options(**options) if options else kernel


def loopfuse_way(case: Case, arguments: Arguments) -> Way:
    """loopfuse as it is."""
    return of_loops(case, arguments, loopfuse_kernel(case))


def unfused(case: Case, arguments: Arguments) -> Way | None:
    """loopfuse without a single fusion."""
    return of_loops(case, arguments, loopfuse_kernel(case, fuel=0)) if case.unfused else None


def _numba(function: Function, parallel: bool, fast: bool = True) -> Function:
    import numba

    words = {"prange": numba.prange if parallel else range, "erf": math.erf}
    more: dict[str, Any] = {"fastmath": FAST, "error_model": "numpy"} if fast else {}
    return numba.njit(parallel=parallel, **more)(bound(function, words, numba.njit(**more)))


def numba_serial(case: Case, arguments: Arguments) -> Way:
    """`numba.njit`, on one thread."""
    return of_loops(case, arguments, _numba(case.numba or case.function, False))


def numba_parallel(case: Case, arguments: Arguments) -> Way | None:
    """`numba.njit(parallel=True)`."""
    form = case.parallel or case.numba or case.function
    return None if isinstance(form, str) else of_loops(case, arguments, _numba(form, True))


def of_library(
    case: Case, arguments: Arguments, library: str, take: Callable[[Any], Any], wait: Callable[[Any], Any],
    wrap: Callable[[Function], Function] = lambda form: form,
) -> Way | None:  # fmt: skip
    """The form for a library, or None: `take` makes its arrays of ours, `wait` waits for a result."""
    form = case.form(library)
    if form is None:
        return None
    names = list(inspect.signature(form).parameters)
    is_array = {name: isinstance(arguments[name], np.ndarray) for name in names}
    held = {name: take(arguments[name].copy()) if is_array[name] else arguments[name] for name in names}
    origin = {name: take(arguments[name].copy()) for name in case.inout if name in held}
    function = wrap(form)
    values = tuple(held.values())
    kept: list[Any] = [None]

    def run() -> None:
        kept[0] = None
        kept[0] = wait(function(*values))

    def reset() -> None:
        if library == "jax":  # its arrays do not change
            return
        for name, source in origin.items():
            held[name][...] = source

    def results() -> tuple[Any, ...]:
        value = kept[0]
        return tuple(np.asarray(each) for each in (value if isinstance(value, tuple | list) else (value,)))

    return Way(run, reset, results)


def numpy_way(case: Case, arguments: Arguments) -> Way | None:
    """NumPy."""
    return of_library(case, arguments, "numpy", lambda array: array, lambda value: value)


def torch_eager(case: Case, arguments: Arguments) -> Way | None:
    """PyTorch, an operator at a time."""
    import torch

    with torch.no_grad():
        return of_library(case, arguments, "torch", torch.from_numpy, lambda value: value)


def jax_jit(case: Case, arguments: Arguments) -> Way | None:
    """`jax.jit`; plain numbers are constants to it."""
    import jax

    def wrap(form: Function) -> Function:
        names = list(inspect.signature(form).parameters)
        numbers = tuple(
            i for i, name in enumerate(names) if not isinstance(arguments.get(name), np.ndarray)
        )
        return jax.jit(form, static_argnums=numbers)

    return of_library(case, arguments, "jax", jax.device_put, jax.block_until_ready, wrap)


def halide_way(case: Case, arguments: Arguments) -> Way | None:
    """Halide with its automatic scheduler, where there is a form for it."""
    form = halide_forms.FORMS.get(case.key)
    if form is None:
        return None
    held = copies(arguments)
    (written,) = case.written
    run = halide_forms.compiled(form, held, written, case.inside)
    return Way(run, lambda: None, lambda: case.results(held, None))


def pythran_way(case: Case, arguments: Arguments) -> Way:
    """pythran, of the loops with `prange` where they have it."""
    return of_loops(case, arguments, pythran_function(case, arguments))


def dace_way(case: Case, arguments: Arguments) -> Way:
    """DaCe with its automatic optimisation."""
    return of_loops(case, arguments, dace_function(case, arguments))


PEERS: dict[str, Callable[[Case, Arguments], Way | None]] = {
    "numba": numba_serial,
    "numba parallel": numba_parallel,
    "numpy": numpy_way,
    "torch eager": torch_eager,
    "jax.jit": jax_jit,
    "halide": halide_way,
    "pythran": pythran_way,
    "dace": dace_way,
    "unfused": unfused,
}


def reference(case: Case, arguments: Arguments, compiled: bool) -> tuple[np.ndarray, ...]:
    """The loops as written, in float64, one iteration after the other: through numba without fastmath, or
    by CPython."""
    held = wide(arguments)
    words = {"prange": range, "erf": math.erf}
    if compiled:
        function = _numba(case.numba or case.function, False, fast=False)
    else:
        function = bound(case.function, words, lambda each: each)
    with np.errstate(all="ignore"):
        returned = function(*held.values())
    return case.results(held, returned)
