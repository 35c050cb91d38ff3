//! Images of the designs, made by the double compilers and the double packer, and kept between
//! the processes of a run.

use crate::{designs, emulated};
use aie_tools::install::Installation;
use aie_tools::program::{Element, Operand, Operation, Program, Step};
use aie_tools::stream::{Generation, Stream};
use npu_runtime::{Artifact, Bounds, Compiled, Device, Direction, ElementType, Image, Kernel, Npu};
use npu_runtime::{Parameter, Runtime, Shape, Signature};
use std::borrow::Cow;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a design is compiled.
#[derive(Clone, Copy, Hash)]
pub enum Form {
    FullElf,
    Stream,
    /// From the linalg level, over this grid.
    Linalg([u32; 3]),
}

/// An hsaco of `design`, for `npu`, whose kernel takes `count` arguments.
pub fn hsaco(design: &str, form: Form, npu: Npu, count: usize) -> Vec<u8> {
    // Other compilers make other files.
    let tools = aie_tools::install::binary().unwrap();
    let state = fs::metadata(tools).unwrap();
    let mut hasher = DefaultHasher::new();
    (state.len(), state.modified().unwrap()).hash(&mut hasher);
    (design, form, npu, count).hash(&mut hasher);
    let kept = emulated::directory("kernels").join(format!("{:016x}", hasher.finish()));
    if let Ok(bytes) = fs::read(&kept) {
        return bytes;
    }
    let work = emulated::directory(&format!(
        "work-{}-{:x}",
        std::process::id(),
        hasher.finish()
    ));
    let bytes = Compiler::new(&work).compile(design, form, npu, count);
    let finished = work.join("finished");
    fs::write(&finished, &bytes).unwrap();
    fs::rename(finished, kept).unwrap();
    fs::remove_dir_all(work).unwrap();
    bytes
}

struct Compiler {
    tools: Installation,
    work: PathBuf,
}

impl Compiler {
    fn new(work: &Path) -> Self {
        Self {
            tools: Installation::new(&work.join("root"), 3).unwrap(),
            work: work.into(),
        }
    }

    fn run(&self, tool: &str, arguments: &[&str]) {
        let objcopy = self.tools.tool("llvm-objcopy");
        let objcopy = objcopy.parent().unwrap().display();
        let output = Command::new(self.tools.tool(tool))
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", format!("{objcopy}:{}", self.tools.search_path()))
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {arguments:?}\n{text}");
    }

    fn compile(&self, design: &str, form: Form, npu: Npu, count: usize) -> Vec<u8> {
        fs::write(self.work.join("k.mlir"), design).unwrap();
        let peano = format!("--peano={}", self.tools.peano().display());
        let size = 16 * count;
        let columns = npu.columns();
        let spec = match form {
            Form::FullElf => {
                let options = ["--get-full-elf", "--full-elf-name=k.elf", &peano, "k.mlir"];
                self.run("aiecc", &options);
                format!("elf:k.elf:{size}:{columns}")
            }
            Form::Stream => {
                let options = [
                    "--get-npu-insts",
                    "--npu-insts-name=k.bin",
                    "--get-pdi",
                    "--pdi-name=k.pdi",
                    &peano,
                    "k.mlir",
                ];
                self.run("aiecc", &options);
                format!("k:k.bin:k.pdi:{size}:{columns}")
            }
            Form::Linalg(grid) => {
                self.lower(npu, grid, &peano);
                format!("xclbin:k:k.xclbin:k.bin:{size}")
            }
        };
        let options = [
            "--hsaco",
            "out.hsaco",
            "--arch",
            npu.arch(),
            "--kernel",
            &spec,
        ];
        self.run("aie-hsaco", &options);
        fs::read(self.work.join("out.hsaco")).unwrap()
    }

    fn lower(&self, npu: Npu, [x, y, z]: [u32; 3], peano: &str) {
        let transform = self.tools.transform();
        let transform = format!("--air-transform=filename={}", transform.display());
        self.run("air-opt", &[&transform, "k.mlir", "-o", "1.mlir"]);
        let pipeline = format!(
            "--pass-pipeline=builtin.module(func.func(air-wrap-func-with-parallel{{\
             loop-bounds={x},{y},{z}}}),air-par-to-launch{{depth=0 has-air-segment=true}},\
             canonicalize,cse,air-copy-to-dma)"
        );
        self.run("air-opt", &[&pipeline, "1.mlir", "-o", "air.mlir"]);
        let options = [
            "--device",
            npu.name(),
            "--no-xchesscc",
            "--no-xbridge",
            "--output-format",
            "xclbin",
            "-i",
            "k.bin",
            "-o",
            "k.xclbin",
            peano,
            "air.mlir",
        ];
        self.run("aircc", &options);
    }
}

/// An image of a packed design.
pub fn image(design: &str, form: Form, npu: Npu, count: usize) -> Image {
    let kernel = match form {
        Form::FullElf => "main:sequence",
        Form::Stream | Form::Linalg(_) => "k",
    };
    let compiled = Compiled::for_target(npu);
    Image::Hsaco {
        hsaco: Artifact::bytes(hsaco(design, form, npu, count)),
        kernel: kernel.into(),
        compiled: match form {
            Form::Linalg(grid) => compiled.with_grid(grid.into()),
            _ => compiled,
        },
    }
}

pub fn memory(name: &'static str, element: ElementType, direction: Direction) -> Parameter {
    Parameter::memory(name, "memref<*xT>", element, Shape::Unranked, direction)
}

pub fn signature(parameters: Vec<Parameter>) -> Signature {
    Signature {
        name: "kernel".into(),
        parameters: Cow::Owned(parameters),
        grid: false,
        bounds: Bounds::Declared,
    }
}

/// `(x in, y in, z out)`.
pub fn binary(element: ElementType) -> Signature {
    signature(vec![
        memory("x", element.clone(), Direction::In),
        memory("y", element.clone(), Direction::In),
        memory("z", element, Direction::Out),
    ])
}

pub fn device() -> Device {
    Device::open(Runtime::Hsa).unwrap()
}

/// The image of `z[i] = x[i] + y[i]` for 1024 `i32`.
pub fn add_image(form: Form) -> Image {
    let design = designs::core("npu2", "i32", "%z = arith.addi %x, %y : i32");
    image(&design, form, Npu::Npu2, 3)
}

/// It loaded, on npu2.
pub fn add(device: &Device) -> Kernel {
    Kernel::load(
        device,
        &[add_image(Form::FullElf)],
        binary(ElementType::I32),
    )
    .unwrap()
}

/// A kernel that does nothing, with a PDI of its own: what only differs by `number`.
pub fn idle_image(number: u32) -> Image {
    let pdi = [b"PDI ".as_slice(), &number.to_le_bytes()].concat();
    Image::Hsaco {
        hsaco: Artifact::bytes(packed("aie2p", "k", &[0; 8], &pdi, 16, 1)),
        kernel: "k".into(),
        compiled: Compiled::for_target(Npu::Npu2),
    }
}

/// A kernel of `count` arguments of 64 `i32` that writes `a0 + i` to the i-th one. No compiler
/// makes one of more than 16, so its program is written here.
pub fn counting_image(count: usize) -> Image {
    let step = |i: u32| Step {
        operation: Operation::Add,
        element: Element::I32,
        result: Operand::Argument(i),
        operands: [Operand::Argument(0), Operand::Constant(i), Operand::None],
        dimensions: [0; 3],
    };
    let program = Program {
        arguments: vec![Some(Element::I32); count],
        elements: Some(64),
        steps: Some((1..count as u32).map(step).collect()),
    };
    let stream = Stream {
        generation: Generation::Npu2,
        columns: 1,
        instructions: program.instructions(),
    };
    let size = 16 * count as u32;
    Image::Hsaco {
        hsaco: Artifact::bytes(packed("aie2p", "k", &stream.bytes(), b"PDI", size, 1)),
        kernel: "k".into(),
        compiled: Compiled::for_target(Npu::Npu2),
    }
}

/// `(x inout)`.
pub fn unary() -> Signature {
    signature(vec![memory("x", ElementType::I32, Direction::InOut)])
}

/// An hsaco with one kernel of an instruction stream, written by hand.
pub fn packed(
    arch: &str,
    name: &str,
    insts: &[u8],
    pdi: &[u8],
    kernarg_size: u32,
    columns: u32,
) -> Vec<u8> {
    let section = section(name, insts, pdi, kernarg_size, columns);
    container(&[(arch, section)])
}

/// The section of such a kernel.
pub fn section(name: &str, insts: &[u8], pdi: &[u8], kernarg_size: u32, columns: u32) -> Vec<u8> {
    let names = 48 + 44;
    let pool = names + name.len() as u32 + 1;
    let (insts_size, pdi_size) = (insts.len() as u32, pdi.len() as u32);
    let pdi_offset = if pdi.is_empty() { 0 } else { pool + insts_size };
    let header = [
        0x4b45_4941,
        1,
        48,
        1,
        44,
        names,
        pool - names,
        pool,
        0,
        0,
        0,
        0,
    ];
    let entry = [
        0,
        pool,
        insts_size,
        pdi_offset,
        pdi_size,
        kernarg_size,
        columns,
        0,
        0,
        0,
        0,
    ];
    let words = header.into_iter().chain(entry).flat_map(u32::to_le_bytes);
    let mut section: Vec<u8> = words.collect();
    for part in [name.as_bytes(), &[0], insts, pdi] {
        section.extend(part);
    }
    section
}

/// An ELF file with these sections.
pub fn container(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut names = b"\0.shstrtab\0".to_vec();
    let mut content = Vec::new();
    let mut places = Vec::new();
    for (name, section) in sections {
        places.push((names.len(), 64 + content.len(), section.len()));
        names.extend(name.bytes().chain([0]));
        content.extend(section);
    }
    let header = |name: usize, kind: u64, offset: usize, size: usize| {
        [
            kind << 32 | name as u64,
            0,
            0,
            offset as u64,
            size as u64,
            0,
            1,
            0,
        ]
    };
    let mut headers = vec![[0; 8], header(1, 3, 64 + content.len(), names.len())];
    headers.extend(
        places
            .iter()
            .map(|&(name, offset, size)| header(name, 1, offset, size)),
    );
    content.extend(names);
    content.resize(content.len().next_multiple_of(8), 0);
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xe0\0\x01\0\0\0".to_vec();
    elf.resize(64, 0);
    elf[0x28..0x30].copy_from_slice(&(64 + content.len() as u64).to_le_bytes());
    elf[0x34] = 64;
    elf[0x3a] = 64;
    elf[0x3c] = headers.len() as u8;
    elf[0x3e] = 1;
    elf.extend(content);
    elf.extend(headers.into_iter().flatten().flat_map(u64::to_le_bytes));
    elf
}
