"""Every code block in README and docs runs.

`sh` lines that start with `loopfuse` run in a copy of the checkout's examples and must succeed;
`lf` blocks are read and checked; `python` blocks run there too; `text` and unmarked blocks are
prose. In the error pages the program under a heading must be refused with the heading's code.
README's first two `sh` blocks install things: `.ci/run` runs those.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import LoopfuseError, Source
from loopfuse.base.options import Options
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check, check_with_warnings

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if "decisions" not in p.parts),
]
KNOWN = {"sh", "lf", "python", "text", "json", "mlir", "toml", "c", ""}


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, line, number on the page, language, text, and the heading above it."""

    page: Path
    line: int
    number: int
    language: str
    text: str
    heading: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def name(self) -> str:
        """How pytest shows it, whatever lines are added above it."""
        return f"{self.page.relative_to(ROOT)}#{self.number}"


def blocks_of(page: Path) -> Iterator[Block]:
    heading = ""
    fence: re.Match[str] | None = None
    start, found, lines = 0, 0, list[str]()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if fence is None:
            if title := re.match(r"#+ +(.*)", line):
                heading = title.group(1).strip().strip("`")
            fence = re.match(r"( *)(```+) *([\w-]*)(.*)$", line)
            start, lines = number, []
        elif line.strip() == fence.group(2):
            found += 1
            yield Block(page, start, found, fence.group(3), "\n".join(lines) + "\n", heading)
            fence = None
        else:
            lines.append(line.removeprefix(fence.group(1)))
    assert fence is None, f"{page}:{start}: the block is never closed"


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
INSTALL = [b for b in BLOCKS if b.page.name == "README.md" and b.language == "sh"][:2]


def of(language: str) -> list[Block]:
    return [b for b in BLOCKS if b.language == language and b not in INSTALL]


def name_of(block: Block) -> str:
    """How pytest shows a block."""
    return block.name


def is_error_page(block: Block) -> bool:
    """A page that lists diagnostics, one heading a code."""
    return "errors" in block.page.relative_to(ROOT).as_posix()


def test_every_block_has_a_known_language() -> None:
    for block in BLOCKS:
        assert block.language in KNOWN, f"{block}: unknown language `{block.language}`"


def test_the_install_lines_are_one_line_each() -> None:
    assert len(INSTALL) == 2
    for block in INSTALL:
        assert block.text.count("\n") == 1, f"{block} is not one line"
    assert "loopfuse run example:unsharp" in INSTALL[0].text
    assert "pytest" in INSTALL[1].text


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def commands_of(block: Block) -> list[str]:
    joined = block.text.replace("\\\n", " ")
    lines = [line.strip().removeprefix("$ ") for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("block", of("sh"), ids=name_of)
def test_shell(block: Block, checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from loopfuse.cli import _run

    for command in commands_of(block):
        words = shlex.split(command, comments=True)
        if words[0] != "loopfuse":
            assert words[0] in ("pip", ".venv/bin/pip", "python", ".venv/bin/python"), command
            continue
        code = _run(words[1:])
        said = capsys.readouterr()
        assert code == 0, f"{block}: {command}\n{said.err}"
        assert said.out, f"{block}: {command} says nothing"


@pytest.mark.parametrize("block", [b for b in of("lf") if not is_error_page(b)], ids=name_of)
def test_programs(block: Block) -> None:
    try:
        check(parse(Source(str(block), block.text)))
    except LoopfuseError as error:
        pytest.fail(f"{block}\n{error}")


def codes_of(text: str, name: str) -> list[str]:
    """The codes of everything said about a program: errors, or else warnings."""
    try:
        program, warnings = check_with_warnings(parse(Source(name, text)))
        for kernel in program.kernels:
            pipeline.plan_kernel(program, kernel.name, Options())
    except LoopfuseError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]
    return [diagnostic.code for diagnostic in warnings]


def is_code(heading: str) -> bool:
    return re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", heading) is not None


@pytest.mark.parametrize("block", [b for b in of("lf") if is_error_page(b)], ids=name_of)
def test_errors(block: Block) -> None:
    if not is_code(block.heading):
        pytest.skip("not under a code")
    assert block.heading in codes_of(block.text, str(block)), f"{block}: not {block.heading}"


@pytest.mark.parametrize("block", [b for b in of("python") if not is_error_page(b)], ids=name_of)
def test_python(block: Block, checkout: Path) -> None:
    # In a file: a kernel is read from its source. (Those of the error pages have a test of their own.)
    (checkout / "block.py").write_text(block.text, "utf-8")
    code = compile(block.text, str(checkout / "block.py"), "exec", dont_inherit=True)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, {"__name__": "__docs__"})


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_environment_variable_is_documented() -> None:
    """docs/env.md lists what the code reads, and nothing else."""
    read: set[str] = set()
    for file in (ROOT / "loopfuse").rglob("*.py"):
        read |= set(re.findall(r'environ\S*?\(?\[?"((?:LOOPFUSE|NO)_\w+)"', file.read_text("utf-8")))
    listed = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs/env.md").read_text("utf-8"), re.M))
    assert read == listed


def test_index_reaches_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / target).resolve()
        for target in re.findall(r"\]\(([^)#]+\.md)[^)]*\)", index.read_text("utf-8"))
    }
    pages = {
        page.resolve()
        for page in (ROOT / "docs").rglob("*.md")
        if "errors.d" not in page.parts and page != index
    }
    assert not pages - linked, f"not linked from docs/index.md: {sorted(pages - linked)}"
    assert all(target.exists() for target in linked)
