// Two stencils, one after the other, as MLIR: `loopfuse explain examples/blur.mlir` fuses them.
func.func @blur_twice(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %third = arith.constant 0.25 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t = memref.alloc(%n) : memref<?xf32>
  affine.for %i = 1 to affine_map<(d0) -> (d0 - 1)>(%n) {
    %l = affine.load %x[%i - 1] : memref<?xf32>
    %m = affine.load %x[%i] : memref<?xf32>
    %r = affine.load %x[%i + 1] : memref<?xf32>
    %lm = arith.addf %l, %m : f32
    %s = arith.addf %lm, %r : f32
    %v = arith.mulf %s, %third : f32
    affine.store %v, %t[%i] : memref<?xf32>
  }
  affine.for %i = 2 to affine_map<(d0) -> (d0 - 2)>(%n) {
    %l = affine.load %t[%i - 1] : memref<?xf32>
    %r = affine.load %t[%i + 1] : memref<?xf32>
    %d = arith.subf %r, %l : f32
    affine.store %d, %y[%i] : memref<?xf32>
  }
  memref.dealloc %t : memref<?xf32>
  return
}
