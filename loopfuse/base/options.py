"""What a compile may be asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.machine import MACHINES, Machine, machine_of, with_vectors

Code = Literal["ptx", "object", "llvm"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a kernel runs: the CPU, or a GPU of an architecture.

    `name` is `cpu`, `sm_NN` (NVIDIA's compute capability), or `gfx942` (AMD's, for which LLVM IR is made and
    nothing else). `machine` is what it is planned for, where that was said: a machine by name, or the device at
    hand. For the CPU, `cpu_name` and `cpu_features` are LLVM's words for the machine (empty: the host's own).
    """

    name: str
    cpu_name: str = ""
    cpu_features: str = ""
    machine: Machine | None = None

    @property
    def is_gpu(self) -> bool:
        """True for GPUs."""
        return self.name != "cpu"

    @property
    def code(self) -> Code:
        """The kind of code that is made for it."""
        return "object" if not self.is_gpu else "ptx" if self.name.startswith("sm_") else "llvm"

    @property
    def capability(self) -> int:
        """Compute capability times ten, 90 for sm_90; 0 for others."""
        return int(self.name[3:].rstrip("af")) if self.code == "ptx" else 0

    @property
    def planned(self) -> Machine:
        """The machine it is planned for."""
        return self.machine or machine_of(self.name)

    def fitted(self, machine: Machine) -> Machine:
        """A machine of this target with the registers and instructions of the processor that code is made for."""
        return with_vectors(machine, self.cpu_name or cpu_from_environment(), self.cpu_features)

    @property
    def words(self) -> str:
        """What `parse_target` reads as this target: `h200`, or `sm_90` where no machine of the table was said."""
        return self.machine_name if self.machine_name in MACHINES else self.name

    @property
    def machine_name(self) -> str | None:
        """The machine that was said or found, as reports and manifests have it."""
        return None if self.machine is None else self.machine.name


CPU = Target("cpu")
Fp = Literal["fast", "strict", "native"]
Check = Literal["lazy", "sync", "off"]
FP: tuple[Fp, ...] = get_args(Fp)


def parse_target(text: str) -> Target:
    """`cpu`, `sm_NN` (80 or later), `gfx942` or a machine by name (`h200`) as a Target;
    UserError[unknown-target] otherwise."""
    if text == "cpu":
        return CPU
    if text in MACHINES:
        return Target(MACHINES[text].target, machine=MACHINES[text])
    digits = text[3:]
    if text == "gfx942" or (text.startswith("sm_") and digits.isdecimal() and 80 <= int(digits) <= 121):
        return Target(text)
    raise UserError(
        Diagnostic(
            "unknown-target",
            f"`{text}` is not a target",
            fix="use `cpu`, a GPU from `sm_80` on, such as `sm_90`, or one by name: "
            + ", ".join(f"`{name}`" for name in MACHINES),
        )
    )


def parse_fp(value: object) -> Fp:
    """`fast`, `strict` or `native`; UserError[kernel-option] otherwise."""
    if isinstance(value, str) and value in FP:
        return value
    raise bad_option("fp", value, "it is one of " + ", ".join(map(repr, FP)))


def parse_flag(name: str, value: object) -> bool:
    """True or False; UserError[kernel-option] otherwise."""
    if isinstance(value, bool):
        return value
    raise bad_option(name, value, "it is True or False")


def bad_option(name: str, value: object, fix: str) -> UserError:
    """The error of an option that has no such value."""
    return UserError(Diagnostic("kernel-option", f"`{name}` is {value!r}", fix=fix))


def parse_check(text: str) -> Check:
    """`lazy`, `sync` or `off`; UserError[bad-check] otherwise."""
    if text in get_args(Check):
        return cast("Check", text)
    raise UserError(
        Diagnostic(
            "bad-check",
            f"`{text}` is no way to check subscripts",
            fix='use "lazy" (the GPU tells at the next call), "sync" (at once) or "off" (trust them)',
        )
    )


def fuel_from_environment() -> int | None:
    """`LOOPFUSE_FUEL`: how many fusions may be made (None: no limit)."""
    text = os.environ.get("LOOPFUSE_FUEL", "")
    if not text:
        return None
    if not text.isdecimal():
        raise UserError(
            Diagnostic(
                "bad-fuel",
                f"LOOPFUSE_FUEL is `{text}`",
                fix="set it to a whole number: the number of fusions to allow",
            )
        )
    return int(text)


def limit_from_environment() -> int | None:
    """`LOOPFUSE_CACHE_LIMIT`: how many bytes the disk cache may hold (None: not said)."""
    text = os.environ.get("LOOPFUSE_CACHE_LIMIT", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise UserError(
            Diagnostic(
                "bad-cache-limit",
                f"LOOPFUSE_CACHE_LIMIT is `{text[:40]}`",
                fix="set it to a whole number of bytes, such as 536870912",
            )
        )
    return int(text)


def operations_from_environment() -> int:
    """`LOOPFUSE_ISL_OPERATIONS`: how many operations isl may take for one question, a whole
    compile a few times as many (0: the default)."""
    text = os.environ.get("LOOPFUSE_ISL_OPERATIONS", "")
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) < 1 << 60):
        raise UserError(
            Diagnostic(
                "bad-operations",
                f"LOOPFUSE_ISL_OPERATIONS is `{text[:40]}`",
                fix="set it to a whole number of at least 1, such as 3000000",
            )
        )
    return int(text)


CPU_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""Levels of the x86-64 ABI that code may be made for; each needs more of the machine."""


def cpu_from_environment() -> str:
    """`LOOPFUSE_CPU`: the level that CPU code is made for, as LLVM names it ("": this machine's own)."""
    text = os.environ.get("LOOPFUSE_CPU", "")
    if text in ("", "native"):
        return ""
    if text not in CPU_LEVELS:
        raise UserError(
            Diagnostic(
                "unknown-cpu",
                f"LOOPFUSE_CPU is `{text[:40]}`",
                fix=f"set it to `native` (this machine's own), or to one of {', '.join(CPU_LEVELS)}",
            )
        )
    return text


@dataclass(frozen=True, slots=True)
class Tuning:
    """Choices that change how fast a kernel runs, never what it computes; 0 (or None): the
    planner's own. `windows`: stencils may keep windows of rows in registers (in line buffers on the
    CPU); `columns`: elements a lane holds of a row (columns of a strip on the CPU); `warps`: warps
    of a block; `rows`: rows of a chunk (planes, in three dimensions); `band`: rows of a plane that
    a warp holds, in three dimensions; `ahead`: rows that
    loads run ahead; `late`: planes that come by themselves, by way of shared memory, instead (a GPU,
    in three dimensions; 0: none); `steps`: time steps in one launch."""

    windows: bool = True
    columns: int = 0
    warps: int = 0
    rows: int = 0
    ahead: int | None = None
    steps: int = 0
    band: int = 0
    late: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that, with the program, decides the code: part of every cache key.

    `fp` is `fast` (FMAs formed), `strict` (none) or `native` (as `fast`, on NVIDIA's GPUs with the hardware's
    approximations); `reassociate` allows reductions to change order;
    `sizes` are the sizes and integer parameters known at compile time (planning only, unless a
    decision says it specialised on one); `index_bits` is the width of index arithmetic, 32 only
    where the caller has proved that every array has fewer than 2**31 bytes; `fuel` bounds the
    number of fusions (0: none). `strided` names the array parameters that are views: their
    strides, in elements, are arguments called `NAME__stride0`, `NAME__stride1`, ... `rows`: of how
    many last dimensions of theirs the elements are known to lie without gaps. `operations`
    is what the analysis may spend on one question (0: the default; `poly.isl_budget`). `check`:
    when a data-dependent subscript outside its array is raised: `sync` at once, `lazy` on the GPU by the next call, `off` never (nothing is tested).
    """

    target: Target = CPU
    fp: str = "fast"
    reassociate: bool = True
    sizes: tuple[tuple[str, int], ...] = ()
    index_bits: int = 64
    fuel: int | None = field(default=None)
    check: str = "lazy"
    strided: tuple[str, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()
    operations: int = 0
    tuning: Tuning = Tuning()

    @property
    def approximates(self) -> bool:
        """Do divisions and math functions of f32 use the hardware's approximations? (`lang.native`)"""
        return self.fp == "native" and self.target.code == "ptx"

    @property
    def size_map(self) -> dict[str, int]:
        """`sizes` as a dict."""
        return dict(self.sizes)
