"""A kernel as an operator of PyTorch: opaque to torch.compile, with shapes it can work out.

    kernel unsharp(img: f32[H, W], out sharp: f32[H, W], amount: f32)
    ->  images::unsharp(Tensor img, float amount) -> Tensor

`out` arrays are allocated and returned, `inout` arrays are written in place (and the schema says
so). A size that no given array fixes is an argument after the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.base.options import bad_option
from loopfuse.runtime.arrays.arguments import Parameter, Signature
from loopfuse.runtime.formulas import evaluate

_TORCH_NAMES = {
    DType.BOOL: "bool", DType.I8: "int8", DType.I16: "int16", DType.I32: "int32",
    DType.I64: "int64", DType.U8: "uint8", DType.U16: "uint16", DType.U32: "uint32",
    DType.U64: "uint64", DType.F16: "float16", DType.BF16: "bfloat16", DType.F32: "float32",
    DType.F64: "float64",
}  # fmt: skip


def register(kernel: Callable[..., Any], signature: Signature, name: str) -> Any:
    """Register `kernel` as the operator `name` (`"namespace::name"`); gives the operator.

    Raises ImportError without PyTorch, and UserError for a bad name.
    """
    if not re.fullmatch(r"\w+(\.\w+)*::\w+", name):
        raise bad_option("name", name, 'it is a namespace and a name, such as "images::unsharp"')
    import torch

    taken = taken_parameters(signature)
    free = free_sizes(signature)
    outputs = [one for one in signature.parameters if one.mode == "out"]
    names = [*(one.name for one in taken), *free]

    def run(*values: Any) -> Any:
        given = dict(zip(names, values, strict=True))
        for one in taken:
            if one.is_array and one.mode == "in":
                given[one.name] = given[one.name].contiguous()
        result = kernel(**given)
        # A kernel without arrays to follow allocates NumPy's.
        several = result if isinstance(result, tuple) else () if result is None else (result,)
        made = tuple(r if isinstance(r, torch.Tensor) else torch.from_numpy(r) for r in several)
        return made[0] if len(made) == 1 else made or None

    def fake(*values: Any) -> Any:
        given = dict(zip(names, values, strict=True))
        tensors = [given[one.name] for one in taken if one.is_array]
        device = tensors[0].device if tensors else "cpu"
        known = known_values(signature, given)
        made = tuple(
            torch.empty(
                [evaluate(extent, known) for extent in one.extents or ()],
                dtype=getattr(torch, _TORCH_NAMES[one.dtype]),
                device=device,
            )
            for one in outputs
        )
        return made[0] if len(made) == 1 else made or None

    operator = torch.library.custom_op(
        name,
        run,
        mutates_args=[one.name for one in taken if one.mode == "inout"],
        schema=schema(signature),
    )
    operator.register_fake(fake)
    return operator


def taken_parameters(signature: Signature) -> list[Parameter]:
    """The parameters that the operator takes: all but `out` arrays."""
    return [one for one in signature.parameters if one.mode != "out"]


def free_sizes(signature: Signature) -> list[str]:
    """The sizes that no array given to the operator fixes by an extent of its own."""
    fixed = {extent for one in taken_parameters(signature) for extent in one.extents or ()}
    return [name for name in signature.sizes if name not in fixed]


def schema(signature: Signature) -> str:
    """The operator's schema.

    before: k(x: f32[N], inout y: f32[N], out z: f32[M], a: f32, n: i64)
    after:  (Tensor x, Tensor(a0!) y, float a, SymInt n, SymInt M) -> Tensor
    """
    words: list[str] = []
    for number, one in enumerate(taken_parameters(signature)):
        if one.is_array:
            kind = f"Tensor(a{number}!)" if one.mode == "inout" else "Tensor"
        elif one.dtype is DType.BOOL:
            kind = "bool"
        else:
            kind = "float" if one.dtype.is_float else "SymInt"
        words.append(f"{kind} {one.name}")
    words += [f"SymInt {name}" for name in free_sizes(signature)]
    count = sum(one.mode == "out" for one in signature.parameters)
    returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"({', '.join(words)}) -> {returns}"


def known_values(signature: Signature, given: Mapping[str, Any]) -> dict[str, Any]:
    """Sizes and integer parameters at a call: from shapes, and as given."""
    known: dict[str, Any] = {}
    for one in taken_parameters(signature):
        if one.is_array:
            known.update(zip(one.extents or (), given[one.name].shape))
        else:
            known[one.name] = given[one.name]
    known.update({name: given[name] for name in free_sizes(signature)})
    return known
