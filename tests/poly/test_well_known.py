"""PolyBench, the Livermore kernels and their like: every dependence isl finds against every one that happens."""

from __future__ import annotations

import sys
from pathlib import Path

import brute
import pytest
from test_deps_random import check_live_out, check_pairs, check_pairs_covered, check_sources

from loopfuse import pipeline
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from case_files import Case, read_suites

DEPEND_ON_DATA = {"02_iccg", "04_banded", "13_particles_2d", "14_particles_1d", "24_first_minimum", "kmeans_update", "spmv_ell"}
"""Places depend on data: enumeration does not know them."""
CHANGE_THEIR_CONDITION = {"17_implicit_conditional", "mandelbrot"}
"""What a condition reads is overwritten under it: it is saved first, which enumeration does not do."""
PROGRAMS = tuple(
    case for case in read_suites() if case.name not in DEPEND_ON_DATA and case.name not in CHANGE_THEIR_CONDITION
)
MOST = 5
"""The largest size that is enumerated."""


def named(case: Case) -> str:
    """How pytest shows a program."""
    return case.title


@pytest.mark.parametrize("case", PROGRAMS, ids=named)
def test_dependences_are_what_happens(case: Case) -> None:
    """At the small sizes of its head, none of them above 5, and two steps."""
    (kernel,) = pipeline.read_program(case.source).kernels
    program = build_model(kernel)
    deps = find_dependences(program, operations=10_000_000)
    assert deps.complete, deps.why
    certain = all(statement.predicate is None and statement.write.exact for statement in program.statements)
    integers = {param.name: 2 for param in kernel.scalars if param.dtype.is_integer}
    for given in case.sizes:
        sizes = {name: min(value, MOST) for name, value in given.items()} | integers
        if certain:
            found = brute.find(brute.trace(kernel, sizes))
            check_pairs(program, deps, found, sizes)
            check_live_out(program, deps, found, sizes)
            check_sources(program, deps, found, sizes)
            continue
        may = find_dependences(program, may=True, operations=10_000_000)
        for salt in range(3):

            def decide(name: str, at: tuple[int, ...], salt: int = salt) -> bool:
                return hash((salt, at)) % 3 != 0

            found = brute.find(brute.trace(kernel, sizes, decide))
            check_pairs_covered(program, may, found, sizes)
