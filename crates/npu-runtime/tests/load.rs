//! Loading: the same content once, and nothing that is not what was promised.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

mod support;

use npu_runtime::{Arg, Artifact, ArtifactFault, Device, Direction, ElementType, Error, Grid};
use npu_runtime::{Image, Kernel, Runtime, Signature};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;
use support::{compile, signature, unranked};

fn load(artifact: &Artifact, signature: Signature) -> Result<Kernel, Error> {
    let images = [Image::Object(artifact.clone())];
    Kernel::load(&Device::open(Runtime::Cpu)?, &images, signature)
}

/// A kernel that counts its launches in a static of its own, starting at `start`.
fn counter(start: i64) -> (Vec<u8>, Signature) {
    let object = compile(
        2,
        "void count(int64_t *)",
        "count((int64_t *)slots[0]);",
        &format!("static int64_t n = {start}; void count(int64_t *out) {{ *out = ++n; }}"),
    );
    let parameters = vec![unranked("out", ElementType::I64, Direction::Out)];
    (object, signature("count", false, parameters))
}

fn count(kernel: &Kernel) -> i64 {
    let mut out = [0];
    kernel
        .launch(Grid::ONE, &mut [Arg::output(&mut out)])
        .unwrap();
    out[0]
}

static COUNTER: LazyLock<(Vec<u8>, Signature)> = LazyLock::new(|| counter(-1000));

fn fault(bytes: Vec<u8>) -> ArtifactFault {
    match load(&Artifact::bytes(bytes), COUNTER.1.clone()) {
        Err(Error::Artifact { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_content_is_one_object_wherever_it_comes_from() {
    let (object, signature) = counter(100);
    let directory = support::directory();
    let path = directory.join("kernel.so");
    fs::write(&path, &object).unwrap();
    let digest = Sha256::digest(&object).into();

    let from_memory = load(&Artifact::bytes(object.clone()), signature.clone()).unwrap();
    assert_eq!(count(&from_memory), 101);
    let from_file = load(&Artifact::file(&path, digest), signature.clone()).unwrap();
    assert_eq!(count(&from_file), 102);
    let embedded = load(&Artifact::embedded(object.leak()), signature.clone()).unwrap();
    assert_eq!(count(&embedded), 103);
    // What is loaded already needs no file any more.
    fs::remove_dir_all(directory).unwrap();
    let again = load(&Artifact::file(&path, digest), signature).unwrap();
    assert_eq!(count(&again), 104);
    assert_eq!(count(&from_memory), 105);
}

/// The system's loader knows objects by their path, and paths to descriptors come again.
#[test]
fn objects_of_different_content_are_never_taken_for_each_other() {
    let kernels: Vec<Kernel> = (0..8)
        .map(|i| {
            let (object, signature) = counter(10_000 + i * 1000);
            load(&Artifact::bytes(object), signature).unwrap()
        })
        .collect();
    for (i, kernel) in (0..).zip(&kernels) {
        assert_eq!(count(kernel), 10_000 + i * 1000 + 1);
    }
}

#[test]
fn threads_that_load_the_same_content_at_once_get_one_object() {
    let (object, signature) = counter(0);
    let mut seen: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                let artifact = Artifact::bytes(object.clone());
                let signature = signature.clone();
                scope.spawn(move || load(&artifact, signature).unwrap())
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| count(&thread.join().unwrap()))
            .collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (1..=16).collect::<Vec<_>>());
}

#[test]
fn a_file_of_another_digest_is_refused_before_it_is_loaded() {
    let directory = support::directory();
    let path = directory.join("kernel.so");
    // An object whose loading would be seen.
    let trap = directory.join("loaded");
    let (_, signature) = counter(0);
    let object = compile(
        2,
        "void count(int64_t *)",
        "count((int64_t *)slots[0]);",
        &format!(
            "#include <fcntl.h>
             __attribute__((constructor)) static void trap(void) {{ creat(\"{}\", 0600); }}
             void count(int64_t *out) {{ *out = 0; }}",
            trap.display()
        ),
    );
    fs::write(&path, &object).unwrap();
    let found: [u8; 32] = Sha256::digest(&object).into();
    let promised = [0xab; 32];
    let error = load(&Artifact::file(&path, promised), signature).unwrap_err();
    let text = error.to_string();
    let hex: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(
        text.contains(&"ab".repeat(32)) && text.contains(&hex),
        "{text}"
    );
    assert!(text.contains("rebuild"), "{text}");
    assert!(!trap.exists());
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_file_that_can_not_be_read_is_named_with_the_reason() {
    let directory = support::directory();
    for path in [directory.join("none.so"), directory.clone()] {
        let error = load(&Artifact::file(&path, [0; 32]), COUNTER.1.clone()).unwrap_err();
        assert!(matches!(error, Error::ReadArtifact { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&path.display().to_string()), "{text}");
    }
}

#[test]
fn a_kernel_without_images_is_called_a_stub() {
    let device = Device::open(Runtime::Cpu).unwrap();
    let error = Kernel::load(&device, &[], COUNTER.1.clone()).unwrap_err();
    assert!(matches!(error, Error::NoImage(_)), "{error:?}");
    let error = error.to_string();
    assert!(
        error.contains("stub") && error.contains(&*COUNTER.1.name),
        "{error}"
    );
}

#[test]
fn what_is_no_shared_object_is_refused() {
    let (object, _) = &*COUNTER;
    assert_eq!(fault(vec![]), ArtifactFault::Empty);
    assert_eq!(fault(b"!<arch>\n".to_vec()), ArtifactFault::NotElf);
    assert_eq!(
        fault(b"\x7fELF".to_vec()),
        ArtifactFault::Truncated { size: 4 }
    );
    // EI_CLASS of 32 bits; ET_REL, an object file.
    for (at, value) in [(4, 1), (16, 1)] {
        let mut changed = object.clone();
        changed[at] = value;
        assert_eq!(fault(changed), ArtifactFault::NotSharedObject);
    }
    let mut foreign = object.clone();
    // EM_SPARC, which no host of this test is.
    foreign[18..20].copy_from_slice(&2_u16.to_ne_bytes());
    assert!(matches!(
        fault(foreign),
        ArtifactFault::Machine { found: 2, .. }
    ));
}

#[test]
fn an_object_that_was_cut_short_anywhere_is_refused() {
    let (object, _) = &*COUNTER;
    for len in 0..object.len() {
        match fault(object[..len].to_vec()) {
            ArtifactFault::Empty => assert_eq!(len, 0),
            ArtifactFault::NotElf => assert!(len < 4),
            ArtifactFault::Truncated { size } => assert_eq!(size, len),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
}

#[test]
fn a_library_that_is_no_kernel_is_refused_by_the_missing_symbol() {
    // `call.inc` is not used: only the language's own compiler is.
    let directory = support::directory();
    fs::write(directory.join("plain.c"), "int plain(void) { return 1; }\n").unwrap();
    let status = Command::new(support::compiler())
        .args(["-shared", "-fPIC", "plain.c", "-o", "plain.so"])
        .current_dir(&directory)
        .status()
        .unwrap();
    assert!(status.success());
    let plain = fs::read(directory.join("plain.so")).unwrap();
    let error = load(&Artifact::bytes(plain), COUNTER.1.clone())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("npu_cpu_slots_v1") && error.contains("npu-build version"),
        "{error}"
    );
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn the_loader_s_own_reason_is_shown() {
    let directory = support::directory();
    // It needs a library that is gone by the time it is loaded.
    for (source, text) in [
        ("gone", "int gone(void) { return 1; }"),
        ("needs", "int needs(void);"),
    ] {
        fs::write(directory.join(format!("{source}.c")), text).unwrap();
    }
    let run = |args: &[&str]| {
        let mut command = Command::new(support::compiler());
        let status = command.args(args).current_dir(&directory).status().unwrap();
        assert!(status.success());
    };
    run(&["-shared", "-fPIC", "gone.c", "-o", "libgone.so"]);
    run(&[
        "-shared",
        "-fPIC",
        "-Wl,--no-as-needed",
        "needs.c",
        "./libgone.so",
        "-o",
        "needs.so",
    ]);
    let needs = fs::read(directory.join("needs.so")).unwrap();
    fs::remove_dir_all(directory).unwrap();
    let error = load(&Artifact::bytes(needs), COUNTER.1.clone()).unwrap_err();
    assert!(matches!(error, Error::Load { .. }), "{error:?}");
    assert!(error.to_string().contains("libgone.so"), "{error}");
}

#[test]
fn a_signature_that_is_not_the_artifact_s_is_refused() {
    let (object, signature) = counter(0);
    let mut other = signature.clone();
    other
        .parameters
        .to_mut()
        .push(unranked("more", ElementType::F32, Direction::In));
    let error = load(&Artifact::bytes(object), other).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Slots {
                expected: 4,
                found: 2,
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.to_string().contains("rebuild"), "{error}");
}

/// A process of its own that loads the counter and launches it, below `wrapper` and with
/// temporary files in `temporary`.
fn load_in_a_process(wrapper: &[&OsStr], temporary: &Path) -> Output {
    let path = support::directory().join("kernel.so");
    fs::write(&path, &COUNTER.0).unwrap();
    let this = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().copied().chain([this.as_os_str()]);
    Command::new(words.next().unwrap())
        .args(words)
        .args([
            "--exact",
            "load_and_count",
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ])
        .env("TMPDIR", temporary)
        .env("XDG_RUNTIME_DIR", temporary)
        .env("NPU_TEST_KERNEL", path)
        .output()
        .unwrap()
}

/// What a sandbox or a full disk leaves: no place to write a file to.
#[test]
fn a_kernel_is_loaded_where_no_temporary_file_can_be_written() {
    let output = load_in_a_process(&[], Path::new("/proc/none"));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// strace makes a system of it that has no memfd_create, or that lets none be made.
#[test]
fn a_kernel_is_loaded_from_a_private_file_where_memory_can_not_be_executed() {
    let Some(strace) = support::tool("strace") else {
        return;
    };
    let temporary = support::directory();
    for error in ["ENOSYS", "EACCES"] {
        let inject = format!("inject=memfd_create:error={error}");
        let trace = ["-f", "-o", "/dev/null", "-e", &inject].map(OsStr::new);
        let wrapper: Vec<&OsStr> = [strace.as_os_str()].into_iter().chain(trace).collect();
        let output = load_in_a_process(&wrapper, &temporary);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            text.contains(&format!("mapped from {}", temporary.display())),
            "{text}"
        );
        // It is gone, and so is its directory.
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    }
}

#[test]
#[ignore = "run by the tests above, in an environment of its own"]
fn load_and_count() {
    let Some(path) = std::env::var_os("NPU_TEST_KERNEL") else {
        return;
    };
    let parameters = vec![unranked("out", ElementType::I64, Direction::Out)];
    let artifact = Artifact::bytes(fs::read(path).unwrap());
    let kernel = load(&artifact, signature("count", false, parameters)).unwrap();
    assert_eq!(count(&kernel), -999);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps
        .lines()
        .find(|line| line.contains("kernel") && line.contains("(deleted)"));
    let name = mapped
        .and_then(|line| line.split_whitespace().nth(5))
        .unwrap();
    println!("mapped from {name}");
}

proptest! {
    #[test]
    fn garbage_is_refused_without_being_loaded(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..4096),
        header in 0..=64_usize,
    ) {
        // As much of a real header as makes the check look further.
        let (object, signature) = &*COUNTER;
        let header = header.min(bytes.len());
        bytes[..header].copy_from_slice(&object[..header]);
        let result = load(&Artifact::bytes(bytes), signature.clone());
        prop_assert!(matches!(result, Err(Error::Artifact { .. })), "{result:?}");
    }
}
