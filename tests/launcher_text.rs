//! What generated launchers look like, and names that can't be.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on has failed"
)]

use std::borrow::Cow;

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
    assert!(render(kernels.to_vec()).contains("(\"another-name.hsaco\","));
}

#[test]
fn a_launcher_of_no_kernels_is_a_file_of_comments() {
    let text = render(vec![]);
    assert!(text.lines().all(|line| line.starts_with("//")), "{text}");
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
