// Two loops over one dimension, as a reshape is lowered: the subscript is a sum of both iterators. And
// differences of both, which are no loop that counts down.
func.func @flattened(%x: memref<?x16xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<? x 16 x f32>
  affine.for %i = 0 to %n {
    affine.for %j = 0 to 16 {
      %a = affine.apply affine_map<(d0, d1) -> (d0 * 16 + d1)>(%i, %j)
      %v = affine.load %x[%i, %j] : memref< ? x 16 x f32 >
      affine.store %v, %y[%a] : memref<? x f32>
    }
  }
  return
}

func.func @apart(%x: memref<64 x f32>, %y: memref<64x f32>) {
  affine.for %i = 0 to 8 {
    affine.for %j = 8 to 64 {
      %d = affine.apply affine_map<(d0, d1) -> (d1 - d0)>(%i, %j)
      %v = affine.load %x[%d] : memref<64 x f32>
      %w = affine.load %y[%j] : memref<64 x f32>
      %s = arith.addf %v, %w : f32
      affine.store %s, %y[%j] : memref<64 xf32>
    }
  }
  return
}

func.func @beneath(%x: memref<8 x 8 x f32>, %y: memref<8x8xf32>) {
  affine.for %i = 0 to 8 {
    %start = affine.apply affine_map<(d0) -> (d0)>(%i)
    affine.for %j = 0 to 8 {
      %last = affine.apply affine_map<(d0) -> (7 - d0)>(%j)
      affine.for %k = 0 to 1 {
        %e = affine.apply affine_map<(d0, d1) -> (d1 - d0)>(%k, %last)
        %v = affine.load %x[%start, %e] : memref<8x8xf32>
        affine.store %v, %y[%start, %j] : memref<8x8xf32>
      }
    }
  }
  return
}
