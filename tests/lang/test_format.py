"""The printer: what is printed reads back as the same tree, comments and style kept."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import expressions, modules

from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.door import parse
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.format import format_module
from loopfuse.lang.surface.format_expr import format_expr

EVERYTHING = (Path(__file__).parent / "everything.lf").read_text(encoding="utf-8")
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.lf"))
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]


def read(text: str) -> syntax.Module:
    return parse(Source("test.lf", text))


@settings(max_examples=80, deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(modules)
def test_random_modules_read_back(module: syntax.Module) -> None:
    text = format_module(module)
    again = read(text)
    assert again == module
    assert format_module(again) == text


@settings(max_examples=250, deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(expressions, st.booleans())
def test_random_expressions_read_back(expr: syntax.Expr, tight: bool) -> None:
    const = read(f"const K = {format_expr(expr, tight)}").items[0]
    assert isinstance(const, syntax.Const)
    assert const.values == expr


@settings(max_examples=100, deadline=None, suppress_health_check=SLOW_IS_FINE)
@given(expressions)
def test_every_parenthesis_is_needed(expr: syntax.Expr) -> None:
    """Dropping any one pair of the printed grouping parentheses changes the tree."""
    text = format_expr(expr)
    stack: list[int] = []
    for index, sign in enumerate(text):
        if sign == "(":
            stack.append(index)
        elif sign == ")":
            start = stack.pop()
            if start and re.match(r"\w", text[start - 1]):
                continue  # a call's
            less = text[:start] + " " + text[start + 1 : index] + " " + text[index + 1 :]
            try:
                const = read(f"const K = {less}").items[0]
            except ValueError:
                continue
            assert isinstance(const, syntax.Const)
            assert const.values != expr, (text, less)


def test_canonical_text_is_kept() -> None:
    assert format_module(read(EVERYTHING)) == EVERYTHING


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_read_back(path: Path) -> None:
    module = read(path.read_text(encoding="utf-8"))
    text = format_module(module)
    again = read(text)
    assert again == module
    assert format_module(again) == text
    assert sorted(text for _, text in again.comments) == sorted(c for _, c in module.comments)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12), st.integers(0, 2)), max_size=6))
def test_comments_and_blank_lines_survive_anywhere(
    places: list[tuple[int, int, int]],
) -> None:
    """Comments and blank lines put in anywhere change no tree, are all kept, and stay put."""
    lines = EVERYTHING.split("\n")
    for count, (at, indent, blanks) in enumerate(places):
        lines[at % len(lines) : at % len(lines)] = [""] * blanks + [f"{' ' * indent}# c{count}"]
    text = "\n".join(lines)
    module = read(text)
    assert module == read(EVERYTHING)
    printed = format_module(module)
    again = read(printed)
    assert again == module
    assert [c for _, c in again.comments] == [c for _, c in module.comments]
    assert format_module(again) == printed
    assert "\n\n\n" not in printed


UGLY = """\
kernel   k ( img:f32[ H,W ],
             # why
             out y :f32[H , W ] ) :  # header


  for y0 in 0 .. H,x in (1)..W - 1 step 1 :
    # inside
    y [ y0,x ]=( (img.clamp[ y0 , x - 2 ])*2.0 ) +  ( # here
         # there
         3.0 )   # end
   # odd
  if (H<W)and(not(H==3)): y[0,0]=-(-1)
  else :
        if H > 2 : y[0,0] += (1+2)*3
"""

PRETTY = """\
# why
kernel k(img: f32[H, W], out y: f32[H, W]):  # header

    for y0 in 0..H, x in 1..W-1 step 1:
        # inside
        # here
        # there
        y[y0, x] = img.clamp[y0, x-2] * 2.0 + 3.0  # end
    # odd
    if H < W and not H == 3:
        y[0, 0] = --1
    elif H > 2:
        y[0, 0] += (1 + 2) * 3
"""


def test_style() -> None:
    assert format_module(read(UGLY)) == PRETTY.replace("# header\n\n", "# header\n")


def test_long_headers_and_tables_are_broken() -> None:
    params = ", ".join(f"parameter{n}: f32[N]" for n in range(6))
    text = f"kernel k({params}):\n    swap a, b\n"
    printed = format_module(read(text))
    assert printed.startswith("kernel k(\n    parameter0: f32[N],\n")
    assert printed.endswith("    parameter5: f32[N],\n):\n    swap a, b\n")
    values = ", ".join(str(1000 + n) for n in range(40))
    printed = format_module(read(f"const c = [{values}]\n"))
    assert max(map(len, printed.split("\n"))) <= 100
    assert printed.count("\n") == 5
    rows = ", ".join(f"[{values[:60]}]" for _ in range(3))
    printed = format_module(read(f"const c = [{rows}]\n"))
    assert printed.startswith("const c = [\n    [1000, ")
    assert read(printed) == read(f"const c = [{rows}]\n")


def test_deep_trees_print_without_recursion() -> None:
    """200 blocks around an expression 990 operators deep, at Python's usual recursion limit."""
    text = "kernel k(inout a: f32[N]):\n"
    text += "".join("    " * (depth + 1) + f"for t{depth} in 0..N:\n" for depth in range(199))
    text += "    " * 200 + "a[0] = " + "+".join(["x"] * 990) + "\n"
    printed = format_module(read(text))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # for the comparison, which does recurse
    try:
        assert read(printed) == read(text)
    finally:
        sys.setrecursionlimit(limit)


def test_empty() -> None:
    assert format_module(read("")) == ""
    assert format_module(read("\n\n  # alone\n\n")) == "# alone\n"
