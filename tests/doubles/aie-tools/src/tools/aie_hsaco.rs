//! aie-hsaco and aie-hsaco-dump: upstream's command lines in front of the project's own packer,
//! which its tests hold to the bytes that upstream's made.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use npu_formats::dump::Dump;
use npu_formats::pack::{Unloadable, pack};
use npu_formats::spec::{KernelOption, Spec};

use crate::run::{Exit, Result, Run};
use crate::tools::print;

fn error(what: impl std::fmt::Display) -> Exit {
    Exit {
        code: 2,
        text: format!("aie-hsaco: error: {what}"),
    }
}

/// Runs aie-hsaco. Where it fails the file is left as it was.
pub fn run(run: &Run) -> Result {
    if run.arguments.iter().any(|a| a == "--help" || a == "-h") {
        print("usage: aie-hsaco --hsaco OUT --arch {aie2,aie2p} --kernel SPEC...\n");
        return Ok(());
    }
    run.begin()?;
    let (mut hsaco, mut arch, mut kernels) = (None, None, Vec::new());
    let mut rest = run.arguments.iter();
    while let Some(argument) = rest.next() {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (argument.as_str(), rest.next().map(String::as_str)),
        };
        let missing = || error(format!("argument {option}: expected one argument"));
        let value = value.ok_or_else(missing)?;
        let kernel = KernelOption::ALL.into_iter().find(|it| it.flag() == option);
        match (option, kernel) {
            ("--hsaco", _) => hsaco = Some(value),
            ("--arch", _) => arch = Some(value),
            (_, Some(kernel)) => kernels.push((kernel, OsString::from(value))),
            _ => return Err(error(format!("unrecognized arguments: {option}"))),
        }
    }
    let (Some(hsaco), Some(arch)) = (hsaco, arch) else {
        let what = "the following arguments are required: --hsaco, --arch";
        return Err(error(what));
    };
    let arch = arch.parse().map_err(error)?;
    let specs = Spec::from_options(kernels).map_err(error)?;
    let variable = std::env::var_os("AIE_OBJCOPY_PATH");
    if variable.is_none() && run.on_path("llvm-objcopy").is_none() {
        return Err(error("llvm-objcopy not found (set AIE_OBJCOPY_PATH)"));
    }
    let made = std::env::temp_dir().join(format!("aie-hsaco-{}", std::process::id()));
    if Path::new(hsaco).exists() {
        fs::copy(hsaco, &made).map_err(error)?;
    }
    let packed = pack(&made, arch, &specs, Unloadable::Allow).map_err(error);
    let bytes = fs::read(&made);
    let _ = fs::remove_file(&made);
    packed?;
    run.deliver("hsaco", Path::new(hsaco), &bytes.map_err(error)?);
    Ok(())
}

/// Runs aie-hsaco-dump: what is in a file, arch by arch.
pub fn dump(run: &Run) -> Result {
    run.begin()?;
    let error = |text: String| Exit {
        code: 1,
        text: format!("aie-hsaco-dump: error: {text}"),
    };
    let [_, file] = run.arguments.as_slice() else {
        return Err(error("usage: aie-hsaco-dump --hsaco FILE".to_owned()));
    };
    let bytes = fs::read(file).map_err(|e| error(format!("cannot read {file}: {e}")))?;
    let dump = Dump::of(&bytes, &[]);
    print(&dump.text());
    match dump.errors().as_slice() {
        [] => Ok(()),
        errors => Err(error(errors.join("\n"))),
    }
}
