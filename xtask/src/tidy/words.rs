//! Words that must not occur in a tracked file: paths of a particular machine, marks of unfinished work, hosts of
//! package registries.

use super::tree::code_of;
use super::{Tree, Violation};

/// Folders of particular machines. In two parts, so that this file itself passes.
const FOLDERS: &[&str] = &[
    concat!("/wo", "rk"),
    concat!("/tm", "p"),
    concat!("/ho", "me"),
    concat!("/ro", "ot"),
    concat!("/fa", "rm"),
];
/// Registry hosts: cargo and apt get them from their own configuration; no file here may name them.
const HOSTS: &[&str] = &[
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("py", "pi.org"),
    concat!("npm", "js.org"),
    concat!("deb.", "debian.org"),
    concat!("proxy.", "golang.org"),
];
/// Marks of unfinished work, each with the right place for such notes.
const UNFINISHED: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Phrases that no reader parses at once, with what to write instead. In two parts, so that this file is clean itself.
const PHRASES: &[(&str, &str)] = &[
    (concat!("who", "ever"), "any client that, the caller"),
    (concat!("in va", "in"), "without result"),
    (concat!("by tur", "ns"), "interleaved, alternately"),
    (concat!("kno", "cks"), "connects"),
    (concat!("/// whi", "ch."), "say what the item is"),
];

/// The worst of our old phrases stay away: docs and comments are plain English.
pub fn phrases(tree: &Tree) -> Vec<Violation> {
    let is_prose = |path: &str| (path.ends_with(".rs") || path.ends_with(".md")) && path != "CHANGELOG.md";
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| is_prose(&file.path)) {
        for (number, line) in file.lines() {
            let lower = line.to_lowercase();
            let phrase = PHRASES.iter().find(|(phrase, _)| lower.contains(phrase));
            found.extend(phrase.map(|(phrase, better)| {
                let text = format!("\"{phrase}\": write plain English: {better}");
                Violation::new(&file.path, number, text)
            }));
        }
    }
    found
}

/// Reports paths that exist on one machine only.
pub fn machine_paths(tree: &Tree) -> Vec<Violation> {
    each_line(tree, |line| {
        let folder = FOLDERS.iter().find(|folder| names_folder(line, folder))?;
        Some(format!(
            "{folder} is a path of one machine: use std::env::temp_dir, or leave it out"
        ))
    })
}

/// Reports registry hosts.
pub fn registry_hosts(tree: &Tree) -> Vec<Violation> {
    each_line(tree, |line| {
        let host = HOSTS.iter().find(|host| line.contains(*host))?;
        Some(format!("{host} is a registry: the tools know where theirs are"))
    })
}

/// Reports unfinished work, and tests that are skipped without a reason.
pub fn unfinished(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust() {
        for (number, line) in file.lines() {
            if let Some(word) = UNFINISHED.iter().find(|word| line.contains(*word)) {
                found.push(Violation::new(
                    &file.path,
                    number,
                    format!("{word}: finish it, or file an issue"),
                ));
            }
            if code_of(line).trim() == "#[ignore]" {
                found.push(Violation::new(
                    &file.path,
                    number,
                    "an ignored test says why: #[ignore = \"...\"]",
                ));
            }
        }
    }
    found
}

fn each_line(tree: &Tree, complaint: impl Fn(&str) -> Option<String>) -> Vec<Violation> {
    let files = tree.files.iter().filter(|file| !file.path.ends_with(".lock"));
    let lines = files.flat_map(|file| file.lines().map(move |(number, line)| (file, number, line)));
    lines
        .filter_map(|(file, number, line)| Some(Violation::new(&file.path, number, complaint(line)?)))
        .collect()
}

/// Whether `line` names `folder` at the start of a path: `/x/y`, not `/a/x/y` and not `/xylophone`.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + folder.len()..].chars().next();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}/)*".contains(c)) && after == Some('/')
    })
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;

    #[test]
    fn machine_paths_are_caught() {
        for folder in FOLDERS {
            let text = format!("fine\nopen(\"{folder}/me/x\")\n");
            let found = machine_paths(&tree(&[("a.md", &text)]));
            assert_eq!(found.len(), 1, "{folder}");
            assert_eq!(found[0].line, 2);
        }
    }

    #[test]
    fn paths_inside_the_tree_are_no_machine_paths() {
        let text = format!("crates{0}/x {0}shop {0}s/x", FOLDERS[0]);
        assert_eq!(machine_paths(&tree(&[("a.md", &text)])), []);
    }

    #[test]
    fn phrases_are_caught_in_prose_and_not_in_the_changelog() {
        for (phrase, _) in PHRASES {
            let text = format!("fine\n{phrase}\n");
            let found = phrases(&tree(&[("a.rs", &text), ("CHANGELOG.md", &text)]));
            assert_eq!(found.len(), 1, "{phrase}");
            assert_eq!((found[0].path.as_str(), found[0].line), ("a.rs", 2));
        }
    }

    #[test]
    fn unfinished_work_is_caught() {
        for word in UNFINISHED {
            assert_eq!(
                unfinished(&tree(&[("a.rs", &format!("{word} later"))])).len(),
                1,
                "{word}"
            );
        }
        assert_eq!(
            unfinished(&tree(&[("a.rs", "#[test]\n    #[ignore]\nfn a() {}")]))[0].line,
            2
        );
        assert_eq!(
            unfinished(&tree(&[("a.rs", "#[ignore = \"needs a device\"]")])),
            []
        );
    }

    #[test]
    fn registry_hosts_are_caught_but_not_in_lock_files() {
        for host in HOSTS {
            assert_eq!(
                registry_hosts(&tree(&[("a.sh", &format!("get https://{host}/x"))])).len(),
                1,
                "{host}"
            );
        }
        assert_eq!(registry_hosts(&tree(&[("Cargo.lock", HOSTS[0])])), []);
    }
}
