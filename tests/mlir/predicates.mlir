// Every predicate of arith.cmpi and arith.cmpf.
func.func @integers(%a: memref<?xi8>, %b: memref<?xi8>, %o: memref<10x?xi1>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xi8>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xi8>
    %y = affine.load %b[%i] : memref<?xi8>
    %0 = arith.cmpi eq, %x, %y : i8
    affine.store %0, %o[0, %i] : memref<10x?xi1>
    %1 = arith.cmpi ne, %x, %y : i8
    affine.store %1, %o[1, %i] : memref<10x?xi1>
    %2 = arith.cmpi slt, %x, %y : i8
    affine.store %2, %o[2, %i] : memref<10x?xi1>
    %3 = arith.cmpi sle, %x, %y : i8
    affine.store %3, %o[3, %i] : memref<10x?xi1>
    %4 = arith.cmpi sgt, %x, %y : i8
    affine.store %4, %o[4, %i] : memref<10x?xi1>
    %5 = arith.cmpi sge, %x, %y : i8
    affine.store %5, %o[5, %i] : memref<10x?xi1>
    %6 = arith.cmpi ult, %x, %y : i8
    affine.store %6, %o[6, %i] : memref<10x?xi1>
    %7 = arith.cmpi ule, %x, %y : i8
    affine.store %7, %o[7, %i] : memref<10x?xi1>
    %8 = arith.cmpi ugt, %x, %y : i8
    affine.store %8, %o[8, %i] : memref<10x?xi1>
    %9 = arith.cmpi uge, %x, %y : i8
    affine.store %9, %o[9, %i] : memref<10x?xi1>
  }
  return
}

func.func @floats(%a: memref<?xf32>, %b: memref<?xf32>, %o: memref<16x?xi32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %a, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %x = affine.load %a[%i] : memref<?xf32>
    %y = affine.load %b[%i] : memref<?xf32>
    %p0 = arith.cmpf false, %x, %y : f32
    %e0 = arith.extsi %p0 : i1 to i32
    affine.store %e0, %o[0, %i] : memref<16x?xi32>
    %p1 = arith.cmpf oeq, %x, %y : f32
    %e1 = arith.extsi %p1 : i1 to i32
    affine.store %e1, %o[1, %i] : memref<16x?xi32>
    %p2 = arith.cmpf ogt, %x, %y : f32
    %e2 = arith.extsi %p2 : i1 to i32
    affine.store %e2, %o[2, %i] : memref<16x?xi32>
    %p3 = arith.cmpf oge, %x, %y : f32
    %e3 = arith.extsi %p3 : i1 to i32
    affine.store %e3, %o[3, %i] : memref<16x?xi32>
    %p4 = arith.cmpf olt, %x, %y : f32
    %e4 = arith.extsi %p4 : i1 to i32
    affine.store %e4, %o[4, %i] : memref<16x?xi32>
    %p5 = arith.cmpf ole, %x, %y : f32
    %e5 = arith.extsi %p5 : i1 to i32
    affine.store %e5, %o[5, %i] : memref<16x?xi32>
    %p6 = arith.cmpf one, %x, %y : f32
    %e6 = arith.extsi %p6 : i1 to i32
    affine.store %e6, %o[6, %i] : memref<16x?xi32>
    %p7 = arith.cmpf ord, %x, %y : f32
    %e7 = arith.extsi %p7 : i1 to i32
    affine.store %e7, %o[7, %i] : memref<16x?xi32>
    %p8 = arith.cmpf ueq, %x, %y : f32
    %e8 = arith.extsi %p8 : i1 to i32
    affine.store %e8, %o[8, %i] : memref<16x?xi32>
    %p9 = arith.cmpf ugt, %x, %y : f32
    %e9 = arith.extsi %p9 : i1 to i32
    affine.store %e9, %o[9, %i] : memref<16x?xi32>
    %p10 = arith.cmpf uge, %x, %y : f32
    %e10 = arith.extsi %p10 : i1 to i32
    affine.store %e10, %o[10, %i] : memref<16x?xi32>
    %p11 = arith.cmpf ult, %x, %y : f32
    %e11 = arith.extsi %p11 : i1 to i32
    affine.store %e11, %o[11, %i] : memref<16x?xi32>
    %p12 = arith.cmpf ule, %x, %y : f32
    %e12 = arith.extsi %p12 : i1 to i32
    affine.store %e12, %o[12, %i] : memref<16x?xi32>
    %p13 = arith.cmpf une, %x, %y : f32
    %e13 = arith.extsi %p13 : i1 to i32
    affine.store %e13, %o[13, %i] : memref<16x?xi32>
    %p14 = arith.cmpf uno, %x, %y : f32
    %e14 = arith.extsi %p14 : i1 to i32
    affine.store %e14, %o[14, %i] : memref<16x?xi32>
    %p15 = arith.cmpf true, %x, %y : f32
    %e15 = arith.extsi %p15 : i1 to i32
    affine.store %e15, %o[15, %i] : memref<16x?xi32>
  }
  return
}
