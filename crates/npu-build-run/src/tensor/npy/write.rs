//! Writing `.npy` files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use npyz::{DType, TypeChar, WriteOptions, WriterBuilder as _};

use super::header::kinds;
use super::{NpyError, NpyFault};
use crate::tensor::Layout;

/// Writes elements to a file, which is replaced when all of them are there.
///
/// # Errors
/// When it can't be written; then it is as it was.
pub fn save(path: &Path, layout: &Layout, bytes: &[u8]) -> Result<(), NpyError> {
    let written = match fs::metadata(path) {
        // A device or a pipe is nothing to put a file in place of.
        Ok(known) if !known.is_file() => {
            File::create(path).and_then(|file| to(file, layout, bytes))
        }
        _ => replace(path, layout, bytes),
    };
    written.map_err(|error| NpyFault::Write(error).of(path))
}

fn replace(path: &Path, layout: &Layout, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
    let file = tempfile::Builder::new()
        .prefix(".npu-build-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory.unwrap_or(Path::new(".")))?;
    to(file.as_file(), layout, bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn to(file: impl Write, layout: &Layout, bytes: &[u8]) -> io::Result<()> {
    let mut writer = BufWriter::new(file);
    let shape: Vec<_> = layout.shape.iter().map(|dim| *dim as u64).collect();
    WriteOptions::new_header_only()
        .dtype(dtype(layout)?)
        .shape(&shape)
        .writer(&mut writer)
        .write_header_only()?;
    writer.write_all(bytes)?;
    writer.flush()
}

fn dtype(layout: &Layout) -> io::Result<DType> {
    let (kind, width) = kinds(&layout.element)
        .first()
        .copied()
        .unwrap_or((TypeChar::Uint, 1));
    let order = match (width, cfg!(target_endian = "big")) {
        (1, _) => '|',
        (_, false) => '<',
        (_, true) => '>',
    };
    let text = format!("{order}{}{width}", kind.to_str());
    text.parse()
        .map(DType::new_scalar)
        .map_err(io::Error::other)
}
