"""Random loop nests by seed: triangular, banded, skewed, imperfect, in place, of several statements, forwards and
backwards, under loops of time; temporaries of one iteration and accumulators among them.

What the general generator (`generate`) varies is the language; here it is the order in which elements are written and
read. Subscripts stay inside their arrays by construction: each variable knows in which dimension it counts, and how
far from both ends it stays. Planned with usual or with tiny tiles, and every launch is shared among threads.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar
from unittest.mock import patch

from fuzz import quick
from fuzz.campaigns import Checked
from fuzz.choices import Choices, RandomChoices
from fuzz.machines import changed, machine
from fuzz.program import Program, case_text
from loopfuse.plan.mapping import strips
from loopfuse.plan.mapping import threads as chunks
from loopfuse.plan.strategies.affine import orders
from loopfuse.runtime.devices import native_steps, sharing

T = TypeVar("T")

SUFFIX = ".lf"
TYPES = ("f64", "f64", "f32", "i32", "i64")
SIZES = ("N", "M")
MOST_STATEMENTS = 5
DEEPEST = 3

_TINY_TILES = {
    (orders, "BLOCK"): 4, (orders, "TILE"): (3, 5), (orders, "DEEP_TILE"): (3, 4), (orders, "WAITING"): 2,
    (strips, "STRIP"): 4, (strips, "LONG_STRIP"): 8, (strips, "SHORT"): 2, (chunks, "CHUNK_PRICE"): 32,
}  # fmt: skip
_SHARED = {
    (module, name): 1
    for module in (sharing, native_steps)
    for name in ("ALONE_NANOSECONDS", "THREAD_NANOSECONDS", "CHUNK_NANOSECONDS")
}


def program_of(number: int) -> Program:
    """Program `number`."""
    return generate(RandomChoices(f"nest:{number}"))


def is_exact(program: Program) -> bool:
    """Are its arrays of integers, whose sums wrap?"""
    return not re.search(r": f\d+\[", program.text)


def text(number: int, notes: str) -> str:
    """See `campaigns`."""
    return case_text(program_of(number), notes)


def check(number: int) -> Checked:
    """See `campaigns`."""
    return check_program(program_of(number), number)


def check_program(program: Program, number: int = 0) -> Checked:
    """In every way, with three threads."""
    tiles = tiny_tiles() if program.machine == "tiny" else nullcontext()
    with shared_among_threads(), machine(program.machine), tiles:
        return quick.check_program(program, number, is_exact=is_exact(program))


def tiny_tiles() -> AbstractContextManager[None]:
    """Tiles and strips of a few iterations inside: arrays of ten elements then have several."""
    return changed(_TINY_TILES)


@contextmanager
def shared_among_threads() -> Generator[None]:
    """Three threads inside, and no launch too small for them."""
    with changed(_SHARED), patch.dict(os.environ, LOOPFUSE_NUM_THREADS="3", LOOPFUSE_CACHE="0"):
        yield


def generate(choices: Choices) -> Program:
    """The nest of these decisions."""
    return _Nest(choices).program()


@dataclass(frozen=True)
class _Variable:
    """A loop's variable: it counts in dimension `size`, at least `low` from its beginning and `high` from its end."""

    name: str
    size: str
    low: int
    high: int


@dataclass(frozen=True)
class _Array:
    name: str
    dims: tuple[str, ...]


class _Nest:
    def __init__(self, choices: Choices) -> None:
        self.draw = choices.choice
        self.type = self.one_of(TYPES)
        self.is_float = self.type.startswith("f")
        self.sizes = SIZES[: 1 + self.draw(2)]
        self.read_only: list[_Array] = []
        self.written: list[_Array] = []
        self.lines: list[str] = []
        self.statements = 0
        self.names = 0
        self.plainness = (4, 4, 30)[self.draw(3)]
        """How many times as often as any other a subscript is a variable alone: dependences then leave more orders."""
        self.is_calm = not self.draw(2)
        """Mostly arrays are read that nothing writes."""

    def program(self) -> Program:
        self.read_only.append(_Array("x0", self.sizes))  # each size stands alone somewhere
        if self.draw(2):
            self.read_only.append(self.array("x1"))
        for number in range(1 + self.draw(3)):
            self.written.append(self.array(f"y{number}"))
        if not self.draw(5):
            self.lines.append("    for t in 0..T:")
            self.block(2, (), 1)
            is_timed = True
        else:
            is_timed = False
            self.block(1, (), 1)
        parameters = [f"{one.name}: {self.type}[{', '.join(one.dims)}]" for one in self.read_only]
        parameters += [f"inout {one.name}: {self.type}[{', '.join(one.dims)}]" for one in self.written]
        scalars: dict[str, int] = {}
        if is_timed:
            parameters.append("T: i64")
            scalars["T"] = 1 + self.draw(4)
        sizes = {size: 3 + self.draw(9) for size in self.sizes}
        return Program(
            f"kernel k({', '.join(parameters)}):\n" + "\n".join(self.lines) + "\n", sizes, scalars,
            seed=self.draw(1000), fp=("fast", "strict")[self.draw(2)], machine=("usual", "tiny")[self.draw(2)],
        )  # fmt: skip

    @property
    def arrays(self) -> list[_Array]:
        return [*self.read_only, *self.written]

    def one_of(self, many: Sequence[T]) -> T:
        return many[self.draw(len(many))]

    def array(self, name: str) -> _Array:
        dims = [self.one_of(self.sizes) for _ in range(1 + (self.draw(3) > 0) + (self.draw(8) == 0))]
        if not self.draw(8):
            dims[-1] = " + ".join(self.sizes) if len(self.sizes) > 1 else f"2 * {dims[-1]}"
        return _Array(name, tuple(dims))

    # ---- loops

    def block(self, indent: int, inside: tuple[_Variable, ...], most: int = 0) -> None:
        """Some loops and statements, one at least."""
        count = most or 1 + (self.draw(2) == 0) + (self.draw(5) == 0)
        depth = len(inside)
        for turn in range(count):
            if turn and self.statements >= MOST_STATEMENTS:
                break
            if depth < DEEPEST and (depth < 1 or self.draw(5) < (4, 3, 1)[depth]):
                self.loop(indent, inside)
            elif depth >= 1 and depth < DEEPEST and not self.draw(4):
                self.sum(indent, inside)
            else:
                self.assign(indent, inside)

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def header(self, inside: tuple[_Variable, ...]) -> tuple[str, _Variable]:
        """A loop's line, and its variable."""
        have = {one.size for one in inside}
        wanted = [size for size in self.sizes if size not in have and any(size in one.dims for one in self.written)]
        size, name = self.one_of(wanted if wanted and self.draw(5) else self.sizes), self.fresh("j")
        low, high = (0, 0, 1, 2)[self.draw(4)], (0, 0, 0, 1)[self.draw(4)]
        first, end = str(low), f"{size} - {high}" if high else size
        others = [one for one in inside if one.size == size]
        found = _Variable(name, size, low, high)
        if others and self.draw(3):
            other = self.one_of(others)
            match self.draw(5):
                case 0 | 1:
                    end, found = other.name, replace(found, high=other.high + 1)
                case 2:
                    end, found = f"{other.name} + 1", replace(found, high=other.high)
                case 3:
                    more = self.draw(2)
                    first = f"{other.name} + {more}" if more else other.name
                    found = replace(found, low=other.low + more)
                case _:
                    first, end = f"max({other.name} - 2, {low})", f"min({other.name} + 3, {end})"
        match self.draw(8):
            case 0:
                return f"for {name} in {end} - 1..{first} - 1 step -1:", found
            case 1:
                return f"for {name} in {first}..{end} step 2:", found
            case _:
                return f"for {name} in {first}..{end}:", found

    def loop(self, indent: int, inside: tuple[_Variable, ...]) -> None:
        line, variable = self.header(inside)
        self.lines.append("    " * indent + line)
        if not self.draw(9):
            self.lines.append("    " * (indent + 1) + f"if {self.condition((*inside, variable))}:")
            indent += 1
        self.block(indent + 1, (*inside, variable))

    def sum(self, indent: int, inside: tuple[_Variable, ...]) -> None:
        """An accumulator, a loop that updates it, and what is made of it."""
        target = self.element(self.written, inside)
        if target is None:
            return self.assign(indent, inside)
        name, tab = self.fresh("s"), "    " * indent
        start = self.value(inside) if not self.draw(3) else "0.0" if self.is_float else "0"
        line, variable = self.header(inside)
        self.lines += [
            f"{tab}var {name}: {self.type} = {start}", f"{tab}{line}",
            f"{tab}    {name} {self.one_of(('+=', '+=', '-='))} {self.value((*inside, variable))}",
            f"{tab}{target} {self.one_of(('=', '=', '+=', '-='))} {name}",
        ]  # fmt: skip
        self.statements += 2

    # ---- statements

    def assign(self, indent: int, inside: tuple[_Variable, ...]) -> None:
        target = self.element(self.written, inside)
        tab = "    " * indent
        if target is None:  # no array has these dimensions: a value that nobody reads
            self.lines.append(f"{tab}let {self.fresh('v')} = {self.value(inside)}")
            return
        self.statements += 1
        if not self.draw(10):
            self.lines.append(f"{tab}if {self.condition(inside)}:")
            tab += "    "
        if not self.draw(7):
            name = self.fresh("v")
            self.lines.append(f"{tab}let {name} = {self.value(inside)}")
            self.lines.append(f"{tab}{target} = {name} + {self.value(inside)}")
        else:
            op = self.one_of(("=", "=", "=", "+=", "+=", "-=", "max="))
            self.lines.append(f"{tab}{target} {op} {self.value(inside)}")

    def condition(self, inside: tuple[_Variable, ...]) -> str:
        one, other = self.one_of(inside), self.one_of(inside)
        match self.draw(4):
            case 0:
                return f"{one.name} < {other.name}" if one != other else f"{one.name} % 2 == 0"
            case 1:
                return f"{one.name} % {2 + self.draw(2)} == {self.draw(2)}"
            case 2:
                return f"{one.name} != {other.name} + 1"
            case _:
                read = self.element(self.arrays, inside)
                return f"{read} > 0" if read and not self.is_float else f"{read} > 0.25" if read else f"{one.name} > 1"

    def value(self, inside: tuple[_Variable, ...]) -> str:
        terms: list[str] = []
        for _ in range(1 + self.draw(3)):
            read = self.element(self.read_only if self.is_calm and self.draw(5) else self.arrays, inside)
            if read is None:
                read = "0.5" if self.is_float else "3"
            match self.draw(6):
                case 0:
                    other = self.element(self.read_only, inside)
                    terms.append(f"{read} * {other}" if other else read)
                case 1:
                    terms.append(f"{'0.25' if self.is_float else '5'} * {read}")
                case _:
                    terms.append(read)
        found = terms[0]
        for term in terms[1:]:
            found += f" {self.one_of(('+', '-'))} {term}"
        return found

    def element(self, arrays: list[_Array], inside: tuple[_Variable, ...]) -> str | None:
        """An element that these variables can name, of one of these arrays."""
        able = [one for one in arrays if all(self.subscripts(dim, inside) for dim in one.dims)]
        if not able:
            return None
        array = self.one_of(able)
        return f"{array.name}[{', '.join(self.one_of(self.subscripts(dim, inside)) for dim in array.dims)}]"

    def subscripts(self, dim: str, inside: tuple[_Variable, ...]) -> list[str]:
        """What may stand for a dimension, the plain ones several times."""
        if dim not in SIZES:
            pairs = [(one, other) for one in inside for other in inside if one.size != other.size and "M" in dim]
            pairs += [(one, other) for one in inside for other in inside if one.size == other.size and dim == f"2 * {one.size}"]
            return [f"{one.name} + {other.name}" for one, other in pairs] + [
                one.name for one in inside if one.size in dim
            ]
        found: list[str] = []
        for one in inside:
            if one.size == dim:
                found += [one.name] * self.plainness
                found += [f"{one.name} - {k + 1}" for k in range(one.low)]
                found += [f"{one.name} + {k + 1}" for k in range(one.high)]
                found.append(f"{dim} - 1 - {one.name}")
                found.append("0")
        return found
