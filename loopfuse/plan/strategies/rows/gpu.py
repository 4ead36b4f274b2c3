"""Rows on a GPU: a team of threads, a warp or a block, has a row of its own.

Place `k * T + t` of a row is thread t's, of T threads. What several passes read is loaded once, before the
first of them, and held: some elements a thread, in registers; and so is what one pass makes for others alone.
Rows longer than a team holds are read again in each pass. Loads are STAGED ahead of what needs them, at a place
that is clamped to the row's last, so that they are under way together and no test stands between them.

    t of T:
        for k in 0..held: x_row[k] = x[r, min(k * T + t, C - 1)]
        m = -inf
        for k in 0..held: if k * T + t < C: m = max(m, x_row[k])
        combine max m over t, everywhere
        ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from loopfuse.lang.index import ceil_div
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Const, Expr, Iter, Load, combine, compare, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import map_expr, substitute
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.rows.body import (
    COLUMN,
    Body,
    Pass,
    Range,
    moved_to,
    new_register,
    own_registers,
    touched,
)
from loopfuse.tree.looptree import (
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    Loop,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.rewrite.specialise import without_implied
from loopfuse.tree.walk import as_load, map_expressions

STAGED = 8
"""Elements of an array that a thread asks for before it needs the first."""


@dataclass(frozen=True, slots=True)
class Team:
    """The threads that have a row: how many, the loop variable that numbers them, how many
    elements of a row each holds, and of how many places a row may have at most (0: any number)."""

    threads: int
    var: str
    held: int
    most: int = 0

    @property
    def number(self) -> Expr:
        """Which of them a thread is."""
        return Iter(self.var)

    @property
    def ranges(self) -> dict[str, tuple[int, int]]:
        """The first and the last."""
        return {self.var: (0, self.threads - 1)}


def held_loads(body: Body) -> dict[Range, list[Load]]:
    """The elements of a place that several passes over the same places read, and nothing here writes."""
    count: dict[tuple[Range, Load], int] = {}
    for one in body.passes:
        for load in body.asked(one):
            count[one.range, load] = count.get((one.range, load), 0) + 1
    found: dict[Range, list[Load]] = {}
    for (where, load), number in count.items():
        if number > 1:
            found.setdefault(where, []).append(load)
    return found


def team_nodes(body: Body, team: Team, site: Site) -> tuple[TreeNode, ...]:
    """What a thread of the team runs for its row."""
    return _Writer(body, team, site).nodes()


class _Writer:
    def __init__(self, body: Body, team: Team, site: Site) -> None:
        self.body, self.team, self.names = body, team, site.names
        self.values = {place: self.register(f"{name}_value", place) for name, place in body.values.items()}
        self.own = self.values | own_registers(body, site.names)

    def register(self, wanted: str, load: Load, count: int = 0) -> Load:
        """A new register, or `count` of them, for what `load` gives."""
        return new_register(self.names, wanted, load, count)

    def nodes(self) -> tuple[TreeNode, ...]:
        held = held_loads(self.body)
        if not held and not self.body.made:
            return (*self.steps(self.in_chunks), *self.stored())
        team = self.team
        ask: list[TreeNode] = []
        cells: dict[Range, dict[Load, Load]] = {}
        for where, wanted in held.items():
            own = {load: self.register(f"{load.array}_row", load, team.held) for load in wanted}
            cells[where] = own
            ask += self.held(
                where,
                lambda first, own=own, where=where: self.staged(
                    lambda u: self.asked(own, where, _sum(first, u))
                ),
            )
        for load in self.body.made:
            own = self.register(f"{load.array}_row", load, team.held)
            (where,) = {one.range for one in self.body.passes if load.array in touched(one)}
            cells.setdefault(where, {})[load] = own

        def at_once(one: Pass) -> tuple[TreeNode, ...]:
            return self.held(one.range, lambda first: self.chunk(one, first, cells.get(one.range, {})))

        whole = (*ask, *self.steps(at_once))
        if team.most:
            return (*whole, *self.stored())
        fits = self.body.length <= (team.threads * team.held)
        return (Guard(fits, whole, self.steps(self.in_chunks)), *self.stored())

    def steps(self, way: Callable[[Pass], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        """All that is done with a row, passes in a `way`."""
        out: list[TreeNode] = []
        for step in self.body.steps:
            if isinstance(step, Pass):
                out += self.reduced(step, way)
            else:
                out += self.outside(step)
        return tuple(out)

    def outside(self, step: TreeNode) -> tuple[TreeNode, ...]:
        """What stands outside passes. A value that one computation makes is stored by that, for whoever
        reads it where data says: only then does the checker see the program's own order in memory."""
        (own,) = map_expressions((step,), self.redirected)
        if not isinstance(step, Compute) or not isinstance(own, Compute) or step.target not in self.body.once:
            return (own,)
        return (own, Guard(self.first, (replace(own, target=step.target),)))

    @property
    def first(self) -> Expr:
        """Is it the first thread?"""
        return compare("eq", self.team.number, integer(0))

    def reduced(self, one: Pass, way: Callable[[Pass], tuple[TreeNode, ...]]) -> list[TreeNode]:
        """A pass, with what its updates leave in the threads put together in each of them."""
        first: list[TreeNode] = []
        last: list[TreeNode] = []
        places: dict[Load, Load] = {}
        for update in one.updates:
            target, dtype = update.target, update.target.dtype
            own = place = as_load(self.redirected(target))
            if not update.whole:
                own = self.register(f"{target.array}_part", target)
                places[target] = own
            first.append(Copy(own, Const(neutral(update.op, dtype), dtype)))
            last.append(Combine(update.op, own.array, (self.team.var,), everywhere=True))
            if not update.whole:
                last.append(Fold(update.op, place, own))
        moved = replace(one, nodes=map_expressions(one.nodes, lambda expr: moved_to(expr, places)))
        return [*first, *way(moved), *last]

    def stored(self) -> tuple[TreeNode, ...]:
        """Values of the row that several computations make, to memory, by the first thread."""
        copies = [Copy(place, value) for place, value in self.values.items() if place not in self.body.once]
        return (Guard(self.first, tuple(copies)),) if copies else ()

    # ------------------------------------------------------------------------------ passes

    def held(
        self, where: Range, chunk: Callable[[Expr], tuple[TreeNode, ...]]
    ) -> tuple[TreeNode, ...]:
        """All elements that a thread holds, STAGED of them at a time: those that the row has."""
        var = self.names.fresh("k")
        first = Iter(var) * STAGED
        length = tidy(where[1] - where[0])
        begun = Iter(var) * (STAGED * self.team.threads) < length
        nodes = (Guard(begun, chunk(first)),)
        return (Loop(var, integer(0), integer(self.team.held // STAGED), 1, Where.UNROLLED, nodes),)

    def in_chunks(self, one: Pass) -> tuple[TreeNode, ...]:
        """A pass in chunks, for rows of any length."""
        chunk = self.names.fresh("q")
        count = ceil_div(one.length, self.team.threads * STAGED)
        first = Iter(chunk) * STAGED
        return (Loop(chunk, integer(0), count, 1, Where.SERIAL, self.chunk(one, first, {})),)

    def chunk(self, one: Pass, first: Expr, cells: dict[Load, Load]) -> tuple[TreeNode, ...]:
        """STAGED of a thread's elements from number `first` on. `cells`: where those that are held are."""
        wanted = [load for load in self.body.asked(one) if load not in cells]
        staged = {load: self.register(f"{load.array}_next", load, STAGED) for load in wanted}

        def computed(u: Expr) -> tuple[TreeNode, ...]:
            k = _sum(first, u)
            at = self.place(one.lower, k)

            def change(expr: Expr) -> Expr:
                def one_load(each: Expr) -> Expr:
                    if isinstance(each, Load) and each in cells:
                        return Load(cells[each].array, (k,), each.dtype, span=each.span)
                    if isinstance(each, Load) and each in staged:
                        return Load(staged[each].array, (u,), each.dtype, span=each.span)
                    return each

                # Bottom-up: what stands in a subscript is changed before the access.
                return self.redirected(tidy(substitute(map_expr(one_load, expr), {COLUMN: at})))

            return (Guard(at < one.upper, map_expressions(one.nodes, change)),)

        ask = self.staged(lambda u: self.asked(staged, one.range, _sum(first, u), u))
        end = _sum(first, integer(STAGED)) * self.team.threads
        full = tidy(end) <= one.length
        part = self.staged(computed)
        whole = without_implied(self.staged(computed), full, self.team.ranges)
        return (*(ask if wanted else ()), Guard(full, whole, part))

    def asked(
        self, cells: dict[Load, Load], where: Range, number: Expr, slot: Expr | None = None
    ) -> tuple[TreeNode, ...]:
        """Loads of a thread's element into a slot of their cells: that of its number, if no other is given."""
        last = tidy(where[1] - 1)
        at = {COLUMN: combine("min", self.place(where[0], number), last)}
        index = (number if slot is None else slot,)
        return tuple(
            Copy(Load(cells[load].array, index, load.dtype), self.redirected(tidy(substitute(load, at))))
            for load in cells
        )

    def place(self, lower: Expr, number: Expr) -> Expr:
        """Where in the row the thread's element of that number is."""
        away = number * self.team.threads + self.team.number
        return tidy(lower + away)

    def redirected(self, expr: Expr) -> Expr:
        """`expr` with values taken from this launch's registers."""
        return moved_to(expr, self.own)

    def staged(self, body: Callable[[Expr], tuple[TreeNode, ...]]) -> tuple[TreeNode, ...]:
        var = self.names.fresh("u")
        return (Loop(var, integer(0), integer(STAGED), 1, Where.UNROLLED, body(Iter(var))),)


def _sum(one: Expr, other: Expr) -> Expr:
    return tidy(one + other)
