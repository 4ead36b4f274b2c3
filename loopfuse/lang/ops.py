"""One table of the scalar operations: their names in each door, how they are made, how exact they
are and what they cost. Vocabulary, messages, documentation, bounds and prices are read from it.

Costs are counted by `tests/tools/count_math.py` and stand as it prints them: on a GPU the SASS of
sm_90 (sm_80's differs by a few in a hundred) for one element; on a CPU the instructions of
x86-64-v3 for one vector (8 of f32, 4 of f64), a division or square root counted as the 8 others
that it keeps waiting. Rare paths (arguments of `sin` past 2**16) are not in them. What is no
function of ours is one instruction, or as many as LLVM makes of it.

A new operation that others can say is one row (`_expanded`): its name, its meaning, what that costs and what libraries
call it (`tests/lang/test_more_operations.py` adds some). One that is `ours` or `inline` is a row, and its code: in
`lang.semantics` and in `codegen`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from loopfuse.base.dtypes import DType

Made = Literal["ours", "inline", "rewritten", "approximate"]
"""`ours`: a function of `codegen.math.functions`, the same bits everywhere; `inline`: an operation, or a few,
of the target; `rewritten`: what it means in other operations takes its place when the program is checked; `approximate`: an
instruction of NVIDIA's GPUs, or a few around one, which `fp="native"` puts in the place of others (`lang.native`)."""

Gives = Literal["float", "same", "bool"]
"""What it gives: a float (of integers, an f64), the type of its operands, a bool."""


@dataclass(frozen=True, slots=True)
class Price:
    """Instructions for f32 (and integers up to 32 bits), and for f64 (and i64)."""

    single: float
    double: float


@dataclass(frozen=True, slots=True)
class Native:
    """What `fp="native"` makes of an operation of f32s on a GPU: the PTX instruction that it comes to, and the error
    in ulps of an exact result that is not subnormal: `ulps`, and `growth` more for each unit of `per`."""

    instruction: str
    ulps: float
    growth: float = 0.0
    per: str = ""

    @property
    def words(self) -> str:
        """The bound, as reports and documentation have it: `2 + 1.2 |x| ulp`."""
        return f"{self.ulps:g}" + (f" + {self.growth:g} {self.per}" if self.growth else "") + " ulp"


NATIVE: dict[str, Native] = {
    "div": Native("rcp.approx.ftz.f32", 2.5),
    "sqrt": Native("sqrt.approx.ftz.f32", 2.0),
    "rsqrt": Native("rsqrt.approx.ftz.f32", 2.0),
    "exp": Native("ex2.approx.ftz.f32", 2.5, 1.2, "|x|"),
    "exp2": Native("ex2.approx.ftz.f32", 2.5),
    "log": Native("lg2.approx.ftz.f32", 8.0),
    "log2": Native("lg2.approx.ftz.f32", 7.0),
    "log10": Native("lg2.approx.ftz.f32", 8.0),
    "log1p": Native("lg2.approx.ftz.f32", 11.0),
    "pow": Native("ex2.approx.ftz.f32", 2.5, 8.0, "|y log2 x|"),
    "erf": Native("ex2.approx.ftz.f32", 6.0),
    "tanh": Native("tanh.approx.f32", 8192.0),
}
"""By the operation's name; `tests/gpu/test_native_gpu.py` measures them over all f32. (On an H200: 2.08, 0.95, 1.52, 2.01
with the growth, 2.06, 6.4, 6.0, 6.7, 9.5, 1.73 with the growth, 4.3, and 134: of `tanh.approx` NVIDIA states 2**-11, which
other GPUs may need.)"""


OPERANDS = ("x", "y", "z")
"""What a meaning calls the operands."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row. `name` is the core's, and the word in `.lf` where the operation is a function.

    `numpy`, `math`, `python` (built-in functions) and `mlir` are its names there. `math` functions give
    a Python float, those in `whole` a Python int. `near` are words that people write for it. `ulps` bounds the error for f32 and f64, in units in the last
    place of the exact result; None: exact, or correctly rounded.
    """

    name: str
    arity: int
    made: Made
    gives: Gives
    gpu: Price
    cpu: Price
    ulps: tuple[float, float] | None = None
    numpy: tuple[str, ...] = ()
    math: tuple[str, ...] = ()
    mlir: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    python: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    function: bool = True
    """Whether it is written as a call; the others are operators, or come from the checker."""
    meaning: str = ""
    """Of one that is `rewritten`: an expression of its `OPERANDS`, which takes its place."""
    native: Native | None = None
    """What takes its place for f32 under `fp="native"`; None: nothing does."""


def _ours(
    name: str,
    ulps: tuple[float, float],
    gpu: tuple[float, float],
    cpu: tuple[float, float],
    *,
    arity: int = 1,
    numpy: str = "",
    math: str = "",
    mlir: str = "",
    near: tuple[str, ...] = (),
    python: str = "",
) -> Operation:
    return Operation(
        name, arity, "ours", "float", Price(*gpu), Price(*cpu), ulps,
        tuple(numpy.split()), tuple(math.split()), tuple(mlir.split()), near, tuple(python.split()),
        native=NATIVE.get(name),
    )  # fmt: skip


def _approximate(name: str, gpu: float, arity: int = 1) -> Operation:
    """Of f32, on a GPU: the other prices are never asked for."""
    return Operation(
        name, arity, "approximate", "float", Price(gpu, gpu), Price(gpu, gpu), function=False
    )


def _inline(
    name: str,
    gpu: tuple[float, float] = (1, 1),
    cpu: tuple[float, float] = (1, 1),
    *,
    arity: int = 2,
    gives: Gives = "same",
    numpy: str = "",
    math: str = "",
    mlir: str = "",
    near: tuple[str, ...] = (),
    python: str = "",
    whole: str = "",
    function: bool = False,
) -> Operation:
    return Operation(
        name, arity, "inline", gives, Price(*gpu), Price(*cpu), None,
        tuple(numpy.split()), tuple(math.split()), tuple(mlir.split()), near,
        tuple(python.split()), tuple(whole.split()), function, native=NATIVE.get(name),
    )  # fmt: skip


def _expanded(
    name: str,
    meaning: str,
    gpu: tuple[float, float],
    cpu: tuple[float, float],
    *,
    arity: int = 1,
    gives: Gives = "float",
    numpy: str = "",
    math: str = "",
    mlir: str = "",
    near: tuple[str, ...] = (),
) -> Operation:
    """A function whose meaning is an expression of others: it costs what they cost, and its price is for readers."""
    row = _inline(name, gpu, cpu, arity=arity, gives=gives, numpy=numpy, math=math, mlir=mlir, near=near, function=True)
    return replace(row, made="rewritten", meaning=meaning)


OPERATIONS: tuple[Operation, ...] = (
    # ------------------------------------------------------------------- ours, by what they do
    _ours("exp", (1.45, 0.9), (18, 46), (60, 106), numpy="exp", math="exp", mlir="exp"),
    _ours("exp2", (1.2, 0.9), (17, 40), (59, 93), numpy="exp2", math="exp2", mlir="exp2"),
    _ours("expm1", (1.3, 1.1), (20, 69), (71, 140), numpy="expm1", math="expm1", mlir="expm1"),
    _ours("log", (1.0, 0.75), (27, 93), (94, 148), numpy="log", math="log", mlir="log", near=("ln",)),
    _ours("log2", (1.2, 0.75), (26, 96), (93, 151), numpy="log2", math="log2", mlir="log2"),
    _ours("log10", (0.75, 0.75), (61, 101), (131, 163), numpy="log10", math="log10", mlir="log10"),
    _ours("log1p", (1.3, 0.75), (25, 122), (86, 190), numpy="log1p", math="log1p", mlir="log1p"),
    _ours("pow", (0.9, 0.9), (170, 274), (326, 382), arity=2, numpy="power", math="pow", python="pow", mlir="powf"),
    _ours("rsqrt", (1.5, 1.5), (24, 43), (29, 29), mlir="rsqrt"),
    _ours("cbrt", (0.6, 0.6), (52, 74), (167, 181), numpy="cbrt", math="cbrt", mlir="cbrt"),
    _ours("hypot", (0.9, 0.9), (62, 103), (84, 84), arity=2, numpy="hypot", math="hypot"),
    _ours("sin", (0.8, 0.8), (45, 68), (127, 161), numpy="sin", math="sin", mlir="sin"),
    _ours("cos", (0.8, 0.8), (45, 65), (130, 162), numpy="cos", math="cos", mlir="cos"),
    _ours("tan", (0.9, 1.0), (82, 150), (160, 192), numpy="tan", math="tan", mlir="tan"),
    _ours("asin", (0.75, 0.75), (56, 129), (103, 141), numpy="arcsin asin", math="asin", mlir="asin"),
    _ours("acos", (0.75, 0.75), (64, 140), (111, 149), numpy="arccos acos", math="acos", mlir="acos"),
    _ours("atan", (1.25, 1.25), (45, 116), (95, 159), numpy="arctan atan", math="atan", mlir="atan"),
    _ours(
        "atan2", (1.6, 1.6), (54, 135), (118, 182), arity=2,
        numpy="arctan2 atan2", math="atan2", mlir="atan2",
    ),
    _ours("sinh", (1.0, 0.85), (44, 73), (118, 163), numpy="sinh", math="sinh", mlir="sinh"),
    _ours("cosh", (0.8, 0.8), (41, 69), (104, 147), numpy="cosh", math="cosh", mlir="cosh"),
    _ours("tanh", (1.4, 0.85), (30, 117), (114, 168), numpy="tanh", math="tanh", mlir="tanh"),
    _ours("asinh", (1.0, 1.0), (112, 191), (181, 212), numpy="arcsinh asinh", math="asinh", mlir="asinh"),
    _ours("acosh", (1.0, 1.0), (123, 201), (180, 209), numpy="arccosh acosh", math="acosh", mlir="acosh"),
    _ours("atanh", (0.75, 0.75), (118, 186), (189, 223), numpy="arctanh atanh", math="atanh", mlir="atanh"),
    _ours("erf", (1.3, 1.1), (26, 163), (118, 319), math="erf", mlir="erf"),
    # ----------------------------------------------------------------- functions, in the target
    _inline(
        "sqrt", (10, 24), (8, 8), arity=1, gives="float",
        numpy="sqrt", math="sqrt", mlir="sqrt", function=True,
    ),
    _inline(
        "abs", arity=1, numpy="abs absolute fabs", math="fabs", python="abs", mlir="absf absi", near=("fabs",),
        function=True,
    ),
    _inline("floor", arity=1, numpy="floor", whole="floor", mlir="floor", function=True),
    _inline("ceil", arity=1, numpy="ceil", whole="ceil", mlir="ceil", function=True),
    _inline("round", arity=1, numpy="rint round around", python="round", mlir="roundeven", function=True),
    _inline("trunc", arity=1, numpy="trunc", whole="trunc", mlir="trunc", function=True),
    _inline("sign", (5, 5), (6, 6), arity=1, numpy="sign", near=("sgn", "signum"), function=True),
    _inline(
        "copysign", (1, 2), (3, 3), gives="float",
        numpy="copysign", math="copysign", mlir="copysign", function=True,
    ),
    _inline("min", numpy="minimum", python="min", function=True),
    _inline("max", numpy="maximum", python="max", function=True),
    _inline("fmin", (3, 4), (5, 5), numpy="fmin", function=True),
    _inline("fmax", (3, 4), (5, 5), numpy="fmax", function=True),
    _inline("fma", arity=3, gives="float", math="fma", mlir="fma", function=True),
    # Long division, one lane at a time: about 8 steps of an integer remainder.
    _inline("fmod", (150, 200), (500, 300), numpy="fmod", math="fmod", function=True),
    # ------------------------------------------------------------------------------- rewritten
    _expanded("clip", "min(max(x, y), z)", (2, 4), (2, 2), arity=3, gives="same", numpy="clip", near=("clamp",)),
    # By comparing |x| with infinity: x stands there once.
    _expanded("isnan", "not abs(x) <= inf", (1, 1), (1, 1), gives="bool", numpy="isnan", math="isnan", mlir="isnan"),
    _expanded("isinf", "abs(x) == inf", (1, 1), (1, 1), gives="bool", numpy="isinf", math="isinf", mlir="isinf"),
    _expanded(
        "isfinite", "abs(x) < inf", (1, 1), (1, 1), gives="bool", numpy="isfinite", math="isfinite", mlir="isfinite",
    ),
    # ------------------------------------------------------------------------------- operators
    _inline("add"),
    _inline("sub"),
    _inline("mul"),
    _inline("div", (10, 24), (8, 8)),
    _inline("floordiv", (150, 200), (500, 300)),
    _inline("mod", (150, 200), (500, 300)),
    _inline("neg", (0, 0), (1, 1), arity=1),
    _inline("and"),
    _inline("or"),
    _inline("xor"),
    _inline("shl", (3, 3), (3, 3)),
    _inline("shr", (3, 3), (3, 3)),
    _inline("not", arity=1, gives="bool"),
    _inline("invert", arity=1),
    _inline("compare", gives="bool"),
    _inline("select", arity=3),
    _inline("cast", arity=1),
    # ----------------------------------------------------------- approximate, under fp="native"
    _approximate("rcp.approx", 1),
    _approximate("sqrt.approx", 1),
    _approximate("rsqrt.approx", 1),
    _approximate("exp2.approx", 1),
    _approximate("tanh.approx", 1),
    # With what makes them good to a few ulps near 1, or 0.
    _approximate("log2.approx", 12),
    _approximate("log2p1.approx", 12),
    _approximate("erf.approx", 18),
    _approximate("pow.approx", 40, arity=2),
)  # fmt: skip

NUMPY_OPERATORS: dict[str, str] = {
    "add": "x + y", "subtract": "x - y", "multiply": "x * y", "divide": "x / y", "true_divide": "x / y",
    "floor_divide": "x // y", "remainder": "x % y", "mod": "x % y", "negative": "-x", "positive": "+x",
    "square": "x * x", "reciprocal": "1.0 / x",
    "equal": "x == y", "not_equal": "x != y", "less": "x < y", "less_equal": "x <= y",
    "greater": "x > y", "greater_equal": "x >= y",
    "logical_and": "x and y", "logical_or": "x or y", "logical_xor": "x ^ y", "logical_not": "not x",
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y", "invert": "~x",
    "bitwise_not": "~x", "bitwise_invert": "~x", "left_shift": "x << y", "right_shift": "x >> y",
    "bitwise_left_shift": "x << y", "bitwise_right_shift": "x >> y",
    "deg2rad": "x * 0.017453292519943295", "radians": "x * 0.017453292519943295",
    "rad2deg": "x * 57.29577951308232", "degrees": "x * 57.29577951308232",
}  # fmt: skip
"""NumPy's functions that are operators, and what says the same."""

MATH_ANGLES = ("radians", "degrees")
"""Those of `NUMPY_OPERATORS` that `math` has too."""

BY_NAME: dict[str, Operation] = {each.name: each for each in OPERATIONS}

FUNCTIONS = tuple(each.name for each in OPERATIONS if each.function)
"""The words that may be called in `.lf`."""

OURS = tuple(each.name for each in OPERATIONS if each.made == "ours")
"""Functions whose bits the compiled code defines."""

APPROXIMATE = tuple(each.name for each in OPERATIONS if each.made == "approximate")
"""Operations of f32 that a program has under `fp="native"` alone."""

_INTEGER_DIVISION = {"gpu": Price(30, 90), "cpu": Price(100, 100)}
"""What an integer `//` or `%` by a number that is not constant costs (one lane at a time on a CPU)."""


def named(library: Literal["numpy", "math", "python", "whole", "mlir"]) -> dict[str, str]:
    """The operation that each name of a library means: `{"arctan2": "atan2"}`."""
    return {word: each.name for each in OPERATIONS for word in getattr(each, library)}


def ulp_bounds() -> dict[tuple[str, DType], float]:
    """The bound of every function that has one."""
    return {
        (each.name, dtype): bound
        for each in OPERATIONS
        if each.ulps is not None
        for dtype, bound in zip((DType.F32, DType.F64), each.ulps, strict=True)
    }


def price(name: str, dtype: DType, device: str) -> float:
    """What one operation costs for one element, in f32 additions of the device (`gpu` or `cpu`): an
    f64 instruction counts twice, since half as many lanes run."""
    operation = BY_NAME[name]
    found = operation.gpu if device == "gpu" else operation.cpu
    if name in ("floordiv", "mod", "fmod") and not dtype.is_float:
        found = _INTEGER_DIVISION["gpu" if device == "gpu" else "cpu"]
    wide = dtype.bits == 64
    return 2 * found.double if wide else found.single


_WIDENED = {DType.F16: 2.0, DType.BF16: 2.0}
_ROUNDED = {DType.F16: 4.0, DType.BF16: 12.0}
"""Conversions on a CPU: f16's are instructions of most, bf16's our own (`codegen/mlir/half.py`)."""


def conversion_price(before: DType, after: DType, device: str) -> float:
    """What a conversion costs for one element, in the same unit."""
    found = price("cast", after, device)
    if device == "gpu" or before is after:
        return found
    return _WIDENED.get(before, 0.0) + _ROUNDED.get(after, 0.0) or found
