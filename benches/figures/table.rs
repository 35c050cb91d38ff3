//! The one table that is printed, line by line as it is measured.

use std::fmt::Display;

/// Where the columns are.
pub struct Table;

impl Table {
    /// Prints the head.
    pub fn new() -> Self {
        print("figure", "measured", "limit", "holds");
        Self
    }

    /// A measured value with its limit, in the same unit.
    pub fn line(
        &mut self,
        figure: &str,
        measured: impl Display,
        value: f64,
        limit: f64,
        unit: &str,
    ) {
        let holds = if value <= limit { "yes" } else { "NO" };
        print(
            figure,
            &measured.to_string(),
            &format!("≤ {limit}{unit}"),
            holds,
        );
    }

    /// A part of the figure above, which has no limit of its own.
    pub fn part(&mut self, figure: &str, measured: impl Display) {
        print(&format!("  {figure}"), &measured.to_string(), "", "");
    }

    /// A figure that can't be measured here, and why.
    pub fn missing(&mut self, figure: &str, reason: impl Display) {
        print(figure, &format!("NOT MEASURED: {reason}"), "", "");
    }
}

fn print(figure: &str, measured: &str, limit: &str, holds: &str) {
    println!(
        "{}",
        format!("{figure:44} {measured:58} {limit:12} {holds}").trim_end()
    );
}
