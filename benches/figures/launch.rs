//! What a launch costs beside the kernel: as generated launchers do it, through `Kernel::launch`.

use std::ffi::c_void;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use libloading::{Library, Symbol};
use npu_build::{Build, Direction};
use npu_runtime::{Arg, Buffer, Device, Grid, Kernel, Runtime};

use crate::measure::{Times, alternate, run};
use crate::scene::{Scene, request};
use crate::table::Table;

fn load(build: &Build) -> (Device, Kernel) {
    let device = Device::open(Runtime::Cpu).unwrap();
    let kernel = build.load(&device, &build.kernels[0]).unwrap();
    (device, kernel)
}

/// An empty kernel with three buffers, one program.
pub fn overhead(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "launch, empty kernel, 3 buffers";
    const LAUNCHES: u32 = 10_000;
    let mut request = request(scene.kernel("benches/figures/empty.mlir"));
    request.options.args.push(("c".to_owned(), Direction::Out));
    let build = match scene.build(&request) {
        Ok(build) => build,
        Err(reason) => return table.missing(FIGURE, reason),
    };
    let (device, kernel) = load(&build);
    let a = device.buffer::<f32>(16).unwrap();
    let b = device.buffer::<f32>(16).unwrap();
    let mut c = device.buffer::<f32>(16).unwrap();
    let mut times = Times::default();
    for _ in 0..200 {
        times.time(|| {
            for _ in 0..LAUNCHES {
                let args = &mut [
                    Arg::input(black_box(&a)),
                    Arg::input(black_box(&b)),
                    Arg::output(black_box(&mut c)),
                ];
                kernel.launch(black_box(Grid::ONE), args).unwrap();
            }
        });
    }
    let launch = times.median() * 1e9 / f64::from(LAUNCHES);
    table.line(FIGURE, format!("{launch:.0} ns"), launch, 200.0, " ns");
}

/// A kernel that works, beside the same shared object called from C on the same memory.
pub fn matmul(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "matmul f32 1024x1024 / called from C";
    const ELEMENTS: usize = 1024 * 1024;
    let request = request(scene.kernel("examples/kernels/matmul_f32.mlir"));
    let build = match scene.build(&request) {
        Ok(build) => build,
        Err(reason) => return table.missing(FIGURE, reason),
    };
    let (device, kernel) = load(&build);
    let caller = Caller::new(scene, &build);
    let buffer = |seed: f32| {
        let mut buffer: Buffer<f32> = device.buffer(ELEMENTS).unwrap();
        let mut value = seed;
        buffer.iter_mut().for_each(|element| {
            value = (value * 7.31).fract();
            *element = value;
        });
        buffer
    };
    let (a, b) = (buffer(0.37), buffer(0.73));
    let mut c: Buffer<f32> = device.buffer(ELEMENTS).unwrap();
    let address = c.as_mut_ptr();
    let (ours, theirs) = alternate(
        21,
        || {
            let args = &mut [Arg::input(&a), Arg::input(&b), Arg::output(&mut c)];
            kernel.launch(Grid::ONE, args).unwrap();
        },
        // SAFETY: the kernel takes three matrices of this size; nobody else uses `c` now.
        || unsafe { caller.run(a.as_ptr(), b.as_ptr(), address) },
    );
    let (ours, theirs) = (ours.median() * 1e3, theirs.median() * 1e3);
    table.line(
        FIGURE,
        format!("{ours:.1} ms / {theirs:.1} ms = {:.3}", ours / theirs),
        ours / theirs,
        1.02,
        "",
    );
}

/// The C side, `call.c`, with the kernel's object opened.
struct Caller(Library);

impl Caller {
    fn new(scene: &Scene, build: &Build) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/figures/call.c");
        let library = scene.path().join("call.so");
        let clang = &scene.session().llvm().unwrap().clang.path.clone();
        run(Command::new(clang)
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(source));
        let mut path = build.kernels[0].files[0]
            .1
            .path
            .as_os_str()
            .as_bytes()
            .to_vec();
        path.push(0);
        // SAFETY: our own library has no constructors, and `open` takes a path that ends in 0.
        unsafe {
            let library = Library::new(library).unwrap();
            let open: Symbol<'_, unsafe extern "C" fn(*const u8) -> i32> =
                library.get(b"open_kernel").unwrap();
            assert_eq!(open(path.as_ptr()), 0, "the C side can't open the kernel");
            Self(library)
        }
    }

    /// # Safety
    /// The pointers must be what the opened kernel takes.
    unsafe fn run(&self, a: *const f32, b: *const f32, c: *mut f32) {
        type Run = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void);
        // SAFETY: `call.c` defines the function with these parameters; the rest is the caller's.
        unsafe {
            let run: Symbol<'_, Run> = self.0.get(b"run_kernel").unwrap();
            run(a.cast(), b.cast(), c.cast());
        }
    }
}
