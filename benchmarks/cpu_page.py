"""The section of docs/performance.md on programs on a CPU, made of `benchmarks/results/cpu.json`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Row = dict[str, Any]

PEERS = ("numba", "numba parallel", "numpy", "torch eager", "jax.jit", "halide", "pythran", "dace")
SHOWN = (*PEERS, "unfused")
NUMBA = ("numba", "numba parallel")

SLOW = 0.8
"""A row whose better numba form takes less than this of loopfuse's time is given a reason."""

ABOUT = """Wall time of a call in milliseconds, medians; loopfuse and the peers of a row take turns in one process
(`low` to `high` are in the results), in-place kernels get their inputs back before every run, and memory that
is freed stays with the process. `numba` is `njit` of the same plain loops, `numba parallel`
`njit(parallel=True)` with `prange`, both with fastmath, and in another order of the loops where a note says
so; `numpy`, `torch eager` and `jax.jit` are the same work as their users write it; `halide` is the algorithm
in Halide with its automatic scheduler, told the sizes and the threads; `pythran` compiles the loops of `numba
parallel`, with OpenMP for `prange`, and `dace` those of `numba`, optimised automatically; `unfused` is loopfuse
without fusion. In brackets how many times loopfuse's time it is (below 1: the peer is faster); `best` is the
fastest peer, `unfused` aside. Empty: the peer was not measured, or has no form of it. A `*` marks a figure
of another run than loopfuse's. Results are compared with the loops in float64."""


def milliseconds(value: float) -> str:
    """Three or four figures."""
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def times(row: Row, names: Iterable[str]) -> dict[str, float]:
    """How many times loopfuse's time these peers take, those that are right."""
    found = {name: row["peers"][name] for name in names if name in row["peers"]}
    return {
        name: one["ms"] / row["ms"] for name, one in found.items() if "ms" in one and one.get("right", True)
    }


def least(row: Row, names: Iterable[str]) -> tuple[str, float] | None:
    """The fastest of these peers, and its time over loopfuse's."""
    found = times(row, names) if "ms" in row else {}
    return min(found.items(), key=lambda one: one[1]) if found else None


def mean(values: Iterable[float]) -> float:
    """The geometric mean."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def mean_line(title: str, rows: list[Row], names: tuple[str, ...], against: str) -> str:
    """What a class of rows comes to."""
    found = [one[1] for one in (least(row, names) for row in rows) if one is not None]
    if not found:
        return f"- {title} against {against}: not measured."
    faster = sum(value >= 1 for value in found)
    return f"- {title} against {against}: {mean(found):.2f} times as fast (geometric mean of {len(found)}); faster in {faster}."


def named(row: Row, one: tuple[str, float]) -> str:
    """A row and what a peer makes of it."""
    return f"{row['case']} ({one[0]} {one[1]:.2f}x)"


def escape(text: str) -> str:
    """Text that may stand in a cell."""
    return text.replace("|", "\\|")


def cell(row: Row, name: str) -> str:
    """A peer's time."""
    peer = row["peers"].get(name)
    if peer is None:
        return ""
    if "failed" in peer:
        return "failed"
    ratio = f" ({peer['ms'] / row['ms']:.2f}x)" if "ms" in row else ""
    wrong = "" if peer.get("right", True) else " **wrong**"
    late = "" if peer["run"] == row["run"] else " *"
    return f"{milliseconds(peer['ms'])}{ratio}{wrong}{late}"


def table(rows: list[Row]) -> list[str]:
    """The rows of a class."""
    names = [name for name in SHOWN if any(name in row["peers"] for row in rows)]
    lines = [f"| case | size | loopfuse | {' | '.join((*names, 'best'))} |", "|---" * (len(names) + 4) + "|"]
    for row in rows:
        size = " ".join(f"{name}={value}" for name, value in row["sizes"].items())
        own = f"**{milliseconds(row['ms'])}**" if "ms" in row else "**failed**"
        own += "" if row.get("right", True) else " **wrong**"
        best = least(row, PEERS)
        cells = [cell(row, name) for name in names] + [f"{best[0]} {best[1]:.2f}x" if best else ""]
        lines.append(f"| {row['case']} | {size} | {own} | {' | '.join(cells)} |")
    return lines


def notes(rows: list[Row], cases: Mapping[str, Any]) -> list[str]:
    """What a reader of a class's table must know: forms that are not the same loops."""
    said: dict[str, list[str]] = {}
    for row in rows:
        case = cases.get(row["case"])
        if case is None:
            continue
        for note in (case.note, f"numba: {case.parallel}" if isinstance(case.parallel, str) else ""):
            if note:
                said.setdefault(note, []).append(row["case"])
    return ["", *(f"- {', '.join(names)}: {note}." for note, names in said.items())] if said else []


def judged(rows: list[Row], cases: Mapping[str, Any]) -> list[str]:
    """What the figures say, the worst rows too."""
    polybench = [row for row in rows if row["group"] == "PolyBench"]
    lines = [
        mean_line("PolyBench's programs", polybench, NUMBA, "the better numba form"),
        mean_line("All programs", rows, NUMBA, "the better numba form"),
        mean_line("All programs", rows, PEERS, "the best peer, libraries included"),
    ]
    found = [(row, one) for row in rows if (one := least(row, PEERS)) is not None]
    found.sort(key=lambda each: each[1][1])
    if found:
        lines.append(f"- The worst three: {'; '.join(named(*each) for each in found[:3])}.")
    wrong = [row["case"] for row in rows if not row.get("right", True)]
    lines.append(f"- Wrong results: {', '.join(wrong) or 'none'}.")
    slow = [(row, one) for row in rows if (one := least(row, NUMBA)) is not None and one[1] < SLOW]
    lines.append(f"- Rows below {SLOW} of numba{':' if slow else ': none.'}")
    for row, one in slow:
        case = cases.get(row["case"])
        lines.append(f"  - {named(row, one)}: {(case.reason if case else '') or 'not looked into'}.")
    for row in rows:
        if "failed" in row:
            lines.append(f"- Failed: {row['case']}: `{escape(row['failed'])}`.")
        lines += [
            f"- Failed: {name}, {row['case']}: `{escape(one['failed'])}`."
            for name, one in row["peers"].items()
            if "failed" in one
        ]
    return lines


def spread(values: Iterable[float]) -> str:
    """Least to greatest."""
    ranked = sorted(set(values))
    return f"{ranked[0]:g}" if len(ranked) == 1 else f"{ranked[0]:g} to {ranked[-1]:g}"


def where_measured(rows: list[Row]) -> str:
    """The devices, dates, versions and loads of the rows."""
    held: dict[str, list[float]] = {}
    for row in rows:
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        held.setdefault(f"{row['device']}, {row['date']}, {versions}", []).append(row["load"])
    found = "; ".join(f"{words} (load average {spread(loads)})" for words, loads in held.items())
    if max(row["load"] for row in rows) > rows[0]["threads"] + 1:
        found += ". Other work ran on the machine meanwhile: ratios say more than times, and what hands over between\nthreads often, whoever's it is, is slower than it would be"
    return found


def speed_up(rows: list[Row], groups: list[str]) -> list[str]:
    """loopfuse on more threads against loopfuse on one, where a device has both."""
    one = {(row["case"], row["device"]): row["ms"] for row in rows if row["threads"] == 1 and "ms" in row}
    counts = sorted({row["threads"] for row in rows} - {1})
    lines: list[str] = []
    for count in counts:
        ratios: dict[str, dict[str, float]] = {}
        for row in rows:
            key = (row["case"], row["device"])
            if row["threads"] == count and "ms" in row and key in one:
                ratios.setdefault(row["group"], {})[row["case"]] = one[key] / row["ms"]
        every = {case: ratio for each in ratios.values() for case, ratio in each.items()}
        if every:
            parts = ", ".join(f"{group} {mean(ratios[group].values()):.2f}" for group in groups if group in ratios)
            ranked = sorted(every, key=lambda case: every[case])
            lines += [
                "",
                f"loopfuse on {count} threads over one: {mean(every.values()):.2f} times as fast (geometric mean of "
                f"{len(every)}): {parts}. Least: {', '.join(f'{case} {every[case]:.2f}' for case in ranked[:3])}.",
            ]
    return lines


def cpu_section(made: Row, cases: Callable[[], Mapping[str, Any]]) -> str:
    """The tables, a class after the other; `cases` gives the cases, which hold notes and reasons."""
    rows: list[Row] = made["rows"]
    known = cases()
    groups = list(dict.fromkeys(row["group"] for row in rows))
    counts = sorted({row["threads"] for row in rows if row["peers"]})
    lines = ["## Programs on a CPU", "", ABOUT]
    for count in counts:
        here = [row for row in rows if row["threads"] == count]
        lines += ["", f"{'One thread' if count == 1 else f'{count} threads'}: {where_measured(here)}.", ""]
        lines += judged(here, known)
        for group in groups:
            of_group = [row for row in here if row["group"] == group]
            if of_group:
                where = f", {count} threads" if len(counts) > 1 else ""
                lines += ["", f"### {group}{where}", "", *table(of_group), *notes(of_group, known)]
    return "\n".join(lines + speed_up(rows, groups))
