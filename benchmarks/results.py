"""The file of results: rows by case and size, kept when another run measures only some of them.

    {"schema": 2, "unit": "ms", "rows": [row]}
    row = {"case", "variant": "round"|"awkward", "title", "size": [int], "run", "device", "date",
           "versions", "runs", "bytes", "points", "copy", "loopfuse", "low", "high", "share",
           "gpoints", "sweeps", "sweeps_per_copy", "error", "worst", "right", "first_call",
           "launches", "registers", "failed", "problem", "goal": {"kind", "value", "met"},
           "native": {"ms", "low", "high", "share", "error", "worst", "right"} | {"failed"},
           "peers": {name: {"ms", "low", "high", "ratio", "right", "error", "run"} | {"failed", "run"}}}

`ratio` is the peer's time over loopfuse's. `failed` is there where something failed, in one line;
`problem` where the compiler warned; `native` where `fp="native"` computes otherwise.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCHEMA = 2

Row = dict[str, Any]


def read_rows(path: Path) -> dict[tuple[str, str], Row]:
    """The rows of a file by case and variant; none where there is no file of this schema."""
    if not path.exists():
        return {}
    made = json.loads(path.read_text())
    if made.get("schema") != SCHEMA:
        return {}
    return {(row["case"], row["variant"]): row for row in made["rows"]}


def write_rows(path: Path, rows: dict[tuple[str, str], Row], order: list[str]) -> None:
    """Replace the file in one step, so that a run cut short leaves the last whole one. Rows in
    the order of the cases, round sizes first; rows of cases that are no more go last."""

    def place(row: Row) -> tuple[int, int]:
        known = row["case"] in order
        return order.index(row["case"]) if known else len(order), row["variant"] != "round"

    write_json(path, {"schema": SCHEMA, "unit": "ms", "rows": sorted(rows.values(), key=place)})


def conditions(on_gpu: bool) -> dict[str, Any]:
    """What a file of results says of where and when it was measured: device, date, versions."""
    import numpy

    import loopfuse

    versions = {
        "loopfuse": loopfuse.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }
    device = ""
    if on_gpu:
        import torch

        from loopfuse.codegen.targets.assemble import ptxas_version
        from loopfuse.runtime.devices.cuda import need_gpu

        info = need_gpu()
        device = info.name
        versions |= {"torch": torch.__version__, "driver": info.driver, "ptxas": ptxas_version()}
    else:
        from cpu import host_name

        device = host_name()
    return {"device": device, "date": datetime.now(UTC).date().isoformat(), "versions": versions}


def write_json(path: Path, made: dict[str, Any]) -> None:
    """Replace a file of results in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(made, indent=1) + "\n")
    os.replace(draft, path)


def merge_row(old: Row | None, new: Row) -> Row:
    """A row measured again: peers that this run did not time keep their earlier figures, whose
    `run` tells them apart. A new row that has only peers (no time of loopfuse) updates the old."""
    if old is None:
        return new
    peers = {**old.get("peers", {}), **new.get("peers", {})}
    return {**new, "peers": peers}
