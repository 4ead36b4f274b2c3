// Values that loops carry and that are no reduction: a Fibonacci-like pair, and a nested pair of
// loops where the outer one's value depends on the inner one's.
func.func @pair(%x: memref<?xi64>, %y: memref<?xi64>, %z: memref<2xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %n = memref.dim %x, %c0 : memref<?xi64>
  %p:2 = affine.for %i = 0 to %n iter_args(%a = %zero, %b = %one) -> (i64, i64) {
    %v = affine.load %x[%i] : memref<?xi64>
    %c = arith.addi %a, %v : i64
    %d = arith.xori %b, %a : i64
    affine.store %c, %y[%i] : memref<?xi64>
    affine.yield %d, %c : i64, i64
  }
  memref.store %p#0, %z[%c0] : memref<2xi64>
  memref.store %p#1, %z[%c1] : memref<2xi64>
  return
}

func.func @nested(%a: memref<?x?xf32>, %z: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %n = memref.dim %a, %c0 : memref<?x?xf32>
  %m = memref.dim %a, %c1 : memref<?x?xf32>
  %r = affine.for %i = 0 to %n iter_args(%s = %one) -> (f32) {
    %t = affine.for %j = 0 to %m iter_args(%u = %s) -> (f32) {
      %v = affine.load %a[%i, %j] : memref<?x?xf32>
      %w = arith.mulf %u, %half : f32
      %q = arith.addf %w, %v : f32
      affine.yield %q : f32
    }
    affine.store %t, %z[%i] : memref<?xf32>
    affine.yield %t : f32
  }
  return
}

func.func @total(%a: memref<?x?xi64>, %z: memref<1xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %n = memref.dim %a, %c0 : memref<?x?xi64>
  %m = memref.dim %a, %c1 : memref<?x?xi64>
  %r = affine.for %i = 0 to %n iter_args(%s = %zero) -> (i64) {
    %t = affine.for %j = 0 to %m iter_args(%u = %s) -> (i64) {
      %v = affine.load %a[%i, %j] : memref<?x?xi64>
      %q = arith.addi %u, %v : i64
      affine.yield %q : i64
    }
    affine.yield %t : i64
  }
  affine.store %r, %z[0] : memref<1xi64>
  return
}
