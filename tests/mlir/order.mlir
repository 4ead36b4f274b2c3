// Values read before a store and used after it: by an if, by a loop, by a call, in a nested region.
func.func private @twice(%a: i32) -> i32 {
  %b = arith.addi %a, %a : i32
  return %b : i32
}
func.func @late(%x: memref<?xi32>, %y: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %seven = arith.constant 7 : i32
  %n = memref.dim %x, %c0 : memref<?xi32>
  %s = affine.for %i = 0 to %n iter_args(%a = %zero) -> (i64) {
    %v = affine.load %x[%i] : memref<?xi32>
    %w = arith.extsi %v : i32 to i64
    %b = arith.addi %a, %w : i64
    affine.yield %b : i64
  }
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xi32>
    %p = arith.cmpi sgt, %v, %seven : i32
    %w = scf.if %p -> (i32) {
      %o = memref.load %x[%c0] : memref<?xi32>
      scf.yield %o : i32
    } else {
      scf.yield %v : i32
    }
    %t = func.call @twice(%v) : (i32) -> i32
    affine.store %seven, %x[%i] : memref<?xi32>
    affine.if affine_set<(d0) : (d0 mod 2 == 0)>(%i) {
      %q = arith.addi %w, %t : i32
      affine.store %q, %y[%i] : memref<?xi32>
    } else {
      %r = affine.load %x[%i] : memref<?xi32>
      %q = arith.subi %w, %r : i32
      affine.store %q, %y[%i] : memref<?xi32>
    }
  }
  %k = arith.trunci %s : i64 to i32
  affine.for %i = 0 to %n {
    %v = affine.load %y[%i] : memref<?xi32>
    %w = arith.addi %v, %k : i32
    affine.store %w, %y[%i] : memref<?xi32>
  }
  return
}
