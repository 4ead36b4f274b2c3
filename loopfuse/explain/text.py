"""Reports as text, JSON and HTML. Renders what the planner recorded; decides nothing.

The text is made for 80 columns and reads top down: what became of the launches, which loops run
together, what that saves, why, where temporaries live, and what to type next.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loopfuse.base.printable import printable
from loopfuse.plan.units.records import (
    Decision,
    Formula,
    KernelInfo,
    LoopInfo,
    Place,
    Report,
    Witness,
)
from loopfuse.runtime.formulas import evaluate, names_in

WIDTH = 80
HEADER_WIDTH = 76
TYPICAL_SIZE = 4096


# -------------------------------------------------------------------------------------- words


def bytes_text(count: int) -> str:
    """A number of bytes with four digits or so: `469.8 MB`."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            return f"{value:.1f} {unit}"
    raise AssertionError("unreachable")


def ratio(report: Report) -> tuple[float, bool] | None:
    """How many times fewer bytes move after fusion, and whether that is for the report's own
    sizes (else: every size large). None where it cannot be said."""
    before, after = report.traffic_before.value, report.traffic_after.value
    exact = before is not None and after is not None
    if before is None or after is None:
        texts = (report.traffic_before.text, report.traffic_after.text)
        values = {name: TYPICAL_SIZE for text in texts for name in names_in(text)}
        before, after = (int(evaluate(text, values)) for text in texts)
    if after <= 0 or before <= 0:
        return None
    return before / after, exact


def ratio_text(report: Report) -> str:
    """`3.5 times less (7 passes over memory -> 2)`, or empty where nothing is saved."""
    found = ratio(report)
    if found is None:
        return ""
    factor, exact = found
    if factor < 1.005:
        return "the same" if factor > 0.995 else f"{1 / factor:.2g} times more"
    number = f"{factor:.1f}" if factor < 99.95 else f"{factor:.0f}"
    about = "" if exact else "about "
    before, after = report.passes
    passes = f" ({before} passes over memory -> {after})" if before else ""
    return f"{about}{number.removesuffix('.0')} times less{passes}"


def home_text(home: str) -> str:
    """A home as a sentence part: `window(5)` is `a window of 5 rows in registers`."""
    found = re.fullmatch(r"(register|window|line)\((\d+)\)", home)
    if found:
        kind, rows = found.groups()
        if kind == "register":
            return "one register" if rows == "1" else f"{rows} registers"
        plural = "row" if rows == "1" else "rows"
        if kind == "window":
            return f"a window of {rows} {plural} in registers"
        return f"a line buffer of {rows} {plural} in the cache"
    return {
        "register": "one register",
        "lanes": "registers of a warp",
        "shared": "shared memory",
        "distributed": "shared memory of a cluster",
        "global": "memory, as written",
    }.get(home, home)


def home_in_words(report: Report, name: str, home: str) -> str:
    """The same of a temporary, with the loops whose iterations have a copy each."""
    copies = dict(report.copies).get(name, ())
    return f"memory, a copy for each {', '.join(copies)}" if copies and home == "global" else home_text(home)


def launches_text(report: Report) -> str:
    """`3 launches -> 1`."""
    before, after = report.launches_before, report.launches_after
    noun = "launch" if before == 1 else "launches"
    return report.said(f"{before} {noun} -> {after}")


def place_text(place: Place) -> str:
    """`L2 line 10, y=3 x=0`."""
    at = " ".join(f"{name}={value}" for name, value in place.iteration)
    return f"{place.loop} line {place.line}" + (f" at {at}" if at else "")


def witness_text(witness: Witness) -> str:
    """The dependence instance in words."""
    element = f"{witness.array}[{', '.join(map(str, witness.element))}]"
    sizes = " ".join(f"{name}={value}" for name, value in witness.sizes)
    sizes = f" (seen at {sizes})" if sizes else ""
    if not witness.element:
        element = witness.array
    return (
        f"{element} is touched by {place_text(witness.source)}, "
        f"then by {place_text(witness.sink)}{sizes}"
    )


# --------------------------------------------------------------------------------------- text


def _header(report: Report) -> list[str]:
    parts = [f"{report.kernel}  {report.source_name}:{report.line}", report.where]
    sizes = " ".join(f"{name}={value}" for name, value in report.sizes)
    left = "   ".join([*parts, sizes] if sizes else parts)
    right = launches_text(report)
    if len(left) + 3 + len(right) > WIDTH:
        return [left, " " * max(0, HEADER_WIDTH - len(right)) + right]
    gap = max(3, HEADER_WIDTH - len(left) - len(right))
    return [left + " " * gap + right]


def _clip(names: tuple[str, ...], width: int) -> str:
    text = ", ".join(names)
    return text if len(text) <= width else text[: max(1, width - 3)].rstrip(", ") + "..."


def kernels_of(report: Report, loop: LoopInfo) -> tuple[KernelInfo, ...]:
    """The launched kernels that run `loop`, or a part of it."""
    return tuple(
        kernel
        for kernel in report.kernels
        if any(name == loop.id or name.startswith(loop.id + ".") for name in kernel.loops)
    )


def _runs(report: Report) -> list[tuple[list[LoopInfo], tuple[KernelInfo, ...]]]:
    """The loops in text order, cut where the kernels that run them change."""
    runs: list[tuple[list[LoopInfo], tuple[KernelInfo, ...]]] = []
    for loop in report.loops:
        kernels = kernels_of(report, loop)
        if runs and runs[-1][1] == kernels and kernels:
            runs[-1][0].append(loop)
        else:
            runs.append(([loop], kernels))
    return runs


def _marks(kernels: tuple[KernelInfo, ...], rows: int, room: int) -> list[str]:
    """What stands right of a run's rows: a bar, and the kernels' names around its middle. A
    detail that would leave the page goes under its name; there may be more marks than rows."""
    texts: list[str] = []
    for kernel in kernels:
        how = kernel.detail or kernel.strategy
        mark = f"|>  {kernel.name}"
        if len(mark) + 3 + len(how) <= room:
            texts.append(f"{mark}   {how}")
        else:
            texts.append(mark)
            texts += [f"|   {line}" for line in textwrap.wrap(how, max(12, room - 4))]
    before = max(0, (rows - len(texts)) // 2)
    return ["|"] * before + texts + ["|"] * (rows - before - len(texts))


def _loops(report: Report) -> list[str]:
    """The table of loops, with a bar around those that run together."""
    if not report.loops:
        return []
    name_width = max(11, *(len(f"{loop.id} line {loop.line}") for loop in report.loops))
    tail = max((len(kernel.name) + 4 for kernel in report.kernels), default=0)
    room = max(20, WIDTH - name_width - max(tail, 24) - 13)  # for what is written and read
    writes = {loop.id: _clip(loop.writes, min(20, room // 2)) for loop in report.loops}
    write_width = max(len(text) for text in writes.values())
    longest = max(len(", ".join(loop.reads)) for loop in report.loops)
    from_width = min(longest, room - write_width)
    lines: list[str] = []
    for loops, kernels in _runs(report):
        left: list[str] = []
        for loop in loops:
            name = f"{loop.id} line {loop.line}"
            reads = _clip(loop.reads, from_width)
            reads = f"from {reads}" if reads else ""
            left.append(
                f"  {name:<{name_width}}  {writes[loop.id]:<{write_width}}  "
                f"{reads:<{from_width + 5}}  "
            )
        width = len(left[0])
        marks = _marks(kernels, len(loops), WIDTH - width) if kernels else [""] * len(loops)
        left += [" " * width] * (len(marks) - len(loops))
        lines += [f"{one}{mark}".rstrip() for one, mark in zip(left, marks)]
    return lines


def _traffic(report: Report) -> list[str]:
    before, after = (report.said(_amount(each)) for each in (report.traffic_before, report.traffic_after))
    counts = report.said(str(report.launches_before)), report.said(str(report.launches_after))
    first = max(len(before), len(counts[0]), len("before"))
    second = max(len(after), len(counts[1]), len("after"))
    saved = ratio_text(report)
    rows = [
        f"{'':<11}{'before':>{first + 2}}   {'after':>{second}}",
        f"  traffic  {before:>{first + 2}}   {after:>{second}}   {saved}".rstrip(),
        f"  launches {counts[0]:>{first + 2}}   {counts[1]:>{second}}",
    ]
    if len(rows[1]) <= WIDTH:
        return rows
    lines = ["  traffic"]
    for label, text in (("before", before), ("after", after)):
        lines += textwrap.wrap(
            text, WIDTH, initial_indent=f"    {label:<8}", subsequent_indent=" " * 12
        )
    return [*lines, *([f"    {saved}"] if saved else [])]


def _amount(count: Formula) -> str:
    return bytes_text(count.value) if count.value is not None else f"{count.text} bytes"


def _hang(label: str, text: str, indent: int) -> list[str]:
    """`text` wrapped under itself, `label` before its first line."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=label,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _pair(decision: Decision) -> str:
    """`L1 + L2`; `L1` of a loop's own iterations."""
    return " + ".join(dict.fromkeys(decision.between))


def _decision(decision: Decision, width: int) -> list[str]:
    pair = f"  {_pair(decision):<{width}}   "
    label = f"{pair}{'fused' if decision.fused else 'apart'}   "
    lines = _hang(label, decision.reason, len(label))
    if decision.witness is not None:
        lines += _hang(" " * len(label), witness_text(decision.witness), len(label))
    if decision.remedy:
        lines += _hang(" " * len(label) + "remedy: ", decision.remedy, len(label) + 8)
    return lines


def place_of_pair(between: Sequence[str]) -> list[tuple[int, ...]]:
    """Where a decision between these loops stands among others: in the order of the text."""
    return [tuple(int(n) for n in re.findall(r"\d+", name)) for name in between]


def in_text_order(decisions: Sequence[Decision]) -> list[Decision]:
    """Decisions as the loops stand in the program, not as the planner came to them."""
    return sorted(decisions, key=lambda one: place_of_pair(one.between))


def report_data(report: Report) -> dict[str, Any]:
    """The JSON form (schema 1)."""
    return replace(report, decisions=tuple(in_text_order(report.decisions))).to_dict()


def _decisions(report: Report) -> list[str]:
    text = render_decisions(report.decisions)
    return text.split("\n") if text else []


def _homes(report: Report) -> list[str]:
    homes = {name: home for kernel in report.kernels for name, home in kernel.homes}
    was = dict(report.temporary_bytes)
    width = max((len(name) for name in homes), default=0)
    width = max(8, width)
    texts = {name: home_in_words(report, name, home) for name, home in homes.items()}
    column = max((len(text) for text in texts.values()), default=0)
    lines: list[str] = []
    told = False
    for name, text in texts.items():
        line = f"  {name:<{width}}  {text:<{column}}"
        if name in was and homes[name] != "global":
            line += f"    was {report.said(_amount(was[name]))}{'' if told else ' in memory'}"
            told = True
        lines.append(line.rstrip())
    return lines


def _details(report: Report) -> list[str]:
    """What stands apart from bit-for-bit equality, and what a plan depends on."""
    lines: list[str] = []
    for kernel in report.kernels:
        if kernel.registers is not None or kernel.shared_bytes:
            cost = [f"{kernel.registers} registers"] if kernel.registers is not None else []
            cost += [f"{kernel.shared_bytes} bytes of shared memory"] if kernel.shared_bytes else []
            lines += _hang("  Uses      ", f"{kernel.name}: {', '.join(cost)}", 12)
        for reason in kernel.specialised:
            lines += _hang("  Depends   ", f"{kernel.name}: {reason}", 12)
    if report.reassociated:
        names = ", ".join(report.reassociated)
        text = f"{names}: reduced in another order (--no-reassociate keeps the program's)"
        lines += _hang("  Order     ", text, 12)
    for text in report.algebra:
        lines += _hang("  Order     ", text, 12)
    for text in report.math_bounds:
        lines += _hang("  Bound     ", text, 12)
    for words in report.typed:
        lines += _hang("  Type      ", words, 12)
    if report.preconditions:
        lines += _hang("  Needs     ", "; ".join(report.preconditions), 12)
    if report.checked:
        lines += _hang("  Checked   ", report.checked, 12)
    return lines


def render_summary(report: Report) -> str:
    """The short form that `run` prints: launches, loops, traffic, and the checker's answer."""
    report = report.in_words()
    checked = _hang("  Checked   ", report.checked, 12) if report.checked else []
    parts = [_header(report), _loops(report), _traffic(report) + checked]
    return printable("\n\n".join("\n".join(part) for part in parts if part))


def render_text(report: Report) -> str:
    """The whole report; no trailing newline."""
    report = report.in_words()
    tail = _homes(report) + _details(report)
    if following := next_step(report):
        tail.append(f"  Next      {following}")
    parts = [_header(report), _loops(report), _traffic(report), _decisions(report), tail]
    return printable("\n\n".join("\n".join(part) for part in parts if part))


def next_step(report: Report) -> str:
    """What to type next: `loopfuse bench FILE` for a program, for a Python kernel (whose file the
    command line never runs) a method of it; empty for text that has no file."""
    if report.source_name.startswith("<"):
        return ""
    if report.source_name.endswith((".py", ".ipynb")):
        return f"{report.kernel}.verify()"
    return f"loopfuse bench {report.source_name}"


# ------------------------------------------------------------------------------- parts of it


def render_loops(report: Report) -> str:
    """The table of loops alone, with the kernels that run them."""
    return "\n".join(_loops(report))


def render_traffic(report: Report) -> str:
    """Bytes and launches before and after."""
    return "\n".join(_traffic(report))


def render_decisions(decisions: Sequence[Decision]) -> str:
    """These decisions, each with its reason, witness and remedy."""
    width = max((len(_pair(one)) for one in decisions), default=7)
    ordered = in_text_order(decisions)
    return "\n".join(line for one in ordered for line in _decision(one, width))


def render_homes(report: Report) -> str:
    """Where each temporary lives."""
    return "\n".join(_homes(report))
