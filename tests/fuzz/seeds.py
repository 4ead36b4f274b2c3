"""A campaign by seed: programs A to B - 1 of a generator, by several processes, to be stopped and gone
on with at any time.

What became of each number is one line of a state file, written at once; a number that stands there
is not run again. Findings are written to files of their own.
"""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.campaign import TESTS, Process, environment
from fuzz.campaigns import module_of

BLOCK = 100
"""Programs a process checks before another takes its place: what leaks in a library stays small."""


@dataclass(frozen=True)
class Settings:
    """What the command line says. The seeds `first` to `end` - 1 are dealt out to `cpus` in order, in
    equal parts (names as in `LOOPFUSE_CPU`)."""

    generator: str
    first: int
    end: int
    cpus: tuple[str, ...] = ("native",)
    jobs: int = 1
    seconds: float = float("inf")
    timeout: float = 60.0
    failures: Path = Path("FAILURES")

    @property
    def state(self) -> Path:
        """The file that says what has been done."""
        cpus = "_".join(self.cpus)
        return self.failures / f"seeds_{self.generator}_{cpus}_{self.first}_{self.end}.jsonl"

    def cpu_of(self, number: int) -> str:
        """What code of a number is made for."""
        return self.cpus[(number - self.first) * len(self.cpus) // (self.end - self.first)]


@dataclass
class Totals:
    """What has been done, in this run and before it."""

    done: set[int] = field(default_factory=set[int])
    ran: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    seconds: float = 0.0

    def add(self, told: dict[str, Any]) -> None:
        """Count one number."""
        self.done.add(told["done"])
        self.ran.update(told["ran"])
        self.seconds += told["seconds"]
        if told["status"] == "refused":
            self.refused[told["code"]] += 1
        if told["status"] == "failed":
            self.kinds[told["kind"]] += 1

    def summary(self, settings: Settings) -> str:
        """The line to quote."""
        runs = ", ".join(f"{name} {count}" for name, count in sorted(self.ran.items()))
        differences = sum(n for kind, n in self.kinds.items() if kind.startswith("differ"))
        others = sum(self.kinds.values()) - differences
        codes = ", ".join(f"{code} {count}" for code, count in self.refused.most_common(4))
        left = settings.end - settings.first - len(self.done)
        return (
            f"total: {len(self.done)} {settings.generator} programs, seeds {settings.first}.."
            f"{settings.end}{f' ({left} left)' if left else ''}, cpu {', '.join(settings.cpus)};"
            f" {sum(self.refused.values())} refused{f' ({codes})' if codes else ''};"
            f" runs: {runs or 'none'}; differences: {differences};"
            f" crashes, hangs and others: {others};"
            f" {self.seconds / max(1, len(self.done)):.2f} s a program and process"
        )


def read_state(settings: Settings) -> Totals:
    """What earlier runs did; a last line that was cut off does not count."""
    totals = Totals()
    if settings.state.exists():
        for line in settings.state.read_text().splitlines():
            try:
                totals.add(json.loads(line))
            except json.JSONDecodeError:
                continue
    return totals


def run_seeds(settings: Settings) -> Totals:
    """Check what is left, until it is done, time is up or someone interrupts."""
    started, shown, before = time.monotonic(), 0.0, 0
    settings.failures.mkdir(parents=True, exist_ok=True)
    totals = read_state(settings)
    before = len(totals.done)
    waiting = deque(_blocks(settings, totals))
    running: list[_Worker] = []
    try:
        with settings.state.open("a", buffering=1) as state:
            while waiting or running:
                if time.monotonic() - started > settings.seconds:
                    break
                while waiting and len(running) < settings.jobs:
                    running.append(_Worker(settings, waiting.popleft()))
                ready, _, _ = select.select([w.process.child.stdout for w in running], [], [], 1.0)
                for worker in list(running):
                    ended = worker.listen(ready, totals, state)
                    if ended:
                        running.remove(worker)
                        if worker.numbers:
                            waiting.appendleft(worker.numbers)
                if time.monotonic() - shown > 5:
                    shown = time.monotonic()
                    rate = (len(totals.done) - before) / max(1e-9, shown - started)
                    print(
                        f"\r{len(totals.done)} programs, {rate:.1f}/s, {sum(totals.refused.values())}"
                        f" refused, {sum(totals.kinds.values())} failures",
                        end="", file=sys.stderr, flush=True,
                    )  # fmt: skip
    except KeyboardInterrupt:
        pass
    finally:
        for worker in running:
            worker.stop()
    print(file=sys.stderr)
    return totals


def _blocks(settings: Settings, totals: Totals) -> Iterable[list[int]]:
    """The numbers that are left, those of one CPU together."""
    left = [n for n in range(settings.first, settings.end) if n not in totals.done]
    size = max(1, min(BLOCK, len(left) // (2 * settings.jobs)))
    block: list[int] = []
    for number in left:
        if len(block) == size or (block and settings.cpu_of(block[0]) != settings.cpu_of(number)):
            yield block
            block = []
        block.append(number)
    if block:
        yield block


class _Worker:
    """A process with the numbers it has still to do."""

    def __init__(self, settings: Settings, numbers: list[int]) -> None:
        self.settings, self.numbers = settings, numbers
        self.errors = settings.failures / f".stderr_{numbers[0]}"
        job = json.dumps({"generator": settings.generator, "numbers": numbers})
        with self.errors.open("w") as stream:
            child = subprocess.Popen(
                [sys.executable, "-m", "fuzz.seeds_worker", job],
                stdout=subprocess.PIPE, stderr=stream, text=True, cwd=TESTS,
                env={**environment(), "LOOPFUSE_CPU": settings.cpu_of(numbers[0])},
            )  # fmt: skip
        self.process = Process(child, 0, numbers[0], time.monotonic())

    def listen(self, ready: list[Any], totals: Totals, state: Any) -> bool:
        """Take what it told; True where it has ended (and not before it has)."""
        process = self.process
        if process.child.stdout not in ready:
            if not process.hangs(self.settings.timeout):
                return False
            process.child.kill()
            self._failed(f"hang: over {self.settings.timeout:.0f} s", totals, state)
        else:
            lines = process.lines()
            for told in lines or ():
                process.restart_clock()
                if "done" in told:
                    self._done(told, totals, state)
            if lines is not None:
                return False
            status = process.child.wait()
            if status:
                name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
                self._failed(f"crash: {name}", totals, state)
        self.stop()
        return True

    def _failed(self, kind: str, totals: Totals, state: Any) -> None:
        """The process ended at the first of its numbers."""
        if not self.numbers:
            return
        told = {"done": self.numbers[0], "seconds": 0.0, "status": "failed", "code": "", "kind": kind,
                "detail": self.errors.read_text()[-4000:], "ran": {}}  # fmt: skip
        self._done(told, totals, state)

    def _done(self, told: dict[str, Any], totals: Totals, state: Any) -> None:
        self.numbers.remove(told["done"])
        state.write(json.dumps({**told, "cpu": self.settings.cpu_of(told["done"])}) + "\n")
        totals.add(told)
        if told["status"] == "failed":
            _write(self.settings, told)

    def stop(self) -> None:
        """Ends the process, and forgets what it printed."""
        self.process.child.kill()
        self.process.child.wait()
        self.errors.unlink(missing_ok=True)


def _write(settings: Settings, told: dict[str, Any]) -> None:
    """A finding, as a file."""
    module, number = module_of(settings.generator), told["done"]
    name = re.sub(r"[^a-z0-9]+", "_", told["kind"].lower()).strip("_")[:60]
    cpu = settings.cpu_of(number)
    notes = f"{settings.generator} program {number}, cpu {cpu}: {told['kind']}\n{told['detail']}"
    path = settings.failures / f"{name}_{settings.generator}_{cpu}_{number}{module.SUFFIX}"
    path.write_text(module.text(number, notes))
    print(f"\n{told['kind']}: {path}", file=sys.stderr)


def parse_seeds(text: str) -> tuple[int, int]:
    """`A..B` as (A, B); ValueError for anything else."""
    found = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise ValueError(f"`{text}` is no range of seeds: give `A..B`, B beyond the last")
    return int(found[1]), int(found[2])


