"""The LoopTree interpreter where threads, blocks and clusters wait for each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loopfuse.base.diagnostics import InternalError
from loopfuse.base.dtypes import DType
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.interp.threads import reduce_in_warps
from loopfuse.tree.looptree import (
    Await,
    Barrier,
    DistributedShared,
    Global,
    LineBuffer,
    LoopTree,
    Raise,
    Window,
)
from loopfuse.tree.printer import print_tree
from tests.plan.treekit import Kit, launch, tree

ORDERS = ("forward", "reverse", "shuffled")


def _setup(params: str, **dtypes: DType) -> tuple[Kit, list]:
    kit = Kit(**dtypes)
    return kit, kit.arguments(kit.kernel("k", params))


def _run(made: LoopTree, order: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    check_tree(made)
    given = {name: array.copy() for name, array in arrays.items()}
    run_tree(made, given, {"N": len(next(iter(arrays.values())))}, order=order)
    return given


def _chained(raises: bool = True) -> LoopTree:
    """Block g waits for block g - 1 and adds to its result."""
    kit, buffers = _setup("in a[N]; out b[N]")
    buffers.append(
        kit.buffer("flag", "N", Global(), array="", zeroed=True, dtype=DType.I32)
    )
    body = [
        kit.copy("b[g]", "a[g]"),
        kit.guard("g > 0", Await(kit.load("flag[g - 1]"), kit.ex("1")),
                  kit.fold("sum", "b[g]", "b[g - 1]")),
    ]  # fmt: skip
    if raises:
        body.append(Raise(kit.load("flag[g]"), kit.ex("1")))
    return tree("k", "gpu", buffers, launch("k_0", kit.loop("grid", "g in 0..N", *body)))


@pytest.mark.parametrize("order", ORDERS)
def test_flags_order_blocks(order: str) -> None:
    a = np.arange(1.0, 7.0)
    found = _run(_chained(), order, a=a, b=np.zeros(6))
    np.testing.assert_array_equal(found["b"], np.cumsum(a))


def test_a_flag_that_nothing_raises_is_an_error() -> None:
    with pytest.raises(InternalError, match="waits for a flag"):
        _run(_chained(raises=False), "forward", a=np.zeros(3), b=np.zeros(3))


@pytest.mark.parametrize("order", ORDERS)
def test_blocks_of_a_cluster_read_each_others_shared_memory(order: str) -> None:
    kit, buffers = _setup("in a[N, 8]; out b[N, 8]")
    buffers.append(kit.buffer("d", "2, 4", DistributedShared(), array="a"))
    made = tree("k", "gpu", buffers, launch("k_0", kit.loop(
        "grid", "g in 0..N", kit.loop("cluster", "c in 0..2", kit.loop(
            "block", "t in 0..4",
            kit.copy("d[c, t]", "a[g, 4*c + t]"), Barrier("cluster"),
            kit.copy("b[g, 4*c + t]", "d[1 - c, 3 - t]"))))))  # fmt: skip
    a = np.arange(16.0).reshape(2, 8)
    np.testing.assert_array_equal(_run(made, order, a=a, b=np.zeros((2, 8)))["b"], a[:, ::-1])


@pytest.mark.parametrize("order", ORDERS)
def test_line_buffers_wrap_and_are_a_workers_own(order: str) -> None:
    kit, buffers = _setup("in a[N, 4]; out b[N, 4]")
    buffers.append(kit.buffer("line", "4", LineBuffer(2), array="a"))
    made = tree("k", "cpu", buffers, launch("k_0", kit.loop("thread", "i in 0..N", kit.loop(
        "serial", "j in 0..4", kit.copy("line[j]", "a[i, j]"), kit.guard(
            "j >= 1", kit.copy("b[i, j]", "line[j - 1]"))))))  # fmt: skip
    a = np.arange(12.0).reshape(3, 4)
    expected = np.hstack([np.zeros((3, 1)), a[:, :-1]])
    np.testing.assert_array_equal(_run(made, order, a=a, b=np.zeros((3, 4)))["b"], expected)


@pytest.mark.parametrize("order", ORDERS)
def test_windows_of_lanes(order: str) -> None:
    """Each warp keeps the last two rows of its strip; b is the row before, shifted by a lane."""
    kit, buffers = _setup("in a[4, 64]; out b[4, 64]")
    buffers.append(kit.buffer("w", "2, 64", Window(2, 2), array="a"))
    rows = kit.loop(
        "unrolled", "y in 0..4",
        kit.loop("unrolled", "c in 0..2", kit.copy("w[y, 2*l + c]", "a[y, 2*l + c]")),
        kit.guard("y >= 1", kit.loop("unrolled", "e in 0..2", kit.copy(
            "b[y, 2*l + e]", "w[y - 1, (2*l + e + 2) % 64]"))),
    )  # fmt: skip
    made = tree("k", "gpu", buffers, launch("k_0", kit.loop("lane", "l in 0..32", rows)))
    a = np.arange(256.0).reshape(4, 64)
    expected = np.zeros((4, 64))
    expected[1:] = np.roll(a[:-1], -2, axis=1)
    np.testing.assert_array_equal(_run(made, order, a=a, b=np.zeros((4, 64)))["b"], expected)


def test_a_barrier_that_some_thread_never_reaches_is_an_error() -> None:
    kit, buffers = _setup("out b[N]")
    made = tree("k", "gpu", buffers, launch("k_0", kit.loop(
        "block", "t in 0..4", kit.guard("t < 3", Barrier("block")))))  # fmt: skip
    with pytest.raises(InternalError, match="never meets"):
        run_tree(made, {"b": np.zeros(2)}, {"N": 2})


def test_combine_adds_in_the_order_it_defines() -> None:
    values = [np.float32(x) for x in np.random.default_rng(1).standard_normal(70)]

    def warp(part: list[np.float32]) -> np.float32:
        x = part + [np.float32(0)] * (32 - len(part))
        for distance in (16, 8, 4, 2, 1):
            x = [x[t] + x[t + distance] for t in range(distance)]
        return x[0]

    expected = warp([warp(values[0:32]), warp(values[32:64]), warp(values[64:70])])
    found = reduce_in_warps(values, lambda a, b: a + b, np.float32(0))
    assert found == expected


@pytest.mark.parametrize("blocks, threads", [(2, 32), (4, 64), (3, 512)])
def test_a_cluster_combines_in_the_order_it_defines(blocks: int, threads: int) -> None:
    """Two warps; eight; and 48, of which those behind the first 32 go to the first 16."""
    kit, buffers = _setup("in a[N]; out b[N]")
    buffers.append(kit.buffer("acc", array="a"))
    place = f"{threads}*c + t"
    made = tree("k", "gpu", buffers, launch("k_0", kit.loop("cluster", f"c in 0..{blocks}", kit.loop(
        "block", f"t in 0..{threads}", kit.copy("acc", f"a[{place}]"),
        replace(kit.combine("sum", "acc", "c", "t"), everywhere=True), kit.copy(f"b[{place}]", "acc")))))
    check_tree(made)
    assert "combine sum acc over c, t everywhere" in print_tree(made)
    a = np.random.default_rng(2).standard_normal(blocks * threads) * 1e3
    found = _run(made, "shuffled", a=a, b=np.zeros(a.size))["b"]

    def halved(x: np.ndarray) -> np.ndarray:
        while x.shape[-1] > 1:
            x = x[..., : x.shape[-1] // 2] + x[..., x.shape[-1] // 2 :]
        return x[..., 0]

    groups = halved(a.reshape(-1, 32))
    groups = np.append(groups, np.zeros(-groups.size % 32)).reshape(-1, 32)
    total = groups[0]
    for more in groups[1:]:
        total = total + more
    np.testing.assert_array_equal(found, np.full(a.size, halved(total)))
