"""Each named way of breaking a tree is rejected, and really is one; the table of them all.

`pytest -s tests/plan/test_mutation_table.py` prints it; `python -m tests.plan.test_mutation_table`
writes docs/checking-mutations.md.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from loopfuse.proof.check import verify
from tests.plan import (
    mutate_affine,
    mutate_beside,
    mutate_blocks,
    mutate_borders,
    mutate_both,
    mutate_coalesce,
    mutate_collapse,
    mutate_columns,
    mutate_contract,
    mutate_data,
    mutate_edges,
    mutate_headers,
    mutate_histogram,
    mutate_kept,
    mutate_late,
    mutate_linear,
    mutate_lines,
    mutate_one_pass,
    mutate_planes,
    mutate_planned,
    mutate_prefetch,
    mutate_reductions,
    mutate_registers,
    mutate_running,
    mutate_scan,
    mutate_strips,
    mutate_turns,
    mutate_windows,
    mutate_written,
)
from tests.plan.mutate_table import (
    ORDERS,
    Base,
    Outcome,
    Row,
    arguments,
    equal,
    interpreted,
    judge,
    make_page,
    print_table,
    run,
    shown_wrong,
)

PAGE = Path(__file__).parents[2] / "docs" / "checking-mutations.md"
ROOMS = (
    mutate_written, mutate_planned, mutate_data, mutate_reductions, mutate_headers, mutate_windows,
    mutate_kept, mutate_planes, mutate_lines, mutate_blocks, mutate_late, mutate_edges, mutate_beside,
    mutate_strips, mutate_registers, mutate_collapse, mutate_coalesce, mutate_borders, mutate_turns,
    mutate_prefetch, mutate_contract, mutate_scan, mutate_linear, mutate_histogram, mutate_columns,
    mutate_affine, mutate_one_pass, mutate_both, mutate_running,
)  # fmt: skip
BASES: dict[str, Base] = {base.name: base for room in ROOMS for base in room.BASES}
ROWS: dict[str, Row] = {f"{row.base}: {row.name}": row for room in ROOMS for row in room.ROWS}
assert len(BASES) == sum(len(room.BASES) for room in ROOMS), "two bases have one name"

UNKNOWN = {
    # Not the program's order: then an update of a sum might be in another order, and these are no plain sums of one buffer.
    "cholesky in tiles cpu: tiles before the columns that they read",
    "cholesky in tiles cpu: columns before their own block",
    "cholesky in tiles cpu: panel not packed",
    "cholesky in tiles cpu: panel one step short",
    "cholesky in tiles cpu: sums not put back",
    "cholesky in tiles cpu: tile one step short",
    "cholesky in tiles cpu: points of a cut tile left out",
    "cholesky in tiles cpu: sum of a point not put back",
    "cholesky in tiles cpu: columns of tiles left out",
    "cholesky in tiles cpu: strip of rows left out",
    "cholesky in tiles cpu: diagonal left out",
    "lu in tiles cpu: tiles before the factors that they read",
    "lu in tiles cpu: tiles before the rows that they read",
    "total_ticket: ticket counts too few blocks",
    "total_ticket: counter of its own for each block",
    "total_ticket: counter outside its buffer",
    "total_ticket: ticket counter used as storage",
    "scatter_add gpu: updates backwards",
    "own cpu: gather before what it gathers",
    "own cpu: gathered elements missing",
    "turns cpu: gather of the iteration before",
    "turns cpu: copy filled for the first iteration only",
    "turns cpu: copy filled but for its last element",
    "scattered cpu: gather before what it gathers",
    "scattered cpu: gather from the first iteration's copy",
    "apart cpu: copies in another order",
    "mirrored cpu: mirrored from another place",
    "mirrored cpu: mirrored at another edge",
    "mirrored cpu: not mirrored",
    "mirrored cpu: mirrored before it is there",
    "mirrored cpu: mirrored elements missing",
    "mirrored cpu: mirrored from the operand",
    "mixed cpu unfused: least replaced by the greatest",
    "mixed cpu unfused: differences gathered apart",
    "ragged cpu: another result only where the loop runs",
    "ragged cpu: result only where the row is not empty",
    "ragged anew cpu: value needed behind only where the loop runs",
    "ragged anew cpu: value that the loop leaves behind",
    "blur windows: store over a store",
    "blur windows: store over a store at the edges",
    "blur windows: store over a store inside",
    "blur windows: a store read back",
    "beside windows: left from a row before",
    "product cpu: sums of another row",
    "product cpu: sums of another vector",
    "product cpu: result of another row",
    "product cpu: result of another column",
    "product in place cpu: both ways",
    "gemm cpu: block not scaled",
    "triangle cpu: tile that an edge goes through left out",
    "triangle cpu: lane too few",
    "triangle cpu: lanes keep nothing",
    "running cpu: total with the carry",
    "running cpu: s stored in every round",
}
"""Rejected because the checker does not model what they do: places that depend on data are known
to be right only in the program's order, a loop whose bounds are data may leave out only iterations
of that very loop of the program, and a guard may not read data at all. Of the two ways of a tile, the
one that is compared with the other may write an element once only, and read none of them. What
elements copy from each other in a circle through memory is not followed, nor are partial results."""


@cache
def outcome(name: str) -> Outcome:
    row = ROWS[name]
    return judge(row, BASES[row.base])


@pytest.mark.parametrize("name", ROWS)
def test_mutant_is_rejected(name: str) -> None:
    found = outcome(name)
    assert found.verdict.answer == ("unknown" if name in UNKNOWN else "wrong"), found.verdict
    assert len(found.verdict.checks) == len(found.verdict.findings) > 0
    assert not any("isl" in finding for finding in found.verdict.findings)


@pytest.mark.parametrize("name", ROWS)
def test_mutant_computes_something_wrong(name: str) -> None:
    """Each mistake shows on the interpreter: in some order of the threads, at some size."""
    row = ROWS[name]
    shown = shown_wrong(row, BASES[row.base])
    assert bool(shown) != bool(row.harmless), shown or "it is right"


@pytest.mark.parametrize("name", BASES)
def test_tree_before_the_change_is_proved_and_right(name: str) -> None:
    """Whatever the order of the threads, with the bits that the program has where no reduction's
    order changed."""
    made = BASES[name].make()
    verdict = verify(made.program, made.dependences, made.tree)
    assert verdict.answer == "proved" and verdict.findings == () == verdict.checks
    exact = verify(made.program, made.dependences, made.tree, False).answer == "proved"
    for sizes in BASES[name].sizes:
        given = arguments(made, sizes)
        right = run(made.tree, given, sizes, "forward", True)
        for order in ORDERS:
            found = run(made.tree, given, sizes, order, order == "forward")
            assert all(equal(found[key], value) for key, value in right.items())
        for key, value in interpreted(made, given, sizes).items():
            if exact:
                assert equal(right[key], value), key
            else:
                tolerance = 1e-4 if value.dtype.itemsize < 8 else 1e-11
                assert np.allclose(right[key], value, tolerance, tolerance), key


def test_there_are_many_and_all_kinds_of_checks_reject_some() -> None:
    outcomes = [outcome(name) for name in ROWS]
    assert len(ROWS) == sum(len(room.ROWS) for room in ROOMS) >= 50
    rejected_by = {each.check for each in outcomes}
    assert rejected_by >= {
        "form", "instance", "value", "bounds", "race", "read", "result", "reduction", "vector", "flag",
        "header",
    }  # fmt: skip


def test_page_names_every_row() -> None:
    """What became of each, `-m slow` compares: that takes a minute."""
    text = PAGE.read_text("utf-8")
    for row in ROWS.values():
        assert row.name in text, f"{row.name}: run python -m tests.plan.test_mutation_table"


def test_what_the_page_calls_unknown_is_expected() -> None:
    """Whichever mutants a run takes."""
    base, found = "", set[str]()
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            base = line.removeprefix("## ")
        elif "(unknown)" in line:
            found.add(f"{base}: {line.split(' | ')[0].removeprefix('| ')}")
    assert found == UNKNOWN


def test_page_is_current() -> None:
    outcomes = [outcome(name) for name in ROWS]
    print("\n" + print_table(outcomes))
    assert PAGE.read_text("utf-8") == make_page(outcomes), (
        "run python -m tests.plan.test_mutation_table"
    )


if __name__ == "__main__":
    PAGE.write_text(make_page([outcome(name) for name in ROWS]), "utf-8")
