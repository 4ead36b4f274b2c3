// Bounds of several results, floored and ceiled divisions in subscripts, steps, empty ranges.
#low = affine_map<(d0) -> (0, d0 - 3)>
#high = affine_map<(d0)[s0] -> (s0, d0 + 2)>
func.func @band(%a: memref<?x?xf64>, %z: memref<?xf64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f64
  %n = memref.dim %a, %c0 : memref<?x?xf64>
  %m = memref.dim %a, %c1 : memref<?x?xf64>
  affine.for %i = 0 to %n {
    affine.store %zero, %z[%i] : memref<?xf64>
    affine.for %j = max #low(%i) to min #high(%i)[%m] {
      %v = affine.load %a[%i, %j] : memref<?x?xf64>
      %s = affine.load %z[%i] : memref<?xf64>
      %t = arith.addf %s, %v : f64
      affine.store %t, %z[%i] : memref<?xf64>
    }
  }
  return
}

func.func @steps(%x: memref<?xi32>, %y: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xi32>
  affine.for %i = 1 to %n step 3 {
    %a = affine.load %x[%i floordiv 2] : memref<?xi32>
    %b = affine.load %x[(%i * 5) mod 7 floordiv 7 + %i ceildiv 4] : memref<?xi32>
    %c = arith.subi %a, %b : i32
    affine.store %c, %y[%i] : memref<?xi32>
  }
  affine.for %i = 5 to 3 {
    %k = arith.constant 9 : i32
    affine.store %k, %y[%i] : memref<?xi32>
  }
  return
}

func.func @extremes(%x: memref<?xi32>, %y: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xi32>
  affine.for %i = 0 to %n {
    %p = affine.min affine_map<(d0)[s0] -> (d0 + 2, s0 - 1)>(%i)[%n]
    %q = affine.max affine_map<(d0) -> (d0 - 2, 0)>(%i)
    %r = affine.apply affine_map<(d0, d1) -> (d0 - d1)>(%p, %q)
    %a = memref.load %x[%p] : memref<?xi32>
    %b = memref.load %x[%q] : memref<?xi32>
    %c = arith.addi %a, %b : i32
    %k = arith.index_cast %r : index to i32
    %d = arith.muli %c, %k : i32
    affine.store %d, %y[%i] : memref<?xi32>
  }
  return
}
