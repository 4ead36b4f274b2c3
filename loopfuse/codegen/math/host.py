"""Our math functions on the host, for the interpreters: the very bits that kernels compute.

The MLIR of `mathfns`, lowered by the same walk and compiled for this machine when it is first
called. Each comes as a loop over arrays; `lanes` gives the vector form, for the tests.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as binding
import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Target
from loopfuse.codegen.build import F32, F64, I64, INDEX, Builder, memref_type, vector_type
from loopfuse.codegen.ir import Block, Operation, Value, module_of
from loopfuse.codegen.llvm.device import Device
from loopfuse.codegen.llvm.walk import emit_llvm
from loopfuse.codegen.math.functions import (
    FUNCTIONS,
    LOOPS,
    TWO_ARGUMENTS,
    make_math_function,
    math_function_name,
)
from loopfuse.codegen.targets import native

NAMES = (*FUNCTIONS, "mod", "fmod")


def host_math_module(name: str, dtype: DType, lanes: int = 0) -> Operation:
    """A function and a loop over it: `loop_NAME_DTYPE(x..., y, begin, end)`.

    With `lanes` the loop takes that many elements a step (its bounds are multiples of it).
    """
    width = 0 if name in LOOPS else lanes
    return module_of([make_math_function(name, dtype, width), _loop(name, dtype, width)])


def _loop(name: str, dtype: DType, lanes: int) -> Operation:
    element = F32 if dtype is DType.F32 else F64
    kind = vector_type(element, lanes) if lanes else element
    count = 2 if name in TWO_ARGUMENTS else 1
    arguments = [memref_type(element)] * (count + 1) + [I64, I64]
    block = Block(arguments)
    builder = Builder(block)
    *sources, target, begin, end = block.args

    def body(iterator: Value) -> None:
        index = builder.convert("index_cast", iterator, INDEX)
        values = [
            builder.vector_load(source, index, lanes, 0) if lanes else builder.load(source, index)
            for source in sources
        ]
        value = builder.call(math_function_name(name, dtype, lanes), values, kind)
        if lanes:
            builder.vector_store(value, target, index, 0)
        else:
            builder.store(value, target, index)

    builder.loop(begin, end, builder.constant(max(lanes, 1), I64), body)
    builder.block.add(Operation("func.return"))
    builder.close()
    properties = {"sym_name": f"loop_{name}_{dtype.value}", "outputs": ()}
    return Operation("func.func", properties=properties, blocks=(block,))


def host_math_function(
    name: str, dtype: DType, target: Target = CPU, lanes: int = 0
) -> Callable[..., Any]:
    """One function, compiled on its first call; for a CPU target that this machine can run."""
    compiled: list[Callable[..., Any]] = []

    def call(*arguments: Any) -> Any:
        if not compiled:
            text = emit_llvm(host_math_module(name, dtype, lanes), Device(*native.host_triple(target)))
            binding.initialize_native_target()
            engine = binding.create_mcjit_compiler(
                binding.parse_assembly(""), native.new_host_machine(target)
            )
            code = binding.ObjectFileRef.from_data(native.emit_object(text, target))
            engine.add_object_file(code)
            engine.finalize_object()
            compiled.append(_wrap(engine, name, dtype, lanes))
        return compiled[0](*arguments)

    return call


@cache
def compiled_math() -> dict[tuple[str, DType], Callable[..., Any]]:
    """Each function by name and dtype: NumPy scalars to a scalar, arrays to an array."""
    return {
        (name, dtype): host_math_function(name, dtype)
        for name in NAMES
        for dtype in (DType.F32, DType.F64)
    }


def _wrap(engine: Any, name: str, dtype: DType, lanes: int) -> Callable[..., Any]:
    count = 2 if name in TWO_ARGUMENTS else 1
    pointers = [ctypes.c_void_p] * (count + 1)
    kind = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)
    function = kind(engine.get_function_address(f"loop_{name}_{dtype.value}"))
    element = np.dtype(dtype.numpy_name)
    offsets = [index * element.itemsize for index in range(count + 1)]

    def of_scalars(arguments: tuple[Any, ...]) -> Any:
        """An interpreter calls it once an iteration: one small array, arguments then result."""
        places = np.empty(count + 1, element)
        places[:count] = arguments
        start = places.ctypes.data
        function(*(start + offset for offset in offsets), 0, 1)
        return places[count]

    def call(*arguments: Any) -> Any:
        # The engine owns the code: it lives as long as this function does.
        assert engine is not None
        if not lanes and all(isinstance(each, np.generic) for each in arguments):
            return of_scalars(arguments)
        arrays = [np.asarray(each, element) for each in arguments]
        shape = np.broadcast_shapes(*(each.shape for each in arrays))
        size = int(np.prod(shape, dtype=np.int64))
        padded = -(-size // max(lanes, 1)) * max(lanes, 1)
        flat = [np.resize(np.broadcast_to(each, shape), max(padded, 1)) for each in arrays]
        flat = [np.ascontiguousarray(each) for each in flat]
        out = np.empty(max(padded, 1), element)
        function(*(each.ctypes.data for each in (*flat, out)), 0, padded)
        result = out[:size].reshape(shape)
        return result[()] if not shape else result

    return call
