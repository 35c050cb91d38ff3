//! Which tool an executable is. All tools are one program; each installed copy ends in a line that
//! says what it is, so that different tools, dialects and builds differ in their bytes, as real ones
//! do, and renaming a file changes nothing.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

const MARK: &str = "\n#aie-double ";

#[derive(Clone, Debug)]
pub struct Identity {
    pub tool: String,
    /// The dialect of its options.
    pub dialect: u8,
    pub version: String,
    /// Distinguishes builds of one version.
    pub build: u32,
}

impl Identity {
    /// The line at the end of the executable.
    pub fn line(&self) -> String {
        let (tool, dialect) = (&self.tool, self.dialect);
        format!("{MARK}{tool} {dialect} {} {}\n", self.version, self.build)
    }

    /// Reads the line at the end of an executable.
    pub fn of(executable: &Path) -> Option<Self> {
        let mut file = File::open(executable).ok()?;
        file.seek(SeekFrom::End(-256)).ok()?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail).ok()?;
        let tail = String::from_utf8_lossy(&tail);
        let mut words = tail.rsplit_once(MARK)?.1.split_whitespace();
        Some(Self {
            tool: words.next()?.to_owned(),
            dialect: words.next()?.parse().ok()?,
            version: words.next()?.to_owned(),
            build: words.next()?.parse().ok()?,
        })
    }
}
