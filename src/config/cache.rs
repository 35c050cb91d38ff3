//! How large the cache may become, and where else to look things up.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::store::Bounds;
use crate::value;

/// What a layer of the settings says of the cache besides its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheChoices {
    /// Cache directories that are only read, in the order in which they are asked.
    pub layers: Option<Vec<PathBuf>>,
    /// Bytes of all entries.
    pub max_size: Option<Bound<Bytes>>,
    /// Since an entry's last use.
    pub max_age: Option<Bound<Age>>,
    /// Entries.
    pub max_entries: Option<Bound<Count>>,
}

/// A limit, or the word that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound<T> {
    /// No more than this.
    To(T),
    /// Without limit.
    Unlimited,
}

/// A number of bytes that is written with a unit, e.g. `5GiB` or `500M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// A number of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

/// A time that is written with units, e.g. `90d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age(pub Duration);

impl CacheChoices {
    /// These choices where they say something, `below` where they do not.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            layers: self.layers.or(below.layers),
            max_size: self.max_size.or(below.max_size),
            max_age: self.max_age.or(below.max_age),
            max_entries: self.max_entries.or(below.max_entries),
        }
    }

    /// The bounds, with the default ones where nothing is said.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let default = Bounds::default();
        Bounds {
            size: self
                .max_size
                .map_or(default.size, |bound| bound.map(|Bytes(bytes)| bytes)),
            age: self
                .max_age
                .map_or(default.age, |bound| bound.map(|Age(age)| age)),
            entries: self
                .max_entries
                .map_or(default.entries, |bound| bound.map(|Count(count)| count)),
        }
    }
}

impl<T> Bound<T> {
    fn map<U>(self, with: impl FnOnce(T) -> U) -> Option<U> {
        match self {
            Self::To(limit) => Some(with(limit)),
            Self::Unlimited => None,
        }
    }
}

impl<T: FromStr> FromStr for Bound<T>
where
    T::Err: ToString,
{
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "unlimited" => Ok(Self::Unlimited),
            limit => limit.parse().map(Self::To).map_err(|error| {
                let error: T::Err = error;
                format!("{}, or 'unlimited'", error.to_string())
            }),
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = value::size(text).map(Self);
        size.ok_or_else(|| format!("'{text}' is no size; give bytes, or a unit as in 500M or 5GiB"))
    }
}

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = value::integer(text, 0..=u64::MAX).map(Self);
        count.ok_or_else(|| format!("'{text}' is no number"))
    }
}

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text {
            "0" => Ok(Duration::ZERO),
            _ => humantime::parse_duration(text).map_err(|_| ()),
        };
        parsed.map(Self).map_err(|()| {
            format!("'{text}' is no time; give one with a unit, as in 90d, 12h or '1w 2d'")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1024", 1024),
            ("1k", 1024),
            ("5GiB", 5 << 30),
            ("5 gb", 5 << 30),
            ("16777215T", 16_777_215 << 40),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in [
            "",
            "-1",
            "GiB",
            "1.5G",
            "1X",
            "16777216T",
            "99999999999999999999",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bound_may_be_none() {
        assert_eq!("unlimited".parse(), Ok(Bound::<Bytes>::Unlimited));
        assert_eq!(
            "2d".parse(),
            Ok(Bound::To(Age(Duration::from_secs(172_800))))
        );
        assert_eq!("7".parse(), Ok(Bound::To(Count(7))));
        let refused = "x".parse::<Bound<Count>>().unwrap_err();
        assert_eq!(refused, "'x' is no number, or 'unlimited'");
    }
}
