"""From structured MLIR to LLVM IR, in one walk, and the passes that LLVM runs over it."""
