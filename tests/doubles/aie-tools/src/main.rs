//! All tools in one program: see the library. Under its own name it installs them:
//! `aie-tools install DIRECTORY [DIALECT]`.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use aie_tools::install::Installation;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [install, root, rest @ ..] if install == "install" && rest.len() <= 1 => {
            match installed(Path::new(root), rest.first()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    let _ = writeln!(io::stderr(), "aie-tools: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => ExitCode::from(aie_tools::tools::run()),
    }
}

/// Installs the tools, and prints what makes them the ones that are found.
fn installed(root: &Path, dialect: Option<&OsString>) -> io::Result<()> {
    let dialect = match dialect {
        None => 3,
        Some(text) => (text.to_str())
            .and_then(|text| text.parse().ok())
            .filter(|dialect| (1..=3).contains(dialect))
            .ok_or_else(|| io::Error::other("the dialects are 1, 2 and 3"))?,
    };
    std::fs::create_dir_all(root)?;
    let root = root.canonicalize()?;
    let tools = Installation::with_binary(&root, dialect, &std::env::current_exe()?)?;
    writeln!(
        io::stdout(),
        "export VIRTUAL_ENV='{}' XILINX_XRT='{}'\n# a transform script: {}",
        tools.venv().display(),
        root.join("xrt").display(),
        tools.transform().display()
    )
}
