"""What a notebook shows: executed, made a page by nbconvert (which has JupyterLab's style sheets),
and measured and photographed in a headless Chromium.

Skipped where nbclient, nbconvert, ipykernel (the extra `test`) or Chromium is missing; `.ci/run`
installs them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.html import fragment
from loopfuse.cli import _run

sys.path.insert(0, str(Path(__file__).parent))
import pages

pytestmark = pytest.mark.whole
SYSTEMS = pytest.mark.parametrize("dark_system", [False, True], ids=["light-system", "dark-system"])
# What sites do to tables, more specific than an element's name.
SITE = """<style>
.content table {display:block; width:100%; font-size:9px; color:#777; border:3px solid red}
.content table caption {font-size:7px; color:#ccc; text-align:center; caption-side:bottom}
.content table tbody tr td, .content table th {text-align:center; padding:0; font-size:8px}
.content h2 {font-size:11px; text-transform:uppercase} .content code {color:#eee; background:#eee}
</style>"""


@pytest.fixture(scope="module", autouse=True)
def chromium() -> None:
    if pages.browser() is None:
        pytest.skip("no Chromium: `apt install chromium`")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def book(folder: Path) -> Any:
    for needed in ("nbclient", "nbconvert", "ipykernel"):
        pytest.importorskip(needed, reason=f"no {needed}: pip install 'loopfuse[test]'")
    return pages.execute(folder)


def outputs(book: Any) -> dict[int, dict[str, str]]:
    """What each cell shows, by kind of data; nothing else is printed, and nothing fails. Of
    long work it stays how long it took."""
    found: dict[int, dict[str, str]] = {}
    for number, cell in enumerate(book.cells):
        for output in cell.outputs:
            if output.output_type == "display_data":
                assert re.search(r">(planning|tuning|compiling) \w+: \d+ s<", output.data["text/html"])
                continue
            assert output.output_type == "execute_result", output
            found[number] = dict(output.data)
    return found


def test_long_work_was_shown(book: Any) -> None:
    """jacobi takes seconds to plan; the notebook's own cache is empty."""
    kinds = [[output.output_type for output in cell.outputs] for cell in book.cells]
    assert kinds[3] == ["display_data", "execute_result"]
    assert kinds[2] == kinds[8] == ["execute_result"]


def test_everything_has_a_look(book: Any) -> None:
    shown = outputs(book)
    for number, cell in enumerate(pages.CELLS):
        kinds = ("explain(", "dependences(", "verify(", "tune(")
        if any(kind in cell for kind in kinds) and "def " not in cell:
            html, text = shown[number]["text/html"], shown[number]["text/plain"]
            assert html.startswith("<style>") and "prefers-color-scheme" not in html
            # What is shown as text is as readable as when printed.
            for raw in ("Verification(", "Explanation(", "Tuned(", "{'schema'"):
                assert raw not in text
    assert shown[8 - 1]["text/plain"].startswith("<loopfuse artifact of soften for cpu")
    assert shown[9 - 1]["text/plain"] == "<loopfuse kernel soften(img, amount) in Python>"
    assert shown[10 - 1]["text/plain"] == "True", "a kernel of a notebook pickles"


@pytest.fixture(scope="module")
def page(book: Any, folder: Path) -> Any:
    made: dict[str, Path] = {}
    for theme in ("light", "dark"):
        made[theme] = folder / f"{theme}.html"
        made[theme].write_text(pages.export(book, theme))
    return made


def check(seen: list[dict[str, Any]], width: int) -> None:
    """It can be read, cells are aligned, and nothing leaves the page."""
    assert len(seen) > 20
    for one in seen:
        if one["text"] and one["height"]:
            assert one["contrast"] > 4.5, one
            assert one["right"] <= width, one
    cells = [one for one in seen if one["tag"] in ("th", "td") and one["width"] > 2]
    for one in cells:
        narrow = width < 500
        number = "number" in one["kind"] and not narrow
        assert one["align"] == ("right" if number else "left"), one
        if narrow and one["text"]:
            assert one["width"] > 0.7 * width, "each cell has lines of its own"
    captions = [one for one in seen if one["tag"] == "caption"]
    assert captions and all(one["align"] == "left" for one in captions)
    assert len({one["size"] for one in [*captions, *cells]}) == 1


@SYSTEMS
@pytest.mark.parametrize("width", [1000, 400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read(page: Any, theme: str, width: int, dark_system: bool) -> None:
    check(pages.look(page[theme], dark_system=dark_system, width=width), width)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_decides_and_not_the_system(page: Any, theme: str) -> None:
    light, dark = (
        pages.photograph(page[theme], dark_system=system, width=900, height=3000)
        for system in (False, True)
    )
    np.testing.assert_array_equal(light, dark)
    paper = np.median(light.reshape(-1, 3), axis=0)
    assert (paper > 230).all() if theme == "light" else (paper < 40).all()
    assert light.std() > 5, "there is something on it"


@SYSTEMS
@pytest.mark.parametrize("width", [1000, 400])
def test_a_page_of_its_own_follows_the_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dark_system: bool, width: int
) -> None:
    assert _run(["explain", "example:jacobi", "--target", "cpu", "--format", "html"]) == 0
    path = tmp_path / "page.html"
    path.write_text(capsys.readouterr().out)
    check(pages.look(path, dark_system=dark_system, width=width), width)
    picture = pages.photograph(path, dark_system=dark_system, width=900, height=800)
    paper = np.median(picture.reshape(-1, 3), axis=0)
    assert (paper < 60).all() if dark_system else (paper > 230).all()


def test_a_sites_own_table_style_is_taken_back(tmp_path: Path) -> None:
    report = loopfuse.load("example:unsharp", target="cpu").explain(H=480, W=640)
    path = tmp_path / "site.html"
    path.write_text(f"<!doctype html>{SITE}<body class='content'>{report._repr_html_()}</body>")
    seen = pages.look(path, dark_system=False, width=1000)
    check(seen, 1000)
    assert {one["size"] for one in seen if one["tag"] in ("caption", "td")} == {16}


def test_the_measure_sees_what_is_wrong(tmp_path: Path) -> None:
    """Black on black, a column of one word, and a cell on the wrong side are noticed."""
    path = tmp_path / "bad.html"
    rows = "<tr><th>a</th><td style='text-align:center'>b</td></tr>" * 12
    body = f"<table><caption>c</caption>{rows}</table>"
    for style in ("", "<style>.loopfuse{color:#111;background:#000}</style>"):
        path.write_text(f"<!doctype html><body>{style}{fragment(body)}</body>")
        with pytest.raises(AssertionError):
            check(pages.look(path, dark_system=False, width=1000), 1000)
