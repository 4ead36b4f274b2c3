"""Whatever happens to a cache entry, `get` gives what `put` stored for that key, or nothing; and
a cache that others could write to is not used."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopfuse.base import cache_directory
from loopfuse.runtime import cache
from loopfuse.runtime.builtins import are_possible

FIELDS: dict[str, Any] = {"n": 3, "manifest": {"steps": [1, 2]}, "text": "é\n"}
BLOBS = {"object": bytes(range(256)) * 4, "cubin": b""}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache_directory, "_told", set())
    return tmp_path / "cache"


@pytest.fixture
def stored() -> tuple[str, Path]:
    key = cache.key_of("x")
    cache.put(key, FIELDS, BLOBS)
    return key, cache._path(key)


def is_rebuilt(key: str, path: Path) -> None:
    """The damage is a miss, what stood there is gone, and a new entry takes its place."""
    assert cache.get(key) is None
    assert not os.path.lexists(path)
    cache.put(key, FIELDS, BLOBS)
    assert cache.get(key) == (FIELDS, BLOBS)


def test_every_length_but_the_right_one_is_a_miss(stored: tuple[str, Path]) -> None:
    key, path = stored
    whole = path.read_bytes()
    for length in [*range(140), *range(140, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert cache.get(key) is None, length
    path.write_bytes(whole + b"\0")
    is_rebuilt(key, path)


def test_every_flipped_bit_is_a_miss(stored: tuple[str, Path]) -> None:
    key, path = stored
    whole = path.read_bytes()
    picks = random.Random(4)
    places = [(at, bit) for at in range(200) for bit in range(8)]
    places += [(picks.randrange(len(whole)), picks.randrange(8)) for _ in range(500)]
    for at, bit in places:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        assert cache.get(key) is None, (at, bit)
    path.write_bytes(whole)
    path.chmod(0o600)
    assert cache.get(key) == (FIELDS, BLOBS)  # it was the bit, and nothing else of the file


def test_an_entry_in_anothers_place_is_a_miss(stored: tuple[str, Path]) -> None:
    key, path = stored
    other = cache.key_of("y")
    cache.put(other, {"n": 4}, {})
    path.write_bytes(cache._path(other).read_bytes())
    path.chmod(0o600)
    is_rebuilt(key, path)
    assert cache.get(other) == ({"n": 4}, {})


def _directory(path: Path) -> None:
    (path / "within").mkdir(parents=True)


def _link(path: Path) -> None:
    whole = path.with_name("elsewhere")
    whole.write_bytes(b"kept")
    path.symlink_to(whole)


STRANGERS: dict[str, Callable[[Path], Any]] = {
    "a directory": _directory,
    "a link": _link,
    "a dangling link": lambda path: path.symlink_to("/nowhere"),
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a pipe": lambda path: os.mkfifo(path, 0o600),
    "nothing": lambda path: path.write_bytes(b""),
}


@pytest.mark.parametrize("what", STRANGERS)
def test_what_is_no_file_is_replaced(stored: tuple[str, Path], what: str) -> None:
    key, path = stored
    path.unlink()
    STRANGERS[what](path)
    is_rebuilt(key, path)
    if what == "a link":
        assert path.with_name("elsewhere").read_bytes() == b"kept"


@pytest.mark.parametrize("what", ["a directory", "a link", "a pipe"])
def test_what_is_no_file_is_replaced_without_a_look_first(
    stored: tuple[str, Path], what: str
) -> None:
    key, path = stored
    path.unlink()
    STRANGERS[what](path)
    cache.put(key, FIELDS, BLOBS)
    assert cache.get(key) == (FIELDS, BLOBS)


def test_folders_that_are_none_are_replaced(stored: tuple[str, Path]) -> None:
    key, path = stored
    path.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(b"a file")
    assert cache.get(key) is None
    cache.put(key, FIELDS, BLOBS)
    assert cache.get(key) == (FIELDS, BLOBS)


def test_entries_of_other_users_or_writable_by_them_are_not_read(stored: tuple[str, Path]) -> None:
    key, path = stored
    assert path.stat().st_mode & 0o777 == 0o600
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        is_rebuilt(key, path)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        is_rebuilt(key, path)


def complaints(work: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702, 0o1777])
def test_a_directory_that_others_may_write_is_not_used(
    stored: tuple[str, Path], folder: Path, mode: int
) -> None:
    key, path = stored
    folder.chmod(mode)
    said = complaints(lambda: [cache.get(key), cache.put(cache.key_of("y"), {}), cache.get(key)])
    assert len(said) == 1 and "unsafe-cache" in said[0] and "other users may write" in said[0]
    assert f"chmod 700 {folder}" in said[0]
    assert cache.get(key) is None and path.exists()
    assert len(list(folder.rglob("*.loopfuse"))) == 1
    assert cache.stats().problem == "other users may write to it"
    folder.chmod(0o700)
    assert cache.get(key) == (FIELDS, BLOBS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_of_another_user_is_not_used(stored: tuple[str, Path], folder: Path) -> None:
    key, _ = stored
    os.chown(folder, 12345, -1)
    said = complaints(lambda: cache.get(key))
    assert len(said) == 1 and "it belongs to another user" in said[0]
    assert cache.get(key) is None
    os.chown(folder, 0, -1)


def test_a_new_directory_is_private_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        cache.put(cache.key_of("x"), FIELDS)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cache.get(cache.key_of("x")) is not None


def test_a_user_without_a_home_has_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOOPFUSE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    cache.put(cache.key_of("x"), FIELDS)
    assert cache.get(cache.key_of("x")) is None
    assert list(tmp_path.iterdir()) == []


def test_the_limit_holds_while_entries_are_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without anybody calling `prune`: at most the limit and its 64th part, or one entry, over."""
    monkeypatch.setenv("LOOPFUSE_CACHE_LIMIT", "20000")
    monkeypatch.setattr(cache, "_written", None)
    for number in range(60):
        cache.put(cache.key_of(number), {}, {"b": bytes(1000)})
        size = sum(path.stat().st_size for path in folder.rglob("*.loopfuse"))
        assert size <= 20_000 + 20_000 // 64 + 1200
    assert cache.get(cache.key_of(59)) is not None and cache.get(cache.key_of(0)) is None


DAMAGED = """
import random, sys
from pathlib import Path
import numpy as np
import loopfuse
from loopfuse.runtime import cache

folder, seed = Path(sys.argv[1]), int(sys.argv[2])
text = "kernel k(x: f32[N], out y: f32[N]):\\n    for i in 0..N:\\n        y[i] = x[i] * 3.0\\n"
x = np.arange(50, dtype=np.float32)
picks = random.Random(seed)
for turn in range(int(sys.argv[3])):
    for path in [*folder.rglob("*.loopfuse")]:
        data = bytearray(path.read_bytes())
        match picks.randrange(5):
            case 0: del data[picks.randrange(len(data)) :]
            case 1: data[picks.randrange(len(data))] ^= 1 << picks.randrange(8)
            case 2: data[:] = picks.randbytes(len(data))
            case 3:  # another entry's
                data[:] = picks.choice(sorted(folder.rglob("*.loopfuse"))).read_bytes()
            case _: pass
        path.write_bytes(data)
    k = loopfuse.loads(text)
    assert (k(x) == 3 * x).all()
    ptx = k.compile("sm_80", emit=("ptx",)).ptx
    assert ptx.count(".visible .entry") == 1 and ptx.isascii()
print("fine")
"""


@pytest.mark.parametrize("turns", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_kernels_run_right_on_a_damaged_cache(folder: Path, turns: int) -> None:
    """Signatures, native objects, PTX and the parser's tables, damaged between uses."""
    done = subprocess.run(
        [sys.executable, "-c", DAMAGED, str(folder), "7", str(turns)],
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout == "fine\n", done.stderr
    builtins = 2 if are_possible() else 0  # what reads arrays, and what runs a launch
    assert cache.stats().entries == 3 + builtins
