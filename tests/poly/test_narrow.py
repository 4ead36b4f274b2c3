"""What isl says of narrow integers is what they are: sums of them wrap, isl's numbers do not."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import same_index
from loopfuse.lang.nodes import Binary, Cast, Compare, Const, Expr, Iter, Unary
from loopfuse.poly import isl

NARROW = (DType.U8, DType.I8, DType.U16, DType.I16, DType.I64)
POINTS = range(-5, 300, 7)


def number(rng: random.Random, dtype: DType, depth: int) -> Expr:
    """A random integer of `dtype` in terms of `i`."""
    if depth <= 0 or rng.random() < 0.2:
        if rng.random() < 0.4:
            return Const(rng.randrange(128), dtype)
        return Iter("i") if dtype is DType.I64 else Cast(Iter("i"), dtype)
    if rng.random() < 0.3:
        return Cast(number(rng, rng.choice(NARROW), depth - 1), dtype)
    if rng.random() < 0.2:
        return Unary("neg", number(rng, dtype, depth - 1), dtype)
    op = rng.choice(["add", "sub", "min", "max", "mul", "mod", "floordiv"])
    left = number(rng, dtype, depth - 1)
    divides = op in ("mod", "floordiv")
    right = Const(rng.randrange(1, 9), dtype) if divides else number(rng, dtype, depth - 1)
    return Binary(op, left, right, dtype)


def value(expr: Expr, i: int) -> int:
    """What it is, by Python's integers cut to the width after each operation."""
    match expr:
        case Const(value=found):
            found = int(found)
        case Iter():
            found = i
        case Cast(operand=operand):
            found = value(operand, i)
        case Unary(operand=operand):
            found = -value(operand, i)
        case Binary(op=op, left=left, right=right):
            one, other = value(left, i), value(right, i)
            found = {
                "add": one + other,
                "sub": one - other,
                "mul": one * other,
                "min": min(one, other),
                "max": max(one, other),
                "mod": one % other if other else 0,
                "floordiv": one // other if other else 0,
            }[op]
        case _:
            raise AssertionError(expr)
    return int(np.array(found & (2**64 - 1), np.uint64).astype(expr.dtype.numpy_name))


@pytest.mark.parametrize("seed", range(300))
def test_conditions_and_values_are_those_of_the_machine(seed: int) -> None:
    """Or isl has none."""
    rng = random.Random(seed)
    dtype = rng.choice(NARROW)
    left, right = number(rng, dtype, 3), number(rng, dtype, 2)
    op = rng.choice(["lt", "eq", "ge"])
    space = isl.set_space(isl.Context(), (), ("i",))
    holds = isl.Reader(space).condition(Compare(op, left, right))
    for i in POINTS:
        one, other = value(left, i), value(right, i)
        if same_index(left, right):
            assert one == other, (i, left, right)
        if holds is not None:
            expected = {"lt": one < other, "eq": one == other, "ge": one >= other}[op]
            point = isl.universe(space).fix_val(isl.SET, 0, i)
            assert (not point.is_disjoint(holds)) == expected, (i, left, op, right)
