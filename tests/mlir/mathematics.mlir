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

func.func private @sin(%v: f64) -> f64 {
  %w = math.sin %v : f64
  return %w : f64
}

// A helper of the name of a function means itself.
func.func @circle(%x: memref<?xf32>, %o: memref<9x?xf32>, %z: memref<?xf64>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %ten = arith.constant 10.0 : f32
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf32>
    %0 = math.sin %v : f32
    %1 = math.cos %v : f32
    %2 = math.tan %0 : f32
    %3 = math.asin %1 : f32
    %4 = math.acos %0 : f32
    %5 = math.atan %v : f32
    %6 = math.atan2 %v, %1 : f32
    %7 = math.copysign %v, %0 : f32
    %8 = arith.remf %ten, %v : f32
    affine.store %0, %o[0, %i] : memref<9x?xf32>
    affine.store %1, %o[1, %i] : memref<9x?xf32>
    affine.store %2, %o[2, %i] : memref<9x?xf32>
    affine.store %3, %o[3, %i] : memref<9x?xf32>
    affine.store %4, %o[4, %i] : memref<9x?xf32>
    affine.store %5, %o[5, %i] : memref<9x?xf32>
    affine.store %6, %o[6, %i] : memref<9x?xf32>
    affine.store %7, %o[7, %i] : memref<9x?xf32>
    affine.store %8, %o[8, %i] : memref<9x?xf32>
    %w = arith.extf %v : f32 to f64
    %s = func.call @sin(%w) : (f64) -> f64
    affine.store %s, %z[%i] : memref<?xf64>
  }
  return
}

func.func @hyperbolic(%x: memref<?xf64>, %o: memref<9x?xf64>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf64>
  %one = arith.constant 1.0 : f64
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf64>
    %a = math.absf %v : f64
    %m = arith.minimumf %a, %one : f64
    %0 = math.sinh %m : f64
    %1 = math.cosh %m : f64
    %2 = math.asinh %v : f64
    %3 = math.acosh %1 : f64
    %h = math.tanh %v : f64
    %4 = math.atanh %h : f64
    %5 = math.cbrt %v : f64
    %6 = math.log10 %1 : f64
    %7 = math.powf %1, %m : f64
    %8 = math.rsqrt %1 : f64
    affine.store %0, %o[0, %i] : memref<9x?xf64>
    affine.store %1, %o[1, %i] : memref<9x?xf64>
    affine.store %2, %o[2, %i] : memref<9x?xf64>
    affine.store %3, %o[3, %i] : memref<9x?xf64>
    affine.store %4, %o[4, %i] : memref<9x?xf64>
    affine.store %5, %o[5, %i] : memref<9x?xf64>
    affine.store %6, %o[6, %i] : memref<9x?xf64>
    affine.store %7, %o[7, %i] : memref<9x?xf64>
    affine.store %8, %o[8, %i] : memref<9x?xf64>
  }
  return
}

func.func @tests(%x: memref<?xf32>, %o: memref<2x?xi1>, %z: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xf32>
    %0 = math.isnan %v : f32
    %1 = math.isfinite %v : f32
    affine.store %0, %o[0, %i] : memref<2x?xi1>
    affine.store %1, %o[1, %i] : memref<2x?xi1>
    %zero = arith.constant 0.0 : f32
    %kept = arith.select %1, %v, %zero : f32
    affine.store %kept, %z[%i] : memref<?xf32>
  }
  return
}
