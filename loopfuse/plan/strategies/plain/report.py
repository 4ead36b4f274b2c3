"""The report of a kernel that the analysis gave up on: what runs, and that nothing was proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from loopfuse.base.options import Options
from loopfuse.lang.index import evaluate_index
from loopfuse.lang.index_text import to_python
from loopfuse.lang.nodes import Expr, Kernel, Symbol, integer
from loopfuse.lang.walk import walk_expr
from loopfuse.plan.strategies.plain.plain import PlainPlan
from loopfuse.plan.units.records import Decision, Formula, KernelInfo, LoopInfo, Report
from loopfuse.tree.looptree import LoopTree

GAVE_UP = "the analysis gave up (operation limit)"
"""The reason of every decision that was not made for lack of an answer."""


def plain_decisions(loops: Sequence[LoopInfo]) -> tuple[Decision, ...]:
    """Each loop beside the one before it: not fused, as nothing is known of them."""
    return tuple(
        Decision((first.id, second.id), False, None, GAVE_UP, None, "make the subscripts simpler")
        for first, second in pairwise(loops)
    )


def plain_report(
    kernel: Kernel, plan: PlainPlan, *, source_name: str, options: Options, checked: str
) -> Report:
    """The report of a plain plan. Each launch is taken to move every array it names once."""
    known = {buffer.name: buffer for buffer in plan.tree.buffers}
    moved: Expr = integer(0)
    for info in plan.loops:
        for name in (*info.reads, *info.writes):
            if name not in known or not known[name].extents:
                continue
            size: Expr = integer(known[name].dtype.bytes)
            for extent in known[name].extents:
                size = size * extent
            moved = moved + size
    sizes = dict(options.sizes)
    traffic = Formula(to_python(moved), _number(moved, sizes))
    temporaries = {b.name for b in plan.tree.buffers if not b.argument and b.extents}
    return Report(
        kernel=kernel.name,
        target=options.target.name,
        machine=options.target.machine_name,
        fp=options.fp,
        source_name=source_name,
        line=kernel.span.line,
        sizes=options.sizes,
        loops=plan.loops,
        launches_before=len(plan.loops),
        launches_after=len(plan.loops),
        traffic_before=traffic,
        traffic_after=traffic,
        passes=(len(plan.loops), len(plan.loops)),
        kernels=_kernels(plan.tree, plan.loops, temporaries),
        decisions=plain_decisions(plan.loops),
        preconditions=tuple(p.text for p in plan.preconditions),
        checked=checked,
    )


def _kernels(
    tree: LoopTree, loops: Sequence[LoopInfo], temporaries: set[str]
) -> tuple[KernelInfo, ...]:
    by_label = {info.id: info for info in loops}
    found: list[KernelInfo] = []
    for launch in tree.launches:
        names = [n for label in launch.loops for n in (*by_label[label].reads, *by_label[label].writes)]
        homes = tuple((n, "global") for n in dict.fromkeys(names) if n in temporaries)
        detail = "as written, one thread in order"
        found.append(KernelInfo(launch.name, launch.strategy, launch.loops, homes, detail=detail))
    return tuple(found)


def _number(formula: Expr, sizes: Mapping[str, int]) -> int | None:
    if any(isinstance(n, Symbol) and n.name not in sizes for n in walk_expr(formula)):
        return None
    return evaluate_index(formula, sizes)
