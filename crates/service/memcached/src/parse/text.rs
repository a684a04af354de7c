//! Classic commands: `<name> <key> <arguments> [noreply]`.

use super::scan::{self, Line, number_i32, number_u32, number_u64};
use super::{BAD_FORMAT, Command, ERROR, KEY_BYTES_MAX, Parsed, Refused, is_too_large};
use crate::request::{Expiry, Fetch, Request, Store, StoreMode, TooLarge};

const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";

pub(super) fn parse<'a>(command: &Command<'a>, name: &[u8]) -> Parsed<'a> {
    use StoreMode::*;
    let fetch = |with_cas| Fetch {
        with_cas,
        touch: None,
    };
    match name {
        b"get" | b"bget" => many(command, fetch(false)),
        b"gets" => many(command, fetch(true)),
        b"set" => store(command, Set),
        b"gat" => many_touched(command, false),
        b"gats" => many_touched(command, true),
        b"add" => store(command, Add),
        b"replace" => store(command, Replace),
        b"append" => store(command, Append),
        b"prepend" => store(command, Prepend),
        b"cas" => store(command, Cas),
        b"delete" => delete(command),
        b"incr" => arithmetic(command, true),
        b"decr" => arithmetic(command, false),
        b"touch" => touch(command),
        b"stats" | b"version" | b"verbosity" | b"quit" | b"flush_all" | b"shutdown" | b"cache_memlimit"
        | b"lru_crawler" | b"lru" | b"slabs" | b"watch" | b"refresh_certs" | b"extstore" => {
            command.request(Request::General(command.line))
        }
        _ => unknown(command, name),
    }
}

/// An unknown command. Connections that speak HTTP are closed, so that no page can make a browser send commands.
fn unknown<'a>(command: &Command<'a>, name: &[u8]) -> Parsed<'a> {
    // memcached checks for HTTP only where it checks for no other command.
    let router = matches!(name[0], b'g' | b's' | b'a' | b'c' | b'i' | b'd' | b't');
    if !router && command.words.last.starts_with(b"HTTP/") {
        return Parsed::Refused(Refused {
            reply: "",
            used: command.line_bytes,
            swallow: 0,
            close: true,
        });
    }
    command.refuse(ERROR)
}

/// The line after its first `count` words.
fn after<'a>(command: &Command<'a>, count: usize) -> &'a [u8] {
    let mut words = scan::Words::new(command.line);
    for _ in 0..count {
        words.next();
    }
    words.rest()
}

/// `get <key>*`
fn many<'a>(command: &Command<'a>, fetch: Fetch) -> Parsed<'a> {
    if command.words.count < 2 {
        return command.refuse(ERROR);
    }
    keys(command, fetch, after(command, 1))
}

/// `gat <exptime> <key>*`
fn many_touched<'a>(command: &Command<'a>, with_cas: bool) -> Parsed<'a> {
    if command.words.count < 2 {
        return command.refuse(ERROR);
    }
    let Some(expiry) = number_i32(command.words.word(1)) else {
        return command.refuse(BAD_EXPTIME);
    };
    let touch = Some(Expiry(expiry));
    keys(command, Fetch { with_cas, touch }, after(command, 2))
}

fn keys<'a>(command: &Command<'a>, fetch: Fetch, keys: &'a [u8]) -> Parsed<'a> {
    // In a line this short, no word can be too long.
    let long = keys.len() > KEY_BYTES_MAX && scan::Words::new(keys).any(|key| key.len() > KEY_BYTES_MAX);
    if long {
        return command.refuse(BAD_FORMAT);
    }
    command.request(Request::Fetch { fetch, keys })
}

/// Whether the last word is `noreply`, even in a line that is wrong otherwise.
fn noreply(words: &Line<'_>) -> bool {
    words.last == b"noreply"
}

/// `set <key> <flags> <exptime> <bytes> [noreply]`, `cas` with its CAS before that.
fn store<'a>(command: &Command<'a>, mode: StoreMode) -> Parsed<'a> {
    let words = &command.words;
    let least = if mode == StoreMode::Cas { 6 } else { 5 };
    if words.count != least && words.count != least + 1 {
        return command.refuse(ERROR);
    }
    let noreply = noreply(words);
    let key = words.word(1);
    let numbers = (
        number_u32(words.word(2)),
        number_i32(words.word(3)),
        number_i32(words.word(4)),
    );
    let cas = match mode {
        StoreMode::Cas => number_u64(words.word(5)),
        _ => Some(0),
    };
    let ((Some(flags), Some(expiry), Some(len)), Some(cas)) = (numbers, cas) else {
        return command.refuse_unless(noreply, BAD_FORMAT);
    };
    if key.len() > KEY_BYTES_MAX || !(0..=i32::MAX - 2).contains(&len) {
        return command.refuse_unless(noreply, BAD_FORMAT);
    }
    let len = len as usize;
    if is_too_large(key.len(), flags, len, command.item_bytes_max) {
        let too_large = TooLarge {
            key,
            binary: false,
            drop_old: mode == StoreMode::Set,
            noreply,
        };
        return Parsed::Request {
            request: Request::TooLarge(too_large),
            used: command.line_bytes,
            swallow: len + 2,
        };
    }
    command.with_value(len, noreply, |value| {
        Request::Store(Store {
            mode,
            key,
            flags,
            expiry: Expiry(expiry),
            cas,
            value,
            noreply,
        })
    })
}

/// `delete <key> [0] [noreply]`: old clients send a zero.
fn delete<'a>(command: &Command<'a>) -> Parsed<'a> {
    const USAGE: &str = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
    let words = &command.words;
    if !(2..=4).contains(&words.count) {
        return command.refuse(ERROR);
    }
    let key = words.word(1);
    let noreply = words.count > 2 && noreply(words);
    let zero = words.word(2) == b"0";
    let valid = match words.count {
        2 => true,
        3 => zero || noreply,
        _ => zero && noreply,
    };
    if !valid {
        return command.refuse_unless(noreply, USAGE);
    }
    if key.len() > KEY_BYTES_MAX {
        return command.refuse_unless(noreply, BAD_FORMAT);
    }
    command.request(Request::Delete { key, noreply })
}

/// `<name> <key> <word> [noreply]`: calls `then` with the key, the word and `noreply`.
fn key_and_word<'a>(
    command: &Command<'a>,
    then: impl FnOnce(&'a [u8], &'a [u8], bool) -> Parsed<'a>,
) -> Parsed<'a> {
    let words = &command.words;
    if words.count != 3 && words.count != 4 {
        return command.refuse(ERROR);
    }
    let (key, noreply) = (words.word(1), noreply(words));
    match key.len() > KEY_BYTES_MAX {
        true => command.refuse_unless(noreply, BAD_FORMAT),
        false => then(key, words.word(2), noreply),
    }
}

/// `incr <key> <delta> [noreply]`
fn arithmetic<'a>(command: &Command<'a>, up: bool) -> Parsed<'a> {
    const BAD_DELTA: &str = "CLIENT_ERROR invalid numeric delta argument";
    key_and_word(command, |key, delta, noreply| match number_u64(delta) {
        None => command.refuse_unless(noreply, BAD_DELTA),
        Some(delta) => command.request(Request::Arithmetic {
            key,
            delta,
            up,
            noreply,
        }),
    })
}

/// `touch <key> <exptime> [noreply]`
fn touch<'a>(command: &Command<'a>) -> Parsed<'a> {
    key_and_word(command, |key, expiry, noreply| match number_i32(expiry) {
        None => command.refuse_unless(noreply, BAD_EXPTIME),
        Some(expiry) => command.request(Request::Touch {
            key,
            expiry: Expiry(expiry),
            noreply,
        }),
    })
}
