"""Strategy `sliding`: chains of stencils, and time loops around them, in one pass over memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopfuse.base.options import Tuning
from loopfuse.lang.index import FALSE
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.fusion.streams import Blocks, Run
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.sliding.bordered import find_bordered
from loopfuse.plan.strategies.sliding.cpu.buffers import plan_lines
from loopfuse.plan.strategies.sliding.cpu.cost import operations_anew, operations_in_lines
from loopfuse.plan.strategies.sliding.easier import easier_windows
from loopfuse.plan.strategies.sliding.gpu.planes import plan_planes
from loopfuse.plan.strategies.sliding.gpu.sliding import plan_sliding
from loopfuse.plan.strategies.sliding.report import (
    OBVIOUS,
    describe_apart,
    describe_serial,
    describe_time,
    describe_windows,
    unproved_time,
    window_detail,
    window_home,
)
from loopfuse.plan.strategies.sliding.time_blocks import (
    best_blocks,
    fit_pair,
    split_loop,
    when_resident,
)
from loopfuse.plan.strategies.sliding.windows.blocks import PLANES_AHEAD
from loopfuse.plan.strategies.sliding.windows.borders import is_border
from loopfuse.plan.strategies.sliding.windows.lines import IN_LINES
from loopfuse.plan.strategies.sliding.windows.shape import AHEAD, Windowed, fit_windows
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.units.forest import Scope, Unit, in_order
from loopfuse.plan.units.groups import (
    Group,
    HostGroup,
    Refusal,
    TimeBlock,
    form_group,
    recomputable_producers,
)
from loopfuse.plan.units.records import Decision
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.storage import Store
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import HostNode, Launch, LoopTree


@dataclass(frozen=True, slots=True)
class Sliding(Strategy):
    """The strategy."""

    name: str = "sliding"

    def streams(self, program: PolyProgram, cost: CostModel, rules: Rules) -> WindowStreams:
        return WindowStreams(program, cost, rules)

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        return easier_windows(windows_of(fits), rules)


@dataclass(frozen=True, slots=True)
class SlidingFit(Fit):
    """A chain as windows: rows that a GPU's warps hold, or line buffers of a CPU's workers."""

    windowed: Windowed

    @property
    def waiting(self) -> float:
        return IN_LINES if self.windowed.pipeline.lines else 1.0

    def holds(self, array: str) -> bool:
        """Windows hold all arrays that no others touch."""
        return True

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        pipeline, shape = self.windowed.pipeline, self.windowed.shape
        if pipeline.lines:
            return (plan_lines(pipeline, shape, site, name, labels),)
        plan = plan_planes if pipeline.between else plan_sliding
        return (plan(self.windowed, site, name, labels),)

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        return window_detail(self.windowed)

    def home(self, array: str, stores: Mapping[str, Store]) -> str:
        return window_home(self.windowed, array, stores)

    def choices(self, tuning: Tuning) -> Tuning:
        """Which values a shape has differs by device and by dimensions: columns are those of a lane, or of
        a strip of a line buffer; a band is what a warp holds of planes."""
        pipeline, shape, time = self.windowed.pipeline, self.windowed.shape, self.windowed.group.time
        ahead = self.windowed.ahead
        if ahead is None:
            ahead = PLANES_AHEAD if pipeline.between else AHEAD
        return Tuning(
            windows=tuning.windows,
            columns=shape.strip.stored if pipeline.lines else shape.columns,
            warps=shape.warps,
            rows=shape.chunk.stored,
            ahead=ahead if tuning.ahead is None else tuning.ahead,
            steps=0 if time is None else time.steps,
            band=shape.rows if pipeline.between else 0,
            late=pipeline.late,
        )


def as_group(windowed: Windowed) -> Group:
    """The units as a group that has its fit."""
    return replace(windowed.group, fit=SlidingFit(windowed))


def windows_of(fits: Iterable[Fit]) -> list[Windowed]:
    """The windows among fits."""
    return [fit.windowed for fit in fits if isinstance(fit, SlidingFit)]


@dataclass(frozen=True, slots=True)
class WindowStreams:
    """Chains as windows, over one program (`plan.fusion.streams`)."""

    program: PolyProgram
    cost: CostModel
    rules: Rules

    def fitted(self, units: Sequence[Unit], scope: Scope) -> Windowed | str:
        """The units in order as windows, or why they are none."""
        return fit_windows(in_order(units), scope, self.program, self.rules)

    def form(self, units: Sequence[Unit], scope: Scope, needed: frozenset[str]) -> Group | None:
        writes = [s.write for u in units for s in u.statements]
        leaving = [write for write in writes if any(name in needed for name, _ in write.parts)]
        if not leaving or any(not write.load.index for write in leaving):
            return None  # only arrays leave windows, and one must
        found = self.fitted(units, scope)
        if isinstance(found, str) or not self._saves(found, needed, scope):
            return None
        return as_group(found)

    def _saves(self, found: Windowed, needed: frozenset[str], scope: Scope) -> bool:
        """Do line buffers take fewer operations than recomputation? (Windows in registers do: they
        cost no store.)"""
        if self.rules.tuning.columns or not found.pipeline.lines:
            return True
        units = found.group.units
        if any(map(is_border, units)):
            return True  # what several loops write cannot be computed anew
        anew = frozenset[str]().union(
            *(recomputable_producers(units, unit, scope, self.program) for unit in units)
        )
        formed = form_group(units, scope, self.program, needed, anew)
        if isinstance(formed, Refusal):
            return True
        lines = operations_in_lines(self.cost, found.pipeline, found.shape)
        return lines <= operations_anew(self.cost, formed)

    def why_not(self, units: Sequence[Unit], scope: Scope) -> str:
        why = self.fitted(units, scope)
        if not isinstance(why, str):
            return "line buffers take more operations"
        return "" if why in OBVIOUS else why

    def why_apart(self, units: Sequence[Unit], scope: Scope) -> tuple[str, str | None]:
        return describe_apart(in_order(units), scope, self.program, self.rules)

    def describe(self, group: Group, first: Unit, second: Unit) -> Decision:
        assert isinstance(group.fit, SlidingFit)
        return describe_windows(group.fit.windowed.pipeline, first, second)

    def describe_serial(self, unit: Unit, scope: Scope) -> list[Decision]:
        return describe_serial(self.program, unit, scope)

    def is_border(self, unit: Unit) -> bool:
        return is_border(unit)

    def runs(self, entries: Sequence[Unit | HostGroup], scope: Scope) -> Iterator[Run]:
        return find_bordered(entries, scope)

    def blocks(
        self, host: HostGroup, scope: Scope, live: frozenset[str], fuel: int | None
    ) -> Blocks | None:
        """Most of the loop in pairs of launches, to copies of the arrays and back; what is left in shorter
        blocks; the rest one by one."""
        groups = [item for item in host.body if isinstance(item, Group)]
        if len(groups) != len(host.body):
            return None
        if not self.rules.blocks:
            return Blocks((), host, tuple(unproved_time(host.loop)))
        out, rest, longer = list[HostGroup](), host.loop, 0
        inner = scope.enter(host.loop, self.program.by_id)
        units = in_order(unit for group in groups for unit in group.units)
        made: list[Windowed] = []
        resident = when_resident(units, host.loop, self.program, self.rules)
        resident = None if resident == FALSE else resident
        for steps in best_blocks(
            groups, host.loop, inner, self.program, self.rules, self.cost, live
        ):
            if fuel is not None and len(made) >= fuel:
                break
            main, left, count = split_loop(host.loop, 2 * steps, longer)
            block = TimeBlock(main.iterator, steps, main.lower, host.loop.lower)
            pair = fit_pair(units, inner, self.program, self.rules, block, live)
            if isinstance(pair, str):
                continue  # a shorter block than the longest, whose roles of arrays do not close
            rest, longer = left, 2 * steps
            made.append(pair[0])
            body = tuple(as_group(each) for each in pair)
            out.append(HostGroup(main, body, blocks=count, resident=resident))
        decisions = describe_time(
            made, groups, units, host.loop, inner, self.program, self.rules, live, resident
        )
        return Blocks(tuple(out), HostGroup(rest, host.body), tuple(decisions))


SLIDING = Sliding()
