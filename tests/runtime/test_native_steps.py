"""Steps as native code: what runs, in which order, with which numbers; threads; interrupts."""

from __future__ import annotations

import ctypes
import random
import signal
import time
from typing import Any

import numpy as np
import pytest
from runtime.manifests import build_object, launch, manifest, pointer, value

import loopfuse
from loopfuse.runtime.devices import cpu, native_steps
from loopfuse.runtime.devices.steps import ArgumentBlock, launches_of, walk_steps

# Notes a launch: log[0] counts; then site, t, s, begin and end of each.
NOTE_IR = """
define void @note_0(ptr %log, i64 %site, i64 %t, i64 %s, i64 %begin, i64 %end) {
  %count = load i64, ptr %log
  %more = add i64 %count, 1
  store i64 %more, ptr %log
  %words = mul i64 %count, 5
  %first = add i64 %words, 1
  %p0 = getelementptr i64, ptr %log, i64 %first
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %p4 = getelementptr i64, ptr %p0, i64 4
  store i64 %site, ptr %p0
  store i64 %t, ptr %p1
  store i64 %s, ptr %p2
  store i64 %begin, ptr %p3
  store i64 %end, ptr %p4
  ret void
}
"""


@pytest.fixture(scope="module")
def note() -> bytes:
    return build_object(NOTE_IR)


def formula(chance: random.Random, names: tuple[str, ...], depth: int = 3) -> str:
    """A formula over the names, of everything that one may have."""
    if depth == 0 or chance.random() < 0.2:
        return chance.choice([*names, str(chance.randrange(-9, 10))])
    a, b, c = (formula(chance, names, depth - 1) for _ in range(3))
    relation = f"{a} {chance.choice(['<', '<=', '>', '>=', '==', '!='])} {b}"
    return chance.choice([
        f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {b})", f"({a} % {b})", f"({a} // 7)", f"({a} % -3)",
        f"min({a}, {b})", f"max({a}, {b}, {c})", f"abs({a})", f"(-{a})", f"({a} if {relation} else {c})",
        f"({a} if {relation} and not {c} < {a} else {b})", f"({b} if {relation} or {c} == {a} else {c})",
    ])


@pytest.mark.parametrize("seed", range(40))
def test_launches_are_those_of_python(note: bytes, seed: int) -> None:
    chance = random.Random(seed)
    step, inner = chance.choice([1, 1, 2, 3, -1, -2]), chance.choice([1, 2, -1])
    arguments = [pointer("log"), value("site", "i64"), value("t", "i64"), value("s", "i64")]
    ends = sorted([chance.randrange(-5, 5), chance.randrange(-5, 9)], reverse=step < 0)
    first = launch("note_0", f"min(5, {formula(chance, ('N', 't'))})", *arguments)
    second = launch("note_0", f"min(9, {formula(chance, ('N', 'M', 't', 's'))})", *arguments)
    nested = {"loop": {"var": "s", "lower": f"({formula(chance, ('N', 't'))}) % 7", "upper": f"({formula(chance, ('M', 't'))}) % 9",
                       "step": inner, "body": [second]}}
    loop = {"loop": {"var": "t", "lower": str(ends[0]), "upper": str(ends[1]), "step": step, "body": [first, nested, first]}}
    alone = launch("note_0", f"min(3, {formula(chance, ('N', 'M'))})", *arguments)
    steps = chance.choice([[loop], [alone, loop, alone], [loop, loop], [alone, alone]])
    made = manifest("k", [], ["N", "M"], steps=steps)
    values = {"N": chance.randrange(-20, 40), "M": chance.randrange(1, 9), "site": 3, "s": -1, "t": 77}
    loaded = cpu.load(made, note)
    native, python = (np.zeros(100_000, np.int64) for _ in range(2))

    def blocks(log: Any) -> dict[int, ArgumentBlock]:
        pointers = {"log": log.ctypes.data}
        return {id(one): ArgumentBlock(one["arguments"], pointers, values, True) for one in launches_of(steps)}

    def launch_from_python(one: Any, grid: int, block: ArgumentBlock) -> None:
        cpu.launcher(loaded.adapters["note_0"], block.address, cpu.Work(0))(grid)

    of_native, of_python = blocks(native), blocks(python)
    cpu.steps_runner(loaded, [of_native[id(one)] for one in launches_of(steps)], values, 0)()
    known = {name: number for name, number in values.items() if name not in "ts"}
    walk_steps(steps, known, lambda one: of_python[id(one)], launch_from_python)
    assert native.tolist() == python.tolist()


JACOBI = """kernel jacobi(inout a: f64[N], inout b: f64[N], steps: i64):
    for t in 0..steps:
        for i in 1..N-1:
            b[i] = 0.5 * a[i-1] + 0.25 * (a[i] + a[i+1])
        for i in 1..N-1:
            a[i] = 0.5 * b[i-1] + 0.25 * (b[i] + b[i+1])
"""


def jacobi(a: Any, b: Any, steps: int) -> None:
    """The same in NumPy."""
    for _ in range(steps):
        b[1:-1] = 0.5 * a[:-2] + 0.25 * (a[1:-1] + a[2:])
        a[1:-1] = 0.5 * b[:-2] + 0.25 * (b[1:-1] + b[2:])


@pytest.mark.parametrize("layer", ["own", "numba"])
@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_threads(threads: str, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if layer == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("LOOPFUSE_NUM_THREADS", threads)
    monkeypatch.setenv("LOOPFUSE_THREAD_LAYER", layer)
    kernel = loopfuse.loads(JACOBI, target="cpu", fp="strict")
    for n in (3, 50, 300_000):
        a, b = np.random.default_rng(n).random((2, n))
        c, d = a.copy(), b.copy()
        for steps in (7, 7, 0, 2):
            kernel(a, b, steps)
            jacobi(c, d, steps)
            np.testing.assert_array_equal(a, c)
            np.testing.assert_array_equal(b, d)


def test_python_is_asked_between_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_steps, "PATIENCE_NANOSECONDS", -1)
    kernel = loopfuse.loads(JACOBI, target="cpu", fp="strict")
    a, b = np.random.default_rng(0).random((2, 40))
    c, d = a.copy(), b.copy()
    for _ in range(3):
        kernel(a, b, 11)
        jacobi(c, d, 11)
    np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("calls", [0, 3])
def test_a_long_loop_can_be_interrupted(calls: int) -> None:
    """At its first call, and on its fast path."""
    kernel = loopfuse.loads(JACOBI, target="cpu")
    a, b = np.random.default_rng(0).random((2, 3000))
    for _ in range(calls):
        kernel(a, b, 2)

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    old = signal.setitimer(signal.ITIMER_REAL, 0.3, 40.0)  # were one lost, the next would not be
    start = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            kernel(a, b, 1 << 40)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *old)
    assert time.perf_counter() - start < 30
    c, d = a.copy(), b.copy()
    kernel(a, b, 3)  # and nothing is lost
    loopfuse.loads(JACOBI, target="cpu")(c, d, 3)
    np.testing.assert_array_equal(a, c)


def test_a_fast_call_has_no_loop_in_python() -> None:
    kernel = loopfuse.loads(JACOBI, target="cpu")
    a, b = np.random.default_rng(0).random((2, 30))
    for _ in range(3):
        kernel(a, b, 4)
    assert kernel.call_paths.paths
    assert not any("for " in path.source for path in kernel.call_paths.paths)


def test_words_are_integers_of_64_bits() -> None:
    loop = {"var": "t", "lower": "0", "upper": "N", "step": 1, "body": [launch("k_0", "n + t")]}
    host = native_steps.native_steps(manifest("k", [], ["N"], steps=[{"loop": loop}]))
    assert host is not None and host.names == ("N", "n")
    assert host.words({"N": 1, "n": 1.5}) is None and host.words({"N": 1, "n": 1 << 63}) is None and host.words({"N": 1}) is None
    words = host.words({"N": 1, "n": -2})
    assert ctypes.sizeof(words) == 8 * (native_steps.FIRST_SITE + 4) and words[-1] == -2
