"""The fusion plan: which loops become one kernel, in which order, and why not the others.

Units are taken in program order; each joins the last group it legally and profitably can, past
groups it does not depend on. A loop that no thread can own is distributed, run by the host, or
left serial. Every attempt leaves a `Decision`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.machine import Machine
from loopfuse.plan.fusion.anew_report import describe_dear
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.fusion.decisions import SLOWER, Apart, Decisions, in_words, slower
from loopfuse.plan.fusion.explanations import describe_fusion, describe_refusal
from loopfuse.plan.fusion.in_turn import alone_in_turn, apart_inside, taken_apart
from loopfuse.plan.fusion.streams import Streams
from loopfuse.plan.units.align import Placed
from loopfuse.plan.units.forest import (
    Item,
    Nest,
    Scope,
    Unit,
    build_forest,
    cells,
    components,
    in_order,
    make_unit,
    statements_of,
)
from loopfuse.plan.units.groups import (
    Crossing,
    Group,
    HostGroup,
    Legality,
    PlanItem,
    ProgramOrder,
    Refusal,
    extend_group,
    form_group,
    recomputable_producers,
    single_group,
    without_dead,
)
from loopfuse.plan.units.records import Decision
from loopfuse.plan.units.running import Running, running_along
from loopfuse.plan.units.scattered import Scattered, find_scattered
from loopfuse.poly.isl_relations import is_short
from loopfuse.poly.model import Dependences, PolyProgram, Statement

APART = 0.9
"""Loops that are taken apart pass values through memory that were in registers: so much of the time of one thread launches of
the parts may take."""

MAX_UNITS = 64
"""The most loops of one kernel: more would take long to plan and to assemble, and save nothing
that counts (a loop more moves at most one array less)."""

MAX_ANEW = 512
"""The most values that the kernels of one plan may compute anew, added up: each is a statement of
its own to plan, to prove and to compile, and what takes too long to prove is not used at all."""


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """Groups in launch order, and a decision for each pair of loops that was considered."""

    items: tuple[PlanItem, ...]
    decisions: tuple[Decision, ...]


@dataclass
class Planner:
    """One planning run. `fuel` is how many more fusions may be made (None: any number)."""

    program: PolyProgram
    dependences: Dependences
    cost: CostModel
    reassociate: bool
    fuel: int | None
    quiet: bool = False
    streams: Streams | None = None
    """Who runs chains of loops that no common iteration could run (None: nobody)."""
    runs_whole: Callable[[Unit, Running | Scattered, PolyProgram, str], bool] | None = None
    """Does somebody run a loop as it stands whose iterations depend on each other through running values, or
    scattered updates (None: nobody does)?"""
    reorder: Callable[[Unit, Scope, PolyProgram, Machine, ProgramOrder], Group | None] | None = None
    """Does somebody run a nest in another order than the program's (None: nobody does)?"""
    crosses: Callable[[Group, Group, PolyProgram, str], Crossing | None] | None = None
    """Does somebody run two groups, along rows and across them, in one pass (None: nobody does)?"""
    decisions: Decisions = field(default_factory=Decisions)
    anew: int = 0
    """How many values the groups made so far compute anew."""
    reordered: set[str] = field(default_factory=set[str])
    """The statements of nests in another order than the program's."""
    narrowed: bool = False
    """Loops joined over fewer of their loops than they have."""
    is_wide: bool = False
    """They are not to."""

    def __post_init__(self) -> None:
        self.statements = self.program.by_id
        self.whole = Scope((), self.dependences.all, self.reassociate)
        self.arguments = {a.name for a in self.program.arrays.values() if a.is_argument}

    def plan(self) -> FusionPlan:
        """The plan of the whole kernel."""
        scope = self.whole
        if not self.dependences.complete:
            return self.plan_in_order(scope)
        items = self.sequence(build_forest(self.program.statements), scope)
        return FusionPlan(tuple(items), tuple(self.decisions))

    def plan_in_order(self, scope: Scope | None = None) -> FusionPlan:
        """No proof is to be had: every nest runs in one thread, in text order."""
        scope = scope or self.whole
        items: list[PlanItem] = []
        for cell in cells(build_forest(self.program.statements)):
            # No dependence is known: no loop is free.
            unit = make_unit(label_of(cell), cell, Scope((), (), self.reassociate)).in_turn()
            if items and not self.dependences.complete:
                before = items[-1]
                assert isinstance(before, Group)
                reason = f"the analysis gave up (operation limit): {self.dependences.why}"
                self.decisions.decide(before.units[-1], unit, False, reason, "make the subscripts simpler")
            items.append(Group(Legality.SERIAL, (), (Placed(unit, ()),), scope=scope))
        return FusionPlan(tuple(items), tuple(self.decisions))

    # ------------------------------------------------------------------------- sequences

    def sequence(self, items: Sequence[Item], scope: Scope) -> list[PlanItem]:
        """The plan of statements and loops that run one after the other."""
        mark = len(self.decisions)
        entries = [entry for cell in cells(items) for entry in self.entries(cell, scope)]
        ranked = [
            replace(entry, rank=rank) if isinstance(entry, Unit) else entry
            for rank, entry in enumerate(entries)
        ]
        joined, apart = self.join_bordered(ranked, scope)
        out = self.grouped(joined, scope)
        self.decisions.explain_apart(apart)
        self.decisions.forget_apart(out, mark)
        return self.in_one_pass(self.drop_recomputed(out, scope), mark)

    def entries(self, cell: tuple[Item, ...], scope: Scope) -> list[Unit | PlanItem]:
        """One nest as units and host loops, or as a group in another order than the program's."""
        mark, anew = len(self.decisions), self.anew
        found = self.in_program_order(cell, scope)
        if self.reorder is None or self.fuel == 0:
            return list(found)
        unit = make_unit(label_of(cell), cell, scope)
        now = ProgramOrder.SHARED
        if any(map(runs_in_order, found)):
            now = ProgramOrder.ALONE
        elif any(map(hosts_in_hosts, found)):
            now = ProgramOrder.LAUNCHED
        group = self.reorder(unit, scope, self.program, self.cost.machine, now)
        if group is None:
            return list(found)
        if group.fit is not None and not group.fit.is_shared and any(self.is_shared(entry, unit) for entry in found):
            return [self.in_another_order(entry, scope, mark) for entry in found]
        del self.decisions[mark:]
        self.anew = anew
        self.reordered |= group.ids
        return [group]

    def in_another_order(self, entry: Unit | HostGroup, scope: Scope, mark: int) -> Unit | PlanItem:
        """A part of a nest (decided on since `mark`), in another order where one thread would run it in the program's: the whole nest would be for one
        thread, and others share other parts of it."""
        if self.reorder is None or not isinstance(entry, Unit) or not runs_in_order(entry):
            return entry
        group = self.reorder(entry, scope, self.program, self.cost.machine, ProgramOrder.ALONE)
        if group is None:
            return entry
        self.decisions.forget_own(entry, mark)
        self.reordered |= group.ids
        return group

    def is_shared(self, entry: Unit | HostGroup, nest: Unit) -> bool:
        """Would threads share a part of a nest, and is that as much work as the rest?"""
        if not isinstance(entry, Unit) or not entry.parallel or not self.is_worth_a_launch(entry):
            return False
        return max(len(s.iterators) for s in entry.statements) == max(len(s.iterators) for s in nest.statements)

    def in_program_order(self, cell: tuple[Item, ...], scope: Scope) -> list[Unit | HostGroup]:
        """One nest as units and host loops."""
        unit = make_unit(label_of(cell), cell, scope)
        if not unit.common:
            return [unit]
        nest = cell[-1]
        assert isinstance(nest, Nest)
        scattered = find_scattered(unit, scope, self.program)
        if self.runs(unit, scattered):
            return [unit.in_turn()]
        if len(cell) == 1 and scattered and self.runs_whole is not None and self.fuel != 0:
            apart = self.scattered_apart(nest, scope)
            if apart:
                return apart
        if unit.parallel:
            return self.products_apart(unit, cell, scope) or [unit]
        running = running_along(unit, scope)
        if self.runs(unit, running):
            return [unit]
        if len(cell) == 1:
            inner, parts = separable(nest, scope)
            if len(parts) > 1:
                split = self.distribute((nest, *inner), parts, scope)
                if any(isinstance(e, HostGroup) or self.is_worth_a_launch(e) for e in split):
                    return split
        if unit.relaxed and unit.carried:
            return [unit]
        mark = len(self.decisions)
        slow = ""
        if len(cell) == 1:
            host = self.host_loop(nest, scope)
            if isinstance(host, HostGroup):
                return list(self.blocked(host, scope, mark))
            slow = host
        if self.streams is not None and self.fuel != 0:
            self.decisions += self.streams.describe_serial(unit, scope)
        if isinstance(scattered, Scattered):
            name = scattered.array
            scattered = f"`{name}` is updated at places that depend on data, and neither tables nor atomic updates fit"
        why = next((each for each in (running, scattered) if isinstance(each, str) and each), "")
        if why:
            reason = f"its iterations run one by one, in one thread: {why}"
            self.decisions.decide(unit, unit, False, reason)
        elif slow:
            self.decisions.decide(unit, unit, False, slow)
        return [taken_apart(unit, scope, self.cost) if self.cost.device == "cpu" and self.fuel != 0 else unit]

    def runs(self, unit: Unit, found: Running | Scattered | str) -> bool:
        """Does somebody run the loop as it stands, for what was found in it?"""
        if self.runs_whole is None or self.fuel == 0 or isinstance(found, str):
            return False
        return self.runs_whole(unit, found, self.program, self.cost.machine.device)

    def scattered_apart(self, nest: Nest, scope: Scope) -> list[Unit | HostGroup]:
        """The parts of a loop, where some of them are updates at places that depend on data which somebody runs; else
        nothing."""
        inner, parts = separable(nest, scope)
        if len(parts) < 2:
            return []
        mark = len(self.decisions)
        split = self.distribute((nest, *inner), parts, scope)
        if any(isinstance(e, Unit) and self.runs(e, find_scattered(e, scope, self.program)) for e in split):
            return split
        del self.decisions[mark:]
        return []

    def products_apart(self, unit: Unit, cell: tuple[Item, ...], scope: Scope) -> list[Unit | HostGroup]:
        """The parts of a loop, where one of them is a product that tiles of registers run, which the whole is not, and that
        is faster; else nothing.

        before: for i: D[i, i] = 1; for j: C[i, j] = A[i, :] @ B[:, j]
        after:  for i: D[i, i] = 1        for i, j: C[i, j] = A[i, :] @ B[:, j]
        """
        nest = cell[-1]
        whole = single_group(unit, scope)
        if len(cell) > 1 or not isinstance(nest, Nest) or self.fuel == 0 or not self.cost.takes_tiles(whole):
            return []
        inner, parts = separable(nest, scope)
        if len(parts) < 2 or self.cost.is_tiled(whole):
            return []
        mark = len(self.decisions)
        split = self.distribute((nest, *inner), parts, scope)
        groups = [single_group(each, scope) for each in split if isinstance(each, Unit)]
        seconds = sum(self.cost.group(group).seconds for group in groups)
        if len(groups) == len(split) and any(map(self.cost.is_tiled, groups)) and seconds < self.cost.group(whole).seconds:
            return split
        del self.decisions[mark:]
        return []

    def is_worth_a_launch(self, unit: Unit) -> bool:
        """It has a parallel (or relaxed) loop that is not just a few iterations long."""
        for s in unit.statements:
            for name in (*unit.parallel, *unit.relaxed):
                if name in s.iterators and not is_short(s.domain, s.iterators.index(name)):
                    return True
        return False

    def distribute(
        self, nests: tuple[Nest, ...], parts: list[list[tuple[Item, ...]]], scope: Scope
    ) -> list[Unit | HostGroup]:
        """before: for i: A; B        after: for i: A        for i: B
        `nests` are the loops around the parts, outermost first."""
        nest = nests[0]
        out: list[Unit | HostGroup] = []
        for number, part in enumerate(parts, start=1):
            children: tuple[Item, ...] = tuple(item for cell in part for item in cell)
            for outer in reversed(nests):
                children = (Nest(outer.loop, children),)
            for entry in self.in_program_order(children, scope):
                if isinstance(entry, Unit) and entry.label == nest.loop.label:
                    entry = replace(entry, label=f"{entry.label}.{number}")
                out.append(entry)
        return out

    def host_loop(self, nest: Nest, scope: Scope) -> HostGroup | str:
        """The loop run by the host around the launches of its body, if that is faster than one
        thread running all of it; or why not ("": nothing in it runs in parallel)."""
        inner = scope.enter(nest.loop, self.statements)
        mark, anew = len(self.decisions), self.anew
        body = self.sequence(nest.children, inner)
        why = ""
        if any(isinstance(i, HostGroup) or i.legality is not Legality.SERIAL for i in body):
            why = self.slower_by_launches(nest, body, inner)
            if not why:
                return HostGroup(nest.loop, tuple(body))
        del self.decisions[mark:]
        self.anew = anew
        return why

    def slower_by_launches(self, nest: Nest, body: Sequence[PlanItem], inner: Scope) -> str:
        """Why launches in each iteration of a loop take longer than one thread that runs it ("": they do not). On a GPU
        one thread waits for memory so long that nothing is slower."""
        if self.cost.device != "cpu" or self.fuel == 0:
            return ""
        alone = sum(alone_in_turn(cell, inner, self.cost) for cell in cells(apart_inside(nest, inner, self.cost).children))
        launched = self.cost.turn(body)
        if launched < alone * (APART if len(body) > len(cells(nest.children)) else 1.0):
            return ""
        one, other = in_words(alone), in_words(launched)
        compared = f"and {other} if each started other threads" if one != other else "no more than if each started other threads"
        return f"its iterations run one by one, in one thread: about {one} each, {compared}"

    def blocked(self, host: HostGroup, scope: Scope, mark: int) -> list[HostGroup]:
        """The time loop in blocks of several iterations a launch, where its body is a chain. The body's
        decisions are those since `mark`."""
        groups = [item for item in host.body if isinstance(item, Group)]
        fenced = any(_fences(unit, "nofuse") for group in groups for unit in group.units)
        if self.streams is None or self.fuel == 0 or fenced:
            return [host]
        found = self.streams.blocks(host, scope, self.live_after(host), self.fuel)
        if found is None:
            return [host]
        if found.loops:
            self.decisions.call_left_over(mark)
            if self.fuel is not None:
                self.fuel -= len(found.loops)
        self.decisions += found.decisions
        return [*found.loops, found.rest]

    def live_after(self, host: HostGroup) -> frozenset[str]:
        """Arrays whose values someone outside the time loop sees."""
        ids = host.ids
        live = {a.name for a in self.program.arrays.values() if a.is_argument}
        live |= {d.array for d in self.dependences.flow if d.source in ids and d.sink not in ids}
        return frozenset(live)

    # ---------------------------------------------------------------------------- fusing

    def join_bordered(
        self, entries: Sequence[Unit | PlanItem], scope: Scope
    ) -> tuple[list[Unit | PlanItem], list[Apart]]:
        """The entries, with stencils and the loops over the borders of what they write as one group (a
        border that is a launch of its own has few threads, and keeps stencils behind it apart); and
        why others stay apart."""
        out: list[Unit | PlanItem] = list(entries)
        apart: list[Apart] = []
        if self.streams is None or self.fuel == 0:
            return out, apart
        known = [entry for entry in entries if not isinstance(entry, Group)]
        for run in self.streams.runs(known, scope):
            at = [k for k, entry in enumerate(out) if any(entry is unit for unit in run.units)]
            if len(at) != len(run.units):
                continue  # some of them run with others
            found = self.bordered(run.units, scope)
            if isinstance(found, str):
                if found:  # what is said of the shortest run is kept
                    apart = [one for one in apart if one.border is not run.border]
                    apart.append(Apart(run.rest, run.border, found))
            else:
                out[at[0] : at[-1] + 1] = [found]
        alone = [entry for entry in out if isinstance(entry, Unit)]
        return out, [one for one in apart if any(one.border is unit for unit in alone)]

    def bordered(self, units: Sequence[Unit], scope: Scope) -> Group | str:
        """The units as one chain, with a decision for each; or why they are none ("": that goes without
        saying)."""
        if any(_fences(unit, "nofuse") for unit in units):
            return "a `nofuse:` block keeps them apart"
        if self.fuel is not None and self.fuel < len(units) - 1:
            return "fusion is switched off (LOOPFUSE_FUEL)"
        assert self.streams is not None
        streamed = self.streamed(units, scope)
        if streamed is None:
            return self.streams.why_not(units, scope)
        apart = sum(self.cost.group(single_group(unit, scope)).seconds for unit in units)
        together = self.cost.group(streamed).seconds
        if together > apart:
            return slower(together, apart)
        for first, second in pairwise(units):
            self.accept(first, second, streamed)
        return streamed

    def grouped(self, entries: Sequence[Unit | PlanItem], scope: Scope) -> list[PlanItem]:
        """The entries in groups. Where loops joined over fewer of their loops than they have (`for c: s[c] = ..` and
        `for n, c, w: y[n, c, w] = s[c] * x[n, c, w]` over c), what comes behind meets them over those alone: then it is tried without
        that too, and what takes less time is kept."""
        mark, anew = len(self.decisions), self.anew
        self.narrowed = False
        out = self.placed(entries, scope)
        if not self.narrowed or self.fuel is not None or self.cost.device != "cpu":
            return out
        decisions, anew_of_out = self.decisions[mark:], self.anew
        del self.decisions[mark:]
        self.anew, self.is_wide = anew, True
        wide = self.placed(entries, scope)
        self.is_wide = False
        if self.seconds(wide) < self.seconds(out):
            return wide
        self.decisions[mark:] = decisions
        self.anew = anew_of_out
        return out

    def placed(self, entries: Sequence[Unit | PlanItem], scope: Scope) -> list[PlanItem]:
        """The entries in groups, one after the other."""
        out: list[PlanItem] = []
        for entry in entries:
            if isinstance(entry, Unit):
                self.place(entry, out, scope)
            else:
                out.append(entry)
        self.merge(out, scope)
        return out

    def seconds(self, items: Sequence[PlanItem]) -> float:
        """What the groups among them take."""
        return sum(self.cost.group(item).seconds for item in items if isinstance(item, Group))

    def place(self, unit: Unit, out: list[PlanItem], scope: Scope) -> None:
        """`unit` into the last group of `out` that takes it as it stands, else as a group of its
        own. What recomputation could still bring together waits for `merge`."""
        for k in range(len(out) - 1, -1, -1):
            item = out[k]
            if isinstance(item, Group) and (joined := self.join(item, unit, scope)):
                out[k] = joined
                return
            if self.depends(item, unit.ids, scope):
                break
        out.append(single_group(unit, scope))

    def depends(self, item: PlanItem, ids: frozenset[str], scope: Scope) -> bool:
        """A statement of `ids` needs `item` to have run."""
        return any(d.source in item.ids and d.sink in ids for d in scope.touching(ids))

    def join(self, group: Group, unit: Unit, scope: Scope) -> Group | None:
        """The group with `unit` in it, if legal without recomputation and not slower; leaves a
        decision, unless recomputation may change it."""
        partner = self.partner(group.units, unit.ids, scope)
        if self.is_fenced(group, unit):
            self.decisions.decide(partner, unit, False, "a `nofuse:` block keeps them apart",
                                  remedy="remove the `nofuse:` block")
            return None
        if len(group.units) >= MAX_UNITS:
            self.decisions.decide(partner, unit, False, f"a kernel runs at most {MAX_UNITS} loops")
            return None
        if self.fuel == 0:
            if not self.quiet:
                self.decisions.decide(partner, unit, False, "fusion is switched off (LOOPFUSE_FUEL)")
            return None
        wanted = self.must_fuse(group, unit)
        units = in_order((*group.units, unit))
        keep = self.needed_after(units)
        if self.has_border(units):
            formed = Refusal("its loops over borders run in windows")
        else:
            formed = extend_group(group, unit, scope) or form_group(
                units, scope, self.program, keep, in_place=True
            )
        if isinstance(formed, Refusal):
            if formed.could or recomputable_producers(units, unit, scope, self.program):
                return None
            if self.streamed(units, scope) is not None:
                return None
            decision = describe_refusal(self.program, partner, unit, formed, units, scope, keep)
            if wanted:
                raise self.cannot_fuse(decision, unit)
            self.decisions.append(decision)
            self.note_windows(len(self.decisions) - 1, units, scope)
            return None
        apart = self.cost.seconds(group) + self.cost.seconds(single_group(unit, scope))
        together = self.cost.seconds(formed)
        if not wanted and together > apart:
            could = recomputable_producers(units, unit, scope, self.program)
            if not could and self.streamed(units, scope) is None:
                self.decisions.decline(partner, unit, together, apart)
            return None
        if not wanted and self.cost.team(formed) > 1 and self.is_cheaper_anew(units, unit, scope, together):
            return None
        reduces = any(statement.reduction for each in units for statement in each.statements)  # (rows keep what they make in caches)
        if not reduces and 0 < len(formed.dims) < max(len(group.dims), len(single_group(unit, scope).dims)):
            self.narrowed = True
            if self.is_wide and not wanted:
                reason = "as one kernel they keep their other loops apart, which are one with those of later loops"
                self.decisions.decide(partner, unit, False, reason, SLOWER)
                return None
        self.accept(partner, unit, formed)
        return formed

    def is_cheaper_anew(
        self, units: Sequence[Unit], unit: Unit, scope: Scope, together: float
    ) -> bool:
        """Would computing anew what `unit` reads of the others cost less than `together`, which keeps it in
        memory? (Where threads share a point, that may be legal in place. `merge` does it.)"""
        anew = recomputable_producers(units, unit, scope, self.program)
        if not anew or self.anew >= MAX_ANEW:
            return False
        formed = form_group(units, scope, self.program, self.needed_after(units), anew)
        return isinstance(formed, Group) and self.cost.seconds(formed) < together

    def merge(self, out: list[PlanItem], scope: Scope) -> None:
        """Neighbouring groups into one where the later computes anew what it reads of the earlier.

        before:  {rows} {blur, sharp}        after:  {rows again in blur, sharp}
        """
        later = 1
        while later < len(out):
            item = out[later]
            merged = False
            if isinstance(item, Group) and self.fuel != 0:
                for k in range(later - 1, -1, -1):
                    earlier, mark = out[k], len(self.decisions)
                    joined = None
                    if isinstance(earlier, Group):
                        joined = self.join_groups(earlier, item, scope)
                        self.note_windows(mark, (*earlier.units, *item.units), scope)
                    if joined is not None:
                        out[k] = joined
                        del out[later]
                        merged = True
                        break
                    if self.depends(earlier, item.ids, scope):
                        break
            later += not merged

    def join_groups(self, earlier: Group, later: Group, scope: Scope) -> Group | None:
        """Both groups as one by windows or recomputation, if legal and not slower; leaves a
        decision."""
        units = in_order((*earlier.units, *later.units))
        if len(units) > MAX_UNITS:
            return None
        consumer = next(
            (u for u in later.units if self.depends(earlier, u.ids, scope)), None
        )
        if consumer is None or any(self.is_fenced(earlier, u) for u in later.units):
            return None
        partner = self.partner(earlier.units, consumer.ids, scope)
        apart = self.cost.group(earlier).seconds + self.cost.group(later).seconds
        streamed = self.streamed(units, scope)
        if streamed is not None and self.cost.group(streamed).seconds <= apart:
            self.accept(partner, consumer, streamed)
            return streamed
        anew = frozenset[str]().union(
            *(recomputable_producers(units, u, scope, self.program) for u in later.units)
        ) & earlier.ids
        if not anew or self.has_border(units):
            return None
        wanted = any(self.must_fuse(earlier, u) for u in later.units)
        if not wanted and self.anew >= MAX_ANEW:
            self.decide_anew(partner, consumer)
            return None
        keep = self.needed_after(units)
        formed = form_group(units, scope, self.program, keep, anew)
        if isinstance(formed, Refusal):
            decision = describe_refusal(self.program, partner, consumer, formed, units, scope, keep)
            if wanted:
                raise self.cannot_fuse(decision, consumer)
            self.decisions.append(decision)
            return None
        parts = (self.cost.group(earlier), self.cost.group(later))
        whole = self.cost.group(formed)
        together, apart = whole.seconds, sum(part.seconds for part in parts)
        if together <= apart:  # (it must not be slower where few threads have more of memory each, either)
            together, apart = whole.few, sum(part.few for part in parts)
        if not wanted and together > apart:
            dear = describe_dear(self.cost, formed)
            self.decisions.decline(partner, consumer, together, apart, dear)
            return None
        more = whole.anew - sum(part.anew for part in parts)
        if not wanted and self.anew + more > MAX_ANEW:
            self.decide_anew(partner, consumer)
            return None
        self.anew += more
        self.accept(partner, consumer, formed)
        return formed

    def in_one_pass(self, items: list[PlanItem], mark: int) -> list[PlanItem]:
        """The items, with marks on neighbours that are one pass over the rows of what both read, unless that stays in
        a cache. Decisions since `mark` that keep them apart are forgotten."""
        out: list[PlanItem] = []
        for item in items:
            before = out[-1] if out else None
            if isinstance(item, Group) and isinstance(before, Group) and (found := self.crossing(before, item)):
                if self.fuel is not None:
                    self.fuel -= 1
                self.decisions.decide_pass(found, mark)
                item = replace(item, crossing=found)
            out.append(item)
        return out

    def crossing(self, first: Group, second: Group) -> Crossing | None:
        """The two as one pass, where that is worth it: more than one processor keeps near it comes from memory once instead
        of twice."""
        fenced = any(_fences(unit, "nofuse") for unit in (*first.units, *second.units))
        if self.crosses is None or self.fuel == 0 or fenced or first.crossing is not None:
            return None
        found = self.crosses(first, second, self.program, self.cost.device)
        if found is None:
            return None
        saved = sum(self.cost.elements(name) * self.program.arrays[name].dtype.bytes for name in found.arrays)
        return found if saved > self.cost.machine.cache else None

    def streamed(self, units: Sequence[Unit], scope: Scope) -> Group | None:
        """The units as a chain, if they can be one."""
        if self.streams is None:
            return None
        return self.streams.form(units, scope, self.needed_after(units))

    def has_border(self, units: Sequence[Unit]) -> bool:
        """Does some unit write a border of what another writes?"""
        return self.streams is not None and any(map(self.streams.is_border, units))

    def note_windows(self, mark: int, units: Sequence[Unit], scope: Scope) -> None:
        """Add to the decisions since `mark` why these stencils got no windows."""
        if self.streams is None or self.fuel == 0 or len(self.decisions) == mark:
            return
        why, remedy = self.streams.why_apart(units, scope)
        if why:
            self.decisions.add_reason(mark, why, remedy)

    def accept(self, first: Unit, second: Unit, formed: Group) -> None:
        """Record a fusion, and pay for it."""
        if self.fuel is not None:
            self.fuel -= 1
        self.decisions.append(describe_fusion(self.program, first, second, formed))

    def decide_anew(self, first: Unit, second: Unit) -> None:
        """Record a fusion that would make the whole plan compute too much anew."""
        reason = f"the kernels of one plan compute at most {MAX_ANEW} values anew"
        self.decisions.decide(first, second, False, reason, SLOWER)

    def partner(self, units: Sequence[Unit], ids: frozenset[str], scope: Scope) -> Unit:
        """The unit a decision names: the last one that statements of `ids` read, else the last."""
        sources = {d.source for d in scope.touching(ids) if d.kind == "flow" and d.sink in ids}
        related = [u for u in units if not sources.isdisjoint(u.ids)]
        return (related or list(units))[-1]

    def needed_after(self, units: Sequence[Unit]) -> frozenset[str]:
        """Arrays whose values someone outside `units` sees."""
        ids = {s.id for u in units for s in u.statements}
        flows = (d for d in self.whole.touching(ids) if d.kind == "flow")
        return frozenset(
            self.arguments | {d.array for d in flows if d.source in ids and d.sink not in ids}
        )

    def is_fenced(self, group: Group, unit: Unit) -> bool:
        """A `nofuse:` block holds one of them."""
        return any(_fences(u, "nofuse") for u in (*group.units, unit))

    def must_fuse(self, group: Group, unit: Unit) -> bool:
        """A `fuse:` block holds both."""
        return any(_fences(u, "fuse") & _fences(unit, "fuse") for u in group.units)

    def cannot_fuse(self, decision: Decision, unit: Unit) -> UserError:
        """The error for a `fuse:` block whose loops cannot be fused."""
        span = unit.statements[0].span
        return UserError(
            Diagnostic(
                "cannot-fuse",
                f"the loops {decision.between[0]} and {decision.between[1]} in this `fuse:` block "
                "cannot run together",
                span,
                notes=(decision.reason,),
                fix=decision.remedy or "take one of them out of the block",
            )
        )

    def drop_recomputed(self, items: list[PlanItem], scope: Scope) -> list[PlanItem]:
        """The final groups. Stencils get windows; producers that nothing needs any more are
        absorbed, now that it is known what is needed after them."""
        out: list[PlanItem] = []
        for item in items:
            if isinstance(item, Group) and item.legality in (Legality.INDEPENDENT, Legality.STREAMED) and item.dims:
                streamed = self.streamed(item.units, scope)
                if streamed is not None and self.streams is not None:
                    self.decisions.describe_again(streamed, self.streams.describe)
                    out.append(streamed)
                    continue
            if isinstance(item, Group) and item.recomputed:
                keep = self.needed_after(item.units)
                again = form_group(item.units, scope, self.program, keep, item.recomputed)
                out.append(without_dead(again if isinstance(again, Group) else item, keep))
            else:
                out.append(item)
        return out


def separable(
    nest: Nest, scope: Scope
) -> tuple[tuple[Nest, ...], list[list[tuple[Item, ...]]]]:
    """The first loops below `nest` that each hold one loop alone, and what stands inside the last
    of them, in the components that must stay together."""
    inner: list[Nest] = []
    children = nest.children
    while (
        len(children) == 1 and isinstance(children[0], Nest) and not children[0].loop.unknown
    ):
        inner.append(children[0])
        children = children[0].children
    return tuple(inner), components(cells(children), scope)


def hosts_in_hosts(entry: Unit | PlanItem) -> bool:
    """Does the host start launches in loops in loops?"""
    return isinstance(entry, HostGroup) and any(isinstance(item, HostGroup) for item in entry.body)


def runs_in_order(entry: Unit | PlanItem) -> bool:
    """Does one thread run loops of the entry, or of a part of it, in order, or does a loop start launches of which each makes
    one sum?"""
    match entry:
        case HostGroup(body=body):
            return any(map(runs_in_order, body)) or not any(map(has_iterations, body))
        case Group(legality=Legality.SERIAL, members=members):
            return any(placed.unit.common for placed in members)
        case Unit(common=common, parallel=parallel, relaxed=relaxed):
            return bool(common) and not parallel and not relaxed
        case _:
            return False


def has_iterations(entry: Unit | PlanItem) -> bool:
    """Is there something in it that threads share, other than a sum?"""
    match entry:
        case HostGroup(body=body):
            return any(map(has_iterations, body))
        case Group(legality=legality):
            return legality is Legality.INDEPENDENT
        case Unit(parallel=parallel):
            return bool(parallel)


def _fences(unit: Unit, kind: str) -> set[str]:
    """The `fuse`/`nofuse` blocks around a unit."""
    loops = [loop for s in unit.statements for loop in s.loops[:1]]
    return {name for loop in loops for name in loop.fence if name.startswith(f"{kind}.")}


def label_of(cell: tuple[Item, ...]) -> str:
    """How reports name a cell: its loop's label, else its first statement's."""
    for item in cell:
        if isinstance(item, Nest) and item.loop.label:
            return item.loop.label
    statements: tuple[Statement, ...] = statements_of(cell)
    return statements[0].label
