// math functions: bits of upstream's library differ from ours in the last places.
func.func @exponential(%x: memref<?xf32>, %y: memref<?xf32>, %z: memref<?xf64>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf32>
    %a = math.absf %v : f32
    %b = math.sqrt %a : f32
    %c = math.exp %b : f32
    %d = math.log %c : f32
    %e = math.tanh %d : f32
    %f = math.erf %e : f32
    affine.store %f, %y[%i] : memref<?xf32>
    %w = arith.extf %v : f32 to f64
    %g = math.exp2 %w : f64
    %h = math.log1p %g : f64
    %k = math.expm1 %h : f64
    affine.store %k, %z[%i] : memref<?xf64>
  }
  return
}

func.func @exact(%x: memref<?xf32>, %o: memref<7x?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf32>
    %0 = math.ceil %v : f32
    %1 = math.floor %v : f32
    %2 = math.trunc %v : f32
    %3 = math.roundeven %v : f32
    %4 = math.fma %v, %0, %1 : f32
    %5 = math.sqrt %v : f32
    %6 = arith.negf %v : f32
    affine.store %0, %o[0, %i] : memref<7x?xf32>
    affine.store %1, %o[1, %i] : memref<7x?xf32>
    affine.store %2, %o[2, %i] : memref<7x?xf32>
    affine.store %3, %o[3, %i] : memref<7x?xf32>
    affine.store %4, %o[4, %i] : memref<7x?xf32>
    affine.store %5, %o[5, %i] : memref<7x?xf32>
    affine.store %6, %o[6, %i] : memref<7x?xf32>
  }
  return
}
