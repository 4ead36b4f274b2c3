"""From a LoopTree to the MLIR module that is compiled: structured, in upstream dialects."""
