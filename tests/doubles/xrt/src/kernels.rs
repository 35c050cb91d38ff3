//! Kernels for tests: AIE-level designs, compiled by the doubles of the AIE tools.

use aie_tools::install::Installation as Tools;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory below `shared` that this process has for itself. Those of processes that have ended
/// are removed.
///
/// # Errors
/// It can't be made.
pub fn own_directory(shared: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(shared)?;
    let id = std::process::id().to_string();
    for earlier in fs::read_dir(shared)?.flatten() {
        let name = earlier.file_name();
        if name == *id || !Path::new("/proc").join(name).exists() {
            // Another process may be removing it, too.
            let _ = fs::remove_dir_all(earlier.path());
        }
    }
    let own = shared.join(id);
    fs::create_dir(&own)?;
    Ok(own)
}

/// A kernel's compiled form.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// A full ELF or an xclbin.
    pub artifact: Vec<u8>,
    /// The instruction stream of an xclbin.
    pub insts: Option<Vec<u8>>,
}

/// Tools, and a place to work in.
#[derive(Debug)]
pub struct Workshop {
    directory: PathBuf,
    tools: Tools,
}

impl Workshop {
    /// Installs the tools in a directory.
    ///
    /// # Errors
    /// They can't be built, or a file can't be written.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let tools = Tools::new(&directory.join("tools"), 3)?;
        Ok(Self {
            directory: directory.to_owned(),
            tools,
        })
    }

    /// Compiles a design to a full ELF, `k.elf` in the directory of that name.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn full_elf(&self, name: &str, text: &str) -> io::Result<Compiled> {
        let at = self.compile(name, text, &["--get-full-elf", "--full-elf-name=k.elf"])?;
        Ok(Compiled {
            artifact: fs::read(at.join("k.elf"))?,
            insts: None,
        })
    }

    /// Compiles a design to an xclbin and its instruction stream, `k.xclbin` and `k.bin`.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn xclbin(&self, name: &str, text: &str) -> io::Result<Compiled> {
        let options = [
            "--get-xclbin",
            "--xclbin-name=k.xclbin",
            "--get-npu-insts",
            "--npu-insts-name=k.bin",
        ];
        let at = self.compile(name, text, &options)?;
        Ok(Compiled {
            artifact: fs::read(at.join("k.xclbin"))?,
            insts: Some(fs::read(at.join("k.bin"))?),
        })
    }

    /// Where a design of that name is compiled.
    pub fn place(&self, name: &str) -> PathBuf {
        self.directory.join("kernels").join(name)
    }

    fn compile(&self, name: &str, text: &str, options: &[&str]) -> io::Result<PathBuf> {
        let at = self.place(name);
        fs::create_dir_all(&at)?;
        fs::write(at.join("k.mlir"), text)?;
        let output = Command::new(self.tools.tool("aiecc"))
            .current_dir(&at)
            .env("PATH", self.tools.search_path())
            .args(options)
            .arg(format!("--peano={}", self.tools.peano().display()))
            .arg("k.mlir")
            .output()?;
        match output.status.success() {
            true => Ok(at),
            false => Err(io::Error::other(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            )),
        }
    }
}

/// A design whose core combines two inputs of 256 `i32` into an output, by `operation`: kernel
/// `main:sequence`, for `npu1` or `npu2`.
pub fn combining(npu: &str, operation: &str) -> String {
    let of = "memref<256xi32>";
    format!(
        "module {{
  aie.device({npu}) @main {{
    %shim = aie.tile(0, 0)
    %core_tile = aie.tile(0, 2)
    aie.objectfifo @a(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @b(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @c(%core_tile, {{%shim}}, 2 : i32) : !aie.objectfifo<{of}>
    %core = aie.core(%core_tile) {{
      %av = aie.objectfifo.acquire @a(Consume, 1) : !aie.objectfifosubview<{of}>
      %am = aie.objectfifo.subview.access %av[0] : !aie.objectfifosubview<{of}> -> {of}
      %bv = aie.objectfifo.acquire @b(Consume, 1) : !aie.objectfifosubview<{of}>
      %bm = aie.objectfifo.subview.access %bv[0] : !aie.objectfifosubview<{of}> -> {of}
      %cv = aie.objectfifo.acquire @c(Produce, 1) : !aie.objectfifosubview<{of}>
      %cm = aie.objectfifo.subview.access %cv[0] : !aie.objectfifosubview<{of}> -> {of}
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 256 : index
      scf.for %i = %c0 to %n step %c1 {{
        %x = memref.load %am[%i] : {of}
        %y = memref.load %bm[%i] : {of}
        %z = {operation} %x, %y : i32
        memref.store %z, %cm[%i] : {of}
      }}
      aie.end
    }}
    aie.runtime_sequence @sequence(%x : {of}, %y : {of}, %z : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
      aiex.npu.dma_memcpy_nd(%x[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 0 : i64, metadata = @a}} : {of}
      aiex.npu.dma_memcpy_nd(%y[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 1 : i64, metadata = @b}} : {of}
      aiex.npu.dma_memcpy_nd(%z[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 2 : i64, metadata = @c}} : {of}
      aiex.npu.dma_wait {{symbol = @c}}
    }}
  }}
}}
"
    )
}
