"""From LLVM IR to what a machine loads: PTX, machine code for GPUs, objects for CPUs."""
