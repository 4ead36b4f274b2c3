"""What `ncu` shows of the cases that miss their targets: how busy the parts of the GPU are, and what
warps wait for.

    python3 benchmarks/limits.py [--json FILE] [--results gpu.json] [--only CASE:VARIANT,...] [--budget S]

Takes the rows of `gpu.json` whose goal is not met, or those named, runs each under Nsight Compute once,
and writes one row each: the longest launch of a call. Whole file or nothing is replaced. Exits with 1,
and one line, where `ncu` is missing, may not read the counters, or does not end in time.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from results import Row, read_rows, write_json  # noqa: E402

LANES = 32

WAITS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle",
    "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "no_instruction",
    "not_selected", "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip
SHARES = {
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}
"""Parts of the GPU: percent of the most that they can do."""
SUMS = {
    "nanoseconds": "gpu__time_duration.sum",
    "read": "dram__bytes_read.sum",
    "written": "dram__bytes_write.sum",
    "instructions": "smsp__inst_executed.sum",
    "warps": "sm__warps_active.avg.per_cycle_active",
}


def wait_metric(name: str) -> str:
    """Warps that wait for it, for each instruction issued."""
    return f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio"


def parse_launches(text: str) -> list[Row]:
    """One row a launch of `ncu --csv --page raw --print-units base`, metrics by their names."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.reader(lines))
    if len(table) < 2:
        return []
    head, rows = table[0], table[2:]  # the second line has units

    def value(cell: str) -> float:
        try:
            return float(cell.replace(",", ""))
        except ValueError:
            return float("nan")

    wanted = {*SHARES.values(), *SUMS.values(), *map(wait_metric, WAITS)}
    out: list[Row] = []
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        found: Row = {name: value(cell) for name, cell in cells.items() if name in wanted}
        out.append({"kernel": cells["Kernel Name"], **found})
    return out


def summary(launches: list[Row], measured: Row) -> Row:
    """What a case's longest launch shows; `measured` is its row of `gpu.json`."""
    longest = max(launches, key=lambda each: each[SUMS["nanoseconds"]])
    waits = {name: longest.get(wait_metric(name), 0.0) for name in WAITS}
    most = sorted(waits, key=lambda name: -waits[name])[:3]
    moved = longest[SUMS["read"]] + longest[SUMS["written"]]
    return {
        **{name: measured[name] for name in ("case", "variant", "title", "size")},
        "kernel": longest["kernel"],
        "launches": len(launches),
        "ms": longest[SUMS["nanoseconds"]] / 1e6,
        **{name: longest[metric] for name, metric in SHARES.items()},
        "moved": moved / measured["bytes"],
        "instructions": longest[SUMS["instructions"]] * LANES * len(launches) / measured["points"],
        "warps": longest[SUMS["warps"]],
        "waits": {name: waits[name] for name in most},
    }


def run_cases(names: list[str], done: Path) -> None:
    """Calls each case once, profiled; `done` is there when all have run."""
    import torch
    from cases import BY_KEY
    from measuring import poisoned, random_inputs

    for name in names:
        key, _, variant = name.partition(":")
        case = BY_KEY[key]
        kernel = case.load()
        arrays = case.arrays(kernel, variant)
        given = {**case.scalars, **random_inputs(arrays, "cuda"), **poisoned(arrays, "cuda")}
        arguments = tuple(given[each.name] for each in kernel.signature.parameters)
        kernel(*arguments)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        kernel(*arguments)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        del given, arguments
        torch.cuda.empty_cache()
    done.touch()


def profile(names: list[str], launches: dict[str, int], seconds: float) -> dict[str, list[Row]]:
    """The launches of each case, under `ncu`; SystemExit with one line where it cannot."""
    metrics = ",".join([*SHARES.values(), *SUMS.values(), *map(wait_metric, WAITS)])
    with tempfile.TemporaryDirectory() as folder:
        log, ended = Path(folder, "ncu.csv"), Path(folder, "ended")
        command = [
            "ncu", "--profile-from-start", "off", "--csv", "--page", "raw", "--print-units", "base",
            "--metrics", metrics, "--log-file", str(log),
            sys.executable, __file__, "--run", str(ended), *names,
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        except FileNotFoundError:
            sys.exit("ncu (Nsight Compute) is not installed")
        except subprocess.TimeoutExpired:
            sys.exit(f"ncu did not end in {seconds:.0f} s")
        text = log.read_text() if log.exists() else ""
        if done.returncode or not ended.exists():
            last = (done.stderr.strip() or text.strip() or "no reason given").splitlines()[-1]
            sys.exit(f"ncu failed: {last}")
    found = parse_launches(text)
    if len(found) != sum(launches[name] for name in names):
        sys.exit(f"ncu saw {len(found)} launches, {sum(launches.values())} were expected")
    out: dict[str, list[Row]] = {}
    for name in names:
        out[name], found = found[: launches[name]], found[launches[name] :]
    return out


def main() -> None:
    """Profile and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    results = ROOT / "benchmarks" / "results"
    parser.add_argument("--json", type=Path, default=results / "limits.json")
    parser.add_argument("--results", type=Path, default=results / "gpu.json")
    parser.add_argument("--only", default="")
    parser.add_argument("--budget", type=float, default=280.0)
    parser.add_argument("--run", nargs="+", default=[])
    given = parser.parse_args()
    if given.run:
        run_cases(given.run[1:], Path(given.run[0]))
        return
    rows = {f"{case}:{variant}": row for (case, variant), row in read_rows(given.results).items()}
    missed = [n for n, row in rows.items() if not row.get("goal", {}).get("met", True)]
    names = given.only.split(",") if given.only else missed
    if unknown := [name for name in names if "loopfuse" not in rows.get(name, {})]:
        sys.exit(f"{given.results} has no figures of {unknown[0]}")
    if not names:
        sys.exit(f"{given.results} has no row that misses its target")
    found = profile(names, {name: rows[name]["launches"] for name in names}, given.budget)
    made = {
        "device": rows[names[0]]["device"],
        "date": date.today().isoformat(),
        "rows": [summary(found[name], rows[name]) for name in names],
    }
    write_json(given.json, made)
    for row in made["rows"]:
        waits = ", ".join(f"{name} {value:.2f}" for name, value in row["waits"].items())
        print(
            f"{row['case']:13} {row['variant']:8} {row['ms']:.3f} ms  moved {row['moved']:.2f}  dram "
            f"{row['dram']:.0f} %  l2 {row['l2']:.0f} %  l1 {row['l1']:.0f} %  issue {row['issue']:.0f} %  "
            f"warps {row['warps']:.1f}  instructions {row['instructions']:.1f}  waits: {waits}"
        )


if __name__ == "__main__":
    main()
