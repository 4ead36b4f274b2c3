// Integer operations whose rounding and sign matter.
func.func @divisions(%a: memref<?xi32>, %b: memref<?xi32>, %o: memref<7x?xi32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xi32>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xi32>
    %y = affine.load %b[%i] : memref<?xi32>
    %0 = arith.divsi %x, %y : i32
    %1 = arith.remsi %x, %y : i32
    %2 = arith.ceildivsi %x, %y : i32
    %3 = arith.floordivsi %x, %y : i32
    %4 = arith.divui %x, %y : i32
    %5 = arith.remui %x, %y : i32
    %6 = arith.ceildivui %x, %y : i32
    affine.store %0, %o[0, %i] : memref<7x?xi32>
    affine.store %1, %o[1, %i] : memref<7x?xi32>
    affine.store %2, %o[2, %i] : memref<7x?xi32>
    affine.store %3, %o[3, %i] : memref<7x?xi32>
    affine.store %4, %o[4, %i] : memref<7x?xi32>
    affine.store %5, %o[5, %i] : memref<7x?xi32>
    affine.store %6, %o[6, %i] : memref<7x?xi32>
  }
  return
}

func.func @constants(%a: memref<?xi16>, %o: memref<6x?xi16>) {
  %c0 = arith.constant 0 : index
  %three = arith.constant 3 : i16
  %minus = arith.constant -4 : i16
  %n = memref.dim %a, %c0 : memref<?xi16>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xi16>
    %0 = arith.divsi %x, %three : i16
    %1 = arith.remsi %x, %minus : i16
    %2 = arith.ceildivsi %x, %minus : i16
    %3 = arith.remui %x, %minus : i16
    %4 = arith.ceildivui %x, %three : i16
    %5 = arith.divsi %minus, %three : i16
    affine.store %0, %o[0, %i] : memref<6x?xi16>
    affine.store %1, %o[1, %i] : memref<6x?xi16>
    affine.store %2, %o[2, %i] : memref<6x?xi16>
    affine.store %3, %o[3, %i] : memref<6x?xi16>
    affine.store %4, %o[4, %i] : memref<6x?xi16>
    affine.store %5, %o[5, %i] : memref<6x?xi16>
  }
  return
}

func.func @bits(%a: memref<?xi64>, %b: memref<?xi64>, %o: memref<8x?xi64>) {
  %c0 = arith.constant 0 : index
  %m1 = arith.constant -1 : i64
  %n = memref.dim %a, %c0 : memref<?xi64>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xi64>
    %y = affine.load %b[%i] : memref<?xi64>
    %0 = arith.shli %x, %y : i64
    %1 = arith.shrsi %x, %y : i64
    %2 = arith.shrui %x, %y : i64
    %3 = arith.andi %x, %y : i64
    %4 = arith.xori %x, %m1 : i64
    %5 = arith.minui %x, %y : i64
    %6 = arith.maxsi %x, %y : i64
    %7 = math.absi %x : i64
    affine.store %0, %o[0, %i] : memref<8x?xi64>
    affine.store %1, %o[1, %i] : memref<8x?xi64>
    affine.store %2, %o[2, %i] : memref<8x?xi64>
    affine.store %3, %o[3, %i] : memref<8x?xi64>
    affine.store %4, %o[4, %i] : memref<8x?xi64>
    affine.store %5, %o[5, %i] : memref<8x?xi64>
    affine.store %6, %o[6, %i] : memref<8x?xi64>
    affine.store %7, %o[7, %i] : memref<8x?xi64>
  }
  return
}
