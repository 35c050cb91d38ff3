//! A hit inside a process that keeps its session, and what it is made of.

use npu_build::launcher;
use npu_build::plan::{Prepared, Session};
use npu_build::step::run::Runner;
use npu_build::step::{self, Keyed, Step};
use npu_build::store::{Outcome, StepResult};
use npu_build::{Build, Request};

use crate::measure::Times;
use crate::scene::{Scene, request, warn};
use crate::table::Table;

const BUILDS: usize = 4000;

/// A kernel of about 20 KB: its hit through [`Session::build`] again and again, and the first one
/// of a session.
pub fn hit(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "hit, in process";
    let request = request(scene.kernel("examples/kernels/softmax.mlir"));
    let build = match scene.build(&request) {
        Ok(build) => build,
        Err(reason) => return table.missing(FIGURE, reason),
    };
    let sizes: Vec<_> = build
        .artifacts()
        .map(|artifact| artifact.size.to_string())
        .collect();
    again(
        scene,
        &request,
        &format!("{} bytes", sizes.join(" + ")),
        table,
    );
    first(scene, &request, table);
}

/// The session knows the kernel: everything is read and compared, nothing is worked out.
fn again(scene: &Scene, request: &Request, sizes: &str, table: &mut Table) {
    let session = scene.session();
    let plan = Plan::new(&session, request);
    let [mut whole, mut tools, mut compiled, mut launched] = <[Times; 4]>::default();
    for _ in 0..BUILDS {
        expect_hit(&whole.time(|| session.build(request, &warn)).unwrap());
        tools.time(|| session.llvm()).unwrap();
        compiled.time(|| ensure(&session, &plan.compile));
        launched.time(|| ensure(&session, &plan.launcher));
    }
    let total = whole.median() * 1e6;
    let measured = format!("{total:.1} µs, {sizes}");
    table.line("hit, in process", measured, total, 30.0, " µs");
    let parts = [
        ("stat the toolchain", tools),
        ("read and compare the compiled entry", compiled),
        ("read and compare the launcher's entry", launched),
    ];
    let mut rest = total;
    for (name, times) in parts {
        rest -= times.median() * 1e6;
        table.part(name, format!("{:.1} µs", times.median() * 1e6));
    }
    table.part(
        "read and compare the MLIR; the rest",
        format!("{rest:.1} µs"),
    );
}

/// The session is new.
fn first(scene: &Scene, request: &Request, table: &mut Table) {
    let [
        mut open,
        mut whole,
        mut prepare,
        mut tools,
        mut step,
        mut key,
    ] = <[Times; 6]>::default();
    let [mut compiled, mut plan, mut launched] = <[Times; 3]>::default();
    for _ in 0..BUILDS / 4 {
        let session = open.time(|| scene.session());
        expect_hit(&whole.time(|| session.build(request, &warn)).unwrap());
        let session = scene.session();
        let prepared = prepare.time(|| Prepared::new(request)).unwrap();
        tools.time(|| session.llvm()).unwrap();
        let compile = step
            .time(|| session.first_steps(request))
            .unwrap()
            .remove(0);
        let compile = key.time(|| Keyed::from(compile.step().clone()));
        let ensured = compiled.time(|| ensure(&session, &compile));
        let launcher = plan.time(|| launcher(&prepared, compile.step(), &ensured));
        launched.time(|| ensure(&session, &launcher));
    }
    let show = |times: &Times| format!("{:.1} µs", times.median() * 1e6);
    table.part("the first of a session", show(&whole));
    for (name, times) in [
        ("  settings and session, before it", open),
        ("  read, scan, canonicalise the MLIR", prepare),
        ("  read the memo, stat the toolchain", tools),
        ("  the same again, and the compile step", step),
        ("  its key", key),
        ("  read and digest its entry", compiled),
        ("  plan the launcher step, its key", plan),
        ("  read and digest its entry", launched),
    ] {
        table.part(name, show(&times));
    }
}

fn expect_hit(build: &Build) {
    assert_eq!(*build.outcome(), Outcome::Hit);
}

fn ensure(session: &Session, step: &Keyed) -> StepResult {
    let runner = Runner::default();
    let ensured = session.store().ensure(step, false, &runner, &warn).unwrap();
    assert_eq!(ensured.outcome, Outcome::Hit);
    ensured
}

/// The steps that `Session::build` goes through.
struct Plan {
    compile: Keyed,
    launcher: Keyed,
}

impl Plan {
    fn new(session: &Session, request: &Request) -> Self {
        let prepared = Prepared::new(request).unwrap();
        let compile = session
            .first_steps(request)
            .unwrap()
            .remove(0)
            .step()
            .clone()
            .into();
        let compiled = ensure(session, &compile);
        let launcher = launcher(&prepared, compile.step(), &compiled);
        Self { compile, launcher }
    }
}

fn launcher(prepared: &Prepared, compile: &Step, compiled: &StepResult) -> Keyed {
    let artifact = &compiled.artifacts[0];
    let kernels = prepared.understood.kernels.iter();
    let kernels = kernels.map(|kernel| launcher::Kernel {
        signature: kernel.signature.clone(),
        images: vec![launcher::Image::Object {
            object: launcher::Artifact {
                file: launcher::artifact_file_name(&kernel.signature.name, &artifact.digest, "so"),
                digest: artifact.digest,
            },
        }],
    });
    let request = launcher::Request {
        kernels: kernels.collect(),
        locate: launcher::Locate::Embed,
        runtime_crate: launcher::runtime_crate(),
    };
    let step = step::launcher::launcher(&compile.subject, compile.target, &request);
    step.unwrap().into()
}
