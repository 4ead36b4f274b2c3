"""What is remembered: by size class and device, whole or not at all, for other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.options import Tuning
from loopfuse.runtime import cache
from loopfuse.runtime.arrays.arrays import match
from loopfuse.tuning import session
from loopfuse.tuning.remember import Tuned, device_name, note, recall, size_class

ROOT = Path(__file__).resolve().parents[2]
FOUND = Tuned(Tuning(columns=8, ahead=0), 0.5, 1.0, 12, True, 10.0)
TEXT = """\
kernel blur(img: f32[H, W], out smooth: f32[H, W]):
    temp rows: f32[H, W]
    for y in 0..H, x in 0..W:
        rows[y, x] = 0.25*(img.clamp[y, x-1] + img.clamp[y, x+1]) + 0.5*img[y, x]
    for y in 0..H, x in 0..W:
        smooth[y, x] = 0.25*(rows.clamp[y-1, x] + rows.clamp[y+1, x]) + 0.5*rows[y, x]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


def test_what_was_noted_is_recalled() -> None:
    key = cache.key_of("tuning", 1)
    assert recall(key, 10.0) is None
    note(key, FOUND)
    assert recall(key, 10.0) == replace(FOUND, remembered=True)
    assert recall(cache.key_of("tuning", 2), 10.0) is None
    note(key, replace(FOUND, seconds=None, default_seconds=None))
    again = recall(key, 10.0)
    assert again is not None and again.gain == 1.0


@pytest.mark.parametrize("cut", [0, 10, 64, 80, -1])
def test_a_damaged_entry_is_searched_for_again(folder: Path, cut: int) -> None:
    key = cache.key_of("tuning", 1)
    note(key, FOUND)
    (file,) = folder.rglob("*.loopfuse")
    file.write_bytes(file.read_bytes()[:cut])
    assert recall(key, 10.0) is None
    note(key, FOUND)
    assert recall(key, 10.0) == replace(FOUND, remembered=True)


GOOD: dict[str, Any] = {
    "tuning": {"windows": True, "columns": 8, "warps": 0, "rows": 0, "ahead": None, "steps": 0},
    "seconds": 0.5, "default_seconds": 1.0, "tried": 12, "complete": True, "budget": 10.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"tuning": {"columns": 8}}, {"tuning": {**GOOD["tuning"], "columns": "8"}},
        {"tuning": {**GOOD["tuning"], "columns": -1}}, {"tuning": {**GOOD["tuning"], "rows": 1 << 40}},
        {"tuning": {**GOOD["tuning"], "windows": 1}}, {"tuning": {**GOOD["tuning"], "columns": None}},
        {"tuning": {**GOOD["tuning"], "more": 1}}, {"tuning": None}, {"seconds": "fast"},
        {"seconds": -1.0}, {"default_seconds": True}, {"tried": None}, {"budget": "long"},
    ],
)  # fmt: skip
def test_an_entry_of_another_form_is_none(change: dict[str, Any]) -> None:
    key = cache.key_of("tuning", 1)
    fields = dict.fromkeys(Tuning.__slots__, 0)
    good = {**GOOD, "tuning": {**fields, **GOOD["tuning"]}}
    cache.put(key, good)
    assert recall(key, 10.0) is not None
    cache.put(key, {**good, **change})
    assert recall(key, 10.0) is None


def test_a_search_that_was_cut_off_goes_on_with_more_time() -> None:
    key = cache.key_of("tuning", 1)
    note(key, replace(FOUND, complete=False))
    assert recall(key, 10.0) is not None and recall(key, 1.0) is not None
    assert recall(key, 100.0) is None
    note(key, FOUND)
    assert recall(key, 100.0) is not None


def test_no_cache_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE", "0")
    note("0" * 64, FOUND)
    assert recall("0" * 64, 10.0) is None


# --------------------------------------------------------------------------------------- classes


def class_of(*shape: int, offset: int = 0) -> Any:
    kernel = loopfuse.loads(TEXT)
    memory = np.zeros(shape[0] * shape[1] + 64, np.float32)
    start = (-memory.ctypes.data // 4) % 16 + offset
    array = memory[start : start + shape[0] * shape[1]].reshape(shape)
    return size_class(match(kernel.signature, (array,), {}))


def test_sizes_near_the_same_power_of_two_are_one_class() -> None:
    assert class_of(1000, 1024) == class_of(1100, 1200) == class_of(725, 1448)
    assert class_of(1000, 1024) != class_of(1000, 1452) != class_of(1000, 724)
    assert class_of(512, 1024) != class_of(1024, 512)


def test_rows_off_16_bytes_are_another_class() -> None:
    assert class_of(1000, 1024) != class_of(1000, 1023)
    assert class_of(1000, 1024) != class_of(1000, 1024, offset=1)


def test_integers_count_and_floats_do_not() -> None:
    kernel = loopfuse.loads(
        "kernel k(x: f32[N], out y: f32[N], a: f32, t: i64):\n"
        "    for i in 0..N:\n        y[i] = a * x[i] + t\n"
    )
    x = np.ones(8, np.float32)
    classes = [size_class(match(kernel.signature, (x,), {"a": a, "t": t}))
               for a, t in ((1.0, 0), (2.0, 0), (1.0, 3), (1.0, 4), (1.0, -3))]  # fmt: skip
    assert classes[0] == classes[1] and classes[2] == classes[3] and len(set(classes)) == 3


def test_the_device_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "1")
    one = device_name(None)
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "2")
    assert one != device_name(None) and one.startswith("cpu ")


# ------------------------------------------------------------------------------------- processes

SCRIPT = f"""
import json, sys
import numpy as np, loopfuse
from loopfuse.tuning import session
searches = []
plain = session._search
session._search = lambda *given: searches.append(1) or plain(*given)
kernel = loopfuse.loads({TEXT!r}, tune=True, tune_budget=float(sys.argv[1]))
x = np.random.default_rng(0).random((200, 300), np.float32)
y = kernel(x)
kernel(x)
found = kernel.tune(x)
print(json.dumps({{
    "searches": len(searches), "compiler": "loopfuse.plan.strategies.sliding.windows.windows" in sys.modules, "sum": float(y.sum()),
    "words": str(found), "remembered": found.remembered,
}}))
"""


def process(folder: Path, budget: float = 4.0) -> Any:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LOOPFUSE")}
    environment |= {"LOOPFUSE_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(budget)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def said(one: Any) -> dict[str, Any]:
    out, err = one.communicate(timeout=120)
    assert one.returncode == 0, err
    assert not err, "no bar where nobody looks"
    return json.loads(out)


def test_a_second_process_neither_searches_nor_compiles(folder: Path) -> None:
    first = said(process(folder))
    assert first["searches"] == 1 and first["compiler"] and not first["remembered"]
    again = said(process(folder))
    assert again["searches"] == 0 and not again["compiler"] and again["remembered"]
    assert again["sum"] == first["sum"]
    for path in folder.rglob("*.loopfuse"):
        path.write_bytes(path.read_bytes()[:-3])
    damaged = said(process(folder))
    assert damaged["searches"] == 1 and damaged["sum"] == first["sum"]


def test_two_processes_at_once(folder: Path) -> None:
    both = [process(folder, 2.0) for _ in range(2)]
    results = [said(one) for one in both]
    assert results[0]["sum"] == results[1]["sum"]
    assert said(process(folder, 2.0))["searches"] == 0


def test_one_search_serves_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    searches: list[int] = []
    plain = session._search

    def search(*given: Any) -> Tuned:
        searches.append(1)
        return plain(*given)

    monkeypatch.setattr(session, "_search", search)
    kernel = loopfuse.loads(TEXT, tune=True, tune_budget=1.0)
    pictures = [np.full((64, 64), k, np.float32) for k in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(kernel, pictures))
    assert len(searches) == 1
    assert [float(one[5, 5]) for one in results] == [0.0, 1.0, 2.0, 3.0]
