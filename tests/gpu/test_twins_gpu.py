"""The Python form of every example on GPU arrays: the bits of the same function on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "frontend"))

from gpu_libraries import LIBRARIES, Library
from test_pyfunc_examples import (
    CASES,
    as_called,
    assert_bits,
    call_arguments,
    results_of,
    twin,
)

import loopfuse

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", params=sorted(LIBRARIES))
def library(request: pytest.FixtureRequest) -> Library:
    """How to move an array to the GPU, and back."""
    return LIBRARIES[request.param]()


@pytest.mark.parametrize("name", sorted(CASES))
def test_twin_has_the_bits_of_the_cpu(name: str, library: Library) -> None:
    upload, download = library
    function = twin(name).with_options(reassociate=False)
    for sizes in CASES[name].sizes:
        _, kernel, arguments = call_arguments(CASES[name], sizes)
        there = as_called(twin(name), kernel, arguments)
        here = as_called(twin(name), kernel, arguments)
        expected = results_of(kernel, here, function(**here))
        moved: dict[str, Any] = {
            key: upload(value) if isinstance(value, np.ndarray) else value
            for key, value in there.items()
        }
        result = function(**moved)
        loopfuse.synchronize()
        got = results_of(kernel, moved, result)
        got = {key: download(value) for key, value in got.items()}
        assert_bits(expected, got, f"{name} {sizes}")
