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
from loopfuse.commands.verify import Mismatch, Verification
from loopfuse.explain_html import render_fragment
from loopfuse.plan.records import Formula
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


def test_pieces() -> None:
    assert text("<a>\x1b") == r"&lt;a&gt;\x1b" and code("") == "" and code("<") == "<code>&lt;</code>"
    assert prose("`a<b` and `c`") == "<code>a&lt;b</code> and <code>c</code>"
    assert prose("a ` alone") == "a ` alone"
    assert table("none", [Column("a")], []) == ""
    made = table("c", [Column("a"), Column("n", True)], [["x", "1"]])
    assert 'scope="row" align="left">x</th>' in made
    assert 'data-head="n">1</td>' in made and 'class="number" align="right"' in made
