// A loop that counts down, as lowered front ends write it: the counter goes up, the subscript down.
func.func @suffix(%x: memref<?xi64>, %y: memref<?xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %n = memref.dim %x, %c0 : memref<?xi64>
  %last = arith.subi %n, %c1 : index
  %s = affine.for %k = 0 to %n iter_args(%a = %zero) -> (i64) {
    %i = affine.apply affine_map<(d0)[s0] -> (s0 - d0)>(%k)[%last]
    %v = affine.load %x[%i] : memref<?xi64>
    %w = arith.addi %a, %v : i64
    affine.store %w, %y[%i] : memref<?xi64>
    affine.yield %w : i64
  }
  return
}
