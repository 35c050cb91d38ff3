//! An installation and a place to work in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use aie_tools::install::Installation;
use tempfile::TempDir;

pub struct Scene {
    pub directory: TempDir,
    pub tools: Installation,
    pub work: PathBuf,
}

/// The path of a recorded artifact.
pub fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../data/aie")
        .join(name)
}

/// A recorded artifact.
pub fn bytes(name: &str) -> Vec<u8> {
    fs::read(recorded(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Scene {
    pub fn new(dialect: u8) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_aie-tools"));
        let root = directory.path().join("root");
        let tools = Installation::with_binary(&root, dialect, binary).unwrap();
        let work = directory.path().join("work");
        fs::create_dir(&work).unwrap();
        Self {
            directory,
            tools,
            work,
        }
    }

    /// A scene with a kernel `k.mlir`.
    pub fn with(dialect: u8, kernel: &str) -> Self {
        let scene = Self::new(dialect);
        scene.file("k.mlir", kernel);
        scene
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.work.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.work.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.work.join(name).exists()
    }

    /// A tool with the installation's directories on PATH and nothing else in the environment.
    pub fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(self.tools.tool(tool));
        let objcopy = self.tools.tool("llvm-objcopy");
        let path = [
            objcopy.parent().unwrap().to_str().unwrap(),
            &self.tools.search_path(),
        ];
        command
            .current_dir(&self.work)
            .env_clear()
            .env("PATH", path.join(":"));
        command
    }

    /// Runs a tool with arguments as on a command line; PEANO stands for `--peano=…`.
    pub fn run(&self, tool: &str, arguments: &str) -> Outcome {
        let peano = format!("--peano={}", self.tools.peano().display());
        let arguments = arguments.split_whitespace().map(|word| match word {
            "PEANO" => &peano,
            word => word,
        });
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
            "{}{}",
            self.stdout(),
            self.stderr()
        );
        self
    }

    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) {
        let stderr = self.stderr();
        assert_eq!(self.0.status.code(), Some(code), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "no '{word}' in:\n{stderr}");
        }
    }
}

/// Passes 1024 elements through the memory tile of a column.
pub fn copying(part: &str, device: &str, sequence: &str, element: &str) -> String {
    let of = format!("memref<1024x{element}>");
    format!(
        "module {{
  aie.device({part}) @{device} {{
    %shim = aie.tile(0, 0)
    %mem = aie.tile(0, 1)
    aie.objectfifo @of_in(%shim, {{%mem}}, 2 : i32) : !aie.objectfifo<memref<256x{element}>>
    aie.objectfifo @of_out(%mem, {{%shim}}, 2 : i32) : !aie.objectfifo<memref<256x{element}>>
    aie.objectfifo.link [@of_in] -> [@of_out]([] [])
    aie.runtime_sequence @{sequence}(%src : {of}, %dst : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @{device} }}
      %i = aiex.dma_configure_task_for @of_in {{
        aie.dma_bd(%src : {of}, 0, 1024)
        aie.end
      }}
      %o = aiex.dma_configure_task_for @of_out {{
        aie.dma_bd(%dst : {of}, 0, 1024)
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

/// A core that computes `%z` of `%x` and `%y`, 1024 elements each.
pub fn computing(element: &str, compute: &str) -> String {
    let of = format!("memref<1024x{element}>");
    let ends = [
        "%shim, {%core_tile}",
        "%shim, {%core_tile}",
        "%core_tile, {%shim}",
    ];
    let names = ["a", "b", "c"].into_iter().zip(ends);
    let fifos = names.map(|(name, ends)| {
        format!("    aie.objectfifo @{name}({ends}, 2 : i32) : !aie.objectfifo<{of}>\n")
    });
    let fifos: String = fifos.collect();
    let acquired = ["a", "b", "c"].map(|name| {
        format!(
            "      %{name}v = aie.objectfifo.acquire @{name}(Consume, 1) : !aie.objectfifosubview<{of}>
      %{name}m = aie.objectfifo.subview.access %{name}v[0] : !aie.objectfifosubview<{of}> -> {of}\n"
        )
    });
    let moves = [("x", "a"), ("y", "b"), ("z", "c")].map(|(argument, fifo)| {
        format!("      aiex.npu.dma_memcpy_nd(%{argument}[0, 0, 0, 0][1, 1, 1, 1024][0, 0, 0, 1]) {{id = 0 : i64, metadata = @{fifo}}} : {of}\n")
    });
    format!(
        "module {{
  aie.device(npu2) @main {{
    %shim = aie.tile(0, 0)
    %core_tile = aie.tile(0, 2)
{fifos}    %core = aie.core(%core_tile) {{
{}      %c0 = arith.constant 0 : index
      scf.for %i = %c0 to %c0 step %c0 {{
        %x = memref.load %am[%i] : {of}
        %y = memref.load %bm[%i] : {of}
        {compute}
        memref.store %z, %cm[%i] : {of}
      }}
      aie.end
    }}
    aie.runtime_sequence @sequence(%x : {of}, %y : {of}, %z : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
{}      aiex.npu.dma_wait {{symbol = @c}}
    }}
  }}
}}
",
        acquired.concat(),
        moves.concat()
    )
}
