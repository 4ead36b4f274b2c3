"""Where isl gives up: the program is compiled as written, computes the same, and says so."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import islpy
import pytest

from loopfuse.base.diagnostics import LimitError, Source
from loopfuse.base.options import CPU, Options, Target
from loopfuse.kernels.kernel import load_all
from loopfuse.kernels.sources import read_source
from loopfuse.kernels.verify import verify_kernel
from loopfuse.pipeline import (
    Planned,
    check_kernel,
    compile_kernel,
    describe_dependences,
    plan_kernel,
    read_program,
)
from loopfuse.poly import isl

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.lf"))
CASES = sorted((ROOT / "tests/cases").glob("*.lf"))
FEW = ("attention", "blur", "branches", "csr_matvec", "fdtd_2d", "histogram", "jacobi", "kmeans_assign",
       "multigrid_prolong", "reversed", "scatter_add", "selective_scan", "wave")  # fmt: skip
MODES = """
kernel k(a: f32[N], inout p: f64[N], inout q: f64[N], out b: f32[N], t: i64):
    temp s: f32[N]
    assume N > 2
    for i in N-1..-1 step -2:
        s[i] = a.reflect[i - 3] + a.zero[i + 2] + a[(i * 7 + t) % N]
    for r in 0..3:
        temp u: f32[4]
        for i in 0..2:
            u[i] = s.symmetric[i + r - 2]
        for i in 0..4:
            b[i] = u[i] + 1.0 if i < N else 0.0
    for r in 0..t:
        for i in 1..N-1:
            q[i] = (p[i - 1] + p[i + 1]) * 0.5
        swap p, q
"""


def planned(text: str, target: Target, operations: int) -> Planned:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = read_program(Source("k.lf", text))
        return plan_kernel(program, "k", Options(target, operations=operations))


def compare(file: Path, operations: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Any]:
    """Every kernel of `file` verified on the CPU with so many isl operations a question."""
    monkeypatch.setenv("LOOPFUSE_ISL_OPERATIONS", operations)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(folder))
    found: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kernel in load_all(read_source(str(file))).values():
            found.append(verify_kernel(kernel, target="cpu"))
            assert not found[-1].mismatches, str(found[-1])
            assert found[-1].cases > 0
    return found


@pytest.mark.parametrize("name", FEW)
def test_the_plain_route_equals_the_interpreter(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for found in compare(ROOT / "examples" / f"{name}.lf", "1", monkeypatch, tmp_path):
        assert "unknown" in found.checked and "gave up (operation limit)" in found.checked


@pytest.mark.slow
@pytest.mark.parametrize("operations", ["1", "100", "10000", "100000"])
def test_every_example_with_every_limit(
    operations: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for file in EXAMPLES:
        compare(file, operations, monkeypatch, tmp_path)


@pytest.mark.slow
def test_every_case_by_the_plain_route(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for file in CASES:
        if not file.name.startswith(("error_", "data_")):
            try:
                compare(file, "1", monkeypatch, tmp_path)
            except AssertionError as error:
                raise AssertionError(f"{file.name}: {error}") from error


@pytest.mark.slow
@pytest.mark.parametrize("operations", [1, 10_000])
def test_every_example_becomes_ptx(operations: int) -> None:
    for file in EXAMPLES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = read_program(Source(file.name, file.read_text()))
            for kernel in program.kernels:
                options = Options(Target("sm_90"), operations=operations)
                assert compile_kernel(program, kernel.name, options).ptx


def test_modes_swaps_steps_and_private_temporaries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "k.lf"
    file.write_text(MODES)
    compare(file, "1", monkeypatch, tmp_path / "cache")


def test_the_report_says_so() -> None:
    plan = planned(MODES, CPU, 1)
    report = plan.report.to_dict()
    assert plan.verdict.answer == "unknown"
    assert report["launches"]["before"] == report["launches"]["after"] == len(report["kernels"])
    assert {kernel["strategy"] for kernel in report["kernels"]} == {"plain"}
    assert report["decisions"] and not any(one["fused"] for one in report["decisions"])
    assert {one["reason"] for one in report["decisions"]} == {
        "the analysis gave up (operation limit)"
    }
    assert "unknown" in plan.report.checked
    assert report["preconditions"] == ["N > 2"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plan_kernel(read_program(Source("k.lf", MODES)), "k", Options(CPU, operations=1))
    assert any("was given up (operation limit)" in str(each.message) for each in said)


@pytest.mark.parametrize("operations", [1, 30, 300, 1000, 3000, 10_000, 30_000, 100_000])
def test_no_unknown_escapes_whatever_the_limit(operations: int) -> None:
    """The limit is reached in another stage each time; all of them answer."""
    for name in ("unsharp", "softmax", "strided_conv"):
        text = (ROOT / "examples" / f"{name}.lf").read_text()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = read_program(Source("k.lf", text))
            options = Options(CPU, operations=operations)
            plan = plan_kernel(program, program.kernels[0].name, options)
            assert plan.report.kernels
            check_kernel(program, program.kernels[0].name, operations)
            try:
                describe_dependences(program, program.kernels[0].name, operations=operations)
            except LimitError as error:
                assert error.diagnostics[0].code == "dependences-unknown"


@pytest.mark.parametrize("operations", ["1", "300", "3000", "10000"])
def test_warnings_speak_of_the_program(
    operations: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wherever the analysis gives up: no text of isl's, no place in its sources or ours, and the line that
    Python prints below is the caller's."""
    monkeypatch.setenv("LOOPFUSE_ISL_OPERATIONS", operations)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    import loopfuse

    for name in FEW:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            kernel = loopfuse.load(ROOT / "examples" / f"{name}.lf", target="cpu")
            shown = [str(kernel.explain()), *(str(one.message) for one in told)]
        assert all(one.filename == __file__ for one in told)
        for text in shown:
            assert not re.search(r"isl|\.c:\d|\.py|operations exceeded|->.*\{|return ", text), text


def test_a_bad_subscript_of_the_plain_route_is_told_and_touches_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import numpy as np

    monkeypatch.setenv("LOOPFUSE_ISL_OPERATIONS", "1")
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    import loopfuse

    text = "kernel k(a: f32[N], inout b: f32[M]):\n    for i in 0..N:\n        b[i + 1] = a[i]\n"
    for check in ("lazy", "off"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel = loopfuse.loads(text, check=check, target="cpu")
            around = np.zeros(6, np.float32)
            with pytest.raises(loopfuse.UserError) as caught:
                kernel(np.ones(4, np.float32), around[1:4])
        assert caught.value.diagnostics[0].code == "subscript-out-of-range"
        assert around.tolist() == [0, 0, 1, 1, 0, 0]


def test_a_compile_has_one_budget() -> None:
    """Questions that fit one by one are given up when they are too many together."""
    with isl.spending(20_000) as budget:
        start = budget.left
        context = isl.Context()
        text = "[N] -> { [i, j, k] : 0 <= i < N and i <= j < N and 0 <= k < N and (i + j + k) mod 7 = 0 }"
        points = islpy.Set.read_from_str(context.raw, text)
        asked = 0
        with pytest.raises(isl.Unknown):
            for _ in range(5000):
                context.ask(lambda: points.subtract(points.lexmin()))
                asked += 1
        assert asked > 5 and budget.left < 2_000 < start
