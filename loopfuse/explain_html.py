"""Reports as one HTML page: static, self-contained, readable in light and dark, by screen reader
and on paper. No script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from loopfuse.explain import (
    bytes_text,
    home_text,
    kernels_of,
    launches_text,
    ratio_text,
    witness_text,
)
from loopfuse.plan.records import Formula, Report

_STYLE = """
:root{color-scheme:light dark}
.loopfuse{--ink:#1a1c1e;--quiet:#55595e;--paper:#fff;--rule:#c9ced4;--good:#0b6b34;--bad:#a3261b;
 font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;
 margin:0 auto;padding:1rem}
@media (prefers-color-scheme:dark){.loopfuse{--ink:#e8eaed;--quiet:#a9b0b8;--paper:#15181b;
 --rule:#3b4148;--good:#6fd598;--bad:#ff9a8d}}
.loopfuse h2{margin:2rem 0 .2rem}.loopfuse h3{margin:1.4rem 0 .3rem;font-size:1rem}
.loopfuse p{margin:.2rem 0}.loopfuse .quiet{color:var(--quiet)}
.loopfuse table{border-collapse:collapse;width:100%}
.loopfuse th,.loopfuse td{text-align:left;vertical-align:top;padding:.3rem .8rem .3rem 0;
 border-bottom:1px solid var(--rule)}
.loopfuse caption{text-align:left;font-weight:600;padding:1.2rem 0 .3rem}
.loopfuse .fused{color:var(--good)}.loopfuse .apart{color:var(--bad)}
.loopfuse .wide{overflow-x:auto}.loopfuse code{font:.95em ui-monospace,monospace}
"""


def _amount(count: Formula) -> str:
    text = f"<code>{escape(count.text)}</code> bytes"
    return text if count.value is None else f"{bytes_text(count.value)} ({text})"


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells are HTML already, and the first of each row is its header."""
    if not rows:
        return ""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def render_fragment(report: Report) -> str:
    """One report as an HTML fragment with its own style, for a notebook cell."""
    return f"<style>{_STYLE}</style><div class='loopfuse'>{_section(report)}</div>"


def _section(report: Report) -> str:
    sizes = " ".join(f"{name}={value}" for name, value in report.sizes)
    place = f"{report.source_name}:{report.line}"
    was = dict(report.temporary_bytes)
    decisions: list[list[str]] = []
    for one in report.decisions:
        kind = "fused" if one.fused else "apart"
        why = escape(one.reason)
        if one.witness is not None:
            why += f'<br><span class="quiet">{escape(witness_text(one.witness))}</span>'
        if one.remedy:
            why += f"<br>Remedy: {escape(one.remedy)}"
        pair = escape(" + ".join(dict.fromkeys(one.between)))
        decisions.append([pair, f'<span class="{kind}">{kind}</span>', why])
    loops = [
        [
            escape(loop.id),
            str(loop.line),
            f"<code>{escape(', '.join(loop.writes))}</code>",
            f"<code>{escape(', '.join(loop.reads))}</code>",
            escape(", ".join(kernel.name for kernel in kernels_of(report, loop))),
        ]
        for loop in report.loops
    ]
    kernels = [
        [
            f"<code>{escape(kernel.name)}</code>",
            escape(kernel.detail or kernel.strategy),
            escape(", ".join(kernel.loops)),
            "" if kernel.registers is None else str(kernel.registers),
            str(kernel.shared_bytes),
            escape("; ".join(kernel.specialised)),
        ]
        for kernel in report.kernels
    ]
    homes = [
        [
            f"<code>{escape(name)}</code>",
            escape(home_text(home)),
            _amount(was[name]) if name in was else "",
        ]
        for kernel in report.kernels
        for name, home in kernel.homes
    ]
    notes = [f"{name}: reduced in another order" for name in report.reassociated]
    notes += report.math_bounds
    notes += [f"needs {text}" for text in report.preconditions]
    notes += [report.checked] if report.checked else []
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    traffic = [
        ["traffic", _amount(report.traffic_before), _amount(report.traffic_after)],
        ["launches", escape(str(report.launches_before)), escape(str(report.launches_after))],
    ]
    return (
        f"<section><h2>{escape(report.kernel)}: {escape(launches_text(report))}</h2>"
        f'<p class="quiet">{escape(place)} &middot; {escape(report.target)}'
        f"{' &middot; ' + escape(sizes) if sizes else ''}</p>"
        f"<p>{escape(ratio_text(report))}</p>"
        + _table("Loops, as written", ["loop", "line", "writes", "reads", "runs in"], loops)
        + _table("Cost", ["", "before", "after"], traffic)
        + _table("Decisions", ["loops", "", "why"], decisions)
        + _table(
            "Launched kernels",
            ["name", "strategy", "loops", "registers", "shared bytes", "depends on"],
            kernels,
        )
        + _table("Temporaries", ["array", "lives in", "was, in memory"], homes)
        + (f"<h3>Notes</h3><ul>{listed}</ul>" if listed else "")
        + "</section>"
    )


def render_page(reports: Sequence[Report]) -> str:
    """A whole page: one section a report."""
    title = escape(", ".join(report.kernel for report in reports))
    sections = "".join(_section(report) for report in reports)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>loopfuse: {title}</title><style>body{{margin:0}}{_STYLE}</style></head>"
        f'<body class="loopfuse"><main><h1>What loopfuse did</h1>{sections}</main></body></html>\n'
    )
