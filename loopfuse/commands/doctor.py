"""`loopfuse doctor` and `loopfuse cache`: what is installed, what is missing, how to get it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

from loopfuse.commands.common import say
from loopfuse.explain.text import bytes_text
from loopfuse.runtime import cache
from loopfuse.runtime.devices import cpu, cuda, threads

# (distribution, what it is for, how to get it)
NEEDED = ("lark", "islpy", "xdsl", "llvmlite", "numpy", "ml_dtypes", "click", "rich")
OPTIONAL = (
    ("cuda-python", "GPU launches", "pip install 'loopfuse[cuda]'"),
    ("nvidia-nvvm", "libdevice for math functions on the GPU", "pip install 'loopfuse[cuda]'"),
    ("nvidia-nvjitlink", "machine code without ptxas", "pip install 'loopfuse[cuda]'"),
    ("scikit-image", "sample pictures", "pip install 'loopfuse[examples]'"),
    ("pillow", "reading and writing images", "pip install 'loopfuse[examples]'"),
    ("numba", "its threads in place of ours (LOOPFUSE_THREAD_LAYER)", "pip install numba"),
    ("cupy", "CuPy arrays", "pip install cupy-cuda13x"),
    ("torch", "PyTorch arrays", "pip install torch"),
)


def find_ptxas() -> str | None:
    """ptxas on PATH, or the one in nvidia-cuda-nvcc's wheel."""
    found = shutil.which("ptxas")
    if found:
        return found
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("cu*/bin/ptxas")):
            if os.access(path, os.X_OK):
                return str(path)
    return None


def _version(name: str) -> str | None:
    names = [name]
    if name == "cupy":
        names += ["cupy-cuda13x", "cupy-cuda12x"]
    for one in names:
        try:
            return metadata.version(one)
        except metadata.PackageNotFoundError:
            continue
    return None


def _line(mark: str, name: str, text: str) -> None:
    say(f"  {mark:<8}{name:<18}{text}".rstrip())


def doctor() -> bool:
    """Print what is here; True when everything needed for the CPU is."""
    from loopfuse import __version__

    good = True
    say(f"loopfuse {__version__}, Python {platform.python_version()}, {platform.machine()}")
    say(f"  {sys.executable}")
    say("\nNeeded")
    for name in NEEDED:
        version = _version(name)
        good = good and version is not None
        _line("ok" if version else "MISSING", name, version or f"pip install {name}")
    say("\nCPU")
    try:
        _line("ok", "LLVM", f"{cpu.llvm_version()}, {cpu.host_cpu().partition(' ')[0]}")
    except (ImportError, OSError) as error:
        good = False
        _line("MISSING", "LLVM", str(error))
    _line("ok", "threads", threads.describe())
    say("\nGPU")
    info = cuda.gpu()
    if info is None:
        _line("none", "GPU", cuda.gpu_problem())
    else:
        memory = f"{info.memory_bytes / (1 << 30):.0f} GiB"
        more = f", 1 of {info.count}" if info.count > 1 else ""
        _line("ok", "GPU", f"{info.name}, {info.target}, {memory}{more}, CUDA {info.driver}")
        if info.machine is not None:
            speed = f"{info.machine.bandwidth / 1e12:.2g} TB/s"
            _line("ok", "planned as", f"{info.machine.name}, {speed}")
    say("\nOptional")
    for name, purpose, how in OPTIONAL:
        version = _version(name)
        _line("ok" if version else "none", name, version or f"{purpose}: {how}")
    for name, path, how in (
        ("ptxas", find_ptxas(), "machine code and registers: pip install nvidia-cuda-nvcc"),
        ("mlir-opt", shutil.which("mlir-opt-22") or shutil.which("mlir-opt"),
         "checking MLIR, never needed: apt install mlir-22-tools"),
    ):  # fmt: skip
        _line("ok" if path else "none", name, path or how)
    say()
    show_cache()
    return good


def show_cache() -> None:
    """Print where the disk cache is and what it holds."""
    found = cache.stats()
    state = "" if found.enabled else " (turned off)"
    entries = f"{found.entries} entr{'y' if found.entries == 1 else 'ies'}"
    size = f"{bytes_text(found.size_bytes)} of at most {bytes_text(found.limit)}"
    say(f"Cache {found.directory}: {entries}, {size}{state}")
    if found.problem:
        say(f"  not used: {found.problem}")


def clear_cache() -> None:
    """Remove every entry and say how many there were."""
    count = cache.clear()
    say(f"Removed {count} entr{'y' if count == 1 else 'ies'} from {cache.directory()}")
