module {
  func.func @unsharp(%img: memref<?x?xf32> {loopfuse.mode = "in", loopfuse.extents = ["H", "W"]}, %sharp: memref<?x?xf32> {loopfuse.mode = "out", loopfuse.extents = ["H", "W"]}, %amount: f32, %H: index, %W: index) {
    %5 = arith.constant 0.375 : f32
    %6 = arith.constant 0.0625 : f32
    %7 = arith.constant 2 : index
    %8 = arith.constant 1 : index
    %9 = arith.constant 0 : index
    %10 = arith.constant 0.25 : f32
    %11 = arith.constant 1.0 : f32
    %rows = memref.alloc(%H, %W) : memref<?x?xf32>
    %blur = memref.alloc(%H, %W) : memref<?x?xf32>
    affine.for %y = 0 to affine_map<()[s0] -> (s0)>()[%H] {
      affine.for %x = 0 to affine_map<()[s0] -> (s0)>()[%W] {
        %16 = affine.load %img[%y, %x] : memref<?x?xf32>
        %17 = arith.subi %x, %7 : index
        %18 = arith.subi %H, %8 : index
        %19 = arith.minsi %y, %18 : index
        %20 = arith.maxsi %19, %9 : index
        %21 = arith.subi %W, %8 : index
        %22 = arith.minsi %17, %21 : index
        %23 = arith.maxsi %22, %9 : index
        %24 = memref.load %img[%20, %23] : memref<?x?xf32>
        %25 = arith.addi %x, %7 : index
        %26 = arith.subi %H, %8 : index
        %27 = arith.minsi %y, %26 : index
        %28 = arith.maxsi %27, %9 : index
        %29 = arith.subi %W, %8 : index
        %30 = arith.minsi %25, %29 : index
        %31 = arith.maxsi %30, %9 : index
        %32 = memref.load %img[%28, %31] : memref<?x?xf32>
        %33 = arith.addf %24, %32 : f32
        %34 = arith.subi %x, %8 : index
        %35 = arith.subi %H, %8 : index
        %36 = arith.minsi %y, %35 : index
        %37 = arith.maxsi %36, %9 : index
        %38 = arith.subi %W, %8 : index
        %39 = arith.minsi %34, %38 : index
        %40 = arith.maxsi %39, %9 : index
        %41 = memref.load %img[%37, %40] : memref<?x?xf32>
        %42 = arith.addi %x, %8 : index
        %43 = arith.subi %H, %8 : index
        %44 = arith.minsi %y, %43 : index
        %45 = arith.maxsi %44, %9 : index
        %46 = arith.subi %W, %8 : index
        %47 = arith.minsi %42, %46 : index
        %48 = arith.maxsi %47, %9 : index
        %49 = memref.load %img[%45, %48] : memref<?x?xf32>
        %50 = arith.addf %41, %49 : f32
        %51 = arith.mulf %10, %50 : f32
        %52 = math.fma %6, %33, %51 : f32
        %53 = math.fma %5, %16, %52 : f32
        affine.store %53, %rows[%y, %x] : memref<?x?xf32>
      }
    }
    affine.for %y = 0 to affine_map<()[s0] -> (s0)>()[%H] {
      affine.for %x = 0 to affine_map<()[s0] -> (s0)>()[%W] {
        %56 = affine.load %rows[%y, %x] : memref<?x?xf32>
        %57 = arith.subi %y, %7 : index
        %58 = arith.subi %H, %8 : index
        %59 = arith.minsi %57, %58 : index
        %60 = arith.maxsi %59, %9 : index
        %61 = arith.subi %W, %8 : index
        %62 = arith.minsi %x, %61 : index
        %63 = arith.maxsi %62, %9 : index
        %64 = memref.load %rows[%60, %63] : memref<?x?xf32>
        %65 = arith.addi %y, %7 : index
        %66 = arith.subi %H, %8 : index
        %67 = arith.minsi %65, %66 : index
        %68 = arith.maxsi %67, %9 : index
        %69 = arith.subi %W, %8 : index
        %70 = arith.minsi %x, %69 : index
        %71 = arith.maxsi %70, %9 : index
        %72 = memref.load %rows[%68, %71] : memref<?x?xf32>
        %73 = arith.addf %64, %72 : f32
        %74 = arith.subi %y, %8 : index
        %75 = arith.subi %H, %8 : index
        %76 = arith.minsi %74, %75 : index
        %77 = arith.maxsi %76, %9 : index
        %78 = arith.subi %W, %8 : index
        %79 = arith.minsi %x, %78 : index
        %80 = arith.maxsi %79, %9 : index
        %81 = memref.load %rows[%77, %80] : memref<?x?xf32>
        %82 = arith.addi %y, %8 : index
        %83 = arith.subi %H, %8 : index
        %84 = arith.minsi %82, %83 : index
        %85 = arith.maxsi %84, %9 : index
        %86 = arith.subi %W, %8 : index
        %87 = arith.minsi %x, %86 : index
        %88 = arith.maxsi %87, %9 : index
        %89 = memref.load %rows[%85, %88] : memref<?x?xf32>
        %90 = arith.addf %81, %89 : f32
        %91 = arith.mulf %10, %90 : f32
        %92 = math.fma %6, %73, %91 : f32
        %93 = math.fma %5, %56, %92 : f32
        affine.store %93, %blur[%y, %x] : memref<?x?xf32>
      }
    }
    affine.for %y = 0 to affine_map<()[s0] -> (s0)>()[%H] {
      affine.for %x = 0 to affine_map<()[s0] -> (s0)>()[%W] {
        %96 = arith.addf %11, %amount : f32
        %97 = affine.load %img[%y, %x] : memref<?x?xf32>
        %98 = affine.load %blur[%y, %x] : memref<?x?xf32>
        %99 = arith.subf %97, %98 : f32
        %100 = affine.load %blur[%y, %x] : memref<?x?xf32>
        %101 = math.fma %96, %99, %100 : f32
        affine.store %101, %sharp[%y, %x] : memref<?x?xf32>
      }
    }
    return
  }
}
