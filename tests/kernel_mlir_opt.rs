//! The scanner and the canonical text against the real `mlir-opt`: both forms of a module say the
//! same, and stripping locations and comments changes nothing that the tool sees.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed helper is a failed test"
)]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use npu_build::kernel::canonical::Canonical;
use npu_build::kernel::{Level, Module};
use npu_runtime::Bounds;

/// `mlir-opt` from PATH or Debian's directories; without one the test fails on CI and says so
/// elsewhere.
fn mlir_opt() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = std::env::split_paths(&path)
        .flat_map(|directory| {
            let versions = (18..40).rev().map(|version| format!("mlir-opt-{version}"));
            std::iter::once("mlir-opt".to_owned())
                .chain(versions)
                .map(move |name| directory.join(name))
        })
        .collect();
    let debian = (18..40).rev();
    candidates.extend(debian.map(|v| PathBuf::from(format!("/usr/lib/llvm-{v}/bin/mlir-opt"))));
    let found = candidates.into_iter().find(|candidate| candidate.is_file());
    match &found {
        Some(tool) => println!("real tool: {}", tool.display()),
        None => assert!(
            std::env::var("CI").is_err(),
            "mlir-opt is missing: apt-get install mlir-22-tools"
        ),
    }
    found
}

/// What `mlir-opt` prints for a text, or what it says against it.
fn print(tool: &Path, arguments: &[&str], text: &str) -> Result<String, String> {
    output(tool, arguments, text).map(|bytes| String::from_utf8(bytes).unwrap())
}

fn output(tool: &Path, arguments: &[&str], text: &str) -> Result<Vec<u8>, String> {
    let mut child = Command::new(tool)
        .args(arguments)
        .arg("--allow-unregistered-dialect")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = text.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

const ADD: &str = r#"#map = affine_map<(d0) -> (d0)>
module {
  func.func @add(%arg0: memref<*xf32> {tt.divisibility = 16 : i32}, %arg1: memref<*xf32>, %n: i32,
                 %nx: i32, %ny: i32, %nz: i32, %x: i32, %y: i32, %z: i32) {
    %c1024 = arith.constant 1024 : index // tile
    %0 = arith.index_cast %x : i32 to index
    %1 = arith.muli %0, %c1024 : index
    %view = memref.reinterpret_cast %arg0 to offset: [%1], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>
    %alloc = memref.alloc() : memref<1024xf32>
    memref.copy %view, %alloc : memref<1024xf32, strided<[1], offset: ?>> to memref<1024xf32>
    %t = bufferization.to_tensor %alloc restrict writable : memref<1024xf32> to tensor<1024xf32>
    %u = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%t : tensor<1024xf32>) outs(%t : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %s = arith.addf %in, %in : f32
      linalg.yield %s : f32
    } -> tensor<1024xf32>

    %to = memref.reinterpret_cast %arg1 to offset: [%1], sizes: [1024], strides: [1] : memref<*xf32> to memref<1024xf32, strided<[1], offset: ?>>
    bufferization.materialize_in_destination %u in writable %to : (tensor<1024xf32>, memref<1024xf32, strided<[1], offset: ?>>) -> ()
    return
  }
}
"#;

const MATMUL: &str = r#"
func.func private @unused(memref<4xf32>) // declared
func.func @matmul(%a: memref<16x8xi8>, %b: memref<8x4xi8>, %c: memref<16x4xi32>, %d: memref<16x4xi32>) attributes {x.y = "// no comment"} {
  %zero = arith.constant 0 : i32
  linalg.fill ins(%zero : i32) outs(%c : memref<16x4xi32>)
  linalg.matmul ins(%a, %b : memref<16x8xi8>, memref<8x4xi8>) outs(%c : memref<16x4xi32>)
  linalg.transpose ins(%c : memref<16x4xi32>) outs(%d : memref<16x4xi32>) permutation = [0, 1]
  return
}
"#;

const CONTROL: &str = r#"
func.func @control(%a: memref<64xbf16>, %b: memref<64xbf16>, %c: memref<64xbf16>, %n: index, %p: i1) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.if %p {
      %v = memref.load %a[%i] : memref<64xbf16>
      memref.store %v, %b[%i] : memref<64xbf16>
    }
  }
  cf.cond_br %p, ^then(%a, %n : memref<64xbf16>, index), ^end
^then(%m: memref<64xbf16>, %k: index):
  cf.br ^end
^end:
  %lower = memref.subview %c[0] [32] [1] : memref<64xbf16> to memref<32xbf16>
  %pad = arith.constant 0.0 : bf16
  %w = vector.transfer_read %lower[%c0], %pad {in_bounds = [true]} : memref<32xbf16>, vector<8xbf16>
  call @opaque(%w) : (vector<8xbf16>) -> ()
  return
}
func.func private @opaque(vector<8xbf16>)
"#;

const ELEMENTWISE: &str = r#"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @elementwise(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %c: memref<4x8xf32>, %s: f32) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : memref<4x8xf32>) outs(%b : memref<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.mulf %in, %s : f32 loc("scale"("kernel.py":7:1))
    linalg.yield %0 : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : memref<4x8xf32>) outs(%c : memref<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %0 = arith.addf %in, %out : f32
    linalg.yield %0 : f32
  }
  return
}
"#;

const LOCATIONS: &str = r#"
// Locations in every position.
#file = loc("kernel // name.py":1:0)
#line = loc("kernel.py":3:4 to :9)
module attributes {x.name = "loc(unknown)"} {
  func.func @locations(%arg0: memref<4xf32> {x.y = 1 : i32} loc("a"("kernel.py":1:2)), %arg1: index loc(#file), %arg2: i1 loc(unknown)) {
    %0 = memref.load %arg0[%arg1] : memref<4xf32> loc(callsite("f"("k.py":1:2) at #line))

    %1:2 = scf.if %arg2 -> (f32, f32) {
      scf.yield %0, %0 : f32, f32 loc(fused["x.py":1:1, #file])
    } else {   // otherwise
      scf.yield %0, %0 : f32, f32 loc(#line)
    } loc(#line)
    cf.br ^next(%1#0 : f32) loc(#line)
  ^next(%2: f32 loc("two")): // one predecessor
    "x.region"(%2) ({
    ^bb0(%3: f32 loc("kernel.py":5:5), %4: f32 loc(#file)):
      "x.end"() : () -> () loc("end")
    }) {x.attribute} : (f32) -> () loc(
      fused[unknown, // inner
            "b"])
    memref.store %2, %arg0[%arg1] : memref<4xf32>
    return loc(#file)
  } loc(#file)
}
loc(#file)
"#;

/// Operations whose operands are told apart in different ways in the two forms.
const STRUCTURED: &str = r#"
#id = affine_map<(d0) -> (d0)>
func.func @structured(%a: memref<4x8xf32>, %b: memref<4xf32>, %c: memref<4x8xf32>, %d: memref<8x4xf32>,
                      %e: memref<4xf32, #id>, %f: memref<?xf32>, %g: memref<4xf32>, %h: memref<4xf32>,
                      %i: memref<4xf32>, %j: memref<4xf32>, %k: memref<4x8xf32>, %l: memref<4xf32>) {
  linalg.reduce ins(%a : memref<4x8xf32>) outs(%b : memref<4xf32>) dimensions = [1]
    (%in: f32, %init: f32) {
      %0 = arith.addf %in, %init : f32
      linalg.yield %0 : f32
    }
  linalg.broadcast ins(%e : memref<4xf32, #id>) outs(%c : memref<4x8xf32>) dimensions = [1]
  linalg.transpose ins(%a : memref<4x8xf32>) outs(%d : memref<8x4xf32>) permutation = [1, 0]
  linalg.copy ins(%f : memref<?xf32>) outs(%g : memref<4xf32>)
  linalg.map { math.exp } ins(%e : memref<4xf32, #id>) outs(%h : memref<4xf32>)
  %t = bufferization.to_tensor %e restrict : memref<4xf32, #id> to tensor<4xf32>
  bufferization.materialize_in_destination %t in restrict writable %i : (tensor<4xf32>, memref<4xf32>) -> ()
  %u = bufferization.to_tensor %j restrict writable : memref<4xf32> to tensor<4xf32>
  linalg.softmax dimension(1) ins(%a : memref<4x8xf32>) outs(%k : memref<4x8xf32>)
  %cast = memref.cast %l : memref<4xf32> to memref<?xf32>
  memref.copy %f, %cast : memref<?xf32> to memref<?xf32>
  return
}
"#;

const INPUTS: [&str; 6] = [ADD, MATMUL, CONTROL, ELEMENTWISE, LOCATIONS, STRUCTURED];

/// By the operations' definitions: `out` is a whole write whose extents are all known.
#[test]
fn structured_operations_read_their_inputs_and_write_their_outputs() {
    let directions = |text: &str| {
        let module = Module::scan(text.as_bytes()).unwrap();
        let parameters = module.kernels[0].signature.parameters.iter();
        let directions = parameters.filter_map(|it| match it.kind {
            npu_runtime::Kind::Memory { direction, .. } => Some(direction.name()),
            npu_runtime::Kind::Scalar(_) => None,
        });
        directions.collect::<Vec<_>>().join(" ")
    };
    let expected = "in inout out out in in inout inout out inout inout inout";
    assert_eq!(directions(STRUCTURED), expected);
    let Some(tool) = mlir_opt() else { return };
    for flags in [
        &[][..],
        &["--mlir-print-op-generic"],
        &["--mlir-print-debuginfo"],
        &["--mlir-print-debuginfo", "--mlir-print-op-generic"],
    ] {
        let located: String = STRUCTURED
            .lines()
            .map(
                |line| match line.trim_start().starts_with('%') && line.contains(" = ") {
                    true => format!("{line} loc(\"k.py\":1:1)\n"),
                    false => format!("{line}\n"),
                },
            )
            .collect();
        let printed = print(&tool, flags, &located).unwrap();
        assert_eq!(directions(&printed), expected, "{printed}");
    }
}

#[test]
fn both_forms_give_the_same_module() {
    let Some(tool) = mlir_opt() else { return };
    for text in INPUTS {
        let custom = print(&tool, &[], text).unwrap();
        let generic = print(&tool, &["--mlir-print-op-generic"], text).unwrap();
        let scan = |text: &str| {
            let mut module = Module::scan(text.as_bytes()).unwrap();
            for kernel in &mut module.kernels {
                kernel.line = 0;
                // What keeps a kernel within its arguments is proven of the custom form only.
                kernel.signature.bounds = Bounds::Unchecked;
                for parameter in kernel.signature.parameters.to_mut() {
                    parameter.extents = Vec::new().into();
                }
            }
            module
        };
        assert_eq!(scan(&custom), scan(&generic), "{generic}");
        // Names apart, what is printed says what was written.
        let directions = |module: &Module| {
            let kernels = module.kernels.iter();
            kernels
                .map(|it| {
                    format!(
                        "{:?}",
                        it.signature
                            .parameters
                            .iter()
                            .map(|p| &p.kind)
                            .collect::<Vec<_>>()
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(directions(&scan(text)), directions(&scan(&custom)));
        let located = print(
            &tool,
            &["--mlir-print-debuginfo", "--mlir-print-local-scope"],
            text,
        );
        assert_eq!(
            directions(&scan(text)),
            directions(&scan(&located.unwrap()))
        );
        assert_eq!(scan(text).level, Level::Linalg);
    }
}

#[test]
fn what_the_tool_writes_in_other_ways_is_refused_by_name() {
    let Some(tool) = mlir_opt() else { return };
    let bytecode = output(&tool, &["--emit-bytecode"], ADD).unwrap();
    let refusal = Module::scan(&bytecode).unwrap_err().to_string();
    assert!(refusal.contains("MLIR bytecode"), "{refusal}");
    let text = r#"func.func @k(%a: memref<4xf32>) {
  %0 = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = arith.constant dense_resource<"a b"> : tensor<4xf32>
  return
}
{-# dialect_resources: {builtin: {"a b": "0x040000000000803F000000400000404000008040"}} #-}"#;
    for (flag, line) in [
        ("--mlir-elide-elementsattrs-if-larger=8", None),
        ("--mlir-elide-elementsattrs-if-larger=2", Some("line 3")),
        ("--mlir-elide-resource-strings-if-larger=80", None),
        ("--mlir-elide-resource-strings-if-larger=8", Some("line 4")),
    ] {
        let printed = print(&tool, &[flag], text).unwrap();
        let refusal = Module::scan(printed.as_bytes()).err();
        let refusal = refusal.map(|error| error.to_string());
        match (&refusal, line) {
            (Some(refusal), Some(line)) => assert!(refusal.starts_with(line), "{refusal}"),
            (refusal, line) => assert_eq!((refusal, line), (&None, None), "{printed}"),
        }
    }
}

#[test]
fn the_canonical_text_is_the_same_module() {
    let Some(tool) = mlir_opt() else { return };
    for text in INPUTS {
        let mut variants = vec![text.to_owned()];
        for flags in [
            &["--mlir-print-debuginfo"][..],
            &["--mlir-print-debuginfo", "--mlir-print-local-scope"],
            &["--mlir-print-debuginfo", "--mlir-print-op-generic"],
            &[
                "--mlir-print-debuginfo",
                "--mlir-pretty-debuginfo=false",
                "--strip-debuginfo",
            ],
        ] {
            variants.push(print(&tool, flags, text).unwrap());
        }
        for variant in variants {
            let canonical = Canonical::of(&variant);
            assert_eq!(
                print(&tool, &[], &canonical.text).unwrap(),
                print(&tool, &[], &variant).unwrap(),
                "{variant}\n{}",
                canonical.text
            );
            let kept = canonical.text.replace("\"loc(unknown)\"", "");
            let kept = kept.replace("memref.alloc(", "");
            assert!(!kept.contains("loc(") && !kept.contains("#loc"), "{kept}");
        }
    }
}

#[test]
fn locations_in_attributes_are_kept_and_so_is_the_module() {
    let Some(tool) = mlir_opt() else { return };
    for text in [
        "#loc = loc(\"x\")\nmodule attributes {a.b = #loc} {} loc(\"y\")\n",
        "module attributes {a.b = [loc(\"x\"), loc(unknown)]} {} loc(\"y\") // c\n",
        "module {} loc(fused<\"meta\">[\"a\", \"b\"])\n",
        "module attributes {a.b = #x.y<loc(1) // no comment\n>} {}\n",
        "#di_file = #llvm.di_file<\"k.py\" in \"\">\nmodule attributes {a.b = #di_file} {} loc(fused<#di_file>[\"a\"])\n",
    ] {
        let canonical = Canonical::of(text).text;
        for flags in [&[][..], &["--mlir-print-debuginfo"]] {
            let (before, after) = (print(&tool, flags, text), print(&tool, flags, &canonical));
            assert_eq!(before.unwrap(), after.unwrap(), "{text}");
        }
    }
}

#[test]
fn a_diagnostic_of_the_canonical_text_leads_to_the_original_line() {
    let Some(tool) = mlir_opt() else { return };
    let mut text = String::new();
    for line in ADD.lines() {
        let _ = writeln!(text, "// before\n\n{line}");
    }
    let broken = text.replace("arith.muli %0", "arith.muli %undefined");
    let canonical = Canonical::of(&broken);
    let message = print(&tool, &[], &canonical.text).unwrap_err();
    let line: u32 = message
        .lines()
        .find(|line| line.contains("error:"))
        .and_then(|line| line.split(':').nth(1))
        .and_then(|number| number.parse().ok())
        .unwrap();
    let original = broken
        .lines()
        .nth(canonical.original_line(line) as usize - 1);
    assert!(original.unwrap().contains("%undefined"), "{message}");
}

/// What LLVM allocates for elements is what a launch counts for them.
#[test]
fn elements_are_as_large_as_in_memory() {
    let Some(tool) = mlir_opt() else { return };
    for of_type in [
        "i1",
        "i8",
        "i32",
        "f16",
        "bf16",
        "f64",
        "index",
        "i128",
        "f128",
        "f8E4M3FN",
        "f8E8M0FNU",
        "complex<f32>",
        "complex<i64>",
        "vector<4xf32>",
        "vector<2x4xbf16>",
        "vector<16xi8>",
        "vector<f64>",
        "vector<8xf64>",
    ] {
        // The memory that complex numbers are in is aligned, by the same number of bytes more.
        let [three, one] = [3, 1].map(|count| allocated(&tool, &format!("{count}x{of_type}")));
        let text = format!("func.func @k(%m: memref<4x{of_type}>) {{\nreturn\n}}");
        let module = Module::scan(text.as_bytes()).unwrap();
        let parameters = &module.select(None).unwrap()[0].signature.parameters;
        let npu_runtime::Kind::Memory { element, .. } = &parameters[0].kind else {
            unreachable!("{of_type} is no memory");
        };
        assert_eq!(2 * element.size(), three - one, "{of_type}");
    }
}

/// The bytes that compiled code asks for when it allocates a `memref<of_type>`.
fn allocated(tool: &Path, of_type: &str) -> usize {
    const PASSES: &[&str] = &[
        "--expand-strided-metadata",
        "--finalize-memref-to-llvm",
        "--convert-func-to-llvm",
        "--reconcile-unrealized-casts",
    ];
    let text = format!(
        "func.func @k() -> index {{\n%n = memref.alloc() : memref<{of_type}>\n\
         %p = memref.extract_aligned_pointer_as_index %n : memref<{of_type}> -> index\n\
         return %p : index\n}}"
    );
    let mut ir = print(tool, PASSES, &text).unwrap();
    let beside = |name: &str| tool.canonicalize().unwrap().with_file_name(name);
    for (program, arguments) in [
        ("mlir-translate", &["--mlir-to-llvmir"][..]),
        ("opt", &["-O1", "-S"]),
    ] {
        let mut child = Command::new(beside(program))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(ir.as_bytes()).unwrap();
        drop(input);
        ir = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    }
    let (_, call) = ir.split_once(" call ").unwrap();
    let (_, bytes) = call.split_once("@malloc(i64 ").unwrap();
    bytes.split(')').next().unwrap().parse().unwrap()
}
