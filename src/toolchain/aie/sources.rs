//! Where each tool is looked for, in order: what was configured, the wheels of the environment that
//! was named, the ecosystem's variables, the wheels of the active environment, the system, `PATH`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{AieSearch, HsacoPacker, ToolName};
use crate::toolchain::places;
use crate::toolchain::stamp::{Stamp, Watch};
use crate::toolchain::{Configured, Reason, Rejected, wheel};

/// The trees that wheels install, by the package that a tool comes with.
const AIR: &[&str] = &["mlir_air"];
const AIE: &[&str] = &["mlir_aie", "mlir_aie_no_rtti"];
const PEANO: &[&str] = &["llvm-aie"];

/// A file to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// What is told of: the directory of programs.
    pub(super) place: PathBuf,
    /// What would be executed; for Peano its `llc`.
    pub(super) program: PathBuf,
}

/// Where candidates come from.
pub(super) enum Source<'a> {
    /// An installation that was named. One that is not there ends the search.
    Named(&'a Configured),
    /// The wheels of a Python environment that was named; the same.
    NamedWheels(&'a Configured),
    /// An installation, or the directory of its programs.
    Installation(&'a Path),
    /// A directory of programs.
    Programs(PathBuf),
    /// The directory of Peano's programs, where nobody expects the tool.
    BesidePeano(PathBuf),
    /// One program.
    Program(&'a Path),
    /// The wheels of a Python environment.
    Wheels(&'a Path),
    /// `PATH`, for a program of this name.
    Path(&'a OsStr),
    /// The newest `llvm-NN/bin` in this directory.
    System(&'a Path),
}

impl ToolName {
    /// The trees of the wheel that the tool comes with.
    pub(super) const fn trees(self) -> &'static [&'static str] {
        match self {
            Self::AirOpt | Self::Aircc => AIR,
            Self::Peano => PEANO,
            Self::Aiecc | Self::Bootgen | Self::AieHsaco | Self::LlvmObjcopy => AIE,
            Self::Xclbinutil | Self::AiebuAsm => &[],
        }
    }

    /// The file that a place must have.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Peano => "llc",
            tool => tool.name(),
        }
    }
}

/// Where the only place to look for a tool was configured, if it was.
pub(super) fn configured(search: &AieSearch, tool: ToolName) -> Option<&str> {
    let only = match tool {
        ToolName::AirOpt | ToolName::Aircc => &search.air,
        ToolName::Aiecc => &search.aie,
        ToolName::Peano => &search.peano,
        ToolName::Xclbinutil => &search.xrt,
        ToolName::AieHsaco => {
            let is_named = matches!(search.hsaco_packer, HsacoPacker::Program(_));
            return is_named.then_some(&search.hsaco_packer_origin);
        }
        _ => &None,
    };
    only.as_ref().map(|configured| configured.origin.as_str())
}

/// The sources of a tool, in order. `peano` is where Peano was found: `aiecc` looks for what it
/// runs beside Peano's programs before it looks anywhere else.
pub(super) fn sources<'a>(
    search: &'a AieSearch,
    tool: ToolName,
    peano: Option<&Path>,
) -> Vec<Source<'a>> {
    let named = |configured: &'a Option<Configured>| configured.as_ref().map(Source::Named);
    let python = search.python.as_ref().map(Source::NamedWheels);
    let active = variable(&search.virtual_env).map(Source::Wheels);
    let installation = |name: &'a Option<_>| variable(name).map(Source::Installation);
    let beside_peano = || peano.map(|peano| Source::BesidePeano(peano.join("bin")));
    let program = |name: &'a Option<_>| {
        variable(name).map(|program| match program.components().count() {
            1 if !program.is_absolute() => Source::Path(program.as_os_str()),
            _ => Source::Program(program),
        })
    };
    let xrt = || {
        [
            installation(&search.xilinx_xrt),
            Some(Source::Programs(search.system_xrt.join("bin"))),
        ]
    };
    let on_path = Some(Source::Path(OsStr::new(tool.program())));
    let mut sources = Vec::new();
    match tool {
        ToolName::AirOpt | ToolName::Aircc => match named(&search.air) {
            Some(only) => sources.push(Some(only)),
            None => sources.extend([
                python,
                installation(&search.mlir_air_install_dir),
                active,
                on_path,
            ]),
        },
        ToolName::Aiecc => match named(&search.aie) {
            Some(only) => sources.push(Some(only)),
            None => sources.extend([
                python,
                installation(&search.mlir_aie_install_dir),
                active,
                on_path,
            ]),
        },
        ToolName::Peano => match named(&search.peano) {
            Some(only) => sources.push(Some(only)),
            // Never from PATH: what is called llc there is the host's LLVM.
            None => sources.extend([
                python,
                installation(&search.peano_install_dir),
                active,
                variable(&search.llvm_binary_dir).map(Source::Installation),
            ]),
        },
        ToolName::Bootgen => sources.extend([
            beside_peano(),
            named(&search.aie),
            python,
            installation(&search.mlir_aie_install_dir),
            active,
            on_path,
        ]),
        ToolName::Xclbinutil => match named(&search.xrt) {
            Some(only) => sources.push(Some(only)),
            None => {
                sources.extend([
                    program(&search.aie_xclbinutil),
                    program(&search.aie_xclbinutil_path),
                    beside_peano(),
                ]);
                sources.extend(xrt());
                sources.push(on_path);
            }
        },
        ToolName::AiebuAsm => {
            sources.extend([beside_peano(), named(&search.xrt)]);
            sources.extend(xrt());
            sources.push(on_path);
        }
        ToolName::AieHsaco => match &search.hsaco_packer {
            HsacoPacker::Builtin => {}
            HsacoPacker::Program(path) => sources.push(Some(Source::Program(path))),
            HsacoPacker::Auto => sources.extend([
                named(&search.aie),
                python,
                installation(&search.mlir_aie_install_dir),
                active,
                on_path,
            ]),
        },
        ToolName::LlvmObjcopy => sources.extend([
            program(&search.aie_objcopy_path),
            named(&search.aie),
            python,
            installation(&search.mlir_aie_install_dir),
            active,
            beside_peano(),
            on_path,
            Some(Source::System(&search.system)),
        ]),
    }
    sources.into_iter().flatten().collect()
}

/// A variable's value, if it is set to anything.
fn variable(value: &Option<std::ffi::OsString>) -> Option<&Path> {
    value
        .as_deref()
        .filter(|value| !value.is_empty())
        .map(Path::new)
}

impl Source<'_> {
    /// Where this place was named, if it was and is no place at all for the reason that it was
    /// rejected.
    pub(super) fn misnamed(&self, reason: &Reason) -> Option<&str> {
        let (Self::Named(configured) | Self::NamedWheels(configured)) = self else {
            return None;
        };
        let nowhere = matches!(
            reason,
            Reason::Relative | Reason::NoDirectory | Reason::NoPackages
        );
        nowhere.then_some(&configured.origin)
    }

    /// Everything in it that may be the tool, in order, or the place that has nothing of it.
    pub(super) fn candidates(
        &self,
        search: &AieSearch,
        tool: ToolName,
        watch: &mut Watch,
    ) -> Vec<Result<Candidate, Rejected>> {
        from(self, search, tool, watch)
    }
}

fn from(
    source: &Source<'_>,
    search: &AieSearch,
    tool: ToolName,
    watch: &mut Watch,
) -> Vec<Result<Candidate, Rejected>> {
    let program = tool.program();
    let rejected = |place: &Path, reason| {
        vec![Err(Rejected {
            place: place.to_owned(),
            reason,
        })]
    };
    let missing = |place: &Path| {
        rejected(
            place,
            Reason::NoTool {
                tool: program.to_owned(),
            },
        )
    };
    match source {
        Source::Named(configured) => {
            let directory = Source::Installation(&configured.directory);
            from(&directory, search, tool, watch)
        }
        Source::NamedWheels(configured) => {
            let environment = Source::Wheels(&configured.directory);
            from(&environment, search, tool, watch)
        }
        Source::Installation(directory) | Source::Wheels(directory) if !directory.is_absolute() => {
            rejected(directory, Reason::Relative)
        }
        Source::Installation(directory) => {
            let bin = directory.join("bin");
            let there = [bin.as_path(), directory]
                .into_iter()
                .find_map(|directory| in_directory(directory, OsStr::new(program), watch));
            match there {
                Some(candidate) => vec![Ok(candidate)],
                None if !directory.is_dir() => rejected(directory, Reason::NoDirectory),
                None => missing(directory),
            }
        }
        Source::Programs(bin) => match in_directory(bin, OsStr::new(program), watch) {
            Some(candidate) => vec![Ok(candidate)],
            None => missing(bin),
        },
        Source::BesidePeano(bin) => {
            let found = in_directory(bin, OsStr::new(program), watch);
            found.map(Ok).into_iter().collect()
        }
        Source::Program(path) if !path.is_absolute() => rejected(path, Reason::Relative),
        Source::Program(path) => {
            watch.see(path);
            let place = path.parent().unwrap_or(path).to_owned();
            vec![Ok(Candidate {
                place,
                program: (*path).to_owned(),
            })]
        }
        Source::Wheels(environment) => {
            let packages = wheel::packages(environment, watch);
            if packages.is_empty() {
                return rejected(environment, Reason::NoPackages);
            }
            let directories = packages
                .iter()
                .flat_map(|packages| wheel::program_directories(packages, tool.trees(), watch))
                .collect::<Vec<_>>();
            let found: Vec<_> = directories
                .iter()
                .filter_map(|bin| in_directory(bin, OsStr::new(program), watch))
                .map(Ok)
                .collect();
            match (found.is_empty(), directories.first()) {
                (true, Some(usual)) => missing(usual),
                _ => found,
            }
        }
        Source::Path(name) => {
            let found = on_path(search, name, watch);
            if found.is_empty() {
                let tool = name.to_string_lossy().into_owned();
                return rejected(Path::new("PATH"), Reason::NoTool { tool });
            }
            found.into_iter().map(Ok).collect()
        }
        Source::System(directory) => {
            let bins = places::system(directory, watch);
            bins.iter()
                .find_map(|bin| in_directory(bin, OsStr::new(program), watch))
                .map_or_else(
                    || missing(&directory.join("llvm-*/bin")),
                    |found| vec![Ok(found)],
                )
        }
    }
}

/// The entry of a directory, even one that leads nowhere. The directory's stamp stands for a name
/// that is not in it.
fn in_directory(directory: &Path, program: &OsStr, watch: &mut Watch) -> Option<Candidate> {
    watch.see(directory)?;
    let path = directory.join(program);
    std::fs::symlink_metadata(&path).ok()?;
    watch.see(&path);
    Some(Candidate {
        place: directory.to_owned(),
        program: path,
    })
}

fn on_path(search: &AieSearch, name: &OsStr, watch: &mut Watch) -> Vec<Candidate> {
    if name.as_bytes().contains(&b'/') {
        return Vec::new();
    }
    let mut known = BTreeSet::new();
    search
        .path
        .iter()
        .flat_map(std::env::split_paths)
        .filter(|directory| directory.is_absolute())
        .filter_map(|directory| {
            let stamp = watch.see(&directory);
            let is_news = stamp
                .as_ref()
                .map(Stamp::file)
                .is_some_and(|file| known.insert(file));
            is_news
                .then(|| in_directory(&directory, name, watch))
                .flatten()
        })
        .collect()
}
