// The generic form, with locations and aliases, as mlir-opt --mlir-print-op-generic prints it.
#map = affine_map<() -> (0)>
#map1 = affine_map<()[s0] -> (s0)>
#map2 = affine_map<(d0) -> (d0)>
#loc = loc("scale.c":1:1)
"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xf32>, memref<?xf32>) -> (), sym_name = "scale"}> ({
  ^bb0(%arg0: memref<?xf32>, %arg1: memref<?xf32>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index loc(#loc)
    %1 = "arith.constant"() <{value = 3.000000e+00 : f32}> : () -> f32
    %2 = "memref.dim"(%arg0, %0) : (memref<?xf32>, index) -> index loc("scale.c":2:3)
    "affine.for"(%2) <{lowerBoundMap = #map, operandSegmentSizes = array<i32: 0, 1, 0>, step = 1 : index, upperBoundMap = #map1}> ({
    ^bb0(%arg2: index):
      %3 = "affine.load"(%arg0, %arg2) <{map = #map2}> : (memref<?xf32>, index) -> f32
      %4 = "arith.mulf"(%3, %1) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
      "affine.store"(%4, %arg1, %arg2) <{map = #map2}> : (f32, memref<?xf32>, index) -> ()
      "affine.yield"() : () -> ()
    }) : (index) -> () loc(unknown)
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
