//! What a step's output must be: exit status 0 of a tool is no proof of anything.

use std::path::Path;

/// What the content of an output is checked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Text in UTF-8.
    Text,
    /// A shared object that this machine can load, with the entry points of a kernel.
    CpuObject,
}

impl Check {
    /// Says what is wrong with `bytes`, an output that was made in `directory`.
    ///
    /// # Errors
    /// The first thing that is not as it must be.
    pub fn content(&self, bytes: &[u8], _directory: &Path) -> Result<(), String> {
        match self {
            Self::Text => match std::str::from_utf8(bytes) {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("not text: {error}")),
            },
            Self::CpuObject => {
                npu_runtime::check_cpu_object(bytes).map_err(|fault| fault.to_string())
            }
        }
    }
}
