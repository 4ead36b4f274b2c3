"""loopfuse.testing: what passes, what fails and how the failure reads, what is refused.

The texts of docs/testing.md are pinned here too: they are what the assertions really say.
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
import loopfuse.testing
from loopfuse.base.diagnostics import UserError
from loopfuse.testing import (
    assert_dependence,
    assert_equivalent,
    assert_fuses,
    assert_home,
    assert_launches,
    assert_no_dependence,
    assert_not_fused,
    assert_parallel,
    assert_traffic,
)

ROOT = Path(__file__).resolve().parent.parent


def example(name: str, **options: Any) -> Any:
    return loopfuse.load(ROOT / "examples" / f"{name}.lf", **options)


BLUR, JACOBI, GAUSS = map(example, ("blur", "jacobi", "gauss_seidel"))
# Sums that go backwards: a row is not read by neighbouring threads at neighbouring places.
SOFTMAX = loopfuse.loads(
    (ROOT / "examples/softmax_loops.lf").read_text().replace("+= e[r, c]", "+= e[r, C - 1 - c]")
)
# The GPU's plans block their time steps.
HEAT, FDTD = (example(name).with_options(target="cpu") for name in ("heat3d", "fdtd_2d"))
ROWS_AND_COLUMNS = """
kernel apart(x: f32[R, C], out s: f32[R], out t: f32[C]):
    for r in 0..R:
        s[r] = sum(c in 0..C: x[r, c])
    for c in 0..C:
        t[c] = sum(r in 1..R: x[r, c])
"""
TOTAL = """
kernel total(x: f32[N], out y: f32[1]):
    var s: f32 = 0.0
    for i in 0..N:
        s += x[i]
    y[0] = s
"""


@loopfuse.kernel
def smooth_and_blend(x, t: loopfuse.f32):  # type: ignore[no-untyped-def]
    smooth = np.empty_like(x)
    blend = np.empty_like(x)
    for i in range(1, len(x) - 1):
        smooth[i] = 0.25 * (x[i - 1] + x[i + 1]) + 0.5 * x[i]
    for i in range(1, len(x) - 1):
        blend[i] = x[i] + t * (smooth[i] - x[i])
    return blend


def said(assertion: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The failure's text, which fits on 80 columns."""
    with pytest.raises(AssertionError) as caught:
        assertion(*args, **kwargs)
    text = str(caught.value)
    assert max(map(len, text.splitlines())) <= 80, text
    return text


def refused(assertion: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str, str]:
    """The code of the error for an assertion about nothing, and its text."""
    with pytest.raises(UserError) as caught:
        assertion(*args, **kwargs)
    return caught.value.diagnostics[0].code, str(caught.value)


def text_blocks() -> list[str]:
    page = (ROOT / "docs/testing.md").read_text()
    return [block.rstrip("\n") for block in re.findall(r"^```text\n(.*?)^```$", page, re.S | re.M)]


# ------------------------------------------------------------------------- examples and texts


def test_the_docstrings_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    failed, run = doctest.testmod(loopfuse.testing.assertions)
    assert run > 25 and not failed


def test_the_page_prints_what_is_said() -> None:
    saxpy = example("saxpy")
    wanted = [
        said(assert_fuses, HEAT, "L1.1", "L1.2"),
        said(assert_parallel, GAUSS, "i"),
        said(assert_traffic, BLUR, at_most="4*H*W"),
        said(assert_equivalent, saxpy, against=lambda a, x, y: a * x + y),
    ]
    assert text_blocks() == wanted


def test_importing_loopfuse_loads_no_testing_and_testing_no_compiler() -> None:
    code = (
        "import sys, loopfuse; assert 'loopfuse.testing' not in sys.modules;"
        "import loopfuse.testing;"
        "print([n for n in ('lark', 'islpy', 'xdsl', 'llvmlite', 'pytest') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_failures_hide_the_frames_of_the_assertions() -> None:
    for name in loopfuse.testing.__all__:
        function = getattr(loopfuse.testing, name)
        if name.startswith("assert_"):
            assert "__tracebackhide__" in function.__code__.co_varnames


# ------------------------------------------------------------------------------------- fusion


@pytest.mark.parametrize(
    "names", [("L1", "L2"), ("rows", "smooth"), (4, "line 6"), ("4", 7), ("L1", "L1"), ()]
)
def test_loops_that_fuse_by_any_name(names: tuple[str | int, ...]) -> None:
    assert_fuses(BLUR, *names)
    assert_fuses(BLUR, *names, target="cpu", sizes={"H": 8, "W": 4096})


def test_parts_fuse_or_do_not() -> None:
    assert_fuses(FDTD, "L1.2", "L1.3")
    norms = example("layernorm_backward")
    assert_fuses(norms, "dx", "dgamma", target="cpu")  # in one pass over the rows
    assert_not_fused(loopfuse.loads(ROWS_AND_COLUMNS), "L1", "t", because="shares NO\n parallel loop", target="cpu")
    assert_fuses(example("stats"))  # two steps of one combined reduction are one kernel
    text = said(assert_fuses, HEAT)
    assert text.startswith("L1 of `heat3d` does not fuse for cpu: its parts run in 2 kernels")
    partly = said(assert_not_fused, FDTD, "L1", "L1.3")
    assert "independent, over the same iterations" in partly


def test_what_fails_about_fusion() -> None:
    assert said(assert_not_fused, BLUR, "L1", "L2") == (
        "L1 + L2 of `blur` fuse for sm_80\n\n"
        "  L1 line 4    rows    from img   |>  blur_0\n"
        "  L2 line 6    smooth  from rows  |   sliding, streams down y, strips of 120\n"
        "                                  |   columns, chunks of 32 rows\n\n"
        "  L1 + L2   fused   L2 runs 1 row behind L1: smooth[y] needs rows[y-1..y+1];\n"
        "                    rows keeps 3 rows in registers"
    )
    text = said(assert_not_fused, HEAT, "L1.1", "L1.2", because="slower")
    assert text.startswith(
        "L1.1 + L1.2 of `heat3d` do not fuse for cpu, but not because of 'slow"
    )
    assert "of `b` that it does not write are read too" in text
    unfused = BLUR.with_options(fuel=0)
    assert said(assert_fuses, unfused, "L1", "L2").startswith(
        "L1 + L2 of `blur` do not fuse for sm_80: they run in 2 kernels\n\n  L1 line 4 "
    )


def test_a_kernel_keeps_its_own_target() -> None:
    made = example("blur", target="sm_90").with_options(fuel=0)
    assert "do not fuse for sm_90" in said(assert_fuses, made)
    assert "do not fuse for cpu" in said(assert_fuses, made, target="cpu")


def test_loops_that_are_not_there() -> None:
    code, text = refused(assert_not_fused, BLUR, "L1", "row")
    assert code == "unknown-loop"
    assert "`blur` has no loop `row`" in text and "note: L2 line 6, writes smooth" in text
    code, text = refused(assert_fuses, BLUR, "y")
    assert code == "ambiguous-loop" and "`y` fits 2 loops of `blur`" in text
    code, text = refused(assert_fuses, FDTD, "ey", "hz")
    assert code == "ambiguous-loop" and 'name one by its id: "L1.1"' in text
    assert refused(assert_fuses, BLUR, 99)[0] == "unknown-loop"


def test_launches() -> None:
    assert_launches(BLUR, 1)
    assert_launches(HEAT, "steps + steps")
    assert_launches(HEAT, 8, sizes={"steps": 4})
    text = said(assert_launches, HEAT, 3, sizes={"steps": 4})
    assert text.startswith("`heat3d` launches 2*steps = 8 for cpu, not 3\n\n  L1 line 3 ")
    text = said(assert_launches, SOFTMAX, 1)
    assert text.startswith("`softmax_loops` launches 2 for sm_80, not 1\n\n")
    assert "it would be slower" in text and "remedy: wrap both loops in a `fuse:` block" in text
    assert refused(assert_launches, JACOBI, "2*turns")[0] == "unknown-size"
    assert refused(assert_launches, JACOBI, "2*")[0] == "bad-formula"


# -------------------------------------------------------------------------------- dependences


def test_parallel_loops() -> None:
    assert_parallel(BLUR, "y")
    assert_parallel(JACOBI, "i")
    assert_parallel(JACOBI, "j", loop="L1.2")
    assert_parallel(GAUSS, "i", loop="residual")
    text = said(assert_parallel, GAUSS, "i", loop="L1")
    assert "(L1 line 4) is not parallel: it carries 2 dependences" in text.replace("\n", " ")
    code, text = refused(assert_parallel, GAUSS, "j")
    assert code == "unknown-iterator" and "note: `i` of L2, line 6" in text


def test_a_reduction_is_parallel_unless_its_order_is_kept() -> None:
    assert_parallel(loopfuse.loads(TOTAL), "i")
    text = said(assert_parallel, loopfuse.loads(TOTAL, reassociate=False), "i")
    assert "iteration i=0 writes `s`, which iteration i=1 reads (seen at N=2)" in text
    assert text.endswith("by default\n  the loop is parallel.")
    exact = TOTAL.replace("f32", "i64").replace("0.0", "0")
    assert_parallel(loopfuse.loads(exact, reassociate=False), "i")


def test_dependences_that_are_there() -> None:
    assert_dependence(JACOBI)
    assert_dependence(JACOBI, kind="flow", array="b", distance=(0,), carried_by=None)
    assert_dependence(JACOBI, direction="<==", carried_by="t", source="line 6", sink=6, exact=True)
    assert_dependence(SOFTMAX, array="m", source="S2", sink="S2", reduction=True)
    assert_no_dependence(JACOBI, carried_by="i")
    assert_no_dependence(JACOBI, kind="flow", array="a", distance=(0,))
    assert_no_dependence(BLUR, reduction=True)
    # A distance that varies is None, and with sizes it may become a number.
    prefix = loopfuse.loads(
        "kernel k(out y: f32[N], x: f32[N], out z: f32[N]):\n    for i in 0..N:\n"
        "        y[i] = x[i]\n        if i > 0:\n            z[i] = y[0]\n"
    )
    assert_dependence(prefix, array="y", distance=(None,))
    assert_dependence(prefix, array="y", distance=[1], sizes={"N": 2})


def test_what_fails_about_dependences() -> None:
    assert said(
        assert_dependence, JACOBI, kind="flow", array="a", distance=(0, 1), carried_by="i"
    ) == (
        "`jacobi` has no flow dependence over `a` of distance (0, 1) carried by `i`\n\n"
        "  kind    array  from       to         distance   direction  carried by\n"
        "  flow    a      S2 line 8  S1 line 6  (1)        (<)        t\n"
        "  anti    a      S1 line 6  S2 line 8  (0)        (=)        none\n"
        "  output  a      S2 line 8  S2 line 8  (1, 0, 0)  (<, =, =)  t"
    )
    assert said(assert_no_dependence, JACOBI, kind="anti", array="a", carried_by=None) == (
        "`jacobi` has an anti dependence over `a` carried by no loop\n\n"
        "  kind  array  from       to         distance  direction  carried by\n"
        "  anti  a      S1 line 6  S2 line 8  (0)       (=)        none"
    )
    text = said(assert_no_dependence, JACOBI, kind="output", direction="<==", source=6)
    assert text.startswith("`jacobi` has an output dependence from line 6 of direction (<, =, =)")
    assert said(assert_dependence, BLUR, kind="anti").startswith("`blur` has no anti dependence\n")
    none = loopfuse.loads("kernel k(out y: f32[N]):\n    for i in 0..N:\n        y[i] = 1.0\n")
    assert said(assert_dependence, none) == "`k` has no dependence\n\n  k has no dependences"


@pytest.mark.parametrize(
    ("filters", "code", "words"),
    [
        ({"kind": "raw"}, "bad-filter", "use flow, anti or output"),
        ({"array": "c"}, "unknown-array", "it has a, b"),
        ({"carried_by": "k"}, "unknown-iterator", "there are t, i, j"),
        ({"source": "S9"}, "unknown-statement", "note: S2 line 8"),
        ({"sink": 1}, "unknown-statement", "sink=1 is no statement of `jacobi`"),
        ({"distance": (0, 0, 0, 0)}, "bad-filter", "loops of `jacobi` nest 3 deep"),
        ({"direction": "=?"}, "bad-filter", "something else than < = > *"),
    ],
)
def test_filters_that_nothing_can_fit(filters: dict[str, Any], code: str, words: str) -> None:
    for assertion in (assert_dependence, assert_no_dependence):
        found, text = refused(assertion, JACOBI, **filters)
        assert found == code and words in text


# --------------------------------------------------------------------------- memory and homes


def test_traffic() -> None:
    assert assert_traffic(BLUR, at_most="8*H*W") == "proved"
    assert assert_traffic(HEAT, at_most="32*N**3*steps") == "proved"
    assert assert_traffic(BLUR, at_most=8 * 30 * 40, sizes={"H": 30, "W": 40}) == "computed"
    assert assert_traffic(BLUR, at_most="240*W", sizes={"H": 30}) == "proved"
    assert assert_traffic(BLUR, at_most="8*max(H, W)*max(H, W)") == "sampled"
    assert assert_traffic(BLUR, at_most="16*H*W", target="cpu") == "proved"
    text = said(assert_traffic, BLUR, at_most=1000, sizes={"H": 30, "W": 40})
    assert text.startswith(
        "`blur` moves 9600 bytes for sm_80, more than 1000: at H=30 W=40\n\n              before "
    )
    assert "  rows    write  4800    -\n" in text
    less = said(assert_traffic, BLUR, at_most="8*min(H, W)*W")
    assert "more than 8*min(H, W)*W: at H=" in " ".join(less.split())


def test_traffic_of_several_launches_by_array() -> None:
    assert said(assert_traffic, GAUSS, at_most="8*N").splitlines()[0] == (
        "`gauss_seidel` moves 32*(N - 2) + 8*N bytes for sm_80, more than 8*N: at N=64,"
    )


def test_formulas_that_are_none() -> None:
    for text in ("8*", "f(H)", "H**W", "H/2", "'H'", "H if", "1.5*H"):
        assert refused(assert_traffic, BLUR, at_most=text)[0] == "bad-formula", text
    code, text = refused(assert_traffic, BLUR, at_most="8*H*Q")
    assert code == "unknown-size" and "there are H, W" in text
    assert refused(assert_traffic, BLUR, at_most="8", sizes={"Q": 2})[0] == "unknown-argument"


def test_homes() -> None:
    assert_home(BLUR, "rows", "window(3)")
    assert_home(BLUR, "rows", "window")
    assert_home(BLUR, "rows", "line(3)", target="cpu")
    assert_home(SOFTMAX, "e", "global")
    assert said(assert_home, BLUR, "rows", "window(5)") == (
        "`rows` of `blur` lives in window(3) (a window of 3 rows in registers) for sm_80,\n"
        "not in window(5)\n\n"
        "  rows      a window of 3 rows in registers    was 4*H*W bytes in memory\n\n"
        "  L1 + L2   fused   L2 runs 1 row behind L1: smooth[y] needs rows[y-1..y+1];\n"
        "                    rows keeps 3 rows in registers"
    )
    text = said(assert_home, SOFTMAX, "e", "register")
    assert text.startswith("`e` of `softmax_loops` lives in global (memory, as written) for sm_80,")
    assert "L2 + L3   apart   it would be slower" in text
    fused = said(assert_home, example("attention"), "scores", "register")
    assert "Its values are used at other iterations than those that make them:" in fused
    assert "flow  scores  S2 line 14  S3 line 16" in fused


@pytest.mark.filterwarnings("ignore:.*never-used")
def test_a_removed_temporary_has_no_home() -> None:
    dead = loopfuse.loads(
        "kernel k(x: f32[N], out y: f32[N]):\n    temp t: f32[N]\n    for i in 0..N:\n"
        "        t[i] = x[i]\n    for i in 0..N:\n        y[i] = 2.0*x[i]\n"
    )
    assert "`t` of `k` lives nowhere" in said(assert_home, dead, "t", "register")


def test_homes_match_with_and_without_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopfuse.testing import facts as testing_facts

    monkeypatch.setattr(testing_facts, "homes_of", lambda *_: ("window(5)",))
    assert_home(BLUR, "rows", "window")
    assert_home(BLUR, "rows", "window(5)")
    said(assert_home, BLUR, "rows", "window(4)")
    said(assert_home, BLUR, "rows", "line")


def test_homes_that_are_none() -> None:
    code, text = refused(assert_home, BLUR, "row", "register")
    assert code == "unknown-array" and "did you mean `rows`?" in text
    code, text = refused(assert_home, BLUR, "img", "register")
    assert code == "unknown-array" and "is an argument of `blur`" in text
    assert refused(assert_home, BLUR, "rows", "reg")[0] == "unknown-home"


def test_every_code_is_explained() -> None:
    said: set[str] = set()
    for file in (ROOT / "loopfuse" / "testing").glob("*.py"):
        said |= set(re.findall(r'refuse\(\s*"([a-z-]+)"', file.read_text()))
    page = (ROOT / "docs/errors.md").read_text()
    assert len(said) > 12
    assert [code for code in said if f"### {code}\n" not in page] == []


# ---------------------------------------------------------------------------- kinds of kernels


def test_python_kernels_need_types_once() -> None:
    fresh = loopfuse.kernel(smooth_and_blend.reference)
    code, text = refused(assert_fuses, fresh, "smooth", "blend")
    assert code == "python-types-unknown" and "`args=(np.zeros(8, np.float32),)`" in text
    x = np.ones(9, np.float32)
    assert_fuses(fresh, "smooth", "blend", args=(x,))
    assert_fuses(fresh, args={"x": loopfuse.f64["N"]})
    assert_home(fresh, "smooth", "register", args=(x,))
    assert_traffic(fresh, at_most="8*x_0", args=(x,))
    line = smooth_and_blend.function.__code__.co_firstlineno + 4
    assert_fuses(fresh, line, line + 2, args=(x,))
    assert_dependence(fresh, array="smooth", source=line + 1, args=(x,))


def test_what_is_no_kernel_or_several() -> None:
    assert refused(assert_fuses, len)[0] == "not-a-kernel"
    many = loopfuse.loads(f"{TOTAL}\n{TOTAL.replace('total', 'again')}")
    code, text = refused(assert_fuses, many)
    assert code == "which-kernel" and "pass one of them, such as `kernels.total`" in text
    assert_parallel(many.again, "i")
