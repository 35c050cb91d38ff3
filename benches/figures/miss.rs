//! A miss beside its tools, run by hand.

use std::fs;
use std::path::Path;
use std::process::Command;

use npu_build::plan::Session;
use npu_build::step::{self, Step, Work};

use crate::measure::{alternate, run};
use crate::scene::{Scene, request};
use crate::table::Table;

/// What `npu-build` adds to its tools: `--refresh`, so that the toolchain is known and the kernel
/// is built all the same, beside the same three command lines in a directory with the same files.
pub fn miss(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "miss, over its tools run by hand";
    let kernel = scene.kernel("examples/kernels/vecadd.mlir");
    let request = request(kernel);
    if let Err(reason) = scene.build(&request) {
        return table.missing(FIGURE, reason);
    }
    let session: Session = scene.session();
    let step = session.first_steps(&request).unwrap().remove(0);
    let step = step.step();
    let by_hand = scene.path().join("by-hand");
    fs::create_dir_all(&by_hand).unwrap();
    for input in &step.inputs {
        fs::write(by_hand.join(&*input.name), input.read().unwrap()).unwrap();
    }
    let mut tools = commands(step, &by_hand);
    let mut ours = scene.npu_build(&["compile", "vecadd.mlir", "--target", "cpu", "--refresh"]);
    let (ours, theirs) = alternate(31, || run(&mut ours), || tools.iter_mut().for_each(run));
    let excess = ours.median_excess(&theirs) * 1e3;
    table.line(
        FIGURE,
        format!(
            "{:.1} ms and {:.1} ms, {excess:.1} ms more",
            ours.median() * 1e3,
            theirs.median() * 1e3
        ),
        excess,
        10.0,
        " ms",
    );
}

fn commands(step: &Step, directory: &Path) -> Vec<Command> {
    let Work::Commands(commands) = &step.work else {
        panic!("a compile step runs commands");
    };
    commands
        .iter()
        .map(|command| by_hand(command, step, directory))
        .collect()
}

fn by_hand(command: &step::Command, step: &Step, directory: &Path) -> Command {
    let invocation = command.invocation(step, directory);
    let mut by_hand = Command::new(&invocation.program);
    by_hand
        .args(&invocation.arguments)
        .current_dir(directory)
        .env_clear()
        .envs(invocation.environment);
    by_hand
}
