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

impl<T> Setting<T> {
    /// Whether somebody has chosen the value: it is no default.
    pub fn is_said(&self) -> bool {
        matches!(self.origin, Origin::CommandLine | Origin::File)
    }
}

impl<T> Setting<Option<T>> {
    /// The value, if there is one.
    pub fn as_ref(&self) -> Option<&T> {
        self.value.as_ref()
    }
}
