"""Times loopfuse on a CPU beside numba, NumPy, PyTorch, JAX, Halide, pythran and DaCe.

    python benchmarks/cpu.py [--json FILE] [--only CASE,CLASS,...] [--threads 2,12] [--peers none|all|NAME,...]
                             [--runs N] [--seconds S] [--budget SECONDS] [--limit SECONDS] [--list]

Peers are those of the extra `peers`; one that is not there is left out. Wall time of a call, medians. loopfuse and
the peers of a case share a process and take turns, so that whatever else the machine does falls on all; an in-place
kernel gets its inputs back before every run, untimed. Each is done after `--runs` runs or `--seconds` seconds. First
results are compared with the plain loops in float64 (numba, without fastmath). Memory that is freed stays with the
process: fresh pages for each call would cost everybody's temporaries more than their work.

pythran and DaCe need a C++ compiler: they compile a case before its process starts, in time that no figure has, and
what they made stays (benchmarks/cpu_compiled.py). pythran is in the extra from Python 3.12 on; before, it asks for an
older setuptools than PyTorch does, though it works with that: `pip install --no-deps pythran gast beniget ply`.

Each case has a process of its own and `--limit` seconds; one that dies or hangs is measured again without the peer
that was at work. The file is written after every case, and a run that measures some changes only those rows. Thread
counts above the machine's are left out. `python benchmarks/make_performance.py` makes docs/performance.md of it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

Row = dict[str, Any]

SCHEMA = 1

IDLE = 0.03
"""Seconds between two runs, in which the threads of the one before stop spinning: OpenBLAS takes longest."""

QUICK = 0.005
"""A run this short comes after one that is not timed and wakes its threads."""


def host_name() -> str:
    """The CPU's name, as the kernel has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "a CPU"


def settings(threads: int) -> dict[str, str]:
    """The environment of a run: read by the C library and the peers when a process starts."""
    count = str(threads)
    return {
        "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
        "LOOPFUSE_CACHE": "0", "LOOPFUSE_NUM_THREADS": count, "NUMBA_NUM_THREADS": count, "OMP_NUM_THREADS": count,
        "HL_NUM_THREADS": count,
        "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count, "NPROC": count, "PJRT_NPROC": count,
        "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip


def one_line(error: BaseException) -> str:
    """An error in a few words."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


# ------------------------------------------------------------------------------- one case


class Contender:
    """A way with its times."""

    def __init__(self, name: str, is_in_place: bool) -> None:
        self.name, self.is_in_place = name, is_in_place
        self.times: list[float] = []
        self.way: Any = None
        self.entry: Row = {}

    def start(self, make: Callable[[], Any]) -> None:
        """Make it and run it once: `first` is both together. An error is the entry."""
        start = time.perf_counter()
        try:
            self.way = make()
            if self.way is not None:
                self.way.reset()
                self.way.run()
                self.entry["first"] = (time.perf_counter() - start) * 1e3
        except Exception as error:
            self.way, self.entry = None, {"failed": one_line(error)}

    def turn(self) -> None:
        """One timed run."""
        time.sleep(IDLE)
        self.way.reset()
        if self.times and min(self.times) < QUICK and not self.is_in_place:
            self.way.run()
        start = time.perf_counter()
        self.way.run()
        self.times.append(time.perf_counter() - start)

    def summed(self) -> Row:
        """Its entry."""
        if self.times:
            spread = [1e3 * value for value in sorted(self.times)]
            self.entry |= {"ms": statistics.median(spread), "low": spread[0], "high": spread[-1], "runs": len(spread)}
        return self.entry


def measure(case: Any, names: list[str], runs: int, seconds: float, say: Callable[[str], None]) -> Row:
    """A case's row: loopfuse and the peers named, in turns. `say` is told who is at work for the first time."""
    from cpu_ways import PEERS, loopfuse_way, reference

    arguments = case.arguments()
    say("reference")
    try:
        right = reference(case, arguments, compiled=True)
    except ImportError:
        right = None
    contenders: list[Contender] = []
    for name, make in {"loopfuse": loopfuse_way, **{name: PEERS[name] for name in names}}.items():
        say(name)
        one = Contender(name, bool(case.inout))
        one.start(lambda make=make: make(case, arguments))
        if one.way is None and not one.entry:
            continue
        contenders.append(one)
        if one.way is not None and right is not None:
            try:
                one.entry["error"] = case.error(one.way.results(), right)
                # A peer with other loops sums in another order: it may be off ten times as much.
                allowed = case.tolerance * (1 if name in ("loopfuse", "unfused") else 10)
                one.entry["right"] = one.entry["error"] <= allowed
            except Exception as error:
                one.way, one.entry = None, {"failed": one_line(error)}
    del right
    say("turns")

    def over(one: Contender) -> bool:
        total = sum(one.times)
        return (total > seconds and len(one.times) >= 3) or total > 4 * seconds

    waiting = [one for one in contenders if one.way is not None]
    while waiting:
        for one in list(waiting):
            try:
                one.turn()
            except Exception as error:
                one.way, one.entry, one.times = None, {"failed": one_line(error)}, []
            if one.way is None or len(one.times) >= runs or over(one):
                waiting.remove(one)
    found = {one.name: one.summed() for one in contenders}
    own = found.pop("loopfuse")
    return {**own, "peers": found}


def in_child(pipe: Any, key: str, names: list[str], runs: int, seconds: float) -> None:
    """The process of a case."""
    from cpu_cases import BY_KEY

    try:
        row = measure(BY_KEY[key], names, runs, seconds, pipe.send)
    except Exception as error:
        row = {"failed": one_line(error), "peers": {}}
    pipe.send(row)


def compile_ahead(key: str, names: list[str]) -> None:
    """Let these peers compile a case to files; one that refuses says so again when its turn comes."""
    from cpu_cases import BY_KEY
    from cpu_compiled import built

    case = BY_KEY[key]
    arguments = case.arguments()
    for name in names:
        with contextlib.suppress(Exception):
            built(name, case, arguments)


def in_process(target: Callable[..., None], arguments: tuple[Any, ...], limit: float) -> tuple[Row | None, str, str]:
    """Run `target(pipe, *arguments)` in a process of its own: its row, who was last at work, and how it ended."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    child.start()
    theirs.close()
    end, at_work = time.monotonic() + limit, ""
    ended = f"not done after {limit:g} s"
    while ours.poll(max(end - time.monotonic(), 0)):
        try:
            said = ours.recv()
        except EOFError:
            child.join()
            ended = f"the process died ({child.exitcode})"
            break
        if isinstance(said, dict):
            child.join()
            return said, at_work, ""
        at_work = said
    child.kill()
    child.join()
    return None, at_work, ended


def measure_apart(
    names: list[str], limit: float, run: Callable[[list[str]], tuple[Row | None, str, str]]
) -> Row:
    """A row from a process of its own. A peer whose work ends the process is left out the next time; during
    the turns it is not known whose work that was, so they are for loopfuse alone."""
    lost: Row = {}
    left = list(names)
    while True:
        row, at_work, ended = run(left)
        if row is not None:
            return {**row, "peers": {**row["peers"], **lost}}
        if at_work in left:
            gone = [at_work]
        elif at_work == "turns" and left:
            gone = list(left)
        else:
            return {"failed": f"{at_work}: {ended}", "peers": lost}
        for name in gone:
            left.remove(name)
            lost[name] = {"failed": ended if gone == [at_work] else f"in turns with others: {ended}"}


# ---------------------------------------------------------------------------------- the file


def read_rows(path: Path) -> dict[tuple[str, int], Row]:
    """The rows of a file by case and threads; none where there is no file of this schema."""
    made = json.loads(path.read_text()) if path.exists() else {}
    return {(row["case"], row["threads"]): row for row in made["rows"]} if made.get("schema") == SCHEMA else {}


def write_rows(path: Path, rows: dict[tuple[str, int], Row], order: list[str]) -> None:
    """Replace the file in one step: rows in the order of the cases, those of cases that are no more last."""
    from results import write_json

    def place(row: Row) -> tuple[int, int]:
        return order.index(row["case"]) if row["case"] in order else len(order), row["threads"]

    write_json(path, {"schema": SCHEMA, "unit": "ms", "rows": sorted(rows.values(), key=place)})


def versions(names: list[str]) -> tuple[dict[str, str], list[str]]:
    """The versions of loopfuse and of the peers' packages, all imported; and the peers that are there."""
    import numpy

    import loopfuse

    found = {"loopfuse": loopfuse.__version__, "python": sys.version.split()[0], "numpy": numpy.__version__}
    packages = {
        "numba": "numba", "numba parallel": "numba", "torch eager": "torch", "jax.jit": "jax",
        "halide": "halide", "pythran": "pythran", "dace": "dace",
    }  # fmt: skip
    there: list[str] = []
    for name in names:
        package = packages.get(name)
        try:
            if package is not None:
                module = __import__(package)
                found[package] = getattr(module, "__version__", None) or importlib.metadata.version(package)
        except ImportError:
            print(f"no {package} here: {name} is left out", flush=True)
            continue
        there.append(name)
    return found, there


def line_of(row: Row) -> str:
    """A row in one line."""
    if "failed" in row:
        return f"{row['case']:22} FAILED {row['failed']}"
    parts = [f"{row['ms']:9.3f} ms"]
    parts += [
        f"{name} {one['ms']:.3f} ({one['ms'] / row['ms']:.2f}x)" + ("" if one.get("right", True) else " WRONG")
        if "ms" in one
        else f"{name} failed ({one['failed'][:60]})"
        for name, one in row["peers"].items()
    ]
    wrong = "" if row.get("right", True) else " WRONG"
    return f"{row['case']:22}" + "  ".join(parts) + f"  error {row.get('error', float('nan')):.0e}{wrong}"


def options(arguments: list[str] | None) -> argparse.Namespace:
    """What was asked for."""
    from cpu_ways import PEERS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path, help="read, and written after every case")
    parser.add_argument("--only", default="", help="cases and classes, comma-separated; `jacobi*` is a prefix")
    parser.add_argument("--threads", default="2,12", help="how many, comma-separated")
    parser.add_argument("--peers", default="all", help="all, none, or names")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.8, help="of runs, for each way of a case")
    parser.add_argument("--budget", type=float, default=1800.0, help="seconds for everything")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds for the process of a case")
    parser.add_argument("--list", action="store_true")
    made = parser.parse_args(arguments)
    made.names = list(PEERS) if made.peers == "all" else [] if made.peers == "none" else made.peers.split(",")
    unknown = [name for name in made.names if name not in PEERS]
    if unknown:
        parser.error(f"no peer `{unknown[0]}`; there are {', '.join(PEERS)}")
    return made


def run_all(asked: argparse.Namespace, threads: int) -> None:
    """Measure the cases chosen on so many threads, in an environment that is set."""
    from cpu_cases import BY_KEY, chosen
    from cpu_compiled import TEXTS

    deadline = time.monotonic() + asked.budget
    now = datetime.now(UTC)
    found, names = versions(asked.names)
    device = host_name()
    rows = read_rows(asked.json) if asked.json else {}
    for case in chosen(asked.only):
        if time.monotonic() > deadline:
            print("out of time", flush=True)
            break
        row: Row = {
            "case": case.key, "group": case.group, "threads": threads, "sizes": dict(case.sizes),
            "device": device, "date": now.date().isoformat(), "run": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "versions": found, "load": round(os.getloadavg()[0], 1),
        }  # fmt: skip
        slow = [name for name in names if name in TEXTS]
        if slow:  # in a process of its own, so that the arguments' memory is not this one's
            apart = multiprocessing.get_context("fork").Process(target=compile_ahead, args=(case.key, slow))
            apart.start()
            apart.join()
        row |= measure_apart(
            names,
            asked.limit,
            lambda left, key=case.key: in_process(in_child, (key, left, asked.runs, asked.seconds), asked.limit),
        )
        for one in row["peers"].values():
            one["run"] = row["run"]
        old = rows.get((case.key, threads))
        if old is not None:
            row["peers"] = {**old["peers"], **row["peers"]}
        rows[case.key, threads] = row
        if asked.json:
            write_rows(asked.json, rows, list(BY_KEY))
        print(line_of(row), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write."""
    asked = options(arguments)
    if asked.list:
        from cpu_cases import CASES

        for case in CASES:
            print(f"{case.key:22}{case.group:20}{' '.join(f'{k}={v}' for k, v in case.sizes.items())}")
        return 0
    cpus = sorted(os.sched_getaffinity(0))
    counts = [int(word) for word in asked.threads.split(",") if int(word) <= len(cpus)]
    given = sys.argv[1:] if arguments is None else arguments
    if len(counts) > 1:
        for count in counts:
            subprocess.run([sys.executable, __file__, *given, "--threads", str(count)], check=True)
        return 0
    for count in counts:
        wanted = settings(count)
        if any(os.environ.get(name) != value for name, value in wanted.items()):
            environment = {**os.environ, **wanted}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            return subprocess.run([sys.executable, __file__, *given], env=environment, check=False).returncode
        os.sched_setaffinity(0, cpus[:count])
        run_all(asked, count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
