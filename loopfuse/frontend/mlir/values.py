"""A value of MLIR as an expression: loads, choices, calls, reductions and arithmetic.

before:  %e = affine.load %x[%i + 1]; %s = arith.addf %e, %e
after:   x[i + 1] + x[i + 1]
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import affine, arith, func, memref, scf
from xdsl.ir import Operation, SSAValue

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.arith import Unread, dtype_of, read_operation
from loopfuse.frontend.mlir.edges import edge_mode, zero_access
from loopfuse.frontend.mlir.names import helper_name
from loopfuse.frontend.mlir.ops import arms_of, maker
from loopfuse.frontend.mlir.reductions import carried_reduction
from loopfuse.frontend.mlir.state import State
from loopfuse.frontend.mlir.terms import (
    Term,
    conditional,
    expression_of,
    join,
    linear_of,
    map_results,
    number,
    set_condition,
)
from loopfuse.frontend.mlir.text import unknown_operation
from loopfuse.lang.surface.syntax import Binary, Call, Expr, Name, Subscript

LANE = "lane"
"""The iterator of a vector's elements, until it has a name."""


def read_result(state: State, op: Operation, value: SSAValue) -> Term:
    """The expression of a pure operation's result."""
    span = state.place(op)
    match op:
        case affine.LoadOp() | memref.LoadOp():
            return _read_load(state, op)
        case affine.VectorLoadOp():
            return _read_vector(state, op)
        case memref.DimOp():
            position = state.value(op.index).constant
            extents = state.array(op.source, op).extents
            if not isinstance(position, int) or not 0 <= position < len(extents):
                raise Unread("`memref.dim` of a dimension that is no constant of the memref's")
            return Term(extents[position], DType.I64, True)
        case affine.ApplyOp():
            (found,) = map_results(op.map.data, state.indices(op.operands), span)
            return Term(found, DType.I64, True, state.reads(op.operands), 3)
        case affine.MinOp() | Operation(name="affine.max"):
            return _read_extreme(state, op, span)
        case affine.IfOp() | scf.IfOp():
            return _read_choice(state, op, value)
        case affine.ForOp() | scf.ForOp():
            return carried_reduction(state, op)
        case func.CallOp():
            return _read_call(state, op)
        case Operation(name="vector.broadcast"):
            return state.value(op.operands[0])
        case _:
            found = read_operation(op, state.value, span)
            if found is None:
                raise unknown_operation(state.source, op.name, span)
            return found


def _read_extreme(state: State, op: Any, span: Span) -> Term:
    """`affine.min` and `affine.max`."""
    parts = map_results(op.map.data, state.indices(op.operands), span)
    if len(parts) == 1:
        return Term(parts[0], DType.I64, True, state.reads(op.operands))
    word = "min" if op.name == "affine.min" else "max"
    call = Call(word, tuple(parts), span=span)
    return Term(call, DType.I64, True, state.reads(op.operands), 3 * len(parts))


def _read_load(state: State, op: Any) -> Term:
    """An element: exact, under an edge mode, or of one of two memrefs."""
    span = state.place(op)
    source = maker(op.memref)
    if isinstance(source, arith.SelectOp):
        return conditional(
            state.value(source.cond),
            _read_element(state, source.lhs, op, span),
            _read_element(state, source.rhs, op, span),
            span,
        )
    return _read_element(state, op.memref, op, span)


def _read_element(state: State, memref_: SSAValue, op: Any, span: Span) -> Term:
    """`array[index]`."""
    array = state.array(memref_, op)
    if memref_ in state.accumulators:
        return state.terms[memref_]
    state.loaded.add(array.name)
    if array.is_scalar:
        return Term(Name(array.name, span=span), array.dtype, False, frozenset({array.name}))
    if isinstance(op, memref.LoadOp):
        mode, index = edge_mode(list(op.indices), array.extents, state.value)
        reads = state.reads(index)
        index = state.indices(index)
    else:
        mode, reads = "", state.reads(op.indices)
        index = map_results(op.map.data, state.indices(op.indices), span)
    if not index:
        index = [number(0, DType.I64, span)]
    expr = Subscript(array.name, tuple(index), mode, span=span, array_span=span)
    return Term(expr, array.dtype, False, reads | {array.name}, 2 + len(index))


def _read_vector(state: State, op: affine.VectorLoadOp) -> Term:
    """One lane of a vector."""
    array = state.array(op.memref, op)
    state.loaded.add(array.name)
    span = state.place(op)
    index = lane_subscripts(map_results(op.map.data, state.indices(op.indices), span))
    expr = Subscript(array.name, tuple(index), "", span=span, array_span=span)
    return Term(expr, array.dtype, False, frozenset({array.name}), 2 + len(index))


def lane_subscripts(index: list[Expr]) -> list[Expr]:
    """The subscripts of a lane: the last one moves."""
    moved = Binary("+", index[-1], Name(LANE))
    return [*index[:-1], expression_of(linear_of(moved))]


def _read_choice(state: State, op: Any, value: SSAValue) -> Term:
    """An `if` that yields a value: only the chosen arm is computed."""
    number_ = list(op.results).index(value)
    condition = condition_of(state, op)
    zero = zero_access(op, state)
    if zero is not None:
        return zero
    terms: list[Term] = []
    for region in arms_of(op):
        terms.append(state.value(region.block.last_op.operands[number_]))  # type: ignore[union-attr]
    return conditional(condition, terms[0], terms[1], state.place(op))


def condition_of(state: State, op: Any) -> Term:
    """What an `if` asks."""
    span = state.place(op)
    if isinstance(op, affine.IfOp):
        expr = set_condition(op.condition.data, state.indices(op.args), span)
        return Term(expr, DType.BOOL, False, state.reads(op.args), 4)
    return state.value(op.cond)


def _read_call(state: State, op: func.CallOp) -> Term:
    """A call of a private function of scalars."""
    name = helper_name(op.callee.root_reference.data)
    parts = [state.value(each) for each in op.operands]
    reads, size = join(*parts)
    expr = Call(name, tuple(part.expr for part in parts), span=state.place(op))
    return Term(expr, dtype_of(op.results[0].type), False, reads, size)
