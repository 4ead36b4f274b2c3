"""The programs that come with loopfuse: their style, their list, and `example:NAME`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.base.examples import examples_folder, list_examples
from loopfuse.cli import _run
from loopfuse.commands.report import format_source
from loopfuse.kernels.sources import read_source

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [one for one in list_examples() if one.is_program]


def say(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = _run(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.lf")), ids=lambda p: p.stem)
def test_it_is_in_the_canonical_style(path: Path) -> None:
    source = read_source(path)
    assert format_source(source) == source.text


def test_every_example_says_what_it_is() -> None:
    assert len(PROGRAMS) > 50
    for one in PROGRAMS:
        assert 10 < len(one.about) < 230 and "\n" not in one.about, one
    assert {one.path.suffix for one in list_examples()} >= {".lf", ".mlir", ".png"}


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = say(capsys, "examples")
    assert code == 0 and max(map(len, text.splitlines())) <= 80
    assert "example:unsharp" in text and "Sharpen an image" in text
    data = json.loads(say(capsys, "examples", "--format", "json")[1])
    assert data["schema"] == 1
    assert {"name": "example:blur.mlir", "file": "blur.mlir"}.items() <= next(
        one for one in data["examples"] if one["file"] == "blur.mlir"
    ).items()
    assert [one["name"] for one in data["examples"]] == [
        f"example:{one.name}" for one in list_examples()
    ]


def test_every_program_loads_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for one in PROGRAMS:
        found = read_source(f"example:{one.name}")
        assert found.text == one.path.read_text() and found.name == f"example:{one.name}"
        assert found.language == one.path.suffix[1:]
    saxpy: Any = loopfuse.load("example:saxpy")
    y = np.ones(3, np.float32)
    saxpy(np.ones(3, np.float32), y, 2.0)
    assert y.tolist() == [3, 3, 3]


def test_commands_take_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        ("check", "example:saxpy"),
        ("explain", "example:saxpy.lf", "--target", "cpu"),
        ("deps", "example:saxpy"),
        ("fmt", "--stdout", "example:saxpy"),
        ("fmt", "--check", "example:saxpy"),
        ("fmt", "example:saxpy"),
        ("compile", "example:saxpy", "--target", "cpu"),
    ):
        code, _, err = say(capsys, *command)
        assert (code, err) == (0, ""), command
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saxpy.json", "saxpy.o"]


def test_line_information_names_the_file(tmp_path: Path) -> None:
    kernel = loopfuse.load("example:saxpy", target="sm_90")
    assert '"saxpy.lf"' in kernel.compile("sm_90", emit={"ptx"}).ptx
    text = (ROOT / "examples" / "saxpy.lf").read_text()
    for name, file in (("example:nothing", "example:nothing"), ("a/b.lf", "b.lf")):
        assert f'"{file}"' in loopfuse.loads(text, name=name).compile("sm_90", emit={"ptx"}).ptx


def test_a_value_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ("run", "example:blur.lf", "img=example:chart", "--target", "cpu")
    code, out, err = say(capsys, *command, "--save", "smooth=smooth.npy")
    assert code == 0, err
    assert "f32[192, 256]" in out and np.load("smooth.npy").std() > 0.1


@pytest.mark.parametrize(
    ("arguments", "code", "fix"),
    [
        (("check", "example:unshap"), "unknown-example", "example:unsharp"),
        (("check", "example:"), "unknown-example", "loopfuse examples"),
        (("check", "example:chart"), "unknown-example", "img=example:chart"),
        (("check", "example:../pyproject"), "unknown-example", "loopfuse examples"),
        (("run", "example:blur", "img=example:unsharp"), "unknown-example", "`example:chart`"),
        (("check", "examples/unsharp.lf"), "cannot-read", "`example:unsharp`"),
    ],
)
def test_names_that_are_none(
    arguments: tuple[str, ...], code: str, fix: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    status, out, err = say(capsys, *arguments)
    assert (status, out) == (1, "") and f"error[{code}]" in err and fix in err


def test_an_example_is_not_rewritten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "wide.lf").write_text("kernel k(out y: f32[N]):\n    for i in 0..N:\n      y[i]=1.0\n")
    monkeypatch.setattr("loopfuse.base.examples.examples_folder", lambda: tmp_path)
    from loopfuse.commands.report import format_file

    with pytest.raises(UserError, match="it belongs to loopfuse"):
        format_file("example:wide", False, False)


def test_where_they_lie(tmp_path: Path) -> None:
    package = tmp_path / "loopfuse"
    package.mkdir()
    assert examples_folder(package) == tmp_path / "examples"
    (package / "_examples").mkdir()
    assert examples_folder(package) == package / "_examples"


def test_the_package_is_a_command(tmp_path: Path) -> None:
    run = [sys.executable, "-m", "loopfuse", "--version"]
    done = subprocess.run(
        run, cwd=tmp_path, capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.startswith("loopfuse ")


@pytest.mark.whole
def test_the_first_command_of_the_readme_works_from_a_wheel(tmp_path: Path) -> None:
    """Built, installed in an environment of its own (which sees this one's packages), and run
    where there is no checkout."""
    command = (ROOT / "README.md").read_text().split("```sh\n")[1].split("\n")[0].rpartition("&& ")[2]
    program, *arguments = command.split()
    assert program.endswith("/loopfuse") and arguments[:2] == ["run", "example:unsharp"]
    build = "from hatchling.build import build_wheel; print(build_wheel(r'{}'))"
    made = subprocess.run(
        [sys.executable, "-c", build.format(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    wheel = tmp_path / made.stdout.split()[-1]
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps",
         "--no-index", wheel], check=True,
    )  # fmt: skip
    inside = next((venv / "lib").glob("python3*")) / "site-packages"
    own = {name for name in os.listdir(inside) if name.startswith("loopfuse")}
    assert "loopfuse" in own
    # Its packages and no more: an editable install of the checkout is not seen.
    (inside / "others.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages"))
    )
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"}
    environment["LOOPFUSE_CACHE_DIR"] = str(tmp_path / "cache")
    where = subprocess.run(
        [python, "-c", "import loopfuse; print(loopfuse.__file__)"], cwd=tmp_path,
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.startswith(str(venv))
    subprocess.run([venv / "bin" / "loopfuse", *arguments], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "sharp.png").stat().st_size > 10_000
