//! A struct that shows many fields to other files has as many ways to be broken from there: it wants parts, with private
//! fields where there is a rule among them.

use super::tree::File;
use super::{Tree, Violation};

/// More fields than this that another file can name fail.
const FIELDS_MAX: usize = 12;

/// Structs that show too many fields.
pub fn shown(tree: &Tree) -> Vec<Violation> {
    let sources = tree.rust().filter(|file| file.path.contains("/src/"));
    let shown = sources.flat_map(|file| structs(file).into_iter().map(move |shows| (file, shows)));
    let too_many = shown.filter(|(_, shows)| shows.fields > FIELDS_MAX);
    let violation = |(file, shows): (&File, Shows<'_>)| {
        let (name, count) = (shows.name, shows.fields);
        let message =
            format!("{name} shows {count} fields to other files, over {FIELDS_MAX}: make parts of it");
        Violation::new(&file.path, shows.line, message)
    };
    too_many.map(violation).collect()
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

    fn found(source: &str) -> Vec<Violation> {
        shown(&tree(&[("a/src/b.rs", source)]))
    }

    #[test]
    fn a_struct_that_shows_too_much_is_caught() {
        for visibility in ["pub ", "pub(crate) ", "pub(super) "] {
            assert!(found(&wide(12, visibility)).is_empty());
            assert_eq!(found(&wide(13, visibility))[0].path, "a/src/b.rs");
        }
        assert!(found(&wide(13, "")).is_empty(), "private fields");
        assert!(
            found(&wide(13, "pub ").replacen("pub ", "", 1)).is_empty(),
            "a private struct"
        );
    }
}
