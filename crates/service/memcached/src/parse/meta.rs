//! Meta commands: `<name> <key> <flag>*`, and `ms <key> <datalen> <flag>*`.

use super::scan::{self, number_i32, number_u32, number_u64};
use super::{BAD_FORMAT, Command, ERROR, KEY_BYTES_MAX, Parsed, base64, is_too_large};
use crate::request::{Expiry, Letters, Meta, MetaKind, MetaNumber, MetaTimes, Request, TooLarge};

/// Maximum number of words of a command, including name and key.
const META_WORDS_MAX: usize = 19;
/// Maximum bytes of flag `O`, its letter included.
const OPAQUE_BYTES_MAX: usize = 32;

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";
const OPAQUE_TOO_LONG: &str = "CLIENT_ERROR opaque token too long";
const INVALID_OR_DUPLICATE: &str = "CLIENT_ERROR invalid or duplicate flag";

/// Parses a command `m` and `kind`.
pub(super) fn parse<'a>(command: &Command<'a>, kind: u8) -> Parsed<'a> {
    match kind {
        b'g' => keyed(command, MetaKind::Get),
        b's' => set(command),
        b'd' => keyed(command, MetaKind::Delete),
        b'a' => keyed(command, MetaKind::Arithmetic),
        b'n' => command.request(Request::General(command.line)),
        b'e' => debug(command),
        _ => command.refuse(ERROR),
    }
}

/// The line after its first `count` words.
fn after<'a>(command: &Command<'a>, count: usize) -> &'a [u8] {
    let mut words = scan::Words::new(command.line);
    for _ in 0..count {
        words.next();
    }
    words.rest()
}

fn empty<'a>(command: &Command<'a>, kind: MetaKind, flags: &'a [u8]) -> Meta<'a> {
    Meta {
        kind,
        key: command.words.word(1),
        flags,
        letters: Letters::default(),
        times: MetaTimes::default(),
        client_flags: 0,
        cas: 0,
        new_cas: 0,
        number: MetaNumber::default(),
        mode: 0,
        value: &[],
    }
}

/// `mg`, `md`, `ma`.
fn keyed<'a>(command: &Command<'a>, kind: MetaKind) -> Parsed<'a> {
    let words = &command.words;
    if words.count < 2 {
        return command.refuse(ERROR);
    }
    if words.word(1).len() > KEY_BYTES_MAX {
        return command.refuse(BAD_FORMAT);
    }
    if words.count > META_WORDS_MAX {
        return command.refuse(match kind {
            MetaKind::Get => "CLIENT_ERROR options flags are too long",
            _ => "CLIENT_ERROR options flags too long",
        });
    }
    let mut meta = empty(command, kind, after(command, 2));
    let read = read_flags(&mut meta).map_err(|reply| match kind {
        MetaKind::Get => reply,
        _ => INVALID_OR_DUPLICATE,
    });
    match read.and_then(|()| check(&meta)) {
        Ok(()) => command.request(Request::Meta(meta)),
        Err(reply) => command.refuse(reply),
    }
}

/// `ms`. Once the length is known, the value is skipped whatever else is wrong.
fn set<'a>(command: &Command<'a>) -> Parsed<'a> {
    let words = &command.words;
    if words.count < 2 {
        return command.refuse(ERROR);
    }
    if words.word(1).len() > KEY_BYTES_MAX || words.count == 2 {
        return command.refuse(BAD_FORMAT);
    }
    if words.count > META_WORDS_MAX {
        return command.refuse("CLIENT_ERROR options flags too long");
    }
    let Some(len) = number_i32(words.word(2)).filter(|len| (0..=i32::MAX - 2).contains(len)) else {
        return command.refuse(BAD_FORMAT);
    };
    let len = len as usize;
    let mut meta = empty(command, MetaKind::Set, after(command, 3));
    if let Err(reply) = read_flags(&mut meta).and_then(|()| check(&meta)) {
        return command.refuse_and_swallow(reply, len + 2);
    }
    if is_too_large(key_len(&meta), meta.client_flags, len, command.item_bytes_max) {
        let too_large = TooLarge {
            key: meta.key,
            binary: meta.has(b'b'),
            drop_old: true,
            noreply: false,
        };
        return Parsed::Request {
            request: Request::TooLarge(too_large),
            used: command.line_bytes,
            swallow: len + 2,
        };
    }
    command.with_value(len, false, |value| Request::Meta(Meta { value, ..meta }))
}

/// Bytes of the decoded key.
fn key_len(meta: &Meta<'_>) -> usize {
    if !meta.has(b'b') {
        return meta.key.len();
    }
    base64::decode(meta.key, &mut [0; base64::BINARY_BYTES_MAX]).unwrap_or(0)
}

/// `me <key> [b]`: the one command whose flags memcached does not check.
fn debug<'a>(command: &Command<'a>) -> Parsed<'a> {
    let words = &command.words;
    if words.count < 2 || words.word(1).len() > KEY_BYTES_MAX {
        return command.refuse(BAD_FORMAT);
    }
    let mut meta = empty(command, MetaKind::Debug, &[]);
    if words.word(2) == b"b" {
        meta.letters.add(b'b');
        if key_len(&meta) == 0 {
            return command.refuse(BAD_FORMAT);
        }
    }
    command.request(Request::Meta(meta))
}

/// Reads the flags.
///
/// # Errors
/// An unknown or repeated flag ends the reading; of several malformed flags the last one is reported.
fn read_flags(meta: &mut Meta<'_>) -> Result<(), &'static str> {
    let mut result = Ok(());
    for flag in scan::Words::new(meta.flags) {
        let (letter, argument) = (flag[0], &flag[1..]);
        if letter >= 127 {
            return Err("CLIENT_ERROR duplicate flag");
        }
        if letter.is_ascii_alphabetic() && !meta.letters.add(letter) {
            return Err("CLIENT_ERROR duplicate flag");
        }
        if let Err(reply) = read_flag(meta, letter, argument)? {
            // A malformed F has no error of its own.
            let is_told = letter != b'F' || result.is_ok();
            result = if is_told { Err(reply) } else { result };
        }
    }
    result
}

/// Reads one flag. Outer error: the letter is unknown. Inner error: the text after the letter is malformed.
fn read_flag(
    meta: &mut Meta<'_>,
    letter: u8,
    argument: &[u8],
) -> Result<Result<(), &'static str>, &'static str> {
    fn take<T>(place: &mut T, value: Option<T>, or: &'static str) -> Result<(), &'static str> {
        value.map(|value| *place = value).ok_or(or)
    }
    Ok(match letter {
        b'N' => take(
            &mut meta.times.vivify,
            number_i32(argument).map(Expiry),
            BAD_TOKEN,
        ),
        b'T' => take(
            &mut meta.times.expiry,
            number_i32(argument).map(Expiry),
            BAD_TOKEN,
        ),
        b'R' => take(
            &mut meta.times.recache,
            number_i32(argument).map(Expiry),
            BAD_TOKEN,
        ),
        b'C' => take(&mut meta.cas, number_u64(argument), BAD_TOKEN),
        b'E' => take(&mut meta.new_cas, number_u64(argument), BAD_TOKEN),
        b'F' => take(&mut meta.client_flags, number_u32(argument), BAD_FORMAT),
        b'J' => take(
            &mut meta.number.initial,
            number_u64(argument),
            "CLIENT_ERROR invalid numeric initial value",
        ),
        b'D' => take(
            &mut meta.number.delta,
            number_u64(argument),
            "CLIENT_ERROR invalid numeric delta value",
        ),
        b'M' => take(
            &mut meta.mode,
            <[u8; 1]>::try_from(argument).ok().map(|[mode]| mode),
            "CLIENT_ERROR incorrect length for M token",
        ),
        b'b' if key_len(meta) == 0 => Err("CLIENT_ERROR error decoding key"),
        b'b' | b'k' | b's' | b't' | b'c' | b'f' | b'v' | b'l' | b'h' | b'u' | b'q' | b'I' | b'O' | b'P'
        | b'L' | b'x' => Ok(()),
        _ => return Err("CLIENT_ERROR invalid flag"),
    })
}

/// Checks rules between well-formed flags.
fn check(meta: &Meta<'_>) -> Result<(), &'static str> {
    let mode = match (meta.kind, meta.mode) {
        (_, 0) => Ok(()),
        (MetaKind::Set, b'E' | b'A' | b'P' | b'R' | b'S') => Ok(()),
        (MetaKind::Set, _) => Err("CLIENT_ERROR invalid mode for ms M token"),
        (MetaKind::Arithmetic, b'I' | b'+' | b'D' | b'-') => Ok(()),
        (MetaKind::Arithmetic, _) => Err("CLIENT_ERROR invalid mode for ma M token"),
        _ => Ok(()),
    };
    mode?;
    let opaque = meta.has(b'O') && scan::Words::new(meta.flags).any(is_long_opaque);
    if opaque { Err(OPAQUE_TOO_LONG) } else { Ok(()) }
}

fn is_long_opaque(flag: &[u8]) -> bool {
    flag[0] == b'O' && flag.len() > OPAQUE_BYTES_MAX
}
