//! What identifies a program of the AIE toolchain, and what is remembered of it.
#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of discovery")]
#[path = "toolchain_fakes/aie.rs"]
mod aie_fakes;
#[cfg(test)]
#[allow(dead_code, reason = "these tests need few of LLVM's fakes")]
#[path = "toolchain_fakes/mod.rs"]
mod fakes;

use std::fs::File;
use std::time::{Instant, SystemTime};

use aie_fakes::{HELP_2, HELP_3, PACKAGES, path};
use fakes::{Sandbox, ahead};
use npu_build::digest::Digest;
use npu_build::toolchain::{AieSearch, AieTools, Memo, ToolName};

/// The fingerprints of all tools, in the order of their names.
fn fingerprints(tools: &AieTools) -> Vec<(ToolName, Digest)> {
    let all = ToolName::ALL.into_iter();
    let named = all.flat_map(|name| tools.programs(name).map(move |tool| (name, tool)));
    named
        .map(|(name, tool)| (name, tool.identity.digest))
        .collect()
}

/// Whose fingerprints differ.
fn changed(before: &AieTools, after: &AieTools) -> Vec<ToolName> {
    let (before, after) = (fingerprints(before), fingerprints(after));
    assert_eq!(before.len(), after.len());
    let pairs = before.iter().zip(&after);
    let mut changed: Vec<_> = pairs.filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
    changed.dedup();
    changed
}

#[test]
fn an_upgraded_wheel_changes_its_tools_and_no_other() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    let before = sandbox.aie_tools(&search);
    // The same programs, but some other file of the wheel is new.
    let record = sandbox
        .path(PACKAGES)
        .join("mlir_aie-1.4.0.dist-info/RECORD");
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(
        &record,
        format!("{text}mlir_aie/lib/runtime.a,sha256=new,9\n"),
    )
    .unwrap();
    let after = sandbox.aie_tools(&search);
    let of_mlir_aie = [
        ToolName::Aiecc,
        ToolName::Bootgen,
        ToolName::AieHsaco,
        ToolName::LlvmObjcopy,
    ];
    assert_eq!(changed(&before, &after), of_mlir_aie);
    let directory = record.parent().unwrap();
    std::fs::rename(
        directory,
        directory.with_file_name("mlir_aie-1.4.1.dist-info"),
    )
    .unwrap();
    let renamed = sandbox.aie_tools(&search);
    assert_eq!(changed(&after, &renamed), of_mlir_aie);
    assert_eq!(renamed.aiecc.get().unwrap().tool.identity.version, "1.4.1");
}

#[test]
fn touched_files_and_other_environments_change_nothing() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    let before = sandbox.aie_tools(&search);
    for file in [
        "mlir_aie/bin/aiecc",
        "mlir_aie-1.4.0.dist-info/RECORD",
        "llvm-aie/bin/llc",
    ] {
        let file = File::open(sandbox.path(PACKAGES).join(file)).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }
    assert_eq!(sandbox.aie_tools(&search), before);
    // Another machine: its installer notes other scripts and bytecode.
    let packages = "home/me/.venv/lib/python3.11/site-packages";
    sandbox.environment_in(packages, HELP_2);
    let record = sandbox
        .path(packages)
        .join("mlir_aie-1.4.0.dist-info/RECORD");
    let text = std::fs::read_to_string(&record).unwrap();
    let noted = "../../../bin/aiecc,sha256=other,88\nmlir_aie/__pycache__/a.cpython-311.pyc,,\n";
    std::fs::write(
        &record,
        format!("{noted}{text}mlir_aie-1.4.0.dist-info/RECORD,,\n"),
    )
    .unwrap();
    let elsewhere = AieSearch {
        virtual_env: Some(sandbox.path("home/me/.venv").into()),
        ..search.clone()
    };
    let after = sandbox.aie_tools(&elsewhere);
    assert_eq!(changed(&before, &after), []);
    let identities = |tools: &AieTools| {
        let all = ToolName::ALL.into_iter();
        let all: Vec<_> = all
            .flat_map(|name| tools.programs(name))
            .map(|tool| &tool.identity)
            .collect();
        serde_json::to_string(&all).unwrap()
    };
    assert_eq!(identities(&before), identities(&after));
}

#[test]
fn a_changed_program_changes_its_fingerprint_and_is_asked_again() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    let before = sandbox.aie_tools(&search);
    sandbox.aiecc(&format!("{PACKAGES}/mlir_aie/bin/aiecc"), HELP_3);
    sandbox.work();
    let after = sandbox.aie_tools(&search);
    assert_eq!(changed(&before, &after), [ToolName::Aiecc]);
    assert_eq!(after.aiecc.get().unwrap().dialect.number(), 3);
    assert_eq!(
        sandbox.work(),
        (1, 1),
        "its help was asked for, its file was read"
    );
}

#[test]
fn a_second_search_executes_nothing_reads_nothing_and_finds_the_same() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    let directory = tempfile::tempdir().unwrap();
    let load = || {
        let memo = Memo::load(Some(directory.path())).with_clock(ahead);
        sandbox.memo.replace(memo);
    };
    load();
    let first = sandbox.aie_tools(&search);
    sandbox.memo.borrow_mut().save();
    assert!(sandbox.work() > (0, 0));
    load();
    assert_eq!(sandbox.aie_tools(&search), first);
    assert_eq!(sandbox.work(), (0, 0));
    let mut times: Vec<_> = (0..1000)
        .map(|_| {
            let begun = Instant::now();
            sandbox.aie_tools(&search);
            begun.elapsed()
        })
        .collect();
    times.sort();
    println!("found again in {:?} (median)", times[500]);
    let mut times: Vec<_> = (0..1000)
        .map(|_| {
            let begun = Instant::now();
            load();
            sandbox.aie_tools(&search);
            begun.elapsed()
        })
        .collect();
    times.sort();
    println!("with loading the memo in {:?}", times[500]);
}

#[test]
fn what_is_missing_is_remembered_and_noticed_when_it_appears() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("bin")).unwrap();
    std::fs::create_dir_all(sandbox.path(PACKAGES)).unwrap();
    let search = AieSearch {
        virtual_env: Some(sandbox.path("venv").into()),
        path: path(&[sandbox.path("bin"), sandbox.path("later")]),
        ..sandbox.aie_search()
    };
    let aircc = || {
        let tools = sandbox.aie_tools(&search);
        let tool = tools.programs(ToolName::Aircc).next();
        tool.map(|tool| tool.path.clone())
    };
    assert_eq!(aircc(), None);
    for place in [
        "later/aircc",
        "bin/aircc",
        &format!("{PACKAGES}/mlir_air/bin/aircc"),
    ] {
        let program = sandbox.plain(place);
        assert_eq!(aircc(), Some(program));
    }
    let newer = sandbox.plain("venv/lib/python3.14/site-packages/mlir_air/bin/aircc");
    assert_eq!(aircc(), Some(newer));
    std::fs::remove_dir_all(sandbox.path("venv")).unwrap();
    assert_eq!(aircc(), Some(sandbox.path("bin/aircc")));
}

#[test]
fn what_failed_for_a_moment_is_tried_again() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    let aiecc = format!("{PACKAGES}/mlir_aie/bin/aiecc");
    let text = format!(
        "#!/bin/sh\ntest -e '{}' || exit 1\necho '  --get=<name>  - outputs'\n",
        sandbox.path("ready").display()
    );
    sandbox.script(&aiecc, &text);
    assert!(sandbox.aie_tools(&search).aiecc.get().is_err());
    std::fs::write(sandbox.path("ready"), "").unwrap();
    assert!(sandbox.aie_tools(&search).aiecc.get().is_ok());
}

#[test]
fn without_a_wheel_peano_is_its_programs_and_what_they_link_in() {
    let sandbox = Sandbox::new();
    sandbox.peano("peano");
    let libraries = sandbox.path("peano/lib/aie2p-none-unknown-elf");
    std::fs::create_dir_all(&libraries).unwrap();
    std::fs::write(libraries.join("libc.a"), "one").unwrap();
    let search = AieSearch {
        peano_install_dir: Some(sandbox.path("peano").into()),
        ..sandbox.aie_search()
    };
    let peano = || {
        let tools = sandbox.aie_tools(&search);
        let tools = &tools.peano.get().unwrap().tools;
        tools
            .iter()
            .map(|tool| (tool.name, tool.identity.digest))
            .collect::<Vec<_>>()
    };
    let before = peano();
    assert_eq!(before.last().unwrap().0, "peano-libraries");
    std::fs::write(libraries.join("libc.a"), "two").unwrap();
    let after = peano();
    assert_eq!(before[..4], after[..4]);
    assert_ne!(before[4], after[4]);
    std::fs::write(libraries.join("crt0.o"), "new").unwrap();
    assert_ne!(after[4], peano()[4]);
}

/// XRT's programs are scripts that run the one in `unwrapped`, with XRT's libraries.
#[test]
fn a_script_of_xrt_is_its_text_and_what_it_unwraps() {
    let sandbox = Sandbox::new();
    sandbox.script(
        "xrt/bin/xclbinutil",
        "#!/bin/bash\nexec \"$(dirname \"$0\")/unwrapped/xclbinutil\" \"$@\"\n",
    );
    sandbox.library("xrt/lib/libMLIR.so.1", "2.19.0");
    let library = sandbox.path("xrt/lib/libMLIR.so.1");
    let arguments = [
        "-DLIBRARY",
        "-DLINKER=\"ld\"",
        "tool.c",
        library.to_str().unwrap(),
    ];
    sandbox.gcc(&arguments, "xrt/bin/unwrapped/xclbinutil");
    let search = AieSearch {
        xilinx_xrt: Some(sandbox.path("xrt").into()),
        ..sandbox.aie_search()
    };
    let tool = || {
        let tools = sandbox.aie_tools(&search);
        tools.xclbinutil.get().unwrap().clone()
    };
    let before = tool();
    let names: Vec<_> = before
        .identity
        .files
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    assert_eq!(names, ["xclbinutil", "unwrapped", "libMLIR.so.1"]);
    assert_eq!(before.path, sandbox.path("xrt/bin/xclbinutil"));
    assert!(before.files().any(|file| file == library));
    sandbox.library("xrt/lib/libMLIR.so.1", "2.20.0");
    assert_ne!(tool().identity.digest, before.identity.digest);
}

#[test]
fn a_hostile_environment_is_survived() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    let packages = sandbox.path(PACKAGES);
    let before = fingerprints(&sandbox.aie_tools(&search));
    std::fs::write(
        packages.join("mlir-aie.pth"),
        b"\xff\xfe\0/../..\n../../../../../..\n\n",
    )
    .unwrap();
    std::fs::write(packages.join("mlir_air-9.dist-info"), "a file").unwrap();
    std::fs::create_dir_all(packages.join("mlir_aie-9.dist-info/RECORD")).unwrap();
    sandbox.link("RECORD", &format!("{PACKAGES}/llvm_aie-9.dist-info/RECORD"));
    let pipe = packages.join("mlir_aie-8.dist-info/RECORD");
    std::fs::create_dir_all(pipe.parent().unwrap()).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    let pipe = packages.join("mlir-air.pth");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .unwrap();
    assert!(made.success());
    assert_eq!(fingerprints(&sandbox.aie_tools(&search)), before);
}
