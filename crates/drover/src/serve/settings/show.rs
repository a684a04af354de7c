//! Output of `drover config`: each setting on a line, with its origin.

use super::{Row, Settings, row};
use std::fmt;
use std::path::PathBuf;

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value, origin) in self.rows() {
            writeln!(f, "{name:<18} {value:<24} {origin}")?;
        }
        Ok(())
    }
}

impl Settings {
    /// Every setting, in the order of `drover config`.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            row("system", &self.system, |facts| facts.name.to_owned()),
            row("fabric", &self.fabric, Clone::clone),
        ];
        rows.extend(self.sockets.rows());
        rows.extend(self.commands.rows());
        rows.push(row("idle_timeout", &self.extended, |o| {
            format!("{} seconds", o.idle_timeout_s)
        }));
        rows.push(row("maxconns_fast", &self.extended, |o| {
            o.maxconns_fast.to_string()
        }));
        rows.extend(self.capacity.rows());
        rows.extend(self.memory.rows());
        rows.extend(self.workers.rows());
        rows.extend(self.ops.rows());
        rows
    }
}

/// A path that need not be given.
pub(super) fn path_or_none(path: &Option<PathBuf>) -> String {
    path.as_ref()
        .map_or("none".into(), |path| path.display().to_string())
}
