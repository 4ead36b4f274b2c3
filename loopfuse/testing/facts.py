"""The facts that assertions compare, and the texts that explain them, out of a kernel's plan."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopfuse.base.printable import printable
from loopfuse.explain.dependences import dependences_text
from loopfuse.explain.text import (
    WIDTH,
    render_decisions,
    render_homes,
    render_loops,
    render_traffic,
)
from loopfuse.plan.report import base_name, moved
from loopfuse.plan.units.records import Decision, KernelInfo, Witness
from loopfuse.testing.subject import Subject

if TYPE_CHECKING:
    from loopfuse.poly.model import Dependence, Statement


def fail(head: str, *parts: str) -> AssertionError:
    """The failure: one sentence, wrapped, then parts of the report, with empty lines between."""
    lines = textwrap.fill(head, WIDTH, break_long_words=False, break_on_hyphens=False)
    return AssertionError(printable("\n\n".join([lines, *(part for part in parts if part)])))


def paragraph(text: str) -> str:
    """`text` as an indented paragraph of the message."""
    return textwrap.fill(
        text, WIDTH, initial_indent="  ", subsequent_indent="  ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


# ------------------------------------------------------------------------------------- fusion


def launched_groups(subject: Subject) -> tuple[KernelInfo, ...]:
    """The launched kernels; the two steps of a combined reduction count as one."""
    names = {one.name for one in subject.report.kernels}
    return tuple(
        one
        for one in subject.report.kernels
        if not (one.name.endswith("_b") and one.name.removesuffix("_b") + "_a" in names)
    )


def _is_part(id: str, whole: str) -> bool:
    return id == whole or id.startswith(whole + ".")


def runs_in(subject: Subject, loop: str, kernel: KernelInfo, wholly: bool) -> bool:
    """Does `kernel` run `loop`: all its parts (`wholly`), or any?"""
    units = {
        unit
        for one in subject.report.kernels
        for unit in one.loops
        if _is_part(unit, loop) or _is_part(loop, unit)
    }
    here = units & set(kernel.loops)
    return bool(units) and here == units if wholly else bool(here)


def run_together(subject: Subject, loops: Sequence[str], wholly: bool = True) -> bool:
    """One launched kernel runs all of `loops`."""
    return any(
        all(runs_in(subject, loop, kernel, wholly) for loop in loops)
        for kernel in launched_groups(subject)
    )


def decisions_about(subject: Subject, loops: Sequence[str], fused: bool) -> tuple[Decision, ...]:
    """The decisions that made `loops` run together (`fused`) or apart: those between two of
    them, else those about one of them, else all."""
    every = tuple(one for one in subject.report.decisions if one.fused == fused)

    def touched(decision: Decision) -> set[str]:
        return {
            loop
            for loop in loops
            if any(_is_part(end, loop) or _is_part(loop, end) for end in decision.between)
        }

    def inside(decision: Decision) -> bool:
        return all(
            any(_is_part(end, loop) or _is_part(loop, end) for loop in loops)
            for end in decision.between
        )

    # What is said of one loop's own iterations is not about two loops.
    between = tuple(one for one in every if inside(one) and len(set(one.between)) > 1)
    about = tuple(one for one in every if touched(one))
    return between or about or every


def fusion_text(subject: Subject, decisions: Sequence[Decision]) -> tuple[str, str]:
    """The table of loops, and the decisions."""
    return render_loops(subject.report), render_decisions(decisions)


# -------------------------------------------------------------------------------- dependences


@dataclass(frozen=True, slots=True)
class Carried:
    """A dependence that a loop carries, and an instance of it in words."""

    dependence: Dependence
    source: Statement
    sink: Statement
    instance: str


def carried_by(
    subject: Subject, loops: Sequence[tuple[Statement, int]], relax: bool
) -> tuple[Carried, ...]:
    """The dependences in the way of running these loops (statement, depth) in parallel; with
    `relax` a reduction's own order is free. Exact, for all sizes."""
    from loopfuse.plan.fusion.explanations import find_witness
    from loopfuse.plan.units.forest import order_is_free
    from loopfuse.plan.units.groups import Refusal
    from loopfuse.poly.isl_relations import carried_at

    program, dependences = subject.planned.program, subject.planned.dependences
    depths = {(s.id, depth): s for s, depth in loops}
    found: list[Carried] = []
    for one in dependences.all:
        source, sink = program.statement(one.source), program.statement(one.sink)
        if order_is_free(one, source, relax):
            continue
        for (id, depth), _ in depths.items():
            if id != one.source or (one.sink, depth) not in depths:
                continue
            if sink.loops[depth].iterator != source.loops[depth].iterator:
                continue
            bad = carried_at(one.relation, depth).intersect_params(program.context)
            if bad.is_empty():
                continue
            witness = find_witness(program, one, Refusal("", one, bad))
            found.append(Carried(one, source, sink, _instance(witness, one.kind)))
    return tuple(found)


def _instance(witness: Witness | None, kind: str) -> str:
    from loopfuse.plan.fusion.explanations import witness_in_words

    if witness is None:
        return "no small instance was found"
    sizes = " ".join(f"{name}={value}" for name, value in witness.sizes)
    return witness_in_words(witness, kind) + (f" (seen at {sizes})" if sizes else "")


def carried_text(subject: Subject, carried: Sequence[Carried], iterator: str) -> tuple[str, str]:
    """Those dependences as `deps` prints them, and an instance of each."""
    from loopfuse.poly.deps_report import describe_dependences

    planned = subject.planned
    described = describe_dependences(planned.program, planned.dependences, subject.sizes)
    ends = {
        (one.dependence.kind, one.dependence.array, one.source.label, one.sink.label)
        for one in carried
    }
    rows = [
        {**row, "array": base_name(row["array"])}
        for row in described["dependences"]
        if row["carried_by"] == iterator
        and (row["kind"], row["array"], row["source"]["statement"], row["sink"]["statement"])
        in ends
    ]
    table = table_of(subject.name, rows) if rows else ""
    told = dict.fromkeys(paragraph(f"{one.dependence.kind}: {one.instance}") for one in carried)
    return table, "\n".join(told)


def table_of(kernel: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of the `deps` JSON as `loopfuse deps` prints them, without its heading."""
    from loopfuse.poly.deps_report import print_dependences

    described = {"kernel": kernel, "dependences": list(rows)}
    text = dependences_text(described)
    if max(map(len, text.splitlines())) > WIDTH:  # distance and direction in one column
        text = print_dependences(described).rstrip("\n")
    return text.partition("\n\n")[2] or f"  {kernel} has no dependences"


# ------------------------------------------------------------------------------------ traffic


def traffic_text(subject: Subject) -> tuple[str, str]:
    """The report's totals, and what is read and written of each array before and after."""
    before, after = _per_array(subject, fused=False), _per_array(subject, fused=True)
    rows = [("array", "", "before", "after")]
    for array, direction in dict.fromkeys([*before, *after]):
        cells = (before.get((array, direction), "-"), after.get((array, direction), "-"))
        rows.append((array, direction, *cells))
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    lines: list[str] = []
    for row in rows:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        lines.append(f"  {cells}  {row[3]}".rstrip())
    if max(map(len, lines)) > WIDTH:
        lines = []
        for array, direction, was, now in rows[1:]:
            lines.append(f"  {array}  {direction}")
            for label, text in (("before", was), ("after", now)):
                lines += textwrap.wrap(
                    text, WIDTH, initial_indent=f"    {label:<8}", subsequent_indent=" " * 12
                )
    return render_traffic(subject.report), "\n".join(lines)


def _per_array(subject: Subject, fused: bool) -> dict[tuple[str, str], str]:
    """Bytes, as formulas or numbers, by array and direction."""
    from loopfuse.poly.reuse import traffic

    planned = subject.planned if fused else subject.unfused
    entries = moved(
        planned.program, planned.dependences, planned.plan.items, planned.scheduled.stores
    )
    sizes = {n: v for n, v in subject.sizes.items() if n in planned.program.symbols}
    keys = dict.fromkeys((base_name(one.array), one.direction) for one in entries)
    found: dict[tuple[str, str], str] = {}
    for key in keys:
        mine = [one for one in entries if (base_name(one.array), one.direction) == key]
        count = traffic(planned.program, mine, sizes)
        found[key] = count.text if count.value is None else str(count.value)
    return found


# -------------------------------------------------------------------------------------- homes


def homes_of(subject: Subject, array: str) -> tuple[str, ...]:
    """Where the temporary lives, in each kernel that knows it."""
    return tuple(
        dict.fromkeys(
            home for one in subject.report.kernels for name, home in one.homes if name == array
        )
    )


def home_reasons(subject: Subject, array: str) -> tuple[str, ...]:
    """Where temporaries live, and why `array` lives there: the decisions that keep the loops that
    touch it apart, else those that fused them; for one that is in memory all the same, the
    dependences that take its values to other iterations."""
    report, program = subject.report, subject.planned.program
    using: set[str] = set()
    for s in program.statements:
        names = [name for access in (*s.reads, s.write) for name, _ in access.parts]
        if array in map(base_name, names):
            using |= {s.label} if not s.loops else {loop.label for loop in s.loops}

    def touches(end: str) -> bool:
        return any(_is_part(end, one) or _is_part(one, end) for one in using)

    between = [one for one in report.decisions if all(map(touches, one.between))]
    apart = [one for one in between if not one.fused]
    parts = [render_homes(report), render_decisions(apart or between)]
    if not apart and "global" in homes_of(subject, array):
        rows = [row for row in subject.dependences()["dependences"] if row["array"] == array]
        parts.append(
            paragraph("Its values are used at other iterations than those that make them:")
        )
        parts.append(table_of(subject.name, rows))
    return tuple(parts)
