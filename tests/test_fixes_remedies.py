"""Every remedy that a report prints works: what it says is done to the program by a hand that reads the
report alone, and the loops then run together (or the sweep is no longer serial)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source, UserError
from loopfuse.base.options import Options, Target
from loopfuse.plan.units.records import Decision, LoopInfo, Report
from tests.fixes.said import run_python

CHAIN = """kernel f(inout a: f32[N], out b: f32[N]):
    for i in 1..N-1:
        b[i] = a[i-1] + a[i+1]
    for i in 0..N:
        a[i] = b[i]
"""
UPDATE = """kernel f(inout u: f64[H, W], out v: f64[H, W]):
    for y in 0..H, x in 0..W:
        v[y, x] = u.clamp[y+1, x] + u.clamp[y-1, x]
    for y in 0..H:
        for x in 0..W:
            u[y, x] += 0.5*v[y, x]
"""
APART = """kernel f(x: f32[N], out y: f32[N], out z: f32[N]):
    nofuse:
        for i in 0..N:
            y[i] = x[i]
        for i in 0..N:
            z[i] = y[i]
"""
DEAR = """kernel f(x: f32[R, C], out y: f32[R, C], out z: f32[R]):
    for r in 0..R, c in 0..C:
        y[r, c] = exp(x[r, c])
    for r in 0..R:
        z[r] = sum(c in 0..C: y[r, C - 1 - c])
"""
SWEEP = """kernel f(inout a: f64[N, N], steps: i64):
    for t in 0..steps:
        for i in 1..N-1, j in 1..N-1:
            a[i, j] = 0.25*(a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1])
"""
STENCILS = """kernel f(inout u: f32[H, W], out v: f32[H, W]):
    for y in 1..H-1, x in 1..W-1:
        v[y, x] = u[y-1, x] + u[y+1, x]
    for y in 2..H-2, x in 2..W-2:
        u[y, x] = v[y-1, x] + v[y+1, x]
"""


def report_of(text: str, target: str) -> Report:
    """The report of the program's one kernel."""
    program = pipeline.read_program(Source("f.lf", text))
    return pipeline.explain_kernel(program, "f", Options(target=Target(target)))


@dataclass(frozen=True)
class Block:
    """The lines (from 0) of a loop: its header and what is indented under it."""

    first: int
    end: int


def block_of(text: str, report: Report, label: str) -> Block:
    """Where the loop of this label stands."""
    found: dict[str, LoopInfo] = {}
    left = list(report.loops)
    while left:
        one = left.pop()
        found[one.id] = one
        left += one.parts
    lines = text.split("\n")
    first = found[label].line - 1
    depth = len(lines[first]) - len(lines[first].lstrip())
    end = first + 1
    while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
        end += 1
    return Block(first, end)


def applied(text: str, report: Report, decision: Decision) -> str:
    """The program with what the remedy says done."""
    remedy = decision.remedy or ""
    lines = text.split("\n")
    codes = re.findall(r"`([^`]+)`", remedy)
    if remedy.startswith("wrap both loops"):
        blocks = [block_of(text, report, label) for label in decision.between]
        first, end = min(b.first for b in blocks), max(b.end for b in blocks)
        indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
        inner = ["    " + line for line in lines[first:end]]
        return "\n".join([*lines[:first], indent + codes[0], *inner, *lines[end:]])
    if remedy.startswith("remove the"):
        at = next(k for k, line in enumerate(lines) if line.strip() == codes[0])
        depth = len(lines[at]) - len(lines[at].lstrip())
        for k in range(at + 1, len(lines)):
            if len(lines[k]) - len(lines[k].lstrip()) > depth:
                lines[k] = lines[k][4:]
        return "\n".join([*lines[:at], *lines[at + 1 :]])
    found = re.match(
        r"let (it|L[\d.]+) write a new array (?:`(?P<new>\w+)` )?instead of `(?P<array>\w+)`"
        r"(?:, and `(?P<swap>swap \w+, \w+)` after each sweep)?",
        remedy,
    )
    assert found is not None, remedy
    new, mode = found["new"] or "new", "inout" if found["swap"] else "out"
    label = decision.between[0] if found[1] == "it" else found[1]
    array, block = found["array"], block_of(text, report, label)
    declared = re.search(rf"{array}: ([^\]]*\])", text)
    assert declared is not None
    for k in range(block.first, block.end):
        lines[k] = re.sub(
            rf"^( +){array}\[([^=]*)\] ([-+*/]?)= (.*)",
            lambda m: f"{m[1]}{new}[{m[2]}] = " + (f"{array}[{m[2]}] {m[3]} ({m[4]})" if m[3] else m[4]),
            lines[k],
        )
    if found["swap"]:  # the last thing that a time step does
        inner = lines[block.first + 1]
        lines.insert(block.end, inner[: len(inner) - len(inner.lstrip())] + found["swap"])
    return "\n".join(lines).replace(f"{declared[0]}", f"{declared[0]}, {mode} {new}: {declared[1]}", 1)


def first_with_remedy(report: Report) -> Decision | None:
    return next((one for one in report.decisions if one.remedy), None)


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHAIN, "new array"),
        (UPDATE, "fuse:"),
        (APART, "remove the `nofuse:` block"),
        (DEAR, "fuse:"),
        (STENCILS, "fuse:"),
    ],
    ids=("chain", "update", "apart", "dear", "stencils"),
)
def test_the_loops_then_run_together(text: str, words: str, target: str) -> None:
    before = report_of(text, target)
    if text is DEAR and target == "cpu":
        assert all(one.fused for one in before.decisions)  # it is not dear there
        return
    found = [one for one in before.decisions if one.remedy]
    assert found and not any(one.fused for one in found), before.decisions
    assert any(words in (one.remedy or "") for one in found)
    for decision in found:
        changed = applied(text, before, decision)
        after = report_of(changed, target)
        together = [one for one in after.decisions if set(one.between) == set(decision.between)]
        assert any(one.fused for one in together), (changed, after.decisions)


def test_the_sweep_is_then_no_longer_serial() -> None:
    before = report_of(SWEEP, "sm_90")
    decision = first_with_remedy(before)
    assert decision is not None and "one thread" in decision.reason
    after = report_of(applied(SWEEP, before, decision), "sm_90")
    assert not any("one thread" in one.reason for one in after.decisions)


PYTHON = '''
import numpy as np
import loopfuse


@loopfuse.kernel
def f(x: loopfuse.f32["R", "C"], y: loopfuse.f32["R", "C"], z: loopfuse.f32["R"]):
    {}
        for r in range(x.shape[0]):
            for c in range(x.shape[1]):
                y[r, c] = np.exp(x[r, c])
        for r in range(x.shape[0]):
            s = 0.0
            for c in range(x.shape[1]):
                s += y[r, x.shape[1] - 1 - c]
            z[r] = s
'''


def test_a_python_kernel_is_told_of_its_own_blocks() -> None:
    """`nofuse` is to be removed; without it the fusion is dear, and the block that is proposed makes it."""
    apart = PYTHON.format("with loopfuse.nofuse():")
    (decision,) = run_python(apart)["f"].explain(target="sm_90").report.decisions
    assert decision.remedy == "remove the `with loopfuse.nofuse():` block"
    removed = re.findall(r"`([^`]+)`", decision.remedy)[0]
    plain = apart.replace(removed, "if True:")
    (decision,) = run_python(plain)["f"].explain(target="sm_90").report.decisions
    assert not decision.fused and "`" in decision.remedy
    wrapped = plain.replace("if True:", re.findall(r"`([^`]+)`", decision.remedy)[0])
    (decision,) = run_python(wrapped)["f"].explain(target="sm_90").report.decisions
    assert decision.fused


def test_a_loop_that_is_not_parallel() -> None:
    text = PYTHON.split("@")[0] + (
        "@loopfuse.kernel\ndef f(x: loopfuse.f32['N']):\n"
        "    for i in loopfuse.prange(1, len(x)):\n        x[i] += x[i - 1]\n"
    )
    with pytest.raises(UserError) as caught:
        run_python(text)["f"].explain(target="cpu")
    new, old = re.findall(r"`([^`]+)`", caught.value.diagnostics[0].fix)
    run_python(text.replace(old, new))["f"].explain(target="cpu")
