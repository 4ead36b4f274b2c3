"""What one scalar operation computes, to the bit: the meaning every target must reproduce.

Values are `np.float32`, `np.float64`, Python `int` (in the range of its dtype) and Python `bool`;
f16 and bf16 are only stored and converted, as `np.float16` and ml_dtypes' `bfloat16`.
Each function here gives a callable for one operation at one dtype; `interp` and the constant
folder call them. Callers silence NumPy's floating point warnings (`np.errstate(all="ignore")`).
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.base.rounding import round_to_narrow
from loopfuse.lang import approximate, ops

Scalar = Any
"""np.float16 | bfloat16 | np.float32 | np.float64 | int | bool: one element's value."""

MathFunctions = Mapping[str, Callable[..., Scalar]]
"""Our math functions by name (`exp`), or by name and dtype (`exp_f32`), to use for the defaults."""

OURS = ops.OURS
"""Functions whose bits the compiled code defines; the defaults here are merely close."""


def scalar_type(dtype: DType) -> Callable[[Any], Scalar]:
    """The constructor of a value of `dtype` from one that is already representable in it."""
    match dtype:
        case DType.F32:
            return np.float32
        case DType.F64:
            return np.float64
        case DType.F16:
            return np.float16
        case DType.BF16:
            return ml_dtypes.bfloat16
        case DType.BOOL:
            return bool
        case _:
            return int


def array_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of an array of `dtype`."""
    return np.dtype(ml_dtypes.bfloat16 if dtype is DType.BF16 else dtype.numpy_name)


def integer_limits(dtype: DType) -> tuple[int, int]:
    """The least and greatest value of an integer dtype."""
    if dtype.is_unsigned:
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def wrapper(dtype: DType) -> Callable[[int], int]:
    """Reduces any integer into the range of `dtype`, modulo its width."""
    low, high = integer_limits(dtype)
    modulus = 2**dtype.bits

    def wrap(value: int) -> int:
        return value if low <= value <= high else (value - low) % modulus + low

    return wrap


# ---------------------------------------------------------------------------- floating point


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """llvm.minimum: a NaN operand gives NaN, and -0.0 is below +0.0."""
    if a != a or b != b:
        return a + b
    if a == b:
        return a if np.signbit(a) else b
    return min(a, b)


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """llvm.maximum: a NaN operand gives NaN, and +0.0 is above -0.0."""
    if a != a or b != b:
        return a + b
    if a == b:
        return b if np.signbit(a) else a
    return max(a, b)


def minimum_number(a: Scalar, b: Scalar) -> Scalar:
    """`fmin`: the other operand where one is NaN."""
    if a != a or b != b:
        return b if a != a else a
    return minimum(a, b)


def maximum_number(a: Scalar, b: Scalar) -> Scalar:
    """`fmax`: the other operand where one is NaN."""
    if a != a or b != b:
        return b if a != a else a
    return maximum(a, b)


def float_mod(a: Scalar, b: Scalar) -> Scalar:
    """Python's `%`: the exact fmod, moved to the sign of `b` by one rounded addition."""
    remainder = np.fmod(a, b)
    if remainder != remainder or b == 0:
        return remainder
    if remainder == 0:
        return np.copysign(remainder, b)
    return remainder + b if (remainder < 0) != (b < 0) else remainder


def float_floordiv(a: Scalar, b: Scalar) -> Scalar:
    """Python's and NumPy's `//`: from the exact fmod, so that it agrees with `%`."""
    if b == 0:
        return a / b
    remainder = np.fmod(a, b)
    quotient = (a - remainder) / b
    if remainder != 0 and (remainder < 0) != (b < 0):
        quotient = quotient - type(quotient)(1)
    if quotient == 0:
        return np.copysign(type(quotient)(0), a / b)
    floored = np.floor(quotient)
    if quotient - floored > 0.5:
        floored = floored + type(quotient)(1)
    return floored


def integer_fmod(a: int, b: int) -> int:
    """C's `%`: the remainder with the sign of `a`; by 0 it is 0."""
    if not b:
        return 0
    return -(-a % abs(b)) if a < 0 else a % abs(b)


def sign(a: Scalar) -> Scalar:
    """-1, 0 or 1 in the type of `a`, as NumPy's: of -0.0 it is 0.0, of a NaN that NaN."""
    if a != a:
        return a
    return type(a)(int(a > 0) - int(a < 0))


def _load_fma() -> tuple[Callable[..., float], Callable[..., float]]:
    library = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    for name, kind in (("fmaf", ctypes.c_float), ("fma", ctypes.c_double)):
        function = getattr(library, name)
        function.argtypes = (kind, kind, kind)
        function.restype = kind
    return library.fmaf, library.fma


_FMAF, _FMA = _load_fma()


def fma_f32(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """`a * b + c` in f32, rounded once (libm's fmaf)."""
    return np.float32(_FMAF(float(a), float(b), float(c)))


def fma_f64(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """`a * b + c` in f64, rounded once (libm's fma)."""
    return np.float64(_FMA(a, b, c))


def fma(dtype: DType) -> Callable[[Scalar, Scalar, Scalar], Scalar]:
    """The fused multiply-add of a float dtype."""
    return fma_f32 if dtype is DType.F32 else fma_f64


# -------------------------------------------------------------------------------- operations


def binary(op: str, dtype: DType, math_functions: MathFunctions) -> Callable[..., Scalar]:
    """The callable of a core Binary `op` whose operands and result have `dtype`."""
    if op in OURS:
        return math_function(op, dtype, math_functions)
    if dtype.is_float:
        return _FLOAT_BINARY[op]
    if dtype is DType.BOOL:
        return _BOOL_BINARY[op]
    wrap, bits = wrapper(dtype), dtype.bits
    match op:
        case "add":
            return lambda a, b: wrap(a + b)
        case "sub":
            return lambda a, b: wrap(a - b)
        case "mul":
            return lambda a, b: wrap(a * b)
        case "floordiv":
            return lambda a, b: wrap(a // b) if b else 0
        case "mod":
            return lambda a, b: a % b if b else 0
        case "fmod":
            return integer_fmod
        case "shl":
            return lambda a, b: wrap(a << b) if 0 <= b < bits else 0
        case "shr":
            return lambda a, b: a >> b if 0 <= b < bits else 0
        case _:
            return _INTEGER_BINARY[op]


_FLOAT_BINARY: dict[str, Callable[..., Scalar]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": float_floordiv,
    "mod": float_mod,
    "fmod": np.fmod,
    "copysign": np.copysign,
    "min": minimum,
    "max": maximum,
    "fmin": minimum_number,
    "fmax": maximum_number,
}
_INTEGER_BINARY: dict[str, Callable[..., Scalar]] = {
    "min": min,
    "max": max,
    "fmin": min,
    "fmax": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_BOOL_BINARY: dict[str, Callable[..., Scalar]] = {
    "and": lambda a, b: bool(a) & bool(b),
    "or": lambda a, b: bool(a) | bool(b),
    "xor": lambda a, b: bool(a) ^ bool(b),
}


def unary(op: str, dtype: DType) -> Callable[[Scalar], Scalar]:
    """The callable of a core Unary `op` at `dtype`."""
    if dtype is DType.BOOL:
        return operator.not_
    if dtype.is_float:
        return operator.neg
    wrap = wrapper(dtype)
    return (lambda a: wrap(-a)) if op == "neg" else (lambda a: wrap(~a))


COMPARE: dict[str, Callable[[Scalar, Scalar], bool]] = {
    "eq": lambda a, b: bool(a == b),
    "ne": lambda a, b: bool(a != b),
    "lt": lambda a, b: bool(a < b),
    "le": lambda a, b: bool(a <= b),
    "gt": lambda a, b: bool(a > b),
    "ge": lambda a, b: bool(a >= b),
}


def cast(source: DType, target: DType) -> Callable[[Scalar], Scalar]:
    """The conversion from `source` to `target` (see `nodes.Cast`)."""
    if target is DType.BOOL:
        return lambda a: bool(a != 0)
    if target.is_float:
        kind = scalar_type(target)
        if target.is_narrow_float and source is not target:
            number = float if source.is_float else int
            return lambda a: kind(round_to_narrow(number(a), target))
        if source.is_float:
            return kind
        # Through int64 and not through a Python float: one rounding, not two.
        # int(a): what compares floats gives NumPy bools, which do not compare with 2**63.
        return lambda a: kind(np.int64(a)) if int(a) < 2**63 else kind(np.uint64(a))
    if not source.is_float:
        wrap = wrapper(target)
        return lambda a: wrap(int(a))
    low, high = integer_limits(target)

    def truncate(a: Scalar) -> int:
        if a != a:
            return 0
        if np.isinf(a):
            return high if a > 0 else low
        return max(low, min(high, int(a)))

    return truncate


def call(function: str, dtype: DType, math_functions: MathFunctions) -> Callable[..., Scalar]:
    """The callable of a core Call of `function` at `dtype`."""
    if function in OURS:
        return math_function(function, dtype, math_functions)
    if function in ops.APPROXIMATE:
        return math_functions.get(function) or approximate.model(function, fma_f32)
    if not dtype.is_float:
        wrap = wrapper(dtype)
        if function == "sign":
            return sign
        return (lambda a: wrap(abs(a))) if function == "abs" else (lambda a: a)
    return _EXACT_CALLS[function]


_EXACT_CALLS: dict[str, Callable[[Scalar], Scalar]] = {
    "sqrt": np.sqrt,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sign": sign,
}


def math_function(
    name: str, dtype: DType, math_functions: MathFunctions
) -> Callable[..., Scalar]:
    """One of OURS: the plugged-in one if there is one, else a default (f32 through f64)."""
    for key in (f"{name}_{dtype.value}", name):
        if key in math_functions:
            kind, plugged = scalar_type(dtype), math_functions[key]
            return lambda *values: kind(plugged(*values))
    kind, default = scalar_type(dtype), _DEFAULTS[name]
    return lambda *values: kind(default(*(np.float64(value) for value in values)))


_DEFAULTS: dict[str, Callable[..., Scalar]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": math.erf,
    "rsqrt": lambda a: np.float64(1.0) / np.sqrt(a),
    "pow": np.power,
    "log10": np.log10,
    "cbrt": np.cbrt,
    "hypot": np.hypot,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def neutral(op: str, dtype: DType) -> bool | int | float:
    """The neutral element of a reduction: what it gives for an empty range."""
    match op:
        case "sum" | "xor" | "or" | "linear":  # of linear maps, the one that changes nothing is written as 0
            return False if dtype is DType.BOOL else 0.0 if dtype.is_float else 0
        case "prod":
            return 1.0 if dtype.is_float else 1
        case "min":
            return math.inf if dtype.is_float else integer_limits(dtype)[1]
        case "max":
            return -math.inf if dtype.is_float else integer_limits(dtype)[0]
        case "any":
            return False
        case "all":
            return True
        case "and":
            return True if dtype is DType.BOOL else wrapper(dtype)(-1)
        case _:
            raise ValueError(f"`{op}` has no neutral element")


def represent(value: bool | int | float, dtype: DType) -> bool | int | float:
    """`value` rounded to `dtype`, as the Python value a core Const holds."""
    if dtype is DType.BOOL:
        return bool(value)
    if dtype.is_integer:
        return wrapper(dtype)(int(value))
    if dtype.is_narrow_float:
        return round_to_narrow(value if isinstance(value, float) else int(value), dtype)
    source = DType.F64 if isinstance(value, float) else DType.I64
    with np.errstate(all="ignore"):
        return float(cast(source, dtype)(np.float64(value) if source is DType.F64 else value))
