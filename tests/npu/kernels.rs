//! Kernels of each level, with what they compute.

use std::fmt::Write as _;

/// Linalg, one program for each 64 elements: `out = x + x`. It needs a grid.
pub fn gridded() -> String {
    r#"module {
  func.func @twice(%x: memref<*xf32> {tt.divisibility = 16 : i32}, %out: memref<*xf32>, %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
    %c64 = arith.constant 64 : i32
    %start = arith.muli %px, %c64 : i32
    %offset = arith.index_cast %start : i32 to index
    %xv = memref.reinterpret_cast %x to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
    %ov = memref.reinterpret_cast %out to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%xv : memref<64xf32, strided<[1], offset: ?>>) outs(%ov : memref<64xf32, strided<[1], offset: ?>>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %a : f32
      linalg.yield %s : f32
    }
    return
  }
}
"#
    .to_owned()
}

/// Linalg with shapes of its own: `out = x + x` of 256 elements. It takes no grid.
pub fn gridless() -> String {
    r#"module {
  func.func @whole(%x: memref<256xf32>, %out: memref<256xf32>) {
    linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : memref<256xf32>) outs(%out : memref<256xf32>) {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %a : f32
      linalg.yield %s : f32
    }
    return
  }
}
"#
    .to_owned()
}

/// AIR: `out = x + x` of 256 elements.
pub fn air() -> String {
    r#"module {
  func.func @launched(%x: memref<256xf32>, %out: memref<256xf32>) {
    %c1 = arith.constant 1 : index
    air.launch (%tx) in (%sx = %c1) args(%x0 = %x, %out0 = %out) : memref<256xf32>, memref<256xf32> {
      air.segment @seg args(%x1 = %x0, %out1 = %out0) : memref<256xf32>, memref<256xf32> {
        %one = arith.constant 1 : index
        air.herd @herd_0 tile (%hx, %hy) in (%hsx = %one, %hsy = %one) args(%x2 = %x1, %out2 = %out1) : memref<256xf32>, memref<256xf32> {
          %xl = memref.alloc() : memref<256xf32, 2 : i32>
          %outl = memref.alloc() : memref<256xf32, 2 : i32>
          air.dma_memcpy_nd (%xl[] [] [], %x2[] [] []) : (memref<256xf32, 2 : i32>, memref<256xf32>)
          linalg.add ins(%xl, %xl : memref<256xf32, 2 : i32>, memref<256xf32, 2 : i32>) outs(%outl : memref<256xf32, 2 : i32>)
          air.dma_memcpy_nd (%out2[] [] [], %outl[] [] []) : (memref<256xf32>, memref<256xf32, 2 : i32>)
          memref.dealloc %xl : memref<256xf32, 2 : i32>
          memref.dealloc %outl : memref<256xf32, 2 : i32>
        }
      }
    }
    return
  }
}
"#
    .to_owned()
}

/// AIE on a part of the array, with a core: `out = x + x` of 256 elements. `links` are attributes
/// of the core.
pub fn aie_with(part: &str, links: &str) -> String {
    let of = "memref<256xf32>";
    format!(
        "module {{
  aie.device({part}) @main {{
    %shim = aie.tile(0, 0)
    %core_tile = aie.tile(0, 2)
    aie.objectfifo @a(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @c(%core_tile, {{%shim}}, 2 : i32) : !aie.objectfifo<{of}>
    %core = aie.core(%core_tile) {{
      %av = aie.objectfifo.acquire @a(Consume, 1) : !aie.objectfifosubview<{of}>
      %am = aie.objectfifo.subview.access %av[0] : !aie.objectfifosubview<{of}> -> {of}
      %cv = aie.objectfifo.acquire @c(Produce, 1) : !aie.objectfifosubview<{of}>
      %cm = aie.objectfifo.subview.access %cv[0] : !aie.objectfifosubview<{of}> -> {of}
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 256 : index
      scf.for %i = %c0 to %n step %c1 {{
        %x = memref.load %am[%i] : {of}
        %z = arith.addf %x, %x : f32
        memref.store %z, %cm[%i] : {of}
      }}
      aie.end
    }}{links}
    aie.runtime_sequence @sequence(%x : {of}, %out : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
      aiex.npu.dma_memcpy_nd(%x[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 0 : i64, metadata = @a}} : {of}
      aiex.npu.dma_memcpy_nd(%out[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 1 : i64, metadata = @c}} : {of}
      aiex.npu.dma_wait {{symbol = @c}}
    }}
  }}
}}
"
    )
}

/// The same without link files.
pub fn aie(part: &str) -> String {
    aie_with(part, "")
}

/// AIE: a device that copies through its memory tile, with a sequence for each of `sequences`: its
/// name and its number of elements.
pub fn copy_device(part: &str, device: &str, sequences: &[(&str, u32)]) -> String {
    let mut text = format!(
        "  aie.device({part}) @{device} {{
    %shim = aie.tile(0, 0)
    %mem = aie.tile(0, 1)
    aie.objectfifo @of_in(%shim, {{%mem}}, 2 : i32) : !aie.objectfifo<memref<256xi32>>
    aie.objectfifo @of_out(%mem, {{%shim}}, 2 : i32) : !aie.objectfifo<memref<256xi32>>
    aie.objectfifo.link [@of_in] -> [@of_out]([] [])
"
    );
    for (name, count) in sequences {
        let of = format!("memref<{count}xi32>");
        let _ = write!(
            text,
            "    aie.runtime_sequence @{name}(%src : {of}, %dst : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @{device} }}
      %i = aiex.dma_configure_task_for @of_in {{
        aie.dma_bd(%src : {of}, 0, {count})
        aie.end
      }}
      %o = aiex.dma_configure_task_for @of_out {{
        aie.dma_bd(%dst : {of}, 0, {count})
        aie.end
      }} {{issue_token = true}}
      aiex.dma_start_task(%i)
      aiex.dma_start_task(%o)
      aiex.dma_await_task(%o)
    }}
"
        );
    }
    text + "  }\n"
}

/// A module of devices.
pub fn module(devices: &[String]) -> String {
    format!("module {{\n{}}}\n", devices.concat())
}
