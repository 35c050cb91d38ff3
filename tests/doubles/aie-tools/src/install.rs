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

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

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

const SITE: &str = "venv/lib/python3.12/site-packages";

/// Each wheel's directory in site-packages, version, and tools, which speak `dialect`.
fn wheels(dialect: u8) -> [(&'static str, &'static str, &'static str); 3] {
    let version = match dialect {
        1 => "0.0.1.2026040114",
        2 => "1.4.0",
        _ => "1.4.1.dev20260821",
    };
    [
        ("mlir_air", "0.0.1.2026082205", "air-opt aircc"),
        (
            "mlir_aie",
            version,
            "aiecc bootgen aie-hsaco aie-hsaco-dump",
        ),
        ("llvm-aie", "20.0.0.2026080101", "llc opt clang ld.lld"),
    ]
}

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
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = "build --quiet --message-format=json --bin aie-tools --manifest-path";
    let output = Command::new(cargo)
        .args(arguments.split(' '))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = text.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    let failed = || io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned());
    executable.ok_or_else(failed)
}

/// The installed llvm-objcopy, the newest if there are several.
pub fn real_llvm_objcopy() -> Option<PathBuf> {
    let entries = fs::read_dir("/usr/lib").ok()?.flatten();
    let paths = entries.map(|entry| entry.path().join("bin/llvm-objcopy"));
    let found = paths.filter(|path| path.exists());
    found.max_by_key(|path| (path.as_os_str().len(), path.clone()))
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
        for (package, version, tools) in wheels(dialect) {
            // Another one than the first is no Peano.
            let dialect = if package == "llvm-aie" { 1 } else { dialect };
            for tool in tools.split(' ') {
                installation.copy(&installation.tool(tool), tool, dialect, version)?;
            }
        }
        if let Some(objcopy) = real_llvm_objcopy() {
            symlink(objcopy, installation.tool("llvm-objcopy"))?;
        }
        for tool in ["xclbinutil", "aiebu-asm"] {
            installation.copy(&installation.tool(tool), tool, 1, "2.26.0")?;
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
        let (site, root) = (site.display(), self.root.display());
        format!("{site}/mlir_air/bin:{site}/mlir_aie/bin:{root}/xrt/bin")
    }

    /// The executable of a tool.
    pub fn tool(&self, tool: &str) -> PathBuf {
        let has = |tools: &str| tools.split(' ').any(|name| name == tool);
        let wheel = wheels(self.dialect)
            .into_iter()
            .find(|(.., tools)| has(tools));
        let package = match (tool, wheel) {
            ("llvm-objcopy", _) => "mlir_aie",
            (_, Some((package, ..))) => package,
            _ => return self.root.join("xrt/bin").join(tool),
        };
        self.site_packages().join(package).join("bin").join(tool)
    }

    /// Installs a tool at any place.
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
        fs::create_dir_all(path.parent().unwrap_or(path))?;
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
        let path = self.tool(tool);
        let mut identity = Identity::of(&path).ok_or(io::ErrorKind::NotFound)?;
        identity.build += 1;
        self.place(&path, &identity)?;
        self.records()
    }

    pub fn remove(&self, tool: &str) -> io::Result<()> {
        fs::remove_file(self.tool(tool))
    }

    /// Makes a tool misbehave from its next run on; see the README for the language.
    pub fn misbehave(&self, tool: &str, control: &str) -> io::Result<()> {
        fs::write(self.beside(tool, "behaviour"), control)
    }

    pub fn behave(&self, tool: &str) {
        let _ = fs::remove_file(self.beside(tool, "behaviour"));
    }

    fn beside(&self, tool: &str, extension: &str) -> PathBuf {
        self.tool(tool)
            .with_file_name(format!("{tool}.{extension}"))
    }

    /// The runs of a tool since the installation, in order.
    pub fn runs(&self, tool: &str) -> Vec<Invocation> {
        let log = fs::read_to_string(self.beside(tool, "log")).unwrap_or_default();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let texts = |items: &Value| {
            let items = items.as_array().into_iter().flatten();
            items
                .filter_map(|it| it.as_str().map(str::to_owned))
                .collect()
        };
        let runs = lines.map(|line| Invocation {
            arguments: texts(&line["argv"]),
            directory: line["cwd"].as_str().unwrap_or("").into(),
            environment: texts(&line["env"]),
        });
        runs.collect()
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

    /// The Python environment, with a script in front of aiecc.
    fn environment(&self) -> io::Result<()> {
        let venv = self.venv();
        let (python, aiecc) = (venv.join("bin/python3"), venv.join("bin/aiecc"));
        fs::create_dir_all(venv.join("bin"))?;
        fs::write(
            venv.join("pyvenv.cfg"),
            "home = /usr/bin\nversion = 3.12.3\n",
        )?;
        symlink("/usr/bin/python3", &python)?;
        symlink(SITE, self.root.join("site-packages"))?;
        let wrapper = format!(
            "#!{}\n# -*- coding: utf-8 -*-\nimport os\nimport sys\n\ntool = os.path.join(os.path.dirname(__file__), \"../lib/python3.12/site-packages/mlir_aie/bin/aiecc\")\nos.execv(tool, [tool, *sys.argv[1:]])\n",
            python.display()
        );
        fs::write(&aiecc, wrapper)?;
        fs::set_permissions(aiecc, fs::Permissions::from_mode(0o755))
    }

    /// The RECORDs of the wheels: every file's digest.
    fn records(&self) -> io::Result<()> {
        for (package, version, tools) in wheels(self.dialect) {
            let distribution = package.replace('-', "_");
            let info = format!("{distribution}-{version}.dist-info");
            let directory = self.site_packages().join(&info);
            fs::create_dir_all(&directory)?;
            let metadata =
                format!("Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n");
            fs::write(directory.join("METADATA"), metadata)?;
            let names = tools.split(' ').map(|tool| format!("{package}/bin/{tool}"));
            let mut record = String::new();
            for name in names.chain([format!("{info}/METADATA")]) {
                if let Ok(bytes) = fs::read(self.site_packages().join(&name)) {
                    let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&bytes));
                    record.push_str(&format!("{name},sha256={digest},{}\n", bytes.len()));
                }
            }
            fs::write(
                directory.join("RECORD"),
                format!("{record}{info}/RECORD,,\n"),
            )?;
        }
        Ok(())
    }
}
