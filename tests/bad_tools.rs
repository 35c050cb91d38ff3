//! Tools that are missing, that don't fit each other, and that misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scene, TOOLS, executable};

const COMPILE: [&str; 6] = [
    "compile",
    "vecadd.mlir",
    "--target",
    "cpu",
    "--out-dir",
    "out",
];

/// What is said when there are no tools.
const INSTALL: &str = "try: apt-get install mlir-22-tools llvm-22 clang-22";

fn scene() -> Scene {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    scene
}

#[test]
fn a_missing_tool_is_named_with_its_place_and_what_to_install() {
    for tool in TOOLS {
        let scene = scene();
        fs::remove_file(scene.llvm.join(tool)).unwrap();
        let bin = scene.llvm.to_str().unwrap();
        let words = ["NPU_BUILD_LLVM", bin, &format!("has no {tool}"), INSTALL];
        scene.refuses(&COMPILE, 3, &words);
        scene.refuses(&["key", "vecadd.mlir", "--target", "cpu"], 3, &words);
        let told = scene.run(&["doctor"]);
        assert_eq!(told.code(), 3, "{told:?}");
        assert!(told.stderr().contains(INSTALL), "{told:?}");
        assert!(told.stdout().contains(bin), "{told:?}");
    }
}

#[test]
fn a_tool_that_can_not_be_executed_is_told_from_a_missing_one() {
    for tool in TOOLS {
        let scene = scene();
        let path = scene.llvm.join(tool);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        scene.refuses(
            &COMPILE,
            3,
            &[scene.llvm.to_str().unwrap(), tool, "executable"],
        );
        assert_eq!(scene.runs(), [""; 0]);
    }
}

#[test]
fn without_any_installation_every_place_is_listed() {
    let scene = scene();
    let with_path = || {
        let mut command = scene.npu_build();
        command.env_remove("NPU_BUILD_LLVM");
        command.env("MLIR_INSTALL_DIR", scene.path().join("nowhere"));
        // Neither has the tools; what /usr/lib has is not for this test to say.
        command.env("PATH", format!("{}:/nonexistent", scene.path().display()));
        command
    };
    let told = common::Outcome(with_path().args(["doctor"]).output().unwrap());
    let listed = format!("{}{}", told.stdout(), told.stderr());
    let nowhere = format!(
        "{}: is not a directory",
        scene.path().join("nowhere").display()
    );
    for place in [&nowhere, "PATH: has no mlir-opt", "/usr/lib/llvm-"] {
        assert!(listed.contains(place), "no '{place}' in:\n{listed}");
    }
    // A directory that was named is the only one that is looked at.
    for (name, words) in [
        ("nowhere", "is not a directory"),
        ("vecadd.mlir", "is not a directory"),
        (".", "has no mlir-opt"),
    ] {
        let arguments = [&COMPILE[..], &["--llvm", name]].concat();
        scene.refuses(
            &arguments,
            3,
            &["--llvm", words, INSTALL, "or correct --llvm"],
        );
    }
}

#[test]
fn on_a_machine_without_llvm_all_is_said_that_one_has_to_know() {
    let scene = scene();
    let libraries = fs::read_dir("/usr/lib").unwrap().flatten();
    let installations: Vec<_> = libraries
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap_or("")
                .starts_with("llvm-")
        })
        .collect();
    // In a mount namespace of its own, in which every installation of the system is empty.
    let hide: String = installations
        .iter()
        .map(|path| format!("mount -t tmpfs none '{}' && ", path.display()))
        .collect();
    let hidden = |inner: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "/bin/sh", "-c", &format!("{hide}{inner}")]);
        command
    };
    if !hidden("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: no mount namespace may be made here");
        return;
    }
    let program = || {
        let program = scene.npu_build();
        let mut command = hidden("export PATH=/nonexistent; exec \"$0\" \"$@\"");
        command.arg(program.get_program()).current_dir(scene.path());
        command.env_clear().envs(common::environment(&program));
        command.env_remove("NPU_BUILD_LLVM");
        command
    };
    let mut words = vec![
        "no LLVM installation found with mlir-opt, mlir-translate and clang of one version"
            .to_owned(),
        "PATH: has no mlir-opt".to_owned(),
        INSTALL.to_owned(),
        "MLIR_INSTALL_DIR".to_owned(),
    ];
    words.extend(
        installations
            .iter()
            .map(|path| format!("{}/bin: ", path.display())),
    );
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    scene.refuses_as(&program, &COMPILE, 3, &words);
}

#[test]
fn tools_of_two_versions_are_refused() {
    for tool in ["mlir-translate", "clang"] {
        let scene = scene();
        let path = scene.llvm.join(tool);
        let text = fs::read_to_string(&path).unwrap();
        executable(&path, &text.replace("22.1.0", "21.1.8"));
        scene.refuses(
            &COMPILE,
            3,
            &[
                "mixes versions: mlir-opt is 22.1.0",
                &format!("{tool} is 21.1.8"),
                INSTALL,
            ],
        );
    }
}

#[test]
fn tools_that_tell_nothing_of_themselves_are_refused() {
    for (text, words) in [
        ("#!/bin/sh\nexit 0\n", &["does not tell a version"][..]),
        (
            "#!/bin/sh\necho hello\n",
            &["does not tell a version", "hello"],
        ),
        (
            "#!/bin/sh\necho no license >&2; exit 7\n",
            &["--version failed", "exit status: 7", "no license"],
        ),
        (
            "#!/bin/sh\nkill -9 $$\n",
            &["--version failed", "signal: 9"],
        ),
        ("#!/nonexistent/shell\n", &["mlir-opt"]),
        ("\x7fELF", &["neither an ELF file nor a script"]),
        ("", &["neither an ELF file nor a script"]),
    ] {
        let scene = scene();
        executable(&scene.llvm.join("mlir-opt"), text);
        scene.refuses(&COMPILE, 3, words);
    }
}

/// What a tool does instead of its work, and what is said of it.
type Misdeed = (&'static str, &'static [&'static str]);

/// Each in the place of `clang`, whose output is the artifact.
const MISDEEDS: &[Misdeed] = &[
    ("exit 1", &["clang failed with exit status 1"]),
    ("exit 255", &["exit status 255"]),
    ("kill -9 $$", &["signal 9", "probably out of memory", "-j"]),
    ("kill -11 $$", &["signal 11", "crashed"]),
    ("exit 0", &["reported success, but made no kernel.so"]),
    (
        ": > kernel.so",
        &["reported success, but kernel.so is empty"],
    ),
    ("mkdir kernel.so", &["kernel.so is not a regular file"]),
    (
        "ln -s cpu_entry.c kernel.so",
        &["kernel.so is not a regular file"],
    ),
    ("mkfifo kernel.so", &["kernel.so is not a regular file"]),
    ("echo garbage > kernel.so", &["kernel.so is unusable"]),
    (
        "REPLAY; truncate -s 100 kernel.so",
        &["kernel.so is unusable"],
    ),
    (
        "REPLAY; truncate -s -1 kernel.so",
        &["kernel.so is unusable"],
    ),
    (
        "REPLAY; truncate -s 4096 kernel.so",
        &["kernel.so is unusable"],
    ),
    (
        "echo 'the last word' >&2; exit 3",
        &["  the last word", "exit status 3"],
    ),
    ("printf 'caf\\351 \\000\\377\\n'; exit 3", &["caf\u{fffd}"]),
    (
        "yes 'a long line of words' | head -c 8000000; echo 'and the end'; exit 3",
        &["and the end\n"],
    ),
    ("head -c 5000000 /dev/zero; exit 3", &["exit status 3"]),
    ("cat; echo \"read nothing\"; exit 3", &["  read nothing"]),
];

#[test]
fn what_a_tool_does_wrong_is_said_and_nothing_of_it_is_kept() {
    let scene = scene();
    let replay = scene.replay("clang");
    for (misdeed, words) in MISDEEDS {
        scene.tool("clang", &misdeed.replace("REPLAY", &replay));
        let words = [
            &["vecadd.mlir", "command: ", "/clang -O3", "full log: "],
            *words,
        ]
        .concat();
        scene.refuses(&COMPILE, 1, &words);
        let told = scene.run(&COMPILE).stderr();
        assert!(told.len() < 100_000, "{misdeed}: {} bytes", told.len());
        let log = told
            .lines()
            .find_map(|line| line.strip_prefix("  full log: "))
            .unwrap();
        assert!(fs::metadata(log).unwrap().len() < 200_000, "{misdeed}");
    }
    // And then it behaves.
    scene.tool("clang", &replay);
    scene.run(&COMPILE).paths();
}

#[test]
fn what_an_early_tool_leaves_undone_is_found_out() {
    let scene = scene();
    for tool in ["mlir-opt", "mlir-translate"] {
        scene.tool(tool, "exit 0");
        scene.tool(
            "clang",
            "test -s kernel.ll || { echo no kernel.ll; exit 1; }",
        );
        if tool == "mlir-opt" {
            scene.tool(
                "mlir-translate",
                "test -s kernel.llvm.mlir || { echo no kernel.llvm.mlir; exit 1; }",
            );
        }
        scene.refuses(
            &COMPILE,
            1,
            &["vecadd.mlir", "exit status 1", "  no kernel."],
        );
        scene.tool(tool, &scene.replay(tool));
    }
}

#[test]
fn a_tool_gets_a_clean_room() {
    let scene = scene();
    let seen = scene.path().join("seen");
    scene.tool(
        "clang",
        &format!(
            "{{ env | sort; echo \"cwd $(ls -A | tr '\\n' ' ')\"; readlink /proc/self/fd/0; \
             ls -l /proc/self/fd; }} > '{}'\n{}",
            seen.display(),
            scene.replay("clang")
        ),
    );
    let mut command = scene.npu_build();
    command.args(COMPILE);
    for (name, value) in [
        ("CPATH", "/evil"),
        ("LD_LIBRARY_PATH", "/evil"),
        ("CCC_OVERRIDE_OPTIONS", "+-O0"),
        ("SOURCE_DATE_EPOCH", "1"),
        ("LANG", "de_DE.UTF-8"),
    ] {
        command.env(name, value);
    }
    assert!(command.status().unwrap().success());
    let seen = fs::read_to_string(seen).unwrap();
    let lines: Vec<_> = seen.lines().collect();
    // The shell itself adds PWD.
    assert_eq!(lines[0], "LC_ALL=C");
    assert!(lines[1].starts_with("PWD="), "{seen}");
    assert_eq!(lines[2], "TMPDIR=.");
    assert_eq!(
        lines[3],
        "cwd call.inc cpu_entry.c kernel.ll kernel.llvm.mlir kernel.mlir schedule.mlir "
    );
    assert_eq!(lines[4], "/dev/null");
    // Nothing of ours is open but the log: no lock that a tool could go on holding.
    let ours = scene.cache.to_str().unwrap();
    let open: Vec<_> = lines[5..]
        .iter()
        .filter(|line| line.contains(ours))
        .collect();
    assert_eq!(open.len(), 1, "{seen}");
    assert!(
        open[0].contains(" 2 -> ") && open[0].ends_with("/work.log"),
        "{seen}"
    );
}

#[test]
fn a_time_out_ends_the_whole_process_group() {
    let scene = scene();
    let pids = scene.path().join("pids");
    // A grandchild that ignores everything that can be ignored.
    scene.tool(
        "clang",
        &format!(
            "(trap '' HUP INT TERM; while :; do sleep 1000; done) &\necho $! $$ > '{0}.new'; mv '{0}.new' '{0}'\nwait",
            pids.display()
        ),
    );
    scene.refuses(
        &[&COMPILE[..], &["--timeout", "1s"]].concat(),
        1,
        &[
            "vecadd.mlir",
            "clang took longer than the time-out of 1s",
            "--timeout",
        ],
    );
    for pid in fs::read_to_string(pids).unwrap().split_whitespace() {
        assert!(!is_alive(pid), "process {pid}");
    }
}

/// Whether a process is there and not a zombie that nobody has waited for yet.
fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

#[test]
fn what_a_background_child_of_a_tool_writes_later_is_in_no_entry() {
    let scene = scene();
    // The tool ends, its child goes on.
    scene.tool(
        "clang",
        &format!(
            "{}\n(sleep 1000; echo late > kernel.so) &",
            scene.replay("clang")
        ),
    );
    let paths = scene.run(&COMPILE).paths();
    let object = fs::read(scene.path().join(&paths[0])).unwrap();
    assert!(npu_runtime::check_cpu_object(&object).is_ok());
    let hit = scene.compile(&PathBuf::from("vecadd.mlir"));
    assert!(hit.stderr().contains("hit: vecadd"), "{hit:?}");
}

#[test]
fn a_tool_that_is_exchanged_while_it_runs_makes_no_entry() {
    let scene = scene();
    // An upgrade of mlir-opt, after it has run and before clang is done.
    let upgraded = scene.llvm.join("mlir-opt");
    let upgrade = format!("echo '# upgraded' >> '{}'", upgraded.display());
    scene.tool("clang", &format!("{upgrade}\n{}", scene.replay("clang")));
    let words = [
        "mlir-opt or one of its libraries was changed",
        "build again",
    ];
    scene.refuses(&COMPILE, 3, &words);
    assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
    // When the installation is done, so is the kernel.
    scene.tool("clang", &scene.replay("clang"));
    assert_eq!(scene.run(&COMPILE).paths().len(), 2);
}
