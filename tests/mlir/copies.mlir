// memref.copy, an allocation of rank 0, and loads that stores come after.
func.func @rotate(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  %keep = memref.alloca() : memref<f32>
  %t = memref.alloc(%n) : memref<?xf32>
  memref.copy %x, %t : memref<?xf32> to memref<?xf32>
  affine.store %zero, %keep[] : memref<f32>
  affine.for %i = 0 to %n {
    %last = affine.load %keep[] : memref<f32>
    %v = affine.load %t[%i] : memref<?xf32>
    affine.store %v, %keep[] : memref<f32>
    %s = arith.subf %last, %v : f32
    affine.store %s, %y[%i] : memref<?xf32>
  }
  return
}

func.func @exchange(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    %a = affine.load %x[%i] : memref<?xf32>
    %b = affine.load %y[%i] : memref<?xf32>
    affine.store %b, %x[%i] : memref<?xf32>
    affine.store %a, %y[%i] : memref<?xf32>
  }
  return
}

func.func @before(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %two = arith.constant 2.0 : f32
  %n = memref.dim %x, %c0 : memref<?xf32>
  %first = affine.load %x[0] : memref<?xf32>
  affine.for %i = 0 to %n {
    %a = affine.load %x[%i] : memref<?xf32>
    %p = arith.mulf %a, %two : f32
    affine.store %p, %x[%i] : memref<?xf32>
    %q = arith.addf %a, %first : f32
    affine.store %q, %y[%i] : memref<?xf32>
  }
  return
}
