"""The program as written and as fused, as MLIR for other tools."""
