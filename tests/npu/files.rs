//! What a kernel is linked with, and where kernel and cache may be.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use npu_formats::Arch;

use crate::common::Outcome;
use crate::judge::{self, Expected};
use crate::kernels;
use crate::scene::{AIECC, Built, NOTHING, Scene, compile, run};

/// A scene with a kernel in `src` that is linked with `links`, attributes of its core.
fn linked(links: &str) -> Scene {
    let scene = Scene::new();
    scene.file(
        "src/k.mlir",
        kernels::aie_with("npu2", &format!(" {{ {links} }}")),
    );
    scene
}

/// Every object that clang was to link, by its content at that time: the double makes an object of
/// its inputs' digests, so it shows in the artifact.
#[test]
fn a_link_file_is_the_one_beside_the_kernel() {
    let scene = linked("link_with = \"add.o\"");
    scene.file("src/add.o", "right");
    // Where aiecc would look first, and where it would look last.
    scene.file("add.o", "stale");
    scene.file("root/add.o", "stale");
    let right = scene.compile("src/k.mlir");
    assert_eq!(scene.ran(), AIECC);
    // Another current directory changes nothing.
    let mut command = scene.npu_build();
    command.current_dir(scene.path().join("src"));
    assert_eq!(compile(command, "k.mlir").outcome(), "hit");
    scene.file("add.o", "still stale");
    assert_eq!(scene.compile("src/k.mlir").outcome(), "hit");
    scene.file("src/add.o", "other");
    let other = scene.compile("src/k.mlir");
    assert_eq!(scene.ran(), AIECC);
    assert_ne!(
        right.first(),
        other.first(),
        "what was linked is not the new file"
    );
    scene.file("src/add.o", "right");
    assert_eq!(scene.compile("src/k.mlir").artifacts(0), right.artifacts(0));
    assert_eq!(scene.ran(), NOTHING);
}

#[test]
fn files_in_subdirectories_keep_their_names() {
    let scene = linked("link_files = [\"lib/a.o\", \"./lib/deep/b.o\", \"c.o\"]");
    for name in ["lib/a.o", "lib/deep/b.o", "c.o"] {
        scene.file(&format!("src/{name}"), name);
    }
    let built = scene.compile("src/k.mlir");
    for name in ["lib/a.o", "lib/deep/b.o", "c.o"] {
        scene.file(&format!("src/{name}"), "changed");
        let changed = scene.compile("src/k.mlir");
        assert_ne!(changed.first(), built.first(), "{name}");
        scene.file(&format!("src/{name}"), name);
    }
}

/// A kernel in which a function with a link file is declared, and called if `call` is its call.
fn declared(kernel: &str, call: &str) -> String {
    let declaration =
        "  func.func private @add(memref<256xf32>) attributes {link_with = \"add.o\"}\n";
    let (before, place) = ("  func.func @launched", "          linalg.add");
    let text = kernel.replace(before, &format!("{declaration}{before}"));
    let device = "    %shim = aie.tile(0, 0)\n";
    let text = text.replace(device, &format!("{declaration}{device}"));
    let body = "      %c0 = arith.constant 0 : index\n";
    let text = text.replace(body, &format!("      {call}\n{body}"));
    text.replace(place, &format!("          {call}\n{place}"))
}

/// The real aiecc does not mind, either: nothing links the file.
#[test]
fn a_link_file_of_a_function_that_nothing_calls_may_be_missing() {
    for (kernel, call, target) in [
        (
            kernels::aie("npu2"),
            "func.call @add(%am) : (memref<256xf32>) -> ()",
            "",
        ),
        (
            kernels::air(),
            "func.call @add(%xl) : (memref<256xf32, 2 : i32>) -> ()",
            " --target npu2",
        ),
    ] {
        let scene = Scene::with_dialect(1);
        scene.file("src/k.mlir", declared(&kernel, ""));
        let told = scene.run(&format!("compile src/k.mlir{target}"));
        assert_eq!(told.code(), 0, "{told:?}");
        let warning = "warning: src/k.mlir: there is no src/add.o, the link file of a function that \
                       nothing calls";
        assert!(told.stderr().contains(warning), "{told:?}");
        scene.file("src/k.mlir", declared(&kernel, call));
        let words = ["src/k.mlir: the link file src/add.o: No such file"];
        scene.refuses(&format!("src/k.mlir{target}"), 2, &words);
        // It is an input wherever it is there.
        scene.file("src/k.mlir", declared(&kernel, ""));
        scene.file("src/add.o", "one");
        let told = scene.run(&format!("compile src/k.mlir{target}"));
        assert!(!told.stderr().contains("warning"), "{told:?}");
    }
}

#[test]
fn at_the_air_level_too() {
    let scene = Scene::new();
    let text = declared(
        &kernels::air(),
        "func.call @add(%xl) : (memref<256xf32, 2 : i32>) -> ()",
    );
    scene.file("src/k.mlir", text);
    scene.refuses(
        "src/k.mlir --target npu2",
        2,
        &["src/k.mlir: the link file src/add.o: No such file"],
    );
    scene.file("src/add.o", "one");
    scene.compile("src/k.mlir --target npu2");
    scene.file("src/add.o", "two");
    assert_eq!(scene.compile("src/k.mlir --target npu2").outcome(), "built");
}

/// What is no file, or none that can be told by its name, is not waited for and not guessed.
#[test]
fn a_link_file_that_is_a_pipe_or_an_alias() {
    let scene = linked("link_with = \"pipe\"");
    let pipe = scene.path().join("src/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    scene.refuses(
        "src/k.mlir",
        2,
        &["the link file src/pipe: it is no regular file"],
    );
    for links in ["link_with = #object", "link_files = [\"a.o\", #object]"] {
        let scene = linked(links);
        scene.file("src/a.o", "object");
        scene.refuses("src/k.mlir", 2, &["#object is named by an alias"]);
    }
}

#[test]
fn a_link_file_that_is_none() {
    for (name, words) in [
        (
            "add.o",
            &["src/k.mlir: the link file src/add.o: No such file"][..],
        ),
        (
            "../none.o",
            &["src/k.mlir: the link file src/../none.o: No such file"],
        ),
        (
            "/none/add.o",
            &["src/k.mlir: the link file /none/add.o: No such file"],
        ),
        ("", &["the link file '' is no file's name"]),
        ("..", &["the link file '..' is no file's name"]),
        ("/", &["the link file '/' is no file's name"]),
        ("lib", &["the link file src/lib: Is a directory"]),
        (
            "kernel.mlir",
            &["a file can't be called 'kernel.mlir' here"],
        ),
        (
            "kernel.mlir/add.o",
            &["a file can't be called 'kernel.mlir/add.o' here"],
        ),
        (
            "npu-build/add.o",
            &["a file can't be called 'npu-build/add.o' here"],
        ),
    ] {
        let scene = linked(&format!("link_with = \"{name}\""));
        scene.file("src/lib/x", "");
        scene.refuses("src/k.mlir", 2, words);
        assert_eq!(scene.ran(), NOTHING, "{name}");
    }
}

/// Such a file is known by its content, and its directory is nobody's business.
#[test]
fn a_link_file_outside_is_one_like_any_other() {
    let scene = linked("link_files = [\"add.o\", \"../add.o\", \"../other/add.o\"]");
    for name in ["src/add.o", "add.o", "other/add.o"] {
        scene.file(name, name);
    }
    let built = scene.compile("src/k.mlir");
    for name in ["src/add.o", "add.o", "other/add.o"] {
        scene.file(name, "changed");
        assert_ne!(scene.compile("src/k.mlir").first(), built.first(), "{name}");
        scene.file(name, name);
    }
    assert_eq!(scene.compile("src/k.mlir").outcome(), "hit");
    let place = |directory: &str| {
        let object = scene.file(&format!("{directory}/add.o"), "somewhere");
        let links = format!(" {{ link_with = \"{}\" }}", object.display());
        scene.file("k.mlir", kernels::aie_with("npu2", &links));
        scene.key("k.mlir")
    };
    assert_eq!(place("one"), place("two"));
}

#[test]
fn names_that_only_look_like_ours_are_free() {
    for name in [
        "npu-build.o",
        "npu-builder/add.o",
        "my kernel.mlir.o",
        "ä.o",
    ] {
        let scene = linked(&format!("link_with = \"{name}\""));
        scene.file(&format!("src/{name}"), "x");
        scene.compile("src/k.mlir");
    }
}

/// A file from outside is given by name.
#[test]
fn an_input_from_elsewhere_is_found_by_its_name() {
    let scene = linked("link_with = \"add.o\"");
    scene.file("elsewhere/add.o", "given");
    // What the kernel names must be beside it, so as not to depend on who builds it.
    scene.refuses(
        "src/k.mlir --input elsewhere/add.o",
        2,
        &["the link file src/add.o"],
    );
    scene.file("src/add.o", "beside");
    let words = ["src/add.o and elsewhere/add.o would both be 'add.o' to the tools"];
    scene.refuses("src/k.mlir --input elsewhere/add.o", 2, &words);
    // The same file twice is one.
    scene.compile("src/k.mlir --input src/add.o");
    scene.file("elsewhere/lib", "");
    let library = linked("link_with = \"lib/add.o\"");
    library.file("src/lib/add.o", "x");
    library.file("elsewhere/lib", "a file");
    library.refuses("src/k.mlir --input elsewhere/lib", 2, &["would both be"]);
    for (input, words) in [
        ("none.txt", "the input none.txt: No such file"),
        ("src", "the input src: Is a directory"),
        (
            "elsewhere/kernel.mlir",
            "a file can't be called 'kernel.mlir' here",
        ),
        (
            "elsewhere/npu-build",
            "a file can't be called 'npu-build' here",
        ),
    ] {
        scene.file("elsewhere/kernel.mlir", "");
        scene.file("elsewhere/npu-build", "");
        scene.refuses(&format!("src/k.mlir --input {input}"), 2, &[words]);
    }
}

#[track_caller]
fn is_right(built: &Built, hsa: bool) {
    let expected = Expected {
        arch: Arch::Aie2p,
        format: "xclbin",
        hsa,
        columns: 8,
        name: "main:sequence",
        doubles: true,
    };
    judge::check(built, 0, expected);
}

/// Neither bootgen's files nor linker scripts can quote a space, so there must be none.
#[test]
fn a_cache_with_spaces_in_its_path() {
    let scene = linked("link_with = \"add.o\"");
    scene.file("src/add.o", "x");
    let arguments = "src/k.mlir --format xclbin --runtime hsa --cache-dir my␣cache";
    is_right(&scene.compile(arguments), true);
    for run in scene.tools.compilations("aiecc") {
        let directory = run.directory.to_str().unwrap();
        assert!(!directory.contains(' '), "{directory}");
        assert!(!run.directory.exists(), "{directory} is left behind");
    }
    assert_eq!(scene.compile(arguments).outcome(), "hit");
    let work = fs::read_dir(scene.path().join("my cache/v1/work")).unwrap();
    assert_eq!(work.count(), 0);
    scene.tools.misbehave("aiecc", "exit = 1").unwrap();
    let told = run(scene.npu_build(), &format!("compile {arguments} --refresh"));
    told.fails(1, &["src/k.mlir: aiecc failed"]);
    for run in scene.tools.compilations("aiecc") {
        assert!(
            !run.directory.exists(),
            "{:?} is left behind",
            run.directory
        );
    }
}

#[test]
fn kernels_of_any_name() {
    let scene = Scene::new();
    for name in [
        "with space.mlir",
        "ein Käfer.mlir",
        "核心/矩阵.mlir",
        "a'b\"c$d.mlir",
        "{0}.mlir",
        "-dash.mlir",
        "no-extension",
    ] {
        let path = scene.file(&format!("src/{name}"), kernels::aie("npu2"));
        let built = compile(
            scene.npu_build(),
            &format!(
                "{} --format xclbin",
                path.display().to_string().replace(' ', "␣")
            ),
        );
        is_right(&built, false);
        // The name is not in the key.
        assert_eq!(
            scene.ran(),
            if name.starts_with("with") {
                AIECC
            } else {
                NOTHING
            },
            "{name}"
        );
    }
    let strange = scene
        .path()
        .join(std::ffi::OsStr::from_bytes(b"src/no\xffutf8.mlir"));
    fs::copy(scene.path().join("src/no-extension"), &strange).unwrap();
    let mut command = scene.npu_build();
    command
        .arg("compile")
        .arg(&strange)
        .args(["--format", "xclbin", "--out-dir", "out"]);
    let written = Outcome(command.output().unwrap()).paths();
    assert_eq!(written.len(), 3);
    assert_eq!(fs::read_dir(scene.path().join("out")).unwrap().count(), 3);
}
