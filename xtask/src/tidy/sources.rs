//! docs/sources.md defines every source that a comment cites by key, like `[HERD §3.2]`.

use super::tree::comment_of;
use super::{Tree, Violation};
use std::collections::BTreeSet;

/// Document that defines the keys: list items or headings that begin with the key in brackets.
const LIST: &str = "docs/sources.md";
/// This file mentions keys without citing them.
const HERE: &str = "xtask/src/tidy/sources.rs";

/// Reports citations whose key is not defined.
pub fn defined(tree: &Tree) -> Vec<Violation> {
    let known: BTreeSet<&str> = tree
        .file(LIST)
        .map(|file| keys_defined(&file.text))
        .unwrap_or_default();
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| file.path != HERE) {
        for (number, comment) in file
            .lines()
            .filter_map(|(number, line)| Some((number, comment_of(line)?)))
        {
            for key in citations(comment).filter(|key| !known.contains(key)) {
                found.push(Violation::new(
                    &file.path,
                    number,
                    format!("[{key}] is not spelled out in {LIST}"),
                ));
            }
        }
    }
    found
}

fn keys_defined(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter_map(|line| {
            line.trim_start_matches(['-', '*', '#', '|', ' ', '`'])
                .strip_prefix('[')
        })
        .filter_map(|rest| rest.split_once(']'))
        .map(|(key, _)| key)
        .collect()
}

/// Keys cited in a comment: `[KEY]` or `[KEY place]`, alone in backticks or without any. Brackets inside longer code,
/// as in `program [OPTION]`, are not citations.
fn citations(comment: &str) -> impl Iterator<Item = &str> {
    comment.match_indices('[').filter_map(|(at, _)| {
        let (before, rest) = (&comment[..at], &comment[at + 1..]);
        let in_code = before.matches('`').count() % 2 == 1 && !before.ends_with('`');
        let (inside, after) = rest.split_once(']')?;
        let key = inside.split_whitespace().next()?;
        (!in_code && is_key(key) && !after.starts_with('(')).then_some(key)
    })
}

/// Whether a word is a key: capitals and digits (`HERD`, `A16`, `IBTA`), a name with a year (`Lowe17`), or a project
/// with a hyphen (`rdma-core`). Links to Rust items look different.
fn is_key(word: &str) -> bool {
    let all = |test: fn(char) -> bool| word.chars().all(test);
    let has_letter = word.contains(|c: char| c.is_ascii_alphabetic());
    let capitals =
        word.len() >= 2 && has_letter && all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-');
    let year = word.len() > 3 && word.is_ascii() && word.ends_with(|c: char| c.is_ascii_digit()) && {
        let (name, year) = word.split_at(word.len() - 2);
        year.chars().all(|c| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphabetic())
            && starts_upper(name)
    };
    let project = word.contains('-') && all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    capitals || year || project
}

fn starts_upper(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let list = "# Sources\n- [HERD] the paper\n- `[rdma-core]` code\n";
        defined(&tree(&[(LIST, list), ("a.rs", code)]))
            .into_iter()
            .map(|v| v.message)
            .collect()
    }

    #[test]
    fn an_undefined_key_is_caught() {
        assert_eq!(
            found("// as in [HERD §3.2] and `[rdma-core providers/rxe]`\n"),
            Vec::<String>::new()
        );
        assert_eq!(
            found("// as in [MICA §4]\n"),
            ["[MICA] is not spelled out in docs/sources.md"]
        );
        assert_eq!(found("/// [Lowe17] and [A16]\n").len(), 2);
        assert_eq!(found("// [some-project file]\n").len(), 1);
    }

    #[test]
    fn links_to_items_are_no_citations() {
        assert_eq!(
            found("/// [`Region`], [Ns], `run OP [MODE]`, [text](crate::x), a[i]\nlet x = a[HERE];\n"),
            Vec::<String>::new()
        );
    }
}
