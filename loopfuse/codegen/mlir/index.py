"""Index arithmetic: linear forms, their ranges and divisors.

A subscript is brought to a *linear form*, a sum of atoms with integer coefficients and a constant,
so that equal addresses are computed once, constants end up last (in the addressing mode), and the
lane of a VECTOR loop can be split off. An atom is an iterator, a symbol, or an operation on linear
forms that is not linear itself.

Ranges decide the width: a form whose every partial sum provably fits is computed in `index_bits`
without wrapping, any other in 64 bits. A size and an iterator over sizes is below 2**31 over the
bytes of the narrowest element (32-bit indexing, which the caller has proved) or 2**48; a scalar
parameter can be anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import gcd, lcm

from loopfuse.base.dtypes import DType
from loopfuse.lang import nodes
from loopfuse.lang.walk import conjuncts, iterators, loads

UNBOUNDED = 1 << 200


@dataclass(frozen=True, slots=True)
class Operation:
    """An atom: `mul floordiv mod min max` of two linear forms, or `opaque`, an expression that
    index arithmetic does not know (a load or a cast)."""

    op: str
    left: Linear | nodes.Expr
    right: Linear | None


Atom = nodes.Iter | nodes.Symbol | Operation


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(coefficient * atom) + constant`; each atom once, no coefficient 0."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        """`self + sign * other`."""
        if not other.terms:
            return Linear(self.terms, self.constant + sign * other.constant)
        sums = dict(self.terms)
        for atom, coefficient in other.terms:
            sums[atom] = sums.get(atom, 0) + sign * coefficient
        terms = tuple((atom, value) for atom, value in sums.items() if value)
        return _rejoined(Linear(terms, self.constant + sign * other.constant))

    def times(self, factor: int) -> Linear:
        """`self * factor`."""
        if factor == 0:
            return Linear((), 0)
        terms = tuple((atom, coefficient * factor) for atom, coefficient in self.terms)
        return Linear(terms, self.constant * factor)

    def coefficient(self, name: str) -> int:
        """The coefficient of the iterator `name`."""
        for atom, value in self.terms:
            if isinstance(atom, nodes.Iter) and atom.name == name:
                return value
        return 0

    def without(self, name: str) -> Linear:
        """The form with the iterator `name` at 0."""
        terms = tuple(
            term
            for term in self.terms
            if not (isinstance(term[0], nodes.Iter) and term[0].name == name)
        )
        return Linear(terms, self.constant)


def _rejoined(form: Linear) -> Linear:
    """before: c * (a % k) + c * k * (a // k)        after: c * a"""
    held = dict(form.terms)
    for atom, factor in form.terms:
        if not isinstance(atom, Operation) or atom.op != "mod" or not isinstance(atom.left, Linear):
            continue
        assert atom.right is not None
        over = Operation("floordiv", atom.left, atom.right)
        if atom.right.terms or held.get(over) != factor * atom.right.constant:
            continue
        rest = tuple(term for term in form.terms if term[0] not in (atom, over))
        return Linear(rest, form.constant).plus(atom.left.times(factor))
    return form


ZERO = Linear((), 0)


def constant_form(value: int) -> Linear:
    """The form of a number."""
    return Linear((), value)


@dataclass(slots=True)
class Facts:
    """What is known of names: constants (unrolled iterators), bounds, and divisors."""

    small: int
    constants: dict[str, int] = field(default_factory=dict[str, int])
    bounds: dict[str, int] = field(default_factory=dict[str, int])
    divisors: dict[str | Atom, int] = field(default_factory=dict["str | Atom", int])
    """Numbers that divide iterators and symbols (by name), and products."""
    odd: frozenset[str] = frozenset()
    offsets: dict[str, int] = field(default_factory=dict[str, int])
    """How far an iterator is ahead of its variable, in the copies of a ROTATED loop's body."""
    shifted: set[str] = field(default_factory=set[str])
    """The variables of the SHIFTED loops around."""
    products: dict[Atom, int] = field(default_factory=dict["Atom", int])
    """Bounds of products of extents that some array has."""
    sizes: set[str] = field(default_factory=set[str])
    """Symbols that are never negative."""
    ranges: dict[str, tuple[Linear, Linear]] = field(default_factory=dict[str, "tuple[Linear, Linear]"])
    """Of the variables of the loops around, outer ones first: where they start, and what they stay below."""


def is_index(expr: nodes.Expr) -> bool:
    """Whether `expr` is made of iterators, i64 symbols and constants by index operations alone."""
    match expr:
        case nodes.Iter():
            return True
        case nodes.Const(dtype=DType.I64) | nodes.Symbol(dtype=DType.I64):
            return True
        case nodes.Unary(op="neg", operand=operand, dtype=DType.I64):
            return is_index(operand)
        case nodes.Binary(op=op, left=left, right=right, dtype=DType.I64):
            known = op in ("add", "sub", "mul", "floordiv", "mod", "min", "max")
            return known and is_index(left) and is_index(right)
        case _:
            return False


def linear(expr: nodes.Expr, facts: Facts) -> Linear:
    """The linear form of an i64 expression."""
    match expr:
        case nodes.Const(value=value):
            return Linear((), int(value))
        case nodes.Iter(name=name):
            known = facts.constants.get(name)
            if known is not None:
                return Linear((), known)
            return Linear(((expr, 1),), facts.offsets.get(name, 0))
        case nodes.Symbol(dtype=DType.I64):
            return Linear(((expr, 1),), 0)
        case nodes.Unary(op="neg", operand=operand):
            return linear(operand, facts).times(-1)
        case nodes.Binary(op="add" | "sub" as op, left=left, right=right):
            return linear(left, facts).plus(linear(right, facts), 1 if op == "add" else -1)
        case nodes.Binary(op="mul" | "floordiv" | "mod" | "min" | "max" as op):
            return combine(op, linear(expr.left, facts), linear(expr.right, facts), facts)
        case _:
            return Linear(((Operation("opaque", expr, None), 1),), 0)


def combine(op: str, left: Linear, right: Linear, facts: Facts) -> Linear:
    """`op` of two forms, folded where it is constant or divides out."""
    if op == "mul":
        if not left.terms:
            return right.times(left.constant)
        if not right.terms:
            return left.times(right.constant)
        return Linear(((Operation("mul", left, right), 1),), 0)
    if not left.terms and not right.terms:
        a, b = left.constant, right.constant
        value = {
            "floordiv": lambda: a // b if b else 0,
            "mod": lambda: a % b if b else 0,
            "min": lambda: min(a, b),
            "max": lambda: max(a, b),
        }[op]()
        return Linear((), value)
    if op in ("floordiv", "mod") and not right.terms and right.constant > 0:
        factor = right.constant
        if factor == 1:
            return left if op == "floordiv" else ZERO
        # floor((factor*a + k) / factor) = a + floor(k / factor), as long as nothing wraps.
        if all(value % factor == 0 for _, value in left.terms) and bound(left, facts) < 1 << 62:
            if op == "mod":
                return Linear((), left.constant % factor)
            terms = tuple((atom, value // factor) for atom, value in left.terms)
            return Linear(terms, left.constant // factor)
    return Linear(((Operation(op, left, right), 1),), 0)


def bound(form: Linear, facts: Facts) -> int:
    """A number that no partial sum of `form` exceeds in magnitude; UNBOUNDED if there is none."""
    total = abs(form.constant)
    for atom, coefficient in form.terms:
        total += abs(coefficient) * atom_bound(atom, facts)
    return min(total, UNBOUNDED)


def atom_bound(atom: Atom, facts: Facts) -> int:
    """As `bound`, of one atom."""
    match atom:
        case nodes.Iter(name=name) | nodes.Symbol(name=name):
            return facts.bounds.get(name, UNBOUNDED)
        case Operation(left=Linear() as left, right=Linear() as right):
            if atom in facts.products:
                return facts.products[atom]
            one, other = bound(left, facts), bound(right, facts)
            whole = right.constant if not right.terms else 0
            match atom.op:
                case "mul":
                    return min(one * other, UNBOUNDED)
                case "floordiv" if whole > 0:
                    return one // whole + 1
                case "floordiv":
                    return one
                case "mod":
                    return other
                case _:
                    return max(one, other)
        case _:
            return UNBOUNDED


def mentions(form: Linear, name: str) -> bool:
    """Whether the iterator `name` occurs anywhere in `form`."""

    def inside(atom: Atom) -> bool:
        match atom:
            case nodes.Iter():
                return atom.name == name
            case nodes.Symbol():
                return False
            case Operation(left=Linear() as left, right=Linear() as right):
                return mentions(left, name) or mentions(right, name)
            case Operation(left=left):  # opaque; a load may be of a register that each lane has
                assert not isinstance(left, Linear)
                return bool(loads(left)) or name in iterators(left)

    return any(inside(atom) for atom, _ in form.terms)


def divisor(form: Linear, facts: Facts) -> int:
    """A number that divides `form` whatever its atoms are (0: the form is 0)."""
    total = abs(form.constant)
    for atom, coefficient in form.terms:
        match atom:
            case nodes.Iter(name=name) | nodes.Symbol(name=name):
                known = facts.divisors.get(name, 1)
            case Operation(op="mul", left=Linear() as left, right=Linear() as right):
                known = divisor(left, facts) * divisor(right, facts)
                known = lcm(known, facts.divisors.get(atom, 1))
            case Operation(op="min" | "max", left=Linear() as left, right=Linear() as right):
                known = gcd(divisor(left, facts), divisor(right, facts))
            case _:
                known = facts.divisors.get(atom, 1)
        total = gcd(total, abs(coefficient) * known)
    return total


def is_size(atom: Atom, facts: Facts) -> bool:
    """Is it a symbol that is never negative?"""
    return isinstance(atom, nodes.Symbol) and atom.name in facts.sizes


def innermost(form: Linear, facts: Facts) -> tuple[nodes.Iter, int] | None:
    """The term of a variable of the loops around, the innermost of those in the form; None where there is none."""
    found = {atom.name: (atom, factor) for atom, factor in form.terms if isinstance(atom, nodes.Iter)}
    return next((found[name] for name in reversed(facts.ranges) if name in found), None)


def is_even(form: Linear, facts: Facts) -> bool:
    """Is `form` even, whatever its atoms are? (`r * W - r % 2` is, where W is odd.)"""
    names = sorted(_names(form))
    free = [name for name in names if name not in facts.odd and facts.divisors.get(name, 1) % 2]
    if len(free) > 6:
        return False
    known = {name: int(name in facts.odd) for name in names}
    try:
        return not any(
            _parity(form, known | dict(zip(free, bits))) for bits in product((0, 1), repeat=len(free))
        )
    except KeyError:
        return False


def _names(form: Linear) -> set[str]:
    found: set[str] = set()
    for atom, _ in form.terms:
        match atom:
            case nodes.Iter(name=name) | nodes.Symbol(name=name):
                found.add(name)
            case Operation(left=Linear() as left, right=Linear() as right):
                found |= _names(left) | _names(right)
            case _:
                pass
    return found


def _parity(form: Linear, bits: Mapping[str, int]) -> int:
    total = form.constant
    for atom, coefficient in form.terms:
        if coefficient % 2 == 0:
            continue
        match atom:
            case nodes.Iter(name=name) | nodes.Symbol(name=name):
                total += bits[name]
            case Operation(op="mul", left=Linear() as left, right=Linear() as right):
                total += _parity(left, bits) * _parity(right, bits)
            case Operation(op="mod", left=Linear() as left, right=Linear(terms=(), constant=whole)) if (
                whole % 2 == 0
            ):
                total += _parity(left, bits)
            case Operation(op="min", left=Linear() as left, right=Linear() as right) if _is_bit(left) and _is_bit(right):
                total += _parity(left, bits) * _parity(right, bits)
            case _:
                raise KeyError(atom)
    return total % 2


def _is_bit(form: Linear) -> bool:
    """Is it 0 or 1: a remainder of 2, or the least of two such?"""
    match form:
        case Linear(terms=((Operation(op="mod", right=Linear(terms=(), constant=2)), 1),), constant=0):
            return True
        case Linear(terms=((Operation(op="min", left=Linear() as left, right=Linear() as right), 1),), constant=0):
            return _is_bit(left) and _is_bit(right)
        case _:
            return False


def known_odd(condition: nodes.Expr) -> frozenset[str]:
    """Symbols that `condition` says are odd (`W % 2 == 1`)."""
    found: set[str] = set()
    for each in conjuncts(condition):
        match each:
            case nodes.Compare(
                op="eq",
                left=nodes.Binary(
                    op="mod", left=nodes.Symbol(name=name), right=nodes.Const(value=2)
                ),
                right=nodes.Const(value=1),
            ):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def known_divisors(condition: nodes.Expr, facts: Facts) -> Mapping[str | Atom, int]:
    """Symbols, iterators, products and quotients that `condition` says are multiples of a constant (`W % 4 == 0`)."""
    found: dict[str | Atom, int] = {}
    for each in conjuncts(condition):
        match each:
            case nodes.Compare(
                op="eq",
                left=nodes.Binary(op="mod", left=value, right=nodes.Const(value=factor)),
                right=nodes.Const(value=0),
            ) if factor > 0 and is_index(value):
                match linear(value, facts):
                    case Linear(terms=((nodes.Symbol(name=name) | nodes.Iter(name=name), 1),), constant=0):
                        found[name] = int(factor)
                    case Linear(terms=((Operation(op="mul" | "floordiv") as atom, 1),), constant=0):
                        found[atom] = int(factor)
                    case _:
                        pass
            case _:
                pass
    return found
