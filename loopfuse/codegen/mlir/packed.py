"""Registers of bf16 on the GPU that lie in words: two neighbours each, the first in the lower half.

A vector from memory comes as words, and goes there as words. Kept as elements each would be taken out of its word before it
is converted, and put into one after: two instructions more of each. As an f32 an element of a word is one instruction (a
shift, or the upper bits), and two f32s are one rounded word (`cvt.rn.bf16x2.f32`).

Needs: places that are constants once UNROLLED and VECTOR loops are written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import buffer_size, node_expressions, walk_nodes
from loopfuse.codegen.build import BF16, F32, I16, I32, INDEX, Builder
from loopfuse.codegen.ir import Block, Value
from loopfuse.lang.nodes import Load
from loopfuse.lang.walk import iterators, loads
from loopfuse.tree.looptree import (
    WRITTEN_OUT,
    Buffer,
    Combine,
    Compute,
    Copy,
    Guard,
    Loop,
    Mapping,
    Register,
    Scan,
    TreeNode,
)


@dataclass(slots=True)
class Halves:
    """What is known of bf16 values: the f32 that each was rounded from, or is; and the last that went to the lower half of a
    word: of which buffer, where, and in which block."""

    wide: dict[Value, Value] = field(default_factory=dict[Value, Value])
    source: dict[Value, Value] = field(default_factory=dict[Value, Value])
    lower: tuple[str, int, Block, Value] | None = None


def packed_buffers(body: tuple[TreeNode, ...], buffers: tuple[Buffer, ...]) -> frozenset[str]:
    """The buffers that lie in words: those that vectors move, at places that are constants in the end."""
    known = {
        buffer.name
        for buffer in buffers
        if isinstance(buffer.home, Register) and buffer.dtype is DType.BF16 and buffer.extents and buffer_size(buffer) % 2 == 0
    }
    if not known:
        return frozenset()
    others: set[str] = set()
    moved: set[str] = set()
    for node, written_out, is_vector in _leaves(body, frozenset(), False):
        if isinstance(node, Combine | Scan):
            others.add(node.buffer)
        found = [load for expr in node_expressions(node) for load in loads(expr) if load.array in known]
        for load in found:
            fits = isinstance(node, Compute | Copy) and _is_constant(load, written_out)
            (moved if fits and is_vector else set[str]()).add(load.array)
            if not fits:
                others.add(load.array)
    return frozenset(moved - others)


def _is_constant(load: Load, written_out: frozenset[str]) -> bool:
    return all(iterators(each) <= written_out and not any(True for _ in loads(each)) for each in load.index)


def _leaves(
    body: tuple[TreeNode, ...], written_out: frozenset[str], is_vector: bool
) -> Iterator[tuple[TreeNode, frozenset[str], bool]]:
    """Nodes that are no loops or guards, with the variables that are written out there, and whether a VECTOR loop is around."""
    for node in body:
        match node:
            case Loop(var=var, mapping=mapping, body=inner):
                own = written_out | {var} if mapping in WRITTEN_OUT else written_out
                yield from _leaves(inner, own, is_vector or mapping is Mapping.VECTOR)
            case Guard(then=then, otherwise=otherwise):
                yield from _leaves((*then, *otherwise), written_out, is_vector)
            case _:
                yield from ((each, written_out, is_vector) for each in walk_nodes((node,)))


def load_half(builder: Builder, halves: Halves, words: Value, place: int) -> Value:
    """The element at a place."""
    word = builder.load(words, builder.constant(place // 2, INDEX))
    is_upper = place % 2 == 1
    bits = builder.binary("andi", word, builder.constant(-1 << 16, I32)) if is_upper else (
        builder.binary("shli", word, builder.constant(16, I32))
    )
    short = builder.binary("shrui", word, builder.constant(16, I32)) if is_upper else word
    value = builder.convert("bitcast", builder.convert("trunci", short, I16), BF16)
    halves.wide[value] = builder.convert("bitcast", bits, F32)
    return value


def store_half(builder: Builder, halves: Halves, buffer: str, words: Value, place: int, value: Value) -> None:
    """The value to a place; with its neighbour below where that has just gone to its own, both as one."""
    where = builder.constant(place // 2, INDEX)
    lower, halves.lower = halves.lower, None
    source = halves.source.get(value)
    if place % 2 == 0 and source is not None:
        halves.lower = buffer, place, builder.block, source
    elif lower is not None and source is not None and lower[:2] == (buffer, place - 1) and lower[2] is builder.block:
        both = builder.convert("truncf", builder.from_elements([lower[3], source]), BF16)
        builder.store(builder.extract(builder.recast(both, I32), 0), words, where)
        return
    bits = builder.convert("extui", builder.convert("bitcast", value, I16), I32)
    other = builder.load(words, where)
    if place % 2:
        bits = builder.binary("shli", bits, builder.constant(16, I32))
        other = builder.binary("andi", other, builder.constant(0xFFFF, I32))
    else:
        other = builder.binary("andi", other, builder.constant(-1 << 16, I32))
    builder.store(builder.binary("ori", bits, other), words, where)


def load_halves(builder: Builder, words: Value, place: int, lanes: int) -> Value:
    """As many elements from an even place on."""
    found = builder.vector_load(words, builder.constant(place // 2, INDEX), lanes // 2, 0)
    return builder.recast(found, BF16)


def store_halves(builder: Builder, words: Value, place: int, value: Value) -> None:
    """A vector of elements to an even place and those behind it."""
    builder.vector_store(builder.recast(value, I32), words, builder.constant(place // 2, INDEX), 0)
