"""A campaign: worker processes, watched; what they find, written down, and in the end shrunk.

Each finding becomes `FAILURES/NAME.lf`, a case file whose first comments say what was wrong. Of each
kind of failure the first few are kept and shrunk, the rest counted. Shrinking waits until all is
counted: meanwhile nobody would listen to the workers, and take for a hang what is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.program import Program, case_text, read_program_file

TESTS = Path(__file__).resolve().parent.parent
KEPT_OF_A_KIND = 3
PROGRAMS_A_PROCESS = 400
PATIENCE = 10
"""How many times its seconds a program may take by the clock, on a machine that others use too."""


@dataclass
class Settings:
    """What the command line says."""

    seed: int = 0
    seconds: float = 60.0
    count: int = 0
    jobs: int = 1
    timeout: float = 60.0
    shrink_seconds: float = 60.0
    failures: Path = Path("FAILURES")
    gpu: bool = False
    profile: str = ""


@dataclass(frozen=True)
class Finding:
    """A failure that is kept: the program's number, its file, and the comments in it."""

    number: int
    kind: str
    path: Path
    notes: str


@dataclass
class Totals:
    """What has happened so far. `interrupted`: someone stopped it."""

    programs: int = 0
    fused: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter[str])
    features: Counter[str] = field(default_factory=Counter[str])
    verdicts: Counter[str] = field(default_factory=Counter[str])
    ran: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    found: list[Finding] = field(default_factory=list[Finding])
    interrupted: bool = False

    @property
    def failures(self) -> int:
        """Programs that showed something wrong."""
        return sum(self.kinds.values())

    def add(self, told: dict[str, Any]) -> None:
        """Count a finished program."""
        self.programs += 1
        self.fused += told["fused"]
        self.seconds += told["seconds"]
        self.features.update(told["features"])
        for answer, count in told["verdicts"]:
            self.verdicts[answer] += count
        for engine, count in told["ran"]:
            self.ran[engine] += count
        if told["status"] == "refused":
            self.refused[told["code"]] += 1

    def line(self, started: float) -> str:
        """The status line."""
        rate = self.programs / max(1e-9, time.monotonic() - started)
        return (
            f"{self.programs} programs, {rate:.1f}/s, {self.fused} fused, "
            f"{sum(self.refused.values())} refused, {self.failures} failures"
            f" of {len(self.kinds)} kinds"
        )

    def report(self, started: float) -> str:
        """Everything, at the end."""

        def listed(counter: Counter[str]) -> str:
            return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "none"

        return "\n".join([
            self.line(started),
            f"refused: {listed(self.refused)}",
            f"features: {listed(self.features)}",
            f"failures: {listed(self.kinds)}",
            self.summary(started),
        ])  # fmt: skip

    def summary(self, started: float) -> str:
        """The line to quote: what ran, what the checker said, what differed."""

        def of(word: str) -> int:
            return sum(count for kind, count in self.kinds.items() if word in kind)

        trees = ", ".join(f"{self.verdicts[a]} {a}" for a in ("proved", "unknown", "wrong"))
        engines = ", ".join(f"{name} {count}" for name, count in self.ran.items())
        alarms, noticed, differences = of("false alarm"), of("noticed"), of("differ: ")
        others = self.failures - alarms - noticed - differences
        spent = time.monotonic() - started
        return (
            f"total: {self.programs} programs ({sum(self.refused.values())} refused); trees: {trees}"
            f" ({alarms} false alarms, {noticed} planned wrongly and noticed); runs: {engines};"
            f" differences: {differences}; crashes, hangs and others: {others}; {spent:.0f} s,"
            f" {self.seconds / max(1, self.programs):.2f} s a program and process"
        )


@dataclass
class Process:
    """A worker, and the program it is at: since when by the clock, and by its own seconds."""

    child: subprocess.Popen[str]
    slot: int
    at: int
    since: float
    since_own: float = 0.0
    left: str = ""

    def own_seconds(self) -> float:
        """The processor time it has used; infinite where the system does not tell."""
        try:
            fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("inf")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def restart_clock(self) -> None:
        """From here on counts what the program takes."""
        self.since, self.since_own = time.monotonic(), self.own_seconds()

    def hangs(self, seconds: float) -> bool:
        """Has the program taken more than so many seconds, with nothing told that waits to be read?"""
        passed = time.monotonic() - self.since
        if passed <= seconds or select.select([self.child.stdout], [], [], 0.0)[0]:
            return False
        return passed > PATIENCE * seconds or self.own_seconds() - self.since_own > seconds

    def lines(self) -> list[dict[str, Any]] | None:
        """What it told since; None when it has ended."""
        assert self.child.stdout is not None
        data = os.read(self.child.stdout.fileno(), 1 << 20).decode()
        if not data:
            return None
        *whole, self.left = (self.left + data).split("\n")
        return [json.loads(line) for line in whole]


def environment() -> dict[str, str]:
    """The environment of a worker: one thread, no cache, our modules."""
    path = [str(TESTS.parent), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        **os.environ, "PYTHONPATH": os.pathsep.join(path), "LOOPFUSE_CACHE": "0", "LOOPFUSE_NUM_THREADS": "2",
        "PYTHONHASHSEED": "0",
    }  # fmt: skip


def start_worker(settings: Settings, slot: int, first: int) -> Process:
    """A process that goes on with program `first`."""
    job = {
        "seed": settings.seed, "first": first, "step": settings.jobs, "gpu": settings.gpu,
        "limit": PROGRAMS_A_PROCESS, "end": settings.count, "profile": settings.profile,
    }  # fmt: skip
    child = subprocess.Popen(
        [sys.executable, "-m", "fuzz.worker", json.dumps(job)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(), cwd=TESTS,
    )  # fmt: skip
    return Process(child, slot, first, time.monotonic())


def run_campaign(settings: Settings) -> Totals:
    """Run until time is up, programs 0 to `count` - 1 are done, or someone interrupts; what was
    found lies in `settings.failures`."""
    started = time.monotonic()
    totals = Totals()
    jobs = min(settings.jobs, settings.count) if settings.count else settings.jobs
    running = [start_worker(settings, slot, slot) for slot in range(jobs)]
    try:
        shown = 0.0
        while running:
            now = time.monotonic()
            streams = [p.child.stdout for p in running]
            ready, _, _ = select.select(streams, [], [], 1.0)
            for process in list(running):
                if process.child.stdout in ready:
                    again = _listen(process, settings, totals)
                elif process.hangs(settings.timeout):
                    process.child.kill()
                    process.child.wait()
                    totals.programs += 1
                    keep(settings, totals, process.at, f"hang: over {settings.timeout:.0f} s", "")
                    again = process.at + settings.jobs
                else:
                    continue
                if again is not None:
                    running.remove(process)
                    left = not settings.count or again < settings.count
                    if left and not _is_over(settings, started):
                        running.append(start_worker(settings, process.slot, again))
            if _is_over(settings, started):
                break
            if now - shown > 5:
                shown = now
                print("\r" + totals.line(started), end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        totals.interrupted = True
    finally:
        for process in running:
            process.child.kill()
            process.child.wait()
    print(file=sys.stderr)
    return totals


def _is_over(settings: Settings, started: float) -> bool:
    return time.monotonic() - started > settings.seconds


def _listen(process: Process, settings: Settings, totals: Totals) -> int | None:
    """Take what a worker told; the number to go on with when it has ended."""
    lines = process.lines()
    if lines is None:
        status = process.child.wait()
        if status in (0, 3):
            return process.at
        totals.programs += 1
        keep(settings, totals, process.at, f"crash: exit status {status}", "")
        return process.at + settings.jobs
    for told in lines:
        process.restart_clock()
        if "start" in told:
            process.at = told["start"]
        else:
            process.at = told["done"] + settings.jobs
            totals.add(told)
            if told["failure"]:
                found = told["failure"]
                keep(settings, totals, told["done"], found["kind"], found["detail"])
    return None


# ------------------------------------------------------------------------------------ findings


def keep(settings: Settings, totals: Totals, number: int, kind: str, detail: str) -> None:
    """Count a finding; the first few of its kind are written."""
    totals.kinds[kind] += 1
    if totals.kinds[kind] > KEPT_OF_A_KIND:
        return
    from fuzz.worker import program_number

    program, _ = program_number(settings.seed, number, settings.profile)
    settings.failures.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "_", kind.lower()).strip("_")[:60]
    path = settings.failures / f"{name}_{settings.seed}_{number}.lf"
    notes = f"loopfuse-fuzz, program {settings.seed}:{number}: {kind}\n{detail}"
    path.write_text(case_text(program, notes))
    totals.found.append(Finding(number, kind, path, notes))
    print(f"\n{kind}: {path}", file=sys.stderr)


def shrink_findings(settings: Settings, totals: Totals) -> int:
    """Make what was kept smaller, in order, until someone interrupts; how many are done."""
    for done, finding in enumerate(totals.found if settings.shrink_seconds > 0 else ()):
        try:
            smaller = shrink_apart(settings, finding.number, finding.kind)
        except KeyboardInterrupt:
            return done
        if smaller is not None:
            finding.path.write_text(case_text(smaller, finding.notes))
    return len(totals.found)


def shrink_apart(settings: Settings, number: int, kind: str) -> Program | None:
    """`shrink` in a process of its own, whose tries are processes where the failure is a crash."""
    target = settings.failures / ".shrunk.lf"
    target.unlink(missing_ok=True)
    job = {
        "seed": settings.seed, "number": number, "kind": kind, "gpu": settings.gpu,
        "seconds": settings.shrink_seconds, "target": str(target.resolve()), "profile": settings.profile,
        "apart": kind.startswith(("crash", "hang")) or "cuda-error" in kind,
    }  # fmt: skip
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-m", "fuzz.shrinker", json.dumps(job)], env=environment(), cwd=TESTS,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=settings.shrink_seconds * 1.5 + 60, check=False,
        )  # fmt: skip
    if not target.exists():
        return None
    program = read_program_file(target)
    target.unlink()
    return program
