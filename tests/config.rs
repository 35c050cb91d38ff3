//! Where settings come from, which of them wins, and what is said of one that makes no sense.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod common;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Outcome, Scene};
use npu_build::config::{CachePlace, Environment, Layer, Options, Settings};
use npu_build::plan::Variant;
use npu_build::step::cpu::March;
use npu_build::store::Sharing;
use npu_build::toolchain::{Configured, Search};
use npu_build::{Runtime, Target};

const SMALL: &str = "func.func @small(%x: memref<4xf32>, %out: memref<4xf32>, %n: i32) {\n\
    \x20 return\n\
    }\n";

thread_local! {
    static VARIABLES: RefCell<HashMap<&'static str, OsString>> = RefCell::default();
}

fn variable(name: &OsStr) -> Option<OsString> {
    VARIABLES.with_borrow(|variables| variables.get(name.to_str()?).cloned())
}

fn set(name: &'static str, value: impl Into<OsString>) {
    VARIABLES.with_borrow_mut(|variables| variables.insert(name, value.into()));
}

/// A project directory and a home.
struct Place {
    root: tempfile::TempDir,
    project: PathBuf,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("project");
        fs::create_dir_all(project.join("deep/down")).unwrap();
        fs::create_dir_all(root.path().join(".config/npu-build")).unwrap();
        VARIABLES.with_borrow_mut(HashMap::clear);
        set("HOME", root.path());
        Self { root, project }
    }

    fn project_file(&self, text: &str) {
        fs::write(self.project.join("npu-build.toml"), text).unwrap();
    }

    fn user_file(&self, text: &str) {
        fs::write(self.root.path().join(".config/npu-build/config.toml"), text).unwrap();
    }

    fn load(&self, flags: Layer) -> Settings {
        let environment = Environment::from_fn(variable);
        Settings::load(flags, &environment, &self.project.join("deep/down")).unwrap()
    }
}

const USER: &str = r#"
[build]
target = "npu1"
options = { march = "user" }
runtime-crate = "user"
jobs = 1
keep-intermediates = true
[cache]
dir = "user-cache"
shared = true
[toolchain]
timeout = 1
llvm = "user-llvm"
"#;

const PROJECT: &str = r#"
[build]
target = "npu2"
options = { march = "project" }
runtime-crate = "project"
jobs = 2
keep-intermediates = false
[cache]
dir = "project-cache"
shared = false
[toolchain]
timeout = "2s"
llvm = "/project-llvm"
"#;

/// The settings in one line each, for comparison.
fn told(settings: &Settings) -> Vec<String> {
    let llvm = settings.llvm.configured.as_ref();
    let all = settings.overrides.clone().over(settings.options.clone());
    vec![
        format!("target {:?}", settings.target()),
        format!("march {:?}", all.options.march),
        format!("crate {}", settings.runtime_crate),
        format!("timeout {:?}", settings.timeout),
        format!("jobs {:?}", settings.jobs()),
        format!("keep {}", all.keep_intermediates == Some(true)),
        format!("cache {:?}", settings.cache),
        format!("sharing {:?}", settings.sharing),
        format!(
            "llvm {:?}",
            llvm.map(|llvm| (&llvm.directory, &llvm.origin))
        ),
    ]
}

#[test]
fn without_any_source_there_are_defaults() {
    let place = Place::new();
    let settings = place.load(Layer::default());
    assert_eq!(settings.options, Options::default());
    assert_eq!(settings.overrides, Options::default());
    assert_eq!(settings.runtime_crate, "npu_runtime");
    assert_eq!(settings.timeout, None);
    assert_eq!(settings.sharing, Sharing::Private);
    assert!(settings.llvm.configured.is_none());
    assert!(settings.files.is_empty());
    let cache = place.root.path().join(".cache/npu-build");
    assert_eq!(settings.cache, CachePlace::Directory(cache));
    set("XDG_CACHE_HOME", "/xdg");
    let settings = place.load(Layer::default());
    assert_eq!(
        settings.cache,
        CachePlace::Directory("/xdg/npu-build".into())
    );
    // The specification has it that relative ones do not count.
    set("XDG_CACHE_HOME", "xdg");
    set("HOME", "home");
    assert_eq!(place.load(Layer::default()).cache, CachePlace::Unknown);
}

#[test]
fn each_source_beats_the_ones_below_it() {
    let place = Place::new();
    place.user_file(USER);
    let below = place.root.path().join(".config/npu-build");
    let user = [
        "target Some(Npu1)".to_owned(),
        "march Some(Named(\"user\"))".to_owned(),
        "crate user".to_owned(),
        "timeout Some(1s)".to_owned(),
        "jobs Some(1)".to_owned(),
        "keep true".to_owned(),
        format!("cache Directory({:?})", below.join("user-cache")),
        "sharing Group".to_owned(),
        format!(
            "llvm Some(({:?}, \"toolchain.llvm in the user's configuration file\"))",
            below.join("user-llvm")
        ),
    ];
    assert_eq!(told(&place.load(Layer::default())), user);

    place.project_file(PROJECT);
    let project = [
        "target Some(Npu2)".to_owned(),
        "march Some(Named(\"project\"))".to_owned(),
        "crate project".to_owned(),
        "timeout Some(2s)".to_owned(),
        "jobs Some(2)".to_owned(),
        "keep false".to_owned(),
        format!("cache Directory({:?})", place.project.join("project-cache")),
        "sharing Private".to_owned(),
        "llvm Some((\"/project-llvm\", \"toolchain.llvm in npu-build.toml\"))".to_owned(),
    ];
    assert_eq!(told(&place.load(Layer::default())), project);

    for (name, value) in [
        ("NPU_BUILD_TARGET", "cpu"),
        ("NPU_BUILD_MARCH", "native"),
        ("NPU_BUILD_RUNTIME_CRATE", "variable"),
        ("NPU_BUILD_TIMEOUT", "3s"),
        ("NPU_BUILD_JOBS", "3"),
        ("NPU_BUILD_CACHE_DIR", "variable-cache"),
        ("NPU_BUILD_SHARED_CACHE", "yes"),
        ("NPU_BUILD_LLVM", "variable-llvm"),
    ] {
        set(name, value);
    }
    let cwd = place.project.join("deep/down");
    let variables = [
        "target Some(Cpu)".to_owned(),
        "march Some(Native)".to_owned(),
        "crate variable".to_owned(),
        "timeout Some(3s)".to_owned(),
        "jobs Some(3)".to_owned(),
        "keep false".to_owned(),
        format!("cache Directory({:?})", cwd.join("variable-cache")),
        "sharing Group".to_owned(),
        format!(
            "llvm Some(({:?}, \"NPU_BUILD_LLVM\"))",
            cwd.join("variable-llvm")
        ),
    ];
    assert_eq!(told(&place.load(Layer::default())), variables);

    let mut flags = Layer::default();
    flags.cache.dir = Some("flag-cache".into());
    flags.cache.shared = Some(false);
    flags.options.target = vec![Target::Npu2];
    flags.options.options.march = Some(March::Baseline);
    flags.options.runtime_crate = Some("flag".into());
    flags.options.jobs = Some(4);
    flags.options.keep_intermediates = Some(true);
    flags.tools.llvm = Some("/flag-llvm".into());
    flags.tools.timeout = Some(Duration::from_secs(4));
    let flagged = [
        "target Some(Npu2)".to_owned(),
        "march Some(Baseline)".to_owned(),
        "crate flag".to_owned(),
        "timeout Some(4s)".to_owned(),
        "jobs Some(4)".to_owned(),
        "keep true".to_owned(),
        format!("cache Directory({:?})", cwd.join("flag-cache")),
        "sharing Private".to_owned(),
        "llvm Some((\"/flag-llvm\", \"--llvm\"))".to_owned(),
    ];
    assert_eq!(told(&place.load(flags)), flagged);

    // An empty variable is an unset one, and a source that says nothing leaves it to the next.
    for name in [
        "NPU_BUILD_TARGET",
        "NPU_BUILD_TIMEOUT",
        "NPU_BUILD_CACHE_DIR",
    ] {
        set(name, "");
    }
    place.project_file("[build]\njobs = 2\n");
    let mixed = told(&place.load(Layer::default()));
    assert_eq!(mixed[0], user[0]);
    assert_eq!(mixed[1], variables[1]);
    assert_eq!(mixed[2], variables[2]);
    assert_eq!(mixed[3], user[3]);
    assert_eq!(mixed[6], user[6]);
}

#[test]
fn the_cache_can_be_turned_off_and_on_again() {
    let place = Place::new();
    place.project_file("[cache]\nenabled = false\n");
    assert_eq!(place.load(Layer::default()).cache, CachePlace::Disabled);
    set("NPU_BUILD_NO_CACHE", "0");
    assert_ne!(place.load(Layer::default()).cache, CachePlace::Disabled);
    set("NPU_BUILD_NO_CACHE", "1");
    set("NPU_BUILD_CACHE_DIR", "/somewhere");
    assert_eq!(place.load(Layer::default()).cache, CachePlace::Disabled);
}

#[test]
fn the_nearest_project_file_counts() {
    let place = Place::new();
    fs::write(
        place.root.path().join("npu-build.toml"),
        "[build]\njobs = 1\n",
    )
    .unwrap();
    assert_eq!(place.load(Layer::default()).jobs(), Some(1));
    place.project_file("[toolchain]\ntimeout = 2\n");
    let settings = place.load(Layer::default());
    assert_eq!(
        (settings.jobs(), settings.timeout),
        (None, Some(Duration::from_secs(2)))
    );
    assert_eq!(settings.files, [place.project.join("npu-build.toml")]);
    // Only a file is one.
    fs::create_dir(place.project.join("deep/npu-build.toml")).unwrap();
    assert_eq!(place.load(Layer::default()).files, settings.files);
}

/// A scene with a project in it: two kernels, of which the file says everything.
fn project() -> Scene {
    let scene = Scene::replayed();
    fs::create_dir_all(scene.path().join("project/kernels")).unwrap();
    fs::create_dir_all(scene.path().join("project/src/deep")).unwrap();
    scene.file("project/kernels/small.mlir", SMALL);
    scene.file(
        "project/kernels/two.mlir",
        format!("{SMALL}{}", SMALL.replace("@small", "@other")),
    );
    scene.file(
        "project/npu-build.toml",
        r#"
[build]
target = "cpu"

[[kernel]]
path = "kernels/small.mlir"
args = { out = "out", x = "inout" }

[[kernel]]
path = "kernels/two.mlir"
entry = "other"
signature = "*fp32:in,*fp32:out,i32"
options = { march = "x86-64-v2" }
"#,
    );
    scene
}

fn run(scene: &Scene, directory: &str, arguments: &[&str]) -> Outcome {
    let mut command = scene.npu_build();
    command.current_dir(scene.path().join(directory));
    Outcome(command.args(arguments).output().unwrap())
}

/// Name, directions of the first two arguments, and target options as the key has them.
fn built(outcome: &Outcome) -> Vec<[String; 3]> {
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let stdout = outcome.stdout();
    let objects = stdout
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    objects
        .map(|object| {
            let kernel = &object["kernel"];
            let direction = |argument: usize| {
                kernel["parameters"][argument]["kind"]["memory"]["direction"].to_string()
            };
            [kernel["name"].to_string(), direction(0), direction(1)]
                .map(|text| text.replace('"', ""))
        })
        .collect()
}

#[test]
fn build_takes_everything_from_the_project_file() {
    let scene = project();
    let expected = [["small", "inout", "out"], ["other", "in", "out"]];
    for directory in ["project", "project/src/deep", "project/kernels"] {
        let told = run(&scene, directory, &["build", "--message-format", "json"]);
        assert_eq!(built(&told), expected, "{directory}");
    }
    assert_eq!(scene.runs().len(), 6);
}

#[test]
fn compile_knows_what_the_project_file_says_of_a_kernel() {
    let scene = project();
    let json = ["--message-format", "json"];
    let two = [&["compile", "../kernels/two.mlir"][..], &json].concat();
    assert_eq!(
        built(&run(&scene, "project/src", &two)),
        [["other", "in", "out"]]
    );
    let absolute = scene.path().join("project/kernels/two.mlir");
    let two = [&["compile", absolute.to_str().unwrap()][..], &json].concat();
    assert_eq!(
        built(&run(&scene, "project", &two)),
        [["other", "in", "out"]]
    );
    let told = run(&scene, "project", &["key", "-v", "kernels/two.mlir"]);
    assert!(told.stdout().contains("-march=x86-64-v2"), "{told:?}");
    // Flags beat it, each for itself.
    let flags = [
        "compile",
        "kernels/two.mlir",
        "--entry",
        "small",
        "--arg",
        "out=inout",
    ];
    let told = run(&scene, "project", &[&flags[..], &json].concat());
    assert_eq!(built(&told), [["small", "in", "inout"]]);
    let told = run(
        &scene,
        "project",
        &[
            "key",
            "-v",
            "kernels/two.mlir",
            "--option",
            "march=baseline",
        ],
    );
    assert!(!told.stdout().contains("-march"), "{told:?}");
    let told = run(
        &scene,
        "project",
        &["compile", "kernels/small.mlir", "--target", "npu2"],
    );
    // There is no toolchain for it here.
    told.fails(3, &["no usable air-opt found", "no usable aiecc found"]);
    // Another file's section is not for this one.
    scene.file("project/kernels/third.mlir", SMALL);
    let told = run(
        &scene,
        "project",
        &[&["compile", "kernels/third.mlir"][..], &json].concat(),
    );
    assert_eq!(built(&told).len(), 1);
}

#[test]
fn what_the_project_file_says_wrongly_of_a_kernel_is_told_with_the_kernel() {
    let scene = project();
    let file = scene.path().join("project/npu-build.toml");
    let good = fs::read_to_string(&file).unwrap();
    for (from, to, words) in [
        (
            "out = \"out\"",
            "ot = \"out\"",
            &["kernels/small.mlir", "no argument 'ot'", "'out'"][..],
        ),
        (
            "entry = \"other\"",
            "entry = \"othr\"",
            &["kernels/two.mlir", "no entry 'othr'", "'other'"],
        ),
        ("*fp32:in", "*i8:in", &["kernels/two.mlir", "'*i8:in'"]),
        (
            "kernels/two.mlir",
            "kernels/tow.mlir",
            &["can't read kernels/tow.mlir", "No such file"],
        ),
    ] {
        fs::write(&file, good.replace(from, to)).unwrap();
        let told = run(&scene, "project", &["build"]);
        assert_eq!(told.code(), 2, "{told:?}");
        for word in words {
            assert!(
                told.stderr().contains(word),
                "no '{word}' in:\n{}",
                told.stderr()
            );
        }
    }
}

#[test]
fn build_without_kernels_says_what_to_do() {
    let scene = Scene::replayed();
    let words = [
        "no npu-build.toml here or above",
        "[[kernel]]",
        "npu-build compile KERNEL",
    ];
    scene.refuses(&["build"], 2, &words);
    scene.file("npu-build.toml", "[build]\ntarget = \"cpu\"\n");
    scene.refuses(&["build"], 2, &words);
}

#[test]
fn a_file_that_makes_no_sense_is_told_with_line_and_nearest_key() {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    for (text, words) in [
        (
            "[toolchain]\n\ntimout = \"3s\"",
            &[
                "line 3, column 1",
                "unknown field `timout`",
                "did you mean `timeout`?",
            ][..],
        ),
        ("[biuld]", &["line 1", "did you mean `build`?"]),
        (
            "[toolchain]\nllmv = \"/x\"",
            &["line 2", "did you mean `llvm`?"],
        ),
        (
            "[cache]\nenable = true",
            &["line 2", "did you mean `enabled`?"],
        ),
        (
            "[build]\nkeep_intermediates = true",
            &["did you mean `keep-intermediates`?"],
        ),
        (
            "[[kernel]]\npath = \"x\"\narg = { a = \"in\" }",
            &["line 3", "did you mean `args`?"],
        ),
        (
            "[[kernel]]\npath = \"x\"\nargs = { a = \"input\" }",
            &["line 3", "`in`, `out`, `inout`"],
        ),
        ("[[kernel]]\nentry = \"x\"", &["a [[kernel]] has no `path`"]),
        ("[kernel]\npath = \"x\"", &["line 1", "expected a sequence"]),
        (
            "[[kernel]]\npath = \"x\"\njobs = 2",
            &["`jobs` is for all kernels"],
        ),
        (
            "[build]\npath = \"x\"",
            &["`path` belongs into a [[kernel]]"],
        ),
        (
            "target = \"cpu\"",
            &["line 1", "unknown field `target`", "`build`"],
        ),
        (
            "[build]\ntarget = \"cpuu\"",
            &["line 2", "'cpuu' is not a target", "did you mean 'cpu'?"],
        ),
        ("[build]\ntarget = 3", &["line 2, column 10"]),
        (
            "[build]\njobs = 0",
            &["line 2", "'0' is no number of jobs from 1 to 1024"],
        ),
        ("[build]\njobs = 1025", &["line 2", "from 1 to 1024"]),
        ("[build]\njobs = -1", &["line 2", "from 1 to 1024"]),
        (
            "[build]\njobs = 99999999999999999999",
            &["line 2, column 8"],
        ),
        (
            "[toolchain]\ntimeout = 0",
            &["line 2", "'0' is no time above zero"],
        ),
        (
            "[toolchain]\ntimeout = -1",
            &["line 2", "'-1' is no time above zero"],
        ),
        (
            "[toolchain]\ntimeout = \"soon\"",
            &["line 2", "'soon' is no time above zero", "90s"],
        ),
        (
            "[toolchain]\ntimeout = 1.5",
            &["line 2", "'1.5' is no time above zero"],
        ),
        (
            "[toolchain]\ntimeout = true",
            &["line 2", "'true' is no time above zero"],
        ),
        (
            "[build]\noptions = { march = \"a b\" }",
            &["line 2", "'a b' is no CPU"],
        ),
        ("[cache]\ndir = 3", &["line 2, column 7"]),
        (
            "[cache]\nenabled = \"yes\"",
            &["line 2", "expected a boolean"],
        ),
        ("[build", &["line 1"]),
        ("[build]\njobs = 1\njobs = 2", &["line 3", "duplicate"]),
        ("\u{0}", &["line 1"]),
    ] {
        let file = scene.file("npu-build.toml", text);
        let words = [&[file.to_str().unwrap()], words].concat();
        for arguments in [
            &["compile", "vecadd.mlir", "--target", "cpu"][..],
            &["build"],
            &["doctor"],
        ] {
            scene.refuses(arguments, 2, &words);
        }
    }
    let file = scene.file("npu-build.toml", b"[build]\n# caf\xe9\n");
    scene.refuses(&["build"], 2, &[file.to_str().unwrap(), "UTF-8"]);
    fs::remove_file(file).unwrap();
    fs::create_dir_all(scene.path().join(".config/npu-build")).unwrap();
    let user = scene.file(".config/npu-build/config.toml", "[cache]\ndirr = \"x\"");
    scene.refuses(
        &["cache", "dir"],
        2,
        &[user.to_str().unwrap(), "line 2", "did you mean `dir`?"],
    );
}

#[test]
fn variables_that_make_no_sense_are_named() {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    for (name, value, words) in [
        ("NPU_BUILD_JOBS", "0", "from 1 to 1024"),
        ("NPU_BUILD_JOBS", "many", "'many' is no number of jobs"),
        ("NPU_BUILD_TIMEOUT", "0", "no time above zero"),
        ("NPU_BUILD_TIMEOUT", "never", "'never' is no time"),
        ("NPU_BUILD_TARGET", "gpu", "did you mean 'cpu'?"),
        ("NPU_BUILD_MARCH", "-x", "'-x' is no CPU"),
        ("NPU_BUILD_NO_CACHE", "maybe", "'maybe' is neither 1 nor 0"),
        ("NPU_BUILD_SHARED_CACHE", "2", "'2' is neither 1 nor 0"),
    ] {
        let program = || {
            let mut command = scene.npu_build();
            command.env(name, value);
            command
        };
        let arguments = ["compile", "vecadd.mlir", "--target", "cpu"];
        scene.refuses_as(&program, &arguments, 2, &[name, words]);
    }
}

#[test]
fn a_home_that_is_closed_to_us_is_no_obstacle_and_an_unreadable_project_file_is_one() {
    let scene = Scene::replayed();
    scene.kernel("vecadd.mlir");
    let home = scene.path().join("home");
    fs::create_dir_all(home.join(".config/npu-build")).unwrap();
    fs::write(
        home.join(".config/npu-build/config.toml"),
        "[build]\njobs = 1\n",
    )
    .unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o000)).unwrap();
    let mut command = scene.unprivileged();
    command
        .env("HOME", &home)
        .args(["compile", "vecadd.mlir", "--target", "cpu"]);
    Outcome(command.output().unwrap()).paths();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();

    let project = scene.file("npu-build.toml", "");
    fs::set_permissions(&project, fs::Permissions::from_mode(0o000)).unwrap();
    let told = Outcome(scene.unprivileged().arg("build").output().unwrap());
    told.fails(2, &["can't read ", "npu-build.toml: Permission denied"]);
}

#[test]
fn paths_in_a_file_are_relative_to_it() {
    let scene = project();
    let file = scene.path().join("project/npu-build.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        format!("{text}\n[cache]\ndir = \"target/cache\"\n[toolchain]\nllvm = \"../llvm\"\n"),
    )
    .unwrap();
    let mut command = scene.npu_build();
    command
        .env_remove("NPU_BUILD_CACHE_DIR")
        .env_remove("NPU_BUILD_LLVM");
    command
        .current_dir(scene.path().join("project/src/deep"))
        .arg("build");
    let paths = Outcome(command.output().unwrap()).paths();
    let cache = scene.path().join("project/target/cache");
    assert!(
        paths.iter().all(|path| path.starts_with(&cache)),
        "{paths:?}"
    );
    assert!(!Path::new(&scene.cache).exists());
}

/// Flags and variables choose from what a section lists.
#[test]
fn of_listed_targets_and_runtimes_some_are_chosen() {
    let place = Place::new();
    place.project_file(
        "[[kernel]]\npath = \"k.mlir\"\ntarget = [\"cpu\", \"npu2\"]\nruntime = [\"xrt\", \"hsa\"]\n\
         [[kernel]]\npath = \"npu.mlir\"\ntarget = [\"npu1\", \"npu2\"]\n\
         [[kernel]]\npath = \"one.mlir\"\ntarget = \"npu2\"\nruntime = \"hsa\"\n",
    );
    let chosen = |file: &str, target: Option<Target>, runtime: Option<Runtime>| {
        let options = Options {
            target: Vec::from_iter(target),
            runtime: Vec::from_iter(runtime),
            ..Options::default()
        };
        let settings = place.load(Layer::default());
        let request = settings.request(place.project.join(file), options);
        let first = (request.target, request.runtime);
        let also = request.also.iter();
        let all = std::iter::once(first).chain(also.map(|it| (it.target, it.runtime)));
        let text = |(target, runtime): (Option<Target>, Option<Runtime>)| {
            let runtime = runtime.map_or("-", Runtime::name);
            format!("{} {runtime}", target.map_or("-", Target::name))
        };
        all.map(text).collect::<Vec<_>>().join(", ")
    };
    let (npu1, npu2, cpu) = (Some(Target::Npu1), Some(Target::Npu2), Some(Target::Cpu));
    let (hsa, on_cpu) = (Some(Runtime::Hsa), Some(Runtime::Cpu));
    for (file, target, runtime, expected) in [
        ("k.mlir", None, None, "cpu -, npu2 xrt, npu2 hsa"),
        ("k.mlir", npu2, None, "npu2 xrt, npu2 hsa"),
        ("k.mlir", cpu, None, "cpu -"),
        ("k.mlir", None, hsa, "npu2 hsa"),
        ("k.mlir", None, on_cpu, "cpu cpu"),
        ("k.mlir", npu2, hsa, "npu2 hsa"),
        // What fits nothing is left to be told.
        ("k.mlir", cpu, hsa, "cpu hsa"),
        ("npu.mlir", None, None, "npu1 -, npu2 -"),
        ("npu.mlir", npu1, None, "npu1 -"),
        ("npu.mlir", None, on_cpu, "npu1 cpu, npu2 cpu"),
        ("one.mlir", None, None, "npu2 -"),
        ("one.mlir", cpu, None, "cpu -"),
    ] {
        assert_eq!(chosen(file, target, runtime), expected, "{file}");
    }
    let twice = [Target::Npu2, Target::Npu2];
    assert_eq!(Variant::combinations(&twice, &[]).len(), 1);
    set("NPU_BUILD_TARGET", "npu2");
    assert_eq!(chosen("k.mlir", None, None), "npu2 xrt, npu2 hsa");
    set("NPU_BUILD_RUNTIME", "hsa");
    assert_eq!(chosen("k.mlir", None, None), "npu2 hsa");
    assert_eq!(chosen("npu.mlir", npu1, None), "npu1 hsa");
}

/// The first of two tables for one kernel would hide the second.
#[test]
fn two_tables_for_one_kernel_are_refused() {
    let place = Place::new();
    let load = |text: &str| {
        place.project_file(text);
        let environment = Environment::from_fn(variable);
        let loaded = Settings::load(Layer::default(), &environment, &place.project);
        loaded.map(drop).map_err(|error| error.to_string())
    };
    let table = |path: &str, rest: &str| format!("[[kernel]]\npath = \"{path}\"\n{rest}\n");
    let two = |one: String, other: String| load(&(one + &other));
    for (path, entry) in [
        ("k.mlir", ""),
        ("./k.mlir", ""),
        ("k.mlir", "entry = \"a\""),
    ] {
        let error = two(table("k.mlir", entry), table(path, entry)).unwrap_err();
        assert!(error.contains("two [[kernel]] tables are for "), "{error}");
    }
    assert_eq!(two(table("k.mlir", ""), table("l.mlir", "")), Ok(()));
    let entries = ["entry = \"a\"", "entry = \"b\""];
    assert_eq!(
        two(table("k.mlir", entries[0]), table("k.mlir", entries[1])),
        Ok(())
    );
}

/// No file has an empty name, and the directory of the file is not meant by it.
#[test]
fn paths_in_files_are_not_empty() {
    let place = Place::new();
    for (table, key) in [
        ("[build]", "transform = X"),
        ("[cache]", "dir = X"),
        ("[cache]", "layers = [\"a\", X]"),
        ("[toolchain]", "llvm = X"),
        ("[toolchain]", "air = X"),
        ("[toolchain]", "aie = X"),
        ("[toolchain]", "peano = X"),
        ("[toolchain]", "xrt = X"),
        ("[toolchain]", "cxx = X"),
        ("[toolchain]", "python = X"),
        ("[[kernel]]", "path = X"),
        ("[[kernel]]\npath = \"k.mlir\"", "transform = X"),
        ("[[kernel]]\npath = \"k.mlir\"", "inputs = [X]"),
    ] {
        let load = |value: &str| {
            place.project_file(&format!("{table}\n{}\n", key.replace('X', value)));
            let environment = Environment::from_fn(variable);
            let loaded = Settings::load(Layer::default(), &environment, &place.project);
            loaded.map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(load("\"x\""), Ok(()), "{table} {key}");
        let error = load("\"\"").unwrap_err();
        assert!(
            error.contains("the path is empty") && error.contains("line"),
            "{error}"
        );
        let error = load("\"a\\u0000b\"").unwrap_err();
        assert!(error.contains("NUL"), "{error}");
    }
}

/// What a build script has Cargo watch.
#[test]
fn a_variable_counts_for_what_it_decides() {
    let _place = Place::new();
    let environment = Environment::from_fn(variable);
    let anywhere = Search::default();
    let always = [
        "HOME",
        "NPU_BUILD_RUNTIME",
        "NPU_BUILD_RUNTIME_CRATE",
        "NPU_BUILD_TARGET",
        "XDG_CONFIG_HOME",
    ];
    let deciding = |targets: &[Target], llvm: &Search| {
        let mut names = environment.deciding(targets, llvm);
        assert!(always.iter().skip(1).all(|name| names.contains(name)));
        names.retain(|name| !always.contains(name));
        names.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(deciding(&[], &anywhere), [""; 0]);
    assert_eq!(
        deciding(&[Target::Cpu], &anywhere),
        [
            "MLIR_INSTALL_DIR",
            "NPU_BUILD_LLVM",
            "NPU_BUILD_MARCH",
            "PATH"
        ]
    );
    // Nothing else is looked at then.
    let named = Search {
        configured: Some(Configured {
            directory: "/opt/llvm".into(),
            origin: "--llvm".into(),
        }),
        ..Search::default()
    };
    assert_eq!(
        deciding(&[Target::Cpu], &named),
        ["NPU_BUILD_LLVM", "NPU_BUILD_MARCH"]
    );
    let npu = deciding(&[Target::Npu2], &anywhere);
    for name in ["VIRTUAL_ENV", "PATH", "NPU_BUILD_AIR", "XILINX_XRT"] {
        assert!(npu.contains(&name), "{name}");
    }
    for name in ["NPU_BUILD_JOBS", "NPU_BUILD_CXX", "NPU_BUILD_LLVM"] {
        assert!(!npu.contains(&name), "{name}");
    }
    assert!(environment.deciding(&[], &anywhere).contains("HOME"));
    set("XDG_CONFIG_HOME", "/xdg");
    assert!(!environment.deciding(&[], &anywhere).contains("HOME"));
}
