"""Sizes that a function has no name for are said as a programmer writes them: `len(x)`, `x.shape[1]`."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import LoopfuseError, UserError
from loopfuse.kernels.words import spell, unnamed_sizes
from tests.frontend.kernels_of_users import CASES


def filtered(x: Any, taps: Any, out: Any) -> None:
    for i in range(len(x)):
        s = 0.0
        for j in range(len(taps)):
            s += x[i - j] * taps[j]
        out[i] = s


def overwritten(x: Any, y: Any) -> None:
    for i in range(len(y)):
        y[i] = x[i] + 1
    for i in range(len(x)):
        x[i] = y[len(y) - 1 - i]


def copied(a: Any, b: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            b[i, j] = 2.0 * a[i, j]


def from_the_end(x: Any, y: Any) -> None:
    y[0] = x[-2]


def named(a: Any, b: Any) -> None:
    H, W = a.shape
    for i in range(H):
        for j in range(W):
            b[i, j] = a[i, j]


def test_an_error_says_the_length() -> None:
    with pytest.raises(UserError) as raised:
        loopfuse.kernel(filtered, target="cpu")(np.ones(10), np.ones(3), np.empty(10))
    assert "elements of x are range(len(x))" in str(raised.value)
    assert "x_0" not in str(raised.value)


def test_a_report_says_lengths() -> None:
    kernel = loopfuse.kernel(overwritten, target="cpu")
    text = " ".join(str(kernel.explain(np.ones(10), np.ones(10))).split())
    assert "len(x)=10" in text and "(seen at len(x)=2)" in text
    assert "Needs len(x) == len(y) as at the first call" in text
    assert "x_0" not in text and "y_0" not in text


def test_formulas_of_a_report_too() -> None:
    kernel = loopfuse.kernel(copied, target="cpu")
    kernel(np.ones((3, 4)), np.ones((3, 4)))
    found = kernel.explain()
    text, page = " ".join(str(found).replace("|", " ").split()), re.sub("<[^>]*>", "", found._repr_html_())
    for each in (text, page):
        assert "16*a.shape[0]*a.shape[1]" in each and "a_0" not in each
    assert "a.shape[0] == b.shape[0], a.shape[1] == b.shape[1] as at the first call" in text
    assert "a.shape[0] x a.shape[1] as one" in text


def test_json_keeps_the_names_of_its_formulas() -> None:
    kernel = loopfuse.kernel(overwritten, target="cpu")
    found = kernel.explain(np.ones(10), np.ones(10)).to_dict()
    assert found["traffic"]["after"]["bytes"] == "32*x_0"
    assert found["decisions"][0]["witness"]["sizes"] == {"x_0": 2}
    assert kernel.explain(x_0=100).to_dict()["traffic"]["after"]["value"] == 3200


def test_what_a_call_is_held_to() -> None:
    kernel = loopfuse.kernel(from_the_end, target="cpu")
    with pytest.raises(UserError, match=r"needs `len\(x\) >= 2`, and was called with len\(x\)=1"):
        kernel(np.ones(1), np.ones(3))
    pair = loopfuse.kernel(copied, target="cpu")
    for shape in ((4, 5), (4, 4)):
        with pytest.raises(UserError) as raised:
            pair(np.ones((4, 5)), np.ones((3, 5)) if shape == (4, 5) else np.ones((4, 4)))
        assert not re.search(r"\b[ab]_\d", str(raised.value)), str(raised.value)


def test_assertions_say_so() -> None:
    from loopfuse.testing import assert_fuses

    with pytest.raises(AssertionError) as raised:
        assert_fuses(loopfuse.kernel(overwritten, target="cpu"), "L1", "L2", args=(np.ones(10), np.ones(10)))
    assert "(seen at len(x)=2)" in " ".join(str(raised.value).split())


def test_names_that_the_function_gives_stay() -> None:
    kernel = loopfuse.kernel(named, target="cpu")
    text = str(kernel.explain(np.ones((3, 4)), np.ones((3, 4))))
    assert "H=3 W=4" in text and "shape[" not in text
    pinned = loopfuse.kernel(named, target="cpu").specialise(loopfuse.f64["a_0", "W"], loopfuse.f64["a_0", "W"])
    assert pinned.spelled() == {}


def test_which_names_are_made_up() -> None:
    shapes = {"a": ("a_0", "a_1"), "x": ("a_0",), "y": ("n", "y_1_1")}
    assert unnamed_sizes(shapes, {"a", "x", "n"}) == {"a_0": "len(x)", "a_1": "a.shape[1]", "y_1_1": "y.shape[1]"}
    assert unnamed_sizes(shapes, {"a_0", "a_1", "n"}) == {"y_1_1": "y.shape[1]"}
    assert spell("`a_0 - 2` of a_01; give `a_0=...`", {"a_0": "len(x)"}) == "`len(x) - 2` of a_01; give `a_0=...`"


def _made_up(kernel: Any, text: str) -> list[str]:
    written = set(re.findall(r"\w+", inspect.getsource(kernel.function)))
    names = "|".join(inspect.signature(kernel.function).parameters)
    return [name for name in re.findall(rf"\b(?:{names})_\d\w*", text) if name not in written]


@pytest.mark.parametrize("case", CASES[::9], ids=lambda case: case[0].__name__)
def test_no_text_has_a_name_that_is_not_in_the_function(case: tuple[Any, ...]) -> None:
    function, *arguments = case
    kernel = loopfuse.kernel(function, target="cpu")
    texts: list[str] = []
    try:
        found = kernel.explain(*arguments)
        texts += [str(found), re.sub("<[^>]*>", " ", found._repr_html_())]
    except LoopfuseError as error:
        texts.append(str(error))
    for place, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray) and argument.ndim:
            try:
                kernel(*arguments[:place], argument[:1].copy(), *arguments[place + 1 :])
            except LoopfuseError as error:
                texts.append(str(error))
    assert not [name for text in texts for name in _made_up(kernel, text)]
