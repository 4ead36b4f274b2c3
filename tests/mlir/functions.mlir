// A private function of scalars that kernels call; two kernels in a file; a nested module.
module {
  func.func private @smooth(%a: f32, %b: f32) -> f32 {
    %half = arith.constant 0.5 : f32
    %d = arith.subf %a, %b : f32
    %h = arith.mulf %d, %half : f32
    %c = arith.addf %b, %h : f32
    return %c : f32
  }
  func.func @down(%x: memref<?xf32>, %y: memref<?xf32>) {
    %c0 = arith.constant 0 : index
    %n = memref.dim %y, %c0 : memref<?xf32>
    affine.for %i = 0 to %n {
      %a = affine.load %x[2 * %i] : memref<?xf32>
      %b = affine.load %x[2 * %i + 1] : memref<?xf32>
      %c = func.call @smooth(%a, %b) : (f32, f32) -> f32
      affine.store %c, %y[%i] : memref<?xf32>
    }
    return
  }
  func.func @twice(%x: memref<?xf32>) {
    %c0 = arith.constant 0 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    affine.for %i = 1 to %n {
      %a = affine.load %x[%i] : memref<?xf32>
      %b = affine.load %x[%i - 1] : memref<?xf32>
      %c = func.call @smooth(%a, %b) : (f32, f32) -> f32
      %d = func.call @smooth(%c, %a) : (f32, f32) -> f32
      affine.store %d, %x[%i] : memref<?xf32>
    }
    return
  }
}
