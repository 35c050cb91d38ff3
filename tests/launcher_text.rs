//! What generated launchers look like: snapshots, rustfmt's opinion, and names that can't be.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on has failed"
)]

use std::borrow::Cow;
use std::io::Write;
use std::process::{Command, Stdio};

use npu_build::digest::Digest;
use npu_build::launcher::{self, Artifact, Error, Image, Kernel, Locate, Request};
use npu_runtime::{Direction, ElementType, Parameter};

#[allow(dead_code, reason = "the other tests use the rest")]
mod launcher_matrix;

use launcher_matrix as matrix;
use matrix::images;

fn render(kernels: Vec<Kernel>) -> String {
    launcher::render(&matrix::request(kernels, Locate::Embed)).unwrap()
}

#[test]
fn a_kernel_with_a_grid_and_a_scalar() {
    insta::assert_snapshot!("launcher_vecadd", render(vec![matrix::vecadd()]));
}

#[test]
fn a_kernel_with_shapes() {
    insta::assert_snapshot!("launcher_matmul", render(vec![matrix::matmul()]));
}

#[test]
fn a_kernel_of_the_aie_level_in_a_directory() {
    let parameters = vec![
        matrix::ranked("in", ElementType::I32, &[Some(4096)], Direction::In),
        matrix::ranked("out", ElementType::I32, &[Some(4096)], Direction::Out),
    ];
    let kernel = matrix::kernel("main:sequence", false, parameters);
    let xclbin = images::xclbin("main:sequence", "MLIR_AIE", images::on("npu1"));
    let kernel = images::with(kernel, [xclbin]);
    let request = matrix::request(vec![kernel], Locate::Directory);
    insta::assert_snapshot!("launcher_sequence", launcher::render(&request).unwrap());
}

#[test]
fn kernels_named_by_keywords_and_more_arguments_than_a_list_holds() {
    let mut parameters: Vec<Parameter> = ["type", "self", "A", "B", "grid", "arguments"]
        .iter()
        .map(|name| matrix::pointer(name, ElementType::Bf16, Direction::In))
        .collect();
    let dims = [None, Some(8), None];
    parameters.push(matrix::ranked(
        "out",
        ElementType::F32,
        &dims,
        Direction::InOut,
    ));
    parameters.push(matrix::scalar("flag", ElementType::I1));
    let kernels = vec![
        matrix::kernel("gen", true, parameters),
        matrix::kernel("super", false, vec![]),
    ];
    insta::assert_snapshot!("launcher_keywords", render(kernels));
}

#[test]
fn a_kernel_for_every_runtime_and_another_one_of_the_same_hsaco() {
    let grid = [8, 1, 1];
    let images = [
        images::object("vecadd"),
        images::hsaco(images::DESIGN, "vecadd", images::over("npu2", grid)),
        images::xclbin("vecadd", "MLIR_AIE", images::over("npu1", grid)),
        images::full_elf("vecadd", "main:vecadd", images::over("npu2", grid)),
    ];
    let other = images::hsaco(images::DESIGN, "scale", images::on("npu2"));
    let parameters = vec![matrix::ranked(
        "x",
        ElementType::F32,
        &[Some(1024)],
        Direction::InOut,
    )];
    let kernels = vec![
        images::with(matrix::vecadd(), images),
        images::with(matrix::kernel("scale", false, parameters), [other]),
    ];
    insta::assert_snapshot!("launcher_fat", render(kernels));
}

#[test]
fn a_stub() {
    let kernel = images::with(matrix::matmul(), []);
    insta::assert_snapshot!("launcher_stub", render(vec![kernel]));
}

/// The names of the files that a launcher embeds, in order.
fn embedded(kernels: &[Kernel]) -> Vec<String> {
    let text = render(kernels.to_vec());
    let mut pieces = text.split("include_bytes!(");
    pieces.next();
    pieces
        .map(|piece| piece.split('"').nth(1).unwrap().to_owned())
        .collect()
}

#[test]
fn no_file_is_embedded_twice_and_each_is_embedded() {
    for (name, request) in matrix::files() {
        if request.locate == Locate::Directory {
            assert!(
                !launcher::render(&request)
                    .unwrap()
                    .contains("include_bytes!")
            );
            continue;
        }
        let mut files: Vec<&str> = Vec::new();
        for artifact in request.kernels.iter().flat_map(|kernel| &kernel.images) {
            for Artifact { file, .. } in artifact.artifacts() {
                if !files.contains(&file.as_str()) {
                    files.push(file);
                }
            }
        }
        assert_eq!(embedded(&request.kernels), files, "{name}");
    }
}

#[test]
fn the_same_content_under_two_names_is_embedded_once() {
    let mut kernels = ["one", "two"].map(|name| {
        let hsaco = images::hsaco(images::DESIGN, name, images::on("npu2"));
        images::add(name, [hsaco])
    });
    if let Some(Image::Hsaco { hsaco, .. }) = kernels[1].images.first_mut() {
        "another-name.hsaco".clone_into(&mut hsaco.file);
    }
    assert_eq!(embedded(&kernels).len(), 1);
    // The directory has it under both.
    assert!(render(kernels.to_vec()).contains("(\n        \"another-name.hsaco\","));
}

/// What rustfmt makes of a text in its default style, whatever files it finds.
fn rustfmt(text: &str, edition: &str) -> String {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", edition, "--config-path", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt is part of the toolchain");
    let mut stdin = rustfmt.stdin.take().unwrap();
    let text = text.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = rustfmt.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

fn assert_formatted(name: &str, request: &Request) {
    let text = launcher::render(request).unwrap();
    for edition in ["2021", "2024"] {
        // Compared here, because `rustfmt --check` needs memory for a difference in proportion to
        // the square of the file.
        let formatted = rustfmt(&text, edition);
        let pairs = text.lines().zip(formatted.lines()).enumerate();
        if let Some((line, (ours, _))) = pairs.into_iter().find(|(_, (ours, its))| ours != its) {
            let its: Vec<&str> = formatted.lines().skip(line).take(5).collect();
            panic!(
                "{name}:{line}, edition {edition}: {ours}\nrustfmt: {}",
                its.join("\n")
            );
        }
        assert_eq!(text.len(), formatted.len(), "{name}, edition {edition}");
    }
    assert!(text.ends_with("}\n") && !text.ends_with("\n\n"), "{name}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{name}");
}

#[test]
fn rustfmt_has_nothing_to_change_in_the_matrix() {
    for (name, request) in matrix::files() {
        assert_formatted(&name, &request);
    }
}

#[test]
fn rustfmt_has_nothing_to_change_whatever_the_lengths_of_names() {
    let mut kernels = Vec::new();
    // Every length that is not cut, and those around which a constant changes its layout.
    for length in (1..=45).chain(66..=72).chain(86..=92) {
        let name = "n".repeat(length);
        let types = [ElementType::I8, ElementType::I32, ElementType::Bf16];
        for (element, direction) in
            types
                .into_iter()
                .zip([Direction::In, Direction::Out, Direction::InOut])
        {
            let dims = &[None, None, Some(3)];
            let parameters = [
                matrix::pointer(&name, element.clone(), direction),
                matrix::ranked(&name, element.clone(), dims, direction),
                matrix::scalar(&name, element.clone()),
            ];
            let other = matrix::scalar("other", ElementType::F16);
            for (index, parameter) in parameters.into_iter().enumerate() {
                let mut add = |kind: &str, grid, parameters: &[&Parameter]| {
                    let kernel = format!("{kind}_{length}_{index}_{element}");
                    let parameters = parameters.iter().map(|&one| one.clone()).collect();
                    kernels.push(matrix::kernel(&kernel, grid, parameters));
                };
                add("alone", true, &[&parameter]);
                add("one", false, &[&parameter]);
                add("two", true, &[&parameter, &other]);
                let others: Vec<Parameter> = (0..6)
                    .map(|i| matrix::scalar(&format!("s{i}"), ElementType::I32))
                    .collect();
                let mut many: Vec<&Parameter> = others.iter().collect();
                many.push(&parameter);
                add("many", false, &many);
            }
        }
        kernels.push(matrix::kernel(&name, true, vec![]));
    }
    assert_formatted("lengths", &matrix::request(kernels, Locate::Embed));
}

#[test]
fn rustfmt_has_nothing_to_change_whatever_the_lengths_of_files_and_of_names_in_them() {
    let mut kernels = Vec::new();
    let grids = [1, 1000, 10_000, u32::MAX].map(|size| [size, 1, size]);
    for (length, grid) in (1..=110).zip(grids.into_iter().cycle()) {
        let name = "n".repeat(length);
        let mut images = vec![
            images::hsaco(&name, &name, images::on("npu2")),
            images::full_elf(&name, &name, images::over("npu2", grid)),
            images::object(&name),
            images::xclbin(&name, &name, images::on("npu1")),
        ];
        images.truncate(1 + length % 4);
        for (index, image) in images.iter_mut().enumerate() {
            let (Image::Object { object: artifact }
            | Image::Hsaco {
                hsaco: artifact, ..
            }
            | Image::FullElf { elf: artifact, .. }
            | Image::Xclbin {
                xclbin: artifact, ..
            }) = image;
            // Up to the length of `artifact_file_name`'s; those that are cut are shared.
            artifact.file = format!("{index}{name:.69}");
            artifact.digest = Digest::of(&artifact.file);
        }
        kernels.push(images::add(&format!("k_{length}"), images));
    }
    assert_formatted("files", &matrix::request(kernels, Locate::Embed));
}

#[test]
fn a_launcher_of_no_kernels_is_a_file_of_comments() {
    let text = render(vec![]);
    assert!(text.lines().all(|line| line.starts_with("//")), "{text}");
    assert_eq!(rustfmt(&text, "2024"), text);
}

#[test]
fn the_same_request_gives_the_same_text_after_a_round_trip() {
    for (name, request) in matrix::files() {
        let json = serde_json::to_string(&request).unwrap();
        let again: Request = serde_json::from_str(&json).unwrap();
        assert_eq!(request, again, "{name}");
        assert_eq!(
            launcher::render(&request).unwrap(),
            launcher::render(&again).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn modules_that_would_share_a_name_are_reported_with_both_originals() {
    let kernels = ["add-i32", "add_i32"].map(|name| matrix::kernel(name, true, vec![]));
    let request = matrix::request(kernels.to_vec(), Locate::Embed);
    let error = launcher::check(&request).unwrap_err();
    assert!(matches!(error, Error::ModuleCollision { .. }));
    let error = error.to_string();
    assert!(
        error.contains("'add-i32'") && error.contains("'add_i32'"),
        "{error}"
    );
    assert_eq!(launcher::render(&request).unwrap_err().to_string(), error);
}

#[test]
fn arguments_that_would_share_a_name_are_reported_with_both_originals() {
    for (grid, first, second) in [
        (false, "x.y", "x_y"),
        (false, "A", "a"),
        (true, "grid", "grid_"),
    ] {
        let parameters = [first, second].map(|name| matrix::scalar(name, ElementType::I32));
        let kernel = matrix::kernel("k", grid, parameters.to_vec());
        let request = matrix::request(vec![kernel], Locate::Embed);
        let found = launcher::check(&request);
        if second == "grid_" {
            // Trailing underscores mean nothing in snake case.
            assert!(matches!(found, Err(Error::ArgumentCollision { .. })));
            continue;
        }
        let error = found.unwrap_err().to_string();
        let originals = [
            format!("'%{first}'"),
            format!("'%{second}'"),
            "'k'".to_owned(),
        ];
        assert!(
            originals.iter().all(|original| error.contains(original)),
            "{error}"
        );
    }
}

#[test]
fn scalars_without_a_rust_type_are_refused() {
    let mut parameter = matrix::scalar("v", ElementType::bytes(16, 16));
    parameter.mlir_type = Cow::Borrowed("vector<4xf32>");
    let request = matrix::request(
        vec![matrix::kernel("k", true, vec![parameter])],
        Locate::Embed,
    );
    let error = launcher::check(&request).unwrap_err().to_string();
    assert!(
        error.contains("'%v'") && error.contains("vector<4xf32>"),
        "{error}"
    );
}

#[test]
fn two_contents_for_one_file_are_refused() {
    let [mut one, other] = ["one", "two"].map(images::object);
    if let (Image::Object { object }, Image::Object { object: other }) = (&mut one, &other) {
        object.file.clone_from(&other.file);
    }
    let kernels = vec![
        images::add("first", [one]),
        images::add("second", [other.clone()]),
    ];
    let error = launcher::check(&matrix::request(kernels, Locate::Embed)).unwrap_err();
    assert!(matches!(error, Error::ArtifactConflict { .. }), "{error}");
    let file = &other.artifacts().next().unwrap().file;
    let error = error.to_string();
    assert!(
        error.contains(file) && error.contains("'second'"),
        "{error}"
    );
}

#[test]
fn an_image_for_a_target_that_is_none_is_refused() {
    for target in ["", "npu3", "NPU2", "cpu"] {
        let hsaco = images::hsaco("k", "k", images::on(target));
        let kernels = vec![images::add("k", [hsaco])];
        let error = launcher::check(&matrix::request(kernels, Locate::Embed)).unwrap_err();
        assert!(matches!(error, Error::Target { .. }), "{target}: {error}");
    }
}

#[test]
fn an_artifact_outside_the_launchers_directory_is_refused() {
    for file in ["", "..", "a/b.so", "/etc/passwd", "..\\b.so"] {
        let mut kernel = matrix::vecadd();
        let object = Artifact {
            file: file.to_owned(),
            digest: Digest::of("k"),
        };
        kernel.images = vec![Image::Object { object }];
        let request = matrix::request(vec![kernel], Locate::Embed);
        assert!(
            matches!(launcher::check(&request), Err(Error::ArtifactFile { .. })),
            "{file}"
        );
    }
}
