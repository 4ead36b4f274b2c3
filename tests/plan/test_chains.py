"""Scans over the blocks of a launch: where they may stand, what they hand on results through, and what that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import Options, Target
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Iter, compare, integer
from loopfuse.tree.chains import CHAIN, parts_of, words_of
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.looptree import (
    LINEAR,
    Barrier,
    Guard,
    HostLoop,
    HostNode,
    Launch,
    Loop,
    LoopTree,
    Scan,
    TreeNode,
)
from loopfuse.tree.walk import map_nodes, walk_nodes

TEXT = """
kernel f(x: f32[R, N], out y: f32[R, N]):
    for r in 0..R:
        var s: f32 = 0.0
        for i in 0..N:
            s += x[r, i]
            y[r, i] = s
"""


@cache
def tree() -> LoopTree:
    program = pipeline.read_program(Source("t.lf", TEXT.lstrip()))
    return pipeline.plan_kernel(program, "f", Options(target=Target("sm_90"))).tree


def scans(launch: Launch) -> list[Scan]:
    return [node for node in walk_nodes(launch.body) if isinstance(node, Scan) and node.words]


def row() -> str:
    """The loop over rows around it."""
    (launch,) = (each for each in tree().launches if scans(each))
    (outer,) = launch.body
    assert isinstance(outer, Loop)
    return outer.var


def is_chained(node: TreeNode) -> bool:
    return isinstance(node, Loop) and len(node.body) == 1 and isinstance(node.body[0], Scan) and bool(node.body[0].words)


def loops(change: Callable[[Loop], tuple[TreeNode, ...]]) -> LoopTree:
    """The tree with the loop over the scan's parts changed."""
    return map_nodes(lambda node: change(node) if is_chained(node) and isinstance(node, Loop) else (node,), tree())


def scanned(change: Callable[[Scan], Scan]) -> LoopTree:
    return loops(lambda loop: (replace(loop, body=tuple(change(each) for each in loop.body if isinstance(each, Scan))),))


def launched(change: Callable[[Launch], HostNode]) -> LoopTree:
    """The tree with the launch changed whose blocks wait for others."""

    def host(node: HostNode) -> HostNode:
        if isinstance(node, HostLoop):
            return replace(node, body=tuple(map(host, node.body)))
        return change(node) if scans(node) else node

    return replace(tree(), body=tuple(map(host, tree().body)))


def words(**changes: object) -> LoopTree:
    """The tree with the scan's memory changed."""
    (name,) = {scan.words for launch in tree().launches for scan in scans(launch)}
    buffers = tuple(replace(each, **changes) if each.name == name else each for each in tree().buffers)
    return replace(tree(), buffers=buffers)


def grid_of_host(launch: Launch) -> HostNode:
    (outer,) = launch.body
    assert isinstance(outer, Loop)
    return HostLoop("h", integer(1), integer(4), 1, (replace(launch, body=(replace(outer, upper=Iter("h")),)),))


def narrower(launch: Launch) -> Launch:
    def nodes(body: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        return tuple(
            replace(node, upper=integer(128)) if isinstance(node, Loop) and node.mapping.value == "block"
            else replace(node, body=nodes(node.body)) if isinstance(node, Loop) else node
            for node in body
        )  # fmt: skip

    return replace(launch, body=nodes(launch.body))


SPOILT: dict[str, tuple[Callable[[], LoopTree], str]] = {
    "under a condition": (
        lambda: loops(lambda loop: (Guard(compare("lt", Iter(row()), integer(2)), (loop,)),)), "each block comes to it once"),
    "in a loop": (
        lambda: loops(lambda loop: (Loop("again", integer(0), integer(2), 1, type(loop.mapping).SERIAL, (loop,)),)),
        "each block comes to it once"),
    "beside another": (lambda: loops(lambda loop: (replace(loop, body=(*loop.body, Barrier("block"))),)), "each block comes to it once"),
    "not of all parts": (lambda: loops(lambda loop: (replace(loop, lower=integer(1)),)), "each block comes to it once"),
    "of one part": (lambda: scanned(lambda scan: replace(scan, index=(integer(0),))), "each block comes to it once"),
    "in another order": (
        lambda: scanned(lambda scan: replace(scan, over=(scan.over[0], *reversed(scan.over[1:])))), "over all threads of a block"),
    "over rows": (
        lambda: scanned(lambda scan: replace(scan, over=(row(), *scan.over[1:]))), "it is over the last grid loop"),
    "through nothing": (lambda: scanned(lambda scan: replace(scan, words="")), "a 0-d register buffer"),
    "of threads alone": (lambda: scanned(lambda scan: replace(scan, over=scan.over[2:])), "blocks, and they alone"),
    "more blocks in a later run": (lambda: launched(grid_of_host), "as many blocks whenever it runs"),
    "ends first": (lambda: launched(lambda launch: replace(launch, ends_first=True)), "start in their order"),
    "narrow blocks": (lambda: launched(narrower), f"over all threads of a block, {CHAIN} or more"),
    "words not cleared": (lambda: words(zeroed=False), "is not zeroed memory of the size that it needs"),
    "words of 32 bits": (lambda: words(dtype=DType.I32), "is not zeroed memory of the size that it needs"),
    "too few words": (lambda: words(extents=(integer(4),)), "is not zeroed memory of the size that it needs"),
    "words for two": (
        lambda: launched(lambda launch: replace(launch, body=(*launch.body[:-1], *twice(launch.body[-1])))),
        "is used for something else too"),
}  # fmt: skip


def twice(node: TreeNode) -> tuple[TreeNode, ...]:
    """All that a launch does, with each scan over blocks a second time."""
    assert isinstance(node, Loop)
    body: list[TreeNode] = []
    for each in node.body:
        if is_chained(each):
            assert isinstance(each, Loop)
            other = replace(each, var="other")
            (scan,) = each.body
            assert isinstance(scan, Scan)
            again = replace(scan, over=(scan.over[0], "other", *scan.over[2:]), index=(Iter("other"),))
            body += [each, replace(other, body=(again,))]
        else:
            body += twice(each) if isinstance(each, Loop) and each.mapping.value in ("grid", "block") else (each,)
    return (replace(node, body=tuple(body)),)


@pytest.mark.parametrize("name", SPOILT)
def test_a_scan_over_blocks_is_well_formed(name: str) -> None:
    check_tree(tree())
    spoil, says = SPOILT[name]
    with pytest.raises(InternalError, match=says):
        check_tree(spoil())


@pytest.mark.parametrize("blocks", [0, 1, 2, CHAIN, CHAIN + 1, 3 * CHAIN])
def test_words(blocks: int) -> None:
    """One for each block but the last, one for each CHAIN that others follow, and one for all; none of one block."""
    each = max(blocks - 1, 0) + max(blocks - 1, 0) // CHAIN
    assert constant_value(words_of("sum", DType.F32, [], integer(blocks))) == each + bool(each)
    assert constant_value(words_of("sum", DType.F32, [integer(3)], integer(blocks))) == 3 * each + bool(each)
    assert constant_value(words_of("sum", DType.F32, [integer(0)], integer(blocks))) == 0
    assert parts_of("min", DType.BOOL) == parts_of("sum", DType.BF16) == 1
    assert parts_of("sum", DType.I64) == parts_of(LINEAR, DType.F32) == 2 and parts_of(LINEAR, DType.F64) == 4
