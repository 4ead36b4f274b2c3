"""How far the planner's own choices are from the tuned ones, case by case.

    python3 benchmarks/tuned.py [--json FILE] [--only CASE,...] [--sizes round|awkward|tiny]
                                [--target cpu|gpu] [--seconds PER_CASE] [--within 1.10]

Searches for a tuning of every case that has something to choose (`loopfuse.tuning`), prints the
default's time, the tuned one's and what was found, and exits with 1 where the default takes more
than `--within` times the tuned time, or a trial computed something else. The file is written after
each case; its rows of other cases, measured on the same device, stay, with their dates. Searches are
remembered in the disk cache: empty it to search again.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import warnings
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import numpy as np  # noqa: E402
from cases import Case, chosen  # noqa: E402
from results import write_json  # noqa: E402

from loopfuse import pipeline  # noqa: E402
from loopfuse.base.options import Options, Target, Tuning  # noqa: E402
from loopfuse.kernels.trial import random_arguments  # noqa: E402
from loopfuse.tuning.space import axes, describe  # noqa: E402


def arguments_of(kernel: Any, case: Case, variant: str, on_gpu: bool) -> dict[str, Any]:
    """Random data for a call, on the device that is asked for."""
    sizes = {**case.sizes(variant)}
    numbers = {n: v for n, v in case.scalars.items() if isinstance(v, int)}
    found = random_arguments(kernel, {**sizes, **numbers}, 0) | dict(case.scalars)
    if not on_gpu:
        return found
    from loopfuse.runtime.devices.gpu_arrays import DeviceArray

    return {n: DeviceArray(v) if isinstance(v, np.ndarray) else v for n, v in found.items()}


def tune_case(case: Case, variant: str, target: Target, seconds: float) -> dict[str, Any] | None:
    """One case's row; None where there is nothing to choose."""
    kernel = case.load()
    choices = pipeline.find_choices(kernel.program(), kernel.name, Options(target=target))
    if not axes(Tuning(), choices, target.is_gpu):
        return None
    kernel = kernel.with_options(tune=True, tune_budget=seconds)
    found = kernel.tune(**arguments_of(kernel, case, variant, target.is_gpu))
    return {
        "case": case.key, "sizes": variant, "default": found.default_seconds,
        "tuned": found.seconds, "gain": found.gain, "found": asdict(found.tuning),
        "words": describe(found.tuning), "tried": found.tried, "complete": found.complete,
        "wrong": list(found.wrong), "seconds": seconds, "date": str(date.today()),
    }  # fmt: skip


def kept_rows(file: Path | None, device: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rows that the file has of this device, by case and sizes."""
    if file is None or not file.exists():
        return {}
    made = json.loads(file.read_text())
    if made["device"] != device:
        return {}
    common = {"seconds": made["seconds"], "date": made["date"]}
    return {(row["case"], row["sizes"]): common | row for row in made["rows"]}


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", choices=["round", "awkward", "tiny"], default="round")
    parser.add_argument("--target", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--within", type=float, default=1.10)
    given = parser.parse_args(arguments)
    target, device = Target("cpu"), platform.processor() or platform.machine()
    if given.target == "gpu":
        from loopfuse.runtime.devices import cuda

        found = cuda.need_gpu()
        target, device = Target(found.target), found.name
    warnings.simplefilter("ignore")
    rows = kept_rows(given.json, device)
    good = True
    for case in chosen(given.only):
        try:
            row = tune_case(case, given.sizes, target, given.seconds)
        except Exception as error:  # the other cases are still worth knowing
            print(
                f"{case.key:<16} {type(error).__name__}: {str(error).splitlines()[0]}", flush=True
            )
            good = False
            continue
        gc.collect()
        if row is None:
            continue
        rows[row["case"], row["sizes"]] = row
        far = row["gain"] > given.within or bool(row["wrong"])
        good = good and not far
        print(
            f"{row['case']:<16}{row['default'] * 1e3:10.3f} ms{row['tuned'] * 1e3:10.3f} ms"
            f"{row['gain']:7.2f}{' FAR' if far else '    '} {row['words']}"
            f"{'' if row['complete'] else ' (not searched to the end)'}",
            flush=True,
        )
        for text in row["wrong"]:
            print(f"    DIFFERS {text}", flush=True)
        if given.json is not None:
            made = {"target": target.name, "device": device, "date": str(date.today()),
                    "seconds": given.seconds, "rows": list(rows.values())}  # fmt: skip
            write_json(given.json, made)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
