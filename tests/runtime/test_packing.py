"""Arrays whose elements do not lie at multiples of their size: copied in and out, said once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError

TEXT = """\
kernel k(x: {t}[H, W], inout y: {t}[H, W], out z: {t}[H, W]):
    for i in 0..H, j in 1..W:
        y[i, j] += x[i, j]
        z[i, j] = y[i, j] + x[i, j-1]
"""
DTYPES = {"u16": np.uint16, "i32": np.int32, "f32": np.float32, "f64": np.float64}


def odd(values: Any) -> Any:
    """The values in memory that starts at an odd byte, as in a message."""
    room = np.zeros(values.nbytes + 1, np.uint8)
    made = room[1:].view(values.dtype).reshape(values.shape)
    made[...] = values
    return made


def record(values: Any) -> Any:
    """The values as a packed record's field, backwards."""
    made = np.zeros(values.shape, [("tag", "u1"), ("x", values.dtype)])
    made["x"] = values[::-1]
    return made["x"][::-1]


def kernel_for(dtype: str) -> Any:
    return loopfuse.loads(TEXT.format(t=dtype), target="cpu")


@pytest.mark.parametrize("place", [odd, record])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_are_read_and_written(dtype: str, place: Any) -> None:
    kernel = kernel_for(dtype)
    data = [np.arange(k, k + 35).reshape(5, 7).astype(DTYPES[dtype]) for k in (1, 40, 90)]
    expected = [each.copy() for each in data]
    kernel(*expected)
    given = [place(each) for each in data]
    with pytest.warns(UserWarning, match="unaligned-copy") as told:
        kernel(*given)
    assert len(told) == 3
    for one, other in zip(given, expected):
        np.testing.assert_array_equal(one, other)
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        kernel(*[place(each) for each in data])


def test_only_what_is_misplaced_is_copied() -> None:
    kernel = kernel_for("f32")
    x, y = np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)
    kernel(x, y)
    assert kernel.call_paths.calls
    late = odd(x)
    with pytest.warns(UserWarning) as told:
        z = kernel(late, y)
    assert str(told[0].message) == (
        "warning[unaligned-copy]: elements of `x` do not lie at multiples of their 4 bytes, so each "
        "call of `k` copies it in\n  = fix: pass a copy that you keep: `np.array(x)`"
    )
    np.testing.assert_array_equal(y[:, 1:], np.full((3, 3), 3.0))
    np.testing.assert_array_equal(z, [[0, 4, 4, 4]] * 3)


def test_what_shares_memory_is_refused_still() -> None:
    late = odd(np.ones((3, 4), np.float32))
    with pytest.raises(UserError, match="share memory"):
        kernel_for("f32")(late, late)
    room = np.zeros(100, np.uint8)
    rows = np.lib.stride_tricks.as_strided(room[1:].view(np.uint8)[:48].view(np.float32), (3, 4), (2, 4))
    with pytest.raises(UserError, match="share memory"):
        kernel_for("f32")(np.ones((3, 4), np.float32), rows)


def test_arrays_that_are_read_only() -> None:
    message = np.frombuffer(b"#" + np.ones(12, np.float32).tobytes(), np.uint8)
    x = message[1:].view(np.float32).reshape(3, 4)
    y = np.ones((3, 4), np.float32)
    with pytest.warns(UserWarning, match="copies it in"):
        kernel_for("f32")(x, y)
    with pytest.raises(UserError, match="read-only"):
        kernel_for("f32")(y, x)


def test_an_offender_leaves_what_was_written() -> None:
    kernel = loopfuse.loads(
        "kernel k(p: i32[N], inout y: f32[N]):\n    for i in 0..N:\n        y[p[i]] = 5.0\n",
        target="cpu",
    )
    p, y = np.array([0, 9, 2, 1], np.int32), odd(np.zeros(4, np.float32))
    with pytest.warns(UserWarning), pytest.raises(UserError, match="subscript-out-of-range"):
        kernel(p, y)
    np.testing.assert_array_equal(y, [5, 5, 5, 0])


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, y = (torch.from_numpy(odd(np.ones((3, 4), np.float32))) for _ in range(2))
    with pytest.warns(UserWarning):
        z = kernel_for("f32")(x, y)
    assert isinstance(z, torch.Tensor) and z[0, 1] == 3 and y[0, 1] == 2 and y[0, 0] == 1
