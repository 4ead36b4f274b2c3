"""What a campaign by seed needs of a generator: a module with

    SUFFIX                        of the files that programs are written to, such as ".lf"
    check(number) -> Checked      makes program `number`, compares, tells; may kill its process
    text(number, notes) -> str    the program as a file, with `notes` as comments in front

A program depends on its number alone, and so does what `check` does with it: whatever a number found,
it finds again. To add a generator, add its module here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

GENERATORS = {
    "lf": "fuzz.quick", "pretend": "fuzz.pretend", "python": "fuzz.python_quick",
    "pipelines": "fuzz.pipelines", "nests": "fuzz.nests",
}  # fmt: skip
"""Modules, by the names that `tests/loopfuse-fuzz --generator` takes."""


@dataclass(frozen=True)
class Checked:
    """What became of one program: `status` is ok, refused (for `code`) or failed. Failures of one
    `kind` look like one bug; `detail` says more. `ran` counts what was run, by words for it."""

    status: str
    code: str = ""
    kind: str = ""
    detail: str = ""
    ran: dict[str, int] = field(default_factory=dict)


def module_of(generator: str) -> Any:
    """The generator's module."""
    return importlib.import_module(GENERATORS[generator])
