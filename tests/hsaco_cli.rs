//! `npu-build hsaco` as a program: what it prints, how it ends, what it leaves behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use npu_formats::Arch;
use npu_formats::container::Elf64;
use tempfile::TempDir;

#[path = "../crates/npu-formats/tests/formats/files.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod files;

use files::{data, path};

struct Directory(TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_npu-build"));
        command.arg("hsaco").args(arguments).current_dir(&self.0);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Copies a file of the test data.
    fn copy(&self, from: &str, to: &str) {
        std::fs::write(self.path(to), data(from)).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[track_caller]
fn assert_exit(output: &Output, code: i32) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    stderr
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn upstreams_command_lines_give_upstreams_files() {
    let directory = Directory::new();
    let npu1 = ["copy_npu1/design.xclbin", "copy_npu1/insts.bin"].map(|name| text(&path(name)));
    let npu2 = ["copy_npu2/insts.bin", "copy_npu2/design.pdi"].map(|name| text(&path(name)));
    let xclbin = text(&path("copy_npu2/design.xclbin"));
    let elf = |name: &str| text(&path(&format!("{name}/aie.elf")));
    let short = |spec: String| vec!["--kernel".to_owned(), spec];
    let long = |options: &[&str]| options.iter().map(|&word| word.to_owned()).collect();
    for (expected, arch, kernels) in [
        (
            "copy_npu2_elf",
            "aie2p",
            short(format!("elf:{}:32:8", elf("copy_npu2"))),
        ),
        (
            "two_kernels_npu2_elf",
            "aie2p",
            short(format!("elf:{}:0:8", elf("two_kernels_npu2"))),
        ),
        (
            "two_kernels_npu2_elf",
            "aie2p",
            short(format!("elf:{}", elf("two_kernels_npu2"))),
        ),
        (
            "two_kernels_npu2_elf",
            "aie2p",
            long(&["--kernel-elf", &elf("two_kernels_npu2")]),
        ),
        (
            "copy_npu1_xclbin",
            "aie2",
            short(format!("xclbin:MLIR_AIE:{}:{}:32:4", npu1[0], npu1[1])),
        ),
        (
            "copy_npu1_xclbin",
            "aie2",
            short(format!("xclbin:MLIR_AIE:{}:{}:32", npu1[0], npu1[1])),
        ),
        (
            "copy_npu2_pdi",
            "aie2p",
            short(format!("MLIR_AIE:{}:{}:32:8", npu2[0], npu2[1])),
        ),
        (
            "copy_npu2_pdi",
            "aie2p",
            long(&[
                "--kernel-name=MLIR_AIE",
                "--kernel-cols",
                "8",
                "--kernel-pdi",
                &npu2[1],
                "--kernel-kernarg=32",
                "--kernel-insts",
                &npu2[0],
            ]),
        ),
        (
            "copy_npu2_pdi",
            "aie2p",
            long(&[
                "--kernel-name",
                "MLIR_AIE",
                "--kernel-xclbin",
                &xclbin,
                "--kernel-kernarg",
                "32",
                "--kernel-insts",
                &npu2[0],
            ]),
        ),
    ] {
        let mut arguments = vec!["pack", "--hsaco", "out", "--arch", arch];
        arguments.extend(kernels.iter().map(String::as_str));
        let output = directory.run(&arguments);
        assert_exit(&output, 0);
        assert_eq!(output.stdout, b"out\n");
        let bytes = std::fs::read(directory.path("out")).unwrap();
        assert!(
            bytes == data(&format!("upstream_hsaco/{expected}.hsaco")),
            "{kernels:?}"
        );
        assert_eq!(directory.names(), ["out"]);
        std::fs::remove_file(directory.path("out")).unwrap();
    }
}

#[test]
fn dump_prints_what_upstreams_dumper_prints() {
    let directory = Directory::new();
    let file = text(&path("upstream_hsaco/two_kernels_npu2_elf.hsaco"));
    let output = directory.run(&["dump", &file]);
    assert_eq!(assert_exit(&output, 0), "");
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "arch section: aie2p\nversion: 1.0\n  \
         kernel first:copy_i32: kind=FullElf insts=5776B pdi=no kernarg=0 cols=8\n  \
         kernel second:copy_i8: kind=FullElf insts=5776B pdi=no kernarg=0 cols=8\n"
    );
    let file = text(&path("upstream_hsaco/copy_npu1_xclbin.hsaco"));
    let output = directory.run(&["dump", &file]);
    assert!(
        output
            .stdout
            .ends_with(b"  kernel MLIR_AIE: kind=PdiInsts insts=300B pdi=yes kernarg=32 cols=4\n")
    );
}

#[test]
fn dump_says_who_would_refuse_the_file() {
    let directory = Directory::new();
    let file = text(&path("upstream_hsaco/copy_npu2_pdi.hsaco"));
    let stderr = assert_exit(&directory.run(&["dump", &file, "--agent", "aie2p:4"]), 0);
    assert_eq!(
        stderr,
        "warning: ROCR on aie2p with 4 columns refuses it (0x1010): kernel 'MLIR_AIE' declares 8 columns; the agent has 4\n"
    );
    let stderr = assert_exit(&directory.run(&["dump", &file, "--agent", "aie2"]), 0);
    assert!(stderr.contains("(0x100d)"), "{stderr}");

    let output = directory.run(&["dump", &file, "--json"]);
    assert_eq!(assert_exit(&output, 0), "");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kernel = &json["sections"][0]["kernels"][0];
    assert_eq!(kernel["name"], "MLIR_AIE");
    assert_eq!(kernel["num_cols"], 8);
    let rocr: Vec<_> = json["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| verdict["reader"] == "rocr")
        .map(|verdict| {
            (
                verdict["arch"].as_str().unwrap(),
                verdict["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(rocr, [("aie2", "refuses"), ("aie2p", "accepts")]);

    let output = directory.run(&["dump", &text(&path("copy_npu2/aie.elf"))]);
    assert!(assert_exit(&output, 2).starts_with("error: "));
    assert_exit(&directory.run(&["dump", "nothing"]), 2);
    assert_exit(&directory.run(&["dump", "."]), 2);
}

#[test]
fn bad_input_ends_with_2_and_leaves_nothing_behind() {
    let directory = Directory::new();
    for (from, to) in [
        ("copy_npu2/aie.elf", "e"),
        ("copy_npu2/insts.bin", "i"),
        ("copy_npu2/design.pdi", "p"),
        ("copy_npu2/design.xclbin", "x"),
        ("copy_npu1/insts.bin", "i1"),
        ("copy_npu2/insts.bin", "a:b"),
    ] {
        directory.copy(from, to);
    }
    std::fs::write(directory.path("empty"), "").unwrap();
    std::fs::write(
        directory.path("half"),
        &data("copy_npu2/design.xclbin")[..4000],
    )
    .unwrap();
    let before = directory.names();
    let fresh = ["--hsaco", "new", "--arch", "aie2p"];
    for (arguments, expected) in [
        (&[][..], "no kernels given"),
        (&["--kernel", "k:i:p:32"], "'p' is no number"),
        (&["--kernel", "k:i:p:32:8:9"], "expected NAME:INSTS"),
        (&["--kernel", "k:a:b:p:32:8"], "a path with a colon"),
        (&["--kernel", "k:nothing:p:32:8"], "can't read nothing"),
        (
            &["--kernel", "k:empty:p:32:8"],
            "its instruction stream is empty",
        ),
        (
            &["--kernel", "k:i:32:8"],
            "has no PDI to configure the array with",
        ),
        (
            &["--kernel", "k:i:empty:32:8"],
            "has no PDI to configure the array with",
        ),
        (&["--kernel", "k:i:p:32:0"], "declares 0 columns"),
        (
            &["--kernel", "k:i:p:32:9"],
            "declares 9 columns; the agent has 8",
        ),
        (&["--kernel", "k:i1:p:32:8"], "device generation 3"),
        (
            &["--kernel", "k:i:p:32:8", "--kernel", "k:i:p:32:8"],
            "duplicate kernel name(s): k",
        ),
        (
            &["--kernel", "elf:e", "--kernel", "elf:e"],
            "duplicate kernel name(s): copyrows:copy",
        ),
        (&["--kernel", "elf:e:48"], "kernarg size mismatch"),
        (
            &["--kernel", "elf:e:32:4"],
            "columns given as 4, but it was compiled for 8",
        ),
        (&["--kernel", "elf:i"], "not a little-endian ELF32"),
        (&["--kernel", "elf:empty"], "not a little-endian ELF32"),
        (
            &["--kernel", "xclbin:k:x:i:32:4"],
            "columns given as 4, but it was compiled for 8",
        ),
        (
            &["--kernel", "xclbin:k:half:i:32"],
            "says that it has 7332 bytes and has 4000",
        ),
        (&["--kernel", "xclbin:k:e:i:32"], "no xclbin"),
        (
            &[
                "--kernel-name",
                "k",
                "--kernel-insts",
                "i",
                "--kernel-pdi",
                "p",
            ],
            "give them as NUM_COLS",
        ),
        (&["--kernel-cols", "4"], "must follow"),
        (&["--no-such-option"], "unexpected argument"),
        (&["--arch", "aie3"], "no AIE architecture"),
    ] {
        let mut all = vec!["pack"];
        all.extend(fresh);
        if arguments.first() == Some(&"--arch") {
            all.truncate(3);
        }
        all.extend(arguments);
        let stderr = assert_exit(&directory.run(&all), 2);
        assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(directory.names(), before, "{arguments:?}");
    }
    // A full ELF for npu1, whose columns would fit.
    directory.copy("copy_npu2_4col/aie.elf", "e4");
    let stderr = assert_exit(
        &directory.run(&[
            "pack", "--hsaco", "new", "--arch", "aie2", "--kernel", "elf:e4",
        ]),
        2,
    );
    assert!(
        stderr.contains("no full-ELF format for arch aie2"),
        "{stderr}"
    );
    assert!(!directory.path("new").exists());
}

#[test]
fn an_hsaco_that_can_not_be_edited_stays_as_it_is() {
    let directory = Directory::new();
    directory.copy("copy_npu2/aie.elf", "e");
    for contents in [&b""[..], b"text", &data("copy_npu2/aie.elf")] {
        std::fs::write(directory.path("out"), contents).unwrap();
        let pack = [
            "pack", "--hsaco", "out", "--arch", "aie2p", "--kernel", "elf:e",
        ];
        let stderr = assert_exit(&directory.run(&pack), 2);
        assert!(stderr.contains("can't add the section to out"), "{stderr}");
        assert_eq!(std::fs::read(directory.path("out")).unwrap(), contents);
        assert_eq!(directory.names(), ["e", "out"]);
    }
    let pack = |to| {
        directory.run(&[
            "pack", "--hsaco", to, "--arch", "aie2p", "--kernel", "elf:e",
        ])
    };
    assert!(assert_exit(&pack("."), 2).contains("no regular file"));
    assert!(assert_exit(&pack("no/where"), 4).contains("can't write no/where"));
}

#[test]
fn who_insists_gets_what_rocr_refuses() {
    let directory = Directory::new();
    directory.copy("copy_npu2/insts.bin", "i");
    let output = directory.run(&[
        "pack",
        "--hsaco",
        "out",
        "--arch",
        "aie2p",
        "--kernel",
        "k:i:32:8",
        "--allow-unloadable",
    ]);
    let stderr = assert_exit(&output, 0);
    assert!(
        stderr.contains("warning: kernel 'k': ROCR will not load it: has no PDI"),
        "{stderr}"
    );
    let stderr = assert_exit(&directory.run(&["dump", "out"]), 0);
    assert!(
        stderr.contains("kernel 'k' has no PDI to configure the array with"),
        "{stderr}"
    );
}

#[test]
fn paths_with_colons_and_kernels_named_elf_have_a_form() {
    let directory = Directory::new();
    directory.copy("copy_npu2/insts.bin", "i:1");
    directory.copy("copy_npu2/design.pdi", "p:1");
    let output = directory.run(&[
        "pack",
        "--hsaco",
        "o:1",
        "--arch",
        "aie2p",
        "--kernel-name",
        "elf",
        "--kernel-insts",
        "i:1",
        "--kernel-pdi",
        "p:1",
        "--kernel-cols",
        "8",
        "--kernel-name",
        "xclbin",
        "--kernel-cols",
        "1",
        "--kernel-pdi",
        "p:1",
        "--kernel-insts",
        "i:1",
    ]);
    assert_exit(&output, 0);
    let output = directory.run(&["dump", "o:1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("kernel elf: kind=PdiInsts insts=316B pdi=yes kernarg=0 cols=8"));
    assert!(text.contains("kernel xclbin: kind=PdiInsts insts=316B pdi=yes kernarg=0 cols=1"));
}

#[test]
fn mode_and_links_of_an_existing_file_are_kept() {
    let directory = Directory::new();
    directory.copy("copy_npu2/aie.elf", "e");
    directory.copy("upstream_hsaco/copy_npu1_xclbin.hsaco", "real");
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(directory.path("real"), mode).unwrap();
    symlink("real", directory.path("link")).unwrap();
    let pack = [
        "pack", "--hsaco", "link", "--arch", "aie2p", "--kernel", "elf:e",
    ];
    assert_exit(&directory.run(&pack), 0);
    assert!(directory.path("link").is_symlink());
    let metadata = std::fs::metadata(directory.path("real")).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
    let bytes = std::fs::read(directory.path("real")).unwrap();
    let elf = Elf64::parse(&bytes).unwrap();
    assert!(
        Arch::ALL
            .iter()
            .all(|arch| elf.section(*arch).unwrap().is_some())
    );
}

#[test]
fn writers_of_one_hsaco_do_not_lose_each_others_sections() {
    let directory = Directory::new();
    directory.copy("copy_npu2/aie.elf", "e");
    directory.copy("copy_npu1/design.xclbin", "x");
    directory.copy("copy_npu1/insts.bin", "i");
    for round in 0..10 {
        let out = format!("out{round}");
        let writers = [("aie2p", "elf:e"), ("aie2", "xclbin:k:x:i:32")].map(|(arch, kernel)| {
            let arguments = [
                "pack", "-q", "--hsaco", &out, "--arch", arch, "--kernel", kernel,
            ];
            directory
                .command(&arguments)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        });
        for mut writer in writers {
            assert!(writer.wait().unwrap().success());
        }
        let bytes = std::fs::read(directory.path(&out)).unwrap();
        let elf = Elf64::parse(&bytes).unwrap();
        for arch in Arch::ALL {
            assert!(
                elf.section(arch).unwrap().is_some(),
                "{arch} in round {round}"
            );
        }
    }
}

#[test]
fn a_pipe_is_dumped_too() {
    let directory = Directory::new();
    let file = std::fs::File::open(path("upstream_hsaco/copy_npu2_elf.hsaco")).unwrap();
    let mut cat = Command::new("cat");
    let mut cat = cat
        .stdin(file)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut dump = directory.command(&["dump", "/dev/stdin"]);
    let output = dump.stdin(cat.stdout.take().unwrap()).output().unwrap();
    assert_exit(&output, 0);
    assert!(cat.wait().unwrap().success());
    assert!(output.stdout.starts_with(b"arch section: aie2p\n"));
}

#[test]
fn help_has_examples() {
    let directory = Directory::new();
    for (command, expected) in [("pack", "--kernel elf:aie.elf"), ("dump", "--json | jq")] {
        let output = directory.run(&[command, "--help"]);
        assert_exit(&output, 0);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("Examples:") && text.contains(expected),
            "{text}"
        );
    }
}

/// What `dump` says of a file `pack` says of what it packs: that ROCR refuses it until a recent one, or
/// that nobody translates the address of a sixth buffer.
#[test]
fn pack_says_what_dump_says() {
    let directory = Directory::new();
    let mut elf = files::Elf::copy_npu2();
    elf.rename_argument("scratch-pad-ctrl")
        .put(".rela.dyn", 12 + 4, 2 << 8 | 8);
    std::fs::write(directory.path("variable.elf"), &elf.0).unwrap();
    directory.copy("copy_npu2/aie.elf", "plain.elf");
    for name in ["insts.bin", "design.xclbin"] {
        directory.copy(&format!("six_buffers/{name}"), name);
    }
    let older = "warning: aie2p: kernel 'copyrows:copy': ROCR before October 2026";
    let unreached = "warning: aie2p: kernel 'six': its instructions take the address of argument 5";
    for (kernel, expected) in [
        ("elf:plain.elf", None),
        ("elf:variable.elf", Some(older)),
        ("xclbin:six:design.xclbin:insts.bin:96", Some(unreached)),
    ] {
        let arguments = ["--hsaco", "k.hsaco", "--arch", "aie2p", "--kernel", kernel];
        let packed = directory.run(&[&["pack"], &arguments[..]].concat());
        let packed = assert_exit(&packed, 0);
        let dumped = assert_exit(&directory.run(&["dump", "k.hsaco"]), 0);
        std::fs::remove_file(directory.path("k.hsaco")).unwrap();
        assert_eq!(packed.contains("warning"), expected.is_some(), "{packed}");
        for told in [packed, dumped] {
            assert!(told.contains(expected.unwrap_or_default()), "{told}");
        }
    }
}
