//! Tests are few programs, and what they share is a library.

use super::docs::join;
use super::tree::File;
use super::{Tree, Violation};

/// Linking test programs is most of what continuous integration waits for.
const PROGRAMS_MAX: usize = 36;

/// The workspace has no more than [`PROGRAMS_MAX`] integration-test programs.
pub fn few(tree: &Tree) -> Vec<Violation> {
    let members = tree.members();
    let targets = members
        .iter()
        .flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let count = targets.filter(|target| target["kind"][0] == "test").count();
    if count <= PROGRAMS_MAX {
        return Vec::new();
    }
    let message = format!(
        "{count} integration-test programs, at most {PROGRAMS_MAX}: make the new one a module of its crate's tests/it/main.rs"
    );
    vec![Violation::new("Cargo.toml", 0, message)]
}

/// No `#[path]` leads into another crate: what two crates share is a module of a third, as test beds are of `testkit`.
pub fn own_files(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust() {
        for (number, target) in path_attributes(file) {
            let target = join(&file.path, target);
            if crate_of(tree, &target) != crate_of(tree, &file.path) {
                let message =
                    format!("{target} belongs to another crate: move it to a library that both use");
                found.push(Violation::new(&file.path, number, message));
            }
        }
    }
    found
}

/// Lines, from 1, with a `#[path = "..."]`, and what it says.
fn path_attributes(file: &File) -> impl Iterator<Item = (usize, &str)> {
    file.lines().filter_map(|(number, line)| {
        let rest = line.trim_start().strip_prefix("#[path")?;
        Some((number, rest.split('"').nth(1)?))
    })
}

/// The folder of the nearest Cargo.toml above `path`.
fn crate_of<'p>(tree: &Tree, path: &'p str) -> Option<&'p str> {
    let folders = path.rmatch_indices('/').map(|(end, _)| &path[..end]);
    let mut crates = folders.filter(|folder| tree.file(&format!("{folder}/Cargo.toml")).is_some());
    crates.next()
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;
    use serde_json::json;

    #[test]
    fn one_program_too_many_is_caught() {
        let with = |count: usize| {
            let test = json!({"kind": ["test"]});
            let targets = [vec![json!({"kind": ["lib"]})], vec![test; count]].concat();
            let mut tree = tree(&[]);
            tree.metadata =
                json!({"workspace_members": ["a"], "packages": [{"id": "a", "targets": targets}]});
            few(&tree).len()
        };
        assert_eq!(with(PROGRAMS_MAX), 0);
        assert_eq!(with(PROGRAMS_MAX + 1), 1);
    }

    #[test]
    fn a_file_of_another_crate_is_caught() {
        let found = |target: &str| {
            let text = format!("//! A bed.\n\n    #[path = \"{target}\"]\nmod bed;\n");
            let files = [
                ("crates/lab/a/Cargo.toml", ""),
                ("crates/lab/ab/Cargo.toml", ""),
                ("crates/lab/a/tests/it/main.rs", text.as_str()),
            ];
            own_files(&tree(&files))
                .iter()
                .map(|v| v.line)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("../../../ab/tests/bed.rs"), [3]);
        assert_eq!(found("../../../../shared/bed.rs"), [3], "of no crate");
        assert!(found("../../examples/bed.rs").is_empty());
        assert!(found("bed.rs").is_empty());
    }
}
