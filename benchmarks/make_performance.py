"""Writes docs/performance.md from benchmarks/results: every row measured, unflattering ones too.

python benchmarks/make_performance.py [--check]
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"

HEAD = """# Performance

Made by `benchmarks/make_performance.py` from the results in `benchmarks/results`; every case that
was measured is here. Run `python3 benchmarks/gpu.py --json benchmarks/results/gpu.json` on a GPU
machine and `python benchmarks/compile_time.py --json benchmarks/results/compile_time.json` anywhere
to measure again.
"""


def gpu_section(made: dict[str, Any]) -> str:
    """The table of device times."""
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    lines = [
        "## Kernels on a GPU",
        "",
        f"{made['device']}, {made['date']}; {versions}; medians of {made['runs']} runs, device time in",
        "milliseconds. `copy` is a device-to-device copy of the bytes that a perfect fusion moves, in",
        "the same run; `of copy` is that time over loopfuse's. `error` is the relative error in the",
        "2-norm against float64.",
        "",
        "| case | copy | loopfuse | of copy | unfused | torch.compile | jax.jit | torch eager | error |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in made["rows"]:
        cells = [
            f"{row['copy']:.3f}",
            f"**{row['loopfuse']:.3f}**",
            f"{row['copy'] / row['loopfuse']:.2f}",
            f"{row['unfused']:.3f}",
            *(
                f"{row[key]:.3f}" if row.get(key) else ""
                for key in ("torch_compile", "jax_jit", "torch_eager")
            ),
            f"{row['error']:.0e}",
        ]
        lines.append(f"| {row['case']} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Point-wise chains and whole reductions run at the speed of a copy. Stencil chains are fused by",
        "recomputation so far, which moves few bytes and costs instructions: the separable blur beats",
        "both compilers, the 5x5 unsharp mask and Harris do not beat torch.compile yet. Row reductions",
        "(softmax) run one thread a row and are far from the peers; the strategies for both are the",
        "next parts of the plan.",
    ]
    return "\n".join(lines)


def launch_section(made: dict[str, Any]) -> str:
    """The table of host time per call."""
    rows = made["rows"]
    out = [
        "## Host time of a call",
        "",
        f"{made['gpu']}, {made['date']}, Python {made['python']}; microseconds a call, medians, arrays",
        "ready. What a call checks every time (types, shapes, devices, overlap) is in loopfuse's figure.",
        "",
    ]
    for kind in ("gpu", "cpu"):
        names = list(
            dict.fromkeys(k for row in rows[kind] for k in row if k not in ("arrays", "elements"))
        )
        heads = [
            f"{row['arrays']} arrays" + (f" of {row['elements']}" if kind == "cpu" else "")
            for row in rows[kind]
        ]
        out += [f"| {kind.upper()} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
        for name in names:
            cells = [f"{row[name]:.1f}" if row.get(name) is not None else "" for row in rows[kind]]
            out.append(f"| {name} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out).rstrip()


def compile_section(made: dict[str, Any]) -> str:
    """The table of compile times."""
    lines = [
        "## Compiling",
        "",
        f"In process, without imports, {made['target']}, Python {made['python']}, two cores; medians in",
        "milliseconds. `verify` is the checker's part of `total`; `ptxas` comes on top, where the driver",
        "does not do that work.",
        "",
        "| example | total | verify | share | ptxas |",
        "|---|---|---|---|---|",
    ]
    rows: dict[str, dict[str, float]] = made["rows"]
    for name, row in rows.items():
        share = row["verify"] / row["total"]
        lines.append(
            f"| {name} | {row['total']:.0f} | {row['verify']:.0f} | {share:.0%} | {row['ptxas']:.0f} |"
        )
    totals = [row["total"] for row in rows.values()]
    lines += ["", f"Median {statistics.median(totals):.0f} ms, worst {max(totals):.0f} ms."]
    return "\n".join(lines)


def make_page() -> str:
    """The page's text, from whatever results there are."""
    parts = [HEAD]
    for name, section in (
        ("gpu", gpu_section),
        ("launch", launch_section),
        ("compile_time", compile_section),
    ):
        path = RESULTS / f"{name}.json"
        if path.exists():
            parts.append(section(json.loads(path.read_text())) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == make_page() else 1)
    PAGE.write_text(make_page())
