//! Which tool an executable is. All tools are one program; each installed copy ends in a line that
//! says what it is, so that different tools, dialects and builds differ in their bytes, as real ones
//! do, and renaming a file changes nothing.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

const MARK: &str = "\n#aie-double ";
const TAIL: u64 = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub tool: String,
    /// The dialect of its options: 1, 2 or 3 for aiecc; 1 (mid 2026) or 2 (newest) for aie-hsaco.
    pub dialect: u8,
    pub version: String,
    pub build: u32,
}

impl Identity {
    /// The line at the end of the executable.
    pub fn line(&self) -> String {
        format!(
            "{MARK}tool={} dialect={} version={} build={}\n",
            self.tool,
            self.dialect,
            self.version.replace(' ', "_"),
            self.build
        )
    }

    /// Reads the line at the end of an executable.
    pub fn of(executable: &Path) -> Option<Self> {
        let mut file = File::open(executable).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))
            .ok()?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail).ok()?;
        let tail = String::from_utf8_lossy(&tail);
        let (_, line) = tail.rsplit_once(MARK)?;
        let value = |key: &str| {
            let mut words = line.split_whitespace();
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        Some(Self {
            tool: value("tool")?.to_owned(),
            dialect: value("dialect")?.parse().ok()?,
            version: value("version")?.to_owned(),
            build: value("build")?.parse().ok()?,
        })
    }

    /// What a copy without the line is: the tool that it is called as.
    pub fn from_name(program: &str) -> Self {
        let name = program.rsplit('/').next().unwrap_or(program);
        let dialect = std::env::var("AIE_DOUBLE_DIALECT").ok();
        Self {
            tool: name.to_owned(),
            dialect: dialect.and_then(|d| d.parse().ok()).unwrap_or(2),
            version: "0.0.0".to_owned(),
            build: 0,
        }
    }
}
