//! Execution of requests on a partition. Every function here works on one key of this core.

mod arithmetic;
mod fetch;
mod meta;
mod notify;
mod store;

pub(crate) use fetch::{fetch, fetch_in_place};

use crate::Executor;
use crate::detail::Seen;
use crate::parse::base64::{self, BINARY_BYTES_MAX};
use crate::parse::{ERROR, TOO_LARGE};
use crate::request::{Expiry, Meta, Request};
use crate::watch::kind;
use drover_base::{Cpu, KeyHash};
use drover_net::Output;
use drover_store::{Hint, Key, Mark, Sharing};

/// Last line of a fetch.
pub(crate) const END: &[u8] = b"END\r\n";

/// Appends a line.
pub(crate) fn reply(output: &mut Output, line: &str) {
    let space = output.space(line.len() + 2);
    space[..line.len()].copy_from_slice(line.as_bytes());
    space[line.len()..].copy_from_slice(b"\r\n");
}

/// Appends a reply, line end included, unless the request has `noreply`.
#[inline]
fn answer(output: &mut Output, noreply: bool, line: &[u8]) {
    if !noreply {
        output.push(line);
    }
}

/// Decodes a base64 key and calls `with` on it. `None`: not valid base64.
pub(crate) fn with_binary_key<T>(text: &[u8], with: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let mut key = [0; BINARY_BYTES_MAX];
    let len = base64::decode(text, &mut key)?;
    Some(with(&key[..len]))
}

/// Calls `with` on the decoded key of `meta`. The parser has checked that it decodes.
pub(crate) fn with_key<T>(meta: &Meta<'_>, with: impl FnOnce(&[u8]) -> T) -> T {
    if !meta.has(b'b') {
        return with(meta.key);
    }
    with_binary_key(meta.key, with).expect("the parser has decoded this key before")
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Converts a client's expiry to seconds since the server's start.
    #[inline]
    pub(crate) fn expire_s(&self, expiry: Expiry) -> u32 {
        expiry.to_server_s(self.now_s, self.server.start_unix_s)
    }

    /// Executes a request about one key, with its hash and hint, and appends its reply.
    ///
    /// Other code handles requests without a key, and fetches, whose keys are executed one by one.
    pub(crate) fn execute(&mut self, request: &Request<'_>, hash: KeyHash, hint: Hint, output: &mut Output) {
        fn keyed(hash: KeyHash, bytes: &[u8]) -> Key<'_> {
            Key { hash, bytes }
        }
        if self.is_member() && request.may_change() {
            self.note_change(request, hash);
        }
        match *request {
            Request::Store(ref store) => self.store(store, keyed(hash, store.key), output),
            Request::Delete { key, noreply } => self.delete(keyed(hash, key), noreply, output),
            Request::Arithmetic {
                key,
                delta,
                up,
                noreply,
            } => self.arithmetic(keyed(hash, key), delta, up, noreply, output),
            Request::Touch { key, expiry, noreply } => self.touch(keyed(hash, key), expiry, noreply, output),
            Request::Meta(ref meta) => with_key(meta, |key| self.meta(meta, keyed(hash, key), hint, output)),
            Request::TooLarge(ref large) => {
                if large.binary {
                    with_binary_key(large.key, |key| self.drop_old(keyed(hash, key), large.drop_old));
                } else {
                    self.drop_old(keyed(hash, large.key), large.drop_old);
                }
                if !large.noreply {
                    reply(output, TOO_LARGE);
                }
            }
            Request::Fetch { .. } | Request::General(_) => reply(output, ERROR),
        }
    }

    #[cold]
    #[inline(never)]
    fn note_change(&self, request: &Request<'_>, hash: KeyHash) {
        match *request {
            Request::Store(ref store) => self.will_change(hash, store.key),
            Request::Delete { key, .. } | Request::Arithmetic { key, .. } | Request::Touch { key, .. } => {
                self.will_change(hash, key);
            }
            Request::Meta(ref meta) => with_key(meta, |key| self.will_change(hash, key)),
            Request::TooLarge(ref large) if large.binary => {
                with_binary_key(large.key, |key| self.will_change(hash, key)).unwrap_or_default();
            }
            Request::TooLarge(ref large) => self.will_change(hash, large.key),
            Request::Fetch { .. } | Request::General(_) => {}
        }
    }

    /// Removes the old value after a new one was refused as too large: clients must not mistake it for the new one.
    pub(crate) fn drop_old(&mut self, key: Key<'_>, drop_old: bool) {
        self.core.counters.store_too_large += 1;
        if drop_old {
            self.partition.delete(self.cpu, key, self.now_s);
        }
    }

    fn delete(&mut self, key: Key<'_>, noreply: bool, output: &mut Output) {
        self.server.detail.count(key.bytes, Seen::Delete);
        let line: &[u8] = if self.partition.delete(self.cpu, key, self.now_s) {
            self.core.counters.delete_hits += 1;
            if self.core.watched & kind::DELETIONS != 0 {
                notify::deleted(&self.server.watchers, self.core.connection, key.bytes, "delete");
            }
            b"DELETED\r\n"
        } else {
            self.core.counters.delete_misses += 1;
            b"NOT_FOUND\r\n"
        };
        answer(output, noreply, line);
    }

    fn touch(&mut self, key: Key<'_>, expiry: Expiry, noreply: bool, output: &mut Output) {
        let mark = Mark {
            access: true,
            expire_s: Some(self.expire_s(expiry)),
            ..Mark::default()
        };
        let counters = &mut self.core.counters;
        counters.cmd_touch += 1;
        let line: &[u8] = match self.partition.mark(self.cpu, key, self.now_s, |_| mark) {
            Some(_) => {
                counters.touch_hits += 1;
                b"TOUCHED\r\n"
            }
            None => {
                counters.touch_misses += 1;
                b"NOT_FOUND\r\n"
            }
        };
        answer(output, noreply, line);
    }
}
