//! The rows of the table of key-value systems, read from its source: chores iterate over them, too.

use crate::command::root;

/// The file of the table.
pub const TABLE: &str = "crates/systems/systems/src/lib.rs";
/// Names of the systems' crates begin so.
const CRATE: &str = "drover_kv_";

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// As `--system` has it.
    pub name: String,
    /// Its variant of the table's enum.
    pub variant: String,
    /// Its crate's folder is `kv-` and this; systems may share a crate.
    pub krate: String,
    /// The type that is the row.
    pub type_name: String,
}

/// The rows in the text of the table's file: lines like `Some = drover_kv_some::Some,`.
pub fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let (variant, path) = line.trim().strip_suffix(',')?.split_once(" = ")?;
        let (krate, type_name) = path.strip_prefix(CRATE)?.split_once("::")?;
        Some(Row {
            name: kebab(variant),
            variant: variant.to_owned(),
            krate: krate.to_owned(),
            type_name: type_name.to_owned(),
        })
    };
    text.lines().filter_map(row).collect()
}

/// The name of a system whose variant in the table is `variant`: `server-reply` for `ServerReply`.
fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for letter in variant.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// All systems, in the order of the table.
///
/// # Errors
/// The table cannot be read.
pub fn all() -> Result<Vec<Row>, String> {
    let path = root().join(TABLE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rows = rows(&text);
    match rows.is_empty() {
        true => Err(format!("{TABLE} has no rows")),
        false => Ok(rows),
    }
}

/// Names of all systems, in the order of the table.
pub fn names() -> Result<Vec<String>, String> {
    Ok(all()?.into_iter().map(|row| row.name).collect())
}

/// Crates of all systems, each once, as in [`Row::krate`].
pub fn crates() -> Result<Vec<String>, String> {
    let mut crates: Vec<String> = all()?.into_iter().map(|row| row.krate).collect();
    crates.dedup();
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_a_table() {
        let text = "systems! {\n    /// About it.\n    SomeMore = drover_kv_some::SomeKv,\n    Other = another::Other,\n}\n";
        let row = Row {
            name: "some-more".to_owned(),
            variant: "SomeMore".to_owned(),
            krate: "some".to_owned(),
            type_name: "SomeKv".to_owned(),
        };
        assert_eq!(rows(text), [row]);
    }

    #[test]
    fn the_table_has_rows() {
        assert!(names().expect("rows").len() >= 3);
    }
}
