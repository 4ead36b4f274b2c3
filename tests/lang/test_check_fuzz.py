"""Whatever the parser accepts gives a Program or a LoopfuseError: never a traceback."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from strategies import modules

from loopfuse.base.diagnostics import LoopfuseError, Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check
from loopfuse.lang.interp import compile_kernel
from loopfuse.lang.printer import print_program
from loopfuse.lang.surface import syntax

ROOT = Path(__file__).parents[2]
TEXTS = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.lf"))]
TEXTS += re.findall(
    r"^```lf\n(.*?)^```$",
    (ROOT / "docs" / "errors.d" / "check.md").read_text(encoding="utf-8"),
    re.M | re.S,
)
TOKEN = re.compile(r"[A-Za-z_]\w*|\d+\.\d+|\d+|\.\.|[-+*/%<>=!&|^~]+")
TOKENS = [token for text in TEXTS for token in TOKEN.findall(text)]


def survive(module: syntax.Module) -> bool:
    """Check, print and compile for the interpreter; True if there was a program."""
    try:
        program = check(module)
    except LoopfuseError as error:
        assert error.diagnostics and all(d.message and d.code for d in error.diagnostics)
        assert str(error)
        return False
    assert print_program(program) or not program.kernels
    for kernel in program.kernels:
        compile_kernel(kernel)
    return True


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(modules)
def test_random_trees(module: syntax.Module) -> None:
    survive(module)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_programs(seed: int) -> None:
    chooser = random.Random(seed)
    parsed = checked = 0
    for _ in range(150):
        text = chooser.choice(TEXTS)
        for _ in range(chooser.choice([1, 1, 2, 3])):
            match = chooser.choice(list(TOKEN.finditer(text)))
            text = text[: match.start()] + chooser.choice(TOKENS) + text[match.end() :]
        try:
            module = parse(Source("mutated.lf", text))
        except LoopfuseError:
            continue
        parsed += 1
        checked += survive(module)
    assert parsed > 10 and checked > 0
