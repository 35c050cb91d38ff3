//! What to pack, as aie-hsaco's command line says it.
//!
//! Two grammars for the same thing: `--kernel` with colons, which has no escape, and options
//! without them, of which `--kernel-name` and `--kernel-elf` each begin a kernel. They mix, the
//! order of the command line is the order of the kernel table, and no kernel inherits anything.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// Where the code of a kernel comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A full ELF, with as many kernels as it has.
    Elf {
        /// The full ELF.
        path: PathBuf,
    },
    /// An instruction stream, and a PDI, without which ROCR loads nothing.
    Pdi {
        /// The kernel's name.
        name: String,
        /// The instruction stream.
        insts: PathBuf,
        /// The PDI.
        pdi: Option<PathBuf>,
    },
    /// An instruction stream, and an xclbin with one PDI.
    Xclbin {
        /// The kernel's name.
        name: String,
        /// The instruction stream.
        insts: PathBuf,
        /// The xclbin.
        xclbin: PathBuf,
    },
}

/// One kernel, or the kernels of one full ELF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Where the code comes from.
    pub source: Source,
    /// Size of the kernarg block in bytes; for a full ELF 0 leaves it to the ELF.
    pub kernarg_size: u32,
    /// Columns of the partition; a file that records them is checked against this.
    pub columns: Option<u32>,
}

/// An option that describes kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelOption {
    /// `--kernel`
    Kernel,
    /// `--kernel-name`
    Name,
    /// `--kernel-elf`
    Elf,
    /// `--kernel-insts`
    Insts,
    /// `--kernel-pdi`
    Pdi,
    /// `--kernel-xclbin`
    Xclbin,
    /// `--kernel-kernarg`
    Kernarg,
    /// `--kernel-cols`
    Columns,
}

impl KernelOption {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Kernel,
        Self::Name,
        Self::Elf,
        Self::Insts,
        Self::Pdi,
        Self::Xclbin,
        Self::Kernarg,
        Self::Columns,
    ];

    /// As it stands on the command line.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Kernel => "--kernel",
            Self::Name => "--kernel-name",
            Self::Elf => "--kernel-elf",
            Self::Insts => "--kernel-insts",
            Self::Pdi => "--kernel-pdi",
            Self::Xclbin => "--kernel-xclbin",
            Self::Kernarg => "--kernel-kernarg",
            Self::Columns => "--kernel-cols",
        }
    }
}

/// What the command line does not say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecFault {
    /// A `--kernel` has another number of fields than any form.
    #[error(
        "--kernel '{0}': expected NAME:INSTS[:PDI]:KERNARG_SIZE:NUM_COLS, xclbin:NAME:XCLBIN:INSTS:KERNARG_SIZE[:NUM_COLS] or elf:PATH[:KERNARG_SIZE[:NUM_COLS]]; a path with a colon, or a kernel named elf or xclbin, needs --kernel-name and the options that go with it"
    )]
    Form(String),
    /// A field that must be a number is none.
    #[error("{option}: '{value}' is no number of 32 bits")]
    Number {
        /// The option, with its value if that has fields.
        option: String,
        /// What stands there.
        value: String,
    },
    /// A field is empty.
    #[error("{option}: the {field} is empty")]
    Empty {
        /// The option, with its value if that has fields.
        option: String,
        /// Which field.
        field: &'static str,
    },
    /// A name is not UTF-8, as names in an hsaco are.
    #[error("{option}: the name is not UTF-8")]
    Name {
        /// The option, with its value if that has fields.
        option: String,
    },
    /// An option that says more about a kernel, and there is none.
    #[error("{} must follow --kernel-name or --kernel-elf", .0.flag())]
    Orphan(KernelOption),
    /// An option stands twice for one kernel.
    #[error("{} given twice for the same kernel", .0.flag())]
    Twice(KernelOption),
    /// A full ELF has all of it in itself.
    #[error("--kernel-elf is self-contained and cannot be combined with {}", .0.flag())]
    SelfContained(KernelOption),
    /// A kernel has no code.
    #[error("--kernel-name '{0}' requires --kernel-insts")]
    NoInsts(String),
    /// A kernel has two PDIs.
    #[error("kernel '{0}': give --kernel-pdi or --kernel-xclbin, not both")]
    TwoPdis(String),
    /// There is nothing to pack.
    #[error("no kernels given; use --kernel, --kernel-name or --kernel-elf")]
    Nothing,
}

impl Spec {
    /// The kernels that `options` describe, which stand in the order of the command line.
    ///
    /// # Errors
    /// See [`SpecFault`].
    pub fn from_options(
        options: impl IntoIterator<Item = (KernelOption, OsString)>,
    ) -> Result<Vec<Self>, SpecFault> {
        let mut specs = Vec::new();
        let mut open: Option<Fields> = None;
        for (option, value) in options {
            match option {
                KernelOption::Kernel => {
                    specs.extend(open.take().map(Fields::spec).transpose()?);
                    specs.push(colons(&value)?);
                }
                KernelOption::Name | KernelOption::Elf => {
                    specs.extend(open.take().map(Fields::spec).transpose()?);
                    open.insert(Fields::default()).set(option, value)?;
                }
                _ => match &mut open {
                    Some(fields) => fields.set(option, value)?,
                    None => return Err(SpecFault::Orphan(option)),
                },
            }
        }
        specs.extend(open.take().map(Fields::spec).transpose()?);
        if specs.is_empty() {
            return Err(SpecFault::Nothing);
        }
        Ok(specs)
    }

    /// The command line that says the same, without colons.
    #[must_use]
    pub fn to_options(&self) -> Vec<(KernelOption, OsString)> {
        let mut options = match &self.source {
            Source::Elf { path } => vec![(KernelOption::Elf, path.into())],
            Source::Pdi { name, insts, pdi } => {
                let pdi = pdi.iter().map(|pdi| (KernelOption::Pdi, pdi.into()));
                [
                    (KernelOption::Name, name.into()),
                    (KernelOption::Insts, insts.into()),
                ]
                .into_iter()
                .chain(pdi)
                .collect()
            }
            Source::Xclbin {
                name,
                insts,
                xclbin,
            } => vec![
                (KernelOption::Name, name.into()),
                (KernelOption::Xclbin, xclbin.into()),
                (KernelOption::Insts, insts.into()),
            ],
        };
        options.push((KernelOption::Kernarg, self.kernarg_size.to_string().into()));
        if let Some(columns) = self.columns {
            options.push((KernelOption::Columns, columns.to_string().into()));
        }
        options
    }
}

/// One `--kernel`.
fn colons(value: &OsStr) -> Result<Spec, SpecFault> {
    use KernelOption as O;
    let parts: Vec<_> = value.as_bytes().split(|byte| *byte == b':').collect();
    let forms: (&[&[u8]], &[O]) = match parts.as_slice() {
        [b"elf", rest @ ..] if (1..=3).contains(&rest.len()) => {
            (rest, &[O::Elf, O::Kernarg, O::Columns])
        }
        [b"xclbin", rest @ ..] if (4..=5).contains(&rest.len()) => (
            rest,
            &[O::Name, O::Xclbin, O::Insts, O::Kernarg, O::Columns],
        ),
        [b"elf" | b"xclbin", ..] => return Err(form(value)),
        rest if rest.len() == 4 => (rest, &[O::Name, O::Insts, O::Kernarg, O::Columns]),
        rest if rest.len() == 5 => (rest, &[O::Name, O::Insts, O::Pdi, O::Kernarg, O::Columns]),
        _ => return Err(form(value)),
    };
    let mut fields = Fields {
        spelling: Some(value.to_owned()),
        ..Fields::default()
    };
    for (part, option) in forms.0.iter().zip(forms.1) {
        fields.set(*option, OsString::from_vec(part.to_vec()))?;
    }
    fields.spec()
}

fn form(value: &OsStr) -> SpecFault {
    SpecFault::Form(value.to_string_lossy().into_owned())
}

/// The fields of one kernel, as far as they were given.
#[derive(Default)]
struct Fields {
    /// The `--kernel` that they come from.
    spelling: Option<OsString>,
    name: Option<OsString>,
    elf: Option<OsString>,
    insts: Option<OsString>,
    pdi: Option<OsString>,
    xclbin: Option<OsString>,
    kernarg: Option<OsString>,
    columns: Option<OsString>,
}

impl Fields {
    fn set(&mut self, option: KernelOption, value: OsString) -> Result<(), SpecFault> {
        let field = match option {
            KernelOption::Kernel | KernelOption::Name => &mut self.name,
            KernelOption::Elf => &mut self.elf,
            KernelOption::Insts => &mut self.insts,
            KernelOption::Pdi => &mut self.pdi,
            KernelOption::Xclbin => &mut self.xclbin,
            KernelOption::Kernarg => &mut self.kernarg,
            KernelOption::Columns => &mut self.columns,
        };
        if field.is_some() {
            return Err(SpecFault::Twice(option));
        }
        *field = Some(value);
        Ok(())
    }

    fn spec(self) -> Result<Spec, SpecFault> {
        let kernarg_size = self.number(KernelOption::Kernarg, self.kernarg.as_ref())?;
        let columns = self.number(KernelOption::Columns, self.columns.as_ref())?;
        let source = match &self.elf {
            Some(path) => self.elf_source(path)?,
            None => self.stream_source()?,
        };
        Ok(Spec {
            source,
            kernarg_size: kernarg_size.unwrap_or(0),
            columns,
        })
    }

    fn elf_source(&self, path: &OsStr) -> Result<Source, SpecFault> {
        let clashing = [
            (KernelOption::Insts, &self.insts),
            (KernelOption::Pdi, &self.pdi),
            (KernelOption::Xclbin, &self.xclbin),
        ];
        match clashing.iter().find(|(_, value)| value.is_some()) {
            Some((option, _)) => Err(SpecFault::SelfContained(*option)),
            None => Ok(Source::Elf {
                path: self.path(KernelOption::Elf, "path", path)?,
            }),
        }
    }

    fn stream_source(&self) -> Result<Source, SpecFault> {
        let name = self.name.as_deref().unwrap_or_default();
        let option = || self.option(KernelOption::Name);
        let name = name
            .to_str()
            .ok_or_else(|| SpecFault::Name { option: option() })?;
        if name.is_empty() {
            return Err(SpecFault::Empty {
                option: option(),
                field: "name",
            });
        }
        let Some(insts) = &self.insts else {
            return Err(SpecFault::NoInsts(name.to_owned()));
        };
        let insts = self.path(KernelOption::Insts, "instruction stream", insts)?;
        let name = name.to_owned();
        match (&self.pdi, &self.xclbin) {
            (Some(_), Some(_)) => Err(SpecFault::TwoPdis(name)),
            (None, Some(xclbin)) => Ok(Source::Xclbin {
                name,
                insts,
                xclbin: self.path(KernelOption::Xclbin, "xclbin", xclbin)?,
            }),
            (pdi, None) => Ok(Source::Pdi {
                name,
                insts,
                pdi: (pdi.as_ref())
                    .map(|pdi| self.path(KernelOption::Pdi, "PDI", pdi))
                    .transpose()?,
            }),
        }
    }

    fn path(
        &self,
        option: KernelOption,
        field: &'static str,
        value: &OsStr,
    ) -> Result<PathBuf, SpecFault> {
        if value.is_empty() {
            let option = self.option(option);
            return Err(SpecFault::Empty { option, field });
        }
        Ok(value.into())
    }

    fn number(
        &self,
        option: KernelOption,
        value: Option<&OsString>,
    ) -> Result<Option<u32>, SpecFault> {
        let Some(value) = value else {
            return Ok(None);
        };
        let number = value
            .to_str()
            .and_then(|text| match text.strip_prefix("0x") {
                Some(hex) if !hex.starts_with('+') => u32::from_str_radix(hex, 16).ok(),
                None if !text.starts_with('+') => text.parse().ok(),
                _ => None,
            });
        number.map(Some).ok_or_else(|| SpecFault::Number {
            option: self.option(option),
            value: value.to_string_lossy().into_owned(),
        })
    }

    /// How an error names what it is about.
    fn option(&self, option: KernelOption) -> String {
        match &self.spelling {
            Some(spelling) => format!("--kernel '{}'", spelling.to_string_lossy()),
            None => option.flag().to_owned(),
        }
    }
}
