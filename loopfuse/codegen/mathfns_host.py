"""Our math functions on the host, for the interpreters: the very bits that kernels compute.

The MLIR of `mathfns`, lowered by the same walk and compiled for this machine once a process. Each
comes as a loop over arrays; `lanes` gives the vector form, for the tests.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as binding
import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from loopfuse.base.dtypes import DType
from loopfuse.base.options import CPU, Target
from loopfuse.codegen import native
from loopfuse.codegen.llvm_walk import emit_llvm
from loopfuse.codegen.mathfns import FUNCTIONS, make_math_function, math_function_name
from loopfuse.codegen.mlir_build import F32, F64, I64, INDEX, Builder, memref_type, vector_type

NAMES = (*FUNCTIONS, "mod")
TWO_ARGUMENTS = ("pow", "mod")


def host_math_module(lanes: int = 0) -> ModuleOp:
    """Every function in f32 and f64, and for each a loop `loop_NAME(x..., y, begin, end)`.

    With `lanes` the loops take that many elements a step (their bounds are multiples of it).
    """
    operations: list[func.FuncOp] = []
    for name in NAMES:
        for dtype in (DType.F32, DType.F64):
            width = 0 if name == "mod" else lanes
            operations.append(make_math_function(name, dtype, width))
            operations.append(_loop(name, dtype, width))
    return ModuleOp(operations)


def _loop(name: str, dtype: DType, lanes: int) -> func.FuncOp:
    element = F32 if dtype is DType.F32 else F64
    kind: Attribute = vector_type(element, lanes) if lanes else element
    count = 2 if name in TWO_ARGUMENTS else 1
    arguments = [memref_type(element)] * (count + 1) + [I64, I64]
    block = Block(arg_types=arguments)
    builder = Builder(block)
    *sources, target, begin, end = block.args

    def body(iterator: SSAValue) -> None:
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
    builder.block.add_op(func.ReturnOp.create())
    builder.close()
    return func.FuncOp.create(
        properties={
            "sym_name": StringAttr(f"loop_{name}_{dtype.value}"),
            "function_type": FunctionType.from_lists(arguments, []),
        },
        regions=[Region(block)],
    )


def compile_host_math(target: Target = CPU, lanes: int = 0) -> dict[tuple[str, DType], Callable[..., Any]]:
    """As `compiled_math`, for a CPU target that this machine can run, and a shape."""
    text = emit_llvm(host_math_module(lanes), *native.host_triple(target))
    binding.initialize_native_target()
    engine = binding.create_mcjit_compiler(
        binding.parse_assembly(""), native.new_host_machine(target)
    )
    engine.add_object_file(binding.ObjectFileRef.from_data(native.emit_object(text, target)))
    engine.finalize_object()
    return {
        (name, dtype): _wrap(engine, name, dtype, lanes)
        for name in NAMES
        for dtype in (DType.F32, DType.F64)
    }


@cache
def compiled_math() -> dict[tuple[str, DType], Callable[..., Any]]:
    """Each function by name and dtype: NumPy scalars to a scalar, arrays to an array."""
    return compile_host_math()


def _wrap(engine: Any, name: str, dtype: DType, lanes: int) -> Callable[..., Any]:
    count = 2 if name in TWO_ARGUMENTS else 1
    pointers = [ctypes.c_void_p] * (count + 1)
    kind = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64, ctypes.c_int64)
    function = kind(engine.get_function_address(f"loop_{name}_{dtype.value}"))
    element = np.dtype(dtype.numpy_name)

    def call(*arguments: Any) -> Any:
        # The engine owns the code: it lives as long as this function does.
        assert engine is not None
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
