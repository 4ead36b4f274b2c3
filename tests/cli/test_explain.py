"""The report's text is pinned as the design drafts it; the JSON and the HTML hold the same."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from loopfuse.explain.explanation import Explanation
from loopfuse.explain.html import render_page
from loopfuse.explain.text import bytes_text, render_summary, render_text
from loopfuse.plan.units.records import (
    Decision,
    Formula,
    KernelInfo,
    LoopInfo,
    Place,
    Report,
    Witness,
)

DRAFT = """\
unsharp  examples/unsharp.lf:5   sm_90   H=4096 W=4096       3 launches -> 1

  L1 line 8    rows   from img        |
  L2 line 10   blur   from rows       |>  unsharp_0   sliding down y
  L3 line 12   sharp  from blur, img  |

               before      after
  traffic    469.8 MB   134.2 MB   3.5 times less (7 passes over memory -> 2)
  launches          3          1

  L1 + L2   fused   L2 runs 2 rows behind L1: blur[y] needs rows[y-2..y+2]
  L2 + L3   fused   no shift: sharp[y, x] needs only blur[y, x]

  rows      a window of 5 rows in registers    was 67.1 MB in memory
  blur      one register                       was 67.1 MB
  Checked   schedule verified against all dependences (2 ms of 74 ms)
  Next      loopfuse bench examples/unsharp.lf"""

PIXELS = 4096 * 4096


@pytest.fixture
def unsharp() -> Report:
    """The report that the design's draft shows."""
    return Report(
        kernel="unsharp",
        target="sm_90",
        source_name="examples/unsharp.lf",
        line=5,
        sizes=(("H", 4096), ("W", 4096)),
        loops=(
            LoopInfo("L1", 8, ("rows",), ("img",), ("S1",)),
            LoopInfo("L2", 10, ("blur",), ("rows",), ("S2",)),
            LoopInfo("L3", 12, ("sharp",), ("blur", "img"), ("S3",)),
        ),
        launches_before=3,
        launches_after=1,
        traffic_before=Formula("28 * H * W", 28 * PIXELS),
        traffic_after=Formula("8 * H * W", 8 * PIXELS),
        passes=(7, 2),
        kernels=(
            KernelInfo(
                "unsharp_0",
                "sliding",
                ("L1", "L2", "L3"),
                (("rows", "window(5)"), ("blur", "register")),
                detail="sliding down y",
            ),
        ),
        decisions=(
            Decision(
                ("L1", "L2"), True, (2, 0), "L2 runs 2 rows behind L1: blur[y] needs rows[y-2..y+2]"
            ),
            Decision(("L2", "L3"), True, (0, 0), "no shift: sharp[y, x] needs only blur[y, x]"),
        ),
        preconditions=(),
        temporary_bytes=(
            ("rows", Formula("4 * H * W", 4 * PIXELS)),
            ("blur", Formula("4 * H * W", 4 * PIXELS)),
        ),
        checked="schedule verified against all dependences (2 ms of 74 ms)",
    )


def test_text_is_the_draft(unsharp: Report) -> None:
    assert render_text(unsharp) == DRAFT


def test_symbolic_sizes_print_formulas_and_the_ratio_for_large_sizes(unsharp: Report) -> None:
    report = replace(
        unsharp,
        sizes=(),
        traffic_before=Formula("28 * H * W"),
        traffic_after=Formula("8 * H * W"),
    )
    text = render_text(report)
    assert "28 * H * W bytes" in text
    assert "about 3.5 times less" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_refusal_shows_the_instance_and_the_remedy(unsharp: Report) -> None:
    witness = Witness(
        "rows",
        (0, 3),
        Place("L1", 8, (("y", 0), ("x", 3))),
        Place("L2", 10, (("y", 0), ("x", 0))),
        (("H", 4), ("W", 4)),
    )
    decision = Decision(
        ("L1", "L2"),
        False,
        None,
        "L2 reads a value that L1 has not written yet when both run together, whatever the shift",
        witness,
        "read `rows[y, x]` instead of `rows[y, W-1-x]`",
    )
    report = replace(unsharp, decisions=(decision,), launches_after=2)
    text = render_text(report)
    flat = " ".join(text.split())
    assert "L1 + L2 apart L2 reads a value" in flat
    assert "rows[0, 3] is touched by L1 line 8 at y=0 x=3, then by L2 line 10 at y=0 x=0" in flat
    assert "remedy: read `rows[y, x]` instead" in flat
    assert max(map(len, text.splitlines())) <= 80


def test_loops_of_two_kernels_get_two_bars(unsharp: Report) -> None:
    kernels = (
        KernelInfo("unsharp_0", "generic", ("L1",), ()),
        KernelInfo("unsharp_1", "pointwise", ("L2", "L3"), (("blur", "register"),)),
    )
    lines = render_summary(replace(unsharp, kernels=kernels)).splitlines()
    marks = [line[line.index("|") :] for line in lines if "|" in line]
    assert marks == ["|>  unsharp_0   generic", "|>  unsharp_1   pointwise", "|"]


def test_a_loop_of_two_launches_shows_both(unsharp: Report) -> None:
    kernels = (
        KernelInfo("sum_0_a", "generic", ("L1", "L2", "L3"), (), detail="partial results"),
        KernelInfo("sum_0_b", "generic", ("L1", "L2", "L3"), (), detail="one block adds them"),
    )
    lines = render_summary(replace(unsharp, kernels=kernels)).splitlines()
    marks = [line[line.index("|") :] for line in lines if "|" in line]
    assert marks == ["|>  sum_0_a   partial results", "|>  sum_0_b   one block adds them", "|"]


def test_a_long_detail_goes_under_its_name(unsharp: Report) -> None:
    long = "generic, parallel over k, j, i, vectorised along i, two rows in flight"
    one = KernelInfo("unsharp_0", "generic", ("L1", "L2", "L3"), (), detail=long)
    lines = render_summary(replace(unsharp, kernels=(one,))).splitlines()
    marks = [line[line.index("|") :] for line in lines if "|" in line]
    assert marks[0] == "|>  unsharp_0"
    assert " ".join(mark.removeprefix("|   ") for mark in marks[1:]) == long
    assert max(map(len, lines)) <= 80


def test_many_names_stay_in_the_page(unsharp: Report) -> None:
    many = tuple(f"array_number_{k}" for k in range(12))
    loops = tuple(replace(loop, reads=many, writes=many) for loop in unsharp.loops)
    report = replace(unsharp, loops=loops, preconditions=tuple(f"N{k} >= {k}" for k in range(30)))
    assert max(map(len, render_text(report).splitlines())) <= 80


def test_json_round_trips(unsharp: Report) -> None:
    data = json.loads(json.dumps(Explanation(unsharp).to_dict()))
    assert data["schema"] == 1
    assert data["launches"] == {"before": 3, "after": 1}
    assert data["kernels"][0]["homes"] == {"rows": "window(5)", "blur": "register"}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (469_762_048, "469.8 MB")],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


class _Reader(HTMLParser):
    """Checks that tags nest, and keeps the words."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_html_is_well_formed_self_contained_and_escaped(unsharp: Report) -> None:
    report = replace(unsharp, kernel="a<b", preconditions=("H <= 3 & W < 4",))
    page = render_page([report, unsharp])
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    text = " ".join(reader.words)
    assert "a<b" in text and "H <= 3 & W < 4" in text
    assert "L2 runs 2 rows behind L1" in text
    assert "src=" not in page and "http" not in page and "<script" not in page
    assert ("html", {"lang": "en"}) in reader.tags
    heads = [attrs for tag, attrs in reader.tags if tag == "th"]
    assert heads and all("scope" in attrs for attrs in heads)
