"""Our math functions as MLIR functions: those that `lang.ops` calls ours, and exact remainders.

`make_math_function(name, dtype, lanes)` gives a private `func.func` of one or two arguments. All
but the remainders are branch-free (sin, cos and tan skip a path that few arguments need), so LLVM
can vectorise loops that call them, and each shape and machine gives the same bits. `ULP_BOUNDS` is
what the tests hold them to, against mpmath.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import not_lowered
from loopfuse.codegen.build import F32, F64, Builder, make_function, vector_type
from loopfuse.codegen.ir import Operation, Value
from loopfuse.codegen.math import circle as circle
from loopfuse.codegen.math import hyperbolic as hyperbolic
from loopfuse.codegen.math import single as single
from loopfuse.codegen.math.exp import emit_exp, emit_exp2, emit_expm1, emit_tanh
from loopfuse.codegen.math.log import emit_log, emit_log1p, emit_log2, emit_pow
from loopfuse.codegen.math.mod import float_floordiv, float_fmod, float_mod
from loopfuse.codegen.math.native import emit_approximate
from loopfuse.codegen.math.ops import Ops
from loopfuse.codegen.math.special import emit_erf, emit_rsqrt
from loopfuse.lang import ops

FUNCTIONS: dict[str, Callable[..., Value]] = {
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
    "sin": circle.emit_sin,
    "cos": circle.emit_cos,
    "tan": circle.emit_tan,
    "asin": circle.emit_asin,
    "acos": circle.emit_acos,
    "atan": circle.emit_atan,
    "atan2": circle.emit_atan2,
    "sinh": hyperbolic.emit_sinh,
    "cosh": hyperbolic.emit_cosh,
    "asinh": hyperbolic.emit_asinh,
    "acosh": hyperbolic.emit_acosh,
    "atanh": hyperbolic.emit_atanh,
    "log10": hyperbolic.emit_log10,
    "cbrt": hyperbolic.emit_cbrt,
    "hypot": hyperbolic.emit_hypot,
}
"""Each takes an `Ops` and its operands."""

_SINGLE: dict[str, Callable[..., Value]] = {
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

ULP_BOUNDS = ops.ulp_bounds()
"""The largest error of each function, in units in the last place of the exact result."""

TWO_ARGUMENTS = (
    "div", "mod", "floordiv", "fmod", *(name for name in (*ops.OURS, *ops.APPROXIMATE) if ops.BY_NAME[name].arity == 2)
)  # fmt: skip


LOOPS = ("mod", "floordiv", "fmod")
"""Exact remainders: they loop, and take scalars alone."""


def math_function_name(function: str, dtype: DType, lanes: int) -> str:
    """The symbol of a math function in one type and shape: `lf_exp_f32`, `lf_exp_f32x4`."""
    return f"lf_{function.replace('.', '_')}_{dtype.value}" + ("_apart" if lanes == APART else f"x{lanes}" if lanes else "")


APART = -1
"""In place of lanes: a function of scalars for what rarely happens, which is called where it does, not copied there."""


def make_math_function(function: str, dtype: DType, lanes: int = 0) -> Operation:
    """The MLIR of a math function; LimitError[tree-not-lowered] for a type it does not have."""
    if lanes == APART:
        one = make_math_function(function, dtype)
        one.properties = {**one.properties, "sym_name": math_function_name(function, dtype, APART), "apart": True}
        return one
    is_approximate = function in ops.APPROXIMATE
    if dtype not in (DType.F32, DType.F64) or not (is_approximate or function in (*LOOPS, *FUNCTIONS, "div")):
        raise not_lowered(f"{function} of {dtype.value}")
    element = F32 if dtype is DType.F32 else F64
    kind = vector_type(element, lanes) if lanes else element
    count = 2 if function in TWO_ARGUMENTS else 1

    def body(builder: Builder, arguments: Sequence[Value]) -> Sequence[Value]:
        if function == "mod":
            return [float_mod(builder, dtype.bits, *arguments)]
        if function == "div":
            return [builder.binary("divf", arguments[0], arguments[1])]
        if is_approximate:
            return [emit_approximate(function, builder, *arguments)]
        if function == "fmod":
            return [float_fmod(builder, dtype.bits, *arguments)]
        if function == "floordiv":
            return [float_floordiv(builder, dtype.bits, *arguments)]
        emit = FUNCTIONS[function] if dtype is DType.F64 else _SINGLE.get(function, FUNCTIONS[function])
        return [emit(Ops(builder, dtype.bits, lanes), *arguments)]

    return make_function(math_function_name(function, dtype, lanes), [kind] * count, [kind], body)
