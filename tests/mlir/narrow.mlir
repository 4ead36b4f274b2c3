// Half precision, rounded after each operation, and conversions.
func.func @half(%a: memref<?xf16>, %b: memref<?xf16>, %c: memref<?xf16>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xf16>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xf16>
    %y = affine.load %b[%i] : memref<?xf16>
    %p = arith.mulf %x, %y : f16
    %s = arith.addf %p, %x : f16
    affine.store %s, %c[%i] : memref<?xf16>
  }
  return
}

func.func @brain(%a: memref<?xbf16>, %w: memref<?xf32>, %c: memref<?xbf16>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xbf16>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xbf16>
    %y = affine.load %w[%i] : memref<?xf32>
    %e = arith.extf %x : bf16 to f32
    %p = arith.mulf %e, %y : f32
    %t = arith.truncf %p : f32 to bf16
    affine.store %t, %c[%i] : memref<?xbf16>
  }
  return
}

func.func @conversions(%a: memref<?xi8>, %f: memref<?xf32>, %o: memref<4x?xi32>, %g: memref<2x?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xi8>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xi8>
    %v = affine.load %f[%i] : memref<?xf32>
    %0 = arith.extsi %x : i8 to i32
    %1 = arith.extui %x : i8 to i32
    %2 = arith.fptosi %v : f32 to i32
    %t = arith.trunci %0 : i32 to i1
    %3 = arith.extui %t : i1 to i32
    %4 = arith.sitofp %x : i8 to f32
    %5 = arith.uitofp %x : i8 to f32
    affine.store %0, %o[0, %i] : memref<4x?xi32>
    affine.store %1, %o[1, %i] : memref<4x?xi32>
    affine.store %2, %o[2, %i] : memref<4x?xi32>
    affine.store %3, %o[3, %i] : memref<4x?xi32>
    affine.store %4, %g[0, %i] : memref<2x?xf32>
    affine.store %5, %g[1, %i] : memref<2x?xf32>
  }
  return
}
