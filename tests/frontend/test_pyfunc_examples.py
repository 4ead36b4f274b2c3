"""Every example in both forms: the same core Program where the .lf text says what Python can, the
same bits in CPython and compiled under strict, and the same results everywhere."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from case_files import Case, make_arguments, read_examples
from references import prepare

import loopfuse
from loopfuse.lang.nodes import Kernel
from loopfuse.lang.printer import print_kernel

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
CASES = {case.name: case for case in read_examples()}

# The .lf text holds a reduction inside an expression, which Python writes as a local of its own,
# or an edge mode that Python writes as a condition: the results are compared, not the programs.
DIFFERENT = {
    "depthwise_conv": "`.zero` is an `if`, and a sum inside an expression",
    "kmeans_assign": "argmin is a comparison in a loop",
    "strided_conv": "`.zero` is an `if`, and a sum inside an expression",
}
# exp, log, tanh, erf, rsqrt and powers are ours when compiled and NumPy's in CPython.
WITHIN_ULPS = {
    "alibi", "attention", "bias_gelu_residual", "bilateral", "branches", "causal_attention",
    "chain", "cross_entropy", "group_norm", "layernorm_gelu", "rmsnorm", "selective_scan",
    "softmax", "softmax_loops",
}  # fmt: skip


@cache
def twin(name: str) -> Any:
    """The decorated function of examples/NAME.py."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def normal(kernel: Kernel) -> str:
    """The program as text: parameters sorted (what Python returns stands last in Python),
    iterators and labels by order of appearance, `inout` and temporaries' order as they are."""
    text = print_kernel(kernel)
    head, _, body = text.partition("\n")
    inside, _, sizes = head.partition("(")[2].rpartition(")")
    parts = sorted(re.split(r", (?=\w+: )", inside))
    names: dict[str, str] = {}
    for found in re.finditer(r"(?:for|over|,) ([\w.]+) in (?!.*->)", body):
        names.setdefault(found[1], f"i{len(names)}")
    lines = body.split("\n")
    temps = sorted(line for line in lines if line.startswith("    temp "))
    rest = [line for line in lines if not line.startswith("    temp ")]
    out = "\n".join(rest)
    for old, new in sorted(names.items(), key=lambda pair: -len(pair[0])):
        out = re.sub(rf"(?<![\w.]){re.escape(old)}(?![\w.])", new, out)
    return "\n".join([*parts, " ".join(sorted(sizes.split())), *temps, out])


def test_every_example_has_its_twin() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.lf")} <= {p.stem for p in EXAMPLES.glob("*.py")}
    assert set(CASES) == {path.stem for path in EXAMPLES.glob("*.lf")}


@pytest.mark.parametrize("name", sorted(set(CASES) - set(DIFFERENT)))
def test_same_program(name: str) -> None:
    text = loopfuse.load(EXAMPLES / f"{name}.lf")
    first, second = text.program().kernels[0], twin(name).specialise().program().kernels[0]
    assert normal(first) == normal(second)


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_listed_differences_are_real(name: str) -> None:
    text = loopfuse.load(EXAMPLES / f"{name}.lf")
    first, second = text.program().kernels[0], twin(name).specialise().program().kernels[0]
    assert normal(first) != normal(second), f"{name} can be compared: take it out of DIFFERENT"


def call_arguments(case: Case, sizes: dict[str, int]) -> tuple[Any, Kernel, dict[str, Any]]:
    """The twin, the .lf text's core, and arguments for it by name (`out` arrays included)."""
    kernel = loopfuse.load(EXAMPLES / f"{case.name}.lf").program().kernels[0]
    arguments = prepare(kernel.name, make_arguments(kernel, sizes, case.scalars, case.data))
    return twin(case.name), kernel, arguments


def as_called(function: Any, kernel: Kernel, arguments: dict[str, Any]) -> dict[str, Any]:
    """Copies of what the Python function takes; annotated numbers already in their type."""
    types = {param.name: param.dtype for param in kernel.scalars}
    held: dict[str, Any] = {}
    for name in function._names:
        value = arguments[name]
        if isinstance(value, np.ndarray):
            held[name] = value.copy()
        elif types[name].is_float:
            held[name] = np.dtype(types[name].numpy_name).type(value)
        else:
            held[name] = int(value)
    return held


def results_of(kernel: Kernel, held: dict[str, Any], result: Any) -> dict[str, np.ndarray]:
    """What was written and returned, by name."""
    written = {p.name: held[p.name] for p in kernel.arrays if p.name in held and p.mode == "inout"}
    outs = [p.name for p in kernel.arrays if p.mode == "out"]
    values = result if isinstance(result, tuple) else (result,)
    return {**written, **dict(zip(outs, values))}


def assert_bits(left: dict[str, np.ndarray], right: dict[str, np.ndarray], who: str) -> None:
    """Equal bits, or both NaN."""
    assert set(left) == set(right)
    for name in left:
        assert left[name].dtype == right[name].dtype, (who, name)
        a, b = left[name], right[name]
        bits = np.dtype(f"u{a.dtype.itemsize}")
        same = (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))
        assert same.all(), (who, name, a[~same][:3], b[~same][:3])


@pytest.mark.parametrize("name", sorted(CASES))
def test_cpython_computes_the_same(name: str) -> None:
    """Undecorated under CPython = compiled for the CPU, in strict mode; and = the .lf text."""
    case = CASES[name]
    strict = twin(name).with_options(fp="strict", reassociate=False)
    text = loopfuse.load(EXAMPLES / f"{name}.lf", fp="strict", reassociate=False)
    for sizes in case.sizes:
        function, kernel, arguments = call_arguments(case, sizes)
        plain = as_called(function, kernel, arguments)
        compiled = as_called(function, kernel, arguments)
        lf = as_called(function, kernel, arguments)
        with np.errstate(all="ignore"):
            expected = results_of(kernel, plain, function.reference(**plain))
        got = results_of(kernel, compiled, strict(**compiled))
        from_text = results_of(kernel, lf, text(**lf))
        if name in WITHIN_ULPS:
            for key, value in expected.items():
                np.testing.assert_allclose(got[key], value, rtol=3e-6, atol=3e-6)
        else:
            assert_bits(expected, got, f"{name} {sizes}: CPython against compiled")
        if name in DIFFERENT and "`if`" in DIFFERENT[name]:
            for key, value in from_text.items():
                np.testing.assert_allclose(got[key], value, rtol=1e-6)
        else:
            assert_bits(from_text, got, f"{name} {sizes}: the .lf text against Python")
