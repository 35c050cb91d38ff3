//! A cache with a hundred thousand entries: what it costs a hit, and how fast it is gone through.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use npu_build::step::material::Value;
use npu_build::store::layout::{Layout, MANIFEST};
use npu_build::store::manifest::Manifest;

use crate::measure::{Times, alternate, peak_memory, run};
use crate::scene::Scene;
use crate::table::Table;

const FEW: usize = 10;
const MANY: usize = 100_000;
const PAIRS: usize = 200;

/// All figures of scale.
pub fn scale(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "hit among 100000 entries / among 10";
    scene.kernel("examples/kernels/vecadd.mlir");
    // Caches of their own: what other figures built has its size, and its age.
    let (small, large) = (scene.path().join("small"), scene.path().join("large"));
    let in_cache = |cache: &Path, arguments: &[&str]| {
        let mut command = scene.npu_build(arguments);
        command.env("NPU_BUILD_CACHE_DIR", cache);
        command
    };
    let compile = ["compile", "vecadd.mlir", "--target", "cpu"];
    let built = in_cache(&small, &compile).output().unwrap();
    if !built.status.success() {
        return table.missing(FIGURE, String::from_utf8_lossy(&built.stderr));
    }
    run(Command::new("cp").arg("-a").args([&small, &large]));
    fill(&small, FEW);
    fill(&large, MANY);
    let (mut ours, mut theirs) = (in_cache(&large, &compile), in_cache(&small, &compile));
    let (among_many, among_few) = alternate(PAIRS, || run(&mut ours), || run(&mut theirs));
    let (many, few) = (among_many.median() * 1e3, among_few.median() * 1e3);
    let measured = format!("{many:.2} ms / {few:.2} ms = {:.2}", many / few);
    table.line(FIGURE, measured, many / few, 1.2, "");
    for (name, arguments, limit) in [
        ("list", &["cache", "list"][..], 2.0),
        ("stats", &["cache", "stats"], 2.0),
        ("gc, nothing to do", &["cache", "gc"], 10.0),
    ] {
        let mut times = Times::default();
        for _ in 0..3 {
            times.time(|| run(&mut in_cache(&large, arguments)));
        }
        let seconds = times.median();
        let memory = peak_memory(&in_cache(&large, arguments)) / 1024.0;
        let measured = format!("{seconds:.2} s, {memory:.0} MiB");
        table.line(
            &format!("{name}, 100000 entries"),
            measured,
            seconds,
            limit,
            " s",
        );
    }
    verify(scene, &small, table);
    assert_eq!(walkdir(&entries(&large)).len(), MANY);
    collect(
        &in_cache(&large, &["cache", "gc", "--max-entries", "50000"]),
        table,
    );
    assert!(walkdir(&entries(&large)).len() <= MANY / 2);
}

fn entries(cache: &Path) -> PathBuf {
    Layout::new(cache.to_owned()).entries()
}

/// Half of the entries go.
fn collect(command: &Command, table: &mut Table) {
    let started = Instant::now();
    let memory = peak_memory(command) / 1024.0;
    let seconds = started.elapsed().as_secs_f64();
    let measured = format!("{seconds:.2} s, {memory:.0} MiB");
    table.line(
        "gc, 50000 of 100000 entries go",
        measured,
        seconds,
        10.0,
        " s",
    );
}

/// Verification beside `sha256sum` over the same files, one thread each.
fn verify(scene: &Scene, small: &Path, table: &mut Table) {
    const ENTRIES: usize = 4000;
    let cache = scene.path().join("verified");
    run(Command::new("cp").arg("-a").args([small, &cache]));
    fill(&cache, ENTRIES);
    let mut ours = scene.npu_build(&["cache", "verify", "-j", "1"]);
    ours.env("NPU_BUILD_CACHE_DIR", &cache)
        .stdout(Stdio::null());
    let entries = entries(&cache);
    let line = format!(
        "find {} -type f -print0 | xargs -0 sha256sum > /dev/null",
        entries.display()
    );
    let mut theirs = scene.command("/bin/sh");
    theirs.args(["-c", &line]);
    let (ours, theirs) = alternate(9, || run(&mut ours), || run(&mut theirs));
    let (ours, theirs) = (ours.median() * 1e3, theirs.median() * 1e3);
    // 70 % of the speed is 1 / 0.7 of the time.
    let measured = format!("{ours:.0} ms / {theirs:.0} ms = {:.2}", ours / theirs);
    table.line(
        "verify, one thread / sha256sum",
        measured,
        ours / theirs,
        1.43,
        "",
    );
}

/// Adds entries to a cache until there are `count`: copies of those that are there, each with a
/// kernel and a key of its own.
fn fill(cache: &Path, count: usize) {
    let layout = Layout::new(cache.to_owned());
    let manifests = walkdir(&layout.entries());
    for number in manifests.len()..count {
        let (path, manifest) = &manifests[number % manifests.len()];
        let mut manifest = manifest.clone();
        manifest.head.kernel = format!("kernel{number}");
        let number = Value::Text(number.to_string());
        manifest.record.material.push("number", number);
        manifest.head.key = manifest.record.material.key();
        let place = layout.entry(&manifest.head.key);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(MANIFEST), manifest.to_text().unwrap()).unwrap();
        for artifact in &manifest.head.artifacts {
            // Other names of a few files, or this would be gigabytes.
            fs::hard_link(path.join(&artifact.name), place.join(&artifact.name))
                .or_else(|_| {
                    fs::copy(path.join(&artifact.name), place.join(&artifact.name)).map(drop)
                })
                .unwrap();
        }
    }
}

/// The entries of a cache: their directories and manifests.
fn walkdir(entries: &Path) -> Vec<(PathBuf, Manifest)> {
    let shards = fs::read_dir(entries).unwrap().flatten();
    let entries = shards.flat_map(|shard| fs::read_dir(shard.path()).unwrap().flatten());
    let manifests = entries.map(|entry| {
        let text = fs::read(entry.path().join(MANIFEST)).unwrap();
        (entry.path(), Manifest::parse(&text).unwrap())
    });
    manifests.collect()
}
