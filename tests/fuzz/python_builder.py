"""A random Python function while it is written: what its names hold at this place."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fuzz.choices import Choices
from fuzz.python_values import Value

T = TypeVar("T")


@dataclass(frozen=True)
class Array:
    """An array by its extents' names. `held` says what its elements are, between which numbers."""

    name: str
    held: Value
    dims: tuple[str, ...]
    is_parameter: bool = True


@dataclass(frozen=True)
class Iterator:
    """Counts from `below` to its dimension's extent less `above`, where that is known: `dim` is ""
    otherwise."""

    name: str
    dim: str = ""
    below: int = 0
    above: int = 0
    least: int = 0


@dataclass(frozen=True)
class Helper:
    """A function of numbers, written for arguments of these types."""

    name: str
    takes: tuple[str, ...]
    least: int
    gives: Value


@dataclass
class Builder:
    """The function so far."""

    choices: Choices
    dims: tuple[str, ...] = ()
    arrays: list[Array] = field(default_factory=list[Array])
    scalars: dict[str, Value] = field(default_factory=dict[str, Value])
    "Parameters that are numbers."
    values: dict[str, Value | None] = field(default_factory=dict[str, "Value | None"])
    "Locals; None: nothing may be known of it here, but it may be assigned."
    kept: list[dict[str, Value]] = field(default_factory=list[dict[str, Value]])
    "For each loop around, what its carried locals hold whenever an iteration starts."
    scope: list[Iterator] = field(default_factory=list[Iterator])
    helpers: list[Helper] = field(default_factory=list[Helper])
    texts: list[str] = field(default_factory=list[str])
    "Of helpers."
    in_helper: bool = False
    lines: list[str] = field(default_factory=list[str])
    depth: int = 1
    names: int = 0
    inside: int = 0
    "How many subscripts are around."
    room: int = 14
    "How many more statements."
    features: frozenset[str] = frozenset()

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both possible."""
        return low + self.choices.choice(high - low + 1)

    def pick(self, things: Sequence[T]) -> T:
        """One of them."""
        return things[self.choices.choice(len(things))]

    def chance(self, one_in: int) -> bool:
        """True once in so many."""
        return self.choices.choice(one_in) == one_in - 1

    def has(self, feature: str) -> bool:
        """The function may use it."""
        return feature in self.features

    def fresh(self, stem: str) -> str:
        """A name not used yet."""
        self.names += 1
        return f"{stem}{self.names}"

    def line(self, text: str) -> None:
        """Add a statement."""
        self.lines.append("    " * self.depth + text)
        self.room -= 1

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Inside, statements of a block below `head`."""
        self.line(head)
        self.depth += 1
        start = len(self.lines)
        try:
            yield
        finally:
            if len(self.lines) == start:
                self.line("pass")
            self.depth -= 1

    def readable(self) -> dict[str, Value]:
        """Locals and parameters that have a value here."""
        known = {name: value for name, value in self.values.items() if value is not None}
        return known if self.in_helper else {**self.scalars, **known}

    def assign(self, name: str, value: Value) -> None:
        """`name` holds such a value from here on."""
        self.values[name] = replace(value, literal=False, exact=False)
