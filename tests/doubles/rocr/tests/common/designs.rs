//! Designs at the AIE level.

/// A core that computes `%z` of `%x` and `%y`, 1024 elements each, for a device `part`.
pub fn core(part: &str, element: &str, compute: &str) -> String {
    let of = format!("memref<1024x{element}>");
    let acquire = |name: &str, port: &str| {
        format!(
            "      %{name}v = aie.objectfifo.acquire @{name}({port}, 1) : !aie.objectfifosubview<{of}>
      %{name}m = aie.objectfifo.subview.access %{name}v[0] : !aie.objectfifosubview<{of}> -> {of}\n"
        )
    };
    let copy = |id: u32, argument: &str, fifo: &str| {
        format!(
            "      aiex.npu.dma_memcpy_nd(%{argument}[0, 0, 0, 0][1, 1, 1, 1024][0, 0, 0, 1]) {{id = {id} : i64, metadata = @{fifo}}} : {of}\n"
        )
    };
    format!(
        "module {{
  aie.device({part}) @main {{
    %shim = aie.tile(0, 0)
    %core_tile = aie.tile(0, 2)
    aie.objectfifo @a(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @b(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @c(%core_tile, {{%shim}}, 2 : i32) : !aie.objectfifo<{of}>
    %core = aie.core(%core_tile) {{
{}{}{}      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 1024 : index
      scf.for %i = %c0 to %n step %c1 {{
        %x = memref.load %am[%i] : {of}
        %y = memref.load %bm[%i] : {of}
        {compute}
        memref.store %z, %cm[%i] : {of}
      }}
      aie.end
    }}
    aie.runtime_sequence @sequence(%x : {of}, %y : {of}, %z : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
{}{}{}      aiex.npu.dma_wait {{symbol = @c}}
    }}
  }}
}}
",
        acquire("a", "Consume"),
        acquire("b", "Consume"),
        acquire("c", "Produce"),
        copy(0, "x", "a"),
        copy(1, "y", "b"),
        copy(2, "z", "c"),
    )
}

/// A core that computes `%z` of `%x` for 1024 numbers: into a second argument, or in place.
pub fn map(part: &str, compute: &str, is_in_place: bool) -> String {
    let of = "memref<1024xi32>";
    let (arguments, to) = match is_in_place {
        true => (format!("%x : {of}"), "x"),
        false => (format!("%x : {of}, %z : {of}"), "z"),
    };
    let port = |name: &str, port: &str| {
        format!(
            "      %{name}v = aie.objectfifo.acquire @{name}({port}, 1) : !aie.objectfifosubview<{of}>
      %{name}m = aie.objectfifo.subview.access %{name}v[0] : !aie.objectfifosubview<{of}> -> {of}\n"
        )
    };
    let copy = |id: u32, argument: &str, fifo: &str| {
        format!(
            "      aiex.npu.dma_memcpy_nd(%{argument}[0, 0, 0, 0][1, 1, 1, 1024][0, 0, 0, 1]) {{id = {id} : i64, metadata = @{fifo}}} : {of}\n"
        )
    };
    format!(
        "module {{
  aie.device({part}) @main {{
    %shim = aie.tile(0, 0)
    %core_tile = aie.tile(0, 2)
    aie.objectfifo @a(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @c(%core_tile, {{%shim}}, 2 : i32) : !aie.objectfifo<{of}>
    %core = aie.core(%core_tile) {{
{}{}      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 1024 : index
      scf.for %i = %c0 to %n step %c1 {{
        %x = memref.load %am[%i] : {of}
        {compute}
        memref.store %z, %cm[%i] : {of}
      }}
      aie.end
    }}
    aie.runtime_sequence @sequence({arguments}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
{}{}      aiex.npu.dma_wait {{symbol = @c}}
    }}
  }}
}}
",
        port("a", "Consume"),
        port("c", "Produce"),
        copy(0, "x", "a"),
        copy(1, to, "c"),
    )
}

/// A core that multiplies its first argument by an external variable.
pub fn scaled() -> String {
    core("npu2", "i32", "%z = arith.muli %x, %y : i32")
        .replace(
            "module {\n",
            "module {\n  aiex.scratchpad_parameter @scale : i32\n",
        )
        .replace(
            "%y = memref.load %bm[%i] : memref<1024xi32>",
            "%y = aiex.read_scratchpad_parameter @scale : i32",
        )
        .replace(
            "      aiex.npu.dma_memcpy_nd(%x",
            "      aiex.sync_scratchpad_parameters_from_host\n      aiex.npu.dma_memcpy_nd(%x",
        )
}

/// Passes 1024 elements through the memory tile; what no compiler of the doubles needs a core for.
pub fn copy(part: &str, element: &str) -> String {
    let of = format!("memref<1024x{element}>");
    format!(
        "module {{
  aie.device({part}) @main {{
    %shim = aie.tile(0, 0)
    %mem = aie.tile(0, 1)
    aie.objectfifo @of_in(%shim, {{%mem}}, 2 : i32) : !aie.objectfifo<memref<256x{element}>>
    aie.objectfifo @of_out(%mem, {{%shim}}, 2 : i32) : !aie.objectfifo<memref<256x{element}>>
    aie.objectfifo.link [@of_in] -> [@of_out]([] [])
    aie.runtime_sequence @sequence(%src : {of}, %dst : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
      %i = aiex.dma_configure_task_for @of_in {{
        aie.dma_bd(%src : {of}, 0, 1024)
        aie.end
      }}
      %o = aiex.dma_configure_task_for @of_out {{
        aie.dma_bd(%dst : {of}, 0, 1024)
        aie.end
      }} {{issue_token = true}}
      aiex.dma_start_task(%i)
      aiex.dma_start_task(%o)
      aiex.dma_await_task(%o)
    }}
  }}
}}
"
    )
}
