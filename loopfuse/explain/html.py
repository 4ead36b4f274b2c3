"""Reports as HTML: a fragment for a notebook, a page of its own for `--format html`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopfuse.base.html import Column, code, fragment, page, prose, table, text
from loopfuse.explain.text import (
    bytes_text,
    home_in_words,
    in_text_order,
    kernels_of,
    launches_text,
    ratio_text,
    witness_text,
)
from loopfuse.plan.units.records import Decision, Formula, LoopInfo, Report


def render_fragment(report: Report) -> str:
    """One report with its own style, for a notebook cell."""
    return fragment(_section(report))


def render_page(reports: Sequence[Report]) -> str:
    """A whole page: one section a report."""
    names = ", ".join(report.kernel for report in reports)
    sections = "".join(_section(report) for report in reports)
    return page(f"loopfuse: {names}", f"<h1>What loopfuse did</h1>{sections}")


def _section(report: Report) -> str:
    report = report.in_words()
    sizes = " ".join(f"{name}={value}" for name, value in report.sizes)
    place = f"{report.source_name}:{report.line}"
    head = " &middot; ".join(text(part) for part in (place, report.where, sizes) if part)
    return (
        f'<section><h2>{text(report.kernel)}</h2><p class="quiet">{head}</p>'
        + "".join(f"<p>{line}</p>" for line in _summary(report))
        + _loops(report)
        + _cost(report)
        + _decisions(report)
        + _kernels(report)
        + _homes(report)
        + _notes(report)
        + "</section>"
    )


def _summary(report: Report) -> Iterator[str]:
    """What became of the launches (formulas have their table) and of the traffic."""
    if isinstance(report.launches_before, int) and isinstance(report.launches_after, int):
        yield f"<strong>{_arrow(launches_text(report))}</strong>"
    saved = ratio_text(report)
    if saved.startswith("about "):
        saved = f"{saved}, where every size is large"
    if saved:
        yield f"Memory traffic: {_arrow(saved)}"


def _arrow(words: str) -> str:
    return text(words).replace("-&gt;", "&rarr;")


def _amount(report: Report, count: Formula) -> str:
    formula = f"{code(report.said(count.text))} bytes"
    if count.value is None:
        return formula
    return f"{text(bytes_text(count.value))} <span class='quiet'>= {formula}</span>"


def _count(report: Report, count: int | str) -> str:
    return text(count) if isinstance(count, int) else code(report.said(count))


def _cost(report: Report) -> str:
    numbers = all(type(n) is int for n in (report.launches_before, report.launches_after))
    return table(
        "Cost",
        [Column(""), Column("launches", numbers), Column("memory traffic")],
        [
            ["before", _count(report, report.launches_before), _amount(report, report.traffic_before)],
            ["after", _count(report, report.launches_after), _amount(report, report.traffic_after)],
        ],
    )


def _loop_rows(report: Report, loop: LoopInfo, is_part: bool = False) -> Iterator[list[str]]:
    name = f'<span class="part">{text(loop.id)}</span>' if is_part else text(loop.id)
    yield [
        name,
        str(loop.line),
        code(", ".join(loop.writes)),
        code(", ".join(loop.reads)),
        text(", ".join(kernel.name for kernel in kernels_of(report, loop))),
    ]
    for part in loop.parts:
        yield from _loop_rows(report, part, True)


def _loops(report: Report) -> str:
    columns = [Column("loop"), Column("line", True), Column("writes"), Column("reads"), Column("runs in")]
    rows = [row for loop in report.loops for row in _loop_rows(report, loop)]
    return table("Loops, as written", columns, rows)


def _decision(one: Decision) -> list[str]:
    kind, word = ("good", "fused") if one.fused else ("bad", "apart")
    why = prose(one.reason)
    if one.witness is not None:
        why += f'<br><span class="quiet">{text(witness_text(one.witness))}</span>'
    if one.remedy:
        why += f"<br>Remedy: {prose(one.remedy)}"
    pair = text(" + ".join(dict.fromkeys(one.between)))
    return [pair, f'<span class="{kind}">{word}</span>', why]


def _decisions(report: Report) -> str:
    columns = [Column("loops"), Column("are"), Column("why")]
    return table("Decisions", columns, [_decision(one) for one in in_text_order(report.decisions)])


def _kernels(report: Report) -> str:
    """The launched kernels; a column that says nothing of any is left out."""
    columns = [
        Column("name"), Column("strategy"), Column("loops"), Column("registers", True),
        Column("shared bytes", True), Column("depends on"),
    ]  # fmt: skip
    rows = [
        [
            code(kernel.name),
            prose(kernel.detail or kernel.strategy),
            text(", ".join(kernel.loops)),
            "" if kernel.registers is None else str(kernel.registers),
            str(kernel.shared_bytes) if kernel.shared_bytes else "",
            prose("; ".join(kernel.specialised)),
        ]
        for kernel in report.kernels
    ]
    said = [k for k in range(len(columns)) if k < 3 or any(row[k] for row in rows)]
    return table(
        "Launched kernels", [columns[k] for k in said], [[row[k] for k in said] for row in rows]
    )


def _homes(report: Report) -> str:
    was = dict(report.temporary_bytes)
    homes = {name: home for kernel in report.kernels for name, home in kernel.homes}
    rows = [
        [code(name), text(home_in_words(report, name, home)), _amount(report, was[name]) if name in was else ""]
        for name, home in homes.items()
    ]
    columns = [Column("array"), Column("lives in"), Column("was, in memory")]
    return table("Temporaries", columns, rows)


def _notes(report: Report) -> str:
    notes = [f"{name}: reduced in another order" for name in report.reassociated]
    notes += report.algebra
    notes += report.math_bounds
    notes += report.typed
    notes += [f"needs {condition}" for condition in report.preconditions]
    notes += [report.checked] if report.checked else []
    listed = "".join(f"<li>{prose(note)}</li>" for note in notes)
    return f"<h3>Notes</h3><ul>{listed}</ul>" if listed else ""
