"""Object files for the CPU, and the optimised LLVM IR they are made from."""

from __future__ import annotations

import llvmlite.binding as binding

from loopfuse.base.options import Target
from loopfuse.codegen.llvm_passes import initialize, optimize, parse, target_machine


def host_cpu(target: Target) -> tuple[str, str]:
    """LLVM's names for the CPU and its features: the target's, or this machine's."""
    initialize()
    if target.cpu_name:
        return target.cpu_name, target.cpu_features
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def host_machine(target: Target) -> binding.TargetMachine:
    """The target machine for a CPU target."""
    initialize()
    return target_machine(binding.get_default_triple(), *host_cpu(target))


def host_triple(target: Target) -> tuple[str, str]:
    """Triple and data layout for the IR text."""
    return binding.get_default_triple(), str(host_machine(target).target_data)


def optimize_llvm(llvm: str, target: Target) -> binding.ModuleRef:
    """The module after O3 with the loop and SLP vectorisers."""
    module = parse(llvm)
    optimize(module, host_machine(target), vectorize=True)
    return module


def emit_object(llvm: str, target: Target) -> bytes:
    """An ELF object; nothing in it is unresolved but libm's `fma`, `fmaf`, rounding functions
    where the CPU lacks the instruction, and `memset`, `memcpy`."""
    return host_machine(target).emit_object(optimize_llvm(llvm, target))


def new_host_machine(target: Target) -> binding.TargetMachine:
    """A target machine that an execution engine may own."""
    cpu, features = host_cpu(target)
    found = binding.Target.from_triple(binding.get_default_triple())
    return found.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", jit=True)
