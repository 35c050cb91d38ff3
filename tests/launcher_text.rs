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

use npu_build::launcher::{self, Artifact, Error, Image, Kernel, Locate, Request};
use npu_runtime::{Direction, ElementType, Parameter};

#[allow(dead_code, reason = "the other tests use the rest")]
mod launcher_matrix;

use launcher_matrix as matrix;

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
    let mut parameter = matrix::scalar("v", ElementType::Opaque);
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
fn an_artifact_outside_the_launchers_directory_is_refused() {
    for file in ["", "..", "a/b.so", "/etc/passwd", "..\\b.so"] {
        let mut kernel = matrix::vecadd();
        let object = Artifact {
            file: file.to_owned(),
            digest: kernel.key,
        };
        kernel.images = vec![Image::Object { object }];
        let request = matrix::request(vec![kernel], Locate::Embed);
        assert!(
            matches!(launcher::check(&request), Err(Error::ArtifactFile { .. })),
            "{file}"
        );
    }
}
