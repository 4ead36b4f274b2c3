"""Statements whose arrays lie in windows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, Select, integer
from loopfuse.lang.walk import substitute
from loopfuse.plan.mapping.body import BodyBuilder, host_conditions, loop_conditions, merge_guards
from loopfuse.plan.strategies.sliding.windows.edges import before_wrap, unfolded
from loopfuse.plan.strategies.sliding.windows.records import Step
from loopfuse.plan.strategies.sliding.windows.tile import PipelineTile
from loopfuse.plan.units.recompute import Value
from loopfuse.poly.edges import lower_subscript
from loopfuse.poly.model import Statement
from loopfuse.tree.looptree import TreeNode


class WindowBody(BodyBuilder):
    """Bodies whose arrays lie in windows."""

    def __init__(self, tile: PipelineTile) -> None:
        site = tile.site
        super().__init__(
            site.program, tile.group, dict(site.stores), site.names, dict(site.extents)
        )
        self.tile = tile
        self.made: set[str] = set()
        self.point: Mapping[str, Expr] = {}
        self.arms = 0  # arms of a Select around: what they read may not be there

    def step(
        self, step: Step, point: Mapping[str, Expr], wrapped: Collection[str] = ()
    ) -> list[TreeNode]:
        """The step's unit at a point of the group, which may lie beyond the first or last along
        the `wrapped` dimensions."""
        self.current, self.point = step, point
        scope, time = self.tile.group.scope, self.tile.time
        placed = step.placed
        iteration = scope.values() if scope is not None else {}
        iteration |= {c.iterator: tidy(substitute(c.value(), point)) for c in placed.coordinates}
        if time is not None:
            before = Iter(time.iterator) * (2 * time.steps)
            first = time.lower + (time.first + step.ahead)
            iteration[time.iterator] = tidy(first + before)
        self.parity = dict(step.swaps)
        known: list[Expr] = [*host_conditions(self.tile.group)]
        for loop in placed.unit.common:
            known += loop_conditions(loop.iterator, loop.lower, loop.upper, loop.step)
        names: list[str] = []
        for c in placed.coordinates:
            if c.dim in wrapped:
                names.append(c.iterator)
                value = iteration[c.iterator]
                iteration[before_wrap(c.iterator)] = value
                iteration[c.iterator] = self.wrapped_value(step, c.dim, value)
        unit = unfolded(placed.unit, self.is_windowed, self.tile.program, names)
        return merge_guards(self.items(unit.items, iteration, known))

    def wrapped_value(self, step: Step, dim: str, value: Expr) -> Expr:
        """The iteration that does what `value` does in a window: that of the same element."""
        placed, pipeline = step.placed, self.tile.pipeline
        stage = next(stage for stage in pipeline.stages if stage.step is step)
        position = stage.frame.position(dim)
        ahead = integer(stage.frame.shifts[position] - placed.coordinate(dim).constant)
        extent = self.tile.program.arrays[stage.array].extents[position]
        element = tidy(value + ahead)
        return tidy(lower_subscript("wrap", element, extent, False, False) - ahead)

    def is_windowed(self, load: Load) -> bool:
        """Does the access go to a window?"""
        name = self.current.stage_of(self.current.array_of(load))
        return self.tile.pipeline.stage(name) is not None

    def statement(
        self, statement: Statement, iteration: Mapping[str, Expr], known: Sequence[Expr]
    ) -> list[TreeNode]:
        """One statement instance; what it makes, later statements of the step read."""
        out = super().statement(statement, iteration, known)
        if statement.target.index:
            self.made.add(self.current.array_of(statement.target))
        return out

    def redirected(
        self,
        expr: Expr,
        sources: Iterator[Value | None],
        statement: Statement,
        iteration: Mapping[str, Expr],
    ) -> Expr:
        """`expr` with each load sent to its buffer."""
        if not isinstance(expr, Select):
            return super().redirected(expr, sources, statement, iteration)
        self.arms += 1
        out = super().redirected(expr, sources, statement, iteration)
        self.arms -= 1
        return out

    def target(self, load: Load, statement: Statement, iteration: Mapping[str, Expr]) -> Load:
        """The window's cell that a store fills."""
        array = self.current.array_of(statement.target)
        return self.cell(load, self.current.writes.get(array, ""), statement, iteration)

    def storage(self, load: Load, statement: Statement, iteration: Mapping[str, Expr]) -> Load:
        """The window's cell; BodyBuilder's storage for what has no window."""
        array = load.array
        if load.swapped is not None and self.parity[self.original_parity(load, statement)]:
            array = load.swapped.array
        reads = self.current.writes if array in self.made else self.current.reads
        return self.cell(load, reads.get(array, ""), statement, iteration)

    def cell(
        self, load: Load, name: str, statement: Statement, iteration: Mapping[str, Expr]
    ) -> Load:
        """The cell of the stage called `name` that an access goes to."""
        tile = self.tile
        stage = tile.pipeline.stage(name)
        if stage is None:
            found = super().storage(tile.pipeline.parts.whole(load), statement, iteration)
            return found if self.arms else tile.invariant(found, self.current)
        place: list[Expr] = []
        for dim, own in tile.own.items():
            if not dim:  # nothing streams: the slice that stands there
                place.append(self.point[dim])
                continue
            position = stage.frame.position(dim)
            place.append(tidy(load.index[position] - (own + stage.frame.shifts[position])))
        return tile.cell(stage, *place)
