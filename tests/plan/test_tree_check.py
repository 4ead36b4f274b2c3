"""Each rule of `looptree` that `check_tree` holds, broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loopfuse.base.diagnostics import InternalError
from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Const, Load
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.looptree import (
    Await,
    Barrier,
    Buffer,
    Global,
    Lanes,
    Launch,
    LoopTree,
    Raise,
    Register,
    Shared,
    TreeNode,
    Window,
)
from tests.plan.treekit import Kit, launch, tree


def _gpu(body: Callable[[Kit], list[TreeNode]], *extra: Buffer) -> LoopTree:
    kit = Kit(flag=DType.I32)
    buffers = [
        kit.buffer("a", "N", Global()), kit.buffer("r", "4"), kit.buffer("acc"),
        kit.buffer("sh", "32", Shared()), kit.buffer("la", "64", Lanes(2)),
        kit.buffer("w", "2", Window(2)), kit.buffer("flag", "1", Global(), "", dtype=DType.I32),
        *extra,
    ]  # fmt: skip
    return tree("k", "gpu", buffers, launch("k_0", *body(kit)))


def _block(*body: Callable[[Kit], TreeNode]) -> LoopTree:
    return _gpu(lambda kit: [kit.loop(
        "grid", "g in 0..N", kit.loop("block", "t in 0..64", *(make(kit) for make in body)))])  # fmt: skip


def _cluster(body: Callable[[Kit], TreeNode], blocks: int = 2, threads: int = 64) -> LoopTree:
    return _gpu(lambda kit: [kit.loop(
        "grid", "g in 0..N", kit.loop("cluster", f"c in 0..{blocks}", kit.loop("block", f"t in 0..{threads}", body(kit))))])


def _cpu(body: Callable[[Kit], TreeNode], *buffers: Buffer) -> LoopTree:
    kit = Kit()
    return tree("k", "cpu", [kit.buffer("a", "N", Global()), *buffers], launch("k_0", body(kit)))


def _ends_first(found: LoopTree) -> LoopTree:
    (only,) = found.launches
    return replace(found, body=(replace(only, ends_first=True),))


BAD: dict[str, tuple[str, Callable[[], LoopTree]]] = {
    "parallel loop inside the thread": (
        "alone in the chain",
        lambda: _block(
            lambda kit: kit.copy("acc", "0.0"),
            lambda kit: kit.loop("lane", "l in 0..32", kit.copy("acc", "0.0")),
        ),
    ),
    "chain out of order": (
        "grid, cluster, block",
        lambda: _gpu(lambda kit: [kit.loop("block", "t in 0..4", kit.loop(
            "grid", "g in 0..N", kit.copy("acc", "0.0")))]),
    ),
    "cpu thread on the gpu": (
        "a gpu launch has no thread loops",
        lambda: _gpu(lambda kit: [kit.loop("thread", "t in 0..N", kit.copy("acc", "0.0"))]),
    ),
    "grid on the cpu": (
        "a cpu launch has no grid loops",
        lambda: _cpu(lambda kit: kit.loop("grid", "g in 0..N", kit.copy("a[g]", "0.0"))),
    ),
    "ends first on the cpu": (
        "ends come first in one to three grid loops, not 0",
        lambda: _ends_first(_cpu(lambda kit: kit.loop("thread", "t in 0..N", kit.copy("a[t]", "0.0")))),
    ),
    "ends first in four dimensions": (
        "ends come first in one to three grid loops, not 4",
        lambda: _ends_first(_gpu(lambda kit: [kit.loop("grid", "g in 0..N", kit.loop(
            "grid", "h in 0..N", kit.loop("grid", "i in 0..N", kit.loop(
                "grid", "j in 0..N", kit.copy("acc", "0.0")))))])),
    ),
    "ends first where blocks wait": (
        "they start in order",
        lambda: _ends_first(_gpu(lambda kit: [kit.loop("grid", "g in 0..N", Await(
            kit.load("flag[0]"), kit.ex("1")))])),
    ),
    "symbolic block": (
        "from 0 to a constant",
        lambda: _gpu(lambda kit: [kit.loop("block", "t in 0..N", kit.copy("acc", "0.0"))]),
    ),
    "too many threads": (
        "at most 1024",
        lambda: _gpu(lambda kit: [kit.loop("block", "t in 0..2048", kit.copy("acc", "0.0"))]),
    ),
    "a warp of 16": (
        "32 lanes",
        lambda: _gpu(lambda kit: [kit.loop("lane", "t in 0..16", kit.copy("acc", "0.0"))]),
    ),
    "symbolic unrolled loop": (
        "constants",
        lambda: _block(lambda kit: kit.loop("unrolled", "u in 0..N", kit.copy("acc", "0.0"))),
    ),
    "variable used twice": (
        "already the variable",
        lambda: _block(lambda kit: kit.loop("serial", "t in 0..4", kit.copy("acc", "0.0"))),
    ),
    "unknown variable": (
        "not the variable of a loop",
        lambda: _block(lambda kit: kit.copy("a[q]", "0.0")),
    ),
    "unknown buffer": (
        "not a buffer",
        lambda: _block(lambda kit: replace(
            kit.copy("acc", "0.0"), target=Load("nowhere", (), DType.F64))),
    ),
    "wrong rank": (
        "1 dimensions, not 2",
        lambda: _block(lambda kit: kit.copy("a[g, t]", "0.0")),
    ),
    "wrong dtype": (
        "is put into",
        lambda: _block(lambda kit: replace(
            kit.copy("acc", "0.0"), value=Const(0.0, DType.F32))),
    ),
    "edge mode left": (
        "edge mode",
        lambda: _block(lambda kit: replace(
            kit.copy("acc", "a[t]"), value=replace(kit.load("a[t]"), mode="clamp"))),
    ),
    "a window that moves two rows a step": (
        "the rows of w do not move by one with s",
        lambda: _block(lambda kit: kit.loop("shifted", "s in 0..4", kit.copy("w[2*s]", "0.0"))),
    ),
    "a window that moves and stays": (
        "the rows of w do not move by one with s",
        lambda: _block(lambda kit: kit.loop(
            "shifted", "s in 0..4", kit.copy("w[s]", "0.0"), kit.copy("w[1]", "0.0"))),
    ),
    "a shifted window that does not come round": (
        "is not constant once unrolled",
        lambda: _block(lambda kit: kit.loop("shifted", "s in 0..3", kit.copy("w[s]", "0.0"))),
    ),
    "register index of a serial loop": (
        "not constant once unrolled",
        lambda: _block(lambda kit: kit.loop("serial", "i in 0..4", kit.copy("r[i]", "0.0"))),
    ),
    "window row not constant": (
        "not constant once unrolled",
        lambda: _block(lambda kit: kit.loop("serial", "i in 0..4", kit.copy("w[i]", "0.0"))),
    ),
    "lane writes another's column": (
        "only its own columns",
        lambda: _gpu(lambda kit: [kit.loop("lane", "l in 0..32", kit.copy("la[2*l + 2]", "0.0"))]),
    ),
    "lanes without lanes": (
        "no lane loop",
        lambda: _block(lambda kit: kit.copy("la[t]", "0.0")),
    ),
    "barrier in divergent code": (
        "not every thread",
        lambda: _block(lambda kit: kit.guard("t < 3", Barrier("block"))),
    ),
    "barrier in a loop of divergent length": (
        "not every thread",
        lambda: _block(lambda kit: kit.loop("serial", "i in 0..t", Barrier("block"))),
    ),
    "barrier behind loaded data": (
        "not every thread",
        lambda: _block(lambda kit: kit.guard("a[t] < 1.0", Barrier("block"))),
    ),
    "barrier of nothing": ("its scope is", lambda: _block(lambda kit: Barrier("grid"))),
    "combine over a grid": (
        "not a block, warp or lane loop",
        lambda: _block(lambda kit: kit.combine("sum", "acc", "g")),
    ),
    "combine an array": ("0-d", lambda: _block(lambda kit: kit.combine("sum", "r", "t"))),
    "combine by subtraction": (
        "is not one of",
        lambda: _block(lambda kit: kit.combine("sub", "acc", "t")),
    ),
    "a combine everywhere in a third of a warp": (
        "whole warps or equal parts of one have a result everywhere, not 12 threads",
        lambda: _gpu(lambda kit: [kit.loop("block", "t in 0..12", replace(kit.combine("sum", "acc", "t"), everywhere=True))]),
    ),
    "a combine of a part of a cluster": (
        "a cluster combines all its threads, over c, t, or 32 outer ones of each block, everywhere",
        lambda: _cluster(lambda kit: replace(kit.combine("sum", "acc", "c"), everywhere=True)),
    ),
    "a combine of a cluster into the first thread": (
        "a cluster combines all its threads, over c, t, or 32 outer ones of each block, everywhere",
        lambda: _cluster(lambda kit: kit.combine("sum", "acc", "c", "t")),
    ),
    "a combine of a cluster in another order": (
        "a cluster combines all its threads, over c, t, or 32 outer ones of each block, everywhere",
        lambda: _cluster(lambda kit: replace(kit.combine("sum", "acc", "t", "c"), everywhere=True)),
    ),
    "a combine of a cluster of parts of warps": (
        "blocks of a cluster combine whole warps, not 48 threads",
        lambda: _cluster(lambda kit: replace(kit.combine("sum", "acc", "c", "t"), everywhere=True), threads=48),
    ),
    "a combine to which one block comes": (
        "not every thread of the cluster comes here: that depends on c",
        lambda: _cluster(lambda kit: kit.guard("c < 1", replace(kit.combine("sum", "acc", "c", "t"), everywhere=True))),
    ),
    "a combine of a cluster behind loaded data": (
        "not every thread of the cluster comes here: that depends on c, t",
        lambda: _cluster(
            lambda kit: kit.guard("a[g] < 1.0", replace(kit.combine("sum", "acc", "c", "t"), everywhere=True))),
    ),
    "a cluster of too many blocks": (
        "a cluster has at most 8 blocks, not 16",
        lambda: _cluster(lambda kit: kit.copy("acc", "0.0"), blocks=16),
    ),
    "predicated reads of memory": (
        "what is predicated computes from registers",
        lambda: _block(lambda kit: replace(kit.guard("t < 3", kit.copy("acc", "a[t]")), predicated=True)),
    ),
    "predicated with another way": (
        "what is predicated computes from registers",
        lambda: _block(lambda kit: replace(
            kit.guard("t < 3"), otherwise=(kit.copy("acc", "0.0"),), predicated=True)),
    ),
    "flag not zeroed": (
        "not a zeroed global",
        lambda: _block(lambda kit: Raise(kit.load("flag[0]"), kit.ex("1"))),
    ),
    "shared memory on the cpu": (
        "GPU only",
        lambda: _cpu(
            lambda kit: kit.copy("a[0]", "0.0"), Buffer("s", "s", DType.F64, (), Shared())
        ),
    ),
    "symbolic register": (
        "constant extents",
        lambda: _cpu(
            lambda kit: kit.copy("a[0]", "0.0"),
            Buffer("s", "s", DType.F64, (Kit().ex("N"),), Register()),
        ),
    ),
    "two buffers of one name": (
        "this name",
        lambda: _cpu(
            lambda kit: kit.copy("a[0]", "0.0"), Buffer("a", "s", DType.F64, (), Register())
        ),
    ),
    "one argument under two names": (
        "two buffers are the argument",
        lambda: _cpu(
            lambda kit: kit.copy("a[0]", "0.0"),
            Buffer("x", "x", DType.F64, (), Global(), argument=True),
            Buffer("y", "x", DType.F64, (), Global(), argument=True),
        ),
    ),
    "step backwards": (
        "positive",
        lambda: _block(lambda kit: replace(
            kit.loop("serial", "i in 0..4", kit.copy("acc", "0.0")), step=-1)),
    ),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_broken_rule_is_an_internal_error_that_names_the_node(name: str) -> None:
    rule, make = BAD[name]
    with pytest.raises(InternalError, match=rule) as caught:
        check_tree(make())
    assert caught.value.diagnostics[0].code == "bad-tree"
    assert caught.value.diagnostics[0].message.startswith("in `")


def test_launch_is_named() -> None:
    with pytest.raises(InternalError, match="of launch `k_0`"):
        check_tree(_block(lambda kit: Barrier("grid")))


def test_two_launches_of_one_name() -> None:
    twice = Launch("k_0", "test", (), ())
    with pytest.raises(InternalError, match="two launches"):
        check_tree(tree("k", "cpu", [], twice, twice))
