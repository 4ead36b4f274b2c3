"""Every ```lf block in the documents is a complete program that is read, checked and run."""

from __future__ import annotations

import re

import engines
import pytest
from case_files import ROOT, assert_same, make_arguments

from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.check.check import check_with_warnings
from loopfuse.lang.surface.format import format_module

_BLOCK = re.compile(r"^```lf\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks() -> list[tuple[str, Source]]:
    """(page and number on the page, text) of each block."""
    found: list[tuple[str, Source]] = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.name == "errors.md" or "errors.d" in path.parts:
            continue  # refused programs, each pinned by a test of its own
        text = path.read_text() if path.exists() else ""
        name = str(path.relative_to(ROOT))
        for number, match in enumerate(_BLOCK.finditer(text), 1):
            found.append((f"{name}#{number}", Source(name, match[1])))
    return found


@pytest.mark.parametrize("source", [pytest.param(s, id=where) for where, s in blocks()])
def test_block_runs(source: Source) -> None:
    """It has no error and no warning, the formatter keeps its meaning, and compiled code has the
    interpreter's bits."""
    module = parse(source)
    program, warnings = check_with_warnings(module)
    assert not warnings, [warning.message for warning in warnings]
    assert parse(Source("again", format_module(module))) == module
    for kernel in program.kernels:
        sizes = dict.fromkeys(kernel.sizes, 6)
        arguments = make_arguments(kernel, sizes, {})
        expected = engines.interpret(kernel, arguments, sizes)
        common = (source, kernel, arguments, sizes)
        assert_same(kernel, expected, engines.run_plan(*common, target=CPU), "tree")
        assert_same(kernel, expected, engines.run_compiled(*common), "compiled")


def test_blocks_are_found() -> None:
    """The language page shows every construct; a broken pattern must not pass."""
    names = {where.split("#")[0] for where, _ in blocks()}
    assert {"docs/language.md", "docs/types.md"} <= names
    assert len(blocks()) >= 15
