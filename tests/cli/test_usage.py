"""What is refused on the command line: the exit code, one sentence, and a fix in its own words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopfuse.cli import _run

ROOT = Path(__file__).resolve().parent.parent.parent
SCALE = """\
kernel scale(x: f32[N], a: f32, out y: f32[N]):
    for i in 0..N:
        y[i] = a * x[i]
"""
BLUR = """\
kernel blur(img: f32[H, W], k: i32, wanted: bool, out y: f32[H, W]):
    for y0 in 0..H, x0 in 0..W:
        y[y0, x0] = img[y0, x0] + k
"""

@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    Path("scale.lf").write_text(SCALE)
    Path("empty.lf").write_text("# nothing\n")
    Path("two.lf").write_text(SCALE + "\n" + SCALE.replace("scale", "again").replace("N", "M"))


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(command: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = _run(command.split())
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


RUN = "run scale.lf --target cpu "


@pytest.mark.parametrize(
    ("command", "code", "fix"),
    [
        (RUN + "x=random:5 a=1 --save y", "bad-value", "write `--save y=y.npy`"),
        (RUN + "x=random:5 a=1 --save sharp.png", "bad-value", "write `--save y=sharp.png`"),
        (RUN + "x=random:5 a=1 --save y=", "bad-value", "write `--save y=y.npy`"),
        (RUN + "x=random:5 a=1 --save =p.npy", "bad-value", "write `--save y=p.npy`"),
        (RUN + "--save y=a.npy --save x=a.npy", "bad-value", "give each a file of its own"),
        (RUN + "x", "bad-value", "write `x=...`"),
        (RUN + "=3", "bad-value", "the names are x, a, y, N"),
        (RUN + "3", "bad-value", "the names are x, a, y, N"),
        ("compile scale.lf --target sm_90 --emit object", "bad-emit", "`--target cpu`"),
        ("compile scale.lf --target cpu --emit ptx", "bad-emit", "`--target sm_90`"),
        ("explain scale.lf --dump foo", "unknown-stage", "the stages are"),
        ("compile scale.lf --stop-after lunch", "unknown-stage", "the stages are"),
        ("explain scale.lf --target foo", "unknown-target", "use `cpu`"),
        ("compile scale.lf --target sm_70", "unknown-target", "use `cpu`"),
        ("bench scale.lf --tune --budget -1", "bad-budget", "a number above 0"),
        ("bench scale.lf --budget 1", "bad-budget", "add `--tune`"),
    ],
)
def test_malformed_options_are_bad_usage(say: Any, command: str, code: str, fix: str) -> None:
    status, out, err = say(command)
    assert (status, out) == (2, "") and f"error[{code}]" in err and fix in err, err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (RUN + "x=random:5 a=1 --seed -1", "--seed"),
        ("verify scale.lf --seed -1", "--seed"),
        ("bench scale.lf --seed -1", "--seed"),
        ("explain scale.lf --size N=4,N=5", "N is given twice: 4 and 5"),
        ("explain scale.lf --size N=4 --size N=5", "N is given twice: 4 and 5"),
    ],
)
def test_what_click_refuses(say: Any, command: str, said: str) -> None:
    status, out, err = say(command)
    assert (status, out) == (2, "") and said in err, err


def test_a_size_may_be_said_twice_alike(say: Any) -> None:
    assert say("explain scale.lf --target cpu --size N=4,N=4 --size N=4")[0] == 0
    assert say(RUN + "x=random:4 a=1 N=4 --size N=4")[0] == 0


@pytest.mark.parametrize(
    ("command", "code", "fix"),
    [
        *(
            (f"{words} --size N=-5", "size-mismatch", "0 or more")
            for words in ("compile scale.lf --target cpu", "explain scale.lf", "deps scale.lf --instances",
                          "bench scale.lf", "verify scale.lf", "verify scale.lf --bisect", "check scale.lf", RUN)
        ),
        *(
            (f"{words} --size Q=3", "unknown-argument", "it has N")
            for words in ("compile scale.lf", "explain scale.lf", "deps scale.lf", "bench scale.lf",
                          "verify scale.lf", "verify scale.lf --bisect", "check scale.lf", RUN)
        ),
        ("check scale.lf --kernel zz", "unknown-kernel", "it has scale"),
        ("check empty.lf", "no-kernel", "write `kernel"),
        (RUN + "N=-1 a=1", "bad-value", "write `N=480`"),
        (RUN + "N=" + "9" * 5000, "bad-value", "write `N=480`"),
        (RUN + "x=random:5 a=1 N=5 --size N=7", "doubled-argument", "give it once"),
        ("explain scale.lf --size N=99999999999999999999", "scalar-range", "range"),
        (RUN + "x=zeros:99999999999999999999999 a=1", "out-of-memory", "smaller"),
        (RUN + "x=zeros:9999999999999,9999999999 a=1", "out-of-memory", "smaller"),
        (RUN + f"x=zeros:{'9' * 5000} a=1", "out-of-memory", "smaller"),
        (RUN + "x=random:99999999999999999999999 a=1", "out-of-memory", "smaller"),
        (RUN + "x=random:5 a=1e60", "scalar-range", "a smaller number"),
        (RUN + "x=random:5 a=1e400", "scalar-range", "a smaller number"),
        (RUN + "x=random:5 a=three", "bad-value", "such as `a=1`"),
        (RUN + "x=random:5 a=true", "scalar-type", "give a number"),
        (RUN + "x=random:5", "missing-argument", "add `a=1`"),
        (RUN + "a=1", "missing-argument", "add `x=random:480`, or"),
        (RUN + "x=random:2,3 a=1", "wrong-rank", "give an array of 1 dimension, such as `x=random:480`"),
        ("bench scale.lf x=random:2,3", "wrong-rank", "such as `x=random:480`"),
        (RUN + "x=wide.npy a=1", "wrong-dtype", "save the array as f32, and give that file"),
        (RUN + "x=random:5 y=random:4 a=1", "size-mismatch", "give an array of shape [5]"),
        ("run example:chart", "unknown-example", "`run example:unsharp img=example:chart amount=1`"),
        (RUN + "x=example:saxpy", "unknown-example", "`loopfuse run example:saxpy`"),
        ("fmt example:blur.mlir", "cannot-read", "give it a `.lf` file"),
        ("deps example:jacobi --instances --size N=100000,steps=1000", "too-many-instances", "smaller sizes"),
    ],
)  # fmt: skip
def test_refused(say: Any, command: str, code: str, fix: str) -> None:
    np.save("wide.npy", np.ones(5))
    status, out, err = say(command)
    assert (status, out) == (1, "") and f"error[{code}]" in err and fix in err, err
    assert len(err) < 600


def test_scalars_of_all_sorts(say: Any) -> None:
    Path("blur.lf").write_text(BLUR)
    call = "run blur.lf --target cpu img=random:4,5 "
    for given, code, fix in (
        ("k=1.5 wanted=true", "scalar-type", "give a whole number"),
        ("k=1 wanted=1", "scalar-type", "give `true` or `false`"),
        ("k=1 wanted=perhaps", "bad-value", "`wanted=true`"),
        ("k=9999999999 wanted=true", "scalar-range", "range"),
        ("k=1", "missing-argument", "add `wanted=true`"),
    ):
        status, out, err = say(call + given)
        assert (status, out) == (1, "") and f"error[{code}]" in err and fix in err, (given, err)
    assert say(call + "k=-1 wanted=true")[0] == 0
    assert say(RUN + "x=random:5 a=inf")[0] == 0, "an infinity that is meant"
    assert say("explain blur.lf --target cpu --size k=-1")[0] == 0, "an integer is no size"


def test_each_kernel_takes_its_own_sizes(say: Any) -> None:
    assert say("verify two.lf --target cpu --size N=3,M=4")[0] == 0
    assert say("check two.lf --size M=4")[1] == "two.lf: 2 kernels, no errors\n"
    assert say("check two.lf --kernel again")[1] == "two.lf: 1 kernel, no errors\n"
    assert say("verify two.lf --size Q=4")[0] == 1


@pytest.mark.parametrize(
    "command", ["check", "deps", "explain", "verify", "verify --bisect", "compile", "deps --instances"]
)
def test_a_program_that_needs_a_constant_takes_it(say: Any, command: str) -> None:
    """What the message proposes works: `--size S=2`."""
    step = SCALE.replace("a: f32", "a: f32, S: const i64").replace("0..N", "0..N step S")
    Path("step.lf").write_text(step)
    command += " step.lf" + ("" if command[:5] in ("check", "deps", "deps ") else " --target cpu")
    if "--instances" in command:
        assert say(f"{command} --size N=6,S=2")[0] == 0
        return
    status, _, err = say(command)
    assert status == 1 and "on the command line `--size S=1`" in err
    assert say(f"{command} --size S=2")[0] == 0


def test_the_limit_of_the_cache_is_a_number(say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_LIMIT", "abc")
    for command in ("cache", "explain scale.lf"):
        status, out, err = say(command)
        assert (status, out) == (1, "") and "error[bad-cache-limit]: LOOPFUSE_CACHE_LIMIT is `abc`" in err


def test_saving_follows_a_link(say: Any) -> None:
    os.symlink("real.npy", "link.npy")
    for _ in range(2):
        assert say(RUN + "x=random:5 a=2 --save y=link.npy")[0] == 0
        assert Path("link.npy").is_symlink() and np.load("real.npy").shape == (5,)


def test_the_targets_without_a_gpu_are_in_the_help(say: Any) -> None:
    assert "without one sm_80 for compile, else cpu" in " ".join(say("run --help")[1].split())


@pytest.mark.parametrize("command", ["examples", "check scale.lf", "--help"])
def test_a_closed_output_is_no_error(command: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m loopfuse {command} >&-"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
