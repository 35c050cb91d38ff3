//! `npu-build bench`: what it says, and not how fast that is.

use crate::kernels::{COUNT, TWICE};
use crate::scene::{Scene, installed};

#[test]
fn every_kind_of_launch_is_measured() {
    let scene = Scene::with(COUNT);
    let arguments = "bench k.mlir --target cpu --arg x=zeros:100 --arg by=1 --launches 100";
    let told = scene.run(arguments);
    assert_eq!(told.code(), 0, "{told:?}");
    for words in [
        "count on cpu, 400 B in, 400 B out\n",
        "min    median       p99      mean    launches\n",
        "\nwith slices ",
        "\nwith buffers ",
        "\nin chains of 32 ",
        "\nfirst launch ",
    ] {
        assert!(
            told.stdout().contains(words),
            "no '{words}' in\n{}",
            told.stdout()
        );
    }
    assert!(
        !told.stdout().contains("copies"),
        "nothing is copied on cpu: {told:?}"
    );
    let told = scene.json(arguments);
    for (kind, launches) in [("slices", 100), ("buffers", 100), ("chain", 96)] {
        let measured = &told[kind];
        assert_eq!(measured["launches"], launches, "{told}");
        let times = ["min_ns", "median_ns", "p99_ns"].map(|name| measured[name].as_f64().unwrap());
        assert!(
            0.0 < times[0] && times[0] <= times[1] && times[1] <= times[2],
            "{told}"
        );
        assert!(measured["mean_ns"].as_f64().unwrap() >= times[0], "{told}");
    }
    assert!(told["first_launch_ns"].as_f64().unwrap() > 0.0);
    assert!(
        told["copies_ns"].is_null() && told["per_launch"].is_null(),
        "{told}"
    );
}

/// The emulated devices count what they are told; a chain is told of at once.
#[test]
fn an_npu_is_told_of_a_chain_once() {
    let scene = Scene::with(TWICE);
    let transform = installed().tools.transform();
    for runtime in ["hsa", "xrt"] {
        let arguments = format!(
            "bench k.mlir --target npu2 --runtime {runtime} --transform {} --arg x=ones \
             --arg out=zeros --launches 64",
            transform.display()
        );
        let told = scene.json(&arguments);
        assert_eq!(
            (&told["bytes_in"], &told["bytes_out"]),
            (&1024.into(), &1024.into())
        );
        let [single, chained] = [0, 1].map(|at| &told["per_launch"][at]);
        assert_eq!(
            (single["doorbells"].as_f64(), single["allocations"].as_f64()),
            (Some(1.0), Some(0.0))
        );
        assert_eq!(chained["doorbells"].as_f64(), Some(1.0 / 32.0), "{told}");
        assert!(told["copies_ns"].is_f64());
        let told = scene.run(&arguments).stdout();
        for words in [
            "\ncopies ",
            "\ndoorbells ",
            "1.000 for each launch, 0.031 in chains\n",
        ] {
            assert!(told.contains(words), "no '{words}' in\n{told}");
        }
    }
}

#[test]
fn a_time_may_be_given_instead() {
    let scene = Scene::with(COUNT);
    let arguments = "bench k.mlir --target cpu --arg x=zeros:100 --arg by=1";
    for time in ["20ms", "0.02"] {
        let told = scene.json(&format!("{arguments} --time {time}"));
        assert!(told["buffers"]["launches"].as_u64().unwrap() > 1);
    }
    for (flags, words) in [
        ("--time 0", "above zero"),
        ("--time=-1s", "--time"),
        ("--time later", "later"),
        ("--time 1s --launches 3", "cannot be used with"),
        ("--launches 0", "launches from 1 to 1000000000"),
        ("--launches +1", "launches from 1 to 1000000000"),
        ("--save x=x.npy", "--save"),
    ] {
        scene
            .run(&format!("{arguments} {flags}"))
            .fails(2, &[words]);
    }
}

#[test]
fn bad_input_is_refused_as_run_does() {
    let scene = Scene::with(COUNT);
    scene.run("bench k.mlir --target cpu --arg by=1").fails(
        2,
        &[
            "'count' needs a value for x (memref<?xi32>, inout); for example",
            "--arg x=zeros:16xi32",
        ],
    );
}
