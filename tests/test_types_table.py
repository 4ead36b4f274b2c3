"""Every row of `docs/types.md`: the interpreter and compiled code against exact arithmetic."""

from __future__ import annotations

import engines
import numpy as np
import pytest
import types_programs
import types_table as table
from types_programs import Check

from loopfuse import pipeline
from loopfuse.base.diagnostics import LoopfuseError, Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import Options, Target
from loopfuse.kernels import kernel as kernels

CHECKS = (
    *types_programs.operation_checks(),
    *types_programs.promotion_checks(),
    *types_programs.reduction_checks(),
)
PROCESSORS = {"v2": "x86-64-v2", "v3": "x86-64-v3", "native": ""}


def test_the_page_has_the_rows() -> None:
    """The tables were found, and name every type."""
    assert len(table.operations()) > 350
    assert {row.dtype for row in table.operations()} == set(DType)
    assert len(table.reductions()) > 60
    assert len(table.promotions()) == 13 * 13


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_interpreter(check: Check) -> None:
    kernel = engines.read(check.source).kernels[0]
    got = engines.interpret(kernel, check.arguments(), check.sizes)
    check.compare(got, "interpreter")


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_compiled(check: Check, processor: str) -> None:
    """For this machine also fused and unfused alike."""
    fuels = (None, 0) if processor == "native" else (None,)
    for fuel in fuels:
        kernel = kernels.load_all(check.source, fuel=fuel, reassociate=False)[check.name]
        # No option names another processor: users compile for the one they have.
        kernel._target = Target("cpu", PROCESSORS[processor])  # pyright: ignore[reportPrivateUsage]
        arguments = check.arguments()
        kernel(**arguments)
        check.compare(arguments, f"{processor}, fuel {fuel}")


def test_mixed_types_are_refused() -> None:
    """What the matrix calls an error is one."""
    for (left, right), answer in table.promotions().items():
        if answer is None:
            text = f"kernel k(a: {left.value}[N], b: {right.value}[N], out y: f64[N]):\n"
            text += "    for i in 0..N:\n        y[i] = a[i] + b[i]\n"
            with pytest.raises(LoopfuseError) as caught:
                pipeline.read_program(Source("k.lf", text))
            codes = {one.code for one in caught.value.diagnostics}
            assert codes <= {"mixed-halves", "bool-arithmetic"}, (left, right)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_strict_is_numpys(dtype: DType) -> None:
    """Under `--fp strict` a chain of operations rounds after each, as NumPy and ml_dtypes do."""
    text = f"kernel k(a: {dtype.value}[N], b: {dtype.value}[N], out y: {dtype.value}[N]):\n"
    text += "    for i in 0..N:\n        y[i] = a[i] * b[i] + a[i] * 0.1 - b[i] / (abs(a[i]) + 1)\n"
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal(999) * 8).astype(table.numpy_dtype(dtype)) for _ in range(2))
    tenth, one = (np.asarray(x).astype(a.dtype)[()] for x in (0.1, 1.0))
    wanted = a * b + a * tenth - b / (np.abs(a) + one)
    source = Source("k.lf", text)
    kernel = engines.read(source, "strict").kernels[0]
    out = np.zeros_like(a)
    got = engines.interpret(kernel, {"a": a, "b": b, "y": out}, {"N": 999})["y"]
    assert types_programs.bits_equal(got, wanted).all()
    kernels.load_all(source, fp="strict")["k"](a, b, out)
    assert types_programs.bits_equal(out, wanted).all()
    fast = kernels.load_all(source)["k"](a, b)
    assert not types_programs.bits_equal(fast, wanted).all(), "fast rounds only at the store"


def test_the_programs_integers_carry_no_nsw() -> None:
    """Only index arithmetic may promise not to wrap."""
    text = "kernel k(a: i32[N], out y: i32[N]):\n    for i in 0..N:\n        y[i] = a[i] * 3 + a[i]\n"
    program = pipeline.read_program(Source("k.lf", text))
    artifact = pipeline.compile_kernel(program, "k", Options(), emit=frozenset({"mlir"}))
    assert " = arith.muli" in artifact.mlir
    wrapping = [line for line in artifact.mlir.splitlines() if line.endswith(": i32")]
    assert wrapping and not any("nsw" in line for line in wrapping)
