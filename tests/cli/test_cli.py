"""The command line as a user meets it: what each command prints and writes, and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopfuse.base.options import Target
from loopfuse.cli import _run
from loopfuse.codegen.targets.assemble import assemble, find_ptxas

ROOT = Path(__file__).resolve().parent.parent.parent
SAXPY = """\
kernel saxpy(x: f32[N], inout y: f32[N], a: f32):
    for i in 0..N:
        y[i] = a * x[i] + y[i]
"""
TWO = SAXPY + "\n" + SAXPY.replace("saxpy", "again")
COMMANDS = ("compile", "run", "explain", "deps", "verify", "bench", "fmt", "check", "cache", "doctor")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with two small programs, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "saxpy.lf").write_text(SAXPY)
    (tmp_path / "two.lf").write_text(TWO)
    shutil.copy(ROOT / "examples" / "unsharp.lf", tmp_path)
    return tmp_path


class Said:
    """What a command printed and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def loopfuse(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: str) -> Said:
        capsys.readouterr()
        code = _run(list(arguments))
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call


def files() -> list[str]:
    """The names of the files in the working directory."""
    return sorted(path.name for path in Path().iterdir() if path.is_file())


# ---------------------------------------------------------------------------------------- usage


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(loopfuse: Any, command: str) -> None:
    said = loopfuse(command, "--help")
    assert said.code == 0
    assert f"Example: loopfuse {command}" in " ".join(said.out.split())
    assert max(map(len, said.out.splitlines())) <= 80


def test_version(loopfuse: Any) -> None:
    said = loopfuse("--version")
    assert said.code == 0 and said.out.startswith("loopfuse ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing",), ("compile",), ("run", "saxpy.lf", "--speed"), ("explain", "a.lf", "--format", "xml"),
        ("compile", "saxpy.lf", "--emit", "exe"), ("compile", "saxpy.lf", "--size", "N"),
        ("compile", "saxpy.lf", "--size", "N=four"), ("compile", "saxpy.lf", "--fp", "loose"),
    ],
)  # fmt: skip
def test_bad_usage_exits_2(loopfuse: Any, arguments: tuple[str, ...]) -> None:
    said = loopfuse(*arguments)
    assert said.code == 2 and "Error" in said.err and not said.out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("check", "none.lf"), "cannot-read"),
        (("check", "."), "cannot-read"),
        (("check", "latin.lf"), "not-utf8"),
        (("check", "broken.lf"), "error["),
        (("compile", "saxpy.lf", "--kernel", "other"), "unknown-kernel"),
        (("compile", "saxpy.lf", "--size", "M=3"), "unknown-argument"),
        (("compile", "saxpy.lf", "--target", "cpu", "-o", "saxpy.lf/below"), "cannot-write"),
        (("run", "two.lf"), "which-kernel"),
        (("run", "saxpy.lf", "x=random:3", "a=1"), "missing-argument"),
        (("run", "saxpy.lf", "x=random:3", "y=random:4", "a=1"), "size-mismatch"),
        (("run", "saxpy.lf", "z=3"), "unknown-argument"),
        (("run", "saxpy.lf", "a=1", "a=2"), "doubled-argument"),
        (("run", "saxpy.lf", "--save", "z=z.npy"), "unknown-argument"),
        (("deps", "saxpy.lf", "--instances"), "missing-size"),
        (("fmt", "none.lf"), "cannot-read"),
    ],
)
def test_refusals_exit_1(loopfuse: Any, arguments: tuple[str, ...], code: str) -> None:
    Path("latin.lf").write_bytes(b"# caf\xe9\n")
    Path("broken.lf").write_text("kernel k(:\n")
    before = files()
    said = loopfuse(*arguments, *(("--target", "cpu") if arguments[0] == "run" else ()))
    assert said.code == 1, said.err
    assert code in said.err and "Traceback" not in said.err
    assert not said.out
    assert files() == before


def test_a_bug_of_ours_exits_70(loopfuse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("loopfuse.commands.report.check_file", broken)
    said = loopfuse("check", "saxpy.lf")
    assert said.code == 70
    assert "ZeroDivisionError: inside" in said.err and "please report it" in said.err


# -------------------------------------------------------------------------------------- compile


def test_compile_writes_ptx_and_manifest(loopfuse: Any) -> None:
    before = files()
    said = loopfuse("compile", "unsharp.lf", "--target", "sm_90")
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) == 1 and said.out.startswith("unsharp  sm_90  launches 3 -> ")
    assert sorted(set(files()) - set(before)) == ["unsharp.json", "unsharp.ptx"]
    manifest = json.loads(Path("unsharp.json").read_text())
    ptx = Path("unsharp.ptx").read_text()
    assert manifest["kernel"] == "unsharp" and manifest["target"] == "sm_90"
    for step in manifest["steps"]:
        assert f".entry {step['launch']['name']}(" in ptx
    assert ".target sm_90" in ptx


def test_several_kernels_get_files_of_their_own(loopfuse: Any) -> None:
    said = loopfuse("compile", "two.lf", "--target", "cpu", "-o", "out/deep")
    assert said.code == 0, said.err
    names = sorted(path.name for path in Path("out/deep").iterdir())
    assert names == ["two.again.json", "two.again.o", "two.saxpy.json", "two.saxpy.o"]
    assert len(said.out.splitlines()) == 2


def test_files_are_reproducible_and_hold_no_paths(loopfuse: Any) -> None:
    for place in ("one", "two"):
        for target, emit in (("sm_80", "ptx,llvm,mlir,report"), ("cpu", "object,llvm,mlir")):
            said = loopfuse(
                "compile", str(Path("saxpy.lf").absolute()), "--target", target, "--emit", emit,
                "-o", f"{place}/{target}",
            )  # fmt: skip
            assert said.code == 0, said.err
        loopfuse("cache", "--clear")
    made = [path for path in Path("one").rglob("*") if path.is_file()]
    assert {path.name for path in made} >= {
        "saxpy.ptx", "saxpy.ll", "saxpy.affine.mlir", "saxpy.fused.mlir", "saxpy.mlir",
        "saxpy.report.json", "saxpy.json", "saxpy.o",
    }  # fmt: skip
    for path in made:
        data = path.read_bytes()
        assert data == Path("two", *path.parts[1:]).read_bytes(), path
        assert str(Path.cwd()).encode() not in data, path


PLANES = """kernel planes(a: f32[D, H, W], out b: f32[D, H, W]):
    for z in 1..D-1, y in 1..H-1, x in 0..W:
        b[z, y, x] = a[z-1, y, x] + a[z+1, y, x] + a[z, y-1, x] + a[z, y+1, x]
"""


def test_a_report_says_what_compiled_kernels_take(loopfuse: Any) -> None:
    Path("planes.lf").write_text(PLANES)
    emit = "ptx,cubin,report" if find_ptxas() else "ptx,report"
    said = loopfuse("compile", "planes.lf", "--target", "sm_90", "--emit", emit)
    assert said.code == 0, said.err
    (kernel,) = json.loads(Path("planes.report.json").read_text())["kernels"]
    ptx = Path("planes.ptx").read_text()
    declared = re.findall(r"\.shared \.align 128 \.b8 \w+\[(\d+)\];", ptx)
    assert declared and kernel["shared_bytes"] == sum(map(int, declared))
    made = assemble(ptx, Target("sm_90"))
    assert kernel["registers"] == (None if made is None else made[1]["planes_0"])


def test_watching_stages(loopfuse: Any) -> None:
    said = loopfuse("compile", "saxpy.lf", "--target", "cpu", "--time", "--dump", "schedule")
    assert said.code == 0, said.err
    assert "== schedule" in said.err and "together" in said.err and "ms" in said.err
    before = files()
    said = loopfuse(
        "compile", "saxpy.lf", "--target", "sm_80", "--stop-after", "check", "--dump", "check"
    )
    assert said.code == 0 and "== check" in said.err and "saxpy" in said.err
    assert files() == before


# ------------------------------------------------------------------------------------------ run


def test_run_computes_saves_and_summarises(loopfuse: Any) -> None:
    x, y = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    np.save("x.npy", x)
    np.savez("both.npz", y=y)
    said = loopfuse(
        "run", "saxpy.lf", "x=x.npy", "y=both.npz:y", "a=2", "--target", "cpu",
        "--save", "y=y.npy", "--save", "y=y.npz",
    )  # fmt: skip
    assert said.code == 0, said.err
    np.testing.assert_array_equal(np.load("y.npy"), 2 * x + y)
    np.testing.assert_array_equal(np.load("y.npz")["y"], 2 * x + y)
    assert said.out.startswith("saxpy  saxpy.lf:1   cpu   N=6")
    assert "1 launch -> 1" in said.out and "f32[6]  min 1  mean 6  max 11" in said.out


def test_run_sharpens_a_photograph(loopfuse: Any) -> None:
    pytest.importorskip("skimage")
    from PIL import Image
    from skimage import data

    said = loopfuse(
        "run", "unsharp.lf", "img=sample:camera", "amount=1.5", "--target", "cpu",
        "--save", "sharp=sharp.png",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "3 launches -> " in said.out and "H=512 W=512" in said.out
    sharp = np.asarray(Image.open("sharp.png")).astype(float)
    camera = data.camera().astype(float)
    assert sharp.shape == camera.shape
    assert np.abs(np.diff(sharp)).mean() > 1.2 * np.abs(np.diff(camera)).mean()


def test_random_values_and_sizes_by_name(loopfuse: Any) -> None:
    Path("fill.lf").write_text(
        "kernel fill(out y: f64[N], k: i64):\n    for i in 0..N:\n        y[i] = i * k\n"
    )
    said = loopfuse("run", "fill.lf", "N=4", "k=3", "--target", "cpu", "--save", "y=y.npy")
    assert said.code == 0, said.err
    assert np.load("y.npy").tolist() == [0, 3, 6, 9]
    for seed in ("1", "2"):
        loopfuse(
            "run", "saxpy.lf", "x=random:9", "y=zeros:9", "a=1", "--seed", seed,
            "--target", "cpu", "--save", f"y=y{seed}.npy",
        )  # fmt: skip
    assert (np.load("y1.npy") != np.load("y2.npy")).any()


# ------------------------------------------------------------------------- reports and the rest


def test_explain_as_text_json_and_html(loopfuse: Any) -> None:
    text = loopfuse("explain", "unsharp.lf", "--size", "H=4096,W=4096", "--target", "sm_90")
    assert text.code == 0, text.err
    assert text.out.startswith("unsharp  unsharp.lf:5   sm_90   H=4096 W=4096")
    assert max(map(len, text.out.splitlines())) <= 80
    data = json.loads(loopfuse("explain", "unsharp.lf", "--format", "json").out)
    assert data["schema"] == 1 and [loop["id"] for loop in data["loops"]] == ["L1", "L2", "L3"]
    assert data["launches"]["before"] == 3
    both = json.loads(loopfuse("explain", "two.lf", "--format", "json").out)
    assert [one["kernel"] for one in both] == ["saxpy", "again"]
    one = json.loads(loopfuse("explain", "two.lf", "--format", "json", "--kernel", "again").out)
    assert one["kernel"] == "again"
    assert loopfuse("explain", "two.lf", "--format", "html").out.startswith("<!doctype html>")


def test_dependences_as_text_and_json(loopfuse: Any) -> None:
    Path("shift.lf").write_text(
        "kernel shift(inout y: f64[N]):\n    for i in 1..N:\n        y[i] = y[i-1]\n"
    )
    data = json.loads(loopfuse("deps", "shift.lf", "--format", "json").out)
    (flow,) = [one for one in data["dependences"] if one["kind"] == "flow"]
    assert flow["distance"] == [1] and flow["direction"] == ["<"] and flow["carried_by"] == "i"
    said = loopfuse("deps", "shift.lf", "--instances", "--size", "N=4")
    assert said.code == 0 and "[1] -> [2]" in said.out and "[2] -> [3]" in said.out


def test_verify_agrees(loopfuse: Any) -> None:
    said = loopfuse("verify", "two.lf", "--target", "cpu")
    assert said.code == 0, said.err
    assert said.out.count("fused, unfused and interpreted agree on 12 cases") == 2


def test_verify_notices_a_difference(loopfuse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from loopfuse.kernels import verify

    def wrong(kernel: Any, arguments: Any) -> Any:
        return {"y": arguments["y"] + 1}

    monkeypatch.setattr(verify, "_interpret", wrong)
    said = loopfuse("verify", "saxpy.lf", "--target", "cpu")
    assert said.code == 70
    assert "DIFFERS" in said.out and "forms-differ" in said.err


def test_bench_prints_a_table(loopfuse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopfuse.commands.bench.SECONDS_EACH", 0.01)
    said = loopfuse("bench", "saxpy.lf", "--size", "N=1000", "--target", "cpu")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == "saxpy  cpu   N=1000"
    assert [line.split()[0] for line in lines[2:5]] == ["fused", "unfused", "copy"]
    assert "12.0 kB" in lines[2]
    # (Calls of two sorts are said before it.)
    assert any(re.match(r"  fused is .* than unfused|  fused is as fast as unfused", line) for line in lines[5:])


def test_formatting(loopfuse: Any) -> None:
    Path("ugly.lf").write_text(SAXPY.replace("a * x[i]", "a  *x[ i ]"))
    assert loopfuse("fmt", "--check", "ugly.lf").code == 1
    assert loopfuse("fmt", "--stdout", "ugly.lf").out == SAXPY
    assert loopfuse("fmt", "ugly.lf", "saxpy.lf").out == "ugly.lf: reformatted\n"
    assert Path("ugly.lf").read_text() == SAXPY
    assert loopfuse("fmt", "--check", "ugly.lf").code == 0


def test_check_counts_kernels(loopfuse: Any) -> None:
    assert loopfuse("check", "two.lf").out == "two.lf: 2 kernels, no errors\n"


def test_the_cache_fills_and_empties(loopfuse: Any) -> None:
    assert ": 0 entries" in loopfuse("cache").out
    loopfuse("compile", "saxpy.lf", "--target", "cpu")
    assert ": 2 entries" in loopfuse("cache").out
    assert loopfuse("cache", "--clear").out.startswith("Removed 2 entries")


def test_doctor(loopfuse: Any) -> None:
    said = loopfuse("doctor")
    assert said.code == 0
    for word in ("llvmlite", "threads", "GPU", "ptxas", "Cache"):
        assert word in said.out


# ------------------------------------------------------------------------------------ processes


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """The real command in a shell, with its pipes."""
    program = f"{sys.executable} -c 'from loopfuse.cli import main; main()'"
    return subprocess.run(
        ["bash", "-c", command.replace("loopfuse", program, 1)],
        capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_a_closed_pipe_is_no_error() -> None:
    done = shell("set -o pipefail; loopfuse explain two.lf --format html | true")
    assert done.returncode == 0 and done.stderr == ""


def test_a_full_disk_is_a_clear_error() -> None:
    done = shell("loopfuse check saxpy.lf > /dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        "error[cannot-write]: cannot write the output: No space left on device\n"
        "  = fix: send it where there is room, or to a program that reads it\n"
    )


def test_messages_in_a_pipe_have_no_colours() -> None:
    done = shell("loopfuse check none.lf")
    assert done.returncode == 1
    assert done.stderr == (
        "error[cannot-read]: cannot read `none.lf`: No such file or directory\n"
        "  = fix: name a file that is there and can be read\n"
    )
