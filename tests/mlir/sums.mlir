// A reduction that a loop carries, and its use by another loop.
func.func @normalize(%x: memref<?xf64>, %y: memref<?xf64>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %n = memref.dim %x, %c0 : memref<?xf64>
  %s = affine.for %i = 0 to %n iter_args(%a = %zero) -> (f64) {
    %v = affine.load %x[%i] : memref<?xf64>
    %w = arith.mulf %v, %v : f64
    %b = arith.addf %a, %w : f64
    affine.yield %b : f64
  }
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf64>
    %q = arith.divf %v, %s : f64
    affine.store %q, %y[%i] : memref<?xf64>
  }
  return
}
