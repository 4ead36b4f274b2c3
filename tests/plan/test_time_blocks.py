"""Blocks of time steps: their lengths, what they do for any number of iterations, and why a loop has
none."""

from __future__ import annotations

import warnings

import pytest

from loopfuse import pipeline
from loopfuse.base.options import Tuning
from loopfuse.plan.looptree import HostLoop, Launch
from tests.plan.test_sliding import TIMES, planned, run

SWAP = TIMES["swap"]


def strategies(found: pipeline.Planned) -> list[str]:
    return [launch.strategy for launch in found.tree.launches]


def small(steps: int) -> Tuning:
    return Tuning(columns=1, rows=6, warps=1, steps=steps)


def proved(text: str, steps: int) -> pipeline.Planned:
    """The plan with blocks of `steps`; nothing may have to be planned again."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = planned(text, small(steps))
    assert found.verdict.answer == "proved"
    return found


def blocks(found: pipeline.Planned) -> list[HostLoop]:
    """The loops over blocks: pairs of windowed launches."""
    return [
        node
        for node in found.tree.body
        if isinstance(node, HostLoop)
        and [n.strategy for n in node.body if isinstance(n, Launch)] == ["sliding"] * 2
    ]


def test_a_swap_is_blocked_without_being_told() -> None:
    """One iteration reads nothing that it makes: only two and more are a block."""
    found = planned(SWAP, Tuning())
    assert found.verdict.answer == "proved"
    assert strategies(found) == ["sliding"] * 4 + ["generic"]


@pytest.mark.parametrize("steps", [2, 3, 4, 5])
def test_blocks_of_a_swap_may_have_an_odd_length(steps: int) -> None:
    """The second launch of a pair then starts with the roles exchanged."""
    found = proved(SWAP, steps)
    assert len(blocks(found)) == (2 if steps > 4 else 1)
    for count in (0, 1, steps, 2 * steps - 1, 2 * steps, 4 * steps + 1):
        run(found, {"H": 9, "W": 7}, {"n": count})
    run(found, {"H": 14, "W": 36}, {"n": 2 * steps})


def test_blocks_of_one_iteration_of_a_swap_say_why_not() -> None:
    found = proved(SWAP, 1)
    assert strategies(found) == ["generic"]
    (decision,) = found.report.decisions
    assert not decision.fused
    assert decision.reason == (
        "the iterations of `t` run one by one: blocks of 1 iteration of `t` do not fit: "
        "every other block of 1 leaves `b` as it is"
    )


@pytest.mark.parametrize(
    ("steps", "why"),
    [(12, "its windows take more registers than a thread has"),
     (40, "its halo is as wide as a strip")],
)  # fmt: skip
def test_blocks_too_long_say_so(steps: int, why: str) -> None:
    found = planned(TIMES["two arrays"], Tuning(steps=steps))
    assert found.verdict.answer == "proved"
    reason = f"blocks of {steps} iterations of `t` do not fit: {why}"
    assert found.report.decisions[-1].reason == f"the iterations of `t` run one by one: {reason}"
