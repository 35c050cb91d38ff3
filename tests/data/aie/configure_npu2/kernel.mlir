// A sequence that configures two devices one after the other and runs their sequences. DMA only.
module {
  aie.device(npu2) @first {
    %shim = aie.tile(0, 0)
    %mem = aie.tile(0, 1)
    aie.objectfifo @of_in(%shim, {%mem}, 2 : i32) : !aie.objectfifo<memref<1024xi32>>
    aie.objectfifo @of_out(%mem, {%shim}, 2 : i32) : !aie.objectfifo<memref<1024xi32>>
    aie.objectfifo.link [@of_in] -> [@of_out]([] [])
    aie.runtime_sequence @copy_i32(%src : memref<4096xi32>, %dst : memref<4096xi32>) {
      %i = aiex.dma_configure_task_for @of_in {
        aie.dma_bd(%src : memref<4096xi32>, 0, 4096)
        aie.end
      }
      %o = aiex.dma_configure_task_for @of_out {
        aie.dma_bd(%dst : memref<4096xi32>, 0, 4096)
        aie.end
      } {issue_token = true}
      aiex.dma_start_task(%i)
      aiex.dma_start_task(%o)
      aiex.dma_await_task(%o)
    }
  }
  aie.device(npu2) @second {
    %shim = aie.tile(0, 0)
    %mem = aie.tile(0, 1)
    aie.objectfifo @of_in(%shim, {%mem}, 2 : i32) : !aie.objectfifo<memref<1024xi32>>
    aie.objectfifo @of_out(%mem, {%shim}, 2 : i32) : !aie.objectfifo<memref<1024xi32>>
    aie.objectfifo.link [@of_in] -> [@of_out]([] [])
    aie.runtime_sequence @copy2(%src : memref<4096xi32>, %dst : memref<4096xi32>) {
      %i = aiex.dma_configure_task_for @of_in {
        aie.dma_bd(%src : memref<4096xi32>, 0, 4096)
        aie.end
      }
      %o = aiex.dma_configure_task_for @of_out {
        aie.dma_bd(%dst : memref<4096xi32>, 0, 4096)
        aie.end
      } {issue_token = true}
      aiex.dma_start_task(%i)
      aiex.dma_start_task(%o)
      aiex.dma_await_task(%o)
    }
  }
  aie.device(npu2) {
    aie.runtime_sequence @both(%a : memref<4096xi32>, %b : memref<4096xi32>, %c : memref<4096xi32>) {
      aiex.configure @first {
        aiex.run @copy_i32(%a, %b) : (memref<4096xi32>, memref<4096xi32>)
        aiex.run @copy_i32(%b, %c) : (memref<4096xi32>, memref<4096xi32>)
      }
      aiex.configure @second {
        aiex.run @copy2(%c, %a) : (memref<4096xi32>, memref<4096xi32>)
      }
    }
  }
}
