//! Core code: Peano is found, and each core goes through its opt, llc and clang.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Compilation, Output};
use crate::design::{Core, Device, Tile};
use crate::mlir::Module;
use crate::pdi;
use crate::run::{Exit, Result, failure, is_executable};
use crate::stream::Generation;

impl Compilation<'_> {
    /// The first dialect compiles with Chess unless it is told not to.
    pub fn chess_or_peano(&self) -> Result {
        let options = &self.asked.options;
        let chess = match self.asked.dialect {
            1 => !options.flag("no-xchesscc"),
            _ => options.flag("xchesscc"),
        };
        if chess && self.run.on_path("xchesscc").is_none() {
            return Err(failure(
                "Error: Could not find aietools (xchesscc not in PATH)",
            ));
        }
        Ok(())
    }

    /// Peano's directory of programs: `--peano`, PEANO_INSTALL_DIR, beside this program, PATH.
    fn peano(&self) -> Result<PathBuf> {
        let missing = || match self.asked.dialect {
            1 => failure("Error: Could not find Peano compiler tools (opt/llc)"),
            _ => self.tool_missing("objects_{0}.o", "", "opt"),
        };
        if self.run.fails("peano") {
            return Err(missing());
        }
        let option = self.asked.options.get("peano").filter(|p| !p.is_empty());
        if let Some(option) = option
            && self.asked.dialect > 2
            && !Path::new(option).is_dir()
        {
            return Err(failure(format!(
                "aiecc: --peano: '{option}' is not a directory"
            )));
        }
        let variable = std::env::var("PEANO_INSTALL_DIR").ok();
        let candidates = [option.map(str::to_owned), variable];
        let holds = |bin: &Path| is_executable(&bin.join("opt")) && is_executable(&bin.join("llc"));
        for candidate in candidates.into_iter().flatten() {
            let bin = Path::new(&candidate).join("bin");
            if holds(&bin) {
                return Ok(bin);
            }
        }
        if holds(&self.run.directory) {
            return Ok(self.run.directory.clone());
        }
        // Any LLVM on PATH will do: this is how the host's gets in.
        let found = self.run.on_path("opt").zip(self.run.on_path("llc"));
        let bin = found.and_then(|(opt, _)| opt.parent().map(Path::to_owned));
        bin.ok_or_else(missing)
    }

    /// Configurations of all devices, if an output needs them.
    pub fn configure(&mut self, module: &Module<'_>, devices: &[Device]) -> Result<Vec<PathBuf>> {
        let mut requests = self.asked.requests.iter();
        let needed = requests.any(|request| request.output != Output::Insts);
        let mut configured = Vec::new();
        // Without any request cores are built and nothing else.
        if !needed && !self.asked.requests.is_empty() {
            return Ok(configured);
        }
        for device in devices {
            let code = self.cores(module, device)?;
            if needed {
                configured.push(self.device(module, device, &code)?);
            }
        }
        Ok(configured)
    }

    /// The PDI of a device, through bootgen.
    fn device(
        &mut self,
        module: &Module<'_>,
        device: &Device,
        code: &[(Tile, Vec<u8>)],
    ) -> Result<PathBuf> {
        let name = &device.name;
        self.progress("{0}.pdi", name);
        let place = |name: String| self.tmpdir.join(name);
        let cdo = place(format!("{name}_aie_cdo.bin"));
        self.run
            .write(&cdo, &pdi::cdo(&device.commands(module, code)));
        let bif = place(format!("{name}_design.bif"));
        let text = format!(
            "all:\n{{\n  id_code = 0x14ca8093\n  extended_id_code = 0x01\n  image\n  {{\n    name=aie_image, id=0x1c000000\n    {{ type=cdo\n      file={}\n    }}\n  }}\n}}\n",
            cdo.display()
        );
        self.run.write(&bif, text.as_bytes());
        let pdi = place(format!("{name}.pdi"));
        let _ = fs::remove_file(&pdi);
        let bootgen = self.run.beside_or_on_path("bootgen");
        let bootgen = bootgen.ok_or_else(|| self.tool_missing("{0}.pdi", name, "bootgen"))?;
        let (bif, made) = (bif.display().to_string(), pdi.display().to_string());
        let arguments = ["-arch", "versal", "-image", &bif, "-o", &made, "-w"];
        self.tool("{0}.pdi", name, &bootgen, &arguments)?;
        if let (Some(request), Ok(bytes)) = (self.asked.request(Output::Pdi), fs::read(&pdi)) {
            let path = self.output(&request.name, name, "");
            self.run.deliver("pdi", &path, &bytes);
        }
        Ok(pdi)
    }

    /// What each core of a device runs.
    fn cores(&mut self, module: &Module<'_>, device: &Device) -> Result<Vec<(Tile, Vec<u8>)>> {
        let first = self.asked.dialect == 1;
        let option = |name: &str| self.asked.options.flag(name);
        let (compiles, links) = (!option("no-compile"), !option("no-link"));
        // The first dialect has no eye for ELFs that are there while it compiles, and none for cores
        // that do nothing.
        let is_compiled = |core: &Core| match (first, &core.elf_file) {
            (true, None) => core.has_code(module),
            (true, Some(_)) => true,
            (false, elf) => elf.is_none(),
        };
        let any = device.cores.iter().any(is_compiled);
        let peano = if any && compiles {
            Some(self.peano()?)
        } else {
            None
        };
        let mut code = Vec::new();
        for core in &device.cores {
            let (column, row) = core.tile;
            let stem = format!("{}_core_{column}_{row}", device.name);
            self.progress("elfs_{0}.elf", &stem);
            let elf = match (&core.elf_file, peano.as_ref().filter(|_| is_compiled(core))) {
                (file, Some(peano)) => {
                    let elf = self.core(module, device, core, peano, &stem)?;
                    if !links {
                        return Err(self.no_elf(&device.name));
                    }
                    if let Some(file) = file {
                        // Where the linker is told to write, whatever is there.
                        self.run.write(Path::new(file), &elf);
                    }
                    Some(elf)
                }
                (Some(file), None) => {
                    // Joining an absolute name gives that name.
                    let path = match first {
                        true => self.tmpdir.join(file),
                        false => PathBuf::from(file),
                    };
                    Some(fs::read(path).map_err(|_| self.no_elf(&device.name))?)
                }
                // `--no-compile`: the configuration comes without the code.
                (None, None) => None,
            };
            code.extend(elf.map(|elf| (core.tile, elf)));
        }
        Ok(code)
    }

    fn no_elf(&self, device: &str) -> Exit {
        let words = "[AIE ERROR] XAie_LoadElfPartial():602: Unable to open elf file, 2: No such file or directory\nXAie_LoadElf failed with XAIE_INVALID_ELF";
        match self.asked.dialect {
            1 => failure(format!(
                "{words}Error generating CDO files\nCompilation failed"
            )),
            _ => self.edge_failed("cdo_{0}", device, &format!("{words}\n")),
        }
    }

    fn core(
        &self,
        module: &Module<'_>,
        device: &Device,
        core: &Core,
        peano: &Path,
        stem: &str,
    ) -> Result<Vec<u8>> {
        let march = match device.part.generation {
            Generation::Npu1 => "aie2",
            Generation::Npu2 => "aie2p",
        };
        let options = &self.asked.options;
        let level = options.get("O").unwrap_or("2");
        let place = |extension: &str| {
            let path = self.tmpdir.join(format!("{stem}.{extension}"));
            path.display().to_string()
        };
        // A type that only Peano knows: another LLVM says `error: expected type`.
        let source = format!(
            "; ModuleID = '{stem}'\ntarget triple = \"{march}\"\n@accumulator = external global accum1024\n; bf16-emulation {} stack {} variables {}\n{}\n",
            options.flag("bf16-emulation"),
            options.get("default-stack-size").unwrap_or("default"),
            device.variables.join(","),
            module.identity(core.body.clone()),
        );
        self.intermediate(&format!("{stem}.ll"), source.as_bytes());
        let run = |tool: &str, edge: &str, arguments: &[&str]| {
            self.tool(edge, stem, &peano.join(tool), arguments)
        };
        let [ir, optimised, object, elf] = ["ll", "opt.ll", "o", "elf"].map(place);
        let passes = format!("--passes=default<O{level}>,strip");
        let (level, arch) = (format!("-O{level}"), format!("--march={march}"));
        let objects = "objects_{0}.o";
        run("opt", objects, &[&passes, "-S", &ir, "-o", &optimised])?;
        let llc = [&optimised, &level, &arch, "--filetype=obj", "-o", &object];
        run("llc", objects, &llc)?;
        let target = format!("--target={march}-none-unknown-elf");
        let mut link = vec![level, target, object];
        // Unresolved names are left for the linker to refuse.
        let files = core.links.iter();
        let files = files.map(|file| self.resolve(file).unwrap_or_else(|| file.into()));
        link.extend(files.map(|path| path.display().to_string()));
        link.extend(["-Wl,--gc-sections", "-o", &elf].map(str::to_owned));
        let link: Vec<&str> = link.iter().map(String::as_str).collect();
        run("clang", "elfs_{0}.elf", &link)?;
        Ok(fs::read(elf).unwrap_or_default())
    }

    /// A link file: from the current directory, the tmpdir, or beside the input, whichever is first.
    fn resolve(&self, file: &str) -> Option<PathBuf> {
        let beside = Path::new(&self.input)
            .parent()
            .unwrap_or(Path::new(""))
            .join(file);
        let places = [PathBuf::from(file), self.tmpdir.join(file), beside];
        places.into_iter().find(|place| place.is_file())
    }
}
