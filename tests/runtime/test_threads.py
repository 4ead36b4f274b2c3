"""CPU threads: how many, who runs them, from many callers, after a fork, at the end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.devices import cpu, threads
from loopfuse.runtime.devices.processors import quota, usable_processors
from loopfuse.runtime.devices.sharing import Share, Work, share_out
from loopfuse.runtime.native_code import linked

COUNTING = """
define void @count(ptr %arguments, ptr %dimensions, ptr %steps, ptr %block) {
entry:
  %chunk = load ptr, ptr %arguments
  %begin = load i64, ptr %chunk
  %end.at = getelementptr i64, ptr %chunk, i64 1
  %end = load i64, ptr %end.at
  br label %test
test:
  %k = phi i64 [ %begin, %entry ], [ %next, %one ]
  %more = icmp slt i64 %k, %end
  br i1 %more, label %one, label %over
one:
  %cell = getelementptr i32, ptr %block, i64 %k
  %before = atomicrmw add ptr %cell, i32 1 monotonic
  %next = add i64 %k, 1
  br label %test
over:
  ret void
}
"""


@pytest.fixture(scope="module")
def counting() -> Iterator[int]:
    """The address of code that adds 1 to each element of an i32 block that its chunk names."""
    engine = linked(COUNTING)
    yield engine.get_function_address("count")


@pytest.fixture(scope="module")
def own() -> threads.OwnPool:
    """A pool of three threads, whatever this machine has."""
    return threads.OwnPool(3)


def counted(pool: threads.Pool, adapter: int, *launches: tuple[int, int, int, int]) -> Any:
    """How often each iteration of these launches ran."""
    block = np.zeros(max(grid for grid, *_ in launches), np.int32)
    launch = pool.launcher(adapter, block.ctypes.data)
    for one in launches:
        launch(*one)
    return block


@pytest.mark.parametrize("grid", [1, 2, 3, 7, 64, 1000, 1001])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 70])
def test_every_iteration_runs_once(
    own: threads.OwnPool, counting: int, grid: int, count: int
) -> None:
    for step in (1, 3, grid):
        chunks = -(-grid // step)
        assert (counted(own, counting, *[(grid, step, chunks, count)] * 5) == 5).all()


def test_launches_of_other_sizes_in_turn(own: threads.OwnPool, counting: int) -> None:
    found = counted(own, counting, *[(k, 2, -(-k // 2), 1 + k % 3) for k in range(1, 400)])
    np.testing.assert_array_equal(found, np.arange(399, 0, -1))


def test_many_callers_at_once(own: threads.OwnPool, counting: int) -> None:
    """More callers than slots: each iteration of each runs as often as it was launched."""
    wrong: list[int] = []

    def caller(number: int) -> None:
        found = counted(own, counting, *[(500 + number, 20, -(-(500 + number) // 20), 3)] * 400)
        if not (found == 400).all():
            wrong.append(number)

    callers = [threading.Thread(target=caller, args=(k,)) for k in range(20)]
    for one in callers:
        one.start()
    for one in callers:
        one.join(60)
        assert not one.is_alive()
    assert not wrong


def test_no_more_threads_than_the_system_gives(
    counting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_start_threads", lambda *_: 0)
    pool = threads.OwnPool(4)
    assert pool.workers == 0
    assert (counted(pool, counting, (100, 10, 10, 4)) == 1).all()


def test_threads_take_no_signals(own: threads.OwnPool) -> None:
    """Python's handlers belong to the threads that were there."""
    blocked: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if f"Name:\t{threads.THREAD_NAME}\n" in status:
            line = next(one for one in status.splitlines() if one.startswith("SigBlk:"))
            blocked.append(int(line.split()[1], 16))
    assert len(blocked) >= own.workers
    assert all(mask >> 1 & 1 for mask in blocked)  # SIGINT is bit 1


# ------------------------------------------------------------------------------------ layers


@pytest.mark.parametrize("layer", ["own", "numba", ""])
def test_a_layer_is_chosen_by_the_environment(
    layer: str, counting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPFUSE_THREAD_LAYER", layer)
    pool = threads.pool(2)
    kind = threads.NumbaPool if layer == "numba" else threads.OwnPool
    assert isinstance(pool, kind)
    assert (counted(pool, counting, (1000, 100, 10, 2), (7, 1, 7, 2))[:7] == 2).all()
    assert ("numba" in threads.describe()) == (layer == "numba")


def test_no_other_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_THREAD_LAYER", "tbb")
    with pytest.raises(UserError, match="LOOPFUSE_THREAD_LAYER is `tbb`") as caught:
        threads.pool(2)
    assert caught.value.diagnostics[0].code == "bad-thread-layer"


def test_numba_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_THREAD_LAYER", "numba")
    monkeypatch.setattr(threads, "_pools", {})
    monkeypatch.setitem(sys.modules, "numba.np.ufunc", None)
    with pytest.raises(UserError, match="numba's threads do not start") as caught:
        threads.pool(2)
    assert caught.value.diagnostics[0].code == "no-thread-layer"


TWICE = """
kernel twice(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = 2.0 * x[i]
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    text = f"import numpy as np, os, sys, threading, loopfuse\nk = loopfuse.loads('''{TWICE}''')\n"
    return subprocess.run(
        [sys.executable, "-c", text + code],
        capture_output=True, text=True, timeout=60, env={**os.environ, **environment},
    )  # fmt: skip


def test_no_numba_is_loaded() -> None:
    done = run(
        "x = np.ones(1 << 20, np.float32); print(int(k(x).sum()), 'numba' in sys.modules, threading.active_count())",
        LOOPFUSE_NUM_THREADS="3",
    )
    assert (done.stdout, done.returncode) == ("2097152 False 1\n", 0), done.stderr


def test_a_process_ends_while_threads_spin_and_work() -> None:
    """The interpreter is torn down just after launches, and during one in a daemon thread."""
    code = (
        "x = np.ones(1 << 20, np.float32)\n"
        "def work():\n"
        "    while True: k(x)\n"
        "k(x)\n"
        "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
        "for _ in range(20): k(x)\n"
        "print('over')\n"
    )
    for _ in range(3):
        done = run(code, LOOPFUSE_NUM_THREADS="4")
        assert (done.stdout, done.returncode) == ("over\n", 0), done.stderr


@pytest.mark.parametrize("layer", ["own", "numba"])
def test_a_forked_child_has_threads_of_its_own(
    layer: str, scale: Any, code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", "3")
    monkeypatch.setenv("LOOPFUSE_THREAD_LAYER", layer)
    x = np.ones(400_000, np.float32)
    loaded = cpu.load(scale, code)
    cpu.run(loaded, arrays.bind(scale, (x, 2.0), {}))  # threads have started
    child = os.fork()
    if child == 0:
        before = len(os.listdir("/proc/self/task"))
        binding = arrays.bind(scale, (x, 3.0), {})
        cpu.run(loaded, binding)
        fresh = len(os.listdir("/proc/self/task")) == before + 3  # one more than the caller's helpers
        os._exit(0 if (binding.result == 3).all() and fresh else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


PLACES = """
import os, time
import numpy as np
import loopfuse

k = loopfuse.loads("kernel k(x: f32[N], out y: f32[N]):\\n    for i in 0..N:\\n        y[i] = x[i] + 1.0\\n")
before = os.sched_getaffinity(0)
for _ in range(50):
    k(np.ones(1 << 20, np.float32))
    time.sleep(0.002)
found = []
for _ in range(100):  # until they are parked
    found = []
    for task in os.listdir("/proc/self/task"):
        try:
            status = open(f"/proc/self/task/{task}/status").read()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if "Name:\\tloopfuse" in status:
            found.append(next(line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")))
    if len({*found}) == len(found):
        break
    time.sleep(0.01)
print(sorted(found), os.sched_getaffinity(0) == before)
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_parked_workers_have_processors_of_their_own() -> None:
    """Where each is woken is so never where another one runs, or the caller; who is left free as it was."""
    allowed = sorted(str(each) for each in os.sched_getaffinity(0))
    done = run(PLACES, LOOPFUSE_NUM_THREADS=str(len(allowed)))
    assert done.stdout == f"{allowed} True\n", done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 3, reason="no processor to spare")
def test_fewer_workers_than_processors_go_anywhere() -> None:
    done = run(PLACES, LOOPFUSE_NUM_THREADS="2")
    found, _, kept = done.stdout.rpartition(" ")
    assert kept == "True\n" and len({*found.strip("[]").split(", ")}) == 1, done.stdout


def test_fork_while_other_threads_launch(
    counting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child that was forked in the middle of launches runs its own."""
    pool = threads.pool(3)
    stop = threading.Event()

    def caller() -> None:
        while not stop.is_set():
            counted(pool, counting, (1000, 10, 100, 3))

    callers = [threading.Thread(target=caller) for _ in range(3)]
    for one in callers:
        one.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                found = counted(threads.pool(3), counting, *[(1000, 10, 100, 3)] * 50)
                os._exit(0 if (found == 50).all() else 1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
    finally:
        stop.set()
        for one in callers:
            one.join()


# -------------------------------------------------------------------------------- processors


def groups(folder: Path, cgroup: str, mountinfo: str, files: dict[str, str]) -> Path:
    """A process of these control groups; paths in `mountinfo` are below `folder`."""
    process = folder / "process"
    process.mkdir()
    (process / "cgroup").write_text(cgroup)
    (process / "mountinfo").write_text(mountinfo.replace("@", str(folder)))
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return process


V2 = "30 23 0:26 / @/fs rw,nosuid - cgroup2 cgroup2 rw\n"
V1 = "31 23 0:27 {root} @/cpu rw - cgroup cgroup rw,cpu,cpuacct\n32 23 0:28 / @/memory rw - cgroup cgroup rw,memory\n"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "files", "expected"),
    [
        ("0::/\n", V2, {"fs/cpu.max": "max 100000\n"}, None),
        ("0::/\n", V2, {"fs/cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", V2, {"fs/cpu.max": "150000 100000\n"}, 2),
        ("0::/\n", V2, {"fs/cpu.max": "5000 100000\n"}, 1),
        ("0::/a/b\n", V2, {"fs/a/cpu.max": "300000 100000", "fs/a/b/cpu.max": "max 100000"}, 3),
        ("0::/a/b\n", V2, {"fs/a/cpu.max": "300000 100000", "fs/a/b/cpu.max": "400000 50000"}, 3),
        ("0::/../up\n", V2, {"fs/cpu.max": "400000 100000"}, 4),
        ("0::/\n", V2, {}, None),
        ("0::/\n", V2, {"fs/cpu.max": ""}, None),
        ("", "", {}, None),
        (
            "5:memory:/m\n4:cpu,cpuacct:/d/1\n0::/\n", V1.format(root="/"),
            {"cpu/d/1/cpu.cfs_quota_us": "250000\n", "cpu/d/1/cpu.cfs_period_us": "100000\n"}, 3,
        ),
        (
            "4:cpu,cpuacct:/d/1\n", V1.format(root="/"),
            {"cpu/d/1/cpu.cfs_quota_us": "-1\n", "cpu/d/1/cpu.cfs_period_us": "100000\n",
             "cpu/d/cpu.cfs_quota_us": "100000\n", "cpu/d/cpu.cfs_period_us": "100000\n"}, 1,
        ),
        (  # a container: its own group is the mount's root
            "4:cpuacct,cpu:/docker/12ab\n", V1.format(root="/docker/12ab"),
            {"cpu/cpu.cfs_quota_us": "600000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 6,
        ),
        (  # and a process whose group the mount does not show
            "4:cpuacct,cpu:/other\n", V1.format(root="/docker/12ab"),
            {"cpu/cpu.cfs_quota_us": "600000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 6,
        ),
    ],
)  # fmt: skip
def test_the_quota_of_control_groups(
    tmp_path: Path, cgroup: str, mounts: str, files: dict[str, str], expected: int | None
) -> None:
    assert quota(groups(tmp_path, cgroup, mounts, files)) == expected


def test_the_affinity_is_asked_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPFUSE_NUM_THREADS", raising=False)
    before = os.sched_getaffinity(0)
    assert threads.thread_count() == usable_processors() <= len(before)
    try:
        os.sched_setaffinity(0, [min(before)])
        assert threads.thread_count() == 1
    finally:
        os.sched_setaffinity(0, before)


# ----------------------------------------------------------------------------------- sharing


def test_little_work_is_not_shared() -> None:
    assert share_out(100_000, Work(0, 10), 8) == Share(100_000, 1, 1)
    assert share_out(1, Work(0, 10**9), 8) == Share(1, 1, 1)
    assert share_out(0, Work(1 << 30), 8).threads == 1


@pytest.mark.parametrize("grid", [2, 3, 20, 31, 4096, 1_000_003])
@pytest.mark.parametrize("count", [2, 16, 64])
def test_all_threads_share_much_work(grid: int, count: int) -> None:
    share = share_out(grid, Work(0, 10**12 // grid), count)
    assert share.threads == min(grid, count)
    assert (share.chunks - 1) * share.step < grid <= share.chunks * share.step
    assert share.chunks >= min(grid, 4 * count)  # what runs late is little


def test_threads_come_by_work() -> None:
    """Twelve microseconds are worth three threads of sixty-four."""
    assert share_out(1000, Work(0, 12_000), 64).threads == 3


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = loopfuse.loads(TWICE)
    x = np.random.default_rng(0).random(300_001, np.float32)
    for count in ("1", "2", "3", "7", "1000"):
        monkeypatch.setenv("LOOPFUSE_NUM_THREADS", count)
        np.testing.assert_array_equal(kernel(x), x + x)


@pytest.mark.slow
def test_busy_neighbours_cost_no_more_than_their_share() -> None:
    """With a spinning process on each CPU a call takes at most three times its quiet time."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    from neighbours import measure, ratio

    found = [measure(1024, 600, 3) for _ in range(3)]
    assert min(ratio(*times) for times in found) <= 3
