"""Between which numbers the values of a tree lie, as far as its types and arithmetic tell.

    img: u8[H, W];  rows = (f32(img) + f32(img) + f32(img)) * 0.33333334    in 0.0..255.0

Rounding to nearest is monotone: the sums and products of the ends, rounded as the operation rounds,
are bounds of the sums and products. So a clamp whose limits a value never passes need not be written.
A range means that the value is no NaN either. What a buffer holds is in the union of all that is written
to it: ranges grow until nothing changes (an abstract interpretation with intervals).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.base.rounding import round_to_narrow
from loopfuse.codegen.abi import walk_nodes
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fma,
    Load,
    Select,
    Unary,
)
from loopfuse.tree.looptree import Combine, Compute, Copy, Fold, LoopTree, Raise, Scan, Ticket

ROUNDS = 12
"""How often ranges may grow; what still grows then may be anything."""


@dataclass(frozen=True, slots=True)
class Range:
    """All values are numbers from `low` to `high`; there are none where `low` > `high`."""

    low: int | float
    high: int | float

    @property
    def is_empty(self) -> bool:
        """Nothing is known to be written yet."""
        return self.low > self.high


NOTHING = Range(math.inf, -math.inf)
Held = Mapping[str, Range | None]
"""By buffer: what it holds; None: anything."""


def ranges_of(tree: LoopTree) -> dict[str, Range | None]:
    """By buffer of the tree: what all that is written to it lies in."""
    held: dict[str, Range | None] = {}
    for buffer in tree.buffers:
        held[buffer.name] = of_type(buffer.dtype) if buffer.argument or buffer.turns else NOTHING
        if buffer.zeroed:
            held[buffer.name] = union(held[buffer.name], Range(0, 0))
    writes: list[Compute | Copy] = []
    for launch in tree.launches:
        for node in walk_nodes(launch.body):
            match node:
                case Compute() | Copy():
                    writes.append(node)
                case Fold(target=target) | Raise(flag=target) | Ticket(counter=target):
                    held[target.array] = of_type(target.dtype)
                case Combine(buffer=name) | Scan(buffer=name):
                    held[name] = of_type(tree.buffer(name).dtype)
                case _:
                    pass
    for _ in range(ROUNDS):
        before = dict(held)
        for node in writes:
            name = node.target.array
            held[name] = union(held[name], range_of(node.value, held))
        if held == before:
            return held
    return {name: of_type(tree.buffer(name).dtype) for name in held}


def of_type(dtype: DType) -> Range | None:
    """All values of a type."""
    if dtype is DType.BOOL:
        return Range(0, 1)
    if dtype.is_float:
        return None
    if dtype.is_signed:
        return Range(-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1)
    return Range(0, (1 << dtype.bits) - 1)


def union(one: Range | None, other: Range | None) -> Range | None:
    """The least range that holds both."""
    if one is None or other is None:
        return None
    return Range(min(one.low, other.low), max(one.high, other.high))


def range_of(expr: Expr, held: Held) -> Range | None:
    """What the value lies in, where the buffers hold what `held` says."""
    found = _range_of(expr, held)
    return of_type(expr.dtype) if found is None else found


def _range_of(expr: Expr, held: Held) -> Range | None:
    match expr:
        case Const(value=value):
            return Range(value, value) if math.isfinite(value) else None
        case Load(array=array):
            return held.get(array)
        case Compare():
            return Range(0, 1)
        case Select(then=then, otherwise=otherwise):
            return union(range_of(then, held), range_of(otherwise, held))
        case Cast(operand=operand, dtype=dtype):
            return _cast(range_of(operand, held), operand.dtype, dtype)
        case Unary(op="neg", operand=operand, dtype=dtype):
            found = range_of(operand, held)
            if found is None or found.is_empty:
                return found
            return _fitting(dtype, -found.high, -found.low)
        case Binary(op=op, left=left, right=right, dtype=dtype):
            one, other = range_of(left, held), range_of(right, held)
            return None if one is None or other is None else _binary(op, one, other, dtype)
        case Fma(a=a, b=b, c=c, dtype=dtype):
            return _fma(range_of(a, held), range_of(b, held), range_of(c, held), dtype)
        case Call(function=function, arguments=(operand,), dtype=dtype) if dtype.is_float:
            return _call(function, range_of(operand, held))
        case _:
            return None


def _binary(op: str, one: Range, other: Range, dtype: DType) -> Range | None:
    """The range of an operation on two ranges; None: not known."""
    if one.is_empty or other.is_empty:
        return NOTHING
    match op:
        case "add":
            return _fitting(dtype, one.low + other.low, one.high + other.high)
        case "sub":
            return _fitting(dtype, one.low - other.high, one.high - other.low)
        case "mul":
            ends = _products(one, other)
            return _fitting(dtype, min(ends), max(ends))
        case "min" | "fmin":
            return Range(min(one.low, other.low), min(one.high, other.high))
        case "max" | "fmax":
            return Range(max(one.low, other.low), max(one.high, other.high))
        case "floordiv" | "mod" | "and" | "shr" if dtype.is_integer:
            return _by_constant(op, one, other)
        case _:
            return None


def _by_constant(op: str, one: Range, other: Range) -> Range | None:
    """The range of an operation on whole numbers, of which the second is a constant; None: not known."""
    assert isinstance(one.low, int) and isinstance(one.high, int) and isinstance(other.low, int)
    constant = other.low
    if other.high != constant:
        return None
    match op:
        case "floordiv" if constant > 0:
            return Range(one.low // constant, one.high // constant)
        case "mod" if constant > 0:
            return one if one.low >= 0 and one.high < constant else Range(0, constant - 1)
        case "and" if constant >= 0:
            return Range(0, constant)
        case "shr" if 0 <= constant < 8:  # any type has as many bits
            return Range(one.low >> constant, one.high >> constant)
        case _:
            return None


def is_needless(check: Call, held: Held) -> bool:
    """Does a checked subscript (`inside`) never leave its dimension, by what its type and its arithmetic say?"""
    subscript, extent = check.arguments
    found = range_of(subscript, held)
    return (
        found is not None
        and isinstance(extent, Const)
        and not found.is_empty
        and found.low >= 0
        and found.high < extent.value
    )


def _products(one: Range, other: Range) -> list[int | float]:
    return [a * b for a, b in product((one.low, one.high), (other.low, other.high))]


def _fma(a: Range | None, b: Range | None, c: Range | None, dtype: DType) -> Range | None:
    """The sum is rounded once: its ends are computed exactly."""
    if a is None or b is None or c is None or dtype.is_narrow_float:
        return None
    if a.is_empty or b.is_empty or c.is_empty:
        return NOTHING
    ends = [Fraction(one) * Fraction(two) for one in (a.low, a.high) for two in (b.low, b.high)]
    low, high = min(ends) + Fraction(c.low), max(ends) + Fraction(c.high)
    found = [_nearest(end, dtype) for end in (low, high)]
    return Range(*found) if all(map(math.isfinite, found)) else None


def _call(function: str, found: Range | None) -> Range | None:
    if found is None or found.is_empty:
        return found
    match function:
        case "floor" | "ceil" | "trunc":
            whole = getattr(math, function)
            return Range(float(whole(found.low)), float(whole(found.high)))
        case "round":
            return Range(float(round(found.low)), float(round(found.high)))
        case "abs":
            low = 0.0 if found.low <= 0 <= found.high else min(abs(found.low), abs(found.high))
            return Range(low, max(abs(found.low), abs(found.high)))
        case "sqrt" if found.low >= 0:
            return Range(0.0, max(found.high, 1.0))
        case _:
            return None


def _cast(found: Range | None, before: DType, after: DType) -> Range | None:
    if after is DType.BOOL:
        return Range(0, 1)
    if found is None or found.is_empty:
        return found
    if after.is_float:
        return _fitting(after, found.low, found.high)
    limits = of_type(after)
    assert limits is not None
    if before.is_float:  # truncates and saturates
        ends = (
            max(limits.low, min(limits.high, math.trunc(end))) for end in (found.low, found.high)
        )
        return Range(*ends)
    inside = limits.low <= found.low and found.high <= limits.high
    return found if inside else limits


def _fitting(dtype: DType, low: int | float, high: int | float) -> Range | None:
    """The ends as the type rounds them; None where they pass its limits."""
    if not dtype.is_float:
        limits = of_type(dtype)
        assert limits is not None
        inside = limits.low <= low and high <= limits.high
        return Range(low, high) if inside else limits
    ends = [rounded(end, dtype) for end in (low, high)]
    return Range(*ends) if all(map(math.isfinite, ends)) else None


def rounded(value: int | float | Fraction, dtype: DType) -> float:
    """The number nearest to `value` in a float type; infinite past its limits."""
    try:
        number = float(value)
        if dtype.is_narrow_float:
            return round_to_narrow(value if isinstance(value, int) else number, dtype)
        return struct.unpack("<f", struct.pack("<f", number))[0] if dtype is DType.F32 else number
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _nearest(value: Fraction, dtype: DType) -> float:
    """The number nearest to an exact `value`, f32 or f64; of two, the even one."""
    found = rounded(value, dtype)  # for f32, rounded twice: it may be a neighbour
    if dtype is DType.F64 or not math.isfinite(found):
        return found
    near = [
        float(np.nextafter(np.float32(found), np.float32(way))) for way in (-math.inf, math.inf)
    ]
    numbers = [each for each in (found, *near) if math.isfinite(each)]
    return min(numbers, key=lambda each: (abs(Fraction(each) - value), _bits(each) & 1))


def _bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]
