"""How results show themselves: in an interactive session, printed, and as HTML."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

import loopfuse
from loopfuse.base.html import Column, code, prose, table, text
from loopfuse.base.options import Tuning
from loopfuse.cli import _run
from loopfuse.commands.bench_report import Found, Row
from loopfuse.explain.explanation import Explanation
from loopfuse.explain.html import render_fragment
from loopfuse.explain.text import in_text_order, render_text
from loopfuse.kernels.verify import Mismatch, Verification
from loopfuse.plan.units.records import Decision, Formula
from loopfuse.tuning.remember import Tuned
from loopfuse.tuning.search import Trial


@pytest.fixture(scope="module")
def jacobi() -> Any:
    """Not fused: that takes a while, and its report has the same parts."""
    return loopfuse.load("example:jacobi", target="sm_90").with_options(fuel=0)


def test_a_loop_reads_what_it_writes_too(jacobi: Any) -> None:
    report = jacobi.explain().report
    (loop,) = report.loops
    assert set(loop.reads) == {"a", "b"} and [part.reads for part in loop.parts] == [("a",), ("b",)]
    assert "L1 line 4    b, a  from a, b" in str(jacobi.explain())


def test_formulas_are_no_headings(jacobi: Any) -> None:
    report = jacobi.explain().report
    html = render_fragment(report)
    heading = re.findall(r"<h2>(.*?)</h2>", html)
    assert heading == ["jacobi"]
    less = replace(report, traffic_after=Formula("8*N*N*steps", None))
    said = r"Memory traffic: about 4 times less[^.<]*, where every size is large"
    assert re.search(said, render_fragment(less))
    assert "launches</th>" in html and "<code>2*steps</code>" in html
    assert "prefers-color-scheme" not in html and ":root" not in html


def test_columns_that_say_nothing_are_left_out(jacobi: Any) -> None:
    report = jacobi.explain(N=64, steps=4).report
    assert "registers</th>" not in render_fragment(report)
    kernel = replace(report.kernels[0], registers=40, shared_bytes=1024)
    shown = render_fragment(replace(report, kernels=(kernel, *report.kernels[1:])))
    assert "registers</th>" in shown and ">1024</td>" in shown


def test_dependences_are_data_that_shows_itself(jacobi: Any) -> None:
    found = jacobi.dependences()
    assert isinstance(found, dict) and json.loads(json.dumps(found)) == found
    assert str(found).splitlines()[2].split() == [
        "kind", "array", "from", "to", "distance", "direction", "carried", "by",
    ]  # fmt: skip
    assert found._repr_html_().count("<tr") == 1 + len(found["dependences"])
    none = loopfuse.loads("kernel k(out y: f32[N]):\n    for i in 0..N:\n        y[i] = 1.0\n")
    assert "no dependences" in none.dependences()._repr_html_()
    assert str(none.dependences()) == "k  no dependences"
    assert repr(found) == str(found), "what an interactive session shows"


def test_statements_without_a_common_loop_say_so() -> None:
    apart = loopfuse.loads(
        "kernel k(x: f32[N], out y: f32[N]):\n    temp t: f32[N]\n"
        "    for i in 0..N:\n        t[i] = x[i]\n    for i in 0..N:\n        y[i] = t[i]\n"
    ).dependences()
    assert apart["dependences"][0]["distance"] == []
    assert "()" not in str(apart) and "no common loop" in str(apart)
    assert "()" not in apart._repr_html_() and ">no common loop<" in apart._repr_html_()


def test_decisions_stand_in_text_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    report = loopfuse.load("example:unsharp", target="sm_90").explain(H=4096, W=4096).report
    report = replace(report, decisions=tuple(reversed(report.decisions)))
    text, html = render_text(report), render_fragment(report)
    for shown in (text[text.index("launches  ") :], html[html.index("Decisions") :]):
        assert shown.index("L1 + L2") < shown.index("L2 + L3")
    pairs = [["L1", "L2"], ["L2", "L3"]]
    assert [one["between"] for one in Explanation(report).to_dict()["decisions"]] == pairs
    many = [Decision((f"L{k}", f"L{k + 1}"), False, None, "") for k in (10, 2, 9)]
    assert [one.between[0] for one in in_text_order(many)] == ["L2", "L9", "L10"]
    monkeypatch.chdir(tmp_path)
    assert _run(["explain", "example:unsharp", "--target", "cpu", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["between"] for one in said["decisions"]] == pairs
    assert _run(["compile", "example:unsharp", "--target", "cpu", "--emit", "report"]) == 0
    assert json.loads((tmp_path / "unsharp.report.json").read_text())["decisions"] == said["decisions"]


def test_a_verification_that_failed() -> None:
    wrong = Mismatch((("N", 3),), ("fused", "unfused"), "y<", (1,), (1.0, 2.0))
    found = Verification("k", "cpu", "", 2, (wrong,), ((("N", 3),), ()))
    html = found._repr_html_()
    assert "differ" in html and "y&lt;[1]" in html and "Sizes: N=3" in html
    assert repr(found) == str(found) and "DIFFERS" in str(found)


def test_a_tuning() -> None:
    trials = (Trial(Tuning(), 2e-6), Trial(Tuning(steps=2), None, "does not fit"))
    found = Tuned(Tuning(), 1e-6, 2e-6, 2, True, 30.0, trials, ("k differs",))
    html = found._repr_html_()
    assert repr(found) == str(found) and "2.00 times as fast" in html
    assert "does not fit" in html and 'align="right" data-head="µs">2.0</td>' in html
    assert "k differs" in html
    assert html.count('class="good"') == 2 and ">chosen</span>" in html and "<h2>" not in html
    assert "<h2>heat</h2>" in replace(found, kernel="heat")._repr_html_()


@pytest.mark.parametrize(
    ("gain", "said"),
    [(2.0, "2.00 times as fast as the default"), (1.001, "as fast as the default"),
     (0.8, "1.25 times slower than the default")],
)  # fmt: skip
def test_a_gain_of_one_is_none(gain: float, said: str) -> None:
    found = Tuned(Tuning(), 1e-6, gain * 1e-6, 2, True, 30.0)
    assert str(found) == f"the planner's own: {said} (2 choices tried)"


@pytest.mark.parametrize(
    ("fused", "unfused", "copy", "said"),
    [
        (1.0, 2.0, 0.5, "fused is 2.00 times faster than unfused, 2.00 copies of its 100 B"),
        (1.0, 0.91, 0.999, "fused is 1.10 times slower than unfused, as long as a copy of its 100 B"),
        (1.0, 1.002, 2.0, "fused is as fast as unfused, 0.50 of the time of a copy of its 100 B"),
    ],
)
def test_a_ratio_below_one_is_said_as_such(fused: float, unfused: float, copy: float, said: str) -> None:
    rows = (Row("fused", fused, 1, 1), Row("unfused", unfused, 1, 1), Row("copy", copy, 1, ""))
    assert said in Found("k", "cpu", "", {}, 100, rows).to_text()


@pytest.mark.parametrize(
    ("quick", "said"),
    [(2.0, "(2.00 by their quickest calls)"), (0.5, "(2.00 times slower by their quickest calls)"),
     (1.0, "(as fast by their quickest calls)")],
)  # fmt: skip
def test_quickest_calls_may_say_otherwise(quick: float, said: str) -> None:
    rows = (Row("fused", 3.0, 1, 1, None, 1.0), Row("unfused", 6.0, 1, 1, None, quick), Row("copy", 1.0, 1, ""))
    assert said in Found("k", "cpu", "", {}, 100, rows).to_text()


def test_pieces() -> None:
    assert text("<a>\x1b") == r"&lt;a&gt;\x1b" and code("") == "" and code("<") == "<code>&lt;</code>"
    assert prose("`a<b` and `c`") == "<code>a&lt;b</code> and <code>c</code>"
    assert prose("a ` alone") == "a ` alone"
    assert table("none", [Column("a")], []) == ""
    made = table("c", [Column("a"), Column("n", True)], [["x", "1"]])
    assert 'scope="row" align="left">x</th>' in made
    assert 'data-head="n">1</td>' in made and 'class="number" align="right"' in made
