"""Reads the tables of `docs/types.md`, and computes what each row says with exact arithmetic.

The oracle shares nothing with the compiler: integers are Python's, floats are fractions rounded
here. Values are ints, bools, and floats that hold an f16, bf16, f32 or f64 exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from loopfuse.base.dtypes import DType

PAGE = Path(__file__).resolve().parent.parent / "docs" / "types.md"

SIGNED = (DType.I8, DType.I16, DType.I32, DType.I64)
UNSIGNED = (DType.U8, DType.U16, DType.U32, DType.U64)
FLOATS = (DType.F32, DType.F64)
HALVES = (DType.F16, DType.BF16)
CLASSES: dict[str, tuple[DType, ...]] = {
    "bool": (DType.BOOL,),
    "signed": SIGNED,
    "unsigned": UNSIGNED,
    "integers": SIGNED + UNSIGNED,
    "floats": FLOATS,
    "halves": HALVES,
    "numbers": SIGNED + UNSIGNED + FLOATS + HALVES,
    "all": tuple(DType),
}
FORMATS = {DType.F16: (10, 15), DType.BF16: (7, 127), DType.F32: (23, 127), DType.F64: (52, 1023)}
"""Mantissa bits, and the greatest exponent (the least of a normal number is 1 minus it)."""


@dataclass(frozen=True)
class Row:
    """One operation at one dtype, and the dtype it gives."""

    operation: str
    dtype: DType
    gives: DType


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of arrays of `dtype`."""
    return np.dtype(ml_dtypes.bfloat16 if dtype is DType.BF16 else dtype.numpy_name)


# ----------------------------------------------------------------------------------- the page


def _tables(header: str) -> Iterator[list[str]]:
    """The cells of each row of every table that begins with `header`."""
    lines = iter(PAGE.read_text().splitlines())
    for line in lines:
        if not line.startswith(header):
            continue
        next(lines)
        for row in lines:
            if not row.startswith("|"):
                break
            cells = re.split(r"(?<!\\)\|", row.strip()[1:-1])
            yield [cell.strip().replace("\\|", "|") for cell in cells]


def _expand(operation: str, names: str, gives: str) -> Iterator[Row]:
    for name in names.split():
        for dtype in CLASSES[name]:
            yield Row(operation.strip("`"), dtype, dtype if gives == "same" else DType(gives))


def operations() -> list[Row]:
    """Every row of the table of operations."""
    rows = _tables("| operation | of | gives |")
    return [row for cells in rows for row in _expand(cells[0], cells[1], cells[2])]


def reductions() -> list[Row]:
    """Every row of the table of reductions."""
    rows = _tables("| reduction | of | gives |")
    return [row for cells in rows for row in _expand(cells[0], cells[1], cells[2])]


def promotions() -> dict[tuple[DType, DType], DType | None]:
    """What each pair of types gives; None for an error."""
    found: dict[tuple[DType, DType], DType | None] = {}
    for cells in _tables("| with |"):
        left = DType(cells[0])
        for column, cell in enumerate(cells[1:]):
            if cell:
                answer = None if cell == "error" else DType(cell)
                found[left, _columns()[column]] = found[_columns()[column], left] = answer
    return found


def _columns() -> list[DType]:
    line = next(x for x in PAGE.read_text().splitlines() if x.startswith("| with |"))
    return [DType(cell.strip()) for cell in line.strip()[1:-1].split("|")[1:]]


# ------------------------------------------------------------------------------------- values


def values(dtype: DType) -> list[Any]:
    """Adversarial numbers of `dtype`: extremes, subnormals, ties, NaN, infinities, both zeros."""
    if dtype is DType.BOOL:
        return [False, True]
    if dtype.is_integer:
        low, high = limits(dtype)
        some = [low, low + 1, -128, -64, -8, -7, -3, -2, -1, 0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 63]
        some += [64, 100, high // 2 + 1, high // 3, high - 1, high]
        # f32 and f64 lose the last bits of these; ties to f16 and bf16.
        some += [2049, 2051, 65519, 65520, 65521, (1 << 24) + 1, (1 << 31) - 65, (1 << 53) + 1]
        some += [(1 << 62) + (1 << 54), (1 << 62) + (1 << 54) + 1, -(1 << 62) - (1 << 54) - 1]
        return sorted({x for x in some if low <= x <= high})
    mantissa, top = FORMATS[dtype]
    tiny, normal = 2.0 ** (1 - top - mantissa), 2.0 ** (1 - top)
    big = math.ldexp(2.0 - 2.0**-mantissa, top)
    one = 1.0 + 2.0**-mantissa
    some = [0.0, 1.0, one, 1.5, 2.5, 0.5, 1 / 3, 3.0, 7.0, 100.75, 127.5, 255.5, tiny, 3 * tiny]
    some += [normal - tiny, normal, normal * one, big, big / 2, 32767.5, 65519.0, 65520.0, 65536.0]
    some += [2.0**31, 2.0**32, 2.0**63, 2.0**64, 3e38, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25]
    some += [2.0**-14 * (1 - 2.0**-12), 2049.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-11]
    some += [1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-11 + 2.0**-40, 2.0**-133, 2.0**-134]
    some += [2.0**-134 * (1 + 2.0**-40), 2.0**-133 * 1.5, 2.0**-149, 65519.999, 3.3961775e38]
    kept = {rounded(Fraction(x), dtype) for x in some}
    both = sorted(kept) + [-x for x in sorted(kept)]
    return [*both, math.inf, -math.inf, math.nan]


def limits(dtype: DType) -> tuple[int, int]:
    """The least and greatest integer."""
    if dtype.is_unsigned:
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def array(numbers: list[Any], dtype: DType) -> np.ndarray:
    """An array of numbers that `dtype` holds exactly, built from their bits."""
    if not dtype.is_narrow_float:
        return np.array(numbers, numpy_dtype(dtype))
    if dtype is DType.F16:
        return np.array(numbers, np.float64).astype(np.float16)
    upper = np.array(numbers, np.float64).astype(np.float32).view(np.uint32) >> 16
    return upper.astype(np.uint16).view(ml_dtypes.bfloat16)


# ------------------------------------------------------------------------------------ rounding


def rounded(exact: Fraction, dtype: DType) -> float:
    """A fraction rounded once to a float type, to nearest even; what rounds to 0 keeps its sign."""
    if exact == 0:
        return 0.0
    mantissa, top = FORMATS[dtype]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, 1 - top) - mantissa)
    result = round(size / unit) * unit
    value = math.inf if result >= Fraction(2) ** (top + 1) else float(result)
    return value if exact > 0 else -value


def wrapped(number: int, dtype: DType) -> int:
    """An integer modulo the width of its type."""
    low, _ = limits(dtype)
    return (number - low) % (1 << dtype.bits) + low


def converted(value: Any, dtype: DType) -> Any:
    """The cast of a value to `dtype`."""
    if dtype is DType.BOOL:
        return bool(value != 0)
    if dtype.is_integer:
        if not isinstance(value, float):
            return wrapped(int(value), dtype)
        low, high = limits(dtype)
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return low if value < 0 else high
        return min(max(math.trunc(value), low), high)
    if isinstance(value, float) and not (value and math.isfinite(value)):
        return value  # with its sign
    return rounded(Fraction(value), dtype)


# --------------------------------------------------------------------------------- operations


def float_operation(op: str, a: float, b: float, dtype: DType) -> float:
    """`+ - * / // %` of an f32 or f64 (f16 and bf16: in f32, then rounded)."""
    if dtype in HALVES:
        return converted(float_operation(op, a, b, DType.F32), dtype)
    if op in ("//", "%"):
        kind = np.float32 if dtype is DType.F32 else np.float64
        with np.errstate(all="ignore"):
            pair = np.floor_divide, np.remainder
            return float(pair[op == "%"](kind(a), kind(b)))
    if op == "/" and b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    plain: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda x, y: x + y,
        "-": lambda x, y: x - y,
        "*": lambda x, y: x * y,
        "/": lambda x, y: x / y,
    }
    if not (math.isfinite(a) and math.isfinite(b)):
        return plain[op](a, b)
    exact = plain[op](Fraction(a), Fraction(b))
    if exact == 0:
        return plain[op](a, b)
    return rounded(exact, dtype)


def fma(a: float, b: float, c: float, dtype: DType) -> float:
    """`a * b + c` with one rounding."""
    if not all(map(math.isfinite, (a, b, c))):
        product = a * b if not (math.isfinite(a) and math.isfinite(b)) else math.copysign(1.0, a * b)
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        zero = math.copysign(0.0, a) * math.copysign(1.0, b)
        return zero + c if c == 0 and (a == 0 or b == 0) else 0.0
    wide = DType.F32 if dtype in HALVES else dtype
    return converted(rounded(exact, wide), dtype)


def square_root(a: float, dtype: DType) -> float:
    """Correctly rounded (f16 and bf16: in f32, then rounded)."""
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    # An even power of two makes it an integer of at least 128 bits.
    power = max(0, 1100 - 2 * (math.frexp(a)[1] // 2)) if a < 1 else 200
    scaled = Fraction(a) * Fraction(4) ** power
    root = math.isqrt(scaled.numerator // scaled.denominator)
    sticky = Fraction(1, 2) if root * root != scaled else 0
    wide = DType.F32 if dtype in HALVES else dtype
    return converted(rounded((root + sticky) / Fraction(2) ** power, wide), dtype)


def whole(function: str, a: Any) -> Any:
    """floor, ceil, trunc and round."""
    if not isinstance(a, float) or not math.isfinite(a):
        return a
    exact = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round}[function]
    return math.copysign(float(exact(Fraction(a))), a)


def extreme(word: str, a: Any, b: Any) -> Any:
    """min, max, fmin, fmax."""
    if isinstance(a, float):
        if math.isnan(a) or math.isnan(b):
            if not word.startswith("f"):
                return math.nan
            return b if math.isnan(a) else a
        if a == b == 0:
            signs = math.copysign(1.0, a), math.copysign(1.0, b)
            return math.copysign(0.0, (min if word.endswith("min") else max)(signs))
    return (min if word.endswith("min") else max)(a, b)


def integer_operation(op: str, a: int, b: int, dtype: DType) -> Any:
    """An operation on integers."""
    if op == "/":
        x, y = converted(a, DType.F64), converted(b, DType.F64)
        return float_operation("/", x, y, DType.F64)
    if op in ("//", "%"):
        return 0 if b == 0 else wrapped(a // b if op == "//" else a % b, dtype)
    if op in ("<<", ">>"):
        if not 0 <= b < dtype.bits:
            return 0
        return wrapped(a << b, dtype) if op == "<<" else a >> b
    plain = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
    return wrapped(plain[op], dtype)


def apply(row: Row, a: Any, b: Any) -> Any:
    """What the row's operation gives for elements `a` and `b`."""
    text, dtype = row.operation, row.dtype
    if found := re.fullmatch(r"(\w+)\(a\)", text):
        word = found[1]
        if word in {each.value for each in DType}:
            return converted(a, DType(word))
        if word == "sqrt":
            return square_root(a, dtype)
        if word == "abs":
            return abs(a) if dtype.is_float else wrapped(abs(a), dtype)
        return whole(word, a)
    if found := re.fullmatch(r"(\w+)\(a, b\)", text):
        return extreme(found[1], a, b)
    match text:
        case "-a":
            return -a if dtype.is_float else wrapped(-a, dtype)
        case "~a":
            return not a if dtype is DType.BOOL else wrapped(~a, dtype)
        case "a ** 3":
            return wrapped(a**3, dtype)
        case "a ** 2":
            return float_operation("*", a, a, dtype)
        case "a * b + a":
            return fma(a, b, a, dtype)
        case "a if a < b else b":
            return a if a < b else b
        case "a == b" | "a != b" | "a < b" | "a <= b" | "a > b" | "a >= b":
            tests: dict[str, Callable[[Any, Any], bool]] = {
                "==": lambda x, y: x == y,
                "!=": lambda x, y: x != y,
                "<": lambda x, y: x < y,
                "<=": lambda x, y: x <= y,
                ">": lambda x, y: x > y,
                ">=": lambda x, y: x >= y,
            }
            return tests[text.split()[1]](a, b)
        case _:
            op = text.split()[1]
            if dtype is DType.BOOL:
                return {"&": a and b, "|": a or b, "^": a != b}[op]
            if dtype.is_float:
                return float_operation(op, a, b, dtype)
            return integer_operation(op, a, b, dtype)


def reduce(row: Row, numbers: list[Any]) -> Any:
    """What the row's reduction gives, in order."""
    word, gives = row.operation.split("(")[0], row.gives
    if word in ("argmin", "argmax"):
        best = 0
        for index, x in enumerate(numbers):
            if numbers[best] != numbers[best]:
                break
            if x != x or (x < numbers[best] if word == "argmin" else x > numbers[best]):
                best = index
        return best
    if word in ("any", "all"):
        return any(numbers) if word == "any" else all(numbers)
    if word in ("min", "max"):
        result = numbers[0]
        for x in numbers[1:]:
            result = extreme(word, result, x)
        return result
    result: Any = (0 if word == "sum" else 1) if gives.is_integer else float(word == "prod")
    op = "+" if word == "sum" else "*"
    for x in numbers:
        if gives.is_integer:
            result = integer_operation(op, result, wrapped(int(x), gives), gives)
        else:
            result = float_operation(op, result, x, gives)
    return result
