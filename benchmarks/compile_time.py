"""How long each example takes to compile, stage by stage, in process and without imports.

    python benchmarks/compile_time.py [--target sm_90] [--repeat 5] [--json FILE]

Medians over the repeats, in milliseconds. `total` is text to PTX (or object); `verify` is the
checker's part of it, `share` its share; `ptxas` stands apart, since the driver or nvJitLink may
do that work instead.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options, parse_target
from loopfuse.codegen.targets.assemble import assemble

EXAMPLES = Path(__file__).parent.parent / "examples"
STAGES = ("parse", "check", "model", "dependences", "simplify", "fuse", "schedule", "verify",
          "lower", "llvm", "emit")  # fmt: skip


def measure(path: Path, target: str, repeat: int) -> dict[str, float]:
    """Median milliseconds per stage for one example (all its kernels together)."""
    options = Options(target=parse_target(target))
    runs: list[dict[str, float]] = []
    for _ in range(repeat):
        run = pipeline.Run()
        start = time.perf_counter()
        program = pipeline.read_program(Source(path.name, path.read_text()), run=run)
        ptx: list[str] = []
        for kernel in program.kernels:
            artifact = pipeline.compile_kernel(program, kernel.name, options, run=run)
            ptx.append(artifact.ptx)
        total = time.perf_counter() - start
        start = time.perf_counter()
        if options.target.is_gpu:
            for text in ptx:
                assemble(text, options.target)
        runs.append({**run.seconds, "total": total, "ptxas": time.perf_counter() - start})
    keys = (*STAGES, "total", "ptxas")
    return {key: statistics.median(r.get(key, 0.0) for r in runs) * 1e3 for key in keys}


def main() -> None:
    """Print the table; write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    files = options.files or sorted(EXAMPLES.glob("*.lf"))
    measure(files[0], options.target, 1)  # imports and first-use costs
    rows: dict[str, dict[str, float]] = {}
    heads = ("parse", "check", "model", "deps", "simpl", "fuse", "sched", "verify", "mlir",
             "llvm", "emit", "total", "ptxas")  # fmt: skip
    print(f"{'':24}" + "".join(f"{head:>7}" for head in heads) + "  share")
    for path in files:
        row = rows[path.stem] = measure(path, options.target, options.repeat)
        share = row["verify"] / row["total"]
        print(f"{path.stem:24}" + "".join(f"{v:7.1f}" for v in row.values()) + f"  {share:5.0%}")
    totals = [row["total"] for row in rows.values()]
    shares = [row["verify"] / row["total"] for row in rows.values()]
    print(f"median total {statistics.median(totals):.1f} ms, worst {max(totals):.1f} ms; "
          f"median share of the checker {statistics.median(shares):.0%}")  # fmt: skip
    if options.json:
        made = {
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "target": options.target,
            "versions": {"loopfuse": __import__("loopfuse").__version__},
            "unit": "ms",
            "rows": rows,
        }
        options.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
