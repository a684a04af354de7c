//! Rules that no compiler checks, over the tracked files and `cargo metadata`.
//!
//! Every rule is a function from the [`Tree`] to its violations; [`RULES`] lists them. Each has a test with a planted
//! violation, so a rule that stops working is noticed.

mod dependencies;
mod docs;
mod fields;
mod floors;
mod licences;
mod logs;
mod programs;
mod sizes;
mod sources;
mod systems;
mod tree;
mod unsafety;
mod words;

use std::fmt;
use std::path::Path;
pub use tree::Tree;

/// A violation of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The file, relative to the root of the workspace.
    pub path: String,
    /// The line, from 1; 0 for the whole file.
    pub line: usize,
    /// The problem and its remedy.
    pub message: String,
    /// Whether it is only a hint: shown, but not a failure.
    pub warning: bool,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Violation {
        Violation {
            path: path.to_string(),
            line,
            message: message.into(),
            warning: false,
        }
    }
}

type Rule = fn(&Tree) -> Vec<Violation>;

/// Name and function of every rule.
const RULES: &[(&str, Rule)] = &[
    ("dependency edges", dependencies::edges),
    ("floors", floors::floors),
    ("suite in tests only", floors::suite),
    ("dependency sentences", dependencies::sentences),
    ("dependency licences", licences::allowed),
    ("test programs", programs::few),
    ("files of other crates", programs::own_files),
    ("log lines in words", logs::without_debug),
    ("file sizes", sizes::lines_and_bytes),
    ("fields shown", fields::shown),
    ("machine paths", words::machine_paths),
    ("unfinished work", words::unfinished),
    ("registry hosts", words::registry_hosts),
    ("plain English", words::phrases),
    ("unsafe in its place", unsafety::in_its_place),
    ("unsafe explained", unsafety::explained),
    ("unsafe forbidden elsewhere", unsafety::forbidden_elsewhere),
    ("links in documents", docs::links),
    ("paths in documents", docs::paths),
    ("tests in documents", docs::tests),
    ("cited sources", sources::defined),
    ("systems named by few files", systems::named_by_few_files),
    ("systems told apart nowhere", systems::told_apart_nowhere),
];

/// Violations of all rules.
pub struct Report {
    found: Vec<(&'static str, Violation)>,
}

/// Reads the workspace at `root` and applies every rule.
pub fn check(root: &Path) -> Result<Report, String> {
    Ok(apply(&Tree::read(root)?))
}

fn apply(tree: &Tree) -> Report {
    let found = RULES
        .iter()
        .flat_map(|(name, rule)| rule(tree).into_iter().map(move |violation| (*name, violation)))
        .collect();
    Report { found }
}

impl Report {
    /// Whether there are only hints.
    pub fn is_clean(&self) -> bool {
        self.found.iter().all(|(_, violation)| violation.warning)
    }

    /// Summary for the table of steps.
    pub fn summary(&self) -> String {
        let count = self
            .found
            .iter()
            .filter(|(_, violation)| !violation.warning)
            .count();
        format!("{count} untidy places, listed above")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rule, v) in &self.found {
            let kind = if v.warning { "hint" } else { "error" };
            writeln!(f, "{kind}: {}:{}: {} [{rule}]", v.path, v.line, v.message)?;
        }
        Ok(())
    }
}
