"""Reads `tests/cases/*.lf` and `tests/examples.toml`, and makes arguments to run them on.

The header of a case is described in `tests/cases/README.md`. Examples are written for their
readers, so what is expected of them stands in `tests/examples.toml` instead.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.kernels.index_data import fit_indices
from loopfuse.lang import nodes
from loopfuse.lang.semantics import array_dtype

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "tests" / "cases"
EXAMPLES = ROOT / "examples"
SUITES = tuple(ROOT / "tests" / name for name in ("polybench", "livermore", "algorithms"))
"""Folders of well-known programs (`suites.py`), whose text is cases too."""

_DIRECTIVE = re.compile(
    r"#\s*(sizes|medium|args|data|kernels|cpu-kernels|strategy|homes|error|loops|carried|fused|cpu-fused):\s*(.*)"
)


@dataclass(frozen=True)
class Case:
    """One program and what is expected of it; None means not stated (or `?`)."""

    path: Path
    text: str
    sizes: tuple[dict[str, int], ...] = ()
    args: dict[str, Any] | None = None
    data: str = "random"
    kernels: int | None = None
    cpu_kernels: int | None = None
    strategy: str | None = None
    homes: dict[str, str] | None = None
    error: str | None = None
    is_example: bool = False
    medium: tuple[dict[str, int], ...] = ()
    loops: str | None = None
    carried: str | None = None
    fused: str | None = None
    cpu_fused: str | None = None

    @property
    def name(self) -> str:
        """The file's stem."""
        return self.path.stem

    @property
    def title(self) -> str:
        """How pytest shows it: with its folder, unless that is `cases`."""
        folder = self.path.parent.name
        return self.name if folder == "cases" else f"{folder}/{self.name}"

    @property
    def source(self) -> Source:
        """The text, named as a user would name the file."""
        return Source(str(self.path.relative_to(ROOT)), self.text)

    @property
    def scalars(self) -> dict[str, Any]:
        """Values of scalar parameters, by name."""
        return self.args or {}


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def _pairs(text: str) -> dict[str, str]:
    """`a=1 b=2` or `a=1, b=2` as a dict."""
    return dict(item.split("=", 1) for item in re.split(r"[,\s]+", text.strip()) if item)


def _count(text: Any) -> int | None:
    return None if str(text).strip() == "?" else int(text)


def _with(case: Case, key: str, value: Any) -> Case:
    match key:
        case "sizes" | "medium":
            found = {k: int(v) for k, v in _pairs(value).items()}
            return replace(case, **{key: (*getattr(case, key), found)})
        case "args":
            return replace(case, args={k: _value(v) for k, v in _pairs(value).items()})
        case "kernels":
            return replace(case, kernels=_count(value))
        case "cpu-kernels":
            return replace(case, cpu_kernels=_count(value))
        case "homes":
            return replace(case, homes=_pairs(value))
        case "data" | "strategy" | "error" | "loops" | "carried" | "fused" | "cpu-fused":
            return replace(case, **{key.replace("-", "_"): value.strip()})
        case _:
            raise ValueError(f"{case.path.name}: unknown key {key}")


def read_case(path: Path) -> Case:
    """The case in `path`: directives are the comment lines before the first line of code."""
    case = Case(path, path.read_text())
    for line in case.text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if found := _DIRECTIVE.match(line):
            case = _with(case, found[1], found[2])
    return case


def read_cases() -> tuple[Case, ...]:
    """Every case under `tests/cases`, in name order."""
    return tuple(read_case(path) for path in sorted(CASES.glob("*.lf")))


def read_suites() -> tuple[Case, ...]:
    """Every program of every suite, in name order."""
    return tuple(read_case(path) for folder in SUITES for path in sorted(folder.glob("*.lf")))


def read_examples() -> tuple[Case, ...]:
    """Every example, with what `tests/examples.toml` says of it."""
    table = tomllib.loads((ROOT / "tests" / "examples.toml").read_text())
    found: list[Case] = []
    for path in sorted(EXAMPLES.glob("*.lf")):
        case = Case(path, path.read_text(), is_example=True)
        for key, value in table[path.stem].items():
            for one in value if isinstance(value, list) else [value]:
                case = _with(case, key, one)
        found.append(case)
    return tuple(found)


# ------------------------------------------------------------------------------- arguments


def evaluate(expr: nodes.Expr, values: dict[str, Any]) -> int:
    """An extent of a kernel's array at these sizes."""
    match expr:
        case nodes.Const(value=value):
            return int(value)
        case nodes.Symbol(name=name):
            return int(values[name])
        case nodes.Cast(operand=operand):
            return evaluate(operand, values)
        case nodes.Unary(op="neg", operand=operand):
            return -evaluate(operand, values)
        case nodes.Binary(op=op, left=left, right=right):
            a, b = evaluate(left, values), evaluate(right, values)
            match op:
                case "add":
                    return a + b
                case "sub":
                    return a - b
                case "mul":
                    return a * b
                case "floordiv":
                    return a // b
                case "mod":
                    return a % b
                case "min":
                    return min(a, b)
                case "max":
                    return max(a, b)
                case _:
                    raise ValueError(op)
        case _:
            raise ValueError(f"not an extent: {expr}")


SPECIALS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-40,
    5e-324,
    0.5,
    -2.5,
    3.75,
    1e30,
    -1e30,
    88.9,
    -104.0,
    709.9,
    2.0**31,
    -(2.0**63),
)


def random_array(
    dtype: DType, shape: tuple[int, ...], data: str, rng: np.random.Generator
) -> np.ndarray:
    """Random elements of `dtype`.

    `data` is `random`; `small`, where floats are whole numbers from -3 to 3, so that sums are
    exact in any order; or `special`, where a third of the floats are NaN, infinities, signed
    zeros, subnormals and numbers at the edge of some function's range.
    """
    kind = array_dtype(dtype)
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return (
            rng.integers(-3, 4, shape).astype(kind)
            if data == "small"
            else rng.integers(-9, 10, shape).astype(kind)
        )
    if data == "small":
        return rng.integers(-3, 4, shape).astype(kind)
    values = 2.0 * rng.standard_normal(shape)
    if data == "special":
        drawn = np.asarray(SPECIALS)[rng.integers(0, len(SPECIALS), shape)]
        values = np.where(rng.random(shape) < 0.35, drawn, values)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def make_arguments(
    kernel: nodes.Kernel,
    sizes: dict[str, int],
    scalars: dict[str, Any],
    data: str = "random",
    seed: int = 0,
) -> dict[str, Any]:
    """One value per parameter: random arrays, outputs filled too (what is not written must
    survive), and the given scalars (a float scalar not given is 0.75, an integer one 2). Arrays
    that are subscripts hold numbers inside what they subscript."""
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {**sizes, **scalars}
    arguments: dict[str, Any] = {}
    for param in kernel.params:
        match param:
            case nodes.ArrayParam():
                shape = tuple(evaluate(extent, values) for extent in param.extents)
                arguments[param.name] = random_array(param.dtype, shape, data, rng)
            case nodes.ScalarParam():
                default = 0.75 if param.dtype.is_float else 2
                value = values.get(param.name, default)
                arguments[param.name] = array_dtype(param.dtype).type(value)
    fit_indices(kernel, arguments, values)
    return arguments


def arguments_with_faults(
    kernel: nodes.Kernel, sizes: dict[str, int], scalars: dict[str, Any]
) -> dict[str, Any]:
    """`make_arguments`, but some of the subscripts are outside what they subscript."""
    arguments = make_arguments(kernel, sizes, scalars)
    rng = np.random.default_rng(2)
    for param in kernel.arrays:
        array = arguments[param.name]
        if param.mode == "in" and array.dtype.kind in "iu" and array.size:
            wild = rng.integers(-3, 25, array.shape).astype(array.dtype)
            arguments[param.name] = np.where(rng.random(array.shape) < 0.3, wild, array)
    return arguments


def copy_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Fresh arrays with the same elements."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal shapes and dtypes, and each pair of elements equal in every bit, or both NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype.kind not in "fV":  # V: ml_dtypes' bfloat16
        return bool(np.array_equal(left, right))
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    bits = np.ascontiguousarray(left).view(unsigned) == np.ascontiguousarray(right).view(unsigned)
    return bool(np.all(bits | (np.isnan(left) & np.isnan(right))))


def assert_same(
    kernel: nodes.Kernel, expected: dict[str, Any], got: dict[str, Any], who: str
) -> None:
    """Every array of `got` has the bits of `expected`; says the first element that has not."""
    for param in kernel.arrays:
        left, right = expected[param.name], got[param.name]
        if same_bits(left, right):
            continue
        assert left.shape == right.shape, (
            f"{who}: `{param.name}` has shape {right.shape}, not {left.shape}"
        )
        for index in np.ndindex(left.shape):
            if not same_bits(left[index].reshape(1), right[index].reshape(1)):
                raise AssertionError(
                    f"{who}: {param.name}{list(index)} is {right[index]!r}, not {left[index]!r}"
                )
