"""Structured MLIR operations as statements of the language, block by block.

before:  %s = affine.for %i = 0 to %n iter_args(%a = %zero) -> (f32) { ... yield %a + x[%i] }
after:   let s = sum(i in 0..n: x[i])

Values are read where they are used, as one expression (`affine_values`). A value becomes a `let`
where its operation stands if it is used again, or if a store, or a loop that stores, comes between
a load and its use: an expression never reads an element later than MLIR does (`affine_lets`).
"""

from __future__ import annotations

from xdsl.dialects import affine, cf, memref, scf
from xdsl.ir import Block, Operation

from loopfuse.frontend.mlir.control import grouped, read_if, read_loop, read_parallel
from loopfuse.frontend.mlir.lets import (
    MANY,
    bind,
    consumers,
    is_long,
    last_uses,
    may_load,
    used_inside,
    wants_name,
    written_by,
)
from loopfuse.frontend.mlir.memory import (
    read_allocation,
    read_copy,
    read_store,
    read_vector_store,
)
from loopfuse.frontend.mlir.ops import TERMINATORS
from loopfuse.frontend.mlir.pure import is_pure
from loopfuse.frontend.mlir.state import State
from loopfuse.frontend.mlir.text import unknown_operation
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import Name, Stmt


def read_block(state: State, block: Block) -> list[Stmt]:
    """The statements of a block, its terminator left to the caller."""
    out: list[Stmt] = []
    ops = list(block.ops)
    position = {op: k for k, op in enumerate(ops)}
    last = last_uses(state, ops, position)
    reached = consumers(state, ops, position)
    loads: list[Operation] = []
    skipped: set[Operation] = set()
    for k, op in enumerate(ops):
        if op in skipped or op.name in TERMINATORS:
            continue
        if is_pure(state, op):
            if not op.results or not any(list(each.uses) for each in op.results):
                continue
            if is_long(state, op) or wants_name(state, op, block, reached[op] != MANY):
                bind(state, op, out)
            elif may_load(op):
                loads.append(op)
            continue
        writes = written_by(state, op)
        for load in loads:
            if last[load] > k or (last[load] == k and used_inside(state, load, op)):
                if load.results[0] in state.terms and isinstance(
                    state.terms[load.results[0]].expr, Name
                ):
                    continue
                if state.value(load.results[0]).reads & writes:
                    bind(state, load, out)
        loads = [each for each in loads if last[each] > k]
        out += _statement(state, op, ops[k + 1 :], skipped)
    return grouped(out)


def _statement(
    state: State, op: Operation, rest: list[Operation], skipped: set[Operation]
) -> list[Stmt]:
    """The statements an operation is."""
    match op:
        case affine.StoreOp() | memref.StoreOp():
            return read_store(state, op)
        case affine.VectorStoreOp():
            return read_vector_store(state, op)
        case affine.ForOp() | scf.ForOp():
            return read_loop(state, op, read_block)
        case affine.ParallelOp():
            return read_parallel(state, op, read_block)
        case affine.IfOp() | scf.IfOp():
            return read_if(state, op, read_block)
        case memref.AllocOp() | memref.AllocaOp():
            return read_allocation(state, op, rest, skipped)
        case memref.DeallocOp():
            return []
        case memref.CopyOp():
            return read_copy(state, op)
        case cf.AssertOp():
            condition = state.value(op.arg)
            return [syntax.Assume(condition.expr, span=state.place(op))]
        case _:
            raise unknown_operation(state.source, op.name, state.place(op))
