//! The rows of the table of key-value systems, read from its source: chores iterate over them, too.

use crate::command::root;

/// The file of the table.
pub const TABLE: &str = "crates/systems/systems/src/lib.rs";
/// Names of the systems' crates begin so.
const CRATE: &str = "drover_kv_";

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// As `--system` has it: its crate's folder is `kv-NAME`.
    pub name: String,
    /// The type that is the row.
    pub type_name: String,
}

/// The rows in the text of the table's file: lines like `Some = drover_kv_some::Some,`.
pub fn rows(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let (_, path) = line.trim().strip_suffix(',')?.split_once(" = ")?;
        let (name, type_name) = path.strip_prefix(CRATE)?.split_once("::")?;
        Some(Row {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
        })
    };
    text.lines().filter_map(row).collect()
}

/// Names of all systems, in the order of the table.
pub fn names() -> Result<Vec<String>, String> {
    let path = root().join(TABLE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let names: Vec<String> = rows(&text).into_iter().map(|row| row.name).collect();
    match names.is_empty() {
        true => Err(format!("{TABLE} has no rows")),
        false => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_in_a_table() {
        let text = "systems! {\n    /// About it.\n    Some = drover_kv_some::SomeKv,\n    Other = another::Other,\n}\n";
        let row = Row {
            name: "some".to_owned(),
            type_name: "SomeKv".to_owned(),
        };
        assert_eq!(rows(text), [row]);
    }

    #[test]
    fn the_table_has_rows() {
        assert!(names().expect("rows").len() >= 3);
    }
}
