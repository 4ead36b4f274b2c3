"""A fusion plan as text, one line for each group, each loop of the host and each decision.

    for t in 0..steps:
        map g0 g1: L1.1 L1.2 (computed anew: S1)
    L1.1 + L1.2 apart: L1.2 reads `b[0]` at another iteration than L1.1 writes it
"""

from __future__ import annotations

from collections.abc import Iterator

from loopfuse.plan.fusion.fuse import FusionPlan
from loopfuse.plan.units.groups import Group, HostGroup, PlanItem
from loopfuse.tree.printer import print_expr


def print_plan(plan: FusionPlan) -> str:
    """The groups in launch order, then the decisions in the order they were made."""
    lines = [*_items(plan.items, 0)]
    for one in plan.decisions:
        how = "fused" if one.fused else "apart"
        lines.append(f"{' + '.join(one.between)} {how}: {one.reason}")
        if one.remedy:
            lines.append(f"    remedy: {one.remedy}")
    return "\n".join(lines)


def _items(items: tuple[PlanItem, ...], depth: int) -> Iterator[str]:
    indent = "    " * depth
    for item in items:
        if isinstance(item, HostGroup):
            loop = item.loop
            step = f" step {loop.step}" if loop.step != 1 else ""
            ends = f"{print_expr(loop.lower)}..{print_expr(loop.upper)}"
            yield f"{indent}for {loop.iterator} in {ends}{step}:"
            yield from _items(item.body, depth + 1)
        else:
            yield indent + _group(item)


def _group(group: Group) -> str:
    labels = " ".join(dict.fromkeys(unit.label for unit in group.units))
    text = f"{' '.join((group.legality.value, *group.dims))}: {labels}"
    if group.recomputed:
        text += f" (computed anew: {' '.join(sorted(group.recomputed))})"
    if group.time is not None:
        text += f" ({group.time.steps} iterations of {group.time.iterator})"
    return text
