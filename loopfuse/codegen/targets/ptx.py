"""PTX from LLVM IR, by LLVM's NVPTX back end (no GPU or CUDA needed)."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager

import llvmlite.binding as binding

from loopfuse.base import forks
from loopfuse.base.options import Target
from loopfuse.codegen.llvm.device import NVIDIA
from loopfuse.codegen.llvm.passes import optimize, parse, target_machine, tidy

_switch = forks.Lock()

# Comes with line information, and holds none of it.
_EMPTY_SECTION = "\t.section\t.debug_macinfo\t{\t}\n"

_BYTE = re.compile(
    r"^(\s*)(@!?%p\d+ +)?(st\.[\w.:]*\bb8)\s+(\[[^\]\n]*\]), *(%r\d+);", re.MULTILINE
)
_EXTREME = re.compile(r"\b(min|max)\.[su](16|32)\b")
_NEGATION = re.compile(r"\bneg\.s(16|32)\s+(%\w+), (%\w+);|\bsub\.s(16|32)\s+(%\w+), 0, (%\w+);")


def emit_ptx(llvm: str, target: Target, straight: bool = False) -> str:
    """The PTX text of a module that `llvm_walk.emit_llvm` made with this triple and layout.

    before: define ptx_kernel void @k(ptr addrspace(1) noalias readonly %a0, ...) { ... }
    after:  .visible .entry k(...) .reqntid 256 { ld.global.nc.v4.f32 ...; fma.rn.f32 ...; }
    """
    machine = target_machine(NVIDIA.triple, target.name, "")
    module = parse(llvm)
    if straight:
        tidy(module, machine)
    else:
        optimize(module, machine, vectorize=False)
    with _without_strength_reduction():
        text = machine.emit_assembly(module)
    return _cut_bytes(_spell_negations(text.replace(_EMPTY_SECTION, "")))


@contextmanager
def _without_strength_reduction() -> Generator[None, None, None]:
    """LLVM turns the place of each load of an unrolled loop into a counter of its own, which takes a
    register (30 in one star of radius 2, 28 spilled in a wave equation), to save multiplications
    that a GPU does for nothing. The switch is the process's: one thread at a time has it, and other
    users of LLVM get theirs back."""
    with _switch:
        binding.set_option("loopfuse", "-disable-lsr=true")
        try:
            yield
        finally:
            binding.set_option("loopfuse", "-disable-lsr=false")


def _spell_negations(text: str) -> str:
    """Negations of integers as NOT and plus one, where the module also has integer min or max.

    before: neg.s32 %r1, %r2;
    after:  not.b32 %r1, %r2; add.s32 %r1, %r1, 1;

    ptxas of CUDA 13.0 (and that driver's) makes one three-way VIMNMX3 for sm_90 out of
    `min(min(a, -b), -c)` and forgets the first negation, from -O1 on.
    """
    if not _EXTREME.search(text):
        return text

    def spelled(found: re.Match[str]) -> str:
        bits, to, source = found.group(1, 2, 3) if found[1] else found.group(4, 5, 6)
        return f"not.b{bits} \t{to}, {source};\n\tadd.s{bits} \t{to}, {to}, 1;"

    return _NEGATION.sub(spelled, text)


def _cut_bytes(text: str) -> str:
    """The low byte of a register of 32 bits is taken before it is stored.

    before: st.global.b8 [%rd1], %r1;
    after:  { .reg .b32 %low; and.b32 %low, %r1, 255; st.global.b8 [%rd1], %low; }

    Where the register comes from an operation on f32, ptxas of CUDA 13.0 (and that driver's) takes the
    store for a conversion and puts F2IP.U8.F32 before it: bits of 2**23 + x became 255.
    """

    def cut(found: re.Match[str]) -> str:
        indent, condition, store, address, source = found.groups()
        return (
            f"{indent}{{ .reg .b32 %low; and.b32 %low, {source}, 255; "
            f"{condition or ''}{store} {address}, %low; }}"
        )

    return _BYTE.sub(cut, text)
