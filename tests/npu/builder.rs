//! The library at run time: `Builder` with kernels for an NPU.

use npu_build::config::{Environment, LaunchGrid, Layer, Options, Settings};
use npu_build::interrupt::Interrupt;
use npu_build::toolchain::{Format, HsacoPacker};
use npu_build::{Build, Builder, Grid, Package, Runtime, Session, Target};
use npu_formats::Arch;

use crate::kernels;
use crate::scene::{AIECC, AIRCC, LOWER, NOTHING, PACK, Scene};

fn builder(scene: &Scene, kernel: &str) -> Builder {
    Builder::new(scene.path().join(kernel))
        .target(Target::Npu2)
        .cache_dir(&scene.cache)
        .python(scene.tools.venv())
        .xrt(scene.path().join("root/xrt"))
}

fn file_names(build: &Build) -> Vec<String> {
    let files = build.kernels[0].files.iter();
    let names = files.map(|(_, artifact)| artifact.name.to_string());
    names.collect()
}

fn scene() -> Scene {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    scene.file("aie.mlir", kernels::aie("npu2"));
    scene
}

#[test]
fn a_kernel_is_built_as_the_command_line_builds_it() {
    let scene = scene();
    let transform = scene.tools.transform();
    let input = scene.file("table.txt", "1");
    let build = builder(&scene, "k.mlir")
        .runtime(Runtime::Hsa)
        .format(Package::As(Format::Xclbin))
        .grid(4)
        .transform(&transform)
        .option("stack-size", "4096")
        .input(&input)
        .tool_argument("--omit-auto-broadcast")
        .build()
        .unwrap();
    assert_eq!(build.outcome().name(), "built");
    assert_eq!(file_names(&build), ["kernel.hsaco"]);
    assert_eq!(scene.ran(), LOWER + AIRCC + PACK);
    let same = scene.compile(
        "k.mlir --target npu2 --runtime hsa --format xclbin --grid 4 --transform root/transform.mlir \
         --option stack-size=4096 --input table.txt -- --omit-auto-broadcast",
    );
    assert_eq!(same.outcome(), "hit");
    assert_eq!(same.key("pack"), build.kernels[0].key.to_string());
    assert_eq!(scene.ran(), NOTHING);
}

#[test]
fn one_launcher_for_several_devices() {
    let scene = scene();
    let build = builder(&scene, "aie.mlir")
        .runtime(Runtime::Xrt)
        .also(Target::Npu2, Runtime::Hsa)
        .build()
        .unwrap();
    let images: Vec<_> = build.kernels[0].loadable();
    let runtimes: Vec<_> = images.iter().map(|image| image.runtime()).collect();
    assert_eq!(runtimes, [Runtime::Xrt, Runtime::Hsa]);
    // One compilation serves both.
    assert_eq!(scene.ran(), AIECC + PACK);
    let both = "aie.mlir --target npu2 --runtime xrt,hsa";
    let same = scene.compile(both);
    assert_eq!(same.outcome(), "hit");
    scene.compile(&format!("{both} --refresh"));
    assert_eq!(scene.ran(), AIECC + PACK);
    let explained = scene.run(&format!("explain {both}")).stdout();
    let mut lines: Vec<_> = explained.lines().collect();
    let count = lines.len();
    lines.dedup();
    assert_eq!((count, lines.len()), (3, 3), "{explained}");
}

#[test]
fn each_choice_does_what_it_says() {
    let scene = scene();
    let plain = builder(&scene, "aie.mlir").build().unwrap();
    assert_eq!(file_names(&plain), ["kernel.elf"]);
    let pdi = builder(&scene, "aie.mlir")
        .format(Package::As(Format::Pdi))
        .build()
        .unwrap();
    assert_eq!(file_names(&pdi), ["kernel.pdi", "kernel.insts.bin"]);
    assert!(pdi.launcher().is_none());
    let packed = builder(&scene, "aie.mlir")
        .runtime(Runtime::Hsa)
        .hsaco_packer(HsacoPacker::Builtin)
        .build()
        .unwrap();
    assert_eq!(scene.ran().aie_hsaco, 0);
    let hsaco = packed.kernels[0].files[0].1.read().unwrap();
    let elf = npu_formats::container::Elf64::parse(&hsaco).unwrap();
    assert!(elf.section(Arch::Aie2p).unwrap().is_some());
    // The packages' directories, one by one.
    let site = scene.tools.site_packages();
    let build = Builder::new(scene.path().join("aie.mlir"))
        .cache_dir(&scene.cache)
        .air(site.join("mlir_air"))
        .aie(site.join("mlir_aie"))
        .peano(scene.tools.peano())
        .xrt(scene.path().join("root/xrt"))
        .build()
        .unwrap();
    assert_eq!(build.outcome().name(), "hit");
    let error = builder(&scene, "aie.mlir")
        .peano("/nowhere")
        .refresh(true)
        .build()
        .unwrap_err();
    assert_eq!(error.exit_code(), 3);
    assert!(error.report().contains("/nowhere"), "{}", error.report());
}

/// A session remembers plans; what they depend on is looked at on every build.
#[test]
fn a_session_sees_every_change() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    scene.file(
        "aie.mlir",
        kernels::aie_with("npu2", " { link_with = \"add.o\" }"),
    );
    scene.file("add.o", "one");
    let mut layer = Layer::default();
    layer.cache.dir = Some(scene.cache.clone());
    layer.tools.python = Some(scene.tools.venv());
    layer.tools.xrt = Some(scene.path().join("root/xrt"));
    layer.options.transform = Some(scene.tools.transform());
    let nothing = Environment::from_fn(|_| None);
    let settings = Settings::load(layer, &nothing, scene.path()).unwrap();
    let session = Session::new(settings, Interrupt::default(), &|_| {}).unwrap();
    let build = |kernel: &str, change: &dyn Fn(&mut Options)| {
        let mut options = Options {
            target: vec![Target::Npu2],
            ..Options::default()
        };
        change(&mut options);
        let request = session
            .settings()
            .request(scene.path().join(kernel), options);
        let build = session.build(&request, &|_| {}).unwrap();
        (build.outcome().name(), scene.ran())
    };
    let grid = |x| move |options: &mut Options| options.grid = Some(LaunchGrid([x, 1, 1]));
    let hsa = |options: &mut Options| options.runtime = vec![Runtime::Hsa];
    assert_eq!(build("k.mlir", &grid(4)), ("built", LOWER + AIRCC));
    assert_eq!(build("k.mlir", &grid(4)), ("hit", NOTHING));
    assert_eq!(build("k.mlir", &grid(8)), ("built", LOWER + AIRCC));
    assert_eq!(build("k.mlir", &grid(4)), ("hit", NOTHING));
    let script = std::fs::read_to_string(scene.tools.transform()).unwrap();
    scene.file("root/transform.mlir", script.replace("[256]", "[64]"));
    assert_eq!(build("k.mlir", &grid(4)), ("built", LOWER + AIRCC));
    assert_eq!(build("aie.mlir", &|_| {}), ("built", AIECC));
    assert_eq!(build("aie.mlir", &hsa), ("built", PACK));
    scene.file("add.o", "two");
    assert_eq!(build("aie.mlir", &hsa), ("built", AIECC + PACK));
    scene.tools.upgrade("bootgen").unwrap();
    assert_eq!(build("aie.mlir", &|_| {}), ("built", AIECC));
    assert_eq!(build("aie.mlir", &|_| {}), ("hit", NOTHING));
}

#[test]
fn what_can_not_be_understood_is_told_when_it_is_built() {
    let scene = scene();
    for (builder, words) in [
        (
            builder(&scene, "aie.mlir").option("stak-size", "1"),
            "did you mean 'stack-size'",
        ),
        (
            builder(&scene, "aie.mlir").option("stack-size", "big"),
            "a number of bytes",
        ),
        (builder(&scene, "k.mlir").grid((4, 0)), "'4,0,1' is no grid"),
        (
            builder(&scene, "k.mlir").grid(Grid {
                x: 1 << 31,
                y: 1,
                z: 1,
            }),
            "is no grid",
        ),
        (builder(&scene, "k.mlir"), "compiled for one launch grid"),
        (
            builder(&scene, "aie.mlir").grid(4),
            "--grid is for linalg-level kernels",
        ),
        (builder(&scene, "aie.mlir").target(Target::Npu1), "npu1"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(scene.ran(), NOTHING);
}
