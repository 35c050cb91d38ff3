//! All tools in one program: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(aie_tools::tools::run())
}
