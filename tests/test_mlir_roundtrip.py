"""Our own export imports back to the same program: every case and every example.

"The same" is the same core text, blind to labels and to the names of iterators and local scalars,
with sums of subscripts, bounds and conditions in one order. What comes back otherwise is listed
with the reason; its results are compared instead, and a second trip changes nothing.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import engines
import numpy as np
import pytest
from case_files import Case, assert_same, make_arguments, read_cases, read_examples, read_suites
from python_run import normal

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.codegen.upstream.affine import emit_affine
from loopfuse.lang import nodes
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Unary
from loopfuse.lang.printer import print_expr
from loopfuse.lang.walk import map_expr, map_stmt_expressions

SWAP = "an access after a `swap` is a choice between two arrays"
BOUNDS = "the bounds of a loop over data that does not step by 1 are parts of its count"
SIGN = "MLIR's integers have no sign: a choice among unsigned ones is found anew"
ADDS_UP = "a variable that is only updated by one operation is a `sum`, a `max` and so on"
UNNAMED = "MLIR has no word for `sign` and `fmod` of integers"
ROUNDED = ("math_hypot_f32", "math_hypot_f64")
"""MLIR has no word for `hypot`: its formula is rounded more often."""

DIFFERENT = {
    "math_circle_f32": UNNAMED,
    "math_circle_f64": UNNAMED,
    "math_hyperbolic_f32": UNNAMED,
    "math_hyperbolic_f64": UNNAMED,
    **dict.fromkeys(ROUNDED, "MLIR has no word for `hypot`"),
    "lattice_boltzmann": SWAP,
    "wave": SWAP,
    "game_of_life": SWAP,
    "swap_temps": SWAP,
    "time_swap": SWAP,
    "time_planes_swap": SWAP,
    "time_swap_even": SWAP,
    "lines_ring": SWAP,
    "sums_into_swapped": SWAP,
    "swap_filled": SWAP,
    "swap_in_recurrence": SWAP,
    "choice_by_two_bounds": "an affine condition beside one of data is a condition of its own",
    "data_gather_modes": "a value that depends on data and is used again is a `let`",
    "data_times_nothing": "a value that depends on data and is used again is a `let`",
    "data_ragged_backward": BOUNDS,
    "data_ragged_step": BOUNDS,
    "time_constant_steps": "swaps in a loop of constant length are conditions",
    "bool_to_number": "a conversion to bool is `!= 0`",
    "mixed_integers": SIGN,
    "dropout": SIGN,
    "multigrid_restrict": "a conjunction is read from the left",
    "parallel_for": ADDS_UP,
    "private_array_under_data": ADDS_UP,
    "private_never_written_under_data": "a condition whose first branch is empty is its negation",
    "subscript_modulo_size": "a remainder by the extent is `.wrap`",
    "durbin": ADDS_UP,
    "gramschmidt": ADDS_UP,
    "02_iccg": BOUNDS,
    "lattice_boltzmann_walls": SWAP,
    "reduce_arg": "what `argmin` comes down to has names with underscores",
}
"""Cases that do not come back as they were."""


def is_different(case: Case) -> bool:
    """Whether the case is listed, or a random program: those have `let`s that nothing reads, which
    are not exported, and other things nobody writes."""
    return case.name in DIFFERENT or case.name.startswith("fuzz_")


def programs() -> Iterator[tuple[Case, str]]:
    """Every kernel that compiles, by its name: none is parsed before its test."""
    for case in (*read_cases(), *read_examples(), *read_suites()):
        if case.error is None:
            for name in re.findall(r"^kernel (\w+)", case.source.text, re.MULTILINE):
                yield case, name


PROGRAMS = tuple(programs())


def test_every_kernel_is_here() -> None:
    """What is read as text is what the parser finds."""
    for case in {case.path: case for case, _ in PROGRAMS}.values():
        found = [kernel.name for kernel in engines.read(case.source).kernels]
        assert found == [name for one, name in PROGRAMS if one is case]


def back(kernel: nodes.Kernel) -> nodes.Kernel:
    """`kernel`, exported and imported."""
    source = Source(f"{kernel.name}.mlir", emit_affine(kernel), "mlir")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (found,) = pipeline.read_program(source).kernels
    return found


def ordered(kernel: nodes.Kernel) -> str:
    """The core text with sums and comparisons of integers in one order."""
    body = tuple(map_stmt_expressions(lambda expr: map_expr(_one, expr), s) for s in kernel.body)
    kept = nodes.Kernel(kernel.name, kernel.params, kernel.sizes, body)
    return normal(kept)


def _one(expr: Expr) -> Expr:
    match expr:
        case Binary(op="add" | "sub" | "mul", dtype=DType.I64) | Unary(op="neg", dtype=DType.I64):
            return _sum(*_parts(expr))
        case Compare(op=op, left=left, right=right) if left.dtype is DType.I64:
            flipped = {"gt": "lt", "ge": "le"}
            if op in flipped:
                op, left, right = flipped[op], right, left
            atoms, constant = _parts(Binary("sub", left, right, DType.I64))
            if op == "lt":
                op, constant = "le", constant + 1
            first = min(atoms, default="")
            if op == "eq" and atoms and atoms[first][1] < 0:
                atoms = {key: (atom, -value) for key, (atom, value) in atoms.items()}
                constant = -constant
            return Compare(op, _sum(atoms, constant), Const(0, DType.I64))
        case _:
            return expr


def _parts(expr: Expr) -> tuple[dict[str, tuple[Expr, int]], int]:
    match expr:
        case Const(value=value):
            return {}, int(value)
        case Unary(op="neg", operand=operand):
            return _scaled(_parts(operand), -1)
        case Binary(op="add" | "sub" as op, left=left, right=right, dtype=DType.I64):
            atoms, constant = _parts(left)
            others, more = _scaled(_parts(right), 1 if op == "add" else -1)
            for key, (atom, value) in others.items():
                held = atoms.get(key, (atom, 0))[1] + value
                atoms = {**atoms, key: (atom, held)}
            return {key: pair for key, pair in atoms.items() if pair[1]}, constant + more
        case Binary(op="mul", left=left, right=right, dtype=DType.I64):
            a, b = _parts(left), _parts(right)
            if not a[0]:
                return _scaled(b, a[1])
            if not b[0]:
                return _scaled(a, b[1])
    return {print_expr(expr): (expr, 1)}, 0


def _scaled(
    parts: tuple[dict[str, tuple[Expr, int]], int], factor: int
) -> tuple[dict[str, tuple[Expr, int]], int]:
    atoms, constant = parts
    scaled = {key: (atom, value * factor) for key, (atom, value) in atoms.items()}
    return scaled if factor else {}, constant * factor


def _sum(atoms: dict[str, tuple[Expr, int]], constant: int) -> Expr:
    out: Expr | None = None
    for key in sorted(atoms):
        atom, value = atoms[key]
        part = Binary("mul", Const(value, DType.I64), atom, DType.I64)
        out = part if out is None else Binary("add", out, part, DType.I64)
    last = Const(constant, DType.I64)
    return last if out is None else Binary("add", out, last, DType.I64)


@pytest.mark.parametrize(
    ("case", "name"), PROGRAMS, ids=[f"{case.name}-{name}" for case, name in PROGRAMS]
)
def test_export_imports_back(case: Case, name: str) -> None:
    """The same program, or one of the same results that comes back as it is."""
    kernel = engines.read(case.source).kernel(name)
    again = back(kernel)
    same = ordered(again) == ordered(kernel)
    if not is_different(case):
        assert same, f"{ordered(kernel)}\n\n{ordered(again)}"
    if same:
        return
    twice = back(again)
    assert ordered(twice) == ordered(again)
    for sizes in case.sizes or ({},):
        arguments = make_arguments(kernel, sizes, case.scalars, case.data)
        expected = engines.interpret(kernel, arguments, sizes)
        got = engines.interpret(again, arguments, sizes)
        if case.name in ROUNDED:
            for a, b in zip(expected.values(), got.values(), strict=True):
                assert np.allclose(a, b, rtol=5e-16 if a.itemsize == 8 else 5e-7, atol=0, equal_nan=True)
        else:
            assert_same(kernel, expected, got, case.name)


def test_the_list_is_not_too_long() -> None:
    """Whatever is listed does come back otherwise, at least in one of its kernels."""
    listed = {case.name: case for case, _ in PROGRAMS if case.name in DIFFERENT}
    kernels = {name: engines.read(case.source).kernels for name, case in listed.items()}
    other = {
        name for name, each in kernels.items() if any(ordered(back(one)) != ordered(one) for one in each)
    }
    assert set(listed) == other
