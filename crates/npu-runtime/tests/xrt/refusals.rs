//! What is refused, and how that is told.

use crate::scene::{Scene, adding, binary, binary_with_scalar, changed, counting, open};
use npu_runtime::{
    Arg, Artifact, ArtifactFault, Compiled, Error, Grid, Image, Kernel, Npu, Runtime, XrtFault,
};

#[track_caller]
fn refusal(image: Image, words: &str) -> Error {
    let scene = Scene::on("npu2");
    let error = Kernel::load(&scene.device(), &[image], binary()).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(scene.driver.count("contexts_live"), 0);
    error
}

fn elf(bytes: &[u8]) -> Image {
    Image::FullElf {
        elf: Artifact::bytes(bytes.to_vec()),
        kernel: "main:sequence".into(),
        compiled: Compiled::for_target(Npu::Npu2),
    }
}

fn xclbin(xclbin: &[u8], insts: &[u8]) -> Image {
    Image::Xclbin {
        xclbin: Artifact::bytes(xclbin.to_vec()),
        insts: Artifact::bytes(insts.to_vec()),
        kernel: "MLIR_AIE".into(),
        compiled: Compiled::for_target(Npu::Npu2),
    }
}

#[test]
fn artifacts_that_xrt_cannot_launch_are_refused_before_it_sees_them() {
    let pdi = include_bytes!("../../../../tests/data/aie/copy_npu2/design.pdi");
    let hsaco = include_bytes!("../../../../tests/data/aie/upstream_hsaco/copy_npu2_elf.hsaco");
    let design = include_bytes!("../../../../tests/data/aie/copy_npu2/design.xclbin");
    for (image, fault) in [
        (elf(b""), ArtifactFault::Empty),
        (elf(pdi), ArtifactFault::Xrt(XrtFault::Pdi)),
        (elf(hsaco), ArtifactFault::Xrt(XrtFault::NotFullElf)),
        (elf(design), ArtifactFault::Xrt(XrtFault::NotFullElf)),
        (xclbin(pdi, b"...."), ArtifactFault::Xrt(XrtFault::Pdi)),
        (
            xclbin(hsaco, b"...."),
            ArtifactFault::Xrt(XrtFault::NotXclbin),
        ),
        (xclbin(design, b""), ArtifactFault::Empty),
        (
            xclbin(design, b"....."),
            ArtifactFault::Xrt(XrtFault::Insts { size: 5 }),
        ),
    ] {
        let words = fault.to_string();
        let error = refusal(image, &words);
        assert!(matches!(error, Error::Artifact { fault: found, .. } if found == fault));
    }
}

#[test]
fn what_xrt_refuses_is_told_in_its_words() {
    refusal(
        changed(|elf| elf.truncate(1000)),
        "xrt: loading kernel `main:sequence` of artifact of 1000 bytes in memory: not valid ELF data",
    );
    let Image::FullElf { elf, compiled, .. } = adding(Npu::Npu2) else {
        panic!("it is a full ELF");
    };
    let named = |kernel: &'static str| Image::FullElf {
        elf: elf.clone(),
        kernel: kernel.into(),
        compiled,
    };
    refusal(
        named("main:other"),
        "Unable to find group idx for given kernel: main:other",
    );
    refusal(named("a\0b"), "has a NUL in it");
}

#[test]
fn a_file_that_is_another_one_is_refused() {
    let path = crate::scene::directory().join("other.elf");
    std::fs::write(&path, b"\x7fELF\x01\x01").unwrap();
    let image = Image::FullElf {
        elf: Artifact::file(&path, [0; 32]),
        kernel: "main:sequence".into(),
        compiled: Compiled::for_target(Npu::Npu2),
    };
    assert!(matches!(
        refusal(image, "its SHA-256 should be 00"),
        Error::Digest { .. }
    ));
}

#[test]
fn images_for_other_devices_are_told() {
    let scene = Scene::on("npu1");
    let images = [adding(Npu::Npu2), Image::Object(Artifact::embedded(b""))];
    let error = Kernel::load(&scene.device(), &images, binary()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `combine` was compiled for xrt on npu2 and cpu, and the device is xrt on npu1; \
         compile it with `--target npu1 --runtime xrt`"
    );
}

#[test]
fn launches_are_checked_before_anything_runs() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], binary()).unwrap();
    let (x, mut z) = (counting(), vec![0; 256]);
    let launched = |grid, args: &mut [Arg<'_>]| {
        let (starts, done) = scene.driver.growth("starts", || kernel.launch(grid, args));
        assert_eq!(starts, 0);
        done.unwrap_err()
    };
    let few = launched(Grid::ONE, &mut [Arg::input(&x)]);
    assert!(
        matches!(
            few,
            Error::ArgumentCount {
                expected: 3,
                found: 1,
                ..
            }
        ),
        "{few}"
    );
    let short = [Arg::input(&x), Arg::input(&x[1..]), Arg::output(&mut z)];
    assert!(matches!(
        launched(Grid::ONE, &mut { short }),
        Error::Argument(_)
    ));
    let args = [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
    assert!(matches!(
        launched(Grid::from(2), &mut { args }),
        Error::Grid { .. }
    ));
}

#[test]
fn a_kernel_that_was_compiled_for_one_grid_takes_no_other() {
    let scene = Scene::on("npu2");
    let Image::FullElf {
        elf,
        kernel,
        compiled,
    } = adding(Npu::Npu2)
    else {
        panic!("it is a full ELF");
    };
    let compiled = compiled.with_grid(Grid::from(4));
    let image = Image::FullElf {
        elf,
        kernel,
        compiled,
    };
    let signature = npu_runtime::Signature {
        grid: true,
        ..binary()
    };
    let kernel = Kernel::load(&scene.device(), &[image], signature).unwrap();
    let (x, mut z) = (counting(), vec![0; 256]);
    let mut args = [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
    kernel.launch(Grid::from(4), &mut args).unwrap();
    let error = kernel.launch(Grid::from(8), &mut args).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("this one was compiled with 4x1x1"),
        "{error}"
    );
    kernel.launch(Grid::from(0), &mut args).unwrap();
}

#[test]
fn a_signature_with_too_many_buffers_is_refused_at_load() {
    let scene = Scene::on("npu2");
    let mut signature = binary();
    let last = signature.parameters[2].clone();
    signature.parameters.to_mut().push(last);
    let error = Kernel::load(&scene.device(), &[adding(Npu::Npu2)], signature).unwrap_err();
    assert!(
        error.to_string().contains("takes 3 buffers, and not 4"),
        "{error}"
    );
    // Scalars do not count.
    Kernel::load(&scene.device(), &[adding(Npu::Npu2)], binary_with_scalar()).unwrap();
}

#[test]
fn devices_that_are_not_there_or_not_known_are_refused() {
    let scene = Scene::on("none");
    let error = open().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("No such device with index '0'"), "{text}");
    assert!(text.contains("`amdxdna` driver"), "{text}");
    scene.driver.set("DEVICE", "npu2");
    for (name, npu) in [
        ("NPU Strix Halo", Npu::Npu2),
        ("RyzenAI-npu4", Npu::Npu2),
        ("RyzenAI-npu1", Npu::Npu1),
        ("NPU Hawk Point", Npu::Npu1),
    ] {
        scene.driver.set("NAME", name);
        assert_eq!(scene.device().npu(), Some(npu));
    }
    scene.driver.set("NAME", "NPU Medusa");
    let error = open().unwrap_err();
    assert!(matches!(&error, Error::Device(e) if e.runtime == Runtime::Xrt));
    assert!(error.to_string().contains("`NPU Medusa`"), "{error}");
    assert!(
        error
            .to_string()
            .contains("set NPU_RUNTIME_XRT_DEVICE to npu1 or npu2"),
        "{error}"
    );
}

#[test]
fn memory_that_there_is_not_is_an_error() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let error = device.buffer::<i32>(usize::MAX).unwrap_err();
    assert!(matches!(error, Error::Allocation { .. }), "{error}");
    scene.driver.set("MEMORY", "100000");
    let error = device.buffer::<i32>(100_000).unwrap_err();
    assert_eq!(
        error.to_string(),
        "xrt: allocating a buffer of 400000 bytes: failed to allocate a buffer of 400000 bytes: \
         Cannot allocate memory"
    );
    device.buffer::<i32>(0).unwrap();
}

#[test]
fn variables_are_not_for_this_runtime() {
    let scene = Scene::on("npu2");
    let error = scene
        .device()
        .variable::<i32>("scratch-pad-ctrl", 4)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("kernels on xrt have no external variables"),
        "{error}"
    );
}
