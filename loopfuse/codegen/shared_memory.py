"""Where the arrays of a launch lie in a block's shared memory. Code declares them; where they are
together too large for that, all are parts of what the launch asks for.

    17 KB + 17 KB + 4 KB:  .shared .align 128 .b8 k_shared0[17408]; ...
    30 KB + 30 KB + 4 KB:  .extern .shared .align 128 .b8 loopfuse_shared[];  at 0, 30720 and 61440

The module says which arrays there are: those that stand before a function are its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopfuse.base.machine import MULTIPROCESSOR
from loopfuse.codegen.ir import MemRefType, Operation, bytes_of

SHARED_ALIGN = 128
"""Bytes that arrays of shared memory start at multiples of: once across all banks. A late copy to
half a turn further costs more (a wave equation: 4 %)."""
DYNAMIC = "loopfuse_shared"
"""The symbol of the shared memory that launches ask for."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The byte that each array starts at, by name, and the bytes that all take."""

    starts: Mapping[str, int]
    total: int

    @property
    def asked(self) -> int:
        """The bytes that the launch has to ask for: 0 where code declares the arrays."""
        return self.total if self.total > MULTIPROCESSOR.shared_declared else 0


def place(kinds: Mapping[str, MemRefType]) -> Placed:
    """Arrays of one launch, one after the other."""
    starts: dict[str, int] = {}
    total = 0
    for name, kind in kinds.items():
        starts[name] = total
        size = elements_of(kind) * bytes_of(kind.element_type)
        total += -(-size // SHARED_ALIGN) * SHARED_ALIGN
    return Placed(starts, total)


def elements_of(kind: MemRefType) -> int:
    """Elements of an array."""
    return kind.size


def placed_in(module: Operation) -> dict[str, Placed]:
    """The shared memory of each kernel of `module`, by its name."""
    found: dict[str, Placed] = {}
    kinds: dict[str, MemRefType] = {}
    for operation in _tops(module):
        if operation.name == "memref.global":
            name: str = operation.properties["sym_name"]
            kinds[name] = operation.properties["type"]
        elif operation.name == "gpu.func":
            found[operation.properties["sym_name"]] = place(kinds)
            kinds = {}
    return found


def asked_bytes(module: Operation) -> dict[str, int]:
    """The bytes that each kernel's launch has to ask for, by the kernel's name."""
    return {name: placed.asked for name, placed in placed_in(module).items()}


def _tops(module: Operation) -> Iterator[Operation]:
    for operation in module.blocks[0].ops:
        if operation.name == "gpu.module":
            yield from _tops(operation)
        else:
            yield operation
