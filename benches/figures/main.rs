//! The project's figures, measured side by side with their peers: `cargo bench --bench figures`,
//! or a part of them by name, `cargo bench --bench figures -- hit launch`.
//!
//! Every figure is a median. What is compared runs alternately in one loop, so that whatever else
//! the machine does hits both. A figure over its limit is printed as such; it fails nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that can't go on stops"
)]

mod command;
mod launch;
mod library;
mod measure;
mod miss;
mod npu;
mod numpy;
mod scale;
mod scene;
mod table;

use scene::Scene;
use table::Table;

/// Measures one thing in a scene, and adds its lines to the table.
type Measure = fn(&Scene, &mut Table);

/// What is measured, by the name that asks for it.
const FIGURES: &[(&str, Measure)] = &[
    ("hit", command::hit),
    ("npu", npu::hit),
    ("library", library::hit),
    ("miss", miss::miss),
    ("launch", launch::overhead),
    ("matmul", launch::matmul),
    ("numpy", numpy::beside_numpy),
    ("memory", command::memory),
    ("start", command::start),
    ("sccache", command::sccache),
    ("scale", scale::scale),
];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [flag, command @ ..] = &*arguments
        && flag == measure::PEAK
    {
        return measure::print_peak(command);
    }
    // Cargo adds flags of its own, such as --bench.
    let wanted: Vec<_> = (arguments.iter().map(String::as_str))
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for name in &wanted {
        if FIGURES.iter().all(|(known, _)| known != name) {
            let known: Vec<_> = FIGURES.iter().map(|(name, _)| *name).collect();
            panic!(
                "there is no figure '{name}'; there are {}",
                known.join(", ")
            );
        }
    }
    let scene = Scene::new();
    let mut table = Table::new();
    for (name, measure) in FIGURES {
        if wanted.is_empty() || wanted.contains(name) {
            measure(&scene, &mut table);
        }
    }
}
