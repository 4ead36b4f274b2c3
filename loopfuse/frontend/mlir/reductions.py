"""Reductions: loops that carry one value, and loops that accumulate in a memref of one element.

before:  %s = memref.alloca() : memref<f32>; store 0 to %s; for %i { store (load %s) + x[%i] to %s }
after:   let s = sum(i in 0..n: x[i])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects import memref
from xdsl.ir import Operation, SSAValue

from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.arith import dtype_of, is_constant
from loopfuse.frontend.mlir.ops import LOADS, LOOPS, STORES, TERMINATORS, is_within, maker
from loopfuse.frontend.mlir.pure import STEPS, carried_reduction_of, is_pure
from loopfuse.frontend.mlir.ranges import loop_range
from loopfuse.frontend.mlir.state import Array, State
from loopfuse.frontend.mlir.terms import Term, coerced, join
from loopfuse.lang.semantics import neutral
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import Call, Expr, Let, Range, Stmt


@dataclass(frozen=True, slots=True)
class Accumulation:
    """`start` stores the neutral element, `loops` are around `step`, which is `load op e`; `inner`
    is the body of the innermost loop."""

    start: Any
    loops: tuple[Any, ...]
    step: Operation
    load: Operation
    inner: tuple[Operation, ...]


def carried_reduction(state: State, op: Any) -> Term:
    """`sum(i in a..b: e)`."""
    found = carried_reduction_of(state, op)
    assert found is not None
    loops, step, accumulator = found
    with state.names.scope():
        ranges = tuple(loop_range(state, loop) for loop in loops)
        return _reduction(state, op, ranges, step, accumulator, dtype_of(op.results[0].type))


def _reduction(
    state: State,
    op: Operation,
    ranges: tuple[Range, ...],
    step: Operation,
    accumulator: SSAValue,
    dtype: DType,
) -> Term:
    """The expression of a reduction whose step is `step`, in an accumulator of `dtype`."""
    if step.name == "math.fma":
        a, b = state.value(step.operands[0]), state.value(step.operands[1])
        reads, size = join(a, b)
        body: Expr = Call("mlir.product", (a.expr, b.expr), span=state.place(step))
    else:
        other = step.operands[1] if step.operands[0] is accumulator else step.operands[0]
        part = coerced(state.value(other), dtype)
        body, reads, size = part.expr, part.reads, part.size
    expr = syntax.Reduction(STEPS[step.name], ranges, body, span=state.place(op))
    return Term(expr, dtype, False, reads, size + 2)


def find_accumulation(
    state: State, op: Any, dtype: DType, rest: list[Operation]
) -> Accumulation | None:
    """The parts of `let s = sum(...)` as our export writes it: the neutral element stored,
    loops that end in `s = s op e`, and nothing else that writes `s`."""
    stores = [use.operation for use in op.memref.uses if isinstance(use.operation, STORES)]
    if len(stores) != 2:
        return None
    statements = [each for each in rest if not is_pure(state, each)][:2]
    if len(statements) < 2 or statements[0] not in stores or not isinstance(statements[1], LOOPS):
        return None
    start: Any = statements[0]
    loop: Any = statements[1]
    loops: list[Any] = []
    while True:
        if loop.results:
            return None
        loops.append(loop)
        inner = [each for each in loop.body.block.ops if each.name not in TERMINATORS]
        steps = [each for each in inner if not is_pure(state, each)]
        if steps and steps[-1] in stores:
            break
        if len(steps) != 1 or not isinstance(steps[0], LOOPS):
            return None
        loop = steps[0]
    store: Any = steps[-1]
    step = maker(store.value)
    if step is None or step.name not in STEPS or step.parent_block() is not loop.body.block:
        return None
    load = maker(step.operands[2 if step.name == "math.fma" else 0])
    if not isinstance(load, LOADS) or load.memref is not op.memref:
        return None
    inside = [
        use.operation
        for use in op.memref.uses
        if isinstance(use.operation, LOADS) and is_within(use.operation, loops[0])
    ]
    if inside != [load] or len(list(load.results[0].uses)) != 1:
        return None
    if len(list(step.results[0].uses)) != 1:
        return None
    kind = STEPS[step.name]
    if kind in ("any", "all") and dtype is not DType.BOOL:
        return None
    wide = (DType.F32, DType.F64, DType.I64, DType.U64)
    if kind in ("sum", "prod") and dtype not in wide:
        return None
    if dtype.is_integer and ("ui" in step.name) is not (
        dtype.is_unsigned and kind in ("min", "max")
    ):
        return None
    if not is_constant(start.value, _as_stored(neutral(kind, dtype), dtype)):
        return None
    # What else the innermost block does must be reductions of its own.
    inner_ops = [each for each in loop.body.block.ops if each.name not in TERMINATORS]
    if not _only_reductions(state, inner_ops, store):
        return None
    return Accumulation(start, tuple(loops), step, load, tuple(inner_ops))


def _only_reductions(state: State, ops: list[Operation], store: Operation) -> bool:
    """Whether the statements among `ops` before `store` are accumulations alone."""
    left = [each for each in ops if not is_pure(state, each) and each is not store]
    while left:
        first = left[0]
        if not isinstance(first, (memref.AllocaOp, memref.AllocOp)):
            return False
        if first.memref.type.get_shape() != ():
            return False
        dtype = state.element_type(first, first.memref.type)
        found = find_accumulation(state, first, dtype, ops[ops.index(first) + 1 :])
        if found is None:
            return False
        outside = [
            use.operation
            for use in first.memref.uses
            if isinstance(use.operation, LOADS) and not is_within(use.operation, found.loops[0])
        ]
        if len(outside) != 1:
            return False
        left = [each for each in left if each not in (first, found.start, found.loops[0])]
    return True


def read_accumulation(
    state: State, op: Any, dtype: DType, found: Accumulation, skipped: set[Operation]
) -> list[Stmt]:
    """`let s = sum(...)`, or nothing where the sum is read once: there it is the expression."""
    span = state.place(op)
    skipped |= {found.start, found.loops[0]}
    with state.names.scope():
        ranges = tuple(loop_range(state, loop) for loop in found.loops)
        _read_inner(state, found)
        term = _reduction(state, op, ranges, found.step, found.load.results[0], dtype)

    outside = [
        use.operation
        for use in op.memref.uses
        if isinstance(use.operation, LOADS) and not is_within(use.operation, found.loops[0])
    ]
    keep = "loopfuse.let" in op.attributes or len(outside) != 1
    keep = keep or outside[0].parent_block() is not op.parent_block()
    if not keep:
        state.arrays[op.memref] = Array(op.memref.name_hint or "s", dtype, (), True)
        state.accumulators.add(op.memref)
        state.terms[op.memref] = coerced(term, dtype)
        return []
    name = state.names.fresh(op.memref.name_hint, "s")
    state.arrays[op.memref] = Array(name, dtype, (), True)
    return [Let(name, dtype, coerced(term, dtype).expr, span=span, name_span=span)]


def _read_inner(state: State, outer: Accumulation) -> None:
    """The accumulations inside one become parts of its body."""
    skipped: set[Operation] = set()
    for k, op in enumerate(outer.inner):
        if isinstance(op, (memref.AllocaOp, memref.AllocOp)) and op not in skipped:
            dtype = state.element_type(op, op.memref.type)
            found = find_accumulation(state, op, dtype, list(outer.inner[k + 1 :]))
            assert found is not None
            made = read_accumulation(state, op, dtype, found, skipped)
            assert not made


def _as_stored(value: Any, dtype: DType) -> Any:
    """A constant as MLIR writes it: unsigned ones as signed."""
    if dtype.is_unsigned and value >= 1 << (dtype.bits - 1):
        return value - (1 << dtype.bits)
    return -1 if value is True else value
