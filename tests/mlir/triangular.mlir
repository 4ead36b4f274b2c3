// A triangular solve: each row waits for the ones before it.
func.func @solve(%l: memref<?x?xf64>, %x: memref<?xf64>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf64>
  affine.for %i = 0 to %n {
    affine.for %j = 0 to affine_map<(d0) -> (d0)>(%i) {
      %a = affine.load %l[%i, %j] : memref<?x?xf64>
      %b = affine.load %x[%j] : memref<?xf64>
      %p = arith.mulf %a, %b : f64
      %c = affine.load %x[%i] : memref<?xf64>
      %d = arith.subf %c, %p : f64
      affine.store %d, %x[%i] : memref<?xf64>
    }
    %e = affine.load %l[%i, %i] : memref<?x?xf64>
    %f = affine.load %x[%i] : memref<?xf64>
    %g = arith.divf %f, %e : f64
    affine.store %g, %x[%i] : memref<?xf64>
  }
  return
}
