module {
  gpu.module @unsharp_module {
    memref.global "private" @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>> = uninitialized
    gpu.func @unsharp_0(%0: memref<?xf32, #gpu.address_space<global>> {llvm.noalias, llvm.readonly}, %1: memref<?xf32, #gpu.address_space<global>> {llvm.noalias}, %2: i64, %3: i64, %4: f32, %5: i8) kernel attributes {known_block_size = array<i32: 128, 1, 1>, nvvm.maxnreg = 96 : i32} {
      %6 = arith.constant 0 : i8
      %7 = arith.constant 0.0 : f32
      %8 = arith.constant 0 : index
      %9 = arith.constant 1 : index
      %10 = arith.constant 2 : index
      %11 = arith.constant 3 : index
      %12 = arith.constant 4 : index
      %13 = arith.constant 5 : index
      %14 = arith.constant 6 : index
      %15 = arith.constant 7 : index
      %16 = arith.constant 8 : index
      %17 = arith.constant 9 : index
      %18 = arith.constant 10 : index
      %19 = arith.constant 11 : index
      %20 = arith.constant 12 : index
      %21 = arith.constant 13 : index
      %22 = arith.constant 14 : index
      %23 = arith.constant 15 : index
      %24 = arith.constant 16 : index
      %25 = arith.constant 17 : index
      %26 = arith.constant 18 : index
      %27 = arith.constant 19 : index
      %28 = arith.constant 20 : index
      %29 = arith.constant 21 : index
      %30 = arith.constant 22 : index
      %31 = arith.constant 23 : index
      %32 = arith.constant 24 : index
      %33 = arith.constant 25 : index
      %34 = arith.constant 26 : index
      %35 = arith.constant 27 : index
      %36 = arith.constant 28 : index
      %37 = arith.constant 29 : index
      %38 = arith.constant 30 : index
      %39 = arith.constant 31 : index
      %40 = arith.constant 32 : index
      %41 = arith.constant 33 : index
      %42 = arith.constant 34 : index
      %43 = arith.constant 35 : index
      %44 = arith.constant 36 : index
      %45 = arith.constant 37 : index
      %46 = arith.constant 38 : index
      %47 = arith.constant 39 : index
      %48 = arith.constant 33 : i64
      %49 = arith.constant 34 : i64
      %50 = arith.constant 1 : i64
      %51 = arith.constant 479 : i64
      %52 = arith.constant 480 : i64
      %53 = arith.constant 0 : i64
      %54 = arith.constant 2 : i64
      %55 = arith.constant 32 : i32
      %56 = arith.constant 120 : i64
      %57 = arith.constant -2 : i64
      %58 = arith.constant 4 : i64
      %59 = arith.constant 38 : i64
      %60 = arith.constant -4 : i64
      %61 = arith.constant 124 : i64
      %62 = arith.constant 3 : i64
      %63 = arith.constant 128 : i64
      %64 = arith.constant -1 : i64
      %65 = arith.constant 40 : i64
      %66 = arith.constant 5 : i64
      %67 = arith.constant 37 : i64
      %68 = arith.constant -1 : i32
      %69 = arith.constant 1 : i32
      %70 = arith.constant 0.375 : f32
      %71 = arith.constant 0.0625 : f32
      %72 = arith.constant 0.25 : f32
      %73 = arith.constant 1.0 : f32
      %74 = arith.constant 31 : i64
      %75 = arith.constant -6 : i64
      %76 = arith.constant -3 : i64
      %77 = arith.constant -5 : i64
      %78 = arith.constant 6 : i64
      %79 = arith.constant 64 : index
      %80 = arith.constant 96 : index
      %81 = arith.constant 5 : i32
      %82 = arith.constant 132 : i32
      %83 = arith.constant 4 : i32
      %84 = arith.constant 68 : index
      %85 = arith.constant 100 : index
      %86 = arith.constant 28 : i32
      %87 = memref.alloca() : memref<40xf32>
      %88 = memref.alloca() : memref<20xf32>
      %89 = memref.alloca() : memref<4xf32>
      %90 = memref.alloca() : memref<4xf32>
      %91 = memref.alloca() : memref<4xf32>
      %92 = memref.alloca() : memref<20xf32>
      %93 = arith.cmpi ne, %5, %6 : i8
      memref.store %7, %87[%8] : memref<40xf32>
      memref.store %7, %87[%9] : memref<40xf32>
      memref.store %7, %87[%10] : memref<40xf32>
      memref.store %7, %87[%11] : memref<40xf32>
      memref.store %7, %87[%12] : memref<40xf32>
      memref.store %7, %87[%13] : memref<40xf32>
      memref.store %7, %87[%14] : memref<40xf32>
      memref.store %7, %87[%15] : memref<40xf32>
      memref.store %7, %87[%16] : memref<40xf32>
      memref.store %7, %87[%17] : memref<40xf32>
      memref.store %7, %87[%18] : memref<40xf32>
      memref.store %7, %87[%19] : memref<40xf32>
      memref.store %7, %87[%20] : memref<40xf32>
      memref.store %7, %87[%21] : memref<40xf32>
      memref.store %7, %87[%22] : memref<40xf32>
      memref.store %7, %87[%23] : memref<40xf32>
      memref.store %7, %87[%24] : memref<40xf32>
      memref.store %7, %87[%25] : memref<40xf32>
      memref.store %7, %87[%26] : memref<40xf32>
      memref.store %7, %87[%27] : memref<40xf32>
      memref.store %7, %87[%28] : memref<40xf32>
      memref.store %7, %87[%29] : memref<40xf32>
      memref.store %7, %87[%30] : memref<40xf32>
      memref.store %7, %87[%31] : memref<40xf32>
      memref.store %7, %87[%32] : memref<40xf32>
      memref.store %7, %87[%33] : memref<40xf32>
      memref.store %7, %87[%34] : memref<40xf32>
      memref.store %7, %87[%35] : memref<40xf32>
      memref.store %7, %87[%36] : memref<40xf32>
      memref.store %7, %87[%37] : memref<40xf32>
      memref.store %7, %87[%38] : memref<40xf32>
      memref.store %7, %87[%39] : memref<40xf32>
      memref.store %7, %87[%40] : memref<40xf32>
      memref.store %7, %87[%41] : memref<40xf32>
      memref.store %7, %87[%42] : memref<40xf32>
      memref.store %7, %87[%43] : memref<40xf32>
      memref.store %7, %87[%44] : memref<40xf32>
      memref.store %7, %87[%45] : memref<40xf32>
      memref.store %7, %87[%46] : memref<40xf32>
      memref.store %7, %87[%47] : memref<40xf32>
      memref.store %7, %88[%8] : memref<20xf32>
      memref.store %7, %88[%9] : memref<20xf32>
      memref.store %7, %88[%10] : memref<20xf32>
      memref.store %7, %88[%11] : memref<20xf32>
      memref.store %7, %88[%12] : memref<20xf32>
      memref.store %7, %88[%13] : memref<20xf32>
      memref.store %7, %88[%14] : memref<20xf32>
      memref.store %7, %88[%15] : memref<20xf32>
      memref.store %7, %88[%16] : memref<20xf32>
      memref.store %7, %88[%17] : memref<20xf32>
      memref.store %7, %88[%18] : memref<20xf32>
      memref.store %7, %88[%19] : memref<20xf32>
      memref.store %7, %88[%20] : memref<20xf32>
      memref.store %7, %88[%21] : memref<20xf32>
      memref.store %7, %88[%22] : memref<20xf32>
      memref.store %7, %88[%23] : memref<20xf32>
      memref.store %7, %88[%24] : memref<20xf32>
      memref.store %7, %88[%25] : memref<20xf32>
      memref.store %7, %88[%26] : memref<20xf32>
      memref.store %7, %88[%27] : memref<20xf32>
      memref.store %7, %89[%8] : memref<4xf32>
      memref.store %7, %89[%9] : memref<4xf32>
      memref.store %7, %89[%10] : memref<4xf32>
      memref.store %7, %89[%11] : memref<4xf32>
      memref.store %7, %90[%8] : memref<4xf32>
      memref.store %7, %90[%9] : memref<4xf32>
      memref.store %7, %90[%10] : memref<4xf32>
      memref.store %7, %90[%11] : memref<4xf32>
      %94 = gpu.block_id x
      %95 = arith.index_cast %94 : index to i64
      %96 = arith.addi %2, %48 overflow<nsw> : i64
      %97 = arith.floordivsi %96, %49 : i64
      %98 = arith.maxsi %97, %50 : i64
      %99 = arith.addi %3, %51 overflow<nsw> : i64
      %100 = arith.floordivsi %99, %52 : i64
      %101 = arith.maxsi %100, %50 : i64
      %102 = arith.subi %98, %54 : i64
      %103 = arith.maxsi %102, %53 : i64
      %104 = arith.subi %101, %54 : i64
      %105 = arith.maxsi %104, %53 : i64
      %106 = arith.muli %103, %105 : i64
      %107 = arith.muli %98, %101 : i64
      %108 = arith.subi %107, %106 : i64
      %109 = arith.cmpi ult, %95, %108 : i64
      %110 = arith.subi %95, %108 : i64
      %111 = arith.select %109, %95, %110 : i64
      %112 = arith.addi %101, %101 : i64
      %113 = arith.cmpi ult, %111, %101 : i64
      %114 = arith.cmpi ult, %111, %112 : i64
      %115 = arith.minsi %101, %54 : i64
      %116 = arith.subi %111, %112 : i64
      %117 = arith.divui %116, %115 : i64
      %118 = arith.muli %117, %115 : i64
      %119 = arith.subi %116, %118 : i64
      %120 = arith.subi %98, %50 : i64
      %121 = arith.subi %101, %50 : i64
      %122 = arith.addi %117, %50 : i64
      %123 = arith.select %114, %120, %122 : i64
      %124 = arith.subi %111, %101 : i64
      %125 = arith.muli %119, %121 : i64
      %126 = arith.select %114, %124, %125 : i64
      %127 = arith.select %113, %53, %123 : i64
      %128 = arith.select %113, %111, %126 : i64
      %129 = arith.subi %101, %54 : i64
      %130 = arith.maxsi %129, %53 : i64
      %131 = arith.maxsi %130, %50 : i64
      %132 = arith.divui %111, %131 : i64
      %133 = arith.muli %132, %131 : i64
      %134 = arith.subi %111, %133 : i64
      %135 = arith.addi %132, %50 : i64
      %136 = arith.select %109, %127, %135 : i64
      %137 = arith.addi %134, %50 : i64
      %138 = arith.select %109, %128, %137 : i64
      %139 = gpu.thread_id x
      %140 = arith.index_cast %139 : index to i32
      %141 = arith.remui %140, %55 : i32
      %142 = arith.extsi %141 : i32 to i64
      %143 = arith.divui %140, %55 : i32
      %144 = arith.extsi %143 : i32 to i64
      %145 = arith.muli %138, %52 overflow<nsw> : i64
      %146 = arith.muli %144, %56 overflow<nsw> : i64
      %147 = arith.addi %145, %146 overflow<nsw> : i64
      %148 = arith.cmpi slt, %147, %3 : i64
      scf.if %148 {
        %149 = arith.muli %136, %49 overflow<nsw> : i64
        %150 = arith.addi %149, %57 overflow<nsw> : i64
        %151 = arith.cmpi sge, %150, %53 : i64
        %152 = arith.cmpi sge, %150, %54 : i64
        %153 = arith.andi %151, %152 : i1
        %154 = arith.cmpi sge, %150, %58 : i64
        %155 = arith.andi %153, %154 : i1
        %156 = arith.addi %149, %59 overflow<nsw> : i64
        %157 = arith.addi %2, %54 overflow<nsw> : i64
        %158 = arith.cmpi sle, %156, %157 : i64
        %159 = arith.andi %155, %158 : i1
        %160 = arith.addi %2, %58 overflow<nsw> : i64
        %161 = arith.cmpi sle, %156, %160 : i64
        %162 = arith.andi %159, %161 : i1
        %163 = arith.addi %147, %60 overflow<nsw> : i64
        %164 = arith.cmpi sge, %163, %53 : i64
        %165 = arith.andi %162, %164 : i1
        %166 = arith.addi %147, %61 overflow<nsw> : i64
        %167 = arith.cmpi sle, %166, %3 : i64
        %168 = arith.andi %165, %167 : i1
        %169 = arith.cmpi sge, %163, %62 : i64
        %170 = arith.andi %168, %169 : i1
        %171 = arith.addi %147, %63 overflow<nsw> : i64
        %172 = arith.cmpi sle, %171, %3 : i64
        %173 = arith.andi %170, %172 : i1
        scf.if %173 {
          %174 = arith.floordivsi %3, %58 : i64
          %175 = arith.muli %174, %58 : i64
          %176 = arith.subi %3, %175 : i64
          %177 = arith.cmpi eq, %176, %53 : i64
          %178 = arith.andi %93, %177 : i1
          scf.if %178 {
            %179 = arith.muli %150, %3 overflow<nsw> : i64
            %180 = arith.muli %142, %58 overflow<nsw> : i64
            %181 = arith.addi %179, %180 overflow<nsw> : i64
            %182 = arith.muli %138, %52 overflow<nsw> : i64
            %183 = arith.addi %181, %182 overflow<nsw> : i64
            %184 = arith.muli %144, %56 overflow<nsw> : i64
            %185 = arith.addi %183, %184 overflow<nsw> : i64
            %186 = arith.addi %185, %60 overflow<nsw> : i64
            %187 = arith.index_cast %186 : i64 to index
            memref.prefetch %0[%187], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
            %188 = arith.addi %149, %64 overflow<nsw> : i64
            %189 = arith.muli %188, %3 overflow<nsw> : i64
            %190 = arith.muli %142, %58 overflow<nsw> : i64
            %191 = arith.addi %189, %190 overflow<nsw> : i64
            %192 = arith.muli %138, %52 overflow<nsw> : i64
            %193 = arith.addi %191, %192 overflow<nsw> : i64
            %194 = arith.muli %144, %56 overflow<nsw> : i64
            %195 = arith.addi %193, %194 overflow<nsw> : i64
            %196 = arith.addi %195, %60 overflow<nsw> : i64
            %197 = arith.index_cast %196 : i64 to index
            memref.prefetch %0[%197], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
            scf.for %198 = %53 to %65 step %66  : i64 {
              %199 = arith.muli %136, %49 overflow<nsw> : i64
              %200 = arith.addi %198, %54 overflow<nsw> : i64
              %201 = arith.minsi %200, %67 : i64
              %202 = arith.addi %199, %201 overflow<nsw> : i64
              %203 = arith.addi %202, %57 overflow<nsw> : i64
              %204 = arith.muli %203, %3 overflow<nsw> : i64
              %205 = arith.muli %142, %58 overflow<nsw> : i64
              %206 = arith.addi %204, %205 overflow<nsw> : i64
              %207 = arith.muli %138, %52 overflow<nsw> : i64
              %208 = arith.addi %206, %207 overflow<nsw> : i64
              %209 = arith.muli %144, %56 overflow<nsw> : i64
              %210 = arith.addi %208, %209 overflow<nsw> : i64
              %211 = arith.addi %210, %60 overflow<nsw> : i64
              %212 = arith.index_cast %211 : i64 to index
              memref.prefetch %0[%212], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %213 = arith.muli %136, %49 overflow<nsw> : i64
              %214 = arith.minsi %198, %67 : i64
              %215 = arith.addi %213, %214 overflow<nsw> : i64
              %216 = arith.addi %215, %57 overflow<nsw> : i64
              %217 = arith.muli %216, %3 overflow<nsw> : i64
              %218 = arith.muli %142, %58 overflow<nsw> : i64
              %219 = arith.addi %217, %218 overflow<nsw> : i64
              %220 = arith.muli %138, %52 overflow<nsw> : i64
              %221 = arith.addi %219, %220 overflow<nsw> : i64
              %222 = arith.muli %144, %56 overflow<nsw> : i64
              %223 = arith.addi %221, %222 overflow<nsw> : i64
              %224 = arith.addi %223, %60 overflow<nsw> : i64
              %225 = arith.index_cast %224 : i64 to index
              %226 = vector.load %0[%225] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              vector.store %226, %87[%10] {alignment = 8 : i64} : memref<40xf32>, vector<4xf32>
              %227 = memref.load %87[%34] : memref<40xf32>
              memref.store %227, %91[%8] : memref<4xf32>
              %228 = memref.load %87[%35] : memref<40xf32>
              memref.store %228, %91[%9] : memref<4xf32>
              %229 = memref.load %87[%36] : memref<40xf32>
              memref.store %229, %91[%10] : memref<4xf32>
              %230 = memref.load %87[%37] : memref<40xf32>
              memref.store %230, %91[%11] : memref<4xf32>
              %231 = arith.trunci %142 : i64 to i32
              %232 = arith.addi %231, %68 overflow<nsw> : i32
              %233 = memref.load %91[%10] : memref<4xf32>
              %234, %235 = gpu.shuffle idx %233, %232, %55 : f32
              memref.store %234, %87[%32] : memref<40xf32>
              %236 = memref.load %91[%11] : memref<4xf32>
              %237, %238 = gpu.shuffle idx %236, %232, %55 : f32
              memref.store %237, %87[%33] : memref<40xf32>
              %239 = arith.addi %231, %69 overflow<nsw> : i32
              %240 = memref.load %91[%8] : memref<4xf32>
              %241, %242 = gpu.shuffle idx %240, %239, %55 : f32
              memref.store %241, %87[%38] : memref<40xf32>
              %243 = memref.load %91[%9] : memref<4xf32>
              %244, %245 = gpu.shuffle idx %243, %239, %55 : f32
              memref.store %244, %87[%39] : memref<40xf32>
              %246 = memref.load %87[%34] : memref<40xf32>
              %247 = memref.load %87[%32] : memref<40xf32>
              %248 = memref.load %87[%36] : memref<40xf32>
              %249 = arith.addf %247, %248 : f32
              %250 = memref.load %87[%33] : memref<40xf32>
              %251 = memref.load %87[%35] : memref<40xf32>
              %252 = arith.addf %250, %251 : f32
              %253 = arith.mulf %72, %252 : f32
              %254 = math.fma %71, %249, %253 : f32
              %255 = math.fma %70, %246, %254 : f32
              memref.store %255, %88[%20] : memref<20xf32>
              %256 = memref.load %87[%35] : memref<40xf32>
              %257 = memref.load %87[%33] : memref<40xf32>
              %258 = memref.load %87[%37] : memref<40xf32>
              %259 = arith.addf %257, %258 : f32
              %260 = memref.load %87[%34] : memref<40xf32>
              %261 = memref.load %87[%36] : memref<40xf32>
              %262 = arith.addf %260, %261 : f32
              %263 = arith.mulf %72, %262 : f32
              %264 = math.fma %71, %259, %263 : f32
              %265 = math.fma %70, %256, %264 : f32
              memref.store %265, %88[%21] : memref<20xf32>
              %266 = memref.load %87[%36] : memref<40xf32>
              %267 = memref.load %87[%34] : memref<40xf32>
              %268 = memref.load %87[%38] : memref<40xf32>
              %269 = arith.addf %267, %268 : f32
              %270 = memref.load %87[%35] : memref<40xf32>
              %271 = memref.load %87[%37] : memref<40xf32>
              %272 = arith.addf %270, %271 : f32
              %273 = arith.mulf %72, %272 : f32
              %274 = math.fma %71, %269, %273 : f32
              %275 = math.fma %70, %266, %274 : f32
              memref.store %275, %88[%22] : memref<20xf32>
              %276 = memref.load %87[%37] : memref<40xf32>
              %277 = memref.load %87[%35] : memref<40xf32>
              %278 = memref.load %87[%39] : memref<40xf32>
              %279 = arith.addf %277, %278 : f32
              %280 = memref.load %87[%36] : memref<40xf32>
              %281 = memref.load %87[%38] : memref<40xf32>
              %282 = arith.addf %280, %281 : f32
              %283 = arith.mulf %72, %282 : f32
              %284 = math.fma %71, %279, %283 : f32
              %285 = math.fma %70, %276, %284 : f32
              memref.store %285, %88[%23] : memref<20xf32>
              %286 = memref.load %88[%12] : memref<20xf32>
              %287 = memref.load %88[%24] : memref<20xf32>
              %288 = memref.load %88[%20] : memref<20xf32>
              %289 = arith.addf %287, %288 : f32
              %290 = memref.load %88[%8] : memref<20xf32>
              %291 = memref.load %88[%16] : memref<20xf32>
              %292 = arith.addf %290, %291 : f32
              %293 = arith.mulf %72, %292 : f32
              %294 = math.fma %71, %289, %293 : f32
              %295 = math.fma %70, %286, %294 : f32
              memref.store %295, %89[%8] : memref<4xf32>
              %296 = memref.load %88[%13] : memref<20xf32>
              %297 = memref.load %88[%25] : memref<20xf32>
              %298 = memref.load %88[%21] : memref<20xf32>
              %299 = arith.addf %297, %298 : f32
              %300 = memref.load %88[%9] : memref<20xf32>
              %301 = memref.load %88[%17] : memref<20xf32>
              %302 = arith.addf %300, %301 : f32
              %303 = arith.mulf %72, %302 : f32
              %304 = math.fma %71, %299, %303 : f32
              %305 = math.fma %70, %296, %304 : f32
              memref.store %305, %89[%9] : memref<4xf32>
              %306 = memref.load %88[%14] : memref<20xf32>
              %307 = memref.load %88[%26] : memref<20xf32>
              %308 = memref.load %88[%22] : memref<20xf32>
              %309 = arith.addf %307, %308 : f32
              %310 = memref.load %88[%10] : memref<20xf32>
              %311 = memref.load %88[%18] : memref<20xf32>
              %312 = arith.addf %310, %311 : f32
              %313 = arith.mulf %72, %312 : f32
              %314 = math.fma %71, %309, %313 : f32
              %315 = math.fma %70, %306, %314 : f32
              memref.store %315, %89[%10] : memref<4xf32>
              %316 = memref.load %88[%15] : memref<20xf32>
              %317 = memref.load %88[%27] : memref<20xf32>
              %318 = memref.load %88[%23] : memref<20xf32>
              %319 = arith.addf %317, %318 : f32
              %320 = memref.load %88[%11] : memref<20xf32>
              %321 = memref.load %88[%19] : memref<20xf32>
              %322 = arith.addf %320, %321 : f32
              %323 = arith.mulf %72, %322 : f32
              %324 = math.fma %71, %319, %323 : f32
              %325 = math.fma %70, %316, %324 : f32
              memref.store %325, %89[%11] : memref<4xf32>
              %326 = arith.addf %73, %4 : f32
              %327 = memref.load %87[%18] : memref<40xf32>
              %328 = memref.load %89[%8] : memref<4xf32>
              %329 = arith.subf %327, %328 : f32
              %330 = math.fma %326, %329, %328 : f32
              memref.store %330, %90[%8] : memref<4xf32>
              %331 = arith.addf %73, %4 : f32
              %332 = memref.load %87[%19] : memref<40xf32>
              %333 = memref.load %89[%9] : memref<4xf32>
              %334 = arith.subf %332, %333 : f32
              %335 = math.fma %331, %334, %333 : f32
              memref.store %335, %90[%9] : memref<4xf32>
              %336 = arith.addf %73, %4 : f32
              %337 = memref.load %87[%20] : memref<40xf32>
              %338 = memref.load %89[%10] : memref<4xf32>
              %339 = arith.subf %337, %338 : f32
              %340 = math.fma %336, %339, %338 : f32
              memref.store %340, %90[%10] : memref<4xf32>
              %341 = arith.addf %73, %4 : f32
              %342 = memref.load %87[%21] : memref<40xf32>
              %343 = memref.load %89[%11] : memref<4xf32>
              %344 = arith.subf %342, %343 : f32
              %345 = math.fma %341, %344, %343 : f32
              memref.store %345, %90[%11] : memref<4xf32>
              %346 = arith.addi %198, %60 overflow<nsw> : i64
              %347 = arith.cmpi sge, %346, %54 : i64
              %348 = arith.cmpi sge, %142, %50 : i64
              %349 = arith.andi %347, %348 : i1
              %350 = arith.cmpi slt, %142, %74 : i64
              %351 = arith.andi %349, %350 : i1
              scf.if %351 {
                %352 = vector.load %90[%8] {alignment = 16 : i64} : memref<4xf32>, vector<4xf32>
                %353 = arith.muli %136, %49 overflow<nsw> : i64
                %354 = arith.addi %198, %353 overflow<nsw> : i64
                %355 = arith.addi %354, %75 overflow<nsw> : i64
                %356 = arith.muli %355, %3 overflow<nsw> : i64
                %357 = arith.muli %142, %58 overflow<nsw> : i64
                %358 = arith.addi %356, %357 overflow<nsw> : i64
                %359 = arith.muli %138, %52 overflow<nsw> : i64
                %360 = arith.addi %358, %359 overflow<nsw> : i64
                %361 = arith.muli %144, %56 overflow<nsw> : i64
                %362 = arith.addi %360, %361 overflow<nsw> : i64
                %363 = arith.addi %362, %60 overflow<nsw> : i64
                %364 = arith.index_cast %363 : i64 to index
                vector.store %352, %1[%364] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              }
              %365 = arith.muli %136, %49 overflow<nsw> : i64
              %366 = arith.addi %198, %62 overflow<nsw> : i64
              %367 = arith.minsi %366, %67 : i64
              %368 = arith.addi %365, %367 overflow<nsw> : i64
              %369 = arith.addi %368, %57 overflow<nsw> : i64
              %370 = arith.muli %369, %3 overflow<nsw> : i64
              %371 = arith.muli %142, %58 overflow<nsw> : i64
              %372 = arith.addi %370, %371 overflow<nsw> : i64
              %373 = arith.muli %138, %52 overflow<nsw> : i64
              %374 = arith.addi %372, %373 overflow<nsw> : i64
              %375 = arith.muli %144, %56 overflow<nsw> : i64
              %376 = arith.addi %374, %375 overflow<nsw> : i64
              %377 = arith.addi %376, %60 overflow<nsw> : i64
              %378 = arith.index_cast %377 : i64 to index
              memref.prefetch %0[%378], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %379 = arith.muli %136, %49 overflow<nsw> : i64
              %380 = arith.addi %198, %50 overflow<nsw> : i64
              %381 = arith.minsi %380, %67 : i64
              %382 = arith.addi %379, %381 overflow<nsw> : i64
              %383 = arith.addi %382, %57 overflow<nsw> : i64
              %384 = arith.muli %383, %3 overflow<nsw> : i64
              %385 = arith.muli %142, %58 overflow<nsw> : i64
              %386 = arith.addi %384, %385 overflow<nsw> : i64
              %387 = arith.muli %138, %52 overflow<nsw> : i64
              %388 = arith.addi %386, %387 overflow<nsw> : i64
              %389 = arith.muli %144, %56 overflow<nsw> : i64
              %390 = arith.addi %388, %389 overflow<nsw> : i64
              %391 = arith.addi %390, %60 overflow<nsw> : i64
              %392 = arith.index_cast %391 : i64 to index
              %393 = vector.load %0[%392] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              vector.store %393, %87[%18] {alignment = 8 : i64} : memref<40xf32>, vector<4xf32>
              %394 = memref.load %87[%42] : memref<40xf32>
              memref.store %394, %91[%8] : memref<4xf32>
              %395 = memref.load %87[%43] : memref<40xf32>
              memref.store %395, %91[%9] : memref<4xf32>
              %396 = memref.load %87[%44] : memref<40xf32>
              memref.store %396, %91[%10] : memref<4xf32>
              %397 = memref.load %87[%45] : memref<40xf32>
              memref.store %397, %91[%11] : memref<4xf32>
              %398 = memref.load %91[%10] : memref<4xf32>
              %399, %400 = gpu.shuffle idx %398, %232, %55 : f32
              memref.store %399, %87[%40] : memref<40xf32>
              %401 = memref.load %91[%11] : memref<4xf32>
              %402, %403 = gpu.shuffle idx %401, %232, %55 : f32
              memref.store %402, %87[%41] : memref<40xf32>
              %404 = memref.load %91[%8] : memref<4xf32>
              %405, %406 = gpu.shuffle idx %404, %239, %55 : f32
              memref.store %405, %87[%46] : memref<40xf32>
              %407 = memref.load %91[%9] : memref<4xf32>
              %408, %409 = gpu.shuffle idx %407, %239, %55 : f32
              memref.store %408, %87[%47] : memref<40xf32>
              %410 = memref.load %87[%42] : memref<40xf32>
              %411 = memref.load %87[%40] : memref<40xf32>
              %412 = memref.load %87[%44] : memref<40xf32>
              %413 = arith.addf %411, %412 : f32
              %414 = memref.load %87[%41] : memref<40xf32>
              %415 = memref.load %87[%43] : memref<40xf32>
              %416 = arith.addf %414, %415 : f32
              %417 = arith.mulf %72, %416 : f32
              %418 = math.fma %71, %413, %417 : f32
              %419 = math.fma %70, %410, %418 : f32
              memref.store %419, %88[%24] : memref<20xf32>
              %420 = memref.load %87[%43] : memref<40xf32>
              %421 = memref.load %87[%41] : memref<40xf32>
              %422 = memref.load %87[%45] : memref<40xf32>
              %423 = arith.addf %421, %422 : f32
              %424 = memref.load %87[%42] : memref<40xf32>
              %425 = memref.load %87[%44] : memref<40xf32>
              %426 = arith.addf %424, %425 : f32
              %427 = arith.mulf %72, %426 : f32
              %428 = math.fma %71, %423, %427 : f32
              %429 = math.fma %70, %420, %428 : f32
              memref.store %429, %88[%25] : memref<20xf32>
              %430 = memref.load %87[%44] : memref<40xf32>
              %431 = memref.load %87[%42] : memref<40xf32>
              %432 = memref.load %87[%46] : memref<40xf32>
              %433 = arith.addf %431, %432 : f32
              %434 = memref.load %87[%43] : memref<40xf32>
              %435 = memref.load %87[%45] : memref<40xf32>
              %436 = arith.addf %434, %435 : f32
              %437 = arith.mulf %72, %436 : f32
              %438 = math.fma %71, %433, %437 : f32
              %439 = math.fma %70, %430, %438 : f32
              memref.store %439, %88[%26] : memref<20xf32>
              %440 = memref.load %87[%45] : memref<40xf32>
              %441 = memref.load %87[%43] : memref<40xf32>
              %442 = memref.load %87[%47] : memref<40xf32>
              %443 = arith.addf %441, %442 : f32
              %444 = memref.load %87[%44] : memref<40xf32>
              %445 = memref.load %87[%46] : memref<40xf32>
              %446 = arith.addf %444, %445 : f32
              %447 = arith.mulf %72, %446 : f32
              %448 = math.fma %71, %443, %447 : f32
              %449 = math.fma %70, %440, %448 : f32
              memref.store %449, %88[%27] : memref<20xf32>
              %450 = memref.load %88[%16] : memref<20xf32>
              %451 = memref.load %88[%8] : memref<20xf32>
              %452 = memref.load %88[%24] : memref<20xf32>
              %453 = arith.addf %451, %452 : f32
              %454 = memref.load %88[%12] : memref<20xf32>
              %455 = memref.load %88[%20] : memref<20xf32>
              %456 = arith.addf %454, %455 : f32
              %457 = arith.mulf %72, %456 : f32
              %458 = math.fma %71, %453, %457 : f32
              %459 = math.fma %70, %450, %458 : f32
              memref.store %459, %89[%8] : memref<4xf32>
              %460 = memref.load %88[%17] : memref<20xf32>
              %461 = memref.load %88[%9] : memref<20xf32>
              %462 = memref.load %88[%25] : memref<20xf32>
              %463 = arith.addf %461, %462 : f32
              %464 = memref.load %88[%13] : memref<20xf32>
              %465 = memref.load %88[%21] : memref<20xf32>
              %466 = arith.addf %464, %465 : f32
              %467 = arith.mulf %72, %466 : f32
              %468 = math.fma %71, %463, %467 : f32
              %469 = math.fma %70, %460, %468 : f32
              memref.store %469, %89[%9] : memref<4xf32>
              %470 = memref.load %88[%18] : memref<20xf32>
              %471 = memref.load %88[%10] : memref<20xf32>
              %472 = memref.load %88[%26] : memref<20xf32>
              %473 = arith.addf %471, %472 : f32
              %474 = memref.load %88[%14] : memref<20xf32>
              %475 = memref.load %88[%22] : memref<20xf32>
              %476 = arith.addf %474, %475 : f32
              %477 = arith.mulf %72, %476 : f32
              %478 = math.fma %71, %473, %477 : f32
              %479 = math.fma %70, %470, %478 : f32
              memref.store %479, %89[%10] : memref<4xf32>
              %480 = memref.load %88[%19] : memref<20xf32>
              %481 = memref.load %88[%11] : memref<20xf32>
              %482 = memref.load %88[%27] : memref<20xf32>
              %483 = arith.addf %481, %482 : f32
              %484 = memref.load %88[%15] : memref<20xf32>
              %485 = memref.load %88[%23] : memref<20xf32>
              %486 = arith.addf %484, %485 : f32
              %487 = arith.mulf %72, %486 : f32
              %488 = math.fma %71, %483, %487 : f32
              %489 = math.fma %70, %480, %488 : f32
              memref.store %489, %89[%11] : memref<4xf32>
              %490 = arith.addf %73, %4 : f32
              %491 = memref.load %87[%26] : memref<40xf32>
              %492 = memref.load %89[%8] : memref<4xf32>
              %493 = arith.subf %491, %492 : f32
              %494 = math.fma %490, %493, %492 : f32
              memref.store %494, %90[%8] : memref<4xf32>
              %495 = arith.addf %73, %4 : f32
              %496 = memref.load %87[%27] : memref<40xf32>
              %497 = memref.load %89[%9] : memref<4xf32>
              %498 = arith.subf %496, %497 : f32
              %499 = math.fma %495, %498, %497 : f32
              memref.store %499, %90[%9] : memref<4xf32>
              %500 = arith.addf %73, %4 : f32
              %501 = memref.load %87[%28] : memref<40xf32>
              %502 = memref.load %89[%10] : memref<4xf32>
              %503 = arith.subf %501, %502 : f32
              %504 = math.fma %500, %503, %502 : f32
              memref.store %504, %90[%10] : memref<4xf32>
              %505 = arith.addf %73, %4 : f32
              %506 = memref.load %87[%29] : memref<40xf32>
              %507 = memref.load %89[%11] : memref<4xf32>
              %508 = arith.subf %506, %507 : f32
              %509 = math.fma %505, %508, %507 : f32
              memref.store %509, %90[%11] : memref<4xf32>
              %510 = arith.addi %198, %76 overflow<nsw> : i64
              %511 = arith.cmpi sge, %510, %54 : i64
              %512 = arith.cmpi sge, %142, %50 : i64
              %513 = arith.andi %511, %512 : i1
              %514 = arith.cmpi slt, %142, %74 : i64
              %515 = arith.andi %513, %514 : i1
              scf.if %515 {
                %516 = vector.load %90[%8] {alignment = 16 : i64} : memref<4xf32>, vector<4xf32>
                %517 = arith.muli %136, %49 overflow<nsw> : i64
                %518 = arith.addi %198, %517 overflow<nsw> : i64
                %519 = arith.addi %518, %77 overflow<nsw> : i64
                %520 = arith.muli %519, %3 overflow<nsw> : i64
                %521 = arith.muli %142, %58 overflow<nsw> : i64
                %522 = arith.addi %520, %521 overflow<nsw> : i64
                %523 = arith.muli %138, %52 overflow<nsw> : i64
                %524 = arith.addi %522, %523 overflow<nsw> : i64
                %525 = arith.muli %144, %56 overflow<nsw> : i64
                %526 = arith.addi %524, %525 overflow<nsw> : i64
                %527 = arith.addi %526, %60 overflow<nsw> : i64
                %528 = arith.index_cast %527 : i64 to index
                vector.store %516, %1[%528] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              }
              %529 = arith.muli %136, %49 overflow<nsw> : i64
              %530 = arith.addi %198, %58 overflow<nsw> : i64
              %531 = arith.minsi %530, %67 : i64
              %532 = arith.addi %529, %531 overflow<nsw> : i64
              %533 = arith.addi %532, %57 overflow<nsw> : i64
              %534 = arith.muli %533, %3 overflow<nsw> : i64
              %535 = arith.muli %142, %58 overflow<nsw> : i64
              %536 = arith.addi %534, %535 overflow<nsw> : i64
              %537 = arith.muli %138, %52 overflow<nsw> : i64
              %538 = arith.addi %536, %537 overflow<nsw> : i64
              %539 = arith.muli %144, %56 overflow<nsw> : i64
              %540 = arith.addi %538, %539 overflow<nsw> : i64
              %541 = arith.addi %540, %60 overflow<nsw> : i64
              %542 = arith.index_cast %541 : i64 to index
              memref.prefetch %0[%542], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %543 = vector.load %0[%212] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              vector.store %543, %87[%26] {alignment = 8 : i64} : memref<40xf32>, vector<4xf32>
              %544 = memref.load %87[%10] : memref<40xf32>
              memref.store %544, %91[%8] : memref<4xf32>
              %545 = memref.load %87[%11] : memref<40xf32>
              memref.store %545, %91[%9] : memref<4xf32>
              %546 = memref.load %87[%12] : memref<40xf32>
              memref.store %546, %91[%10] : memref<4xf32>
              %547 = memref.load %87[%13] : memref<40xf32>
              memref.store %547, %91[%11] : memref<4xf32>
              %548 = memref.load %91[%10] : memref<4xf32>
              %549, %550 = gpu.shuffle idx %548, %232, %55 : f32
              memref.store %549, %87[%8] : memref<40xf32>
              %551 = memref.load %91[%11] : memref<4xf32>
              %552, %553 = gpu.shuffle idx %551, %232, %55 : f32
              memref.store %552, %87[%9] : memref<40xf32>
              %554 = memref.load %91[%8] : memref<4xf32>
              %555, %556 = gpu.shuffle idx %554, %239, %55 : f32
              memref.store %555, %87[%14] : memref<40xf32>
              %557 = memref.load %91[%9] : memref<4xf32>
              %558, %559 = gpu.shuffle idx %557, %239, %55 : f32
              memref.store %558, %87[%15] : memref<40xf32>
              %560 = memref.load %87[%10] : memref<40xf32>
              %561 = memref.load %87[%8] : memref<40xf32>
              %562 = memref.load %87[%12] : memref<40xf32>
              %563 = arith.addf %561, %562 : f32
              %564 = memref.load %87[%9] : memref<40xf32>
              %565 = memref.load %87[%11] : memref<40xf32>
              %566 = arith.addf %564, %565 : f32
              %567 = arith.mulf %72, %566 : f32
              %568 = math.fma %71, %563, %567 : f32
              %569 = math.fma %70, %560, %568 : f32
              memref.store %569, %88[%8] : memref<20xf32>
              %570 = memref.load %87[%11] : memref<40xf32>
              %571 = memref.load %87[%9] : memref<40xf32>
              %572 = memref.load %87[%13] : memref<40xf32>
              %573 = arith.addf %571, %572 : f32
              %574 = memref.load %87[%10] : memref<40xf32>
              %575 = memref.load %87[%12] : memref<40xf32>
              %576 = arith.addf %574, %575 : f32
              %577 = arith.mulf %72, %576 : f32
              %578 = math.fma %71, %573, %577 : f32
              %579 = math.fma %70, %570, %578 : f32
              memref.store %579, %88[%9] : memref<20xf32>
              %580 = memref.load %87[%12] : memref<40xf32>
              %581 = memref.load %87[%10] : memref<40xf32>
              %582 = memref.load %87[%14] : memref<40xf32>
              %583 = arith.addf %581, %582 : f32
              %584 = memref.load %87[%11] : memref<40xf32>
              %585 = memref.load %87[%13] : memref<40xf32>
              %586 = arith.addf %584, %585 : f32
              %587 = arith.mulf %72, %586 : f32
              %588 = math.fma %71, %583, %587 : f32
              %589 = math.fma %70, %580, %588 : f32
              memref.store %589, %88[%10] : memref<20xf32>
              %590 = memref.load %87[%13] : memref<40xf32>
              %591 = memref.load %87[%11] : memref<40xf32>
              %592 = memref.load %87[%15] : memref<40xf32>
              %593 = arith.addf %591, %592 : f32
              %594 = memref.load %87[%12] : memref<40xf32>
              %595 = memref.load %87[%14] : memref<40xf32>
              %596 = arith.addf %594, %595 : f32
              %597 = arith.mulf %72, %596 : f32
              %598 = math.fma %71, %593, %597 : f32
              %599 = math.fma %70, %590, %598 : f32
              memref.store %599, %88[%11] : memref<20xf32>
              %600 = memref.load %88[%20] : memref<20xf32>
              %601 = memref.load %88[%12] : memref<20xf32>
              %602 = memref.load %88[%8] : memref<20xf32>
              %603 = arith.addf %601, %602 : f32
              %604 = memref.load %88[%16] : memref<20xf32>
              %605 = memref.load %88[%24] : memref<20xf32>
              %606 = arith.addf %604, %605 : f32
              %607 = arith.mulf %72, %606 : f32
              %608 = math.fma %71, %603, %607 : f32
              %609 = math.fma %70, %600, %608 : f32
              memref.store %609, %89[%8] : memref<4xf32>
              %610 = memref.load %88[%21] : memref<20xf32>
              %611 = memref.load %88[%13] : memref<20xf32>
              %612 = memref.load %88[%9] : memref<20xf32>
              %613 = arith.addf %611, %612 : f32
              %614 = memref.load %88[%17] : memref<20xf32>
              %615 = memref.load %88[%25] : memref<20xf32>
              %616 = arith.addf %614, %615 : f32
              %617 = arith.mulf %72, %616 : f32
              %618 = math.fma %71, %613, %617 : f32
              %619 = math.fma %70, %610, %618 : f32
              memref.store %619, %89[%9] : memref<4xf32>
              %620 = memref.load %88[%22] : memref<20xf32>
              %621 = memref.load %88[%14] : memref<20xf32>
              %622 = memref.load %88[%10] : memref<20xf32>
              %623 = arith.addf %621, %622 : f32
              %624 = memref.load %88[%18] : memref<20xf32>
              %625 = memref.load %88[%26] : memref<20xf32>
              %626 = arith.addf %624, %625 : f32
              %627 = arith.mulf %72, %626 : f32
              %628 = math.fma %71, %623, %627 : f32
              %629 = math.fma %70, %620, %628 : f32
              memref.store %629, %89[%10] : memref<4xf32>
              %630 = memref.load %88[%23] : memref<20xf32>
              %631 = memref.load %88[%15] : memref<20xf32>
              %632 = memref.load %88[%11] : memref<20xf32>
              %633 = arith.addf %631, %632 : f32
              %634 = memref.load %88[%19] : memref<20xf32>
              %635 = memref.load %88[%27] : memref<20xf32>
              %636 = arith.addf %634, %635 : f32
              %637 = arith.mulf %72, %636 : f32
              %638 = math.fma %71, %633, %637 : f32
              %639 = math.fma %70, %630, %638 : f32
              memref.store %639, %89[%11] : memref<4xf32>
              %640 = arith.addf %73, %4 : f32
              %641 = memref.load %87[%34] : memref<40xf32>
              %642 = memref.load %89[%8] : memref<4xf32>
              %643 = arith.subf %641, %642 : f32
              %644 = math.fma %640, %643, %642 : f32
              memref.store %644, %90[%8] : memref<4xf32>
              %645 = arith.addf %73, %4 : f32
              %646 = memref.load %87[%35] : memref<40xf32>
              %647 = memref.load %89[%9] : memref<4xf32>
              %648 = arith.subf %646, %647 : f32
              %649 = math.fma %645, %648, %647 : f32
              memref.store %649, %90[%9] : memref<4xf32>
              %650 = arith.addf %73, %4 : f32
              %651 = memref.load %87[%36] : memref<40xf32>
              %652 = memref.load %89[%10] : memref<4xf32>
              %653 = arith.subf %651, %652 : f32
              %654 = math.fma %650, %653, %652 : f32
              memref.store %654, %90[%10] : memref<4xf32>
              %655 = arith.addf %73, %4 : f32
              %656 = memref.load %87[%37] : memref<40xf32>
              %657 = memref.load %89[%11] : memref<4xf32>
              %658 = arith.subf %656, %657 : f32
              %659 = math.fma %655, %658, %657 : f32
              memref.store %659, %90[%11] : memref<4xf32>
              %660 = arith.addi %198, %57 overflow<nsw> : i64
              %661 = arith.cmpi sge, %660, %54 : i64
              %662 = arith.cmpi sge, %142, %50 : i64
              %663 = arith.andi %661, %662 : i1
              %664 = arith.cmpi slt, %142, %74 : i64
              %665 = arith.andi %663, %664 : i1
              scf.if %665 {
                %666 = vector.load %90[%8] {alignment = 16 : i64} : memref<4xf32>, vector<4xf32>
                %667 = arith.muli %136, %49 overflow<nsw> : i64
                %668 = arith.addi %198, %667 overflow<nsw> : i64
                %669 = arith.addi %668, %60 overflow<nsw> : i64
                %670 = arith.muli %669, %3 overflow<nsw> : i64
                %671 = arith.muli %142, %58 overflow<nsw> : i64
                %672 = arith.addi %670, %671 overflow<nsw> : i64
                %673 = arith.muli %138, %52 overflow<nsw> : i64
                %674 = arith.addi %672, %673 overflow<nsw> : i64
                %675 = arith.muli %144, %56 overflow<nsw> : i64
                %676 = arith.addi %674, %675 overflow<nsw> : i64
                %677 = arith.addi %676, %60 overflow<nsw> : i64
                %678 = arith.index_cast %677 : i64 to index
                vector.store %666, %1[%678] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              }
              %679 = arith.muli %136, %49 overflow<nsw> : i64
              %680 = arith.addi %198, %66 overflow<nsw> : i64
              %681 = arith.minsi %680, %67 : i64
              %682 = arith.addi %679, %681 overflow<nsw> : i64
              %683 = arith.addi %682, %57 overflow<nsw> : i64
              %684 = arith.muli %683, %3 overflow<nsw> : i64
              %685 = arith.muli %142, %58 overflow<nsw> : i64
              %686 = arith.addi %684, %685 overflow<nsw> : i64
              %687 = arith.muli %138, %52 overflow<nsw> : i64
              %688 = arith.addi %686, %687 overflow<nsw> : i64
              %689 = arith.muli %144, %56 overflow<nsw> : i64
              %690 = arith.addi %688, %689 overflow<nsw> : i64
              %691 = arith.addi %690, %60 overflow<nsw> : i64
              %692 = arith.index_cast %691 : i64 to index
              memref.prefetch %0[%692], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %693 = vector.load %0[%378] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              vector.store %693, %87[%34] {alignment = 8 : i64} : memref<40xf32>, vector<4xf32>
              %694 = memref.load %87[%18] : memref<40xf32>
              memref.store %694, %91[%8] : memref<4xf32>
              %695 = memref.load %87[%19] : memref<40xf32>
              memref.store %695, %91[%9] : memref<4xf32>
              %696 = memref.load %87[%20] : memref<40xf32>
              memref.store %696, %91[%10] : memref<4xf32>
              %697 = memref.load %87[%21] : memref<40xf32>
              memref.store %697, %91[%11] : memref<4xf32>
              %698 = memref.load %91[%10] : memref<4xf32>
              %699, %700 = gpu.shuffle idx %698, %232, %55 : f32
              memref.store %699, %87[%16] : memref<40xf32>
              %701 = memref.load %91[%11] : memref<4xf32>
              %702, %703 = gpu.shuffle idx %701, %232, %55 : f32
              memref.store %702, %87[%17] : memref<40xf32>
              %704 = memref.load %91[%8] : memref<4xf32>
              %705, %706 = gpu.shuffle idx %704, %239, %55 : f32
              memref.store %705, %87[%22] : memref<40xf32>
              %707 = memref.load %91[%9] : memref<4xf32>
              %708, %709 = gpu.shuffle idx %707, %239, %55 : f32
              memref.store %708, %87[%23] : memref<40xf32>
              %710 = memref.load %87[%18] : memref<40xf32>
              %711 = memref.load %87[%16] : memref<40xf32>
              %712 = memref.load %87[%20] : memref<40xf32>
              %713 = arith.addf %711, %712 : f32
              %714 = memref.load %87[%17] : memref<40xf32>
              %715 = memref.load %87[%19] : memref<40xf32>
              %716 = arith.addf %714, %715 : f32
              %717 = arith.mulf %72, %716 : f32
              %718 = math.fma %71, %713, %717 : f32
              %719 = math.fma %70, %710, %718 : f32
              memref.store %719, %88[%12] : memref<20xf32>
              %720 = memref.load %87[%19] : memref<40xf32>
              %721 = memref.load %87[%17] : memref<40xf32>
              %722 = memref.load %87[%21] : memref<40xf32>
              %723 = arith.addf %721, %722 : f32
              %724 = memref.load %87[%18] : memref<40xf32>
              %725 = memref.load %87[%20] : memref<40xf32>
              %726 = arith.addf %724, %725 : f32
              %727 = arith.mulf %72, %726 : f32
              %728 = math.fma %71, %723, %727 : f32
              %729 = math.fma %70, %720, %728 : f32
              memref.store %729, %88[%13] : memref<20xf32>
              %730 = memref.load %87[%20] : memref<40xf32>
              %731 = memref.load %87[%18] : memref<40xf32>
              %732 = memref.load %87[%22] : memref<40xf32>
              %733 = arith.addf %731, %732 : f32
              %734 = memref.load %87[%19] : memref<40xf32>
              %735 = memref.load %87[%21] : memref<40xf32>
              %736 = arith.addf %734, %735 : f32
              %737 = arith.mulf %72, %736 : f32
              %738 = math.fma %71, %733, %737 : f32
              %739 = math.fma %70, %730, %738 : f32
              memref.store %739, %88[%14] : memref<20xf32>
              %740 = memref.load %87[%21] : memref<40xf32>
              %741 = memref.load %87[%19] : memref<40xf32>
              %742 = memref.load %87[%23] : memref<40xf32>
              %743 = arith.addf %741, %742 : f32
              %744 = memref.load %87[%20] : memref<40xf32>
              %745 = memref.load %87[%22] : memref<40xf32>
              %746 = arith.addf %744, %745 : f32
              %747 = arith.mulf %72, %746 : f32
              %748 = math.fma %71, %743, %747 : f32
              %749 = math.fma %70, %740, %748 : f32
              memref.store %749, %88[%15] : memref<20xf32>
              %750 = memref.load %88[%24] : memref<20xf32>
              %751 = memref.load %88[%16] : memref<20xf32>
              %752 = memref.load %88[%12] : memref<20xf32>
              %753 = arith.addf %751, %752 : f32
              %754 = memref.load %88[%20] : memref<20xf32>
              %755 = memref.load %88[%8] : memref<20xf32>
              %756 = arith.addf %754, %755 : f32
              %757 = arith.mulf %72, %756 : f32
              %758 = math.fma %71, %753, %757 : f32
              %759 = math.fma %70, %750, %758 : f32
              memref.store %759, %89[%8] : memref<4xf32>
              %760 = memref.load %88[%25] : memref<20xf32>
              %761 = memref.load %88[%17] : memref<20xf32>
              %762 = memref.load %88[%13] : memref<20xf32>
              %763 = arith.addf %761, %762 : f32
              %764 = memref.load %88[%21] : memref<20xf32>
              %765 = memref.load %88[%9] : memref<20xf32>
              %766 = arith.addf %764, %765 : f32
              %767 = arith.mulf %72, %766 : f32
              %768 = math.fma %71, %763, %767 : f32
              %769 = math.fma %70, %760, %768 : f32
              memref.store %769, %89[%9] : memref<4xf32>
              %770 = memref.load %88[%26] : memref<20xf32>
              %771 = memref.load %88[%18] : memref<20xf32>
              %772 = memref.load %88[%14] : memref<20xf32>
              %773 = arith.addf %771, %772 : f32
              %774 = memref.load %88[%22] : memref<20xf32>
              %775 = memref.load %88[%10] : memref<20xf32>
              %776 = arith.addf %774, %775 : f32
              %777 = arith.mulf %72, %776 : f32
              %778 = math.fma %71, %773, %777 : f32
              %779 = math.fma %70, %770, %778 : f32
              memref.store %779, %89[%10] : memref<4xf32>
              %780 = memref.load %88[%27] : memref<20xf32>
              %781 = memref.load %88[%19] : memref<20xf32>
              %782 = memref.load %88[%15] : memref<20xf32>
              %783 = arith.addf %781, %782 : f32
              %784 = memref.load %88[%23] : memref<20xf32>
              %785 = memref.load %88[%11] : memref<20xf32>
              %786 = arith.addf %784, %785 : f32
              %787 = arith.mulf %72, %786 : f32
              %788 = math.fma %71, %783, %787 : f32
              %789 = math.fma %70, %780, %788 : f32
              memref.store %789, %89[%11] : memref<4xf32>
              %790 = arith.addf %73, %4 : f32
              %791 = memref.load %87[%42] : memref<40xf32>
              %792 = memref.load %89[%8] : memref<4xf32>
              %793 = arith.subf %791, %792 : f32
              %794 = math.fma %790, %793, %792 : f32
              memref.store %794, %90[%8] : memref<4xf32>
              %795 = arith.addf %73, %4 : f32
              %796 = memref.load %87[%43] : memref<40xf32>
              %797 = memref.load %89[%9] : memref<4xf32>
              %798 = arith.subf %796, %797 : f32
              %799 = math.fma %795, %798, %797 : f32
              memref.store %799, %90[%9] : memref<4xf32>
              %800 = arith.addf %73, %4 : f32
              %801 = memref.load %87[%44] : memref<40xf32>
              %802 = memref.load %89[%10] : memref<4xf32>
              %803 = arith.subf %801, %802 : f32
              %804 = math.fma %800, %803, %802 : f32
              memref.store %804, %90[%10] : memref<4xf32>
              %805 = arith.addf %73, %4 : f32
              %806 = memref.load %87[%45] : memref<40xf32>
              %807 = memref.load %89[%11] : memref<4xf32>
              %808 = arith.subf %806, %807 : f32
              %809 = math.fma %805, %808, %807 : f32
              memref.store %809, %90[%11] : memref<4xf32>
              %810 = arith.addi %198, %64 overflow<nsw> : i64
              %811 = arith.cmpi sge, %810, %54 : i64
              %812 = arith.cmpi sge, %142, %50 : i64
              %813 = arith.andi %811, %812 : i1
              %814 = arith.cmpi slt, %142, %74 : i64
              %815 = arith.andi %813, %814 : i1
              scf.if %815 {
                %816 = vector.load %90[%8] {alignment = 16 : i64} : memref<4xf32>, vector<4xf32>
                %817 = arith.muli %136, %49 overflow<nsw> : i64
                %818 = arith.addi %198, %817 overflow<nsw> : i64
                %819 = arith.addi %818, %76 overflow<nsw> : i64
                %820 = arith.muli %819, %3 overflow<nsw> : i64
                %821 = arith.muli %142, %58 overflow<nsw> : i64
                %822 = arith.addi %820, %821 overflow<nsw> : i64
                %823 = arith.muli %138, %52 overflow<nsw> : i64
                %824 = arith.addi %822, %823 overflow<nsw> : i64
                %825 = arith.muli %144, %56 overflow<nsw> : i64
                %826 = arith.addi %824, %825 overflow<nsw> : i64
                %827 = arith.addi %826, %60 overflow<nsw> : i64
                %828 = arith.index_cast %827 : i64 to index
                vector.store %816, %1[%828] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              }
              %829 = arith.muli %136, %49 overflow<nsw> : i64
              %830 = arith.addi %198, %78 overflow<nsw> : i64
              %831 = arith.minsi %830, %67 : i64
              %832 = arith.addi %829, %831 overflow<nsw> : i64
              %833 = arith.addi %832, %57 overflow<nsw> : i64
              %834 = arith.muli %833, %3 overflow<nsw> : i64
              %835 = arith.muli %142, %58 overflow<nsw> : i64
              %836 = arith.addi %834, %835 overflow<nsw> : i64
              %837 = arith.muli %138, %52 overflow<nsw> : i64
              %838 = arith.addi %836, %837 overflow<nsw> : i64
              %839 = arith.muli %144, %56 overflow<nsw> : i64
              %840 = arith.addi %838, %839 overflow<nsw> : i64
              %841 = arith.addi %840, %60 overflow<nsw> : i64
              %842 = arith.index_cast %841 : i64 to index
              memref.prefetch %0[%842], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %843 = vector.load %0[%542] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              vector.store %843, %87[%42] {alignment = 8 : i64} : memref<40xf32>, vector<4xf32>
              %844 = memref.load %87[%26] : memref<40xf32>
              memref.store %844, %91[%8] : memref<4xf32>
              %845 = memref.load %87[%27] : memref<40xf32>
              memref.store %845, %91[%9] : memref<4xf32>
              %846 = memref.load %87[%28] : memref<40xf32>
              memref.store %846, %91[%10] : memref<4xf32>
              %847 = memref.load %87[%29] : memref<40xf32>
              memref.store %847, %91[%11] : memref<4xf32>
              %848 = memref.load %91[%10] : memref<4xf32>
              %849, %850 = gpu.shuffle idx %848, %232, %55 : f32
              memref.store %849, %87[%24] : memref<40xf32>
              %851 = memref.load %91[%11] : memref<4xf32>
              %852, %853 = gpu.shuffle idx %851, %232, %55 : f32
              memref.store %852, %87[%25] : memref<40xf32>
              %854 = memref.load %91[%8] : memref<4xf32>
              %855, %856 = gpu.shuffle idx %854, %239, %55 : f32
              memref.store %855, %87[%30] : memref<40xf32>
              %857 = memref.load %91[%9] : memref<4xf32>
              %858, %859 = gpu.shuffle idx %857, %239, %55 : f32
              memref.store %858, %87[%31] : memref<40xf32>
              %860 = memref.load %87[%26] : memref<40xf32>
              %861 = memref.load %87[%24] : memref<40xf32>
              %862 = memref.load %87[%28] : memref<40xf32>
              %863 = arith.addf %861, %862 : f32
              %864 = memref.load %87[%25] : memref<40xf32>
              %865 = memref.load %87[%27] : memref<40xf32>
              %866 = arith.addf %864, %865 : f32
              %867 = arith.mulf %72, %866 : f32
              %868 = math.fma %71, %863, %867 : f32
              %869 = math.fma %70, %860, %868 : f32
              memref.store %869, %88[%16] : memref<20xf32>
              %870 = memref.load %87[%27] : memref<40xf32>
              %871 = memref.load %87[%25] : memref<40xf32>
              %872 = memref.load %87[%29] : memref<40xf32>
              %873 = arith.addf %871, %872 : f32
              %874 = memref.load %87[%26] : memref<40xf32>
              %875 = memref.load %87[%28] : memref<40xf32>
              %876 = arith.addf %874, %875 : f32
              %877 = arith.mulf %72, %876 : f32
              %878 = math.fma %71, %873, %877 : f32
              %879 = math.fma %70, %870, %878 : f32
              memref.store %879, %88[%17] : memref<20xf32>
              %880 = memref.load %87[%28] : memref<40xf32>
              %881 = memref.load %87[%26] : memref<40xf32>
              %882 = memref.load %87[%30] : memref<40xf32>
              %883 = arith.addf %881, %882 : f32
              %884 = memref.load %87[%27] : memref<40xf32>
              %885 = memref.load %87[%29] : memref<40xf32>
              %886 = arith.addf %884, %885 : f32
              %887 = arith.mulf %72, %886 : f32
              %888 = math.fma %71, %883, %887 : f32
              %889 = math.fma %70, %880, %888 : f32
              memref.store %889, %88[%18] : memref<20xf32>
              %890 = memref.load %87[%29] : memref<40xf32>
              %891 = memref.load %87[%27] : memref<40xf32>
              %892 = memref.load %87[%31] : memref<40xf32>
              %893 = arith.addf %891, %892 : f32
              %894 = memref.load %87[%28] : memref<40xf32>
              %895 = memref.load %87[%30] : memref<40xf32>
              %896 = arith.addf %894, %895 : f32
              %897 = arith.mulf %72, %896 : f32
              %898 = math.fma %71, %893, %897 : f32
              %899 = math.fma %70, %890, %898 : f32
              memref.store %899, %88[%19] : memref<20xf32>
              %900 = memref.load %88[%8] : memref<20xf32>
              %901 = memref.load %88[%20] : memref<20xf32>
              %902 = memref.load %88[%16] : memref<20xf32>
              %903 = arith.addf %901, %902 : f32
              %904 = memref.load %88[%24] : memref<20xf32>
              %905 = memref.load %88[%12] : memref<20xf32>
              %906 = arith.addf %904, %905 : f32
              %907 = arith.mulf %72, %906 : f32
              %908 = math.fma %71, %903, %907 : f32
              %909 = math.fma %70, %900, %908 : f32
              memref.store %909, %89[%8] : memref<4xf32>
              %910 = memref.load %88[%9] : memref<20xf32>
              %911 = memref.load %88[%21] : memref<20xf32>
              %912 = memref.load %88[%17] : memref<20xf32>
              %913 = arith.addf %911, %912 : f32
              %914 = memref.load %88[%25] : memref<20xf32>
              %915 = memref.load %88[%13] : memref<20xf32>
              %916 = arith.addf %914, %915 : f32
              %917 = arith.mulf %72, %916 : f32
              %918 = math.fma %71, %913, %917 : f32
              %919 = math.fma %70, %910, %918 : f32
              memref.store %919, %89[%9] : memref<4xf32>
              %920 = memref.load %88[%10] : memref<20xf32>
              %921 = memref.load %88[%22] : memref<20xf32>
              %922 = memref.load %88[%18] : memref<20xf32>
              %923 = arith.addf %921, %922 : f32
              %924 = memref.load %88[%26] : memref<20xf32>
              %925 = memref.load %88[%14] : memref<20xf32>
              %926 = arith.addf %924, %925 : f32
              %927 = arith.mulf %72, %926 : f32
              %928 = math.fma %71, %923, %927 : f32
              %929 = math.fma %70, %920, %928 : f32
              memref.store %929, %89[%10] : memref<4xf32>
              %930 = memref.load %88[%11] : memref<20xf32>
              %931 = memref.load %88[%23] : memref<20xf32>
              %932 = memref.load %88[%19] : memref<20xf32>
              %933 = arith.addf %931, %932 : f32
              %934 = memref.load %88[%27] : memref<20xf32>
              %935 = memref.load %88[%15] : memref<20xf32>
              %936 = arith.addf %934, %935 : f32
              %937 = arith.mulf %72, %936 : f32
              %938 = math.fma %71, %933, %937 : f32
              %939 = math.fma %70, %930, %938 : f32
              memref.store %939, %89[%11] : memref<4xf32>
              %940 = arith.addf %73, %4 : f32
              %941 = memref.load %87[%10] : memref<40xf32>
              %942 = memref.load %89[%8] : memref<4xf32>
              %943 = arith.subf %941, %942 : f32
              %944 = math.fma %940, %943, %942 : f32
              memref.store %944, %90[%8] : memref<4xf32>
              %945 = arith.addf %73, %4 : f32
              %946 = memref.load %87[%11] : memref<40xf32>
              %947 = memref.load %89[%9] : memref<4xf32>
              %948 = arith.subf %946, %947 : f32
              %949 = math.fma %945, %948, %947 : f32
              memref.store %949, %90[%9] : memref<4xf32>
              %950 = arith.addf %73, %4 : f32
              %951 = memref.load %87[%12] : memref<40xf32>
              %952 = memref.load %89[%10] : memref<4xf32>
              %953 = arith.subf %951, %952 : f32
              %954 = math.fma %950, %953, %952 : f32
              memref.store %954, %90[%10] : memref<4xf32>
              %955 = arith.addf %73, %4 : f32
              %956 = memref.load %87[%13] : memref<40xf32>
              %957 = memref.load %89[%11] : memref<4xf32>
              %958 = arith.subf %956, %957 : f32
              %959 = math.fma %955, %958, %957 : f32
              memref.store %959, %90[%11] : memref<4xf32>
              %960 = arith.cmpi sge, %198, %54 : i64
              %961 = arith.cmpi sge, %142, %50 : i64
              %962 = arith.andi %960, %961 : i1
              %963 = arith.cmpi slt, %142, %74 : i64
              %964 = arith.andi %962, %963 : i1
              scf.if %964 {
                %965 = vector.load %90[%8] {alignment = 16 : i64} : memref<4xf32>, vector<4xf32>
                %966 = arith.muli %136, %49 overflow<nsw> : i64
                %967 = arith.addi %198, %966 overflow<nsw> : i64
                %968 = arith.addi %967, %57 overflow<nsw> : i64
                %969 = arith.muli %968, %3 overflow<nsw> : i64
                %970 = arith.muli %142, %58 overflow<nsw> : i64
                %971 = arith.addi %969, %970 overflow<nsw> : i64
                %972 = arith.muli %138, %52 overflow<nsw> : i64
                %973 = arith.addi %971, %972 overflow<nsw> : i64
                %974 = arith.muli %144, %56 overflow<nsw> : i64
                %975 = arith.addi %973, %974 overflow<nsw> : i64
                %976 = arith.addi %975, %60 overflow<nsw> : i64
                %977 = arith.index_cast %976 : i64 to index
                vector.store %965, %1[%977] {alignment = 16 : i64} : memref<?xf32, #gpu.address_space<global>>, vector<4xf32>
              }
            }
          } else {
            %978 = arith.muli %150, %3 overflow<nsw> : i64
            %979 = arith.muli %142, %58 overflow<nsw> : i64
            %980 = arith.addi %978, %979 overflow<nsw> : i64
            %981 = arith.muli %138, %52 overflow<nsw> : i64
            %982 = arith.addi %980, %981 overflow<nsw> : i64
            %983 = arith.muli %144, %56 overflow<nsw> : i64
            %984 = arith.addi %982, %983 overflow<nsw> : i64
            %985 = arith.addi %984, %60 overflow<nsw> : i64
            %986 = arith.index_cast %985 : i64 to index
            memref.prefetch %0[%986], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
            %987 = arith.addi %149, %64 overflow<nsw> : i64
            %988 = arith.muli %987, %3 overflow<nsw> : i64
            %989 = arith.muli %142, %58 overflow<nsw> : i64
            %990 = arith.addi %988, %989 overflow<nsw> : i64
            %991 = arith.muli %138, %52 overflow<nsw> : i64
            %992 = arith.addi %990, %991 overflow<nsw> : i64
            %993 = arith.muli %144, %56 overflow<nsw> : i64
            %994 = arith.addi %992, %993 overflow<nsw> : i64
            %995 = arith.addi %994, %60 overflow<nsw> : i64
            %996 = arith.index_cast %995 : i64 to index
            memref.prefetch %0[%996], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
            scf.for %997 = %53 to %65 step %66  : i64 {
              %998 = arith.muli %136, %49 overflow<nsw> : i64
              %999 = arith.addi %997, %54 overflow<nsw> : i64
              %1000 = arith.minsi %999, %67 : i64
              %1001 = arith.addi %998, %1000 overflow<nsw> : i64
              %1002 = arith.addi %1001, %57 overflow<nsw> : i64
              %1003 = arith.muli %1002, %3 overflow<nsw> : i64
              %1004 = arith.muli %142, %58 overflow<nsw> : i64
              %1005 = arith.addi %1003, %1004 overflow<nsw> : i64
              %1006 = arith.muli %138, %52 overflow<nsw> : i64
              %1007 = arith.addi %1005, %1006 overflow<nsw> : i64
              %1008 = arith.muli %144, %56 overflow<nsw> : i64
              %1009 = arith.addi %1007, %1008 overflow<nsw> : i64
              %1010 = arith.addi %1009, %60 overflow<nsw> : i64
              %1011 = arith.index_cast %1010 : i64 to index
              memref.prefetch %0[%1011], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %1012 = arith.trunci %142 : i64 to i32
              %1013 = arith.muli %136, %49 overflow<nsw> : i64
              %1014 = arith.minsi %997, %67 : i64
              %1015 = arith.addi %1013, %1014 overflow<nsw> : i64
              %1016 = arith.addi %1015, %57 overflow<nsw> : i64
              %1017 = arith.muli %1016, %3 overflow<nsw> : i64
              %1018 = arith.muli %138, %52 overflow<nsw> : i64
              %1019 = arith.addi %1017, %1018 overflow<nsw> : i64
              %1020 = arith.muli %144, %56 overflow<nsw> : i64
              %1021 = arith.addi %1019, %1020 overflow<nsw> : i64
              %1022 = arith.addi %1021, %60 overflow<nsw> : i64
              %1023 = arith.muli %1012, %69 : i32
              %1024 = arith.extsi %1023 : i32 to i64
              %1025 = arith.addi %1022, %1024 : i64
              %1026 = arith.index_cast %1025 : i64 to index
              %1027 = memref.load %0[%1026] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1027, %92[%8] : memref<20xf32>
              %1028 = arith.addi %1026, %40 : index
              %1029 = memref.load %0[%1028] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1029, %92[%9] : memref<20xf32>
              %1030 = arith.addi %1026, %79 : index
              %1031 = memref.load %0[%1030] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1031, %92[%10] : memref<20xf32>
              %1032 = arith.addi %1026, %80 : index
              %1033 = memref.load %0[%1032] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1033, %92[%11] : memref<20xf32>
              %1034 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
              %1035 = arith.shrui %140, %81 : i32
              %1036 = arith.muli %1035, %82 : i32
              %1037 = arith.index_cast %1036 : i32 to index
              %1038 = arith.muli %1012, %83 : i32
              %1039 = arith.index_cast %1038 : i32 to index
              %1040 = arith.addi %1037, %1039 : index
              %1041 = arith.index_cast %1012 : i32 to index
              %1042 = arith.addi %1037, %1041 : index
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1043 = memref.load %92[%20] : memref<20xf32>
              memref.store %1043, %1034[%1042] : memref<528xf32, #gpu.address_space<workgroup>>
              %1044 = memref.load %92[%21] : memref<20xf32>
              %1045 = arith.addi %1042, %40 : index
              memref.store %1044, %1034[%1045] : memref<528xf32, #gpu.address_space<workgroup>>
              %1046 = memref.load %92[%22] : memref<20xf32>
              %1047 = arith.addi %1042, %79 : index
              memref.store %1046, %1034[%1047] : memref<528xf32, #gpu.address_space<workgroup>>
              %1048 = memref.load %92[%23] : memref<20xf32>
              %1049 = arith.addi %1042, %80 : index
              memref.store %1048, %1034[%1049] : memref<528xf32, #gpu.address_space<workgroup>>
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1050 = vector.load %1034[%1040] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
              %1051 = vector.extract %1050[0] : f32 from vector<4xf32>
              %1052 = vector.extract %1050[1] : f32 from vector<4xf32>
              %1053 = vector.extract %1050[2] : f32 from vector<4xf32>
              %1054 = vector.extract %1050[3] : f32 from vector<4xf32>
              memref.store %1051, %87[%34] : memref<40xf32>
              memref.store %1052, %87[%35] : memref<40xf32>
              memref.store %1053, %87[%36] : memref<40xf32>
              memref.store %1054, %87[%37] : memref<40xf32>
              %1055 = memref.load %87[%34] : memref<40xf32>
              memref.store %1055, %91[%8] : memref<4xf32>
              %1056 = memref.load %87[%35] : memref<40xf32>
              memref.store %1056, %91[%9] : memref<4xf32>
              %1057 = memref.load %87[%36] : memref<40xf32>
              memref.store %1057, %91[%10] : memref<4xf32>
              %1058 = memref.load %87[%37] : memref<40xf32>
              memref.store %1058, %91[%11] : memref<4xf32>
              %1059 = arith.addi %1012, %68 overflow<nsw> : i32
              %1060 = memref.load %91[%10] : memref<4xf32>
              %1061, %1062 = gpu.shuffle idx %1060, %1059, %55 : f32
              memref.store %1061, %87[%32] : memref<40xf32>
              %1063 = memref.load %91[%11] : memref<4xf32>
              %1064, %1065 = gpu.shuffle idx %1063, %1059, %55 : f32
              memref.store %1064, %87[%33] : memref<40xf32>
              %1066 = arith.addi %1012, %69 overflow<nsw> : i32
              %1067 = memref.load %91[%8] : memref<4xf32>
              %1068, %1069 = gpu.shuffle idx %1067, %1066, %55 : f32
              memref.store %1068, %87[%38] : memref<40xf32>
              %1070 = memref.load %91[%9] : memref<4xf32>
              %1071, %1072 = gpu.shuffle idx %1070, %1066, %55 : f32
              memref.store %1071, %87[%39] : memref<40xf32>
              %1073 = memref.load %87[%34] : memref<40xf32>
              %1074 = memref.load %87[%32] : memref<40xf32>
              %1075 = memref.load %87[%36] : memref<40xf32>
              %1076 = arith.addf %1074, %1075 : f32
              %1077 = memref.load %87[%33] : memref<40xf32>
              %1078 = memref.load %87[%35] : memref<40xf32>
              %1079 = arith.addf %1077, %1078 : f32
              %1080 = arith.mulf %72, %1079 : f32
              %1081 = math.fma %71, %1076, %1080 : f32
              %1082 = math.fma %70, %1073, %1081 : f32
              memref.store %1082, %88[%20] : memref<20xf32>
              %1083 = memref.load %87[%35] : memref<40xf32>
              %1084 = memref.load %87[%33] : memref<40xf32>
              %1085 = memref.load %87[%37] : memref<40xf32>
              %1086 = arith.addf %1084, %1085 : f32
              %1087 = memref.load %87[%34] : memref<40xf32>
              %1088 = memref.load %87[%36] : memref<40xf32>
              %1089 = arith.addf %1087, %1088 : f32
              %1090 = arith.mulf %72, %1089 : f32
              %1091 = math.fma %71, %1086, %1090 : f32
              %1092 = math.fma %70, %1083, %1091 : f32
              memref.store %1092, %88[%21] : memref<20xf32>
              %1093 = memref.load %87[%36] : memref<40xf32>
              %1094 = memref.load %87[%34] : memref<40xf32>
              %1095 = memref.load %87[%38] : memref<40xf32>
              %1096 = arith.addf %1094, %1095 : f32
              %1097 = memref.load %87[%35] : memref<40xf32>
              %1098 = memref.load %87[%37] : memref<40xf32>
              %1099 = arith.addf %1097, %1098 : f32
              %1100 = arith.mulf %72, %1099 : f32
              %1101 = math.fma %71, %1096, %1100 : f32
              %1102 = math.fma %70, %1093, %1101 : f32
              memref.store %1102, %88[%22] : memref<20xf32>
              %1103 = memref.load %87[%37] : memref<40xf32>
              %1104 = memref.load %87[%35] : memref<40xf32>
              %1105 = memref.load %87[%39] : memref<40xf32>
              %1106 = arith.addf %1104, %1105 : f32
              %1107 = memref.load %87[%36] : memref<40xf32>
              %1108 = memref.load %87[%38] : memref<40xf32>
              %1109 = arith.addf %1107, %1108 : f32
              %1110 = arith.mulf %72, %1109 : f32
              %1111 = math.fma %71, %1106, %1110 : f32
              %1112 = math.fma %70, %1103, %1111 : f32
              memref.store %1112, %88[%23] : memref<20xf32>
              %1113 = memref.load %88[%12] : memref<20xf32>
              %1114 = memref.load %88[%24] : memref<20xf32>
              %1115 = memref.load %88[%20] : memref<20xf32>
              %1116 = arith.addf %1114, %1115 : f32
              %1117 = memref.load %88[%8] : memref<20xf32>
              %1118 = memref.load %88[%16] : memref<20xf32>
              %1119 = arith.addf %1117, %1118 : f32
              %1120 = arith.mulf %72, %1119 : f32
              %1121 = math.fma %71, %1116, %1120 : f32
              %1122 = math.fma %70, %1113, %1121 : f32
              memref.store %1122, %89[%8] : memref<4xf32>
              %1123 = memref.load %88[%13] : memref<20xf32>
              %1124 = memref.load %88[%25] : memref<20xf32>
              %1125 = memref.load %88[%21] : memref<20xf32>
              %1126 = arith.addf %1124, %1125 : f32
              %1127 = memref.load %88[%9] : memref<20xf32>
              %1128 = memref.load %88[%17] : memref<20xf32>
              %1129 = arith.addf %1127, %1128 : f32
              %1130 = arith.mulf %72, %1129 : f32
              %1131 = math.fma %71, %1126, %1130 : f32
              %1132 = math.fma %70, %1123, %1131 : f32
              memref.store %1132, %89[%9] : memref<4xf32>
              %1133 = memref.load %88[%14] : memref<20xf32>
              %1134 = memref.load %88[%26] : memref<20xf32>
              %1135 = memref.load %88[%22] : memref<20xf32>
              %1136 = arith.addf %1134, %1135 : f32
              %1137 = memref.load %88[%10] : memref<20xf32>
              %1138 = memref.load %88[%18] : memref<20xf32>
              %1139 = arith.addf %1137, %1138 : f32
              %1140 = arith.mulf %72, %1139 : f32
              %1141 = math.fma %71, %1136, %1140 : f32
              %1142 = math.fma %70, %1133, %1141 : f32
              memref.store %1142, %89[%10] : memref<4xf32>
              %1143 = memref.load %88[%15] : memref<20xf32>
              %1144 = memref.load %88[%27] : memref<20xf32>
              %1145 = memref.load %88[%23] : memref<20xf32>
              %1146 = arith.addf %1144, %1145 : f32
              %1147 = memref.load %88[%11] : memref<20xf32>
              %1148 = memref.load %88[%19] : memref<20xf32>
              %1149 = arith.addf %1147, %1148 : f32
              %1150 = arith.mulf %72, %1149 : f32
              %1151 = math.fma %71, %1146, %1150 : f32
              %1152 = math.fma %70, %1143, %1151 : f32
              memref.store %1152, %89[%11] : memref<4xf32>
              %1153 = arith.addf %73, %4 : f32
              %1154 = memref.load %87[%18] : memref<40xf32>
              %1155 = memref.load %89[%8] : memref<4xf32>
              %1156 = arith.subf %1154, %1155 : f32
              %1157 = math.fma %1153, %1156, %1155 : f32
              memref.store %1157, %90[%8] : memref<4xf32>
              %1158 = arith.addf %73, %4 : f32
              %1159 = memref.load %87[%19] : memref<40xf32>
              %1160 = memref.load %89[%9] : memref<4xf32>
              %1161 = arith.subf %1159, %1160 : f32
              %1162 = math.fma %1158, %1161, %1160 : f32
              memref.store %1162, %90[%9] : memref<4xf32>
              %1163 = arith.addf %73, %4 : f32
              %1164 = memref.load %87[%20] : memref<40xf32>
              %1165 = memref.load %89[%10] : memref<4xf32>
              %1166 = arith.subf %1164, %1165 : f32
              %1167 = math.fma %1163, %1166, %1165 : f32
              memref.store %1167, %90[%10] : memref<4xf32>
              %1168 = arith.addf %73, %4 : f32
              %1169 = memref.load %87[%21] : memref<40xf32>
              %1170 = memref.load %89[%11] : memref<4xf32>
              %1171 = arith.subf %1169, %1170 : f32
              %1172 = math.fma %1168, %1171, %1170 : f32
              memref.store %1172, %90[%11] : memref<4xf32>
              %1173 = arith.addi %997, %60 overflow<nsw> : i64
              %1174 = arith.cmpi sge, %1173, %54 : i64
              %1175 = memref.load %90[%8] : memref<4xf32>
              %1176 = memref.load %90[%9] : memref<4xf32>
              %1177 = memref.load %90[%10] : memref<4xf32>
              %1178 = memref.load %90[%11] : memref<4xf32>
              scf.if %1174 {
                %1179 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
                %1180 = arith.shrui %140, %81 : i32
                %1181 = arith.muli %1180, %82 : i32
                %1182 = arith.index_cast %1181 : i32 to index
                %1183 = arith.muli %1012, %83 : i32
                %1184 = arith.index_cast %1183 : i32 to index
                %1185 = arith.addi %1182, %1184 : index
                %1186 = arith.index_cast %1012 : i32 to index
                %1187 = arith.addi %1182, %1186 : index
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1188 = vector.from_elements %1175, %1176, %1177, %1178 : vector<4xf32>
                %1189 = arith.addi %1185, %12 : index
                vector.store %1188, %1179[%1189] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1190 = arith.muli %136, %49 overflow<nsw> : i64
                %1191 = arith.addi %997, %1190 overflow<nsw> : i64
                %1192 = arith.addi %1191, %75 overflow<nsw> : i64
                %1193 = arith.muli %1192, %3 overflow<nsw> : i64
                %1194 = arith.muli %138, %52 overflow<nsw> : i64
                %1195 = arith.addi %1193, %1194 overflow<nsw> : i64
                %1196 = arith.muli %144, %56 overflow<nsw> : i64
                %1197 = arith.addi %1195, %1196 overflow<nsw> : i64
                %1198 = arith.addi %1197, %60 overflow<nsw> : i64
                %1199 = arith.muli %1012, %69 : i32
                %1200 = arith.extsi %1199 : i32 to i64
                %1201 = arith.addi %1198, %1200 : i64
                %1202 = arith.index_cast %1201 : i64 to index
                %1203 = arith.addi %1187, %12 : index
                %1204 = arith.cmpi sge, %1012, %83 : i32
                scf.if %1204 {
                  %1205 = memref.load %1179[%1203] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1205, %1[%1202] : memref<?xf32, #gpu.address_space<global>>
                }
                %1206 = arith.addi %1187, %44 : index
                %1207 = arith.addi %1202, %40 : index
                %1208 = memref.load %1179[%1206] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1208, %1[%1207] : memref<?xf32, #gpu.address_space<global>>
                %1209 = arith.addi %1187, %84 : index
                %1210 = arith.addi %1202, %79 : index
                %1211 = memref.load %1179[%1209] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1211, %1[%1210] : memref<?xf32, #gpu.address_space<global>>
                %1212 = arith.addi %1187, %85 : index
                %1213 = arith.addi %1202, %80 : index
                %1214 = arith.cmpi slt, %1012, %86 : i32
                scf.if %1214 {
                  %1215 = memref.load %1179[%1212] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1215, %1[%1213] : memref<?xf32, #gpu.address_space<global>>
                }
              }
              %1216 = arith.muli %136, %49 overflow<nsw> : i64
              %1217 = arith.addi %997, %62 overflow<nsw> : i64
              %1218 = arith.minsi %1217, %67 : i64
              %1219 = arith.addi %1216, %1218 overflow<nsw> : i64
              %1220 = arith.addi %1219, %57 overflow<nsw> : i64
              %1221 = arith.muli %1220, %3 overflow<nsw> : i64
              %1222 = arith.muli %142, %58 overflow<nsw> : i64
              %1223 = arith.addi %1221, %1222 overflow<nsw> : i64
              %1224 = arith.muli %138, %52 overflow<nsw> : i64
              %1225 = arith.addi %1223, %1224 overflow<nsw> : i64
              %1226 = arith.muli %144, %56 overflow<nsw> : i64
              %1227 = arith.addi %1225, %1226 overflow<nsw> : i64
              %1228 = arith.addi %1227, %60 overflow<nsw> : i64
              %1229 = arith.index_cast %1228 : i64 to index
              memref.prefetch %0[%1229], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %1230 = arith.muli %136, %49 overflow<nsw> : i64
              %1231 = arith.addi %997, %50 overflow<nsw> : i64
              %1232 = arith.minsi %1231, %67 : i64
              %1233 = arith.addi %1230, %1232 overflow<nsw> : i64
              %1234 = arith.addi %1233, %57 overflow<nsw> : i64
              %1235 = arith.muli %1234, %3 overflow<nsw> : i64
              %1236 = arith.muli %138, %52 overflow<nsw> : i64
              %1237 = arith.addi %1235, %1236 overflow<nsw> : i64
              %1238 = arith.muli %144, %56 overflow<nsw> : i64
              %1239 = arith.addi %1237, %1238 overflow<nsw> : i64
              %1240 = arith.addi %1239, %60 overflow<nsw> : i64
              %1241 = arith.muli %1012, %69 : i32
              %1242 = arith.extsi %1241 : i32 to i64
              %1243 = arith.addi %1240, %1242 : i64
              %1244 = arith.index_cast %1243 : i64 to index
              %1245 = memref.load %0[%1244] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1245, %92[%12] : memref<20xf32>
              %1246 = arith.addi %1244, %40 : index
              %1247 = memref.load %0[%1246] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1247, %92[%13] : memref<20xf32>
              %1248 = arith.addi %1244, %79 : index
              %1249 = memref.load %0[%1248] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1249, %92[%14] : memref<20xf32>
              %1250 = arith.addi %1244, %80 : index
              %1251 = memref.load %0[%1250] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1251, %92[%15] : memref<20xf32>
              %1252 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
              %1253 = arith.shrui %140, %81 : i32
              %1254 = arith.muli %1253, %82 : i32
              %1255 = arith.index_cast %1254 : i32 to index
              %1256 = arith.muli %1012, %83 : i32
              %1257 = arith.index_cast %1256 : i32 to index
              %1258 = arith.addi %1255, %1257 : index
              %1259 = arith.index_cast %1012 : i32 to index
              %1260 = arith.addi %1255, %1259 : index
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1261 = memref.load %92[%24] : memref<20xf32>
              memref.store %1261, %1252[%1260] : memref<528xf32, #gpu.address_space<workgroup>>
              %1262 = memref.load %92[%25] : memref<20xf32>
              %1263 = arith.addi %1260, %40 : index
              memref.store %1262, %1252[%1263] : memref<528xf32, #gpu.address_space<workgroup>>
              %1264 = memref.load %92[%26] : memref<20xf32>
              %1265 = arith.addi %1260, %79 : index
              memref.store %1264, %1252[%1265] : memref<528xf32, #gpu.address_space<workgroup>>
              %1266 = memref.load %92[%27] : memref<20xf32>
              %1267 = arith.addi %1260, %80 : index
              memref.store %1266, %1252[%1267] : memref<528xf32, #gpu.address_space<workgroup>>
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1268 = vector.load %1252[%1258] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
              %1269 = vector.extract %1268[0] : f32 from vector<4xf32>
              %1270 = vector.extract %1268[1] : f32 from vector<4xf32>
              %1271 = vector.extract %1268[2] : f32 from vector<4xf32>
              %1272 = vector.extract %1268[3] : f32 from vector<4xf32>
              memref.store %1269, %87[%42] : memref<40xf32>
              memref.store %1270, %87[%43] : memref<40xf32>
              memref.store %1271, %87[%44] : memref<40xf32>
              memref.store %1272, %87[%45] : memref<40xf32>
              %1273 = memref.load %87[%42] : memref<40xf32>
              memref.store %1273, %91[%8] : memref<4xf32>
              %1274 = memref.load %87[%43] : memref<40xf32>
              memref.store %1274, %91[%9] : memref<4xf32>
              %1275 = memref.load %87[%44] : memref<40xf32>
              memref.store %1275, %91[%10] : memref<4xf32>
              %1276 = memref.load %87[%45] : memref<40xf32>
              memref.store %1276, %91[%11] : memref<4xf32>
              %1277 = memref.load %91[%10] : memref<4xf32>
              %1278, %1279 = gpu.shuffle idx %1277, %1059, %55 : f32
              memref.store %1278, %87[%40] : memref<40xf32>
              %1280 = memref.load %91[%11] : memref<4xf32>
              %1281, %1282 = gpu.shuffle idx %1280, %1059, %55 : f32
              memref.store %1281, %87[%41] : memref<40xf32>
              %1283 = memref.load %91[%8] : memref<4xf32>
              %1284, %1285 = gpu.shuffle idx %1283, %1066, %55 : f32
              memref.store %1284, %87[%46] : memref<40xf32>
              %1286 = memref.load %91[%9] : memref<4xf32>
              %1287, %1288 = gpu.shuffle idx %1286, %1066, %55 : f32
              memref.store %1287, %87[%47] : memref<40xf32>
              %1289 = memref.load %87[%42] : memref<40xf32>
              %1290 = memref.load %87[%40] : memref<40xf32>
              %1291 = memref.load %87[%44] : memref<40xf32>
              %1292 = arith.addf %1290, %1291 : f32
              %1293 = memref.load %87[%41] : memref<40xf32>
              %1294 = memref.load %87[%43] : memref<40xf32>
              %1295 = arith.addf %1293, %1294 : f32
              %1296 = arith.mulf %72, %1295 : f32
              %1297 = math.fma %71, %1292, %1296 : f32
              %1298 = math.fma %70, %1289, %1297 : f32
              memref.store %1298, %88[%24] : memref<20xf32>
              %1299 = memref.load %87[%43] : memref<40xf32>
              %1300 = memref.load %87[%41] : memref<40xf32>
              %1301 = memref.load %87[%45] : memref<40xf32>
              %1302 = arith.addf %1300, %1301 : f32
              %1303 = memref.load %87[%42] : memref<40xf32>
              %1304 = memref.load %87[%44] : memref<40xf32>
              %1305 = arith.addf %1303, %1304 : f32
              %1306 = arith.mulf %72, %1305 : f32
              %1307 = math.fma %71, %1302, %1306 : f32
              %1308 = math.fma %70, %1299, %1307 : f32
              memref.store %1308, %88[%25] : memref<20xf32>
              %1309 = memref.load %87[%44] : memref<40xf32>
              %1310 = memref.load %87[%42] : memref<40xf32>
              %1311 = memref.load %87[%46] : memref<40xf32>
              %1312 = arith.addf %1310, %1311 : f32
              %1313 = memref.load %87[%43] : memref<40xf32>
              %1314 = memref.load %87[%45] : memref<40xf32>
              %1315 = arith.addf %1313, %1314 : f32
              %1316 = arith.mulf %72, %1315 : f32
              %1317 = math.fma %71, %1312, %1316 : f32
              %1318 = math.fma %70, %1309, %1317 : f32
              memref.store %1318, %88[%26] : memref<20xf32>
              %1319 = memref.load %87[%45] : memref<40xf32>
              %1320 = memref.load %87[%43] : memref<40xf32>
              %1321 = memref.load %87[%47] : memref<40xf32>
              %1322 = arith.addf %1320, %1321 : f32
              %1323 = memref.load %87[%44] : memref<40xf32>
              %1324 = memref.load %87[%46] : memref<40xf32>
              %1325 = arith.addf %1323, %1324 : f32
              %1326 = arith.mulf %72, %1325 : f32
              %1327 = math.fma %71, %1322, %1326 : f32
              %1328 = math.fma %70, %1319, %1327 : f32
              memref.store %1328, %88[%27] : memref<20xf32>
              %1329 = memref.load %88[%16] : memref<20xf32>
              %1330 = memref.load %88[%8] : memref<20xf32>
              %1331 = memref.load %88[%24] : memref<20xf32>
              %1332 = arith.addf %1330, %1331 : f32
              %1333 = memref.load %88[%12] : memref<20xf32>
              %1334 = memref.load %88[%20] : memref<20xf32>
              %1335 = arith.addf %1333, %1334 : f32
              %1336 = arith.mulf %72, %1335 : f32
              %1337 = math.fma %71, %1332, %1336 : f32
              %1338 = math.fma %70, %1329, %1337 : f32
              memref.store %1338, %89[%8] : memref<4xf32>
              %1339 = memref.load %88[%17] : memref<20xf32>
              %1340 = memref.load %88[%9] : memref<20xf32>
              %1341 = memref.load %88[%25] : memref<20xf32>
              %1342 = arith.addf %1340, %1341 : f32
              %1343 = memref.load %88[%13] : memref<20xf32>
              %1344 = memref.load %88[%21] : memref<20xf32>
              %1345 = arith.addf %1343, %1344 : f32
              %1346 = arith.mulf %72, %1345 : f32
              %1347 = math.fma %71, %1342, %1346 : f32
              %1348 = math.fma %70, %1339, %1347 : f32
              memref.store %1348, %89[%9] : memref<4xf32>
              %1349 = memref.load %88[%18] : memref<20xf32>
              %1350 = memref.load %88[%10] : memref<20xf32>
              %1351 = memref.load %88[%26] : memref<20xf32>
              %1352 = arith.addf %1350, %1351 : f32
              %1353 = memref.load %88[%14] : memref<20xf32>
              %1354 = memref.load %88[%22] : memref<20xf32>
              %1355 = arith.addf %1353, %1354 : f32
              %1356 = arith.mulf %72, %1355 : f32
              %1357 = math.fma %71, %1352, %1356 : f32
              %1358 = math.fma %70, %1349, %1357 : f32
              memref.store %1358, %89[%10] : memref<4xf32>
              %1359 = memref.load %88[%19] : memref<20xf32>
              %1360 = memref.load %88[%11] : memref<20xf32>
              %1361 = memref.load %88[%27] : memref<20xf32>
              %1362 = arith.addf %1360, %1361 : f32
              %1363 = memref.load %88[%15] : memref<20xf32>
              %1364 = memref.load %88[%23] : memref<20xf32>
              %1365 = arith.addf %1363, %1364 : f32
              %1366 = arith.mulf %72, %1365 : f32
              %1367 = math.fma %71, %1362, %1366 : f32
              %1368 = math.fma %70, %1359, %1367 : f32
              memref.store %1368, %89[%11] : memref<4xf32>
              %1369 = arith.addf %73, %4 : f32
              %1370 = memref.load %87[%26] : memref<40xf32>
              %1371 = memref.load %89[%8] : memref<4xf32>
              %1372 = arith.subf %1370, %1371 : f32
              %1373 = math.fma %1369, %1372, %1371 : f32
              memref.store %1373, %90[%8] : memref<4xf32>
              %1374 = arith.addf %73, %4 : f32
              %1375 = memref.load %87[%27] : memref<40xf32>
              %1376 = memref.load %89[%9] : memref<4xf32>
              %1377 = arith.subf %1375, %1376 : f32
              %1378 = math.fma %1374, %1377, %1376 : f32
              memref.store %1378, %90[%9] : memref<4xf32>
              %1379 = arith.addf %73, %4 : f32
              %1380 = memref.load %87[%28] : memref<40xf32>
              %1381 = memref.load %89[%10] : memref<4xf32>
              %1382 = arith.subf %1380, %1381 : f32
              %1383 = math.fma %1379, %1382, %1381 : f32
              memref.store %1383, %90[%10] : memref<4xf32>
              %1384 = arith.addf %73, %4 : f32
              %1385 = memref.load %87[%29] : memref<40xf32>
              %1386 = memref.load %89[%11] : memref<4xf32>
              %1387 = arith.subf %1385, %1386 : f32
              %1388 = math.fma %1384, %1387, %1386 : f32
              memref.store %1388, %90[%11] : memref<4xf32>
              %1389 = arith.addi %997, %76 overflow<nsw> : i64
              %1390 = arith.cmpi sge, %1389, %54 : i64
              %1391 = memref.load %90[%8] : memref<4xf32>
              %1392 = memref.load %90[%9] : memref<4xf32>
              %1393 = memref.load %90[%10] : memref<4xf32>
              %1394 = memref.load %90[%11] : memref<4xf32>
              scf.if %1390 {
                %1395 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
                %1396 = arith.shrui %140, %81 : i32
                %1397 = arith.muli %1396, %82 : i32
                %1398 = arith.index_cast %1397 : i32 to index
                %1399 = arith.muli %1012, %83 : i32
                %1400 = arith.index_cast %1399 : i32 to index
                %1401 = arith.addi %1398, %1400 : index
                %1402 = arith.index_cast %1012 : i32 to index
                %1403 = arith.addi %1398, %1402 : index
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1404 = vector.from_elements %1391, %1392, %1393, %1394 : vector<4xf32>
                %1405 = arith.addi %1401, %12 : index
                vector.store %1404, %1395[%1405] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1406 = arith.muli %136, %49 overflow<nsw> : i64
                %1407 = arith.addi %997, %1406 overflow<nsw> : i64
                %1408 = arith.addi %1407, %77 overflow<nsw> : i64
                %1409 = arith.muli %1408, %3 overflow<nsw> : i64
                %1410 = arith.muli %138, %52 overflow<nsw> : i64
                %1411 = arith.addi %1409, %1410 overflow<nsw> : i64
                %1412 = arith.muli %144, %56 overflow<nsw> : i64
                %1413 = arith.addi %1411, %1412 overflow<nsw> : i64
                %1414 = arith.addi %1413, %60 overflow<nsw> : i64
                %1415 = arith.muli %1012, %69 : i32
                %1416 = arith.extsi %1415 : i32 to i64
                %1417 = arith.addi %1414, %1416 : i64
                %1418 = arith.index_cast %1417 : i64 to index
                %1419 = arith.addi %1403, %12 : index
                %1420 = arith.cmpi sge, %1012, %83 : i32
                scf.if %1420 {
                  %1421 = memref.load %1395[%1419] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1421, %1[%1418] : memref<?xf32, #gpu.address_space<global>>
                }
                %1422 = arith.addi %1403, %44 : index
                %1423 = arith.addi %1418, %40 : index
                %1424 = memref.load %1395[%1422] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1424, %1[%1423] : memref<?xf32, #gpu.address_space<global>>
                %1425 = arith.addi %1403, %84 : index
                %1426 = arith.addi %1418, %79 : index
                %1427 = memref.load %1395[%1425] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1427, %1[%1426] : memref<?xf32, #gpu.address_space<global>>
                %1428 = arith.addi %1403, %85 : index
                %1429 = arith.addi %1418, %80 : index
                %1430 = arith.cmpi slt, %1012, %86 : i32
                scf.if %1430 {
                  %1431 = memref.load %1395[%1428] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1431, %1[%1429] : memref<?xf32, #gpu.address_space<global>>
                }
              }
              %1432 = arith.muli %136, %49 overflow<nsw> : i64
              %1433 = arith.addi %997, %58 overflow<nsw> : i64
              %1434 = arith.minsi %1433, %67 : i64
              %1435 = arith.addi %1432, %1434 overflow<nsw> : i64
              %1436 = arith.addi %1435, %57 overflow<nsw> : i64
              %1437 = arith.muli %1436, %3 overflow<nsw> : i64
              %1438 = arith.muli %142, %58 overflow<nsw> : i64
              %1439 = arith.addi %1437, %1438 overflow<nsw> : i64
              %1440 = arith.muli %138, %52 overflow<nsw> : i64
              %1441 = arith.addi %1439, %1440 overflow<nsw> : i64
              %1442 = arith.muli %144, %56 overflow<nsw> : i64
              %1443 = arith.addi %1441, %1442 overflow<nsw> : i64
              %1444 = arith.addi %1443, %60 overflow<nsw> : i64
              %1445 = arith.index_cast %1444 : i64 to index
              memref.prefetch %0[%1445], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %1446 = arith.muli %1002, %3 overflow<nsw> : i64
              %1447 = arith.muli %138, %52 overflow<nsw> : i64
              %1448 = arith.addi %1446, %1447 overflow<nsw> : i64
              %1449 = arith.muli %144, %56 overflow<nsw> : i64
              %1450 = arith.addi %1448, %1449 overflow<nsw> : i64
              %1451 = arith.addi %1450, %60 overflow<nsw> : i64
              %1452 = arith.muli %1012, %69 : i32
              %1453 = arith.extsi %1452 : i32 to i64
              %1454 = arith.addi %1451, %1453 : i64
              %1455 = arith.index_cast %1454 : i64 to index
              %1456 = memref.load %0[%1455] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1456, %92[%16] : memref<20xf32>
              %1457 = arith.addi %1455, %40 : index
              %1458 = memref.load %0[%1457] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1458, %92[%17] : memref<20xf32>
              %1459 = arith.addi %1455, %79 : index
              %1460 = memref.load %0[%1459] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1460, %92[%18] : memref<20xf32>
              %1461 = arith.addi %1455, %80 : index
              %1462 = memref.load %0[%1461] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1462, %92[%19] : memref<20xf32>
              %1463 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
              %1464 = arith.shrui %140, %81 : i32
              %1465 = arith.muli %1464, %82 : i32
              %1466 = arith.index_cast %1465 : i32 to index
              %1467 = arith.muli %1012, %83 : i32
              %1468 = arith.index_cast %1467 : i32 to index
              %1469 = arith.addi %1466, %1468 : index
              %1470 = arith.index_cast %1012 : i32 to index
              %1471 = arith.addi %1466, %1470 : index
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1472 = memref.load %92[%8] : memref<20xf32>
              memref.store %1472, %1463[%1471] : memref<528xf32, #gpu.address_space<workgroup>>
              %1473 = memref.load %92[%9] : memref<20xf32>
              %1474 = arith.addi %1471, %40 : index
              memref.store %1473, %1463[%1474] : memref<528xf32, #gpu.address_space<workgroup>>
              %1475 = memref.load %92[%10] : memref<20xf32>
              %1476 = arith.addi %1471, %79 : index
              memref.store %1475, %1463[%1476] : memref<528xf32, #gpu.address_space<workgroup>>
              %1477 = memref.load %92[%11] : memref<20xf32>
              %1478 = arith.addi %1471, %80 : index
              memref.store %1477, %1463[%1478] : memref<528xf32, #gpu.address_space<workgroup>>
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1479 = vector.load %1463[%1469] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
              %1480 = vector.extract %1479[0] : f32 from vector<4xf32>
              %1481 = vector.extract %1479[1] : f32 from vector<4xf32>
              %1482 = vector.extract %1479[2] : f32 from vector<4xf32>
              %1483 = vector.extract %1479[3] : f32 from vector<4xf32>
              memref.store %1480, %87[%10] : memref<40xf32>
              memref.store %1481, %87[%11] : memref<40xf32>
              memref.store %1482, %87[%12] : memref<40xf32>
              memref.store %1483, %87[%13] : memref<40xf32>
              %1484 = memref.load %87[%10] : memref<40xf32>
              memref.store %1484, %91[%8] : memref<4xf32>
              %1485 = memref.load %87[%11] : memref<40xf32>
              memref.store %1485, %91[%9] : memref<4xf32>
              %1486 = memref.load %87[%12] : memref<40xf32>
              memref.store %1486, %91[%10] : memref<4xf32>
              %1487 = memref.load %87[%13] : memref<40xf32>
              memref.store %1487, %91[%11] : memref<4xf32>
              %1488 = memref.load %91[%10] : memref<4xf32>
              %1489, %1490 = gpu.shuffle idx %1488, %1059, %55 : f32
              memref.store %1489, %87[%8] : memref<40xf32>
              %1491 = memref.load %91[%11] : memref<4xf32>
              %1492, %1493 = gpu.shuffle idx %1491, %1059, %55 : f32
              memref.store %1492, %87[%9] : memref<40xf32>
              %1494 = memref.load %91[%8] : memref<4xf32>
              %1495, %1496 = gpu.shuffle idx %1494, %1066, %55 : f32
              memref.store %1495, %87[%14] : memref<40xf32>
              %1497 = memref.load %91[%9] : memref<4xf32>
              %1498, %1499 = gpu.shuffle idx %1497, %1066, %55 : f32
              memref.store %1498, %87[%15] : memref<40xf32>
              %1500 = memref.load %87[%10] : memref<40xf32>
              %1501 = memref.load %87[%8] : memref<40xf32>
              %1502 = memref.load %87[%12] : memref<40xf32>
              %1503 = arith.addf %1501, %1502 : f32
              %1504 = memref.load %87[%9] : memref<40xf32>
              %1505 = memref.load %87[%11] : memref<40xf32>
              %1506 = arith.addf %1504, %1505 : f32
              %1507 = arith.mulf %72, %1506 : f32
              %1508 = math.fma %71, %1503, %1507 : f32
              %1509 = math.fma %70, %1500, %1508 : f32
              memref.store %1509, %88[%8] : memref<20xf32>
              %1510 = memref.load %87[%11] : memref<40xf32>
              %1511 = memref.load %87[%9] : memref<40xf32>
              %1512 = memref.load %87[%13] : memref<40xf32>
              %1513 = arith.addf %1511, %1512 : f32
              %1514 = memref.load %87[%10] : memref<40xf32>
              %1515 = memref.load %87[%12] : memref<40xf32>
              %1516 = arith.addf %1514, %1515 : f32
              %1517 = arith.mulf %72, %1516 : f32
              %1518 = math.fma %71, %1513, %1517 : f32
              %1519 = math.fma %70, %1510, %1518 : f32
              memref.store %1519, %88[%9] : memref<20xf32>
              %1520 = memref.load %87[%12] : memref<40xf32>
              %1521 = memref.load %87[%10] : memref<40xf32>
              %1522 = memref.load %87[%14] : memref<40xf32>
              %1523 = arith.addf %1521, %1522 : f32
              %1524 = memref.load %87[%11] : memref<40xf32>
              %1525 = memref.load %87[%13] : memref<40xf32>
              %1526 = arith.addf %1524, %1525 : f32
              %1527 = arith.mulf %72, %1526 : f32
              %1528 = math.fma %71, %1523, %1527 : f32
              %1529 = math.fma %70, %1520, %1528 : f32
              memref.store %1529, %88[%10] : memref<20xf32>
              %1530 = memref.load %87[%13] : memref<40xf32>
              %1531 = memref.load %87[%11] : memref<40xf32>
              %1532 = memref.load %87[%15] : memref<40xf32>
              %1533 = arith.addf %1531, %1532 : f32
              %1534 = memref.load %87[%12] : memref<40xf32>
              %1535 = memref.load %87[%14] : memref<40xf32>
              %1536 = arith.addf %1534, %1535 : f32
              %1537 = arith.mulf %72, %1536 : f32
              %1538 = math.fma %71, %1533, %1537 : f32
              %1539 = math.fma %70, %1530, %1538 : f32
              memref.store %1539, %88[%11] : memref<20xf32>
              %1540 = memref.load %88[%20] : memref<20xf32>
              %1541 = memref.load %88[%12] : memref<20xf32>
              %1542 = memref.load %88[%8] : memref<20xf32>
              %1543 = arith.addf %1541, %1542 : f32
              %1544 = memref.load %88[%16] : memref<20xf32>
              %1545 = memref.load %88[%24] : memref<20xf32>
              %1546 = arith.addf %1544, %1545 : f32
              %1547 = arith.mulf %72, %1546 : f32
              %1548 = math.fma %71, %1543, %1547 : f32
              %1549 = math.fma %70, %1540, %1548 : f32
              memref.store %1549, %89[%8] : memref<4xf32>
              %1550 = memref.load %88[%21] : memref<20xf32>
              %1551 = memref.load %88[%13] : memref<20xf32>
              %1552 = memref.load %88[%9] : memref<20xf32>
              %1553 = arith.addf %1551, %1552 : f32
              %1554 = memref.load %88[%17] : memref<20xf32>
              %1555 = memref.load %88[%25] : memref<20xf32>
              %1556 = arith.addf %1554, %1555 : f32
              %1557 = arith.mulf %72, %1556 : f32
              %1558 = math.fma %71, %1553, %1557 : f32
              %1559 = math.fma %70, %1550, %1558 : f32
              memref.store %1559, %89[%9] : memref<4xf32>
              %1560 = memref.load %88[%22] : memref<20xf32>
              %1561 = memref.load %88[%14] : memref<20xf32>
              %1562 = memref.load %88[%10] : memref<20xf32>
              %1563 = arith.addf %1561, %1562 : f32
              %1564 = memref.load %88[%18] : memref<20xf32>
              %1565 = memref.load %88[%26] : memref<20xf32>
              %1566 = arith.addf %1564, %1565 : f32
              %1567 = arith.mulf %72, %1566 : f32
              %1568 = math.fma %71, %1563, %1567 : f32
              %1569 = math.fma %70, %1560, %1568 : f32
              memref.store %1569, %89[%10] : memref<4xf32>
              %1570 = memref.load %88[%23] : memref<20xf32>
              %1571 = memref.load %88[%15] : memref<20xf32>
              %1572 = memref.load %88[%11] : memref<20xf32>
              %1573 = arith.addf %1571, %1572 : f32
              %1574 = memref.load %88[%19] : memref<20xf32>
              %1575 = memref.load %88[%27] : memref<20xf32>
              %1576 = arith.addf %1574, %1575 : f32
              %1577 = arith.mulf %72, %1576 : f32
              %1578 = math.fma %71, %1573, %1577 : f32
              %1579 = math.fma %70, %1570, %1578 : f32
              memref.store %1579, %89[%11] : memref<4xf32>
              %1580 = arith.addf %73, %4 : f32
              %1581 = memref.load %87[%34] : memref<40xf32>
              %1582 = memref.load %89[%8] : memref<4xf32>
              %1583 = arith.subf %1581, %1582 : f32
              %1584 = math.fma %1580, %1583, %1582 : f32
              memref.store %1584, %90[%8] : memref<4xf32>
              %1585 = arith.addf %73, %4 : f32
              %1586 = memref.load %87[%35] : memref<40xf32>
              %1587 = memref.load %89[%9] : memref<4xf32>
              %1588 = arith.subf %1586, %1587 : f32
              %1589 = math.fma %1585, %1588, %1587 : f32
              memref.store %1589, %90[%9] : memref<4xf32>
              %1590 = arith.addf %73, %4 : f32
              %1591 = memref.load %87[%36] : memref<40xf32>
              %1592 = memref.load %89[%10] : memref<4xf32>
              %1593 = arith.subf %1591, %1592 : f32
              %1594 = math.fma %1590, %1593, %1592 : f32
              memref.store %1594, %90[%10] : memref<4xf32>
              %1595 = arith.addf %73, %4 : f32
              %1596 = memref.load %87[%37] : memref<40xf32>
              %1597 = memref.load %89[%11] : memref<4xf32>
              %1598 = arith.subf %1596, %1597 : f32
              %1599 = math.fma %1595, %1598, %1597 : f32
              memref.store %1599, %90[%11] : memref<4xf32>
              %1600 = arith.addi %997, %57 overflow<nsw> : i64
              %1601 = arith.cmpi sge, %1600, %54 : i64
              %1602 = memref.load %90[%8] : memref<4xf32>
              %1603 = memref.load %90[%9] : memref<4xf32>
              %1604 = memref.load %90[%10] : memref<4xf32>
              %1605 = memref.load %90[%11] : memref<4xf32>
              scf.if %1601 {
                %1606 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
                %1607 = arith.shrui %140, %81 : i32
                %1608 = arith.muli %1607, %82 : i32
                %1609 = arith.index_cast %1608 : i32 to index
                %1610 = arith.muli %1012, %83 : i32
                %1611 = arith.index_cast %1610 : i32 to index
                %1612 = arith.addi %1609, %1611 : index
                %1613 = arith.index_cast %1012 : i32 to index
                %1614 = arith.addi %1609, %1613 : index
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1615 = vector.from_elements %1602, %1603, %1604, %1605 : vector<4xf32>
                %1616 = arith.addi %1612, %12 : index
                vector.store %1615, %1606[%1616] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1617 = arith.muli %136, %49 overflow<nsw> : i64
                %1618 = arith.addi %997, %1617 overflow<nsw> : i64
                %1619 = arith.addi %1618, %60 overflow<nsw> : i64
                %1620 = arith.muli %1619, %3 overflow<nsw> : i64
                %1621 = arith.muli %138, %52 overflow<nsw> : i64
                %1622 = arith.addi %1620, %1621 overflow<nsw> : i64
                %1623 = arith.muli %144, %56 overflow<nsw> : i64
                %1624 = arith.addi %1622, %1623 overflow<nsw> : i64
                %1625 = arith.addi %1624, %60 overflow<nsw> : i64
                %1626 = arith.muli %1012, %69 : i32
                %1627 = arith.extsi %1626 : i32 to i64
                %1628 = arith.addi %1625, %1627 : i64
                %1629 = arith.index_cast %1628 : i64 to index
                %1630 = arith.addi %1614, %12 : index
                %1631 = arith.cmpi sge, %1012, %83 : i32
                scf.if %1631 {
                  %1632 = memref.load %1606[%1630] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1632, %1[%1629] : memref<?xf32, #gpu.address_space<global>>
                }
                %1633 = arith.addi %1614, %44 : index
                %1634 = arith.addi %1629, %40 : index
                %1635 = memref.load %1606[%1633] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1635, %1[%1634] : memref<?xf32, #gpu.address_space<global>>
                %1636 = arith.addi %1614, %84 : index
                %1637 = arith.addi %1629, %79 : index
                %1638 = memref.load %1606[%1636] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1638, %1[%1637] : memref<?xf32, #gpu.address_space<global>>
                %1639 = arith.addi %1614, %85 : index
                %1640 = arith.addi %1629, %80 : index
                %1641 = arith.cmpi slt, %1012, %86 : i32
                scf.if %1641 {
                  %1642 = memref.load %1606[%1639] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1642, %1[%1640] : memref<?xf32, #gpu.address_space<global>>
                }
              }
              %1643 = arith.muli %136, %49 overflow<nsw> : i64
              %1644 = arith.addi %997, %66 overflow<nsw> : i64
              %1645 = arith.minsi %1644, %67 : i64
              %1646 = arith.addi %1643, %1645 overflow<nsw> : i64
              %1647 = arith.addi %1646, %57 overflow<nsw> : i64
              %1648 = arith.muli %1647, %3 overflow<nsw> : i64
              %1649 = arith.muli %142, %58 overflow<nsw> : i64
              %1650 = arith.addi %1648, %1649 overflow<nsw> : i64
              %1651 = arith.muli %138, %52 overflow<nsw> : i64
              %1652 = arith.addi %1650, %1651 overflow<nsw> : i64
              %1653 = arith.muli %144, %56 overflow<nsw> : i64
              %1654 = arith.addi %1652, %1653 overflow<nsw> : i64
              %1655 = arith.addi %1654, %60 overflow<nsw> : i64
              %1656 = arith.index_cast %1655 : i64 to index
              memref.prefetch %0[%1656], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %1657 = arith.muli %1220, %3 overflow<nsw> : i64
              %1658 = arith.muli %138, %52 overflow<nsw> : i64
              %1659 = arith.addi %1657, %1658 overflow<nsw> : i64
              %1660 = arith.muli %144, %56 overflow<nsw> : i64
              %1661 = arith.addi %1659, %1660 overflow<nsw> : i64
              %1662 = arith.addi %1661, %60 overflow<nsw> : i64
              %1663 = arith.muli %1012, %69 : i32
              %1664 = arith.extsi %1663 : i32 to i64
              %1665 = arith.addi %1662, %1664 : i64
              %1666 = arith.index_cast %1665 : i64 to index
              %1667 = memref.load %0[%1666] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1667, %92[%20] : memref<20xf32>
              %1668 = arith.addi %1666, %40 : index
              %1669 = memref.load %0[%1668] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1669, %92[%21] : memref<20xf32>
              %1670 = arith.addi %1666, %79 : index
              %1671 = memref.load %0[%1670] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1671, %92[%22] : memref<20xf32>
              %1672 = arith.addi %1666, %80 : index
              %1673 = memref.load %0[%1672] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1673, %92[%23] : memref<20xf32>
              %1674 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
              %1675 = arith.shrui %140, %81 : i32
              %1676 = arith.muli %1675, %82 : i32
              %1677 = arith.index_cast %1676 : i32 to index
              %1678 = arith.muli %1012, %83 : i32
              %1679 = arith.index_cast %1678 : i32 to index
              %1680 = arith.addi %1677, %1679 : index
              %1681 = arith.index_cast %1012 : i32 to index
              %1682 = arith.addi %1677, %1681 : index
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1683 = memref.load %92[%12] : memref<20xf32>
              memref.store %1683, %1674[%1682] : memref<528xf32, #gpu.address_space<workgroup>>
              %1684 = memref.load %92[%13] : memref<20xf32>
              %1685 = arith.addi %1682, %40 : index
              memref.store %1684, %1674[%1685] : memref<528xf32, #gpu.address_space<workgroup>>
              %1686 = memref.load %92[%14] : memref<20xf32>
              %1687 = arith.addi %1682, %79 : index
              memref.store %1686, %1674[%1687] : memref<528xf32, #gpu.address_space<workgroup>>
              %1688 = memref.load %92[%15] : memref<20xf32>
              %1689 = arith.addi %1682, %80 : index
              memref.store %1688, %1674[%1689] : memref<528xf32, #gpu.address_space<workgroup>>
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1690 = vector.load %1674[%1680] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
              %1691 = vector.extract %1690[0] : f32 from vector<4xf32>
              %1692 = vector.extract %1690[1] : f32 from vector<4xf32>
              %1693 = vector.extract %1690[2] : f32 from vector<4xf32>
              %1694 = vector.extract %1690[3] : f32 from vector<4xf32>
              memref.store %1691, %87[%18] : memref<40xf32>
              memref.store %1692, %87[%19] : memref<40xf32>
              memref.store %1693, %87[%20] : memref<40xf32>
              memref.store %1694, %87[%21] : memref<40xf32>
              %1695 = memref.load %87[%18] : memref<40xf32>
              memref.store %1695, %91[%8] : memref<4xf32>
              %1696 = memref.load %87[%19] : memref<40xf32>
              memref.store %1696, %91[%9] : memref<4xf32>
              %1697 = memref.load %87[%20] : memref<40xf32>
              memref.store %1697, %91[%10] : memref<4xf32>
              %1698 = memref.load %87[%21] : memref<40xf32>
              memref.store %1698, %91[%11] : memref<4xf32>
              %1699 = memref.load %91[%10] : memref<4xf32>
              %1700, %1701 = gpu.shuffle idx %1699, %1059, %55 : f32
              memref.store %1700, %87[%16] : memref<40xf32>
              %1702 = memref.load %91[%11] : memref<4xf32>
              %1703, %1704 = gpu.shuffle idx %1702, %1059, %55 : f32
              memref.store %1703, %87[%17] : memref<40xf32>
              %1705 = memref.load %91[%8] : memref<4xf32>
              %1706, %1707 = gpu.shuffle idx %1705, %1066, %55 : f32
              memref.store %1706, %87[%22] : memref<40xf32>
              %1708 = memref.load %91[%9] : memref<4xf32>
              %1709, %1710 = gpu.shuffle idx %1708, %1066, %55 : f32
              memref.store %1709, %87[%23] : memref<40xf32>
              %1711 = memref.load %87[%18] : memref<40xf32>
              %1712 = memref.load %87[%16] : memref<40xf32>
              %1713 = memref.load %87[%20] : memref<40xf32>
              %1714 = arith.addf %1712, %1713 : f32
              %1715 = memref.load %87[%17] : memref<40xf32>
              %1716 = memref.load %87[%19] : memref<40xf32>
              %1717 = arith.addf %1715, %1716 : f32
              %1718 = arith.mulf %72, %1717 : f32
              %1719 = math.fma %71, %1714, %1718 : f32
              %1720 = math.fma %70, %1711, %1719 : f32
              memref.store %1720, %88[%12] : memref<20xf32>
              %1721 = memref.load %87[%19] : memref<40xf32>
              %1722 = memref.load %87[%17] : memref<40xf32>
              %1723 = memref.load %87[%21] : memref<40xf32>
              %1724 = arith.addf %1722, %1723 : f32
              %1725 = memref.load %87[%18] : memref<40xf32>
              %1726 = memref.load %87[%20] : memref<40xf32>
              %1727 = arith.addf %1725, %1726 : f32
              %1728 = arith.mulf %72, %1727 : f32
              %1729 = math.fma %71, %1724, %1728 : f32
              %1730 = math.fma %70, %1721, %1729 : f32
              memref.store %1730, %88[%13] : memref<20xf32>
              %1731 = memref.load %87[%20] : memref<40xf32>
              %1732 = memref.load %87[%18] : memref<40xf32>
              %1733 = memref.load %87[%22] : memref<40xf32>
              %1734 = arith.addf %1732, %1733 : f32
              %1735 = memref.load %87[%19] : memref<40xf32>
              %1736 = memref.load %87[%21] : memref<40xf32>
              %1737 = arith.addf %1735, %1736 : f32
              %1738 = arith.mulf %72, %1737 : f32
              %1739 = math.fma %71, %1734, %1738 : f32
              %1740 = math.fma %70, %1731, %1739 : f32
              memref.store %1740, %88[%14] : memref<20xf32>
              %1741 = memref.load %87[%21] : memref<40xf32>
              %1742 = memref.load %87[%19] : memref<40xf32>
              %1743 = memref.load %87[%23] : memref<40xf32>
              %1744 = arith.addf %1742, %1743 : f32
              %1745 = memref.load %87[%20] : memref<40xf32>
              %1746 = memref.load %87[%22] : memref<40xf32>
              %1747 = arith.addf %1745, %1746 : f32
              %1748 = arith.mulf %72, %1747 : f32
              %1749 = math.fma %71, %1744, %1748 : f32
              %1750 = math.fma %70, %1741, %1749 : f32
              memref.store %1750, %88[%15] : memref<20xf32>
              %1751 = memref.load %88[%24] : memref<20xf32>
              %1752 = memref.load %88[%16] : memref<20xf32>
              %1753 = memref.load %88[%12] : memref<20xf32>
              %1754 = arith.addf %1752, %1753 : f32
              %1755 = memref.load %88[%20] : memref<20xf32>
              %1756 = memref.load %88[%8] : memref<20xf32>
              %1757 = arith.addf %1755, %1756 : f32
              %1758 = arith.mulf %72, %1757 : f32
              %1759 = math.fma %71, %1754, %1758 : f32
              %1760 = math.fma %70, %1751, %1759 : f32
              memref.store %1760, %89[%8] : memref<4xf32>
              %1761 = memref.load %88[%25] : memref<20xf32>
              %1762 = memref.load %88[%17] : memref<20xf32>
              %1763 = memref.load %88[%13] : memref<20xf32>
              %1764 = arith.addf %1762, %1763 : f32
              %1765 = memref.load %88[%21] : memref<20xf32>
              %1766 = memref.load %88[%9] : memref<20xf32>
              %1767 = arith.addf %1765, %1766 : f32
              %1768 = arith.mulf %72, %1767 : f32
              %1769 = math.fma %71, %1764, %1768 : f32
              %1770 = math.fma %70, %1761, %1769 : f32
              memref.store %1770, %89[%9] : memref<4xf32>
              %1771 = memref.load %88[%26] : memref<20xf32>
              %1772 = memref.load %88[%18] : memref<20xf32>
              %1773 = memref.load %88[%14] : memref<20xf32>
              %1774 = arith.addf %1772, %1773 : f32
              %1775 = memref.load %88[%22] : memref<20xf32>
              %1776 = memref.load %88[%10] : memref<20xf32>
              %1777 = arith.addf %1775, %1776 : f32
              %1778 = arith.mulf %72, %1777 : f32
              %1779 = math.fma %71, %1774, %1778 : f32
              %1780 = math.fma %70, %1771, %1779 : f32
              memref.store %1780, %89[%10] : memref<4xf32>
              %1781 = memref.load %88[%27] : memref<20xf32>
              %1782 = memref.load %88[%19] : memref<20xf32>
              %1783 = memref.load %88[%15] : memref<20xf32>
              %1784 = arith.addf %1782, %1783 : f32
              %1785 = memref.load %88[%23] : memref<20xf32>
              %1786 = memref.load %88[%11] : memref<20xf32>
              %1787 = arith.addf %1785, %1786 : f32
              %1788 = arith.mulf %72, %1787 : f32
              %1789 = math.fma %71, %1784, %1788 : f32
              %1790 = math.fma %70, %1781, %1789 : f32
              memref.store %1790, %89[%11] : memref<4xf32>
              %1791 = arith.addf %73, %4 : f32
              %1792 = memref.load %87[%42] : memref<40xf32>
              %1793 = memref.load %89[%8] : memref<4xf32>
              %1794 = arith.subf %1792, %1793 : f32
              %1795 = math.fma %1791, %1794, %1793 : f32
              memref.store %1795, %90[%8] : memref<4xf32>
              %1796 = arith.addf %73, %4 : f32
              %1797 = memref.load %87[%43] : memref<40xf32>
              %1798 = memref.load %89[%9] : memref<4xf32>
              %1799 = arith.subf %1797, %1798 : f32
              %1800 = math.fma %1796, %1799, %1798 : f32
              memref.store %1800, %90[%9] : memref<4xf32>
              %1801 = arith.addf %73, %4 : f32
              %1802 = memref.load %87[%44] : memref<40xf32>
              %1803 = memref.load %89[%10] : memref<4xf32>
              %1804 = arith.subf %1802, %1803 : f32
              %1805 = math.fma %1801, %1804, %1803 : f32
              memref.store %1805, %90[%10] : memref<4xf32>
              %1806 = arith.addf %73, %4 : f32
              %1807 = memref.load %87[%45] : memref<40xf32>
              %1808 = memref.load %89[%11] : memref<4xf32>
              %1809 = arith.subf %1807, %1808 : f32
              %1810 = math.fma %1806, %1809, %1808 : f32
              memref.store %1810, %90[%11] : memref<4xf32>
              %1811 = arith.addi %997, %64 overflow<nsw> : i64
              %1812 = arith.cmpi sge, %1811, %54 : i64
              %1813 = memref.load %90[%8] : memref<4xf32>
              %1814 = memref.load %90[%9] : memref<4xf32>
              %1815 = memref.load %90[%10] : memref<4xf32>
              %1816 = memref.load %90[%11] : memref<4xf32>
              scf.if %1812 {
                %1817 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
                %1818 = arith.shrui %140, %81 : i32
                %1819 = arith.muli %1818, %82 : i32
                %1820 = arith.index_cast %1819 : i32 to index
                %1821 = arith.muli %1012, %83 : i32
                %1822 = arith.index_cast %1821 : i32 to index
                %1823 = arith.addi %1820, %1822 : index
                %1824 = arith.index_cast %1012 : i32 to index
                %1825 = arith.addi %1820, %1824 : index
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1826 = vector.from_elements %1813, %1814, %1815, %1816 : vector<4xf32>
                %1827 = arith.addi %1823, %12 : index
                vector.store %1826, %1817[%1827] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %1828 = arith.muli %136, %49 overflow<nsw> : i64
                %1829 = arith.addi %997, %1828 overflow<nsw> : i64
                %1830 = arith.addi %1829, %76 overflow<nsw> : i64
                %1831 = arith.muli %1830, %3 overflow<nsw> : i64
                %1832 = arith.muli %138, %52 overflow<nsw> : i64
                %1833 = arith.addi %1831, %1832 overflow<nsw> : i64
                %1834 = arith.muli %144, %56 overflow<nsw> : i64
                %1835 = arith.addi %1833, %1834 overflow<nsw> : i64
                %1836 = arith.addi %1835, %60 overflow<nsw> : i64
                %1837 = arith.muli %1012, %69 : i32
                %1838 = arith.extsi %1837 : i32 to i64
                %1839 = arith.addi %1836, %1838 : i64
                %1840 = arith.index_cast %1839 : i64 to index
                %1841 = arith.addi %1825, %12 : index
                %1842 = arith.cmpi sge, %1012, %83 : i32
                scf.if %1842 {
                  %1843 = memref.load %1817[%1841] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1843, %1[%1840] : memref<?xf32, #gpu.address_space<global>>
                }
                %1844 = arith.addi %1825, %44 : index
                %1845 = arith.addi %1840, %40 : index
                %1846 = memref.load %1817[%1844] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1846, %1[%1845] : memref<?xf32, #gpu.address_space<global>>
                %1847 = arith.addi %1825, %84 : index
                %1848 = arith.addi %1840, %79 : index
                %1849 = memref.load %1817[%1847] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %1849, %1[%1848] : memref<?xf32, #gpu.address_space<global>>
                %1850 = arith.addi %1825, %85 : index
                %1851 = arith.addi %1840, %80 : index
                %1852 = arith.cmpi slt, %1012, %86 : i32
                scf.if %1852 {
                  %1853 = memref.load %1817[%1850] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %1853, %1[%1851] : memref<?xf32, #gpu.address_space<global>>
                }
              }
              %1854 = arith.muli %136, %49 overflow<nsw> : i64
              %1855 = arith.addi %997, %78 overflow<nsw> : i64
              %1856 = arith.minsi %1855, %67 : i64
              %1857 = arith.addi %1854, %1856 overflow<nsw> : i64
              %1858 = arith.addi %1857, %57 overflow<nsw> : i64
              %1859 = arith.muli %1858, %3 overflow<nsw> : i64
              %1860 = arith.muli %142, %58 overflow<nsw> : i64
              %1861 = arith.addi %1859, %1860 overflow<nsw> : i64
              %1862 = arith.muli %138, %52 overflow<nsw> : i64
              %1863 = arith.addi %1861, %1862 overflow<nsw> : i64
              %1864 = arith.muli %144, %56 overflow<nsw> : i64
              %1865 = arith.addi %1863, %1864 overflow<nsw> : i64
              %1866 = arith.addi %1865, %60 overflow<nsw> : i64
              %1867 = arith.index_cast %1866 : i64 to index
              memref.prefetch %0[%1867], read, locality<2>, data : memref<?xf32, #gpu.address_space<global>>
              %1868 = arith.muli %1436, %3 overflow<nsw> : i64
              %1869 = arith.muli %138, %52 overflow<nsw> : i64
              %1870 = arith.addi %1868, %1869 overflow<nsw> : i64
              %1871 = arith.muli %144, %56 overflow<nsw> : i64
              %1872 = arith.addi %1870, %1871 overflow<nsw> : i64
              %1873 = arith.addi %1872, %60 overflow<nsw> : i64
              %1874 = arith.muli %1012, %69 : i32
              %1875 = arith.extsi %1874 : i32 to i64
              %1876 = arith.addi %1873, %1875 : i64
              %1877 = arith.index_cast %1876 : i64 to index
              %1878 = memref.load %0[%1877] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1878, %92[%24] : memref<20xf32>
              %1879 = arith.addi %1877, %40 : index
              %1880 = memref.load %0[%1879] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1880, %92[%25] : memref<20xf32>
              %1881 = arith.addi %1877, %79 : index
              %1882 = memref.load %0[%1881] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1882, %92[%26] : memref<20xf32>
              %1883 = arith.addi %1877, %80 : index
              %1884 = memref.load %0[%1883] : memref<?xf32, #gpu.address_space<global>>
              memref.store %1884, %92[%27] : memref<20xf32>
              %1885 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
              %1886 = arith.shrui %140, %81 : i32
              %1887 = arith.muli %1886, %82 : i32
              %1888 = arith.index_cast %1887 : i32 to index
              %1889 = arith.muli %1012, %83 : i32
              %1890 = arith.index_cast %1889 : i32 to index
              %1891 = arith.addi %1888, %1890 : index
              %1892 = arith.index_cast %1012 : i32 to index
              %1893 = arith.addi %1888, %1892 : index
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1894 = memref.load %92[%16] : memref<20xf32>
              memref.store %1894, %1885[%1893] : memref<528xf32, #gpu.address_space<workgroup>>
              %1895 = memref.load %92[%17] : memref<20xf32>
              %1896 = arith.addi %1893, %40 : index
              memref.store %1895, %1885[%1896] : memref<528xf32, #gpu.address_space<workgroup>>
              %1897 = memref.load %92[%18] : memref<20xf32>
              %1898 = arith.addi %1893, %79 : index
              memref.store %1897, %1885[%1898] : memref<528xf32, #gpu.address_space<workgroup>>
              %1899 = memref.load %92[%19] : memref<20xf32>
              %1900 = arith.addi %1893, %80 : index
              memref.store %1899, %1885[%1900] : memref<528xf32, #gpu.address_space<workgroup>>
              llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
              %1901 = vector.load %1885[%1891] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
              %1902 = vector.extract %1901[0] : f32 from vector<4xf32>
              %1903 = vector.extract %1901[1] : f32 from vector<4xf32>
              %1904 = vector.extract %1901[2] : f32 from vector<4xf32>
              %1905 = vector.extract %1901[3] : f32 from vector<4xf32>
              memref.store %1902, %87[%26] : memref<40xf32>
              memref.store %1903, %87[%27] : memref<40xf32>
              memref.store %1904, %87[%28] : memref<40xf32>
              memref.store %1905, %87[%29] : memref<40xf32>
              %1906 = memref.load %87[%26] : memref<40xf32>
              memref.store %1906, %91[%8] : memref<4xf32>
              %1907 = memref.load %87[%27] : memref<40xf32>
              memref.store %1907, %91[%9] : memref<4xf32>
              %1908 = memref.load %87[%28] : memref<40xf32>
              memref.store %1908, %91[%10] : memref<4xf32>
              %1909 = memref.load %87[%29] : memref<40xf32>
              memref.store %1909, %91[%11] : memref<4xf32>
              %1910 = memref.load %91[%10] : memref<4xf32>
              %1911, %1912 = gpu.shuffle idx %1910, %1059, %55 : f32
              memref.store %1911, %87[%24] : memref<40xf32>
              %1913 = memref.load %91[%11] : memref<4xf32>
              %1914, %1915 = gpu.shuffle idx %1913, %1059, %55 : f32
              memref.store %1914, %87[%25] : memref<40xf32>
              %1916 = memref.load %91[%8] : memref<4xf32>
              %1917, %1918 = gpu.shuffle idx %1916, %1066, %55 : f32
              memref.store %1917, %87[%30] : memref<40xf32>
              %1919 = memref.load %91[%9] : memref<4xf32>
              %1920, %1921 = gpu.shuffle idx %1919, %1066, %55 : f32
              memref.store %1920, %87[%31] : memref<40xf32>
              %1922 = memref.load %87[%26] : memref<40xf32>
              %1923 = memref.load %87[%24] : memref<40xf32>
              %1924 = memref.load %87[%28] : memref<40xf32>
              %1925 = arith.addf %1923, %1924 : f32
              %1926 = memref.load %87[%25] : memref<40xf32>
              %1927 = memref.load %87[%27] : memref<40xf32>
              %1928 = arith.addf %1926, %1927 : f32
              %1929 = arith.mulf %72, %1928 : f32
              %1930 = math.fma %71, %1925, %1929 : f32
              %1931 = math.fma %70, %1922, %1930 : f32
              memref.store %1931, %88[%16] : memref<20xf32>
              %1932 = memref.load %87[%27] : memref<40xf32>
              %1933 = memref.load %87[%25] : memref<40xf32>
              %1934 = memref.load %87[%29] : memref<40xf32>
              %1935 = arith.addf %1933, %1934 : f32
              %1936 = memref.load %87[%26] : memref<40xf32>
              %1937 = memref.load %87[%28] : memref<40xf32>
              %1938 = arith.addf %1936, %1937 : f32
              %1939 = arith.mulf %72, %1938 : f32
              %1940 = math.fma %71, %1935, %1939 : f32
              %1941 = math.fma %70, %1932, %1940 : f32
              memref.store %1941, %88[%17] : memref<20xf32>
              %1942 = memref.load %87[%28] : memref<40xf32>
              %1943 = memref.load %87[%26] : memref<40xf32>
              %1944 = memref.load %87[%30] : memref<40xf32>
              %1945 = arith.addf %1943, %1944 : f32
              %1946 = memref.load %87[%27] : memref<40xf32>
              %1947 = memref.load %87[%29] : memref<40xf32>
              %1948 = arith.addf %1946, %1947 : f32
              %1949 = arith.mulf %72, %1948 : f32
              %1950 = math.fma %71, %1945, %1949 : f32
              %1951 = math.fma %70, %1942, %1950 : f32
              memref.store %1951, %88[%18] : memref<20xf32>
              %1952 = memref.load %87[%29] : memref<40xf32>
              %1953 = memref.load %87[%27] : memref<40xf32>
              %1954 = memref.load %87[%31] : memref<40xf32>
              %1955 = arith.addf %1953, %1954 : f32
              %1956 = memref.load %87[%28] : memref<40xf32>
              %1957 = memref.load %87[%30] : memref<40xf32>
              %1958 = arith.addf %1956, %1957 : f32
              %1959 = arith.mulf %72, %1958 : f32
              %1960 = math.fma %71, %1955, %1959 : f32
              %1961 = math.fma %70, %1952, %1960 : f32
              memref.store %1961, %88[%19] : memref<20xf32>
              %1962 = memref.load %88[%8] : memref<20xf32>
              %1963 = memref.load %88[%20] : memref<20xf32>
              %1964 = memref.load %88[%16] : memref<20xf32>
              %1965 = arith.addf %1963, %1964 : f32
              %1966 = memref.load %88[%24] : memref<20xf32>
              %1967 = memref.load %88[%12] : memref<20xf32>
              %1968 = arith.addf %1966, %1967 : f32
              %1969 = arith.mulf %72, %1968 : f32
              %1970 = math.fma %71, %1965, %1969 : f32
              %1971 = math.fma %70, %1962, %1970 : f32
              memref.store %1971, %89[%8] : memref<4xf32>
              %1972 = memref.load %88[%9] : memref<20xf32>
              %1973 = memref.load %88[%21] : memref<20xf32>
              %1974 = memref.load %88[%17] : memref<20xf32>
              %1975 = arith.addf %1973, %1974 : f32
              %1976 = memref.load %88[%25] : memref<20xf32>
              %1977 = memref.load %88[%13] : memref<20xf32>
              %1978 = arith.addf %1976, %1977 : f32
              %1979 = arith.mulf %72, %1978 : f32
              %1980 = math.fma %71, %1975, %1979 : f32
              %1981 = math.fma %70, %1972, %1980 : f32
              memref.store %1981, %89[%9] : memref<4xf32>
              %1982 = memref.load %88[%10] : memref<20xf32>
              %1983 = memref.load %88[%22] : memref<20xf32>
              %1984 = memref.load %88[%18] : memref<20xf32>
              %1985 = arith.addf %1983, %1984 : f32
              %1986 = memref.load %88[%26] : memref<20xf32>
              %1987 = memref.load %88[%14] : memref<20xf32>
              %1988 = arith.addf %1986, %1987 : f32
              %1989 = arith.mulf %72, %1988 : f32
              %1990 = math.fma %71, %1985, %1989 : f32
              %1991 = math.fma %70, %1982, %1990 : f32
              memref.store %1991, %89[%10] : memref<4xf32>
              %1992 = memref.load %88[%11] : memref<20xf32>
              %1993 = memref.load %88[%23] : memref<20xf32>
              %1994 = memref.load %88[%19] : memref<20xf32>
              %1995 = arith.addf %1993, %1994 : f32
              %1996 = memref.load %88[%27] : memref<20xf32>
              %1997 = memref.load %88[%15] : memref<20xf32>
              %1998 = arith.addf %1996, %1997 : f32
              %1999 = arith.mulf %72, %1998 : f32
              %2000 = math.fma %71, %1995, %1999 : f32
              %2001 = math.fma %70, %1992, %2000 : f32
              memref.store %2001, %89[%11] : memref<4xf32>
              %2002 = arith.addf %73, %4 : f32
              %2003 = memref.load %87[%10] : memref<40xf32>
              %2004 = memref.load %89[%8] : memref<4xf32>
              %2005 = arith.subf %2003, %2004 : f32
              %2006 = math.fma %2002, %2005, %2004 : f32
              memref.store %2006, %90[%8] : memref<4xf32>
              %2007 = arith.addf %73, %4 : f32
              %2008 = memref.load %87[%11] : memref<40xf32>
              %2009 = memref.load %89[%9] : memref<4xf32>
              %2010 = arith.subf %2008, %2009 : f32
              %2011 = math.fma %2007, %2010, %2009 : f32
              memref.store %2011, %90[%9] : memref<4xf32>
              %2012 = arith.addf %73, %4 : f32
              %2013 = memref.load %87[%12] : memref<40xf32>
              %2014 = memref.load %89[%10] : memref<4xf32>
              %2015 = arith.subf %2013, %2014 : f32
              %2016 = math.fma %2012, %2015, %2014 : f32
              memref.store %2016, %90[%10] : memref<4xf32>
              %2017 = arith.addf %73, %4 : f32
              %2018 = memref.load %87[%13] : memref<40xf32>
              %2019 = memref.load %89[%11] : memref<4xf32>
              %2020 = arith.subf %2018, %2019 : f32
              %2021 = math.fma %2017, %2020, %2019 : f32
              memref.store %2021, %90[%11] : memref<4xf32>
              %2022 = arith.cmpi sge, %997, %54 : i64
              %2023 = memref.load %90[%8] : memref<4xf32>
              %2024 = memref.load %90[%9] : memref<4xf32>
              %2025 = memref.load %90[%10] : memref<4xf32>
              %2026 = memref.load %90[%11] : memref<4xf32>
              scf.if %2022 {
                %2027 = memref.get_global @unsharp_0_shared0_scratch : memref<528xf32, #gpu.address_space<workgroup>>
                %2028 = arith.shrui %140, %81 : i32
                %2029 = arith.muli %2028, %82 : i32
                %2030 = arith.index_cast %2029 : i32 to index
                %2031 = arith.muli %1012, %83 : i32
                %2032 = arith.index_cast %2031 : i32 to index
                %2033 = arith.addi %2030, %2032 : index
                %2034 = arith.index_cast %1012 : i32 to index
                %2035 = arith.addi %2030, %2034 : index
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %2036 = vector.from_elements %2023, %2024, %2025, %2026 : vector<4xf32>
                %2037 = arith.addi %2033, %12 : index
                vector.store %2036, %2027[%2037] {alignment = 16 : i64} : memref<528xf32, #gpu.address_space<workgroup>>, vector<4xf32>
                llvm.call_intrinsic "llvm.nvvm.bar.warp.sync"(%68) : (i32) -> ()
                %2038 = arith.muli %136, %49 overflow<nsw> : i64
                %2039 = arith.addi %997, %2038 overflow<nsw> : i64
                %2040 = arith.addi %2039, %57 overflow<nsw> : i64
                %2041 = arith.muli %2040, %3 overflow<nsw> : i64
                %2042 = arith.muli %138, %52 overflow<nsw> : i64
                %2043 = arith.addi %2041, %2042 overflow<nsw> : i64
                %2044 = arith.muli %144, %56 overflow<nsw> : i64
                %2045 = arith.addi %2043, %2044 overflow<nsw> : i64
                %2046 = arith.addi %2045, %60 overflow<nsw> : i64
                %2047 = arith.muli %1012, %69 : i32
                %2048 = arith.extsi %2047 : i32 to i64
                %2049 = arith.addi %2046, %2048 : i64
                %2050 = arith.index_cast %2049 : i64 to index
                %2051 = arith.addi %2035, %12 : index
                %2052 = arith.cmpi sge, %1012, %83 : i32
                scf.if %2052 {
                  %2053 = memref.load %2027[%2051] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %2053, %1[%2050] : memref<?xf32, #gpu.address_space<global>>
                }
                %2054 = arith.addi %2035, %44 : index
                %2055 = arith.addi %2050, %40 : index
                %2056 = memref.load %2027[%2054] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %2056, %1[%2055] : memref<?xf32, #gpu.address_space<global>>
                %2057 = arith.addi %2035, %84 : index
                %2058 = arith.addi %2050, %79 : index
                %2059 = memref.load %2027[%2057] : memref<528xf32, #gpu.address_space<workgroup>>
                memref.store %2059, %1[%2058] : memref<?xf32, #gpu.address_space<global>>
                %2060 = arith.addi %2035, %85 : index
                %2061 = arith.addi %2050, %80 : index
                %2062 = arith.cmpi slt, %1012, %86 : i32
                scf.if %2062 {
                  %2063 = memref.load %2027[%2060] : memref<528xf32, #gpu.address_space<workgroup>>
                  memref.store %2063, %1[%2061] : memref<?xf32, #gpu.address_space<global>>
                }
              }
            }
          }
        } else {
          scf.for %2064 = %53 to %65 step %50  : i64 {
            %2065 = arith.muli %136, %49 overflow<nsw> : i64
            %2066 = arith.minsi %2064, %67 : i64
            %2067 = arith.addi %2065, %2066 overflow<nsw> : i64
            %2068 = arith.addi %2067, %57 overflow<nsw> : i64
            %2069 = arith.cmpi sge, %2068, %53 : i64
            %2070 = arith.cmpi slt, %2068, %2 : i64
            %2071 = arith.andi %2069, %2070 : i1
            %2072 = arith.cmpi sgt, %3, %53 : i64
            %2073 = arith.andi %2071, %2072 : i1
            scf.if %2073 {
              %2074 = arith.muli %2068, %3 overflow<nsw> : i64
              %2075 = arith.muli %142, %58 overflow<nsw> : i64
              %2076 = arith.muli %138, %52 overflow<nsw> : i64
              %2077 = arith.addi %2075, %2076 overflow<nsw> : i64
              %2078 = arith.muli %144, %56 overflow<nsw> : i64
              %2079 = arith.addi %2077, %2078 overflow<nsw> : i64
              %2080 = arith.addi %2079, %60 overflow<nsw> : i64
              %2081 = arith.addi %3, %64 overflow<nsw> : i64
              %2082 = arith.minsi %2080, %2081 : i64
              %2083 = arith.maxsi %2082, %53 : i64
              %2084 = arith.addi %2074, %2083 overflow<nsw> : i64
              %2085 = arith.index_cast %2084 : i64 to index
              %2086 = memref.load %0[%2085] : memref<?xf32, #gpu.address_space<global>>
              memref.store %2086, %87[%10] : memref<40xf32>
            } else {
              memref.store %7, %87[%10] : memref<40xf32>
            }
            %2087 = arith.cmpi sge, %2068, %53 : i64
            %2088 = arith.cmpi slt, %2068, %2 : i64
            %2089 = arith.andi %2087, %2088 : i1
            %2090 = arith.cmpi sgt, %3, %53 : i64
            %2091 = arith.andi %2089, %2090 : i1
            scf.if %2091 {
              %2092 = arith.muli %2068, %3 overflow<nsw> : i64
              %2093 = arith.muli %142, %58 overflow<nsw> : i64
              %2094 = arith.muli %138, %52 overflow<nsw> : i64
              %2095 = arith.addi %2093, %2094 overflow<nsw> : i64
              %2096 = arith.muli %144, %56 overflow<nsw> : i64
              %2097 = arith.addi %2095, %2096 overflow<nsw> : i64
              %2098 = arith.addi %2097, %76 overflow<nsw> : i64
              %2099 = arith.addi %3, %64 overflow<nsw> : i64
              %2100 = arith.minsi %2098, %2099 : i64
              %2101 = arith.maxsi %2100, %53 : i64
              %2102 = arith.addi %2092, %2101 overflow<nsw> : i64
              %2103 = arith.index_cast %2102 : i64 to index
              %2104 = memref.load %0[%2103] : memref<?xf32, #gpu.address_space<global>>
              memref.store %2104, %87[%11] : memref<40xf32>
            } else {
              memref.store %7, %87[%11] : memref<40xf32>
            }
            %2105 = arith.cmpi sge, %2068, %53 : i64
            %2106 = arith.cmpi slt, %2068, %2 : i64
            %2107 = arith.andi %2105, %2106 : i1
            %2108 = arith.cmpi sgt, %3, %53 : i64
            %2109 = arith.andi %2107, %2108 : i1
            scf.if %2109 {
              %2110 = arith.muli %2068, %3 overflow<nsw> : i64
              %2111 = arith.muli %142, %58 overflow<nsw> : i64
              %2112 = arith.muli %138, %52 overflow<nsw> : i64
              %2113 = arith.addi %2111, %2112 overflow<nsw> : i64
              %2114 = arith.muli %144, %56 overflow<nsw> : i64
              %2115 = arith.addi %2113, %2114 overflow<nsw> : i64
              %2116 = arith.addi %2115, %57 overflow<nsw> : i64
              %2117 = arith.addi %3, %64 overflow<nsw> : i64
              %2118 = arith.minsi %2116, %2117 : i64
              %2119 = arith.maxsi %2118, %53 : i64
              %2120 = arith.addi %2110, %2119 overflow<nsw> : i64
              %2121 = arith.index_cast %2120 : i64 to index
              %2122 = memref.load %0[%2121] : memref<?xf32, #gpu.address_space<global>>
              memref.store %2122, %87[%12] : memref<40xf32>
            } else {
              memref.store %7, %87[%12] : memref<40xf32>
            }
            %2123 = arith.cmpi sge, %2068, %53 : i64
            %2124 = arith.cmpi slt, %2068, %2 : i64
            %2125 = arith.andi %2123, %2124 : i1
            %2126 = arith.cmpi sgt, %3, %53 : i64
            %2127 = arith.andi %2125, %2126 : i1
            scf.if %2127 {
              %2128 = arith.muli %2068, %3 overflow<nsw> : i64
              %2129 = arith.muli %142, %58 overflow<nsw> : i64
              %2130 = arith.muli %138, %52 overflow<nsw> : i64
              %2131 = arith.addi %2129, %2130 overflow<nsw> : i64
              %2132 = arith.muli %144, %56 overflow<nsw> : i64
              %2133 = arith.addi %2131, %2132 overflow<nsw> : i64
              %2134 = arith.addi %2133, %64 overflow<nsw> : i64
              %2135 = arith.addi %3, %64 overflow<nsw> : i64
              %2136 = arith.minsi %2134, %2135 : i64
              %2137 = arith.maxsi %2136, %53 : i64
              %2138 = arith.addi %2128, %2137 overflow<nsw> : i64
              %2139 = arith.index_cast %2138 : i64 to index
              %2140 = memref.load %0[%2139] : memref<?xf32, #gpu.address_space<global>>
              memref.store %2140, %87[%13] : memref<40xf32>
            } else {
              memref.store %7, %87[%13] : memref<40xf32>
            }
            %2141 = memref.load %87[%34] : memref<40xf32>
            memref.store %2141, %91[%8] : memref<4xf32>
            %2142 = memref.load %87[%35] : memref<40xf32>
            memref.store %2142, %91[%9] : memref<4xf32>
            %2143 = memref.load %87[%36] : memref<40xf32>
            memref.store %2143, %91[%10] : memref<4xf32>
            %2144 = memref.load %87[%37] : memref<40xf32>
            memref.store %2144, %91[%11] : memref<4xf32>
            %2145 = arith.trunci %142 : i64 to i32
            %2146 = arith.addi %2145, %68 overflow<nsw> : i32
            %2147 = memref.load %91[%10] : memref<4xf32>
            %2148, %2149 = gpu.shuffle idx %2147, %2146, %55 : f32
            memref.store %2148, %87[%32] : memref<40xf32>
            %2150 = memref.load %91[%11] : memref<4xf32>
            %2151, %2152 = gpu.shuffle idx %2150, %2146, %55 : f32
            memref.store %2151, %87[%33] : memref<40xf32>
            %2153 = arith.addi %2145, %69 overflow<nsw> : i32
            %2154 = memref.load %91[%8] : memref<4xf32>
            %2155, %2156 = gpu.shuffle idx %2154, %2153, %55 : f32
            memref.store %2155, %87[%38] : memref<40xf32>
            %2157 = memref.load %91[%9] : memref<4xf32>
            %2158, %2159 = gpu.shuffle idx %2157, %2153, %55 : f32
            memref.store %2158, %87[%39] : memref<40xf32>
            %2160 = arith.muli %136, %49 overflow<nsw> : i64
            %2161 = arith.addi %2064, %2160 overflow<nsw> : i64
            %2162 = arith.addi %2161, %60 overflow<nsw> : i64
            %2163 = arith.cmpi sge, %2162, %53 : i64
            %2164 = arith.cmpi slt, %2162, %2 : i64
            %2165 = arith.andi %2163, %2164 : i1
            %2166 = arith.muli %142, %58 overflow<nsw> : i64
            %2167 = arith.muli %138, %52 overflow<nsw> : i64
            %2168 = arith.addi %2166, %2167 overflow<nsw> : i64
            %2169 = arith.muli %144, %56 overflow<nsw> : i64
            %2170 = arith.addi %2168, %2169 overflow<nsw> : i64
            %2171 = arith.addi %2170, %60 overflow<nsw> : i64
            %2172 = arith.cmpi sge, %2171, %53 : i64
            %2173 = arith.andi %2165, %2172 : i1
            %2174 = arith.cmpi slt, %2171, %3 : i64
            %2175 = arith.andi %2173, %2174 : i1
            scf.if %2175 {
              %2176 = memref.load %87[%34] : memref<40xf32>
              %2177 = memref.load %87[%32] : memref<40xf32>
              %2178 = memref.load %87[%36] : memref<40xf32>
              %2179 = arith.addf %2177, %2178 : f32
              %2180 = memref.load %87[%33] : memref<40xf32>
              %2181 = memref.load %87[%35] : memref<40xf32>
              %2182 = arith.addf %2180, %2181 : f32
              %2183 = arith.mulf %72, %2182 : f32
              %2184 = math.fma %71, %2179, %2183 : f32
              %2185 = math.fma %70, %2176, %2184 : f32
              memref.store %2185, %88[%20] : memref<20xf32>
            } else {
              memref.store %7, %88[%20] : memref<20xf32>
            }
            %2186 = arith.cmpi sge, %2162, %53 : i64
            %2187 = arith.cmpi slt, %2162, %2 : i64
            %2188 = arith.andi %2186, %2187 : i1
            %2189 = arith.addi %2170, %76 overflow<nsw> : i64
            %2190 = arith.cmpi sge, %2189, %53 : i64
            %2191 = arith.andi %2188, %2190 : i1
            %2192 = arith.cmpi slt, %2189, %3 : i64
            %2193 = arith.andi %2191, %2192 : i1
            scf.if %2193 {
              %2194 = memref.load %87[%35] : memref<40xf32>
              %2195 = memref.load %87[%33] : memref<40xf32>
              %2196 = memref.load %87[%37] : memref<40xf32>
              %2197 = arith.addf %2195, %2196 : f32
              %2198 = memref.load %87[%34] : memref<40xf32>
              %2199 = memref.load %87[%36] : memref<40xf32>
              %2200 = arith.addf %2198, %2199 : f32
              %2201 = arith.mulf %72, %2200 : f32
              %2202 = math.fma %71, %2197, %2201 : f32
              %2203 = math.fma %70, %2194, %2202 : f32
              memref.store %2203, %88[%21] : memref<20xf32>
            } else {
              memref.store %7, %88[%21] : memref<20xf32>
            }
            %2204 = arith.cmpi sge, %2162, %53 : i64
            %2205 = arith.cmpi slt, %2162, %2 : i64
            %2206 = arith.andi %2204, %2205 : i1
            %2207 = arith.addi %2170, %57 overflow<nsw> : i64
            %2208 = arith.cmpi sge, %2207, %53 : i64
            %2209 = arith.andi %2206, %2208 : i1
            %2210 = arith.cmpi slt, %2207, %3 : i64
            %2211 = arith.andi %2209, %2210 : i1
            scf.if %2211 {
              %2212 = memref.load %87[%36] : memref<40xf32>
              %2213 = memref.load %87[%34] : memref<40xf32>
              %2214 = memref.load %87[%38] : memref<40xf32>
              %2215 = arith.addf %2213, %2214 : f32
              %2216 = memref.load %87[%35] : memref<40xf32>
              %2217 = memref.load %87[%37] : memref<40xf32>
              %2218 = arith.addf %2216, %2217 : f32
              %2219 = arith.mulf %72, %2218 : f32
              %2220 = math.fma %71, %2215, %2219 : f32
              %2221 = math.fma %70, %2212, %2220 : f32
              memref.store %2221, %88[%22] : memref<20xf32>
            } else {
              memref.store %7, %88[%22] : memref<20xf32>
            }
            %2222 = arith.cmpi sge, %2162, %53 : i64
            %2223 = arith.cmpi slt, %2162, %2 : i64
            %2224 = arith.andi %2222, %2223 : i1
            %2225 = arith.addi %2170, %64 overflow<nsw> : i64
            %2226 = arith.cmpi sge, %2225, %53 : i64
            %2227 = arith.andi %2224, %2226 : i1
            %2228 = arith.cmpi slt, %2225, %3 : i64
            %2229 = arith.andi %2227, %2228 : i1
            scf.if %2229 {
              %2230 = memref.load %87[%37] : memref<40xf32>
              %2231 = memref.load %87[%35] : memref<40xf32>
              %2232 = memref.load %87[%39] : memref<40xf32>
              %2233 = arith.addf %2231, %2232 : f32
              %2234 = memref.load %87[%36] : memref<40xf32>
              %2235 = memref.load %87[%38] : memref<40xf32>
              %2236 = arith.addf %2234, %2235 : f32
              %2237 = arith.mulf %72, %2236 : f32
              %2238 = math.fma %71, %2233, %2237 : f32
              %2239 = math.fma %70, %2230, %2238 : f32
              memref.store %2239, %88[%23] : memref<20xf32>
            } else {
              memref.store %7, %88[%23] : memref<20xf32>
            }
            %2240 = arith.cmpi eq, %2162, %2 : i64
            scf.if %2240 {
              %2241 = memref.load %88[%16] : memref<20xf32>
              memref.store %2241, %88[%20] : memref<20xf32>
              %2242 = memref.load %88[%17] : memref<20xf32>
              memref.store %2242, %88[%21] : memref<20xf32>
              %2243 = memref.load %88[%18] : memref<20xf32>
              memref.store %2243, %88[%22] : memref<20xf32>
              %2244 = memref.load %88[%19] : memref<20xf32>
              memref.store %2244, %88[%23] : memref<20xf32>
            }
            %2245 = arith.addi %2161, %77 overflow<nsw> : i64
            %2246 = arith.cmpi eq, %2245, %2 : i64
            scf.if %2246 {
              %2247 = memref.load %88[%12] : memref<20xf32>
              memref.store %2247, %88[%20] : memref<20xf32>
              %2248 = memref.load %88[%13] : memref<20xf32>
              memref.store %2248, %88[%21] : memref<20xf32>
              %2249 = memref.load %88[%14] : memref<20xf32>
              memref.store %2249, %88[%22] : memref<20xf32>
              %2250 = memref.load %88[%15] : memref<20xf32>
              memref.store %2250, %88[%23] : memref<20xf32>
            }
            %2251 = arith.cmpi eq, %2162, %53 : i64
            scf.if %2251 {
              %2252 = memref.load %88[%20] : memref<20xf32>
              memref.store %2252, %88[%16] : memref<20xf32>
              %2253 = memref.load %88[%21] : memref<20xf32>
              memref.store %2253, %88[%17] : memref<20xf32>
              %2254 = memref.load %88[%22] : memref<20xf32>
              memref.store %2254, %88[%18] : memref<20xf32>
              %2255 = memref.load %88[%23] : memref<20xf32>
              memref.store %2255, %88[%19] : memref<20xf32>
              %2256 = memref.load %88[%20] : memref<20xf32>
              memref.store %2256, %88[%12] : memref<20xf32>
              %2257 = memref.load %88[%21] : memref<20xf32>
              memref.store %2257, %88[%13] : memref<20xf32>
              %2258 = memref.load %88[%22] : memref<20xf32>
              memref.store %2258, %88[%14] : memref<20xf32>
              %2259 = memref.load %88[%23] : memref<20xf32>
              memref.store %2259, %88[%15] : memref<20xf32>
            }
            %2260 = memref.load %88[%12] : memref<20xf32>
            %2261 = memref.load %88[%24] : memref<20xf32>
            %2262 = memref.load %88[%20] : memref<20xf32>
            %2263 = arith.addf %2261, %2262 : f32
            %2264 = memref.load %88[%8] : memref<20xf32>
            %2265 = memref.load %88[%16] : memref<20xf32>
            %2266 = arith.addf %2264, %2265 : f32
            %2267 = arith.mulf %72, %2266 : f32
            %2268 = math.fma %71, %2263, %2267 : f32
            %2269 = math.fma %70, %2260, %2268 : f32
            memref.store %2269, %89[%8] : memref<4xf32>
            %2270 = memref.load %88[%13] : memref<20xf32>
            %2271 = memref.load %88[%25] : memref<20xf32>
            %2272 = memref.load %88[%21] : memref<20xf32>
            %2273 = arith.addf %2271, %2272 : f32
            %2274 = memref.load %88[%9] : memref<20xf32>
            %2275 = memref.load %88[%17] : memref<20xf32>
            %2276 = arith.addf %2274, %2275 : f32
            %2277 = arith.mulf %72, %2276 : f32
            %2278 = math.fma %71, %2273, %2277 : f32
            %2279 = math.fma %70, %2270, %2278 : f32
            memref.store %2279, %89[%9] : memref<4xf32>
            %2280 = memref.load %88[%14] : memref<20xf32>
            %2281 = memref.load %88[%26] : memref<20xf32>
            %2282 = memref.load %88[%22] : memref<20xf32>
            %2283 = arith.addf %2281, %2282 : f32
            %2284 = memref.load %88[%10] : memref<20xf32>
            %2285 = memref.load %88[%18] : memref<20xf32>
            %2286 = arith.addf %2284, %2285 : f32
            %2287 = arith.mulf %72, %2286 : f32
            %2288 = math.fma %71, %2283, %2287 : f32
            %2289 = math.fma %70, %2280, %2288 : f32
            memref.store %2289, %89[%10] : memref<4xf32>
            %2290 = memref.load %88[%15] : memref<20xf32>
            %2291 = memref.load %88[%27] : memref<20xf32>
            %2292 = memref.load %88[%23] : memref<20xf32>
            %2293 = arith.addf %2291, %2292 : f32
            %2294 = memref.load %88[%11] : memref<20xf32>
            %2295 = memref.load %88[%19] : memref<20xf32>
            %2296 = arith.addf %2294, %2295 : f32
            %2297 = arith.mulf %72, %2296 : f32
            %2298 = math.fma %71, %2293, %2297 : f32
            %2299 = math.fma %70, %2290, %2298 : f32
            memref.store %2299, %89[%11] : memref<4xf32>
            %2300 = arith.addf %73, %4 : f32
            %2301 = memref.load %87[%18] : memref<40xf32>
            %2302 = memref.load %89[%8] : memref<4xf32>
            %2303 = arith.subf %2301, %2302 : f32
            %2304 = math.fma %2300, %2303, %2302 : f32
            memref.store %2304, %90[%8] : memref<4xf32>
            %2305 = arith.addf %73, %4 : f32
            %2306 = memref.load %87[%19] : memref<40xf32>
            %2307 = memref.load %89[%9] : memref<4xf32>
            %2308 = arith.subf %2306, %2307 : f32
            %2309 = math.fma %2305, %2308, %2307 : f32
            memref.store %2309, %90[%9] : memref<4xf32>
            %2310 = arith.addf %73, %4 : f32
            %2311 = memref.load %87[%20] : memref<40xf32>
            %2312 = memref.load %89[%10] : memref<4xf32>
            %2313 = arith.subf %2311, %2312 : f32
            %2314 = math.fma %2310, %2313, %2312 : f32
            memref.store %2314, %90[%10] : memref<4xf32>
            %2315 = arith.addf %73, %4 : f32
            %2316 = memref.load %87[%21] : memref<40xf32>
            %2317 = memref.load %89[%11] : memref<4xf32>
            %2318 = arith.subf %2316, %2317 : f32
            %2319 = math.fma %2315, %2318, %2317 : f32
            memref.store %2319, %90[%11] : memref<4xf32>
            %2320 = arith.addi %2064, %60 overflow<nsw> : i64
            %2321 = arith.cmpi sge, %2320, %54 : i64
            %2322 = arith.cmpi sge, %142, %50 : i64
            %2323 = arith.andi %2321, %2322 : i1
            %2324 = arith.cmpi slt, %142, %74 : i64
            %2325 = arith.andi %2323, %2324 : i1
            scf.if %2325 {
              %2326 = arith.addi %2161, %75 overflow<nsw> : i64
              %2327 = arith.cmpi sge, %2326, %53 : i64
              %2328 = arith.cmpi slt, %2326, %2 : i64
              %2329 = arith.andi %2327, %2328 : i1
              %2330 = arith.cmpi sge, %2171, %53 : i64
              %2331 = arith.andi %2329, %2330 : i1
              %2332 = arith.cmpi slt, %2171, %3 : i64
              %2333 = arith.andi %2331, %2332 : i1
              scf.if %2333 {
                %2334 = memref.load %90[%8] : memref<4xf32>
                %2335 = arith.muli %2326, %3 overflow<nsw> : i64
                %2336 = arith.muli %142, %58 overflow<nsw> : i64
                %2337 = arith.addi %2335, %2336 overflow<nsw> : i64
                %2338 = arith.muli %138, %52 overflow<nsw> : i64
                %2339 = arith.addi %2337, %2338 overflow<nsw> : i64
                %2340 = arith.muli %144, %56 overflow<nsw> : i64
                %2341 = arith.addi %2339, %2340 overflow<nsw> : i64
                %2342 = arith.addi %2341, %60 overflow<nsw> : i64
                %2343 = arith.index_cast %2342 : i64 to index
                memref.store %2334, %1[%2343] : memref<?xf32, #gpu.address_space<global>>
              }
              %2344 = arith.cmpi sge, %2326, %53 : i64
              %2345 = arith.cmpi slt, %2326, %2 : i64
              %2346 = arith.andi %2344, %2345 : i1
              %2347 = arith.cmpi sge, %2189, %53 : i64
              %2348 = arith.andi %2346, %2347 : i1
              %2349 = arith.cmpi slt, %2189, %3 : i64
              %2350 = arith.andi %2348, %2349 : i1
              scf.if %2350 {
                %2351 = memref.load %90[%9] : memref<4xf32>
                %2352 = arith.muli %2326, %3 overflow<nsw> : i64
                %2353 = arith.muli %142, %58 overflow<nsw> : i64
                %2354 = arith.addi %2352, %2353 overflow<nsw> : i64
                %2355 = arith.muli %138, %52 overflow<nsw> : i64
                %2356 = arith.addi %2354, %2355 overflow<nsw> : i64
                %2357 = arith.muli %144, %56 overflow<nsw> : i64
                %2358 = arith.addi %2356, %2357 overflow<nsw> : i64
                %2359 = arith.addi %2358, %76 overflow<nsw> : i64
                %2360 = arith.index_cast %2359 : i64 to index
                memref.store %2351, %1[%2360] : memref<?xf32, #gpu.address_space<global>>
              }
              %2361 = arith.cmpi sge, %2326, %53 : i64
              %2362 = arith.cmpi slt, %2326, %2 : i64
              %2363 = arith.andi %2361, %2362 : i1
              %2364 = arith.cmpi sge, %2207, %53 : i64
              %2365 = arith.andi %2363, %2364 : i1
              %2366 = arith.cmpi slt, %2207, %3 : i64
              %2367 = arith.andi %2365, %2366 : i1
              scf.if %2367 {
                %2368 = memref.load %90[%10] : memref<4xf32>
                %2369 = arith.muli %2326, %3 overflow<nsw> : i64
                %2370 = arith.muli %142, %58 overflow<nsw> : i64
                %2371 = arith.addi %2369, %2370 overflow<nsw> : i64
                %2372 = arith.muli %138, %52 overflow<nsw> : i64
                %2373 = arith.addi %2371, %2372 overflow<nsw> : i64
                %2374 = arith.muli %144, %56 overflow<nsw> : i64
                %2375 = arith.addi %2373, %2374 overflow<nsw> : i64
                %2376 = arith.addi %2375, %57 overflow<nsw> : i64
                %2377 = arith.index_cast %2376 : i64 to index
                memref.store %2368, %1[%2377] : memref<?xf32, #gpu.address_space<global>>
              }
              %2378 = arith.cmpi sge, %2326, %53 : i64
              %2379 = arith.cmpi slt, %2326, %2 : i64
              %2380 = arith.andi %2378, %2379 : i1
              %2381 = arith.cmpi sge, %2225, %53 : i64
              %2382 = arith.andi %2380, %2381 : i1
              %2383 = arith.cmpi slt, %2225, %3 : i64
              %2384 = arith.andi %2382, %2383 : i1
              scf.if %2384 {
                %2385 = memref.load %90[%11] : memref<4xf32>
                %2386 = arith.muli %2326, %3 overflow<nsw> : i64
                %2387 = arith.muli %142, %58 overflow<nsw> : i64
                %2388 = arith.addi %2386, %2387 overflow<nsw> : i64
                %2389 = arith.muli %138, %52 overflow<nsw> : i64
                %2390 = arith.addi %2388, %2389 overflow<nsw> : i64
                %2391 = arith.muli %144, %56 overflow<nsw> : i64
                %2392 = arith.addi %2390, %2391 overflow<nsw> : i64
                %2393 = arith.addi %2392, %64 overflow<nsw> : i64
                %2394 = arith.index_cast %2393 : i64 to index
                memref.store %2385, %1[%2394] : memref<?xf32, #gpu.address_space<global>>
              }
            }
            %2395 = memref.load %87[%8] : memref<40xf32>
            %2396 = memref.load %87[%9] : memref<40xf32>
            %2397 = memref.load %87[%10] : memref<40xf32>
            %2398 = memref.load %87[%11] : memref<40xf32>
            %2399 = memref.load %87[%12] : memref<40xf32>
            %2400 = memref.load %87[%13] : memref<40xf32>
            %2401 = memref.load %87[%14] : memref<40xf32>
            %2402 = memref.load %87[%15] : memref<40xf32>
            %2403 = memref.load %87[%16] : memref<40xf32>
            %2404 = memref.load %87[%17] : memref<40xf32>
            %2405 = memref.load %87[%18] : memref<40xf32>
            %2406 = memref.load %87[%19] : memref<40xf32>
            %2407 = memref.load %87[%20] : memref<40xf32>
            %2408 = memref.load %87[%21] : memref<40xf32>
            %2409 = memref.load %87[%22] : memref<40xf32>
            %2410 = memref.load %87[%23] : memref<40xf32>
            %2411 = memref.load %87[%24] : memref<40xf32>
            %2412 = memref.load %87[%25] : memref<40xf32>
            %2413 = memref.load %87[%26] : memref<40xf32>
            %2414 = memref.load %87[%27] : memref<40xf32>
            %2415 = memref.load %87[%28] : memref<40xf32>
            %2416 = memref.load %87[%29] : memref<40xf32>
            %2417 = memref.load %87[%30] : memref<40xf32>
            %2418 = memref.load %87[%31] : memref<40xf32>
            %2419 = memref.load %87[%32] : memref<40xf32>
            %2420 = memref.load %87[%33] : memref<40xf32>
            %2421 = memref.load %87[%34] : memref<40xf32>
            %2422 = memref.load %87[%35] : memref<40xf32>
            %2423 = memref.load %87[%36] : memref<40xf32>
            %2424 = memref.load %87[%37] : memref<40xf32>
            %2425 = memref.load %87[%38] : memref<40xf32>
            %2426 = memref.load %87[%39] : memref<40xf32>
            %2427 = memref.load %87[%40] : memref<40xf32>
            %2428 = memref.load %87[%41] : memref<40xf32>
            %2429 = memref.load %87[%42] : memref<40xf32>
            %2430 = memref.load %87[%43] : memref<40xf32>
            %2431 = memref.load %87[%44] : memref<40xf32>
            %2432 = memref.load %87[%45] : memref<40xf32>
            %2433 = memref.load %87[%46] : memref<40xf32>
            %2434 = memref.load %87[%47] : memref<40xf32>
            memref.store %2403, %87[%8] : memref<40xf32>
            memref.store %2404, %87[%9] : memref<40xf32>
            memref.store %2405, %87[%10] : memref<40xf32>
            memref.store %2406, %87[%11] : memref<40xf32>
            memref.store %2407, %87[%12] : memref<40xf32>
            memref.store %2408, %87[%13] : memref<40xf32>
            memref.store %2409, %87[%14] : memref<40xf32>
            memref.store %2410, %87[%15] : memref<40xf32>
            memref.store %2411, %87[%16] : memref<40xf32>
            memref.store %2412, %87[%17] : memref<40xf32>
            memref.store %2413, %87[%18] : memref<40xf32>
            memref.store %2414, %87[%19] : memref<40xf32>
            memref.store %2415, %87[%20] : memref<40xf32>
            memref.store %2416, %87[%21] : memref<40xf32>
            memref.store %2417, %87[%22] : memref<40xf32>
            memref.store %2418, %87[%23] : memref<40xf32>
            memref.store %2419, %87[%24] : memref<40xf32>
            memref.store %2420, %87[%25] : memref<40xf32>
            memref.store %2421, %87[%26] : memref<40xf32>
            memref.store %2422, %87[%27] : memref<40xf32>
            memref.store %2423, %87[%28] : memref<40xf32>
            memref.store %2424, %87[%29] : memref<40xf32>
            memref.store %2425, %87[%30] : memref<40xf32>
            memref.store %2426, %87[%31] : memref<40xf32>
            memref.store %2427, %87[%32] : memref<40xf32>
            memref.store %2428, %87[%33] : memref<40xf32>
            memref.store %2429, %87[%34] : memref<40xf32>
            memref.store %2430, %87[%35] : memref<40xf32>
            memref.store %2431, %87[%36] : memref<40xf32>
            memref.store %2432, %87[%37] : memref<40xf32>
            memref.store %2433, %87[%38] : memref<40xf32>
            memref.store %2434, %87[%39] : memref<40xf32>
            memref.store %2395, %87[%40] : memref<40xf32>
            memref.store %2396, %87[%41] : memref<40xf32>
            memref.store %2397, %87[%42] : memref<40xf32>
            memref.store %2398, %87[%43] : memref<40xf32>
            memref.store %2399, %87[%44] : memref<40xf32>
            memref.store %2400, %87[%45] : memref<40xf32>
            memref.store %2401, %87[%46] : memref<40xf32>
            memref.store %2402, %87[%47] : memref<40xf32>
            %2435 = memref.load %88[%8] : memref<20xf32>
            %2436 = memref.load %88[%9] : memref<20xf32>
            %2437 = memref.load %88[%10] : memref<20xf32>
            %2438 = memref.load %88[%11] : memref<20xf32>
            %2439 = memref.load %88[%12] : memref<20xf32>
            %2440 = memref.load %88[%13] : memref<20xf32>
            %2441 = memref.load %88[%14] : memref<20xf32>
            %2442 = memref.load %88[%15] : memref<20xf32>
            %2443 = memref.load %88[%16] : memref<20xf32>
            %2444 = memref.load %88[%17] : memref<20xf32>
            %2445 = memref.load %88[%18] : memref<20xf32>
            %2446 = memref.load %88[%19] : memref<20xf32>
            %2447 = memref.load %88[%20] : memref<20xf32>
            %2448 = memref.load %88[%21] : memref<20xf32>
            %2449 = memref.load %88[%22] : memref<20xf32>
            %2450 = memref.load %88[%23] : memref<20xf32>
            %2451 = memref.load %88[%24] : memref<20xf32>
            %2452 = memref.load %88[%25] : memref<20xf32>
            %2453 = memref.load %88[%26] : memref<20xf32>
            %2454 = memref.load %88[%27] : memref<20xf32>
            memref.store %2439, %88[%8] : memref<20xf32>
            memref.store %2440, %88[%9] : memref<20xf32>
            memref.store %2441, %88[%10] : memref<20xf32>
            memref.store %2442, %88[%11] : memref<20xf32>
            memref.store %2443, %88[%12] : memref<20xf32>
            memref.store %2444, %88[%13] : memref<20xf32>
            memref.store %2445, %88[%14] : memref<20xf32>
            memref.store %2446, %88[%15] : memref<20xf32>
            memref.store %2447, %88[%16] : memref<20xf32>
            memref.store %2448, %88[%17] : memref<20xf32>
            memref.store %2449, %88[%18] : memref<20xf32>
            memref.store %2450, %88[%19] : memref<20xf32>
            memref.store %2451, %88[%20] : memref<20xf32>
            memref.store %2452, %88[%21] : memref<20xf32>
            memref.store %2453, %88[%22] : memref<20xf32>
            memref.store %2454, %88[%23] : memref<20xf32>
            memref.store %2435, %88[%24] : memref<20xf32>
            memref.store %2436, %88[%25] : memref<20xf32>
            memref.store %2437, %88[%26] : memref<20xf32>
            memref.store %2438, %88[%27] : memref<20xf32>
          }
        }
      }
      gpu.return
    }
  }
}
