"""A full disk, a failing device, a killed process, an interrupt, others at the same time: what a
command writes is complete or as it was, no draft stays behind, and one message says why."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_faults import Faulty

from loopfuse.base import files
from loopfuse.cli import _run
from loopfuse.runtime import cache

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("file_faults.py")
SAXPY = """\
kernel saxpy(x: f32[N], inout y: f32[N], a: f32):
    for i in 0..N:
        y[i] = a * x[i] + y[i]
"""
COMPILE = ("compile", "saxpy.lf", "--target", "cpu", "--emit", "object,llvm,mlir", "-o", "out/deep")
RUN = (
    "run", "saxpy.lf", "x=x.npy", "y=x.npy", "a=2", "--target", "cpu",
    "--save", "y=y.npy", "--save", "x=x2.npz",
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("LOOPFUSE_CACHE", "LOOPFUSE_DEBUG", "LOOPFUSE_FUEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache, "_written", None)
    (tmp_path / "saxpy.lf").write_text(SAXPY)
    np.save(tmp_path / "x.npy", np.arange(5, dtype=np.float32))
    return tmp_path


def contents(place: Path = Path()) -> dict[str, bytes]:
    """Every file outside the cache, drafts included, and empty folders as such."""
    found = {str(p): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}
    found |= {str(p): b"folder" for p in place.rglob("*") if p.is_dir() and not any(p.iterdir())}
    return {name: data for name, data in found.items() if not name.startswith("cache")}


def drafts(place: Path = Path()) -> list[str]:
    return [str(p) for p in place.rglob(".*.draft")]


# ---------------------------------------------------------------------- calls that fail


@pytest.mark.parametrize("old", [False, True], ids=["new", "replacing"])
@pytest.mark.parametrize("arguments", [COMPILE, RUN], ids=["compile", "run"])
@pytest.mark.parametrize(
    "error",
    [errno.ENOSPC, *(pytest.param(e, marks=pytest.mark.slow) for e in (errno.EIO, errno.EDQUOT))],
)
def test_each_call_that_fails(
    arguments: tuple[str, ...], error: int, old: bool,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """With a warm cache, so that each of the calls is for what the user asked for."""
    untouched = contents()
    assert _run(list(arguments)) == 0
    complete = contents()
    if old:
        for name in complete.keys() - untouched.keys():
            Path(name).write_bytes(b"old")
    failed = 0
    for at in range(1, 200):
        if not old:
            for name in complete.keys() - untouched.keys():
                Path(name).unlink(missing_ok=True)
            for name in ("out/deep", "out"):
                if Path(name).is_dir():
                    Path(name).rmdir()
        before = contents()
        faulty = Faulty(at, error, short=True)
        monkeypatch.setattr(files, "os", faulty)
        capsys.readouterr()
        code = _run(list(arguments))
        said = capsys.readouterr()
        monkeypatch.setattr(files, "os", os)
        after = contents()
        assert not drafts()
        if faulty.count < at:
            assert code == 0 and after == complete
            break
        if code == 0:  # the program's own file was read, or a cache entry touched
            assert after == complete
            continue
        failed += 1
        assert code == 1 and os.strerror(error) in said.err
        assert said.err.count("error[") == 1 and "Traceback" not in said.err
        for name in before.keys() | after.keys():
            assert after.get(name) in (before.get(name), complete.get(name)), name
        if "cannot-write" in said.err and after.keys() <= before.keys():
            continue
        # Only a rename that fails after another succeeded may leave some files new.
        assert old or "out/deep/saxpy.json" not in after
    else:
        pytest.fail("the calls never end")
    assert failed >= 10


def test_a_cache_that_fails_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fields, blobs = {"n": 1}, {"b": bytes(1000)}
    for error in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES):
        for at in range(1, 30):
            key = cache.key_of(error, at)
            faulty = Faulty(at, error, short=True)
            monkeypatch.setattr(files, "os", faulty)
            cache.put(key, fields, blobs)
            found = cache.get(key)
            monkeypatch.setattr(files, "os", os)
            assert found in (None, (fields, blobs))
            assert not drafts(Path("cache"))
            if faulty.count < at:
                assert found is not None
                break
        else:
            pytest.fail("the calls never end")
    assert capsys.readouterr().err == ""


def tiny_disk(place: Path) -> bool:
    place.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    return subprocess.run(options, capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    if not tiny_disk(place):
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_really_full_disk(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (disk / "y.npy").write_bytes(b"old")
    (disk / "filler").write_bytes(bytes(50 << 10))
    before = {p.name: p.read_bytes() for p in disk.iterdir()}
    for arguments in (
        (*COMPILE[:-1], str(disk / "out")),
        ("run", "saxpy.lf", "x=random:9000", "y=random:9000", "a=1", "--target", "cpu",
         "--save", f"y={disk / 'y.npy'}"),
    ):  # fmt: skip
        assert _run(list(arguments)) == 1
        said = capsys.readouterr().err
        assert said.count("error[cannot-write]") == 1 and "No space left on device" in said
        assert {p.name: p.read_bytes() for p in disk.iterdir()} == before


def test_a_cache_on_a_full_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(disk / "cache"))
    (disk / "filler").write_bytes(bytes(60 << 10))
    assert _run(list(RUN)) == 0
    np.testing.assert_array_equal(np.load("y.npy"), np.arange(5) * np.float32(3))
    assert not drafts(disk)


# ------------------------------------------------------------------------ killed processes


def killed(at: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(FAULTS), str(at), *arguments],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def kill_everywhere(arguments: tuple[str, ...], moments: Any) -> None:
    done = killed(0, *arguments)
    assert done.returncode == 0, done.stderr
    count = int(done.stdout.split()[-1])
    complete = contents()
    for name in complete:
        if name not in ("saxpy.lf", "x.npy"):
            Path(name).write_bytes(b"old")
    old = contents()
    for at in moments(count):
        cache.clear()
        done = killed(at, *arguments)
        assert done.returncode == -signal.SIGKILL
        for name, data in contents().items():
            assert Path(name).name.startswith(".") or data in (old[name], complete[name]), name
        left = [*drafts(), *drafts(Path("cache"))]
        for name in left:
            os.utime(name, (1000, 1000))
        assert killed(0, *arguments).returncode == 0
        # Complete, entries valid, and what the killed process left is gone.
        assert contents() == complete
        assert not drafts(Path("cache"))


def test_killed_at_some_moments() -> None:
    kill_everywhere(COMPILE, lambda count: (count // 5, count - 2))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [COMPILE, RUN], ids=["compile", "run"])
def test_killed_at_every_moment(arguments: tuple[str, ...]) -> None:
    kill_everywhere(arguments, lambda count: range(1, count + 1))


@pytest.mark.slow
def test_killed_at_any_time() -> None:
    """Not at a call but at a random time, twenty times."""
    assert _run(list(COMPILE)) == 0
    complete = contents()
    picks = random.Random(3)
    for _ in range(20):
        cache.clear()
        process = subprocess.Popen(
            [sys.executable, str(FAULTS), "0", *COMPILE], stdout=subprocess.DEVNULL
        )
        time.sleep(picks.uniform(0.2, 2.0))
        process.kill()
        process.wait()
        whole = {n: d for n, d in contents().items() if not Path(n).name.startswith(".")}
        assert whole == complete
    assert _run(list(COMPILE)) == 0


# ------------------------------------------------------------------------------ interrupts


INTERRUPTED = {
    "compile": (COMPILE, 4),
    "bench": (("bench", "saxpy.lf", "--size", "N=1000000", "--target", "cpu"), 4),
    "run": (RUN, 4),
}


@pytest.mark.parametrize("command", ["compile", pytest.param("bench", marks=pytest.mark.slow),
                                     pytest.param("run", marks=pytest.mark.slow)])  # fmt: skip
def test_an_interrupt_ends_cleanly(command: str) -> None:
    arguments, times = INTERRUPTED[command]
    picks = random.Random(5)
    # Started from a job in the background, this process may ignore the signal, and so its children.
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from loopfuse.cli import main; print('go', flush=True); main(sys.argv[1:])"
    )
    stopped = 0
    before = contents()
    assert _run([*arguments]) == 0
    complete = contents()
    for name in complete.keys() - before.keys():
        Path(name).unlink()
    for number in range(10 * times):
        if stopped and number >= times:
            break
        before = contents()
        cache.clear()
        process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == "go\n"
        time.sleep(picks.uniform(0.02, 0.7 / (1 + number // times)))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        # -SIGINT: it had done its work, and Python was shutting down (its handler is gone by then).
        assert process.returncode in (0, 130, -signal.SIGINT), err
        assert process.returncode != -signal.SIGINT or not err.strip(), err
        assert not drafts() and not drafts(Path("cache"))
        if process.returncode == 130:
            stopped += 1
            assert err.strip() == "interrupted"
            new = contents()
            for name in before.keys() | new.keys():  # a file is as it was, or complete
                assert new.get(name) in (before.get(name), complete.get(name)), name
    assert stopped


# ----------------------------------------------------------------------- all at the same time


RACER = """
from loopfuse.cli import _run
raise SystemExit(_run(
    ["compile", "saxpy.lf", "--target", "sm_80", "--emit", "ptx,mlir,llvm,report", "-o", "shared"]
))
"""
CLEARER = """
import time
from loopfuse.runtime import cache
end = time.time() + 4
while time.time() < end:
    cache.clear()
    time.sleep(0.003)
"""


@pytest.mark.parametrize("clearing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_processes_that_compile_the_same(clearing: bool) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(8 if clearing else 3)
    ]
    clearer = subprocess.Popen([sys.executable, "-c", CLEARER]) if clearing else None
    for racer in racers:
        _, err = racer.communicate(timeout=200)
        assert racer.returncode == 0 and err == "", err
    if clearer is not None:
        assert clearer.wait(60) == 0
    made = contents(Path("shared"))
    assert not drafts() and not drafts(Path("cache"))
    cache.clear()
    assert subprocess.run([sys.executable, "-c", RACER], check=False).returncode == 0
    assert contents(Path("shared")) == made and len(made) >= 6
    for path in Path("cache").rglob("*.loopfuse"):
        assert cache.get(path.stem) is not None


def test_threads_that_compile_and_call_the_same() -> None:
    import loopfuse

    x = np.arange(1000, dtype=np.float32)
    problems: list[BaseException] = []

    def work() -> None:
        try:
            kernel = loopfuse.loads(SAXPY)
            y = np.ones_like(x)
            kernel(x, y, 2.0)
            assert (y == 2 * x + 1).all()
            assert ".entry" in kernel.compile("sm_80", emit=("ptx",)).ptx
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not problems and not drafts(Path("cache"))
