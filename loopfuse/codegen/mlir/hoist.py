"""Divisions of index arithmetic, taken out of the conditions around them (CPU).

    before:  scf.for %x ... { %p = data[x]    scf.if %p { %q = floordivsi %a, %n    load x[%q, x] } }
    after:   %q = floordivsi %a, %n    scf.for %x ... { %p = data[x]    scf.if %p { load x[%q, x] } }

A division is the one operation of index arithmetic that LLVM may not run where nobody asked: it
traps on some divisors. LLVM cannot see that ours never do (`mlir_integer.divide` replaces them).
So where one stands under a condition, the loop vectoriser keeps it there: once for all lanes, if
it is the same in all, and under the condition of the *first* lane alone, though its value is part of
the address for every lane (LLVM 22). A first lane that does not hold then gives the others poison for
an address.

So none stands under a condition on data, and none that is the same in all iterations of a loop
stands under any condition inside it. A condition on iterators alone keeps the divisions that differ
from iteration to iteration: borders are rare, and theirs are computed lane by lane.

Needs: every division of the module is free of traps, whatever its operands. Leaves: the same values
everywhere, and every operation after those it needs. Does not: move what reads memory (a division
of data that a condition guards stays with it; `llvm_lanes` looks at what became of those).
"""

from __future__ import annotations

from collections.abc import Iterator

from loopfuse.codegen.ir import Block, BlockArgument, Operation, Value

_DIVISIONS = {"arith.floordivsi", "arith.divui", "arith.remui"}
_PURE = _DIVISIONS | {
    "arith.constant", "arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori",
    "arith.xori", "arith.cmpi", "arith.select", "arith.index_cast", "arith.extsi", "arith.extui",
    "arith.trunci", "arith.maxsi", "arith.minsi", "arith.minui", "arith.maxui", "vector.broadcast",
    "vector.extract", "vector.from_elements",
}  # fmt: skip
"""Integer arithmetic: free of traps, and the same wherever it stands."""

Written = dict[Operation, set[Value]]
"""What is stored to inside a loop or condition, of those that were asked about."""


def hoist_divisions(block: Block) -> None:
    """Moves the divisions in the body of a function, in place."""
    written: Written = {}
    for operation in list(_under_conditions(block, conditional=False)):
        found = _way_out(operation, written)
        if found is not None:
            _move(*found)


def _under_conditions(block: Block, conditional: bool) -> Iterator[Operation]:
    """The divisions by what is not constant that stand under some `scf.if`, in order."""
    for operation in block.ops:
        if conditional and operation.name in _DIVISIONS and not _is_constant(operation.operands[1]):
            yield operation
        inside = conditional or operation.name == "scf.if"
        for each in operation.blocks:
            yield from _under_conditions(each, inside)


def _is_constant(value: Value) -> bool:
    return isinstance(value.owner, Operation) and value.owner.name == "arith.constant"


def _way_out(
    operation: Operation, written: Written
) -> tuple[tuple[Operation, ...], Operation] | None:
    """The outermost loop or condition on data around `operation` that it can be taken out of, with
    all between, after what it needs from inside; None where it has to stay."""
    found, around = None, operation.parent_op()
    conditional = False
    while around is not None and around.name in ("scf.if", "scf.for"):
        needed = _needed(operation, around, written)
        if needed is None:
            break
        conditional |= around.name == "scf.if"
        if (around.name == "scf.for" and conditional) or _depends_on_data(around):
            found = needed, around
        around = around.parent_op()
    return found


def _needed(
    operation: Operation, outside: Operation, written: Written
) -> tuple[Operation, ...] | None:
    """`operation` and what it is made of inside `outside`, each after what it needs itself; None
    where some of that cannot be computed before `outside`."""
    found: dict[Operation, None] = {}
    waiting: list[tuple[Operation, bool]] = [(operation, False)]
    while waiting:
        one, is_ready = waiting.pop()
        if is_ready:
            found[one] = None
            continue
        if one in found:
            continue
        if one.name not in _PURE and not _is_settled(one, outside, written):
            return None
        waiting.append((one, True))
        for operand in one.operands:
            owner = operand.owner
            if not _is_inside(owner, outside):
                continue
            if not isinstance(owner, Operation):
                return None
            waiting.append((owner, False))
    return tuple(found)


def _is_inside(owner: Operation | Block, outside: Operation) -> bool:
    around = owner if isinstance(owner, Operation) else owner.parent
    if around is outside:
        return isinstance(owner, Block)
    while around is not None:
        around = around.parent_op()
        if around is outside:
            return True
    return False


def _is_settled(operation: Operation, outside: Operation, written: Written) -> bool:
    """Whether it loads one register, which nothing in `outside` writes."""
    if operation.name != "memref.load":
        return False
    buffer, place = operation.operands
    if not isinstance(buffer.owner, Operation) or buffer.owner.name != "memref.alloca":
        return False
    if outside not in written:
        stores = (each for each in outside.walk() if each.name in ("memref.store", "vector.store"))
        written[outside] = {store.operands[1] for store in stores}
    return _is_constant(place) and buffer not in written[outside]


def _depends_on_data(around: Operation) -> bool:
    """Is it a condition on anything but iterators, sizes and integer parameters?"""
    if around.name != "scf.if":
        return False
    waiting, seen = [around.operands[0]], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen or isinstance(value, BlockArgument):
            continue
        seen.add(value)
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name not in _PURE:
            return True
        waiting += owner.operands
    return False


def _move(operations: tuple[Operation, ...], target: Operation) -> None:
    block = target.parent
    assert block is not None
    for operation in operations:
        assert operation.parent is not None
        operation.parent.remove(operation)
    block.insert(block.ops.index(target), operations)
