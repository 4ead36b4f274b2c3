"""Comparing two formulas in the sizes: for all sizes where that can be proved, else by trying.

A formula of a report holds for large sizes (`poly.reuse`: the corner cases of tiny arrays are
dropped), so that is where formulas are compared: from `LARGE` on.

before: is 8*H*W <= 12*H*W + 4?
after:  12*H*W + 4 - 8*H*W = 4*H*W + 4 has no negative coefficient: yes, for all sizes
"""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loopfuse.base.diagnostics import InternalError
from loopfuse.runtime.formulas import evaluate, names_in
from loopfuse.testing.subject import refuse

LARGE = 64
"""Sizes from here on count as large, as in `poly.reuse`."""

SAMPLES = 400
_SIDES = (64, 65, 96, 100, 128, 1000, 1024, 4096, 4097, 65_536, 1_000_000)

Polynomial = dict[tuple[str, ...], int]
"""Coefficients by monomial, the sorted tuple of its factors: names, or `//`, min.. as text."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether one formula is at most (or equal to) another. `how`: `proved` for all sizes,
    `computed` at the sizes given, `sampled` at many. Where it does not hold, `at` are sizes that
    show it, and `left` and `right` the values there."""

    holds: bool
    how: str
    at: tuple[tuple[str, int], ...] = ()
    left: int = 0
    right: int = 0


def read_formula(text: str | int, known: Sequence[str], what: str) -> str:
    """A user's formula, `**` written out. UserError[bad-formula] for what is none,
    [unknown-size] for a name that is no size or integer parameter."""
    try:
        tree = ast.parse(str(text), mode="eval")
        plain = ast.unparse(_Powers().visit(tree))
        names = names_in(plain)
    except (SyntaxError, ValueError, InternalError, RecursionError):
        raise refuse(
            "bad-formula",
            f"{what}={text!r} is no formula",
            'write sizes and whole numbers with + - * // % ** min max, as in "8*H*W"',
        ) from None
    unknown = sorted(names - set(known))
    if unknown:
        raise refuse(
            "unknown-size",
            f"{what}={text!r} reads `{unknown[0]}`, which is no size or integer parameter",
            f"there are {', '.join(known)}" if known else "there are none: write a number",
        )
    return plain


def is_at_most(
    left: str, right: str, sizes: Mapping[str, int], conditions: Sequence[str]
) -> Comparison:
    """Is `left <= right` wherever `conditions` (preconditions) hold and `sizes` are as given?"""
    return _compare(left, right, sizes, conditions, equal=False)


def is_equal(
    left: str, right: str, sizes: Mapping[str, int], conditions: Sequence[str]
) -> Comparison:
    """Is `left == right`, likewise?"""
    return _compare(left, right, sizes, conditions, equal=True)


def _compare(
    left: str, right: str, sizes: Mapping[str, int], conditions: Sequence[str], equal: bool
) -> Comparison:
    difference = _subtract(_polynomial(right, sizes), _polynomial(left, sizes))
    free = sorted((names_in(left) | names_in(right)) - set(sizes))
    if not free:
        values = int(evaluate(left, sizes)), int(evaluate(right, sizes))
        good = values[0] == values[1] if equal else values[0] <= values[1]
        return Comparison(good, "computed", tuple(sorted(sizes.items())), *values)
    if not difference or (not equal and _is_never_negative(difference, set(free))):
        return Comparison(True, "proved")
    tried = 0
    for case in _samples(free, sizes, conditions):
        values = int(evaluate(left, case)), int(evaluate(right, case))
        if values[0] > values[1] or (equal and values[0] != values[1]):
            shown = tuple((name, case[name]) for name in free)
            return Comparison(False, "sampled", shown, *values)
        tried += 1
    if not tried:
        raise refuse(
            "no-sizes",
            "no sizes were found that satisfy what the kernel needs",
            "give some: `sizes={...}`",
            list(conditions),
        )
    return Comparison(True, "sampled")


# -------------------------------------------------------------------------------- polynomials


class _Powers(ast.NodeTransformer):
    """before: `N**3`; after: `N*N*N`"""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.op, ast.Pow):
            return node
        power = node.right
        if not (
            isinstance(power, ast.Constant) and type(power.value) is int and 0 < power.value < 9
        ):
            raise ValueError
        product = node.left
        for _ in range(power.value - 1):
            product = ast.BinOp(product, ast.Mult(), node.left)
        return product


def _polynomial(text: str, sizes: Mapping[str, int]) -> Polynomial:
    def expand(node: ast.expr) -> Polynomial:
        match node:
            case ast.Constant(value=int() as value):
                return {(): int(value)} if value else {}
            case ast.Name(id=name):
                if name in sizes:
                    return {(): sizes[name]} if sizes[name] else {}
                return {(name,): 1}
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return _add(expand(left), expand(right))
            case ast.BinOp(op=ast.Sub(), left=left, right=right):
                return _subtract(expand(left), expand(right))
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                return _multiply(expand(left), expand(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _subtract({}, expand(operand))
            case _:
                return {(ast.unparse(node),): 1}

    return expand(ast.parse(text, mode="eval").body)


def _add(left: Polynomial, right: Polynomial) -> Polynomial:
    out = dict(left)
    for monomial, coefficient in right.items():
        out[monomial] = out.get(monomial, 0) + coefficient
    return {monomial: coefficient for monomial, coefficient in out.items() if coefficient}


def _subtract(left: Polynomial, right: Polynomial) -> Polynomial:
    return _add(left, {monomial: -coefficient for monomial, coefficient in right.items()})


def _multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for first, a in left.items():
        for second, b in right.items():
            out = _add(out, {tuple(sorted(first + second)): a * b})
    return out


def _is_never_negative(terms: Polynomial, names: set[str]) -> bool:
    """No negative value for any sizes from 0, or at least for all large ones: then each size is
    `LARGE` and something that is not negative. False where it is not seen from coefficients."""
    if any(factor not in names for monomial in terms for factor in monomial):
        return False
    if all(coefficient > 0 for coefficient in terms.values()):
        return True
    shifted: Polynomial = {}
    for monomial, coefficient in terms.items():
        product: Polynomial = {(): coefficient}
        for factor in monomial:
            product = _multiply(product, {(factor,): 1, (): LARGE})
        shifted = _add(shifted, product)
    return all(coefficient > 0 for coefficient in shifted.values())


# ------------------------------------------------------------------------------------ samples


def _samples(
    free: Sequence[str], sizes: Mapping[str, int], conditions: Sequence[str]
) -> list[dict[str, int]]:
    """Different large sizes that satisfy the conditions, small and equal ones first; only where
    there are none (a window must fit its array, say), small ones too."""
    names = sorted({*free, *(name for text in conditions for name in names_in(text))} - set(sizes))
    for sides in (_SIDES, (1, 2, 3, 5, 8, 16, *_SIDES)):
        generator = random.Random(0)
        found = [{**sizes, **dict.fromkeys(names, side)} for side in sides]
        for _ in range(SAMPLES - len(found)):
            found.append({**sizes, **{name: generator.choice(sides) for name in names}})
        good = [case for case in found if all(evaluate(text, case) for text in conditions)]
        if good:
            return good
    return _nearest(names, sizes, conditions)


def _nearest(
    names: Sequence[str], sizes: Mapping[str, int], conditions: Sequence[str]
) -> list[dict[str, int]]:
    """Sizes near those large ones, of the set that the conditions describe: from 0, or where that is
    empty with integer parameters below it too."""
    from loopfuse.poly.isl_sizes import SizeSet, read_condition

    read = [one for text in conditions if (one := read_condition(text)) is not None]
    generator = random.Random(0)
    for least in (0, -(1 << 31)):
        points = SizeSet((*names, *sizes), read, dict.fromkeys((*names, *sizes), (least, 1 << 48)))
        good: list[dict[str, int]] = []
        for _ in range(SAMPLES // 4):
            order = generator.sample(list(names), len(names))
            near = points.near({name: generator.choice(_SIDES) for name in order}, sizes)
            if near is None:
                break
            if near not in good and all(evaluate(text, near) for text in conditions):
                good.append(near)
        if good:
            return good
    return []
