//! What is wrong with a `.npy` file.

use std::io;
use std::path::{Path, PathBuf};

use npu_runtime::ElementType;

use super::header::{numpy_name, numpy_names};

/// A file that can't be read as elements, or not written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", path.display())]
pub struct NpyError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub fault: NpyFault,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum NpyFault {
    /// The system's word.
    #[error("can't be read: {0}")]
    Read(io::Error),
    /// The system's word.
    #[error("can't be written: {0}")]
    Write(io::Error),
    /// A directory, a pipe, a device.
    #[error("this is no regular file: give a .npy file")]
    NotRegular,
    /// It does not begin as one does.
    #[error("this is no .npy file{}", if *.archive {
        ", but an archive such as np.savez makes: save the array with np.save"
    } else {
        "; np.save makes one"
    })]
    NotNpy {
        /// Whether it may be a `.npz` file.
        archive: bool,
    },
    /// A version of the format that nobody knows.
    #[error("this is version {major}.{minor} of the .npy format; known are 1.0, 2.0 and 3.0")]
    Version {
        /// The first number.
        major: u8,
        /// The second.
        minor: u8,
    },
    /// Its header is not one that NumPy writes.
    #[error("its header can't be understood: {0}")]
    Header(String),
    /// Records, times, strings, objects.
    #[error("its elements are {found}, not numbers")]
    NotNumbers {
        /// What they are.
        found: String,
    },
    /// Elements of another type.
    #[error("its elements are {found}, and {expected} is {}: convert it with {}", numpy_names(.expected), conversion(.expected))]
    Type {
        /// NumPy's name of the file's type.
        found: String,
        /// The type that is needed.
        expected: ElementType,
    },
    /// More than a file or memory can have.
    #[error("its header promises more elements than there can be")]
    TooLarge,
    /// It is cut off.
    #[error(
        "it is cut off: its header promises {promised} bytes of elements, and there are {found}"
    )]
    Truncated {
        /// By the header.
        promised: u64,
        /// By the file's length.
        found: u64,
    },
    /// There is something behind its elements.
    #[error(
        "its header promises {promised} bytes of elements, and there are {found}: it holds something else as well"
    )]
    Trailing {
        /// By the header.
        promised: u64,
        /// By the file's length.
        found: u64,
    },
    /// A `bool` that is none.
    #[error("element {index} is {value}, and a bool is 0 or 1")]
    NotBool {
        /// Its position.
        index: usize,
        /// Its byte.
        value: u8,
    },
}

impl NpyFault {
    /// The error of the file at `path`.
    pub(super) fn of(self, path: &Path) -> NpyError {
        NpyError {
            path: path.to_owned(),
            fault: self,
        }
    }
}

/// What makes an array of the right type in Python.
fn conversion(element: &ElementType) -> String {
    match element {
        ElementType::Bytes { size, .. } => format!("view(np.uint8).reshape(…, {size})"),
        ElementType::Bf16 => "astype(ml_dtypes.bfloat16)".to_owned(),
        _ => format!("astype(np.{})", numpy_name(element)),
    }
}
