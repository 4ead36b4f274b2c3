"""From a LoopTree to code: the stages of this room, in order, each a pure function.

    module = emit_module(tree, kernel, target, index_bits)    MLIR
    text   = print_module(module)                             its text
    llvm   = emit_llvm(module, target)                        LLVM IR of that very module
    ptx    = emit_ptx(llvm, target)            on a GPU, or
    object = emit_object(llvm, target)         on the CPU
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from loopfuse.base.options import Target
from loopfuse.codegen.abi import build_manifest
from loopfuse.codegen.ir import Operation
from loopfuse.codegen.llvm import walk as llvm_walk
from loopfuse.codegen.llvm.device import AMD, HOST, NVIDIA
from loopfuse.codegen.mlir.module import emit_module
from loopfuse.codegen.mlir.print import print_module
from loopfuse.codegen.shared_memory import asked_bytes
from loopfuse.codegen.targets import native
from loopfuse.codegen.targets.native import emit_object
from loopfuse.codegen.targets.ptx import emit_ptx
from loopfuse.lang import nodes
from loopfuse.tree.looptree import LoopTree


@dataclass(frozen=True, slots=True)
class Lowered:
    """All forms of one compiled tree. `ptx` is empty on the CPU, `object` on a GPU."""

    mlir: str
    llvm: str
    manifest: dict[str, Any]
    ptx: str = ""
    object: bytes = b""
    registers: dict[str, int] = field(default_factory=dict[str, int])


def emit_llvm(module: Operation, target: Target) -> str:
    """LLVM IR text of `module` for `target`, not yet optimised."""
    match target.code:
        case "ptx":
            return llvm_walk.emit_llvm(module, NVIDIA)
        case "llvm":
            return llvm_walk.emit_llvm(module, AMD)
        case "object":
            triple, layout = native.host_triple(target)
            host = replace(HOST, triple=triple, layout=layout)
            return llvm_walk.emit_llvm(module, host, halves_as_bits=True)


def lower(
    tree: LoopTree,
    kernel: nodes.Kernel,
    target: Target,
    index_bits: int = 64,
    preconditions: tuple[dict[str, Any], ...] = (),
) -> Lowered:
    """Runs every stage. Assembling PTX is left to the caller (`assemble.assemble`)."""
    module = emit_module(tree, kernel, target, index_bits)
    text = print_module(module)
    llvm = emit_llvm(module, target)
    manifest = build_manifest(
        tree, kernel, target, index_bits, asked_bytes(module), preconditions
    )
    if target.code == "llvm":
        return Lowered(text, llvm, manifest)
    if target.code == "ptx":
        return Lowered(text, llvm, manifest, ptx=emit_ptx(llvm, target, tree.is_straight))
    return Lowered(text, llvm, manifest, object=emit_object(llvm, target))


__all__ = ["Lowered", "emit_llvm", "emit_module", "emit_object", "emit_ptx", "lower", "print_module"]
