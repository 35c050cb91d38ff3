//! Ctrl-C and worse: nothing goes on running, nothing half done stays, and the next run is right.
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
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use common::{Scene, TOOLS, wait_for};
use npu_build::store::Sharing;
use npu_build::store::lock::{Mode, try_acquire};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const COMPILE: [&str; 4] = ["compile", "vecadd.mlir", "--target", "cpu"];

/// A scene whose `clang` writes its process number and that of a child of its own into `pids`, does
/// `before` at the start, and never ends.
fn hanging(before: &str) -> Scene {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    scene.tool("clang", &hang(&scene, before));
    scene
}

fn hang(scene: &Scene, before: &str) -> String {
    let pids = scene.path().join("pids");
    format!(
        "{before}\n(while :; do sleep 1000; done) &\necho $$ $! > '{0}.new'; mv '{0}.new' '{0}'\nwhile :; do wait; done",
        pids.display()
    )
}

fn start(scene: &Scene, arguments: &[&str]) -> Child {
    let program = scene.npu_build();
    // Whatever the caller of these tests ignores.
    let mut command = common::in_place_of(&program, "env");
    command
        .arg("--default-signal=INT,TERM,HUP,TSTP")
        .arg(program.get_program())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The numbers of the tool and its child, once both run.
fn tool(scene: &Scene) -> Vec<String> {
    let pids = scene.path().join("pids");
    wait_for(|| pids.exists());
    let text = fs::read_to_string(&pids).unwrap();
    fs::remove_file(pids).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Whether a process is there, and more than a zombie.
fn is_alive(pid: &str) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

#[track_caller]
fn is_interrupted(child: Child) {
    let told = common::Outcome(child.wait_with_output().unwrap());
    told.fails(130, &["error: interrupted"]);
}

fn locks(scene: &Scene) -> Vec<PathBuf> {
    let own = walkdir::WalkDir::new(scene.cache.join("v1/locks"));
    let own = own.min_depth(1).into_iter().flatten();
    let own = own.map(walkdir::DirEntry::into_path);
    own.chain([scene.cache.join("v1/lock")]).collect()
}

#[track_caller]
fn nothing_is_left(scene: &Scene) {
    assert_eq!(scene.leftovers(), [""; 0].map(PathBuf::from));
    assert_eq!(scene.entry_files(), [""; 0].map(PathBuf::from));
    for path in locks(scene) {
        assert!(
            try_acquire(&path, Mode::Exclusive, Sharing::Private)
                .unwrap()
                .is_some(),
            "{}",
            path.display()
        );
    }
}

#[track_caller]
fn the_next_run_builds(scene: &Scene) {
    scene.tool("clang", &scene.replay("clang"));
    let told = scene.run(&COMPILE);
    told.paths();
    assert!(told.stderr().contains("built: vecadd"), "{told:?}");
}

#[test]
fn a_signal_ends_the_tools_whole_group_and_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let scene = hanging("");
        let child = start(&scene, &COMPILE);
        let pids = tool(&scene);
        assert!(pids.iter().all(|pid| is_alive(pid)));
        send(&child, signal);
        is_interrupted(child);
        wait_for(|| !pids.iter().any(|pid| is_alive(pid)));
        nothing_is_left(&scene);
        the_next_run_builds(&scene);
    }
}

/// The letter of a process's state, as proc(5) has it.
fn state(pid: &str) -> String {
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.unwrap().split_whitespace().next().unwrap().to_owned()
}

/// Ctrl-Z, and `fg`; nothing of the time in between counts.
#[test]
fn what_stops_npu_build_stops_the_tools_and_they_go_on_with_it() {
    let limit = Duration::from_secs(3);
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    let go = scene.path().join("go");
    let (wait, replay) = (format!("[ -e '{}' ]", go.display()), scene.replay("clang"));
    let pids = scene.path().join("pids");
    let work = format!(
        "sleep 1000 &\necho $$ $! > '{0}.new'; mv '{0}.new' '{0}'\n\
         until {wait}; do sleep 0.01; done\nkill $!\n{replay}",
        pids.display()
    );
    scene.tool("clang", &work);
    let child = start(&scene, &[&COMPILE[..], &["--timeout", "3s"]].concat());
    let started = Instant::now();
    let pids = tool(&scene);
    let own = child.id().to_string();
    let are_stopped = || pids.iter().chain([&own]).all(|pid| state(pid) == "T");
    send(&child, Signal::TSTP);
    wait_for(are_stopped);
    wait_for(|| started.elapsed() > limit);
    fs::write(go, "").unwrap();
    assert!(are_stopped());
    send(&child, Signal::CONT);
    let told = common::Outcome(child.wait_with_output().unwrap());
    told.paths();
    assert!(told.stderr().contains("built: vecadd"), "{told:?}");

    // What is stopped can be ended.
    let scene = hanging("");
    let child = start(&scene, &COMPILE);
    let pids = tool(&scene);
    send(&child, Signal::TSTP);
    wait_for(|| pids.iter().all(|pid| state(pid) == "T"));
    send(&child, Signal::TERM);
    send(&child, Signal::CONT);
    is_interrupted(child);
    wait_for(|| !pids.iter().any(|pid| is_alive(pid)));
}

#[test]
fn a_tool_that_ignores_the_signal_is_killed() {
    let scene = hanging("trap '' HUP INT TERM");
    let child = start(&scene, &COMPILE);
    let pids = tool(&scene);
    send(&child, Signal::INT);
    is_interrupted(child);
    wait_for(|| !pids.iter().any(|pid| is_alive(pid)));
    nothing_is_left(&scene);
    the_next_run_builds(&scene);
}

#[test]
fn machines_are_told_as_well() {
    let scene = hanging("");
    let child = start(
        &scene,
        &[&COMPILE[..], &["--message-format", "json"]].concat(),
    );
    tool(&scene);
    send(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let error: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(error["code"], 130);
    assert_eq!(error["error"], "interrupted");
}

#[test]
fn one_signal_ends_all_jobs() {
    let scene = hanging("");
    let pids = scene.path().join("pids");
    // Each job's clang tells of itself in a line of its own.
    scene.tool(
        "clang",
        &format!("echo $$ >> '{}'; exec sleep 1000", pids.display()),
    );
    let kernels = ["vecadd.mlir", "fma.mlir", "softmax.mlir"];
    for kernel in kernels {
        scene.kernel(kernel);
    }
    // One that is not even begun when the signal comes.
    scene.kernel("matmul_i8.mlir");
    let all = [
        &["compile", "--target", "cpu", "-j3"],
        &kernels[..],
        &["matmul_i8.mlir"],
    ]
    .concat();
    let child = start(&scene, &all);
    let started = || fs::read_to_string(&pids).unwrap_or_default();
    wait_for(|| started().lines().count() == kernels.len());
    send(&child, Signal::INT);
    is_interrupted(child);
    assert!(!started().lines().any(is_alive));
    assert_eq!(started().lines().count(), kernels.len());
    nothing_is_left(&scene);
}

#[test]
fn a_tool_that_is_asked_about_itself_is_ended_too() {
    let scene = hanging("");
    let text = format!("#!/bin/sh\n{}\n", hang(&scene, ""));
    common::executable(&scene.llvm.join("mlir-opt"), &text);
    for arguments in [
        &COMPILE[..],
        &["key", "vecadd.mlir", "--target", "cpu"],
        &["doctor"],
    ] {
        let child = start(&scene, arguments);
        let pids = tool(&scene);
        send(&child, Signal::INT);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        wait_for(|| !pids.iter().any(|pid| is_alive(pid)));
    }
}

#[test]
fn whoever_waits_for_another_process_can_be_interrupted() {
    let scene = hanging("");
    let own = scene.lock("vecadd.mlir");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    let held = try_acquire(&own, Mode::Exclusive, Sharing::Private)
        .unwrap()
        .unwrap();
    let mut child = start(&scene, &COMPILE);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(
        line,
        "waiting: for another process, which is building vecadd\n"
    );
    send(&child, Signal::INT);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    line.clear();
    stderr.read_to_string(&mut line).unwrap();
    assert_eq!(line, "error: interrupted\n");
    assert_eq!(scene.runs(), [""; 0]);
    drop(held);
    nothing_is_left(&scene);
    the_next_run_builds(&scene);
}

#[test]
fn clearing_waits_for_builds_that_run() {
    let scene = hanging("");
    let builder = start(&scene, &COMPILE);
    tool(&scene);
    for signal in [None, Some(Signal::INT)] {
        let mut clearer = start(&scene, &["cache", "clear"]);
        let mut stderr = BufReader::new(clearer.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert_eq!(line, "waiting: for builds that still run\n");
        assert_eq!(scene.leftovers().len(), 1);
        // The first one goes on waiting until it is let go, the second one is interrupted.
        send(&clearer, signal.unwrap_or(Signal::KILL));
        let status = clearer.wait().unwrap();
        assert_eq!(status.code(), signal.map(|_| 130));
        assert_eq!(scene.leftovers().len(), 1);
    }
    let mut clearer = start(&scene, &["cache", "clear"]);
    let mut stderr = BufReader::new(clearer.stderr.take().unwrap());
    let mut told = String::new();
    stderr.read_line(&mut told).unwrap();
    send(&builder, Signal::TERM);
    is_interrupted(builder);
    stderr.read_to_string(&mut told).unwrap();
    assert!(told.contains("cleared: 0 entries"), "{told}");
    assert!(clearer.wait().unwrap().success());
    nothing_is_left(&scene);
}

#[test]
fn who_waits_for_a_builder_that_is_killed_builds() {
    let scene = hanging("");
    let builder = start(&scene, &COMPILE);
    let left = tool(&scene);
    let mut waiter = start(&scene, &COMPILE);
    let mut stderr = BufReader::new(waiter.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(
        line,
        "waiting: for another process, which is building vecadd\n"
    );
    send(&builder, Signal::KILL);
    let status = builder.wait_with_output().unwrap().status;
    assert_eq!(status.signal(), Some(9));
    // The tool has died with it; the tool's own child is ours to end.
    let group = left[0].parse().ok().and_then(Pid::from_raw).unwrap();
    kill_process_group(group, Signal::KILL).unwrap();
    // Now it is the waiter's turn.
    let pids = tool(&scene);
    send(&waiter, Signal::TERM);
    assert_eq!(waiter.wait().unwrap().code(), Some(130));
    wait_for(|| !pids.iter().any(|pid| is_alive(pid)));
}

#[test]
fn a_tool_does_not_outlive_a_killed_npu_build_and_what_it_left_is_swept() {
    let scene = hanging("");
    let pid = scene.path().join("pids");
    scene.tool(
        "clang",
        &format!(
            "echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 1000",
            pid.display()
        ),
    );
    let mut child = start(&scene, &COMPILE);
    let pids = tool(&scene);
    send(&child, Signal::KILL);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    // The kernel ends it at the same moment, but not before wait(2) tells us.
    wait_for(|| !pids.iter().any(|pid| is_alive(pid)));
    let left = scene.leftovers();
    assert_eq!(left.len(), 1);
    assert!(scene.entry_files().is_empty());
    the_next_run_builds(&scene);
    // Too young to be told from one whose owner has not locked it yet; an hour later it goes.
    assert_eq!(scene.leftovers(), left);
    let hour = Duration::from_secs(3600);
    let file = fs::File::options()
        .write(true)
        .open(left[0].join("lock"))
        .unwrap();
    file.set_modified(SystemTime::now() - hour).unwrap();
    drop(file);
    let told = scene.run(&[&COMPILE[..], &["--refresh"]].concat());
    told.paths();
    assert_eq!(scene.leftovers(), [""; 0].map(PathBuf::from));
    scene.runs();
    assert!(scene.run(&COMPILE).stderr().contains("hit: vecadd"));
    assert_ne!(scene.runs(), TOOLS);
}

#[test]
fn an_area_that_is_in_use_is_not_swept_however_old() {
    let scene = hanging("");
    scene.kernel("fma.mlir");
    let builder = start(&scene, &COMPILE);
    tool(&scene);
    let left = scene.leftovers();
    let file = fs::File::options()
        .write(true)
        .open(left[0].join("lock"))
        .unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    scene.tool("clang", &scene.replay("clang"));
    scene
        .run(&["compile", "fma.mlir", "--target", "cpu"])
        .paths();
    assert_eq!(scene.leftovers(), left);
    send(&builder, Signal::TERM);
    is_interrupted(builder);
    assert!(scene.leftovers().is_empty());
}

#[test]
fn a_signal_that_the_caller_ignores_is_ignored() {
    // As nohup(1) does, and as a shell does for SIGINT of what it starts in the background.
    for (name, signal) in [("HUP", Signal::HUP), ("INT", Signal::INT)] {
        let scene = hanging("");
        let go = scene.path().join("go");
        let body = format!(
            "echo $$ > '{0}.new'; mv '{0}.new' '{0}'\nwhile ! test -e '{1}'; do sleep 0.01; done\n{2}",
            scene.path().join("pids").display(),
            go.display(),
            scene.replay("clang")
        );
        scene.tool("clang", &body);
        let program = scene.npu_build();
        let mut shell = common::in_place_of(&program, "/bin/sh");
        shell.args(["-c", &format!("trap '' {name}; exec \"$0\" \"$@\"")]);
        shell.arg(program.get_program()).args(COMPILE);
        let child = shell
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        tool(&scene);
        send(&child, signal);
        fs::write(go, "").unwrap();
        let told = common::Outcome(child.wait_with_output().unwrap());
        assert_eq!(told.paths().len(), 2);
    }
}
