"""What the fused examples move and where their temporaries live, said with loopfuse.testing.

`tests/examples.toml` pins kernels and homes as data; here are the claims a reader would make of an
example: one kernel, each array read or written once.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

import loopfuse
from loopfuse.kernels.kernel import load_all
from loopfuse.kernels.sources import read_source
from loopfuse.testing import assert_fuses, assert_home, assert_not_fused, assert_traffic

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def example(name: str) -> Any:
    return loopfuse.load(EXAMPLES / f"{name}.lf")


@pytest.mark.parametrize(
    ("name", "bytes_moved"),
    [
        ("alibi", "8*H*T*T + 4*H"),
        ("batchnorm_relu_add", "12*N*C*H*W + 16*C"),
        ("bias_gelu_residual", "12*R*C + 4*C"),
        ("branches", "12*N"),
        ("chain", "8*N"),
        ("depthwise_conv", "8*N*C*H*W + 40*C"),
        ("stats", "4*N + 20"),
        ("unsharp", "8*H*W"),
    ],
)
def test_one_kernel_moves_each_array_once(name: str, bytes_moved: str) -> None:
    kernel = example(name)
    assert_fuses(kernel)
    assert assert_traffic(kernel, at_most=bytes_moved) == "proved"
    with pytest.raises(AssertionError, match="bytes for sm_80, more than"):
        assert_traffic(kernel, at_most=f"{bytes_moved} - 1")


def test_temporaries_that_never_reach_memory() -> None:
    homes = {
        "blur": {"rows": "window(3)"},
        "unsharp": {"rows": "window(5)", "blur": "register"},
        "harris": {"ix": "register", "ixx": "window(3)", "sxy": "register"},
        "alibi": {"biased": "register"},
    }
    for name, temporaries in homes.items():
        for temporary, home in temporaries.items():
            assert_home(example(name), temporary, home)


def test_what_cannot_fuse_says_why() -> None:
    for name, target in (("heat3d", "cpu"),):
        kernel, pair = example(name), ("L1.1", "L1.2")
        because = "elements of `b` that it does not write are read too"
        assert_not_fused(kernel, *pair, target=target, because=because)
        # Each step reads what the one before it wrote: a new array would be no remedy.
        with pytest.raises(AssertionError):
            assert_not_fused(kernel, *pair, target=target, because="a new array instead of `a`")
    assert_not_fused(example("gauss_seidel"), "x", "residual", because="L1 has no parallel loop")


@pytest.mark.parametrize(
    "path",
    [
        "tests/cases/private_array_under_data.lf",
        "tests/cases/private_never_written_under_data.lf",
        "tests/cases/data_ragged_nested.lf",
        "examples/csr_matvec.lf",
    ],
)
def test_formulas_are_in_sizes_and_parameters(path: str) -> None:
    """Also where data says how long a loop is: of what is private to it, one copy counts."""
    for kernel in load_all(read_source(str(EXAMPLES.parent / path))).values():
        traffic = kernel.explain().to_dict()["traffic"]
        known = {*kernel.signature.sizes, *(p.name for p in kernel.signature.parameters)}
        for when in ("before", "after"):
            used = {
                node.id
                for node in ast.walk(ast.parse(traffic[when]["bytes"], mode="eval"))
                if isinstance(node, ast.Name)
            }
            assert used - {"min", "max"} <= known, traffic
