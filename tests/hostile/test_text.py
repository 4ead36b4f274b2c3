"""Mutated programs through parser, checker, planner and code generation: only diagnostics."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pytest
from mutations import WORDS, mutate

from loopfuse.base.diagnostics import InternalError, LoopfuseError, Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.pipeline import compile_kernel, read_program

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").glob("*.lf")), *sorted((ROOT / "tests/cases").glob("*.lf"))]


def try_text(text: str, generator: random.Random) -> str:
    """Compile every kernel of `text`; `refused`, or `compiled`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = read_program(Source("mutant.lf", text))
            for kernel in program.kernels:
                target = generator.choice((CPU, Target("sm_90")))
                compile_kernel(program, kernel.name, Options(target), emit={"report", "object"})
    except InternalError:
        raise
    except LoopfuseError as error:
        assert error.diagnostics and "error[" in str(error)
        for one in error.diagnostics:
            assert one.source is not None and one.span.line > 0, one
        return "refused"
    return "compiled"


def fuzz(seed: int, count: int) -> None:
    generator = random.Random(seed)
    texts = [file.read_text() for file in FILES]
    answers = {"refused": 0, "compiled": 0}
    for _ in range(count):
        text = mutate(generator.choice(texts), generator)
        try:
            answers[try_text(text, generator)] += 1
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
    assert min(answers.values()) > count // 20, answers


def test_mutated_programs() -> None:
    fuzz(1, 80)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_mutated_programs(seed: int) -> None:
    fuzz(seed, 2500)


def test_words_in_any_order() -> None:
    generator = random.Random(3)
    for _ in range(500):
        text = " ".join(generator.choices([*WORDS, "\n", "\n    "], k=generator.randrange(1, 60)))
        try_text(text, generator)


def test_characters_in_any_order() -> None:
    generator = random.Random(4)
    for _ in range(500):
        count = generator.randrange(1, 80)
        text = "".join(chr(generator.choice((generator.randrange(1, 128), generator.randrange(1, 0xD7FF)))) for _ in range(count))
        try_text(text, generator)


BACK = "kernel k(x: f32[N], out y: f32[N], n: i64, m: i64):\n"


@pytest.mark.parametrize(
    "body",
    [
        # Found by these tests: the scalar that holds a bound was written out, but not where it
        # stood in a bound or a subscript.
        "    for i in 0..n * m:\n        y[i] = x[i]\n",
        "    for i in n * m..-1 step -1:\n        y[i] = x[i] + 1.0\n",
        "    let k = n * m\n    for i in 0..N:\n        y[k + i * n] = x[k]\n",
    ],
)
def test_products_of_parameters_as_bounds_and_subscripts(body: str) -> None:
    assert try_text(BACK + body, random.Random(0)) == "compiled"
