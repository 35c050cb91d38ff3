//! Launches on cpu, by the real tools.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use crate::common;
use crate::kernels::{COUNT, TWICE_IN_PROGRAMS};
use crate::scene::{Scene, values};

#[test]
fn results_are_shown_saved_and_compared() {
    let scene = Scene::new();
    let kernel = common::example("vecadd.mlir");
    let arguments = format!(
        "run {} --target cpu --grid 2 --arg x=iota:1500 --arg y=full:0.5:1500xf32 --arg n=1400 \
         --arg out=full:-1:1500 --save out=sums.npy --save x=x.npy",
        kernel.display()
    );
    let told = scene.run(&arguments);
    assert_eq!(told.code(), 0, "{told:?}");
    // Elements from n on keep their value, in the last block as well.
    let expected = (0..1500_u16).map(|i| if i < 1400 { f32::from(i) + 0.5 } else { -1.0 });
    let expected: Vec<u8> = expected.flat_map(f32::to_le_bytes).collect();
    assert_eq!(scene.saved("sums.npy"), expected);
    let given: Vec<u8> = (0..1500_u16)
        .flat_map(|i| f32::from(i).to_le_bytes())
        .collect();
    assert_eq!(scene.saved("x.npy"), given);
    let shown = told.stdout();
    for line in [
        "vecadd on cpu, grid 2x1x1",
        "  x    memref<*xf32>  [1500]  in     0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, …",
        "  out  memref<*xf32>  [1500]  inout  0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, …",
        "  n    i32                    in     1400",
        "saved: out in sums.npy",
    ] {
        assert!(
            shown.lines().any(|shown| shown == line),
            "no '{line}' in\n{shown}"
        );
    }
    let timing = told.stderr();
    assert!(timing.contains("ran: vecadd on cpu in "), "{timing}");
    let again = scene.run(&format!("{arguments} --expect out=@sums.npy"));
    assert!(again.stdout().contains("as expected: out"), "{again:?}");
    assert!(again.stderr().contains("hit: vecadd"), "{again:?}");
}

/// MLIR leaves open what a copy between two sizes does: a launch refuses it, and the direction does not
/// count on it.
#[test]
fn a_copy_of_another_size_is_no_whole_one() {
    let scene = Scene::with(include_str!(
        "../../../../tests/data/kernels/copy-into-larger.mlir"
    ));
    let run = "run k.mlir --target cpu --arg y=full:7 --save y=y.npy";
    let told = scene.run(&format!("{run} --arg x=iota:64"));
    told.fails(2, &["`x` (memref<?xf32>)", "128 elements, got 64"]);
    let told = scene.json(&format!("{run} --arg x=iota:128"));
    assert_eq!(told["arguments"][1]["direction"], "inout", "{told}");
    let expected: Vec<u8> = (0..128_u8)
        .flat_map(|i| f32::from(i).to_le_bytes())
        .collect();
    assert_eq!(scene.saved("y.npy"), expected);
    // Between static sizes, which MLIR compares, it is one.
    scene.file(
        "k.mlir",
        include_str!("../../../../tests/data/kernels/location-alias.mlir"),
    );
    let told = scene.json("run k.mlir --target cpu --arg a=iota --arg b=full:7");
    assert_eq!(told["arguments"][1]["direction"], "out", "{told}");
    assert_eq!(*values(&told, "b"), [0, 1, 2, 3, 4, 5, 6, 7].map(f64::from));
}

/// Each program of the grid has its part, and no other one.
#[test]
fn the_grid_is_that_of_the_launch() {
    let scene = Scene::with(TWICE_IN_PROGRAMS);
    for programs in [1_usize, 3] {
        let told = scene.run(&format!(
            "run k.mlir --target cpu --grid {programs} --arg x=ones:256 --arg out=zeros:256 \
             --save out=out.npy"
        ));
        assert_eq!(told.code(), 0, "{told:?}");
        let expected = (0..256).map(|i| if i < 64 * programs { 2.0_f32 } else { 0.0 });
        let expected: Vec<u8> = expected.flat_map(f32::to_le_bytes).collect();
        assert_eq!(scene.saved("out.npy"), expected);
    }
}

#[test]
fn every_launch_goes_on_where_the_last_one_ended() {
    let scene = Scene::with(COUNT);
    for (flags, launches) in [
        ("--launches 5", 5),
        ("--chain", 1),
        ("--launches 5 --chain", 5),
        // More than one chain, and a part of one.
        ("--launches 2500 --chain", 2500),
    ] {
        let told = scene.json(&format!(
            "run k.mlir --target cpu --arg x=iota:3 --arg by=2 {flags}"
        ));
        let expected = [0, 1, 2].map(|start| start + 2 * launches);
        assert_eq!(values(&told, "x"), expected, "{flags}");
        assert_eq!(told["launches"], launches);
    }
}

#[test]
fn one_of_several_kernels_is_chosen_by_its_name() {
    let two = [
        COUNT,
        &COUNT.replace("@count", "@down").replace("addi", "subi"),
    ]
    .concat();
    let scene = Scene::with(&two);
    let arguments = "run k.mlir --target cpu --arg x=ones:2 --arg by=3";
    let of = |entry: &str| scene.json(&format!("{arguments} --entry {entry}"));
    assert_eq!(values(&of("count"), "x"), [4, 4]);
    assert_eq!(values(&of("down"), "x"), [-2, -2]);
    scene.run(arguments).fails(2, &["count", "down", "--entry"]);
}

#[test]
fn a_difference_is_located() {
    let kernel = "func.func @fill(%x: memref<3x4xf32>) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %big = arith.constant 100.0 : f32
  %small = arith.constant 1.5 : f32
  memref.store %small, %x[%c1, %c1] : memref<3x4xf32>
  memref.store %big, %x[%c2, %c1] : memref<3x4xf32>
  return
}
";
    let scene = Scene::with(kernel);
    let arguments = "run k.mlir --target cpu --arg x=ones --arg x=inout --expect x=ones";
    let told = scene.run(arguments);
    assert_eq!(told.code(), 1, "{told:?}");
    for words in [
        "'x' is not what was expected: 2 of 12 elements differ\n",
        "first at [1, 1]: 1.5, expected 1.0 (off by 5.00e-1, 5.00e-1 of it)\n",
        "largest at [2, 1]: 100.0, expected 1.0 (off by 9.90e1, 9.90e1 of it)\n",
    ] {
        assert!(told.stderr().contains(words), "{told:?}");
    }
    // What came out is shown all the same.
    assert!(
        told.stdout().contains("1.0, 1.0, 1.0, 1.0, 1.0, 1.5"),
        "{told:?}"
    );
    // The small one is within the tolerance, and both are.
    for (tolerance, code) in [
        ("--rtol 0.6", 1),
        ("--atol 0.6", 1),
        ("--rtol 50 --atol 50", 0),
    ] {
        let told = scene.run(&format!("{arguments} {tolerance}"));
        assert_eq!(told.code(), code, "{told:?}");
        assert_eq!(told.stderr().contains("1 of 12"), code == 1, "{told:?}");
    }
    let told = scene.run(&format!("{arguments} --message-format json"));
    let (result, error) = told
        .stdout()
        .split_once('\n')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    let expected = &result["expected"][0];
    assert_eq!(
        (&expected["equal"], &expected["differing"]),
        (&false.into(), &2.into())
    );
    assert_eq!(expected["first"]["position"], serde_json::json!([1, 1]));
    assert_eq!(expected["largest"]["distance"], 99.0);
    let error: serde_json::Value = serde_json::from_str(&error).unwrap();
    assert_eq!(error["code"], 1);
}

/// Two arguments of random numbers are not the same numbers, unless their seeds are.
#[test]
fn random_numbers_are_the_arguments_own() {
    let scene = Scene::with(
        "func.func @difference(%x: memref<64xi32>, %y: memref<64xi32>) {
  linalg.sub ins(%x, %y : memref<64xi32>, memref<64xi32>) outs(%y : memref<64xi32>)
  return
}
",
    );
    let differing = |given: &str| {
        let told = scene.run(&format!(
            "run k.mlir --target cpu {given} --expect y=zeros --message-format json"
        ));
        let first = told.stdout().lines().next().unwrap().to_owned();
        let told: serde_json::Value = serde_json::from_str(&first).unwrap();
        told["expected"][0]["differing"].as_u64().unwrap()
    };
    assert_eq!(differing("--arg x=random#7 --arg y=random#7"), 0);
    assert!(differing("--arg x=random --arg y=random") > 60);
    assert!(differing("--arg x=random#7 --arg y=random#8") > 60);
}

/// A kernel that is running is ended by Ctrl-C as any program is.
#[test]
fn a_signal_ends_it() {
    let scene = Scene::with(COUNT);
    let arguments = "run k.mlir --target cpu --arg x=zeros:1 --arg by=1 -v";
    assert_eq!(scene.run(arguments).code(), 0);
    // Once as a hit, and once as a miss, for which handlers were installed.
    for more in ["", "--refresh"] {
        let mut command = scene.npu_build();
        command
            .args(arguments.split_whitespace())
            .args(more.split_whitespace());
        command
            .args(["--launches", "1000000000"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // It says so when it begins.
        let begins = lines
            .by_ref()
            .any(|line| line.unwrap().starts_with("launching: "));
        assert!(begins);
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(2), "{more}");
    }
}

#[test]
fn without_a_cache_nothing_is_left() {
    let scene = Scene::with(COUNT);
    let temporary = scene.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let told = scene.run_with(
        &[("TMPDIR", temporary.to_str().unwrap())],
        "run k.mlir --target cpu --arg x=ones:2 --arg by=3 --no-cache",
    );
    assert!(told.stdout().contains("4, 4"), "{told:?}");
    assert_eq!(std::fs::read_dir(temporary).unwrap().count(), 0);
}

#[test]
fn the_project_file_has_its_say() {
    let scene = Scene::with(COUNT);
    scene.file(
        "npu-build.toml",
        "[build]\ntarget = \"cpu\"\n[[kernel]]\npath = \"k.mlir\"\nargs = { x = \"out\" }\n",
    );
    let told = scene.json("run k.mlir --arg x=ones:2 --arg by=3");
    assert_eq!(told["arguments"][0]["direction"], "out");
    let told = scene.json("run k.mlir --arg x=ones:2 --arg x=inout --arg by=3");
    assert_eq!(told["arguments"][0]["direction"], "inout");
}

/// Each program reads what the one before it has written: right on one thread, and only there.
#[test]
fn programs_that_build_on_each_other_are_run_on_one_thread() {
    let scene = Scene::with(include_str!(
        "../../../../tests/data/kernels/dependent-programs.mlir"
    ));
    let told = scene
        .run("run k.mlir --target cpu --grid 3000 --threads 1 --arg o=zeros:3001 --save o=o.npy");
    assert_eq!(told.code(), 0, "{told:?}");
    let expected: Vec<u8> = (0..=3000_i32).flat_map(i32::to_le_bytes).collect();
    assert_eq!(scene.saved("o.npy"), expected);
    for command in ["run", "bench"] {
        let told = scene.run(&format!(
            "{command} k.mlir --target npu2 --runtime hsa --grid 3 --threads 1 --arg o=zeros:4"
        ));
        assert_eq!(told.code(), 2, "{told:?}");
        assert!(
            told.stderr().contains("--threads is for --target cpu"),
            "{told:?}"
        );
    }
}

/// What the assertion says is in the error, wherever standard output goes, and the host goes on.
#[test]
fn a_false_assertion_is_an_error_of_the_launch() {
    let scene = Scene::with(include_str!(
        "../../../../tests/data/kernels/false-assert.mlir"
    ));
    let told = scene.run("run k.mlir --target cpu --arg a=zeros");
    assert_eq!(told.code(), 1, "{told:?}");
    assert_eq!(told.stdout(), "");
    assert!(
        told.stderr()
            .contains("stopped at a false assertion: always false"),
        "{told:?}"
    );
}
