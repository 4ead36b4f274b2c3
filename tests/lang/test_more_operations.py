"""A scalar operation that is written in others is one row of `loopfuse/lang/ops.py`, and everything reads it there.

`more_operations.py` adds three rows to the table in a process of its own: `softsign`, which is `.lf`'s alone,
`logaddexp` (of two numbers) and `sinc` (of two cases), which are NumPy's too. Its program has a function `abs`
of its own, which the operations do not mean.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NAMES = ("softsign", "logaddexp", "sinc")


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    script = Path(__file__).with_name("more_operations.py")
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, "LOOPFUSE_CACHE": "0"},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.parametrize("word", ["f32", "f64"])
def test_every_way_to_run_gives_the_same_bits(facts: dict[str, Any], word: str) -> None:
    """The interpreter, the LoopTree interpreter on plans for both targets, and compiled code."""
    assert facts[f"bits {word}"] == []


@pytest.mark.parametrize("word", ["f32", "f64"])
def test_it_is_what_numpy_computes(facts: dict[str, Any], word: str) -> None:
    assert facts[f"far {word}"] == []


@pytest.mark.parametrize("word", ["float32", "float64"])
def test_python_kernels_call_it_by_numpys_name(facts: dict[str, Any], word: str) -> None:
    """And compute what `.lf` does, in every bit."""
    assert facts[f"python {word}"] is True


def test_it_compiles_for_a_gpu(facts: dict[str, Any]) -> None:
    assert facts["ptx"] is True


def test_it_costs_what_its_parts_cost(facts: dict[str, Any]) -> None:
    """None of it is left in a checked program, and `logaddexp` reads four elements (each operand twice)."""
    assert facts["left f32"] == facts["left f64"] == []
    for device in facts["prices f32"]:
        softsign, logaddexp, sinc = device
        assert 0 < softsign < min(logaddexp, sinc)
    assert facts["prices f32"][1][1] == facts["parts of logaddexp"]


def test_pages_list_it(facts: dict[str, Any]) -> None:
    for name in NAMES:
        assert f"`{name}`" in facts["language"]
        assert f"\n| `{name}` | as `" in facts["costs"]
    assert "`logaddexp`" in facts["python page"]
    assert "`softsign`" not in facts["python page"]


def test_what_is_wrong_with_a_call_is_said(facts: dict[str, Any]) -> None:
    assert "`logaddexp` takes 2 arguments, but 1 is given" in facts["count"]
    assert "`softsign` does not take a bool" in facts["bool"]
    assert "did you mean `softsign`?" in facts["near"]
