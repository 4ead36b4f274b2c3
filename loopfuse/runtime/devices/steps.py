"""Running a manifest's steps: host loops in Python, launches by whoever runs the device.

A launch's arguments are packed once per call into one block of 8-byte slots; inside a host loop
only the slots of loop variables are written again.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.binding import numpy_dtype
from loopfuse.runtime.checks import ERROR_WORD
from loopfuse.runtime.formulas import evaluate, names_in

_PACKERS = {
    dtype: struct.Struct(text)
    for dtype, text in {
        DType.BOOL: "?", DType.I8: "b", DType.I16: "h", DType.I32: "i", DType.I64: "q",
        DType.U8: "B", DType.U16: "H", DType.U32: "I", DType.U64: "Q",
        DType.F16: "e", DType.F32: "f", DType.F64: "d",
    }.items()
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Memory:
    """A workspace: its pointer, its bytes, and what keeps it alive."""

    pointer: int
    size_bytes: int
    owner: Any = None


class ArgumentBlock:
    """A launch's arguments in memory, one 8-byte slot each, in order.

    `address` is the block's own; `slots` the address of an array of pointers to the slots (what
    cuLaunchKernel takes). `words`, `floats` and `doubles` are the block's memory as u64, f32
    (two a slot) and f64, for generated call paths.
    """

    __slots__ = ("_arguments", "_pointers", "address", "doubles", "floats", "slots", "words")

    def __init__(
        self,
        arguments: Sequence[Mapping[str, Any]],
        pointers: Mapping[str, int],
        values: Mapping[str, Any],
        aligned: bool,
    ) -> None:
        count = max(1, len(arguments))
        self.words = (ctypes.c_uint64 * count)()
        self.floats = (ctypes.c_float * (2 * count)).from_buffer(self.words)
        self.doubles = (ctypes.c_double * count).from_buffer(self.words)
        self.address = ctypes.addressof(self.words)
        self._pointers = (ctypes.c_uint64 * count)(*(self.address + 8 * k for k in range(count)))
        self.slots = ctypes.addressof(self._pointers)
        self._arguments = tuple(arguments)
        for slot, argument in enumerate(arguments):
            match argument["kind"]:
                case "pointer":
                    self.words[slot] = pointers[argument["name"]]
                case "value":
                    # A loop variable has no value before its loop starts: see `update`.
                    if argument["name"] in values:
                        self._pack(slot, DType(argument["dtype"]), values[argument["name"]])
                case "aligned":
                    self._pack(slot, DType.BOOL, aligned)
                case "error":
                    self.words[slot] = pointers[ERROR_WORD]
                case kind:
                    raise InternalError(
                        Diagnostic("bad-manifest", f"`{kind}` is no kind of argument")
                    )

    def _pack(self, slot: int, dtype: DType, value: Any) -> None:
        if dtype is DType.BF16:
            raw = np.asarray(value).astype(numpy_dtype(dtype)).tobytes()
            ctypes.memmove(self.address + 8 * slot, raw, 2)
        else:
            # Values of f16 and f32 are rounded already, so that struct finds none too large.
            _PACKERS[dtype].pack_into(self.words, 8 * slot, value)

    @property
    def places(self) -> tuple[int, ...]:
        """The addresses of the arguments, in order."""
        return tuple(self.address + 8 * k for k in range(len(self._arguments)))

    def update(self, name: str, value: int) -> None:
        """Write the new value of loop variable `name` where it is an argument."""
        for slot, argument in enumerate(self._arguments):
            if argument["kind"] == "value" and argument["name"] == name:
                self._pack(slot, DType(argument["dtype"]), value)


Launcher = Callable[[Mapping[str, Any], int, ArgumentBlock], None]


def run_steps(
    manifest: Mapping[str, Any],
    pointers: Mapping[str, int],
    values: Mapping[str, Any],
    aligned: bool,
    launch: Launcher,
) -> None:
    """Run the manifest's steps: `launch(description, grid, block)` for each launch whose grid is
    not empty, in order, host loops around them."""
    walk_steps(
        manifest["steps"], values, lambda one: ArgumentBlock(one["arguments"], pointers, values, aligned), launch
    )


def walk_steps(
    steps: Sequence[Mapping[str, Any]],
    values: Mapping[str, Any],
    block_of: Callable[[Mapping[str, Any]], ArgumentBlock],
    launch: Launcher,
) -> None:
    """The same of some steps; `block_of(description)` is asked once for each launch that runs."""
    environment = dict(values)
    blocks: dict[int, ArgumentBlock] = {}
    fixed_grids: dict[int, int] = {}

    def visit(steps: Sequence[Mapping[str, Any]], variables: tuple[str, ...]) -> None:
        for step in steps:
            if "loop" in step:
                loop = step["loop"]
                lower = evaluate(str(loop["lower"]), environment)
                upper = evaluate(str(loop["upper"]), environment)
                name = loop["var"]
                for value in range(lower, upper, int(loop["step"])):
                    environment[name] = value
                    visit(loop["body"], (*variables, name))
                environment.pop(name, None)
                continue
            one = step["launch"]
            key = id(one)
            grid = fixed_grids.get(key)
            if grid is None:
                text = str(one["grid"])
                grid = int(evaluate(text, environment))
                if not names_in(text) & set(variables):
                    fixed_grids[key] = grid
            if grid <= 0:
                continue
            block = blocks.get(key)
            if block is None:
                block = blocks[key] = block_of(one)
            for name in variables:
                block.update(name, environment[name])
            launch(one, grid, block)

    visit(steps, ())


def buffer_bytes(buffer: Mapping[str, Any], values: Mapping[str, Any]) -> int:
    """The bytes of a workspace at these sizes; never negative."""
    count = 1
    for extent in buffer["extents"]:
        count *= max(0, int(evaluate(str(extent), values)))
    return count * DType(buffer["dtype"]).bytes


def launches_of(steps: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Every launch of the steps, in text order."""
    found: list[Mapping[str, Any]] = []
    for step in steps:
        found += launches_of(step["loop"]["body"]) if "loop" in step else [step["launch"]]
    return found
