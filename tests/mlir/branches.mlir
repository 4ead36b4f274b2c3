// affine.if with and without else, with results; integer sets of equalities and inequalities.
#inside = affine_set<(d0)[s0] : (d0 - 1 >= 0, s0 - d0 - 2 >= 0)>
#middle = affine_set<(d0, d1) : (d0 - d1 == 0)>
#third = affine_set<(d0) : (d0 mod 3 == 0)>
func.func @edges(%x: memref<?xf32>, %y: memref<?xf32>) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  affine.for %i = 0 to %n {
    affine.if #inside(%i)[%n] {
      %l = affine.load %x[%i - 1] : memref<?xf32>
      %r = affine.load %x[%i + 1] : memref<?xf32>
      %s = arith.addf %l, %r : f32
      affine.store %s, %y[%i] : memref<?xf32>
    } else {
      %v = affine.load %x[%i] : memref<?xf32>
      affine.store %v, %y[%i] : memref<?xf32>
    }
  }
  affine.for %i = 0 to %n {
    affine.if #third(%i) {
      %v = affine.load %y[%i] : memref<?xf32>
      %w = arith.negf %v : f32
      affine.store %w, %y[%i] : memref<?xf32>
    }
  }
  return
}

func.func @diagonal(%a: memref<?x?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %a, %c0 : memref<?x?xi32>
  %m = memref.dim %a, %c1 : memref<?x?xi32>
  affine.for %i = 0 to %n {
    affine.for %j = 0 to %m {
      %v = affine.load %a[%i, %j] : memref<?x?xi32>
      %w:2 = affine.if #middle(%i, %j) -> (i32, i32) {
        %one = arith.constant 1 : i32
        affine.yield %one, %v : i32, i32
      } else {
        %t = arith.addi %v, %v : i32
        affine.yield %t, %t : i32, i32
      }
      %s = arith.xori %w#0, %w#1 : i32
      affine.store %s, %a[%i, %j] : memref<?x?xi32>
    }
  }
  return
}

func.func @stores_inside(%x: memref<?xi32>, %y: memref<?xi32>) {
  %c0 = arith.constant 0 : index
  %five = arith.constant 5 : i32
  %n = memref.dim %x, %c0 : memref<?xi32>
  affine.for %i = 0 to %n {
    %v = affine.load %x[%i] : memref<?xi32>
    %w = affine.if #third(%i) -> i32 {
      affine.store %five, %x[%i] : memref<?xi32>
      affine.yield %v : i32
    } else {
      %q = affine.load %x[%i] : memref<?xi32>
      %p = arith.muli %q, %v : i32
      affine.yield %p : i32
    }
    %u = affine.load %x[%i] : memref<?xi32>
    %s = arith.addi %w, %u : i32
    %t = arith.addi %s, %v : i32
    affine.store %t, %y[%i] : memref<?xi32>
  }
  return
}
