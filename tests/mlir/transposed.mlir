// Four dimensions, transposes, and a reduction over the inner two.
func.func @pool(%x: memref<?x?x?x?xf32>, %y: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %low = arith.constant 0xFF800000 : f32
  %b = memref.dim %x, %c0 : memref<?x?x?x?xf32>
  %c = memref.dim %x, %c1 : memref<?x?x?x?xf32>
  %h = memref.dim %x, %c2 : memref<?x?x?x?xf32>
  %w = memref.dim %x, %c3 : memref<?x?x?x?xf32>
  affine.for %i = 0 to %b {
    affine.for %j = 0 to %c {
      %m = affine.for %p = 0 to %h iter_args(%r = %low) -> (f32) {
        %o = affine.for %q = 0 to %w iter_args(%s = %r) -> (f32) {
          %v = affine.load %x[%i, %j, %p, %q] : memref<?x?x?x?xf32>
          %t = arith.maximumf %s, %v : f32
          affine.yield %t : f32
        }
        affine.yield %o : f32
      }
      affine.store %m, %y[%j, %i] : memref<?x?xf32>
    }
  }
  return
}
