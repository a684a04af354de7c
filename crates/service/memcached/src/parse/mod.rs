//! From bytes to a [`Request`]: nothing is copied, nothing allocated, and whatever is wrong is answered as memcached
//! would.

pub(crate) mod base64;
mod meta;
pub(crate) mod scan;
mod text;

use crate::request::Request;
use scan::Line;

/// A line may be no longer, unless it is a `get` or `gets` with many keys. memcached's buffer has this size.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// Longer keys are refused.
pub(crate) const KEY_BYTES_MAX: usize = drover_store::KEY_BYTES_MAX;

/// What the parser made of the start of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed<'a> {
    /// The beginning of a request: with what is there at least so many bytes are needed.
    Partial {
        /// In all.
        at_least: usize,
    },
    /// The beginning of a `get` or `gets` whose line does not end within [`LINE_BYTES_MAX`].
    Endless {
        /// `gets`.
        with_cas: bool,
        /// Bytes of the command and the spaces around it; then keys come.
        used: usize,
    },
    /// A whole request.
    Request {
        /// What it asks for.
        request: Request<'a>,
        /// Bytes that it took.
        used: usize,
        /// Bytes that follow and are to be skipped: the value that is too large.
        swallow: usize,
    },
    /// No request.
    Refused(Refused),
}

/// What is to be done about input that is no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The answer without its line end; empty: none.
    pub reply: &'static str,
    /// Bytes that it took.
    pub used: usize,
    /// Bytes that follow and are to be skipped.
    pub swallow: usize,
    /// The connection ends.
    pub close: bool,
}

/// Replies that several commands share.
pub(crate) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
pub(crate) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(crate) const ERROR: &str = "ERROR";
const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";

/// memcached's own bytes in an item: header, CAS, the end of its key and the line end of its value.
const ITEM_OVERHEAD_BYTES: usize = 48 + 8 + 1 + 2;

/// Whether memcached would find an item too large for a limit of `item_bytes_max`: so its limit is ours, to the byte.
pub(crate) fn is_too_large(key_len: usize, flags: u32, value_len: usize, item_bytes_max: usize) -> bool {
    let flag_bytes = if flags == 0 { 0 } else { 4 };
    ITEM_OVERHEAD_BYTES + key_len + flag_bytes + value_len > item_bytes_max
}

/// A command line, and what follows it.
#[derive(Clone, Copy)]
struct Command<'a> {
    /// Without its end.
    line: &'a [u8],
    words: Line<'a>,
    /// Everything that came.
    input: &'a [u8],
    /// Of it, the line and its end.
    line_bytes: usize,
    item_bytes_max: usize,
}

impl<'a> Command<'a> {
    /// A request without a value.
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

    /// Refuses a line after which a value of `swallow` bytes comes.
    fn refuse_and_swallow(&self, reply: &'static str, swallow: usize) -> Parsed<'a> {
        Parsed::Refused(Refused {
            reply,
            used: self.line_bytes,
            swallow,
            close: false,
        })
    }

    /// Refuses, unless no answer is wanted.
    fn refuse_unless(&self, noreply: bool, reply: &'static str) -> Parsed<'a> {
        self.refuse(if noreply { "" } else { reply })
    }

    /// The request that `make` makes of the value of `len` bytes after the line, if it is all there and a line end
    /// follows it.
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

/// What `input`, which is not empty, starts with. `item_bytes_max` as `-I`. Cost: reads the line twice, a value's end
/// once.
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

/// A line that has no end yet.
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
