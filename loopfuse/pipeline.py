"""The compiler, as a table of contents: every stage in order, each a pure function.

    parse        text                    -> surface Module        frontend.lf
    check        Module                  -> core Program          lang.check
                 fp="native" on a GPU: approximations             lang.native
    model        core Kernel             -> PolyProgram           poly.build, poly.bounds, poly.eager
    dependences  PolyProgram             -> Dependences           poly.deps
    simplify     PolyProgram             -> PolyProgram, smaller  plan.simplify
                 small reductions written out                     lang.check.unroll_reductions
    fuse         PolyProgram             -> FusionPlan            plan.fusion
    schedule     FusionPlan              -> LoopTree              plan.schedule
                 each group by a strategy                         plan.registry, plan.strategies
    verify       LoopTree                -> Verdict               proof.check
                 not proved: LADDER, fuse again                   plan.ladder
    lower        LoopTree                -> MLIR                  codegen.lower, codegen.mlir
    llvm         MLIR                    -> LLVM IR               codegen.llvm
    emit         LLVM IR                 -> PTX or object         codegen.targets
    assemble     PTX                     -> cubin                 codegen.targets.assemble

Everything a stage makes survives, so a report can show before and after. `Run` times the stages,
dumps what they made and stops after one, as the command line's `--time --dump --stop-after` ask.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from loopfuse.base.artifact import Artifact
from loopfuse.base.beside import begin as begin_beside
from loopfuse.base.bug_report import unexpected
from loopfuse.base.choices import Choices
from loopfuse.base.diagnostics import (
    Diagnostic,
    LimitError,
    LoopfuseError,
    Source,
    Span,
    UserError,
)
from loopfuse.base.options import Options, Target
from loopfuse.base.printable import printable
from loopfuse.base.warn import heard, warn
from loopfuse.codegen.abi import build_manifest, entry_name
from loopfuse.codegen.ir import Operation, Place
from loopfuse.codegen.llvm.debug_info import locations
from loopfuse.codegen.lower.lower import emit_llvm, emit_module, emit_object, emit_ptx, print_module
from loopfuse.codegen.math.functions import ULP_BOUNDS
from loopfuse.codegen.select.value_ranges import is_needless, ranges_of
from loopfuse.codegen.shared_memory import placed_in
from loopfuse.codegen.targets.assemble import assemble
from loopfuse.frontend.lf.door import parse
from loopfuse.lang import native
from loopfuse.lang.check.check import check_with_warnings, heads
from loopfuse.lang.check.unroll_reductions import absorbed_labels, unroll_reductions
from loopfuse.lang.collection import rare_collection
from loopfuse.lang.nodes import Kernel, Load, Program
from loopfuse.lang.printer import print_kernel
from loopfuse.lang.surface.depth import deep_recursion
from loopfuse.lang.surface.format import format_module
from loopfuse.lang.surface.syntax import Module
from loopfuse.plan import chosen, registry
from loopfuse.plan.fusion.cost import CostModel
from loopfuse.plan.fusion.fuse import FusionPlan, Planner
from loopfuse.plan.fusion.parallel import check_parallel_loops
from loopfuse.plan.ladder import Attempt, apart, attempts
from loopfuse.plan.printer import print_plan
from loopfuse.plan.report import (
    Unfused,
    build_report,
    count_launches,
    decisions_made,
    kernel_infos,
    loop_infos,
    reassociated,
)
from loopfuse.plan.schedule import Scheduled, build_tree
from loopfuse.plan.simplify.choices import without_idle_choices
from loopfuse.plan.simplify.dead import live_statements, remove_dead
from loopfuse.plan.simplify.in_place import accumulators, put_in_place, users_of, without_copies
from loopfuse.plan.simplify.iterations import without_idle_iterations
from loopfuse.plan.simplify.once import calculated_once, shared_values
from loopfuse.plan.simplify.private import privatise
from loopfuse.plan.simplify.rename import rename_webs
from loopfuse.plan.simplify.repeats import without_repeats
from loopfuse.plan.simplify.scalars import write_out_scalars
from loopfuse.plan.strategies.plain.plain import PlainPlan, plan_plain
from loopfuse.plan.strategies.plain.report import GAVE_UP, plain_decisions, plain_report
from loopfuse.plan.units.records import Report
from loopfuse.plan.units.rules import Rules
from loopfuse.plan.units.storage import place_storage
from loopfuse.poly import isl
from loopfuse.poly.bounds import find_preconditions, find_uninitialised
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.eager import mark_eager
from loopfuse.poly.model import Dependences, PolyProgram
from loopfuse.poly.unwritten import Box, find_unwritten
from loopfuse.proof.check import Verdict, verify
from loopfuse.proof.once import keeps_values_made_once
from loopfuse.proof.private import keeps_needed_values, keeps_values, keeps_values_in_place
from loopfuse.tree.looptree import LoopTree
from loopfuse.tree.printer import print_tree
from loopfuse.tree.rewrite.collapse import as_one
from loopfuse.tree.walk import trust_subscripts

T = TypeVar("T")

STAGES = (
    "parse",
    "check",
    "model",
    "dependences",
    "simplify",
    "fuse",
    "schedule",
    "verify",
    "lower",
    "llvm",
    "emit",
    "assemble",
)


_CODE = frozenset({"ptx", "object", "cubin"})
"""What of `compile_kernel`'s `emit` takes LLVM to make."""


class Stopped(Exception):
    """Raised after the stage that `--stop-after` names."""


@dataclass
class Run:
    """How the stages of one compile are watched: seconds per stage, what to dump, where to stop."""

    dump: Collection[str] = ()
    stop_after: str = ""
    write: Callable[[str], None] = field(default=lambda text: print(printable(text), file=sys.stderr))
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    made: list[Callable[[], str]] = field(default_factory=list[Callable[[], str]])
    """What each stage made, as text: for a bug report."""
    notice: Callable[[str], None] | None = None
    """Is told the name of each stage as it begins."""
    beside: bool = field(default_factory=lambda: len(os.sched_getaffinity(0)) > 1)
    """LLVM may begin with a tree while it is proved: of use where there is a second processor."""

    def stage(self, name: str, work: Callable[[], T], show: Callable[[T], str] = str) -> T:
        """The result of `work`, timed, and dumped if asked for."""
        if self.notice is not None:
            self.notice(name)
        start = time.perf_counter()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        self.made.append(lambda: f"== {name}\n{show(result)}")
        if name in self.dump:
            self.write(f"== {name}\n{show(result)}")
        if name == self.stop_after:
            raise Stopped
        return result


@dataclass(frozen=True, slots=True)
class Planned:
    """A kernel planned and checked: every record up to the LoopTree, and the report."""

    kernel: Kernel
    program: PolyProgram
    dependences: Dependences
    plan: FusionPlan
    scheduled: Scheduled
    verdict: Verdict
    source: Source
    options: Options
    seconds: Mapping[str, float]
    plain: PlainPlan | None = None
    """The plain plan, where the analysis gave up: then there is no model and no fusion plan."""
    used: str = ""
    """What is used instead of the plan that was chosen first, where that was not proved."""
    approximations: tuple[str, ...] = ()
    """What `fp="native"` has approximated, with bounds."""
    warnings: tuple[str, ...] = ()
    """What was warned of."""
    before: tuple[PolyProgram, Dependences] | None = None
    """The program, and its dependences, before accumulators and values that several loops calculate were put into arrays (None: none were)."""

    @property
    def tree(self) -> LoopTree:
        """The tree that is compiled."""
        return self.scheduled.tree

    @property
    def report(self) -> Report:
        """What was decided, for people (computed anew: it plans the unfused program too)."""
        report = self._exact_report
        return replace(report, math_bounds=(*self.approximations, *report.math_bounds))

    @property
    def _exact_report(self) -> Report:
        checked = _checked_text(self.verdict, self.seconds, self.used)
        if self.plain is not None:
            return plain_report(
                self.kernel,
                self.plain,
                source_name=self.source.name,
                options=self.options,
                checked=checked,
            )
        if not self.dependences.complete:
            return _rough_report(self, checked)
        try:
            with isl.spending(self.options.operations or isl.OPERATIONS // 3) as budget, deep_recursion():
                _weigh(self.program)
                budget.adopt(self.program.context)
                return build_report(
                    self.program,
                    self.dependences,
                    self.plan,
                    self.scheduled,
                    source_name=self.source.name,
                    options=self.options,
                    unfused=_unfused(self),
                    checked=checked,
                    ulp_bounds=ULP_BOUNDS,
                )
        except isl.FAILURES as error:
            if not isl.gave_up(error):
                raise
        return _rough_report(self, checked)

    @property
    def spans(self) -> dict[str, Span]:
        """The place of each statement by its id."""
        if self.plain is not None:
            return self.plain.spans
        return {one.id: one.span for one in self.program.statements}


# -------------------------------------------------------------------- text to core program


def read_program(
    source: Source,
    fp: str = "fast",
    constants: Mapping[str, int] | None = None,
    run: Run | None = None,
    door: Callable[[Source], Module] | None = None,
    words: Callable[[Diagnostic], Diagnostic] | None = None,
    told: set[str] | None = None,
) -> Program:
    """`source` parsed and checked; warnings go to Python's `warnings`. UserError or LimitError
    with every place that is wrong. `door` reads the text, if given; else its language says how.
    `words` says warnings as their reader would; those that were `told` before are not told again.
    MLIR is always read under `fp="strict"`: it says itself what is an FMA."""
    run = run or Run()
    if source.language == "mlir":
        from loopfuse.frontend.mlir import door as affine  # xDSL takes 0.3 s to import

        door, fp = affine.parse, "strict"
    door = door or parse
    with rare_collection():
        module = run.stage("parse", lambda: door(source), format_module)
        program, complaints = run.stage(
            "check",
            lambda: check_with_warnings(module, fp=fp, constants=constants),
            lambda result: "\n\n".join(print_kernel(kernel) for kernel in result[0].kernels),
        )
    for complaint in complaints:
        text = str(LoopfuseError(words(complaint) if words else complaint))
        if told is None or text not in told:
            warn(text)
        if told is not None:
            told.add(text)
    return program


def read_heads(source: Source) -> tuple[Kernel, ...]:
    """The kernels of a `.lf` text without their bodies: what can be said of one whose `const`
    parameters have no values yet."""
    return heads(parse(source))


# --------------------------------------------------------------------- core program to tree


Begin = Callable[[Kernel, PolyProgram, LoopTree], None]
"""Is told the tree that is planned first, before it is proved: its code may be begun beside the proof."""


def plan_kernel(
    program: Program, name: str, options: Options, run: Run | None = None, begin: Begin | None = None
) -> Planned:
    """Kernel `name` from the core to a proved LoopTree. Where the checker cannot prove the fused
    tree, an easier one is used, then the unfused one, then the program's own order, and a warning
    says so; InternalError where all are rejected."""
    run = run or Run()
    with rare_collection(), _reported(program, name, options, run), heard() as warnings:
        planned = _plan_kernel(program, name, options, run, begin)
    return replace(planned, warnings=tuple(warnings))


def _plan_kernel(
    program: Program, name: str, options: Options, run: Run, begin: Begin | None
) -> Planned:
    kernel = program.kernel(name)
    if options.approximates:
        planned = _plan_read(native.approximated(kernel), program, options, run, begin)
        return replace(planned, approximations=native.bounds(kernel))
    return _plan_read(kernel, program, options, run, begin)


def _plan_read(
    kernel: Kernel, program: Program, options: Options, run: Run, begin: Begin | None
) -> Planned:
    with deep_recursion():
        unrolled = unroll_reductions(kernel)
    for written_out in (unrolled, None) if unrolled is not kernel else (None,):
        try:
            with isl.spending(options.operations), deep_recursion():
                return _plan_exactly(kernel, program.source, options, run, written_out, begin)
        except LoopfuseError as error:
            raise _placed(error, program.source) from None
        except isl.FAILURES as error:
            if not isl.gave_up(error):
                raise
    try:
        with deep_recursion():
            return _plan_plainly(kernel, program.source, options, run)
    except LoopfuseError as error:
        raise _placed(error, program.source) from None


def _plan_exactly(
    kernel: Kernel,
    source: Source,
    options: Options,
    run: Run,
    unrolled: Kernel | None,
    begin: Begin | None,
) -> Planned:
    """The planner's own route: exact analysis, fusion, proof."""
    model = run.stage("model", lambda: _model(kernel), _show_model)
    dependences = run.stage("dependences", lambda: find_dependences(model), _show_dependences)

    def simplify() -> tuple[tuple[PolyProgram, Dependences], tuple[PolyProgram, Dependences] | None]:
        smaller, left = _simplify(model, dependences, unrolled)
        simple = (smaller if options.target.is_gpu else mark_eager(smaller)), left
        stored = None
        try:
            stored = _calculated_once(*simple, options)
            return simple, _in_place(*(stored or simple), options) or stored
        except isl.FAILURES as error:
            if not isl.gave_up(error):
                raise
        return simple, stored

    simple, stored = run.stage("simplify", simplify)
    planned = _plan_model(kernel, *(stored or simple), options, source, run, begin)
    return planned if stored is None else replace(planned, before=simple)


def _plan_plainly(
    kernel: Kernel, source: Source, options: Options, run: Run, reason: str = ""
) -> Planned:
    """The route that asks isl nothing (`plan.strategies.plain.plain`), for when it has given up, or decided nothing."""
    gave_up = f"the analysis of `{kernel.name}` took too long and was given up (operation limit)"
    warn(f"{reason or gave_up}; it is compiled as it is written, for one thread")
    device = "gpu" if options.target.is_gpu else "cpu"
    plain = run.stage(
        "schedule",
        lambda: plan_plain(kernel, device, options.strided, options.rows),
        lambda plan: print_tree(plan.tree),
    )
    program = PolyProgram(kernel, {}, (), (), None, plain.preconditions)
    dependences = Dependences((), (), (), {}, False, GAVE_UP)
    plan = FusionPlan((), plain_decisions(plain.loops))
    verdict = Verdict("unknown", (GAVE_UP,))
    scheduled = Scheduled(plain.tree, {})
    return Planned(
        kernel, program, dependences, plan, scheduled, verdict, source, options, run.seconds, plain
    )


def check_kernel(program: Program, name: str, operations: int = 0) -> None:
    """Whatever is wrong with kernel `name` that needs exact analysis to see: subscripts, reads of
    unwritten values, `parallel for`. Raises like `plan_kernel`, makes nothing."""
    try:
        with isl.spending(operations), deep_recursion():
            model = _model(program.kernel(name))
            model, dependences = _simplify(model, find_dependences(model))
            check_parallel_loops(model, dependences, reassociate=True)
    except LoopfuseError as error:
        raise _placed(error, program.source) from None
    except isl.FAILURES as error:
        if not isl.gave_up(error):
            raise
        warn(f"the analysis of `{name}` took too long and was given up")


def _model(kernel: Kernel) -> PolyProgram:
    model = build_model(kernel)
    _weigh(model)
    return replace(model, **_bounds(model))


def _weigh(model: PolyProgram) -> None:
    """Deep nests may ask less, and so may subscripts of many quotients."""
    depth = max((len(each.loops) for each in model.statements), default=0)
    accesses = (access for each in model.statements for access in (each.write, *each.reads))
    relations = (relation for access in accesses for _, relation in access.parts)
    isl.weigh(depth, max(map(isl.quotients_of, relations), default=0))


def _bounds(model: PolyProgram) -> dict[str, Any]:
    preconditions, context = find_preconditions(model)
    return {"preconditions": preconditions, "context": context}


def _simplify(
    model: PolyProgram, dependences: Dependences, unrolled: Kernel | None = None
) -> tuple[PolyProgram, Dependences]:
    """`unrolled`: the kernel with its small reductions written out, if it has any."""
    if complaints := find_uninitialised(model, dependences):
        raise UserError(*complaints)
    written = without_repeats(without_idle_choices(write_out_scalars(unrolled or model.kernel)))
    if written is not model.kernel:
        model = _model_again(model, written, unrolled)
        dependences = find_dependences(model)
    live = live_statements(model, dependences)
    smaller = remove_dead(model, live) if len(live) < len(model.statements) else model
    if smaller is not model:
        dependences = find_dependences(smaller)
    smaller, dependences = _shortened(smaller, dependences)
    renamed = rename_webs(smaller, dependences)
    if renamed is not smaller:
        dependences = find_dependences(renamed)
    private = privatise(renamed, dependences)
    if private is not renamed:
        apart = find_dependences(private)
        if keeps_values(renamed, dependences, private, apart):
            return private, apart
    return renamed, dependences


def _shortened(model: PolyProgram, dependences: Dependences) -> tuple[PolyProgram, Dependences]:
    """The model without iterations that nobody needs; as it is where isl gives up."""
    try:
        shorter = without_idle_iterations(model, dependences)
        if shorter is not model:
            others = find_dependences(shorter)
            if keeps_needed_values(model, dependences, shorter, others):
                return shorter, others
    except isl.FAILURES as error:
        if not isl.gave_up(error):
            raise
    return model, dependences


def _calculated_once(model: PolyProgram, dependences: Dependences, options: Options) -> tuple[PolyProgram, Dependences] | None:
    """Dear values of several loops are calculated once, where that is cheaper and moves no more. None where there are none such."""
    if options.fuel == 0 or options.target.is_gpu or not dependences.complete:
        return None
    once, others = model, dependences
    tried = set[str]()
    while shared := next((each for each in shared_values(once) if each.last.id not in tried), None):
        tried.add(shared.last.id)
        again = calculated_once(once, shared)
        found = find_dependences(again)
        if keeps_values_made_once(once, others, again, found):
            once, others = again, found
    if once is model:
        return None
    once, others = _without_copies(once, others)
    rules = Rules.of(options, model)
    (before, bytes_before), (now, bytes_now) = (
        planner.cost.whole(planner.plan().items)
        for planner in (_planner(*each, options, rules, options.fuel) for each in ((model, dependences), (once, others)))
    )
    return (once, others) if now < before and bytes_now <= bytes_before else None


def _in_place(model: PolyProgram, dependences: Dependences, options: Options) -> tuple[PolyProgram, Dependences] | None:
    """Accumulators are the elements that they end in, where the nest then runs in another order than the program's. (Elsewhere
    a register is better, or as good.) None where there are none such."""
    rules = Rules.of(options, model)
    if not rules.orders or options.fuel == 0 or options.target.is_gpu:
        return None
    found = dict(reversed([*accumulators(model, dependences)]))  # of several elements the first
    moved = _moved_in_place(model, dependences, found)
    if moved is None:
        found = {name: one for name, one in found.items() if _moved_in_place(model, dependences, {name: one})}
        moved = _moved_in_place(model, dependences, found)
    if moved is None:
        return None
    planner = _planner(*moved, options, rules, options.fuel)
    planner.plan()
    wanted = {name: one for name, one in found.items() if users_of(model, name) & planner.reordered}
    return moved if wanted == found else _moved_in_place(model, dependences, wanted)


def _moved_in_place(
    model: PolyProgram, dependences: Dependences, elements: Mapping[str, Load]
) -> tuple[PolyProgram, Dependences] | None:
    """The model with scalars as these elements; None where values would be others, or there is no scalar."""
    if not elements:
        return None
    moved = put_in_place(model, elements)
    others = find_dependences(moved)
    if not keeps_values_in_place(model, dependences, moved, others, elements):
        return None
    return _without_copies(moved, others)


def _without_copies(model: PolyProgram, dependences: Dependences) -> tuple[PolyProgram, Dependences]:
    """The model without statements that store what an element holds in that element, and its dependences."""
    smaller = without_copies(model)
    return smaller, dependences if smaller is model else find_dependences(smaller)


def _model_again(model: PolyProgram, kernel: Kernel, unrolled: Kernel | None) -> PolyProgram:
    """The model of `kernel`, which does what the model's own kernel does: what is known of its
    parameters, and what is said of it, stay."""
    return replace(
        build_model(kernel, isl.context_of(model.context)),
        kernel=model.kernel,
        context=model.context,
        preconditions=model.preconditions,
        absorbed=model.absorbed if unrolled is None else absorbed_labels(model.kernel, unrolled),
    )


def _plan_model(
    kernel: Kernel,
    model: PolyProgram,
    dependences: Dependences,
    options: Options,
    source: Source,
    run: Run,
    begin: Begin | None,
) -> Planned:
    usual = Rules.of(options, model)
    device = usual.machine.device

    def attempt(
        one: Attempt, begin: Begin | None = None
    ) -> tuple[FusionPlan, Scheduled, Verdict]:
        rules = one.rules
        planner = _planner(model, dependences, options, rules, one.fuel)
        plan = run.stage("fuse", planner.plan_in_order if one.in_order else planner.plan, print_plan)
        scheduled = run.stage(
            "schedule",
            lambda: build_tree(model, dependences, plan, device, rules),
            lambda result: print_tree(result.tree),
        )
        if begin is not None:
            begin(kernel, model, scheduled.tree)
        verdict = run.stage("verify", lambda: verify(model, dependences, scheduled.tree, options.reassociate))
        return plan, scheduled, verdict

    def made(plan: FusionPlan, scheduled: Scheduled, verdict: Verdict, used: str = "") -> Planned:
        return Planned(
            kernel, model, dependences, plan, scheduled, verdict, source, options, run.seconds, used=used
        )

    check_parallel_loops(model, dependences, options.reassociate)
    plan, scheduled, verdict = attempt(Attempt("", options.fuel, usual), begin)
    if not dependences.complete:  # the plan is in program order already: that needs no proof
        warn(f"{dependences.why}, so `{kernel.name}` is compiled in program order, for one thread")
        return made(plan, scheduled, verdict)
    if verdict.answer != "proved" and any(buffer.turns for buffer in scheduled.tree.buffers):
        one = apart(options.fuel, usual)
        usual = one.rules
        with isl.spending(options.operations) as budget:
            _weigh(model)
            budget.adopt(model.context)
            plan, scheduled, verdict = attempt(one)
    rejected: list[Verdict] = []
    used = ""
    for one in attempts(options.fuel, usual, [*scheduled.fits.values()]):
        if verdict.answer == "proved":
            break
        rejected.append(verdict)
        used = one.words
        with isl.spending(options.operations) as budget:  # what was spent before is gone
            _weigh(model)
            budget.adopt(model.context)
            plan, scheduled, verdict = attempt(one)
    if verdict.answer == "wrong":
        raise RejectedSchedule(f"every schedule was rejected ({verdict.findings[0]})")
    if verdict.answer == "unknown":
        return _plan_plainly(kernel, source, options, run, f"no schedule of `{kernel.name}` could be "
                             f"proved ({verdict.findings[0]})")  # fmt: skip
    if rejected:
        _warn_unproved(kernel, rejected, used)
    return made(plan, scheduled, verdict, used)


def _planner(model: PolyProgram, dependences: Dependences, options: Options, rules: Rules, fuel: int | None) -> Planner:
    team, tiles = (registry.team if rules.teams else None), (registry.tiles if rules.tiles else None)
    cost = CostModel(model, rules.machine, options.size_map, team, tiles)
    return Planner(
        model, dependences, cost, options.reassociate, fuel,
        streams=registry.streams(model, cost, rules) if rules.chains else None,
        runs_whole=registry.runs_whole if rules.teams else None,
        reorder=registry.reorder if rules.orders else None,
        crosses=registry.crosses if rules.teams and rules.crossings else None,
    )  # fmt: skip


class RejectedSchedule(Exception):
    """The checker rejected what was planned, the program's own order included: nothing is run."""


def _warn_unproved(kernel: Kernel, rejected: Sequence[Verdict], instead: str) -> None:
    """Trees that were not proved are our bug (wrong) or isl's limit (unknown); say which, once."""
    worst = next((one for one in rejected if one.answer == "wrong"), rejected[0])
    finding = worst.findings[0] if worst.findings else ""
    if worst.answer == "wrong":
        warn(
            f"loopfuse planned `{kernel.name}` wrongly and noticed ({finding}); "
            f"{instead}. This is a bug: please report it with the program."
        )
    else:
        warn(f"the fused schedule of `{kernel.name}` could not be proved ({finding}); {instead}.")


def _rough_report(planned: Planned, checked: str) -> Report:
    """The report where counting the bytes exactly took too long: whole arrays are counted."""
    options, device = planned.options, "gpu" if planned.options.target.is_gpu else "cpu"
    rough = plain_report(
        planned.kernel,
        plan_plain(planned.kernel, device, options.strided, options.rows),
        source_name=planned.source.name,
        options=options,
        checked=checked,
    )
    return replace(
        rough,
        loops=loop_infos(planned.before[0] if planned.before else planned.program, planned.plan),
        launches_after=count_launches(planned.scheduled.items),
        kernels=kernel_infos(planned.program, planned.scheduled),
        decisions=decisions_made(planned.program, planned.plan, planned.scheduled),
        reassociated=tuple(dict.fromkeys(reassociated(planned.program, planned.scheduled))),
        preconditions=tuple(p.text for p in planned.program.preconditions),
    )


def _unfused(planned: Planned) -> Unfused:
    """The plan with fusion off, which reports compare with."""
    program, dependences = planned.before or (planned.program, planned.dependences)
    machine = Rules.of(planned.options, program).machine
    cost = CostModel(program, machine, planned.options.size_map, registry.team, registry.tiles)
    plan = Planner(program, dependences, cost, planned.options.reassociate, 0, quiet=True).plan()
    items = registry.claimed(plan.items, program, machine.device)
    return Unfused(program, dependences, items, place_storage(program, dependences, items, machine.device))


# ----------------------------------------------------------------------------- tree to code


def compile_kernel(
    program: Program,
    name: str,
    options: Options,
    *,
    emit: Collection[str] = frozenset({"ptx"}),
    run: Run | None = None,
    planned: Planned | None = None,
) -> Artifact:
    """Kernel `name` compiled. `emit`: any of ptx object mlir affine report llvm cubin; the target's
    code is made unless only others are asked for. `planned`:
    what `plan_kernel` made of it under these options, but for `index_bits`; nobody else may use
    it meanwhile."""
    run = run or Run()
    with rare_collection(), deep_recursion(), _reported(program, name, options, run):
        drafts: list[_Draft] = []
        if planned is None:
            wants_code = not emit or bool(set(emit) & _CODE)
            begins = wants_code and run.beside and not (run.stop_after or run.dump)

            def begin(kernel: Kernel, model: PolyProgram, tree: LoopTree) -> None:
                places = locations(program.source.name, _spans(model, options.target))
                with suppress(Exception):  # it happens again, if this tree is what is compiled
                    drafts.append(_draft(tree, kernel, options, places, run, beside=True))

            try:
                planned = plan_kernel(program, name, options, run, begin if begins else None)
            except BaseException:
                for draft in drafts:
                    draft.drop()
                raise
        return _compile_kernel(program, name, replace(planned, options=options), emit, run, drafts)


@dataclass(frozen=True, slots=True)
class _Draft:
    """The code of a tree: `tree` as planned, `made` as it is compiled; `code` waits for what LLVM makes of it."""

    tree: LoopTree
    made: LoopTree
    module: Operation
    llvm: str
    code: Callable[[], str | bytes]

    def drop(self) -> None:
        """Waits for what nobody wants."""
        with suppress(Exception):
            self.code()


def _draft(
    tree: LoopTree,
    kernel: Kernel,
    options: Options,
    places: Mapping[str, Place],
    run: Run,
    beside: bool = False,
    trusted: bool = True,
) -> _Draft:
    """Lowers a tree. `beside`: LLVM begins with it at once, in a thread of its own."""
    target = options.target
    made = as_one(_trusted(tree, options) if trusted else tree)
    module = run.stage(
        "lower", lambda: emit_module(made, kernel, target, options.index_bits, places), print_module
    )
    llvm = run.stage("llvm", lambda: emit_llvm(module, target))

    def code() -> str | bytes:
        match target.code:
            case "ptx":
                return emit_ptx(llvm, target, made.is_straight)
            case "object":
                return emit_object(llvm, target)
            case "llvm":
                return llvm

    return _Draft(tree, made, module, llvm, begin_beside(code) if beside else code)


def _trusted(tree: LoopTree, options: Options) -> LoopTree:
    """The tree without checks of subscripts: where none are wanted, and of those whose type or arithmetic keeps them
    inside. (A kernel without any is called straight: nobody looks for an offender.)"""
    if options.check == "off":
        return trust_subscripts(tree)
    held = ranges_of(tree)
    return trust_subscripts(tree, lambda check: is_needless(check, held))


def _spans(model: PolyProgram, target: Target) -> dict[str, Span]:
    """The places of statements, where code says them."""
    return {one.id: one.span for one in model.statements} if target.is_gpu else {}


def _compile_kernel(
    program: Program,
    name: str,
    planned: Planned,
    emit: Collection[str],
    run: Run,
    drafts: Sequence[_Draft] = (),
) -> Artifact:
    options = planned.options
    kernel, target = planned.kernel, options.target
    loops = nest = ""
    draft = next((one for one in drafts if one.tree is planned.tree), None)
    for one in drafts:
        if one is not draft:
            one.drop()
    if draft is None:
        spans = planned.spans if target.is_gpu else {}
        places = locations(program.source.name, spans)
        # Where nothing was proved, nothing else guards memory.
        draft = _draft(planned.tree, kernel, options, places, run, trusted=planned.plain is None)
    if "affine" in emit:
        from loopfuse.codegen.upstream.affine import emit_affine, emit_fused

        shown = _trusted(planned.tree, options) if planned.plain is None else planned.tree
        loops, nest = emit_affine(program.kernel(name)), emit_fused(shown, kernel, target)
    tree, module, llvm = draft.made, draft.module, draft.llvm
    conditions = tuple(
        {"text": p.text, "message": p.message, "line": p.span.line, "column": p.span.column}
        for p in planned.program.preconditions
    )
    placed = placed_in(module)
    shared = {entry: one.total for entry, one in placed.items()}
    asked = {entry: one.asked for entry, one in placed.items()}
    # Who only runs the kernel waits for no report: it plans the unfused program and prints formulas.
    report = planned.report if "report" in emit else None

    def reported(registers: Mapping[str, int]) -> dict[str, Any]:
        return {} if report is None else _with_costs(report, tree, shared, registers).to_dict()

    artifact = Artifact(
        kernel=name,
        target=target.name,
        manifest={
            **_with_unwritten(
                build_manifest(tree, kernel, target, options.index_bits, asked, conditions),
                _unwritten(planned),
            ),
            "check": options.check,
        },
        report=reported({}),
        mlir=print_module(module) if "mlir" in emit else "",
        llvm=llvm if "llvm" in emit or target.code == "llvm" else "",
        affine_mlir=loops,
        fused_mlir=nest,
        warnings=planned.warnings,
    )
    if emit and not set(emit) & _CODE:
        return artifact
    code = run.stage("emit", draft.code)
    if isinstance(code, bytes):
        return replace(artifact, object=code)
    if target.code == "llvm":
        return artifact
    artifact = replace(artifact, ptx=code)
    if "cubin" in emit:
        artifact = run.stage("assemble", lambda: _assembled(artifact, target))
        artifact = replace(artifact, report=reported(artifact.registers))
    return artifact


def _unwritten(planned: Planned) -> dict[str, tuple[Box, ...] | None]:
    """What a call clears of the outputs that it makes: `poly.unwritten`; nothing is known of them
    where there is no model."""
    if planned.plain is not None:
        return {}
    try:
        with isl.spending(planned.options.operations or isl.OPERATIONS // 3) as budget, deep_recursion():
            _weigh(planned.program)
            budget.adopt(planned.program.context)
            return find_unwritten(planned.program, planned.dependences)
    except isl.FAILURES as error:
        if not isl.gave_up(error):
            raise
        return {}


def _with_unwritten(
    manifest: dict[str, Any], unwritten: Mapping[str, tuple[Box, ...] | None]
) -> dict[str, Any]:
    """The manifest with the boxes of `poly.unwritten` at its `out` parameters."""

    def described(parameter: dict[str, Any]) -> dict[str, Any]:
        boxes = unwritten.get(parameter["name"])
        if boxes is None:
            return parameter
        return {**parameter, "unwritten": [box(each, parameter["extents"]) for each in boxes]}

    def box(each: Box, extents: Sequence[str]) -> dict[str, Any]:
        pairs = zip(each.bounds, extents, strict=True)
        bounds = [["0", extent] if pair is None else list(pair) for pair, extent in pairs]
        return {"when": each.when, "bounds": bounds, "untouched": each.untouched}

    return {**manifest, "parameters": [described(one) for one in manifest["parameters"]]}


def _with_costs(
    report: Report, tree: LoopTree, shared: Mapping[str, int], registers: Mapping[str, int]
) -> Report:
    """The report with what each kernel takes, by entry points; registers of those that are known."""
    entries = {launch.name: entry_name(launch) for launch in tree.launches}
    kernels = tuple(
        replace(
            kernel,
            shared_bytes=shared.get(entries[kernel.name], 0),
            registers=registers.get(entries[kernel.name]),
        )
        for kernel in report.kernels
    )
    return replace(report, kernels=kernels)


def _assembled(artifact: Artifact, target: Target) -> Artifact:
    made = assemble(artifact.ptx, target)
    if made is None:
        return artifact
    cubin, registers, _ = made
    return replace(artifact, cubin=cubin, cubin_maker="ptxas", registers=registers)


def explain_kernel(program: Program, name: str, options: Options) -> Report:
    """What would be fused, and why or why not."""
    return plan_kernel(program, name, options).report


def find_choices(program: Program, name: str, options: Options) -> Choices:
    """What is chosen for kernel `name` where the options leave it free."""
    planned = plan_kernel(program, name, options)
    return chosen.find_choices(planned.scheduled, options.tuning)


def describe_dependences(
    program: Program,
    name: str,
    sizes: dict[str, int] | None = None,
    instances: bool = False,
    operations: int = 0,
) -> dict[str, Any]:
    """Every dependence of kernel `name`, as the JSON of `loopfuse deps`."""
    from loopfuse.poly.deps_report import PATIENCE
    from loopfuse.poly.deps_report import describe_dependences as describe

    try:
        with isl.spending(operations or PATIENCE, 60.0), deep_recursion():
            model = build_model(program.kernel(name))
            return describe(model, find_dependences(model), sizes, instances)
    except LoopfuseError as error:
        raise _placed(error, program.source) from None
    except isl.FAILURES as error:
        if not isl.gave_up(error):
            raise
        kernel = program.kernel(name)
        raise LimitError(
            Diagnostic(
                "dependences-unknown",
                f"the dependences of `{name}` are too complex to be computed",
                kernel.span,
                fix="make subscripts and bounds simpler, or give `LOOPFUSE_ISL_OPERATIONS` a "
                "larger number than 3000000",
                source=program.source,
            )
        ) from None


def scalar_math() -> Mapping[Any, Any]:
    """Our math functions with the bits of compiled code, for the interpreters."""
    from loopfuse.codegen.math.host import compiled_math

    return compiled_math()


# ------------------------------------------------------------------------------ small things


@contextmanager
def _reported(program: Program, name: str, options: Options, run: Run) -> Generator[None, None, None]:
    """Turns what no stage should raise into an InternalError that says where it is all saved."""
    run.made.clear()
    try:
        yield
    except (LoopfuseError, Stopped, MemoryError):
        raise
    except Exception as error:
        stages: list[str] = []
        for made in run.made:
            with suppress(Exception):  # a record may be what is broken
                stages.append(made())
        raise unexpected(error, program.source, name, options, stages) from error


def _placed(error: LoopfuseError, source: Source) -> LoopfuseError:
    """The error with the source on every diagnostic, so that it can show the line."""
    placed = tuple(
        d if d.source is not None else replace(d, source=source) for d in error.diagnostics
    )
    return type(error)(*placed)


def _checked_text(verdict: Verdict, seconds: Mapping[str, float], used: str) -> str:
    total = sum(seconds.values())
    spent = f"({seconds.get('verify', 0.0) * 1e3:.0f} ms of {total * 1e3:.0f} ms)"
    match verdict.answer:
        case "proved":
            instead = f"; what was chosen first was not proved: {used}" if used else ""
            return f"schedule verified against all dependences {spent}{instead}"
        case "unknown":
            return f"unknown: {verdict.findings[0]}; run in program order, by one thread {spent}"
        case _:
            return f"rejected: {verdict.findings[0]} {spent}"


def _show_model(model: PolyProgram) -> str:
    return "\n".join(
        f"{s.id}: {s.domain}\n  writes {[str(m) for _, m in s.write.parts]}\n"
        f"  reads {[str(m) for access in s.reads for _, m in access.parts]}"
        for s in model.statements
    )


def _show_dependences(dependences: Dependences) -> str:
    return "\n".join(
        f"{d.kind} {d.array}: {d.relation}{'  (reduction)' if d.reduction else ''}"
        for d in dependences.all
    )
