"""`loopfuse verify` on every example takes under five seconds of processor time, and plans once.

The five seconds are those of a usual machine (`tests/machine.py`); one half as fast has ten.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import loopfuse
from loopfuse import pipeline
from tests.machine import is_within

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.lf"))
WORST = [path for path in EXAMPLES if path.stem in ("lattice_boltzmann", "bilateral")]
SECONDS = 5.0


def seconds_of_verify(path: Path) -> float:
    """Processor seconds of the command, in a process of its own with an empty cache."""
    code = (
        "import resource, sys\n"
        "from loopfuse.cli import main\n"
        "try:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print('SECONDS', used.ru_utime + used.ru_stime)\n"
    )
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", code, "verify", str(path)],
            env={**os.environ, "LOOPFUSE_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return float(done.stdout.rsplit("SECONDS", 1)[1])


@pytest.mark.parametrize("path", WORST, ids=lambda path: path.stem)
def test_the_longest_examples(path: Path) -> None:
    assert is_within(seconds_of_verify(path), SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example(path: Path) -> None:
    assert is_within(seconds_of_verify(path), SECONDS)


def test_what_explain_planned_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Once: the next compile plans anew, and so does one under other options."""
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    planned: list[str] = []
    plan = pipeline.plan_kernel

    def count(program, name, *rest):  # type: ignore[no-untyped-def]
        planned.append(name)
        return plan(program, name, *rest)

    monkeypatch.setattr(pipeline, "plan_kernel", count)
    kernel = loopfuse.load(str(ROOT / "examples" / "chain.lf"))
    report = kernel.explain(target="cpu").report
    made = kernel.compile("cpu")
    assert len(planned) == 1 and made.report == report.to_dict()
    alone = loopfuse.load(str(ROOT / "examples" / "chain.lf")).compile("cpu", index_bits=32)
    assert len(planned) == 2
    kernel.explain(target="cpu")
    again = kernel.compile("cpu", index_bits=32, emit={"object", "mlir", "report"})
    assert len(planned) == 3 and again.mlir == alone.mlir
    kernel.explain(target="cpu")
    kernel.compile("sm_90")
    assert len(planned) == 5
