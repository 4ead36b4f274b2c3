"""Our math functions as MLIR functions: exp exp2 expm1 log log2 log1p tanh erf rsqrt pow, and mod.

`make_math_function(name, dtype, lanes)` gives a private `func.func` of one or two arguments. All
but `mod` are branch-free, so LLVM can vectorise loops that call them, and each shape and machine
gives the same bits. `ULP_BOUNDS` is what the tests hold them to, against mpmath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import func
from xdsl.ir import SSAValue

from loopfuse.base.dtypes import DType
from loopfuse.codegen import mathfns_single as single
from loopfuse.codegen.abi import not_lowered
from loopfuse.codegen.mathfns_exp import emit_exp, emit_exp2, emit_expm1, emit_tanh
from loopfuse.codegen.mathfns_log import emit_log, emit_log1p, emit_log2, emit_pow
from loopfuse.codegen.mathfns_mod import float_floordiv, float_mod
from loopfuse.codegen.mathfns_ops import Ops
from loopfuse.codegen.mathfns_special import emit_erf, emit_rsqrt
from loopfuse.codegen.mlir_build import F32, F64, Builder, make_function, vector_type

FUNCTIONS: dict[str, Callable[..., SSAValue]] = {
    "exp": emit_exp,
    "exp2": emit_exp2,
    "expm1": emit_expm1,
    "log": emit_log,
    "log2": emit_log2,
    "log1p": emit_log1p,
    "tanh": emit_tanh,
    "erf": emit_erf,
    "rsqrt": emit_rsqrt,
    "pow": emit_pow,
}
"""Each takes an `Ops` and its operands."""

_SINGLE: dict[str, Callable[..., SSAValue]] = {
    "exp": single.emit_exp,
    "exp2": single.emit_exp2,
    "expm1": single.emit_expm1,
    "log": single.emit_log,
    "log2": single.emit_log2,
    "log1p": single.emit_log1p,
    "tanh": single.emit_tanh,
    "erf": single.emit_erf,
}
"""What f32 has instead."""

_SINGLE_BOUNDS = {
    "exp": 1.45,
    "exp2": 1.2,
    "expm1": 1.3,
    "log": 1.0,
    "log2": 1.2,
    "log1p": 1.3,
    "tanh": 1.4,
    "erf": 1.3,
    "rsqrt": 1.5,
    "pow": 0.9,
    "mod": 0.0,
}
_DOUBLE_BOUNDS = {
    "exp": 0.9,
    "exp2": 0.9,
    "expm1": 1.1,
    "log": 0.75,
    "log2": 0.75,
    "log1p": 0.75,
    "tanh": 0.85,
    "erf": 1.1,
    "rsqrt": 1.5,
    "pow": 0.9,
    "mod": 0.0,
}

ULP_BOUNDS: dict[tuple[str, DType], float] = {
    **{(name, DType.F32): bound for name, bound in _SINGLE_BOUNDS.items()},
    **{(name, DType.F64): bound for name, bound in _DOUBLE_BOUNDS.items()},
}
"""The largest error of each function, in units in the last place of the exact result. `mod` is
fmod, which is exact, plus at most one rounded addition, as Python's."""


def math_function_name(function: str, dtype: DType, lanes: int) -> str:
    """The symbol of a math function in one type and shape: `lf_exp_f32`, `lf_exp_f32x4`."""
    return f"lf_{function}_{dtype.value}" + (f"x{lanes}" if lanes else "")


def make_math_function(function: str, dtype: DType, lanes: int = 0) -> func.FuncOp:
    """The MLIR of a math function; LimitError[tree-not-lowered] for a type it does not have."""
    if dtype not in (DType.F32, DType.F64) or (function not in ("mod", "floordiv") and function not in FUNCTIONS):
        raise not_lowered(f"{function} of {dtype.value}")
    element = F32 if dtype is DType.F32 else F64
    kind = vector_type(element, lanes) if lanes else element
    count = 2 if function in ("mod", "floordiv", "pow") else 1

    def body(builder: Builder, arguments: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if function == "mod":
            return [float_mod(builder, dtype.bits, *arguments)]
        if function == "floordiv":
            return [float_floordiv(builder, dtype.bits, *arguments)]
        emit = FUNCTIONS[function] if dtype is DType.F64 else _SINGLE.get(function, FUNCTIONS[function])
        return [emit(Ops(builder, dtype.bits, lanes), *arguments)]

    return make_function(math_function_name(function, dtype, lanes), [kind] * count, [kind], body)
