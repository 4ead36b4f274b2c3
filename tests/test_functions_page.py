"""The lists of functions in docs are the table's, and what they list is what each door takes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import engines
import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.lang import ops

sys.path.insert(0, str(Path(__file__).resolve().parent / "tools"))

import make_functions as made


@pytest.mark.parametrize("name", made.PAGES)
def test_page_is_current(name: str) -> None:
    page, wanted = made.make_page(name)
    assert page == wanted, "run python tests/tools/make_functions.py"


def listed() -> list[str]:
    """Words of the list in docs/language.md."""
    page = (made.ROOT / "docs" / "language.md").read_text("utf-8")
    part = page.split(made.START)[1].split(made.END)[0]
    return re.findall(r"`(\w+)", part)


def test_what_the_language_lists_is_called() -> None:
    """One program calls them all, and its types are what the table says."""
    assert set(listed()) == set(ops.FUNCTIONS)
    lines: list[str] = []
    for word in listed():
        row = ops.BY_NAME[word]
        given = ", ".join(("x[i]", "w[i]", "x[i]")[: row.arity])
        kind = "bool" if row.gives == "bool" else "f32"
        lines.append(f"        var {word}_: {kind} = {word}({given})")
    text = "kernel k(x: f32[N], w: f32[N]):\n    for i in 0..N:\n" + "\n".join(lines) + "\n"
    (kernel,) = engines.read(Source("k.lf", text)).kernels
    assert kernel.name == "k"


def test_what_costs_is_not_free() -> None:
    """Every row has a cost for each target, and f64 costs at least as much as f32."""
    for device in ("cpu", "gpu"):
        for row in ops.OPERATIONS:
            single, double = (ops.price(row.name, each, device) for each in (DType.F32, DType.F64))
            assert 0 <= single <= double, (row.name, device)
        assert ops.price("pow", DType.F32, device) > 10 * ops.price("mul", DType.F32, device)
