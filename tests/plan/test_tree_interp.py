"""The LoopTree interpreter: right trees give NumPy's results in every order, wrong ones show."""

from __future__ import annotations

import numpy as np
import pytest

from loopfuse.base.diagnostics import InternalError
from loopfuse.tree.form.check import check_tree
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.printer import print_tree
from tests.plan import tree_examples
from tests.plan.tree_examples import GOOD, Example


def run(example: Example, order: str = "forward") -> dict[str, np.ndarray]:
    given = example.arguments()
    run_tree(example.tree, given, example.sizes, order=order)
    return given


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
@pytest.mark.parametrize("name", sorted(GOOD))
def test_right_trees_give_numpys_results_in_every_order(name: str, order: str) -> None:
    example = GOOD[name]()
    check_tree(example.tree)
    expected = example.expected(example.arguments())
    given = run(example, order)
    for array, values in expected.items():
        np.testing.assert_array_equal(given[array], values)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_printing_is_stable_and_one_node_a_line(name: str) -> None:
    first, second = print_tree(GOOD[name]().tree), print_tree(GOOD[name]().tree)
    assert first == second
    assert first.startswith(f"tree {GOOD[name]().tree.kernel} (")


def test_a_missing_barrier_shows_in_some_order() -> None:
    example = tree_examples.tile(barrier=False)
    expected = example.expected(example.arguments())["b"]
    orders = [run(example, order)["b"] for order in ("forward", "reverse", "shuffled")]
    assert any(not np.array_equal(found, expected, equal_nan=True) for found in orders)


def test_unset_storage_is_poison() -> None:
    assert np.isnan(run(tree_examples.pointwise(value_of="q"))["b"]).all()


def test_an_index_outside_its_buffer_is_an_error() -> None:
    with pytest.raises(InternalError, match="outside its extents"):
        run(tree_examples.pointwise(upper="N + 1"))


def test_printed_form() -> None:
    assert print_tree(tree_examples.pointwise().tree) == (
        "tree pointwise (cpu)\n"
        "  buffer a: f64[N] in global  # argument\n"
        "  buffer b: f64[N] in global  # argument\n"
        "  buffer r: f64[] in register  # of t\n"
        "  buffer q: f64[] in register  # of t\n"
        "  launch pointwise_0 (test)\n"
        "    thread for i in 0..N\n"
        "      S1[i]: r[] = a[i] * 2.0\n"
        "      S2[i]: b[i] = r[] + 1.0\n"
    )
