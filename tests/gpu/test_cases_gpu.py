"""Every case and example on GPU arrays, against the interpreter's bits.

Run on a machine with a GPU: `pytest -m gpu tests/gpu`. A library that is not installed is skipped; if
none is, nothing is tested and the run says so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import engines
import references
from case_files import Case, assert_same, make_arguments, read_cases, read_examples, read_suites
from gpu_libraries import Library, with_each

import loopfuse
from loopfuse.base.options import parse_target
from loopfuse.lang import nodes
from loopfuse.runtime.devices import cuda

pytestmark = pytest.mark.gpu

PROGRAMS = tuple(case for case in read_cases() if case.error is None) + read_examples() + read_suites()


def poisoned(kernel: nodes.Kernel, arguments: dict[str, Any]) -> dict[str, Any]:
    """`arguments` with every `out` array full of NaN or 0x55, so that a missing write shows."""
    found = dict(arguments)
    for param in kernel.arrays:
        if param.mode == "out":
            array = found[param.name].copy()
            array.reshape(-1).view(np.uint8)[:] = 0x55 if array.dtype.kind != "b" else 1
            if array.dtype.kind == "f":
                array.fill(np.nan)
            found[param.name] = array
    return found


def run(
    kernel: Any, arguments: dict[str, Any], sizes: dict[str, int], library: Library
) -> dict[str, np.ndarray]:
    """The arrays after one call on the GPU."""
    upload, download = library
    held = {k: upload(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    kernel(**held, **sizes)
    loopfuse.synchronize()
    return {k: download(v) for k, v in held.items() if isinstance(arguments[k], np.ndarray)}


def assert_with_each(
    kernel: nodes.Kernel, compiled: Any, arguments: dict[str, Any], sizes: dict[str, int],
    expected: dict[str, np.ndarray], words: str,
) -> None:  # fmt: skip
    """The call has the expected bits on arrays of every library."""
    with_each(
        lambda name, library: assert_same(
            kernel, expected, run(compiled, arguments, sizes, library), f"{words}, {name}"
        )
    )


def named(case: Case) -> str:
    """How pytest shows a case."""
    return case.title


@pytest.mark.parametrize("case", PROGRAMS, ids=named)
def test_gpu_has_the_bits(case: Case) -> None:
    """Fused and unfused in program order against the interpreter; and with reductions free to
    change order against the LoopTree interpreter, which runs the very same tree."""
    info = cuda.gpu()
    assert info is not None, "this test needs an NVIDIA GPU"
    target = parse_target(info.target)
    for kernel in engines.read(case.source).kernels:
        for sizes in case.sizes or ({},):
            arguments = make_arguments(kernel, sizes, case.scalars, case.data)
            arguments = poisoned(kernel, references.prepare(kernel.name, arguments))
            named_sizes = engines.sizes_to_pass(kernel, sizes)
            expected = engines.interpret(kernel, arguments, sizes)
            for fuel in (0, None):
                compiled = engines.loaded(case.source, kernel.name, fuel, False)
                words = f"{kernel.name} {sizes}: GPU, fuel={fuel}"
                assert_with_each(kernel, compiled, arguments, named_sizes, expected, words)
            if not engines.has_reductions(case.source, kernel.name):
                continue  # no order to change, and the tree of a block of planes takes minutes
            tree = engines.run_plan(
                case.source, kernel, arguments, sizes, target=target, reassociate=True, as_compiled=True
            )
            compiled = engines.loaded(case.source, kernel.name, None, True)
            words = f"{kernel.name} {sizes}: GPU, reordered"
            assert_with_each(kernel, compiled, arguments, named_sizes, tree, words)
