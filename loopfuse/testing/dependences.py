"""Picking dependences of the `deps` JSON by what a test says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loopfuse.poly.deps_report import source_name
from loopfuse.testing.facts import table_of
from loopfuse.testing.names import find_array
from loopfuse.testing.subject import Subject, refuse

KINDS = ("flow", "anti", "output")
SIGNS = "<=>*"


@dataclass(frozen=True, slots=True)
class Filter:
    """What a dependence is to be like; None (and an empty `carried_by`): not asked."""

    kind: str | None
    array: str | None
    distance: Sequence[int | None] | None
    direction: Sequence[str] | None
    source: str | int | None
    sink: str | int | None
    carried_by: tuple[str | None, ...]
    reduction: bool | None
    exact: bool | None

    def _words(self, noun: str) -> str:
        words = [f"{self.kind} {noun}" if self.kind else noun]
        if self.reduction is not None:
            words[0] = ("reduction " if self.reduction else "non-reduction ") + words[0]
        if self.exact is not None:
            words[0] = ("exact " if self.exact else "inexact ") + words[0]
        if self.array is not None:
            words.append(f"over `{self.array}`")
        if self.source is not None:
            words.append(f"from {_end(self.source)}")
        if self.sink is not None:
            words.append(f"to {_end(self.sink)}")
        if self.distance is not None:
            shown = ", ".join("*" if one is None else str(one) for one in self.distance)
            words.append(f"of distance ({shown})")
        if self.direction is not None:
            words.append(f"of direction ({', '.join(self.direction)})")
        for loop in self.carried_by:
            words.append(f"carried by `{loop}`" if loop else "carried by no loop")
        return " ".join(words)

    def __str__(self) -> str:
        return self._words("dependence")

    @property
    def singular(self) -> str:
        """The same with its article."""
        text = str(self)
        return f"{'an' if text[0] in 'aeiou' else 'a'} {text}"

    @property
    def plural(self) -> str:
        """The same of several."""
        return self._words("dependences")

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Is a record of the JSON like this?"""
        return (
            self.kind in (None, row["kind"])
            and self.array in (None, row["array"])
            and (self.distance is None or list(self.distance) == row["distance"])
            and (self.direction is None or list(self.direction) == row["direction"])
            and (self.source is None or _is_end(self.source, row["source"]))
            and (self.sink is None or _is_end(self.sink, row["sink"]))
            and (not self.carried_by or row["carried_by"] in self.carried_by)
            and self.reduction in (None, row["reduction"])
            and self.exact in (None, row["exact"])
        )


def _end(name: str | int) -> str:
    text = str(name).strip()
    return f"line {text}" if text.isdecimal() else text


def _is_end(name: str | int, end: Mapping[str, Any]) -> bool:
    return _end(name) in (end["statement"], f"line {end['line']}")


def select(subject: Subject, wanted: Filter) -> list[dict[str, Any]]:
    """The dependences that fit; UserError for a filter that none can fit."""
    _check(subject, wanted)
    return [row for row in subject.dependences()["dependences"] if wanted.fits(row)]


def near_text(subject: Subject, wanted: Filter) -> str:
    """The dependences of the array asked for, or all where it has none."""
    rows = subject.dependences()["dependences"]
    mine = [row for row in rows if wanted.array in (None, row["array"])]
    return table_of(subject.name, mine or rows)


def _check(subject: Subject, wanted: Filter) -> None:
    """Everything a filter names exists: what cannot be would make `assert_no_dependence` pass."""
    from loopfuse.poly.build import build_model

    model = build_model(subject.kernel.program().kernel(subject.name))
    shown = [s for s in model.statements if not s.is_hidden]
    if wanted.kind is not None and wanted.kind not in KINDS:
        raise refuse(
            "bad-filter",
            f"kind={wanted.kind!r} is no kind of dependence",
            "use flow, anti or output",
        )
    if wanted.array is not None:
        rows = subject.dependences()["dependences"]
        find_array(subject, wanted.array, [*model.arrays, *(row["array"] for row in rows)])
    for what, end in (("source", wanted.source), ("sink", wanted.sink)):
        ends = [{"statement": s.label, "line": s.line} for s in shown if s.kind != "init"]
        if end is not None and not any(_is_end(end, one) for one in ends):
            listed = [f"{one['statement']} line {one['line']}" for one in ends]
            raise refuse(
                "unknown-statement",
                f"{what}={end!r} is no statement of `{subject.name}`",
                'name one by its label ("S2") or its line',
                list(dict.fromkeys(listed)),
            )
    iterators = dict.fromkeys(source_name(name) for s in shown for name in s.iterators)
    for loop in wanted.carried_by:
        if loop is not None and loop not in iterators:
            raise refuse(
                "unknown-iterator",
                f"no loop of `{subject.name}` has the iterator `{loop}`",
                f"there are {', '.join(iterators)}" if iterators else "it has no loops",
            )
    depth = max((len(s.loops) for s in shown), default=0)
    for what, vector in (("distance", wanted.distance), ("direction", wanted.direction)):
        if vector is not None and len(vector) > depth:
            raise refuse(
                "bad-filter",
                f"{what} has {len(vector)} entries, and loops of `{subject.name}` nest {depth} deep",
                "give one for each loop that stands around both ends",
            )
    if wanted.direction is not None and any(one not in SIGNS for one in wanted.direction):
        raise refuse(
            "bad-filter",
            f"direction={wanted.direction!r} has something else than < = > *",
            'write one sign a loop, as in "=<"',
        )
