"""Programs, what they are answered, and hands that do what a fix says.

A hand gets a program with its first diagnostic and returns another program. What it writes is taken from
the message: the code in backticks of the fix, put at the place that the message names. Where that code
has a part for the user to fill (`...`, `a..b`), the part is filled with what stands in the program.
"""

from __future__ import annotations

import linecache
import math
import re
import shlex
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import loopfuse
from loopfuse.base.diagnostics import Diagnostic, LoopfuseError, Source
from loopfuse.cli import cli
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check_with_warnings

_KEPT = tempfile.TemporaryDirectory(prefix="loopfuse-fixes-")
_FOLDER = Path(_KEPT.name)


@dataclass(frozen=True)
class Said:
    """A program and the first thing said of it."""

    text: str
    diagnostic: Diagnostic

    @property
    def fix(self) -> str:
        """The fix line."""
        return self.diagnostic.fix

    @property
    def codes(self) -> list[str]:
        """What the fix line has in backticks, in order."""
        return re.findall(r"`([^`]+)`", self.fix)

    @property
    def bounds(self) -> tuple[int, int]:
        """Where the place stands in the text."""
        span = self.diagnostic.span
        starts = [0]
        for line in self.text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts[span.line - 1] + span.column - 1, starts[span.end_line - 1] + span.end_column - 1

    @property
    def place(self) -> str:
        """The text that is underlined."""
        first, last = self.bounds
        return self.text[first:last]

    @property
    def line(self) -> int:
        """The index of the place's line."""
        return self.diagnostic.span.line - 1

    @property
    def here(self) -> str:
        """The place's line."""
        return self.text.split("\n")[self.line]

    def put(self, code: str) -> str:
        """The program with `code` where the place was."""
        first, last = self.bounds
        return self.text[:first] + code + self.text[last:]

    def line_put(self, *new: str, line: int | None = None) -> str:
        """The program with these lines instead of one; they get its indentation."""
        lines = self.text.split("\n")
        at = self.line if line is None else line
        indent = re.match(r" *", lines[at])
        assert indent is not None
        lines[at : at + 1] = [indent.group() + one for one in new]
        return "\n".join(lines)


Hand = Callable[[Said], str]


@dataclass(frozen=True)
class ByMachine:
    """`hand` does what the fix says of `program` (of the code's example on the page where empty).
    `then`: what is right to be told next; otherwise the result compiles, after the fixes of the
    messages that come next where there are such."""

    hand: Hand
    program: str = ""
    then: tuple[str, ...] = ()


@dataclass(frozen=True)
class ByUser:
    """Why no machine can apply the fix."""

    reason: str


Entry = ByMachine | ByUser


# ------------------------------------------------------------------------------------- doors


WARNINGS = frozenset({"promotes-to-f64", "never-used", "never-written", "not-affine"})


def diagnose(language: str, text: str, warning: str = "") -> Diagnostic | None:
    """What is said of the program first: an error, or the warning `warning`; None for neither.

    `python` programs run with `np`, `math` and `loopfuse`; each kernel in them that is annotated is
    planned, and so is every kernel of a `.lf` or MLIR program, for the CPU; `# given S=1` in one gives a
    `const` parameter a value.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if warning in WARNINGS and language == "lf":
                _, complaints = check_with_warnings(parse(Source("k.lf", text)))
                for one in complaints:
                    if one.code == warning:
                        return one
            _plan(language, text)
        except LoopfuseError as error:
            return error.diagnostics[0]
    return None


def _plan(language: str, text: str) -> None:
    if language == "command":
        run_command(text)
        return
    if language == "python":
        for kernel in run_python(text).values():
            if isinstance(kernel, loopfuse.PythonKernel):
                try:
                    kernel.explain(target="cpu")
                except LoopfuseError as error:
                    if error.diagnostics[0].code != "python-types-unknown":
                        raise
        return
    given: dict[str, int] = {}
    if language == "mlir":
        path = _FOLDER / "program.mlir"
        path.write_text(text, "utf-8")
        made = loopfuse.load(path)
    else:
        made = loopfuse.loads(text)
        given = {name: int(value) for name, value in re.findall(r"# given (\w+)=(\d+)", text)}
    for kernel in made.values() if hasattr(made, "values") else (made,):
        kernel.explain(target="cpu", **given)


def run_python(text: str) -> dict[str, Any]:
    """What the program leaves in its names."""
    path = _FOLDER / "program.py"
    path.write_text(text, "utf-8")
    linecache.checkcache(str(path))
    scope: dict[str, Any] = {"np": np, "math": math, "loopfuse": loopfuse, "__name__": "program"}
    exec(compile(text, str(path), "exec", dont_inherit=True), scope)
    return scope


def run_command(text: str) -> None:
    """A command line, with settings of the environment before it, in a folder with two programs:
    `one.lf` and, with two kernels, `two.lf`."""
    kernel = "kernel {}(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i]\n"
    (_FOLDER / "one.lf").write_text(kernel.format("k"), "utf-8")
    (_FOLDER / "two.lf").write_text(kernel.format("k") + kernel.format("other"), "utf-8")
    words = shlex.split(text)
    settings: dict[str, str | None] = {}
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        settings[name] = value
    words = [str(_FOLDER / word) if word.endswith(".lf") or word == "out" else word for word in words]
    result = CliRunner().invoke(cli, words, env=settings)
    assert result.exit_code != 2, result.output
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


# ------------------------------------------------------------------------------------- hands


def mechanical(said: Said) -> str:
    """Does what the words of the fix say, where they are among those that always mean the same."""
    fix, codes = said.fix, said.codes
    if re.match(r"remove (it|`)", fix) and (not codes or codes[0] == said.place):
        first, last = said.bounds
        rest = said.here[: said.diagnostic.span.column - 1] + said.here[said.diagnostic.span.end_column - 1 :]
        return said.put("") if rest.strip() else said.text[:first].rstrip(" ") + said.text[last + 1 :]
    if re.search(r"another name|something else", fix):
        return renamed(said, said.place, codes[-1])
    if re.match(r"declare it `(in|out|inout) ", fix):
        return re.sub(rf"\b{re.escape(codes[0].split()[-1])}: ", f"{codes[0]}: ", said.text, count=1)
    if re.match(r"close it with `", fix):
        return said.line_put(said.here.strip() + codes[0])
    if re.match(r"write `[^`]+` here", fix):
        return said.put(codes[0] + said.place)
    if re.match(r"(write|did you mean|subscript it|write the conversion|compare it|use|take a part|it is|assign its element|write the number|compare):? `", fix):
        code, (first, _) = codes[0], said.bounds
        assert "..." not in code and "a..b" not in code, fix
        if code[0] == "." and said.text[first - 1] == ".":
            code = code[1:]
        return said.put(code)
    raise AssertionError(f"no hand for: {fix}")


def renamed(said: Said, old: str, new: str) -> str:
    """The word at the place, and on the lines below, under its new name."""
    old = re.split(r"\W", old)[0]
    first, _ = said.bounds
    end = said.text.find("\n", first)
    end = len(said.text) if end < 0 else end
    here = said.text[first:end]
    here = re.sub(rf"\b{old}\b", new, here, count=1)
    return said.text[:first] + here + re.sub(rf"\b{old}\b", new, said.text[end:])


def template(code: str, **parts: str) -> str:
    """`code` with its parts filled: `template("for i in a..b:", i="k", **{"a..b": "0..N"})`."""
    pattern = "|".join(re.escape(one) for one in sorted(parts, key=len, reverse=True))
    edge = [rf"\b{re.escape(one)}\b" if one.isidentifier() else re.escape(one) for one in sorted(parts, key=len, reverse=True)]
    assert re.search(pattern, code), (code, parts)
    return re.sub("|".join(edge), lambda found: parts[found.group()], code)


def swap_code(new: int, old: int) -> Hand:
    """`use X instead of Y`: the one for the other, on the place's line."""

    def hand(said: Said) -> str:
        a, b = said.codes[new], said.codes[old]
        assert b in said.here, (said.here, b)
        return said.line_put(said.here.strip().replace(b, a, 1))

    return hand


def on_line(
    pattern: str, make: Callable[[Said, re.Match[str]], str], covers: int | None = None
) -> Hand:
    """Puts what `make` gives for the pattern found on the place's line instead of it: the first, or the
    one that covers a column (from 0)."""

    def hand(said: Said) -> str:
        every = re.finditer(pattern, said.here)
        found = next((m for m in every if covers is None or m.start() <= covers < m.end()), None)
        assert found is not None, (pattern, said.here)
        return said.line_put((said.here[: found.start()] + make(said, found) + said.here[found.end() :]).strip())

    return hand


def in_text(pattern: str, make: Callable[[Said, re.Match[str]], str]) -> Hand:
    """The same anywhere in the program, once."""

    def hand(said: Said) -> str:
        found = re.search(pattern, said.text)
        assert found is not None, (pattern, said.text)
        return said.text[: found.start()] + make(said, found) + said.text[found.end() :]

    return hand
