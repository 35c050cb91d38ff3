//! The version in what a tool prints for `--version`.

/// "Debian LLVM version 22.1.8", "GNU ld (GNU Binutils) 2.40" and "LLD 22.1.8 (compatible with
/// GNU linkers)" give the number alone. A distribution's own suffix is left out
/// ("14.0.0-1ubuntu1" is 14.0.0): only some of a release's tools print it.
pub(super) fn version(output: &str) -> Option<&str> {
    let after = output.lines().find_map(|line| {
        line.split_once("version ")
            .and_then(|(_, rest)| number(rest))
    });
    after.or_else(|| {
        output
            .lines()
            .next()?
            .split_ascii_whitespace()
            .find_map(number)
    })
}

/// The dotted number at the start of `text`, with letters that follow it ("23.0.0git").
fn number(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .unwrap_or(text.len());
    let number = text.get(..end)?.trim_end_matches('.');
    (number.starts_with(|c: char| c.is_ascii_digit()) && number.contains('.')).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_number_is_found_in_what_real_tools_print() {
        for (output, expected) in [
            ("Debian LLVM version 22.1.8\n  Optimized build.\n", "22.1.8"),
            (
                "LLVM (http://llvm.org/):\n  LLVM version 20.0.0git\n  Optimized build.\n",
                "20.0.0git",
            ),
            (
                "Debian clang version 22.1.8 (1~deb12u1)\nTarget: x86_64-pc-linux-gnu\n",
                "22.1.8",
            ),
            (
                "Ubuntu clang version 14.0.0-1ubuntu1.1\nTarget: x86_64-pc-linux-gnu\n",
                "14.0.0",
            ),
            (
                "GNU ld (GNU Binutils for Debian) 2.40\nCopyright (C) 2023\n",
                "2.40",
            ),
            ("GNU ld version 2.41-34.fc40\n", "2.41"),
            ("LLD 22.1.8 (compatible with GNU linkers)\n", "22.1.8"),
            ("mold 2.30.0 (compatible with GNU ld)\n", "2.30.0"),
        ] {
            assert_eq!(version(output), Some(expected), "{output}");
        }
        for output in ["", "version", "no number\nversion x", "version é.1"] {
            assert_eq!(version(output), None, "{output}");
        }
    }
}
