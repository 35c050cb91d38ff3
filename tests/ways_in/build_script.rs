//! `npu_build::build_script`, as Cargo sees it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{self, Outcome};
use crate::package::{Package, shift_by};

/// The values of one directive, which must not come twice.
fn directive(lines: &[String], name: &str) -> BTreeSet<String> {
    let prefix = format!("cargo::{name}=");
    let values: Vec<_> = lines
        .iter()
        .filter_map(|line| line.strip_prefix(&prefix))
        .map(str::to_owned)
        .collect();
    let set: BTreeSet<_> = values.iter().cloned().collect();
    assert_eq!(set.len(), values.len(), "{name} repeats itself: {values:?}");
    set
}

#[test]
fn cargo_is_told_every_input_and_no_path_that_is_not_there() {
    let package = Package::with_build_script("way-in-inputs", "");
    let built = package.build();
    let lines = built.directives(&package);
    let files = directive(&lines, "rerun-if-changed");
    let kernel = package.path().join("kernels/shift.mlir");
    assert!(files.contains(kernel.to_str().unwrap()), "{files:?}");
    for tool in ["mlir-opt", "mlir-translate", "clang"] {
        // A tool is mostly a thin program around its libraries: both are inputs.
        let tool = common::real_llvm().join(tool);
        let tool = fs::canonicalize(tool).unwrap();
        let is_tool = |file: &String| fs::canonicalize(file).unwrap() == tool;
        assert!(
            files.iter().any(is_tool),
            "no {} in {files:?}",
            tool.display()
        );
    }
    let ldd = Command::new("ldd")
        .arg(common::real_llvm().join("mlir-opt"))
        .output()
        .unwrap();
    let ldd = String::from_utf8(ldd.stdout).unwrap();
    if let Some(library) = ldd.lines().find(|line| line.contains("libMLIR")) {
        let library = library.split_whitespace().nth(2).unwrap();
        let library = fs::canonicalize(library).unwrap();
        let is_library = |file: &String| fs::canonicalize(file).unwrap() == library;
        assert!(
            files.iter().any(is_library),
            "no {} in {files:?}",
            library.display()
        );
    }
    // Everything else that is listed belongs to the tools.
    let others: Vec<_> = files
        .iter()
        .filter(|file| Path::new(file).starts_with(package.path()))
        .collect();
    assert_eq!(others, [kernel.to_str().unwrap()]);
    assert_eq!(
        directive(&lines, "rerun-if-env-changed")
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
        [
            "DOCS_RS",
            "HOME",
            "NPU_BUILD_LLVM",
            "NPU_BUILD_MARCH",
            "NPU_BUILD_RUNTIME",
            "NPU_BUILD_RUNTIME_CRATE",
            "NPU_BUILD_TARGET",
            "XDG_CONFIG_HOME",
        ]
    );
    assert!(
        lines.iter().all(|line| !line.contains("warning")),
        "{lines:?}"
    );

    package.write(
        "npu-build.toml",
        "[build]\noptions = { march = \"baseline\" }\n",
    );
    fs::remove_file(package.path().join("build.rs")).unwrap();
    package.write(
        "build.rs",
        "fn main() { npu_build::build_script().target(npu_build::Target::Cpu)
         .kernel(\"kernels/shift.mlir\").compile().unwrap(); }",
    );
    let lines = package.build().directives(&package);
    let files = directive(&lines, "rerun-if-changed");
    let project = package.path().join("npu-build.toml");
    assert!(files.contains(project.to_str().unwrap()), "{files:?}");
}

#[test]
fn an_edited_input_rebuilds_and_an_edited_readme_does_not() {
    let package = Package::with_build_script("way-in-edits", "");
    package.write("README.md", "one");
    package.write("npu-build.toml", "# nothing yet\n");
    package.write("kernels/other.mlir", "not listed");
    let first = package.build();
    assert!(first.script_ran(&package), "{}", first.outcome.stderr());
    assert_eq!(first.result(&package), "[11, 12, 13]\n");

    let second = package.build();
    assert!(!second.script_ran(&package), "{}", second.outcome.stderr());
    assert!(second.is_fresh(&package));

    package.write("README.md", "two");
    package.write("kernels/other.mlir", "changed");
    let readme = package.build();
    assert!(!readme.script_ran(&package), "{}", readme.outcome.stderr());
    assert!(readme.is_fresh(&package));

    package.write("kernels/shift.mlir", shift_by(20));
    let edited = package.build();
    assert!(edited.script_ran(&package));
    assert_eq!(edited.result(&package), "[21, 22, 23]\n");

    package.write(
        "npu-build.toml",
        "[build]\noptions = { march = \"native\" }\n",
    );
    let configured = package.build();
    assert!(configured.script_ran(&package));
    assert_eq!(configured.result(&package), "[21, 22, 23]\n");

    let variable = package.build_with(|cargo| {
        cargo.env("NPU_BUILD_MARCH", "baseline");
    });
    assert!(variable.script_ran(&package));
    assert_eq!(variable.result(&package), "[21, 22, 23]\n");
    let again = package.build_with(|cargo| {
        cargo.env("NPU_BUILD_MARCH", "baseline");
    });
    assert!(again.is_fresh(&package) && !again.script_ran(&package));
}

/// Neither home nor temporary directory is touched, and nothing beside `OUT_DIR`.
#[test]
fn only_out_dir_is_written() {
    let package = Package::with_build_script("way-in-writes", "");
    let built = package.build();
    let empty = tempfile::tempdir().unwrap();
    let out_dir = tempfile::tempdir().unwrap();
    let trace = tempfile::NamedTempFile::new().unwrap();
    let script = built.script(&package, out_dir.path());
    let traced = Command::new("strace").arg("-V").output().is_ok();
    let mut command = if traced {
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-s", "4096", "-e", "trace=%file", "-o"])
            .arg(trace.path())
            .arg(script.get_program())
            .env_clear()
            .current_dir(package.path());
        strace.envs(
            script
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        strace
    } else {
        script
    };
    for name in [
        "HOME",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
    ] {
        command.env(name, empty.path());
    }
    fs::set_permissions(empty.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let outcome = Outcome(command.output().unwrap());
    assert_eq!(outcome.code(), 0, "{}", outcome.stderr());
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    assert!(out_dir.path().join("shift.rs").exists());
    if traced {
        let trace = fs::read_to_string(trace.path()).unwrap();
        assert!(trace.contains("execve"), "nothing was traced");
        let elsewhere: Vec<_> = written(&trace)
            .filter(|path| !path.starts_with(out_dir.path()) && path != "/dev/null")
            .collect();
        assert_eq!(elsewhere, [] as [PathBuf; 0]);
    } else {
        eprintln!("strace is not installed: only the directories were looked at");
    }
}

/// The paths that a trace of %file shows to be written, made or removed; relative ones belong to
/// the tools, whose directory is below `OUT_DIR`, as long as they don't leave it.
fn written(trace: &str) -> impl Iterator<Item = PathBuf> {
    const CHANGE: &[&str] = &[
        "creat(", "mkdir", "rename", "unlink", "link", "symlink", "rmdir", "chmod", "chown",
        "truncate", "mknod", "utime", "setxattr",
    ];
    trace
        .lines()
        .filter(|line| !line.contains(" = -1 "))
        .filter(|line| {
            let call = line
                .split_once(' ')
                .map_or(*line, |(_, call)| call.trim_start());
            let writes = ["O_WRONLY", "O_RDWR", "O_CREAT"]
                .iter()
                .any(|flag| call.contains(flag));
            call.starts_with("open") && writes || CHANGE.iter().any(|name| call.starts_with(name))
        })
        .flat_map(|line| line.split('"').skip(1).step_by(2))
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() || path.starts_with(".."))
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn a_missing_compiler_is_an_error_that_tells_where_it_was_looked_for() {
    let package = Package::with_build_script("way-in-missing", "");
    let built = package.build_with(|cargo| {
        cargo.env("NPU_BUILD_LLVM", "/nowhere/llvm");
    });
    assert_ne!(built.outcome.code(), 0);
    let stderr = built.outcome.stderr();
    for words in ["/nowhere/llvm", "NPU_BUILD_LLVM", "try: "] {
        assert!(stderr.contains(words), "no {words} in:\n{stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// What a refused kernel looks like in Cargo's output: the tool's own words, at the user's line.
#[test]
fn a_refused_kernel_is_an_error_at_the_users_line() {
    let package = Package::with_build_script("way-in-refused", "");
    let broken = shift_by(1).replace("arith.addi %old", "arith.addf %old");
    package.write("kernels/shift.mlir", broken);
    let built = package.build_with(|_| {});
    assert_ne!(built.outcome.code(), 0);
    let stderr = built.outcome.stderr();
    for words in [
        "kernels/shift.mlir:8:",
        "mlir-opt failed",
        "command: ",
        "full log: ",
    ] {
        assert!(stderr.contains(words), "no {words} in:\n{stderr}");
    }
}

fn is_a_stub(package: &Package, prepare: impl Fn(&mut Command)) {
    let built = package.build_with(|cargo| prepare(cargo.env("NPU_BUILD_LLVM", "/nowhere")));
    assert_eq!(built.outcome.code(), 0, "{}", built.outcome.stderr());
    let outcome = Outcome(Command::new(built.program(package)).output().unwrap());
    assert_ne!(outcome.code(), 0);
    assert!(outcome.stderr().contains("stub"), "{}", outcome.stderr());
    let mut doc = package.cargo("doc");
    prepare(doc.arg("--no-deps").env("NPU_BUILD_LLVM", "/nowhere"));
    let doc = Outcome(doc.output().unwrap());
    assert_eq!(doc.code(), 0, "{}", doc.stderr());
}

#[test]
fn documentation_is_built_without_a_compiler() {
    let package = Package::with_build_script("way-in-docs", "");
    is_a_stub(&package, |cargo| {
        cargo.env("DOCS_RS", "1");
    });
    // With the compiler back, the stub is gone.
    assert_eq!(package.build().result(&package), "[11, 12, 13]\n");
}

#[test]
fn stubs_are_made_on_request() {
    let package = Package::with_build_script("way-in-stubs", ".stubs(true)");
    is_a_stub(&package, |_| {});
}

#[test]
fn a_crate_for_another_machine_gets_no_kernel_of_this_one() {
    let package = Package::with_build_script("way-in-cross", "");
    let built = package.build();
    let out_dir = tempfile::tempdir().unwrap();
    let mut script = built.script(&package, out_dir.path());
    script.env("CARGO_CFG_TARGET_ARCH", "riscv64");
    let outcome = Outcome(script.output().unwrap());
    assert_ne!(outcome.code(), 0);
    for words in ["riscv64", std::env::consts::ARCH, ".stubs(true)"] {
        assert!(outcome.stderr().contains(words), "{}", outcome.stderr());
    }
    assert!(!out_dir.path().join("shift.rs").exists());
}

#[test]
fn the_program_runs_anywhere_with_nothing_but_itself() {
    let package = Package::with_build_script("way-in-alone", "");
    let built = package.build();
    let elsewhere = tempfile::tempdir().unwrap();
    let program = elsewhere.path().join("program");
    fs::copy(built.program(&package), &program).unwrap();
    let out_dir = built.out_dir(&package);
    let object = fs::read(only_object(&out_dir)).unwrap();
    fs::remove_dir_all(&out_dir).unwrap();

    let alone = Command::new(&program)
        .env_clear()
        .current_dir("/")
        .output()
        .unwrap();
    let alone = Outcome(alone);
    assert_eq!(alone.code(), 0, "{}", alone.stderr());
    assert_eq!(alone.stdout(), "[11, 12, 13]\n");

    // Segments are loaded by whole pages, so that an offset in the file tells the alignment.
    let bytes = fs::read(&program).unwrap();
    let at: Vec<_> = (0..bytes.len() - object.len())
        .filter(|at| bytes[*at..].starts_with(&object))
        .collect();
    assert!(!at.is_empty(), "the artifact is not in the program");
    assert!(at.iter().all(|at| at % 64 == 0), "{at:?}");
    let _ = fs::remove_dir_all(out_dir.parent().unwrap());
}

/// The shared object that a launcher's directory holds.
fn only_object(directory: &Path) -> PathBuf {
    let mut objects = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "so"));
    let object = objects.next().unwrap();
    assert_eq!(objects.next(), None);
    object
}

#[test]
fn a_damaged_entry_is_made_again_with_a_warning() {
    let package = Package::with_build_script("way-in-damage", "");
    let built = package.build();
    let out_dir = tempfile::tempdir().unwrap();
    let run = || {
        let outcome = Outcome(built.script(&package, out_dir.path()).output().unwrap());
        assert_eq!(outcome.code(), 0, "{}", outcome.stderr());
        outcome.stdout()
    };
    assert!(!run().contains("cargo::warning"));
    let object = walkdir::WalkDir::new(out_dir.path().join("npu-build-cache"))
        .into_iter()
        .flatten()
        .find(|entry| entry.file_name() == "kernel.so")
        .unwrap()
        .into_path();
    let good = fs::read(&object).unwrap();
    fs::write(&object, "damaged").unwrap();
    let warned = run();
    let warning = warned
        .lines()
        .find(|line| line.starts_with("cargo::warning="));
    let warning = warning.unwrap_or_else(|| panic!("no warning in:\n{warned}"));
    assert!(
        warning.contains("shift") && warning.contains("does not verify"),
        "{warning}"
    );
    assert_eq!(fs::read(&object).unwrap(), good);
    assert!(!run().contains("cargo::warning"));
}

#[test]
fn two_kernels_of_one_file_name_are_refused() {
    let package = Package::with_build_script("way-in-twice", ".kernel(\"more/shift.mlir\")");
    package.write("more/shift.mlir", shift_by(1));
    let built = package.build_with(|_| {});
    assert_ne!(built.outcome.code(), 0);
    let stderr = built.outcome.stderr();
    assert!(
        stderr.contains("more/shift.mlir") && stderr.contains("both"),
        "{stderr}"
    );
}

#[test]
fn outside_of_cargo_it_says_so() {
    let script = npu_build::build_script().kernel("kernel.mlir");
    // Of what Cargo tells a build script, it tells this test OUT_DIR, but not the target.
    let error = script.compile().unwrap_err();
    assert!(
        format!("{error:?}").contains("is not set: this function is for build scripts"),
        "{error:?}"
    );
}

#[test]
fn recorded_launches_run_in_order_and_more_than_once() {
    let package = Package::with_build_script("way-in-chain", "");
    package.write(
        "src/main.rs",
        "#![forbid(unsafe_code)]
         include!(concat!(env!(\"OUT_DIR\"), \"/shift.rs\"));
         fn main() -> Result<(), npu_runtime::Error> {
             let device = npu_runtime::Device::open(npu_runtime::Runtime::Cpu)?;
             let kernel = shift::Kernel::load(&device)?;
             let mut buffer = device.buffer_from(&[1, 2, 3])?;
             let mut slice = [7];
             let shared = buffer.share();
             let mut chain = npu_runtime::Chain::new(&device);
             for _ in 0..3 {
                 chain.push(kernel.bind(shared)?)?;
             }
             chain.push(kernel.bind(&mut slice)?)?;
             chain.run()?;
             chain.run()?;
             println!(\"{:?} {slice:?}\", &buffer[..]);
             Ok(())
         }\n",
    );
    assert_eq!(package.build().result(&package), "[61, 62, 63] [27]\n");
}
