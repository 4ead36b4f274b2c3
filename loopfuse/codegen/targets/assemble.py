"""Machine code from PTX by `ptxas`, if there is one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.machine import LANES, MULTIPROCESSOR
from loopfuse.base.options import Target


@cache
def find_ptxas() -> str | None:
    """ptxas from the nvidia-cuda-nvcc wheel, CUDA_HOME or PATH; None if there is none."""
    spec = find_spec("nvidia")
    places = [Path(each) for each in (spec.submodule_search_locations or [])] if spec else []
    found = [path for place in places for path in sorted(place.glob("cu*/bin/ptxas"), reverse=True)]
    found += [path for place in places for path in place.glob("cuda_nvcc/bin/ptxas")]
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        found.append(Path(home) / "bin" / "ptxas")
    for path in found:
        if os.access(path, os.X_OK):
            return str(path)
    return shutil.which("ptxas")


def ptxas_version() -> str:
    """The version of ptxas; empty where there is none."""
    ptxas = find_ptxas()
    if ptxas is None:
        return ""
    said = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release [\d.]+, V([\d.]+)", said)
    return found[1] if found else ""


def assemble(ptx: str, target: Target) -> tuple[bytes, dict[str, int], dict[str, int]] | None:
    """The cubin, registers and spilled bytes per entry point; None without a ptxas. An entry point
    that spills under the limit of registers that the planner gave it gets the next higher one.

    InternalError[bad-ptx] with ptxas's own words where it refuses: a bug of ours.
    """
    ptxas = find_ptxas()
    if ptxas is None:
        return None
    while True:
        cubin, registers, spills = _run(ptxas, ptx, target)
        roomier = with_room(ptx, frozenset(name for name, size in spills.items() if size))
        if roomier == ptx:
            return cubin, registers, spills
        ptx = roomier


def _run(ptxas: str, ptx: str, target: Target) -> tuple[bytes, dict[str, int], dict[str, int]]:
    """The cubin, registers and spilled bytes per entry point."""
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx)
        command = [ptxas, "-v", f"-arch={target.name}", "-O3", "-lineinfo", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            words = (done.stderr or done.stdout).replace(folder, "").strip()
            raise InternalError(Diagnostic("bad-ptx", f"ptxas refused our PTX: {words}"))
        return cubin.read_bytes(), *read_report(done.stderr + done.stdout)


_LIMIT = re.compile(r"^\.visible \.entry (\w+)\((?:[^{]*?)^\.maxnreg (\d+)", re.MULTILINE)


def with_room(ptx: str, names: frozenset[str]) -> str:
    """The text with the next higher limit of registers for those entry points that have one, and
    whose blocks still fit with it.

    before: .visible .entry k(...) .maxnreg 128        after: .visible .entry k(...) .maxnreg 168
    """

    def one(found: re.Match[str]) -> str:
        name, most = found[1], int(found[2])
        if name not in names or most >= MULTIPROCESSOR.most_registers:
            return found[0]
        threads = re.search(r"\.reqntid (\d+)", found[0])
        warps = -(-int(threads[1]) // LANES) if threads else 1
        roomier = min(MULTIPROCESSOR.step_for(most + 1), MULTIPROCESSOR.registers_with(warps))
        return f"{found[0].removesuffix(found[2])}{max(roomier, most)}"

    return _LIMIT.sub(one, ptx)


def read_report(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """Registers and spilled bytes (stores and loads) per entry point from `ptxas -v`."""
    registers: dict[str, int] = {}
    spills: dict[str, int] = {}
    name = ""
    for line in text.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills[name] = int(found[1]) + int(found[2])
        elif found := re.search(r"Used (\d+) registers", line):
            registers[name] = int(found[1])
    return registers, spills
