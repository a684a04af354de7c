//! A file is one idea: 100 to 350 lines are normal, and [`LINES_MAX`] is the limit. Longer files that existed before
//! the rule are in the ratchet file and may only shrink.

use super::{Tree, Violation};
use std::collections::BTreeMap;

/// More lines than this give a hint.
const LINES_HINT: usize = 500;
/// More lines than this fail, unless the ratchet file allows them.
const LINES_MAX: usize = 800;
/// Maximum lines of a numbered example: it fits on two screens.
const EXAMPLE_LINES_MAX: usize = 100;
/// Maximum bytes of any tracked file, to keep generated files out.
const BYTES_MAX: u64 = 200_000;
/// Ratchet file: `path lines`, one file per line, for files that were too long when the rule came.
const RATCHET: &str = "xtask/sizes.txt";

/// Too many lines of Rust, too many bytes of anything, and ratchet entries that can be tightened.
pub fn lines_and_bytes(tree: &Tree) -> Vec<Violation> {
    let allowed = ratchet(tree);
    let mut found = Vec::new();
    for file in &tree.files {
        if file.bytes > BYTES_MAX {
            found.push(Violation::new(
                &file.path,
                0,
                format!("{} bytes, over {BYTES_MAX}: generated data stays out", file.bytes),
            ));
        }
        if file.path.ends_with(".rs") {
            found.extend(long(
                &file.path,
                file.text.lines().count(),
                allowed.get(file.path.as_str()).copied(),
            ));
        }
    }
    found.extend(
        allowed
            .keys()
            .filter(|path| tree.file(path).is_none())
            .map(|path| Violation::new(RATCHET, 0, format!("{path} is gone: strike it"))),
    );
    found
}

fn long(path: &str, lines: usize, allowed: Option<usize>) -> Option<Violation> {
    if is_numbered_example(path) && lines >= EXAMPLE_LINES_MAX {
        return Some(Violation::new(
            path,
            0,
            format!("{lines} lines: an example has fewer than {EXAMPLE_LINES_MAX}"),
        ));
    }
    match allowed {
        Some(allowed) if lines > allowed => Some(Violation::new(
            path,
            0,
            format!("{lines} lines, but {RATCHET} allows {allowed}: long files only shrink"),
        )),
        Some(allowed) if lines < allowed => Some(Violation::new(
            RATCHET,
            0,
            format!("{path} has shrunk to {lines} lines: write that down"),
        )),
        Some(_) => None,
        None if lines > LINES_MAX => Some(Violation::new(
            path,
            0,
            format!("{lines} lines, over {LINES_MAX}: is it one space, or several?"),
        )),
        None if lines > LINES_HINT => {
            let hint = Violation::new(
                path,
                0,
                format!("{lines} lines: above {LINES_HINT} look for a second idea"),
            );
            Some(Violation {
                warning: true,
                ..hint
            })
        }
        None => None,
    }
}

fn is_numbered_example(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("examples/") && name.starts_with(|c: char| c.is_ascii_digit())
}

fn ratchet(tree: &Tree) -> BTreeMap<&str, usize> {
    let Some(file) = tree.file(RATCHET) else {
        return BTreeMap::new();
    };
    let entries = file
        .text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '));
    entries
        .filter_map(|(path, lines)| Some((path, lines.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Violation> {
        lines_and_bytes(&tree(files))
    }

    #[test]
    fn a_long_file_is_caught_and_a_longish_one_hinted_at() {
        assert!(found(&[("a.rs", &"x\n".repeat(500))]).is_empty());
        assert!(found(&[("a.rs", &"x\n".repeat(501))])[0].warning);
        assert!(!found(&[("a.rs", &"x\n".repeat(801))])[0].warning);
        assert!(found(&[("a.md", &"x\n".repeat(801))]).is_empty());
    }

    #[test]
    fn a_listed_file_may_only_shrink() {
        let list = (RATCHET, "# path lines\na.rs 900\n");
        assert!(found(&[list, ("a.rs", &"x\n".repeat(900))]).is_empty());
        assert_eq!(found(&[list, ("a.rs", &"x\n".repeat(901))])[0].path, "a.rs");
        assert_eq!(found(&[list, ("a.rs", &"x\n".repeat(850))])[0].path, RATCHET);
        assert_eq!(found(&[list])[0].path, RATCHET);
    }

    #[test]
    fn a_long_example_and_a_heavy_file_are_caught() {
        assert_eq!(
            found(&[("examples/examples/01_a.rs", &"x\n".repeat(100))]).len(),
            1
        );
        assert!(found(&[("examples/examples/01_a.rs", &"x\n".repeat(99))]).is_empty());
        assert_eq!(found(&[("corpus", &"x".repeat(200_001))]).len(), 1);
    }
}
