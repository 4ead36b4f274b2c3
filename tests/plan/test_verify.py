"""The checker: right trees are proved, each broken one is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loopfuse.base.diagnostics import InternalError
from loopfuse.poly.deps import find_dependences
from loopfuse.proof.check import Verdict, verify
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.interp.run import run_tree
from tests.plan import tree_examples as trees
from tests.plan.tree_examples import GOOD, Example


def judge(example: Example) -> Verdict:
    return verify(example.program, find_dependences(example.program), example.tree)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_right_trees_are_proved(name: str) -> None:
    verdict = judge(GOOD[name]())
    assert verdict == Verdict("proved", (), verdict.questions)
    assert verdict.questions > 3


BROKEN: dict[str, Callable[[], Example]] = {
    "pointwise: last iteration missing": lambda: trees.pointwise(upper="N - 1"),
    "pointwise: first iteration missing": lambda: trees.pointwise(lower="1"),
    "pointwise: one iteration too many": lambda: trees.pointwise(upper="N + 1"),
    "pointwise: statements swapped": lambda: trees.pointwise(swap=True),
    "pointwise: register nobody wrote": lambda: trees.pointwise(value_of="q"),
    "pointwise: guard narrowed": lambda: trees.pointwise(guard="i < N - 1"),
    "pointwise: instance off by one": lambda: trees.pointwise(second="i + 1"),
    "pointwise: result stored off by one": lambda: trees.pointwise(target="b[i + 1]"),
    "pointwise: all results in one place": lambda: trees.pointwise(target="b[0]"),
    "blur: shift off by one": lambda: trees.blur(shift=1),
    "blur: stale recomputation": lambda: trees.blur(stale=True),
    "blur: producer after its consumer": lambda: trees.blur(order=True),
    "blur: guard widened": lambda: trees.blur(guard="x < N - 1"),
    "blur: guard narrowed": lambda: trees.blur(guard="x < N - 3"),
    "blur: loop bound off by one": lambda: trees.blur(guard="", upper="N-3"),
    "blur: lower bound off by one": lambda: trees.blur(lower="1"),
    "sliding: ring a row too small": lambda: trees.sliding(rows=2),
    "sliding: consumer too early": lambda: trees.sliding(delay=0),
    "sliding: last row missing": lambda: trees.sliding(upper="H - 1"),
    "sliding: consumer too late": lambda: trees.sliding(delay=2),
    "window: a row too small": lambda: trees.window(rows=1),
    "window: wrong neighbour": lambda: trees.window(shift=2),
    "window: not unrolled enough": lambda: trees.window(rows=3),
    "matmul: first term missing": lambda: trees.matmul(start="1"),
    "matmul: last term missing": lambda: trees.matmul(upper="K - 1"),
    "matmul: accumulator not set": lambda: trees.matmul(init=False),
    "total: wrong neutral element": lambda: trees.total(start=1.0),
    "total: accumulator not set": lambda: trees.total(init=False),
    "total: partial results folded twice": lambda: trees.total(twice=True),
    "total: a partial result missing": lambda: trees.total(fold_from="1"),
    "total: fold reads past the partial results": lambda: trees.total(fold_to="4"),
    "total: no combine": lambda: trees.total(combine=False),
    "total: combined by another operation": lambda: trees.total(op="max"),
    "total: undefined copies stored too": lambda: trees.total(first_only=False),
    "total: elements read twice": lambda: trees.total(update="8*n + 4*g + k"),
    "total: every second element missing": lambda: trees.total(update="24*n + 4*g + k"),
    "total: threads overlap": lambda: trees.total(threads=8),
    "total: ticket counts too few blocks": lambda: trees.total(ticket=True, counted="2"),
    "jacobi: shifted": lambda: trees.jacobi(shift="1"),
    "jacobi: a step missing": lambda: trees.jacobi(steps="T - 1"),
    "jacobi: reads the array it writes": lambda: trees.jacobi(inplace=True),
    "jacobi: both halves in one launch": lambda: trees.jacobi(one_launch=True),
    "jacobi: launches swapped": lambda: trees.jacobi(swap=True),
    "tile: no barrier": lambda: trees.tile(barrier=False),
    "tile: too narrow": lambda: trees.tile(width=7),
    "tile: half a halo": lambda: trees.tile(halo=0),
    "tile: halo unguarded": lambda: trees.tile(guard=False),
    "tile_loop: second barrier missing": lambda: trees.tile_loop("first"),
    "tile_loop: first barrier missing": lambda: trees.tile_loop("second"),
    "tile_loop: barrier in divergent code": lambda: trees.tile_loop("divergent"),
    "lanes: wrong neighbour": lambda: trees.lanes(reach=2),
    "lanes: strip too narrow": lambda: trees.lanes(columns=1),
}
"""Trees with one mistake each, by name."""

UNKNOWN = {"total: ticket counts too few blocks"}
"""Rejected because the checker does not model what they do."""

HARMLESS = {"pointwise: instance off by one"}
"""Wrong in what they claim only: the claimed iteration does not occur in the value."""


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_trees_are_rejected(name: str) -> None:
    verdict = judge(BROKEN[name]())
    assert verdict.answer == ("unknown" if name in UNKNOWN else "wrong"), verdict
    assert verdict.findings and not any("isl" in finding for finding in verdict.findings)


@pytest.mark.parametrize("name", sorted(set(BROKEN) - HARMLESS))
def test_broken_trees_really_are_broken(name: str) -> None:
    """Each mistake shows on the interpreter, in some order of the threads, at some size."""
    example = BROKEN[name]()
    arguments = example.arguments()
    right = example.expected(arguments)
    for order in ("forward", "reverse", "shuffled"):
        given = {key: value.copy() for key, value in arguments.items()}
        try:
            check_tree(example.tree)
            run_tree(example.tree, given, example.sizes, order=order)
        except InternalError:
            return
        if any(not np.array_equal(given[key], value) for key, value in right.items()):
            return
    pytest.fail("the tree computes the right thing")


def test_findings_name_statement_read_and_example() -> None:
    verdict = judge(trees.blur(shift=1))
    assert len(verdict.findings) == 1
    assert "S2 reading t[" in verdict.findings[0]
    assert "N=" in verdict.findings[0]


def test_another_order_of_a_reduction_is_wrong_where_it_is_not_allowed() -> None:
    for name, answer in (("total", "wrong"), ("matmul", "proved")):
        example = GOOD[name]()
        deps = find_dependences(example.program)
        assert verify(example.program, deps, example.tree, False).answer == answer
        assert verify(example.program, deps, example.tree, True).answer == "proved"
