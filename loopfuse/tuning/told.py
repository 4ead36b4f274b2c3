"""What the compile of a choice has to say of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from loopfuse.base.diagnostics import InternalError, LoopfuseError

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Told:
    """Why a choice cannot be used; no `problem`: it can. `is_bug`: for a reason that is ours."""

    problem: str = ""
    is_bug: bool = False

    @staticmethod
    def by(error: LoopfuseError) -> Told:
        """What an error says of the choice."""
        text = error.diagnostics[0].message if error.diagnostics else str(error)
        return Told(text, isinstance(error, InternalError))


def listen(compile_it: Callable[[], Made]) -> tuple[Made | None, Told]:
    """What `compile_it` makes, and what is said of it. Nothing is raised that speaks of the choice
    alone: a bug in a plan that nobody asked for, a limit, a plan that was not proved (what would run
    is another choice)."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            made = compile_it()
        except LoopfuseError as error:
            return None, Told.by(error)
    unproved = [str(one.message) for one in heard if one.category is UserWarning]
    if unproved:
        return None, Told(unproved[0], "This is a bug" in unproved[0])
    return made, Told()
