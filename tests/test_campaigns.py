"""Campaigns by seed: they go on where they were stopped, and know what killed a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import seeds
from fuzz.quick import calls_of, check, program_of, text

from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU
from loopfuse.codegen.llvm import lanes as llvm_lanes
from loopfuse.codegen.mlir import module as mlir_module
from loopfuse.codegen.targets import native
from loopfuse.kernels import kernel as kernels

FUZZ = Path(__file__).parent / "loopfuse-fuzz"


def settings(folder: Path, first: int, end: int, **more: object) -> seeds.Settings:
    return seeds.Settings("pretend", first, end, failures=folder, **more)  # type: ignore[arg-type]


def test_what_a_number_did_is_told(tmp_path: Path) -> None:
    """A crash and a hang count for their number, and the others of the process are done all the same."""
    few = settings(tmp_path, 0, 12, jobs=2, timeout=1.0, cpus=("x86-64-v2", "native"))
    totals = seeds.run_seeds(few)
    assert totals.done == set(range(12))
    assert dict(totals.kinds) == {"crash: SIGSEGV": 1, "hang: over 1 s": 1, "differ: compiled": 1}
    assert dict(totals.refused) == {"because": 1}
    assert totals.ran["compiled"] == 16 and totals.ran["x86-64-v2"] == 4 and totals.ran["native"] == 4
    found = (tmp_path / "differ_compiled_pretend_x86-64-v2_5.txt").read_text()
    assert "5 is not 6" in found and found.endswith("program 5\n")
    crash = (tmp_path / "crash_sigsegv_pretend_x86-64-v2_3.txt").read_text()
    assert "Segmentation fault" in crash and "in check" in crash
    assert "differences: 1; crashes, hangs and others: 2" in totals.summary(few)


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """Time is up at once; then the rest is done, once; a line that was cut off is done again."""
    stopped = seeds.run_seeds(settings(tmp_path, 20, 23, seconds=0.0))
    assert stopped.done == set()
    whole = settings(tmp_path, 20, 23)
    assert seeds.run_seeds(whole).done == {20, 21, 22}
    lines = whole.state.read_text().splitlines()
    assert len(lines) == 3
    whole.state.write_text("\n".join([*lines[:2], lines[2][:9]]))
    assert len(seeds.read_state(whole).done) == 2
    again = seeds.run_seeds(whole)
    assert again.done == {20, 21, 22} and again.ran["compiled"] == 6
    assert "3 pretend programs, seeds 20..23, cpu native" in again.summary(whole)


@pytest.mark.parametrize("words", [["--seeds", "5..5"], ["--seeds", "5"], ["--seeds", "0..1", "--generator", "x"]])
def test_what_is_no_campaign_is_said(words: list[str]) -> None:
    done = subprocess.run([sys.executable, FUZZ, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "error:" in done.stderr and "Traceback" not in done.stderr


def test_quick_checks_of_programs() -> None:
    """A few numbers: their calls have several sizes, nothing differs, and their text is theirs."""
    for number in range(3):
        program = program_of(number)
        assert len(list(calls_of(program, number))) == 3
        assert program.text in text(number, "a note")
        checked = check(number)
        assert checked.status == "ok" and checked.ran["interpreter"] >= 2, checked


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "native"])
def test_many_programs_between_guard_pages(cpu: str, tmp_path: Path) -> None:
    """500 for each width of vectors."""
    few = seeds.Settings("lf", 1_000_000, 1_000_500, (cpu,), 2, failures=tmp_path)
    totals = seeds.run_seeds(few)
    assert not totals.kinds and len(totals.done) == 500, totals.summary(few)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_programs_put_divisions_under_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with branches show what a division under a condition on data can lead to, were it left
    there: they are no use otherwise."""
    monkeypatch.setattr(mlir_module, "hoist_divisions", lambda _: None)
    found = 0
    for number in range(3, 400, 4):
        program = program_of(number)
        source = Source("random.lf", program.text)
        (kernel, *_) = kernels.load_all(source, fp=program.fp, reassociate=False).values()
        constants = {name: program.scalars[name] for name in kernel.constants}
        llvm = kernel.compile("cpu", emit=("llvm",), **constants).llvm
        module = native.parse(llvm)
        native.optimize(module, native.host_machine(CPU), vectorize=True)
        found += llvm_lanes.has_guarded_quotient(str(module))
    assert found >= 2
