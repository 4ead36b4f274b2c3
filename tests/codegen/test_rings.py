"""Rows of windows come round in two ways: ROTATED loops are written out until each row has a place of its
own, SHIFTED ones once, and the rows move."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ptx_runs import run

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.tree.looptree import STREAMED, Loop, LoopTree, Mapping, TreeNode
from loopfuse.tree.walk import map_nodes, walk_nodes

BLUR = """
kernel f(a: {type}[H, W], out c: {type}[H, W]):
    temp b: {type}[H, W]
    for y in 0..H, x in 0..W:
        b[y, x] = a.clamp[y-2, x] + a.clamp[y, x-1] - a.clamp[y+1, x+1]
    for y in 0..H, x in 0..W:
        c[y, x] = b.reflect[y-1, x] - b.reflect[y+2, x] * b.reflect[y, x+1]
"""


def planned(text: str) -> pipeline.Planned:
    program = pipeline.read_program(Source("f.lf", text))
    return pipeline.plan_kernel(program, "f", Options(target=Target("sm_90")))


def streamed(tree: LoopTree) -> list[Mapping]:
    """How each tile's steps run, in the order of the text."""
    return [
        node.mapping
        for launch in tree.launches
        for node in walk_nodes(launch.body)
        if isinstance(node, Loop) and node.mapping in STREAMED
    ]


def with_all(tree: LoopTree, mapping: Mapping) -> LoopTree:
    """The tree with all steps of tiles run so."""

    def one(node: TreeNode) -> tuple[TreeNode, ...]:
        is_steps = isinstance(node, Loop) and node.mapping in STREAMED
        return (replace(node, mapping=mapping),) if is_steps else (node,)

    return map_nodes(one, tree)


def all_tiles(made: pipeline.Planned, mapping: Mapping) -> pipeline.Planned:
    """The plan with that tree."""
    return replace(made, scheduled=replace(made.scheduled, tree=with_all(made.tree, mapping)))


def test_border_tiles_are_written_once() -> None:
    found = streamed(planned(BLUR.format(type="f32")).tree)
    assert found[:-1] == [Mapping.ROTATED] * (len(found) - 1) and found[-1] is Mapping.SHIFTED


@pytest.mark.parametrize("type_", ["f16", "u8"])
def test_wide_strips_have_many_border_tiles(type_: str) -> None:
    assert set(streamed(planned(BLUR.format(type=type_)).tree)) == {Mapping.ROTATED}


def test_a_shifted_loop_is_a_fraction_of_the_code() -> None:
    made = planned(BLUR.format(type="f32"))
    program = pipeline.read_program(Source("f.lf", BLUR.format(type="f32")))
    options = Options(target=Target("sm_90"))
    sizes: dict[Mapping, int] = {}
    for mapping in STREAMED:
        code = pipeline.compile_kernel(
            program, "f", options, emit={"llvm"}, planned=all_tiles(made, mapping)
        )
        sizes[mapping] = len(code.llvm.splitlines())
    assert sizes[Mapping.SHIFTED] < sizes[Mapping.ROTATED] / 2


@pytest.mark.parametrize("mapping", STREAMED, ids=[each.value for each in STREAMED])
@pytest.mark.parametrize(("height", "width", "offset"), [(5, 7, 0), (23, 264, 0), (21, 263, 1)])
def test_both_compute_the_same(
    mapping: Mapping, height: int, width: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tiles one way, the PTX run against the interpreter, bit for bit."""
    plan = pipeline.plan_kernel

    def changed(*args: object, **named: object) -> pipeline.Planned:
        return all_tiles(plan(*args, **named), mapping)  # pyright: ignore

    monkeypatch.setattr(pipeline, "plan_kernel", changed)
    tuning = Tuning(columns=4, rows=4, warps=1, ahead=0)
    text = f"# all {mapping.value}\n{BLUR.format(type='f32')}"  # the machine's cache goes by the text
    stored = run(text, tuning, {"H": height, "W": width}, offset)
    assert stored
