"""Names while a kernel is checked: what each refers to, and the unique names of the core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from loopfuse.base.diagnostics import NOWHERE, Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.check.typing import Value
from loopfuse.lang.nodes import Expr
from loopfuse.lang.surface import syntax


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """An array parameter (`mode` in, out, inout) or a temporary (`mode` temp), declared inside
    `depth` loops."""

    core: str
    dtype: DType
    extents: tuple[Expr, ...]
    mode: str
    depth: int = 0
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class ScalarEntry:
    """A `let` or `var`: a 0-d array of the core. `weak` as in `typing.Value`."""

    core: str
    dtype: DType
    weak: bool
    mutable: bool
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class ValueEntry:
    """A name that stands for an expression; `what` says how messages call it: `iterator`, `size`,
    `parameter`, `constant`, `argument`."""

    value: Value
    what: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A const table: `values` in row-major order, each a constant."""

    shape: tuple[int, ...]
    values: tuple[Value, ...]
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class PoisonEntry:
    """A name whose definition was wrong: using it says nothing more."""

    span: Span = NOWHERE


Entry = ArrayEntry | ScalarEntry | ValueEntry | TableEntry | PoisonEntry


@dataclass(slots=True)
class Scope:
    """A chain of name tables, innermost first. `cells`: by their text, expressions of sizes and
    iterators that were computed already."""

    parent: Scope | None = None
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    cells: dict[str, str] = field(default_factory=dict[str, str])

    def find_cell(self, text: str) -> str | None:
        """The scalar of the compiler's own that holds what `text` computes, or None."""
        scope: Scope | None = self
        while scope is not None:
            if text in scope.cells:
                return scope.cells[text]
            scope = scope.parent
        return None

    def find(self, name: str) -> Entry | None:
        """The entry `name` refers to here, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.entries:
                return scope.entries[name]
            scope = scope.parent
        return None

    def names(self) -> Iterator[str]:
        """Every visible name."""
        scope: Scope | None = self
        while scope is not None:
            yield from scope.entries
            scope = scope.parent


def describe(entry: Entry) -> str:
    """How a message names the kind of thing an entry is, with its article."""
    match entry:
        case ArrayEntry(mode="temp"):
            return "a temporary array"
        case ArrayEntry():
            return "an array"
        case ScalarEntry(mutable=True):
            return "a variable"
        case ScalarEntry():
            return "a `let`"
        case ValueEntry(what=what):
            return f"an {what}" if what[0] in "aei" else f"a {what}"
        case TableEntry():
            return "a constant table"
        case PoisonEntry():
            return "a name"


@dataclass(slots=True)
class Names:
    """Gives each declaration of a kernel a name of its own: `x`, then `x.1`, `x.2`."""

    taken: set[str] = field(default_factory=set[str])

    def declare(self, name: str) -> str:
        """`name`, or with the first suffix that is free."""
        unique, count = name, 0
        while unique in self.taken:
            count += 1
            unique = f"{name}.{count}"
        self.taken.add(unique)
        return unique

    def hoisted(self, target: str, op: str) -> str:
        """The name of a hoisted reduction: `y.sum`, `y.sum2`, ..."""
        unique, count = f"{target}.{op}", 1
        while unique in self.taken:
            count += 1
            unique = f"{target}.{op}{count}"
        self.taken.add(unique)
        return unique


@dataclass(frozen=True, slots=True)
class Globals:
    """What every kernel of a module sees: its constants and functions. `broken` names the
    functions whose own errors are reported already."""

    scope: Scope
    functions: dict[str, syntax.Func]
    kernels: frozenset[str]
    broken: set[str]
