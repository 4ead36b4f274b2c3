"""A generated program with one call of it, and its form as a file like those of `tests/cases`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from case_files import CASES, read_case

PREFIX = "# fuzz:"


@dataclass(frozen=True)
class Program:
    """Everything that decides a run; arrays are made from `data` and `seed` (see `arguments`).

    `views` says which arguments are passed as which kind of view, `shared` which two `in` arrays
    are one, `together` which two, of which one is written at least, lie in one block of memory and how
    (see `arguments`); `faults`: some subscripts that are data point outside. `machine` names the block
    sizes it is planned with (see `machines`), `features` what the generator had switched on.
    """

    text: str
    sizes: dict[str, int] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    data: str = "random"
    seed: int = 0
    fp: str = "fast"
    machine: str = "usual"
    faults: bool = False
    views: tuple[tuple[str, str], ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    together: tuple[tuple[str, str], ...] = ()
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return case_text(self)

    __repr__ = __str__


def case_text(program: Program, notes: str = "") -> str:
    """The program as a case file; `notes` come first, as comments."""
    lines = [f"# {line}".rstrip() for line in notes.splitlines()]
    lines.append("# sizes: " + ", ".join(f"{k}={v}" for k, v in program.sizes.items()))
    if program.scalars:
        shown = {k: str(v).lower() for k, v in program.scalars.items()}
        lines.append("# args: " + " ".join(f"{k}={v}" for k, v in shown.items()))
    if program.data != "random":
        lines.append(f"# data: {program.data}")
    settings = [f"seed={program.seed}"]
    settings += [f"fp={program.fp}"] * (program.fp != "fast")
    settings += [f"machine={program.machine}"] * (program.machine != "usual")
    settings += ["faults=1"] * program.faults
    settings += [f"view:{name}={kind}" for name, kind in program.views]
    settings += [f"shared:{one}={other}" for one, other in program.shared]
    settings += [f"together:{pair}={kind}" for pair, kind in program.together]
    lines.append(f"{PREFIX} " + " ".join(settings))
    return "\n".join(lines) + "\n" + program.text


def read_program_file(path: Path) -> Program:
    """The program in a case file (any of `tests/cases`, or one that a campaign wrote)."""
    case = read_case(path)
    lines = case.text.splitlines()
    first = next((k for k, line in enumerate(lines) if line and not line.startswith("#")), 0)
    text = "\n".join(lines[first:]) + "\n"
    program = Program(text, case.sizes[0] if case.sizes else {}, case.args or {}, case.data)
    for line in lines[:first]:
        if line.startswith(PREFIX):
            pairs = (item.split("=", 1) for item in line[len(PREFIX) :].split())
            program = _with_settings(program, dict(pairs))
    return program


def _with_settings(program: Program, settings: Mapping[str, str]) -> Program:
    def pairs(prefix: str) -> tuple[tuple[str, str], ...]:
        named = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
        return tuple(named.items())

    return replace(
        program,
        seed=int(settings.get("seed", "0")),
        fp=settings.get("fp", "fast"),
        machine=settings.get("machine", "usual"),
        faults=settings.get("faults") == "1",
        views=pairs("view:"),
        shared=pairs("shared:"),
        together=pairs("together:"),
    )


def found_programs() -> tuple[Path, ...]:
    """The cases that campaigns found: those with a line of settings."""
    return tuple(p for p in sorted(CASES.glob("*.lf")) if f"\n{PREFIX}" in "\n" + p.read_text())
