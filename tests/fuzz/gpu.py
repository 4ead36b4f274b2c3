"""One program on this machine's GPU, against the interpreter and its tree.

Fused and unfused in program order must have the interpreter's bits, and with reductions free to change
order those of the tree that was compiled. Outputs are full of a pattern beforehand wherever the
program fills them, so that a missing write shows. An error of the driver is a failure with
`cuda-error` in its kind: the context is lost then, and the worker ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from case_files import same_bits
from engines import is_wide

import loopfuse
from fuzz import engines
from fuzz.compare import Failure, described, first_difference, has_reductions
from fuzz.engines import Ran, Session
from loopfuse.base.diagnostics import LoopfuseError, UserError
from loopfuse.runtime.devices import cuda

Upload = Callable[[np.ndarray], Any]
Download = Callable[[Any], np.ndarray]


@functools.lru_cache(maxsize=1)
def library() -> tuple[Upload, Download]:
    """How arrays come to the GPU and back: PyTorch, else CuPy (which has no bfloat16)."""
    from gpu_libraries import LIBRARIES

    try:
        import torch

        assert torch.cuda.is_available()
        return LIBRARIES["torch"]()
    except (ImportError, AssertionError):
        return LIBRARIES["cupy"]()


@functools.lru_cache(maxsize=1)
def target() -> str:
    """This GPU's target; an error where there is none."""
    return cuda.need_gpu(0).target


def uploaded(it: Session) -> dict[str, Any]:
    """The arguments on the GPU; arrays that are one stay one. Views of packed memory keep their
    strides where the library has them (PyTorch has no negative ones: those are packed)."""
    upload, _ = library()
    call = engines.copied(it.program, it.arguments)
    kinds = dict(it.program.views)
    made: dict[int, Any] = {}
    held: dict[str, Any] = {}
    for name, value in call.items():
        if not isinstance(value, np.ndarray):
            held[name] = value
            continue
        if id(value) not in made:
            packed = upload(np.ascontiguousarray(value))
            made[id(value)] = _strided(packed, upload, value, kinds.get(name, ""))
        held[name] = made[id(value)]
    return held


def _strided(packed: Any, upload: Upload, value: np.ndarray, kind: str) -> Any:
    if kind == "transposed" and value.ndim == 2:
        return upload(np.ascontiguousarray(value.T)).T
    if kind in ("every_other", "window") and value.size:
        space = upload(np.zeros(tuple(2 * n + 3 for n in value.shape), value.dtype))
        step = 2 if kind == "every_other" else 1
        view = space[tuple(slice(1, 1 + step * n, step) for n in value.shape)]
        view[...] = packed
        return view
    return packed


def call_on_gpu(it: Session, kernel: Any) -> Ran:
    """One call; an offender that it raises is part of what is given back."""
    held = uploaded(it)
    raised: frozenset[tuple[Any, ...]] = frozenset()
    it.ran["GPU"] += 1
    try:
        kernel(**held, **engines.sizes_to_pass(it))
        loopfuse.synchronize()
    except UserError as error:
        first = error.diagnostics[0]
        if first.code != "subscript-out-of-range":
            raise
        raised = frozenset({(str(first.span),)})
    _, download = library()
    names = [p.name for p in it.kernel.arrays]
    return Ran({n: np.ascontiguousarray(download(held[n])) for n in names}, raised)


def poisoned(expected: Ran, it: Session) -> None:
    """Fill elements of `out` arrays that the program writes with a pattern.

    What it writes is found by running the interpreter on two different fillings: those elements
    are equal after both."""
    outs = [p for p in it.kernel.arrays if p.mode == "out"]
    if not outs:
        return
    before = {p.name: it.arguments[p.name] for p in outs}
    for p in outs:
        flipped = before[p.name].copy()
        bytes_ = flipped.reshape(-1).view(np.uint8)
        bytes_ ^= 1 if flipped.dtype.kind == "b" else 0x55
        it.arguments[p.name] = flipped
    again = engines.interpret(it)
    for p in outs:
        array = it.arguments[p.name]
        kept = np.array([
            same_bits(expected.arrays[p.name].reshape(-1)[k : k + 1], again.arrays[p.name].reshape(-1)[k : k + 1])
            for k in range(array.size)
        ], dtype=bool).reshape(array.shape)  # fmt: skip
        it.arguments[p.name] = np.where(kept, array, before[p.name])


def compare_on_gpu(it: Session, expected: Ran) -> Failure | None:
    """The failure on the GPU, or None."""
    poisoned(expected, it)
    for fuel in (0, None):
        who = f"gpu {'unfused' if fuel == 0 else 'fused'}"
        if found := against(it, expected, who, lambda fuel=fuel: engines.compile_call(it, fuel)):
            return found
    if not has_reductions(it.kernel):
        return None
    planned = engines.plan(it, target(), None, True)
    if is_wide(planned):
        return None
    tree = engines.run_planned(it, planned.tree)
    return against(it, tree, "gpu reordered", lambda: engines.compile_call(it, None, True))


def against(it: Session, expected: Ran, who: str, make: Callable[[], Any]) -> Failure | None:
    """Call what `make` gives on the GPU and compare with `expected`."""
    try:
        got = call_on_gpu(it, make())
    except LoopfuseError as error:
        return described(who, error)
    except Exception as error:
        lost = "cuda-error: " if "CUDA" in str(error) else ""
        found = described(who, error)
        return Failure(lost + found.kind, found.detail)
    for param in it.kernel.arrays:
        left, right = expected.arrays[param.name], got.arrays[param.name]
        if not same_bits(left, right):
            return Failure(f"differ: {who}", f"{who}: {first_difference(param.name, left, right)}")
    if not got.offences <= {(o[-1],) for o in expected.offences}:
        return Failure(f"differ: {who}", f"{who}: the error points to {sorted(got.offences)}")
    return None
