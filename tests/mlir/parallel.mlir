// Parallel loops, with bounds, steps and reductions.
func.func @plane(%a: memref<?x?xf32>, %b: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2.0 : f32
  %n = memref.dim %a, %c0 : memref<?x?xf32>
  %m = memref.dim %a, %c1 : memref<?x?xf32>
  affine.parallel (%i, %j) = (0, 0) to (symbol(%n), symbol(%m)) step (1, 2) {
    %v = affine.load %a[%i, %j] : memref<?x?xf32>
    %w = arith.mulf %v, %two : f32
    affine.store %w, %b[%i, %j] : memref<?x?xf32>
  }
  return
}

func.func @most(%a: memref<?xf32>, %k: memref<?xi32>, %z: memref<1xf32>, %w: memref<2xi32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xf32>
  %r = affine.parallel (%i) = (0) to (min(symbol(%n), 100)) reduce ("maximumf") -> (f32) {
    %v = affine.load %a[%i] : memref<?xf32>
    affine.yield %v : f32
  }
  %s, %t = affine.parallel (%i) = (0) to (%n) reduce ("addi", "ori") -> (i32, i32) {
    %v = affine.load %k[%i] : memref<?xi32>
    affine.yield %v, %v : i32, i32
  }
  affine.store %r, %z[0] : memref<1xf32>
  affine.store %s, %w[0] : memref<2xi32>
  affine.store %t, %w[1] : memref<2xi32>
  return
}
