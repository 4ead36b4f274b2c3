"""The disk cache: compiled artifacts by a hash of everything that decided them.

One file an entry: a JSON line (fields, and name and length of each blob), then the blobs. The
first 64 characters are the hash of the key and the rest, so that a torn, damaged or misplaced
file is a miss. Writes go to a draft that is renamed into place: readers see an entry whole or not
at all. Machine code from here is run, so a directory or file that others may write is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from loopfuse.base.cache_directory import cache_directory, directory_problem, private_directory
from loopfuse.base.files import read_private, write_atomically

SUFFIX = ".loopfuse"
DEFAULT_LIMIT = 512 << 20
# No entry is larger; what claims to be is damaged.
LARGEST_ENTRY = 1 << 30


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What lies in the cache directory; `enabled` is False under `LOOPFUSE_CACHE=0`.

    `entries` counts compiled programs, `size_bytes` what they take. `limit` is the most bytes it may hold, `problem` says why it is not used all the same (or is empty).
    """

    directory: Path
    enabled: bool
    entries: int
    size_bytes: int
    limit: int
    problem: str


def directory() -> Path:
    """`LOOPFUSE_CACHE_DIR`, else `loopfuse` under `XDG_CACHE_HOME` or `~/.cache`."""
    return cache_directory() or Path("~/.cache/loopfuse")


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
    if not is_enabled() or private_directory(make=False) is None:
        return None
    path = _path(key)
    try:
        entry = _decode(key, read_private(path, LARGEST_ENTRY))
    except FileNotFoundError:
        return None
    except (OSError, MemoryError):
        entry = None
    if entry is None:
        _remove(path)
        return None
    with suppress(OSError):
        os.utime(path)  # last use, for `prune`
    return entry


def _hash(key: str, body: bytes) -> bytes:
    """What an entry begins with. The key is in it: an entry in another's place is none."""
    return hashlib.sha256(key.encode() + b"\0" + body).hexdigest().encode()


def _decode(key: str, data: bytes) -> tuple[dict[str, Any], dict[str, bytes]] | None:
    """The entry in a file's bytes; None where they are not what `put` wrote for this key."""
    body = data[64:]
    if _hash(key, body) != data[:64]:
        return None
    line, _, rest = body.partition(b"\n")
    header = json.loads(line)
    blobs: dict[str, bytes] = {}
    for name, length in header["blobs"]:
        blobs[name], rest = rest[:length], rest[length:]
    return header["fields"], blobs


def put(key: str, fields: Mapping[str, Any], blobs: Mapping[str, bytes] | None = None) -> None:
    """Store an entry. A cache that cannot be written is no error: the next run compiles again."""
    if not is_enabled() or private_directory(make=True) is None:
        return
    blobs = blobs or {}
    header = {"fields": dict(fields), "blobs": [[name, len(b)] for name, b in blobs.items()]}
    body = json.dumps(header, separators=(",", ":")).encode() + b"\n" + b"".join(blobs.values())
    path = _path(key)
    with suppress(OSError):
        _make_room(path)
        # A file that a device loses later is a miss, so nothing waits for it here.
        write_atomically(path, _hash(key, body) + body, mode=0o600, sync=False)
        _prune_sometimes(64 + len(body))


def _make_room(path: Path) -> None:
    """The folder of an entry, and nothing in the entry's place that a file cannot replace."""
    folder = path.parent
    if not folder.is_dir() or folder.is_symlink():
        with suppress(FileNotFoundError):
            folder.unlink()
        with suppress(FileExistsError):  # another process made it
            folder.mkdir(mode=0o700)
    if path.is_dir():
        _remove(path)


def _remove(path: Path) -> None:
    """Remove an entry, or whatever stands in its place."""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


# ------------------------------------------------------------------------------ what is kept


def limit_bytes() -> int:
    """`LOOPFUSE_CACHE_LIMIT`, else 512 MiB."""
    text = os.environ.get("LOOPFUSE_CACHE_LIMIT", "")
    return int(text) if text.isdecimal() else DEFAULT_LIMIT


# Bytes that this process wrote since it last looked at the whole cache; None before it did.
_written: int | None = None


def _prune_sometimes(count: int) -> None:
    """`prune` with a process's first entry, and again after each 64th part of the limit: reading
    the directory for every entry would cost more than many a compile."""
    global _written
    limit = limit_bytes()
    _written = None if _written is None else _written + count
    if _written is None or _written > limit // 64:
        _written = 0
        prune(limit)


def _files() -> list[tuple[float, int, Path]]:
    """(last use, bytes, path) of every entry, the oldest use first."""
    found: list[tuple[float, int, Path]] = []
    for path in directory().glob(f"*/*{SUFFIX}"):
        with suppress(OSError):
            status = path.lstat()
            found.append((status.st_mtime, status.st_size, path))
    return sorted(found)


def _abandoned() -> list[Path]:
    """Drafts that a killed process left; what is younger than an hour may be in use."""
    found: list[Path] = []
    for pattern in ("*/.*", ".*.draft"):
        for path in directory().glob(pattern):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > 3600:
                    found.append(path)
    return found


def prune(limit: int | None = None) -> None:
    """Remove the entries unused for longest until at most `limit` bytes remain
    (`LOOPFUSE_CACHE_LIMIT`, else 512 MiB), and what killed processes left."""
    if limit is None:
        limit = limit_bytes()
    for path in _abandoned():
        _remove(path)
    files = _files()
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= limit:
            break
        _remove(path)
        total -= size


def stats() -> CacheStats:
    """What the cache holds."""
    files = _files()
    try:
        problem = directory_problem(directory())
    except OSError as error:
        problem = error.strerror or str(error)
    size = sum(size for _, size, _ in files)
    return CacheStats(directory(), is_enabled(), len(files), size, limit_bytes(), problem)


def clear() -> int:
    """Remove every entry, and what killed processes left; how many entries there were."""
    files = _files()
    for path in [*(path for _, _, path in files), *_abandoned()]:
        _remove(path)
    return len(files)
