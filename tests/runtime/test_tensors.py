"""PyTorch tensors whose memory is not all there is to them: refused with one error, or read right,
on the first call and on those after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError

torch = pytest.importorskip("torch")

TEXT = """
kernel scale(x: f32[N], out y: f32[N]):
    for i in 0..N:
        y[i] = 2.0 * x[i]
"""


def scale(x: Any) -> Any:
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = 2.0 * x[i]
    return y


@pytest.fixture(params=["cold", "warm", "warm, output given", "Python's, cold", "Python's, warm"])
def call(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """The kernel, first called or called before; a function without annotations learns its types from
    what it is called with."""
    kernel = loopfuse.kernel(scale) if request.param.startswith("Python") else loopfuse.loads(TEXT)
    given = (torch.empty(8),) if request.param.endswith("given") else ()
    if not request.param.endswith("cold"):
        for _ in range(3):
            kernel(torch.ones(8), *given)

    def run(x: Any) -> Any:
        made = kernel(x, *given)
        return given[0] if given else made

    return run


def test_what_requires_grad_is_refused_in_grad_mode(call: Callable[[Any], Any]) -> None:
    x = torch.ones(8, requires_grad=True)
    with pytest.raises(UserError, match=r"requires grad[\s\S]*fix: pass `x\.detach\(\)`[\s\S]*as_torch_op"):
        call(x)
    with pytest.raises(UserError, match="requires grad"):
        call(torch.nn.Parameter(torch.ones(8)))
    with pytest.raises(UserError, match="requires grad"):
        call(x * 2.0)
    np.testing.assert_array_equal(call(x.detach()), np.full(8, 2.0))
    with torch.no_grad():
        np.testing.assert_array_equal(call(x), np.full(8, 2.0))


def test_numbers_still_to_be_negated_are_not_read_as_they_lie(call: Callable[[Any], Any]) -> None:
    x = torch._neg_view(torch.ones(8))
    with pytest.raises(UserError, match="resolve_neg"):
        call(x)
    np.testing.assert_array_equal(call(x.resolve_neg()), np.full(8, -2.0))


def test_an_output_still_to_be_negated_is_refused() -> None:
    kernel = loopfuse.loads(TEXT)
    x, y = torch.ones(8), torch.empty(8)
    for _ in range(3):
        kernel(x, y)
    with pytest.raises(UserError, match=r"`t = y.resolve_neg\(\)`, pass `t`, then `y.copy_\(t\)`"):
        kernel(x, torch._neg_view(y))
    t = torch._neg_view(y).resolve_neg()
    kernel(x, t)
    view = torch._neg_view(y)
    view.copy_(t)
    np.testing.assert_array_equal(view.resolve_neg(), np.full(8, 2.0))


def test_tensors_without_memory_are_refused(call: Callable[[Any], Any]) -> None:
    emptied = torch.ones(8)
    emptied.untyped_storage().resize_(0)
    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(8)
    zeros = torch._efficientzerotensor((8,))
    part = torch.ones(16)[8:]  # its address is then its offset
    part.untyped_storage().resize_(0)
    for tensor in (emptied, fake, zeros, part, torch.ones(8, device="meta")):
        with pytest.raises(UserError, match=r"not-an-array|argument-type"):
            call(tensor)
    np.testing.assert_array_equal(call(torch.ones(8)), np.full(8, 2.0))


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t[8:], lambda t: t[:64].view(8, 8).t(), lambda t: t.flip(0)])
def test_a_storage_that_was_cut_is_noticed(make: Callable[[Any], Any]) -> None:
    """At a first call, also where the address is one."""
    whole = torch.ones(100)
    view = make(whole)
    text = TEXT if view.dim() == 1 else TEXT.replace("[N]", "[N, M]").replace("0..N", "0..N, j in 0..M").replace("[i]", "[i, j]")
    loopfuse.loads(text)(view)
    view.untyped_storage().resize_(view.untyped_storage().nbytes() - (148 if view.dim() == 2 else 4))
    with pytest.raises(UserError, match="not-an-array"):
        loopfuse.loads(text)(view)


def test_an_array_of_no_elements_needs_no_memory(call: Callable[[Any], Any]) -> None:
    kernel = loopfuse.loads(TEXT)
    for _ in range(3):
        assert kernel(torch.empty(0)).shape == (0,)


@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # nested tensors are a prototype
def test_tensors_of_transformations_are_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(UserError, match=r"not-an-array|argument-type"):
        call(torch.nested.nested_tensor([torch.ones(3), torch.ones(5)]))
    with pytest.raises(UserError, match=r"not-an-array|argument-type"):
        torch.func.vmap(call)(torch.ones(2, 8))
    with pytest.raises(UserError, match=r"not-an-array|argument-type"):
        torch.func.grad(lambda x: call(x).sum())(torch.ones(8))


class Bad:
    """An array that describes itself wrongly."""

    def __init__(self, **interface: Any) -> None:
        self.__array_interface__ = interface


@pytest.mark.parametrize(
    "interface",
    [
        {},
        {"shape": (8,), "typestr": "<f4"},
        {"shape": "no", "typestr": "<f4", "data": (0, False), "version": 3},
        {"shape": (8,), "typestr": "what", "data": (1 << 20, False), "version": 3},
        {"shape": (8,), "typestr": "<f4", "data": "there", "version": 3},
    ],
)
def test_a_bad_array_interface_is_one_error(interface: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        loopfuse.loads(TEXT)(Bad(**interface))
