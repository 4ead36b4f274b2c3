// A subscript that was loaded, and one that was computed from data.
func.func @lookup(%table: memref<?xf32>, %at: memref<?xi32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %at, %c0 : memref<?xi32>
  affine.for %i = 0 to %n {
    %k = affine.load %at[%i] : memref<?xi32>
    %j = arith.index_cast %k : i32 to index
    %v = memref.load %table[%j] : memref<?xf32>
    affine.store %v, %y[%i] : memref<?xf32>
  }
  return
}

func.func @histogram(%at: memref<?xi32>, %bins: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %n = memref.dim %at, %c0 : memref<?xi32>
  affine.for %i = 0 to %n {
    %k = affine.load %at[%i] : memref<?xi32>
    %j = arith.index_cast %k : i32 to index
    %v = memref.load %bins[%j] : memref<?xi32>
    %w = arith.addi %v, %one : i32
    memref.store %w, %bins[%j] : memref<?xi32>
  }
  return
}
