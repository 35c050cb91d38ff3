//! Figures of the hsaco formats: `cargo bench --bench hsaco`. Ends with 1 if one is missed.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use aie_tools::install::Installation;
use npu_formats::Arch;
use npu_formats::container::{Container, Elf64};
use npu_formats::dump::Dump;
use npu_formats::file::Bytes;
use npu_formats::full_elf::FullElf;
use npu_formats::pack::{Kernel, Unloadable, pack, section};
use npu_formats::spec::{Source, Spec};
use npu_formats::verdict::Agent;

const MIB: usize = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, flag, file] = arguments.as_slice()
        && flag == "--dump-and-tell-memory"
    {
        dump(Path::new(file));
        println!("{}", peak_memory());
        return ExitCode::SUCCESS;
    }
    let directory = tempfile::tempdir().unwrap();
    let is_good = [packing(directory.path()), dumping(directory.path())];
    if is_good.iter().all(|good| *good) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn verdict(is_good: bool) -> &'static str {
    if is_good { "ok" } else { "MISSED" }
}

/// The median of 21 runs.
fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..21)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

/// Packing from files to a file.
fn packing(directory: &Path) -> bool {
    let elf = full_elf(8, 4 * MIB);
    assert_eq!(FullElf::parse(&elf, Arch::Aie2p).unwrap().kernels.len(), 8);
    let (path, hsaco) = (directory.join("aie.elf"), directory.join("k.hsaco"));
    std::fs::write(&path, &elf).unwrap();
    let specs = [Spec {
        source: Source::Elf { path },
        kernarg_size: 0,
        columns: None,
    }];
    let fresh = median(|| {
        let _ = std::fs::remove_file(&hsaco);
        pack(&hsaco, Arch::Aie2p, &specs, Unloadable::Refuse).unwrap();
    });
    let again = median(|| {
        pack(&hsaco, Arch::Aie2p, &specs, Unloadable::Refuse).unwrap();
    });
    let written = median(|| {
        let _ = std::fs::remove_file(&hsaco);
        std::fs::write(&hsaco, &elf).unwrap();
    });
    let is_good = fresh <= Duration::from_millis(5);
    println!(
        "native pack of a 4 MiB full ELF with 8 kernels: {fresh:.2?} ({again:.2?} over an existing file; only writing as much takes {written:.2?}), limit 5 ms: {}",
        verdict(is_good)
    );
    is_good & beside_the_program(directory, &specs, &hsaco)
}

/// The same pack by aie-hsaco, whose double hands the section to the real llvm-objcopy as upstream's
/// does, alternating with the whole of ours.
fn beside_the_program(directory: &Path, specs: &[Spec], hsaco: &Path) -> bool {
    let tools = Installation::new(&directory.join("tools"), 3).unwrap();
    let theirs = directory.join("theirs.hsaco");
    let elf = directory.join("aie.elf");
    let mut program = Command::new(tools.tool("aie-hsaco"));
    program
        .env("PATH", tools.search_path())
        .args(["--arch", "aie2p", "--hsaco"])
        .arg(&theirs)
        .arg("--kernel-elf")
        .arg(&elf)
        .args(["--kernel-kernarg", "0", "--kernel-cols", "8"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_npu-build"));
    command
        .args(["hsaco", "pack", "--arch", "aie2p", "--hsaco"])
        .arg(hsaco)
        .arg("--kernel-elf")
        .arg(&elf)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let time = |run: &mut dyn FnMut()| {
        let _ = std::fs::remove_file(&theirs);
        let _ = std::fs::remove_file(hsaco);
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..21 {
        let packed = || {
            pack(hsaco, Arch::Aie2p, specs, Unloadable::Refuse).unwrap();
        };
        times[0].push(time(&mut { packed }));
        times[1].push(time(&mut || assert!(command.status().unwrap().success())));
        times[2].push(time(&mut || assert!(program.status().unwrap().success())));
    }
    // All three were made, the last two of them just now.
    assert!(command.status().unwrap().success());
    assert_eq!(
        section_of(hsaco),
        section_of(&theirs),
        "not the same section"
    );
    let [native, ours, theirs] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    let ratio = theirs.as_secs_f64() / native.as_secs_f64();
    println!(
        "the same by aie-hsaco with llvm-objcopy: {theirs:.2?}, {ratio:.0} times {native:.2?}, limit 20 times (as a whole command {ours:.2?}): {}",
        verdict(ratio >= 20.0)
    );
    ratio >= 20.0
}

/// The bytes of the section.
fn section_of(hsaco: &Path) -> Vec<u8> {
    let bytes = std::fs::read(hsaco).unwrap();
    let elf = Elf64::parse(&bytes).unwrap();
    elf.section(Arch::Aie2p).unwrap().unwrap().to_vec()
}

/// Dumping, against reading the same file.
fn dumping(directory: &Path) -> bool {
    let elf = full_elf(8, 100_000_000);
    let kernels = Kernel::of_elf(&elf, 0, None).unwrap();
    let (image, _) = section(Arch::Aie2p, &kernels, Unloadable::Refuse).unwrap();
    let file = directory.join("large.hsaco");
    let hsaco = Container::fresh(Arch::Aie2p, &image).to_vec().unwrap();
    let size = hsaco.len();
    std::fs::write(&file, hsaco).unwrap();
    let read = median(|| {
        black_box(std::fs::read(&file).unwrap());
    });
    let dumped = median(|| dump(&file));
    let output = Command::new(std::env::current_exe().unwrap())
        .arg("--dump-and-tell-memory")
        .arg(&file)
        .output()
        .unwrap();
    let memory: usize = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let is_good = dumped.as_secs_f64() <= 1.1 * read.as_secs_f64() && memory <= size + 16 * MIB;
    println!(
        "dump of a {} MB hsaco: {dumped:.2?}, reading it {read:.2?}, limit 1.1 times that; memory {:.1} MiB, limit {:.1} MiB: {}",
        size / 1_000_000,
        mib(memory),
        mib(size + 16 * MIB),
        verdict(is_good)
    );
    is_good
}

fn mib(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap()) / 1024.0
}

fn dump(file: &Path) {
    let bytes = Bytes::open(file).unwrap();
    let dump = Dump::of(&bytes, &Arch::ALL.map(Agent::of));
    assert_eq!(dump.errors(), Vec::<String>::new());
    black_box((dump.text(), serde_json::to_string(&dump).unwrap()));
}

/// The most memory that this process has had, mapped files included, in bytes.
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: usize = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kilobytes * 1024
}

/// A full ELF of about `size` bytes, built as aiebu-asm builds them: for each kernel a PDI, control
/// code with one PDI and two argument sites, and a group.
fn full_elf(kernels: u32, size: usize) -> Vec<u8> {
    let share = size / usize::try_from(kernels).unwrap();
    let mut elf = Builder::default();
    let (mut strings, mut symbols) = (vec![0], vec![0; 16]);
    let (mut dynamic_strings, mut dynamic, mut relocations) = (vec![0], vec![0; 16], Vec::new());
    let mut groups = Vec::new();
    for number in 0..kernels {
        let fill = u8::try_from(number + 1).unwrap();
        elf.add(&format!(".pdi.{number}"), 1, vec![fill; share / 2], [0; 3]);
        let control = elf.add(
            &format!(".ctrltext.{number}"),
            1,
            vec![fill; share / 2],
            [0; 3],
        );
        for (name, site, scheme) in [
            (format!(".pdi.{number}"), 0x18, 8),
            ("0".to_owned(), 0x30, 5),
            ("1".to_owned(), 0x90, 5),
        ] {
            let index = dynamic.len() / 16;
            symbol(&mut dynamic, name_in(&mut dynamic_strings, &name), control);
            words(
                &mut relocations,
                &[site, u32::try_from(index).unwrap() << 8 | scheme, 0],
            );
        }
        let kernel = u32::try_from(symbols.len() / 16).unwrap();
        let mangled = format!("_Z2k{number}PcPc");
        symbol(&mut symbols, name_in(&mut strings, &mangled), 0);
        symbol(&mut symbols, name_in(&mut strings, "sequence"), kernel);
        groups.push((kernel + 1, control));
    }
    let strings = elf.add(".strtab", 3, strings, [0; 3]);
    let symbols = elf.add(".symtab", 2, symbols, [strings, 1, 16]);
    let dynamic_strings = elf.add(".dynstr", 3, dynamic_strings, [0; 3]);
    let dynamic = elf.add(".dynsym", 11, dynamic, [dynamic_strings, 1, 16]);
    elf.add(".rela.dyn", 4, relocations, [dynamic, 0, 12]);
    for (instance, control) in groups {
        let mut data = Vec::new();
        words(&mut data, &[1, control]);
        elf.add(".group", 17, data, [symbols, instance, 4]);
    }
    let mut note = Vec::new();
    words(&mut note, &[4, 4, 6, u32::from_le_bytes(*b"XRT\0"), 8]);
    elf.add(".note.xrt.configuration", 7, note, [0; 3]);
    elf.finish()
}

fn words(bytes: &mut Vec<u8>, words: &[u32]) {
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

fn name_in(strings: &mut Vec<u8>, name: &str) -> u32 {
    let offset = u32::try_from(strings.len()).unwrap();
    strings.extend(name.bytes().chain([0]));
    offset
}

fn symbol(table: &mut Vec<u8>, name: u32, section: u32) {
    words(table, &[name, 0, 0, section << 16]);
}

#[derive(Default)]
struct Builder {
    names: Vec<u8>,
    data: Vec<u8>,
    headers: Vec<[u32; 10]>,
}

impl Builder {
    /// Adds a section with link, info and entry size; returns its index.
    fn add(&mut self, name: &str, kind: u32, data: Vec<u8>, rest: [u32; 3]) -> u32 {
        let [link, info, entry] = rest;
        let name = name_in(&mut self.names, name);
        let offset = u32::try_from(52 + self.data.len()).unwrap();
        let size = u32::try_from(data.len()).unwrap();
        self.data.extend(data);
        self.headers
            .push([name, kind, 0, 0, offset, size, link, info, 1, entry]);
        u32::try_from(self.headers.len()).unwrap()
    }

    fn finish(mut self) -> Vec<u8> {
        let names = name_in(&mut self.names, ".shstrtab");
        let table = std::mem::take(&mut self.names);
        let index = self.add("", 3, table, [0; 3]);
        self.headers.last_mut().unwrap()[0] = names;
        let mut file = b"\x7fELF\x01\x01\x01\x45\x21".to_vec();
        file.resize(16, 0);
        let headers = u32::try_from(52 + self.data.len()).unwrap();
        words(
            &mut file,
            &[2 | 1 << 16, 1, 0, 0, headers, 0, 52 | 32 << 16, 40 << 16],
        );
        words(&mut file, &[(index + 1) | index << 16]);
        file.extend(self.data);
        file.extend([0; 40]);
        for header in self.headers {
            words(&mut file, &header);
        }
        file
    }
}
