"""Times loopfuse beside its peers and a plain copy, on one GPU.

    python3 benchmarks/gpu.py [--json FILE] [--only CASE,...] [--sizes all] [--peers none|all|NAME,...]
                              [--budget SECONDS] [--jobs N] [--list]

Medians over 25 runs after a warm-up, fresh random data, outputs poisoned before the checked run,
results compared with the same formula in float64. The copy reads and writes the same bytes in the
same run. First every kernel is compiled, in as many processes as `--jobs` says; then loopfuse is
timed on every case, then the peers; the file is written after each. When the budget is spent, the run
stops and what it has is in the file. A partial run changes only its own rows. Docs:
`python benchmarks/make_performance.py` makes docs/performance.md of it.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
# JAX takes three quarters of the memory when it is first used, unless it is told not to.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import torch  # noqa: E402
from cases import BY_KEY, Array, Case, chosen, count_launches  # noqa: E402
from measuring import (  # noqa: E402
    Clock,
    Error,
    check,
    compare,
    poisoned,
    random_inputs,
)
from peers import PEERS  # noqa: E402
from results import Row, merge_row, read_rows, write_rows  # noqa: E402

import loopfuse  # noqa: E402


def one_line(error: BaseException) -> str:
    """An error in a few words."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def size_text(shape: tuple[int, ...]) -> str:
    """`8192 x 8192`; a power of two alone as `2^28`."""
    if len(shape) == 1 and shape[0] > 4096 and shape[0] & (shape[0] - 1) == 0:
        return f"2^{shape[0].bit_length() - 1}"
    return " x ".join(str(extent) for extent in shape)


def compile_one(key: str, target: str, fp: str) -> tuple[str, str]:
    """Compile a case into the cache, in a process of its own; what it failed at or warned of."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kernel = BY_KEY[key].load(fp=fp)
            kernel.compile(target, emit=frozenset({"ptx", "cubin"}), index_bits=32)
    except Exception as error:  # told again, at its row
        return key, one_line(error)
    return key, "; ".join(str(one.message) for one in caught if one.category is UserWarning)


def compile_ahead(
    cases: tuple[Case, ...], target: str, jobs: int, deadline: float
) -> dict[str, str]:
    """Fill the cache with the cases' machine code, several at a time; the cases with problems."""
    problems: dict[str, str] = {}
    start = time.monotonic()
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"))
    found = [
        pool.submit(compile_one, case.key, target, fp)
        for case in cases
        for fp in ("fast", *["native"] * case.approximates())
    ]
    for one in found:
        try:
            key, problem = one.result(max(deadline - time.monotonic(), 0.1))
        except Exception as error:  # out of time, or a process that died
            print(f"compiling ahead: {one_line(error)}", flush=True)
            continue
        if problem:
            problems[key] = problem
            print(f"{key}: {problem}", flush=True)
    pool.shutdown(wait=False, cancel_futures=True)
    print(f"compiled {len(found)} kernels in {time.monotonic() - start:.1f} s", flush=True)
    return problems


class Bench:
    """One run: its clock, its rows, its deadline (monotonic). `device` is `cuda`, or `cpu` to
    rehearse."""

    def __init__(self, path: Path | None, device: str, deadline: float, clock: Clock) -> None:
        self.path, self.device, self.deadline, self.clock = path, device, deadline, clock
        self.rows = read_rows(path) if path else {}
        now = datetime.now(UTC)
        self.run, self.date = now.strftime("%Y-%m-%dT%H:%M:%SZ"), now.date().isoformat()
        self.name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        self.versions = {"loopfuse": loopfuse.__version__, "torch": torch.__version__}
        self.kernels: dict[tuple[str, str], Any] = {}
        self.problems: dict[str, str] = {}

    @property
    def spent(self) -> bool:
        """True when the budget is."""
        return time.monotonic() > self.deadline

    def keep(self, row: Row) -> None:
        """Put a row in the file."""
        key = (row["case"], row["variant"])
        self.rows[key] = merge_row(self.rows.get(key), row)
        if self.path:
            write_rows(self.path, self.rows, list(BY_KEY))

    def tidy(self) -> None:
        """Give memory back between cases."""
        gc.collect()
        self.clock.free()

    def kernel(self, case: Case, fp: str = "fast") -> Any:
        """The case's kernel, read once: both sizes run the same machine code."""
        if (case.key, fp) not in self.kernels:
            self.kernels[case.key, fp] = case.load(fp=fp)
        return self.kernels[case.key, fp]

    # ---- loopfuse

    def time_case(self, case: Case, variant: str) -> Row:
        """Time loopfuse on a case, keep the row, print its line."""
        row: Row = {
            "case": case.key,
            "variant": variant,
            "title": case.title,
            "run": self.run,
            "date": self.date,
            "device": self.name,
            "versions": self.versions,
            "runs": self.clock.runs,
            "peers": {},
        }
        try:
            self._time(case, variant, row)
        except Exception as error:  # one case must not cost the others
            row["failed"] = one_line(error)
        if case.key in self.problems:
            row["problem"] = self.problems[case.key]
        self.keep(row)
        self.tidy()
        print(line_of(row), flush=True)
        return row

    def _time(self, case: Case, variant: str, row: Row) -> None:
        kernel = self.kernel(case)
        arrays = case.arrays(kernel, variant)
        row["size"] = list(max(arrays, key=lambda one: one.bytes).shape)
        row["bytes"], row["points"] = case.moved(arrays), case.points(arrays)
        inputs = random_inputs(arrays, self.device)
        held = {
            one.name: inputs[one.name].clone()
            for one in arrays
            if one.mode == "inout"
        } | poisoned(arrays, self.device)  # fmt: skip
        given = tuple(
            held.get(p.name, inputs.get(p.name, case.scalars.get(p.name)))
            for p in kernel.signature.parameters
        )
        start = time.perf_counter()
        kernel(*given)
        self.clock.wait()
        row["first_call"] = (time.perf_counter() - start) * 1e3
        error = check(case, arrays, {**inputs, **case.scalars}, held)
        note_error(row, error, arrays)
        row.update(self._facts(case, kernel, variant))
        row["copy"] = self.clock.copy(case, row["bytes"]).median
        found = self.clock.of_case(case, lambda: kernel(*given))
        row["loopfuse"], row["low"], row["high"] = found.median, found.low, found.high
        row["share"] = row["copy"] / found.median
        row["gpoints"] = row["points"] / found.median / 1e6
        if case.approximates():
            row["native"] = self._time_native(case, arrays, inputs, row)
        if case.sweeps:
            row["sweeps"] = case.sweeps
            row["sweeps_per_copy"] = case.sweeps * row["share"]
        if case.goal is not None:
            met = bool(row["right"]) and case.goal.met(row)
            row["goal"] = {"kind": case.goal.kind, "value": case.goal.value, "met": met}

    def _time_native(
        self, case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any], row: Row
    ) -> Row:
        """The same under `fp="native"`, or what went wrong."""
        try:
            kernel = self.kernel(case, "native")
            held = {one.name: inputs[one.name].clone() for one in arrays if one.mode == "inout"}
            held |= poisoned(arrays, self.device)
            given = tuple(
                held.get(p.name, inputs.get(p.name, case.scalars.get(p.name)))
                for p in kernel.signature.parameters
            )
            kernel(*given)
            self.clock.wait()
            error = check(case, arrays, {**inputs, **case.scalars}, held)
            entry: Row = {}
            note_error(entry, error, arrays, "native")
            found = self.clock.of_case(case, lambda: kernel(*given))
        except Exception as problem:
            return {"failed": one_line(problem)}
        share = row["copy"] / found.median
        return {**entry, "ms": found.median, "low": found.low, "high": found.high, "share": share}

    def _facts(self, case: Case, kernel: Any, variant: str) -> Row:
        """Launches and registers of the code that ran, where they are to be had."""
        try:
            loaded = next(reversed(kernel._loaded.values()))
            values = {**case.sizes(variant), **case.scalars}
            facts: Row = {"launches": count_launches(loaded.manifest["steps"], values)}
            if self.device == "cuda":
                made = kernel.compile(
                    loaded.manifest["target"],
                    emit=frozenset({"ptx", "cubin"}),
                    index_bits=loaded.bits,
                )
                facts["registers"] = made.registers
        except Exception as error:  # facts are worth having, not worth a row
            return {"facts_failed": one_line(error)}
        return facts

    # ---- peers

    def time_peers(self, case: Case, variant: str, names: tuple[str, ...]) -> None:
        """Time peers on a case whose row is there already."""
        row = self.rows.get((case.key, variant))
        if row is None or row["run"] != self.run:
            return
        arrays = case.arrays(self.kernel(case), variant)
        inputs = {**random_inputs(arrays, self.device), **case.scalars}
        for name in names:
            if self.spent:
                break
            start = time.monotonic()
            found = self._time_peer(case, arrays, inputs, name)
            if found is not None:
                found["run"], found["seconds"] = self.run, round(time.monotonic() - start, 1)
                if "ms" in found and "loopfuse" in row:
                    found["ratio"] = found["ms"] / row["loopfuse"]
                self.keep({**row, "peers": {name: found}})
            self.tidy()
        del inputs
        self.tidy()
        print(peers_line(self.rows[case.key, variant], self.run), flush=True)

    def _time_peer(
        self, case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any], name: str
    ) -> Row | None:
        """A peer's entry: its time, or what went wrong; None where it has no version."""
        try:
            prepared = PEERS[name](case, arrays, inputs)
            if prepared is None:
                return None
            result = prepared.call()
            error = compare(case, inputs, prepared.outputs(result))
            del result
            self.tidy()
            if case.back_to_back:
                found = self.clock.back_to_back(prepared.call)
            elif prepared.wait is not None:
                found = self.clock.of_host(prepared.call, prepared.wait, 5)
            else:
                found = self.clock.of_device(prepared.call)
        except Exception as problem:  # a peer that fails is a row that says so
            return {"failed": one_line(problem)}
        entry: Row = {"ms": found.median, "low": found.low, "high": found.high}
        note_error(entry, error, arrays)
        return entry


def note_error(row: Row, error: Error, arrays: tuple[Array, ...], fp: str = "fast") -> None:
    """The error in a row, and whether the outputs' dtype allows it."""
    written = next(one for one in arrays if one.mode != "in")
    row["error"], row["worst"] = error.norm, error.worst
    row["right"] = error.within(written.dtype, fp)
    if error.fault:
        row["fault"] = error.fault


# ------------------------------------------------------------------------------------- lines


def line_of(row: Row) -> str:
    """A row in one line."""
    size = size_text(tuple(row.get("size", ())))
    head = f"{row['case']:15}{size:21}"
    if "failed" in row:
        return f"{head} FAILED {row['failed']}"
    parts = [f"{row['loopfuse']:9.4f} ms", f"{row['share']:5.2f} of copy"]
    parts.append(f"{row['sweeps_per_copy']:5.2f} sweeps/copy" if "sweeps" in row else " " * 17)
    parts.append(f"{row['gpoints']:7.0f} Gpt/s")
    if "goal" in row:
        goal = row["goal"]
        parts.append(f"{'met' if goal['met'] else 'MISSED'} {goal['kind']} {goal['value']:g}")
    parts.append(
        f"error {row['error']:.0e}" + ("" if row["right"] else f" WRONG {row.get('fault', '')}")
    )
    registers = row.get("registers") or {}
    if registers:
        parts.append(f"{max(registers.values())} registers")
    if "native" in row:
        found = row["native"]
        parts.append(
            f"native FAILED {found['failed']}" if "failed" in found else
            f"native {found['ms']:.4f} ms {found['share']:5.2f} of copy, error {found['error']:.0e}"
            + ("" if found["right"] else " WRONG")
        )  # fmt: skip
    if "launches" in row:
        parts.append(f"{row['launches']} launches")
    return head + "  ".join(parts)


def peers_line(row: Row, run: str) -> str:
    """The peers of a row that this run timed, in one line."""
    parts: list[str] = []
    for name, one in row["peers"].items():
        if one["run"] != run:
            continue
        if "failed" in one:
            parts.append(f"{name} failed ({one['failed'][:60]})")
        else:
            ratio = f" ({one['ratio']:.2f}x)" if "ratio" in one else ""
            parts.append(f"{name} {one['ms']:.4f}{ratio}{'' if one['right'] else ' WRONG'}")
    return f"{row['case']:15}  {row['variant']:8} " + "; ".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="read, and written after every case")
    parser.add_argument("--only", default="", help="cases, comma-separated; `blur*` is a prefix")
    parser.add_argument("--sizes", default="all", choices=("round", "awkward", "tiny", "all"))
    parser.add_argument("--peers", default="all", help="all, none, or names")
    parser.add_argument(
        "--peer-sizes", default="round", choices=("round", "awkward", "tiny", "all")
    )
    parser.add_argument("--budget", type=float, default=1e9, help="seconds")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 16))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    cases = chosen(options.only)
    if options.list:
        print("\n".join(f"{case.key:15} {case.title}" for case in cases))
        return 0
    everyone = tuple(PEERS)
    names = everyone if options.peers == "all" else tuple(filter(None, options.peers.split(",")))
    names = () if names == ("none",) else names
    for name in names:
        if name not in PEERS:
            parser.error(f"no peer `{name}`; there are {', '.join(everyone)}")
    torch.seed()
    torch.backends.cudnn.allow_tf32 = False  # f32 is f32, for the peers' convolutions too
    both = ("round", "awkward")
    variants = both if options.sizes == "all" else (options.sizes,)
    peer_variants = both if options.peer_sizes == "all" else (options.peer_sizes,)
    start = time.monotonic()
    problems: dict[str, str] = {}
    if options.device == "cuda" and options.jobs > 1:
        # Before PyTorch starts the GPU: these are forks of this process.
        from loopfuse.runtime.devices import cuda

        target = cuda.need_gpu(0).target
        problems = compile_ahead(cases, target, options.jobs, start + options.budget)
    clock = Clock(options.device, options.runs)
    bench = Bench(options.json, options.device, start + options.budget, clock)
    bench.problems = problems
    print(f"{bench.name}, {bench.run}, budget {options.budget:g} s", flush=True)
    timed = 0
    for case in cases:
        for variant in variants:
            if not bench.spent:
                bench.time_case(case, variant)
                timed += 1
    for case in cases if names else ():
        for variant in variants:
            if variant in peer_variants and not bench.spent:
                bench.time_peers(case, variant, names)
    left = len(cases) * len(variants) - timed
    print("out of time: " + (f"{left} rows not timed" if left else "some peers not timed")
          if bench.spent else "done", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
