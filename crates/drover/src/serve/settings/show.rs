//! Output of `drover config`: each setting on a line, with its origin.

use super::offered::Feature;
use super::{Origin, Settings};
use std::fmt;

/// A line of `drover config`.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the setting: the long flag, or the word of `-o`.
    pub name: &'static str,
    /// Value in force.
    pub value: String,
    /// Origin of the value.
    pub origin: Origin,
    /// Feature that the setting concerns; `None`: all systems have it.
    pub needs: Option<Feature>,
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{:<18} {:<24} {}", row.name, row.value, row.origin)?;
        }
        Ok(())
    }
}
