//! Documents refer only to things that exist.

use super::{Tree, Violation};

/// Folders of the workspace that documents mention in backticks.
const ROOTS: &[&str] = &["crates/", "docs/", "examples/", "fuzz/", "xtask/", ".ci/"];

/// Every `[text](target)` in Markdown refers to a file of the tree.
pub fn links(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.markdown() {
        for (number, target) in
            outside_fences(&file.text).flat_map(|(n, line)| targets(line).map(move |t| (n, t)))
        {
            let path = join(&file.path, target.split('#').next().unwrap_or(""));
            if !tree.contains(&path) {
                found.push(Violation::new(
                    &file.path,
                    number,
                    format!("the link to {target} leads nowhere"),
                ));
            }
        }
    }
    found
}

/// Paths of the workspace in backticks exist.
pub fn paths(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.markdown() {
        for (number, line) in outside_fences(&file.text) {
            let quoted = line.split('`').skip(1).step_by(2);
            let mut missing = quoted.filter(|path| is_path(path) && !tree.contains(path));
            if let Some(path) = missing.next() {
                found.push(Violation::new(&file.path, number, format!("there is no {path}")));
            }
        }
    }
    found
}

/// Lists of the systems' test coverage.
const COVERAGE: [&str; 5] = [
    "docs/herd-tests.md",
    "docs/pilaf-tests.md",
    "docs/farm-tests.md",
    "docs/race-tests.md",
    "docs/rfp-tests.md",
];

/// Tests named in the coverage lists exist.
pub fn tests(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree
        .markdown()
        .filter(|file| COVERAGE.contains(&file.path.as_str()))
    {
        for (number, line) in outside_fences(&file.text) {
            let quoted = line.split('`').skip(1).step_by(2);
            let missing = quoted.filter(|name| is_function_name(name) && !defines(tree, name));
            found.extend(
                missing
                    .map(|name| Violation::new(&file.path, number, format!("there is no function {name}"))),
            );
        }
    }
    found
}

fn is_function_name(text: &str) -> bool {
    text.contains('_')
        && text
            .bytes()
            .all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
}

fn defines(tree: &Tree, name: &str) -> bool {
    let heads = [format!("fn {name}("), format!("fn {name}<")];
    tree.rust()
        .any(|file| heads.iter().any(|head| file.text.contains(head)))
}

fn is_path(text: &str) -> bool {
    ROOTS.iter().any(|root| text.starts_with(root)) && !text.contains([' ', '*', '<', '{'])
}

/// Lines, from 1, that are not inside a fenced block.
fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            return None;
        }
        (!inside).then_some((index + 1, line))
    })
}

/// File targets of a line's links.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.trim())
        .filter(|target| {
            !target.is_empty()
                && !target.starts_with('#')
                && !target.contains("://")
                && !target.starts_with("mailto:")
        })
}

/// `target` as seen from `file`.
pub fn join(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;

    #[test]
    fn a_dead_link_is_caught() {
        let text =
            "[a](b.md) [b](../README.md#top)\n[c](c.md)\n```\n[d](d.md)\n```\n[e](https://example.org/x)\n";
        let found = links(&tree(&[
            ("docs/a.md", text),
            ("docs/b.md", ""),
            ("README.md", ""),
        ]));
        assert_eq!(found.iter().map(|v| v.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_moved_file_is_caught() {
        let text = "see `crates/a/src/lib.rs`, `crates/a/`, `crates/*/src` and `other/x`\nsee `crates/a/src/old.rs`\n";
        let found = paths(&tree(&[("A.md", text), ("crates/a/src/lib.rs", "")]));
        assert_eq!(found.iter().map(|v| v.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_renamed_test_is_caught() {
        let text = "| 1 | `crates/a/src/lib.rs`: `old_name`, `new_name`, `of_any`, `Type` |\n";
        let found = tests(&tree(&[
            (COVERAGE[0], text),
            ("crates/a/src/lib.rs", "fn new_name() {}\nfn of_any<T>() {}\n"),
        ]));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("old_name"));
    }
}
