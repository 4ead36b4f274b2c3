"""What the planner decides, as data: groups, decisions with witnesses and remedies, prices.

`Report` is all of it for a user, ready to be printed by `explain` (its `to_dict` is the JSON of
`loopfuse explain`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from loopfuse.base.formula import Formula as Formula
from loopfuse.base.words import spell


@dataclass(frozen=True, slots=True)
class Place:
    """One end of a witness: the loop's label, its line, and the iteration (iterator -> value)."""

    loop: str
    line: int
    iteration: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Witness:
    """A dependence instance that forbids a fusion: the element both ends touch, at some sizes."""

    array: str
    element: tuple[int, ...]
    source: Place
    sink: Place
    sizes: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """Why two loops run together or apart.

    `between` are loop labels; `shift` has one entry per fused dimension (how many iterations the
    second runs behind the first), None where not fused; `reason` is one sentence; `remedy` is the
    smallest source change that would allow the fusion, tried by the planner before it is said.
    """

    between: tuple[str, str]
    fused: bool
    shift: tuple[int, ...] | None
    reason: str
    witness: Witness | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class LoopInfo:
    """A source loop as reports name it. `reads` are the arrays it reads, also
    those that it writes (not its own scalars)."""

    id: str
    line: int
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    statements: tuple[str, ...]
    parts: tuple[LoopInfo, ...] = ()  # loops inside it that are planned on their own

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; `parts` only where there are any."""
        out: dict[str, Any] = {
            "id": self.id,
            "line": self.line,
            "writes": list(self.writes),
            "statements": list(self.statements),
        }
        if self.parts:
            out["parts"] = [part.to_dict() for part in self.parts]
        return out


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """One launched kernel: strategy, source loops, home per temporary, registers of a thread and bytes
    of a block's shared memory (known once it is compiled; None and 0 before), and the sizes it
    specialised on, in words."""

    name: str
    strategy: str
    loops: tuple[str, ...]
    homes: tuple[tuple[str, str], ...]
    registers: int | None = None
    shared_bytes: int = 0
    specialised: tuple[str, ...] = ()
    detail: str = ""  # e.g. "sliding down y", for the text form


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `explain` shows of one kernel. Bytes are formulas; `passes` counts traversals of
    arrays (before, after) for the text form; `temporary_bytes` is what each temporary would have
    cost in memory; `checked` says what the checker answered and how long it took;
    `reassociated` names reductions whose order changed, `algebra` says which are one pass where the program has two, and by what; `math_bounds` the ulp bounds of math
    functions used that are not correctly rounded; `copies` the temporaries in memory of which the iterations of some loops
    have one each, and the loops' iterators; `machine` what it was planned for, where that was said by name or found; `fp` the level of arithmetic; `typed` locals of Python that start as plain numbers
    and have the type of what is added to them; `spelled` what a Python programmer writes for sizes that have no name
    in the function (`x_0`, `len(x)`), for the text form."""

    kernel: str
    target: str
    source_name: str
    line: int
    sizes: tuple[tuple[str, int], ...]
    loops: tuple[LoopInfo, ...]
    launches_before: int | str
    launches_after: int | str
    traffic_before: Formula
    traffic_after: Formula
    passes: tuple[int, int]
    kernels: tuple[KernelInfo, ...]
    decisions: tuple[Decision, ...]
    preconditions: tuple[str, ...]
    temporary_bytes: tuple[tuple[str, Formula], ...] = ()
    reassociated: tuple[str, ...] = ()
    algebra: tuple[str, ...] = ()
    math_bounds: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    copies: tuple[tuple[str, tuple[str, ...]], ...] = ()
    machine: str | None = None
    checked: str = ""
    fp: str = "fast"
    spelled: tuple[tuple[str, str], ...] = ()

    def said(self, text: str) -> str:
        """A text or a formula as the text form says it."""
        return spell(text, dict(self.spelled))

    def in_words(self) -> Report:
        """The report as the text form says it. (What it counts stays formulas of sizes: `said` says those.)"""
        if not self.spelled:
            return self

        def witness(found: Witness | None) -> Witness | None:
            return found and replace(found, sizes=tuple((self.said(name), value) for name, value in found.sizes))

        return replace(
            self,
            sizes=tuple((self.said(name), value) for name, value in self.sizes),
            decisions=tuple(
                replace(
                    one, reason=self.said(one.reason), witness=witness(one.witness),
                    remedy=one.remedy and self.said(one.remedy),
                )
                for one in self.decisions
            ),
            kernels=tuple(
                replace(one, detail=self.said(one.detail), specialised=tuple(map(self.said, one.specialised)))
                for one in self.kernels
            ),
            preconditions=tuple(map(self.said, self.preconditions)),
            typed=tuple(map(self.said, self.typed)),
        )  # fmt: skip

    @property
    def where(self) -> str:
        """The target, and the machine where one was said; how it computes, where that is not the usual way."""
        where = self.target if self.machine is None else f"{self.target} ({self.machine})"
        return where if self.fp == "fast" else f"{where}   fp {self.fp}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, schema 1."""

        def place(at: Place) -> dict[str, Any]:
            return {"loop": at.loop, "line": at.line, "iteration": dict(at.iteration)}

        def witness(found: Witness | None) -> dict[str, Any] | None:
            if found is None:
                return None
            return {
                "array": found.array,
                "element": list(found.element),
                "source": place(found.source),
                "sink": place(found.sink),
                "sizes": dict(found.sizes),
            }

        def formula(count: Formula) -> dict[str, Any]:
            return {"bytes": count.text, "value": count.value}

        return {
            "schema": 1,
            "kernel": self.kernel,
            "target": self.target,
            "machine": self.machine,
            "fp": self.fp,
            "loops": [loop.to_dict() for loop in self.loops],
            "launches": {"before": self.launches_before, "after": self.launches_after},
            "traffic": {
                "before": formula(self.traffic_before),
                "after": formula(self.traffic_after),
            },
            "kernels": [
                {
                    "name": kernel.name,
                    "strategy": kernel.strategy,
                    "loops": list(kernel.loops),
                    "homes": dict(kernel.homes),
                    "registers": kernel.registers,
                    "shared_bytes": kernel.shared_bytes,
                    "specialised": list(kernel.specialised),
                }
                for kernel in self.kernels
            ],
            "decisions": [
                {
                    "between": list(decision.between),
                    "fused": decision.fused,
                    "shift": None if decision.shift is None else list(decision.shift),
                    "reason": decision.reason,
                    "witness": witness(decision.witness),
                    "remedy": decision.remedy,
                }
                for decision in self.decisions
            ],
            "preconditions": list(self.preconditions),
        }
