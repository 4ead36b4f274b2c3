// Conditions: select on data, on the iterator, and booleans held in memory.
func.func @choose(%x: memref<?xf32>, %m: memref<?xi1>, %k: i32, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %limit = arith.index_cast %k : i32 to index
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf32>
    %b = affine.load %m[%i] : memref<?xi1>
    %early = arith.cmpi slt, %i, %limit : index
    %both = arith.andi %b, %early : i1
    %a = arith.select %both, %v, %zero : f32
    %q = arith.remui %i, %c2 : index
    %even = arith.cmpi eq, %q, %c0 : index
    %f = arith.negf %a : f32
    %g = arith.select %even, %a, %f : f32
    affine.store %g, %y[%i] : memref<?xf32>
  }
  return
}
