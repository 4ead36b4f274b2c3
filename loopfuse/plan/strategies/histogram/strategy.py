"""Strategy `histogram`: updates at places that data say, in parallel.

Which iterations meet in an element shows when they run. So either nobody else has the element, or the update is one
step: chunks of iterations have tables of their own, which are added to the result afterwards; on a GPU, whose threads
share a block's tables, and where no table fits, whole numbers are updated atomically, of which no order shows. Where
neither is had (more bins than a table is worth, of floats or on a CPU), the loop stays one thread's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.lang.linear import constant_value, tidy
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.generic.generic import plan_serial
from loopfuse.plan.strategies.histogram import sizes
from loopfuse.plan.strategies.histogram.cpu import plan_cpu
from loopfuse.plan.strategies.histogram.gpu import plan_direct, plan_private, plan_shared
from loopfuse.plan.strategies.histogram.nest import Nest, length_of, read_nest
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.strategies.versions import by_length
from loopfuse.plan.units.forest import Unit
from loopfuse.plan.units.groups import Group
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.running import Running
from loopfuse.plan.units.scattered import Scattered
from loopfuse.poly.model import Array, PolyProgram
from loopfuse.tree.looptree import (
    ATOMIC_OPERATIONS,
    ATOMIC_TYPES,
    Buffer,
    HostNode,
    Launch,
    Loop,
    LoopTree,
)

Writer = Callable[[Site, str, tuple[str, ...]], tuple[HostNode, ...]]
"""Launches of that name and those labels."""


@dataclass(frozen=True, slots=True)
class Histogram(Strategy):
    """The strategy."""

    name: str = "histogram"

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, HistogramFit) for fit in fits):
            yield replace(rules, teams=False), "updates at places that depend on data are one thread's"

    def runs_whole(self, unit: Unit, found: Running | Scattered, program: PolyProgram, device: str) -> bool:
        if not isinstance(found, Scattered) or not _fits(found, program.arrays[found.array], device):
            return False
        if not unit.parallel:
            return True
        # Loops that are parallel as they stand: are there few iterations, of long loops?
        apart, inside = 1, 1
        for loop in unit.common:
            count = constant_value(tidy(loop.upper - loop.lower))
            if loop.iterator in unit.parallel:
                apart *= sizes.MANY[device] if count is None else count
            else:
                inside *= sizes.DIRECT if count is None else count
        return apart <= sizes.MANY[device] and inside > sizes.ONE_THREAD

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if not site.teams or (site.device == "gpu" and not site.machine.has_warps):
            return None
        nest = read_nest(group, site)
        if nest is None or not _fits(nest.found, site.program.arrays[nest.found.array], site.device):
            return None
        short = sizes.SHORT if site.device == "cpu" else sizes.ONE_THREAD
        counts = [constant_value(length_of(loop)) for loop in nest.loops]
        total = 1
        for loop, count in zip(nest.loops, counts, strict=True):
            total *= short + 1 if count is None else max(0, -(-count // loop.step))
        if total <= short:
            return None
        is_atomic = site.device == "gpu" and _is_atomic(nest.found, nest.result)
        return (AtomicFit if is_atomic else HistogramFit)(group, nest, site.device)


HISTOGRAM = Histogram()


def _is_atomic(found: Scattered, array: Array | Buffer) -> bool:
    """Does a GPU update it in one step, whatever the order?"""
    return found.operation in ATOMIC_OPERATIONS and array.dtype in ATOMIC_TYPES


def _have_tables(bins: int, dtype: DType) -> bool:
    """Has each lane of a warp room for so many bins?"""
    return bins * LANES * dtype.bytes <= sizes.ALONE_TABLE


def _fits(found: Scattered, array: Array, device: str) -> bool:
    """May it be updated in parallel, into so many bins?"""
    bins: int | None = 1
    for extent in array.extents:
        count = constant_value(extent)
        bins = None if count is None or bins is None else bins * count
    if device == "gpu":
        return _is_atomic(found, array) or (len(array.extents) == 1 if bins is None else _have_tables(bins, array.dtype))
    return bins <= sizes.MOST_BINS if bins is not None else len(array.extents) == 1


def _shared(nest: Nest, bins: int, warps: int = 0, blocks: int = 0) -> Writer:
    """The launch of blocks with tables."""
    with_warps, with_blocks = warps or sizes.WARPS, blocks or sizes.BLOCKS
    return lambda site, name, labels: (plan_shared(nest, site, name, labels, bins, with_warps, with_blocks),)


@dataclass(frozen=True, slots=True)
class HistogramFit(Fit):
    """A nest with scattered updates."""

    group: Group
    nest: Nest
    device: str
    launches: ClassVar[int] = 2

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        def one_thread(site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
            return (plan_serial(self.group, replace(site, teams=False), name, labels),)

        def direct(site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
            return (plan_direct(self.nest, site, name, labels),)

        bins = self.nest.bins
        if self.device == "cpu":
            usual = sizes.USUAL_BINS if bins is None else bins
            tables = self._when_long(one_thread, lambda site, name, labels: plan_cpu(self.nest, site, name, labels, usual))
            return self._by_bins(usual, tables, one_thread)(site, name, labels)
        if not _is_atomic(self.nest.found, self.nest.result):
            usual = sizes.USUAL_ALONE if bins is None else bins
            alone: Writer = lambda site, name, labels: plan_private(self.nest, site, name, labels, usual)  # noqa: E731
            few = (sizes.ALONE_SHORT if len(self.nest.loops) == 1 else sizes.FEW_ROWS, "_short", one_thread)
            ways = self._by_length([few, (0, "", alone)], self.nest.loops[0])
            return self._by_bins(usual, ways, one_thread)(site, name, labels)
        usual = sizes.USUAL_SHARED if bins is None else bins
        row = self.nest.in_rows()
        if row.rows and row.bins is not None and row.bins <= sizes.MOST_SHARED:
            along = row.loops[0]
            few, many = (sizes.SHORT_ROW, sizes.LONG_ROW) if len(row.loops) == 1 else (sizes.FEW_ROWS, sizes.MANY_ROWS)
            rows = _shared(row, row.bins, sizes.ROW_WARPS, sizes.ROW_BLOCKS)
            ways = [(few, "_few", direct), (many, "_row", rows), (0, "", _shared(row, row.bins))]
            return self._by_length(ways, along)(site, name, labels)
        if len(self.nest.loops) > 1:
            return self._deep(direct, usual)(site, name, labels)
        if (bins is not None and bins > sizes.MOST_SHARED) or (bins is None and len(self.nest.result.extents) > 1):
            return self._by_length([(sizes.ONE_THREAD, "_short", one_thread), (0, "", direct)])(site, name, labels)
        ways = [(sizes.ONE_THREAD, "_short", one_thread), (sizes.DIRECT, "_direct", direct), (0, "", _shared(self.nest, usual))]
        rest = self._by_length([(sizes.ONE_THREAD, "_short", one_thread), (0, "_direct", direct)])
        return self._by_bins(usual, self._by_length(ways), rest)(site, name, labels)

    def _deep(self, direct: Writer, usual: int) -> Writer:
        """A nest on a GPU: a table where there are rows for many warps."""
        bins, outer = self.nest.bins, self.nest.loops[0]
        if (bins is not None and bins > sizes.MOST_SHARED) or (bins is None and len(self.nest.result.extents) > 1):
            return direct

        ways = [(sizes.FEW_ROWS, "_few", direct), (0, "", _shared(self.nest, usual))]
        return self._by_bins(usual, self._by_length(ways, outer), direct)

    def _by_bins(self, most: int, few: Writer, many: Writer) -> Writer:
        """Another way where more bins are asked for; of a number that is known there is one."""
        if self.nest.bins is not None:
            return few

        def write(site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
            each = [
                (most, lambda least, most: few(site, name, labels)),
                (0, lambda least, most: many(site, f"{name}_many", labels)),
            ]
            return by_length(site.names, self.nest.result.extents[0], each, "{} bins")

        return write

    def _by_length(self, ways: Sequence[tuple[int, str, Writer]], along: Loop | None = None) -> Writer:
        """By the length of a loop, the inner one where none is named."""
        loop = along or self.nest.loops[-1]

        def write(site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
            def of(suffix: str, way: Writer) -> Callable[[int, int], tuple[HostNode, ...]]:
                return lambda least, most: way(site, f"{name}{suffix}", labels)

            each = [(most, of(suffix, way)) for most, suffix, way in ways]
            return by_length(site.names, length_of(loop), each, "{} iterations", loop.step)

        return write

    def _when_long(self, short: Writer, long: Writer) -> Writer:
        """Short loops, and nests of short ones, otherwise."""
        if len(self.nest.loops) == 1:
            return self._by_length([(sizes.SHORT, "_short", short), (0, "", long)])
        outer = self.nest.loops[0]
        inner = self._by_length([(sizes.LONG, "_narrow", short), (0, "", long)])
        return self._by_length([(sizes.LONG, "_short", short), (sizes.SHORT, "", inner), (0, "_rows", long)], outer)

    def reordered(self) -> frozenset[str]:
        return self.nest.found.updates

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`histogram, tables of chunks`."""
        if launch.strategy != "histogram":
            return "histogram, one thread in order"
        return f"histogram, {STEPS[launch.name[-1]]}"


@dataclass(frozen=True, slots=True)
class AtomicFit(HistogramFit):
    """The same on a GPU, where blocks add to the result themselves."""

    launches: ClassVar[int] = 1


STEPS = {
    "a": "tables of each chunk's own", "b": "tables added to the result", "s": "a table for each block, added atomically",
    "d": "atomic updates", "p": "a table for each thread",
}
"""What the launches do, by the last letter of their names."""
