"""The planner weighs with what functions cost: nothing is fused that computes a dear value several
times; the prices are the table's, and so are those that threads are given work by."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.dtypes import DType
from loopfuse.lang import ops
from loopfuse.lang.nodes import Binary, Call, Const, Load
from loopfuse.lang.price import BY_CONSTANT, OPERATION, expression_price
from loopfuse.runtime.devices.sharing import work_of
from loopfuse.runtime.formulas import evaluate

ALONG_ROWS = """
    kernel k(x: f32[{shape}], g: f32, out y: f32[{shape}]):
        temp l: f32[{shape}]
        for a in 0..{p}, b in 0..{q}, c in 0..{r}:
            l[a, b, c] = {value}
        for {loops}:
            y[a, b, c] = 0.25*l[{before}] + 0.5*l[a, b, c] + 0.25*l[{after}]
    """
ROWS = ("a in 0..{p}, b in 1..{q}-1, c in 0..{r}", "a, b-1, c", "a, b+1, c")
COLUMNS = ("a in 0..{p}, b in 0..{q}, c in 1..{r}-1", "a, b, c-1", "a, b, c+1")
PLANES = ("a in 1..{p}-1, b in 0..{q}, c in 0..{r}", "a-1, b, c", "a+1, b, c")


def blurred(value: str, shape: str, along: tuple[str, str, str]) -> str:
    """A point-wise stage, and three taps of it along one dimension."""
    p, q, r = (each.strip() for each in shape.split(","))
    loops, before, after = along
    return textwrap.dedent(ALONG_ROWS).format(
        shape=shape, p=p, q=q, r=r, value=value, before=before, after=after,
        loops=loops.format(p=p, q=q, r=r),
    )  # fmt: skip


POWER, PRODUCT = "x[a, b, c] ** g", "x[a, b, c] * g"


def plan(text: str, target: str, **sizes: int) -> dict[str, Any]:
    """The report of a program."""
    return loopfuse.loads(text).explain(target=target, **sizes).to_dict()


@pytest.mark.parametrize("target", ["cpu", "sm_90"])
@pytest.mark.parametrize(
    ("shape", "along", "sizes"),
    [
        ("H, W, C", PLANES, {}),
        ("H, W, 3", ROWS, {}),
        ("H, W, C", ROWS, {"H": 512, "W": 512, "C": 3}),
        ("C, H, W", PLANES, {}),
    ],
)
def test_a_power_is_not_computed_three_times(
    shape: str, along: tuple[str, str, str], sizes: dict[str, int], target: str
) -> None:
    if target == "sm_90" and along is ROWS:
        pytest.skip("windows in registers compute nothing anew there")
    report = plan(blurred(POWER, shape, along), target, **sizes)
    assert report["launches"]["after"] == 2
    (decision,) = report["decisions"]
    assert not decision["fused"] and decision["remedy"]
    assert decision["reason"].startswith("it would be slower: about ")
    assert "`l` would be computed 3 times for each iteration, with `pow`" in decision["reason"]


def test_conversions_of_halves_cost_what_their_code_does() -> None:
    """On a GPU they are an instruction each; on a CPU f16's are slow ones, and bf16 is rounded by our own code."""
    for half in (DType.F16, DType.BF16):
        assert ops.conversion_price(half, DType.F32, "gpu") == ops.price("cast", DType.F32, "gpu")
        assert ops.conversion_price(half, DType.F32, "cpu") > ops.price("cast", DType.F32, "cpu")
    assert ops.conversion_price(DType.F32, DType.BF16, "cpu") >= 10 > ops.conversion_price(DType.F32, DType.F16, "cpu")
    assert ops.conversion_price(DType.F16, DType.F16, "cpu") == ops.price("cast", DType.F16, "cpu")
    assert ops.conversion_price(DType.F32, DType.F64, "cpu") == ops.price("cast", DType.F64, "cpu")


@pytest.mark.parametrize("along", [PLANES, ROWS, COLUMNS])
def test_a_product_is(along: tuple[str, str, str]) -> None:
    assert plan(blurred(PRODUCT, "H, W, C", along), "cpu")["launches"]["after"] == 1


@pytest.mark.parametrize("along", [ROWS, COLUMNS])
def test_lines_keep_what_is_dear(along: tuple[str, str, str]) -> None:
    """Where rows are long, one launch does it, and computes each power once."""
    report = plan(blurred(POWER, "C, H, W", along), "cpu")
    (kernel,) = report["kernels"]
    assert kernel["homes"]["l"].startswith("line")


@pytest.mark.parametrize("along", [PLANES, ROWS, COLUMNS])
def test_whatever_is_chosen_is_right(along: tuple[str, str, str]) -> None:
    x = np.random.default_rng(3).random((9, 11, 3), np.float32)
    text = blurred(POWER, "H, W, C", along)
    got, plain = loopfuse.loads(text)(x, 2.2), loopfuse.loads(text).with_options(fuel=0)(x, 2.2)
    assert np.array_equal(got, plain)


# -------------------------------------------------------------------------------------- prices


def test_prices_are_the_tables() -> None:
    element = Load("x", (), DType.F32)
    double = Load("x", (), DType.F64)
    for device in ("cpu", "gpu"):
        for name in ops.OURS:
            if ops.BY_NAME[name].arity == 1:
                one = expression_price(Call(name, (element,), DType.F32), device)
                two = expression_price(Call(name, (double,), DType.F64), device)
                assert one == OPERATION + ops.price(name, DType.F32, device)
                assert one < two
    index = Load("k", (), DType.I32)
    assert expression_price(Binary("mod", index, Const(3, DType.I32), DType.I32), "cpu") == (
        OPERATION + BY_CONSTANT
    )
    assert expression_price(Binary("mod", index, index, DType.I32), "cpu") > 10 * BY_CONSTANT


def test_threads_are_dealt_work_by_the_same_prices() -> None:
    """A power of each element is many times the work of a product, and its manifest says so."""
    seconds: list[float] = []
    for value in ("x[i] * g", "exp(x[i] * g)", "x[i] ** g"):
        text = f"kernel k(x: f32[N], g: f32, out y: f32[N]):\n    for i in 0..N:\n        y[i] = {value}\n"
        artifact = loopfuse.loads(text).compile(target="cpu")
        (step,) = artifact.manifest["steps"]
        grid = int(evaluate(step["launch"]["grid"], {"N": 1 << 20}))
        seconds.append(work_of(step["launch"], 0, {"N": 1 << 20}).nanoseconds(grid))
    product, exponential, power = seconds
    assert 3 * product < exponential and 3 * exponential < power
