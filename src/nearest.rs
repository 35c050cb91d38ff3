//! "Did you mean": the known name closest to one that is not known.

/// Names longer than this are no misspelt ones, and comparing costs the product of the lengths.
const LONGEST: usize = 200;

/// The candidate that `name` is most likely a misspelling of: at most a third of it is wrong.
pub fn of<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<String> {
    if name.len() > LONGEST {
        return None;
    }
    let allowed = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::osa_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        // Among equals, the one that starts alike: people mistype ends.
        .min_by_key(|(distance, candidate)| {
            let alike = name.chars().zip(candidate.chars());
            let alike = alike.take_while(|(a, b)| a == b).count();
            (*distance, std::cmp::Reverse(alike), *candidate)
        })
        .map(|(_, candidate)| candidate.to_owned())
}

/// The sentence's end: `; did you mean '…'?`, or nothing.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}
