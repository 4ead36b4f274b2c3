"""Kernels for the runtime's tests, without the compiler."""

from __future__ import annotations

from typing import Any

import pytest
from manifests import SCALE_IR, array, build_object, launch, manifest, pointer, scalar, value


@pytest.fixture(scope="session")
def code() -> bytes:
    """The object of SCALE_IR."""
    return build_object(SCALE_IR)


@pytest.fixture
def scale() -> Any:
    """y = x * a where the call is aligned, else y = x."""
    return manifest(
        "scale",
        [array("x", "f32", "in", "N"), array("y", "f32", "out", "N"), scalar("a", "f32")],
        ["N"],
        steps=[
            launch(
                "scale_0", "N", pointer("x"), pointer("y"), value("N", "i64"), value("a", "f32"),
                {"kind": "aligned", "dtype": "bool"},
            )
        ],
    )  # fmt: skip


@pytest.fixture
def stepper() -> Any:
    """for t in 0..steps: y += t * work; work += 1 (work starts as zeros)."""
    return manifest(
        "stepper",
        [array("y", "i64", "inout", "N"), scalar("steps", "i64")],
        ["N"],
        buffers=[{"name": "work", "dtype": "i64", "extents": ["N"], "zeroed": True}],
        steps=[
            {
                "loop": {
                    "var": "t", "lower": "0", "upper": "steps", "step": 1,
                    "body": [
                        launch("step_0", "N", pointer("y"), pointer("work"), value("t", "i64"))
                    ],
                }
            }
        ],
    )  # fmt: skip
