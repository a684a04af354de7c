//! Profile files: TOML in, TOML out.
//!
//! ```text
//! name = "rfp"
//! about = "one line"
//! base = "apt"                 # optional: supplies the parameters missing here
//!
//! [pio]
//! line_ns = { value = 19.0, unit = "ns", tag = "fitted", low = 14.0, high = 26.0, source = "HERD Fig 4" }
//! [tx]
//! gather_ns = { points = [[4, 46.7], [32, 48.8]], unit = "ns", tag = "fitted", low = 30.0, high = 120.0, source = "..." }
//! ```

use super::curve::Curve;
use super::field::{Key, Shape, Value};
use super::schema::KEYS;
use super::{Entry, ProfileError, Tag};
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::{Table, Value as Toml};

/// A parsed file: not yet complete, not yet typed.
pub(super) struct File {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) base: Option<String>,
    pub(super) entries: BTreeMap<&'static str, Entry>,
}

/// Parses `text`. Unknown keys, wrong units and values outside their bounds are errors; missing keys are not yet.
pub(super) fn read(text: &str) -> Result<File, ProfileError> {
    let mut table: Table = text.parse().map_err(|e: toml::de::Error| ProfileError::Syntax {
        reason: e.message().to_string(),
    })?;
    let mut word = |key: &'static str| match table.remove(key) {
        None => Ok(None),
        Some(Toml::String(text)) => Ok(Some(text)),
        Some(_) => Err(ProfileError::Malformed {
            path: key.to_string(),
            reason: "must be a string",
        }),
    };
    let (name, about, base) = (word("name")?, word("about")?, word("base")?);
    Ok(File {
        name: name.ok_or_else(|| ProfileError::missing("name"))?,
        about: about.ok_or_else(|| ProfileError::missing("about"))?,
        base,
        entries: entries(table)?,
    })
}

fn entries(table: Table) -> Result<BTreeMap<&'static str, Entry>, ProfileError> {
    let mut found = BTreeMap::new();
    for (group, members) in table {
        let Toml::Table(members) = members else {
            return Err(ProfileError::Unknown { path: group });
        };
        for (field, value) in members {
            let path = format!("{group}.{field}");
            let key = KEYS.iter().find(|key| key.path == path);
            let key = key.ok_or_else(|| ProfileError::Unknown { path: path.clone() })?;
            found.insert(key.path, entry(key, value)?);
        }
    }
    Ok(found)
}

fn entry(key: &Key, value: Toml) -> Result<Entry, ProfileError> {
    let bad = |reason| ProfileError::Malformed {
        path: key.path.to_string(),
        reason,
    };
    let Toml::Table(mut table) = value else {
        return Err(bad("must be { value, unit, tag, low, high, source }"));
    };
    let unit = text(&mut table, "unit").ok_or_else(|| bad("needs a unit"))?;
    if unit != key.unit {
        return Err(bad("has another unit than the simulator's"));
    }
    let tag = text(&mut table, "tag").and_then(|word| Tag::from_word(&word));
    let entry = Entry {
        value: measure(key, &mut table).ok_or_else(|| bad("has no value of its kind"))?,
        low: number(&mut table, "low").ok_or_else(|| bad("needs a lower bound"))?,
        high: number(&mut table, "high").ok_or_else(|| bad("needs an upper bound"))?,
        tag: tag
            .ok_or_else(|| bad("needs a tag: stated, plot, artifact, fitted, estimate, recalled or leak"))?,
        source: text(&mut table, "source").ok_or_else(|| bad("needs a source"))?,
    };
    if let Some(extra) = table.keys().next() {
        return Err(ProfileError::Unknown {
            path: format!("{}.{extra}", key.path),
        });
    }
    if !entry
        .value
        .numbers()
        .iter()
        .all(|y| (entry.low..=entry.high).contains(y))
    {
        return Err(bad("is outside its bounds"));
    }
    Ok(entry)
}

fn measure(key: &Key, table: &mut Table) -> Option<Value> {
    if key.shape != Shape::Curve {
        return number(table, "value").map(Value::Number);
    }
    let Toml::Array(points) = table.remove("points")? else {
        return None;
    };
    let point = |pair: &Toml| {
        let pair = pair.as_array()?;
        (pair.len() == 2).then(|| Some((real(&pair[0])?, real(&pair[1])?)))?
    };
    let points: Option<Vec<_>> = points.iter().map(point).collect();
    Curve::new(points?).map(Value::Curve)
}

fn text(table: &mut Table, key: &str) -> Option<String> {
    table.remove(key)?.as_str().map(str::to_string)
}

fn number(table: &mut Table, key: &str) -> Option<f64> {
    real(&table.remove(key)?)
}

fn real(value: &Toml) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|n| n as f64))
}

/// Formats a file that [`read`] reads back: the entries `own`, in the order of the schema.
pub(super) fn write(
    name: &str,
    about: &str,
    base: Option<&str>,
    own: &BTreeMap<&'static str, Entry>,
) -> String {
    let mut out = format!("name = {}\nabout = {}\n", quoted(name), quoted(about));
    if let Some(base) = base {
        let _ = writeln!(out, "base = {}", quoted(base));
    }
    let mut group = "";
    for key in KEYS {
        let Some(entry) = own.get(key.path) else { continue };
        let (this, field) = key.path.split_once('.').expect("paths have a group");
        if this != group {
            group = this;
            let _ = write!(out, "\n[{group}]\n");
        }
        let _ = writeln!(out, "{field} = {}", line(key, entry));
    }
    out
}

fn line(key: &Key, entry: &Entry) -> String {
    let value = match &entry.value {
        Value::Number(number) => format!("value = {}", short(*number)),
        Value::Curve(curve) => {
            let points = curve.points().iter();
            let pairs: Vec<_> = points
                .map(|(x, y)| format!("[{}, {}]", short(*x), short(*y)))
                .collect();
            format!("points = [{}]", pairs.join(", "))
        }
    };
    format!(
        "{{ {value}, unit = {}, tag = {}, low = {}, high = {}, source = {} }}",
        quoted(key.unit),
        quoted(entry.tag.word()),
        short(entry.low),
        short(entry.high),
        quoted(&entry.source)
    )
}

fn quoted(text: &str) -> String {
    Toml::String(text.to_string()).to_string()
}

/// At most four decimals; fitted nanoseconds are not known more precisely.
pub(super) fn short(number: f64) -> String {
    let rounded = (number * 1e4).round() / 1e4;
    format!("{rounded}")
}
