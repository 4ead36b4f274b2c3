"""Divisions of several numbers by one on the GPU: multiplied by its reciprocal, and corrected.

    before:  unrolled for u in 0..8: y[.., u] = e[u] / s
    after:   r = 1 / s
             for each u: a = e[u]; p = a * r; q[u] = fma(fma(-s, p, a), r, p)
             if an a or s is rare: for each u: q[u] = a is rare ? a / s : q[u]
             for each u: y[.., u] = q[u]

`div.rn` of an f32 is some fourteen instructions and a branch; behind branches one waits for the other. Of a
reciprocal that is rounded correctly the corrected quotient has the bits of the division (Markstein) where nothing on the way
is subnormal or overflows: where s lies in 2**-28..2**28 and |a| in 2**-63..2**64. (Its proof leaves quotients beside the middle of
two numbers; `tests/codegen/test_quotients.py` tries those.) One test says whether all iterations have such numbers. 0 is rare, but
needs no division: the product has its sign.

Needs: dividends that no iteration changes for another, and a divisor that is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from loopfuse.base.dtypes import DType
from loopfuse.codegen.build import F32, I32, Builder
from loopfuse.codegen.ir import Block, Operation, Value
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.lang import nodes
from loopfuse.lang.walk import iterators, loads, walk_expr
from loopfuse.tree.looptree import Compute, Copy, Fold, Guard, Loop, Mapping, Register, TreeNode, Window

Emit = Callable[[nodes.Expr], Value]

FEWEST, MOST = 3, 16
"""Iterations of a loop whose divisions are done together."""
_LEAST, _DIVISOR_LEAST, _DIVISOR_RANGE = 64, 127 - 28, 56
"""Exponents, as bits: of the least dividend, of the least divisor; how many those of divisors are. Those of dividends are 128."""


@dataclass(frozen=True, slots=True)
class Divisor:
    """One that several divisions share: its value, its reciprocal, and a number below 0 where it is rare."""

    value: Value
    reciprocal: Value
    rare: Value


@dataclass(slots=True)
class Quotients:
    """What is known of divisions in the loop at hand."""

    var: str = ""
    """Of the loop whose divisions are done."""
    done: dict[tuple[nodes.Expr, int], Value] = field(default_factory=dict[tuple[nodes.Expr, int], Value])
    """By the division and the iteration."""
    divisors: dict[nodes.Expr, Divisor] = field(default_factory=dict[nodes.Expr, Divisor])
    """Those that nothing changes in the loops around."""


def emit_together(emitter: Emitter, loop: Loop, times: range, emit: Emit, run: Callable[[], None]) -> None:
    """`run`, which writes out the UNROLLED loop; its divisions by one number are done before."""
    known: Quotients = emitter.quotients
    if not emitter.gpu or emitter.vector or known.var or emitter.rare is not None:
        run()
        return
    outside = dict(known.divisors)
    written = _written(loop.body)
    for divisor in _divisors(emitter, loop.body, {loop.var}, written):
        if divisor not in known.divisors:
            emitter.forget_loads()
            known.divisors[divisor] = _divisor(emitter.builder, emit(divisor))
    own = [each for each in _own(emitter, loop.body, written) if each.right in known.divisors]
    if own and FEWEST <= len(times) <= MOST:
        emitter.forget_loads()
        known.var = loop.var
        for division in dict.fromkeys(reversed(own)):  # what stands inside others first
            dividends: list[Value] = []
            for value in times:
                emitter.facts.constants[loop.var] = value
                dividends.append(emit(division.left))
            emitter.facts.constants.pop(loop.var, None)
            results = divided(emitter.builder, dividends, known.divisors[division.right])
            known.done |= {(division, value): result for value, result in zip(times, results, strict=True)}
    run()
    known.var, known.done, known.divisors = "", {}, outside


def quotient_of(emitter: Emitter, expr: nodes.Binary) -> Value | None:
    """The division's value in the iteration at hand, if it is done."""
    known: Quotients = emitter.quotients
    return known.done.get((expr, emitter.facts.constants[known.var])) if known.var else None


# ------------------------------------------------------------------------- which divisions


def _written(body: Sequence[TreeNode]) -> frozenset[str] | None:
    """The buffers that the nodes write; None where they do more."""
    found: set[str] = set()
    for node in body:
        match node:
            case Compute(target=target) | Copy(target=target, late=False) | Fold(target=target):
                found.add(target.array)
            case Guard(then=then, otherwise=otherwise):
                inner = _written((*then, *otherwise))
                if inner is None:
                    return None
                found |= inner
            case Loop(mapping=Mapping.UNROLLED, body=inside):
                inner = _written(inside)
                if inner is None:
                    return None
                found |= inner
            case _:
                return None
    return frozenset(found)


def _divisors(
    emitter: Emitter, body: Sequence[TreeNode], within: set[str], written: frozenset[str] | None
) -> Iterator[nodes.Expr]:
    """What loops inside divide by that is the same in all iterations of all of them."""
    if written is None:
        return
    for node in body:
        match node:
            case Loop(var=var, body=inner):
                yield from _divisors(emitter, inner, within | {var}, written)
            case Guard(then=then, otherwise=otherwise):
                yield from _divisors(emitter, (*then, *otherwise), within, written)
            case Compute(value=value) | Copy(value=value):
                for each in _divisions(value):
                    if not iterators(each.right) & within and _is_held(emitter, each.right, written):
                        yield each.right
            case _:
                pass


def _own(emitter: Emitter, body: Sequence[TreeNode], written: frozenset[str] | None) -> Iterator[nodes.Binary]:
    """The divisions that each iteration does, and may do before: outside branches."""
    if written is None:
        return
    for node in body:
        match node:
            case Guard(predicated=True, then=then):
                yield from _own(emitter, then, written)
            case Compute(value=value, predicate=None) | Copy(value=value):
                yield from (each for each in _divisions(value) if _is_held(emitter, each.left, written))
            case _:
                pass


def _divisions(value: nodes.Expr) -> Iterator[nodes.Binary]:
    """Divisions of f32 by what is no constant, that are done whatever the data."""
    if any(isinstance(each, nodes.Select) for each in walk_expr(value)):
        return
    for each in walk_expr(value):
        match each:
            case nodes.Binary(op="div", right=right, dtype=DType.F32) if not isinstance(right, nodes.Const):
                yield each
            case _:
                pass


def _is_held(emitter: Emitter, expr: nodes.Expr, written: frozenset[str]) -> bool:
    """Is it made of registers that nothing writes here?"""
    return all(
        isinstance(emitter.storage[load.array].buffer.home, Register | Window)
        and not emitter.storage[load.array].lane_variable
        and load.array not in written
        for load in loads(expr)
    )


# ------------------------------------------------------------------------------ arithmetic


def _exponents(builder: Builder, value: Value, least: int) -> Value:
    """Twice the bits of `value`, of which the sign then goes, less those of 2**least: an i32."""
    twice = builder.binary("shli", builder.convert("bitcast", value, I32), builder.constant(1, I32))
    return builder.binary("subi", twice, builder.constant(least << 24, I32))


def _divisor(builder: Builder, value: Value) -> Divisor:
    moved = _exponents(builder, value, _DIVISOR_LEAST)
    usual = builder.compare("ult", moved, builder.constant(_DIVISOR_RANGE << 24, I32))
    rare = builder.select(usual, builder.constant(0, I32), builder.constant(-1, I32))
    return Divisor(value, builder.binary("divf", builder.constant(1.0, F32), value), rare)


def divided(builder: Builder, dividends: Sequence[Value], divisor: Divisor) -> Sequence[Value]:
    """Each dividend over the divisor, correctly rounded."""
    minus, zero, none = builder.unary("negf", divisor.value), builder.constant(0.0, F32), builder.constant(0, I32)

    def corrected(a: Value) -> Value:
        product = builder.binary("mulf", a, divisor.reciprocal)
        return builder.fma(builder.fma(minus, product, a), divisor.reciprocal, product)

    def careful(a: Value) -> Value:
        is_zero = builder.compare("oeq", a, zero)
        is_plain = builder.binary("andi", is_zero, builder.compare("ogt", divisor.value, zero))
        is_usual = builder.compare("sge", _exponents(builder, a, _LEAST), none)
        is_usual = builder.binary("andi", builder.binary("ori", is_plain, is_usual), builder.compare("sge", divisor.rare, none))
        value = builder.branch(
            is_usual,
            lambda: builder.select(is_zero, a, corrected(a)),
            lambda: builder.binary("divf", a, divisor.value),
            F32,
        )
        assert value is not None
        return value

    def arm(make: Callable[[Value], Value]) -> Block:
        """Of both, which share nothing: what is live are the dividends alone."""
        return builder.into(
            Block(), lambda: builder.block.add(Operation("scf.yield", tuple(map(make, dividends))))
        )

    any_rare = divisor.rare
    for each in dividends:
        any_rare = builder.binary("ori", any_rare, _exponents(builder, each, _LEAST))
    condition = builder.compare("slt", any_rare, none)
    choice = Operation("scf.if", (condition,), [F32] * len(dividends), blocks=(arm(careful), arm(corrected)))
    builder.block.add(choice)
    return choice.results
