"""Windows along a line: the PTX of the kernels, run on the machine of `tests/ptx_machine.py` against
the interpreter, bit for bit; and what ptxas makes of it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_runs import compiled, run, size_of

from loopfuse.base.options import Target, Tuning
from loopfuse.codegen.targets.assemble import assemble, find_ptxas
from loopfuse.lang.linear import constant_value, linear_form
from loopfuse.lang.nodes import Iter, Load
from loopfuse.tree.looptree import Copy, Global, Loop, Mapping
from loopfuse.tree.walk import walk_nodes

pytestmark = pytest.mark.usefixtures("launches_apart")

CHAIN = """
kernel f(a: {0}[N], out c: {0}[N]):
    temp b: {0}[N]
    for i in 1..N-1:
        b[i] = a[i-1] + a[i] + a[i+1]
    for i in 2..N-2:
        c[i] = b[i-1] - b[i] + b[i+1]
"""
EDGES = """
kernel f(a: {0}[N], out c: {0}[N], out d: {0}[N]):
    temp b: {0}[N]
    for i in 0..N:
        b[i] = a.reflect[i-2] - a.reflect[i+1]
    for i in 0..N:
        c[i] = b.zero[i-1] + b.zero[i+3]
    for i in 0..N:
        d[i] = c.symmetric[i+2] + b[i]
"""
RING = """
kernel f(a: {0}[N], out c: {0}[N]):
    temp b: {0}[N]
    for i in 0..N:
        b[i] = a.wrap[i-1] + a.wrap[i+2]
    for i in 0..N:
        c[i] = b.wrap[i-2] - b.wrap[i+1]
"""
HEAT = """
kernel f(inout a: {0}[N], n: i64):
    temp b: {0}[N]
    for t in 0..n:
        for i in 1..N-1:
            b[i] = a[i-1] + a[i+1] - a[i]
        for i in 1..N-1:
            a[i] = b[i]
"""
SWAP = """
kernel f(inout a: {0}[N], inout b: {0}[N], n: i64):
    for t in 0..n:
        for i in 1..N-1:
            b[i] = a[i-1] + a[i+1] - a[i]
        swap a, b
"""
PLANES = """
kernel f(inout u: {0}[K, N], n: i64):
    for t in 0..n:
        for i in 1..N-1:
            u[(t+1) % 2, i] = u[t % 2, i-1] + u[t % 2, i+1] - u[t % 2, i]
""".replace("K", "2")
AUTO = Tuning()
SIZES = ((0, 0), (1, 0), (3, 1), (127, 0), (1300, 0), (1303, 3), (1304, 1), (2049, 0))


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "f16", "bf16", "u8", "i16"])
def test_a_chain_of_any_type_and_start(dtype: str) -> None:
    for size, offset in SIZES:
        stored = run(CHAIN.format(dtype), AUTO, {"N": size}, offset)
        if size > 2000:
            assert stored[16 if size_of(dtype) > 1 else 8] > 0


@pytest.mark.parametrize("dtype", ["i32", "f64", "i16"])
@pytest.mark.parametrize("text", [EDGES, RING], ids=["edges", "ring"])
def test_ends(text: str, dtype: str) -> None:
    for size, offset in SIZES:
        run(text.format(dtype), AUTO, {"N": size}, offset)


@pytest.mark.parametrize("steps", [3, 8])
@pytest.mark.parametrize("text", [HEAT, SWAP], ids=["heat", "swap"])
def test_time_steps(text: str, steps: int) -> None:
    tuning = Tuning(steps=steps, warps=1)
    for size, offset, number in ((0, 0, 20), (2, 0, 17), (700, 0, 19), (641, 1, 35)):
        run(text.format("i32"), tuning, {"N": size, "n": number}, offset)


@pytest.mark.parametrize("text", [CHAIN, EDGES, RING, HEAT, SWAP, PLANES],
                         ids=["chain", "edges", "ring", "heat", "swap", "planes"])  # fmt: skip
def test_vectors_start_at_multiples(text: str) -> None:
    """What a lane moves at once starts at a multiple of its length: rows that a shifted loop makes
    go by way of shared memory, where single elements of lanes would lie 16 bytes apart."""
    tree, found = compiled(text.format("f32"), AUTO)[1], 0
    for launch in tree.launches:
        for loop in walk_nodes(launch.body):
            if not isinstance(loop, Loop) or loop.mapping is not Mapping.VECTOR:
                continue
            (copy,), count = loop.body, constant_value(loop.upper)
            assert isinstance(copy, Copy) and count is not None
            for load in (copy.target, copy.value):
                if not isinstance(load, Load) or not isinstance(tree.buffer(load.array).home, Global):
                    continue
                constant, terms = linear_form(load.index[-1])
                others = [number for atom, number in terms if atom != Iter(loop.var)]
                assert all(number % count == 0 for number in (constant, *others)), load
                found += 1
    assert found


@pytest.mark.skipif(find_ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("text", [CHAIN, EDGES, RING, HEAT, SWAP, PLANES],
                         ids=["chain", "edges", "ring", "heat", "swap", "planes"])  # fmt: skip
def test_strips_lie_in_registers(text: str) -> None:
    """As planned without tuning: 16 bytes a load, and a store, which is to shared memory where rows
    of results start elsewhere than those loaded; no local memory, no spills, no barrier."""
    target = Target("sm_90")
    _, tree, artifact = compiled(text.format("f32"), AUTO)
    assert not re.search(r"\.local\b|\bbar\.(?!warp)", artifact.ptx)
    made = assemble(artifact.ptx, target)
    assert made is not None
    _, registers, spills = made
    assert not any(spills.values()), (registers, spills)
    for launch in tree.launches:
        if launch.strategy != "sliding":
            continue
        start = artifact.ptx.index(f".entry {launch.name}(")
        entry = artifact.ptx[start : artifact.ptx.find(".entry ", start + 1)]
        assert re.search(r"ld\.global\S*\.v4\.", entry), launch.name
        assert re.search(r"st\.(global|shared)\S*\.v4\.", entry), launch.name
        assert registers[launch.name] <= 128, (launch.name, registers)
