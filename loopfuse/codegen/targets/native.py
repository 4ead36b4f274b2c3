"""Object files for the CPU, and the optimised LLVM IR they are made from."""

from __future__ import annotations

import llvmlite.binding as binding

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.options import Target, cpu_from_environment
from loopfuse.codegen.llvm.invariants import hold_invariants
from loopfuse.codegen.llvm.lanes import (
    MASKED_LOAD,
    divides,
    has_guarded_quotient,
    hold_masked_loads,
)
from loopfuse.codegen.llvm.nontemporal import store_past_caches
from loopfuse.codegen.llvm.passes import initialize, optimize, parse, target_machine

_NEEDED = {
    "x86-64-v2": ("sse4.2", "popcnt", "cx16"),
    "x86-64-v3": ("avx2", "bmi2", "fma", "f16c", "lzcnt", "movbe"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}
"""What tells that a machine runs code of a level."""


def host_cpu(target: Target) -> tuple[str, str]:
    """LLVM's names for the CPU and its features: the target's, those that `LOOPFUSE_CPU` says, or
    this machine's. UserError[unknown-cpu] where this machine cannot run what the variable says."""
    initialize()
    if target.cpu_name:
        return target.cpu_name, target.cpu_features
    chosen = cpu_from_environment()
    if chosen:
        has = binding.get_host_cpu_features()
        lacks = [feature for feature in _NEEDED[chosen] if not has.get(feature)]
        if lacks:
            raise UserError(
                Diagnostic(
                    "unknown-cpu",
                    f"LOOPFUSE_CPU is `{chosen}`, and this machine has no {', '.join(lacks)}",
                    fix="set it to `native`",
                )
            )
        return chosen, ""
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


def host_machine(target: Target) -> binding.TargetMachine:
    """The target machine for a CPU target."""
    initialize()
    return target_machine(binding.get_default_triple(), *host_cpu(target))


def host_triple(target: Target) -> tuple[str, str]:
    """Triple and data layout for the IR text."""
    return binding.get_default_triple(), str(host_machine(target).target_data)


def optimize_llvm(llvm: str, target: Target) -> binding.ModuleRef:
    """The module after O3 with the loop and SLP vectorisers, its masked loads held; without them where the
    first kept a division under the wrong lane's condition, or cannot be held (`llvm.lanes`). What innermost loops
    do not change is held in front of them (`llvm.invariants`)."""
    module = parse(llvm)
    optimize(module, host_machine(target), vectorize=True)
    held: str | None = str(module)
    wrong = divides(llvm) and has_guarded_quotient(held)
    if any(one.name.startswith(MASKED_LOAD) for one in module.functions) and _has_masks(target):
        held = hold_masked_loads(held)
    if held is None or wrong:
        module = parse(llvm)
        optimize(module, host_machine(target), vectorize=False)
        held = str(module)
    if binding.get_default_triple().startswith("x86_64"):
        held = store_past_caches(held)
    return parse(hold_invariants(held))


def _has_masks(target: Target) -> bool:
    """Whether instructions of the CPU take masks (AVX-512), or nobody says that they do not."""
    cpu, features = host_cpu(target)
    x86 = binding.get_default_triple().startswith("x86_64")
    return x86 and ("+avx512f" in features or (not features and cpu not in ("x86-64", "x86-64-v2", "x86-64-v3")))


def emit_object(llvm: str, target: Target) -> bytes:
    """An ELF object; nothing in it is unresolved but libm's `fma`, `fmaf`, rounding functions
    where the CPU lacks the instruction, and `memset`."""
    return host_machine(target).emit_object(optimize_llvm(llvm, target))


def new_host_machine(target: Target) -> binding.TargetMachine:
    """A target machine that an execution engine may own."""
    cpu, features = host_cpu(target)
    found = binding.Target.from_triple(binding.get_default_triple())
    return found.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", jit=True)
