//! What a tool is told to do wrong: `<tool>.behaviour` beside the executable (it survives a cleared
//! environment), and `AIE_DOUBLE_<TOOL>` with `;` for line breaks when a tool is run by hand.
//!
//! One `key = value` a line, `#` starts a comment. All of it is described in the crate's README.

use std::path::Path;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    entries: Vec<(String, String)>,
}

impl Control {
    pub fn parse(text: &str) -> Self {
        let lines = text.split(['\n', ';']).map(str::trim);
        let entries = lines
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| match line.split_once('=') {
                Some((key, value)) => (key.trim().to_owned(), value.trim().to_owned()),
                None => (line.to_owned(), "yes".to_owned()),
            })
            .collect();
        Self { entries }
    }

    /// The instructions for `tool`, whose executable is in `directory`, in its run of that number
    /// with these arguments.
    pub fn load(tool: &str, directory: &Path, earlier_runs: usize, arguments: &[String]) -> Self {
        let file = std::fs::read_to_string(directory.join(format!("{tool}.behaviour")));
        let name = format!(
            "AIE_DOUBLE_{}",
            tool.replace(['-', '.'], "_").to_uppercase()
        );
        let environment = std::env::var(name).unwrap_or_default();
        let control = Self::parse(&format!("{}\n{environment}", file.unwrap_or_default()));
        let concerned = control
            .get("when")
            .is_none_or(|text| arguments.iter().any(|a| a.contains(text)));
        let early = control
            .number("runs")
            .is_none_or(|runs| (earlier_runs as u64) < runs);
        let asks = arguments.iter().any(|a| {
            a.trim_start_matches('-').starts_with("version")
                || a.trim_start_matches('-').starts_with("help")
        });
        let probed = asks && control.get("probes").is_none();
        if concerned && early && !probed {
            control
        } else {
            Self::default()
        }
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).last()
    }

    pub fn all<'c>(&'c self, key: &str) -> impl DoubleEndedIterator<Item = &'c str> {
        let values = self.entries.iter().filter(move |(k, _)| k == key);
        values
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The last value of `key` as a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.get(key)?.parse().ok()
    }
}
