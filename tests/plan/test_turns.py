"""Two launches that are one with their arrays exchanged are one: what is planned, compiled and run."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import InternalError, Source
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import integer
from loopfuse.proof.check import verify
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import HostLoop, HostNode, LoopTree
from loopfuse.tree.rewrite import turns
from tests.plan.mutate_turns import JACOBI

WAVE = """
kernel f(inout u: f32[H, W], inout v: f32[H, W], c: f32, n: i64):
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            v[y, x] = 2.0 * u[y, x] - v[y, x] + c * (u[y-1, x] + u[y+1, x] + u[y, x-1] + u[y, x+1] - 4.0 * u[y, x])
        swap u, v
"""

FIELDS = """
kernel f(inout e: f32[H, W], inout h: f32[H, W], source: f32[n], n: i64):
    for t in 0..n:
        for x in 0..W:
            e[0, x] = source[t]
        for y in 1..H, x in 0..W:
            e[y, x] = e[y, x] - 0.5 * (h[y, x] - h[y-1, x])
        for y in 0..H-1, x in 0..W-1:
            h[y, x] = h[y, x] - 0.7 * (e[y+1, x] - e[y, x])
"""


@functools.cache
def planned(text: str, target: str = "sm_90", tuning: Tuning | None = None, **options: Any) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    chosen = Options(target=CPU if target == "cpu" else Target(target), tuning=tuning or Tuning(), **options)
    return pipeline.plan_kernel(program, "f", chosen)


def turning(nodes: tuple[HostNode, ...]) -> list[HostLoop]:
    """The loops that something turns with."""
    found: list[HostLoop] = []
    for node in nodes:
        if isinstance(node, HostLoop):
            found += [node] if node.turns else turning(node.body)
    return found


@pytest.mark.parametrize("text", [JACOBI, WAVE, FIELDS], ids=["jacobi", "wave", "fields"])
def test_every_block_of_steps_is_one_launch(text: str) -> None:
    made = planned(text)
    assert made.verdict.answer == "proved" and not made.used
    loops = turning(made.tree.body)
    assert len(loops) >= 2  # the longest blocks, and shorter ones of what is left
    assert all(len(loop.body) == 1 for loop in loops)


@pytest.mark.parametrize("text", [JACOBI, WAVE, FIELDS], ids=["jacobi", "wave", "fields"])
@pytest.mark.parametrize("steps", [3, 4, 9])
def test_what_it_computes(text: str, steps: int) -> None:
    made = planned(text, tuning=Tuning(columns=1, rows=6, warps=1, steps=2), fp="strict")
    assert turning(made.tree.body)
    sizes = {"H": 7, "W": 11, "n": steps}
    random = np.random.default_rng(steps)
    given: dict[str, Any] = {"n": steps, "c": np.float32(0.25)}
    for array in made.kernel.arrays:
        shape = (steps,) if array.name == "source" else (7, 11)
        given[array.name] = random.standard_normal(shape).astype(np.float32)
    given = {name: value for name, value in given.items() if name != "c" or text is WAVE}

    wanted = interpret(made.kernel, given, sizes)
    for tree in (made.tree, turns.erase(made.tree)):
        found = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in given.items()}
        run_tree(tree, found, sizes, order="shuffled")
        for name, value in wanted.items():
            assert np.array_equal(value, found[name]), name


def test_one_entry_that_is_called_twice() -> None:
    first_made = planned(JACOBI)
    program, options = pipeline.read_program(Source("f.lf", JACOBI)), Options(target=Target("sm_90"))
    made = pipeline.compile_kernel(program, "f", options, emit={"ptx"}, planned=first_made)
    loop = made.manifest["steps"][0]["loop"]
    first, second = (step["loop"] for step in loop["body"])
    assert (first["lower"], first["upper"], second["lower"], second["upper"]) == ("0", "1", "1", "2")
    one, other = first["body"][0]["launch"], second["body"][0]["launch"]
    assert one["name"] == other["name"] and made.ptx.count(f".entry {one['name']}(") == 1
    pointers = [[a["name"] for a in each["arguments"] if a["kind"] == "pointer"] for each in (one, other)]
    assert pointers[0] != pointers[1] and set(pointers[0]) == set(pointers[1])
    turned = {buffer.name for buffer in first_made.tree.buffers if buffer.turns}
    assert turned and not {buffer["name"] for buffer in made.manifest["buffers"]} & turned


def test_views_stay_two_launches() -> None:
    """Their strides are arguments, and those of the copy are not."""
    made = planned(JACOBI, strided=frozenset({"a"}))
    assert not turning(made.tree.body) and made.verdict.answer == "proved"


def test_the_checker_does_not_trust_it() -> None:
    made = planned(JACOBI)
    wrong = replace(
        made.tree,
        buffers=tuple(replace(b, turns=b.turns[::-1]) if b.turns else b for b in made.tree.buffers),
    )
    assert verify(made.program, made.dependences, wrong).answer == "wrong"


def broken(tree: LoopTree, which: str) -> LoopTree:
    (loop, *_) = turning(tree.body)
    name = loop.turns[0]

    def host(node: HostNode) -> HostNode:
        if not isinstance(node, HostLoop):
            return node
        body = tuple(map(host, node.body))
        if node is not loop:
            return replace(node, body=body)
        return replace(node, upper=integer(3)) if which == "trips" else replace(node, turns=())

    if which == "unlike":
        changed = [replace(b, extents=b.extents[:1]) if b.name == name else b for b in tree.buffers]
        return replace(tree, buffers=tuple(changed))
    return replace(tree, body=tuple(map(host, tree.body)))


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("trips", "has 2 turns, not one an iteration"),
        ("unlike", "which is not like it"),
        ("outside", "it has its turns in a host loop that is not around this"),
    ],
)
def test_rules_of_the_tree(which: str, said: str) -> None:
    with pytest.raises(InternalError, match=said):
        check_tree(broken(planned(JACOBI).tree, which))
