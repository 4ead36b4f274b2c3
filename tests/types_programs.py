"""The programs that hold every row of the tables of `docs/types.md`, and what they must give."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import types_table as table

from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType

Expected = dict[str, tuple[str, DType, list[Any]]]
"""Each output's row, type and exact values."""


@dataclass(frozen=True)
class Check:
    """A kernel, its input arrays, and each output's exact values with the row they belong to.

    The values are calculated in fractions when they are first asked for, not when the tests are
    collected: that took every process that collects them 20 s.
    """

    name: str
    text: str
    inputs: dict[str, np.ndarray]
    calculate: Callable[[], Expected]

    @functools.cached_property
    def expected(self) -> Expected:
        """What the outputs must hold."""
        return self.calculate()

    @property
    def source(self) -> Source:
        """The program as the compiler takes it."""
        return Source(f"{self.name}.lf", self.text)

    @property
    def sizes(self) -> dict[str, int]:
        """Every array is as long as the inputs."""
        return {"N": len(next(iter(self.inputs.values())))}

    def arguments(self) -> dict[str, np.ndarray]:
        """Inputs, and outputs full of a pattern, so that a missing write shows."""
        outputs = {}
        for name, (_, dtype, values) in self.expected.items():
            made = np.zeros(len(values), table.numpy_dtype(dtype))
            made.view(np.uint8)[:] = 0x55 if dtype is not DType.BOOL else 1
            outputs[name] = made
        return {**{name: value.copy() for name, value in self.inputs.items()}, **outputs}

    def compare(self, got: dict[str, np.ndarray], who: str) -> None:
        """AssertionError with the first element that is not as the table says."""
        for name, (row, dtype, values) in self.expected.items():
            wanted = table.array(values, dtype)
            same = bits_equal(wanted, got[name])
            if same.all():
                continue
            at = int(np.argmin(same))
            given = ", ".join(f"{n}={v[at if v.size > at else 0]!r}" for n, v in self.inputs.items())
            raise AssertionError(
                f"{who}: `{row}` is {got[name][at]!r}, not {wanted[at]!r}, for {given}"
            )


def bits_equal(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Element by element: equal bits, or both NaN."""
    assert left.dtype == right.dtype and left.shape == right.shape
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    equal = left.view(unsigned) == right.view(unsigned)
    if left.dtype.kind in "fV":
        equal |= np.isnan(left.astype(np.float64)) & np.isnan(right.astype(np.float64))
    return equal


def _kernel(name: str, inputs: str, outputs: list[tuple[str, DType]], lines: list[str]) -> str:
    heads = ", ".join(f"out {o}: {d.value}[N]" for o, d in outputs)
    body = "\n".join(f"        {line}" for line in lines)
    return f"kernel {name}({inputs}, {heads}):\n    for i in 0..N:\n{body}\n"


def _pairs(values: list[Any]) -> list[tuple[Any, Any]]:
    """Every value, beside others; and some 30 of them each beside each."""
    some = values if len(values) <= 32 else [*values[:: len(values) // 28], *values[-3:]]
    turned = [(a, values[(7 * k + 3) % len(values)]) for k, a in enumerate(values)]
    return [*itertools.product(some, repeat=2), *turned, *((a, a) for a in values)]


@functools.cache
def operation_checks() -> tuple[Check, ...]:
    """One kernel for each dtype, with every row of the table of operations that names it."""
    checks: list[Check] = []
    for dtype in DType:
        rows = [row for row in table.operations() if row.dtype is dtype]
        pairs = _pairs(table.values(dtype))
        lines, outputs = [], []
        for number, row in enumerate(rows):
            name = f"o{number}"
            lines.append(f"{name}[i] = " + re.sub(r"\b([ab])\b", r"\1[i]", row.operation))
            outputs.append((name, row.gives))
        text = _kernel(
            f"ops_{dtype.value}", f"a: {dtype.value}[N], b: {dtype.value}[N]", outputs, lines
        )
        inputs = {
            "a": table.array([a for a, _ in pairs], dtype),
            "b": table.array([b for _, b in pairs], dtype),
        }
        checks.append(
            Check(f"ops_{dtype.value}", text, inputs, functools.partial(_applied, rows, pairs))
        )
    return tuple(checks)


def _applied(rows: list[table.Row], pairs: list[tuple[Any, Any]]) -> Expected:
    """What every row gives for every pair."""
    return {
        f"o{number}": (
            f"{row.operation}, {row.dtype.value}",
            row.gives,
            [table.apply(row, a, b) for a, b in pairs],
        )
        for number, row in enumerate(rows)
    }


@functools.cache
def promotion_checks() -> tuple[Check, ...]:
    """One kernel for each dtype: its sum with every other, in the type that the matrix gives."""
    checks: list[Check] = []
    matrix = table.promotions()
    for left in DType:
        others = [right for right in DType if matrix[left, right] not in (None, DType.BOOL)]
        if not others:
            continue
        size = 97
        first = (table.values(left) * size)[:size]
        inputs = {"a": table.array(first, left)}
        lines, outputs = [], []
        pairs: dict[str, tuple[str, DType, list[tuple[Any, Any]]]] = {}
        for right in others:
            answer = matrix[left, right]
            assert answer is not None
            second = (table.values(right)[::-1] * size)[:size]
            inputs[f"b_{right.value}"] = table.array(second, right)
            name = f"o_{right.value}"
            outputs.append((name, answer))
            lines.append(f"{name}[i] = a[i] + b_{right.value}[i]")
            shown = f"{left.value} + {right.value}"
            pairs[name] = (shown, answer, [*zip(first, second, strict=True)])
        heads = ", ".join(
            [f"a: {left.value}[N]", *(f"b_{right.value}: {right.value}[N]" for right in others)]
        )
        name = f"mixed_{left.value}"
        text = _kernel(name, heads, outputs, lines)
        checks.append(Check(name, text, inputs, functools.partial(_promoted, pairs)))
    return tuple(checks)


def _promoted(pairs: dict[str, tuple[str, DType, list[tuple[Any, Any]]]]) -> Expected:
    """The sums of the pairs, each converted to the answer's type first."""
    out: Expected = {}
    for name, (shown, answer, numbers) in pairs.items():
        row = table.Row("a + b", answer, answer)
        sums = [
            table.apply(row, table.converted(a, answer), table.converted(b, answer))
            for a, b in numbers
        ]
        out[name] = (shown, answer, sums)
    return out


@functools.cache
def reduction_checks() -> tuple[Check, ...]:
    """One kernel for each dtype and list of numbers, with every reduction that names it."""
    checks: list[Check] = []
    for dtype in DType:
        numbers = table.values(dtype)
        plain = [x for x in numbers if x == x and abs(x) < 2**20] * 2
        shapes = {"few": plain[:5], "all": numbers + numbers[:3], "plain": plain}
        for word, chosen in shapes.items():
            rows = [row for row in table.reductions() if row.dtype is dtype]
            name = f"reduce_{dtype.value}_{word}"
            outputs = [f"out o{k}: {row.gives.value}[1]" for k, row in enumerate(rows)]
            lines = [f"    o{k}[0] = {row.operation}" for k, row in enumerate(rows)]
            text = f"kernel {name}(a: {dtype.value}[N], {', '.join(outputs)}):\n"
            inputs = {"a": table.array(chosen, dtype)}
            whole = text + "\n".join(lines) + "\n"
            checks.append(Check(name, whole, inputs, functools.partial(_reduced, rows, chosen)))
    return tuple(checks)


def _reduced(rows: list[table.Row], numbers: list[Any]) -> Expected:
    """What every reduction gives for the numbers."""
    return {
        f"o{k}": (f"{row.operation}, {row.dtype.value}", row.gives, [table.reduce(row, numbers)])
        for k, row in enumerate(rows)
    }
