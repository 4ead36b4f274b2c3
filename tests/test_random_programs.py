"""Random whole programs: every way of running them gives the same bits.

96 in a default run, in chunks so that workers share them, 2,000 more under `-m slow`; for hours there
is `tests/loopfuse-fuzz` (docs/fuzzing.md), which makes what it finds smaller and writes it down.
`LOOPFUSE_RANDOM_PROGRAMS=5000` runs more, `LOOPFUSE_RANDOM_SEED=7` others. A failure prints the program,
ready to be saved as a case; since each try takes a compile, Hypothesis makes it small only under
`LOOPFUSE_RANDOM_SHRINK=1`.
"""

from __future__ import annotations

import os
import select
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_files import CASES
from fuzz import campaign, engines
from fuzz.arguments import VIEWS, arguments_of, as_view, copied
from fuzz.choices import DrawnChoices, RandomChoices, Replay
from fuzz.compare import Outcome, compare, wrong_somewhere
from fuzz.features import ALWAYS, FEATURES, NEEDS
from fuzz.generate import generate
from fuzz.program import Program, case_text, found_programs, read_program_file
from fuzz.shrink import shrink
from fuzz.worker import program_number
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from loopfuse.base.diagnostics import LoopfuseError

CHUNKS = 16
COUNT = int(os.environ.get("LOOPFUSE_RANDOM_PROGRAMS", "96"))
SEED = int(os.environ.get("LOOPFUSE_RANDOM_SEED", "0"))
PHASES = (
    (Phase.generate, Phase.shrink)
    if os.environ.get("LOOPFUSE_RANDOM_SHRINK")
    else (Phase.generate,)
)
KNOWN = Path(__file__).parent / "fuzz" / "known"
"""Findings that are not mended yet: the reason stands in their first comment."""


@st.composite
def programs(draw: Any) -> Program:
    """A whole program with one call of it; the simplest decisions come first."""
    return generate(DrawnChoices(draw))


def check(outcome: Outcome) -> None:
    """Fails with what went wrong. (Failures that are known stand in `fuzz/known`.)"""
    if outcome.failure is not None and finding(outcome.failure.kind) not in known_kinds():
        raise AssertionError(f"{outcome.failure.kind}\n{outcome.failure.detail}")


def finding(kind: str) -> str:
    """A kind, or of the checker's only what it found: whether that is a false alarm may not show
    at the sizes tried."""
    return kind.rsplit(": ", 1)[-1] if kind.startswith("checker: ") else kind


def known_kinds() -> frozenset[str]:
    """Kinds of the findings in `fuzz/known`: the line `# kind: ...` of each."""
    lines = [line for path in KNOWN.glob("*.lf") for line in path.read_text().splitlines()]
    kinds = [line.removeprefix("# kind: ") for line in lines if line.startswith("# kind: ")]
    return frozenset(map(finding, kinds))


def compare_chunk(number: int, count: int) -> None:
    """`count` programs of Hypothesis's with seed `number`."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def run(program: Program) -> None:
        check(compare(program))

    run()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_agree(chunk: int) -> None:
    """One chunk of random programs."""
    compare_chunk(1000 * SEED + chunk, max(1, COUNT // CHUNKS))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chunk", range(20))
def test_many_random_programs_agree(chunk: int) -> None:
    """2,000 others, with the numbers that `loopfuse-fuzz --seed 1000` gives them."""
    for number in range(100 * chunk, 100 * chunk + 100):
        check(compare(generate(RandomChoices(f"{1000 + SEED}:{number}"))))


@pytest.mark.parametrize("path", found_programs(), ids=lambda path: path.stem)
def test_what_was_found_is_mended(path: Path) -> None:
    """Cases that campaigns found, with the block sizes, views and data they were found with."""
    outcome = compare(read_program_file(path))
    assert outcome.status == "ok", outcome


@pytest.mark.parametrize("path", sorted(KNOWN.glob("*.lf")), ids=lambda path: path.stem)
def test_what_is_known_still_fails(path: Path) -> None:
    """When a known finding is mended, this says so: move the file to `tests/cases`."""
    outcome = compare(read_program_file(path))
    assert outcome.failure is not None, "mended: move it to tests/cases"
    assert f"# kind: {outcome.failure.kind}\n" in path.read_text()


# --------------------------------------------------------------------------- the fuzzer itself


def test_programs_are_accepted_and_use_everything() -> None:
    """Of 400 programs hardly any is refused, and every feature is used by some."""
    refused: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for number in range(400):
        program = generate(RandomChoices(f"accepted:{number}"))
        used.update(program.features)
        try:
            with engines.session(program):
                pass
        except LoopfuseError as error:
            refused[error.diagnostics[0].code] += 1
    assert sum(refused.values()) <= 12, refused
    assert set(used) == set(FEATURES)
    assert set(NEEDS) | set(NEEDS.values()) | set(ALWAYS) <= set(FEATURES)


def test_a_program_survives_its_file(tmp_path: Path) -> None:
    """Text, sizes, scalars, data and views come back from a case file."""
    for number in range(60):
        program = generate(RandomChoices(f"file:{number}"))
        path = tmp_path / "program.lf"
        path.write_text(case_text(program, "a note\nof two lines"))
        again = read_program_file(path)
        assert case_text(again) == case_text(program)


def test_decisions_are_replayed() -> None:
    """The same decisions give the same program; fewer or smaller ones one that is accepted too."""
    for number in range(20):
        choices = RandomChoices(f"replay:{number}")
        program = generate(choices)
        assert generate(Replay(choices.taken)) == program
        with engines.session(generate(Replay(choices.taken[: len(choices.taken) // 2]))):
            pass
    assert len(generate(Replay([])).text.splitlines()) < 8


@pytest.mark.parametrize("kind", VIEWS)
def test_views_hold_the_same_elements(kind: str) -> None:
    """Every kind of view, of arrays of any shape."""
    for shape in ((), (0,), (1,), (5,), (3, 4), (0, 3), (2, 3, 4)):
        if shape == ():
            continue
        array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        if kind == "broadcast":
            array = np.ascontiguousarray(np.broadcast_to(array[:1], shape))
        view = as_view(array, kind)
        assert view.shape == shape
        assert np.array_equal(view, array)


def test_shared_inputs_are_one_array() -> None:
    """Two parameters named as shared are the same object in the call."""
    text = "kernel random(a: f32[N], b: f32[N], inout c: f32[N]):\n    for i in 0..N:\n        c[i] = a[i] - b[i]\n"
    program = Program(text, {"N": 4}, shared=(("a", "b"),))
    with engines.session(program) as it:
        call = copied(program, arguments_of(program, it.kernel))
        assert call["a"] is call["b"]
    assert compare(program).status == "ok"


def test_a_wrong_engine_is_found_and_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that forgets the last element of `b` is noticed, and the program shrunk."""
    real = engines.run_compiled

    def forgets(it: engines.Session, fuel: int | None, reassociate: bool = False) -> engines.Ran:
        ran = real(it, fuel, reassociate)
        if fuel is None and ran.arrays["b"].size:
            ran.arrays["b"].reshape(-1).view(np.uint8)[-1] ^= 1
        return ran

    monkeypatch.setattr(engines, "run_compiled", forgets)
    kind = "differ: compiled fused"
    for number in range(20):
        choices = RandomChoices(f"wrong:{number}")
        program = generate(choices)
        outcome = compare(program)
        if outcome.failure is not None and outcome.failure.kind == kind:
            break
    else:
        raise AssertionError("never noticed")

    def fails(other: Program) -> str | None:
        failure = compare(other).failure
        return failure.kind if failure else None

    smaller = shrink(program, choices.taken, generate, fails, kind, 6.0)
    assert len(smaller.text) < len(program.text)
    assert fails(smaller) == kind


def test_a_batch_runs_what_was_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch for the CPU, on NumPy arrays in the place of the GPU's: all agree, and a result that
    was tampered with is noticed."""
    from fuzz import batch, gpu

    monkeypatch.setattr(gpu, "library", lambda: (np.array, np.array))
    job = (tmp_path / "0.jsonl.gz", range(6), 3, "cpu", "")
    made, refused = batch._make_part(job)
    assert made + refused == 6 and made >= 5
    lines = list(batch.lines_of(str(job[0])))
    assert [failure for line in lines for failure in batch.run_line(line)] == []
    line, name = next(
        (line, name) for line in lines
        for name, stored in line["ways"]["fused"]["results"].items() if batch._unpacked(stored).size
    )  # fmt: skip
    results = line["ways"]["fused"]["results"]
    array = batch._unpacked(results[name])
    array.reshape(-1).view(np.uint8)[0] ^= 1
    results[name] = batch._packed(array)
    assert [kind for kind, _ in batch.run_line(line)] == ["differ: gpu fused"]


# ----------------------------------------------------------------------------------- campaigns


def test_a_campaign_counts_what_ran(tmp_path: Path) -> None:
    """Programs 0 to 5, by two processes; the last line says so."""
    totals = campaign.run_campaign(
        campaign.Settings(seed=1, count=6, jobs=2, failures=tmp_path / "failures")
    )
    assert totals.programs == 6 and not totals.interrupted
    assert totals.summary(0.0).startswith("total: 6 programs (")


def test_an_interrupted_campaign_sums_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had been found until then is told."""

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign.select, "select", interrupted)
    totals = campaign.run_campaign(campaign.Settings(count=2, failures=tmp_path / "failures"))
    assert totals.interrupted and totals.summary(0.0).startswith("total: 0 programs (")


def test_shrinking_waits_for_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding is written as it is, so that the campaign goes on; an interrupt while it is made
    smaller leaves it so."""
    calls: list[int] = []

    def interrupted(_: Any, number: int, __: str) -> None:
        calls.append(number)
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "shrink_apart", interrupted)
    settings, totals = campaign.Settings(seed=3, failures=tmp_path), campaign.Totals()
    for number in (17, 18):
        campaign.keep(settings, totals, number, "differ: something", "how")
    assert not calls and totals.failures == 2
    program, _ = program_number(3, 17)
    assert program.text in (tmp_path / "differ_something_3_17.lf").read_text()
    assert campaign.shrink_findings(settings, totals) == 0 and calls == [17]


def test_a_worker_that_was_not_listened_to_does_not_hang() -> None:
    """What it told is read first, however long ago it began."""
    child = subprocess.Popen(["sh", "-c", "echo '{}'; sleep 60"], stdout=subprocess.PIPE, text=True)
    try:
        process = campaign.Process(child, 0, 0, since=-1e6, since_own=-1e6)
        assert child.stdout is not None
        select.select([child.stdout], [], [], 10.0)
        assert not process.hangs(1.0)
        assert process.lines() == [{}]
        assert process.hangs(1.0)
    finally:
        child.kill()
        child.wait()


def test_a_mistake_in_later_time_steps_is_no_false_alarm() -> None:
    """The checker's example says how many steps it takes, which the call need not make."""
    program = read_program_file(CASES / "fuzz_copied_beside.lf")
    still = replace(program, scalars={"steps": 0})
    with engines.session(still) as it:
        tree = replace(engines.plan(it, "cpu", None).tree, body=())
        expected = engines.interpret(it)
        for finding, shows in (("b at M=9, N=9", False), ("b at M=9, N=9, steps=3", True)):
            verdict = engines.Verdict("wrong", (finding,), tree, None, "cpu")
            assert bool(wrong_somewhere(it, expected, verdict)) == shows
