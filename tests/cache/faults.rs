//! Every file-system call of the store goes wrong once, in every way; and processes are killed at
//! random calls while others go on.
//!
//! After each: what was delivered is right or the failure is clear, the next run is right, nothing
//! that does not verify is served, no lock is held, and nothing is left for good. By default a sample
//! is tried. The long form, with its counts:
//!
//! ```sh
//! NPU_BUILD_FAULT_STRIDE=1 NPU_BUILD_KILL_POINTS=2000 cargo test --test cache faults -- --nocapture
//! ```
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::common::{Outcome, Scene, faulty};
use crate::{below, contents, lock};

/// How a call goes wrong: in words, what it gives, which calls can (empty is all), and whether all
/// calls from the one on go wrong, as on a full disk.
#[derive(Clone, Copy, Debug)]
struct Fault(&'static str, &'static str, &'static str, bool);

const WRITING: &str = "open64,openat64,write,mkdir,rename,unlink,unlinkat,rmdir,fchmod,chmod,ftruncate64,futimens,symlink,copy_file_range";
const OPENING: &str = "open64,openat,openat64,openat2,opendir,fdopendir";

/// The numbers are those of Linux on every architecture that Rust knows, but for a few old ones.
const FAULTS: &[Fault] = &[
    Fault("kill", "kill", "", false),
    Fault("EIO", "5", "", false),
    Fault("EIO for good", "5", WRITING, true),
    Fault("EACCES", "13", "", false),
    Fault("EMFILE", "24", OPENING, false),
    Fault("ENOSPC", "28", WRITING, false),
    Fault("ENOSPC for good", "28", WRITING, true),
    Fault("EDQUOT for good", "122", WRITING, true),
    Fault("EROFS for good", "30", WRITING, true),
    Fault("EINTR", "4", "open64,openat64,read,write,flock", false),
    Fault("ENOSYS", "38", "flock,openat2,copy_file_range", false),
    Fault("no locks", "38", "flock", true),
    Fault("EXDEV", "18", "rename", false),
    Fault("short", "short", "read,write", false),
];

/// What is done while a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Cold,
    Hit,
    Repair,
    Refresh,
    Clean,
    Verify,
    Clear,
}

const DEEDS: [Deed; 7] = [
    Deed::Cold,
    Deed::Hit,
    Deed::Repair,
    Deed::Refresh,
    Deed::Clean,
    Deed::Verify,
    Deed::Clear,
];

const KERNEL: &str = "vecadd.mlir";
const OTHER: &str = "fma.mlir";

impl Deed {
    fn arguments(self, kernel: &str) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Cold | Self::Hit | Self::Repair => &["compile", kernel, "--target", "cpu"],
            Self::Refresh => &["compile", kernel, "--target", "cpu", "--refresh"],
            Self::Clean => &["cache", "gc", "--max-entries", "1"],
            Self::Verify => &["cache", "verify", "--repair"],
            Self::Clear => &["cache", "clear", "--kernel", "vecadd"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn compiles(self) -> bool {
        !matches!(self, Self::Clean | Self::Verify | Self::Clear)
    }
}

/// A scene, the cache as it is after a build, and what is right.
struct Stage {
    scene: Scene,
    pristine: PathBuf,
    right: Vec<Vec<u8>>,
}

impl Stage {
    fn new() -> Self {
        let scene = Scene::replayed();
        scene.kernel(KERNEL);
        scene.kernel(OTHER);
        // Where builds go on when the cache can't be written.
        fs::create_dir(scene.path().join("tmp")).unwrap();
        let right = contents(&scene.compile(Path::new(KERNEL)));
        scene.compile(Path::new(OTHER)).paths();
        let pristine = scene.path().join("pristine");
        fs::rename(&scene.cache, &pristine).unwrap();
        Self {
            scene,
            pristine,
            right,
        }
    }

    /// The cache as the deed wants to find it.
    fn set(&self, deed: Deed) {
        let _ = fs::remove_dir_all(&self.scene.cache);
        if deed == Deed::Cold {
            return;
        }
        let copied = Command::new("cp")
            .arg("-a")
            .args([&self.pristine, &self.scene.cache])
            .status();
        assert!(copied.unwrap().success());
        if matches!(deed, Deed::Repair | Deed::Verify) {
            damage(&self.scene);
        }
    }

    /// The program, with `fault` at the given one of its calls.
    fn program(&self, fault: &Fault, at: usize) -> Command {
        let Fault(_, action, calls, always) = fault;
        let mut command = self.scene.npu_build();
        command
            .env("LD_PRELOAD", faulty())
            .env("TMPDIR", self.scene.path().join("tmp"))
            .env("FAULTY_FS_UNDER", &self.scene.cache)
            .env("FAULTY_FS_AT", at.to_string())
            .env("FAULTY_FS_ACTION", action);
        if !calls.is_empty() {
            command.env("FAULTY_FS_CALLS", calls);
        }
        if *always {
            command.env("FAULTY_FS_ALWAYS", "1");
        }
        command
    }

    /// How many calls there are for a fault to hit.
    fn count(&self, deed: Deed, fault: &Fault) -> usize {
        self.set(deed);
        let report = self.scene.path().join("report");
        let _ = fs::remove_file(&report);
        let mut command = self.program(fault, 0);
        command
            .env("FAULTY_FS_REPORT", &report)
            .args(deed.arguments(KERNEL));
        let told = Outcome(command.output().unwrap());
        assert_eq!(told.code(), 0, "{told:?}");
        fs::read_to_string(report).unwrap().trim().parse().unwrap()
    }

    /// Whether all is as it must be after `told`, which may have ended in any way.
    fn check(&self, deed: Deed, told: &Outcome, case: &str) {
        let is_killed = told.0.status.signal() == Some(9);
        let stderr = told.stderr();
        assert!(!stderr.contains("panicked"), "{case}: {told:?}");
        match told.0.status.code() {
            Some(0) if deed.compiles() => {
                assert_eq!(contents(told), self.right, "{case}: {told:?}")
            }
            Some(0) => {}
            // What is wrong is said.
            Some(code) => {
                assert!([1, 4].contains(&code), "{case}: {told:?}");
                let is_told = stderr.contains("error: ") || deed == Deed::Verify;
                assert!(is_told, "{case}: {told:?}");
            }
            None => assert!(is_killed, "{case}: {told:?}"),
        }
        self.is_right(case);
    }

    /// Whether the cache serves and builds what is right, and holds nothing else.
    fn is_right(&self, case: &str) {
        let next = self.scene.compile(Path::new(KERNEL));
        assert_eq!(
            contents(&next),
            self.right,
            "{case}, the next run: {next:?}"
        );
        assert!(
            !next.stderr().contains("can't"),
            "{case}, the next run: {next:?}"
        );
        let again = self.scene.compile(Path::new(KERNEL));
        assert!(
            again.stderr().starts_with("hit: "),
            "{case}, the one after: {again:?}"
        );
        let v1 = self.scene.cache.join("v1");
        for path in files(&v1.join("locks")).iter().chain([&v1.join("lock")]) {
            assert!(lock(path).is_some(), "{case}: {} is held", path.display());
        }
        self.is_clean(case);
    }

    /// Whether what a dead process left goes, when enough time has passed.
    fn is_clean(&self, case: &str) {
        let v1 = self.scene.cache.join("v1");
        let old = SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60);
        for directory in ["work", "tools", "statistics", "kernels"] {
            for path in walkdir::WalkDir::new(v1.join(directory)).contents_first(true) {
                let file = File::open(path.unwrap().path()).unwrap();
                file.set_modified(old).unwrap();
            }
        }
        let repaired = self.scene.run(&["cache", "verify", "--repair"]);
        assert_eq!(repaired.code(), 0, "{case}: {repaired:?}");
        let cleaned = self.scene.run(&["cache", "gc"]);
        assert_eq!(cleaned.code(), 0, "{case}: {cleaned:?}");
        let sound = self.scene.run(&["cache", "verify"]);
        assert!(sound.stderr().contains("all is well"), "{case}: {sound:?}");
        assert_eq!(self.scene.leftovers(), [""; 0].map(PathBuf::from), "{case}");
        for file in files(&v1) {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(
                !name.starts_with(".tmp"),
                "{case}: {} is left",
                file.display()
            );
        }
    }
}

/// Damages the artifacts, unless a process at work quarantines or replaces them just now.
fn damage(scene: &Scene) {
    for object in files(&scene.cache.join("v1/entries")) {
        if object.ends_with("kernel.so") {
            let damaged = fs::remove_file(&object).and_then(|()| fs::write(&object, "damaged"));
            match damaged {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                damaged => damaged.unwrap(),
            }
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files = below(directory);
    files.retain(|file| file.is_file());
    files
}

/// Every how many calls one is tried.
fn stride() -> u64 {
    number("NPU_BUILD_FAULT_STRIDE", 61)
}

fn every_call_goes_wrong(deed: Deed) {
    let stage = Stage::new();
    let mut tried = BTreeMap::new();
    let mut number = 0;
    for fault in FAULTS {
        let calls = stage.count(deed, fault);
        for at in 1..=calls {
            number += 1;
            if number % stride() != 0 {
                continue;
            }
            let case = format!("{} at call {at} of {deed:?}", fault.0);
            stage.set(deed);
            let mut command = stage.program(fault, at);
            let told = Outcome(command.args(deed.arguments(KERNEL)).output().unwrap());
            stage.check(deed, &told, &case);
            let ended = match told.0.status.code() {
                Some(0) => "delivered",
                Some(_) => "failed clearly",
                None => "killed",
            };
            *tried.entry((fault.0, ended)).or_insert(0) += 1;
            let _ = fs::remove_dir_all(stage.scene.path().join("tmp"));
            fs::create_dir(stage.scene.path().join("tmp")).unwrap();
        }
    }
    println!("{deed:?}: {tried:?}");
    assert!(!tried.is_empty() || stride() > 1);
}

/// A test for each deed, so that they run at once.
macro_rules! every_call_may_go_wrong {
    ($($name:ident $deed:ident)*) => {
        $(#[test] fn $name() { every_call_goes_wrong(Deed::$deed); })*
    };
}

every_call_may_go_wrong! {
    every_call_of_a_cold_build_may_go_wrong Cold
    every_call_of_a_hit_may_go_wrong Hit
    every_call_of_a_repair_may_go_wrong Repair
    every_call_of_a_refresh_may_go_wrong Refresh
    every_call_of_cleaning_may_go_wrong Clean
    every_call_of_verifying_may_go_wrong Verify
    every_call_of_clearing_may_go_wrong Clear
}

/// Numbers that look random, the same ones for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*, by Marsaglia and Vigna.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % bound
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn processes_that_are_killed_anywhere_harm_nobody() {
    const AT_ONCE: usize = 4;
    let points = number("NPU_BUILD_KILL_POINTS", 60);
    let seed = number("NPU_BUILD_SEED", 1_795_984_717);
    let stage = Stage::new();
    let kill = FAULTS[0];
    let calls: Vec<_> = DEEDS.iter().map(|deed| stage.count(*deed, &kill)).collect();
    stage.set(Deed::Hit);
    let mut random = Random(seed);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let (mut killed, mut rounds, mut delivered) = (0, 0, 0);
    while killed < points {
        let children: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let chosen = random.below(DEEDS.len());
                let deed = DEEDS[chosen];
                match deed {
                    Deed::Repair => damage(&stage.scene),
                    Deed::Cold => {
                        let entries = stage.scene.cache.join("v1/entries");
                        for shard in fs::read_dir(entries).into_iter().flatten().flatten() {
                            // Others are at it, and what is gone is gone.
                            let _ = fs::remove_dir_all(shard.path());
                        }
                    }
                    _ => {}
                }
                let kernel = if random.below(2) == 0 { KERNEL } else { OTHER };
                // Some come to their end.
                let at = 1 + random.below(calls[chosen] * 3 / 2);
                let mut command = stage.program(&kill, at);
                command.args(deed.arguments(kernel));
                let child = command
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn();
                (deed, at, child.unwrap())
            })
            .collect();
        for (deed, at, child) in children {
            let told = Outcome(child.wait_with_output().unwrap());
            let case = format!("round {rounds}, seed {seed}, {deed:?} killed at {at}");
            assert!(!told.stderr().contains("panicked"), "{case}: {told:?}");
            match told.0.status.code() {
                None => {
                    assert_eq!(told.0.status.signal(), Some(9), "{case}: {told:?}");
                    killed += 1;
                    *counts.entry(format!("{deed:?} killed")).or_default() += 1;
                }
                Some(0) => {
                    delivered += 1;
                    *counts.entry(format!("{deed:?} finished")).or_default() += 1;
                }
                // Somebody damages entries all the time.
                Some(1) if deed == Deed::Verify => {}
                Some(_) => panic!("{case}: {told:?}"),
            }
        }
        rounds += 1;
        for kernel in [KERNEL, OTHER] {
            let next = stage.scene.compile(Path::new(kernel));
            assert_eq!(
                contents(&next)[0],
                stage.right[0],
                "round {rounds}, seed {seed}: {next:?}"
            );
            assert!(
                !next.stderr().contains("can't"),
                "round {rounds}, seed {seed}: {next:?}"
            );
        }
        if rounds % 25 == 0 {
            stage.is_right(&format!("round {rounds}, seed {seed}"));
        }
    }
    stage.is_right(&format!("the end, seed {seed}"));
    println!(
        "{killed} processes killed in {rounds} rounds of {AT_ONCE} at once, {delivered} finished: {counts:?}"
    );
}
