"""The rules of operations that xDSL's own verification leaves open, so that readers need not ask.

Upstream's verifier refuses the same texts: a map with other operands than it has dimensions and
symbols, a loop whose body yields something else than it carries, an `if` that gives a value in one
arm only, an access with too few subscripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import affine, func, memref, scf
from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType, VectorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

_ACCESSES = (
    affine.LoadOp, affine.StoreOp, affine.VectorLoadOp, affine.VectorStoreOp, memref.LoadOp,
    memref.StoreOp,
)  # fmt: skip
_MAPPED = (affine.ApplyOp, affine.MinOp)


def broken_rule(op: Operation) -> str | None:
    """What is wrong with `op`, None if nothing is."""
    if isinstance(op, _ACCESSES):
        return _access(op)
    if isinstance(op, _MAPPED) or op.name == "affine.max":
        return _mapped(op)
    match op:
        case affine.ForOp() | scf.ForOp():
            return _loop(op)
        case affine.ParallelOp():
            return _parallel(op)
        case affine.IfOp():
            regions: tuple[Region, ...] = (op.then_region, op.else_region)
            return _set_operands(op) or _arms(op, regions, affine.YieldOp)
        case scf.IfOp():
            return _arms(op, (op.true_region, op.false_region), scf.YieldOp)
        case func.FuncOp():
            return _function(op)
        case memref.AllocOp() | memref.AllocaOp():
            unknown = sum(size < 0 for size in _shape(op.memref))
            if unknown != len(op.dynamic_sizes):
                return f"{unknown} sizes are `?`, {len(op.dynamic_sizes)} are given"
            return None
        case memref.CopyOp():
            if _shape_rank(op.source) != _shape_rank(op.destination):
                return "a copy between memrefs of different ranks"
            return None
        case _:
            return None


def used_too_early(op: Operation) -> Operation | None:
    """The first operation within `op` that uses a value before it is made, or out of its scope."""
    return _early(op, set())


def _early(op: Operation, known: set[SSAValue]) -> Operation | None:
    for region in op.regions:
        inside = set(known)
        for block in region.blocks:
            inside.update(block.args)
            for each in block.ops:
                if not inside.issuperset(each.operands):
                    return each
                found = _early(each, inside) if each.regions else None
                if found is not None:
                    return found
                inside.update(each.results)
    return None


def _shape(value: SSAValue) -> tuple[int, ...]:
    kind = value.type
    return kind.get_shape() if isinstance(kind, MemRefType) else ()


def _shape_rank(value: SSAValue) -> int:
    return len(_shape(value))


def _access(op: Any) -> str | None:
    """A map that fits its operands, and a subscript for each dimension."""
    rank = _shape_rank(op.memref)
    if not isinstance(op.memref.type, MemRefType):
        return "the accessed value is not a ranked memref"
    if isinstance(op, (memref.LoadOp, memref.StoreOp)):
        count = len(op.indices)
    else:
        wrong = _map_operands(op.map, op.indices)
        if wrong is not None:
            return wrong
        count = len(op.map.data.results)
    if count != rank:
        return f"{count} subscripts for a memref of {rank} dimensions"
    element: Attribute = op.memref.type.element_type
    held: Any = op
    kind: Attribute = op.results[0].type if op.results else held.value.type
    if isinstance(op, (affine.VectorLoadOp, affine.VectorStoreOp)):
        if rank == 0 or not isinstance(kind, VectorType) or len(kind.get_shape()) != 1:
            return "only vectors of one dimension are read"
        kind = kind.element_type
    return None if kind == element else f"an element is `{element}`, the value is `{kind}`"


def _map_operands(mapping: AffineMapAttr | None, operands: Sequence[SSAValue]) -> str | None:
    if mapping is None:
        return "an access without a map"
    wanted = mapping.data.num_dims + mapping.data.num_symbols
    if wanted != len(operands):
        return f"the map takes {wanted} operands, {len(operands)} are given"
    return None


def _mapped(op: Any) -> str | None:
    wrong = _map_operands(op.map, op.operands)
    if wrong is not None:
        return wrong
    count = len(op.map.data.results)
    if count < 1 or (count > 1 and isinstance(op, affine.ApplyOp)):
        return f"a map of {count} results"
    return None


def _types(values: Sequence[SSAValue]) -> list[Attribute]:
    return [value.type for value in values]


def _yields(block: Block, kind: type[Operation], wanted: list[Attribute]) -> str | None:
    """A block that ends in `kind` with values of the types `wanted`."""
    last = block.last_op
    if not isinstance(last, kind):
        return f"a block ends without `{kind.name}`"
    if _types(last.operands) != wanted:
        return f"`{kind.name}` gives {len(last.operands)} values of other types than expected"
    return None


def _loop(op: Any) -> str | None:
    if len(op.body.blocks) != 1:
        return "the body of a loop is not one block"
    block: Block = op.body.block
    carried = _types(op.results)
    if isinstance(op, affine.ForOp):
        kind: type[Operation] = affine.YieldOp
        starts = list(op.inits)
        for mapping, operands in (
            (op.lowerBoundMap, op.lowerBoundOperands),
            (op.upperBoundMap, op.upperBoundOperands),
        ):
            wrong = _map_operands(mapping, operands)
            if wrong is not None:
                return wrong
            if not mapping.data.results:
                return "a bound without a result"
        first: Attribute = IndexType()
    else:
        kind, starts, first = scf.YieldOp, list(op.iter_args), op.lb.type
    if _types(starts) != carried:
        return "a loop carries values of other types than it gives"
    if _types(block.args) != [first, *carried]:
        return "the arguments of the body are not the iterator and what the loop carries"
    return _yields(block, kind, carried)


def _parallel(op: affine.ParallelOp) -> str | None:
    if len(op.body.blocks) != 1:
        return "the body of a loop is not one block"
    block = op.body.block
    count = len(block.args)
    lower, upper = op.lowerBoundsMap.data, op.upperBoundsMap.data
    operands = lower.num_dims + lower.num_symbols + upper.num_dims + upper.num_symbols
    if operands != len(op.map_operands):
        return f"the bounds take {operands} operands, {len(op.map_operands)} are given"
    if _types(block.args) != [IndexType()] * count:
        return "an iterator is not of type `index`"
    for mapping, groups in ((lower, op.lowerBoundsGroups), (upper, op.upperBoundsGroups)):
        sizes = [int(each) for each in groups.get_values()]  # pyright: ignore[reportArgumentType]
        if len(sizes) != count or min(sizes, default=1) < 1 or sum(sizes) != len(mapping.results):
            return "as many bounds as iterators are expected"
    if len(op.steps.data) != count:
        return "as many steps as iterators are expected"
    if any(each.value.data <= 0 for each in op.steps.data):
        return "a step is not positive"
    if len(op.reductions.data) != len(op.results):
        return "as many results as reductions are expected"
    return _yields(block, affine.YieldOp, _types(op.results))


def _set_operands(op: affine.IfOp) -> str | None:
    wanted = op.condition.data.num_dims + op.condition.data.num_symbols
    if wanted != len(op.args):
        return f"the set takes {wanted} operands, {len(op.args)} are given"
    return None


def _arms(op: Operation, regions: tuple[Region, ...], kind: type[Operation]) -> str | None:
    wanted = _types(op.results)
    for region in regions:
        blocks = list(region.blocks)
        if not blocks:
            if wanted or region is regions[0]:
                return "an arm gives no value"
            continue
        if len(blocks) != 1:
            return "an arm is not one block"
        if blocks[0].args:
            return "an arm takes arguments"
        wrong = _yields(blocks[0], kind, wanted)
        if wrong is not None:
            return wrong
    return None


def _function(op: func.FuncOp) -> str | None:
    if len(op.body.blocks) != 1:
        return None  # a declaration, or branches, which the door refuses
    block = op.body.block
    if _types(block.args) != list(op.function_type.inputs.data):
        return "the arguments of the body are not the function's"
    return _yields(block, func.ReturnOp, list(op.function_type.outputs.data))
