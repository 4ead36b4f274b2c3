"""The disk cache: what goes in comes out, a damaged entry is a miss, and it stays small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopfuse.runtime import cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("LOOPFUSE_CACHE", raising=False)
    monkeypatch.delenv("LOOPFUSE_DEBUG", raising=False)
    return tmp_path / "cache"


def test_round_trip() -> None:
    key = cache.key_of("a", 1)
    assert cache.get(key) is None
    cache.put(key, {"n": 3, "text": "héllo\n"}, {"object": b"\0\1\n", "empty": b"", "b": b"xyz"})
    assert cache.get(key) == (
        {"n": 3, "text": "héllo\n"}, {"object": b"\0\1\n", "empty": b"", "b": b"xyz"}
    )  # fmt: skip
    assert cache.stats().entries == 1


def test_keys_depend_on_every_part() -> None:
    keys = {cache.key_of("a", "b"), cache.key_of("ab"), cache.key_of("a", "c"), cache.key_of("a")}
    assert len(keys) == 4


@pytest.mark.parametrize("cut", [0, 10, 64, 70, -1])
def test_a_damaged_entry_is_a_miss(folder: Path, cut: int) -> None:
    key = cache.key_of("x")
    cache.put(key, {"n": 3}, {"b": b"data"})
    (file,) = folder.rglob("*.loopfuse")
    file.write_bytes(file.read_bytes()[:cut])
    assert cache.get(key) is None
    assert cache.stats().entries == 0


def test_a_directory_that_cannot_be_made_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "file" / "below"))
    cache.put(cache.key_of("x"), {})
    assert cache.get(cache.key_of("x")) is None


def test_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(cache.key_of("x"), {})
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    assert cache.get(cache.key_of("x")) is None
    assert not cache.stats().enabled


def test_the_oldest_go_first() -> None:
    keys = [cache.key_of(k) for k in range(4)]
    for age, key in enumerate(keys):
        cache.put(key, {}, {"b": bytes(1000)})
        os.utime(cache._path(key), (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # used now
    cache.prune(2500)
    assert [cache.get(key) is not None for key in keys] == [True, False, False, True]
    assert cache.clear() == 2 and cache.stats().entries == 0


def test_atomic_writes_leave_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError):
        cache.write_atomically(tmp_path / "taken", b"data")
    cache.write_atomically(tmp_path / "fine", b"data")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fine", "taken"]


def test_only_entries_are_counted_and_cleared(folder: Path) -> None:
    cache.put(cache.key_of("x"), {})
    before = cache.stats()
    (folder / "notes.txt").write_text("not ours")
    left = folder / "ab" / ".abcd.loopfuse.x7"
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"torn")
    now = cache.stats()
    assert (now.entries, now.size_bytes) == (1, before.size_bytes)
    assert cache.clear() == 1 and left.exists()  # another process may be writing it
    os.utime(left, (1000, 1000))
    assert cache.clear() == 0
    assert [p.name for p in folder.rglob("*") if p.is_file()] == ["notes.txt"]


def test_what_killed_processes_left_goes_with_a_processes_first_entry(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_written", None)
    left = folder / "ab" / ".abcd.loopfuse.x7"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"torn")
    cache.put(cache.key_of("x"), {})
    assert left.exists()  # young: another process may be writing it
    os.utime(left, (1000, 1000))
    monkeypatch.setattr(cache, "_written", None)  # as in the next process
    cache.put(cache.key_of("y"), {})
    assert not left.exists() and cache.stats().entries == 2


CROWD = """
import random, sys
from loopfuse.runtime import cache

rng, hits = random.Random(int(sys.argv[1])), 0
for turn in range(150):
    key = cache.key_of(rng.randrange(12))
    found = cache.get(key)
    if found is not None:
        fields, blobs = found
        hits += 1
        assert blobs["b"] == bytes([fields["n"] % 256]) * fields["n"], fields
    n = rng.randrange(1, 40_000)
    cache.put(key, {"n": n}, {"b": bytes([n % 256]) * n})
    if turn % 10 == 0:  # a damaged entry: a few bytes of it change, or its end is lost
        path = cache._path(cache.key_of(rng.randrange(12)))
        try:
            with open(path, "r+b") as file:
                file.seek(rng.randrange(100))
                file.write(b"???")
                file.truncate(rng.choice([200, 80]))
        except OSError:
            pass
print(hits)
"""


def test_many_processes_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole entries or none, whoever writes, damages and prunes meanwhile."""
    monkeypatch.setenv("LOOPFUSE_CACHE_LIMIT", "150000")
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, str(number)], stdout=subprocess.PIPE, text=True
        )
        for number in range(4)
    ]
    hits = [process.communicate(timeout=60)[0] for process in crowd]
    assert [process.returncode for process in crowd] == [0] * 4
    assert sum(map(int, hits)) > 100
    cache.prune()
    assert cache.stats().size_bytes <= 150_000
    assert not list(folder.rglob(".*"))
