"""Small HTML: text, numbers and tables that look like the page they stand in.

Colours and faces are Jupyter's own variables, Visual Studio Code's, or else what is inherited, so
that a fragment follows the notebook's theme and not the system's. Every rule is stronger than a
theme's or a site's rules for tables (`all: revert` takes those back), and where a page drops
styles the markup reads without. Narrow places (a quarter of a screen, a telephone) get each row as
a block of lines.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from loopfuse.base.printable import printable

_PARTS = "table,thead,tbody,tr,th,td,caption,h2,h3,p,ul,li,code,strong,details,summary,span"
STYLE = f"""
.loopfuse{{--lf-ink:var(--jp-content-font-color1,var(--vscode-editor-foreground,currentColor));
 container-type:inline-size;color:var(--lf-ink);text-align:left;line-height:1.45;max-width:64rem}}
.loopfuse.loopfuse.loopfuse :is({_PARTS}){{all:revert;color:inherit;font-size:inherit;line-height:inherit}}
.loopfuse.loopfuse.loopfuse h2{{font-size:1.35em;font-weight:600;margin:.6em 0 .2em}}
.loopfuse.loopfuse.loopfuse h3{{font-size:1em;font-weight:600;margin:1em 0 .25em}}
.loopfuse.loopfuse.loopfuse p{{margin:.2em 0}}
.loopfuse.loopfuse.loopfuse ul{{margin:.2em 0;padding-left:1.4em}}
.loopfuse.loopfuse.loopfuse .quiet{{opacity:.78}}
.loopfuse.loopfuse.loopfuse code{{font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:.95em;
 overflow-wrap:anywhere}}
.loopfuse.loopfuse.loopfuse table{{border-collapse:collapse;border-spacing:0;margin:0;max-width:100%}}
.loopfuse.loopfuse.loopfuse caption{{text-align:left;font-weight:600;padding:1em 0 .25em;white-space:nowrap}}
.loopfuse.loopfuse.loopfuse :is(th,td){{text-align:left;vertical-align:top;padding:.25em 1.4em .25em 0;
 border-bottom:1px solid rgba(128,128,128,.4)}}
.loopfuse.loopfuse.loopfuse th{{font-weight:600}}
.loopfuse.loopfuse.loopfuse tbody th{{font-weight:inherit;white-space:nowrap}}
.loopfuse.loopfuse.loopfuse .number{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.loopfuse.loopfuse.loopfuse .part{{padding-left:1.2em}}
.loopfuse.loopfuse.loopfuse :is(.good,.bad){{font-weight:600}}
.loopfuse.loopfuse.loopfuse .good{{color:#1b8a4b;color:color-mix(in srgb,#0a9a4a 62%,var(--lf-ink))}}
.loopfuse.loopfuse.loopfuse .bad{{color:#c9402f;color:color-mix(in srgb,#e0301e 62%,var(--lf-ink))}}
@container (max-width:36rem){{
.loopfuse.loopfuse.loopfuse :is(table,tbody){{display:block}}
.loopfuse.loopfuse.loopfuse caption{{display:block}}
.loopfuse.loopfuse.loopfuse thead{{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}}
.loopfuse.loopfuse.loopfuse tr{{display:block;padding:.3em 0;border-bottom:1px solid rgba(128,128,128,.4)}}
.loopfuse.loopfuse.loopfuse :is(th,td),.loopfuse.loopfuse.loopfuse .number{{display:block;border:0;padding:.05em 0;
 text-align:left;white-space:normal}}
.loopfuse.loopfuse.loopfuse td:empty{{display:none}}
.loopfuse.loopfuse.loopfuse tbody th{{font-weight:600}}
.loopfuse.loopfuse.loopfuse td[data-head]::before{{content:attr(data-head) ": ";opacity:.78}}
}}
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column: its head, and whether it holds numbers (which stand right)."""

    head: str
    number: bool = False


def text(value: object) -> str:
    """Anything as text of a page: escaped, and with nothing that would command or reorder it."""
    return html.escape(printable(str(value)))


def prose(value: object) -> str:
    """A sentence of a message, in which `...` is code."""
    parts = text(value).split("`")
    if len(parts) % 2 == 0:
        return text(value)
    return "".join(f"<code>{part}</code>" if k % 2 else part for k, part in enumerate(parts))


def code(value: object) -> str:
    """Text as code; nothing for nothing."""
    shown = text(value)
    return f"<code>{shown}</code>" if shown else ""


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """A table with `caption`, empty without rows; cells are HTML already, the first of each row is
    the row's header."""
    if not rows:
        return ""
    # Roles, since a row that is shown as a block would lose its own.
    top = "".join(
        f'<th role="columnheader" scope="col"{_align(one)}>{text(one.head)}</th>' for one in columns
    )
    body = "".join(
        f'<tr role="row"><th role="rowheader" scope="row"{_align(columns[0])}>{row[0]}</th>'
        + "".join(
            f'<td role="cell"{_align(one)}'
            + (f' data-head="{text(one.head)}"' if one.head else "")
            + f">{cell}</td>"
            for one, cell in zip(columns[1:], row[1:])
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<table role="table"><caption>{text(caption)}</caption><thead role="rowgroup">'
        f'<tr role="row">{top}</tr></thead><tbody role="rowgroup">{body}</tbody></table>'
    )


def _align(column: Column) -> str:
    # `align` is old, and what is left of the layout where a page drops classes and styles.
    return ' class="number" align="right"' if column.number else ' align="left"'


def fragment(body: str) -> str:
    """`body` with its style, for a notebook cell or a place in a page."""
    return f'<style>{STYLE}</style><div class="loopfuse">{body}</div>'


def page(title: str, body: str) -> str:
    """A whole page in the reader's own colours, light or dark: static, no script, no network."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>:root{{color-scheme:light dark}}"
        "body{margin:0;background:Canvas;color:CanvasText;font:16px/1.5 system-ui,sans-serif}"
        f"main.loopfuse{{margin:0 auto;padding:1rem}}{STYLE}</style></head>"
        f'<body><main class="loopfuse">{body}</main></body></html>\n'
    )
