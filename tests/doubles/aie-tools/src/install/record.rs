//! The RECORDs of wheels: every file's digest.

use std::fs;
use std::io;

use sha2::{Digest as _, Sha256};

use super::{Installation, wheels};

impl Installation {
    pub(super) fn records(&self) -> io::Result<()> {
        for wheel in wheels(self.dialect) {
            let info = format!("{}-{}.dist-info", wheel.distribution, wheel.version);
            let directory = self.site_packages().join(&info);
            fs::create_dir_all(&directory)?;
            let metadata = format!(
                "Metadata-Version: 2.1\nName: {}\nVersion: {}\n",
                wheel.distribution, wheel.version
            );
            fs::write(directory.join("METADATA"), &metadata)?;
            let mut record = String::new();
            for (tool, _) in &wheel.tools {
                let path = self.path_of(wheel.package, tool);
                if let Ok(bytes) = fs::read(path) {
                    let digest = base64(&Sha256::digest(&bytes));
                    record.push_str(&format!(
                        "{}/bin/{tool},sha256={digest},{}\n",
                        wheel.package,
                        bytes.len()
                    ));
                }
            }
            let digest = base64(&Sha256::digest(metadata.as_bytes()));
            record.push_str(&format!(
                "{info}/METADATA,sha256={digest},{}\n{info}/RECORD,,\n",
                metadata.len()
            ));
            fs::write(directory.join("RECORD"), record)?;
        }
        Ok(())
    }
}

/// Base64 for URLs, without padding, as RECORD has it.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0u8; 4];
        group
            .iter_mut()
            .skip(1)
            .zip(chunk)
            .for_each(|(to, from)| *to = *from);
        let bits = u32::from_be_bytes(group);
        for index in 0..=chunk.len() {
            let digit = (bits >> (18 - 6 * index)) & 63;
            text.push(char::from(
                DIGITS.get(digit as usize).copied().unwrap_or(b'A'),
            ));
        }
    }
    text
}
