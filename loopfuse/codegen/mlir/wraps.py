"""Remainders of places that lie less than a few sizes beyond one: compares, where a division takes ten cycles and more (CPU).

before:  (x - 1) % W        where 0 <= x < W
after:   t + W if t < 0 else t        t = x - 1
"""

from __future__ import annotations

from loopfuse.codegen.build import Builder
from loopfuse.codegen.ir import Value
from loopfuse.codegen.mlir.index import Atom, Facts, Linear, Operation, innermost, is_size
from loopfuse.lang import nodes

MOST = 3
"""Compares of a remainder, at most."""

STEPS = 6
"""Ends of ranges, and sides of `min` and `max`, that a question goes through at most."""


def sizes_short(left: Linear, right: Linear, facts: Facts) -> int | None:
    """How often `right` is added to `left`, at most, until it is its remainder (less than 0: taken away); None where that is not seen, or
    too often. `right` is at least 1 then, wherever the loops around run."""
    match left.terms:
        case ((atom, 1),) if abs(left.constant) <= MOST and _lies_below(atom, right, facts):
            return -left.constant
        case _:
            return None


def wrapped(builder: Builder, value: Value, size: Value, short: int) -> Value:
    """The value less its whole sizes, of which it is so many short at most."""
    zero = builder.constant(0, value.type)
    for _ in range(abs(short)):
        if short > 0:
            value = builder.select(builder.compare("slt", value, zero), builder.binary("addi", value, size), value)
        else:
            value = builder.select(builder.compare("sge", value, size), builder.binary("subi", value, size), value)
    return value


def _lies_below(atom: Atom, size: Linear, facts: Facts) -> bool:
    """Is it at least 0, and less than `size`?"""
    match atom:
        case nodes.Iter(name=name) if name in facts.ranges and not facts.offsets.get(name):
            lower, upper = facts.ranges[name]
            return is_never_negative(lower, facts) and is_never_negative(size.plus(upper, -1), facts)
        case Operation(op="mod", left=Linear() as left, right=right) if right == size:
            return sizes_short(left, size, facts) is not None
        case _:
            return False


def is_never_negative(form: Linear, facts: Facts, steps: int = STEPS) -> bool:
    """Is it at least 0 wherever the loops around run? (False: that is not seen.)"""
    if not steps:
        return False
    for atom, factor in form.terms:
        if isinstance(atom, Operation) and atom.op in ("min", "max") and isinstance(atom.left, Linear) and isinstance(atom.right, Linear):
            rest = form.plus(Linear(((atom, factor),), 0), -1)
            ways = (rest.plus(side.times(factor)) for side in (atom.left, atom.right))
            one_will_do = (atom.op == "max") == (factor > 0)
            return (any if one_will_do else all)(is_never_negative(way, facts, steps - 1) for way in ways)
    inner = innermost(form, facts)
    if inner is None:
        return form.constant >= 0 and all(is_size(atom, facts) and factor > 0 for atom, factor in form.terms)
    atom, factor = inner
    lower, upper = facts.ranges[atom.name]
    end = lower if factor > 0 else upper.plus(Linear((), -1))
    return is_never_negative(form.plus(Linear((inner,), 0), -1).plus(end.times(factor)), facts, steps - 1)
