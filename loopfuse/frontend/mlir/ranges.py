"""The range of a loop: `i in a..b step s`, or downward where only that is done with the count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import affine
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.ops import is_within
from loopfuse.frontend.mlir.state import State
from loopfuse.frontend.mlir.terms import (
    Linear,
    Term,
    add,
    expression_of,
    linear_of,
    map_results,
    number,
)
from loopfuse.frontend.mlir.text import refuse
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import Binary, Call, Expr, Name, Range


def extreme_of(word: str, parts: Sequence[Expr], span: Span) -> Expr:
    """The `min` or `max` of the results of an affine map."""
    return parts[0] if len(parts) == 1 else Call(word, tuple(parts), span=span)


def loop_range(state: State, op: Any) -> Range:
    """The range of a loop; its iterator becomes a name."""
    span = state.place(op)
    argument = op.body.block.args[0]
    down = _downward(state, op)
    if down is not None:
        return down
    name = state.names.fresh(argument.name_hint, "i")
    state.terms[argument] = Term(Name(name, span=span), DType.I64, True)
    if isinstance(op, affine.ForOp):
        low = map_results(op.lowerBoundMap.data, state.indices(op.lowerBoundOperands), span)
        high = map_results(op.upperBoundMap.data, state.indices(op.upperBoundOperands), span)
        step = op.step.value.data
        lower, upper = extreme_of("max", low, span), extreme_of("min", high, span)
    else:
        lower, upper = state.value(op.lb).expr, state.value(op.ub).expr
        step = state.value(op.step).constant
    if not isinstance(step, int) or step <= 0:
        refuse(
            state.source, span, "mlir-step", "the step of this loop is not a positive constant",
            "make the step an `arith.constant`, or count by 1 and multiply by it in the subscripts",
        )  # fmt: skip
    made = None if step == 1 else number(step, DType.I64, span)
    return Range(name, lower, upper, made, span=span)


def _is_found_within(value: SSAValue, loop: Operation) -> bool:
    """Whether a value follows from the iterator of `loop` or of one inside it: it has then no value
    where `loop` begins."""
    if not isinstance(value.owner, Operation):
        block = value.owner.parent_op()
        return block is not None and is_within(block, loop)
    if not is_within(value.owner, loop):
        return False
    if value.owner.regions or not is_side_effect_free(value.owner):
        return True
    return any(_is_found_within(operand, loop) for operand in value.owner.operands)


def _downward(state: State, op: Any) -> Range | None:
    """`i in n-1..-1 step -1`, where a loop counts its iterations and does nothing with their
    number but subtract multiples of it from where it starts."""
    argument = op.body.block.args[0]
    uses = list(argument.uses)
    if not isinstance(op, affine.ForOp) or len(uses) != 1 or op.step.value.data != 1:
        return None
    apply = uses[0].operation
    if not isinstance(apply, affine.ApplyOp) or len(apply.mapOperands) != 2:
        return None
    span = state.place(op)
    low = map_results(op.lowerBoundMap.data, state.indices(op.lowerBoundOperands), span)
    high = map_results(op.upperBoundMap.data, state.indices(op.upperBoundOperands), span)
    if low != [number(0, DType.I64)] or len(high) != 1 or apply.mapOperands[0] is not argument:
        return None
    if _is_found_within(apply.mapOperands[1], op):
        return None
    marker = Name("")
    (moved,) = map_results(apply.map.data, [marker, Name(" ")], span)
    parts = dict(linear_of(moved).terms)
    size = -parts.get(marker, 0)
    if parts != {marker: -size, Name(" "): 1} or size <= 0 or linear_of(moved).constant:
        return None
    start_term = state.value(apply.mapOperands[1])
    start = linear_of(start_term.expr)
    if size == 1:
        stop = add(start, linear_of(high[0]), -1)
    else:
        match high[0]:
            case Binary(op="//", left=left, right=syntax.Number(value=held)) if held == size:
                stop = add(add(start, Linear((), size - 1)), linear_of(left), -1)
            case _:
                return None
    result = apply.results[0]
    name = state.names.fresh(result.name_hint, "i")
    state.terms[result] = Term(Name(name, span=span), DType.I64, True)
    return Range(
        name,
        start_term.expr,
        expression_of(stop, span),
        number(-size, DType.I64, span),
        span=span,
    )
