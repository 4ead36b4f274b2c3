// scf.for and scf.if with affine bounds and memref.load and store, as C-like front ends write them.
func.func @clip(%x: memref<?xf32>, %y: memref<?xf32>, %n: index, %limit: f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %last = arith.subi %n, %c1 : index
  scf.for %i = %c0 to %last step %c1 {
    %j = arith.addi %i, %c1 : index
    %a = memref.load %x[%i] : memref<?xf32>
    %b = memref.load %x[%j] : memref<?xf32>
    %d = arith.subf %b, %a : f32
    %big = arith.cmpf ogt, %d, %limit : f32
    %r = scf.if %big -> (f32) {
      %h = arith.addf %limit, %a : f32
      scf.yield %h : f32
    } else {
      scf.yield %d : f32
    }
    memref.store %r, %y[%i] : memref<?xf32>
  }
  %first = memref.load %x[%c0] : memref<?xf32>
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%m = %first) -> (f32) {
    %v = memref.load %x[%i] : memref<?xf32>
    %less = arith.cmpf olt, %v, %m : f32
    %k = arith.select %less, %v, %m : f32
    scf.yield %k : f32
  }
  memref.store %s, %y[%last] : memref<?xf32>
  return
}
