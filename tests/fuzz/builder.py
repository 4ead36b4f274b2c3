"""The program so far: its arrays, its lines, and the loops around the place where it grows.

Programs are right by construction: an iterator over a size knows its margins (`i in 1..N - 2` may
read `a[i-1]` to `a[i+2]`), reads beyond them use an edge mode, an array is read only after a loop
that fills all of it, and is touched only inside loops over all of its sizes, so that an empty one
never is. Divisors may be zero: that is defined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fuzz.choices import Choices

T = TypeVar("T")

FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("i32", "i64", "i8", "i16", "u8", "u16", "u32", "u64")
NAMES = ("i", "j", "k", "l")
TIME = "steps"


@dataclass(frozen=True)
class Extent:
    """One extent: `scale * size + extra`, the upper half of `size` where scale is 0, or the
    constant `extra` where there is no size."""

    size: str
    scale: int = 1
    extra: int = 0

    def __str__(self) -> str:
        if not self.size:
            return str(self.extra)
        if not self.scale:
            return f"({self.size} + 1) // 2"
        text = self.size if self.scale == 1 else f"{self.scale} * {self.size}"
        return f"{text} + {self.extra}" if self.extra else text


@dataclass(frozen=True)
class Iterator:
    """`name` takes values from `low` to `size - 1 - high`, in some order."""

    name: str
    size: str
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Array:
    """An array of the program. `role`: data, index (holds subscripts) or rows (holds bounds)."""

    name: str
    dtype: str
    extents: tuple[Extent, ...]
    mode: str
    role: str = "data"

    @property
    def declared(self) -> str:
        """`name: dtype[extents]`."""
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.extents))}]"

    @property
    def sizes(self) -> tuple[str, ...]:
        """The sizes its extents name."""
        return tuple(extent.size for extent in self.extents if extent.size)


@dataclass
class Builder:
    """See the module. `readable` names arrays whose every element has a value."""

    choices: Choices
    features: frozenset[str]
    sizes: tuple[str, ...] = ("N", "M")
    shapes: list[tuple[Extent, ...]] = field(default_factory=list)
    dtypes: list[str] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    readable: set[str] = field(default_factory=set)
    scope: list[Iterator] = field(default_factory=list)
    scalars: dict[str, str] = field(default_factory=dict)
    functions: dict[str, tuple[str, int]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    """Values of `const` parameters."""
    parameters_text: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    deepest: int = 0
    names: int = 0
    inputs_only: bool = False

    # ------------------------------------------------------------------------------ decisions

    def has(self, feature: str) -> bool:
        """Whether the program may use a feature."""
        return feature in self.features

    def maybe(self, feature: str, one_in: int = 2) -> bool:
        """Use this feature here? Never where it is off; no is simpler."""
        return feature in self.features and self.chance(one_in)

    def pick(self, options: Iterable[T]) -> T:
        """One of `options`, simplest first."""
        found = list(options)
        return found[self.choices.choice(len(found))]

    def integer(self, low: int, high: int) -> int:
        """An integer between the two, both included; the nearest to 0 is simplest."""
        return sorted(range(low, high + 1), key=abs)[self.choices.choice(high - low + 1)]

    def chance(self, one_in: int) -> bool:
        """True once in `one_in`; False is simpler."""
        return self.choices.choice(one_in) == one_in - 1

    # ------------------------------------------------------------------------------------ text

    def fresh(self, prefix: str) -> str:
        """A name nothing else has."""
        self.names += 1
        return f"{prefix}{self.names}"

    def line(self, text: str) -> None:
        """Adds one line at the current indentation."""
        self.lines.append("    " * self.indent + text)

    # ----------------------------------------------------------------------------------- scope

    @property
    def depth(self) -> int:
        """Loops over sizes around this place."""
        return sum(it.size != TIME for it in self.scope)

    def enter(self, *iterators: Iterator) -> None:
        """Opens a scope with these iterators."""
        self.scope.extend(iterators)
        self.deepest = max(self.deepest, self.depth)

    def leave(self, count: int) -> None:
        """Closes the `count` innermost iterators."""
        del self.scope[len(self.scope) - count :]

    def free_names(self) -> list[str]:
        """Iterator names not in use."""
        used = {it.name for it in self.scope}
        return [name for name in NAMES if name not in used]

    def over(self, size: str) -> list[Iterator]:
        """Iterators over `size`, innermost first."""
        return [it for it in self.scope if it.size == size][::-1]

    def touchable(self, array: Array) -> bool:
        """Whether every size of `array` has an iterator here."""
        here = {it.size for it in self.scope}
        return all(size in here for size in array.sizes)

    def loadable(self) -> list[Array]:
        """Data arrays that may be read here."""
        found = [self.arrays[name] for name in sorted(self.readable)]
        found = [a for a in found if a.role == "data" and self.touchable(a)]
        return [a for a in found if a.mode == "in"] if self.inputs_only else found

    def writable(self) -> list[Array]:
        """Data arrays that may be written here."""
        found = [a for a in self.arrays.values() if a.mode != "in" and self.touchable(a)]
        return [a for a in found if a.mode in ("inout", "out") or a.name in self.readable]

    def with_role(self, role: str) -> list[Array]:
        """Input arrays of a role that may be read here."""
        return [a for a in self.arrays.values() if a.role == role and self.touchable(a)]


def plain(*sizes: str) -> tuple[Extent, ...]:
    """Extents that are sizes."""
    return tuple(Extent(size) for size in sizes)


def is_integer(dtype: str) -> bool:
    """Whether values of `dtype` are integers."""
    return dtype[0] in "iu"


def first_of(options: Sequence[T]) -> list[T]:
    """`options` with the last first: the latest is the likeliest to be interesting."""
    return list(options)[::-1]
