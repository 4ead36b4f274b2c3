// Vectors of one dimension: as wide as a loop's step.
func.func @scale(%x: memref<64xf32>, %f: f32, %y: memref<64xf32>) {
  %v = vector.broadcast %f : f32 to vector<8xf32>
  affine.for %i = 0 to 64 step 8 {
    %a = affine.vector_load %x[%i] : memref<64xf32>, vector<8xf32>
    %b = arith.mulf %a, %v : vector<8xf32>
    %c = arith.addf %b, %a : vector<8xf32>
    affine.vector_store %c, %y[%i] : memref<64xf32>, vector<8xf32>
  }
  return
}
