// Results that the function allocates, one of them of a size that an argument has.
func.func @split(%x: memref<?xf32>) -> (memref<?xf32>, memref<?xf32>, memref<2x3xi32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %seven = arith.constant 7 : i32
  %n = memref.dim %x, %c0 : memref<?xf32>
  %p = memref.alloc(%n) : memref<?xf32>
  %q = memref.alloc(%n) : memref<?xf32>
  %r = memref.alloc() : memref<2x3xi32>
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf32>
    %a = arith.maximumf %v, %zero : f32
    %b = arith.minimumf %v, %zero : f32
    affine.store %a, %p[%i] : memref<?xf32>
    affine.store %b, %q[%i] : memref<?xf32>
  }
  affine.for %i = 0 to 2 {
    affine.for %j = 0 to 3 {
      affine.store %seven, %r[%i, %j] : memref<2x3xi32>
    }
  }
  return %p, %q, %r : memref<?xf32>, memref<?xf32>, memref<2x3xi32>
}
