"""The peers: who else computes the cases, each made on demand and each allowed to fail.

A maker takes a case, its kernel's arrays and the inputs, and gives a `Prepared` call, or None where
that peer has no fair version of the case. The result of the first call is checked.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from cases import Array, Case
from measuring import inside, poisoned
from words import jax_words, torch_words

from loopfuse.runtime.formulas import evaluate

Outputs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prepared:
    """`call` computes; `outputs` turns what it gives into torch tensors by name (of `out` arrays
    the inside). `wait`, where events cannot time it: blocks until a result is there."""

    call: Callable[[], Any]
    outputs: Callable[[Any], Outputs]
    wait: Callable[[Any], Any] | None = None


Maker = Callable[[Case, tuple[Array, ...], Mapping[str, Any]], Prepared | None]


def same(result: Any) -> Outputs:
    """The outputs of a call that returns them."""
    return result


def in_place(
    case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]
) -> tuple[dict[str, Any], Callable[[Any], Outputs]]:
    """Arguments for a function that writes its arguments, and its outputs. The arrays are the
    peer's own: `inout` ones are copies."""
    modes = {one.name: one.mode for one in arrays}
    device = str(next(v for v in inputs.values() if torch.is_tensor(v)).device.type)
    held = {k: v.clone() if modes.get(k) == "inout" else v for k, v in inputs.items()}
    held |= poisoned(arrays, device)

    def outputs(_: Any) -> Outputs:
        return {
            one.name: inside(held[one.name], case.margin if one.mode == "out" else 0)
            for one in arrays
            if one.mode != "in"
        }

    return held, outputs


def unfused(case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]) -> Prepared:
    """loopfuse without a single fusion: the loops as written, a launch each."""
    kernel = case.load(fuel=0)
    held, outputs = in_place(case, arrays, inputs)
    return Prepared(lambda: kernel(**held), outputs)


def torch_eager(case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]) -> Prepared:
    """PyTorch, an operation at a time."""
    words = torch_words(exact=False)
    return Prepared(lambda: case.formula(words, inputs), same)


def torch_compile(case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]) -> Prepared:
    """torch.compile of the same function, as one graph: a break would be told, not timed."""
    torch.compiler.reset()  # it keeps eight versions of a function, and then runs it eagerly
    words = torch_words(exact=False)
    compiled = torch.compile(
        lambda given: case.formula(words, given), dynamic=False, fullgraph=True
    )
    return Prepared(lambda: compiled(dict(inputs)), same)


def jax_jit(case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]) -> Prepared:
    """jax.jit of the same function."""
    # PyTorch holds memory too: JAX must not take three quarters of it at the start.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    jax.config.update("jax_enable_x64", any(one.dtype == "f64" for one in arrays))
    words = jax_words()
    tensors = {k: jax.dlpack.from_dlpack(v) for k, v in inputs.items() if torch.is_tensor(v)}
    scalars = {k: v for k, v in inputs.items() if not torch.is_tensor(v)}
    compiled = jax.jit(lambda given: case.formula(words, {**given, **scalars}))

    def outputs(result: Any) -> Outputs:
        jax.block_until_ready(result)
        return {name: torch.from_dlpack(value) for name, value in result.items()}

    return Prepared(lambda: compiled(tensors), outputs, jax.block_until_ready)


def triton(case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]) -> Prepared | None:
    """A hand-written Triton kernel, where there is one."""
    import peers_triton

    make = peers_triton.MAKERS.get(case.key)
    return None if make is None else Prepared(make(inputs), same)


def cupy(case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]) -> Prepared | None:
    """CuPy: an ElementwiseKernel, a ready-made filter or a plain CUDA kernel."""
    import peers_cupy

    make = peers_cupy.MAKERS.get(case.key)
    return None if make is None else Prepared(*make(inputs))


def bare_launch(
    case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any]
) -> Prepared | None:
    """The same machine code, launched by cuda.bindings with a ready block of arguments."""
    if not case.back_to_back:
        return None
    from loopfuse.runtime.devices import cuda

    kernel = case.load()
    artifact = kernel.compile(
        cuda.need_gpu(0).target, emit=frozenset({"ptx", "cubin"}), index_bits=32
    )
    (step,) = artifact.manifest["steps"]
    one = step["launch"]
    held, outputs = in_place(case, arrays, inputs)
    sizes = {
        extent: length
        for parameter, array in zip(
            [p for p in artifact.manifest["parameters"] if p["kind"] == "array"], arrays
        )
        for extent, length in zip(parameter["extents"], array.shape)
    }
    kinds = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float}
    values: list[Any] = []
    for argument in one["arguments"]:
        name = argument.get("name", "")
        match argument["kind"]:
            case "pointer":
                values.append(ctypes.c_void_p(held[name].data_ptr()))
            case "value":
                value = sizes[name] if name in sizes else held[name]
                values.append(kinds[argument["dtype"]](value))
            case _:
                values.append(ctypes.c_bool(True))
    module = cuda.load(artifact.manifest, artifact.cubin or artifact.ptx, 0)
    function, threads = module.functions[one["name"]], one["threads"]
    block = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    grid, where = int(evaluate(str(one["grid"]), sizes)), ctypes.addressof(block)
    launch = cuda.driver_api().cuLaunchKernel

    def call(keep: Any = (values, block, held)) -> Any:
        return launch(function, grid, 1, 1, threads, 1, 1, 0, 0, where, 0)

    return Prepared(call, outputs)


PEERS: dict[str, Maker] = {
    "unfused": unfused,
    "torch.compile": torch_compile,
    "jax.jit": jax_jit,
    "triton": triton,
    "cupy": cupy,
    "torch eager": torch_eager,
    "bare launch": bare_launch,
}
