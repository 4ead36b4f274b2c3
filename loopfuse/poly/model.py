"""The polyhedral model of a kernel: what runs, in which order, touching which elements.

`PolyProgram` is a flat list of statements. A Reduce becomes two of them: `S1.init` (sets the
accumulator to the neutral element; hidden from reports) and `S1` (one update per point). Private
scalars and arrays (`let`, `var`, `temp` inside a loop) are expanded: their access relations carry
the iterators of the loops they stand in as leading dimensions, so an iteration never conflicts
with another over storage that is its own.

isl spaces: a statement's tuple is named by its id and its dimensions by its iterators, outermost
first; an array's tuple is named by the array; parameters are sizes and integer scalars by name.
Iterators keep their source values (a loop with a step has a strided domain).

What depends on data is modelled as something that always runs, and by a predicate that then undoes
it. A write at a data-dependent place (`exact` False) has a predicate, be it `True`: it reads all
elements it may write and puts back those it does not. A loop whose bounds depend on data has two
symbols of its own as bounds, the same in all runs of the loop: an interval around all iterations
that any run has. Its stores and updates are predicated by the bounds that the run really has, so
that the iterations which do not happen change nothing, and may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from loopfuse.base.diagnostics import NOWHERE, Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.index import is_checked
from loopfuse.lang.nodes import Expr, Kernel, Load

IslSet = Any  # islpy.Set; the class itself is known only to poly.isl
IslMap = Any  # islpy.Map

KEPT = "if."
"""What the names of kept conditions begin with; no name of a program does: `if` is a keyword."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop around statements: iterator (unique), bounds, step, label (`L1`, `L1.2`), place."""

    iterator: str
    lower: Expr
    upper: Expr
    step: int
    label: str
    line: int
    parallel: bool = False
    reduction: bool = False  # an iterator of a Reduce
    fence: tuple[str, ...] = ()  # ids of the fuse/nofuse blocks around it, e.g. ("nofuse.1",)
    unknown: tuple[str, ...] = ()
    """Symbols in its bounds that are no parameters: each stands for the scalar of its name, which
    the loop reads when it starts (a data-dependent bound)."""


@dataclass(frozen=True, slots=True)
class Array:
    """Storage as the program names it.

    `kind`: in, out, inout (arguments), temp (an array), scalar (let, var, Reduce accumulator).
    `extents` are index expressions; a scalar has none. `private_to` are the iterators of the
    loops it stands in: leading dimensions of every access relation, absent from `extents`.
    """

    name: str
    dtype: DType
    kind: str
    extents: tuple[Expr, ...]
    private_to: tuple[str, ...] = ()

    @property
    def is_argument(self) -> bool:
        """The caller sees it."""
        return self.kind in ("in", "out", "inout")

    @property
    def is_live_out(self) -> bool:
        """The caller sees what the kernel wrote to it."""
        return self.kind in ("out", "inout")


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of a statement.

    `relation`: { S[i, j] -> A[private iterators..., subscripts...] }, edge modes applied, exact
    unless `exact` is False (then it over-approximates). A `.zero` access outside its array, and
    an access in a Select's untaken arm, relate to nothing. `load` is the core node with the edge
    mode lowered to plain index expressions. A swapped access relates to two arrays; `relation`
    is then a list with one map per array in `parts`.
    """

    load: Load
    parts: tuple[tuple[str, IslMap], ...]
    exact: bool = True

    @property
    def array(self) -> str:
        """The array it names (the first of two when swapped)."""
        return self.load.array


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and the set of its instances.

    `loops` are the loops around it, outermost first; `domain` is { id[iterators] }, affine guards
    included; `positions` has len(loops) + 1 entries: textual order, so that instances run in the
    lexicographic order of (positions[0], ±i0, positions[1], ±i1, ..., positions[-1]), with -i
    for a loop that counts down. `predicate` is a data-dependent condition (None: always runs); a
    predicated write leaves the old value where the condition is false, and then `reads` ends
    with a read of the target. `reads[k]` is the k-th Load in evaluation order of (predicate,
    value). `kind`: store, define, init, update. `reduction` is the operation for init/update
    and for `op=` stores, else "". `scatter`: the same of an `op=` store at a place that depends on data
    (`reduction` is then "": nobody can tell which updates are of one element).
    """

    id: str
    label: str
    kind: str
    loops: tuple[Loop, ...]
    positions: tuple[int, ...]
    domain: IslSet
    target: Load
    write: Access
    value: Expr
    reads: tuple[Access, ...]
    predicate: Expr | None = None
    reduction: str = ""
    span: Span = NOWHERE
    scatter: str = ""

    @property
    def operation(self) -> str:
        """What the statement updates its target by, wherever that is; "" where it does not."""
        return self.reduction or self.scatter

    @property
    def accumulator(self) -> int | None:
        """The number of the read of the target that an update adds to; None where it is no update."""
        if not self.operation or self.kind == "init":
            return None
        last = len(self.reads) - (self.predicate is not None)
        own = (self.target.array, self.target.index)
        mine = [k for k in range(last) if (self.reads[k].load.array, self.reads[k].load.index) == own]
        return mine[-1] if mine else None

    @property
    def has_own_operand(self) -> bool:
        """Does the operand of an update read the array that it updates, at another place?"""
        own, last = self.accumulator, len(self.reads) - (self.predicate is not None)
        return own is not None and any(
            name == self.target.array for k in range(last) if k != own for name, _ in self.reads[k].parts
        )

    @property
    def line(self) -> int:
        """The source line."""
        return self.span.line

    @property
    def is_hidden(self) -> bool:
        """A scalar of the compiler's own, for the loop that follows (a data-dependent bound)."""
        return self.label.startswith("S_")

    @property
    def iterators(self) -> tuple[str, ...]:
        """Names of the domain's dimensions."""
        return tuple(loop.iterator for loop in self.loops)


@dataclass(frozen=True, slots=True)
class Precondition:
    """Something every call must satisfy, checked before anything runs.

    `text` is a Python expression in the sizes and integer parameters that is true when the call
    is fine; `message` and `span` say what is wrong where when it is not. What a report prints of
    them is `poly.needs`.
    """

    text: str
    message: str
    span: Span
    holds: IslSet = field(default=None, compare=False, repr=False)
    """The same as a set of parameters, where the analysis has one."""


@dataclass(frozen=True)  # no slots: what is looked up by name is kept once it is asked for
class PolyProgram:
    """A kernel, exactly: arrays, statements in text order, what is known of the parameters.

    `context` is the set of parameter values a call can have (sizes >= 0, `assume`s, the
    preconditions). `symbols` are the isl parameters, in order; the last of them, `unknown`, are
    bounds of loops that depend on data (see `Loop.unknown`), which no caller knows.
    """

    kernel: Kernel
    arrays: dict[str, Array]
    statements: tuple[Statement, ...]
    symbols: tuple[str, ...]
    context: IslSet
    preconditions: tuple[Precondition, ...] = ()
    unknown: tuple[str, ...] = ()
    absorbed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By a statement's label: those of the source that became part of it, for reports."""
    ahead: frozenset[str] = frozenset()
    """Ids of statements that the source has not: they calculate a value of others ahead of them."""

    def statement(self, id: str) -> Statement:
        """The statement called `id`; KeyError if there is none."""
        return self.by_id[id]

    @cached_property
    def by_id(self) -> dict[str, Statement]:
        """The statements by id."""
        return {statement.id: statement for statement in self.statements}

    @cached_property
    def writers(self) -> dict[str, tuple[str, ...]]:
        """The ids of the statements that write each array, in text order."""
        found: dict[str, dict[str, None]] = {}
        for statement in self.statements:
            for name, _ in statement.write.parts:
                found.setdefault(name, {})[statement.id] = None
        return {name: tuple(ids) for name, ids in found.items()}


    @cached_property
    def gathered(self) -> frozenset[str]:
        """The arrays that some statement writes and some reads at places that depend on data."""
        return frozenset(
            name
            for statement in self.statements
            for access in statement.reads
            if any(is_checked(subscript) for subscript in access.load.index)
            for name, _ in access.parts
            if name in self.writers
        )


@dataclass(frozen=True, slots=True)
class Dependence:
    """All instance pairs of one kind between two statements over one array.

    `relation`: { source[...] -> sink[...] }. `by_element` (flow only): { source[...] ->
    [sink[...] -> array[...]] }, so that the part that feeds one read can be cut out.
    `reduction`: both ends are updates of the same reduction, whose order may be relaxed.
    `exact` False: the relation over-approximates (may-accesses, predicates).
    """

    kind: str
    array: str
    source: str
    sink: str
    relation: IslMap
    by_element: IslMap | None = None
    reduction: bool = False
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Dependences:
    """What `find_dependences` returns. `flow` is value-based; `anti` and `output` are to the next
    write. (`poly.deps.flow_of_read` says which instances of one read no statement feeds: they see
    the caller's array, or the zero of a temp.) `live_out`: per array,
    the last writer of each element the caller sees: { S[...] -> A[...] } by statement id.
    `complete` False: isl gave up on some question (`why`), and nothing may be fused on it.
    """

    flow: tuple[Dependence, ...]
    anti: tuple[Dependence, ...]
    output: tuple[Dependence, ...]
    live_out: dict[str, dict[str, IslMap]]
    complete: bool = True
    why: str = ""

    @property
    def all(self) -> tuple[Dependence, ...]:
        """Flow, then anti, then output."""
        return self.flow + self.anti + self.output
