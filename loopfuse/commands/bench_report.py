"""What `loopfuse bench` found, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loopfuse.base.words import NOTICED, faster_text
from loopfuse.explain.text import bytes_text
from loopfuse.tuning.remember import Tuned

DISTURBED = 1.5
"""How far a median may lie above the quickest tenth on a quiet machine."""


@dataclass(frozen=True, slots=True)
class Row:
    """One form that was timed: median seconds of a call, the bytes its plan moves, launches, and,
    where the times are of two sorts, (median, share) of either."""

    form: str
    seconds: float
    moved: int
    launches: int | str
    humps: tuple[tuple[float, float], tuple[float, float]] | None = None
    quickest: float = 0.0
    """Seconds that a tenth of the calls stay below; 0: not known."""


@dataclass(frozen=True, slots=True)
class Found:
    """Everything measured of one kernel. `perfect` is the least that must be moved: each argument
    read once if it is read, written once if it is written. The last row is a plain copy of as many
    bytes, in the same run. `allocated` is `fused` with its outputs left out. `tuned`: the outcome of
    `--tune`, whose gain is what the rows say: they were measured in turns."""

    kernel: str
    target: str
    device: str
    sizes: Mapping[str, int]
    perfect: int
    rows: tuple[Row, ...]
    tuned: Tuned | None = None
    fp: str = "fast"

    def seconds(self, form: str) -> float:
        """The median of one form."""
        return next(row.seconds for row in self.rows if row.form == form)

    def quickest(self, form: str) -> float:
        """What a tenth of the calls of one form stay below, in seconds."""
        return next(row.quickest or row.seconds for row in self.rows if row.form == form)

    @property
    def is_disturbed(self) -> bool:
        """Do times of one form differ so much that its median says little?"""
        return any(
            row.humps is not None or row.seconds > DISTURBED * (row.quickest or row.seconds)
            for row in self.rows
        )

    @property
    def gain(self) -> float:
        """How many times faster the tuned form was than the default, in turns."""
        return self.seconds("fused") / self.seconds("tuned")

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, schema 1; docs/tuning.md describes it."""
        copy = self.seconds("copy")
        out: dict[str, Any] = {
            "schema": 1,
            "kernel": self.kernel,
            "target": self.target,
            "fp": self.fp,
            "device": self.device,
            "sizes": dict(self.sizes),
            "perfect_bytes": self.perfect,
            "forms": [
                {
                    "form": row.form,
                    "seconds": row.seconds,
                    "moved_bytes": row.moved,
                    "bytes_per_second": self.perfect / row.seconds,
                    "share_of_copy": copy / row.seconds,
                    "launches": row.launches or None,
                    "quickest_seconds": self.quickest(row.form),
                    "humps": row.humps
                    and [{"seconds": seconds, "share": share} for seconds, share in row.humps],
                }
                for row in self.rows
            ],
            "tuning": None,
        }
        if self.tuned is not None:
            found = self.tuned
            out["tuning"] = {
                "found": asdict(found.tuning),
                "gain": self.gain,
                "tried": found.tried,
                "complete": found.complete,
                "remembered": found.remembered,
                "wrong": list(found.wrong),
                "trials": [
                    {"tuning": asdict(t.tuning), "seconds": t.seconds, "problem": t.problem or None}
                    for t in found.trials
                ],
            }
        return out

    def to_text(self) -> str:
        """The table."""
        copy = self.seconds("copy")
        lines = [
            f"{self.kernel}  {self.target}   {'' if self.fp == 'fast' else f'fp {self.fp}   '}{sizes_text(self.sizes)}",
            f"  {'':<9}{'median':>11}{'moved':>12}{'rate':>13}{'of copy':>10}   launches",
        ]
        for row in self.rows:
            rate = f"{bytes_text(int(self.perfect / row.seconds))}/s"
            lines.append(
                f"  {row.form:<9}{time_text(row.seconds):>11}{bytes_text(row.moved):>12}{rate:>13}"
                f"{copy / row.seconds:>10.0%}   {row.launches}".rstrip()
            )
        for row in self.rows:
            if row.humps:
                (quick, share), (slow, rest) = row.humps
                lines.append(
                    f"  {row.form:<9} has two sorts of calls: {time_text(quick)} ({share:.0%}) and "
                    f"{time_text(slow)} ({rest:.0%})"
                )
        fused = self.seconds("fused")
        gain, quickest = self.seconds("unfused") / fused, ""
        if self.is_disturbed:
            quick = self.quickest("unfused") / self.quickest("fused")
            both = min(gain, quick) > 1
            words = f"{quick:.2f}" if both else faster_text(quick, "").removesuffix(" than ")
            quickest = f" ({words.removesuffix(' as ')} by their quickest calls)"
        lines.append(
            f"  fused is {faster_text(gain, 'unfused')}{quickest}, "
            f"{_copies(fused / copy)} of its {bytes_text(self.perfect)}"
        )
        if self.is_disturbed:
            lines.append("  Times vary: something else runs on this machine, or its clock changes.")
        if self.tuned is not None:
            lines.append(f"  tuning   {self.tuned.describe(self.gain)}")
            lines += [f"  DIFFERS  {text}" for text in self.tuned.wrong]
        return "\n".join(lines)


def _copies(ratio: float) -> str:
    """`1.20 copies`; `as long as a copy`; `0.86 of the time of a copy`."""
    if abs(ratio - 1) < NOTICED:
        return "as long as a copy"
    return f"{ratio:.2f} copies" if ratio > 1 else f"{ratio:.2f} of the time of a copy"


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`H=4096 W=4096`."""
    return " ".join(f"{name}={value}" for name, value in sizes.items())


def time_text(seconds: float) -> str:
    """`3.210 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3f} {unit}"
    return f"{seconds * 1e6:.1f} us"
