"""Every MLIR file under tests/mlir runs: interpreter = unfused = fused, compiled for the CPU, bit for
bit; and upstream's own lowering of the same text gives the same bits where it is at hand.

Where upstream is not at hand, and beside it, NumPy says what some of the files compute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopfuse.base.diagnostics import Source
from loopfuse.lang import nodes
from loopfuse.lang.semantics import array_dtype

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import engines
import upstream
from case_files import (
    assert_same,
    copy_arguments,
    evaluate,
    random_array,
)

FOLDER = Path(__file__).resolve().parent.parent / "mlir"
FILES = tuple(sorted(FOLDER.glob("*.mlir")))
Arguments = dict[str, Any]
Sizes = tuple[int, int, int, int]


@dataclass(frozen=True)
class Plan:
    """How one function is run. `extents` gives sizes of their own to extents that are not `n`, `m`,
    `p`, `q` by position; `adjust` puts data in place where not every number is allowed; `close` is
    how many units in the last place upstream's math library may be away, `results` how many of the
    parameters are results, `upstream_data` the data on which upstream is asked."""

    sizes: tuple[Sizes, ...] = ((0, 0, 0, 0), (1, 2, 1, 1), (7, 5, 3, 2), (33, 20, 2, 4))
    extents: dict[str, Callable[[int, int], int]] = field(default_factory=dict)
    scalars: dict[str, Callable[[int], Any]] = field(default_factory=dict)
    adjust: Callable[[Arguments, np.random.Generator], None] | None = None
    data: tuple[str, ...] = ("random", "special")
    close: float = 0.0
    results: int = 0
    upstream_data: tuple[str, ...] = ("random", "special")


def nonzero(values: Arguments, rng: np.random.Generator) -> None:
    """A divisor is not 0; the least number is not divided by -1."""
    b = values["b"]
    b[b == 0] = 3
    values["a"][::3] = np.iinfo(np.int32).min
    b[::3] = np.where(b[::3] == -1, 7, b[::3])


def shifts(values: Arguments, rng: np.random.Generator) -> None:
    """A shift is by less than the width."""
    values["a"][...] = rng.integers(-(2**63), 2**63 - 1, values["a"].shape)
    values["b"][...] = rng.integers(0, 64, values["b"].shape)


def wide_bytes(values: Arguments, rng: np.random.Generator) -> None:
    """All of i8, and pairs that are equal."""
    values["a"][...] = rng.integers(-128, 128, values["a"].shape)
    if "b" in values:
        values["b"][...] = np.where(
            rng.random(values["a"].shape) < 0.3,
            values["a"],
            rng.integers(-128, 128, values["a"].shape),
        )


def wide_shorts(values: Arguments, rng: np.random.Generator) -> None:
    """All of i16."""
    values["a"][...] = rng.integers(-(2**15), 2**15, values["a"].shape)


def subscripts(values: Arguments, rng: np.random.Generator) -> None:
    """`at` holds subscripts."""
    target = values["table"] if "table" in values else values["bins"]
    values["at"][...] = rng.integers(0, len(target), values["at"].shape)


def some_equal(values: Arguments, rng: np.random.Generator) -> None:
    """A third of the pairs are equal."""
    values["b"][::3] = values["a"][::3]


def same(values: Arguments, rng: np.random.Generator) -> None:
    """Nothing to put in place."""


SQUARE = {"l_1": lambda n, m: n}
FROM_ONE = ((1, 1, 1, 1), (2, 3, 1, 1), (7, 5, 3, 2), (33, 20, 2, 4))
PLANS: dict[str, Plan] = {
    "stencil.blur_twice": Plan(),
    "sums.normalize": Plan(),
    "carried.pair": Plan(),
    "carried.nested": Plan(),
    "carried.total": Plan(),
    "order.late": Plan(),
    "parallel.plane": Plan(),
    "parallel.most": Plan(((0, 0, 0, 0), (1, 0, 0, 0), (90, 0, 0, 0), (120, 0, 0, 0))),
    "branches.edges": Plan(),
    "branches.diagonal": Plan(),
    "branches.stores_inside": Plan(),
    "bounds.band": Plan(),
    "bounds.steps": Plan(),
    "bounds.extremes": Plan(FROM_ONE),
    "triangular.solve": Plan(extents=SQUARE),
    "vectors.scale": Plan(((0, 0, 0, 0),), scalars={"f": lambda n: np.float32(1.7)}),
    "functions.down": Plan(extents={"x_0": lambda n, m: 2 * n + 1}),
    "functions.twice": Plan(),
    "results.split": Plan(results=3),
    "static.layer": Plan(((0, 0, 0, 0),)),
    "scf_loops.clip": Plan(
        FROM_ONE, scalars={"n": lambda n: n, "limit": lambda n: np.float32(0.5)}
    ),
    "integers.divisions": Plan(adjust=nonzero, extents={"o_1": lambda n, m: n}),
    "integers.constants": Plan(adjust=wide_shorts, extents={"o_1": lambda n, m: n}),
    "integers.bits": Plan(adjust=shifts, extents={"o_1": lambda n, m: n}),
    "predicates.integers": Plan(adjust=wide_bytes, extents={"o_1": lambda n, m: n}),
    "predicates.floats": Plan(adjust=some_equal, extents={"o_1": lambda n, m: n}),
    "mathematics.exponential": Plan(close=64.0),
    "mathematics.circle": Plan(extents={"o_1": lambda n, m: n, "z_0": lambda n, m: n}, close=64.0),
    "mathematics.hyperbolic": Plan(extents={"o_1": lambda n, m: n}, close=64.0),
    "mathematics.tests": Plan(
        extents={"o_1": lambda n, m: n, "z_0": lambda n, m: n}
    ),
    "mathematics.exact": Plan(extents={"o_1": lambda n, m: n}),
    "narrow.half": Plan(),
    # The CPU's own conversion to bf16, which LLVM takes, makes subnormal numbers 0.
    "narrow.brain": Plan(upstream_data=("random",)),
    "narrow.conversions": Plan(
        adjust=wide_bytes, data=("random",), upstream_data=("random",),
        extents={"o_1": lambda n, m: n, "g_1": lambda n, m: n},
    ),
    "gather.lookup": Plan(FROM_ONE, extents={"table_0": lambda n, m: m}, adjust=subscripts),
    "gather.histogram": Plan(FROM_ONE, extents={"bins_0": lambda n, m: m}, adjust=subscripts),
    "copies.rotate": Plan(),
    "copies.exchange": Plan(),
    "copies.before": Plan(FROM_ONE),
    "generic.scale": Plan(),
    "backwards.suffix": Plan(),
    "flattened.flattened": Plan(extents={"y_0": lambda n, m: 16 * n}),
    "flattened.apart": Plan(((0, 0, 0, 0),)),
    "flattened.beneath": Plan(((0, 0, 0, 0),)),
    "recurrence.diffuse": Plan(scalars={"steps": lambda n: n % 4}),
    "recurrence.prefix": Plan(),
    "select.choose": Plan(scalars={"k": lambda n: np.int32(n // 2)}),
    "transposed.pool": Plan(
        ((0, 0, 0, 0), (1, 2, 3, 1), (3, 5, 3, 2), (9, 2, 2, 4)),
        extents={"y_0": lambda n, m: m, "y_1": lambda n, m: n},
    ),
}  # fmt: skip


def read_file(stem: str) -> Source:
    """The source of a file."""
    path = FOLDER / f"{stem}.mlir"
    return Source(f"tests/mlir/{path.name}", path.read_text(), "mlir")


def sizes_and_arguments(
    kernel: nodes.Kernel, plan: Plan, sizes: Sizes, data: str
) -> tuple[dict[str, int], Arguments]:
    """The sizes by name and a value for each parameter."""
    rng = np.random.default_rng(sum(sizes) + 7)
    values: dict[str, Any] = {name: make(sizes[0]) for name, make in plan.scalars.items()}
    named: dict[str, int] = {}
    for param in kernel.arrays:
        for k, extent in enumerate(param.extents):
            if isinstance(extent, nodes.Symbol) and extent.name not in named:
                make = plan.extents.get(extent.name)
                named[extent.name] = sizes[k] if make is None else make(sizes[0], sizes[1])
    arguments: Arguments = {}
    for param in kernel.params:
        match param:
            case nodes.ArrayParam():
                shape = tuple(evaluate(each, {**named, **values}) for each in param.extents)
                arguments[param.name] = random_array(param.dtype, shape, data, rng)
            case nodes.ScalarParam():
                arguments[param.name] = array_dtype(param.dtype).type(values[param.name])
    if plan.adjust is not None and arguments:
        plan.adjust(arguments, rng)
    return named, arguments


def by_upstream(
    source: Source, kernel: nodes.Kernel, arguments: Arguments, results: int
) -> Arguments:
    """What upstream's lowering of the text leaves in the arrays, and what it returns."""
    held = copy_arguments(arguments)
    names = [param.name for param in kernel.params]
    given = len(names) - results
    found = upstream.run_upstream(source.text, kernel.name, [held[name] for name in names[:given]])
    held.update(zip(names[given:], found, strict=True))
    return held


def assert_close(kernel: nodes.Kernel, expected: Arguments, got: Arguments, units: float) -> None:
    """Equal to a few units in the last place of the larger of 1 and the number."""
    for param in kernel.arrays:
        left, right = expected[param.name], got[param.name]
        unit = np.finfo(left.dtype).eps * units
        np.testing.assert_allclose(right, left, rtol=unit, atol=unit, err_msg=param.name)


def test_every_function_of_every_file_is_run() -> None:
    found = {
        f"{path.stem}.{kernel.name}"
        for path in FILES
        for kernel in engines.read(read_file(path.stem), "strict").kernels
    }
    assert found == set(PLANS)
    assert len(FILES) >= 20


def test_upstream_accepts_every_file() -> None:
    if not upstream.has_upstream() and not upstream.must_have_upstream():
        pytest.skip("no mlir-opt-22 here")
    assert upstream.verify_all([path.read_text() for path in FILES]) == ""


@pytest.mark.parametrize("which", PLANS)
def test_all_engines_agree(which: str) -> None:
    stem, name = which.split(".")
    source, plan = read_file(stem), PLANS[which]
    kernel = next(each for each in engines.read(source, "strict").kernels if each.name == name)
    for sizes in plan.sizes:
        for data in plan.data:
            named, arguments = sizes_and_arguments(kernel, plan, sizes, data)
            with np.errstate(all="ignore"):
                expected = engines.interpret(kernel, copy_arguments(arguments), named)
                tree = engines.run_plan(source, kernel, arguments, named)
            assert_same(kernel, expected, tree, f"fused tree at {sizes}, {data}")
            for fuel in (0, None):
                got = engines.run_compiled(source, kernel, arguments, named, fuel=fuel)
                assert_same(kernel, expected, got, f"compiled, fuel {fuel}, at {sizes}, {data}")


@pytest.mark.parametrize("which", PLANS)
def test_upstream_agrees(which: str) -> None:
    if not upstream.has_upstream() and not upstream.must_have_upstream():
        pytest.skip("no mlir-opt-22 here")
    stem, name = which.split(".")
    source, plan = read_file(stem), PLANS[which]
    kernel = next(each for each in engines.read(source, "strict").kernels if each.name == name)
    for sizes in plan.sizes:
        for data in plan.upstream_data:
            named, arguments = sizes_and_arguments(kernel, plan, sizes, data)
            got = engines.run_compiled(source, kernel, arguments, named)
            expected = engines.arrays_of(
                kernel, by_upstream(source, kernel, arguments, plan.results)
            )
            if plan.close:
                assert_close(kernel, expected, got, plan.close)
            else:
                assert_same(kernel, expected, got, f"against upstream at {sizes}, {data}")
