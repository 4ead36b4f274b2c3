"""A smaller program with the same failure, within a time budget.

First the generator's decisions: runs of them are deleted or made simplest, single ones lowered.
Then the text: lines and blocks go, parenthesised parts are replaced by what stands in them, sizes
and data become smaller. Each try is a whole comparison, so time is what limits it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from fuzz.choices import Replay
from fuzz.program import Program

Fails = Callable[[Program], str | None]
"""The kind of a program's failure; None where it has none, or is refused."""


class _Search:
    def __init__(self, fails: Fails, kind: str, seconds: float) -> None:
        self.fails, self.kind = fails, kind
        self.end = time.monotonic() + seconds
        self.seen: set[str] = set()

    @property
    def over(self) -> bool:
        return time.monotonic() > self.end

    def holds(self, program: Program) -> bool:
        """Whether the program fails in the same way; each is tried once."""
        text = str(program)
        if text in self.seen or self.over:
            return False
        self.seen.add(text)
        return self.fails(program) == self.kind


def shrink(
    program: Program,
    taken: list[int],
    generate: Callable[[Replay], Program],
    fails: Fails,
    kind: str,
    seconds: float,
) -> Program:
    """The smallest program found that fails with `kind`; `taken` are the decisions that made
    `program` (none: it came from a file)."""
    search = _Search(fails, kind, seconds)
    search.seen.add(str(program))
    best = program
    if taken:
        search.end = time.monotonic() + seconds * 0.5
        best = _fewer_decisions(search, best, taken, generate)
    search.end = time.monotonic() + seconds * 0.5
    return _less_text(search, best)


def _fewer_decisions(
    search: _Search, best: Program, taken: list[int], generate: Callable[[Replay], Program]
) -> Program:
    changed = True
    while changed and not search.over:
        changed = False
        for numbers in _smaller_lists(list(taken)):
            if search.over:
                break
            replay = Replay(numbers)
            try:
                program = generate(replay)
            except Exception:  # an unlikely list; the generator's own tests are elsewhere
                continue
            if len(program.text) <= len(best.text) and search.holds(program):
                best, taken, changed = program, replay.taken, True
                break
    return best


def _smaller_lists(numbers: list[int]) -> Iterator[list[int]]:
    length = len(numbers)
    size = max(1, length // 2)
    while size >= 1:
        for start in range(0, length, size):
            yield numbers[:start] + numbers[start + size :]
            if any(numbers[start : start + size]):
                zeros = [0] * len(numbers[start : start + size])
                yield numbers[:start] + zeros + numbers[start + size :]
        size //= 2


# ---------------------------------------------------------------------------------------- text


def _less_text(search: _Search, best: Program) -> Program:
    changed = True
    while changed and not search.over:
        changed = False
        for program in _smaller_programs(best):
            if search.over:
                break
            if search.holds(program):
                best, changed = program, True
                break
    return best


def _smaller_programs(program: Program) -> Iterator[Program]:
    lines = program.text.splitlines()
    for start, end in _blocks(lines):
        yield replace(program, text="\n".join(lines[:start] + lines[end:]) + "\n")
    for start, end in _blocks(lines):
        if end > start + 1:  # the header alone goes, what it holds moves out
            inner = [line[4:] for line in lines[start + 1 : end]]
            yield replace(program, text="\n".join(lines[:start] + inner + lines[end:]) + "\n")
    yield from _simpler_calls(program)
    for number, line in enumerate(lines):
        for shorter in _shorter_lines(line):
            text = "\n".join([*lines[:number], shorter, *lines[number + 1 :]]) + "\n"
            yield replace(program, text=text)


def _blocks(lines: list[str]) -> list[tuple[int, int]]:
    """(first, end) of every statement with what it holds, the longest first; not the kernels."""
    found: list[tuple[int, int]] = []
    for start, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        end = start + 1
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
            end += 1
        if not line.startswith("kernel"):
            found.append((start, end))
    return sorted(found, key=lambda pair: pair[0] - pair[1])


def _simpler_calls(program: Program) -> Iterator[Program]:
    if program.views:
        yield replace(program, views=())
        for gone in program.views:
            yield replace(program, views=tuple(v for v in program.views if v != gone))
    if program.shared:
        yield replace(program, shared=())
    if program.together:
        yield replace(program, together=())
    if program.faults:
        yield replace(program, faults=False)
    if program.machine != "usual":
        yield replace(program, machine="usual")
    if program.fp != "fast":
        yield replace(program, fp="fast")
    if program.data != "random":
        yield replace(program, data="random")
    if program.seed:
        yield replace(program, seed=0)
    for name, value in program.sizes.items():
        for smaller in (0, 1, 2, 3, value // 2, value - 1):
            if smaller < value:
                yield replace(program, sizes={**program.sizes, name: smaller})
    for name, value in program.scalars.items():
        if type(value) is int and value > 0:
            yield replace(program, scalars={**program.scalars, name: value - 1})


_ITEM = re.compile(r"[\w.]+ in [^:,]*,? ?|\w+: \w+(\[[^\]]*\])?,? ?")


def _shorter_lines(line: str) -> Iterator[str]:
    """The line with one bracketed part replaced by a part of it or by 1, or with one parameter or
    range fewer."""
    opened: list[int] = []
    for position, letter in enumerate(line):
        if letter == "(":
            opened.append(position)
        elif letter == ")" and opened:
            start = opened.pop()
            before = line[:start].rstrip("abcdefghijklmnopqrstuvwxyz_0123456789")
            after, inside = line[position + 1 :], line[start + 1 : position]
            yield f"{before}1{after}"
            for part in re.split(r" (?:[-+*/%&|^<>=!]+|and|or|if|else|min|max) |, |: ", inside):
                yield f"{before}{part}{after}"
    if "=" in line and not line.lstrip().startswith(("for", "if", "elif", "kernel", "func")):
        head, _, value = line.partition("= ")
        for part in re.split(r" [-+*/%&|^]+ ", value):
            if part != value:
                yield f"{head}= {part}"
    for item in _ITEM.finditer(line):
        yield re.sub(r", ([):])", r"\1", line[: item.start()] + line[item.end() :])
