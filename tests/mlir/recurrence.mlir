// Time steps over two buffers, and a prefix sum in place.
func.func @diffuse(%a: memref<?xf64>, %b: memref<?xf64>, %steps: index) {
  %c0 = arith.constant 0 : index
  %half = arith.constant 0.5 : f64
  %n = memref.dim %a, %c0 : memref<?xf64>
  affine.for %t = 0 to %steps {
    affine.for %i = 1 to affine_map<(d0) -> (d0 - 1)>(%n) {
      %l = affine.load %a[%i - 1] : memref<?xf64>
      %r = affine.load %a[%i + 1] : memref<?xf64>
      %s = arith.addf %l, %r : f64
      %h = arith.mulf %s, %half : f64
      affine.store %h, %b[%i] : memref<?xf64>
    }
    affine.for %i = 1 to affine_map<(d0) -> (d0 - 1)>(%n) {
      %v = affine.load %b[%i] : memref<?xf64>
      affine.store %v, %a[%i] : memref<?xf64>
    }
  }
  return
}

func.func @prefix(%x: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xi32>
  affine.for %i = 1 to %n {
    %a = affine.load %x[%i - 1] : memref<?xi32>
    %b = affine.load %x[%i] : memref<?xi32>
    %c = arith.addi %a, %b : i32
    affine.store %c, %x[%i] : memref<?xi32>
  }
  return
}
