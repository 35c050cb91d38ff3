//! All tools in one program: see the library. `aie-tools install DIRECTORY [DIALECT]` installs them.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use aie_tools::install::Installation;

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (root, dialect) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["install", root] => (root, 3),
        ["install", root, dialect] => (root, dialect.parse().unwrap_or(3)),
        _ => return Ok(ExitCode::from(aie_tools::tools::run())),
    };
    std::fs::create_dir_all(root)?;
    let root = Path::new(root).canonicalize()?;
    let tools = Installation::with_binary(&root, dialect, &std::env::current_exe()?)?;
    let (venv, script) = (tools.venv(), tools.transform());
    writeln!(
        io::stdout(),
        "export VIRTUAL_ENV='{}' XILINX_XRT='{}/xrt'\n# a transform script: {}",
        venv.display(),
        root.display(),
        script.display()
    )?;
    Ok(ExitCode::SUCCESS)
}
