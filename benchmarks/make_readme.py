"""Writes the table of six headline figures in README.md from benchmarks/results/gpu.json.

python benchmarks/make_readme.py [--check]

Which six is fixed here, two of them cases in which a peer was ahead when they were chosen; what
stands in the table is what was measured last, whatever it says. The fastest peer is named.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from make_performance import RESULTS, ROOT, number, size_text

README = ROOT / "README.md"
BEGIN, END = "<!-- figures: benchmarks/make_readme.py -->", "<!-- end of figures -->"
HEADLINES = ("unsharp", "harris", "jacobi", "heat", "chain", "softmax")


def peer_cell(row: dict[str, Any]) -> str:
    """The fastest peer, its time, and how many times loopfuse's that is."""
    others = {
        name: one["ms"]
        for name, one in row["peers"].items()
        if "ms" in one and name not in ("unfused", "bare launch") and one.get("right", True)
    }
    if not others:
        return "none measured"
    name = min(others, key=lambda one: others[one])
    return f"{name} {number(others[name])} ({others[name] / row['loopfuse']:.2f}x)"


def make_table() -> str:
    """The table between the two marks, marks included."""
    made = json.loads((RESULTS / "gpu.json").read_text())
    rows = {row["case"]: row for row in made["rows"] if row["variant"] == "round"}
    chosen = [rows[name] for name in HEADLINES if "loopfuse" in rows.get(name, {})]
    dates: dict[str, list[str]] = {}
    for row in chosen:
        dates.setdefault(row["device"], []).append(row["date"])
    device = ", ".join(
        f"{name}, {' and '.join(sorted(set(days)))}" for name, days in dates.items()
    )
    lines = [
        BEGIN,
        f"Milliseconds on one {device} ([all figures](docs/performance.md)). `copy` is a plain copy of",
        "the same bytes; in brackets the peer's time over loopfuse's: below 1 the peer is ahead.",
        "",
        "| program | size | copy | loopfuse | fastest peer |",
        "|---|---|---|---|---|",
    ]
    for row in chosen:
        lines.append(
            f"| {row['title']} | {size_text(row)} | {number(row['copy'])} "
            f"| **{number(row['loopfuse'])}** | {peer_cell(row)} |"
        )
    return "\n".join([*lines, END])


def with_table(text: str) -> str:
    """README's text with the table as the results have it."""
    before, rest = text.split(BEGIN, 1)
    return before + make_table() + rest.split(END, 1)[1]


if __name__ == "__main__":
    now = README.read_text()
    if "--check" in sys.argv:
        sys.exit(0 if now == with_table(now) else 1)
    README.write_text(with_table(now))
