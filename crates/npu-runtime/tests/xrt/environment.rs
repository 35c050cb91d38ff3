//! What the environment says: each in a process of its own.

use crate::scene::{
    Scene, adding, binary_with, counting, directory, installation, multiplying, open, shim, sums,
};
use npu_runtime::{Arg, Chain, Device, Direction, Error, Grid, Kernel, Npu, Runtime};
use std::path::Path;
use std::process::Command;

/// Runs one of the tests below, which are ignored otherwise, with a clean environment and `vars`.
#[track_caller]
fn runs(test: &str, vars: &[(&str, &Path)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "--ignored", "--nocapture"])
        .arg(format!("environment::{test}"));
    for variable in [
        "NPU_RUNTIME",
        "NPU_RUNTIME_XRT_SHIM",
        "NPU_RUNTIME_XRT_DEVICE",
        "NPU_RUNTIME_VERIFY_DIRECTIONS",
        "XILINX_XRT",
    ] {
        command.env_remove(variable);
    }
    let output = command.envs(vars.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_shim_is_the_one_that_the_variable_names() {
    runs(
        "opens_with_no_word_of_a_shim",
        &[("NPU_RUNTIME_XRT_SHIM", shim())],
    );
}

#[test]
#[ignore = "run by another test"]
fn opens_with_no_word_of_a_shim() {
    assert_eq!(Runtime::from_env().unwrap(), Runtime::Xrt);
    let device = Device::from_env().unwrap();
    assert_eq!(device.npu(), Some(Npu::Npu2));
}

#[test]
fn a_shim_that_is_none_is_told_with_what_to_do() {
    let directory = directory();
    let library = installation().library();
    let text = directory.join("text.so");
    std::fs::write(&text, "no library").unwrap();
    for (path, reason) in [
        (directory.join("missing.so"), "there is no such file"),
        (text, "file too short"),
        (library, "it has no `npu_xrt_abi`, so it is no launch shim"),
    ] {
        let expected = [
            ("NPU_RUNTIME_XRT_SHIM", &*path),
            ("EXPECTED", Path::new(reason)),
        ];
        runs("finds_no_shim", &expected);
    }
    runs(
        "finds_no_shim",
        &[(
            "EXPECTED",
            Path::new("(beside the program): there is no such file"),
        )],
    );
}

#[test]
#[ignore = "run by another test"]
fn finds_no_shim() {
    let error = Device::open(Runtime::Xrt).unwrap_err();
    assert!(matches!(error, Error::Library(_)));
    let text = error.to_string();
    let expected = std::env::var("EXPECTED").unwrap();
    assert!(text.contains(&expected), "{text}");
    assert!(
        text.contains("no usable launch shim for XRT was found"),
        "{text}"
    );
    assert!(
        text.contains("set NPU_RUNTIME_XRT_SHIM to that file"),
        "{text}"
    );
}

#[test]
fn xrt_is_chosen_where_one_is_installed_and_nothing_else_ever() {
    runs("chooses_xrt", &[("XILINX_XRT", installation().root())]);
    runs("chooses_nothing", &[("XILINX_XRT", directory())]);
}

#[test]
#[ignore = "run by another test"]
fn chooses_xrt() {
    assert_eq!(Runtime::from_env().unwrap(), Runtime::Xrt);
    // The shim is what is missing, and that is told.
    assert!(matches!(Device::from_env().unwrap_err(), Error::Library(_)));
}

#[test]
#[ignore = "run by another test"]
fn chooses_nothing() {
    assert!(matches!(Device::from_env().unwrap_err(), Error::NoRuntime));
}

#[test]
fn a_generation_can_be_insisted_on() {
    let value = |value: &'static str| Path::new(value);
    for (name, device, outcome) in [
        ("NPU Medusa", "npu2", "npu2"),
        ("NPU Medusa", "npu1", "npu1"),
        ("NPU Strix", "npu2", "npu2"),
        ("NPU Strix", "npu1", "would hang it; unset the variable"),
        (
            "NPU Strix",
            "npu7",
            "NPU_RUNTIME_XRT_DEVICE is `npu7`; it may be npu1 or npu2",
        ),
    ] {
        let vars = [
            ("NPU_RUNTIME_XRT_SHIM", shim()),
            ("XRT_DOUBLE_NAME", value(name)),
            ("NPU_RUNTIME_XRT_DEVICE", value(device)),
            ("EXPECTED", value(outcome)),
        ];
        runs("opens_or_says_why_not", &vars);
    }
}

#[test]
#[ignore = "run by another test"]
fn opens_or_says_why_not() {
    let outcome = match Device::open(Runtime::Xrt) {
        Ok(device) => device.npu().unwrap().to_string(),
        Err(error) => error.to_string(),
    };
    let expected = std::env::var("EXPECTED").unwrap();
    assert!(outcome.contains(&expected), "{outcome}");
}

#[test]
fn verify_mode_finds_an_input_that_is_written() {
    runs(
        "verifies",
        &[("NPU_RUNTIME_VERIFY_DIRECTIONS", Path::new("1"))],
    );
    runs("does_not_verify", &[]);
}

#[test]
#[ignore = "run by another test"]
fn verifies() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    // What is written is said to be an input.
    let wrong = binary_with(Direction::Out, Direction::In);
    let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], wrong).unwrap();
    let (x, mut y, mut z) = (counting(), vec![0; 256], counting());
    z[100] = -1;
    let mut args = [Arg::input(&x), Arg::output(&mut y), Arg::input(&z)];
    let error = kernel.launch(Grid::ONE, &mut args).unwrap_err();
    let Error::InputWritten { argument, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(**argument, (2, "z".to_owned()));
    let mut chain = Chain::new(&device);
    let multiply = Kernel::load(&device, &[multiplying()], crate::scene::binary()).unwrap();
    let mut w = vec![0; 256];
    let right = [Arg::input(&x), Arg::input(&x), Arg::output(&mut w)];
    chain
        .push(multiply.bind(Grid::ONE, right).unwrap())
        .unwrap();
    let wrong = [Arg::input(&x), Arg::output(&mut y), Arg::input(&z)];
    chain.push(kernel.bind(Grid::ONE, wrong).unwrap()).unwrap();
    let error = chain.run().unwrap_err();
    let Error::Chain {
        completed: 1,
        source,
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(matches!(**source, Error::InputWritten { .. }), "{error}");
}

#[test]
#[ignore = "run by another test"]
fn does_not_verify() {
    let scene = Scene::on("npu2");
    let wrong = binary_with(Direction::Out, Direction::In);
    let kernel = Kernel::load(&scene.device(), &[adding(Npu::Npu2)], wrong).unwrap();
    let (x, mut y, z) = (counting(), vec![0; 256], counting());
    let mut args = [Arg::input(&x), Arg::output(&mut y), Arg::input(&z)];
    kernel.launch(Grid::ONE, &mut args).unwrap();
    assert_eq!(z, counting(), "what is an input stays as it was");
}

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

#[test]
fn a_forked_child_gets_errors_and_its_parent_goes_on() {
    runs("forks", &[]);
}

#[test]
#[ignore = "run by another test"]
fn forks() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], crate::scene::binary()).unwrap();
    let buffer = device.buffer::<i32>(16).unwrap();
    let (x, mut z) = (counting(), vec![0; 256]);
    let mut args = [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
    // SAFETY: the child calls only what says no, and leaves.
    let child = unsafe { fork() };
    if child == 0 {
        let forked = |error: Option<Error>| matches!(error, Some(Error::Forked { .. }));
        let all = forked(kernel.launch(Grid::ONE, &mut args).err())
            && forked(device.buffer::<i32>(1).err())
            && forked(open().err());
        drop((kernel, buffer, device));
        // SAFETY: nothing of the parent's is run.
        unsafe { _exit(if all { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: `status` is a place for an integer.
    assert_eq!(unsafe { waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    kernel.launch(Grid::ONE, &mut args).unwrap();
    assert_eq!(z, sums(&x, &x));
}
