//! What the tests of the doubles share.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aie_tools::install::Installation;
use tempfile::TempDir;

/// A directory with an installation and a place to work in.
pub struct Scene {
    pub directory: TempDir,
    pub tools: Installation,
    pub work: PathBuf,
}

/// A real artifact.
pub fn real(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/aie")
        .join(name);
    assert!(path.exists(), "{} is missing", path.display());
    path
}

impl Scene {
    pub fn new(dialect: u8) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("aie-tools-")
            .tempdir()
            .unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_aie-tools"));
        let tools =
            Installation::with_binary(&directory.path().join("root"), dialect, binary).unwrap();
        let work = directory.path().join("work");
        fs::create_dir(&work).unwrap();
        Self {
            directory,
            tools,
            work,
        }
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.work.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub fn has(&self, name: &str) -> bool {
        self.work.join(name).exists()
    }

    /// A tool with the installation's directories on PATH and nothing else in the environment.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(self.tools.tool(tool));
        command
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", self.tools.search_path());
        command
    }

    pub fn run(&self, tool: &str, arguments: &[&str]) -> Outcome {
        Outcome(self.command(tool).args(arguments).output().unwrap())
    }
}

/// What a tool did.
#[derive(Debug)]
pub struct Outcome(pub Output);

impl Outcome {
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(
            self.0.status.success(),
            "{}\n{}",
            self.stdout(),
            self.stderr()
        );
        self
    }

    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) -> Self {
        let stderr = self.stderr();
        assert_eq!(self.0.status.code(), Some(code), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no '{word}' in:\n{stderr}");
        }
        self
    }
}

/// Passes `elements` of `element` through the memory tile; @`device`, @`sequence`.
pub fn copy_design(
    part: &str,
    device: &str,
    sequence: &str,
    elements: u32,
    element: &str,
) -> String {
    format!(
        "module {{
  aie.device({part}) @{device} {{
    %shim = aie.tile(0, 0)
    %mem = aie.tile(0, 1)
    aie.objectfifo @of_in(%shim, {{%mem}}, 2 : i32) : !aie.objectfifo<memref<256x{element}>>
    aie.objectfifo @of_out(%mem, {{%shim}}, 2 : i32) : !aie.objectfifo<memref<256x{element}>>
    aie.objectfifo.link [@of_in] -> [@of_out]([] [])
    aie.runtime_sequence @{sequence}(%src : memref<{elements}x{element}>, %dst : memref<{elements}x{element}>) {{
      aiex.npu.load_pdi {{ device_ref = @{device} }}
      %i = aiex.dma_configure_task_for @of_in {{
        aie.dma_bd(%src : memref<{elements}x{element}>, 0, {elements})
        aie.end
      }}
      %o = aiex.dma_configure_task_for @of_out {{
        aie.dma_bd(%dst : memref<{elements}x{element}>, 0, {elements})
        aie.end
      }} {{issue_token = true}}
      aiex.dma_start_task(%i)
      aiex.dma_start_task(%o)
      aiex.dma_await_task(%o)
    }}
  }}
}}
"
    )
}

/// A core that adds or multiplies, over 1024 elements; `scale`: by an external variable instead.
pub fn core_design(operation: &str, element: &str) -> String {
    let of = format!("memref<1024x{element}>");
    format!(
        "module {{
  aie.device(npu2) @main {{
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
      %n = arith.constant 1024 : index
      scf.for %i = %c0 to %n step %c1 {{
        %x = memref.load %am[%i] : {of}
        %y = memref.load %bm[%i] : {of}
        %z = {operation} %x, %y : {element}
        memref.store %z, %cm[%i] : {of}
      }}
      aie.end
    }}
    aie.runtime_sequence @sequence(%x : {of}, %y : {of}, %z : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
      aiex.npu.dma_memcpy_nd(%x[0, 0, 0, 0][1, 1, 1, 1024][0, 0, 0, 1]) {{id = 0 : i64, metadata = @a}} : {of}
      aiex.npu.dma_memcpy_nd(%y[0, 0, 0, 0][1, 1, 1, 1024][0, 0, 0, 1]) {{id = 1 : i64, metadata = @b}} : {of}
      aiex.npu.dma_memcpy_nd(%z[0, 0, 0, 0][1, 1, 1, 1024][0, 0, 0, 1]) {{id = 2 : i64, metadata = @c}} : {of}
      aiex.npu.dma_wait {{symbol = @c}}
    }}
  }}
}}
"
    )
}
