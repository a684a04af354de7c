//! A system is one local act: its crate and one line of the table. Whatever else is built on systems iterates over the
//! table, so few files name any one of them, and none tells one from the others.

use super::tree::{File, code_of, comment_of};
use super::{Tree, Violation};
use crate::systems::{Row, TABLE, rows};

/// A system may be named by this many files outside its crate, the table's, tests and documents: the workspace's
/// Cargo.toml, the table of fuzzers, and a few that are about this one system. Figures do not count.
const FILES_MAX: usize = 6;

/// Figures are about certain systems.
const FIGURES: &str = "crates/lab/figures/";

/// Counts the files that name each system of the table.
pub fn named_by_few_files(tree: &Tree) -> Vec<Violation> {
    let table = tree.file(TABLE).map(|file| rows(&file.text)).unwrap_or_default();
    table.iter().flat_map(|row| of_system(tree, row)).collect()
}

fn of_system(tree: &Tree, row: &Row) -> Option<Violation> {
    let files: Vec<&str> = tree
        .files
        .iter()
        .filter(|file| !is_at_home(&file.path, &row.krate) && !file.path.starts_with(FIGURES))
        .filter(|file| names(file, row))
        .map(|file| file.path.as_str())
        .collect();
    let (count, system) = (files.len(), &row.name);
    let message = format!(
        "{count} files name {system}, at most {FILES_MAX} may: iterate over the table of systems instead: {}",
        files.join(", ")
    );
    (count > FILES_MAX).then(|| Violation::new(TABLE, 0, message))
}

/// Finds code that decides by which system it has: that names a variant of the table, or compares with a system's name.
/// What systems differ in stands in their rows: in their facts, and in the traits of `drover-kv`.
pub fn told_apart_nowhere(tree: &Tree) -> Vec<Violation> {
    let table = tree.file(TABLE).map(|file| rows(&file.text)).unwrap_or_default();
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with(FIGURES)) {
        for row in table.iter().filter(|row| !is_at_home(&file.path, &row.krate)) {
            let lines = file.lines().filter(|(_, line)| tells_apart(line, row));
            found.extend(lines.map(|(number, _)| {
                let message = format!(
                    "this depends on whether the system is {}: ask what differs, in its facts or traits",
                    row.name
                );
                Violation::new(&file.path, number, message)
            }));
        }
    }
    found
}

/// Whether a line of Rust names the system's variant, or matches or compares with its name.
fn tells_apart(line: &str, row: &Row) -> bool {
    let variant = format!("System::{}", row.variant);
    if has_word(&code_of(line), &variant) {
        return true;
    }
    let (line, name) = (without_comment(line), format!("\"{}\"", row.name));
    line.match_indices(&name).any(|(start, _)| {
        let (before, after) = (line[..start].trim_end(), line[start + name.len()..].trim_start());
        ["==", "!=", "|"]
            .iter()
            .any(|sign| before.ends_with(sign) && !before.ends_with("||"))
            || ["==", "!=", "=>", "|", "if "]
                .iter()
                .any(|sign| after.starts_with(sign))
                && !after.starts_with("||")
            || before.contains("matches!(")
    })
}

/// Whether any file may name the system there: its crate, the table's crate, tests, documents, locks.
fn is_at_home(path: &str, krate: &str) -> bool {
    path.starts_with(&format!("crates/systems/kv-{krate}/"))
        || path.starts_with("crates/systems/systems/")
        || path.starts_with("docs/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with(".md")
        || path.ends_with(".lock")
}

/// Whether a file names the system's crate, or in code the type of its row.
fn names(file: &File, row: &Row) -> bool {
    let crates = [
        format!("drover_kv_{}", row.krate),
        format!("drover-kv-{}", row.krate),
    ];
    let names_crate = |text: &str| crates.iter().any(|name| has_word(text, name));
    match file.path.rsplit_once('.') {
        Some((_, "rs")) => file
            .lines()
            .any(|(_, line)| names_crate(without_comment(line)) || has_word(&code_of(line), &row.type_name)),
        Some((_, "toml")) => {
            without_tests(&file.text).any(|line| names_crate(line.split('#').next().unwrap_or_default()))
        }
        _ => names_crate(&file.text),
    }
}

/// The lines of a Cargo.toml without its dev-dependencies, which tests need.
fn without_tests(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        if line.starts_with('[') {
            inside = line.contains("dev-dependencies");
        }
        !inside
    })
}

/// A line of Rust with its strings: a chore names a package in one.
fn without_comment(line: &str) -> &str {
    match comment_of(line) {
        Some(_) => line.split("//").next().unwrap_or_default(),
        None => line,
    }
}

/// Whether `word` stands in `text`, and not as a part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;

    const ROW: &str = "    Some = drover_kv_some::SomeKv,\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files = [&[(TABLE, ROW)], files].concat();
        let found = named_by_few_files(&tree(&files));
        found.into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn one_file_too_many_is_caught() {
        let paths: Vec<String> = (0..7).map(|n| format!("crates/lab/a/src/{n}.rs")).collect();
        let with = |text: &'static str| {
            let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), text)).collect();
            found(&files)
        };
        for text in [
            "use drover_kv_some::SomeKv;",
            "const PACKAGE: &str = \"drover-kv-some\";",
            "run::<SomeKv>(); // a comment",
        ] {
            let found = with(text);
            assert!(
                found.len() == 1 && found[0].contains("7 files name some"),
                "{text}: {found:?}"
            );
        }
        for text in [
            "// drover_kv_some::SomeKv",
            "let title = \"SomeKv\";",
            "drover_kv_something::SomeKvOther",
        ] {
            assert_eq!(with(text), [""; 0], "{text}");
        }
        let six: Vec<(&str, &str)> = paths[1..].iter().map(|path| (path.as_str(), "SomeKv")).collect();
        assert_eq!(found(&six), [""; 0]);
    }

    fn told_apart(path: &str, text: &str) -> Vec<String> {
        let found = told_apart_nowhere(&tree(&[(TABLE, ROW), (path, text)]));
        let shown = found.into_iter();
        shown
            .map(|v| format!("{}:{}: {}", v.path, v.line, v.message))
            .collect()
    }

    #[test]
    fn code_that_tells_a_system_from_others_is_caught() {
        let path = "crates/lab/bench/src/driver.rs";
        for text in [
            "match system {\n    System::Some => 1,\n    _ => 2,\n}",
            "match name {\n    \"some\" => 1,\n    _ => 2,\n}",
            "match name {\n    \"some\" | \"other\" => 1,\n    _ => 2,\n}",
            "match name {\n    \"other\" | \"some\" if true => 1,\n    _ => 2,\n}",
            "match name {\n    \"some\" if true => 1,\n    _ => 2,\n}",
            "\nlet is_it = facts.name == \"some\";",
            "\nif \"some\" != S::NAME {",
            "\nif matches!(name, \"other\" | \"some\") {",
            "\nlet system = drover_systems::System::Some; // why",
        ] {
            let found = told_apart(path, text);
            let text_of_it = "this depends on whether the system is some";
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("{path}:2: {text_of_it}")),
                "{text}: {found:?}"
            );
        }
    }

    #[test]
    fn systems_may_be_asked_for_by_name_and_told_apart_at_home() {
        for text in [
            "// \"some\" => System::Some",
            "System::named(\"some\")",
            "const DEFAULT: &str = \"some\";",
            "assert_eq!(winner, \"some\");",
            "let both = a || \"some\".is_empty();",
            "\"something\" => 1, System::Something => 2,",
            "let title = \"System::Some\";",
        ] {
            assert_eq!(
                told_apart("crates/lab/bench/src/driver.rs", text),
                [""; 0],
                "{text}"
            );
        }
        for path in [
            "crates/systems/kv-some/src/lib.rs",
            "crates/systems/systems/src/lib.rs",
            "crates/lab/figures/src/lib.rs",
            "crates/lab/bench/tests/it/main.rs",
        ] {
            assert_eq!(told_apart(path, "System::Some => \"some\" =>"), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_systems_crate_tests_documents_and_locks_may_name_it() {
        let paths = [
            "crates/systems/kv-some/src/lib.rs",
            "crates/systems/systems/tests/it/main.rs",
            "crates/lab/a/tests/it/main.rs",
            "crates/lab/a/src/tests.rs",
            "docs/some.toml",
            "README.md",
            "fuzz/Cargo.lock",
            "crates/systems/kv-some/Cargo.toml",
        ];
        let files = paths.map(|path| (path, "drover_kv_some"));
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn a_dependency_is_a_name() {
        let paths: Vec<String> = (0..7).map(|n| format!("crates/lab/{n}/Cargo.toml")).collect();
        let files: Vec<(&str, &str)> = paths
            .iter()
            .map(|path| (path.as_str(), "drover-kv-some.workspace = true\n"))
            .collect();
        assert_eq!(found(&files).len(), 1);
        let of_tests = "[dev-dependencies]\ndrover-kv-some.workspace = true\n";
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), of_tests)).collect();
        assert_eq!(found(&files), [""; 0], "tests may");
    }
}
