"""What a tree does with linear maps: only what makes maps of maps, and numbers of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Const, Load
from loopfuse.lang.slope import slope
from loopfuse.lang.walk import loads
from loopfuse.tree.looptree import (
    LINEAR,
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Global,
    LoopTree,
    Register,
    Scan,
    TreeNode,
)
from loopfuse.tree.walk import touched_by, walk_nodes


def maps_fault(tree: LoopTree) -> str:
    """What is wrong with the tree's maps, in words; "" where nothing is."""
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    for buffer in tree.buffers:
        if buffer.factors and not _has_factors(buffer, buffers):
            return f"`{buffer.name}` holds maps, whose factors are in a workspace like it"
    maps = {buffer.name for buffer in tree.buffers if buffer.factors}
    factors = {buffer.factors for buffer in tree.buffers} - {""}
    for launch in tree.launches:
        for node in walk_nodes(launch.body):
            touched = touched_by(node)
            if not touched.isdisjoint(factors):
                return f"{sorted(touched & factors)[0]} holds factors of maps, which no node names"
            if not all(_is_allowed(node, touched, maps)):
                return f"in launch `{launch.name}` a {type(node).__name__} takes a map for a number, or a number for a map"
    return ""


def _has_factors(buffer: Buffer, buffers: dict[str, Buffer]) -> bool:
    there = buffers.get(buffer.factors)
    if there is None or replace(there, name=buffer.name, factors=buffer.factors) != buffer:
        return False
    is_own = not (buffer.argument or buffer.zeroed or buffer.turns or buffer.array)
    return is_own and isinstance(buffer.home, Register | Global) and buffer.dtype is not DType.BOOL


def _is_allowed(node: TreeNode, touched: set[str], maps: set[str]) -> Iterator[bool]:
    match node:
        case Compute(target=target, value=value, predicate=predicate) if target.array in maps:
            yield predicate is None and slope(value, target) is not None
            yield {load for load in loads(value) if load.array in maps} == {target}
        case Copy(target=target, value=Load() as value):
            yield (target.array in maps) == (value.array in maps)
        case Copy(target=target, value=Const(value=value)):
            yield target.array not in maps or value == 0
        case Fold(op=op, value=value):
            yield (op == LINEAR) == (value.array in maps)
            yield op == LINEAR or touched.isdisjoint(maps)
        case Combine(op=op, buffer=buffer) | Scan(op=op, buffer=buffer):
            yield (op == LINEAR) == (buffer in maps)
        case _:
            yield touched.isdisjoint(maps)
