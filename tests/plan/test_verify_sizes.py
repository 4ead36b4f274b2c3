"""Sizes and integer parameters that are drawn satisfy what the kernel needs and what it assumes; where
none do, the message says which condition stands in the way, and the sizes of its fix are accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import UserError, loads
from loopfuse.commands.bench import default_sizes
from loopfuse.kernels.sizes import accepted_near, choose_sizes
from loopfuse.runtime.formulas import evaluate
from loopfuse.testing import assert_equivalent, assert_traffic

BODY = "    for i in 0..N:\n        y[i] = x[i] * f32(n) + f32(m)\n"
HEAD = "kernel k(x: f32[N], out y: f32[N], n: i32, m: i64):\n"

ASSUMED = {
    "apart": "    assume n >= 10 and m > n * 3\n    assume N % 16 == 0\n",
    "below": "    assume n <= -3 and m == n - 1000000\n",
    "window": "    assume N >= 37 and N <= 38 and n == N // 2\n",
    "either": "    assume n < -100 or n > 100\n    assume min(n, m) > 99\n",
    "far": "    assume m * 7 == n * 3 + 100001 and n % 4 == 2\n",
    "product": "    assume n * m == 10403 and n > 1\n",
    "square": "    assume n * n == 1764 and m > n\n",
    "bits": "    assume n & 7 == 3 and n > 1000\n",
}


def _kernel(assumed: str) -> Any:
    return loads(HEAD + assumed + BODY, target="cpu")


def _python(assumed: str) -> str:
    texts = re.findall(r"assume (.*)", assumed)
    return " and ".join(f"({text})" for text in texts)


@pytest.mark.parametrize("name", ASSUMED)
def test_what_is_drawn_satisfies_what_is_assumed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    kernel = _kernel(ASSUMED[name])
    cases = choose_sizes(kernel, {}, "cpu", 0)
    assert cases and len({tuple(case.items()) for case in cases}) == len(cases)
    for case in cases:
        assert eval(_python(ASSUMED[name]), dict(case)), case
    assert len(cases) >= 4 or name == "window"
    again = accepted_near(kernel, cases[0], {}, [])
    assert again == cases[0]


def test_both_doors_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    assert _kernel(ASSUMED["apart"]).verify()
    rows = loads(
        "kernel k(x: f32[N, 2500], out y: f32[N], r: i32):\n    assume r <= -3\n"
        "    for i in 0..N:\n        y[i] = sum(j in 0..2500: x[i, j]) + f32(r)\n",
        target="cpu",
    )
    found = rows.verify()
    assert found and {dict(case)["N"] for case in found.tried} == {0, 1}
    assert_equivalent(rows, sizes={"N": 1})

    @loopfuse.kernel(target="cpu")
    def scaled(x, n: int):  # pyright: ignore
        assert n >= 10 and len(x) % 16 == 0
        y = np.zeros_like(x)
        for i in range(len(x)):
            y[i] = x[i] * np.float32(n)
        return y

    scaled(np.ones(16, np.float32), 11)
    found = scaled.verify()
    assert found and all(dict(case)["n"] >= 10 for case in found.tried)
    assert {dict(case)["n"] for case in scaled.verify(n=12).tried} == {12}
    with pytest.raises(UserError, match=r"needs `n >= 10.*, which cannot be at n=3") as caught:
        scaled.verify(n=3)
    fix = caught.value.diagnostics[0].fix
    given = re.fullmatch(r"give others: `verify\((.*)\)`", fix)
    assert given, fix
    assert scaled.verify(**eval(f"dict({given[1]})"))


@pytest.mark.parametrize(
    "assumed, given, told, named",
    [
        ("apart", {"N": 5}, "needs `N % 16 == 0`, which cannot be at N=5", True),
        ("apart", {"N": 32, "n": 10, "m": 5}, "m >= 3*n + 1`, which cannot be at", True),
        ("apart", {"N": 1 << 30}, "more than 16777216 elements", True),
        ("    assume N >= 10\n    assume N < 5\n", {}, "no sizes satisfy all that `k` needs: N", False),
        ("    assume N > 100000000\n", {}, "more than 16777216 elements", False),
        ("    assume n * n == 2000003\n", {}, "what `k` needs: n * n == 2000003", False),
    ],
)
def test_what_stands_in_the_way_is_told(
    assumed: str,
    given: dict[str, int],
    told: str,
    named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    kernel = _kernel(ASSUMED.get(assumed, assumed))
    with pytest.raises(UserError) as caught:
        choose_sizes(kernel, given, "cpu", 0)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "no-sizes" and told in diagnostic.message, diagnostic
    option = re.search(r"--size (\S+?)`", diagnostic.fix)
    assert bool(option and "..." not in option[1]) == named, diagnostic.fix
    if named and option:
        sizes = {n: int(v) for n, v in (each.split("=") for each in option[1].split(","))}
        assert choose_sizes(kernel, sizes, "cpu", 0) == [sizes]


def test_sizes_to_time_are_accepted() -> None:
    """The usual ones, moved to the nearest that the kernel accepts; what the user gave stays."""
    kernel = _kernel(ASSUMED["apart"])
    needs = kernel.explain().report.preconditions
    chosen = accepted_near(kernel, default_sizes(kernel, {}), {}, needs)
    assert chosen == {"N": 1 << 24, "n": 10, "m": 31}
    chosen = accepted_near(kernel, default_sizes(kernel, {"m": 100}), {"m": 100}, needs)
    assert chosen["m"] == 100 and all(evaluate(text, chosen) for text in needs)
    with pytest.raises(UserError, match="which cannot be at m=5"):
        accepted_near(kernel, default_sizes(kernel, {"m": 5}), {"m": 5}, needs)


def test_formulas_are_compared_at_sizes_that_are_accepted() -> None:
    kernel = loads(
        "kernel k(x: f32[N], out y: f32[N], r: i32):\n"
        "    assume r <= -70 and N % 1001 == 7 and N > 2000000\n"
        "    for i in 0..N - r * 0:\n        y[i] = x[i] * f32(r)\n"
    )
    assert assert_traffic(kernel, at_most="8*N + (N // 3) + r*0") in ("sampled", "proved")
