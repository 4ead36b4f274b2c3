"""Strategy `scan`: loops with running values, in chunks.

Each chunk adds up what it has, for itself; then what stands before each chunk is known, and each goes along its
elements again from there, with all that reads the running value. The order of a sum depends on the sizes and on this
folder's constants alone. Short loops stay one thread's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from loopfuse.lang.linear import constant_value, tidy
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.strategies.generic.generic import plan_map, plan_serial
from loopfuse.plan.strategies.map_fit import parallel_over
from loopfuse.plan.strategies.scan import cpu, gpu, tile
from loopfuse.plan.strategies.scan.body import Body, along, read_body
from loopfuse.plan.strategies.scan.likely import asks_for_phases, is_likely
from loopfuse.plan.strategies.scan.prefix import NEIGHBOURS, has_lanes
from loopfuse.plan.strategies.scan.recurrence import in_registers
from loopfuse.plan.strategies.strategy import Fit, Strategy
from loopfuse.plan.strategies.versions import by_length
from loopfuse.plan.units.forest import Unit
from loopfuse.plan.units.groups import Group, Legality
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.running import Running
from loopfuse.plan.units.scattered import Scattered
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Compute, Guard, HostNode, Launch, LoopTree
from loopfuse.tree.walk import walk_nodes

SHORT = {"cpu": cpu.CHUNK, "gpu": 256}
"""Iterations up to which one thread runs the loop, by device."""
SHORT_ROW = 32
"""The same of each of many rows on a GPU, whose threads do not read neighbours, and of neighbours in lanes on a CPU."""
ROW_BLOCKS = (32, 128)
"""Threads of blocks that have rows which are shorter than a chunk."""

Writer = Callable[[Site, str, tuple[str, ...]], tuple[HostNode, ...]]
"""Launches of that name and those labels."""


@dataclass(frozen=True, slots=True)
class Scan(Strategy):
    """The strategy."""

    name: str = "scan"

    def easier(self, fits: Sequence[Fit], rules: Rules) -> Iterator[tuple[Rules, str]]:
        if any(isinstance(fit, ScanFit) for fit in fits):
            yield replace(rules, teams=False), "running values are one thread's"

    def runs_whole(self, unit: Unit, found: Running | Scattered, program: PolyProgram, device: str) -> bool:
        return isinstance(found, Running) and is_likely(unit, found, program, device, SHORT[device])

    def fit(self, group: Group, site: Site, is_rest: bool) -> Fit | None:
        if not site.teams:
            return None
        body = read_body(group, site)
        if body is None or not along(body, group.dims):
            return None
        own = {a.statement for a in body.accumulators}
        others = any(isinstance(node, Compute) and node.statement not in own for node in walk_nodes(body.each))
        sums = {a.statement for a in body.accumulators if a.op == "sum"} - body.carried
        if not others and not all(site.program.statement(id).reduction for id in sums):
            return None  # nothing is made of its values but the last: no proof knows it for a sum
        length = constant_value(tidy(body.upper - body.lower))
        short = SHORT_ROW if site.device == "cpu" and has_lanes(body) else _short(group, site.device)
        if length is not None and length <= short * body.step:
            return None
        if site.device == "cpu" and (body.step != 1 or _has_phases(body) or (group.dims and not has_lanes(body))):
            return None  # each row is a worker's; steps and phases take too long to prove
        return ScanFit(group, body, site.device)


SCAN = Scan()


@dataclass(frozen=True, slots=True)
class ScanFit(Fit):
    """What is done at each point of the group."""

    group: Group
    body: Body
    device: str

    @property
    def launches(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 1 if self.is_one_pass else 3

    @property
    def is_one_pass(self) -> bool:
        """Does one launch go along chunks?"""
        return self.device == "gpu" and gpu.is_one_pass(self.body, self.group)

    def bind(self, site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
        site.names.declare(self.body.memory)
        length = tidy(self.body.upper - self.body.lower)

        def of(suffix: str, write: Writer) -> Callable[[int, int], tuple[HostNode, ...]]:
            return lambda least, most: write(site, f"{name}{suffix}", labels)

        versions = self._versions()
        if len(versions) == 1:
            return versions[0][2](site, f"{name}{versions[0][1]}", labels)
        each = [(most, of(suffix, write)) for most, suffix, write in versions]
        return by_length(site.names, length, each, "{} iterations", self.body.step)

    def _versions(self) -> tuple[tuple[int, str, Writer], ...]:
        """The ways to run so many iterations at most, shortest first: what their launches are called, and
        what writes them. The last takes any number."""

        def one_thread(site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
            plan = plan_map if self.group.legality is Legality.INDEPENDENT and self.group.dims else plan_serial
            launch = plan(self.group, replace(site, teams=False), name, labels)
            return (replace(launch, body=in_registers(launch.body, self.body.carried, site.names)[0]),)

        def at_once(threads: int) -> Writer:
            return lambda site, name, labels: (
                gpu.plan_at_once(self.group, self.body, site, name, labels, threads),
            )

        def in_lanes(site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
            return (cpu.plan_in_lanes(self.group, self.body, site, name, labels),)

        def chunks(site: Site, name: str, labels: tuple[str, ...]) -> tuple[HostNode, ...]:
            if self.is_one_pass:
                return gpu.plan_one_pass(self.group, self.body, site, name, labels)
            write = cpu.plan_cpu if self.device == "cpu" else gpu.plan_gpu
            return write(self.group, self.body, site, name, labels)

        if self.device == "cpu" and has_lanes(self.body):
            one_thread = in_lanes
            if self.group.dims:
                return ((0, "_short", in_lanes),)
        blocks: list[tuple[int, str, Writer]] = []
        if self.device == "gpu":
            for threads in (*(ROW_BLOCKS if self.group.dims else ()), tile.THREADS):
                blocks.append((gpu.most_at_once(self.body, threads), f"_{threads}", at_once(threads)))
        return ((_short(self.group, self.device), "_short", one_thread), *blocks, (0, "", chunks))

    def reordered(self) -> frozenset[str]:
        return frozenset(a.statement for a in self.body.accumulators)

    def detail(self, launch: Launch, tree: LoopTree) -> str:
        """`scan, chunks of 4096`."""
        rows = f", {parallel_over(self.group)}" if self.group.dims else ""
        if launch.strategy != "scan":
            return f"scan, one thread in order{rows}"
        last = launch.name.rpartition("_")[2]
        if last == "short":
            return f"scan, one thread, {NEIGHBOURS} neighbours at once{rows}"
        if last not in STEPS:
            return f"scan, a block of {last} threads at once{rows}"
        return f"scan, chunks of {self._chunk()}: {STEPS[last]}{rows}"

    def _chunk(self) -> int:
        """Iterations of a chunk."""
        if self.device == "cpu":
            return cpu.CHUNK
        return (tile.in_parts(self.body) if self.is_one_pass else tile.plain()).size


def _short(group: Group, device: str) -> int:
    return SHORT_ROW if device == "gpu" and group.dims else SHORT[device]


def _has_phases(body: Body) -> bool:
    guards = (node.condition for node in walk_nodes(body.each) if isinstance(node, Guard))
    return any(map(asks_for_phases, guards))


STEPS = {
    "a": "what each adds",
    "b": "what stands before each",
    "c": "running values",
    "d": "what is left",
    "p": "once, from what those before hand on",
    "q": "totals",
}
"""What the launches do, by the last letter of their names."""
