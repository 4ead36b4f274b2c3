"""One process of a campaign: makes programs by number, compares them, tells in JSON lines.

    python -m fuzz.worker '{"seed": 0, "first": 0, "step": 2, "limit": 500, "gpu": false}'

A line `{"start": number}` before each program and `{"done": number, ...}` after it: if the process
dies or hangs, the parent knows at which program. Ends after `limit` programs, so that what leaks in
a library stays small; before program `end`, if that is not 0; or when the GPU is lost.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any

from fuzz.choices import RandomChoices
from fuzz.compare import Outcome, compare
from fuzz.generate import generate
from fuzz.program import Program

GPU_LOST = 3
"""Exit status after an error that leaves the GPU context unusable."""


def program_number(seed: int, number: int, profile: str = "") -> tuple[Program, list[int]]:
    """Program `number` of the campaign with `seed`, and the decisions it was made by."""
    choices = RandomChoices(f"{seed}:{number}")
    program = generate(choices, profile)
    return program, choices.taken


def main() -> None:
    """See the module."""
    job: dict[str, Any] = json.loads(sys.argv[1])
    tell = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever prints, prints elsewhere
    sys.set_int_max_str_digits(0)
    extra = None
    if job.get("gpu"):
        from fuzz.gpu import compare_on_gpu

        extra = compare_on_gpu
    number = job["first"]
    for _ in range(job["limit"]):
        if job.get("end") and number >= job["end"]:
            break
        tell.write(json.dumps({"start": number}) + "\n")
        start = time.monotonic()
        program, _ = program_number(job["seed"], number, job.get("profile", ""))
        outcome: Outcome = compare(program, extra)
        told = {"done": number, "seconds": time.monotonic() - start, **asdict(outcome)}
        told["features"] = program.features
        tell.write(json.dumps(told, default=str) + "\n")
        if outcome.failure is not None and "cuda-error" in outcome.failure.kind:
            os._exit(GPU_LOST)
        number += job["step"]


if __name__ == "__main__":
    main()
