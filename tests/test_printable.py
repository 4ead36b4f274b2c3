"""What others wrote (sources, comments, names of files and functions) never commands a terminal,
nor reorders a line, nor leaves its place in a page."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import Diagnostic, Label, Source, Span, UserError, render
from loopfuse.base.printable import printable
from loopfuse.cli import _run

EVIL = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e\u2066\u200f\u2028\r\x08\x7f"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
ADD = "kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i] + 1.0\n"
MLIR = """\
func.func @"k\\1B[31m\\0Ared"(%x: memref<8xf32>, %y: memref<8xf32>) {
  affine.for %i = 0 to 8 {
    %v = affine.load %x[%i] : memref<8xf32>
    affine.store %v, %y[%i] : memref<8xf32>
  }
  return
}
"""


def test_only_these_are_changed() -> None:
    assert printable("a\tb\nc é 漢 → \U0001f600") == "a\tb\nc é 漢 → \U0001f600"
    assert printable("\x1b[1m\u202e\x9b\x00\U000e0041") == r"\x1b[1m\u202e\x9b\x00\U000e0041"
    assert not UNSAFE.search(printable(EVIL))
    assert printable(printable(EVIL)) == printable(EVIL)


def test_carets_stand_under_what_is_shown() -> None:
    line = "a\x1b[0m + \u202eb + c"
    source = Source(f"p{EVIL}.lf", f"{line}\n")
    place = Span(1, line.index("b") + 1, 1, line.index("b") + 2)
    after = Span(1, line.index("c") + 1, 1, line.index("c") + 2)
    text = render(
        Diagnostic(
            "a-code", f"no {EVIL}", place, f"here {EVIL}", (Label(after, EVIL),), (EVIL,), EVIL,
            source=source,
        )
    )  # fmt: skip
    assert not UNSAFE.search(text)
    shown, *marks = [one for one in text.splitlines() if " | " in one]
    assert shown[marks[0].index("^")] == "b" and marks[0].count("^") == 1
    assert shown[marks[1].index("-")] == "c"
    escape = Span(1, 2, 1, 6)
    both = render(Diagnostic("a", "b", escape, source=source)).splitlines()[-1]
    assert both.count("^") == len(r"\x1b[0m")


def outputs(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert _run(list(arguments)) in (0, 1, 2)
    said = capsys.readouterr()
    return said.out + said.err


def test_no_command_lets_them_through(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    name = EVIL.replace("\u2028", "") + "a.lf"
    Path(name).write_text(f"# {EVIL.replace(chr(13), '')}\n{ADD}", newline="")
    bad = f"b{EVIL}.lf"
    Path(bad).write_text(ADD.replace("x[i]", f"x[i + 1] # {EVIL[:-3]}").replace("\u2028", ""))
    Path("c\x1b[2J.mlir").write_text(MLIR)
    size = ("--size", "N=4", "--target", "cpu")
    for arguments in (
        ("check", name), ("explain", name, *size), ("explain", name, "--format", "html"),
        ("explain", name, "--format", "json"), ("deps", name), ("verify", name, *size),
        ("compile", name, "--target", "cpu", "-o", f"d{EVIL}"), ("fmt", "--check", name),
        ("run", name, f"x=random:{EVIL}", *size), ("run", name, f"x={EVIL}.npy", *size),
        ("run", name, "x=random:4", "--target", "cpu", "--save", f"y=y{EVIL}.npy"),
        ("check", bad), ("explain", bad), ("check", f"none{EVIL}"), ("check", f"example:{EVIL}"),
        ("compile", name, "--emit", EVIL), ("compile", name, f"--{EVIL}"), (EVIL,),
        ("compile", name, "--target", EVIL), ("explain", name, "--size", EVIL),
        ("explain", name, "--dump", "all", "--target", "cpu"),
        ("explain", "c\x1b[2J.mlir"), ("check", "c\x1b[2J.mlir", "--kernel", EVIL),
    ):  # fmt: skip
        text = outputs(capsys, *arguments)
        assert (text or arguments[0] == "fmt") and not UNSAFE.search(text), arguments
    shown = outputs(capsys, "explain", name, "--format", "json", *size)
    assert json.loads(shown)["kernel"] == "k"


def test_a_program_is_printed_as_it_is_but_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "k.lf"
    program.write_text(f"# \u202e\x1b[31m\n{ADD}")
    for is_terminal in (False, True):
        out = io.StringIO()
        monkeypatch.setattr(out, "isatty", lambda answer=is_terminal: answer)
        monkeypatch.setattr(sys, "stdout", out)
        assert _run(["fmt", "--stdout", str(program)]) == 0
        text = out.getvalue()
        assert text == (printable(program.read_text()) if is_terminal else program.read_text())


def test_nor_does_python(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[31m\u202e.lf"
    path.write_text(ADD)
    kernel = loopfuse.load(path)
    report = kernel.explain(N=4, target="cpu")
    texts = [repr(kernel), str(report), repr(report), report._repr_html_(), str(kernel.verify())]
    with pytest.raises(UserError) as caught:
        loopfuse.loads(ADD.replace("x[i]", "x[i + 1]"), name=f"a{EVIL}").explain()
    texts += [str(caught.value), repr(caught.value)]
    for text in texts:
        assert not UNSAFE.search(text), text
    assert np.array_equal(kernel(np.ones(3, np.float32)), [2, 2, 2])
