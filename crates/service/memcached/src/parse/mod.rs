//! From bytes to a [`Request`]: nothing is copied or allocated, and errors are answered as memcached would.

pub(crate) mod base64;
mod meta;
pub(crate) mod scan;
mod text;

use crate::request::Request;
use scan::Line;

/// Maximum length of a command line with its end, in bytes; a `get` or `gets` with many keys may be longer. memcached's
/// buffer has this size.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// Maximum length of a key.
pub(crate) const KEY_BYTES_MAX: usize = drover_store::KEY_BYTES_MAX;

/// Result of parsing the start of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed<'a> {
    /// An incomplete request: more input is needed.
    Partial {
        /// Least number of bytes needed, including those already there.
        at_least: usize,
    },
    /// The start of a `get` or `gets` whose line does not end within [`LINE_BYTES_MAX`].
    Endless {
        /// True for `gets`.
        with_cas: bool,
        /// Bytes before the first key: spaces, the command and a space.
        used: usize,
    },
    /// A complete request, or one whose value is to be skipped.
    Request {
        /// The request.
        request: Request<'a>,
        /// Bytes of the request in the input; without the value if that is too large.
        used: usize,
        /// Bytes to skip after the `used` ones: a value that is too large and its line end; otherwise 0.
        swallow: usize,
    },
    /// An invalid request.
    Refused(Refused),
}

/// Invalid input and the answer to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The reply without its line end; empty: no reply.
    pub reply: &'static str,
    /// Bytes of the input that are refused: the line, with the value after it if only that lacks its line end; all
    /// input if the line is too long.
    pub used: usize,
    /// Bytes to skip after the `used` ones: the value that follows an invalid line, with its line end; otherwise 0.
    pub swallow: usize,
    /// Whether to close the connection after the reply.
    pub close: bool,
}

/// Replies that several commands share.
pub(crate) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
pub(crate) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(crate) const ERROR: &str = "ERROR";
const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// memcached's overhead in an item: header, CAS, end of the key and line end of the value.
const ITEM_OVERHEAD_BYTES: usize = 48 + 8 + 1 + 2;

/// Whether memcached would find an item too large for a limit of `item_bytes_max`: our limit equals its limit to the
/// byte.
pub fn is_too_large(key_len: usize, flags: u32, value_len: usize, item_bytes_max: usize) -> bool {
    let flag_bytes = if flags == 0 { 0 } else { 4 };
    ITEM_OVERHEAD_BYTES + key_len + flag_bytes + value_len > item_bytes_max
}

/// A command line, and the bytes after it.
#[derive(Clone, Copy)]
struct Command<'a> {
    /// The line without its end.
    line: &'a [u8],
    words: Line<'a>,
    /// All input bytes.
    input: &'a [u8],
    /// Bytes of the line including its end.
    line_bytes: usize,
    item_bytes_max: usize,
}

impl<'a> Command<'a> {
    /// Returns a request without a value.
    fn request(&self, request: Request<'a>) -> Parsed<'a> {
        Parsed::Request {
            request,
            used: self.line_bytes,
            swallow: 0,
        }
    }

    fn refuse(&self, reply: &'static str) -> Parsed<'a> {
        self.refuse_and_swallow(reply, 0)
    }

    /// Refuses a line that a value of `swallow` bytes follows.
    fn refuse_and_swallow(&self, reply: &'static str, swallow: usize) -> Parsed<'a> {
        Parsed::Refused(Refused {
            reply,
            used: self.line_bytes,
            swallow,
            close: false,
        })
    }

    /// Refuses, without a reply if `noreply`.
    fn refuse_unless(&self, noreply: bool, reply: &'static str) -> Parsed<'a> {
        self.refuse(if noreply { "" } else { reply })
    }

    /// The request that `make` makes from the value of `len` bytes after the line, if the value is complete and a line
    /// end follows.
    fn with_value(
        &self,
        len: usize,
        noreply: bool,
        make: impl FnOnce(&'a [u8]) -> Request<'a>,
    ) -> Parsed<'a> {
        let used = self.line_bytes + len + 2;
        let Some(value) = self.input.get(self.line_bytes..used) else {
            return Parsed::Partial { at_least: used };
        };
        match value.strip_suffix(b"\r\n") {
            Some(value) => Parsed::Request {
                request: make(value),
                used,
                swallow: 0,
            },
            None => Parsed::Refused(Refused {
                reply: if noreply { "" } else { BAD_CHUNK },
                used,
                swallow: 0,
                close: false,
            }),
        }
    }
}

/// Parses the request at the start of `input`, which is not empty. `item_bytes_max` is the size limit of `-I`. Cost:
/// reads the line twice, a value's end once.
pub fn parse(input: &[u8], item_bytes_max: usize) -> Parsed<'_> {
    let within = &input[..input.len().min(LINE_BYTES_MAX)];
    let Some(line_end) = scan::find(within, b'\n') else {
        return unfinished(input);
    };
    let mut line = &input[..line_end];
    if line.len() > 1 {
        line = line.strip_suffix(b"\r").unwrap_or(line);
    }
    let command = Command {
        line,
        words: Line::new(line),
        input,
        line_bytes: line_end + 1,
        item_bytes_max,
    };
    let name = command.words.word(0);
    match *name {
        [b'm', kind] => meta::parse(&command, kind),
        [_, _, ..] => text::parse(&command, name),
        _ => command.refuse(ERROR),
    }
}

/// Result for a line without an end.
fn unfinished(input: &[u8]) -> Parsed<'_> {
    if input.len() < LINE_BYTES_MAX {
        return Parsed::Partial {
            at_least: input.len() + 1,
        };
    }
    let start = input.iter().take_while(|&&byte| byte == b' ').count();
    for (name, with_cas) in [("get ", false), ("gets ", true)] {
        if start <= 100 && input[start..].starts_with(name.as_bytes()) {
            let used = start + name.len();
            return Parsed::Endless { with_cas, used };
        }
    }
    Parsed::Refused(Refused {
        reply: "CLIENT_ERROR line too long",
        used: input.len(),
        swallow: 0,
        close: true,
    })
}
