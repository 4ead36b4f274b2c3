"""A process that makes one failing program smaller: `python -m fuzz.shrinker JOB`, see `campaign`.

Every improvement is written to the job's `target` at once, so that the parent has the best one
found even if this process is killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fuzz.choices import Replay
from fuzz.compare import compare
from fuzz.generate import generate
from fuzz.program import Program, case_text, read_program_file
from fuzz.shrink import shrink
from fuzz.worker import program_number


def compare_once(program: Program, gpu: bool) -> str | None:
    """The kind of the failure, or None."""
    extra = None
    if gpu:
        from fuzz.gpu import compare_on_gpu

        extra = compare_on_gpu
    failure = compare(program, extra).failure
    return failure.kind if failure else None


def compare_apart(program: Program, gpu: bool, seconds: float = 60.0) -> str | None:
    """The same in a process of its own, which may crash or hang."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.lf"
        file.write_text(case_text(program))
        command = [
            sys.executable,
            "-m",
            "fuzz.shrinker",
            json.dumps({"one": str(file), "gpu": gpu}),
        ]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return f"hang: over {seconds:.0f} s"
    if done.returncode:
        return f"crash: exit status {done.returncode}"
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """See the module."""
    job: dict[str, Any] = json.loads(sys.argv[1])
    gpu = bool(job.get("gpu"))
    if "one" in job:
        print(json.dumps(compare_once(read_program_file(Path(job["one"])), gpu)))
        return
    target, kind = Path(job["target"]), job["kind"]

    def fails(program: Program) -> str | None:
        found = (compare_apart if job["apart"] else compare_once)(program, gpu)
        if found == kind:
            target.write_text(case_text(program))
        return found

    def make(replay: Replay) -> Program:
        return generate(replay, job["profile"])

    program, taken = program_number(job["seed"], job["number"], job["profile"])
    smallest = shrink(program, taken, make, fails, kind, job["seconds"])
    target.write_text(case_text(smallest))


if __name__ == "__main__":
    main()
