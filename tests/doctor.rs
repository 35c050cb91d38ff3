//! `npu-build doctor`, and the settings that say where tools are.
#![allow(clippy::unwrap_used, reason = "these are tests")]

#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of discovery")]
#[path = "toolchain_fakes/aie.rs"]
mod aie_fakes;
#[cfg(test)]
mod common;
#[cfg(test)]
#[allow(dead_code, reason = "these tests need few of LLVM's fakes")]
#[path = "toolchain_fakes/mod.rs"]
mod fakes;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use aie_fakes::{HELP_1, PACKAGES};
use common::{Outcome, Scene};
use fakes::Sandbox;
use npu_build::config::{Environment, Layer, Settings};
use npu_build::toolchain::HsacoPacker;

fn doctor(scene: &Scene, variables: &[(&str, &Path)], arguments: &[&str]) -> Outcome {
    let mut command = scene.npu_build();
    command
        .arg("doctor")
        .args(arguments)
        .envs(variables.iter().copied());
    Outcome(command.output().unwrap())
}

#[test]
fn a_complete_toolchain_is_shown_with_versions_wheels_and_dialect() {
    let (scene, sandbox) = (Scene::new(), Sandbox::new());
    let (environment, xrt) = (sandbox.environment(), sandbox.xrt("xrt"));
    let variables = [("VIRTUAL_ENV", &*environment), ("XILINX_XRT", &*xrt)];
    let outcome = doctor(&scene, &variables, &[]);
    assert_eq!(outcome.code(), 0, "{}", outcome.stderr());
    let text = outcome.stdout();
    let bin = sandbox.path(PACKAGES).join("mlir_aie/bin");
    for line in [
        format!("used for npu: aiecc 1.4.0 in {}", bin.display()),
        ", wheel mlir_aie-1.4.0, dialect 2\n".to_owned(),
        "for aie, aie2, aie2p".to_owned(),
        format!(
            "used for npu: xclbinutil 2.19.0 in {}",
            xrt.join("bin").display()
        ),
        format!(
            "used for hsa: the packer {}",
            bin.join("aie-hsaco").display()
        ),
        "\ncpu: ready\n".to_owned(),
        "\nnpu1 xrt xclbin: ready\n".to_owned(),
        "\nnpu2 hsa elf: ready\n".to_owned(),
    ] {
        assert!(text.contains(&line), "no '{line}' in:\n{text}");
    }
    is_one_screen(&text);
    let verbose = doctor(&scene, &variables, &["-v"]).stdout();
    for tool in ["mlir-opt", "aiecc", "llvm-objcopy", "peano-llc"] {
        let tool = format!("\n  {tool} ");
        assert!(
            verbose.contains(&tool) && !text.contains(&tool),
            "{verbose}"
        );
    }
}

/// What is ready comes last, and nothing before it has scrolled away.
#[track_caller]
fn is_one_screen(text: &str) {
    assert!(text.lines().count() <= 24, "{text}");
    let last: Vec<_> = text.lines().rev().take(3).collect();
    for (line, runtime) in last.iter().zip(["hsa", "xrt", "cpu"]) {
        assert!(line.starts_with(&format!("launch {runtime}: ")), "{text}");
    }
}

#[test]
fn nothing_at_all_is_told_on_one_screen_too() {
    let scene = Scene::new();
    let outcome = doctor(&scene, &[("NPU_BUILD_LLVM", Path::new("/nowhere"))], &[]);
    assert_eq!(outcome.code(), 3);
    is_one_screen(&outcome.stdout());
    for line in [
        "not usable: /nowhere: is not a directory\n",
        "not found: peano; try: install the llvm-aie wheel",
        "\ncpu: LLVM with MLIR is missing\n",
    ] {
        assert!(outcome.stdout().contains(line), "{outcome:?}");
    }
}

/// JSON is text: every path in it is, and what is no UTF-8 in one is replaced.
#[test]
fn json_has_paths_as_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let scene = Scene::new();
    let strange = scene.path().join(OsStr::from_bytes(b"llvm-\xff"));
    std::fs::rename(scene.path().join("llvm"), &strange).unwrap();
    let outcome = doctor(&scene, &[("NPU_BUILD_LLVM", &strange)], &["--json"]);
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let text = outcome.stdout();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let bin = format!("{}/llvm-\u{fffd}/bin", scene.path().display());
    assert_eq!(first["place"], *bin);
    let tool = &first["tools"][0];
    assert_eq!(tool["name"], "mlir-opt");
    assert_eq!(tool["path"], format!("{bin}/mlir-opt"));
    assert_eq!(tool["files"][0]["name"], "mlir-opt");
    assert_eq!(tool["sha256"].as_str().unwrap().len(), 64);
    fn numbers(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Array(all) => all.iter().any(|one| one.is_number() || numbers(one)),
            serde_json::Value::Object(fields) => fields.values().any(numbers),
            _ => false,
        }
    }
    for line in text.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(!numbers(&object), "{line}");
    }
}

#[test]
fn what_is_missing_is_told_for_each_target_and_level() {
    let (scene, sandbox) = (Scene::new(), Sandbox::new());
    let environment = sandbox.environment();
    std::fs::remove_file(sandbox.path(PACKAGES).join("mlir_air/bin/air-opt")).unwrap();
    sandbox.aiecc(&format!("{PACKAGES}/mlir_aie/bin/aiecc"), HELP_1);
    let variables = [
        ("NPU_BUILD_PYTHON", &*environment),
        ("NPU_BUILD_XRT", Path::new("/nowhere")),
    ];
    let outcome = doctor(&scene, &variables, &[]);
    assert_eq!(
        outcome.code(),
        0,
        "other things can be built: {}",
        outcome.stderr()
    );
    let text = outcome.stdout();
    for line in [
        ", dialect 1\n",
        "not found: air-opt; try: install the mlir-air wheel",
        "not found: xclbinutil (NPU_BUILD_XRT); try: install XRT",
        "  not usable: /nowhere: is not a directory\n",
        "\nnpu1 xrt xclbin: aie needs xclbinutil; linalg needs air-opt\n",
        "\nnpu2 xrt elf: aie needs aiebu-asm; linalg needs air-opt\n",
        "\nnpu2 xrt pdi: linalg needs air-opt\n",
    ] {
        assert!(text.contains(line), "no '{line}' in:\n{text}");
    }
}

/// The help of an aircc of May 2026 names no PDI.
#[test]
fn what_an_older_aircc_does_not_make_is_told() {
    let (scene, sandbox) = (Scene::new(), Sandbox::new());
    let environment = sandbox.environment();
    sandbox.xrt("xrt");
    let help = "  --elf-name=<string>  - Output filename for full ELF (--output-format=elf)\n  \
        --output-format=<value>  - Output format\n    =xclbin  -   Generate xclbin";
    let aircc = format!("{PACKAGES}/mlir_air/bin/aircc");
    sandbox.answering(&aircc, "LLVM version 22.1.8", help, "May 2026");
    let xrt = sandbox.path("xrt");
    let variables = [("NPU_BUILD_PYTHON", &*environment), ("NPU_BUILD_XRT", &xrt)];
    let text = doctor(&scene, &variables, &[]).stdout();
    for line in [
        "\nnpu2 xrt pdi: air needs an aircc that has --output-format pdi\n",
        "\nnpu2 xrt elf: ready\n",
    ] {
        assert!(text.contains(line), "no '{line}' in:\n{text}");
    }
}

#[test]
fn the_configured_target_decides_whether_something_is_missing() {
    let scene = Scene::new();
    let target = |name| doctor(&scene, &[("NPU_BUILD_TARGET", Path::new(name))], &[]);
    assert_eq!(target("cpu").code(), 0);
    let outcome = target("npu2");
    assert_eq!(outcome.code(), 3);
    let stderr = outcome.stderr();
    for word in [
        "no usable aiecc found",
        "pip install mlir-aie",
        "no usable peano found",
        "--peano",
    ] {
        assert!(stderr.contains(word), "no '{word}' in:\n{stderr}");
    }
}

#[test]
fn json_has_an_object_for_each_tool_and_each_combination() {
    let (scene, sandbox) = (Scene::new(), Sandbox::new());
    let environment = sandbox.environment();
    let outcome = doctor(
        &scene,
        &[("VIRTUAL_ENV", &environment)],
        &["--message-format", "json"],
    );
    let lines: Vec<serde_json::Value> = outcome
        .stdout()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let tool = |name| lines.iter().find(|line| line["tool"] == name).unwrap();
    let aiecc = tool("aiecc");
    assert_eq!(aiecc["dialect"], 2);
    assert_eq!(aiecc["programs"][0]["wheel"], "mlir_aie-1.4.0");
    assert_eq!(aiecc["programs"][0]["version"], "1.4.0");
    assert_eq!(aiecc["programs"][0]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(tool("peano")["programs"].as_array().unwrap().len(), 4);
    let xclbinutil = tool("xclbinutil");
    assert_eq!(xclbinutil["usable"], false);
    assert_eq!(xclbinutil["rejected"][0]["place"], "/opt/xilinx/xrt/bin");
    let row = lines.iter().find(|line| {
        (
            &line["target"],
            &line["runtime"],
            &line["format"],
            &line["level"],
        ) == (
            &"npu1".into(),
            &"xrt".into(),
            &"xclbin".into(),
            &"air".into(),
        )
    });
    assert_eq!(row.unwrap()["missing"], serde_json::json!(["xclbinutil"]));
}

#[test]
fn keys_of_the_project_file_are_relative_to_it_and_misspelt_ones_are_recognised() {
    let scene = Scene::new();
    scene.file("npu-build.toml", "[toolchain]\npeano = \"tools/peano\"\n");
    let outcome = doctor(&scene, &[], &[]);
    let peano = scene.path().join("tools/peano");
    let expected =
        "not found: peano (toolchain.peano in npu-build.toml); try: install the llvm-aie wheel";
    assert!(outcome.stdout().contains(expected), "{}", outcome.stdout());
    assert!(
        outcome.stdout().contains(&peano.display().to_string()),
        "{}",
        outcome.stdout()
    );
    scene.file("npu-build.toml", "[toolchain]\npiano = \"x\"\n");
    doctor(&scene, &[], &[]).fails(2, &["npu-build.toml", "piano", "did you mean `peano`?"]);
    scene.file(
        "npu-build.toml",
        "[toolchain]\nhsaco-packer = \"buildin\"\n",
    );
    doctor(&scene, &[], &[]).fails(2, &["npu-build.toml", "did you mean 'builtin'?"]);
}

#[test]
fn flags_beat_variables_and_variables_beat_the_project_file() {
    fn variables(name: &OsStr) -> Option<OsString> {
        let value = match name.to_str()? {
            "NPU_BUILD_AIE" => "/variable/aie",
            "NPU_BUILD_AIR" => "/variable/air",
            "NPU_BUILD_HSACO_PACKER" => "builtin",
            "PEANO_INSTALL_DIR" => "/ecosystem/peano",
            "AIE_XCLBINUTIL" => "",
            _ => return None,
        };
        Some(value.into())
    }
    let directory = tempfile::tempdir().unwrap();
    let text = "[toolchain]\naie = \"a\"\nair = \"b\"\nxrt = \"c\"\nhsaco-packer = \"./pack\"\n";
    std::fs::write(directory.path().join("npu-build.toml"), text).unwrap();
    let mut flags = Layer::default();
    flags.tools.aie = Some("flag".into());
    let environment = Environment::from_fn(variables);
    let aie = Settings::load(flags, &environment, directory.path())
        .unwrap()
        .aie;
    let said = [aie.aie, aie.air, aie.xrt, aie.peano]
        .map(|configured| configured.map(|configured| (configured.directory, configured.origin)));
    let here = |name: &str| directory.path().join(name);
    assert_eq!(
        said,
        [
            Some((here("flag"), "--aie".to_owned())),
            Some(("/variable/air".into(), "NPU_BUILD_AIR".to_owned())),
            Some((here("c"), "toolchain.xrt in npu-build.toml".to_owned())),
            None,
        ]
    );
    assert_eq!(aie.hsaco_packer, HsacoPacker::Builtin);
    assert_eq!(aie.hsaco_packer_origin, "NPU_BUILD_HSACO_PACKER");
    assert_eq!(aie.peano_install_dir, Some("/ecosystem/peano".into()));
    assert_eq!(aie.aie_xclbinutil, None, "empty is unset");
}
