"""Options, arguments and sizes that are none: each is refused where it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError

TEXT = "kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = x[i]\n"


def scaled(x, w):
    for i in range(len(x)):
        x[i] = x[i] * w


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(UserError) as told:
        call()
    assert told.value.diagnostics[0].fix
    return told.value.diagnostics[0].code


@pytest.mark.parametrize("options", [
    {"fp": "Strict"}, {"fp": "sloppy"}, {"fp": None}, {"fp": 3}, {"reassociate": "no"}, {"reassociate": 1},
])  # fmt: skip
def test_options_are_looked_at(options: dict[str, Any]) -> None:
    assert code(lambda: loopfuse.loads(TEXT, **options)) == "kernel-option"
    assert code(lambda: loopfuse.kernel(**options)(scaled)) == "kernel-option"
    changes = {name: value for name, value in options.items() if value is not None}
    if changes:  # None keeps what a kernel has
        assert code(lambda: loopfuse.loads(TEXT).with_options(**changes)) == "kernel-option"
        assert code(lambda: loopfuse.kernel(scaled).with_options(**changes)) == "kernel-option"


def test_a_text_is_text() -> None:
    assert code(lambda: loopfuse.loads(3)) == "kernel-option"  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"with_options\(\) got an unexpected keyword argument 'foo'"):
        loopfuse.kernel(scaled).with_options(foo=1)


def test_calls_whose_types_are_not_known_yet() -> None:
    """What is wrong with them is what is missing, at the first call as at later ones."""
    x = np.ones(4, np.float32)
    kernel = loopfuse.kernel(scaled)
    for _ in range(2):
        assert code(lambda: kernel(x)) == "missing-argument"
        assert code(lambda: kernel()) == "missing-argument"
        assert code(lambda: kernel(x, v=2.0)) == "unknown-argument"
        assert code(lambda: kernel(x, 2.0, v=2.0)) == "unknown-argument"
        kernel(x, 2.0)


def test_a_kernel_is_no_method() -> None:
    def define() -> None:
        class Holder:  # pyright: ignore[reportUnusedClass]
            @loopfuse.kernel
            def method(self, x):
                for i in range(len(x)):
                    x[i] = 1.0

    assert code(define) == "not-a-function-definition"

    class Static:
        @loopfuse.kernel
        def fill(x):
            for i in range(len(x)):
                x[i] = 1.0

    x = np.zeros(3, np.float32)
    Static().fill(x)
    assert (x == 1.0).all()


def test_sizes_are_not_negative() -> None:
    kernel = loopfuse.loads(TEXT)
    for ask in (kernel.explain, lambda N: kernel.compile("cpu", N=N)):
        assert code(lambda ask=ask: ask(N=-3)) == "size-mismatch"
