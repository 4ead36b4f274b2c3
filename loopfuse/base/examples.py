"""The programs and pictures that come with loopfuse: `example:NAME` wherever a file is taken.

A wheel carries the checkout's `examples` inside the package, as `loopfuse/_examples`
(pyproject.toml). Their Python twins are for reading: a command runs no Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from loopfuse.base.diagnostics import Diagnostic, UserError

PREFIX = "example:"
PROGRAMS, PICTURES = (".lf", ".mlir"), (".png", ".npy")


@dataclass(frozen=True, slots=True)
class Example:
    """One example: what to write after `example:`, its file, and what it is in one sentence."""

    name: str
    path: Path
    about: str

    @property
    def is_program(self) -> bool:
        """It holds kernels (else it is a value, for a parameter)."""
        return self.path.suffix in PROGRAMS


def examples_folder(package: Path | None = None) -> Path:
    """Where they lie: in the package of an installed wheel, else beside it in a checkout."""
    package = package or Path(__file__).resolve().parent.parent
    inside = package / "_examples"
    return inside if inside.is_dir() else package.parent / "examples"


def list_examples() -> list[Example]:
    """All of them by name: programs (one without its suffix, where that says enough), then
    pictures."""
    files = sorted(p for p in examples_folder().glob("*") if p.suffix in (*PROGRAMS, *PICTURES))
    stems = {path.stem for path in files if path.suffix == ".lf"}
    found = [
        Example(
            path.name if path.suffix != ".lf" and path.stem in stems else path.stem,
            path,
            _about(path),
        )
        for path in files
    ]
    return sorted(found, key=lambda one: (not one.is_program, one.name))


def find_example(text: str, programs: bool = True) -> Path | None:
    """The file that `example:NAME` means (NAME with or without its suffix), a program or a value;
    None where `text` is no such name. UserError[unknown-example]."""
    if not text.startswith(PREFIX):
        return None
    name = text.removeprefix(PREFIX)
    every = list_examples()
    known = [one for one in every if one.is_program == programs]
    for one in known:
        if name in (one.name, one.path.name):
            return one.path
    if any(name in (one.name, one.path.name) for one in every):
        raise UserError(
            Diagnostic(
                "unknown-example",
                f"`{text}` is a picture, and a program is asked for"
                if programs
                else f"`{text}` is a program, and a value is asked for",
                fix=f"give it to a parameter, `run {PREFIX}unsharp img={text} amount=1`"
                if programs
                else f"give a picture, such as `{PREFIX}{known[0].name}`, or `loopfuse run {text}`",
            )
        )
    import difflib  # only now: reading a file must not wait for it

    near = difflib.get_close_matches(name, [one.name for one in known], 1)
    kind = "example" if programs else "example value"
    raise UserError(
        Diagnostic(
            "unknown-example",
            f"there is no {kind} `{name}`",
            fix=(f"did you mean `{PREFIX}{near[0]}`? " if near else "")
            + "`loopfuse examples` lists them",
        )
    )


def example_named(text: str) -> Path | None:
    """The program that `example:NAME` means, or None where there is none."""
    name = text.removeprefix(PREFIX)
    if name == text:
        return None
    found = (one for one in list_examples() if one.is_program and name in (one.name, one.path.name))
    return next((one.path for one in found), None)


def like_example(file: str) -> str:
    """`example:NAME` for a file name that is an example's (`examples/blur.lf`), else nothing."""
    name = Path(file).name
    found = (one for one in list_examples() if name in (one.name, one.path.name))
    return next((PREFIX + one.name for one in found if one.is_program), "")


def _about(path: Path) -> str:
    """The first sentence of the comment that a program starts with."""
    if path.suffix not in PROGRAMS:
        return "a picture, for an array of two or three dimensions"
    words: list[str] = []
    for line in path.read_text("utf-8").splitlines():
        mark = re.match(r"(#|//)\s?(.*)", line)
        if mark is None:
            break
        words.append(mark.group(2).strip())
    text = " ".join(words)
    end = re.search(r"[.:](?= [A-Z`]|$)", text)
    return (text[: end.start()] if end else text).rstrip(".:")
