"""Lowers a LoopTree to MLIR, LLVM IR, and PTX or an object file."""
