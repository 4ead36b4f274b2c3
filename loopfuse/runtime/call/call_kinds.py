"""Kinds of call: everything about an accepted call that a generated call path is written for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopfuse.runtime.arrays.arguments import Parameter, Signature, arrange
from loopfuse.runtime.arrays.arrays import Match
from loopfuse.runtime.arrays.readers import Reader, reader_for
from loopfuse.runtime.formulas import names_in
from loopfuse.runtime.unwritten import names_of

_INTEGERS = (int, np.int64, np.int32)
_SCALARS = (bool, int, float, np.bool_, np.int32, np.int64, np.float32, np.float64)


@dataclass(frozen=True, slots=True)
class Passed:
    """One argument of a kind of call: the parameter (None: a size), where it stands (a position,
    or the name it was given by), its exact type, and an array's dtype object."""

    name: str
    parameter: Parameter | None
    where: int | str
    type: type
    dtype: Any = None


@dataclass(frozen=True, slots=True)
class CallKind:
    """What a generated function is for. `constants` are the values it is specialised to, `strided`
    the arrays that are views, `rows` how many of their last dimensions have no gaps."""

    passed: tuple[Passed, ...]
    omitted: tuple[Parameter, ...]
    device: Any
    library: str
    constants: tuple[tuple[str, int], ...]
    bits: int
    strided: tuple[str, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()


def describe(
    signature: Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    matched: Match,
    constants: Mapping[str, int],
    bits: int,
    alone: bool,
) -> tuple[CallKind, dict[str, Reader]] | None:
    """The kind of an accepted call and its arrays' readers; None where something in it has no
    fast way. `alone`: the process sees at most one GPU."""
    order = arrange(signature, args, kwargs)
    parameters = {parameter.name: parameter for parameter in signature.parameters}
    places: list[tuple[str, int | str, Any]] = [
        (parameter.name, position, args[position]) for position, parameter in enumerate(order)
    ]
    places += [(name, name, value) for name, value in kwargs.items()]
    passed: list[Passed] = []
    readers: dict[str, Reader] = {}
    strided = matched.strided
    for name, where, value in places:
        parameter = parameters.get(name)
        kind: type = type(value)
        dtype = None
        if parameter is None or not parameter.is_array:
            if kind not in (_INTEGERS if parameter is None else _SCALARS):
                return None
        elif value is not None:
            packed = name not in strided
            reader = reader_for(value, matched.device, parameter.mode != "in", alone, packed)
            if reader is None:
                return None
            readers[name], dtype = reader, value.dtype
        passed.append(Passed(name, parameter, where, kind, dtype))
    kind_of_call = CallKind(
        tuple(passed), matched.omitted, matched.device, matched.library,
        tuple(sorted(constants.items())), bits, strided, matched.rows,
    )  # fmt: skip
    return kind_of_call, readers


def names_read(manifest: Mapping[str, Any], signature: Signature) -> frozenset[str]:
    """Every name that a formula of the kernel reads."""
    texts = [str(extent) for p in signature.parameters for extent in p.extents or ()]
    texts += [condition["text"] for condition in manifest["preconditions"]]
    texts += [str(extent) for buffer in manifest["buffers"] for extent in buffer["extents"]]
    texts += [str(check["extent"]) for check in manifest.get("checks", ())]

    def visit(steps: Sequence[Mapping[str, Any]]) -> None:
        for step in steps:
            if "loop" in step:
                texts.extend([str(step["loop"]["lower"]), str(step["loop"]["upper"])])
                visit(step["loop"]["body"])
            else:
                texts.append(str(step["launch"]["grid"]))

    visit(manifest["steps"])
    return frozenset().union(names_of(manifest), *(names_in(text) for text in texts))
