"""PolyBench, the Livermore kernels and their like: their PTX, run on the machine of `ptx_machine`, has the
interpreter's bits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import engines
import suites
from case_files import Case, assert_same, copy_arguments, read_suites
from ptx_runs import run_ptx

from loopfuse import pipeline
from loopfuse.base.options import Options, Target

PROGRAMS = read_suites()


def named(case: Case) -> str:
    """How pytest shows a program."""
    return case.title


@pytest.mark.parametrize("case", PROGRAMS, ids=named)
def test_ptx_has_the_bits(case: Case) -> None:
    """At all small sizes, reductions in the program's order."""
    program = engines.read(case.source)
    (kernel,) = program.kernels
    options = Options(target=Target("sm_90"), reassociate=False)
    made = pipeline.compile_kernel(program, kernel.name, options, emit=frozenset({"ptx"}))
    for sizes in case.sizes:
        arguments = suites.arguments_of(case, kernel, sizes)
        expected = engines.interpret(kernel, arguments, sizes)
        held = copy_arguments(arguments)
        arrays = {param.name: held[param.name] for param in kernel.arrays}
        scalars = {param.name: held[param.name].item() for param in kernel.scalars}
        run_ptx(made, arrays, {**sizes, **scalars})
        assert_same(kernel, expected, arrays, f"{case.name} {sizes}: PTX")
