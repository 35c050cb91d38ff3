//! Integers, sizes and paths as users write them. Flags, variables and `npu-build.toml` are read by
//! the same readers; what they refuse is refused everywhere.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;

/// Reads an integer that must lie in `range`: decimal digits, or hexadecimal ones behind `0x`.
#[must_use]
pub fn integer<N>(text: &str, range: RangeInclusive<N>) -> Option<N>
where
    N: TryFrom<u64> + PartialOrd,
{
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    // The parsers of the standard library take a sign, too.
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let value = N::try_from(u64::from_str_radix(digits, radix).ok()?).ok()?;
    range.contains(&value).then_some(value)
}

/// Reads integers that are separated by commas, all of them in `range`.
pub(crate) fn integers<N>(text: &str, range: &RangeInclusive<N>) -> Option<Vec<N>>
where
    N: TryFrom<u64> + PartialOrd + Clone,
{
    let numbers = text.split(',');
    numbers
        .map(|number| integer(number.trim(), range.clone()))
        .collect()
}

/// Reads a number of bytes: an integer, or decimal digits with a unit, which is a power of 1024.
pub(crate) fn size(text: &str) -> Option<u64> {
    if let Some(bytes) = integer(text, 0..=u64::MAX) {
        return Some(bytes);
    }
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "b" => 0,
        "k" | "kib" | "kb" => 10,
        "m" | "mib" | "mb" => 20,
        "g" | "gib" | "gb" => 30,
        "t" | "tib" | "tb" => 40,
        _ => return None,
    };
    integer(number, 0..=u64::MAX)?.checked_mul(1 << shift)
}

/// Reads the name of a file, directory or program.
///
/// # Errors
/// Says why no file can have it.
pub fn path<P: From<OsString>>(text: OsString) -> Result<P, &'static str> {
    match text.as_bytes() {
        [] => Err("the path is empty"),
        bytes if bytes.contains(&0) => Err("a path holds no NUL character"),
        _ => Ok(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn an_integer_is_digits_within_its_range() {
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("255", Some(255)),
            ("0xff", Some(255)),
            ("0xFF", Some(255)),
            ("256", None),
            ("0x100", None),
            ("18446744073709551616", None),
            ("+1", None),
            ("-1", None),
            ("0x+1", None),
            ("0x", None),
            ("", None),
            (" 1", None),
            ("1_0", None),
            ("1e2", None),
            ("\u{0661}", None),
        ] {
            assert_eq!(integer(text, 0..=u8::MAX), expected, "{text}");
        }
        assert_eq!(integer("1", 2..=3_u32), None);
        assert_eq!(integers("1, 2,0x3", &(1..=3_u32)), Some(vec![1, 2, 3]));
        assert_eq!(integers("1,,2", &(0..=3_u32)), None);
    }

    #[test]
    fn a_size_has_a_unit_or_none() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("0x800", Some(2048)),
            ("1k", Some(1024)),
            ("5 GiB", Some(5 << 30)),
            ("16777215T", Some(16_777_215 << 40)),
            ("16777216T", None),
            ("1.5G", None),
            ("0x1G", None),
            ("+1k", None),
            ("k", None),
            ("1X", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    #[test]
    fn a_path_is_something_that_a_file_can_be_called() {
        assert_eq!(path("a b".into()), Ok(PathBuf::from("a b")));
        assert!(path::<PathBuf>("".into()).is_err());
        assert!(path::<PathBuf>("a\0b".into()).is_err());
    }
}
