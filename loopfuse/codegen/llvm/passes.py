"""LLVM through llvmlite: parsing, target machines, and the O3 pipeline both back ends share."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as binding

BROKEN_IN_22 = "-slp-copyable-elements=false"
"""The SLP vectoriser's newest part schedules some blocks wrongly and then aborts the process
(the same assertion: llvm-project issue 220475; others of the kind: 203193, 198364). The objects of 51
of 52 examples are the same without it."""


@cache
def initialize() -> None:
    """Registers LLVM's targets, once."""
    if binding.llvm_version_info[0] == 22:
        binding.set_option("loopfuse", BROKEN_IN_22)
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.initialize_native_asmparser()


def target_machine(triple: str, cpu: str, features: str) -> binding.TargetMachine:
    """A target machine at O3; position-independent code. A new one for each module: it counts the calls that it
    emitted, and NVPTX prints the count."""
    initialize()
    target = binding.Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic")


def parse(text: str) -> binding.ModuleRef:
    """LLVM IR text as a verified module."""
    initialize()
    module = binding.parse_assembly(text)
    module.verify()
    return module


SHORT = (
    "always_inliner", "sroa", "simplify_cfg", "instruction_combine", "sccp", "dead_store_elimination",
    "aggressive_dce", "simplify_cfg",
)  # fmt: skip
"""Passes for code of a GPU that runs straight through: ptxas does the rest. (Loops want O3, which unrolls them at run
time: a product without it took 1.7 times as long on an H200, a strided convolution 2.1. Windows and rows want it
too: registers are fewer.)"""


def tidy(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    """Runs `SHORT` on `module` in place: a third to a fifth of the time of `optimize`."""
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
    manager = binding.create_new_module_pass_manager()
    for name in SHORT:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


def optimize(module: binding.ModuleRef, machine: binding.TargetMachine, vectorize: bool) -> None:
    """Runs the default O3 pipeline on `module` in place.

    Without a fast-math flag in it, no pass may change the bits of a result. `vectorize` turns the
    loop and SLP vectorisers on (CPU); threads are the GPU's lanes.
    """
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = vectorize
    options.slp_vectorization = vectorize
    options.loop_unrolling = True
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
