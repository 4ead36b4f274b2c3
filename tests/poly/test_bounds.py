"""Subscripts: proved, made a precondition, or an error that says why."""

from __future__ import annotations

import pytest
from helpers import kernel

from loopfuse.base.diagnostics import UserError
from loopfuse.poly.bounds import find_preconditions, find_uninitialised
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences


def conditions(text: str) -> list[str]:
    return [each.text for each in find_preconditions(build_model(kernel(text)))[0]]


def test_stencil_is_proved() -> None:
    assert conditions(
        "kernel f(a: f32[N], out b: f32[N]):\n"
        "    for i in 1..N-1:\n        b[i] = a[i-1] + a[i+1]\n"
    ) == []


def test_guard_counts() -> None:
    assert conditions(
        "kernel f(a: f32[N], out b: f32[N]):\n"
        "    for i in 0..N:\n        if i > 0:\n            b[i] = a[i-1]\n"
    ) == []


def test_guarded_arm_counts() -> None:
    assert conditions(
        "kernel f(a: f32[N], out b: f32[N]):\n"
        "    for i in 0..N:\n        b[i] = a[i-1] if i >= 1 else 0.0\n"
    ) == []


def test_sizes_that_must_agree_become_a_condition() -> None:
    (text,) = conditions(
        "kernel f(a: f32[N], out b: f32[M]):\n    for i in 0..N:\n        b[i+1] = a[i]\n"
    )
    for n in range(5):
        for m in range(7):
            assert bool(eval(text, {"N": n, "M": m})) == (n == 0 or m >= n + 1), text


def test_fixed_extent_is_a_condition_not_an_error() -> None:
    (text,) = conditions(
        "kernel f(a: f32[8], out b: f32[N]):\n    for i in 0..N:\n        b[i] = a[i]\n"
    )
    assert [bool(eval(text, {"N": n})) for n in (0, 8, 9)] == [True, True, False]


def test_empty_image_with_clamp_is_refused() -> None:
    """Nothing can be repeated where the array is empty and the loop is not."""
    (text,) = conditions(
        "kernel f(a: f32[N], out b: f32[M]):\n    for i in 0..M:\n        b[i] = a.clamp[i-1]\n"
    )
    assert not eval(text, {"N": 0, "M": 3})
    assert eval(text, {"N": 1, "M": 3}) and eval(text, {"N": 0, "M": 0})


@pytest.mark.parametrize("mode", ["wrap", "reflect", "symmetric"])
def test_empty_image_with_folding_modes_is_refused(mode: str) -> None:
    texts = conditions(
        "kernel f(a: f32[N], out b: f32[M]):\n"
        f"    for i in 0..M:\n        b[i] = a.{mode}[i-1]\n"
    )

    def passes(n: int, m: int) -> bool:
        return all(eval(text, {"N": n, "M": m}) for text in texts)

    assert not passes(0, 3)
    assert passes(1, 3) and passes(2, 9) and passes(0, 0)


ERRORS = {
    "before": (
        "    for i in 0..N:\n        b[i] = a[i-1]\n",
        "`a[i-1]` reads before the first element of `a`",
        "start at 1 (`i in 1..N`), or repeat the edge: `a.clamp[i-1]`",
    ),
    "after": (
        "    for i in 0..N:\n        b[i+1] = a[i]\n",
        "`b[i+1]` writes after the last element of `b`",
        "end at N-1 (`i in 0..N-1`)",
    ),
    "only when large": (
        "    for i in 0..N:\n        b[i] = a[2*i]\n",
        "`a[2*i]` reads after the last element of `a`",
        "repeat the edge: `a.clamp[2*i]`",
    ),
    "counting down": (
        "    for i in N-1..-1 step -1:\n        b[i] = a[i-1]\n",
        "`a[i-1]` reads before the first element of `a`",
        "end at 0 (`i in N-1..0 step -1`), or repeat the edge: `a.clamp[i-1]`",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_range_errors(case: str) -> None:
    body, message, fix = ERRORS[case]
    with pytest.raises(UserError) as caught:
        conditions(f"kernel f(a: f32[N], out b: f32[N]):\n{body}")
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message, diagnostic.fix) == ("subscript-range", message, fix)
    assert diagnostic.span.line == 3


def test_the_drafted_error() -> None:
    with pytest.raises(UserError) as caught:
        conditions(
            "kernel blur(img: f32[H, W], out rows: f32[H, W]):\n"
            "    for y in 0..H, x in 0..W-2:\n"
            "        rows[y, x] = 0.0625*(img[y, x-2] + img[y, x+2])\n"
        )
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == "`img[y, x-2]` reads before the first column of `img`"
    assert diagnostic.label == "columns of img are 0..W"
    assert diagnostic.labels[0].text == "x starts at 0, so x-2 starts at -2"
    assert diagnostic.fix == "start at 2 (`x in 2..W-2`), or repeat the edge: `img.clamp[y, x-2]`"


def test_uninitialised_read() -> None:
    text = (
        "kernel f(x: f32[N], out y: f32[N]):\n    temp t: f32[N]\n"
        "    for i in 0..N:\n        y[i] = t[i] + x[i]\n"
    )
    program = build_model(kernel(text))
    (diagnostic,) = find_uninitialised(program, find_dependences(program))
    assert diagnostic.code == "uninitialised-read"
    assert diagnostic.message == "`t[i]` is read, but nothing has written it"


def test_written_temporaries_are_fine() -> None:
    text = (
        "kernel f(x: f32[N], out y: f32[N]):\n    temp t: f32[N]\n"
        "    for i in 0..N:\n        t[i] = x[i]\n"
        "    for i in 0..N:\n        y[i] = t[i]\n"
    )
    program = build_model(kernel(text))
    assert find_uninitialised(program, find_dependences(program)) == ()


def test_an_assumption_on_parameters_is_a_precondition() -> None:
    assert conditions(
        "kernel f(x: f32[N], out y: f32[N], n: i64):\n    assume n >= 1 and n <= N\n"
        "    for i in 0..n:\n        y[i] = x[i]\n"
    ) == ["n >= 1 and N >= n"]


def test_the_whole_subscript_is_underlined() -> None:
    with pytest.raises(UserError) as caught:
        conditions("kernel f(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i - 1]\n")
    span = caught.value.diagnostics[0].span
    assert (span.column, span.end_column) == (18, 23)
