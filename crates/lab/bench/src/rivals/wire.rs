//! Encoding for rivals: requests of memcached's text and meta protocols and of RESP, and their replies.
//!
//! memcached answers every classic command of a pipeline with a separate system call, but the meta commands of one read
//! with a single call *(seen with 1.6.18 under strace)*: so PUTs and single GETs are meta commands, and multi-gets are
//! classic ones. It needs memcached 1.6.
//!
//! The parser does only what an honest count of hits needs: the end of a reply, its key if it has one, its value. Its
//! input is all received and unconsumed bytes; the result does not depend on how they arrived.

use super::Kind;
use std::io::Write;

/// A reply of a rival, or a piece of a reply to a multi-get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply<'a> {
    /// A value that a GET found.
    Value {
        /// The key; only in memcached's replies to a multi-get.
        key: Option<&'a [u8]>,
        /// Bytes of the value.
        value: &'a [u8],
    },
    /// The key does not exist.
    Nil,
    /// RESP: header of a multi-get's reply, followed by this many values or [`Nil`](Reply::Nil)s.
    Array(usize),
    /// memcached: end of a multi-get's reply; its keys without a value do not exist.
    End,
    /// A PUT was done; memcached: or a DELETE.
    Stored,
    /// RESP: a DELETE removed its key.
    Deleted,
    /// A DELETE found no key.
    NotDeleted,
}

/// The received bytes are not an expected reply.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unexpected reply from the rival: '{said}'")]
pub struct Unexpected {
    /// First line of the received bytes, cut to 80 bytes, or a description of what was unexpected.
    pub said: String,
}

fn unexpected(bytes: &[u8]) -> Unexpected {
    let line = bytes.split(|&b| b == b'\r').next().unwrap_or_default();
    let said = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
    Unexpected { said }
}

impl Kind {
    /// Appends a PUT.
    pub(super) fn put(self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        match self {
            Kind::Memcached | Kind::Drover => {
                out.extend_from_slice(b"ms ");
                out.extend_from_slice(key);
                write_infallible(out, format_args!(" {}\r\n", value.len()));
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            Kind::Redis => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
                bulk(out, key);
                bulk(out, value);
            }
        }
    }

    /// Appends a DELETE.
    pub(super) fn delete(self, out: &mut Vec<u8>, key: &[u8]) {
        match self {
            Kind::Memcached | Kind::Drover => {
                out.extend_from_slice(b"md ");
                out.extend_from_slice(key);
                out.extend_from_slice(b"\r\n");
            }
            Kind::Redis => {
                out.extend_from_slice(b"*2\r\n$3\r\nDEL\r\n");
                bulk(out, key);
            }
        }
    }

    /// Appends one key to the keys of a GET.
    pub(super) fn get_key(self, keys: &mut Vec<u8>, key: &[u8]) {
        match self {
            Kind::Memcached | Kind::Drover => {
                keys.push(b' ');
                keys.extend_from_slice(key);
            }
            Kind::Redis => bulk(keys, key),
        }
    }

    /// Appends a GET of `count` keys, as a multi-get if `grouped`, even with one key.
    pub(super) fn get(self, out: &mut Vec<u8>, keys: &[u8], count: usize, grouped: bool) {
        match self {
            Kind::Memcached | Kind::Drover => {
                out.extend_from_slice(if grouped { b"get" } else { b"mg" });
                out.extend_from_slice(keys);
                out.extend_from_slice(if grouped { b"\r\n" } else { b" v\r\n" });
            }
            Kind::Redis => {
                let name = if grouped { "$4\r\nMGET" } else { "$3\r\nGET" };
                write_infallible(out, format_args!("*{}\r\n{name}\r\n", count + 1));
                out.extend_from_slice(keys);
            }
        }
    }

    /// Parses the reply at the start of `bytes`; returns it with its length, or `None` if it is incomplete.
    ///
    /// # Errors
    /// The bytes are not an expected reply.
    pub fn parse(self, bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, Unexpected> {
        let Some(end) = line_end(bytes) else {
            return if bytes.len() > LINE_MAX {
                Err(unexpected(bytes))
            } else {
                Ok(None)
            };
        };
        let line = &bytes[..end];
        let after = end + 2;
        match self {
            Kind::Memcached | Kind::Drover => memcached(bytes, line, after),
            Kind::Redis => redis(bytes, line, after),
        }
    }
}

/// Maximum length of a reply line: `VALUE`, a key, three numbers.
const LINE_MAX: usize = 512;

fn memcached<'a>(
    bytes: &'a [u8],
    line: &'a [u8],
    after: usize,
) -> Result<Option<(Reply<'a>, usize)>, Unexpected> {
    if let Some(head) = line.strip_prefix(b"VALUE ") {
        let mut words = head.split(|&b| b == b' ');
        let (key, _flags, len) = (words.next(), words.next(), words.next());
        let len = len.and_then(number).ok_or_else(|| unexpected(bytes))?;
        return value(bytes, key, after, len);
    }
    if let Some(len) = line.strip_prefix(b"VA ") {
        let len = number(len).ok_or_else(|| unexpected(bytes))?;
        return value(bytes, None, after, len);
    }
    match line {
        b"HD" => Ok(Some((Reply::Stored, after))),
        b"NF" => Ok(Some((Reply::NotDeleted, after))),
        b"EN" => Ok(Some((Reply::Nil, after))),
        b"END" => Ok(Some((Reply::End, after))),
        _ => Err(unexpected(bytes)),
    }
}

fn redis<'a>(
    bytes: &'a [u8],
    line: &'a [u8],
    after: usize,
) -> Result<Option<(Reply<'a>, usize)>, Unexpected> {
    match line.split_first() {
        Some((b'$', b"-1")) => Ok(Some((Reply::Nil, after))),
        Some((b'$', len)) => {
            let len = number(len).ok_or_else(|| unexpected(bytes))?;
            value(bytes, None, after, len)
        }
        Some((b'*', count)) => {
            let count = number(count).ok_or_else(|| unexpected(bytes))?;
            Ok(Some((Reply::Array(count), after)))
        }
        Some((b':', b"1")) => Ok(Some((Reply::Deleted, after))),
        Some((b':', b"0")) => Ok(Some((Reply::NotDeleted, after))),
        Some((b'+', b"OK")) => Ok(Some((Reply::Stored, after))),
        _ => Err(unexpected(bytes)),
    }
}

/// A value of `len` bytes and its line end.
fn value<'a>(
    bytes: &'a [u8],
    key: Option<&'a [u8]>,
    at: usize,
    len: usize,
) -> Result<Option<(Reply<'a>, usize)>, Unexpected> {
    match bytes.get(at + len..at + len + 2) {
        None => Ok(None),
        Some(b"\r\n") => {
            let value = &bytes[at..at + len];
            Ok(Some((Reply::Value { key, value }, at + len + 2)))
        }
        Some(_) => Err(unexpected(bytes)),
    }
}

/// Length of the first line, if it is complete.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|&b| b == b'\r')?;
        match bytes.get(at + 1) {
            Some(b'\n') => return Some(at),
            Some(_) => from = at + 1,
            None => return None,
        }
    }
}

/// A decimal number of at most 9 digits; no larger ones occur.
fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    digits.iter().try_fold(0, |sum, &d| {
        d.is_ascii_digit().then(|| sum * 10 + usize::from(d - b'0'))
    })
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    write_infallible(out, format_args!("${}\r\n", bytes.len()));
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn write_infallible(out: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    out.write_fmt(what).expect("a Vec takes all");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All replies in `bytes`, received in pieces that end at `cuts`.
    fn replies(kind: Kind, bytes: &[u8], cuts: &[usize]) -> Vec<String> {
        let (mut taken, mut all) = (0, Vec::new());
        let ends = cuts.iter().map(|&c| c.min(bytes.len())).chain([bytes.len()]);
        for end in ends {
            while let Some((reply, n)) = kind.parse(&bytes[taken..end.max(taken)]).expect("valid bytes") {
                all.push(format!("{reply:?}"));
                taken += n;
            }
        }
        assert_eq!(taken, bytes.len(), "all bytes belong to a reply");
        all
    }

    fn memcached_reply(value: &[u8]) -> Vec<u8> {
        let mut out = format!("VALUE some_key 0 {}\r\n", value.len()).into_bytes();
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
        out
    }

    fn redis_reply(value: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        bulk(&mut out, value);
        out
    }

    proptest! {
        #[test]
        fn any_pieces_give_the_same_replies(
            values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), 0..12),
            mut cuts in prop::collection::vec(0usize..800, 0..20),
        ) {
            cuts.sort_unstable();
            let (mut memcached, mut redis) = (Vec::new(), format!("*{}\r\n", values.len()).into_bytes());
            for value in &values {
                match value {
                    Some(value) => {
                        memcached.extend(memcached_reply(value));
                        redis.extend(redis_reply(value));
                    }
                    None => {
                        memcached.extend(b"HD\r\nEN\r\nVA 0\r\n\r\nEND\r\n");
                        redis.extend(b"$-1\r\n+OK\r\n");
                    }
                }
            }
            for (kind, bytes) in [(Kind::Memcached, &memcached), (Kind::Redis, &redis)] {
                let whole = replies(kind, bytes, &[]);
                prop_assert_eq!(&replies(kind, bytes, &cuts), &whole);
                let found = whole.iter().filter(|r| r.starts_with("Value")).count();
                // memcached's replacement for a missing value is an empty one.
                let empty = if kind == Kind::Memcached { values.iter().filter(|v| v.is_none()).count() } else { 0 };
                prop_assert_eq!(found, values.iter().flatten().count() + empty);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = Kind::Memcached.parse(&bytes);
            let _ = Kind::Redis.parse(&bytes);
        }
    }

    #[test]
    fn requests_are_as_the_protocols_want_them() {
        let text = |kind: Kind| {
            let (mut out, mut keys) = (Vec::new(), Vec::new());
            kind.put(&mut out, b"k", b"vv");
            kind.get_key(&mut keys, b"a");
            kind.get(&mut out, &keys, 1, false);
            kind.get_key(&mut keys, b"bc");
            kind.get(&mut out, &keys, 2, true);
            kind.delete(&mut out, b"d");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(
            text(Kind::Memcached),
            "ms k 2\r\nvv\r\nmg a v\r\nget a bc\r\nmd d\r\n"
        );
        assert_eq!(
            text(Kind::Redis),
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n\
             *3\r\n$4\r\nMGET\r\n$1\r\na\r\n$2\r\nbc\r\n*2\r\n$3\r\nDEL\r\n$1\r\nd\r\n"
        );
    }

    #[test]
    fn errors_are_said_as_they_came() {
        let error = Kind::Memcached
            .parse(b"SERVER_ERROR out of memory\r\n")
            .expect_err("an error");
        assert_eq!(error.said, "SERVER_ERROR out of memory");
        let error = Kind::Redis
            .parse(b"-OOM command not allowed\r\n")
            .expect_err("an error");
        assert_eq!(error.said, "-OOM command not allowed");
        assert!(
            Kind::Redis
                .parse(b"$32\r\n0123456789012345678901234567890123\r\n")
                .is_err()
        );
        assert!(Kind::Memcached.parse(&[b'x'; 600]).is_err());
    }
}
