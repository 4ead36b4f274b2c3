"""The door for MLIR: functions of affine, memref and arith to a surface Module. Imports xdsl."""
