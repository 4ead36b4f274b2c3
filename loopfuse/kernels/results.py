"""What a call of a Python kernel gives back: the arrays that the function's names refer to when it
ends, and numbers, which are read from arrays of one element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from loopfuse.base.diagnostics import Diagnostic
from loopfuse.runtime.arrays.arguments import Signature
from loopfuse.runtime.arrays.read_back import read_number
from loopfuse.runtime.formulas import evaluate

if TYPE_CHECKING:
    from loopfuse.frontend.python.context import Returned
    from loopfuse.lang.nodes import Kernel


@dataclass(frozen=True, slots=True)
class Result:
    """One returned value: the parameter `(array, *others)[turn]`, where `turn` is a formula of sizes
    and integer parameters, after a loop in which arrays change places. With `number`, its element:
    a Python `int`, `float` or `bool`, or NumPy's scalar (`numpy`)."""

    array: str
    number: str = ""
    others: tuple[str, ...] = ()
    turn: str = ""

    def place(self, known: Mapping[str, Any]) -> str:
        """The parameter that is returned, for sizes and integer parameters of these values."""
        return (self.array, *self.others)[evaluate(self.turn, known)] if self.turn else self.array


def describe_results(
    returned: tuple[Returned, ...] | None, kernel: Kernel
) -> list[list[Any]] | None:
    """The results as the disk cache keeps them, and `read_results` reads them."""
    if returned is None:
        return None
    from loopfuse.codegen.abi import to_python

    exchanged = {
        name: [[other], to_python(one.parity)]
        for one in kernel.exchanges
        for name, other in ((one.left, one.right), (one.right, one.left))
    }
    return [
        [one.array, one.number, *exchanged.get(one.array, [list(one.others), one.turn])]
        for one in returned
    ]


def read_results(described: list[list[Any]] | None) -> tuple[Result, ...] | None:
    """What `describe_results` gave."""
    if described is None:
        return None
    return tuple(Result(a, number, tuple(others), turn) for a, number, others, turn in described)


def known_values(signature: Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes and integer parameters of a call: from shapes, and as given."""
    known: dict[str, Any] = {}
    for one in signature.parameters:
        if one.is_array and one.name in given:
            known.update(zip(one.extents or (), given[one.name].shape))
        elif not one.is_array and one.dtype.is_integer and one.name in given:
            known[one.name] = int(given[one.name])
    return known | {name: given[name] for name in signature.sizes if name in given}


def no_operator(name: str, results: tuple[Result, ...], signature: Signature) -> Diagnostic:
    """Why a kernel is no operator of PyTorch, whose operators return new tensors."""
    numbers = {one.array for one in results if one.number}
    dtypes = [
        "float32" if one.dtype.value == "bf16" else one.dtype.numpy_name
        for one in signature.parameters
        if one.name in numbers
    ]
    return Diagnostic(
        "torch-op-result",
        f"`{name}` returns a number, or what may be one of its parameters, and an operator of "
        "PyTorch returns new tensors",
        fix=f"return arrays that it creates: for a number `r = np.empty(1, np.{dtypes[0]})`, then "
        "`r[0] = ...`, and `return r`"
        if dtypes
        else "return arrays that it creates",
    )


def hand_back(
    results: tuple[Result, ...],
    is_tuple: bool,
    signature: Signature,
    made: Mapping[str, Any],
    given: Mapping[str, Any],
) -> Any:
    """The function's result, from the arrays `made` for the call and those `given` to it."""
    known = known_values(signature, given) if any(one.turn for one in results) else {}
    dtypes = {one.name: one.dtype for one in signature.parameters}
    values: list[Any] = []
    for one in results:
        name = one.place(known)
        value = made[name] if name in made else given[name]
        values.append(read_number(value, one.number, dtypes[name]) if one.number else value)
    return tuple(values) if is_tuple else values[0]
