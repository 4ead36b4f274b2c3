"""Edge modes, as they look once they are index arithmetic.

`max(min(i, n - 1), 0)` on an array's own extent is `.clamp`, a floored remainder by it `.wrap`, and
so on: what our own export writes, and what people write by hand. All dimensions of an access have
one mode, so all must match.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects import affine, arith, memref, scf
from xdsl.ir import Operation, SSAValue

from loopfuse.frontend.mlir.arith import is_constant, modulo_of
from loopfuse.frontend.mlir.state import State
from loopfuse.frontend.mlir.terms import Linear, Term, add, linear_of
from loopfuse.lang.surface.syntax import Expr, Subscript

Value = Callable[[SSAValue], Term]


def edge_mode(
    indices: list[SSAValue], extents: tuple[Expr, ...], value: Value
) -> tuple[str, list[SSAValue]]:
    """The mode all subscripts have, and what stands inside it; "" and the subscripts else."""
    for mode, match in (
        ("clamp", _clamp),
        ("wrap", _wrap),
        ("reflect", _reflect),
        ("symmetric", _symmetric),
    ):
        inner: list[SSAValue] = []
        for index, extent in zip(indices, extents):
            found = match(index, extent, value)
            if found is None:
                break
            inner.append(found)
        if indices and len(inner) == len(indices):
            return mode, inner
    return "", indices


def _op(value: SSAValue, name: str) -> Operation | None:
    owner = value.owner
    return owner if isinstance(owner, Operation) and owner.name == name else None


def _either(op: Operation, constant: int) -> SSAValue | None:
    """The other operand of an operation one of whose operands is a constant."""
    if is_constant(op.operands[1], constant):
        return op.operands[0]
    if is_constant(op.operands[0], constant):
        return op.operands[1]
    return None


def _is(value: SSAValue, wanted: Linear, read: Value) -> bool:
    """Whether an index is this sum."""
    found = linear_of(read(value).expr)
    return dict(found.terms) == dict(wanted.terms) and found.constant == wanted.constant


def _clamp(index: SSAValue, extent: Expr, read: Value) -> SSAValue | None:
    high = _op(index, "arith.maxsi")
    inner = _either(high, 0) if high is not None else None
    low = _op(inner, "arith.minsi") if inner is not None else None
    if low is None:
        return None
    last = add(linear_of(extent), Linear((), -1))
    if _is(low.operands[1], last, read):
        return low.operands[0]
    return low.operands[1] if _is(low.operands[0], last, read) else None


def _wrap(index: SSAValue, extent: Expr, read: Value) -> SSAValue | None:
    found = modulo_of(index)
    if found is None or found[2] != "arith.floordivsi":
        return None
    return found[0] if _is(found[1], linear_of(extent), read) else None


def _mirrored(index: SSAValue, read: Value) -> tuple[SSAValue, SSAValue, SSAValue] | None:
    """`i`, the period and the mirror of `min(i % period, mirror - i % period)`."""
    low = _op(index, "arith.minsi")
    if low is None:
        return None
    place, other = low.operands
    back = _op(other, "arith.subi")
    found = modulo_of(place)
    if back is None or found is None or back.operands[1] is not place:
        return None
    return found[0], found[1], back.operands[0]


def _period(value: SSAValue, span: Linear, read: Value) -> bool:
    """Whether `value` is `max(2 * span, 1)`."""
    high = _op(value, "arith.maxsi")
    inner = _either(high, 1) if high is not None else None
    return inner is not None and _is(inner, add(span, span), read)


def _reflect(index: SSAValue, extent: Expr, read: Value) -> SSAValue | None:
    found = _mirrored(index, read)
    last = add(linear_of(extent), Linear((), -1))
    if found is None or found[2] is not found[1] or not _period(found[1], last, read):
        return None
    return found[0]


def _symmetric(index: SSAValue, extent: Expr, read: Value) -> SSAValue | None:
    found = _mirrored(index, read)
    if found is None or not _period(found[1], linear_of(extent), read):
        return None
    less = _op(found[2], "arith.subi")
    if less is None or less.operands[0] is not found[1] or not is_constant(less.operands[1], 1):
        return None
    return found[0]


def zero_access(op: Any, state: State) -> Term | None:
    """`a.zero[i]`, where `op` is an `if` that loads when every subscript, as an unsigned number,
    is less than its extent, and gives 0 else."""
    if not isinstance(op, scf.IfOp) or len(op.results) != 1:
        return None
    then, otherwise = list(op.true_region.block.ops), list(op.false_region.block.ops)
    if len(otherwise) > 2 or not is_constant(otherwise[-1].operands[0], 0):
        return None
    load = then[-1].operands[0].owner
    if not isinstance(load, (affine.LoadOp, memref.LoadOp)):
        return None
    tests: list[arith.CmpiOp] = []
    if not _conjunction(op.cond, tests):
        return None
    known = state.arrays.get(load.memref)
    if known is None or len(tests) != len(known.extents):
        return None
    term = state.value(load.results[0])
    if not isinstance(term.expr, Subscript) or term.expr.mode:
        return None
    for test, extent, index in zip(tests, known.extents, term.expr.index):
        if not _is(test.lhs, linear_of(index), state.value) or not _is(
            test.rhs, linear_of(extent), state.value
        ):
            return None
    expr = Subscript(
        term.expr.array, term.expr.index, "zero", span=term.expr.span, array_span=term.expr.span
    )
    return Term(expr, term.dtype, False, term.reads, term.size)


def _conjunction(value: SSAValue, out: list[arith.CmpiOp]) -> bool:
    owner = value.owner
    if isinstance(owner, arith.AndIOp):
        return _conjunction(owner.lhs, out) and _conjunction(owner.rhs, out)
    if isinstance(owner, arith.CmpiOp) and owner.predicate.value.data == 6:
        out.append(owner)
        return True
    return False
