"""What `loopfuse bench` found, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loopfuse.explain import bytes_text
from loopfuse.tuning.remember import Tuned


@dataclass(frozen=True, slots=True)
class Row:
    """One form that was timed: median seconds of a call, the bytes its plan moves, launches."""

    form: str
    seconds: float
    moved: int
    launches: int | str


@dataclass(frozen=True, slots=True)
class Found:
    """Everything measured of one kernel. `perfect` is the least that must be moved: each argument
    read once if it is read, written once if it is written. The last row is a plain copy of as many
    bytes, in the same run. `tuned`: the outcome of `--tune`."""

    kernel: str
    target: str
    device: str
    sizes: Mapping[str, int]
    perfect: int
    rows: tuple[Row, ...]
    tuned: Tuned | None = None

    def seconds(self, form: str) -> float:
        """The median of one form."""
        return next(row.seconds for row in self.rows if row.form == form)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, schema 1; docs/tuning.md describes it."""
        copy = self.seconds("copy")
        out: dict[str, Any] = {
            "schema": 1,
            "kernel": self.kernel,
            "target": self.target,
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
                }
                for row in self.rows
            ],
            "tuning": None,
        }
        if self.tuned is not None:
            found = self.tuned
            out["tuning"] = {
                "found": asdict(found.tuning),
                "gain": found.gain,
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
            f"{self.kernel}  {self.target}   {sizes_text(self.sizes)}",
            f"  {'':<9}{'median':>11}{'moved':>12}{'rate':>13}{'of copy':>10}   launches",
        ]
        for row in self.rows:
            rate = f"{bytes_text(int(self.perfect / row.seconds))}/s"
            lines.append(
                f"  {row.form:<9}{time_text(row.seconds):>11}{bytes_text(row.moved):>12}{rate:>13}"
                f"{copy / row.seconds:>10.0%}   {row.launches}".rstrip()
            )
        fused = self.seconds("fused")
        lines.append(
            f"  fused is {self.seconds('unfused') / fused:.2f} times faster than unfused, "
            f"{fused / copy:.2f} copies of its {bytes_text(self.perfect)}"
        )
        if self.tuned is not None:
            lines.append(f"  tuning   {self.tuned}")
            lines += [f"  DIFFERS  {text}" for text in self.tuned.wrong]
        return "\n".join(lines)


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`H=4096 W=4096`."""
    return " ".join(f"{name}={value}" for name, value in sizes.items())


def time_text(seconds: float) -> str:
    """`3.210 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3f} {unit}"
    return f"{seconds * 1e6:.1f} us"
