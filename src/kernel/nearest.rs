//! "Did you mean": the known name closest to one that is not known.

/// The candidate that is most like `name`, if any is like it.
pub(super) fn of<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    // Longer text is no misspelt name, and comparing costs the product of the lengths.
    if name.len() > 200 {
        return None;
    }
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 200)
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(a.1)))
        .map(|(_, candidate)| candidate.to_owned())
}

/// The sentence's end: `; did you mean '…'?`, or nothing.
pub(super) fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}
