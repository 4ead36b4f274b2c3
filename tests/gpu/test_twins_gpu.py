"""The Python form of every example on GPU arrays: the bits of the same function on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "frontend"))

from gpu_libraries import Library, with_each
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


@pytest.mark.parametrize("name", sorted(CASES))
def test_twin_has_the_bits_of_the_cpu(name: str) -> None:
    function = twin(name).with_options(reassociate=False)
    for sizes in CASES[name].sizes:
        _, kernel, arguments = call_arguments(CASES[name], sizes)
        here = as_called(twin(name), kernel, arguments)
        expected = results_of(kernel, here, function(**here))

        def run(
            library_name: str, library: Library, sizes: Any = sizes, kernel: Any = kernel,
            arguments: Any = arguments, expected: Any = expected,
        ) -> None:  # fmt: skip
            upload, download = library
            there = as_called(twin(name), kernel, arguments)
            moved: dict[str, Any] = {
                key: upload(value) if isinstance(value, np.ndarray) else value
                for key, value in there.items()
            }
            result = function(**moved)
            loopfuse.synchronize()
            got = {key: download(value) for key, value in results_of(kernel, moved, result).items()}
            assert_bits(expected, got, f"{name} {sizes}, {library_name}")

        with_each(run)
