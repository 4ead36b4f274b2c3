"""Writes docs/performance.md from benchmarks/results: every row measured, unflattering ones too.

python benchmarks/make_performance.py [--check]
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from cpu_page import cpu_section

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"

HEAD = """# Performance

Made by `benchmarks/make_performance.py` from the results in `benchmarks/results`; every case that
was measured is here. Run `python3 benchmarks/gpu.py --json benchmarks/results/gpu.json` on a GPU
machine (`--only`, `--peers` and `--budget` measure some of it; the other rows stay),
`python3 benchmarks/limits.py` and `python3 benchmarks/tuned.py --json benchmarks/results/tuned.json` there;
`python benchmarks/compile_time.py --json benchmarks/results/compile_time.json` and
`python benchmarks/cpu.py --json benchmarks/results/cpu.json` anywhere to measure again.
"""


PEERS = ("torch.compile", "jax.jit", "triton", "cupy", "torch eager", "unfused", "bare launch")

Row = dict[str, Any]


PROGRAMS = {
    "softmax": "softmax, f32", "softmax-bf16": "softmax, bf16", "rmsnorm": "RMSnorm, bf16",
    "layernorm-gelu": "residual + layernorm + GELU, bf16",
}  # fmt: skip
"""The programs of `widths.py`."""
ALLOWED = 1.04
"""What a row of a width may take of the best peer's time."""


def size_text(row: Row) -> str:
    """`8192 x 8192`, `2^28`; nothing where the case failed before its size was known."""
    size = row.get("size", [])
    if len(size) == 1 and size[0] > 4096 and size[0].bit_count() == 1:
        return f"2^{size[0].bit_length() - 1}"
    return " x ".join(str(extent) for extent in size)


def number(value: float) -> str:
    """Milliseconds with three or four figures."""
    return f"{value:.3f}" if value >= 0.1 else f"{value:.4f}"


def goal_cell(row: Row) -> str:
    """What was asked, and whether it was reached."""
    goal = row.get("goal")
    if goal is None:
        return ""
    words = {"share": "{:g} of copy", "sweeps": "{:g} sweeps", "call": "{:g} us"}
    return f"{words[goal['kind']].format(goal['value'])}, {'met' if goal['met'] else '**missed**'}"


def error_cell(row: Row) -> str:
    """The error, and a word where it is too large."""
    return f"{row['error']:.0e}" + ("" if row["right"] else " **wrong**")


def time_rows(rows: list[Row]) -> list[str]:
    """loopfuse's own table."""
    lines = [
        "| case | size | copy | loopfuse | of copy | sweeps a copy | Gpoints/s | asked | launches "
        "| registers | error |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        head = f"| {row['title']} | {size_text(row)} |"
        if "failed" in row:
            lines.append(f"{head} | **failed**: {escape(row['failed'])} | | | | | | | |")
            continue
        registers = row.get("registers") or {}
        cells = [
            number(row["copy"]),
            f"**{number(row['loopfuse'])}**",
            f"{row['share']:.2f}",
            f"{row['sweeps_per_copy']:.2f}" if "sweeps" in row else "",
            f"{row['gpoints']:.0f}",
            goal_cell(row),
            str(row.get("launches", "")),
            str(max(registers.values())) if registers else "",
            error_cell(row),
        ]
        lines.append(f"{head} " + " | ".join(cells) + " |")
    return lines


def native_rows(rows: list[Row]) -> list[str]:
    """Both levels of arithmetic beside each other, where they are two."""
    lines = ["| case | size | loopfuse | of copy | error | native | of copy | error |", "|---" * 8 + "|"]
    for row in rows:
        found = row["native"]
        head = f"| {row['title']} | {size_text(row)} | {number(row['loopfuse'])} | {row['share']:.2f} | {error_cell(row)} |"
        if "failed" in found:
            lines.append(f"{head} **failed**: {escape(found['failed'])} | | |")
        else:
            lines.append(f"{head} **{number(found['ms'])}** | {found['share']:.2f} | {error_cell(found)} |")
    return lines


def escape(text: str) -> str:
    """Text that may stand in a cell."""
    return text.replace("|", "\\|")


def peer_cell(row: Row, name: str) -> str:
    """A peer's time and how many times loopfuse's it is; `*` where it is of another run."""
    peer = row["peers"].get(name)
    if peer is None:
        return ""
    if "failed" in peer:
        return "failed"
    ratio = f" ({peer['ms'] / row['loopfuse']:.2f}x)" if "loopfuse" in row else ""
    late = "" if peer["run"] == row["run"] else " *"
    wrong = "" if peer.get("right", True) else " **wrong**"
    return f"{number(peer['ms'])}{ratio}{wrong}{late}"


def peer_rows(rows: list[Row]) -> list[str]:
    """The peers' table, and what failed in it."""
    names = [name for name in PEERS if any(name in row["peers"] for row in rows)]
    lines = [
        "| case | size | loopfuse | " + " | ".join(names) + " |",
        "|---" * (len(names) + 3) + "|",
    ]
    for row in rows:
        own = f"**{number(row['loopfuse'])}**" if "loopfuse" in row else "**failed**"
        cells = " | ".join(peer_cell(row, name) for name in names)
        lines.append(f"| {row['title']} | {size_text(row)} | {own} | {cells} |")
    failed = [
        f"- {name}, {row['title']} ({size_text(row)}): `{row['peers'][name]['failed']}`"
        for row in rows
        for name in names
        if "failed" in row["peers"].get(name, {})
    ]
    return lines + (["", "Failed:", *failed] if failed else [])


def judged(rows: list[Row]) -> list[str]:
    """What the figures say, unflattering first: goals missed, peers faster, awkward sizes slower."""
    missed = [
        f"{row['title']} ({size_text(row)})"
        for row in rows
        if "failed" in row or not row.get("goal", {}).get("met", True)
    ]
    asked = sum("goal" in row or "failed" in row for row in rows)
    beaten: list[str] = []
    for row in rows:
        for name, peer in row["peers"].items():
            if name == "bare launch":  # computes as we do: what is compared is the way there
                continue
            if "ms" in peer and "loopfuse" in row and peer["ms"] * 1.02 < row["loopfuse"]:
                times = row["loopfuse"] / peer["ms"]
                beaten.append(f"{name} by {times:.2f} on {row['title']} ({size_text(row)})")
    round_points = {
        row["case"]: row["gpoints"]
        for row in rows
        if row["variant"] == "round" and "gpoints" in row
    }
    slower = [
        f"{row['title']} ({round_points[row['case']] / row['gpoints']:.2f} times)"
        for row in rows
        if row["variant"] == "awkward"
        and "gpoints" in row
        and row["case"] in round_points
        and row["gpoints"] * 1.1 < round_points[row["case"]]
    ]
    pairs = sum(row["variant"] == "awkward" and row["case"] in round_points for row in rows)
    wrong = [f"{row['title']} ({size_text(row)})" for row in rows if not row.get("right", True)]

    def say(words: str, found: list[str]) -> str:
        return f"- {words}: " + ("; ".join(found) if found else "none") + "."

    lines = [
        say("Wrong results", wrong),
        say(f"Targets missed, of {asked}", missed),
        say("Peers more than 2 % faster", beaten),
    ]
    for row in rows:
        bare = row["peers"].get("bare launch", {})
        if "ms" in bare and "loopfuse" in row:
            times = row["loopfuse"] / bare["ms"]
            words = f"{row['title']} ({size_text(row)}), a call takes"
            lines.append(f"- {words} {times:.2f} times a bare launch of the same code.")
    warned = {row["title"]: row["problem"] for row in rows if "problem" in row}
    if warned:
        told = [f"{title}: {escape(problem)}" for title, problem in warned.items()]
        lines.append(say("The compiler warned", told))
    if pairs:
        lines.append(
            say(f"Awkward sizes more than 10 % slower a point than round ones, of {pairs}", slower)
        )
    return lines


def where_measured(rows: list[Row]) -> str:
    """The devices, dates and versions of the rows."""
    found = dict.fromkeys(
        f"{row['device']}, {row['date']}, "
        + ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        + f", {row['runs']} runs"
        for row in rows
    )
    return "; ".join(found)


def gpu_section(made: dict[str, Any]) -> str:
    """The tables of device times."""
    rows: list[Row] = made["rows"]
    lines = [
        "## Kernels on a GPU",
        "",
        f"{where_measured(rows)}.",
        "Medians of device time in milliseconds, on fresh random data, results checked against",
        "float64 (`error`: in the 2-norm, relative). `copy` is a device-to-device copy of the same",
        "bytes in the same run: each input read and each output written once; for time steps, its",
        "fields read and written once. `of copy` is that time over loopfuse's, `sweeps a copy` how",
        "many time steps run in it. `calls back to back` is time a call, host and device together.",
        "",
        *judged(rows),
        "",
        *time_rows(rows),
    ]
    if any("native" in row for row in rows):
        lines += [
            "",
            "### The hardware's approximations",
            "",
            "The same under `fp=\"native\"` ([types](types.md#native)), where that computes otherwise.",
            "",
            *native_rows([row for row in rows if "native" in row]),
        ]
    if any(row["peers"] for row in rows):
        lines += [
            "",
            "### Peers",
            "",
            "The same work as their users write it; in brackets how many times loopfuse's time it is",
            "(below 1: the peer is faster). `unfused` is loopfuse without fusion. A `*` marks a figure",
            "of another run than loopfuse's.",
            "",
            *peer_rows([row for row in rows if row["peers"]]),
        ]
    return "\n".join(lines)


def earlier_section(made: dict[str, Any]) -> str:
    """The same tables as they were on the machine before: kept, no longer measured."""
    rows: list[Row] = made["rows"]
    lines = [
        "## The same on another GPU, measured before",
        "",
        f"{where_measured(rows)}.",
        "The versions of loopfuse are those of the dates; these rows are not measured again.",
        "",
        *judged(rows),
        "",
        *time_rows(rows),
        "",
        *peer_rows([row for row in rows if row["peers"]]),
    ]
    return "\n".join(lines)


def limits_section(made: dict[str, Any]) -> str:
    """The table of what limits the cases that miss."""
    lines = [
        "## What limits the rows that miss",
        "",
        f"{made['device']}, {made['date']}, Nsight Compute (`benchmarks/limits.py`): the longest launch of a",
        "call, at the clocks that the profiler fixes. `moved`: bytes of device memory for those of the copy.",
        "`memory`, `L2`, `L1`: percent of what they can do; `issue`: percent of cycles in which a scheduler",
        "issues; `warps`: of a multiprocessor's 64; `instructions` a point (a point of all steps of the launch);",
        "`waits`: warps that wait for it, for each instruction issued (`not_selected` could have run).",
        "",
        "| case | size | moved | memory | L2 | L1 | issue | warps | instructions | waits |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in made["rows"]:
        waits = ", ".join(f"{name} {value:.1f}" for name, value in row["waits"].items())
        cells = [f"{row['moved']:.2f}", *(f"{row[k]:.0f} %" for k in ("dram", "l2", "l1", "issue"))]
        cells += [f"{row['warps']:.0f}", f"{row['instructions']:.1f}", waits]
        lines.append(f"| {row['title']} | {size_text(row)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def widths_section(made: dict[str, Any]) -> str:
    """The table of rows of many widths."""
    rows = [row for row in made["rows"] if "loopfuse" in row]
    behind = [f"{PROGRAMS[row['program']]} at {row['width']}" for row in rows if is_behind(row)]
    out = [
        "## Rows of many widths",
        "",
        f"{made['device']}, {made['date']}, `benchmarks/widths.py`: 2^26 elements in rows of each width; fractions of a copy, in brackets how many",
        f"times loopfuse's time the peer takes. More than 4 % slower than a peer, of {len(rows)}: {'; '.join(behind) or 'none'}.",
        "",
        "| program | places | loopfuse | of copy | native | peers |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        peers = ", ".join(f"{name} ({one['ms'] / row['loopfuse']:.2f}x)" for name, one in row["peers"].items() if "ms" in one)
        native = row.get("native", {}).get("share")
        cells = [PROGRAMS[row["program"]], f"{row['width']}", f"**{row['loopfuse']:.3f}**", f"{row['share']:.2f}", "" if native is None else f"{native:.2f}", peers]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def is_behind(row: Row) -> bool:
    """Does the best peer take less than what is allowed?"""
    return any("ms" in one and one.get("right") and row["loopfuse"] > ALLOWED * one["ms"] for one in row["peers"].values())


def launch_section(made: dict[str, Any]) -> str:
    """The table of host time per call."""
    rows = made["rows"]
    out = [
        "## Host time of a call",
        "",
        f"{made['gpu']}, {made['date']}, Python {made['python']}; microseconds a call, medians, arrays",
        "ready. What a call checks every time (types, shapes, devices, overlap) is in loopfuse's figure.",
        "",
    ]
    for kind in ("gpu", "cpu"):
        names = list(
            dict.fromkeys(k for row in rows[kind] for k in row if k not in ("arrays", "elements"))
        )
        heads = [
            f"{row['arrays']} arrays" + (f" of {row['elements']}" if kind == "cpu" else "")
            for row in rows[kind]
        ]
        out += [f"| {kind.upper()} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for name in names:
            cells = [f"{row[name]:.1f}" if row.get(name) is not None else "" for row in rows[kind]]
            out.append(f"| {name} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out).rstrip()


def compile_section(made: dict[str, Any]) -> str:
    """The tables of compile times."""
    lines = [
        "## Compiling",
        "",
        f"The first compile of a fresh process, {made['target']}, Python {made['python']}, {made['date']}; medians in",
        "milliseconds, without imports and disk cache. `one`: all stages on one core, `verify` the checker's part of",
        "it; `two`: on two, where LLVM works beside the proof; `ptxas` comes on top, where the driver does not do",
        f"that work. `loopfuse compile examples/unsharp.lf` as a process, imports and start with it: {made['process']:.0f} ms.",
        "",
        "| example | one | verify | share | two | ptxas |",
        "|---|---|---|---|---|---|",
    ]
    rows: dict[str, dict[str, float]] = made["rows"]
    for name, row in rows.items():
        one = row["together"]
        lines.append(
            f"| {name} | {one:.0f} | {row['verify']:.0f} | {row['verify'] / one:.0%} | {row['two']:.0f} | "
            f"{row['ptxas']:.0f} |"
        )
    totals = [row["together"] for row in rows.values()]
    lines += ["", f"Median {statistics.median(totals):.0f} ms, worst {max(totals):.0f} ms."]
    if "peers" not in made:
        return "\n".join(lines)
    peers = made["peers"]
    systems = list(dict.fromkeys(system for row in peers["rows"].values() for system in row))
    lines += [
        "",
        f"First calls beside others', {peers['device']}, {peers['date']}: the first call less a later one, small arrays, in",
        "milliseconds, machine code with it, imports without. (numba: the plain loops, on the CPU, where it takes them.)",
        "",
        f"| case | {' | '.join(systems)} |",
        f"|---|{'---|' * len(systems)}",
    ]
    for key, row in peers["rows"].items():
        cells = (f"{row[system]:.0f}" if system in row else "" for system in systems)
        lines.append(f"| {key} | {' | '.join(cells)} |")
    return "\n".join(lines)


def tuned_section(made: dict[str, Any]) -> str:
    """The table of what tuning finds."""
    rows = made["rows"]
    far = [row["case"] for row in rows if row["gain"] > 1.10]
    lines = [
        "## The planner's own choices, and tuned ones",
        "",
        f"{made['device']}, {made['date']} if no other date stands there; `loopfuse.tuning`, round sizes,",
        "milliseconds of the kernel; `tried`: how many choices, in how many seconds. Choices whose",
        "results differ from the default's by a bit would be",
        f"reported: {sum(len(row['wrong']) for row in rows)} did. More than 10 % faster tuned: "
        f"{', '.join(far) or 'none'}.",
        "",
        "| case | default | tuned | gain | found | tried |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        tried = f"{row['tried']}, {'all' if row['complete'] else 'not all'}"
        tried += f", {row.get('seconds', made['seconds']):.0f} s"
        if row.get("date", made["date"]) != made["date"]:
            tried += f", {row['date']}"
        lines.append(
            f"| {row['case']} | {row['default'] * 1e3:.3f} | {row['tuned'] * 1e3:.3f} | {row['gain']:.2f}"
            f" | {row['words']} | {tried} |"
        )
    return "\n".join(lines)


def programs_section(made: dict[str, Any]) -> str:
    """The tables of programs on a CPU."""

    def cases() -> dict[str, Any]:
        sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
        from cpu_cases import BY_KEY

        return BY_KEY

    return cpu_section(made, cases)


def make_page() -> str:
    """The page's text, from whatever results there are."""
    parts = [HEAD]
    for name, section in (
        ("gpu", gpu_section),
        ("widths", widths_section),
        ("limits", limits_section),
        ("tuned", tuned_section),
        ("cpu", programs_section),
        ("launch", launch_section),
        ("compile_time", compile_section),
        ("gpu_h100", earlier_section),
    ):
        path = RESULTS / f"{name}.json"
        if path.exists():
            parts.append(section(json.loads(path.read_text())) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == make_page() else 1)
    PAGE.write_text(make_page())
