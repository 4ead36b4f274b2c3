// Matrix product and activation of static sizes.
func.func @layer(%a: memref<6x5xf32>, %b: memref<5x4xf32>, %c: memref<6x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %t = memref.alloca() : memref<6x4xf32>
  affine.for %i = 0 to 6 {
    affine.for %j = 0 to 4 {
      affine.store %zero, %t[%i, %j] : memref<6x4xf32>
      affine.for %k = 0 to 5 {
        %p = affine.load %a[%i, %k] : memref<6x5xf32>
        %q = affine.load %b[%k, %j] : memref<5x4xf32>
        %s = affine.load %t[%i, %j] : memref<6x4xf32>
        %u = math.fma %p, %q, %s : f32
        affine.store %u, %t[%i, %j] : memref<6x4xf32>
      }
    }
  }
  affine.for %i = 0 to 6 {
    affine.for %j = 0 to 4 {
      %v = affine.load %t[%i, %j] : memref<6x4xf32>
      %w = arith.maximumf %v, %zero : f32
      affine.store %w, %c[%i, %j] : memref<6x4xf32>
    }
  }
  return
}
