//! [`Columns`]: one line of a trace, in either format, as a [`Line`].

use super::fields::{BadQuote, Fields};
use std::borrow::Cow;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads the key (`get`, `gets`, `read`).
    Get,
    /// Stores a value (`set`, `write`).
    Set,
    /// Stores a value if there is none (`add`).
    Add,
    /// Stores a value if there is one (`replace`, `cas`, `incr`, `decr`).
    Replace,
    /// Makes the value longer, if there is one (`append`, `prepend`).
    Append,
    /// Removes the item (`delete`).
    Delete,
    /// Changes the time to live, if there is an item (`touch`).
    Touch,
}

/// Names of operations, in lower case.
const OPS: &[(&str, Op)] = &[
    ("get", Op::Get),
    ("gets", Op::Get),
    ("read", Op::Get),
    ("set", Op::Set),
    ("write", Op::Set),
    ("add", Op::Add),
    ("replace", Op::Replace),
    ("cas", Op::Replace),
    ("incr", Op::Replace),
    ("decr", Op::Replace),
    ("append", Op::Append),
    ("prepend", Op::Append),
    ("delete", Op::Delete),
    ("touch", Op::Touch),
];

/// One request as a trace has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Time in whole seconds, from any start; `None`: not given.
    pub time_s: Option<u64>,
    /// The key, at least one byte.
    pub key: Cow<'a, [u8]>,
    /// Length of the real key, if `key` is a text that replaces it.
    pub key_bytes: Option<u64>,
    /// Length of the value; `None`: not given.
    pub value_bytes: Option<u64>,
    /// Time to live in seconds, rounded up; 0: unlimited; `None`: not given.
    pub ttl_s: Option<u32>,
    /// The operation.
    pub op: Op,
}

/// Why a line is no request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadLine {
    /// It has more or fewer fields than it must.
    #[error("{found} fields, expected {expected}; a field with a comma needs quotes")]
    Fields {
        /// Number of fields in the line.
        found: usize,
        /// Number of columns in the header.
        expected: usize,
    },
    /// It has less than seven fields.
    #[error("{found} fields, expected 7: time,key,key size,value size,client,operation,TTL")]
    TwitterFields {
        /// Number of fields in the line.
        found: usize,
    },
    /// Quotes are malformed.
    #[error("a quoted field does not end with \" before a comma or the end of the line")]
    Quote,
    /// The key is empty.
    #[error("the key is empty")]
    Key,
    /// A time or time to live is malformed.
    #[error("{column} `{text}`: expected seconds, such as 12 or 12.5")]
    Seconds {
        /// Name of the column.
        column: &'static str,
        /// The field, perhaps shortened.
        text: String,
    },
    /// A number of bytes is malformed.
    #[error("{column} `{text}`: expected a number of bytes")]
    Bytes {
        /// Name of the column.
        column: &'static str,
        /// The field, perhaps shortened.
        text: String,
    },
    /// The operation is unknown.
    #[error(
        "op `{text}`: expected get, gets, set, add, replace, cas, append, prepend, incr, decr, touch or delete"
    )]
    Op {
        /// The field, perhaps shortened.
        text: String,
    },
    /// The line has too many bytes.
    #[error("longer than {bytes_max} bytes")]
    TooLong {
        /// Most bytes of a line.
        bytes_max: usize,
    },
    /// The time is too far from that of the first line.
    #[error("time: {s} s after the first request; at most {s_max} s are simulated (times are in seconds)")]
    TooLate {
        /// Seconds since the first request.
        s: u64,
        /// The most that is accepted.
        s_max: u64,
    },
}

impl From<BadQuote> for BadLine {
    fn from(_: BadQuote) -> BadLine {
        BadLine::Quote
    }
}

/// Format of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Comma-separated, with a header line that names the columns.
    Csv,
    /// The columns of Twitter's published cache traces, without a header: time, anonymized key, key size, value size,
    /// client, operation, TTL *(stated in `[TwemcacheTraces]`)*.
    Twitter,
}

/// Columns of a CSV trace, by the names in its header.
const NAMES: &[(&str, Column)] = &[
    ("time", Column::Time),
    ("timestamp", Column::Time),
    ("key", Column::Key),
    ("size", Column::Size),
    ("value_size", Column::Size),
    ("ttl", Column::Ttl),
    ("op", Column::Op),
    ("operation", Column::Op),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    Time,
    Key,
    Size,
    Ttl,
    Op,
    /// Any other, which is not read.
    Other,
}

/// What each field of a line is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Columns {
    Named(Vec<Column>),
    Twitter,
}

/// Column names of a CSV trace, for messages.
pub(super) const HEADER: &str = "time,key,size,ttl,op";

impl Columns {
    /// The columns that a header line names; `None` if it has no column `key`, or one column twice.
    pub(super) fn of_header(line: &[u8]) -> Option<Columns> {
        let column = |field: Cow<'_, [u8]>| {
            let name = String::from_utf8_lossy(&field).trim().to_ascii_lowercase();
            let found = NAMES.iter().find(|(known, _)| *known == name);
            found.map_or(Column::Other, |(_, column)| *column)
        };
        let columns: Result<Vec<Column>, BadQuote> =
            Fields::new(line).map(|field| field.map(column)).collect();
        let columns = columns.ok()?;
        let count = |of: Column| columns.iter().filter(|column| **column == of).count();
        let known = [Column::Time, Column::Size, Column::Ttl, Column::Op];
        let is_header = count(Column::Key) == 1 && known.into_iter().all(|column| count(column) <= 1);
        is_header.then_some(Columns::Named(columns))
    }

    pub(super) fn has_time(&self) -> bool {
        self.has(Column::Time)
    }

    pub(super) fn has_ttl(&self) -> bool {
        self.has(Column::Ttl)
    }

    fn has(&self, column: Column) -> bool {
        match self {
            Columns::Named(columns) => columns.contains(&column),
            Columns::Twitter => true,
        }
    }

    /// The request of a line, which has no line feed at its end.
    pub(super) fn parse<'a>(&self, line: &'a [u8]) -> Result<Line<'a>, BadLine> {
        let parsed = match self {
            Columns::Named(columns) => named(columns, line)?,
            Columns::Twitter => twitter(line)?,
        };
        match parsed.key.is_empty() {
            false => Ok(parsed),
            true => Err(BadLine::Key),
        }
    }
}

fn named<'a>(columns: &[Column], line: &'a [u8]) -> Result<Line<'a>, BadLine> {
    let mut parsed = Line {
        time_s: None,
        key: Cow::Borrowed(&line[..0]),
        key_bytes: None,
        value_bytes: None,
        ttl_s: None,
        op: Op::Get,
    };
    let mut found = 0;
    for field in Fields::new(line) {
        let field = field?;
        // Fields beyond the columns are counted, and refused below.
        match columns.get(found).unwrap_or(&Column::Other) {
            Column::Key => parsed.key = field,
            Column::Time => parsed.time_s = seconds("time", &field, false)?,
            Column::Ttl => {
                let ttl_s = seconds("ttl", &field, true)?;
                parsed.ttl_s = ttl_s.map(saturated);
            }
            Column::Size => parsed.value_bytes = bytes("size", &field)?,
            Column::Op if field.trim_ascii().is_empty() => {}
            Column::Op => parsed.op = op(&field)?,
            Column::Other => {}
        }
        found += 1;
    }
    match found == columns.len() {
        true => Ok(parsed),
        false => Err(BadLine::Fields {
            found,
            expected: columns.len(),
        }),
    }
}

/// Keys may contain commas, so the other fields are split off from both ends.
fn twitter(line: &[u8]) -> Result<Line<'_>, BadLine> {
    let too_few = || BadLine::TwitterFields {
        found: line.split(|byte| *byte == b',').count(),
    };
    let mut from_end = line.rsplitn(6, |byte| *byte == b',');
    let mut next = || from_end.next().ok_or_else(too_few);
    let [ttl, op_name, _client, value_size, key_size, head] =
        [next()?, next()?, next()?, next()?, next()?, next()?];
    let comma = head.iter().position(|byte| *byte == b',').ok_or_else(too_few)?;
    let op = op(op_name)?;
    // Only requests that store have a TTL; 0 in others means that there is none to know.
    let ttl_s = seconds("TTL", ttl, true)?.map(saturated);
    Ok(Line {
        time_s: seconds("time", &head[..comma], false)?,
        key: Cow::Borrowed(&head[comma + 1..]),
        key_bytes: bytes("key size", key_size)?,
        value_bytes: bytes("value size", value_size)?,
        ttl_s: ttl_s.filter(|ttl_s| *ttl_s > 0 || op != Op::Get),
        op,
    })
}

fn saturated(s: u64) -> u32 {
    u32::try_from(s).unwrap_or(u32::MAX)
}

fn op(field: &[u8]) -> Result<Op, BadLine> {
    let name = field.trim_ascii();
    let found = OPS
        .iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    found
        .map(|(_, op)| *op)
        .ok_or_else(|| BadLine::Op { text: shown(field) })
}

/// A number of bytes; an empty field is none.
fn bytes(column: &'static str, field: &[u8]) -> Result<Option<u64>, BadLine> {
    number(field).map_err(|Malformed| BadLine::Bytes {
        column,
        text: shown(field),
    })
}

/// Whole seconds of a decimal number, which may have a fraction; an empty field is none.
fn seconds(column: &'static str, field: &[u8], up: bool) -> Result<Option<u64>, BadLine> {
    let field = field.trim_ascii();
    let malformed = |Malformed| BadLine::Seconds {
        column,
        text: shown(field),
    };
    let Some(dot) = field.iter().position(|byte| *byte == b'.') else {
        return number(field).map_err(malformed);
    };
    let (whole, fraction) = (&field[..dot], &field[dot + 1..]);
    if whole.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return Err(malformed(Malformed));
    }
    let extra = u64::from(up && fraction.iter().any(|digit| *digit != b'0'));
    let whole = number(whole).map_err(malformed)?;
    Ok(whole.map(|whole| whole.saturating_add(extra)))
}

struct Malformed;

/// A decimal number; an empty field is none.
fn number(field: &[u8]) -> Result<Option<u64>, Malformed> {
    let field = field.trim_ascii();
    if field.is_empty() {
        return Ok(None);
    }
    let digits = field.iter().map(|byte| match byte {
        b'0'..=b'9' => Some(u64::from(byte - b'0')),
        _ => None,
    });
    let add = |sum: u64, digit: Option<u64>| sum.checked_mul(10)?.checked_add(digit?);
    digits.into_iter().try_fold(0, add).map(Some).ok_or(Malformed)
}

/// Most characters of a field in a message.
const SHOWN_MAX: usize = 40;

/// The start of a field, for a message on one line.
fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(&field[..field.len().min(4 * SHOWN_MAX)]).into_owned();
    let printable = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(SHOWN_MAX).map(printable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(header: &str, line: &str) -> Result<Line<'static>, BadLine> {
        let columns = Columns::of_header(header.as_bytes()).expect("a header");
        owned(columns.parse(line.as_bytes()))
    }

    fn twitter(line: &str) -> Result<Line<'static>, BadLine> {
        owned(Columns::Twitter.parse(line.as_bytes()))
    }

    fn owned(line: Result<Line<'_>, BadLine>) -> Result<Line<'static>, BadLine> {
        line.map(|line| Line {
            key: Cow::Owned(line.key.into_owned()),
            ..line
        })
    }

    fn get(key: &str) -> Line<'static> {
        Line {
            time_s: None,
            key: Cow::Owned(key.as_bytes().to_vec()),
            key_bytes: None,
            value_bytes: None,
            ttl_s: None,
            op: Op::Get,
        }
    }

    #[test]
    fn columns_come_in_any_order_and_only_the_key_is_needed() {
        assert_eq!(csv("key", "a"), Ok(get("a")));
        let all = Line {
            time_s: Some(12),
            value_bytes: Some(300),
            ttl_s: Some(3),
            op: Op::Set,
            ..get("a,b")
        };
        assert_eq!(
            csv("time,key,size,ttl,op", "12.7,\"a,b\",300,2.5,SET"),
            Ok(all.clone())
        );
        assert_eq!(
            csv(" OP ,colour,ttl,Size,KEY,time", "set,red,3,300,\"a,b\",12"),
            Ok(all)
        );
        assert_eq!(csv("time,key,size,ttl,op", ",a,,,"), Ok(get("a")));
        let spaced = Line {
            time_s: Some(1),
            ..get(" a ")
        };
        assert_eq!(csv("time,key", " 1 , a "), Ok(spaced), "spaces belong to the key");
        let unlimited = Line {
            ttl_s: Some(0),
            ..get("a")
        };
        assert_eq!(csv("key,ttl", "a,0"), Ok(unlimited));
        let long = Line {
            ttl_s: Some(u32::MAX),
            ..get("a")
        };
        assert_eq!(csv("key,ttl", "a,99999999999"), Ok(long));
    }

    #[test]
    fn a_header_names_its_key_once() {
        for bad in [
            "",
            "time,size",
            "key,key",
            "key,op,op",
            "\"key",
            "key,size,value_size",
        ] {
            assert_eq!(Columns::of_header(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn lines_of_twitter_have_seven_fields_and_commas_in_keys() {
        let want = Line {
            time_s: Some(5),
            key_bytes: Some(31),
            value_bytes: Some(70),
            ttl_s: Some(3600),
            op: Op::Add,
            ..get("yDj,j\"r2")
        };
        assert_eq!(twitter("5,yDj,j\"r2,31,70,2,add,3600"), Ok(want));
        let without_ttl = Line {
            time_s: Some(5),
            key_bytes: Some(1),
            value_bytes: Some(0),
            ..get("k")
        };
        assert_eq!(
            twitter("5,k,1,0,2,gets,0"),
            Ok(without_ttl),
            "a get does not know the TTL"
        );
        assert_eq!(twitter("5,k,1,0,2,set,0").map(|line| line.ttl_s), Ok(Some(0)));
        assert_eq!(twitter("5,k,1,0,get,0"), Err(BadLine::TwitterFields { found: 6 }));
        assert_eq!(twitter(""), Err(BadLine::TwitterFields { found: 1 }));
        assert_eq!(twitter("5,,1,0,2,get,0"), Err(BadLine::Key));
    }

    #[test]
    fn refusals_name_the_column_and_what_was_expected() {
        let text = |header: &str, line: &str| csv(header, line).unwrap_err().to_string();
        assert_eq!(text("key,size", ",1"), "the key is empty");
        assert_eq!(text("key,size", "a,-1"), "size `-1`: expected a number of bytes");
        assert_eq!(
            text("key,size", "a,99999999999999999999"),
            "size `99999999999999999999`: expected a number of bytes"
        );
        for time in ["x", "1e9", ".5", "1.x", "1.2.3", "-1"] {
            let want = format!("time `{time}`: expected seconds, such as 12 or 12.5");
            assert_eq!(text("key,time", &format!("a,{time}")), want);
        }
        assert!(text("key,op", "a,got").starts_with("op `got`: expected get, "));
        assert_eq!(
            text("key,op", "a,get,1"),
            "3 fields, expected 2; a field with a comma needs quotes"
        );
        assert_eq!(
            text("key,op", "\"a,get"),
            "a quoted field does not end with \" before a comma or the end of the line"
        );
        assert!(text("key,op", &format!("a,{}", "\u{1}".repeat(500))).len() < 200);
    }
}
