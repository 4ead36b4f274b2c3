"""Machines: what plans, code and launches know of the hardware. No other file has a number of a GPU's or a CPU's.

A price is seconds on a `Machine`. How many warps run at once on a GPU is its `Multiprocessor`'s answer: each of its
four parts has 16384 registers of 32 bits and gives them to whole warps, eight a thread at a time, so that with 169 to
255 registers a part holds two warps, and with 129 to 168 three.

What is tuned (how many rows a strip has) is no fact of a machine, and stands with the strategy that measured it.

A target (`sm_90`) is planned for the machine that its entry names; a machine by name (`h200`) is its architecture,
planned for its own memory. Whatever decides the order of a sum is priced on the target's entry, never on the device
at hand (`plan.units.rules`), so that one target's sums are the same on every device.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from math import isqrt
from pathlib import Path
from platform import machine as system_machine

LANES = 32
"""Threads of a warp of NVIDIA's GPUs: what strategies that lay rows over a warp are written for."""
THREADS = 1024
"""The most threads of a block, on every GPU that is planned for."""
CLUSTER = 8
"""The most blocks of a cluster, on every GPU that has clusters."""
ACCESS = 16
"""Bytes of the widest access of a thread, on every GPU that is planned for."""
VECTOR = 32
"""Bytes of a CPU's vectors, in which instructions are counted."""
LINE = 64
"""Bytes of a line of a CPU's caches: a vector that lies in two of them takes two accesses."""
NEAR = 384 << 10
"""Bytes of a CPU's L2 that a worker's own storage may take: what it reads of memory passes by in the rest."""
IN_CACHE = 16.0
"""How many times as fast as from memory something comes from the cache of one processor."""
PAGE = 4096
"""Bytes of a page: what stands at one place in two of them shares places in a CPU's caches, and waits for each other's stores."""


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

    name: str
    """As `--target` takes it, or the device's own name."""
    target: str
    """Its architecture: `cpu`, `sm_90`, `gfx942`."""
    bandwidth: float
    """Bytes a second, as a copy moves them (read and written both counted)."""
    operations: float
    """Of f32 a second that a kernel can hope for."""
    launch: float
    """Seconds a launch."""
    threads: float
    """So many are needed for full speed."""
    threads_of_few: float = 0.0
    """As many threads as the smallest of a CPU's kind have."""
    bandwidth_of_few: float = 0.0
    """Their bandwidth: each has more of it than where many share it."""
    turn: float = 0.0
    """Seconds a launch in a loop of launches, whose threads are awake."""
    turn_alone: float = 0.0
    """The same where its caller runs it."""
    uncoalesced: float = 1.0
    """Bytes moved for each that is used where neighbouring threads are far apart."""
    strided: float = 1.0
    """The same where a thread goes down a column."""
    cache: int = 0
    """Bytes that one processor keeps near it from one loop to the next."""
    resident: int = 0
    """Bytes of arrays that stay in a CPU's caches from one loop to the next, where all processors share them."""
    lanes: int = 1
    """Threads of a warp."""
    vector: int = VECTOR
    """Bytes of a CPU's vector registers."""
    vector_registers: int = 16
    """How many it has."""
    converts_f16: bool = False
    """Whether a CPU has instructions between f16 and f32."""
    cluster: int = 1
    """The most blocks whose threads can wait for each other."""
    shared_of_block: int = 0
    """Bytes of shared memory that a block may have, where that is more than on every GPU."""
    copies_late: bool = False
    """Has copies to shared memory that come by themselves (`cp.async`)."""
    in_flight: int = 0
    """Bytes that a multiprocessor must have asked for to keep memory busy: so many that blocks of time steps ask as
    many rows ahead as was best when measured."""

    @property
    def device(self) -> str:
        """`gpu` or `cpu`."""
        return "cpu" if self.target == "cpu" else "gpu"

    @property
    def has_warps(self) -> bool:
        """Can rows lie over a warp, whose threads exchange values?"""
        return self.lanes == LANES


# Planned for every GPU from sm_80 on: the fewest that one of them has, where they differ.
MULTIPROCESSOR = Multiprocessor(
    registers=65_536, parts=4, most_registers=255, granule=8, blocks=32,
    shared_of_block=99 * 1024,  # of sm_86 and sm_89; an A100 has 163 KiB, an H100 227
    shared_declared=48 * 1024,
    shared=160 * 1024,  # of an A100; an H100 has more
)  # fmt: skip


def _gpu(
    name: str, target: str, *, bandwidth: float, operations: float, threads: float, in_flight: int, lanes: int = LANES,
    cluster: int = 1, shared_of_block: int = 0, copies_late: bool = True,
) -> Machine:
    return Machine(
        name, target, bandwidth, operations, launch=4e-6, threads=threads, uncoalesced=3.0, in_flight=in_flight,
        lanes=lanes, cluster=cluster, shared_of_block=shared_of_block, copies_late=copies_late,
    )  # fmt: skip


# The copies of an H100 and an H200 were measured; the other bandwidths are seven eighths of what papers say, and operations
# three quarters of what the highest clock would give.
_GPUS = (
    _gpu("a100", "sm_80", bandwidth=1.75e12, operations=7.3e12, threads=49_000, in_flight=40 * 1024),
    _gpu("h100", "sm_90", bandwidth=3.0e12, operations=2.5e13, threads=60_000, in_flight=56 * 1024, cluster=CLUSTER,
         shared_of_block=227 * 1024),
    _gpu("h200", "sm_90", bandwidth=4.1e12, operations=2.5e13, threads=60_000, in_flight=56 * 1024, cluster=CLUSTER,
         shared_of_block=227 * 1024),
    _gpu("mi300x", "gfx942", bandwidth=4.6e12, operations=6.1e13, threads=140_000, in_flight=56 * 1024, lanes=64,
         copies_late=False),
)
MACHINES: dict[str, Machine] = {machine.name: machine for machine in _GPUS}
"""Machines that can be named."""

_LAST_CACHE = 32 << 20
"""As eight processors of a server share, where the system does not say."""
_OF_ONE = 12 << 20
"""What a processor has of it at most: a virtual machine is told the size of all and of its own processors alone, and others
take their share."""


def resident_bytes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache"), processors: int | None = None) -> int:
    """What this process can hope for of the last cache that processors share, as Linux tells: all of it where it may run on
    all of those (`processors`: on so many, whatever number of threads is set: what is compiled serves any), else between that and
    an equal share, since others idle at times. (What of it decides where
    blocks of time steps pay: `plan.strategies.sliding.time_blocks.most_resident`; on a Xeon of 300 MB they do between 8 and 50 MB.)"""
    shared, size = 1, 0
    for entry in sorted(folder.glob("index*")):
        try:
            words = (entry / "size").read_text().strip(), (entry / "shared_cpu_map").read_text().strip()
            found = int(words[0].removesuffix("K")) << 10
            sharing = bin(int(words[1].replace(",", ""), 16)).count("1")
        except (OSError, ValueError):
            continue
        if found > size:
            shared, size = max(1, sharing), found
    if not size:
        return _LAST_CACHE
    if processors is None:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shared = max(shared, size // _OF_ONE)
    share = size * min(processors, shared) // shared
    return isqrt(size * share)


LEVELS = {"x86-64-v2": (16, 16), "x86-64-v3": (VECTOR, 16), "x86-64-v4": (64, 32)}
"""Bytes and number of the vector registers of a level of the x86-64 ABI."""
_ARM = (16, 32)
_LEVEL_OF = {"avx2": "x86-64-v3", "avx512f": "x86-64-v4"}
"""What tells that a processor has registers of a level."""


@cache
def _flags_here() -> frozenset[str]:
    """What this machine's processor has, in Linux's words (none of them: it has vectors as all of its kind)."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line for line in lines if line.startswith("flags")), "").partition(":")[2].split())


def with_vectors(machine: Machine, cpu: str, features: str = "") -> Machine:
    """The CPU with the vector registers and conversions of the processor that code is made for: LLVM's words for it, or a level of the x86-64
    ABI ("": this machine's own)."""
    if machine.device != "cpu":
        return machine
    words = {word[1:] for word in features.split(",") if word.startswith("+")} if cpu else _flags_here()
    level = cpu if cpu in LEVELS else next((_LEVEL_OF[word] for word in ("avx512f", "avx2") if word in words), "x86-64-v2")
    is_arm = cpu not in LEVELS and (system_machine() in ("aarch64", "arm64") and not words & {"sse2", "avx"})
    size, count = _ARM if is_arm else LEVELS[level]
    converts = is_arm or level != "x86-64-v2" or "f16c" in words
    return replace(machine, vector=size, vector_registers=count, converts_f16=converts)


CPU = Machine(
    "cpu", "cpu", 1.0e11, 4.0e11, launch=5e-6, threads_of_few=2, bandwidth_of_few=4.0e10, turn=1e-6, turn_alone=5e-8, threads=16, cache=1 << 20, resident=resident_bytes(),
)  # fmt: skip

_PLANNED = {"cpu": CPU, "gfx942": MACHINES["mi300x"]}


def machine_of(target: str) -> Machine:
    """The machine that a target is planned for where none is named: the first of its architecture, or of the last
    one before it."""
    if target in _PLANNED:
        return _PLANNED[target]
    return MACHINES["h100" if int(target[3:]) >= 90 else "a100"]


def machine_of_device(
    name: str, target: str, multiprocessors: int, clock: float, memory_clock: float, bus_bits: int
) -> Machine:
    """The machine that a device is: the one that its name says where that fits what the device tells of itself, so
    that plans for a name and for the device are the same; else (a slice of one, one that draws less power, one
    without an entry) what it tells. Clocks in Hz."""
    like = machine_of(target)
    known = next((one for one in MACHINES.values() if one.target == target and one.name.upper() in name.upper()), None)
    units = 64 if target == "sm_80" else 128
    bandwidth = _OF_PEAK * 2 * memory_clock * bus_bits / 8
    operations = _OF_PEAK_OPERATIONS * multiprocessors * units * clock
    for one in (known, like):
        if one is not None and _near(bandwidth, one.bandwidth) and _near(operations, one.operations):
            return one
    if not (bandwidth and operations):
        return known or like
    return replace(
        like, name=name, target=target, bandwidth=_rounded(bandwidth), operations=_rounded(operations),
        threads=_rounded(like.threads * multiprocessors / _MULTIPROCESSORS[like.name]),
    )  # fmt: skip


_OF_PEAK = 0.86
"""What a copy has of the bandwidth that the memory's clock and width say (0.83 on an H200, 0.90 on an H100)."""
_OF_PEAK_OPERATIONS = 0.75
"""What kernels can hope for of f32 instructions at the highest clock, which a device seldom holds."""
_MULTIPROCESSORS = {"a100": 108, "h100": 132}


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 0.15 * other


def _rounded(value: float) -> float:
    """Two digits: clocks of devices of one kind differ by a little."""
    return float(f"{value:.2g}")
