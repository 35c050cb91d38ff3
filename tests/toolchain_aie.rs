//! Which programs of the AIE toolchain are chosen, and why others are not.
#[cfg(test)]
#[allow(dead_code, reason = "shared with the tests of identities")]
#[path = "toolchain_fakes/aie.rs"]
mod aie_fakes;
#[cfg(test)]
#[allow(dead_code, reason = "these tests need few of LLVM's fakes")]
#[path = "toolchain_fakes/mod.rs"]
mod fakes;

use std::path::PathBuf;

use aie_fakes::{HELP_1, HELP_2, HELP_3, PACKAGES, configured, path};
use fakes::Sandbox;
use npu_build::kernel::Level;
use npu_build::toolchain::{
    AieSearch, AieTools, Dialect, Format, HsacoPacker, Packer, Reason, ToolName,
};

/// The path of the only program that was found under a name.
fn found(tools: &AieTools, name: ToolName) -> PathBuf {
    let tool = tools.programs(name).next();
    tool.map(|tool| tool.path.clone()).unwrap_or_default()
}

fn reasons(tools: &AieTools, name: ToolName) -> Vec<(PathBuf, Reason)> {
    let (rejected, _) = tools.rejected(name);
    let rejected = rejected.iter();
    rejected
        .map(|rejected| (rejected.place.clone(), rejected.reason.clone()))
        .collect()
}

fn no(tool: &str) -> Reason {
    Reason::NoTool {
        tool: tool.to_owned(),
    }
}

#[test]
fn the_wheels_of_the_active_environment_are_found_without_python() {
    let sandbox = Sandbox::new();
    let tools = sandbox.aie_tools(&sandbox.complete());
    let packages = sandbox.path(PACKAGES);
    for (name, program) in [
        (ToolName::AirOpt, "mlir_air/bin/air-opt"),
        (ToolName::Aircc, "mlir_air/bin/aircc"),
        (ToolName::Aiecc, "mlir_aie/bin/aiecc"),
        (ToolName::Peano, "llvm-aie/bin/llc"),
        (ToolName::Bootgen, "mlir_aie/bin/bootgen"),
        (ToolName::AieHsaco, "mlir_aie/bin/aie-hsaco"),
        (ToolName::LlvmObjcopy, "mlir_aie/bin/llvm-objcopy"),
    ] {
        assert_eq!(found(&tools, name), packages.join(program));
        assert_eq!(reasons(&tools, name), []);
    }
    assert_eq!(
        found(&tools, ToolName::Xclbinutil),
        sandbox.path("opt/xrt/bin/xclbinutil")
    );
    assert_eq!(
        found(&tools, ToolName::AiebuAsm),
        sandbox.path("opt/xrt/bin/aiebu-asm")
    );
    let aiecc = &tools.aiecc.get().unwrap().tool;
    assert_eq!(aiecc.wheel(), Some("mlir_aie-1.4.0"));
    assert_eq!(aiecc.identity.version, "1.4.0");
    let peano = tools.peano.get().unwrap();
    assert_eq!(peano.directory, packages.join("llvm-aie"));
    assert_eq!(peano.targets, ["aie", "aie2", "aie2p"]);
    assert_eq!(peano.tools.len(), 4);
    assert_eq!(tools.require(&ToolName::ALL), Ok(()));
    assert!(tools.files().any(|file| file.ends_with("RECORD")));
}

/// From the last source to the first, each is preferred to those that were there before.
#[test]
fn sources_of_aiecc_are_tried_in_their_order() {
    let sandbox = Sandbox::new();
    let mut search = sandbox.aie_search();
    let expect = |search: &AieSearch, expected: PathBuf| {
        assert_eq!(found(&sandbox.aie_tools(search), ToolName::Aiecc), expected);
    };
    search.path = path(&[sandbox.path("nothing"), sandbox.path("on path")]);
    expect(&search, PathBuf::new());
    expect(&search, sandbox.aiecc("on path/aiecc", HELP_2));
    search.virtual_env = Some(sandbox.path("active").into());
    let program = "active/lib/python3.12/site-packages/mlir_aie_no_rtti/bin/aiecc";
    expect(&search, sandbox.aiecc(program, HELP_2));
    let program = "active/lib/python3.12/site-packages/mlir_aie/bin/aiecc";
    expect(&search, sandbox.aiecc(program, HELP_2));
    let program = "active/lib/python3.13/site-packages/mlir_aie/bin/aiecc";
    expect(&search, sandbox.aiecc(program, HELP_2));
    search.mlir_aie_install_dir = Some(sandbox.path("variable").into());
    expect(&search, sandbox.aiecc("variable/bin/aiecc", HELP_2));
    search.python = configured(sandbox.path("named"), "--python");
    let program = "named/lib64/python3.9/site-packages/mlir_aie/bin/aiecc";
    expect(&search, sandbox.aiecc(program, HELP_2));
    search.aie = configured(sandbox.path("configured/bin"), "--aie");
    expect(&search, PathBuf::new());
    expect(&search, sandbox.aiecc("configured/bin/aiecc", HELP_2));
    search.aie = configured(sandbox.path("configured"), "--aie");
    expect(&search, sandbox.path("configured/bin/aiecc"));
}

#[test]
fn sources_of_mlir_air_are_tried_in_their_order() {
    let sandbox = Sandbox::new();
    let mut search = sandbox.aie_search();
    let expect = |search: &AieSearch, expected: PathBuf| {
        assert_eq!(found(&sandbox.aie_tools(search), ToolName::Aircc), expected);
    };
    search.path = path(&[sandbox.path("bin")]);
    expect(&search, sandbox.plain("bin/aircc"));
    search.virtual_env = Some(sandbox.path("venv").into());
    // A development install: a link in site-packages, to a directory elsewhere.
    std::fs::create_dir_all(sandbox.path(PACKAGES)).unwrap();
    let link = format!(
        "# mlir-air\nimport os\n{}\n",
        sandbox.path("build/mlir air/python").display()
    );
    std::fs::write(sandbox.path(PACKAGES).join("mlir-air.pth"), link).unwrap();
    expect(&search, sandbox.plain("build/mlir air/bin/aircc"));
    expect(
        &search,
        sandbox.plain(&format!("{PACKAGES}/mlir_air/bin/aircc")),
    );
    search.mlir_air_install_dir = Some(sandbox.path("variable").into());
    expect(&search, sandbox.plain("variable/bin/aircc"));
    search.python = configured(sandbox.path("named/site-packages"), "--python");
    expect(
        &search,
        sandbox.plain("named/site-packages/mlir_air/bin/aircc"),
    );
    search.air = configured(sandbox.path("configured"), "--air");
    expect(&search, sandbox.plain("configured/bin/aircc"));
}

#[test]
fn sources_of_installation_are_tried_in_their_order_and_path_is_none() {
    let sandbox = Sandbox::new();
    let mut search = sandbox.aie_search();
    let expect = |search: &AieSearch, expected: Option<PathBuf>| {
        let tools = sandbox.aie_tools(search);
        assert_eq!(
            tools
                .peano
                .found
                .as_ref()
                .map(|peano| peano.directory.clone()),
            expected
        );
    };
    sandbox.peano("on-path");
    search.path = path(&[sandbox.path("on-path/bin")]);
    expect(&search, None);
    search.llvm_binary_dir = Some(sandbox.path("triton/bin").into());
    expect(&search, Some(sandbox.peano("triton")));
    search.virtual_env = Some(sandbox.path("venv").into());
    expect(
        &search,
        Some(sandbox.peano(&format!("{PACKAGES}/llvm-aie"))),
    );
    search.peano_install_dir = Some(sandbox.path("variable").into());
    expect(&search, Some(sandbox.peano("variable")));
    search.python = configured(sandbox.path("named/site-packages"), "--python");
    expect(&search, Some(sandbox.peano("named/site-packages/llvm-aie")));
    search.peano = configured(sandbox.path("configured"), "--peano");
    expect(&search, None);
    expect(&search, Some(sandbox.peano("configured")));
}

#[test]
fn sources_of_packaging_programs_are_tried_in_their_order() {
    let sandbox = Sandbox::new();
    let mut search = sandbox.aie_search();
    let expect = |search: &AieSearch, name, expected: PathBuf| {
        assert_eq!(found(&sandbox.aie_tools(search), name), expected);
    };
    search.path = path(&[sandbox.path("bin")]);
    expect(
        &search,
        ToolName::Xclbinutil,
        sandbox.plain("bin/xclbinutil"),
    );
    expect(&search, ToolName::AiebuAsm, sandbox.plain("bin/aiebu-asm"));
    let system = sandbox.xrt("opt/xrt");
    expect(&search, ToolName::Xclbinutil, system.join("bin/xclbinutil"));
    expect(&search, ToolName::AiebuAsm, system.join("bin/aiebu-asm"));
    search.xilinx_xrt = Some(sandbox.path("variable").into());
    expect(
        &search,
        ToolName::Xclbinutil,
        sandbox.xrt("variable").join("bin/xclbinutil"),
    );
    expect(
        &search,
        ToolName::AiebuAsm,
        sandbox.path("variable/bin/aiebu-asm"),
    );
    search.aie_xclbinutil_path = Some(sandbox.path("packer/xclbinutil").into());
    expect(
        &search,
        ToolName::Xclbinutil,
        sandbox.plain("packer/xclbinutil"),
    );
    search.aie_xclbinutil = Some("hrx-xclbinutil".into());
    expect(
        &search,
        ToolName::Xclbinutil,
        sandbox.plain("bin/hrx-xclbinutil"),
    );
    search.aie_xclbinutil = Some(sandbox.path("own/xclbinutil-2").into());
    expect(
        &search,
        ToolName::Xclbinutil,
        sandbox.plain("own/xclbinutil-2"),
    );
    search.xrt = configured(sandbox.path("configured"), "--xrt");
    expect(&search, ToolName::Xclbinutil, PathBuf::new());
    // A place that was named and is none ends the search; one without the program does not.
    expect(&search, ToolName::AiebuAsm, PathBuf::new());
    std::fs::create_dir(sandbox.path("configured")).unwrap();
    expect(
        &search,
        ToolName::AiebuAsm,
        sandbox.path("variable/bin/aiebu-asm"),
    );
    expect(
        &search,
        ToolName::Xclbinutil,
        sandbox.xrt("configured").join("bin/xclbinutil"),
    );
    expect(
        &search,
        ToolName::AiebuAsm,
        sandbox.path("configured/bin/aiebu-asm"),
    );

    expect(&search, ToolName::LlvmObjcopy, PathBuf::new());
    expect(
        &search,
        ToolName::LlvmObjcopy,
        sandbox.plain("system/llvm-9/bin/llvm-objcopy"),
    );
    expect(
        &search,
        ToolName::LlvmObjcopy,
        sandbox.plain("system/llvm-22/bin/llvm-objcopy"),
    );
    expect(
        &search,
        ToolName::LlvmObjcopy,
        sandbox.plain("bin/llvm-objcopy"),
    );
    search.mlir_aie_install_dir = Some(sandbox.path("aie").into());
    expect(
        &search,
        ToolName::LlvmObjcopy,
        sandbox.plain("aie/bin/llvm-objcopy"),
    );
    search.aie_objcopy_path = Some(sandbox.path("own/objcopy").into());
    expect(&search, ToolName::LlvmObjcopy, sandbox.plain("own/objcopy"));
}

/// aiecc looks beside Peano's programs before it looks on PATH.
#[test]
fn a_packaging_program_in_peanos_directory_is_the_one_that_runs() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    for name in ["bootgen", "xclbinutil", "aiebu-asm"] {
        sandbox.plain(&format!("{PACKAGES}/llvm-aie/bin/{name}"));
    }
    let tools = sandbox.aie_tools(&search);
    let bin = sandbox.path(PACKAGES).join("llvm-aie/bin");
    for name in [ToolName::Bootgen, ToolName::Xclbinutil, ToolName::AiebuAsm] {
        assert_eq!(found(&tools, name), bin.join(name.name()));
    }
}

/// On CI the real LLVM has to be there.
#[test]
fn the_hosts_llvm_is_no_peano() {
    let sandbox = Sandbox::new();
    let host = PathBuf::from("/usr/lib/llvm-22");
    if !host.join("bin/llc").exists() {
        assert!(
            std::env::var_os("CI").is_none(),
            "no llc in {}",
            host.display()
        );
        return;
    }
    let search = AieSearch {
        peano_install_dir: Some(host.clone().into()),
        llvm_binary_dir: Some(host.join("bin").into()),
        path: path(&[host.join("bin")]),
        ..sandbox.aie_search()
    };
    let tools = sandbox.aie_tools(&search);
    let llc = host.join("bin/llc");
    assert_eq!(
        reasons(&tools, ToolName::Peano),
        [(host.join("bin"), Reason::NotPeano { llc })],
        "one directory, however it is named, and never PATH"
    );
    let text = tools.peano.get().unwrap_err().to_string();
    for word in [
        "/usr/lib/llvm-22/bin",
        "host's LLVM",
        "aie2",
        "pip install llvm-aie",
        "PEANO_INSTALL_DIR",
    ] {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
    let asked = sandbox.asking.runs.take();
    sandbox.aie_tools(&search);
    assert_eq!(
        sandbox.asking.runs.take(),
        0,
        "after {asked} answers that are remembered"
    );
}

#[test]
fn dialects_are_told_apart_by_help_and_each_program_is_asked_once() {
    let sandbox = Sandbox::new();
    for (help, dialect, accepted, refused) in [
        (
            HELP_1,
            Dialect::Generate,
            ["no-xchesscc", "no-compile-host"],
            "get",
        ),
        (
            HELP_2,
            Dialect::Get,
            ["no-xchesscc", "xclbinutil-path"],
            "no-progress",
        ),
        (
            HELP_3,
            Dialect::GetPeano,
            ["get", "no-progress"],
            "no-xchesscc",
        ),
    ] {
        let program = sandbox.aiecc("aie/bin/aiecc", help);
        let search = AieSearch {
            mlir_aie_install_dir: Some(sandbox.path("aie").into()),
            ..sandbox.aie_search()
        };
        sandbox.asking.runs.take();
        let tools = sandbox.aie_tools(&search);
        let aiecc = tools.aiecc.get().unwrap();
        assert_eq!(aiecc.dialect, dialect);
        assert_eq!(aiecc.tool.path, program);
        assert_eq!(aiecc.tool.identity.version, "0a1b2c");
        assert!(
            accepted.iter().all(|option| aiecc.accepts(option)),
            "{aiecc:?}"
        );
        assert!(!aiecc.accepts(refused), "{aiecc:?}");
        assert_eq!(sandbox.asking.runs.take(), 2, "its version and its help");
        // Another place, the same program.
        std::fs::create_dir_all(sandbox.path("copy/bin")).unwrap();
        std::fs::copy(program, sandbox.path("copy/bin/aiecc")).unwrap();
        let copy = AieSearch {
            mlir_aie_install_dir: Some(sandbox.path("copy").into()),
            ..sandbox.aie_search()
        };
        let copy = sandbox.aie_tools(&copy);
        let copy = copy.aiecc.get().unwrap();
        assert_eq!(copy.dialect, dialect);
        assert_eq!(copy.tool.identity, aiecc.tool.identity);
        assert_eq!(sandbox.asking.runs.take(), 0);
    }
}

#[test]
fn a_wrong_aiecc_first_on_path_is_named_and_passed_over() {
    let sandbox = Sandbox::new();
    let wrong = sandbox.answering("first/aiecc", "something 1.0", "usage: aiecc FILE", "");
    let right = sandbox.aiecc("second dir/aiecc", HELP_3);
    let search = AieSearch {
        path: path(&[sandbox.path("first"), sandbox.path("second dir")]),
        ..sandbox.aie_search()
    };
    let tools = sandbox.aie_tools(&search);
    assert_eq!(found(&tools, ToolName::Aiecc), right);
    let [(place, reason)] = reasons(&tools, ToolName::Aiecc).try_into().unwrap();
    assert_eq!(place, sandbox.path("first"));
    let text = reason.to_string();
    assert!(
        text.contains(wrong.to_str().unwrap()) && text.contains("usage: aiecc FILE"),
        "{text}"
    );
    // aircc finds aiecc by PATH: the right one has to come first there.
    let companions = tools.companions(ToolName::Aircc, Format::Xclbin);
    assert_eq!(companions.on_path[0].0, "aiecc");
    assert_eq!(companions.on_path[0].1.path, right);
}

#[test]
fn a_python_wrapper_leads_to_the_program_in_its_package() {
    let sandbox = Sandbox::new();
    let wrapper = |python: &str, directory: &str| {
        let text = if python.contains("my venv") {
            format!(
                "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nfrom aie.cli_entry import aiecc\n"
            )
        } else {
            format!("#!{python}\nfrom aie.cli_entry import aiecc\n")
        };
        sandbox.script(&format!("{directory}/aiecc"), &text);
        AieSearch {
            path: path(&[sandbox.path(directory)]),
            ..sandbox.aie_search()
        }
    };
    let real = |environment: &str| {
        let packages = format!("{environment}/lib/python3.12/site-packages");
        let program = sandbox.aiecc(&format!("{packages}/mlir_aie/bin/aiecc"), HELP_2);
        sandbox.record(&packages, "mlir_aie-1.4.2", &["mlir_aie/bin/aiecc"]);
        program
    };
    let aiecc = |search: &AieSearch| {
        let tools = sandbox.aie_tools(search);
        tools.aiecc.get().unwrap().tool.clone()
    };
    // Beside the interpreter, in an environment whose path has a space in it.
    let program = real("my venv");
    let python = sandbox.path("my venv/bin/python3");
    let search = wrapper(python.to_str().unwrap(), "my venv/bin");
    assert_eq!(aiecc(&search).path, program);
    assert_eq!(aiecc(&search).wheel(), Some("mlir_aie-1.4.2"));
    // Elsewhere: then its interpreter tells.
    let program = real("venv");
    let python = sandbox.path("venv/bin/python3.12");
    assert_eq!(
        aiecc(&wrapper(python.to_str().unwrap(), "shims")).path,
        program
    );
    assert_eq!(
        aiecc(&wrapper("/usr/bin/env python3", "venv/bin")).path,
        program
    );
}

#[test]
fn a_wrapper_that_leads_nowhere_is_its_text_and_its_wheel() {
    let sandbox = Sandbox::new();
    // It answers as aiecc does, whatever runs it.
    let python = "#!/bin/sh\necho '  --get=<name>  - outputs'\n";
    sandbox.script("venv/bin/python3", python);
    let text = format!("#!{}\nmain()\n", sandbox.path("venv/bin/python3").display());
    sandbox.script("venv/bin/aiecc", &text);
    let record = sandbox.record(
        PACKAGES,
        "mlir_aie-1.3.0",
        &["../../../bin/aiecc", "mlir_aie/cli.py"],
    );
    let search = AieSearch {
        path: path(&[sandbox.path("venv/bin")]),
        ..sandbox.aie_search()
    };
    let tool = || sandbox.aie_tools(&search).aiecc.get().unwrap().tool.clone();
    let before = tool();
    assert_eq!(before.path, sandbox.path("venv/bin/aiecc"));
    assert_eq!(before.wheel(), Some("mlir_aie-1.3.0"));
    std::fs::write(
        &record,
        "../../../bin/aiecc,sha256=abc,123\nmlir_aie/cli.py,sha256=new,123\n",
    )
    .unwrap();
    assert_ne!(tool().identity.digest, before.identity.digest);
}

#[test]
fn every_reason_names_the_place_and_what_is_wrong_there() {
    let sandbox = Sandbox::new();
    let search = sandbox.aie_search();
    let with = |directory: &str| AieSearch {
        mlir_aie_install_dir: Some(sandbox.path(directory).into()),
        ..search.clone()
    };
    let reason = |search: &AieSearch| {
        let tools = sandbox.aie_tools(search);
        let error = tools.require(&[ToolName::Aiecc]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("no usable aiecc found"), "{text}");
        assert!(text.contains("pip install mlir-aie"), "{text}");
        reasons(&tools, ToolName::Aiecc)[0].clone()
    };
    assert_eq!(
        reason(&with("nowhere")),
        (sandbox.path("nowhere"), Reason::NoDirectory)
    );
    std::fs::create_dir_all(sandbox.path("empty/bin")).unwrap();
    assert_eq!(reason(&with("empty")), (sandbox.path("empty"), no("aiecc")));
    sandbox.link("../nowhere/aiecc", "dangling/bin/aiecc");
    let not_executable = Reason::NotExecutable {
        tool: "aiecc".to_owned(),
    };
    assert_eq!(
        reason(&with("dangling")),
        (sandbox.path("dangling/bin"), not_executable)
    );
    std::fs::create_dir_all(sandbox.path("directory/bin/aiecc")).unwrap();
    assert!(matches!(
        reason(&with("directory")).1,
        Reason::NotExecutable { .. }
    ));
    std::fs::create_dir_all(sandbox.path("plain/bin")).unwrap();
    std::fs::write(sandbox.path("plain/bin/aiecc"), "#!/bin/sh\n").unwrap();
    assert!(matches!(
        reason(&with("plain")).1,
        Reason::NotExecutable { .. }
    ));
    sandbox.script("garbage/bin/aiecc", "\u{7f}ELF\u{2}garbage");
    assert!(matches!(
        reason(&with("garbage")).1,
        Reason::NoProgram { .. }
    ));
    sandbox.script("failing/bin/aiecc", "#!/bin/sh\necho oh no >&2\nexit 3\n");
    assert!(reason(&with("failing")).1.to_string().contains("oh no"));
    let relative = AieSearch {
        mlir_aie_install_dir: Some("here".into()),
        ..search.clone()
    };
    assert_eq!(reason(&relative), ("here".into(), Reason::Relative));
    let environment = AieSearch {
        virtual_env: Some(sandbox.path("empty").into()),
        ..search.clone()
    };
    assert_eq!(
        reason(&environment),
        (sandbox.path("empty"), Reason::NoPackages)
    );
    std::fs::create_dir_all(sandbox.path(PACKAGES)).unwrap();
    let environment = AieSearch {
        virtual_env: Some(sandbox.path("venv").into()),
        ..search.clone()
    };
    let bin = sandbox.path(PACKAGES).join("mlir_aie/bin");
    assert_eq!(reason(&environment), (bin, no("aiecc")));
    let on_path = AieSearch {
        path: path(&[sandbox.path("empty")]),
        ..search.clone()
    };
    assert_eq!(reason(&on_path), ("PATH".into(), no("aiecc")));
}

#[test]
fn what_was_configured_is_named_when_it_cannot_be_used() {
    let sandbox = Sandbox::new();
    sandbox.complete();
    let search = AieSearch {
        peano: configured(sandbox.path("gone"), "toolchain.peano in npu-build.toml"),
        ..sandbox.complete()
    };
    let text = sandbox
        .aie_tools(&search)
        .peano
        .get()
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("the peano that toolchain.peano in npu-build.toml names cannot be used"),
        "{text}"
    );
    assert!(
        text.contains(&sandbox.path("gone").display().to_string()),
        "{text}"
    );
    assert!(text.contains("try: correct toolchain.peano"), "{text}");
    assert!(!text.contains("pip"), "{text}");
}

#[test]
fn what_is_missing_depends_on_level_and_format() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    for gone in [
        PACKAGES.to_owned() + "/mlir_air/bin/air-opt",
        "opt/xrt/bin/aiebu-asm".to_owned(),
    ] {
        std::fs::remove_file(sandbox.path(&gone)).unwrap();
    }
    let tools = sandbox.aie_tools(&search);
    let missing = |level, format| {
        let missing = tools.require(&tools.needed(level, format, true)).err();
        let missing = missing.map(|missing| missing.missing).unwrap_or_default();
        missing
            .iter()
            .map(|missing| missing.name)
            .collect::<Vec<_>>()
    };
    for format in [Format::Xclbin, Format::Pdi] {
        assert_eq!(missing(Level::Linalg, format), [ToolName::AirOpt]);
        assert_eq!(missing(Level::Air, format), []);
        assert_eq!(missing(Level::Aie, format), []);
    }
    assert_eq!(
        missing(Level::Linalg, Format::Elf),
        [ToolName::AirOpt, ToolName::AiebuAsm]
    );
    assert_eq!(missing(Level::Aie, Format::Elf), [ToolName::AiebuAsm]);
    let error = tools
        .require(&tools.needed(Level::Linalg, Format::Elf, true))
        .unwrap_err();
    let text = error.to_string();
    for word in [
        "no usable air-opt",
        "no usable aiebu-asm",
        "pip install mlir-air",
        "install XRT",
    ] {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
}

#[test]
fn what_a_tool_runs_is_what_its_format_takes() {
    let sandbox = Sandbox::new();
    let tools = sandbox.aie_tools(&sandbox.complete());
    let names = |program, format| {
        let companions = tools.companions(program, format);
        let peano = companions.of_installation.iter().map(|tool| tool.name);
        let on_path = companions.on_path.iter().map(|(name, tool)| {
            assert_eq!(tool.path.file_name().unwrap(), *name);
            *name
        });
        on_path.chain(peano).collect::<Vec<_>>()
    };
    let peano = ["peano-llc", "peano-opt", "peano-clang", "peano-ld.lld"];
    let with_peano = |on_path: &[&'static str]| [on_path, &peano].concat();
    assert_eq!(
        names(ToolName::Aircc, Format::Elf),
        with_peano(&["aiecc", "bootgen", "aiebu-asm"])
    );
    assert_eq!(
        names(ToolName::Aiecc, Format::Xclbin),
        with_peano(&["bootgen", "xclbinutil"])
    );
    assert_eq!(
        names(ToolName::Aiecc, Format::Pdi),
        with_peano(&["bootgen"])
    );
    assert_eq!(
        names(ToolName::AieHsaco, Format::Xclbin),
        ["llvm-objcopy", "xclbinutil"]
    );
    assert_eq!(names(ToolName::AieHsaco, Format::Elf), ["llvm-objcopy"]);
    assert_eq!(names(ToolName::AirOpt, Format::Xclbin), [""; 0]);
}

/// Releases of aiecc can link bootgen and aiebu in; then the programs are not run.
#[test]
fn a_program_that_is_built_into_aiecc_is_not_needed() {
    let sandbox = Sandbox::new();
    let search = sandbox.complete();
    let aiecc = format!("{PACKAGES}/mlir_aie/bin/aiecc");
    sandbox.answering(&aiecc, "", HELP_3, "runs xclbinutil");
    std::fs::remove_dir_all(sandbox.path("opt/xrt")).unwrap();
    sandbox.plain("opt/xrt/bin/xclbinutil");
    let tools = sandbox.aie_tools(&search);
    let needed = tools.needed(Level::Aie, Format::Elf, true);
    assert_eq!(needed, [ToolName::Aiecc, ToolName::Peano]);
    assert_eq!(tools.require(&needed), Ok(()));
    let companions = tools.companions(ToolName::Aiecc, Format::Xclbin);
    let names: Vec<_> = companions.on_path.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["xclbinutil"]);
}

#[test]
fn the_packer_is_the_chosen_one() {
    let sandbox = Sandbox::new();
    let program = |tools: &AieTools| match tools.packer(Format::Elf, false) {
        Ok(Packer::Program(tool)) => tool.path.clone(),
        Ok(Packer::Builtin) => PathBuf::from("builtin"),
        Err(error) => PathBuf::from(error.to_string()),
    };
    let mut search = sandbox.complete();
    let in_wheel = sandbox.path(PACKAGES).join("mlir_aie/bin/aie-hsaco");
    assert_eq!(program(&sandbox.aie_tools(&search)), in_wheel);
    search.hsaco_packer = HsacoPacker::Builtin;
    assert_eq!(
        program(&sandbox.aie_tools(&search)),
        PathBuf::from("builtin")
    );
    search.hsaco_packer = HsacoPacker::Program(sandbox.plain("own/packer"));
    search.hsaco_packer_origin = "--hsaco-packer".to_owned();
    assert_eq!(
        program(&sandbox.aie_tools(&search)),
        sandbox.path("own/packer")
    );
    std::fs::remove_file(sandbox.path("own/packer")).unwrap();
    let error = program(&sandbox.aie_tools(&search)).display().to_string();
    assert!(
        error.contains("--hsaco-packer") && error.contains("own: has no packer"),
        "{error}"
    );
    sandbox.plain("own/packer");
    assert_eq!(
        program(&sandbox.aie_tools(&search)),
        sandbox.path("own/packer"),
        "what appears is noticed"
    );
    search.hsaco_packer = HsacoPacker::Auto;
    let objcopy = format!("{PACKAGES}/mlir_aie/bin/llvm-objcopy");
    std::fs::remove_file(sandbox.path(&objcopy)).unwrap();
    assert_eq!(
        program(&sandbox.aie_tools(&search)),
        PathBuf::from("builtin"),
        "aie-hsaco can't work without llvm-objcopy"
    );
    sandbox.plain(&objcopy);
    std::fs::remove_file(sandbox.path("opt/xrt/bin/xclbinutil")).unwrap();
    let tools = sandbox.aie_tools(&search);
    assert_eq!(program(&tools), in_wheel);
    let packer = tools.packer(Format::Xclbin, true);
    assert_eq!(
        packer,
        Ok(Packer::Builtin),
        "nor unpack an xclbin without xclbinutil"
    );
}

#[test]
fn packers_are_read_as_they_are_written() {
    assert_eq!("auto".parse(), Ok(HsacoPacker::Auto));
    assert_eq!("builtin".parse(), Ok(HsacoPacker::Builtin));
    let program = "./packer".parse::<HsacoPacker>().unwrap();
    let absolute = program.in_directory("/project".as_ref());
    assert_eq!(absolute, HsacoPacker::Program("/project/./packer".into()));
    let error = "buildin".parse::<HsacoPacker>().unwrap_err();
    assert!(
        error.contains("did you mean 'builtin'") && error.contains("./buildin"),
        "{error}"
    );
    "".parse::<HsacoPacker>().unwrap_err();
}
