//! Installations for tests, laid out as they are in the field: wheels in the site-packages of a
//! Python environment, XRT beside it, a wrapper script in the environment's `bin`.
//!
//! ```text
//! ROOT/venv/pyvenv.cfg
//! ROOT/venv/bin/{python3, aiecc}                           aiecc is a Python script
//! ROOT/venv/lib/python3.12/site-packages/mlir_air/bin/{air-opt, aircc}
//!                                       /mlir_aie/bin/{aiecc, bootgen, aie-hsaco, aie-hsaco-dump, llvm-objcopy}
//!                                       /llvm-aie/bin/{llc, opt, clang, ld.lld}
//!                                       /*.dist-info/RECORD
//! ROOT/site-packages                                       a link to the above
//! ROOT/xrt/bin/{xclbinutil, aiebu-asm}
//! ROOT/transform.mlir                                      a script that makes a herd
//! ```

mod record;

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use crate::identity::Identity;

/// A transform script that tiles everything into one herd that works in L1.
pub const TRANSFORM: &str = r#"// Tiles the kernel's operations into one herd.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %ops = transform.structured.match ops{["linalg.generic", "linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiled, %forall = transform.structured.tile_using_forall %ops tile_sizes [256] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %local = transform.air.linalg_promote %tiled {"operands_to_promote" = [0, 1], "memory_space" = "L1"} : (!transform.any_op) -> !transform.any_op
    %parallel = transform.loop.forall_to_parallel %forall : (!transform.any_op) -> !transform.any_op
    %herd = transform.air.par_to_herd %parallel : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"#;

/// One run of a tool, as its log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    pub environment: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Installation {
    root: PathBuf,
    binary: PathBuf,
    dialect: u8,
}

/// A wheel: directory in site-packages, distribution name, version, and its tools with dialects.
struct Wheel {
    package: &'static str,
    distribution: &'static str,
    version: &'static str,
    tools: Vec<(&'static str, u8)>,
}

fn wheels(dialect: u8) -> [Wheel; 3] {
    let air = if dialect == 1 { 1 } else { 2 };
    let version = match dialect {
        1 => "0.0.1.2026040114",
        2 => "1.4.0",
        _ => "1.4.1.dev20260821",
    };
    [
        Wheel {
            package: "mlir_air",
            distribution: "mlir_air",
            version: "0.0.1.2026082205",
            tools: vec![("air-opt", air), ("aircc", air)],
        },
        Wheel {
            package: "mlir_aie",
            distribution: "mlir_aie",
            version,
            tools: vec![
                ("aiecc", dialect),
                ("bootgen", 1),
                ("aie-hsaco", 1),
                ("aie-hsaco-dump", 1),
            ],
        },
        Wheel {
            package: "llvm-aie",
            distribution: "llvm_aie",
            version: "20.0.0.2026080101",
            tools: vec![("llc", 1), ("opt", 1), ("clang", 1), ("ld.lld", 1)],
        },
    ]
}

const SITE: &str = "venv/lib/python3.12/site-packages";

/// The program that all tools are copies of. It is built on first use by the cargo that runs the
/// tests, unless `AIE_DOUBLES_BINARY` names one.
pub fn binary() -> io::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| error.to_string()));
    built.clone().map_err(io::Error::other)
}

fn build() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("AIE_DOUBLES_BINARY") {
        return Ok(PathBuf::from(path));
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--message-format=json",
            "--bin",
            "aie-tools",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = text.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    executable.ok_or_else(|| io::Error::other("cargo built no aie-tools"))
}

/// The installed llvm-objcopy, the newest if there are several.
pub fn real_llvm_objcopy() -> Option<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .map(|entry| entry.path().join("bin/llvm-objcopy"))
        .filter(|path| path.exists())
        .collect();
    found.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    found.pop()
}

impl Installation {
    /// Installs everything under `root`, with aiecc in dialect 1, 2 or 3.
    pub fn new(root: &Path, dialect: u8) -> io::Result<Self> {
        Self::with_binary(root, dialect, &binary()?)
    }

    /// As [`Installation::new`], with the program that all tools are copies of.
    pub fn with_binary(root: &Path, dialect: u8, binary: &Path) -> io::Result<Self> {
        let installation = Self {
            root: root.to_owned(),
            binary: binary.to_owned(),
            dialect,
        };
        for wheel in wheels(dialect) {
            for (tool, dialect) in &wheel.tools {
                let path = installation
                    .site_packages()
                    .join(wheel.package)
                    .join("bin")
                    .join(tool);
                installation.copy(&path, tool, *dialect, wheel.version)?;
            }
        }
        if let Some(objcopy) = real_llvm_objcopy() {
            symlink(objcopy, installation.path_of("mlir_aie", "llvm-objcopy"))?;
        }
        for tool in ["xclbinutil", "aiebu-asm"] {
            installation.copy(&root.join("xrt/bin").join(tool), tool, 1, "2.26.0")?;
        }
        installation.environment()?;
        installation.records()?;
        fs::write(installation.transform(), TRANSFORM)?;
        Ok(installation)
    }

    pub fn site_packages(&self) -> PathBuf {
        self.root.join(SITE)
    }

    pub fn venv(&self) -> PathBuf {
        self.root.join("venv")
    }

    pub fn transform(&self) -> PathBuf {
        self.root.join("transform.mlir")
    }

    pub fn peano(&self) -> PathBuf {
        self.site_packages().join("llvm-aie")
    }

    /// The directories with programs, as a PATH: the wheels' and XRT's, not Peano's.
    pub fn search_path(&self) -> String {
        let site = self.site_packages();
        let directories = [
            site.join("mlir_air/bin"),
            site.join("mlir_aie/bin"),
            self.root.join("xrt/bin"),
        ];
        let texts: Vec<_> = directories
            .iter()
            .map(|d| d.display().to_string())
            .collect();
        texts.join(":")
    }

    fn path_of(&self, package: &str, tool: &str) -> PathBuf {
        self.site_packages().join(package).join("bin").join(tool)
    }

    pub fn tool(&self, tool: &str) -> PathBuf {
        for wheel in wheels(self.dialect) {
            if tool == "llvm-objcopy" || wheel.tools.iter().any(|(name, _)| *name == tool) {
                let path = self.path_of(wheel.package, tool);
                if tool != "llvm-objcopy" || wheel.package == "mlir_aie" {
                    return path;
                }
            }
        }
        self.root.join("xrt/bin").join(tool)
    }

    pub fn copy(&self, path: &Path, tool: &str, dialect: u8, version: &str) -> io::Result<()> {
        let identity = Identity {
            tool: tool.to_owned(),
            dialect,
            version: version.to_owned(),
            build: 0,
        };
        self.place(path, &identity)
    }

    fn place(&self, path: &Path, identity: &Identity) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let mut bytes = fs::read(&self.binary)?;
        bytes.extend(identity.line().into_bytes());
        // A new file takes the name, as a package manager does it: the old one may be running.
        let new = path.with_extension("new");
        fs::write(&new, bytes)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        fs::rename(new, path)
    }

    /// Replaces a tool by another build of the same version, RECORD included.
    pub fn upgrade(&self, tool: &str) -> io::Result<()> {
        self.change(tool, |identity| identity.build += 1)
    }

    /// Replaces a tool by one that speaks another dialect.
    pub fn set_dialect(&self, tool: &str, dialect: u8) -> io::Result<()> {
        self.change(tool, |identity| identity.dialect = dialect)
    }

    fn change(&self, tool: &str, change: impl Fn(&mut Identity)) -> io::Result<()> {
        let path = self.tool(tool);
        let mut identity = Identity::of(&path).ok_or(io::ErrorKind::NotFound)?;
        change(&mut identity);
        self.place(&path, &identity)?;
        self.records()
    }

    pub fn remove(&self, tool: &str) -> io::Result<()> {
        fs::remove_file(self.tool(tool))
    }

    /// Tells a tool what to do wrong, from its next run on; see the README for the language.
    pub fn misbehave(&self, tool: &str, control: &str) -> io::Result<()> {
        fs::write(self.beside(tool, "behaviour"), control)
    }

    pub fn behave(&self, tool: &str) {
        let _ = fs::remove_file(self.beside(tool, "behaviour"));
    }

    fn beside(&self, tool: &str, extension: &str) -> PathBuf {
        let path = self.tool(tool);
        path.with_file_name(format!("{tool}.{extension}"))
    }

    /// The runs of a tool since the installation or [`Installation::forget_runs`], in order.
    pub fn runs(&self, tool: &str) -> Vec<Invocation> {
        let log = fs::read_to_string(self.beside(tool, "log")).unwrap_or_default();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let texts = |line: &Value, key: &str| -> Vec<String> {
            let items = line.get(key).and_then(Value::as_array).into_iter();
            let texts = items.flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        lines
            .map(|line| Invocation {
                arguments: texts(&line, "argv"),
                directory: line.get("cwd").and_then(Value::as_str).unwrap_or("").into(),
                environment: texts(&line, "env"),
            })
            .collect()
    }

    /// The runs of a tool that were no questions for its version or options.
    pub fn compilations(&self, tool: &str) -> Vec<Invocation> {
        let asks = |argument: &String| {
            let bare = argument.trim_start_matches('-');
            bare.starts_with("version") || bare.starts_with("help")
        };
        let mut runs = self.runs(tool);
        runs.retain(|run| !run.arguments.iter().any(asks));
        runs
    }

    pub fn forget_runs(&self, tool: &str) {
        let _ = fs::remove_file(self.beside(tool, "log"));
    }

    /// The Python environment, with a script in front of aiecc.
    fn environment(&self) -> io::Result<()> {
        let bin = self.venv().join("bin");
        fs::create_dir_all(&bin)?;
        fs::write(
            self.venv().join("pyvenv.cfg"),
            "home = /usr/bin\nversion = 3.12.3\n",
        )?;
        symlink("/usr/bin/python3", bin.join("python3"))?;
        symlink(SITE, self.root.join("site-packages"))?;
        let wrapper = format!(
            "#!{}\n# -*- coding: utf-8 -*-\nimport os\nimport sys\n\ntool = os.path.join(os.path.dirname(__file__), \"../lib/python3.12/site-packages/mlir_aie/bin/aiecc\")\nos.execv(tool, [tool, *sys.argv[1:]])\n",
            bin.join("python3").display()
        );
        fs::write(bin.join("aiecc"), wrapper)?;
        fs::set_permissions(bin.join("aiecc"), fs::Permissions::from_mode(0o755))
    }
}
