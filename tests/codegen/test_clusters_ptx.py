"""Clusters: the PTX of blocks that combine with the other blocks of their cluster, run on the machine of
`tests/ptx_machine.py` against the LoopTree interpreter, bit for bit. The machine says where a block may not
have started, where what another block writes may not have come or been read, and where one ends too early."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))

from ptx_machine import Machine, Memory, read_ptx
from ptx_runs import numpy_kind

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target
from loopfuse.codegen.lower.lower import Lowered, lower
from loopfuse.codegen.targets.assemble import assemble, find_ptxas
from loopfuse.lang.nodes import Kernel
from loopfuse.plan.strategies.rows import sizes as sizes_of_teams
from loopfuse.runtime.devices.steps import run_steps
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Barrier, LoopTree, TreeNode
from tests.codegen.trees import check_mlir, check_ptx
from tests.plan.treekit import Kit, launch, tree

SM90 = Target("sm_90")


def runs(lowered: Lowered, arrays: dict[str, np.ndarray], sizes: dict[str, int], ptx: str = "") -> list[int]:
    """Runs the PTX on the arrays, in place; how many blocks the clusters of the launches had."""
    memory, pointers = Memory({}), dict[str, int]()
    for number, (name, data) in enumerate(arrays.items()):
        pointers[name] = (number + 1) << 24
        memory.place(pointers[name], data)
    for number, buffer in enumerate(lowered.manifest["buffers"], len(pointers) + 1):
        shape = [max(0, int(eval(str(each), {}, dict(sizes)))) for each in buffer["extents"]]
        pointers[buffer["name"]] = number << 24
        memory.place(number << 24, np.zeros(shape, numpy_kind(buffer["dtype"], short=True)))
    entries = read_ptx(ptx or lowered.ptx)
    clusters: list[int] = []

    def one(each: Any, grid: int, block: Any) -> None:
        clusters.append(each["cluster"])
        words, threads = list(block.words), each["threads"]
        Machine(entries[each["name"]], words, grid, threads, memory, cluster=each["cluster"]).run()

    run_steps(lowered.manifest, pointers, sizes, True, one)
    return clusters


def agrees(made: LoopTree, kernel: Kernel, arrays: dict[str, np.ndarray], sizes: dict[str, int]) -> Lowered:
    """Lowers the tree, and compares."""
    lowered = lower(made, kernel, SM90, 32)
    check_mlir(lowered.mlir)
    wanted = {name: data.copy() for name, data in arrays.items()}
    run_tree(made, wanted, sizes, order="shuffled")
    runs(lowered, arrays, sizes)
    for name, data in arrays.items():
        assert data.tobytes() == wanted[name].tobytes(), name
    return lowered


def written(*body: TreeNode, blocks: int = 2, threads: int = 64) -> LoopTree:
    """Each cluster has a row of a and b."""
    buffers = [*KIT.arguments(KERNEL), KIT.buffer("acc", array="a")]
    return tree("k", "gpu", buffers, launch("k_0", KIT.loop("grid", "g in 0..N", KIT.loop(
        "cluster", f"c in 0..{blocks}", KIT.loop("block", f"t in 0..{threads}", *body)))))


KIT = Kit()
KERNEL = KIT.kernel("k", "in a[N, 512]; out b[N, 512]")
KIT.declare("acc")
COMBINE = replace(KIT.combine("sum", "acc", "c", "t"), everywhere=True)


def summed(place: str) -> tuple[TreeNode, ...]:
    """The sum of so many elements, in the place of each."""
    return KIT.copy("acc", f"a[g, {place}]"), COMBINE, KIT.copy(f"b[g, {place}]", "acc")


TREES = {
    "in a line": written(*summed("64*c + t"), *summed("64*c + t + 128")),
    "in a loop": written(KIT.loop("serial", "i in 0..N", *summed("128*i + 64*c + t"))),
    "in a written-out loop": written(KIT.loop("unrolled", "i in 0..3", *summed("128*i + 64*c + t"))),
    "one way of a guard": written(KIT.guard("g > 0", *summed("64*c + t")), *summed("64*c + t + 128")),
    "both ways of a guard": written(
        replace(KIT.guard("g > 0", *summed("64*c + t")), otherwise=summed("64*c + t + 128")), *summed("64*c + t")),
    "behind a barrier": written(Barrier("cluster"), *summed("64*c + t"), Barrier("cluster")),
    "more than 32 warps": written(*summed("128*c + t"), blocks=4, threads=128),
    "eight blocks": written(*summed("64*c + t"), blocks=8),
    "of one warp": written(*summed("32*c + t"), threads=32),
    "of one block": written(*summed("t"), blocks=1),
}


@pytest.mark.parametrize("name", TREES)
def test_combines_where_they_stand(name: str) -> None:
    arrays = {"a": np.random.default_rng(5).standard_normal((3, 512)), "b": np.zeros((3, 512))}
    lowered = agrees(TREES[name], KERNEL, arrays, {"N": 3})
    check_ptx(lowered.ptx, SM90)


def columns(op: str, dtype: str, count: int, lanes: int, blocks: int = 1) -> tuple[Kernel, LoopTree, Kit]:
    """`lanes` columns of a block, each of which so many threads of it (and of the other blocks) have together."""
    kit = Kit()
    kernel = kit.kernel("k", f"in {dtype}a[N, 2048]; out {dtype}b[N, 2048]")
    kit.declare("acc")
    over = ("c", "w") if blocks > 1 else ("w",)
    place = f"{count * lanes}*c + {lanes}*w + l" if blocks > 1 else f"{lanes}*w + l"
    body = (
        kit.copy("acc", f"a[g, {place}]"), replace(kit.combine(op, "acc", *over), everywhere=True),
        kit.copy(f"b[g, {place}]", "acc"),
    )  # fmt: skip
    node: TreeNode = kit.loop("block", f"w in 0..{count}", kit.loop("block", f"l in 0..{lanes}", *body * 2))
    node = kit.loop("cluster", f"c in 0..{blocks}", node) if blocks > 1 else node
    buffers = [*kit.arguments(kernel), kit.buffer("acc", array="a")]
    return kernel, tree("k", "gpu", buffers, launch("k_0", kit.loop("grid", "g in 0..N", node))), kit


@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize("count, lanes, blocks", [(8, 32, 1), (32, 32, 1), (16, 4, 1), (32, 16, 1), (32, 16, 2), (32, 16, 4), (32, 4, 8)])
def test_columns_of_a_block_or_a_cluster(op: str, count: int, lanes: int, blocks: int) -> None:
    """Twice, so that what is shared is used again; with zeros of both signs."""
    kernel, made, _ = columns(op, "", count, lanes, blocks)
    a = np.random.default_rng(count).standard_normal((2, 2048))
    a[:, ::3] = -0.0
    lowered = agrees(made, kernel, {"a": a, "b": np.zeros((2, 2048))}, {"N": 2})
    check_ptx(lowered.ptx, SM90)


def test_the_machine_notices_what_is_missing() -> None:
    """Without one of the barriers, or with slots that the next Combine has too."""
    lowered = lower(TREES["in a line"], KERNEL, SM90, 32)
    arrive, wait = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"
    assert lowered.ptx.count(arrive) == lowered.ptx.count(wait) == 3
    first, *others = lowered.ptx.split(wait)
    at_the_end = wait.join([first, *others[:-1]]) + others[-1]
    never_started = first.replace(arrive, "") + wait.join(others)
    symbols = [f"k_0_shared{number}" for number in range(2)]
    shared = lowered.ptx.replace(f"{symbols[1]};", f"{symbols[0]};").replace(f"{symbols[1]}+", f"{symbols[0]}+")
    messages = {at_the_end: "may not have come", never_started: "may not have started", shared: "have been read"}
    for text, message in messages.items():
        assert text != lowered.ptx
        arrays = {"a": np.ones((3, 512)), "b": np.zeros((3, 512))}
        with pytest.raises(AssertionError, match=message):
            runs(lowered, arrays, {"N": 3}, text)


TEXT = """
kernel f(x: f32[R, C], out y: f32[R, C], out total: f32[R], out some: bool[R]):
    for r in 0..R:
        let mean = sum(c in 0..C: x[r, c]) / f32(C)
        let var_ = sum(c in 0..C: (x[r, c] - mean) * (x[r, c] - mean))
        total[r] = var_
        some[r] = any(c in 0..C: x[r, c] > 3.5)
        for c in 0..C:
            y[r, c] = (x[r, c] - mean) / var_
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of more than 768 places are a cluster's: of two blocks up to 1,024, of four up to 2,048, of eight up to 4,096."""
    for name, value in (("FEW_THREADS", 32), ("MORE_THREADS", 64), ("THREADS", 64), ("HELD", 8), ("STAGED", 2)):
        monkeypatch.setattr(sizes_of_teams, name, value)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "length, blocks",
    [(512, 1), (513, 1), (768, 1), (769, 2), (1023, 2), (1024, 2), (1025, 4), (2048, 4), (2049, 8), (4096, 8), (4097, 8), (9000, 8)],
)
def test_rows_of_every_length(length: int, blocks: int) -> None:
    """Against the tree, and NumPy."""
    program = pipeline.read_program(Source("f.lf", TEXT))
    options = Options(target=SM90, index_bits=32)
    planned = planned_once(program, options)
    x = np.random.default_rng(length).standard_normal((2, length)).astype(np.float32)
    arrays = {
        "x": x, "y": np.zeros_like(x), "total": np.zeros(2, np.float32), "some": np.zeros(2, bool)
    }  # fmt: skip
    sizes = {"R": 2, "C": length}
    wanted = {name: data.copy() for name, data in arrays.items()}
    run_tree(planned[0], wanted, sizes)
    assert runs(planned[1], arrays, sizes) == [blocks]
    for name, data in arrays.items():
        assert data.tobytes() == wanted[name].tobytes(), name
    exact = x.astype(np.float64)
    apart = exact - exact.mean(1, keepdims=True)
    np.testing.assert_allclose(arrays["total"], (apart**2).sum(1), rtol=1e-5)
    np.testing.assert_allclose(arrays["y"], apart / (apart**2).sum(1, keepdims=True), rtol=1e-3, atol=1e-8)
    assert (arrays["some"] == (x > 3.5).any(1)).all()


_MADE: list[tuple[LoopTree, Lowered]] = []


def planned_once(program: Any, options: Options) -> tuple[LoopTree, Lowered]:
    """The tree, proved, and its code: made by the first who asks."""
    if not _MADE:
        planned = pipeline.plan_kernel(program, "f", options)
        assert planned.verdict.answer == "proved"
        _MADE.append((planned.tree, lower(planned.tree, planned.kernel, SM90, 32)))
    return _MADE[0]


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("length", [32768, 65536, 131072])
def test_two_blocks_of_a_cluster_fit_a_multiprocessor(length: int) -> None:
    text = TEXT.replace("C]", f"{length}]").replace("..C", f"..{length}").replace("(C)", f"({length})")
    program = pipeline.read_program(Source("f.lf", text))
    artifact = pipeline.compile_kernel(program, "f", Options(target=SM90, index_bits=32), emit=frozenset({"ptx"}))
    made = assemble(artifact.ptx, SM90)
    assert made is not None
    _, registers, spills = made
    assert max(registers.values()) <= 64 and set(spills.values()) == {0}
