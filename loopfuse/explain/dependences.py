"""The dependences of a kernel as data that shows itself: a dict (the `deps` JSON) whose text and
whose look in a notebook are tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopfuse.base.html import Column, code, fragment, table, text
from loopfuse.base.printable import printable

HEAD = ("kind", "array", "from", "to", "distance", "direction", "carried by", "")
ALONE = "no common loop"
"""The distance between statements that share no loop."""


class DependencesDict(dict[str, Any]):
    """What `kernel.dependences` gives: the JSON of `loopfuse deps`, and its table where shown."""

    def __str__(self) -> str:
        return dependences_text(self)

    def __repr__(self) -> str:
        return str(self)  # what an interactive session shows

    def _repr_html_(self) -> str:
        rows = [
            [text(kind), code(array), text(source), text(sink),
             text(distance) if distance == ALONE else code(distance), code(direction),
             text(carried), text(notes)]
            for kind, array, source, sink, distance, direction, carried, notes in _rows(self)
        ]  # fmt: skip
        columns = [Column(head) for head in HEAD]
        title = f"<h2>{text(self['kernel'])}</h2>"
        caption = f"{len(rows)} dependence{'' if len(rows) == 1 else 's'}: what must stay in order"
        return fragment(title + (table(caption, columns, rows) or "<p>no dependences</p>"))


def _rows(data: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for one in data["dependences"]:
        distance = [("*" if d is None else str(d)) for d in one["distance"]]
        notes = ["reduction"] if one["reduction"] else []
        notes += [] if one["exact"] else ["may"]
        yield (
            one["kind"],
            one["array"],
            f"{one['source']['statement']} line {one['source']['line']}",
            f"{one['sink']['statement']} line {one['sink']['line']}",
            f"({', '.join(distance)})" if distance else ALONE,
            f"({', '.join(one['direction'])})" if distance else "",
            one["carried_by"] or "none",
            ", ".join(notes),
        )


def dependences_text(data: Mapping[str, Any]) -> str:
    """The `deps` JSON as a table; with instances, those of each under its row."""
    rows = list(_rows(data))
    pairs = [one.get("pairs", []) for one in data["dependences"]]
    if not rows:
        return printable(f"{data['kernel']}  no dependences")
    widths = [max(len(row[k]) for row in [HEAD, *rows]) for k in range(len(HEAD))]
    lines = [f"{data['kernel']}  {len(rows)} dependence{'s' if len(rows) != 1 else ''}", ""]
    for number, row in enumerate([HEAD, *rows]):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        lines.append(f"  {cells}".rstrip())
        if number:
            lines += [f"      {source} -> {sink}" for source, sink in pairs[number - 1]]
    return printable("\n".join(lines))
