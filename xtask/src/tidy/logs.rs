//! Log lines are for operators: no line shows a value as Rust writes it for programmers (`Some((0, 0))`).

use super::tree::code_of;
use super::{Tree, Violation};

const LEVELS: [&str; 5] = ["error!(", "warn!(", "info!(", "debug!(", "trace!("];
const WHY: &str = "a log line shows a value as `Debug` does: name it in words, or implement Display";

/// Reports fields `?value` and places `{value:?}` in calls of `tracing`'s macros.
pub fn without_debug(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let mut inside = false;
        for (number, line) in file.lines() {
            let code = code_of(line);
            inside |= begins(&code);
            if inside && (shows_debug(&code) || line.contains(":?}")) {
                found.push(Violation::new(&file.path, number, WHY));
            }
            inside &= !ends(&code);
        }
    }
    found
}

fn begins(code: &str) -> bool {
    let calls = code.split("tracing::").skip(1);
    calls
        .into_iter()
        .any(|call| LEVELS.iter().any(|level| call.starts_with(level)))
}

fn ends(code: &str) -> bool {
    let code = code.trim_end();
    code.ends_with(");") || code.ends_with("),") || code.ends_with(')')
}

fn shows_debug(code: &str) -> bool {
    let field = |before: &str| code.contains(&format!("{before}?"));
    field(", ") || field("= ") || field("!(") || code.trim_start().starts_with('?')
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;

    #[test]
    fn only_log_lines_are_looked_at() {
        // The macros of the text are those of another crate, so that this file is clean itself.
        let text = "spell::info!(?id, \"a\");\n\
                    spell::warn!(\n    id = ?self.id,\n    \"b\"\n);\n\
                    spell::debug!(\"c {id:?}\");\n\
                    panic!(\"d {id:?}\");\n\
                    spell::info!(%id, \"e?\");\n"
            .replace("spell", "tracing");
        let lines: Vec<usize> = without_debug(&tree(&[("a.rs", &text)]))
            .iter()
            .map(|v| v.line)
            .collect();
        assert_eq!(lines, [1, 3, 6]);
    }
}
