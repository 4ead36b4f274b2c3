"""benchmarks/cpu.py and its page: every case computes what its loops say, a peer that fails, dies or hangs costs
its own figure, and the page is made of whatever there is."""

from __future__ import annotations

import inspect
import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks")]

import cpu  # noqa: E402
import cpu_compiled  # noqa: E402
import cpu_page  # noqa: E402
import cpu_ways  # noqa: E402
from cpu_cases import BY_KEY, CASES, chosen, halide_forms  # noqa: E402
from cpu_cases.case import bound, pranges  # noqa: E402


@pytest.mark.parametrize("key", BY_KEY)
def test_case_computes_its_loops(key: str) -> None:
    case = BY_KEY[key]
    arguments = case.arguments(tiny=True)
    right = cpu_ways.reference(case, arguments, compiled=False)
    way = cpu_ways.loopfuse_way(case, arguments)
    for _ in range(2):  # the second time from inputs that are given back
        way.reset()
        way.run()
        assert case.error(way.results(), right) <= case.tolerance


@pytest.mark.parametrize("key", [case.key for case in CASES if case.form("numpy") is not None])
def test_numpy_forms_compute_the_loops(key: str) -> None:
    case = BY_KEY[key]
    arguments = case.arguments(tiny=True)
    right = cpu_ways.reference(case, arguments, compiled=False)
    way = cpu_ways.numpy_way(case, arguments)
    assert way is not None
    way.run()
    assert case.error(way.results(), right) <= 10 * case.tolerance


@pytest.mark.parametrize("peer", ["numba", "numba parallel", "torch eager", "jax.jit", "halide"])
def test_peers_compute_the_loops(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip({"torch eager": "torch", "jax.jit": "jax", "halide": "halide"}.get(peer, "numba"))
    if peer == "jax.jit":
        import jax

        jax.config.update("jax_enable_x64", True)
    for case in CASES:
        arguments = case.arguments(tiny=True)
        way = cpu_ways.PEERS[peer](case, arguments)
        if way is not None:
            way.reset()
            way.run()
            right = cpu_ways.reference(case, arguments, compiled=False)
            assert case.error(way.results(), right) <= 10 * case.tolerance, case.key


def test_cases_are_whole() -> None:
    assert len(BY_KEY) == len(CASES)
    assert sum(case.group == "PolyBench" for case in CASES) == 30
    for case in CASES:
        arguments = case.arguments(tiny=True)
        assert list(arguments) == list(inspect.signature(case.function).parameters), case.key
        assert {name for name in case.written if name != "return"} | set(case.inout) <= set(arguments), case.key
        for form in (case.numba, case.parallel):
            if callable(form):
                assert list(inspect.signature(form).parameters) == list(arguments), case.key
        for library in ("numpy", "torch", "jax"):
            form = case.form(library)
            if form is not None:
                assert set(inspect.signature(form).parameters) <= set(arguments), (case.key, library)
    pictures = {case.key for case in CASES if case.group == "Images"}
    assert pictures | {"horizontal diffusion"} == set(halide_forms.FORMS) <= set(BY_KEY)
    for key, form in halide_forms.FORMS.items():
        assert set(list(inspect.signature(form).parameters)[1:]) < set(BY_KEY[key].arguments(tiny=True)), key
    assert [case.key for case in chosen("lu,jacobi*,Images")][:3] == ["jacobi-1d", "jacobi-2d", "lu"]
    with pytest.raises(KeyError, match="no case `luu`"):
        chosen("luu")


def twice_prefixed(x: Any) -> None:
    for i in range(len(x)):
        for j in range(i):
            x[i] += x[j]
    for i in range(len(x)):
        x[i] += 1.0


def test_pranges_marks_the_loops_named() -> None:
    called: list[int] = []

    def prange(n: int) -> range:
        called.append(n)
        return range(n)

    plain, marked = np.arange(5.0), np.arange(5.0)
    twice_prefixed(plain)
    bound(pranges(twice_prefixed, 1), {"prange": prange}, lambda each: each)(marked)
    assert called == [0, 1, 2, 3, 4] and np.array_equal(plain, marked)


@pytest.mark.parametrize("fault", ["value", "nan", "integer"])
def test_errors_are_seen(fault: str) -> None:
    case = BY_KEY["nussinov" if fault == "integer" else "gemm"]
    right = cpu_ways.reference(case, case.arguments(tiny=True), compiled=False)
    got = tuple(value.copy() for value in right)
    assert case.error(got, right) == 0
    got[0][3, 4] += {"value": 1e-6, "nan": np.nan, "integer": 1}[fault]
    assert case.error(got, right) > 10 * case.tolerance


# ----------------------------------------------------------------- peers with a C++ compiler


@pytest.mark.parametrize("peer", cpu_compiled.TEXTS)
def test_texts_for_compilers_compute_the_loops(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that pythran and DaCe get are Python, too."""
    monkeypatch.setitem(sys.modules, "dace", MagicMock())
    for case in CASES:
        arguments = case.arguments(tiny=True)
        text, name = cpu_compiled.TEXTS[peer](case, arguments)
        assert "prange" not in text, case.key
        words: dict[str, Any] = {}
        exec(text, words)
        right = cpu_ways.reference(case, arguments, compiled=False)
        way = cpu_ways.of_loops(case, arguments, words[name])
        way.run()
        assert case.error(way.results(), right) <= 10 * case.tolerance, case.key


def test_directives_stand_where_prange_was() -> None:
    directives = {case.key: cpu_compiled.pythran_text(case, case.arguments(tiny=True))[0] for case in CASES}
    assert "'omp parallel for reduction(+:total) reduction(+:squares) reduction(min:least) reduction(max:most)'" in directives["statistics"]
    assert directives["blur 3x3"].startswith("# pythran export blur(float32[:,:] order(C), float32[:,:] order(C))\n")
    assert directives["blur 3x3"].count("'omp parallel for'") == 2
    assert "for y_0 in range(h):" in directives["blur 3x3"] and "for x_1 in range(w):" in directives["blur 3x3"]
    assert "omp" not in directives["nussinov"]


@pytest.mark.parametrize("peer", cpu_compiled.TEXTS)
def test_what_is_compiled_stays(peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BY_KEY["gesummv"]
    arguments = case.arguments(tiny=True)
    program = ["import pathlib; pathlib.Path('made').open('a').write('x')"]
    monkeypatch.setenv("LOOPFUSE_PEERS", str(tmp_path))
    monkeypatch.setattr(cpu_compiled, "LIMIT", 5.0)
    monkeypatch.setattr(cpu_compiled, "commands", lambda *_: [sys.executable, "-c", program[0]])
    monkeypatch.setattr(cpu_compiled.importlib.metadata, "version", lambda _: "1")
    for _ in range(2):
        folder = cpu_compiled.built(peer, case, arguments)
        assert (folder / "made").read_text() == "x" and "gesummv" in (folder / "program.py").read_text()
    program[0] += "; print('and an error: no'); raise SystemExit(1)"
    for _ in range(2):
        with pytest.raises(RuntimeError, match="and an error: no"):
            cpu_compiled.built(peer, case, arguments)
    program[0] = "import time; time.sleep(60)"
    monkeypatch.setattr(cpu_compiled, "LIMIT", 0.2)
    with pytest.raises(RuntimeError, match=r"not compiled after 0\.2 s"):
        cpu_compiled.built(peer, case, arguments)


@pytest.mark.parametrize("peer", cpu_compiled.TEXTS)
def test_compilers_take_a_case(peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(peer)
    monkeypatch.setenv("LOOPFUSE_PEERS", str(tmp_path))
    case = BY_KEY["fdtd-2d"]
    arguments = case.arguments(tiny=True)
    way = cpu_ways.PEERS[peer](case, arguments)
    assert way is not None
    for _ in range(2):
        way.reset()
        way.run()
        assert case.error(way.results(), cpu_ways.reference(case, arguments, compiled=False)) <= case.tolerance


# ------------------------------------------------------------------------- processes of cases


def child(pipe: Any, names: list[str]) -> None:
    """What a case's process does: `dies` and `hangs` do so at work."""
    for name in ("loopfuse", *names):
        pipe.send(name)
        if name == "dies":
            os._exit(3)
        if name == "hangs":
            time.sleep(60)
    pipe.send("turns")
    if "dies late" in names:
        os._exit(4)
    pipe.send({"ms": 1.0, "peers": {name: {"ms": 2.0} for name in names}})


def found(names: list[str], limit: float = 20.0) -> dict[str, Any]:
    """The row of a case of such a process."""
    return cpu.measure_apart(names, limit, lambda left: cpu.in_process(child, (left,), limit))


def test_a_peer_that_dies_or_hangs_costs_its_own_figure() -> None:
    row = found(["a", "dies", "b"])
    assert row["ms"] == 1.0 and row["peers"]["a"] == row["peers"]["b"] == {"ms": 2.0}
    assert row["peers"]["dies"] == {"failed": "the process died (3)"}
    row = found(["hangs", "a"], 0.3)
    assert row["peers"] == {"a": {"ms": 2.0}, "hangs": {"failed": "not done after 0.3 s"}}
    row = found(["a", "dies late"])
    assert row["ms"] == 1.0 and set(row["peers"]) == {"a", "dies late"}
    assert all(one["failed"].startswith("in turns with others: the process died (4)") for one in row["peers"].values())


def test_loopfuse_that_dies_is_a_failed_row() -> None:
    def at_once(pipe: Any) -> None:
        pipe.send("loopfuse")
        os._exit(5)

    row = cpu.measure_apart([], 20.0, lambda left: cpu.in_process(at_once, (), 20.0))
    assert row == {"failed": "loopfuse: the process died (5)", "peers": {}}


def test_a_run_changes_its_own_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpu.json"

    def measured(ms: float) -> None:
        monkeypatch.setattr(cpu, "in_process", lambda *_: ({"ms": ms, "peers": {"numpy": {"ms": 2 * ms}}}, "", ""))

    common = ["--json", str(path), "--peers", "numpy"]
    measured(1.0)
    cpu.run_all(cpu.options([*common, "--only", "lu,gemm"]), 2)
    cpu.run_all(cpu.options([*common, "--only", "lu"]), 1)
    first = cpu.read_rows(path)
    assert list(first) == [("gemm", 2), ("lu", 1), ("lu", 2)]
    measured(3.0)
    cpu.run_all(cpu.options([*common, "--only", "lu"]), 2)
    again = cpu.read_rows(path)
    assert again["lu", 2]["ms"] == 3.0
    assert [again[key] for key in first if key != ("lu", 2)] == [first[key] for key in first if key != ("lu", 2)]
    cpu.run_all(cpu.options([*common, "--budget", "-1"]), 2)
    assert cpu.read_rows(path) == again


def test_the_turns_of_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that fails is an entry; one that has no form is none; times are there."""

    def refuse(*_: Any) -> None:
        raise RuntimeError("out of luck\nand more")

    case = BY_KEY["trisolv"]
    arguments = case.arguments(tiny=True)
    right = cpu_ways.reference(case, arguments, compiled=False)
    halved = lambda L, b: case.function(L, b / 2)  # noqa: E731
    monkeypatch.setattr(type(case), "arguments", lambda self: arguments)
    monkeypatch.setattr(cpu, "IDLE", 0.0)
    monkeypatch.setattr(cpu_ways, "reference", lambda *_, **__: right)
    monkeypatch.setattr(cpu_ways, "loopfuse_way", lambda case, given: cpu_ways.of_loops(case, given, case.function))
    monkeypatch.setitem(cpu_ways.PEERS, "torch eager", refuse)
    monkeypatch.setitem(cpu_ways.PEERS, "jax.jit", lambda case, given: cpu_ways.of_loops(case, given, halved))
    said: list[str] = []
    row = cpu.measure(case, ["torch eager", "numpy", "jax.jit"], 3, 1.0, said.append)
    assert row["right"] and row["error"] == 0 and row["ms"] > 0 and row["runs"] == 3
    assert set(row["peers"]) == {"torch eager", "jax.jit"}
    assert row["peers"]["torch eager"] == {"failed": "RuntimeError: out of luck"}
    assert not row["peers"]["jax.jit"]["right"] and row["peers"]["jax.jit"]["ms"] > 0
    assert said == ["reference", "loopfuse", "torch eager", "numpy", "jax.jit", "turns"]


# ------------------------------------------------------------------------------------ the page


def made_row(case: str, ms: float, threads: int = 2, **peers: Any) -> dict[str, Any]:
    """A made-up row; a number is a peer's time."""
    held = {
        name.replace("_", " "): {"run": "run 1", **(one if isinstance(one, dict) else {"ms": one, "right": True})}
        for name, one in peers.items()
    }
    group = BY_KEY[case].group if case in BY_KEY else "PolyBench"
    return {
        "case": case, "group": group, "threads": threads, "sizes": {"N": 9}, "device": "a CPU", "date": "2026-01-02",
        "run": "run 1", "versions": {"numba": "9"}, "load": 0.5, "ms": ms, "right": True, "error": 0.0, "peers": held,
    }  # fmt: skip


def page(*rows: dict[str, Any]) -> str:
    """The section of these rows."""
    return cpu_page.cpu_section({"rows": list(rows)}, lambda: BY_KEY)


def test_the_page_tells_what_is_bad() -> None:
    broken = {key: value for key, value in made_row("adi", 1.0).items() if key != "ms"}
    text = page(
        made_row("gemm", 10.0, numba=40.0, numba_parallel=20.0, numpy={"ms": 5.0, "right": True, "run": "run 0"}),
        made_row("lu", 10.0, numba=5.0, numba_parallel={"failed": "not done | after 9 s"}),
        made_row("atax", 10.0, numba={"ms": 1.0, "right": False}, numba_parallel=20.0),
        {**broken, "failed": "loopfuse: died", "peers": {}},
        {**made_row("nussinov", 2.0, numba=2.0), "right": False},
        made_row("gone", 1.0),
    )
    assert "- PolyBench's programs against the better numba form: 1.19 times as fast (geometric mean of 4); faster in 3." in text
    assert "- All programs against the best peer, libraries included: 0.84 times as fast (geometric mean of 4)" in text
    assert "- The worst three: gemm (numpy 0.50x); lu (numba 0.50x); nussinov (numba 1.00x)." in text
    assert "- Wrong results: nussinov." in text
    assert f"  - lu (numba 0.50x): {BY_KEY['lu'].reason or 'not looked into'}." in text
    assert "- Failed: adi: `loopfuse: died`." in text
    assert "- Failed: numba parallel, lu: `not done \\| after 9 s`." in text
    assert "| gemm | N=9 | **10.0** | 40.0 (4.00x) | 20.0 (2.00x) | 5.00 (0.50x) * | numpy 0.50x |" in text
    assert "| atax | N=9 | **10.0** | 1.00 (0.10x) **wrong** | 20.0 (2.00x) |  | numba parallel 2.00x |" in text
    assert "| gone | N=9 | **1.00** |  |  |  |  |" in text
    assert "- nussinov: numba: no parallel loop in this order." in text
    assert "over one" not in text


def test_the_page_tells_what_threads_bring() -> None:
    text = page(
        made_row("gemm", 30.0, threads=1), made_row("gemm", 10.0, numba=20.0),
        made_row("lu", 20.0, threads=1), made_row("lu", 15.0, numba=20.0),
    )  # fmt: skip
    assert "loopfuse on 2 threads over one: 2.00 times as fast (geometric mean of 2): PolyBench 2.00. Least: lu 1.33, gemm 3.00." in text
    assert "One thread:" not in text and "2 threads: a CPU, 2026-01-02, numba 9 (load average 0.5)." in text


def test_a_page_without_peers_is_made() -> None:
    assert "## Programs on a CPU" in page()
    text = page(made_row("gemm", 1.0, numpy={"failed": "no"}))
    assert "- PolyBench's programs against the better numba form: not measured." in text
    assert "| gemm | N=9 | **1.00** | failed |  |" in text
