"""The disk cache: compiled artifacts by a hash of everything that decided them.

One file an entry: a JSON line (fields, and name and length of each blob), then the blobs. The
first 64 characters are the hash of the rest, so that a torn or damaged file is a miss. Writes go
to a temporary file and are renamed into place: readers see an entry whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

SUFFIX = ".loopfuse"
TABLES = "grammar-*.tables"
DEFAULT_LIMIT = 512 << 20


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What lies in the cache directory; `enabled` is False under `LOOPFUSE_CACHE=0`.

    `entries` counts compiled programs; `size_bytes` counts the parser's tables as well.
    """

    directory: Path
    enabled: bool
    entries: int
    size_bytes: int


def directory() -> Path:
    """`LOOPFUSE_CACHE_DIR`, else `loopfuse` under `XDG_CACHE_HOME` or `~/.cache`."""
    named = os.environ.get("LOOPFUSE_CACHE_DIR", "")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if home else Path(os.path.expanduser("~/.cache"))) / "loopfuse"


def is_enabled() -> bool:
    """False when `LOOPFUSE_CACHE` is `0`, or when `LOOPFUSE_DEBUG` asks to see every compile."""
    return os.environ.get("LOOPFUSE_CACHE", "1") != "0" and not os.environ.get("LOOPFUSE_DEBUG")


@lru_cache(maxsize=1)
def installation() -> str:
    """A fingerprint of this installation: every source file's path, size and time, and the
    versions of what generates code. A changed compiler never meets an old entry."""
    from importlib import metadata

    root = Path(__file__).resolve().parent.parent
    parts: list[str] = []
    for folder in (root, root.parent / "grammar"):
        for file in sorted(folder.rglob("*")):
            if file.suffix in (".py", ".lark"):
                status = file.stat()
                parts.append(f"{file.relative_to(folder)} {status.st_size} {status.st_mtime_ns}")
    for package in ("loopfuse", "llvmlite", "islpy", "xdsl", "lark", "nvidia-cuda-nvcc"):
        with suppress(metadata.PackageNotFoundError):
            parts.append(f"{package} {metadata.version(package)}")
    assembler = shutil.which("ptxas")  # makes cubins where NVIDIA's package is not installed
    if assembler is not None:
        with suppress(OSError):
            status = os.stat(assembler)
            parts.append(f"{assembler} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def key_of(*parts: object) -> str:
    """The key for `parts` (their `repr`s) on this installation."""
    text = "\0".join([installation(), *(repr(part) for part in parts)])
    return hashlib.sha256(text.encode()).hexdigest()


def _path(key: str) -> Path:
    return directory() / key[:2] / (key + SUFFIX)


def get(key: str) -> tuple[dict[str, Any], dict[str, bytes]] | None:
    """The entry's fields and blobs, or None. A damaged entry is removed."""
    if not is_enabled():
        return None
    path = _path(key)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[64:]
    if hashlib.sha256(body).hexdigest().encode() != data[:64]:
        with suppress(OSError):
            path.unlink()
        return None
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    blobs: dict[str, bytes] = {}
    for name, length in header["blobs"]:
        blobs[name], rest = rest[:length], rest[length:]
    with suppress(OSError):
        os.utime(path)  # last use, for `prune`
    return header["fields"], blobs


def put(key: str, fields: Mapping[str, Any], blobs: Mapping[str, bytes] | None = None) -> None:
    """Store an entry. A cache that cannot be written is no error: the next run compiles again."""
    if not is_enabled():
        return
    blobs = blobs or {}
    header = {"fields": dict(fields), "blobs": [[name, len(b)] for name, b in blobs.items()]}
    body = json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(blobs.values())
    path = _path(key)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, hashlib.sha256(body).hexdigest().encode() + body)
        prune()


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` whole or not at all: a temporary file beside it, then a rename.

    The file gets the permissions an ordinary new file would have. OSError as of the file system.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _files() -> list[tuple[float, int, Path]]:
    """(last use, bytes, path) of every entry and of the parser's tables (frontend/lf_tables.py,
    beside the entries), the oldest use first."""
    found: list[tuple[float, int, Path]] = []
    root = directory()
    if root.is_dir():
        for pattern in (f"*/*{SUFFIX}", TABLES):
            for path in root.glob(pattern):
                with suppress(OSError):
                    status = path.stat()
                    found.append((status.st_mtime, status.st_size, path))
    return sorted(found)


def _count(files: list[tuple[float, int, Path]]) -> int:
    return sum(path.suffix == SUFFIX for _, _, path in files)


def _abandoned() -> list[Path]:
    """Temporary files that a killed process left; what is younger than an hour may be in use."""
    found: list[Path] = []
    for path in directory().glob("*/.*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > 3600:
                found.append(path)
    return found


def prune(limit: int | None = None) -> None:
    """Remove the entries unused for longest until at most `limit` bytes remain
    (`LOOPFUSE_CACHE_LIMIT`, else 512 MiB), and what killed processes left."""
    if limit is None:
        text = os.environ.get("LOOPFUSE_CACHE_LIMIT", "")
        limit = int(text) if text.isdecimal() else DEFAULT_LIMIT
    for path in _abandoned():
        with suppress(OSError):
            path.unlink()
    files = _files()
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= limit:
            break
        with suppress(OSError):
            path.unlink()
            total -= size


def stats() -> CacheStats:
    """What the cache holds."""
    files = _files()
    return CacheStats(directory(), is_enabled(), _count(files), sum(size for _, size, _ in files))


def clear() -> int:
    """Remove every entry, the parser's tables, and what killed processes left; how many entries
    there were."""
    files = _files()
    for path in [*(path for _, _, path in files), *_abandoned()]:
        with suppress(OSError):
            path.unlink()
    return _count(files)
