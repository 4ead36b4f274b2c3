"""Kernels as operators of PyTorch: eager, under torch.compile, and by torch's own checks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.distribution.torch_op import schema

torch = pytest.importorskip("torch")

SMOOTH = """\
kernel smooth(x: f32[N], out y: f32[N], amount: f32):
    for i in 0..N:
        y[i] = amount * (x.clamp[i-1] + x.clamp[i+1])
"""
ACCUMULATE = """\
kernel accumulate(x: f64[N], inout total: f64[N], n: i64):
    for t in 0..n, i in 0..N:
        total[i] = total[i] + x[i]
"""
SEVERAL = """\
kernel several(x: f32[H, W], out rows: f32[H], out wide: f32[H, W + 1], out other: i64[M]):
    for y in 0..H:
        rows[y] = sum(k in 0..W: x[y, k])
    for y in 0..H, k in 0..W+1:
        wide[y, k] = x.zero[y, k]
    for i in 0..M:
        other[i] = i
"""
NUMBERS = itertools.count()


def operator(text: str) -> Any:
    """The kernel of `text` as an operator of a name of its own, and the kernel."""
    kernel = loopfuse.loads(text)
    return kernel.as_torch_op(f"loopfuse_tests::k{next(NUMBERS)}"), kernel


def test_eager_returns_what_the_kernel_returns() -> None:
    smooth, kernel = operator(SMOOTH)
    x = torch.randn(1000)
    got = smooth(x, 0.5)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got.numpy(), kernel(x.numpy(), amount=0.5))
    strided = torch.randn(40, 3)[:, 1]
    np.testing.assert_array_equal(
        smooth(strided, 2.0).numpy(), kernel(strided.numpy().copy(), amount=2.0)
    )


def test_inout_is_written_in_place() -> None:
    accumulate, _ = operator(ACCUMULATE)
    x, total = torch.arange(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    before = total._version
    assert accumulate(x, total, 3) is None
    np.testing.assert_array_equal(total.numpy(), 1 + 3 * np.arange(5))
    assert total._version > before


def test_several_outputs_and_a_free_size() -> None:
    several, kernel = operator(SEVERAL)
    x = torch.randn(4, 6)
    rows, wide, other = several(x, 3)
    expected = kernel(x.numpy(), M=3)
    for got, want in zip((rows, wide, other), expected, strict=True):
        np.testing.assert_array_equal(got.numpy(), want)


def test_torch_compile_takes_it_whole() -> None:
    smooth, _ = operator(SMOOTH)
    accumulate, _ = operator(ACCUMULATE)
    several, _ = operator(SEVERAL)
    targets: list[Any] = []

    def note(graph: Any, _: Any) -> Any:
        targets.extend(node.target for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    def work(x: Any, total: Any) -> Any:
        accumulate((x + 1.0).double(), total, 2)
        rows, wide, other = several(x.reshape(4, -1), 5)
        return smooth(x * 2.0, 0.25) + rows.sum() + wide.sum(), total, other

    x = torch.randn(24)
    expected = work(x, torch.zeros(24, dtype=torch.float64))
    compiled = torch.compile(work, backend=note, fullgraph=True, dynamic=True)
    got = compiled(x, torch.zeros(24, dtype=torch.float64))
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    ours = [target for target in targets if "loopfuse_tests" in str(target)]
    assert len(ours) == 3
    # Another size, the same graph: the shapes were followed as symbols.
    count = len(targets)
    compiled(torch.randn(32), torch.zeros(32, dtype=torch.float64))
    assert len(targets) == count


@pytest.mark.parametrize("text", [SMOOTH, ACCUMULATE, SEVERAL])
def test_torchs_own_checks(text: str) -> None:
    made, kernel = operator(text)
    arguments = {
        "smooth": (torch.randn(8), 0.5),
        "accumulate": (torch.ones(8).double(), torch.ones(8).double(), 2),
        "several": (torch.randn(3, 4), 5),
    }[kernel.name]
    torch.library.opcheck(made, arguments)


def test_a_wrong_tensor_is_the_users_error() -> None:
    smooth, _ = operator(SMOOTH)
    with pytest.raises(UserError, match="wrong-dtype"):
        smooth(torch.zeros(8, dtype=torch.float64), 1.0)


def test_the_schema() -> None:
    signatures = [loopfuse.loads(text).signature for text in (SMOOTH, ACCUMULATE, SEVERAL)]
    assert [schema(one) for one in signatures] == [
        "(Tensor x, float amount) -> Tensor",
        "(Tensor x, Tensor(a1!) total, SymInt n) -> ()",
        "(Tensor x, SymInt M) -> (Tensor, Tensor, Tensor)",
    ]


@loopfuse.kernel
def halves(x, y, k: int):
    low = np.empty_like(x)
    high = np.empty_like(x)
    for i in range(len(x)):
        low[i] = 0.5 * x[i]
        high[i] = k * x[i]
        y[i] += x[i]
    return high, low


def test_python_kernels_return_in_their_own_order() -> None:
    name = f"loopfuse_tests::k{next(NUMBERS)}"
    with pytest.raises(UserError) as caught:
        halves.as_torch_op(name)
    assert caught.value.diagnostics[0].code == "python-types-unknown"
    x, y = torch.arange(5.0), torch.ones(5)
    operator = halves.as_torch_op(name, x, y, 3)
    for call in (operator, torch.compile(lambda *a: operator(*a), backend="eager", fullgraph=True)):
        y = torch.ones(5)
        high, low = call(x, y, 3)
        assert torch.equal(high, 3 * x) and torch.equal(low, 0.5 * x) and torch.equal(y, 1 + x)
    torch.library.opcheck(operator, (x, y, 3))


def test_python_operators_are_for_types() -> None:
    """The extents that are equal in a sample are sizes of their own."""

    @loopfuse.kernel
    def added(x, y):
        z = np.empty_like(x)
        for i in range(len(x)):
            z[i] = x[i] + y[i]
        return z

    @loopfuse.kernel
    def halved(x):
        z = np.empty_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                z[i, j] = 0.5 * x[i, j]
        return z

    halves = halved.as_torch_op(f"loopfuse_tests::k{next(NUMBERS)}", torch.rand(16, 16))
    sums = added.as_torch_op(f"loopfuse_tests::k{next(NUMBERS)}", torch.rand(5), torch.rand(5))
    for shape in ((16, 20), (16, 16), (3, 1)):
        x = torch.rand(shape)
        assert torch.equal(halves(x), 0.5 * x)
        torch.library.opcheck(halves, (x,))
    x, y = torch.rand(3), torch.rand(4)
    assert torch.equal(sums(x, y), x + y[:3])


def test_a_name_without_a_namespace_is_refused() -> None:
    with pytest.raises(UserError) as told:
        loopfuse.loads(SMOOTH).as_torch_op("smooth")
    assert told.value.diagnostics[0].code == "kernel-option"
