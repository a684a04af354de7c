//! [`Setting`]: a value with its origin.

use std::fmt;

/// Where the value of a setting came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A default computed from this machine's cores.
    Machine,
    /// The configuration file.
    File,
    /// The command line.
    CommandLine,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Default => "default",
            Origin::Machine => "this machine",
            Origin::File => "configuration file",
            Origin::CommandLine => "command line",
        })
    }
}

/// A value and its origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting<T> {
    /// The value in force.
    pub value: T,
    /// Origin of the value.
    pub origin: Origin,
}

impl<T> Setting<Option<T>> {
    /// Picks an optional setting: the command line's value (`typed`), else the file's, else `None`.
    pub fn optional(typed: Option<T>, file: Option<T>) -> Setting<Option<T>> {
        pick(typed.map(Some), file.map(Some), None, Origin::Default)
    }
}

/// A line of `drover config`: name, value, origin.
pub type Row = (&'static str, String, Origin);

/// Picks a setting: the command line's value (`typed`), else the file's, else `default` with the origin
/// `default_origin`.
pub fn pick<T>(typed: Option<T>, file: Option<T>, default: T, default_origin: Origin) -> Setting<T> {
    match (typed, file) {
        (Some(value), _) => Setting {
            value,
            origin: Origin::CommandLine,
        },
        (None, Some(value)) => Setting {
            value,
            origin: Origin::File,
        },
        (None, None) => Setting {
            value: default,
            origin: default_origin,
        },
    }
}

/// Makes a row of `drover config`; `show` formats the value.
pub fn row<T>(name: &'static str, setting: &Setting<T>, show: impl Fn(&T) -> String) -> Row {
    (name, show(&setting.value), setting.origin)
}
