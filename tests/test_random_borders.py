"""Random stencils whose borders are loops of their own: every way of running them gives the same bits, and
no plan is found wrong.

In one, two and three dimensions, in time loops and without; borders of any sides, one or two elements
deep, in any order, set or made of inputs or of their neighbours; before the rest or behind it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import engines
import pytest
from case_files import assert_same, make_arguments
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from loopfuse.base.diagnostics import Source, UserError
from loopfuse.base.options import CPU

NAMES, SIZES = ("z", "y", "x"), ("D", "H", "W")
DEFAULT, MANY = 8, 150
"""Programs of a default run, and under `-m slow`."""


@dataclass(frozen=True)
class Grid:
    """The iterators and extents of a program's arrays."""

    names: tuple[str, ...]
    extents: tuple[str, ...]

    @property
    def type(self) -> str:
        return f"f32[{', '.join(self.extents)}]"

    def at(self, moved: dict[str, str] | None = None) -> str:
        """`[y, x]`, with the subscripts of some dimensions replaced."""
        return f"[{', '.join((moved or {}).get(name, name) for name in self.names)}]"


@st.composite
def programs(draw: Any) -> str:
    """The text of a kernel `f`."""
    rank = draw(st.sampled_from((1, 2, 2, 2, 3)))
    grid = Grid(NAMES[3 - rank :], SIZES[3 - rank :])
    deep = draw(st.sampled_from((1, 1, 2)))
    timed = draw(st.booleans())
    lines: list[str] = []
    if timed:
        lines += block(draw, grid, "b", "u", deep, own="u")
        if draw(st.booleans()):
            lines += nest(grid, 0, f"u{grid.at()} = b{grid.at()}")
        else:
            lines += nest(grid, deep, f"u{grid.at()} = b{grid.at()}")
            lines += block(draw, grid, "u", "u", deep, own="u")[1:] if draw(st.booleans()) else []
        lines = ["for t in 0..n:", *(f"    {line}" for line in lines)]
        head = f"kernel f(inout u: {grid.type}, n: i64):"
        extra = [f"temp b: {grid.type}"]
    else:
        kept = draw(st.sampled_from(("temp", "inout", "out")))
        lines += block(draw, grid, "b", "a", deep, own="b")
        lines += block(draw, grid, "c", "b", draw(st.sampled_from((1, deep))), own="c")
        shown = "" if kept == "temp" else f", {kept} b: {grid.type}"
        head = f"kernel f(a: {grid.type}{shown}, out c: {grid.type}):"
        extra = [f"temp b: {grid.type}"] if kept == "temp" else []
    least = 2 * deep + draw(st.sampled_from((0, 1)))
    extra.insert(0, f"assume {' and '.join(f'{extent} >= {least}' for extent in grid.extents)}")
    return "\n".join([head, *(f"    {line}" for line in (*extra, *lines))]) + "\n"


def nest(grid: Grid, margin: int, *body: str, fixed: tuple[str, ...] = ()) -> list[str]:
    """A loop over the dimensions that are not `fixed`, `margin` elements inside."""
    loops = [
        f"{name} in {margin}..{extent}-{margin}" if margin else f"{name} in 0..{extent}"
        for name, extent in zip(grid.names, grid.extents, strict=True)
        if name not in fixed
    ]
    if not loops:
        return list(body)
    return [f"for {', '.join(loops)}:", *(f"    {line}" for line in body)]


def block(draw: Any, grid: Grid, array: str, source: str, deep: int, own: str) -> list[str]:
    """A stencil that makes the middle of `array` of `source`, and loops over some of its borders."""
    name = draw(st.sampled_from(grid.names))
    terms = [f"{source}{grid.at()}"]
    for other in {name, draw(st.sampled_from(grid.names))}:
        terms += [f"{source}{grid.at({other: f'{other}-{deep}'})}", f"{source}{grid.at({other: f'{other}+1'})}"]
    parts = [nest(grid, deep, f"{array}{grid.at()} = {' + '.join(terms)}")]
    for side, extent in zip(grid.names, grid.extents, strict=True):
        which = draw(st.sampled_from(("both", "both", "both", "first", "last", "none")))
        body: list[str] = []
        for depth in range(deep):
            places = {"both": (str(depth), f"{extent}-{depth + 1}"), "first": (str(depth),),
                      "last": (f"{extent}-{depth + 1}",), "none": ()}[which]  # fmt: skip
            for place in places:
                there = grid.at({side: place})
                inner = str(deep) if place == str(depth) else f"{extent}-{deep + 1}"
                value = draw(st.sampled_from((
                    "1.5", "0.0", f"{source}{there}", f"2.0 * {source}{there}",
                    f"{array}{grid.at({side: inner})}",
                )))  # fmt: skip
                body.append(f"{array}{there} = {value}")
        if body:
            margin = draw(st.sampled_from((0, deep)))
            if draw(st.booleans()):
                parts.append(nest(grid, margin, *body, fixed=(side,)))
            else:
                parts += [nest(grid, margin, line, fixed=(side,)) for line in body]
    order = draw(st.permutations(range(len(parts)))) if draw(st.integers(0, 3)) == 0 else range(len(parts))
    return [line for number in order for line in parts[number]]


def compare(text: str) -> None:
    """Fails where a plan was found wrong, or results differ."""
    source = Source("t.lf", text)
    try:
        kernel = engines.read(source).kernel("f")
        rank = len(kernel.arrays[0].extents)
    except UserError:
        return  # it reads what nothing wrote
    for extents in ((9, 8, 37), (5, 6, 5)):
        sizes = dict(zip(SIZES[3 - rank :], extents[3 - rank :], strict=True))
        for steps in (5, 1) if "steps" in text or "n: i64" in text else (0,):
            arguments = make_arguments(kernel, sizes, {"n": steps}, "random")
            try:
                expected = engines.interpret(kernel, arguments, sizes)
                ways = {
                    f"{target.name} tree": engines.run_plan(source, kernel, arguments, sizes, target=target)
                    for target in (CPU, engines.GPU)
                }
            except UserError:
                return
            ways["compiled"] = engines.run_compiled(source, kernel, arguments, sizes)
            for way, got in ways.items():
                assert_same(kernel, expected, got, f"{sizes} {way}\n{text}")


def check(number: int, count: int) -> None:
    """`count` programs of Hypothesis's with seed `number`."""

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def run(text: str) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compare(text)
        wrong = [str(one.message) for one in caught if "planned `f` wrongly" in str(one.message)]
        assert not wrong, f"{wrong[0]}\n{text}"

    run()


@pytest.mark.parametrize("number", range(2))
def test_borders_run_as_written(number: int) -> None:
    check(number, DEFAULT // 2)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2, 12))
def test_many_borders_run_as_written(number: int) -> None:
    check(number, MANY // 10)
