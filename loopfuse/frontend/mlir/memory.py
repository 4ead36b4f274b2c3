"""What an operation does to memory, as statements: stores, copies and allocations."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from xdsl.dialects import affine, arith, memref
from xdsl.ir import Operation, SSAValue

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.ops import STORES, UPDATES, is_update, maker
from loopfuse.frontend.mlir.pure import is_pure
from loopfuse.frontend.mlir.reductions import find_accumulation, read_accumulation
from loopfuse.frontend.mlir.state import Array, State
from loopfuse.frontend.mlir.terms import coerced, map_results, number
from loopfuse.frontend.mlir.values import LANE, lane_subscripts
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import Assign, Expr, For, If, Let, Name, Range, Stmt, Subscript


def read_store(state: State, op: Any) -> list[Stmt]:
    """An assignment, or an update where the value is `element op e`."""
    source = maker(op.memref)
    if isinstance(source, arith.SelectOp):
        then = _store_to(state, op, source.lhs)
        otherwise = _store_to(state, op, source.rhs)
        known = state.value(source.cond)
        return [If(known.expr, (then,), (otherwise,), span=state.place(op))]
    return [_store_to(state, op, op.memref)]


def _store_to(state: State, op: Any, memref_: SSAValue) -> Stmt:
    """`target = value`."""
    span = state.place(op)
    array = state.array(memref_, op)
    target = _target(state, op, memref_, array, span)
    state.written.add(array.name)
    step = maker(op.value)
    term = state.value(op.value)
    if term.dtype is not array.dtype:
        term = coerced(term, array.dtype)
    if step is not None and step.name in UPDATES:
        first = state.terms.get(step.operands[0])
        other = state.terms.get(step.operands[1])
        if (
            first is not None
            and other is not None
            and first.expr == target
            and state.terms[op.value].dtype is array.dtype
            and not isinstance(state.terms[op.value].expr, Name)
            and first.dtype is array.dtype
            and is_update(step.name, array.dtype)
        ):
            value = coerced(other, array.dtype)
            return Assign(target, UPDATES[step.name], value.expr, span=span)
    return Assign(target, "", term.expr, span=span)


def _target(state: State, op: Any, memref_: SSAValue, array: Array, span: Span) -> Any:
    """What is assigned."""
    if array.is_scalar:
        return Name(array.name, span=span)
    if isinstance(op, memref.StoreOp):
        index = state.indices(op.indices)
    else:
        index = map_results(op.map.data, state.indices(op.indices), span)
    if not index:
        index = [number(0, DType.I64, span)]
    return Subscript(array.name, tuple(index), "", span=span, array_span=span)


def read_vector_store(state: State, op: affine.VectorStoreOp) -> list[Stmt]:
    """A loop over the lanes."""
    span = state.place(op)
    array = state.array(op.memref, op)
    state.written.add(array.name)
    kind: Any = op.value.type
    shape = kind.get_shape()
    if len(shape) != 1:
        raise state.limit(
            op, "only vectors of one dimension are read", "write a loop over the other dimensions"
        )
    term = state.value(op.value)
    if array.name in term.reads:
        raise state.limit(
            op, "a vector is stored to the memref it was made from", "store it to another memref"
        )
    index = lane_subscripts(map_results(op.map.data, state.indices(op.indices), span))
    target = Subscript(array.name, tuple(index), "", span=span, array_span=span)
    name = state.names.fresh(LANE, "i")
    body = _renamed(Assign(target, "", term.expr, span=span), LANE, name)
    head = Range(name, number(0, DType.I64), number(shape[0], DType.I64), span=span)
    return [For((head,), (body,), span=span)]


def read_copy(state: State, op: memref.CopyOp) -> list[Stmt]:
    """Loops over every element."""
    span = state.place(op)
    source, target = state.array(op.source, op), state.array(op.destination, op)
    if source.is_scalar or target.is_scalar:
        raise state.limit(
            op, "a copy of an allocation of rank 0 is not read", "load it and store it"
        )
    state.loaded.add(source.name)
    state.written.add(target.name)
    heads: list[Range] = []
    index: list[Expr] = []
    for extent in target.extents:
        name = state.names.fresh(None, "i")
        heads.append(Range(name, number(0, DType.I64), extent, span=span))
        index.append(Name(name))
    left = Subscript(target.name, tuple(index), "", span=span, array_span=span)
    right = Subscript(source.name, tuple(index), "", span=span, array_span=span)
    return [For(tuple(heads), (Assign(left, "", right, span=span),), span=span)]


def read_allocation(
    state: State, op: Any, rest: list[Operation], skipped: set[Operation]
) -> list[Stmt]:
    """A temporary; of rank 0 a variable, a `let`, or a reduction's accumulator."""
    span = state.place(op)
    kind = op.memref.type
    if op.memref in state.arrays:
        return []  # the function returns it: it is an `out` parameter
    dtype = state.element_type(op, kind)
    if kind.get_shape() == ():
        return _read_scalar(state, op, dtype, rest, skipped)
    sizes = iter(state.value(each) for each in op.dynamic_sizes)
    extents = tuple(
        next(sizes).expr if size < 0 else number(size, DType.I64, span) for size in kind.get_shape()
    )
    name = state.names.fresh(op.memref.name_hint, "t")
    state.arrays[op.memref] = Array(name, dtype, extents)
    return [syntax.Temp(name, dtype, extents, span=span)]


def _read_scalar(
    state: State, op: Any, dtype: DType, rest: list[Operation], skipped: set[Operation]
) -> list[Stmt]:
    """A memref of one element."""
    span = state.place(op)
    found = find_accumulation(state, op, dtype, rest)
    if found is not None:
        return read_accumulation(state, op, dtype, found, skipped)
    name = state.names.fresh(op.memref.name_hint, "s")
    state.arrays[op.memref] = Array(name, dtype, (), True)
    stores = [use.operation for use in op.memref.uses if isinstance(use.operation, STORES)]
    first = next((each for each in rest if not is_pure(state, each)), None)
    if first is not None and first in stores and len(stores) == 1:
        skipped.add(first)
        value = coerced(state.value(first.value), dtype)  # type: ignore[attr-defined]
        if "loopfuse.bound" in op.attributes:
            # The language names a loop's bounds that are data by itself.
            state.accumulators.add(op.memref)
            state.terms[op.memref] = value
            return []
        return [Let(name, dtype, value.expr, span=span, name_span=span)]
    if first is not None and first in stores and not _reads_what_it_writes(state, first, op.memref):
        skipped.add(first)
        value = coerced(state.value(first.value), dtype)  # type: ignore[attr-defined]
        return [Let(name, dtype, value.expr, True, span=span, name_span=span)]
    return [Let(name, dtype, number(0, dtype, span), True, span=span, name_span=span)]


def _reads_what_it_writes(state: State, op: Any, memref_: SSAValue) -> bool:
    """Whether what `op` stores comes from `memref_`."""
    name = state.arrays[memref_].name
    return name in state.value(op.value).reads


def _renamed(stmt: Assign, before: str, after: str) -> Assign:
    """`stmt` with one name for another."""

    def visit(node: Any) -> Any:
        if isinstance(node, Name) and node.name == before:
            return Name(after, span=node.span)
        if isinstance(node, syntax.Node):
            changed = {
                each.name: visit(getattr(node, each.name)) for each in fields(node) if each.init
            }
            return replace(node, **changed)
        if isinstance(node, tuple):
            return tuple(visit(each) for each in node)
        return node

    return visit(stmt)
