//! What a caller leaves the program: streams, limits, a terminal; and names that are made to look
//! like something else.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::process::{Command, Stdio};

use super::common::{self, Outcome, Scene};
use super::{SMALL, closed, into};

/// Runs the program as a shell does that has executed `before`.
fn after(scene: &Scene, before: &str, arguments: &[&str]) -> Outcome {
    let program = scene.npu_build();
    let mut shell = common::in_place_of(&program, "sh");
    shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]);
    shell.arg(program.get_program()).args(arguments);
    Outcome(shell.output().unwrap())
}

#[test]
fn a_closed_standard_output_is_a_failure() {
    let scene = Scene::replayed();
    scene.file("small.mlir", SMALL);
    for arguments in [
        &["compile", "small.mlir", "--target", "cpu"][..],
        &["compile", "small.mlir", "--target", "cpu", "--json"],
        &["signature", "small.mlir"],
        &["cache", "dir"],
        &["doctor"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ] {
        let told = after(&scene, "exec >&-", arguments);
        told.fails(4, &["error: can't write the result: Bad file descriptor"]);
        // That it goes nowhere is somebody's choice.
        let told = after(&scene, "exec > /dev/null", arguments);
        assert_eq!(told.code(), 0, "{told:?}");
    }
}

#[test]
fn files_are_written_whether_or_not_somebody_reads_which() {
    for closed in [Some(closed()), None] {
        let scene = Scene::replayed();
        scene.file("small.mlir", SMALL);
        scene.file("other.mlir", SMALL.replace("@small", "@other"));
        let compile = ["compile", "small.mlir", "other.mlir", "--target", "cpu"];
        let arguments = [&compile[..], &["--out-dir", "out"]].concat();
        let told = match closed {
            Some(closed) => Outcome(into(closed, &scene, &arguments)),
            None => after(&scene, "exec >&-", &arguments),
        };
        for name in ["small.rs", "other.rs"] {
            assert!(scene.path().join("out").join(name).exists(), "{told:?}");
        }
    }
}

/// As `ulimit -f` has it; a test's streams are pipes, which have no size.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_no_end() {
    let scene = Scene::replayed();
    scene.file("small.mlir", SMALL);
    let compile = ["compile", "small.mlir", "--target", "cpu"];
    after(&scene, "ulimit -f 0", &compile).fails(4, &["error: ", "File too large"]);
    scene.run(&compile).paths();
    let hit = after(&scene, "ulimit -f 0", &compile);
    hit.paths();
    assert!(hit.stderr().starts_with("hit: "), "{hit:?}");
    let copied = [&compile[..], &["--out-dir", "out"]].concat();
    after(&scene, "ulimit -f 0", &copied).fails(4, &["can't write out/", "File too large"]);

    // A tool is ended by the signal as ever.
    scene.tool("clang", "kill -XFSZ $$");
    let told = scene.run(&[&compile[..], &["--refresh"]].concat());
    told.fails(1, &["clang was ended by signal 25 (SIGXFSZ"]);
}

#[test]
fn as_many_jobs_run_at_once_as_may_have_files_open() {
    let scene = Scene::replayed();
    let names: Vec<_> = (0..12).map(|number| format!("k{number}.mlir")).collect();
    for name in &names {
        let symbol = name.trim_end_matches(".mlir");
        scene.file(name, SMALL.replace("@small", &format!("@{symbol}")));
    }
    let names = names.iter().map(String::as_str);
    let arguments = ["compile", "--target", "cpu", "-j8"].into_iter();
    let arguments: Vec<_> = arguments.chain(names).collect();
    let told = after(&scene, "ulimit -n 32", &arguments);
    assert_eq!(told.paths().len(), 24, "{told:?}");
    assert!(!told.stderr().contains("warning"), "{told:?}");
}

/// `script` of util-linux lends a terminal.
#[test]
fn colours_are_for_terminals_that_have_them() {
    let scene = Scene::replayed();
    scene.file("small.mlir", SMALL);
    let coloured = |term: Option<&str>, plain: Option<&str>| {
        let program = scene.npu_build();
        let mut script = common::in_place_of(&program, "script");
        let line = format!(
            "{} compile small.mlir --target cpu",
            program.get_program().display()
        );
        script.args(["-qec", &line, "/dev/null"]);
        script.stdin(Stdio::null());
        script.envs(term.map(|term| ("TERM", term)));
        script.envs(plain.map(|plain| ("NO_COLOR", plain)));
        let told = Outcome(script.output().unwrap());
        assert_eq!(told.code(), 0, "{told:?}");
        told.stdout().contains("\u{1b}[1;3")
    };
    assert!(coloured(Some("xterm"), None));
    assert!(coloured(Some("xterm"), Some("")));
    assert!(!coloured(Some("xterm"), Some("1")));
    assert!(!coloured(Some("dumb"), None));
    assert!(!coloured(None, None));
}

/// Nothing that somebody has written begins a line, or steers a terminal.
#[track_caller]
fn is_harmless(told: &Outcome) {
    for text in [told.stdout(), told.stderr()] {
        let forged = text.lines().find(|line| line.starts_with("error: forged"));
        assert_eq!(forged, None, "{told:?}");
        let steers = |c: char| c.is_control() && c != '\n' || "\u{feff}\u{202e}".contains(c);
        assert!(!text.contains(steers), "{told:?}");
    }
}

const FORGED: &str = "\nerror: forged\u{1b}[31m\r\u{202e}";
const SHOWN: &str = "\\nerror: forged\\u{1b}[31m\\r\\u{202e}";

#[test]
fn names_in_the_mlir_are_shown_on_one_line() {
    let scene = Scene::replayed();
    let escaped = "\\0Aerror: forged\\1B[31m\\0D\\E2\\80\\AE";
    scene.file(
        "names.mlir",
        SMALL.replace("@small", &format!("@\"small{escaped}\"")),
    );
    let name = format!("small{SHOWN}");
    let compile = ["compile", "names.mlir", "--target", "cpu"];
    let entry = ["--entry", "nothing"];
    for (arguments, words) in [
        (&compile[..], format!("built: {name} for cpu")),
        (&["cache", "list"], name.clone()),
        (&["signature", "names.mlir"], format!("{name} (linalg")),
        (&["explain", "names.mlir", "--target", "cpu"], name.clone()),
        (&[&compile[..], &entry].concat(), format!("file has {name}")),
    ] {
        let told = scene.run(arguments);
        is_harmless(&told);
        let all = told.stdout() + &told.stderr();
        assert!(all.contains(&words), "no {words} in {told:?}");
    }
    let text = SMALL.replace(
        "memref<4xf32>,",
        "!llvm.struct<\"a\\0Aerror: forged\", ()>,",
    );
    scene.file("types.mlir", text);
    is_harmless(&scene.run(&["signature", "types.mlir"]));
    scene.file("bom.mlir", format!(" \u{feff}{SMALL}"));
    let told = scene.run(&["signature", "bom.mlir"]);
    is_harmless(&told);
    told.fails(2, &["bom.mlir: not MLIR", "not '\\u{feff}'"]);
}

#[test]
fn paths_and_words_of_the_command_line_are_shown_on_one_line() {
    let scene = Scene::replayed();
    let directory = format!("d{FORGED}");
    fs::create_dir(scene.path().join(&directory)).unwrap();
    let kernel = format!("{directory}/k.mlir");
    scene.file(&kernel, SMALL.replace("return", "retrun"));
    scene.tool(
        "mlir-opt",
        "echo 'kernel.mlir:5:3: error: \u{1b}[31mno' >&2; exit 1",
    );
    let told = scene.run(&["compile", &kernel, "--target", "cpu"]);
    is_harmless(&told);
    told.fails(1, &[&format!("error: d{SHOWN}/k.mlir: mlir-opt failed")]);
    // It can be typed again.
    let command = told.stderr();
    let command = command
        .lines()
        .find_map(|line| line.trim().strip_prefix("command: "));
    let said = Command::new("bash")
        .args([
            "-c",
            &format!("set -- {}; printf %s \"$2\"", command.unwrap()),
        ])
        .output();
    assert_eq!(String::from_utf8(said.unwrap().stdout).unwrap(), kernel);

    let missing = format!("{directory}/no.mlir");
    let flag = format!("--{FORGED}");
    let target = format!("--target=x{FORGED}");
    for arguments in [
        &["compile", &missing, "--target", "cpu"][..],
        &["compile", &kernel, &flag],
        &["compile", &kernel, &target],
        &["compile", &kernel, "--target", "cpu", "--llvm", &missing],
        &["compile", &kernel, "--target", "cpu", "--entry", FORGED],
        &["compile", &kernel, "--target", "npu2", "--input", &missing],
        &["cache", "show", FORGED],
        &[FORGED],
    ] {
        let told = scene.run(arguments);
        assert_ne!(told.code(), 0, "{told:?}");
        is_harmless(&told);
    }
}

/// As the width of a column, more than 65,535 is a panic.
#[test]
fn no_name_and_no_type_is_too_long_to_be_shown() {
    let scene = Scene::replayed();
    let long = "n".repeat(70_000);
    let shape = "1x".repeat(70_000);
    scene.file(
        "long.mlir",
        format!(
            "func.func @{long}(%{long}: memref<*xf32>, %x: memref<{shape}f32>) {{\n return\n}}\n"
        ),
    );
    let told = scene.run(&["signature", "long.mlir"]);
    assert_eq!(told.code(), 0, "{told:?}");
    assert!(told.stdout().contains(&format!("  {long}  memref<*xf32>")));
    // The other rows are as wide as ever.
    let row = told.stdout();
    let row = row.lines().nth(2).unwrap();
    assert!(
        row.trim_start().starts_with("x  ") && row.len() < 500_000,
        "{}",
        row.len()
    );
}

/// What the program needs of memory, by getrusage(2), in bytes.
fn peak_memory(scene: &Scene, arguments: &[&str]) -> u64 {
    let mut command = scene.npu_build();
    let child = command.args(arguments).stdout(Stdio::null()).spawn();
    let pid = i32::try_from(child.unwrap().id()).unwrap();
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::uninit());
    // SAFETY: both are filled by a call that succeeds, and nobody else waits for the child.
    let usage = unsafe {
        assert_eq!(libc::wait4(pid, &mut status, 0, usage.as_mut_ptr()), pid);
        usage.assume_init()
    };
    assert_eq!(status, 0);
    u64::try_from(usage.ru_maxrss).unwrap() * 1024
}

/// A file of 49 MB takes less than twice its size, all of the program's own memory included.
#[test]
fn large_text_is_in_memory_little_more_than_once() {
    let scene = Scene::replayed();
    let path = scene.file("small.mlir", SMALL);
    let small = peak_memory(&scene, &["signature", path.to_str().unwrap()]);
    let path = scene.path().join("large.mlir");
    let mut file = BufWriter::new(fs::File::create(&path).unwrap());
    let line =
        |file: &mut BufWriter<fs::File>, text: &str| file.write_all(text.as_bytes()).unwrap();
    line(
        &mut file,
        "memref.global @w : memref<200000x2xi8> = dense<[",
    );
    (0..200_000).for_each(|n| line(&mut file, &format!("[{}, {}],\n", n % 7, n % 5)));
    line(
        &mut file,
        "[0, 0]]>\nfunc.func @k(%x: memref<4xf32>, %i: index) {\n",
    );
    for n in 0..40_000 {
        line(
            &mut file,
            &format!(
                "  // Number {n} of them.\n\
                 \x20 %{n} = memref.load %x[%i] : memref<4xf32> loc(#loc{n})\n\
                 \x20 memref.store %{n}, %x[%i] : memref<4xf32>\n"
            ),
        );
    }
    line(&mut file, "  return\n}\n");
    (0..40_000).for_each(|n| line(&mut file, &format!("#loc{n} = loc(\"kernel.py\":{n}:5)\n")));
    file.flush().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let large = peak_memory(&scene, &["signature", path.to_str().unwrap()]);
    let (all, own) = (large - small, 49_000_000_u64);
    assert!(
        all * own / size + small < 2 * own,
        "{size} bytes: {small}, {large}"
    );
}
