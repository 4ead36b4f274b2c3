"""A Python kernel tells each warning once, what it says to remove may be removed, and dependences are
asked for with the arguments of a call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse import UserError


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LOOPFUSE_CACHE_DIR", str(tmp_path))
    yield


def _told(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
    codes = [str(one.message).partition("]")[0].removeprefix("warning[") for one in found]
    return sorted(codes)


def warned(x, n, W):  # pyright: ignore
    y = np.zeros_like(x)
    spare = np.zeros_like(x)
    spare[0] = 2.0
    for i in range(len(x)):
        y[i] = x[i] * np.int32(3) + n[i]
    for h in range(2):
        for w in range(W):
            y[h * W + w] += 1.0
    return y


def test_each_warning_is_told_once() -> None:
    given = np.ones(8, np.float32), np.ones(8, np.int32), 3
    kernel = loopfuse.kernel(warned, target="cpu")
    once = ["never-used", "not-affine", "promotes-to-f64"]
    assert _told(lambda: kernel(*given)) == once
    assert _told(lambda: (kernel(*given), kernel.explain(*given), kernel.verify())) == []
    first = loopfuse.kernel(warned, target="cpu")
    assert _told(lambda: first.explain(*given)) == once


def exchanged(x):  # pyright: ignore
    a = np.zeros_like(x)
    a, x = x, a
    return a


def shaped(x):  # pyright: ignore
    a = np.zeros_like(x)
    b = np.zeros_like(a)
    for i in range(a.shape[0]):
        b[i] = x[i]
    return b


def unused(x):  # pyright: ignore
    a = np.zeros_like(x)
    a[0] = 1.0
    b = np.copy(x)
    return b


def test_what_is_named_elsewhere_is_not_to_be_removed() -> None:
    x = np.ones(4, np.float32)
    for function in (exchanged, shaped):
        kernel = loopfuse.kernel(function, target="cpu")
        assert _told(lambda one=kernel: one(x)) == []
        assert kernel(x).tolist() == [1.0] * 4
    assert _told(lambda: loopfuse.kernel(unused, target="cpu")(x)) == ["never-used"]


def soften(img, amount):  # pyright: ignore
    out = np.empty_like(img)
    for y in range(1, img.shape[0]):
        for x in range(img.shape[1]):
            out[y, x] = img[y, x] * amount
    for y in range(2, img.shape[0]):
        for x in range(img.shape[1]):
            out[y, x] += out[y - 1, x]
    return out


def test_dependences_take_a_calls_arguments() -> None:
    img = np.ones((4, 3), np.float32)
    kernel = loopfuse.kernel(soften, target="cpu")
    with pytest.raises(UserError, match="python-types-unknown"):
        kernel.dependences()
    found = kernel.dependences(img, 1.0)
    assert found["dependences"] and found == kernel.dependences(img, amount=1.0)
    assert found["dependences"] == kernel.dependences()["dependences"]
    listed = kernel.dependences(img, 1.0, instances=True)
    assert any("pairs" in one for one in listed["dependences"])
    names: dict[str, Any] = dict(zip(kernel.specialise(img, 1.0).signature.sizes, img.shape))
    for asked in (
        kernel.dependences(names, instances=True),
        kernel.dependences(sizes=names, instances=True),
        kernel.dependences(**names, instances=True),
    ):
        assert asked == listed
    with pytest.raises(UserError, match=r"unknown-argument|size|missing"):
        kernel.dependences(img, 1.0, Q=3)
