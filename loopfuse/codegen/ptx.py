"""PTX from LLVM IR, by LLVM's NVPTX back end (no GPU or CUDA needed)."""

from __future__ import annotations

from loopfuse.base.options import Target
from loopfuse.codegen.llvm_passes import optimize, parse, target_machine

TRIPLE = "nvptx64-nvidia-cuda"
LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"

# Comes with line information, and holds none of it.
_EMPTY_SECTION = "\t.section\t.debug_macinfo\t{\t}\n"


def emit_ptx(llvm: str, target: Target) -> str:
    """The PTX text of a module that `llvm_walk.emit_llvm` made with this triple and layout.

    before: define ptx_kernel void @k(ptr addrspace(1) noalias readonly %a0, ...) { ... }
    after:  .visible .entry k(...) .reqntid 256 { ld.global.nc.v4.f32 ...; fma.rn.f32 ...; }
    """
    machine = target_machine(TRIPLE, target.name, "")
    module = parse(llvm)
    optimize(module, machine, vectorize=False)
    return machine.emit_assembly(module).replace(_EMPTY_SECTION, "")
