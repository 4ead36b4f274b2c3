"""The grammar is found from a checkout, an editable install and a wheel."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from loopfuse.base.diagnostics import InternalError
from loopfuse.frontend.lf.grammar_file import find_grammar

ROOT = Path(__file__).resolve().parents[2]

PROBE = """
import sys
from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.grammar_file import find_grammar
from loopfuse.frontend.lf.door import parse
assert parse(Source("x", "const K = 3")).items[0].name == "K"
print(find_grammar())
"""


def probe(first: Path, cwd: Path) -> Path:
    """The grammar that a fresh Python finds with `first` at the head of its path.

    `-I` keeps this checkout, the environment and any installed loopfuse's startup hooks out;
    lark comes from where this Python has it.
    """
    lark_home = Path(__import__("lark").__file__).parent.parent
    head = f"import sys; sys.path[:0] = [{str(first)!r}, {str(lark_home)!r}]\n"
    # Follow .pth files as at start-up, ahead of an editable install this Python may have itself.
    head += f"import site; known = list(sys.path); site.addsitedir({str(first)!r})\n"
    head += "new = [p for p in sys.path if p not in known]; sys.path[:] = new + known\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", head + PROBE],
        cwd=cwd, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return Path(done.stdout.strip())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what a wheel is built from, so that building leaves no trace in the checkout."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for folder in ("loopfuse", "grammar", "examples"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    (copy / "README.md").write_text("# loopfuse\n")
    return copy


def build(kind: str, root: Path) -> Path:
    """The wheel that hatchling builds from `root`: `standard` or `editable`."""
    pytest.importorskip("hatchling")
    from hatchling.builders.wheel import WheelBuilder

    (built,) = WheelBuilder(str(root)).build(directory=str(root / "dist"), versions=[kind])
    return Path(built)


def test_checkout(tmp_path: Path) -> None:
    assert find_grammar() == ROOT / "grammar" / "loopfuse.lark"
    assert probe(ROOT, tmp_path) == ROOT / "grammar" / "loopfuse.lark"


def test_wheel(checkout: Path, tmp_path: Path) -> None:
    wheel = build("standard", checkout)
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert "loopfuse/_grammar/loopfuse.lark" in names
        assert not [name for name in names if name.startswith(("grammar/", "tests/"))]
        archive.extractall(site)
    found = probe(site, tmp_path)
    assert found == site / "loopfuse" / "_grammar" / "loopfuse.lark"
    assert found.read_bytes() == (ROOT / "grammar" / "loopfuse.lark").read_bytes()


def test_editable_install(checkout: Path, tmp_path: Path) -> None:
    """An editable install is a `.pth` file in site-packages that leads to the checkout."""
    site = tmp_path / "site"
    site.mkdir()
    if importlib.util.find_spec("editables"):  # what hatchling writes the file with
        with zipfile.ZipFile(build("editable", checkout)) as archive:
            archive.extractall(site)
        (pth,) = site.glob("*.pth")
        assert pth.read_text().split() == [str(checkout)]
    else:
        (site / "_loopfuse.pth").write_text(f"{checkout}\n")
    assert probe(site, tmp_path) == checkout / "grammar" / "loopfuse.lark"


def test_the_copy_inside_the_package_wins(tmp_path: Path) -> None:
    for folder in ("grammar", "loopfuse/_grammar"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "loopfuse.lark").write_text("")
    found = find_grammar(tmp_path / "loopfuse")
    assert found == tmp_path / "loopfuse/_grammar/loopfuse.lark"


def test_missing_grammar_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as caught:
        find_grammar(tmp_path / "loopfuse")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "grammar-missing"
    assert all(str(tmp_path) in note for note in diagnostic.notes)
