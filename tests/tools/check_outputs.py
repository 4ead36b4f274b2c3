"""Compiles every example for sm_80, sm_90 and the CPU; assembles all PTX with ptxas, verifies all
MLIR with mlir-opt. Prints one line a program and a closing line; exits 1 if anything is refused.

    python tests/tools/check_outputs.py [FILE...]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools")]  # the checkout that this file is in, installed or not
TARGETS = ("sm_80", "sm_90", "cpu")
LONGEST = (
    "bilateral", "jacobi", "fdtd_2d", "heat3d", "wave", "lattice_boltzmann", "harris", "depthwise_conv",
    "horizontal_diffusion", "unsharp",
)  # fmt: skip
"""Examples that take longest, which go first: nobody waits for one of them at the end. Their code for
sm_80 is that for sm_90, and is left out."""


def run(command: list[str], data: str) -> str:
    """What `command` says against `data`; empty when it accepts it."""
    done = subprocess.run(command, input=data, capture_output=True, text=True, timeout=300)
    return "" if done.returncode == 0 else f"{command[0]}: {done.stderr.strip()[:2000]}"


def assemble(ptx: str, target: str) -> str:
    """ptxas on one module."""
    from loopfuse.commands.doctor import find_ptxas

    ptxas = find_ptxas()
    if ptxas is None:
        return "ptxas is not installed (nvidia-cuda-nvcc)"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "code.ptx")
        path.write_text(ptx, encoding="ascii")
        return run([ptxas, f"-arch={target}", "-o", os.devnull, str(path)], "")


def compiled(kernel: Any, target: str) -> Any:
    """The artifact, or why there is none."""
    from loopfuse.base.diagnostics import LoopfuseError

    try:
        return kernel.compile(target)
    except LoopfuseError as error:
        return error


def failures_of(file: Path) -> Iterator[str]:
    """Every complaint about one program."""
    from proved_once import proved_once

    from loopfuse.base.diagnostics import LoopfuseError
    from loopfuse.kernels.kernel import load_all
    from loopfuse.kernels.sources import read_source

    verified: set[str] = set()  # most texts are the same for two targets or all
    for kernel in load_all(read_source(file)).values():
        targets = TARGETS[1:] if file.stem in LONGEST else TARGETS
        with proved_once():
            made = {target: compiled(kernel, target) for target in targets}
        for target, artifact in made.items():
            where = f"{file.name} {kernel.name} {target}"
            if isinstance(artifact, LoopfuseError):
                yield f"{where}: {artifact}"
                continue
            for text in (artifact.affine_mlir, artifact.fused_mlir, artifact.mlir):
                if not text.strip():
                    yield f"{where}: an MLIR text is empty"
                elif text in verified:
                    continue
                elif complaint := run(["mlir-opt-22", "--verify-each", "-o", os.devnull], text):
                    yield f"{where}: {complaint}"
                else:
                    verified.add(text)
            if target != "cpu":
                if complaint := assemble(artifact.ptx, target):
                    yield f"{where}: {complaint}"
            elif not artifact.object:
                yield f"{where}: no object"


def check(file: Path) -> tuple[str, float, list[str]]:
    """(name, seconds, complaints) of one program."""
    start = time.perf_counter()
    os.environ["LOOPFUSE_CACHE"] = "0"
    try:
        found = list(failures_of(file))
    except Exception as error:  # one broken program must not hide the others
        found = [f"{file.name}: {type(error).__name__}: {error}"]
    return file.name, time.perf_counter() - start, found


def main() -> int:
    """Check the named programs, or all examples."""
    start = time.perf_counter()
    files = [Path(name) for name in sys.argv[1:]] or sorted(ROOT.glob("examples/*.lf"))
    files.sort(key=lambda file: LONGEST.index(file.stem) if file.stem in LONGEST else len(LONGEST))
    failed = 0
    with ProcessPoolExecutor(min(2, len(os.sched_getaffinity(0)))) as pool:
        for name, seconds, complaints in pool.map(check, files):
            print(f"{'FAILED' if complaints else 'ok':<7} {name} ({seconds:.1f}s)", flush=True)
            for complaint in complaints:
                print(f"        {complaint}")
            failed += bool(complaints)
    took = time.perf_counter() - start
    words = f"{failed} failed, " if failed else ""
    print(f"===== {words}{len(files) - failed} passed in {took:.1f}s =====")
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(main())
