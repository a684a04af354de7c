//! [`text`]: lines of words below each other.

/// Rows whose columns are as wide as their widest words; the last column is not padded.
pub fn text<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let words = row
            .iter()
            .zip(&widths)
            .map(|(word, width)| format!("{word:<width$}"));
        format!("{}\n", words.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_words() {
        let rows = [["a", "bb", "c"], ["aaa", "b", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(text(&rows), "a    bb  c\naaa  b\n");
    }
}
