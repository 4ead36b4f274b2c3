"""`verify --bisect` names exactly the fusion whose code was broken, and no other."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from loopfuse import pipeline
from loopfuse.cli import _run
from loopfuse.lang.nodes import Unary
from loopfuse.tree.looptree import Compute

STAGES = 7
PROGRAM = "kernel chain(x: f32[N], out y: f32[N]):\n" + "".join(
    f"    temp t{k}: f32[N]\n" for k in range(STAGES)
) + "".join(
    f"    for i in 0..N:\n        t{k}[i] = {'x' if k == 0 else f't{k - 1}'}[i] * 1.5 + {k + 1}.0\n"
    for k in range(STAGES)
) + f"    for i in 0..N:\n        y[i] = t{STAGES - 1}[i] - 1.0\n"  # fmt: skip


def broken(node: Any, statement: str) -> Any:
    """The tree with the value of a statement negated wherever it is computed."""
    if isinstance(node, Compute) and node.statement == statement:
        return replace(node, value=Unary("neg", node.value, node.value.dtype))
    if isinstance(node, tuple):
        return tuple(broken(one, statement) for one in node)
    if is_dataclass(node) and hasattr(node, "body"):
        return replace(node, body=broken(node.body, statement))  # pyright: ignore
    if is_dataclass(node) and hasattr(node, "then"):
        return replace(  # pyright: ignore
            node, then=broken(node.then, statement), otherwise=broken(node.otherwise, statement)
        )
    return node


def plant(monkeypatch: pytest.MonkeyPatch, guilty: tuple[str, str] | None, statement: str) -> None:
    """Break `statement`, after the checker, in every plan that fuses the two loops (or in all)."""
    honest = pipeline.plan_kernel

    def plan(*args: Any, **kwargs: Any) -> Any:
        planned = honest(*args, **kwargs)
        pairs = [one.between for one in planned.plan.decisions if one.fused]
        if guilty is not None and guilty not in pairs:
            return planned
        tree = broken(planned.tree, statement)
        assert tree != planned.tree
        return replace(planned, scheduled=replace(planned.scheduled, tree=tree))

    monkeypatch.setattr(pipeline, "plan_kernel", plan)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    monkeypatch.delenv("LOOPFUSE_FUEL", raising=False)
    (tmp_path / "chain.lf").write_text(PROGRAM)


def bisect(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    code = _run(["verify", "chain.lf", "--bisect", "--target", "cpu", "--size", "N=9"])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    "number", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3, 5, 6, STAGES))]
)
def test_the_guilty_fusion_is_named(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = (f"L{number}", f"L{number + 1}")
    plant(monkeypatch, pair, f"S{number + 1}")
    code, text = bisect(capsys)
    assert code == 70, text
    head, fusion, finding = text.splitlines()[:3]
    assert head == (
        f"chain  fusion {number} of {STAGES} is guilty: LOOPFUSE_FUEL={number - 1} agrees, "
        f"LOOPFUSE_FUEL={number} does not"
    )
    assert fusion.strip().startswith(" + ".join(pair) + ": ")
    assert "y[" in finding and "N=9" in finding


def test_without_a_guilty_fusion(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = bisect(capsys)
    assert code == 0 and text == f"chain  {STAGES} fusions: all forms agree, nothing to bisect\n"
    plant(monkeypatch, None, "S3")
    code, text = bisect(capsys)
    assert code == 70 and "wrong without any fusion" in text


@pytest.mark.slow
def test_a_compiler_that_crashes_is_bisected_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest = pipeline.compile_kernel

    def compile_kernel(program: Any, name: str, options: Any, **given: Any) -> Any:
        if options.fuel is not None and options.fuel >= 3:
            raise ZeroDivisionError("inside")
        return honest(program, name, options, **given)

    monkeypatch.setattr(pipeline, "compile_kernel", compile_kernel)
    code, text = bisect(capsys)
    assert code == 70 and "fusion 3 of 7 is guilty" in text and "ZeroDivisionError: inside" in text
