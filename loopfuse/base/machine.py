"""Machines: what plans, code and launches know of the hardware. No other file has a number of a GPU's or a CPU's.

A price is seconds on a `Machine`. How many warps run at once on a GPU is its `Multiprocessor`'s answer: each of its
four parts has 16384 registers of 32 bits and gives them to whole warps, eight a thread at a time, so that with 169 to
255 registers a part holds two warps, and with 129 to 168 three.

What is tuned (how many rows a strip has, how far loads run ahead) is no fact of a machine, and stands with the
strategy that measured it.
"""

from __future__ import annotations

from dataclasses import dataclass

LANES = 32
"""Threads of a warp, on every GPU that is planned for."""


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """Of a GPU: registers of 32 bits, and shared memory in bytes."""

    registers: int
    parts: int
    """Each has an equal part of the registers, and takes every so many warps of a block."""
    most_registers: int
    """Of a thread; what needs more spills."""
    granule: int
    """Registers are given to a thread so many at a time."""
    blocks: int
    """The most that it holds."""
    shared_of_block: int
    """What a block may have."""
    shared_declared: int
    """What code may declare for a block: more it has to be given, and the driver has to be told."""
    shared: int
    """What its blocks may have together."""
    in_flight: int
    """Bytes that it must have asked for to keep memory busy: so many that blocks of time steps ask as many rows
    ahead as was best when measured."""

    def warps_with(self, registers: int) -> int:
        """How many warps it holds where a thread has that many registers."""
        return self.parts * (self._of_part // (-(-registers // self.granule) * self.granule))

    def registers_with(self, warps: int) -> int:
        """How many registers a thread may have where a block of so many warps runs on each."""
        found = self._of_part // -(-warps // self.parts) // self.granule * self.granule
        return min(self.most_registers, found)

    def steps(self) -> tuple[int, ...]:
        """The most registers with which a part holds 16, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2 warps."""
        warps = (16, 12, 10, 9, 8, 7, 6, 5, 4, 3)
        whole = (self._of_part // each // self.granule * self.granule for each in warps)
        return (*whole, self.most_registers)

    def step_for(self, registers: int) -> int:
        """The most registers with which it holds as many warps as with these."""
        return next((step for step in self.steps() if step >= registers), self.most_registers)

    @property
    def _of_part(self) -> int:
        """Registers that a part has for one lane of all its warps."""
        return self.registers // self.parts // LANES


@dataclass(frozen=True, slots=True)
class Machine:
    """What a price is made of."""

    bandwidth: float
    """Bytes a second."""
    operations: float
    """Of floating point a second."""
    launch: float
    """Seconds a launch."""
    threads: float
    """So many are needed for full speed."""
    uncoalesced: float
    """Bytes moved for each that is used where neighbouring threads are far apart."""
    strided: float
    """The same where a thread goes down a column."""
    cache: int = 0
    """Bytes that one processor keeps near it from one loop to the next."""


# Planned for every GPU from sm_80 on: the fewest that one of them has, where they differ.
MULTIPROCESSOR = Multiprocessor(
    registers=65_536, parts=4, most_registers=255, granule=8, blocks=32,
    shared_of_block=99 * 1024,  # of sm_86 and sm_89; an A100 has 163 KiB, an H100 227
    shared_declared=48 * 1024,
    shared=160 * 1024,  # of an A100; an H100 has more
    in_flight=56 * 1024,  # of an H100
)  # fmt: skip
GPU = Machine(
    bandwidth=3.0e12, operations=2.5e13, launch=4e-6, threads=60_000, uncoalesced=3.0, strided=1.0
)
CPU = Machine(
    bandwidth=1.0e11, operations=4.0e11, launch=5e-6, threads=16, uncoalesced=1.0, strided=1.0,
    cache=1 << 20,
)  # fmt: skip


def machine_for(device: str) -> Machine:
    """The machine that plans for `gpu` or `cpu` are priced on."""
    return GPU if device == "gpu" else CPU
