//! A struct that shows many fields to other files has as many ways to be broken from there: it wants parts with private
//! fields. What is plain data (options, reports, layouts of foreign structures) may have more, and is listed with its count.

use super::tree::File;
use super::{Tree, Violation};
use std::collections::BTreeMap;

/// More fields than this that another file can name fail, unless the list allows them.
const FIELDS_MAX: usize = 12;
/// `path Struct count`, one a line, under a comment that says why. Counts only shrink.
const RATCHET: &str = "xtask/fields.txt";

/// Structs that show too many fields, and entries of the list that can be tightened.
pub fn shown(tree: &Tree) -> Vec<Violation> {
    let mut allowed = ratchet(tree);
    let mut found = Vec::new();
    let sources = tree.rust().filter(|file| file.path.contains("/src/"));
    for (file, shows) in sources.flat_map(|file| structs(file).into_iter().map(move |shows| (file, shows))) {
        let listed = allowed.remove(&(file.path.as_str(), shows.name));
        let limit = listed.unwrap_or(FIELDS_MAX);
        let (name, count) = (shows.name, shows.fields);
        if count > limit {
            let message =
                format!("{name} shows {count} fields to other files, over {limit}: make parts of it");
            found.push(Violation::new(&file.path, shows.line, message));
        } else if listed.is_some() && count < limit {
            let message = format!(
                "{name} of {} shows {count} fields by now: write that down",
                file.path
            );
            found.push(Violation::new(RATCHET, 0, message));
        }
    }
    found.extend(
        allowed
            .keys()
            .map(|(path, name)| Violation::new(RATCHET, 0, format!("{name} of {path} is gone: strike it"))),
    );
    found
}

struct Shows<'t> {
    name: &'t str,
    line: usize,
    fields: usize,
}

/// The structs of a formatted file that other files can name, and their fields that these can name, too.
fn structs(file: &File) -> Vec<Shows<'_>> {
    let mut found = Vec::new();
    let mut lines = file.text.lines().zip(1..);
    while let Some((text, line)) = lines.next() {
        let Some(name) = shown_item(text.trim_start()).and_then(|item| item.strip_prefix("struct ")) else {
            continue;
        };
        let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let indent = text.len() - text.trim_start().len();
        let mut head = text;
        // Bounds may stand on lines of their own.
        while !head.trim_end().ends_with(['{', ';', '}']) {
            match lines.next() {
                Some((next, _)) => head = next,
                None => return found,
            }
        }
        if !head.trim_end().ends_with('{') {
            continue;
        }
        let inside = lines.by_ref().map(|(text, _)| text);
        let body =
            inside.take_while(|text| text.len() - text.trim_start().len() > indent || !text.ends_with('}'));
        let is_field = |text: &&str| {
            let deep = text.len() - text.trim_start().len();
            deep == indent + 4 && shown_item(text.trim_start()).is_some()
        };
        let fields = body.filter(is_field).count();
        let name = name.unwrap_or_default();
        found.push(Shows { name, line, fields });
    }
    found
}

/// What follows `pub` or `pub(..)`.
fn shown_item(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("pub")?;
    match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(") ").map(|(_, item)| item),
        None => rest.strip_prefix(' '),
    }
}

fn entry(line: &str) -> Option<((&str, &str), usize)> {
    let (path, rest) = line.split_once(' ')?;
    let (name, count) = rest.split_once(' ')?;
    Some(((path, name), count.trim().parse().ok()?))
}

fn ratchet(tree: &Tree) -> BTreeMap<(&str, &str), usize> {
    let text = tree.file(RATCHET).map_or("", |file| &file.text);
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(entry)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::planted::tree;
    use super::*;

    /// A struct with so many fields of one visibility.
    fn wide(count: usize, visibility: &str) -> String {
        let fields: String = (0..count)
            .map(|i| format!("    {visibility}f{i}: u8,\n"))
            .collect();
        format!("pub struct Wide<T: Copy>\nwhere\n    T: Send,\n{{\n{fields}}}\n")
    }

    fn found(source: &str, list: &str) -> Vec<Violation> {
        shown(&tree(&[("a/src/b.rs", source), (RATCHET, list)]))
    }

    #[test]
    fn a_struct_that_shows_too_much_is_caught() {
        for visibility in ["pub ", "pub(crate) ", "pub(super) "] {
            assert!(found(&wide(12, visibility), "").is_empty());
            assert_eq!(found(&wide(13, visibility), "")[0].path, "a/src/b.rs");
        }
        assert!(found(&wide(13, ""), "").is_empty(), "private fields");
        assert!(
            found(&wide(13, "pub ").replacen("pub ", "", 1), "").is_empty(),
            "a private struct"
        );
    }

    #[test]
    fn a_listed_struct_may_only_shrink() {
        let list = "# why\na/src/b.rs Wide 14\n";
        assert!(found(&wide(14, "pub "), list).is_empty());
        assert_eq!(found(&wide(15, "pub "), list)[0].path, "a/src/b.rs");
        assert_eq!(found(&wide(13, "pub "), list)[0].path, RATCHET);
        assert_eq!(found("", list)[0].path, RATCHET);
    }
}
