"""The cases of the CPU's table, a module for each class."""

from __future__ import annotations

from . import algebra, grids, images, networks, polybench, reductions
from .case import Case

CASES: tuple[Case, ...] = (
    *polybench.CASES,
    *images.CASES,
    *grids.CASES,
    *algebra.CASES,
    *networks.CASES,
    *reductions.CASES,
)

BY_KEY = {case.key: case for case in CASES}


def chosen(words: str) -> tuple[Case, ...]:
    """The cases that a comma-separated list names, by key or class (a word ending in `*` is a prefix); all
    for an empty one. KeyError for a word that names none."""
    if not words:
        return CASES
    names: set[str] = set()
    for word in words.split(","):
        prefix = word.removesuffix("*")
        found = {
            case.key
            for case in CASES
            if word in (case.key, case.group) or (word.endswith("*") and case.key.startswith(prefix))
        }
        if not found:
            raise KeyError(f"no case `{word}`; there are {', '.join(BY_KEY)}")
        names |= found
    return tuple(case for case in CASES if case.key in names)
