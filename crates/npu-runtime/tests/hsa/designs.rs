//! Kernels in MLIR.

/// A core that computes `%z` of `%x` and `%y`, 1024 elements each, for a device `part`.
pub fn core(part: &str, element: &str, compute: &str) -> String {
    core_between(part, "", element, compute)
}

/// The same with something before the first copy of its sequence.
fn core_between(part: &str, before: &str, element: &str, compute: &str) -> String {
    let of = format!("memref<1024x{element}>");
    let fifo = |name: &str, ends: &str| {
        format!("    aie.objectfifo @{name}({ends}, 2 : i32) : !aie.objectfifo<{of}>\n")
    };
    let acquire = |name: &str, port: &str| {
        format!(
            "      %{name}v = aie.objectfifo.acquire @{name}({port}, 1) : \
             !aie.objectfifosubview<{of}>
      %{name}m = aie.objectfifo.subview.access %{name}v[0] : \
             !aie.objectfifosubview<{of}> -> {of}\n"
        )
    };
    let copy = |id: u32, argument: &str, fifo: &str| {
        format!(
            "      aiex.npu.dma_memcpy_nd(%{argument}[0, 0, 0, 0][1, 1, 1, 1024][0, 0, 0, 1]) \
             {{id = {id} : i64, metadata = @{fifo}}} : {of}\n"
        )
    };
    [
        format!("module {{\n  aie.device({part}) @main {{\n"),
        "    %shim = aie.tile(0, 0)\n    %core_tile = aie.tile(0, 2)\n".into(),
        fifo("a", "%shim, {%core_tile}"),
        fifo("b", "%shim, {%core_tile}"),
        fifo("c", "%core_tile, {%shim}"),
        "    %core = aie.core(%core_tile) {\n".into(),
        acquire("a", "Consume"),
        acquire("b", "Consume"),
        acquire("c", "Produce"),
        format!(
            "      %c0 = arith.constant 0 : index
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
{before}"
        ),
        copy(0, "x", "a"),
        copy(1, "y", "b"),
        copy(2, "z", "c"),
        "      aiex.npu.dma_wait {symbol = @c}\n    }\n  }\n}\n".into(),
    ]
    .concat()
}

/// A core that multiplies its first argument by an external variable.
pub fn scaled() -> String {
    let sync = "      aiex.sync_scratchpad_parameters_from_host\n";
    core_between("npu2", sync, "i32", "%z = arith.muli %x, %y : i32")
        .replacen("{\n", "{\n  aiex.scratchpad_parameter @scale : i32\n", 1)
        .replace(
            "%y = memref.load %bm[%i] : memref<1024xi32>",
            "%y = aiex.read_scratchpad_parameter @scale : i32",
        )
}

/// A matrix product of `[m, n, k]` as a linalg kernel with whole arguments.
pub fn matmul(element: &str, result: &str, zero: &str, [m, n, k]: [usize; 3]) -> String {
    let view = |name: &str, rows: usize, columns: usize, of: &str| {
        format!(
            "  %{name}v = memref.reinterpret_cast %{name} to offset: [0], sizes: [{rows}, {columns}], \
             strides: [{columns}, 1] : memref<*x{of}> to memref<{rows}x{columns}x{of}, \
             strided<[{columns}, 1]>>\n"
        )
    };
    let local = |name: &str, rows: usize, columns: usize| {
        format!(
            "{}  %{name}l = memref.alloc() : memref<{rows}x{columns}x{element}>
  memref.copy %{name}v, %{name}l : memref<{rows}x{columns}x{element}, strided<[{columns}, 1]>> to \
             memref<{rows}x{columns}x{element}>
  %{name}t = bufferization.to_tensor %{name}l restrict writable : \
             memref<{rows}x{columns}x{element}> to tensor<{rows}x{columns}x{element}>\n",
            view(name, rows, columns, element)
        )
    };
    let of = format!("{m}x{n}x{result}");
    format!(
        "func.func @mm(%a: memref<*x{element}>, %b: memref<*x{element}>, %c: memref<*x{result}>,
              %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {{
  %zero = arith.constant {zero} : {result}
{}{}  %empty = tensor.empty() : tensor<{of}>
  %init = linalg.fill ins(%zero : {result}) outs(%empty : tensor<{of}>) -> tensor<{of}>
  %p = linalg.matmul ins(%at, %bt : tensor<{m}x{k}x{element}>, tensor<{k}x{n}x{element}>) \
         outs(%init : tensor<{of}>) -> tensor<{of}>
{}  bufferization.materialize_in_destination %p in writable %cv : (tensor<{of}>, \
         memref<{of}, strided<[{n}, 1]>>) -> ()
  return
}}
",
        local("a", m, k),
        local("b", k, n),
        view("c", m, n, result)
    )
}
