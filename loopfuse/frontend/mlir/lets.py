"""Which values become a `let` where their operation stands, so that no element is read later than
MLIR reads it, nothing long is computed twice, and no expression grows without end.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType
from xdsl.ir import Block, Operation, SSAValue

from loopfuse.frontend.mlir.arith import is_constant
from loopfuse.frontend.mlir.ops import IFS, LOADS, LOOPS, STORES, is_within, maker
from loopfuse.frontend.mlir.pure import is_pure
from loopfuse.frontend.mlir.state import State
from loopfuse.frontend.mlir.terms import Term
from loopfuse.lang.surface.syntax import Let, Name, Stmt

MANY = -1
"""Several statements, where one is asked for."""
LONGEST = 60
"""Operations one after the other that become one expression."""


def _users(op: Operation, position: dict[Operation, int]) -> Iterator[Operation]:
    """The operations of `position` that use a value of `op`, or hold what does."""
    for result in op.results:
        for use in result.uses:
            user: Operation | None = use.operation
            while user is not None and user not in position:
                user = user.parent_op()
            if user is not None:
                yield user


def last_uses(
    state: State, ops: list[Operation], position: dict[Operation, int]
) -> dict[Operation, int]:
    """For each operation, the position of the last statement that its value reaches."""
    last: dict[Operation, int] = {}
    for op in reversed(ops):
        found = position[op]
        for user in _users(op, position):
            through = user in last and is_pure(state, user)
            found = max(found, last[user] if through else position[user])
        last[op] = found
    return last


def consumers(
    state: State, ops: list[Operation], position: dict[Operation, int]
) -> dict[Operation, int | None]:
    """For each operation, the one statement that its value reaches; MANY where there are
    several, None where there is none."""
    reached: dict[Operation, int | None] = {}
    for op in reversed(ops):
        found: int | None = None
        for user in _users(op, position):
            through = user in reached and is_pure(state, user)
            each = reached[user] if through else position[user]
            if each is not None:
                found = each if found in (None, each) else MANY
        reached[op] = found
    return reached


def is_long(state: State, op: Operation) -> bool:
    """Whether the chain of values that ends in `op` is so long that it is to be cut."""
    makers = (maker(each) for each in op.operands)
    length = 1 + max((state.lengths.get(each, 0) for each in makers if each is not None), default=0)
    kind = op.results[0].type if len(op.results) == 1 else VectorType
    cut = length > LONGEST and not isinstance(kind, (VectorType, MemRefType))
    state.lengths[op] = 0 if cut else length
    return cut


def used_inside(state: State, op: Operation, region_op: Operation) -> bool:
    """Whether a value of `op` is read within the regions of `region_op`, by itself or as a
    part of another value."""
    left, seen = [op], {op}
    while left:
        for result in left.pop().results:
            for use in result.uses:
                user = use.operation
                if user is region_op or user in seen:
                    continue  # a condition or a bound is read before
                if user.parent_block() is op.parent_block():
                    if is_pure(state, user):
                        seen.add(user)
                        left.append(user)
                elif is_within(user, region_op):
                    return True
    return False


def may_load(op: Operation) -> bool:
    """Whether reading the operation's value reads memory."""
    return isinstance(op, (*LOADS, affine.VectorLoadOp, *IFS, *LOOPS))


def wants_name(state: State, op: Operation, block: Block, together: bool) -> bool:
    """Whether the value is to be a `let` where it stands; `together`: one statement has all
    its uses, where a short expression may stand several times."""
    if len(op.results) != 1 or isinstance(op, arith.ConstantOp):
        return isinstance(op, LOOPS)
    kind = op.results[0].type
    if isinstance(kind, (VectorType, MemRefType)):
        return False
    uses = list(op.results[0].uses)
    if isinstance(op, LOOPS):
        return len(uses) > 1 or uses[0].operation.parent_block() is not block
    if isinstance(kind, IndexType):
        found = state.value(op.results[0])
        return bool(found.reads) and len(uses) > 1 and not isinstance(found.expr, Name)
    outside = any(each.operation.parent_block() is not block for each in uses)
    if len(uses) == 1 and not outside:
        return False
    if _is_half_of_a_guard(op):
        return False
    found = state.value(op.results[0])
    if together and not outside and found.size <= 8:
        return False
    if found.constant is not None or isinstance(found.expr, Name):
        return bool(found.reads) and outside and isinstance(op, LOADS)
    return found.size > 3 or bool(found.reads)


def bind(state: State, op: Operation, out: list[Stmt]) -> None:
    """`let v = e`."""
    result = op.results[0]
    term = state.value(result)
    if not isinstance(result.type, VectorType):
        name = state.names.fresh(result.name_hint, "v")
        span = state.place(op)
        out.append(Let(name, term.dtype, term.expr, span=span, name_span=span))
        state.terms[result] = Term(
            Name(name, span=span), term.dtype, term.is_index, frozenset({name})
        )
        return
    raise state.limit(
        op, "a vector is loaded before, and used after, a store to its memref",
        "load it again after the store",
    )  # fmt: skip


def written_by(state: State, op: Operation) -> frozenset[str]:
    """The names an operation writes, its regions' included."""
    found: set[str] = set()
    for each in op.walk():
        if isinstance(each, (STORES, affine.VectorStoreOp)):
            found |= _names_of(state, each.memref)
        elif isinstance(each, memref.CopyOp):
            found |= _names_of(state, each.destination)
    return frozenset(found)


def _names_of(state: State, value: SSAValue) -> set[str]:
    """The arrays a memref may be."""
    op = maker(value)
    if isinstance(op, arith.SelectOp):
        return _names_of(state, op.lhs) | _names_of(state, op.rhs)
    known = state.arrays.get(value)
    return {known.name} if known is not None else set()


def _is_half_of_a_guard(op: Operation) -> bool:
    """Whether our export wrote the operation as a part of `//`, `%` or `<<`."""
    return op.name in (
        "arith.floordivsi",
        "arith.divui",
        "arith.remf",
        "arith.cmpi",
        "arith.cmpf",
    ) or (isinstance(op, arith.SelectOp) and is_constant(op.lhs, 1))
