//! Variables that look like settings and that nothing reads: misspelt ones, mostly.

use std::ffi::OsString;

use super::environment::read;
use crate::nearest;

/// What the names of our own variables begin with.
const PREFIX: &str = "NPU_BUILD_";
/// What the two programs tell each other.
const INTERNAL: &str = "CALLER";

/// A warning for each of these names that looks like a setting and is none, with the nearest one.
#[must_use]
pub fn unread_variables(names: impl IntoIterator<Item = OsString>) -> Vec<String> {
    let known = || read().filter_map(|name| name.strip_prefix(PREFIX));
    let mut warnings = Vec::new();
    for name in names {
        // What is no text is no name of ours, up to where it stops being text.
        let name = name.to_string_lossy();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if rest == INTERNAL || known().any(|known| known == rest) {
            continue;
        }
        let nearest = nearest::of(rest, known()).map(|rest| format!("{PREFIX}{rest}"));
        let shown: String = name.chars().take(200).collect();
        warnings.push(format!(
            "nothing reads the variable {shown}{}",
            nearest::hint(nearest.as_deref())
        ));
    }
    warnings.sort_unstable();
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_prefix_counts_and_every_setting_is_known() {
        let names = read().chain(["NPU_BUILD_CALLER", "NPU", "JOBS", "NPU_BUILDJOBS"]);
        let none = unread_variables(names.map(OsString::from));
        assert_eq!(none, [""; 0]);
    }

    #[test]
    fn the_nearest_is_named_if_there_is_one() {
        let names = [
            "NPU_BUILD_TAGRET",
            "NPU_BUILD_JBOS",
            "NPU_BUILD_LLVM",
            "NPU_BUILD_NUMBER",
        ];
        assert_eq!(
            unread_variables(names.map(OsString::from)),
            [
                "nothing reads the variable NPU_BUILD_JBOS; did you mean 'NPU_BUILD_JOBS'?",
                "nothing reads the variable NPU_BUILD_NUMBER",
                "nothing reads the variable NPU_BUILD_TAGRET; did you mean 'NPU_BUILD_TARGET'?",
            ]
        );
    }
}
