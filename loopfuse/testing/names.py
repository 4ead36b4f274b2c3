"""How tests name things: a loop by id, line, what it writes or its iterator; an array by name.

A name that fits nothing, or several things, is a UserError that lists what there is: an assertion
about a misspelt loop must not pass.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from loopfuse.plan.report import base_name
from loopfuse.plan.units.records import LoopInfo
from loopfuse.poly.deps_report import source_name
from loopfuse.poly.model import Loop, Statement
from loopfuse.testing.subject import Subject, refuse


@dataclass(frozen=True, slots=True)
class NamedLoop:
    """A loop (or a statement outside all loops) as reports call it."""

    id: str
    line: int
    lines: frozenset[int]
    writes: tuple[str, ...]
    iterators: tuple[str, ...]
    has_parts: bool = False

    def __str__(self) -> str:
        return f"{self.id} line {self.line}, writes {', '.join(self.writes)}"


def loops_of(subject: Subject) -> tuple[NamedLoop, ...]:
    """Everything that may fuse: loops, their parts, statements outside loops."""
    statements = subject.planned.program.statements
    found: list[NamedLoop] = []

    def add(loop: LoopInfo, has_parts: bool) -> None:
        inside = [s for s in statements if s.label in loop.statements and s.loops]
        around = {
            source_name(one.iterator): one.line
            for s in inside
            for one in s.loops
            if not one.reduction and _belongs(one.label, loop.id)
        }
        lines = {s.line for s in inside} | set(around.values())
        found.append(
            NamedLoop(loop.id, loop.line, frozenset(lines), loop.writes, tuple(around), has_parts)
        )

    for loop in subject.report.loops:
        add(loop, bool(loop.parts))
        for part in loop.parts:
            add(part, False)
    for s in statements:
        if not s.loops and s.kind != "init" and not s.is_hidden:
            writes = (base_name(s.write.array),)
            found.append(NamedLoop(s.label, s.line, frozenset({s.line}), writes, ()))
    return tuple(found)


def _belongs(label: str, id: str) -> bool:
    return label == id or label.startswith(id + ".")


def find_loop(subject: Subject, name: str | int) -> str:
    """The id of the loop meant. UserError[unknown-loop] or [ambiguous-loop], listing the loops."""
    known = loops_of(subject)
    text = str(name).strip()
    if any(one.id == text for one in known):
        return text
    found = _by_line(known, text)
    if found is None:
        found = [one for one in known if text in one.writes]
        found = found or [one for one in known if text in one.iterators]
    # A loop with parts is planned part by part: what one part alone does names that part.
    parts = [one for one in found if not one.has_parts]
    found = parts or found
    if len(found) == 1:
        return found[0].id
    listed = [str(one) for one in found or known]
    if found:
        raise refuse(
            "ambiguous-loop",
            f"`{text}` fits {len(found)} loops of `{subject.name}`",
            f'name one by its id: "{found[0].id}"',
            listed,
        )
    raise refuse(
        "unknown-loop",
        f"`{subject.name}` has no loop `{text}`",
        'use an id ("L1"), a line (8), what it writes ("rows") or its iterator',
        listed or ["nothing in it loops"],
    )


def _by_line(known: tuple[NamedLoop, ...], text: str) -> list[NamedLoop] | None:
    """The loops at a line (`12` or `line 12`), else those around it; None: it is no line."""
    words = text.split()
    if words[:1] == ["line"]:
        words = words[1:]
    if len(words) != 1 or not words[0].isdecimal():
        return None
    line = int(words[0])
    starting = [one for one in known if one.line == line]
    return starting or [one for one in known if line in one.lines]


def find_array(subject: Subject, name: str, known: Iterable[str]) -> str:
    """`name`, if it is one of `known`; UserError[unknown-array] listing them."""
    names = list(dict.fromkeys(known))
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, 1)
    fix = f"did you mean `{close[0]}`?" if close else ""
    listed = ", ".join(names) or "none"
    raise refuse(
        "unknown-array", f"`{subject.name}` has no array `{name}`", fix, [f"it has {listed}"]
    )


def find_iterator(
    subject: Subject, name: str, loop: str | int | None
) -> tuple[tuple[Statement, int], ...]:
    """Every loop whose iterator is `name` (inside `loop`, where given): for each statement in it,
    the statement and the depth of the loop. UserError[unknown-iterator] listing the iterators."""
    within = None if loop is None else find_loop(subject, loop)
    found: list[tuple[Statement, int]] = []
    seen: dict[str, Loop] = {}
    for s in subject.planned.program.statements:
        for depth, one in enumerate(s.loops):
            if s.is_hidden or (within and not _stands_in(s, within)):
                continue
            seen.setdefault(one.iterator, one)
            if source_name(one.iterator) == name:
                found.append((s, depth))
    if found:
        return tuple(found)
    where = f" in {within}" if within else ""
    raise refuse(
        "unknown-iterator",
        f"no loop of `{subject.name}`{where} has the iterator `{name}`",
        "name the variable of a `for`, as the source spells it",
        [f"`{source_name(one.iterator)}` of {one.label}, line {one.line}" for one in seen.values()],
    )


def _stands_in(statement: Statement, id: str) -> bool:
    return any(_belongs(loop.label, id) for loop in statement.loops)


# -------------------------------------------------------------------------------------- homes

HOMES = ("register", "lanes", "window", "line", "shared", "distributed", "global")


def find_temporary(subject: Subject, name: str) -> str:
    """`name`, if the program has a temporary of that name; UserError[unknown-array]."""
    from loopfuse.poly.build import build_model

    model = build_model(
        subject.kernel.program(dict(subject.constants) or None).kernel(subject.name)
    )
    temporaries = [one.name for one in model.arrays.values() if one.kind == "temp"]
    if name in model.arrays and model.arrays[name].is_argument:
        raise refuse(
            "unknown-array",
            f"`{name}` is an argument of `{subject.name}`, and lives where the caller put it",
            "ask for a temporary",
            [f"its temporaries are {', '.join(map(base_name, temporaries)) or 'none'}"],
        )
    return find_array(subject, name, map(base_name, temporaries))


def check_home(home: str) -> None:
    """UserError[unknown-home] for what is no home."""
    if not re.fullmatch(rf"({'|'.join(HOMES)})(\(\d+\))?", home):
        raise refuse(
            "unknown-home", f"{home!r} is no home", f"there are {', '.join(HOMES)}, as in window(5)"
        )
