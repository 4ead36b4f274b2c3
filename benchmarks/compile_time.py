"""How long a first compile takes, stage by stage: each example in a process of its own, disk cache off, imports
apart, on one core and on two; and what the first call of numba, jax and torch.compile takes on the same programs.

    python benchmarks/compile_time.py [--target sm_90] [--repeat 3] [--json FILE] [FILE ...]
    python benchmarks/compile_time.py --peers numba,jax,torch [--only CASE,...] [--json FILE]

Medians over the processes, in milliseconds. `one` is the sum of the stages on one core, `two` on two, where LLVM
works beside the proof; `verify` is the checker's part of `one`; `ptxas` stands apart, since the driver or nvJitLink
may do that work instead. `process` is the whole of `loopfuse compile FILE`, start and imports with it. Peers: the
first call less a later one, on a GPU where there is one; loopfuse's own beside them, machine code with it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
STAGES = ("parse", "check", "model", "dependences", "simplify", "fuse", "schedule", "verify",
          "lower", "llvm", "emit")  # fmt: skip
SYSTEMS = ("loopfuse", "numba", "jax", "torch")

def compile_once(path: Path, target: str) -> dict[str, float]:
    """Seconds of each stage of all kernels of one file, and of ptxas: once, in this process."""
    from loopfuse import pipeline
    from loopfuse.base.diagnostics import Source
    from loopfuse.base.options import Options, parse_target
    from loopfuse.codegen.targets.assemble import assemble

    options, run = Options(target=parse_target(target)), pipeline.Run()
    program = pipeline.read_program(Source(path.name, path.read_text()), run=run)
    made = [pipeline.compile_kernel(program, kernel.name, options, run=run) for kernel in program.kernels]
    start = time.perf_counter()
    for one in made if options.target.code == "ptx" else ():
        assemble(one.ptx, options.target)
    return {**run.seconds, "together": sum(run.seconds.values()), "ptxas": time.perf_counter() - start}


def first_call(system: str, key: str) -> float | None:
    """Seconds of the first call less those of a later one; None where the system has no such program."""
    import torch
    from cases import BY_KEY
    from measuring import random_inputs
    from words import jax_words, torch_words

    case, device = BY_KEY[key], "cuda" if torch.cuda.is_available() and system != "numba" else "cpu"
    kernel = case.load()
    inputs: dict[str, Any] = {**random_inputs(case.arrays(kernel, "tiny"), device), **case.scalars}
    match system:
        case "loopfuse":
            call = lambda: kernel(**inputs)  # noqa: E731
        case "torch":
            words = torch_words(exact=False)
            compiled = torch.compile(lambda given: case.formula(words, given), dynamic=False, fullgraph=True)
            call = lambda: compiled(dict(inputs))  # noqa: E731
        case "jax":
            import jax

            words = jax_words()
            arrays = {k: jax.dlpack.from_dlpack(v) for k, v in inputs.items() if torch.is_tensor(v)}
            scalars = {k: v for k, v in inputs.items() if k not in arrays}
            jitted = jax.jit(lambda given: case.formula(words, {**given, **scalars}))
            call = lambda: jax.block_until_ready(jitted(arrays))  # noqa: E731
        case _:
            plain = _numba(case.file, case.kernel)
            if plain is None:
                return None
            held = {k: v.numpy() if torch.is_tensor(v) else v for k, v in inputs.items()}
            call = lambda: plain(**held)  # noqa: E731

    def seconds() -> float:
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    first = seconds()
    return first - min(seconds() for _ in range(3))


def _numba(file: str, name: str) -> Any | None:
    """The plain function of an example under `numba.njit`, as parallel as it gets."""
    script = ROOT / Path(file).with_suffix(".py")
    if not script.exists():
        return None
    import importlib.util

    import numba

    spec = importlib.util.spec_from_file_location("example", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return numba.njit(fastmath=True, parallel=True)(getattr(module, name).reference)


def device_name() -> str:
    """The GPU, or the CPU where there is none."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def environment() -> dict[str, str]:
    """Of a fresh process: this checkout, nothing cached."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "LOOPFUSE_CACHE": "0", "PYTHONWARNINGS": "ignore", "PYTHONPATH": path}


def in_process(words: list[str], cores: int) -> Any | None:
    """What a fresh process of this file prints for `words`, on so many cores; None where it fails."""
    mine = sorted(os.sched_getaffinity(0))[-cores:]
    done = subprocess.run(
        [sys.executable, __file__, "--child", *words],
        capture_output=True, text=True, timeout=600,
        env=environment(),
        preexec_fn=lambda: os.sched_setaffinity(0, mine),
    )  # fmt: skip
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None


def whole_process(path: Path, target: str) -> float:
    """Seconds of `loopfuse compile`, from start to end."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "loopfuse", "compile", str(path), "--target", target, "-o", tempfile.gettempdir()],
        check=True, capture_output=True, env=environment(),
    )  # fmt: skip
    return time.perf_counter() - start


def stages(files: list[Path], target: str, repeat: int) -> dict[str, dict[str, float]]:
    """The table of stages, printed as it grows."""
    print(f"{'':22}" + "".join(f"{head[:6]:>8}" for head in (*STAGES, "one", "two", "ptxas")))
    rows: dict[str, dict[str, float]] = {}
    for path in files:
        words = ["stages", str(path), target]
        one = [found for _ in range(repeat) if (found := in_process(words, 1))]
        two = [found for _ in range(repeat) if (found := in_process(words, 2))]
        if not one or not two:
            continue
        row = {key: statistics.median(r.get(key, 0.0) for r in one) * 1e3 for key in (*STAGES, "together", "ptxas")}
        row["two"] = statistics.median(r["together"] for r in two) * 1e3
        rows[path.stem] = row
        shown = (*(row[key] for key in STAGES), row["together"], row["two"], row["ptxas"])
        print(f"{path.stem:22}" + "".join(f"{value:8.1f}" for value in shown), flush=True)
    return rows


def peers(systems: list[str], keys: list[str], repeat: int) -> dict[str, dict[str, float]]:
    """First calls by case and system, printed as they come."""
    print(f"{'first call, ms':22}" + "".join(f"{system:>12}" for system in systems))
    rows: dict[str, dict[str, float]] = {}
    for key in keys:
        row = rows[key] = {}
        for system in systems:
            found = [in_process(["call", system, key], 2) for _ in range(repeat)]
            known = [each for each in found if isinstance(each, float)]
            if known:
                row[system] = statistics.median(known) * 1e3
        cells = (f"{row[s]:12.0f}" if s in row else f"{'-':>12}" for s in systems)
        print(f"{key:22}" + "".join(cells), flush=True)
    return rows


def main() -> None:
    """Print the tables; write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--peers", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    made: dict[str, Any] = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    about = {
        "machine": platform.processor() or platform.machine(), "python": platform.python_version(),
        "date": str(date.today()),
    }  # fmt: skip
    if options.peers:
        sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
        from cases import chosen

        systems = [each for each in SYSTEMS if each in ("loopfuse", *options.peers.split(","))]
        about["device"] = device_name()
        made["peers"] = {**about, "rows": peers(systems, [case.key for case in chosen(options.only)], options.repeat)}
    else:
        files = options.files or sorted(EXAMPLES.glob("*.lf"))
        rows = stages(files, options.target, options.repeat)
        sums = [row["together"] for row in rows.values()]
        process = statistics.median(whole_process(EXAMPLES / "unsharp.lf", options.target) for _ in range(options.repeat))
        print(f"median {statistics.median(sums):.0f} ms, worst {max(sums):.0f} ms; `loopfuse compile "
              f"examples/unsharp.lf` {process * 1e3:.0f} ms")  # fmt: skip
        made |= {**about, "target": options.target, "unit": "ms", "rows": rows, "process": process * 1e3}
    if options.json:
        options.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
        what, *words = sys.argv[2:]
        if what == "stages":

            print(json.dumps(compile_once(Path(words[0]), words[1])))
        else:
            print(json.dumps(first_call(words[0], words[1])))
    else:
        main()
