"""Every program as a plain Python function: CPython computes the bits of `fp="strict",
reassociate=False`, and the Python door reads the function as the program it was printed from.

Cases and examples, and 60 random programs in a default run: `LOOPFUSE_RANDOM_PYTHON=5000` runs more
(under `-m slow`), `LOOPFUSE_RANDOM_SEED=7` others. What CPython may do otherwise, python_names.py
lists.
"""

from __future__ import annotations

import os

import engines
import numpy as np
import pytest
import references
from case_files import Case, assert_same, make_arguments, read_cases, read_examples, read_suites
from fuzz.arguments import arguments_of
from fuzz.choices import RandomChoices
from fuzz.generate import generate
from fuzz.program import Program
from python_names import door_names
from python_run import define, normal, python_form, run_door, run_plain, run_text, through_door

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError, Source

PROGRAMS = tuple(case for case in read_cases() if case.error is None) + read_examples() + read_suites()
COUNT = int(os.environ.get("LOOPFUSE_RANDOM_PYTHON", "1000"))
SEED = int(os.environ.get("LOOPFUSE_RANDOM_SEED", "0"))

DIFFERENT = {
    "choice_of_one": "`.zero` is a condition",
    "const_parameter": "a const parameter is a constant of the enclosing scope",
    "const_table_unrolled": "a sum over a table is a loop",
    "data_gather_modes": "`.zero` is a condition",
    "fuzz_mirrored_under_conditions": "a greatest f16 is held as one, not as an f32",
    "fuzz_guarded_partial_sums": "a sum in one arm of a conditional is made before it",
    "table_chosen": "a sum over a table is a loop",
    "time_planes_zero": "`.zero` is a condition",
    "windows_depthwise": "`.zero` is a condition",
    "lines_chain": "`.zero` is a condition",
    "fuzz_makes_no_window": "`.zero` is a condition",
    "lanes_beside_a_fixed_choice": "`.zero` is a condition",
    "fuzz_minimum_of_earlier_elements": "a sum in one arm of a conditional is made before it",
    "fuzz_mirrored_two_ways": "a const parameter is a constant of the enclosing scope",
    "fuzz_output_far_behind": "`.zero` is a condition",
    "fuzz_outputs_behind_their_window": "`.zero` is a condition",
    "fuzz_recomputed_edge_under_data": "`.zero` is a condition",
    "fuzz_recomputed_running_sum": "a product of f16 is held as one, not as an f32",
    "fuzz_shifted_before_overwritten": "`.zero` is a condition",
    "depthwise_conv": "`.zero` is a condition",
    "edge_chain_all_modes": "`.zero` is a condition",
    "edge_integer_and_bool": "`.zero` is a condition",
    "edge_zero": "`.zero` is a condition",
    "f16_softmax": "a greatest f16 is held as one, not as an f32",
    "kmeans_assign": "argmin is a comparison in a loop",
    "let_and_var": "a variable that only sums is a sum",
    "narrow_reductions": "`any` is a variable",
    "parallel_for": "a variable that only sums is a sum",
    "private_never_written_under_data": "a least in one arm of a conditional is made before it",
    "fuzz_masked_under_its_own_mask": "a sum over a table is a loop",
    "partly_computed_anew": "a value that no path reads is a local of its own",
    "reduce_arg": "argmin is a comparison in a loop",
    "rows_of_halves": "`any` is a variable",
    "reduce_each_kind": "`any` is a variable",
    "reduce_in_condition": "`any` is a variable",
    "reduce_nested": "`all` is a variable",
    "selective_scan": "a variable that only sums is a sum",
    "statement_outside_loops": "a variable that only sums is a sum",
    "strided_conv": "`.zero` is a condition",
    "10_difference_predictors": "a variable that is set again is another `let`",
    "13_particles_2d": "a variable that is set again is another `let`",
    "durbin": "a variable that only sums is a sum",
    "gramschmidt": "a variable that only sums is a sum",
}
"""Programs of which the door makes another core program, with the same bits."""


def named(case: Case) -> str:
    """How pytest shows a case."""
    return case.title


@pytest.mark.filterwarnings("ignore")  # promotions; NumPy's of overflow
@pytest.mark.parametrize("case", PROGRAMS, ids=named)
def test_python_form(case: Case) -> None:
    """CPython = interpreter; the door reads the same program, or one of the same bits."""
    same = True
    for kernel in engines.read(case.source, "strict").kernels:
        form = python_form(case.source, kernel.name, case.scalars)
        found = through_door(form)
        is_same = normal(kernel) == normal(found.program().kernels[0])
        same &= is_same
        for sizes in (case.sizes or ({},))[:1]:
            arguments = make_arguments(kernel, sizes, case.scalars, case.data)
            arguments = references.prepare(kernel.name, arguments)
            expected = engines.interpret(kernel, arguments, sizes)
            who = f"{kernel.name} {sizes}"
            assert_same(kernel, expected, run_plain(form, kernel, arguments), f"{who}: CPython")
            if not is_same:
                got = run_door(found, form, kernel, arguments)
                assert_same(kernel, expected, got, f"{who}: the Python door, compiled")
    assert same == (case.name not in DIFFERENT), DIFFERENT.get(case.name, "another program")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", PROGRAMS, ids=named)
def test_strict_code_is_cpython(case: Case) -> None:
    """CPython = the .lf text compiled in strict order, at every size."""
    for kernel in engines.read(case.source, "strict").kernels:
        form = python_form(case.source, kernel.name, case.scalars)
        for sizes in case.sizes or ({},):
            for data in (case.data, "special"):
                arguments = make_arguments(kernel, sizes, case.scalars, data)
                arguments = references.prepare(kernel.name, arguments)
                expected = run_plain(form, kernel, arguments)
                try:
                    got = run_text(case.source, kernel, arguments, sizes)
                except LoopfuseError as error:
                    assert is_outside(error), error
                    continue
                assert_same(kernel, expected, got, f"{kernel.name} {sizes} {data}")


def is_outside(error: LoopfuseError) -> bool:
    """Is it about a subscript outside its array? CPython counts some of those from the end."""
    return error.diagnostics[0].code in ("subscript-out-of-range", "subscript-range")


def compare(program: Program) -> None:
    """CPython = interpreter = compiled, of the text and of what the door reads."""
    if program.faults:
        return  # a bad subscript is an IndexError in CPython
    source = Source("random.lf", program.text)
    try:
        kernel = engines.read(source, "strict").kernels[0]
    except LoopfuseError:
        return  # what is refused is test_random_programs' business
    arguments = arguments_of(program, kernel)
    form = python_form(source, kernel.name, program.scalars)
    plain = run_plain(form, kernel, arguments)
    interpreted = engines.interpret(kernel, arguments, program.sizes)
    assert_same(kernel, plain, interpreted, f"interpreter\n{program}\n{form.text}")
    try:
        got = run_text(source, kernel, arguments, program.sizes)
    except LoopfuseError as error:
        assert is_outside(error), error
        return
    assert_same(kernel, plain, got, f"compiled\n{program}\n{form.text}")
    found = through_door(form)
    if normal(kernel) != normal(found.program().kernels[0]):
        got = run_door(found, form, kernel, arguments)
        assert_same(kernel, plain, got, f"the Python door, compiled\n{program}\n{form.text}")


def run_random(count: int, number: int) -> None:
    """`count` random programs."""
    for k in range(count):
        compare(generate(RandomChoices(f"python {SEED} {number} {k}")))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(4))
def test_random_programs_in_python(number: int) -> None:
    """60 of them, in chunks that workers share."""
    run_random(15, number)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(100, 108))
def test_many_random_programs_in_python(number: int) -> None:
    """LOOPFUSE_RANDOM_PYTHON of them."""
    run_random(max(1, COUNT // 8), number)


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_answer_would_be_seen() -> None:
    """A program printed with one sign wrong fails each comparison."""
    source = Source(
        "random.lf",
        "kernel k(a: f32[N], out b: f32[N]):\n    for i in 0..N:\n        b[i] = a[i] - 1.0\n",
    )
    wrong = Source("random.lf", source.text.replace("- 1.0", "+ 1.0"))
    kernel = engines.read(source, "strict").kernels[0]
    arguments = make_arguments(kernel, {"N": 4}, {})
    form = python_form(wrong, "k")
    with pytest.raises(AssertionError, match="CPython"):
        expected = engines.interpret(kernel, arguments, {"N": 4})
        assert_same(kernel, expected, run_plain(form, kernel, arguments), "CPython")
    assert normal(kernel) != normal(through_door(form).program().kernels[0])


def test_types_imported_by_name() -> None:
    """`from numpy import float32`, then `float32(x)`: once a TypeError about `tobytes`."""
    text = (
        "def halve(x: f64['N'], y: f64['N']):\n"
        "    for i in range(x.shape[0]):\n"
        "        y[i] = to_int32(x[i])\n"
    )
    function = define(text, "halve", door_names())
    x, y = np.array([1.5, -2.5]), np.zeros(2)
    loopfuse.kernel(function)(x, y)
    assert y.tolist() == [1.0, -2.0]
