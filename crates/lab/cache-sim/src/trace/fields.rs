//! [`Fields`]: the fields of a line of CSV, with quotes as in RFC 4180, but no line feeds in quotes.
//!
//! It is written by hand because a library that lets quotes span lines reads a stray quote as the start of a field that
//! ends gigabytes later; here that is an error of one line.

use std::borrow::Cow;

/// A quote is not closed, or is followed by something other than a comma.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BadQuote;

/// Iterator over the fields of a line. An empty line has one empty field.
pub(super) struct Fields<'a> {
    /// What follows the last field; `None` after the end.
    rest: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Fields<'a> {
        Fields { rest: Some(line) }
    }

    /// Splits a field in quotes off `rest`, which begins after the opening quote.
    fn quoted(&mut self, rest: &'a [u8]) -> Result<Cow<'a, [u8]>, BadQuote> {
        let mut field = Cow::Borrowed(&rest[..0]);
        let mut start = 0;
        loop {
            let length = rest[start..]
                .iter()
                .position(|byte| *byte == b'"')
                .ok_or(BadQuote)?;
            let end = start + length;
            match field.is_empty() {
                true => field = Cow::Borrowed(&rest[start..end]),
                false => field.to_mut().extend_from_slice(&rest[start..end]),
            }
            match rest.get(end + 1) {
                None => self.rest = None,
                Some(b',') => self.rest = Some(&rest[end + 2..]),
                Some(b'"') => {
                    field.to_mut().push(b'"');
                    start = end + 2;
                    continue;
                }
                Some(_) => return Err(BadQuote),
            }
            return Ok(field);
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Cow<'a, [u8]>, BadQuote>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            return Some(self.quoted(quoted));
        }
        let comma = rest.iter().position(|byte| *byte == b',');
        let field = comma.map_or(rest, |comma| &rest[..comma]);
        self.rest = comma.map(|comma| &rest[comma + 1..]);
        Some(Ok(Cow::Borrowed(field)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(line: &str) -> Result<Vec<String>, BadQuote> {
        let text = |field: Cow<'_, [u8]>| String::from_utf8_lossy(&field).into_owned();
        Fields::new(line.as_bytes())
            .map(|field| field.map(text))
            .collect()
    }

    #[test]
    fn fields_with_and_without_quotes() {
        for (line, want) in [
            ("", &[""][..]),
            ("a,b", &["a", "b"]),
            (",", &["", ""]),
            (r#""a,b",c"#, &["a,b", "c"]),
            (r#""say ""hi""","""""#, &[r#"say "hi""#, "\""]),
            (r#"a"b,"""#, &["a\"b", ""]),
        ] {
            assert_eq!(fields(line).expect(line), want, "{line}");
        }
        for bad in [
            r#"""#,
            r#""a"#,
            r#""a"b,c"#,
            r#""""#.strip_suffix('"').expect("three"),
            r#"a,"b"#,
        ] {
            assert_eq!(fields(bad), Err(BadQuote), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_is_read_back(all in proptest::collection::vec("[a-c,\" ]{0,8}", 1..5)) {
            let quoted: Vec<String> =
                all.iter().map(|field| format!("\"{}\"", field.replace('"', "\"\""))).collect();
            prop_assert_eq!(fields(&quoted.join(",")), Ok(all));
        }
    }
}
