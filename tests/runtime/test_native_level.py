"""`fp="native"` as an option: where it may be said, what it changes and what it keeps apart."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.base.options import FP, Options, Target
from loopfuse.cli import main
from loopfuse.kernels import verify
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.reference import approximate_reference_of
from loopfuse.kernels.stored import artifact_key
from loopfuse.lang import ops
from loopfuse.lang.approximate import INSTRUCTIONS, disturbed, rounded
from loopfuse.testing import assert_equivalent

TEXT = """
kernel gate(x: f32[N], w: f32[N], out y: f32[N]):
    temp t: f32[N]
    for i in 0..N:
        t[i] = exp(-x[i])
    for i in 0..N:
        y[i] = w[i] / (1.0 + t[i])
"""


def gate(x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = np.exp(x[i]) / (np.float32(1.0) + x[i] * x[i])


def test_every_door_takes_it(tmp_path: Path) -> None:
    (tmp_path / "gate.lf").write_text(TEXT)
    loaded = loopfuse.load(tmp_path / "gate.lf", fp="native")
    python = loopfuse.kernel(fp="native")(gate)
    for kernel in (loaded, loopfuse.loads(TEXT, fp="native"), loopfuse.loads(TEXT).with_options(fp="native")):
        assert "ex2.approx" in kernel.compile("sm_90").ptx
        assert "ex2.approx" not in kernel.with_options(fp="fast").compile("sm_90").ptx
    types = {"x": np.zeros(4, np.float32), "y": np.zeros(4, np.float32)}
    assert "ex2.approx" in python.compile("sm_90", **types).ptx
    assert "ex2.approx" not in python.with_options(fp="strict").compile("sm_90", **types).ptx


def test_another_word_is_told_all_three() -> None:
    with pytest.raises(UserError) as told:
        loopfuse.loads(TEXT, fp="hardware")  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert str(told.value) == "error[kernel-option]: `fp` is 'hardware'\n  = fix: it is one of 'fast', 'strict', 'native'"


def test_pickles_and_copies_keep_it() -> None:
    kernel = loopfuse.loads(TEXT, fp="native")
    for other in (pickle.loads(pickle.dumps(kernel)), copy.copy(kernel)):
        assert "ex2.approx" in other.compile("sm_90").ptx
    assert "ex2.approx" not in loopfuse.loads(TEXT).compile("sm_90").ptx


def test_no_two_levels_share_an_artifact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = {
        artifact_key(TEXT, "t.lf", "gate", Options(target=Target("sm_90"), fp=fp), frozenset({"ptx"}), None, "") for fp in FP
    }
    assert len(keys) == len(FP) == 3
    monkeypatch.setenv("LOOPFUSE_CACHE", "1")
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    for _ in range(2):  # the second time from the disk
        for fp in ("fast", "native", "strict"):
            ptx = loopfuse.loads(TEXT, fp=fp).compile("sm_90", emit=frozenset({"ptx"})).ptx
            assert ("ex2.approx" in ptx) == (fp == "native")


def test_a_cpu_computes_what_fast_does() -> None:
    x = np.linspace(-9, 9, 1001).astype(np.float32)
    kernels = [loopfuse.loads(TEXT, fp=fp, target="cpu") for fp in ("native", "fast")]
    one, other = (kernel(x, x + 1) for kernel in kernels)
    assert one.tobytes() == other.tobytes()
    found = kernels[0].verify()
    assert found and "fused, unfused and interpreted agree" in str(found)


def test_reports_name_the_level_and_the_bounds() -> None:
    kernel = loopfuse.loads(TEXT, fp="native")
    report = kernel.explain(target="sm_90")
    text = str(report)
    assert text.splitlines()[0].split("   ")[:3] == ["gate  <string>:2", "sm_90", "fp native"]
    assert "  Bound     x / y (f32): rcp.approx.ftz.f32, within 2.5 ulp\n" in text
    assert "  Bound     exp (f32): ex2.approx.ftz.f32, within 2.5 + 1.2 |x| ulp\n" in text
    in_notebook: str = report._repr_html_()  # pyright: ignore[reportPrivateUsage] (what a notebook calls)
    assert report.to_dict()["fp"] == "native" and "fp native" in in_notebook
    assert "fp strict" in str(loopfuse.loads(TEXT, fp="strict").explain(target="sm_90"))
    plain = loopfuse.loads(TEXT).explain(target="sm_90")
    assert plain.to_dict()["fp"] == "fast" and "fp " not in str(plain)
    assert "exp (f32): within 1.45 ulp" in str(plain) and "approx" not in str(plain)
    on_cpu = kernel.explain(target="cpu")
    assert on_cpu.to_dict()["fp"] == "native" and "exp (f32): within 1.45 ulp" in str(on_cpu)


@pytest.mark.parametrize("command", ["compile", "explain", "check", "bench", "verify", "run"])
def test_the_command_line_takes_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gate.lf").write_text(TEXT)
    np.save("x.npy", np.ones(4, np.float32))
    more = {
        "compile": ["--target", "sm_90"], "explain": ["--target", "sm_90", "--format", "json"], "run": ["x=x.npy", "w=x.npy"],
        "bench": ["--target", "cpu", "--size", "N=100"], "verify": ["--target", "cpu", "--size", "N=5"], "check": [],
    }[command]  # fmt: skip
    with pytest.raises(SystemExit) as left:
        main([command, "gate.lf", *more, "--fp", "native"])
    said = capsys.readouterr()
    assert left.value.code in (0, None), said
    if command == "compile":
        assert "ex2.approx.ftz.f32" in Path("gate.ptx").read_text()
    if command == "explain":
        assert json.loads(said.out)["fp"] == "native"


# ------------------------------------------------------------------------------------ verified


def test_tests_compare_plans_for_a_gpu_with_its_approximations() -> None:
    """And see what a plan that computed something else would."""
    kernel = loopfuse.loads(TEXT, fp="native")
    assert_equivalent(kernel, target="sm_90")
    assert_equivalent(kernel, target="cpu")


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_disturbed_is_wrong_by_its_bound_and_no_more(name: str) -> None:
    one, moves = INSTRUCTIONS[name], set[float]()
    for number in np.random.default_rng(1).uniform(0.1, 4.0, 50).astype(np.float32):
        exact, found = rounded(one, number), disturbed(one, number, 3)
        moves.add(float(np.sign(found - exact)))
        assert 0 < abs(float(found) - float(exact)) <= (one.ulps + 0.5) * float(np.spacing(abs(exact)))
        assert found == disturbed(one, number, 3)
    assert moves == {-1.0, 1.0}
    for number in (np.float32(np.nan), np.float32(np.inf)):
        assert np.isnan(disturbed(one, number, 3)) or disturbed(one, number, 3) == rounded(one, number)


def test_a_result_has_the_room_that_the_bounds_give_it() -> None:
    """What comes of errors at most as large as stated is inside, a wrong result is not."""
    kernel: Kernel = loopfuse.loads(TEXT, fp="native")
    x = np.linspace(-4, 4, 41).astype(np.float32)
    w = np.where(np.arange(41) % 2, x, -x).astype(np.float32)
    exact = approximate_reference_of(kernel)(x, w)
    room = verify.room_of(exact, [approximate_reference_of(kernel, seed)(x, w) for seed in (1, 2, 3)])
    assert verify.first_outside(exact, exact, room) is None
    for seed in range(4, 12):
        assert verify.first_outside(approximate_reference_of(kernel, seed)(x, w), exact, room) is None
    assert verify.first_outside(kernel.reference(x, w), exact, room) is None
    wrong = exact.copy()
    wrong[7] *= np.float32(1 + 2e-4)
    assert verify.first_outside(wrong, exact, room) == (7,)
    for other in (np.nan, np.inf):
        wrong = exact.copy()
        wrong[9] = other
        assert verify.first_outside(wrong, exact, room) == (9,)


def test_integers_made_of_approximations_have_room_where_those_move_them() -> None:
    text = "kernel f(x: f32[N], out y: i32[N]):\n    for i in 0..N:\n        y[i] = i32(1000000.0 * tanh(x[i]))\n"
    kernel: Kernel = loopfuse.loads(text, fp="native")
    x = np.array([0.0, 0.5, -2.0], np.float32)
    exact = approximate_reference_of(kernel)(x)
    room = verify.room_of(exact, [approximate_reference_of(kernel, seed)(x) for seed in (1, 2, 3)])
    assert room[0] == 0 and (room[1:] > 100).all()
    assert verify.first_outside(exact + np.array([0, 9, -9], np.int32), exact, room) is None
    assert verify.first_outside(exact + np.array([1, 0, 0], np.int32), exact, room) == (0,)


def test_deep_expressions() -> None:
    """Which a pass over them must not be too deep for."""
    value = " + ".join(f"exp(x[i] + {k}.0)" for k in range(900))
    kernel = loopfuse.loads(f"kernel f(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = {value}\n", fp="native")
    assert kernel.explain(target="sm_90").to_dict()["fp"] == "native"


def test_verify_of_a_gpu_interprets_the_approximations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: what it would run is made by the disturbed interpreter, then by one that forgets a term."""
    kernel: Kernel = loopfuse.loads(TEXT, fp="native")
    factor = np.float32(1.0)

    def ran(one: Kernel, arguments: Any, on_gpu: bool) -> dict[str, Any]:
        assert on_gpu
        return {"y": approximate_reference_of(one, 9)(arguments["x"], arguments["w"]) * factor}

    monkeypatch.setattr(verify, "_run", ran)
    found = verify.verify_kernel(kernel, target="sm_90")
    assert found and "fused and unfused agree on" in str(found) and "interpreted within native's bounds" in str(found)
    factor = np.float32(1.001)
    found = verify.verify_kernel(kernel, target="sm_90")
    assert not found and found.mismatches[0].forms == ("fused", "interpreted")


def test_only_f32_has_approximations() -> None:
    assert {ops.BY_NAME[name].native for name in ops.NATIVE} == set(ops.NATIVE.values())
    assert not set(ops.APPROXIMATE) & {*ops.FUNCTIONS, *ops.OURS}
