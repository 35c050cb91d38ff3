//! bootgen: a BIF and the CDO that it names, to a PDI. As in the real one, file names in a BIF are
//! unquoted, so a path with a space breaks it.

use std::fs;
use std::path::Path;

use crate::pdi::pdi;
use crate::run::{Result, Run, failure, message};

pub fn run(run: &Run) -> Result {
    run.begin()?;
    let (mut image, mut output, mut rest) = (None, None, run.arguments.iter());
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "-image" => image = rest.next(),
            "-o" => output = rest.next(),
            "-arch" => drop(rest.next()),
            "-w" | "-process_bitstream" => {}
            other => return Err(failure(format!("[ERROR]  : Invalid option: {other}"))),
        }
    }
    let (Some(image), Some(output)) = (image, output) else {
        return Err(failure("[ERROR]  : No BIF file or output specified"));
    };
    super::print("\n\n****** Bootgen v2023.2\n\n");
    let read = |path: &str| {
        fs::read(path).map_err(|e| {
            failure(format!(
                "[ERROR]  : Cannot read file - {path}: {}",
                message(&e)
            ))
        })
    };
    let bif = String::from_utf8_lossy(&read(image)?).into_owned();
    let line = bif
        .lines()
        .find_map(|line| line.trim().strip_prefix("file="));
    let Some(line) = line else {
        return Err(failure("[ERROR]  : syntax error in BIF: no file"));
    };
    let mut words = line.split_whitespace();
    let file = words.next().unwrap_or("");
    if let Some(word) = words.next() {
        return Err(failure(format!(
            "[ERROR]  : syntax error, unexpected '{word}' in BIF"
        )));
    }
    let cdo = read(file)?;
    if cdo.get(4..7) != Some(b"CDO") {
        return Err(failure(format!("[ERROR]  : {file} is no CDO")));
    }
    run.deliver("pdi", Path::new(output), &pdi(&cdo));
    super::print("[INFO]   : Bootimage generated successfully\n\n");
    Ok(())
}
