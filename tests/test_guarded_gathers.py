"""What stands under a condition asks for elements only where the condition holds: a subscript that
would be out of bounds elsewhere is no error (found by fuzzing, 1126:992 and 1126:1519)."""

from __future__ import annotations

import engines
import numpy as np
import pytest

from loopfuse.base.diagnostics import Source, UserError
from loopfuse.kernels import kernel as kernels
from loopfuse.lang.interp import OutOfBounds, interpret

HEAD = "kernel f(b: f32[M], g: i32[N], inout a: f32[M]):\n    for i in 0..M:\n"
BODIES = {
    "reduction": """
        if b[i] > 2.0:
            a[i] = min(p in 0..N: a[g[p]])
    """,
    "reduction, otherwise": """
        if b[i] < 2.0:
            a[i] = 1.0
        else:
            a[i] = sum(p in 0..N: a[g[p]])
    """,
    "reduction, neither": """
        if b[i] < 2.0:
            a[i] = 1.0
        elif i > M - 2:
            a[i] = max(p in 0..N: a[g[p]])
    """,
    "value": """
        if b[i] > 2.0:
            let v: f32 = a[g[i]] + 1.0
            a[i] = v * v
    """,
    "condition": """
        if b[i] > 2.0:
            if a[g[i]] > 0.0:
                a[i] = 3.0
    """,
    "condition that is overwritten": """
        if b[i] > 2.0:
            if a[g[i]] > 0.0:
                a[i] = 3.0
                a[i] = a[i] + b[i]
    """,
}


@pytest.mark.parametrize("fuel", [0, None])
@pytest.mark.parametrize("name", BODIES)
def test_only_where_the_condition_holds(name: str, fuel: int | None) -> None:
    lines = BODIES[name].strip("\n").rstrip()
    source = Source("guarded.lf", HEAD + lines + "\n")
    (program,) = engines.read(source).kernels
    kernel = kernels.load_all(source, fuel=fuel, target="cpu")["f"]
    index = np.array([20, 20, 20], np.int32)
    for given, wrong in ((1.0, False), (3.0, True)):
        b, a = np.full(3, given, np.float32), np.full(3, 5.0, np.float32)
        arguments = {"b": b, "g": index, "a": a}
        if wrong:
            with pytest.raises(OutOfBounds):
                interpret(program, arguments)
            with pytest.raises(UserError, match="element 20"):
                kernel(**arguments)
        else:
            expected = interpret(program, {name: value.copy() for name, value in arguments.items()})
            kernel(**arguments)
            np.testing.assert_array_equal(a, expected["a"])
