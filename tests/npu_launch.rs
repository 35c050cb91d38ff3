//! From MLIR to right numbers: the doubles of the tools compile, generated launchers of one host
//! program load what they made, and the emulated devices compute it, at every level, for every
//! target, format and runtime.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aie_tools::install::Installation;
use common::{Outcome, Scene};
use xrt_double::kernels::combining;

/// Doubles each element; a program of the grid takes 64. It runs on the cpu as it does on an NPU.
const DOUBLED: &str = "func.func @doubled(%x: memref<*xf32>, %out: memref<*xf32>, %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
  %c64 = arith.constant 64 : i32
  %start = arith.muli %px, %c64 : i32
  %offset = arith.index_cast %start : i32 to index
  %xv = memref.reinterpret_cast %x to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
  %ov = memref.reinterpret_cast %out to offset: [%offset], sizes: [64], strides: [1] : memref<*xf32> to memref<64xf32, strided<[1], offset: ?>>
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = [\"parallel\"]} ins(%xv : memref<64xf32, strided<[1], offset: ?>>) outs(%ov : memref<64xf32, strided<[1], offset: ?>>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  }
  return
}
";

/// The product of two matrices.
const PRODUCT: &str =
    "func.func @product(%a: memref<16x16xf32>, %b: memref<16x16xf32>, %c: memref<16x16xf32>) {
  linalg.matmul ins(%a, %b : memref<16x16xf32>, memref<16x16xf32>) outs(%c : memref<16x16xf32>)
  return
}
";

/// What a host program does with the kernels of one directory.
const HOST: &str = r#"
fn ramp(step: f32) -> Vec<f32> { (0..256_u16).map(|i| f32::from(i) * step).collect() }

fn doubled(device: &npu_runtime::Device) -> Result<(), npu_runtime::Error> {
    let kernel = doubled::Kernel::load(device)?;
    let x = ramp(0.5);
    let mut out = vec![-1.0; 256];
    kernel.launch(4, &x, &mut out)?;
    assert_eq!(out, ramp(1.0));
    // Device memory, and a chain: eight times as much after three launches.
    let mut state = device.buffer_from(&x)?;
    let mut other = device.buffer::<f32>(256)?;
    let (a, b) = (state.share(), other.share());
    let mut chain = npu_runtime::Chain::new(device);
    chain.push(kernel.bind(4, a, b)?)?;
    chain.push(kernel.bind(4, b, a)?)?;
    chain.push(kernel.bind(4, a, b)?)?;
    chain.run()?;
    drop(chain);
    assert_eq!(other[..], ramp(4.0)[..]);
    if device.runtime() != npu_runtime::Runtime::Cpu {
        let refused = kernel.launch(5, &x, &mut out).unwrap_err().to_string();
        assert!(refused.contains('4') && refused.contains('5'), "{refused}");
    }
    Ok(())
}

fn product(device: &npu_runtime::Device) -> Result<(), npu_runtime::Error> {
    let kernel = product::Kernel::load(device)?;
    let a: Vec<f32> = (0..256_u16).map(|i| f32::from(i % 7)).collect();
    let b: Vec<f32> = (0..256_u16).map(|i| f32::from(i % 5) - 2.0).collect();
    let mut c = vec![1.0; 256];
    kernel.launch(&a, &b, &mut c)?;
    for row in 0..16 {
        for column in 0..16 {
            let sum: f32 = (0..16).map(|k| a[row * 16 + k] * b[k * 16 + column]).sum();
            assert_eq!(c[row * 16 + column], 1.0 + sum, "{row}, {column}");
        }
    }
    let refused = kernel.launch(&a[1..], &b, &mut c).unwrap_err().to_string();
    assert!(refused.contains("256"), "{refused}");
    Ok(())
}

fn combined(device: &npu_runtime::Device) -> Result<(), npu_runtime::Error> {
    let kernel = combined::main_sequence::Kernel::load(device)?;
    let x: Vec<i32> = (0..256).collect();
    let y: Vec<i32> = (0..256).map(|i| 1000 - 3 * i).collect();
    let mut z = vec![0; 256];
    kernel.launch(&x, &y, &mut z)?;
    assert!(z.iter().zip(0..).all(|(z, i)| *z == 1000 - 2 * i), "{z:?}");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = npu_runtime::Device::from_env()?;
    for wanted in std::env::args().skip(1) {
        match wanted.as_str() {
            "doubled" => doubled(&device)?,
            "product" => product(&device)?,
            "combined" => combined(&device)?,
            other => panic!("{other}"),
        }
        println!("{wanted} on {}", device.runtime());
    }
    Ok(())
}
"#;

/// A scene with the AIE toolchain, both emulated runtimes and the shim.
struct Lab {
    scene: Scene,
    tools: Installation,
    shim: PathBuf,
    _xrt: xrt_double::Installation,
}

impl Lab {
    fn new() -> Self {
        let scene = Scene::new();
        let at = |name: &str| scene.path().join(name);
        let tools = Installation::new(&at("aie"), 3).unwrap();
        rocr_double::install::install(&at("rocm")).unwrap();
        let xrt = xrt_double::Installation::new(&at("xrt")).unwrap();
        let mut shim = scene.npu_build();
        shim.env("XILINX_XRT", xrt.root()).arg("shim");
        let shim = Outcome(shim.output().unwrap()).paths().remove(0);
        Self {
            tools,
            shim,
            _xrt: xrt,
            scene,
        }
    }

    /// Compiles a kernel's text into `directory`.
    fn compile(&self, text: &str, name: &str, directory: &Path, flags: &[&str]) {
        let kernel = self.scene.file(&format!("{name}.mlir"), text);
        let mut command = self.scene.npu_build();
        command
            .env("VIRTUAL_ENV", self.tools.venv())
            .env("XILINX_XRT", self.scene.path().join("aie/xrt"))
            .arg("compile")
            .arg(kernel)
            .arg("--out-dir")
            .arg(directory)
            .args(flags);
        if text.contains("memref<*") {
            command.args(["--extent", "x=64*grid.x,out=64*grid.x"]);
        }
        Outcome(command.output().unwrap()).paths();
    }

    /// The AIR that a linalg-level kernel is lowered to.
    fn lowered(&self, text: &str, name: &str, flags: &[&str]) -> String {
        let directory = self.scene.path().join("lowered");
        self.compile(
            text,
            name,
            &directory,
            &[flags, &["--target", "npu2", "--keep-intermediates"]].concat(),
        );
        let is_air = |path: &PathBuf| path.to_string_lossy().ends_with(".air.mlir");
        let files = fs::read_dir(&directory).unwrap().flatten();
        let air = files.map(|file| file.path()).find(is_air).unwrap();
        let text = fs::read_to_string(&air).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        text
    }

    /// Runs a host program on a runtime and an emulated NPU.
    fn run(&self, program: &Path, runtime: &str, npu: &str, kernels: &[&str]) -> Outcome {
        let agent = if npu == "npu1" { "aie2" } else { "aie2p" };
        let mut command = Command::new(program);
        command
            .args(kernels)
            .env_clear()
            .env("NPU_RUNTIME", runtime)
            .env("ROCM_PATH", self.scene.path().join("rocm"))
            .env("ROCR_DOUBLE_AGENT", agent)
            .env("NPU_RUNTIME_XRT_SHIM", &self.shim)
            .env("XRT_DOUBLE_DEVICE", npu);
        Outcome(command.output().unwrap())
    }
}

/// The package with one binary for each directory of launchers.
struct Hosts {
    directory: PathBuf,
}

impl Hosts {
    fn new() -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("npu-launch");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(directory.join("src/bin")).unwrap();
        let checkout = env!("CARGO_MANIFEST_DIR");
        let mut manifest = String::new();
        write!(
            manifest,
            "[workspace]\n[package]\nname = 'npu-launch'\nversion = '0.0.0'\nedition = '2024'\n\
             [dependencies]\nnpu-runtime = {{ path = '{checkout}/crates/npu-runtime' }}\n\
             [profile.dev]\ndebug = 'line-tables-only'\n\
             [profile.dev.package.sha2]\nopt-level = 3\n"
        )
        .unwrap();
        fs::write(directory.join("Cargo.toml"), manifest).unwrap();
        fs::copy(
            Path::new(checkout).join("Cargo.lock"),
            directory.join("Cargo.lock"),
        )
        .unwrap();
        Self { directory }
    }

    /// Where the launchers of the program `name` go.
    fn generated(&self, name: &str) -> PathBuf {
        let directory = self.directory.join("generated").join(name);
        let program = format!(
            "#![forbid(unsafe_code)]\n\
             include!(\"../../generated/{name}/doubled.rs\");\n\
             include!(\"../../generated/{name}/product.rs\");\n\
             mod combined {{ include!(\"../../generated/{name}/combined.rs\"); }}\n{HOST}"
        );
        fs::write(self.directory.join(format!("src/bin/{name}.rs")), program).unwrap();
        directory
    }

    fn build(&self) -> PathBuf {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("npu-launch-target");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["build", "--quiet", "--offline", "--target-dir"])
            .arg(&target)
            .current_dir(&self.directory)
            .output()
            .unwrap();
        let told = Outcome(output);
        assert_eq!(told.code(), 0, "{}", told.stderr());
        target.join("debug")
    }
}

const ALL: [&str; 3] = ["doubled", "product", "combined"];

/// The way of one program: level, target, runtime and format.
struct Way {
    name: &'static str,
    is_air: bool,
    npu: &'static str,
    runtime: &'static str,
    format: &'static str,
}

const fn way(
    name: &'static str,
    is_air: bool,
    npu: &'static str,
    runtime: &'static str,
    format: &'static str,
) -> Way {
    Way {
        name,
        is_air,
        npu,
        runtime,
        format,
    }
}

const WAYS: [Way; 7] = [
    way("npu1_xrt_xclbin", false, "npu1", "xrt", "auto"),
    way("npu1_hsa_xclbin", false, "npu1", "hsa", "xclbin"),
    way("npu2_xrt_elf", false, "npu2", "xrt", "elf"),
    way("npu2_xrt_xclbin", false, "npu2", "xrt", "xclbin"),
    way("npu2_hsa_elf", false, "npu2", "hsa", "auto"),
    way("npu2_hsa_xclbin", true, "npu2", "hsa", "xclbin"),
    way("npu2_air_elf", true, "npu2", "hsa", "elf"),
];

#[test]
fn every_way_ends_in_the_right_numbers() {
    let (lab, hosts) = (Lab::new(), Hosts::new());
    let script = lab.tools.transform();
    let script = ["--transform", script.to_str().unwrap()];
    let gridded = [&script[..], &["--grid", "4"]].concat();
    let plain = [&script[..], &["--option", "bf16-emulation=true"]].concat();
    for way in &WAYS {
        let generated = hosts.generated(way.name);
        let flags = [
            "--target",
            way.npu,
            "--runtime",
            way.runtime,
            "--format",
            way.format,
        ];
        let aie = combining(way.npu, "arith.addi");
        lab.compile(&aie, "combined", &generated, &flags);
        let doubled = [&gridded[..], &flags].concat();
        lab.compile(DOUBLED, "doubled", &generated, &doubled);
        if way.is_air {
            let air = lab.lowered(PRODUCT, "product", &plain);
            // What AIR moves is not followed: without the user's word all of it is in-out.
            let directions = ["--arg", "a=in", "--arg", "b=in"];
            let product = [&directions[..], &flags].concat();
            lab.compile(&air, "product", &generated, &product);
        } else {
            let product = [&plain[..], &flags].concat();
            lab.compile(PRODUCT, "product", &generated, &product);
        }
    }
    // And one program for everything that the linalg level can be built for.
    let generated = hosts.generated("everywhere");
    let all = ["--target", "cpu,npu2,npu1", "--runtime", "xrt,hsa"];
    lab.compile(
        DOUBLED,
        "doubled",
        &generated,
        &[&gridded[..], &all].concat(),
    );
    lab.compile(PRODUCT, "product", &generated, &[&plain[..], &all].concat());
    let npu2 = ["--runtime", "xrt,hsa"];
    lab.compile(
        &combining("npu2", "arith.addi"),
        "combined",
        &generated,
        &npu2,
    );

    let programs = hosts.build();
    for way in &WAYS {
        let program = programs.join(way.name);
        let told = lab.run(&program, way.runtime, way.npu, &ALL);
        assert_eq!(told.code(), 0, "{}: {}", way.name, told.stderr());
        assert_eq!(told.stdout().lines().count(), ALL.len());
    }
    let everywhere = programs.join("everywhere");
    for (runtime, npu) in [
        ("cpu", "npu2"),
        ("hsa", "npu1"),
        ("hsa", "npu2"),
        ("xrt", "npu1"),
        ("xrt", "npu2"),
    ] {
        let told = lab.run(&everywhere, runtime, npu, &["doubled", "product"]);
        assert_eq!(told.code(), 0, "{runtime} on {npu}: {}", told.stderr());
        assert!(told.stdout().contains(&format!("product on {runtime}")));
    }
    wrong_devices(&lab, &programs);
}

/// A launcher that has nothing for the device says what it has and what to compile.
fn wrong_devices(lab: &Lab, programs: &Path) {
    for (program, runtime, npu, words) in [
        (
            "npu2_hsa_elf",
            "cpu",
            "npu2",
            &["hsa on npu2", "--target cpu"][..],
        ),
        (
            "npu2_hsa_elf",
            "xrt",
            "npu2",
            &["hsa on npu2", "--runtime xrt"],
        ),
        (
            "npu2_hsa_elf",
            "hsa",
            "npu1",
            &["hsa on npu2", "--target npu1"],
        ),
        (
            "npu1_xrt_xclbin",
            "xrt",
            "npu2",
            &["xrt on npu1", "--target npu2"],
        ),
    ] {
        let told = lab.run(&programs.join(program), runtime, npu, &["doubled"]);
        assert_eq!(told.code(), 1, "{program} on {runtime} and {npu}");
        for word in words {
            assert!(told.stderr().contains(word), "{}", told.stderr());
        }
    }
}
