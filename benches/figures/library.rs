//! A hit inside a process that keeps its session, and what it is made of.

use npu_build::config::{Environment, Layer, Settings};
use npu_build::interrupt::Interrupt;
use npu_build::launcher;
use npu_build::plan::{Prepared, Session};
use npu_build::step::run::Runner;
use npu_build::step::{self, Step};
use npu_build::store::{Ensured, Outcome};

use crate::measure::Times;
use crate::scene::{Scene, request, warn};
use crate::table::Table;

const BUILDS: usize = 4000;

/// A hit through [`Session::build`], then its parts through the functions that it calls.
pub fn hit(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "hit, in process";
    let request = request(scene.kernel("examples/kernels/softmax.mlir"));
    if let Err(reason) = scene.build(&request) {
        return table.missing(FIGURE, reason);
    }
    let session = scene.session();
    let mut whole = Times::default();
    let (mut stat, mut configure, mut open) = <(Times, Times, Times)>::default();
    let mut parts = Parts::default();
    for _ in 0..BUILDS {
        let build = whole.time(|| session.build(&request, &warn)).unwrap();
        assert_eq!(*build.outcome(), Outcome::Hit);
        parts.build(&session, &request);
        let settings = configure.time(|| settings(scene));
        open.time(|| Session::new(settings, Interrupt::default(), &warn))
            .unwrap();
        stat.time(|| std::fs::metadata(scene.path())).unwrap();
    }
    let sizes = parts.sizes;
    let whole = whole.median() * 1e6;
    table.line(
        FIGURE,
        format!("{whole:.1} µs, {} B + {} B verified", sizes[0], sizes[1]),
        whole,
        60.0,
        " µs",
    );
    for (name, times) in parts.times() {
        table.part(name, format!("{:.1} µs", times.median() * 1e6));
    }
    for (name, times) in [
        ("for comparison: one stat", &stat),
        ("before it, once: settings", &configure),
        ("before it, once: opening the session", &open),
    ] {
        table.part(name, format!("{:.1} µs", times.median() * 1e6));
    }
}

fn settings(scene: &Scene) -> Settings {
    let flags = Layer {
        cache_dir: Some(scene.path().join("cache")),
        ..Layer::default()
    };
    Settings::load(flags, &Environment::of_process(), scene.path()).unwrap()
}

#[derive(Default)]
struct Parts {
    prepare: Times,
    tools: Times,
    step: Times,
    key: Times,
    compiled: Times,
    launcher: Times,
    launcher_key: Times,
    launched: Times,
    sizes: [u64; 2],
}

impl Parts {
    /// The same as `Session::build`, in pieces.
    fn build(&mut self, session: &Session, request: &npu_build::Request) {
        let prepared = self.prepare.time(|| Prepared::new(request)).unwrap();
        self.tools.time(|| session.llvm()).unwrap();
        let compile = self
            .step
            .time(|| session.compile_step(&prepared, request))
            .unwrap();
        self.key.time(|| compile.material().key());
        let runner = Runner::default();
        let ensure = |step: &Step| session.store().ensure(step, false, &runner, &warn).unwrap();
        let compiled = self.compiled.time(|| ensure(&compile));
        let step = self
            .launcher
            .time(|| launcher(&prepared, &compile, &compiled));
        self.launcher_key.time(|| step.material().key());
        let launched = self.launched.time(|| ensure(&step));
        self.sizes = [&compiled, &launched].map(|ensured| {
            assert_eq!(ensured.outcome, Outcome::Hit);
            ensured.artifacts.iter().map(|artifact| artifact.size).sum()
        });
    }

    fn times(&self) -> [(&'static str, &Times); 8] {
        [
            ("read, scan, canonicalise the MLIR", &self.prepare),
            ("check the toolchain", &self.tools),
            ("compile step, toolchain check included", &self.step),
            ("its key", &self.key),
            ("ensure it: key again, verify", &self.compiled),
            ("launcher step", &self.launcher),
            ("its key", &self.launcher_key),
            ("ensure it: key again, verify", &self.launched),
        ]
    }
}

fn launcher(prepared: &Prepared, compile: &Step, compiled: &Ensured) -> Step {
    let artifact = &compiled.artifacts[0];
    let kernels = prepared
        .understood
        .kernels
        .iter()
        .map(|kernel| launcher::Kernel {
            signature: kernel.signature.clone(),
            target: compile.target.to_owned(),
            key: compiled.key,
            artifact: launcher::Artifact {
                file: launcher::artifact_file_name(&kernel.signature.name, &artifact.digest, "so"),
                digest: artifact.digest,
            },
        });
    let request = launcher::Request {
        kernels: kernels.collect(),
        locate: launcher::Locate::Embed,
    };
    step::launcher::launcher(&compile.subject, compile.target, &request).unwrap()
}
