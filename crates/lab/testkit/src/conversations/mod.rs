//! Conversations of memcached's clients with a server, to the byte: all but [`OURS`] can be had with memcached itself.

mod classic;
mod malformed;
mod meta;
mod ours;

pub use classic::CLASSIC;
pub use malformed::MALFORMED;
pub use meta::META;
pub use ours::OURS;

/// A conversation on one connection to an empty server, at 100 s after its start.
#[derive(Clone, Copy)]
pub struct Case {
    /// The rule that the case shows.
    pub name: &'static str,
    /// Pairs of input and reply. `|` stands for `\r\n`, `@` for the longest key.
    pub said: &'static [(&'static str, &'static str)],
    /// Whether the server closes the connection after the last reply.
    pub closes: bool,
}

/// A conversation after which the connection stays open.
pub const fn case(name: &'static str, said: &'static [(&'static str, &'static str)]) -> Case {
    Case {
        name,
        said,
        closes: false,
    }
}

/// A conversation after which the server closes the connection.
pub const fn last(name: &'static str, said: &'static [(&'static str, &'static str)]) -> Case {
    Case {
        name,
        said,
        closes: true,
    }
}

/// Converts a conversation's text to bytes: `|` to `\r\n`, `@` to the longest key.
pub fn with_crlf(text: &str) -> Vec<u8> {
    text.replace('|', "\r\n")
        .replace('@', &"k".repeat(250))
        .into_bytes()
}
