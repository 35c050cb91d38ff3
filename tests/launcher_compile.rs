//! Generated launchers inside a crate that is as strict as crates get: it forbids `unsafe`,
//! denies every warning, defines names of its own that paths could be mistaken for, and runs
//! doctests. `cargo clippy`, `cargo doc` and `cargo test --doc` must all be content.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on has failed"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use npu_build::launcher::{self, Locate};

#[allow(dead_code, reason = "the other tests use the rest")]
mod launcher_matrix;

use launcher_matrix as matrix;

/// Lints that a strict crate turns on.
const LINTS: &str = "unsafe_code, warnings, missing_docs, dead_code, unused, rust_2018_idioms, \
                     rust_2024_compatibility, missing_debug_implementations, \
                     missing_copy_implementations, single_use_lifetimes, trivial_casts, \
                     let_underscore_drop, unused_qualifications, \
                     clippy::all, clippy::pedantic, clippy::cargo";

fn manifest(edition: &str) -> String {
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/npu-runtime");
    format!(
        "[package]\nname = \"launcher-matrix\"\ndescription = \"Every kind of launcher\"\n\
         version = \"0.1.0\"\nedition = \"{edition}\"\npublish = false\nlicense = \"MIT\"\n\
         repository = \"-\"\nreadme = \"-\"\nkeywords = [\"-\"]\ncategories = [\"-\"]\n\
         [dependencies]\nnpu-runtime = {{ path = {:?}, version = \"0.1.0\" }}\n[[bin]]\nname = \"nothing-exported\"\npath = \"src/main.rs\"\n[workspace]\n",
        runtime.display().to_string()
    )
}

/// What the crate's own code calls the names that generated code might mean.
const TRAPS: &str = "
/// Not the standard one.
pub type Result<T> = ::std::result::Result<T, String>;
/// Not the standard one.
#[derive(Clone, Copy, Debug)]
pub struct String;
/// Not the standard one.
#[derive(Clone, Copy, Debug)]
pub enum Option {
    /// Nor this.
    None,
}
/// Not the runtime's.
pub trait Into {}
pub mod std {
    //! Not the crate.
}
pub mod core {
    //! Not the crate.
}
#[allow(unused_macros)]
macro_rules! include_bytes {
    () => {};
}
";

fn write_crate(edition: &str) -> PathBuf {
    let directory = format!("launcher-matrix-{edition}");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(directory.join("src/generated")).unwrap();
    fs::write(directory.join("Cargo.toml"), manifest(edition)).unwrap();
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.lock");
    fs::copy(lock, directory.join("Cargo.lock")).unwrap();

    let mut library = format!("//! Every kind of launcher.\n#![deny({LINTS})]\n{TRAPS}");
    let mut binary =
        format!("//! Nothing here is exported.\n#![forbid(unsafe_code)]\n#![deny({LINTS})]\n");
    for (name, request) in matrix::files() {
        let generated = directory.join("src/generated");
        fs::write(
            generated.join(format!("{name}.rs")),
            launcher::render(&request).unwrap(),
        )
        .unwrap();
        if request.locate == Locate::Embed {
            for kernel in &request.kernels {
                for (artifact, bytes) in matrix::files_of(kernel) {
                    fs::write(generated.join(&artifact.file), bytes).unwrap();
                }
            }
        }
        let include = format!("include!(\"generated/{name}.rs\");");
        // At the root, where the traps are, in a public module and in a private one.
        match name.as_str() {
            "common" | "located" => writeln!(library, "{include}").unwrap(),
            matrix::UNCHECKED => {
                let allowed = "#[allow(unsafe_code, reason = \"its callers answer for it\")]";
                writeln!(library, "{allowed}\nmod not_exported {{\n    {include}\n}}").unwrap();
                continue;
            }
            _ => writeln!(
                library,
                "pub mod {name} {{\n    //! Public.\n    {include}\n}}"
            )
            .unwrap(),
        }
        writeln!(binary, "mod {name} {{\n    {include}\n}}").unwrap();
    }
    library.push_str(CALLS);
    binary.push_str("fn main() {}\n");
    fs::write(directory.join("src/lib.rs"), library).unwrap();
    fs::write(directory.join("src/main.rs"), binary).unwrap();
    directory
}

/// Calls of generated launchers as host programs write them.
const CALLS: &str = r#"
/// Calls launchers with every kind of memory.
///
/// ```
/// use npu_runtime::{Device, Runtime};
/// let device = Device::open(Runtime::Cpu)?;
/// // The artifact is no kernel, and that is an error, not a crash.
/// assert!(launcher_matrix::vecadd::Kernel::load(&device).is_err());
/// let error = launcher_matrix::elsewhere::Kernel::load_from(&device, "no/such").unwrap_err();
/// let [(file, _)] = launcher_matrix::elsewhere::ARTIFACTS;
/// assert!(error.to_string().contains(file), "{error}");
/// assert_eq!(launcher_matrix::vecadd::SIGNATURE.parameters.len(), 4);
/// # Ok::<(), npu_runtime::Error>(())
/// ```
///
/// A device takes the image that is for it, and says what there is if none is:
///
/// ```
/// use launcher_matrix::{fat, located_images, npu};
/// use npu_runtime::{Device, Error, Runtime};
/// let device = Device::open(Runtime::Cpu)?;
/// let error = fat::everywhere::Kernel::load(&device).unwrap_err();
/// assert!(matches!(error, Error::Artifact { .. }), "{error}");
/// let error = located_images::everywhere::Kernel::load_from(&device, "no/such").unwrap_err();
/// assert!(error.to_string().contains("no/such/everywhere-"), "{error}");
/// let error = npu::hsa_alone::Kernel::load(&device).unwrap_err().to_string();
/// assert!(error.contains("`hsa_alone`") && error.contains("for hsa on npu2"), "{error}");
/// let error = npu::main_fourth::Kernel::load(&device).unwrap_err().to_string();
/// assert!(error.contains("for xrt on npu2 and hsa on npu2"), "{error}");
/// # Ok::<(), npu_runtime::Error>(())
/// ```
///
/// A stub says that it is one:
///
/// ```
/// use launcher_matrix::{located_stubs, stubs};
/// use npu_runtime::{Device, Runtime};
/// let device = Device::open(Runtime::Cpu)?;
/// for error in [
///     stubs::vecadd::Kernel::load(&device).unwrap_err(),
///     stubs::vecadd::Kernel::load_from(&device, ".").unwrap_err(),
///     located_stubs::fat_fields::Kernel::load_from(&device, ".").unwrap_err(),
/// ] {
///     let error = error.to_string();
///     assert!(error.contains("stub") && error.contains("where the compiler is"), "{error}");
/// }
/// # Ok::<(), npu_runtime::Error>(())
/// ```
///
/// The file of several kernels is in the program once:
///
/// ```
/// use launcher_matrix::npu::{r#gen, main_second, main_third};
/// let device = npu_runtime::Device::open(npu_runtime::Runtime::Cpu)?;
/// assert!(r#gen::Kernel::load(&device).is_err());
/// assert!(main_second::Kernel::load(&device).is_err());
/// assert!(main_third::Kernel::load(&device).is_err());
/// // Spelled so that it is not in the program because of this line.
/// let content = ["artifact of", "design.hsaco"].join(" ");
/// let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
/// let places = program.windows(content.len()).filter(|part| *part == content.as_bytes());
/// assert_eq!(places.count(), 1);
/// # Ok::<(), npu_runtime::Error>(())
/// ```
///
/// What a chain borrows can't be used before it is gone:
///
/// ```compile_fail,E0502
/// fn call(kernel: &launcher_matrix::vecadd::Kernel, a: &[f32], mut c: Vec<f32>) {
///     let launch = kernel.bind(8, a, a, &mut c, 5).unwrap();
///     println!("{c:?} {launch:?}");
/// }
/// ```
///
/// What a recorded launch reads has the right type, too:
///
/// ```compile_fail,E0277
/// fn call(kernel: &launcher_matrix::vecadd::Kernel, a: &[f64], c: &mut [f32]) {
///     kernel.bind(8, a, a, c, 5).unwrap();
/// }
/// ```
///
/// An input is not an output:
///
/// ```compile_fail,E0308
/// fn call(kernel: &launcher_matrix::vecadd::Kernel, a: &[f32], b: &[f32], c: &[f32]) {
///     kernel.launch(8, a, b, c, 5).unwrap();
/// }
/// ```
///
/// One element type is not another:
///
/// ```compile_fail,E0277
/// fn call(kernel: &launcher_matrix::vecadd::Kernel, a: &[f64], b: &[f32], c: &mut [f32]) {
///     kernel.launch(8, a, b, c, 5).unwrap();
/// }
/// ```
///
/// A length is no grid, and the message says what is:
///
/// ```compile_fail,E0277
/// fn call(kernel: &launcher_matrix::vecadd::Kernel, a: &[f32], c: &mut [f32]) {
///     kernel.launch(a.len(), a, a, c, 5).unwrap();
/// }
/// ```
///
/// Input and output may not overlap:
///
/// ```compile_fail,E0502
/// fn call(kernel: &launcher_matrix::vecadd::Kernel, a: &[f32], c: &mut [f32]) {
///     kernel.launch(8, a, &*c, c, 5).unwrap();
/// }
/// ```
///
/// No argument may be missing from a struct:
///
/// ```compile_fail,E0063
/// fn call(kernel: &launcher_matrix::counts::scalars_8_true::Kernel) {
///     let arguments = launcher_matrix::counts::scalars_8_true::Arguments { s0: 1 };
///     kernel.launch(8, arguments).unwrap();
/// }
/// ```
///
/// # Errors
/// Always, if there were a kernel.
pub fn call(
    device: &::npu_runtime::Device,
    slice: &mut [f32],
) -> ::core::result::Result<(), ::npu_runtime::Error> {
    let kernel = vecadd::Kernel::load(device)?;
    let vector = vec![1.0_f32; 8];
    let mut array = [1.0_f32; 8];
    let mut buffer = device.buffer::<f32>(8)?;
    kernel.launch(8, &vector, slice, &mut array, 8)?;
    kernel.launch((8, 2), slice, &array, &mut buffer, 8)?;
    kernel.launch([8, 2, 1], &buffer, &vector[2..], slice, 8)?;
    kernel.launch(::npu_runtime::Grid::ONE, &array, &buffer, &mut slice[..4], 8)?;

    let product = mat_mul::Kernel::load_from(device, "directory")?;
    product.launch(&[0; 2048], &vec![0; 512], &mut [0; 1024], [64, 16])?;

    let fields = counts::with_scalar_6_true::Kernel::load(device)?;
    let arguments = counts::with_scalar_6_true::Arguments {
        arg0: &[0_u8; 4],
        arg1: &mut vec![0_i8; 4],
        arg2: &mut [0_i16; 4],
        arg3: &[0_i32; 4],
        arg4: &mut vec![0_i64; 4],
        arg5: &mut [0_u8; 4],
        n: 7,
    };
    fields.launch(8, arguments)?;

    let sums = [device.buffer::<f32>(8)?, device.buffer::<f32>(8)?];
    chain(device, &kernel, &product, &vector, sums)
}

/// Runs chains.
///
/// # Errors
/// Always, if there were a kernel.
pub fn chain(
    device: &::npu_runtime::Device,
    kernel: &vecadd::Kernel,
    product: &mat_mul::Kernel,
    vector: &[f32],
    [mut first, mut second]: [::npu_runtime::Buffer<f32>; 2],
) -> ::core::result::Result<(), ::npu_runtime::Error> {
    let mut last = [0.0_f32; 8];
    let mut matrix = vec![0; 1024];
    {
        let (first, second) = (first.share(), second.share());
        let mut chain = ::npu_runtime::Chain::new(device);
        for _ in 0..4 {
            chain.push(kernel.bind(8, vector, first, second, 8)?)?;
            chain.push(kernel.bind(8, second, vector, first, 8)?)?;
        }
        chain.push(kernel.bind((8, 2), first, second, &mut last, 8)?)?;
        let shape = [64, 16];
        chain.push(product.bind(&[0; 2048], &[0; 512], &mut matrix, shape)?)?;
        chain.run()?;
    }
    let fields = fat::fat_fields::Kernel::load(device)?;
    let x = &last;
    let shape = [2, 4];
    let arguments = fat::fat_fields::Arguments {
        x0: x,
        x0_shape: shape,
        x1: x,
        x1_shape: shape,
        x2: x,
        x2_shape: shape,
        x3: x,
        x3_shape: shape,
        x4: x,
        x4_shape: shape,
        x5: x,
        x5_shape: shape,
        x6: x,
        x6_shape: shape,
        x7: x,
        x7_shape: shape,
        x8: x,
        x8_shape: shape,
    };
    let mut chain = ::npu_runtime::Chain::new(device);
    chain.push(fields.bind(arguments)?)?;
    chain.run()
}
"#;

/// Runs a cargo command on the crate, with the library and the binary built beside it.
fn cargo(directory: &Path, arguments: &[&str]) {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--offline", "--quiet", "--manifest-path"])
        .arg(directory.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", target_directory())
        .env("RUSTDOCFLAGS", "-D warnings")
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let start: String = complaint.chars().take(8000).collect();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "cargo {arguments:?}\n{start}\n{printed}"
    );
    // Clippy prints what it merely warns of; the crate's lints are errors, cargo's own are not.
    assert!(complaint.trim().is_empty(), "cargo {arguments:?}\n{start}");
}

fn target_directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("launcher-matrix-target")
}

#[test]
fn the_matrix_compiles_in_a_strict_crate_and_its_documentation_is_clean() {
    let directory = write_crate("2024");
    cargo(&directory, &["clippy"]);
    cargo(&directory, &["doc", "--no-deps"]);
    cargo(&directory, &["test", "--doc"]);
}

#[test]
fn the_matrix_compiles_in_the_edition_before_as_well() {
    cargo(&write_crate("2021"), &["check"]);
}

/// What a crate of edition 2015 has to say itself is `extern crate`.
#[test]
fn the_matrix_compiles_in_edition_2015_with_the_runtime_renamed() {
    let directory = write_crate("2015");
    let renamed =
        manifest("2015").replace("npu-runtime = {", "my-npu = { package = \"npu-runtime\",");
    fs::write(directory.join("Cargo.toml"), renamed).unwrap();
    let lints = LINTS.replace("rust_2018_idioms, rust_2024_compatibility, ", "");
    let mut library = format!(
        "//! In a facade.\n#![deny({lints})]\nextern crate my_npu;\n\
         /// What has the runtime.\npub mod facade {{\n    pub extern crate my_npu as npu;\n}}\n"
    );
    for (number, (name, mut request)) in matrix::files().into_iter().enumerate() {
        if name == matrix::UNCHECKED {
            library.push_str("#[allow(unsafe_code)]\n");
        }
        request.runtime_crate = ["my-npu", "crate::facade::npu"][number % 2].into();
        let text = launcher::render(&request).unwrap();
        fs::write(directory.join(format!("src/generated/{name}.rs")), text).unwrap();
        let include = format!("include!(\"generated/{name}.rs\");");
        writeln!(
            library,
            "pub mod {name} {{\n    //! Public.\n    {include}\n}}"
        )
        .unwrap();
    }
    fs::write(directory.join("src/lib.rs"), library).unwrap();
    fs::write(directory.join("src/main.rs"), "fn main() {}\n").unwrap();
    cargo(&directory, &["clippy"]);
}

#[test]
fn a_runtime_crate_that_is_no_path_is_refused() {
    let (_, mut request) = matrix::files().swap_remove(0);
    for path in [
        "", "a b", "::a", "a::", "crate", "a::crate", "type", "a;", "é", "_", "1a", "-a",
    ] {
        request.runtime_crate = path.into();
        let error = launcher::check(&request).unwrap_err().to_string();
        assert!(
            error.contains(&format!("'{path}' is no path of a crate")),
            "{error}"
        );
    }
}
