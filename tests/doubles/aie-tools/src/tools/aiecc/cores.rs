//! Core code: Peano is found, and each core goes through its opt, llc and clang.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Compilation, Output};
use crate::design::{Core, Device, Tile, commands};
use crate::mlir::Module;
use crate::pdi;
use crate::run::{Exit, Result, failure, is_executable};
use crate::stream::Generation;

/// A device and its configuration: the PDI's path.
pub struct Configured {
    /// The device's name.
    pub device: String,
    /// The PDI.
    pub pdi: PathBuf,
}

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
    pub fn configure(
        &mut self,
        module: &Module<'_>,
        devices: &[Device],
    ) -> Result<Vec<Configured>> {
        let needed = [Output::Xclbin, Output::Pdi, Output::FullElf, Output::Cdo]
            .iter()
            .any(|output| self.asked.request(*output).is_some());
        // Without any request cores are built and nothing else.
        let only_cores =
            self.asked.requests.is_empty() || self.asked.request(Output::CoreElfs).is_some();
        let mut configured = Vec::new();
        if !needed && !only_cores {
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

    fn device(
        &mut self,
        module: &Module<'_>,
        device: &Device,
        code: &[(Tile, Vec<u8>)],
    ) -> Result<Configured> {
        let name = &device.name;
        self.progress("{0}.pdi", name);
        let cdo = pdi::cdo(&commands(module, device, code));
        let cdo_path = self.tmpdir.join(format!("{name}_aie_cdo.bin"));
        self.run.write(&cdo_path, &cdo);
        if let Some(request) = self.asked.request(Output::Cdo) {
            let path = self.output(&request.name, name, "");
            self.run.deliver("cdo", &path, &cdo);
        }
        let bif = format!(
            "all:\n{{\n  id_code = 0x14ca8093\n  extended_id_code = 0x01\n  image\n  {{\n    name=aie_image, id=0x1c000000\n    {{ type=cdo\n      file={}\n    }}\n  }}\n}}\n",
            cdo_path.display()
        );
        let bif_path = self.tmpdir.join(format!("{name}_design.bif"));
        self.run.write(&bif_path, bif.as_bytes());
        let pdi = self.tmpdir.join(format!("{name}.pdi"));
        let _ = fs::remove_file(&pdi);
        let Some(bootgen) = self.run.beside_or_on_path("bootgen") else {
            return Err(self.tool_missing("{0}.pdi", name, "bootgen"));
        };
        let arguments = ["-arch", "versal", "-image"].map(str::to_owned);
        let mut arguments = arguments.to_vec();
        arguments.extend([bif_path.display().to_string(), "-o".to_owned()]);
        arguments.extend([pdi.display().to_string(), "-w".to_owned()]);
        self.tool("{0}.pdi", name, &bootgen, &arguments)?;
        if let Some(request) = self.asked.request(Output::Pdi)
            && let Ok(bytes) = fs::read(&pdi)
        {
            let path = self.output(&request.name, name, "");
            self.run.deliver("pdi", &path, &bytes);
        }
        Ok(Configured {
            device: name.clone(),
            pdi,
        })
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

    /// aie-rt's words.
    fn no_elf(&self, device: &str) -> Exit {
        let words = "[AIE ERROR] XAie_LoadElfPartial():602: Unable to open elf file, 2: No such file or directory\nXAie_LoadElf failed with XAIE_INVALID_ELF";
        match self.asked.dialect {
            1 => failure(format!(
                "{words}Error generating CDO files\nCompilation failed"
            )),
            _ => self.edge_failed("cdo_{0}", device, Some(words.to_owned())),
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
        let level = self.asked.options.get("O").unwrap_or("2");
        let options = &self.asked.options;
        let place = |extension: &str| {
            self.tmpdir
                .join(format!("{stem}.{extension}"))
                .display()
                .to_string()
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
        let run = |tool: &str, arguments: Vec<String>| {
            self.tool("objects_{0}.o", stem, &peano.join(tool), &arguments)
        };
        let owned = |arguments: &[&str]| {
            arguments
                .iter()
                .map(|a| (*a).to_owned())
                .collect::<Vec<_>>()
        };
        let passes = format!("--passes=default<O{level}>,strip");
        run(
            "opt",
            owned(&[&passes, "-S", &place("ll"), "-o", &place("opt.ll")]),
        )?;
        let (optimised, march_option) = (format!("-O{level}"), format!("--march={march}"));
        run(
            "llc",
            owned(&[
                &place("opt.ll"),
                &optimised,
                &march_option,
                "--function-sections",
                "--filetype=obj",
                "-o",
                &place("o"),
            ]),
        )?;
        let mut link = owned(&[
            &optimised,
            &format!("--target={march}-none-unknown-elf"),
            &place("o"),
        ]);
        for file in &core.links {
            // Unresolved names are left for the linker to refuse.
            let path = self.resolve(file).unwrap_or_else(|| PathBuf::from(file));
            link.push(path.display().to_string());
        }
        link.extend(owned(&["-Wl,--gc-sections", "-o", &place("elf")]));
        self.tool("elfs_{0}.elf", stem, &peano.join("clang"), &link)?;
        let elf = fs::read(place("elf")).unwrap_or_default();
        if let Some(request) = self.asked.request(Output::CoreElfs) {
            let path = self.output(&request.name, stem, "");
            self.run.deliver("core-elf", &path, &elf);
        }
        Ok(elf)
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
