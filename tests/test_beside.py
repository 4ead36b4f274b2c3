"""LLVM's work beside the proof: what becomes of it when the proof says no, and that nothing is left running."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from typing import Any

import pytest

from loopfuse import pipeline
from loopfuse.base.beside import begin
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.proof.check import Verdict

TEXT = """
kernel blur(a: f32[H, W], out c: f32[H, W]):
    temp b: f32[H, W]
    for y in 0..H, x in 0..W:
        b[y, x] = a.clamp[y, x-1] + a.clamp[y, x+1]
    for y in 0..H, x in 0..W:
        c[y, x] = b.clamp[y-1, x] + b.clamp[y+1, x]
"""
PROGRAM = pipeline.read_program(Source("<test>", TEXT))
TARGETS = [CPU, Target("sm_90")]


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


def compiled(options: Options, **more: Any) -> str | bytes:
    found = pipeline.compile_kernel(PROGRAM, "blur", options, emit={"ptx", "object"}, **more)
    assert not [one for one in threading.enumerate() if one.name == "loopfuse-llvm"]
    return found.ptx or found.object


def test_what_is_begun_is_finished() -> None:
    gate = threading.Event()
    finish = begin(lambda: gate.wait(10) and 7)
    gate.set()
    assert finish() == 7 and finish() == 7


def test_an_error_comes_where_it_is_waited_for() -> None:
    finish = begin(lambda: [][0])
    with pytest.raises(IndexError):
        finish()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_code_is_what_it_is_without(target: Target) -> None:
    options = Options(target=target)
    planned = pipeline.plan_kernel(PROGRAM, "blur", options)
    assert compiled(options) == compiled(options, planned=planned)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_tree_that_is_not_proved_is_not_compiled(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first tree's code has been begun then; what is compiled is the tree that is proved."""
    verify, asked = pipeline.verify, list[object]()

    def doubtful(*arguments: Any) -> Verdict:
        asked.append(arguments)
        return Verdict("unknown", ("made to fail",)) if len(asked) == 1 else verify(*arguments)

    fused = compiled(Options(target=target))
    monkeypatch.setattr(pipeline, "verify", doubtful)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compiled(Options(target=target))
        asked.clear()
        planned = pipeline.plan_kernel(PROGRAM, "blur", Options(target=target))
    monkeypatch.undo()
    assert found == compiled(Options(target=target), planned=planned) != fused


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_tree_that_cannot_be_lowered_is_no_matter_where_it_is_not_proved(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    lower, verify, trees = pipeline.emit_module, pipeline.verify, list[object]()

    def picky(tree: Any, *more: Any) -> Any:
        if tree is trees[0]:
            raise AssertionError("cannot be lowered")
        return lower(tree, *more)

    def doubtful(program: Any, deps: Any, tree: Any, *more: Any) -> Verdict:
        return Verdict("unknown", ("made to fail",)) if tree is trees[0] else verify(program, deps, tree, *more)

    def collapsed(tree: Any) -> Any:
        trees.append(tree)
        return tree

    monkeypatch.setattr(pipeline, "as_one", collapsed)
    monkeypatch.setattr(pipeline, "emit_module", picky)
    monkeypatch.setattr(pipeline, "verify", doubtful)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(Options(target=target))
    assert len(trees) == 2


def test_an_error_of_the_plan_leaves_nothing_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Verdict:
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "verify", broken)
    with pytest.raises(KeyboardInterrupt):
        compiled(Options(target=Target("sm_90")))
    assert not [one for one in threading.enumerate() if one.name == "loopfuse-llvm"]


def test_stages_that_are_watched_run_one_after_the_other() -> None:
    run = pipeline.Run(stop_after="verify")
    with pytest.raises(pipeline.Stopped):
        pipeline.compile_kernel(PROGRAM, "blur", Options(target=CPU), run=run)
    assert "lower" not in run.seconds


def test_threads_give_way_quickly_only_meanwhile() -> None:
    usual = sys.getswitchinterval()
    gate = threading.Event()
    finishes = [begin(lambda: gate.wait(10)) for _ in range(3)]
    assert sys.getswitchinterval() < usual
    gate.set()
    assert [finish() for finish in finishes] == [True] * 3
    assert sys.getswitchinterval() == usual
