"""PTX from LLVM IR, by LLVM's NVPTX back end (no GPU or CUDA needed)."""

from __future__ import annotations

import re

from loopfuse.base.options import Target
from loopfuse.codegen.llvm_passes import optimize, parse, target_machine

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

# Comes with line information, and holds none of it.
_EMPTY_SECTION = "\t.section\t.debug_macinfo\t{\t}\n"

_EXTREME = re.compile(r"\b(min|max)\.[su](16|32)\b")
_NEGATION = re.compile(r"\bneg\.s(16|32)\s+(%\w+), (%\w+);|\bsub\.s(16|32)\s+(%\w+), 0, (%\w+);")


def emit_ptx(llvm: str, target: Target) -> str:
    """The PTX text of a module that `llvm_walk.emit_llvm` made with this triple and layout.

    before: define ptx_kernel void @k(ptr addrspace(1) noalias readonly %a0, ...) { ... }
    after:  .visible .entry k(...) .reqntid 256 { ld.global.nc.v4.f32 ...; fma.rn.f32 ...; }
    """
    machine = target_machine(TRIPLE, target.name, "")
    module = parse(llvm)
    optimize(module, machine, vectorize=False)
    return _spell_negations(machine.emit_assembly(module).replace(_EMPTY_SECTION, ""))


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
