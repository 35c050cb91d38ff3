//! Code objects for tests: real ones, made ones, and any bytes in a section.

use std::path::{Path, PathBuf};
use std::process::Command;

use aie_tools::install::Installation;
use tempfile::TempDir;

/// A file of the real artifacts.
pub fn real(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/aie")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A kernel of a section.
#[derive(Clone)]
pub struct Kernel {
    pub name: String,
    pub insts: Vec<u8>,
    pub pdi: Vec<u8>,
    pub kernarg_size: u32,
    pub columns: u32,
    pub kind: u32,
}

/// A kernel that nobody knows to do anything, with the PDI that tells it from others.
pub fn stream(name: &str, pdi: &[u8]) -> Kernel {
    Kernel {
        name: name.to_owned(),
        insts: vec![0; 8],
        pdi: pdi.to_vec(),
        kernarg_size: 32,
        columns: 4,
        kind: 0,
    }
}

/// A kernel of a full ELF.
pub fn full_elf(name: &str, elf: &[u8]) -> Kernel {
    Kernel {
        name: name.to_owned(),
        insts: elf.to_vec(),
        pdi: Vec::new(),
        kernarg_size: 0,
        columns: 8,
        kind: 1,
    }
}

/// A section of kernels, each with blobs of its own.
pub fn section(kernels: &[Kernel]) -> Vec<u8> {
    let table = 48 + 44 * kernels.len();
    let names: usize = kernels.iter().map(|kernel| kernel.name.len() + 1).sum();
    let mut words = vec![
        0x4b45_4941,
        1,
        48,
        kernels.len() as u32,
        44,
        table as u32,
        names as u32,
        (table + names) as u32,
    ];
    words.resize(12, 0);
    let (mut strings, mut pool) = (Vec::new(), Vec::new());
    for kernel in kernels {
        let insts = table + names + pool.len();
        let pdi = insts + kernel.insts.len();
        let place = if kernel.pdi.is_empty() { 0 } else { pdi as u32 };
        words.extend([
            strings.len() as u32,
            insts as u32,
            kernel.insts.len() as u32,
            place,
            kernel.pdi.len() as u32,
            kernel.kernarg_size,
            kernel.columns,
            kernel.kind,
            0,
            0,
            0,
        ]);
        strings.extend_from_slice(kernel.name.as_bytes());
        strings.push(0);
        pool.extend_from_slice(&kernel.insts);
        pool.extend_from_slice(&kernel.pdi);
    }
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend(strings);
    bytes.extend(pool);
    bytes
}

/// A file with sections of those names and bytes.
pub fn file(sections: &[(&str, &[u8])]) -> Vec<u8> {
    let mut names = b"\0.shstrtab\0".to_vec();
    let mut headers = vec![[0u64; 8]];
    let mut body = Vec::new();
    let header = |name: usize, kind: u64, offset: usize, size: usize| {
        let first = kind << 32 | name as u64;
        [first, 0, 0, offset as u64, size as u64, 0, 1, 0]
    };
    for (name, bytes) in sections {
        headers.push(header(names.len(), 1, 64 + body.len(), bytes.len()));
        names.extend_from_slice(name.as_bytes());
        names.push(0);
        body.extend_from_slice(bytes);
    }
    headers.push(header(1, 3, 64 + body.len(), names.len()));
    body.extend(names);
    body.resize(body.len().next_multiple_of(8), 0);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xe0\0\x01\0\0\0".to_vec();
    elf.resize(64, 0);
    elf[0x28..0x30].copy_from_slice(&(64 + body.len() as u64).to_le_bytes());
    elf[0x34..0x36].copy_from_slice(&64u16.to_le_bytes());
    elf[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
    elf[0x3c..0x3e].copy_from_slice(&(headers.len() as u16).to_le_bytes());
    elf[0x3e..0x40].copy_from_slice(&(headers.len() as u16 - 1).to_le_bytes());
    elf.extend(body);
    elf.extend(headers.into_iter().flatten().flat_map(u64::to_le_bytes));
    elf
}

/// An hsaco of kernels for an arch.
pub fn hsaco(arch: &str, kernels: &[Kernel]) -> Vec<u8> {
    file(&[(arch, &section(kernels))])
}

/// An installation of the double compilers, and a place to work in.
pub struct Compiler {
    directory: TempDir,
    tools: Installation,
}

impl Compiler {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tools = Installation::new(&directory.path().join("root"), 3).unwrap();
        Self { directory, tools }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, tool: &str, arguments: &[String]) {
        let path = self.tools.tool("llvm-objcopy");
        let path = format!(
            "{}:{}",
            path.parent().unwrap().display(),
            self.tools.search_path()
        );
        let output = Command::new(self.tools.tool(tool))
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", path)
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {arguments:?}\n{text}");
    }

    fn aiecc(&self, text: &str, options: &[&str]) {
        std::fs::write(self.path("k.mlir"), text).unwrap();
        let peano = format!("--peano={}", self.tools.peano().display());
        let options = options.iter().map(|o| (*o).to_owned());
        let arguments: Vec<String> = [peano].into_iter().chain(options).collect();
        let arguments = [arguments, vec!["k.mlir".to_owned()]].concat();
        self.run("aiecc", &arguments);
    }

    fn pack(&self, arch: &str, spec: &str) -> Vec<u8> {
        let out = self.path("out.hsaco");
        let _ = std::fs::remove_file(&out);
        let arguments = ["--hsaco", "out.hsaco", "--arch", arch, "--kernel", spec];
        self.run("aie-hsaco", &arguments.map(str::to_owned));
        std::fs::read(out).unwrap()
    }

    /// A design as a full ELF in an hsaco for aie2p.
    pub fn full_elf(&self, text: &str, kernarg_size: u32) -> Vec<u8> {
        self.aiecc(text, &["--get-full-elf", "--full-elf-name=k.elf"]);
        self.pack("aie2p", &format!("elf:k.elf:{kernarg_size}:8"))
    }

    /// A design as stream and PDI in an hsaco, kernel `k`.
    pub fn stream(&self, text: &str, arch: &str, kernarg_size: u32, columns: u32) -> Vec<u8> {
        let options = [
            "--get-npu-insts",
            "--npu-insts-name=k.bin",
            "--get-pdi",
            "--pdi-name=k.pdi",
        ];
        self.aiecc(text, &options);
        self.pack(arch, &format!("k:k.bin:k.pdi:{kernarg_size}:{columns}"))
    }
}
