"""The operations of `fp="native"`: hardware instructions of NVIDIA's GPUs, and what is made of them.

A recipe is written once, over whatever has its operations: `codegen.math.native` gives values of MLIR for it, and
`model` numbers. A model's instructions are correctly rounded; those of a GPU err by an ulp or two, and
`lang.ops.NATIVE` bounds what comes of it.

The instructions are those with `.ftz`, which take what is below 2**-126 for 0 and give 0 for it: without,
each is an instruction more before it, and one or two after (`tanh.approx` has no other form).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LOG2_NEAR = (  # 2.7e-08
    "0x1.7154760000000p+0", "-0x1.7154760000000p-1", "0x1.ec73760000000p-2", "-0x1.7157060000000p-2",
    "0x1.26954e0000000p-2", "-0x1.eada120000000p-3", "0x1.d234800000000p-3", "-0x1.9916020000000p-3",
)  # fmt: skip
"""log2(1 + f) / f for |f| <= NEAR, as mpmath's `chebyfit` has it; the comment is its largest error."""

NEAR = 0.25
"""So near to 1 the absolute error of `lg2.approx`, 2**-22, would be too much of a logarithm."""


ERF_NEAR = (  # 6.1e-10
    "0x1.20dd760000000p+0", "-0x1.8127320000000p-2", "0x1.ce14e00000000p-4", "-0x1.ada0220000000p-6",
)  # fmt: skip
"""erf(x) / x in x^2 for |x| <= NEAR, in the same way."""

ERF_FAR = (  # 5.8e-08
    "-0x1.a0bfe80000000p+0", "-0x1.d61f8a0000000p-1", "-0x1.31cfb00000000p-3", "0x1.eaf8940000000p-6",
    "-0x1.5f2e880000000p-9", "-0x1.55ac1c0000000p-12", "0x1.550eec0000000p-14",
)  # fmt: skip
"""log2(1 - erf(x)) / x for x in NEAR..4, fitted by Lawson's weights to what errs least in erf; the comment is that error,
relative."""

ERF_ENDS = 4.0
"""From here on erf is 1."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """`intrinsic` is LLVM's word; `exact` what it comes near to, in f64, by `ulps` (of `lg2`: where a recipe takes it);
    `flushes`: takes and gives no subnormals."""

    intrinsic: str
    exact: Callable[[Any], Any]
    ulps: float
    flushes: bool = True


INSTRUCTIONS: Mapping[str, Instruction] = {
    "rcp": Instruction("llvm.nvvm.rcp.approx.ftz.f", lambda x: np.float64(1.0) / x, 1.0),
    "sqrt": Instruction("llvm.nvvm.sqrt.approx.ftz.f", np.sqrt, 2.0),
    "rsqrt": Instruction("llvm.nvvm.rsqrt.approx.ftz.f", lambda x: np.float64(1.0) / np.sqrt(x), 2.0),
    "exp2": Instruction("llvm.nvvm.ex2.approx.ftz.f32", np.exp2, 2.5),
    "log2": Instruction("llvm.nvvm.lg2.approx.ftz.f", np.log2, 7.0),
    "tanh": Instruction("llvm.nvvm.tanh.approx.f32", np.tanh, 8192.0, flushes=False),
}


def log2(ops: Any, x: Any) -> Any:
    """The logarithm to base 2; by a polynomial near 1."""
    return _log2(ops, ops.sub(x, ops.f(1.0)), x)


def log2p1(ops: Any, x: Any) -> Any:
    """log2(1 + x), accurate for small x. x = 0 keeps its sign."""
    return _log2(ops, x, ops.add(x, ops.f(1.0)))


def _log2(ops: Any, f: Any, x: Any) -> Any:
    """log2(1 + f), where x is 1 + f, maybe rounded."""
    near = ops.mul(f, ops.horner(f, LOG2_NEAR))
    return ops.select(ops.compare("ole", ops.abs(f), ops.f(NEAR)), near, ops.hardware("log2", x))


def power(ops: Any, x: Any, y: Any) -> Any:
    """|x|**y, but for what C says of special numbers."""
    return ops.hardware("exp2", ops.mul(y, log2(ops, ops.abs(x))))


def erf(ops: Any, x: Any) -> Any:
    """1 - 2**(x Q(x)), and by a polynomial near 0. x = 0 keeps its sign."""
    near = ops.mul(x, ops.horner(ops.mul(x, x), ERF_NEAR))
    size = ops.minimum(ops.abs(x), ops.f(ERF_ENDS))
    rest = ops.hardware("exp2", ops.mul(size, ops.horner(size, ERF_FAR)))
    far = ops.with_sign(ops.sub(ops.f(1.0), rest), x)
    return ops.select(ops.compare("ole", ops.abs(x), ops.f(NEAR)), near, far)


RECIPES: Mapping[str, Callable[..., Any]] = {
    "log2.approx": log2, "log2p1.approx": log2p1, "pow.approx": power, "erf.approx": erf,
}  # fmt: skip
"""Of the operations that are more than an instruction."""


def instruction_of(operation: str) -> Instruction | None:
    """The instruction that the operation is; None where it is more than one."""
    return None if operation in RECIPES else INSTRUCTIONS[operation.removesuffix(".approx")]


# ------------------------------------------------------------------------------------ models


def flushed(value: Any) -> Any:
    """An f32, or 0 of its sign where it is subnormal."""
    return np.where(np.abs(value) < np.float32(2.0**-126), np.copysign(np.float32(0), value), value)[()]


def rounded(instruction: Instruction, value: Any) -> Any:
    """What the instruction gives of an f32, or of an array of them, if it rounds correctly."""
    if not instruction.flushes:
        return np.float32(1) * instruction.exact(np.float64(1) * value).astype(np.float32)
    return flushed(instruction.exact(np.float64(1) * flushed(value)).astype(np.float32))


def disturbed(instruction: Instruction, value: Any, seed: int) -> Any:
    """`rounded`, moved by as much as the instruction may err: up or down, by the argument and the seed."""
    found = rounded(instruction, value)
    if not (np.isfinite(found) and np.isfinite(value)):
        return found
    mixed = (int(np.float32(value).view(np.uint32)) + seed) * 0x9E3779B1 % (1 << 32)
    moved = np.float64(found) + (1 if mixed >> 31 else -1) * instruction.ulps * np.float64(np.spacing(np.abs(found)))
    return np.float32(moved) if found else found


class _Numbers:
    """The operations of recipes, of f32 numbers."""

    def __init__(
        self, fma: Callable[[Any, Any, Any], Any], hardware: Callable[[Instruction, Any], Any] = rounded
    ) -> None:
        self.fma, self.instruction = fma, hardware

    def f(self, value: float | str) -> Any:
        return np.float32(float.fromhex(value) if isinstance(value, str) else value)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def sub(self, a: Any, b: Any) -> Any:
        return a - b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b

    def abs(self, a: Any) -> Any:
        return np.abs(a)

    def minimum(self, a: Any, b: Any) -> Any:
        return a if a < b or a != a else b

    def with_sign(self, size: Any, like: Any) -> Any:
        return np.copysign(size, like)

    def compare(self, predicate: str, a: Any, b: Any) -> bool:
        assert predicate == "ole"
        return bool(a <= b)

    def select(self, condition: bool, a: Any, b: Any) -> Any:
        return a if condition else b

    def horner(self, x: Any, coefficients: Sequence[str]) -> Any:
        total = self.f(coefficients[-1])
        for each in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.f(each))
        return total

    def hardware(self, name: str, x: Any) -> Any:
        return self.instruction(INSTRUCTIONS[name], x)


def model(
    operation: str, fma: Callable[[Any, Any, Any], Any], hardware: Callable[[Instruction, Any], Any] = rounded
) -> Callable[..., Any]:
    """One of the operations on f32 numbers; `fma` is theirs, `hardware` what an instruction gives."""
    instruction = instruction_of(operation)
    if instruction is not None:
        return lambda x: hardware(instruction, np.float32(x))
    recipe, numbers = RECIPES[operation], _Numbers(fma, hardware)
    if operation != "pow.approx":
        return lambda x: recipe(numbers, np.float32(x))

    def power_of(x: Any, y: Any) -> Any:
        """C's signs and exceptions, which NumPy has of f64s."""
        value = recipe(numbers, np.float32(x), np.float32(y))
        special = np.power(np.float64(x), np.float64(y))
        if x == 1 or y == 0 or np.isnan(special) or (abs(x) == 1 and np.isinf(y)):
            return np.float32(special)
        return np.float32(np.copysign(value, special))

    return power_of
