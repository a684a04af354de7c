//! [`Flag`]: how a flag becomes a setting.

use super::offered::Feature;
use super::{Origin, Row, Setting};
use crate::exit::{self, Failure};
use std::fmt::Display;
use std::path::PathBuf;

/// Makes a setting `V` of what was given for a flag, if anything.
type Read<'a, T, V> = Box<dyn FnOnce(Option<T>) -> Result<V, Failure> + 'a>;
/// Formats a setting for `drover config`.
type Show<V> = fn(&V) -> String;

/// How a flag, whose argument is a `T`, becomes a setting `V`: default, parser, range, rows of `drover config`.
pub struct Flag<'a, T, V> {
    read: Read<'a, T, V>,
    default_origin: Origin,
    /// `None` for the name: that of the flag.
    rows: Vec<(Option<&'static str>, Show<V>)>,
    needs: Option<Feature>,
}

/// A flag whose argument is the setting.
pub fn value<'a, V: Display + 'a>(default: V) -> Flag<'a, V, V> {
    parsed(default, Ok).show(V::to_string)
}

/// A flag whose argument or default is parsed by `parse`. It needs [`show`](Flag::show) or [`rows`](Flag::rows).
pub fn parsed<'a, T: 'a, V: 'a>(
    default: T,
    parse: impl FnOnce(T) -> Result<V, Failure> + 'a,
) -> Flag<'a, T, V> {
    Flag::new(move |given| parse(given.unwrap_or(default)))
}

/// A flag without a default.
pub fn optional<'a, T: Display + 'a>() -> Flag<'a, T, Option<T>> {
    Flag::new(Ok).show(|value| or_none(value.as_ref().map(T::to_string)))
}

/// A flag without a default, whose argument is parsed by `parse`.
pub fn optional_of<'a, V: Display + 'a>(
    parse: impl Fn(&str) -> Result<V, Failure> + 'a,
) -> Flag<'a, String, Option<V>> {
    let read = move |given: Option<String>| given.as_deref().map(&parse).transpose();
    Flag::new(read).show(|value| or_none(value.as_ref().map(V::to_string)))
}

/// A path without a default.
pub fn path<'a>() -> Flag<'a, PathBuf, Option<PathBuf>> {
    Flag::new(Ok).show(|path| or_none(path.as_ref().map(|path| path.display().to_string())))
}

/// A list.
pub fn list<'a>(default: Vec<String>) -> Flag<'a, Vec<String>, Vec<String>> {
    parsed(default, Ok).show(|list| or_none((!list.is_empty()).then(|| list.join(","))))
}

/// The text of a setting that may be absent.
pub fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "none".into())
}

impl<'a, T: 'a, V: 'a> Flag<'a, T, V> {
    fn new(read: impl FnOnce(Option<T>) -> Result<V, Failure> + 'a) -> Flag<'a, T, V> {
        Flag {
            read: Box::new(read),
            default_origin: Origin::Default,
            rows: Vec::new(),
            needs: None,
        }
    }

    /// Formats the setting by `show` for `drover config`.
    pub fn show(self, show: Show<V>) -> Self {
        let rows = vec![(None, show)];
        Flag { rows, ..self }
    }

    /// Sets other rows of `drover config` than one with the flag's name: their names and formats.
    pub fn rows<const N: usize>(self, rows: [(&'static str, Show<V>); N]) -> Self {
        let rows = rows.map(|(name, show)| (Some(name), show)).into();
        Flag { rows, ..self }
    }

    /// Refuses a value that is not `valid`, with the text `why`.
    pub fn check(self, valid: fn(&V) -> bool, why: fn(&V) -> String) -> Self {
        let read = self.read;
        let read = Box::new(move |given| match read(given)? {
            value if valid(&value) => Ok(value),
            value => Err(Failure::new(exit::USAGE, why(&value))),
        });
        Flag { read, ..self }
    }

    /// The default is computed from this machine's cores.
    pub fn of_machine(self) -> Self {
        let default_origin = Origin::Machine;
        Flag {
            default_origin,
            ..self
        }
    }

    /// Refuses the flag for a system that does not offer `feature`.
    pub fn needs(self, feature: Feature) -> Self {
        let needs = Some(feature);
        Flag { needs, ..self }
    }

    /// Takes the command line's value (`typed`), else the file's, else the default. Adds the rows of the flag `name`.
    ///
    /// # Errors
    /// The value is malformed or out of range.
    pub fn merge(
        self,
        name: &'static str,
        typed: Option<T>,
        file: Option<T>,
        rows: &mut Vec<Row>,
    ) -> Result<Setting<V>, Failure> {
        let origin = match (&typed, &file) {
            (Some(_), _) => Origin::CommandLine,
            (None, Some(_)) => Origin::File,
            (None, None) => self.default_origin,
        };
        let value = (self.read)(typed.or(file))?;
        rows.extend(self.rows.into_iter().map(|(row_name, show)| Row {
            name: row_name.unwrap_or(name),
            value: show(&value),
            origin,
            needs: self.needs,
        }));
        Ok(Setting { value, origin })
    }
}
