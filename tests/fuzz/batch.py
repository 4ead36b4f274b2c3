"""Batches: programs made and compiled here, run on a GPU machine in one go.

A batch is a folder of `PART.jsonl.gz` files, a line a program: how it was made, the PTX and the
manifest of each way to run it (unfused, fused, fused with reductions free), and what the arrays must
hold then. Running it compiles nothing of ours: the driver takes the PTX.
"""

from __future__ import annotations

import base64
import gzip
import json
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from case_files import same_bits
from engines import is_wide

from fuzz import engines
from fuzz.compare import described, first_difference, has_reductions
from fuzz.engines import Ran, Session
from fuzz.program import Program, case_text
from fuzz.worker import GPU_LOST, program_number
from loopfuse import pipeline
from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.base.options import Options, Target

PART = 50
"""Programs a file, and a process of the run."""

WAYS = (("unfused", 0, False), ("fused", None, False), ("reordered", None, True))


# ------------------------------------------------------------------------------------ making


def make(folder: Path, count: int, seed: int, jobs: int, target: str, profile: str = "") -> int:
    """Write a batch of `count` programs; 0."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [
        (folder / f"{seed}_{start:06d}.jsonl.gz", range(start, min(count, start + PART)), seed, target, profile)
        for start in range(0, count, PART)
    ]  # fmt: skip
    started, made, refused = time.monotonic(), 0, 0
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=4) as pool:
        for done, left in pool.imap_unordered(_make_part, parts):
            made, refused = made + done, refused + left
            print(f"\r{made} compiled, {refused} left out", end="", file=sys.stderr, flush=True)
    size = sum(path.stat().st_size for path in folder.glob("*.jsonl.gz"))
    print(f"\n{made} programs in {folder}, {size / 1e6:.1f} MB, {time.monotonic() - started:.0f} s")
    return 0


def _make_part(job: tuple[Path, range, int, str, str]) -> tuple[int, int]:
    path, numbers, seed, target, profile = job
    made = refused = 0
    with gzip.open(path, "wt", encoding="ascii") as file:
        for number in numbers:
            program, _ = program_number(seed, number, profile)
            try:
                line = compiled(program, target)
            except LoopfuseError:
                refused += 1
                continue
            file.write(json.dumps({"number": number, "seed": seed, **line}) + "\n")
            made += 1
    return made, refused


def compiled(program: Program, target: str) -> dict[str, Any]:
    """A line of a batch: the program, its code and its results."""
    from fuzz.gpu import poisoned

    ways: dict[str, Any] = {}
    program = replace(program, views=(), together=())  # the code is for packed arrays
    with engines.session(program) as it:
        expected = engines.interpret(it)
        poisoned(expected, it)
        for name, fuel, reassociate in WAYS:
            right = expected
            if reassociate:
                if not has_reductions(it.kernel):
                    continue
                planned = engines.plan(it, target, fuel, True)
                if is_wide(planned):
                    continue
                right = engines.run_planned(it, planned.tree)
            options = Options(
                target=Target(target),
                fp=program.fp,
                reassociate=reassociate,
                fuel=fuel,
                index_bits=32,
                tuning=engines.SMALL,
            )
            emit = frozenset({"ptx" if options.target.is_gpu else "object"})
            artifact = pipeline.compile_kernel(it.checked, it.kernel.name, options, emit=emit)
            ways[name] = {
                "artifact": {k: _as_text(v) for k, v in asdict(artifact).items()},
                "results": {k: _packed(v) for k, v in right.arrays.items()},
                "places": sorted({o[-1] for o in right.offences}),
            }
        start = {p.name: _packed(it.arguments[p.name]) for p in it.kernel.arrays}
    return {"program": asdict(program), "arguments": start, "ways": ways}


def _as_text(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _as_bytes(value: Any) -> Any:
    held = isinstance(value, dict) and list(value) == ["base64"]
    return base64.b64decode(value["base64"]) if held else value


def _packed(array: np.ndarray) -> list[Any]:
    data = zlib.compress(np.ascontiguousarray(array).tobytes(), 6)
    return [str(array.dtype), list(array.shape), base64.b64encode(data).decode()]


def _unpacked(stored: list[Any]) -> np.ndarray:
    import ml_dtypes

    name, shape, data = stored
    dtype = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    raw = zlib.decompress(base64.b64decode(data))
    return np.frombuffer(raw, dtype).reshape(shape).copy()


# ----------------------------------------------------------------------------------- running


@dataclass
class _Part:
    """A process at work on a part: at program `at` since `since`."""

    path: str
    at: int
    process: Any
    pipe: Any
    since: float


def run(folder: Path, jobs: int, failures: Path, timeout: float = 120.0) -> int:
    """Run every part of a batch; 1 if anything differed. Where a process dies or hangs, that is a
    failure of the program it was at, and another goes on behind it."""
    started = time.monotonic()
    todo = [(str(path), 0) for path in sorted(folder.glob("*.jsonl.gz"))]
    kinds: Counter[str] = Counter()
    programs = calls = 0
    running: list[_Part] = []
    while todo or running:
        while todo and len(running) < jobs:
            running.append(_started(*todo.pop(0)))
        ready = multiprocessing.connection.wait([part.pipe for part in running], 1.0)
        for part in list(running):
            if part.pipe in ready:
                try:
                    told = part.pipe.recv()
                except EOFError:
                    running.remove(part)
                    part.process.join()
                    if part.process.exitcode == GPU_LOST:
                        todo.append((part.path, part.at))
                    elif part.process.exitcode:
                        kinds[f"crash: exit status {part.process.exitcode}"] += 1
                        _write_at(failures, part, f"crash: exit status {part.process.exitcode}")
                        todo.append((part.path, part.at + 1))
                    continue
                part.at, part.since = told["at"] + 1, time.monotonic()
                programs += 1
                calls += told["calls"]
                for kind, detail in told["failures"]:
                    kinds[kind] += 1
                    _write(failures, f"{kind}\n{detail}", told)
            elif time.monotonic() - part.since > timeout:
                running.remove(part)
                part.process.kill()
                part.process.join()
                kinds[f"hang: over {timeout:.0f} s"] += 1
                _write_at(failures, part, "hang")
                todo.append((part.path, part.at + 1))
        shown = f"\r{programs} programs, {calls} calls, {sum(kinds.values())} failures"
        print(shown, end="", file=sys.stderr, flush=True)
    print(
        f"\n{programs} programs, {calls} calls on the GPU, {sum(kinds.values())} failures, "
        f"{time.monotonic() - started:.0f} s"
    )
    for kind, count in kinds.most_common():
        print(f"  {count}  {kind}")
    return 1 if kinds or not programs else 0


def _started(path: str, first: int) -> _Part:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_part, args=(path, first, theirs))
    process.start()
    theirs.close()
    return _Part(path, first, process, ours, time.monotonic())


def _write_at(failures: Path, part: _Part, notes: str) -> None:
    line = next((one for at, one in enumerate(lines_of(part.path)) if at == part.at), None)
    if line is not None:
        _write(failures, notes, line)


def _write(failures: Path, notes: str, told: dict[str, Any]) -> None:
    failures.mkdir(parents=True, exist_ok=True)
    path = failures / f"gpu_{told['seed']}_{told['number']}.lf"
    path.write_text(case_text(_program(told["program"]), notes))


def _program(stored: dict[str, Any]) -> Program:
    values = {one.name: stored[one.name] for one in fields(Program)}
    for name in ("views", "shared"):
        values[name] = tuple(tuple(pair) for pair in values[name])
    return Program(**{**values, "features": tuple(values["features"])})


def lines_of(path: str) -> Iterator[dict[str, Any]]:
    """The programs of a part."""
    with gzip.open(path, "rt", encoding="ascii") as file:
        for line in file:
            yield json.loads(line)


def _run_part(path: str, first: int, pipe: Any) -> None:
    """A process: run the programs of a part from `first` on; tells after each."""
    for at, line in enumerate(lines_of(path)):
        if at < first:
            continue
        failures = run_line(line)
        told = {key: line[key] for key in ("number", "seed", "program")}
        pipe.send({**told, "at": at, "calls": len(line["ways"]), "failures": failures})
        if any("cuda-error" in kind for kind, _ in failures):
            pipe.close()
            os._exit(GPU_LOST)
    pipe.close()


def run_line(line: dict[str, Any]) -> list[tuple[str, str]]:
    """The failures of one program, as (kind, detail)."""
    from fuzz.gpu import call_on_gpu

    failures: list[tuple[str, str]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with engines.session(_program(line["program"])) as it:
            for name, stored in line["arguments"].items():
                it.arguments[name] = _unpacked(stored)
            for one, other in it.program.shared:
                it.arguments[other] = it.arguments[one]
            for name, way in line["ways"].items():
                try:
                    got = call_on_gpu(it, _kernel(it, way["artifact"]))
                except Exception as error:
                    found = described(f"gpu {name}", error)
                    lost = (
                        "cuda-error: "
                        if "CUDA" in str(error) and "cuda-error" not in found.kind
                        else ""
                    )
                    failures.append((lost + found.kind, found.detail))
                    break
                if text := _difference(it, way, got):
                    failures.append((f"differ: gpu {name}", text))
    return failures


def _kernel(it: Session, stored: dict[str, Any]) -> Any:
    """The kernel, which takes the batch's code instead of compiling."""
    kernel = engines.compile_call(it, None)
    artifact = Artifact(**{name: _as_bytes(value) for name, value in stored.items()})
    kernel._compile = lambda *_: artifact
    return kernel


def _difference(it: Session, way: dict[str, Any], got: Ran) -> str:
    for name, stored in way["results"].items():
        right = _unpacked(stored)
        if not same_bits(right, got.arrays[name]):
            return first_difference(name, right, got.arrays[name])
    wrong = {o[0] for o in got.offences} - set(way["places"])
    return f"the error points to {sorted(wrong)}, not to {way['places']}" if wrong else ""
