//! Messages between cores: the hash of the key, the kind of request, and the request.
//!
//! | offset | size | field | |
//! |---|---|---|---|
//! | 0 | 16 | hash | of the key, [`KeyHash::to_bytes`]; zero if the request is about no single key |
//! | 16 | 1 | kind | see below; 0x80 is added in the first of the messages that a member [sends again](crate::Executor::step_parked) |
//! | 17 | 4 | connection | lower half of its number, for watchers; 0: none |
//! | 21 | | body | |
//!
//! | kind | body | reply |
//! |---|---|---|
//! | `r` | a request about one key, as its client wrote it, value included | the client's reply |
//! | `v` | with_cas (1), touch (1), expiry (4), the key: one key of a fetch | `VALUE ...` or nothing |
//! | `g` | as `v`: a fetch of one key | `VALUE ...` or nothing, and `END` |
//! | `m` | as `v`, for several keys: `gather.rs` | all their replies, and where each ends |
//! | `x` | drop_old (1), the key: its new value was too large | nothing |
//! | `f` | seconds since the server's start (4) at which to flush all; 0 = now | nothing |
//! | `F` | time in seconds (4) after which to flush all; 0 = now: from another member, whose clock began at another time | nothing |
//! | `p`, `k`, `s`, `z` | of a hand-over between members: [`handover`](crate::handover) | see there |
//! | `c`, `i`, `q` | of copies: [`replicas`](crate::replicas) | see there |
//! | `d` | kind of dump (1), first hash (8), number of hashes (8), number of the limit (8) | lines of one piece of a dump |
//!
//! Numbers are little-endian. The receiving core parses the request again: that costs less than a second format for
//! every command, and needs no trust.

use crate::Executor;
use crate::dump::Dump;
use crate::exec::{END, fetch, with_binary_key, with_key};
use crate::member::{FIRST_RETRY, OnFailure, post};
use crate::parse::{self, Parsed};
use crate::replicas::is_of_copies;
use crate::request::{Expiry, Fetch, Request};
use drover_base::{Cpu, KeyHash};
use drover_net::Output;
use drover_store::{Hint, KEY_BYTES_MAX, Key, Sharing};

/// Bytes of the head, before the body.
pub(crate) const HEAD_BYTES: usize = 21;

/// The head of a message on behalf of a connection.
pub(crate) fn head(hash: KeyHash, kind: u8, connection: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..16].copy_from_slice(&hash.to_bytes());
    head[16] = kind;
    head[17..].copy_from_slice(&connection.to_le_bytes());
    head
}

/// The body of a `v` message before its key.
pub(crate) fn fetch_bytes(fetch: Fetch) -> [u8; 6] {
    let mut bytes = [
        u8::from(fetch.with_cas),
        u8::from(fetch.touch.is_some()),
        0,
        0,
        0,
        0,
    ];
    bytes[2..].copy_from_slice(&fetch.touch.unwrap_or_default().0.to_le_bytes());
    bytes
}

/// What [`fetch_bytes`] says at the start of a body, and the rest.
pub(crate) fn fetch_of(body: &[u8]) -> Option<(Fetch, &[u8])> {
    let (how, rest) = body.split_first_chunk::<6>()?;
    let expiry = Expiry(i32::from_le_bytes(how[2..].try_into().expect("4 bytes")));
    let fetch = Fetch {
        with_cas: how[0] != 0,
        touch: (how[1] != 0).then_some(expiry),
    };
    Some((fetch, rest))
}

/// A message, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'m> {
    /// Hash of its key; zero if it is about no single key.
    pub hash: KeyHash,
    /// Lower half of the number of the connection on whose behalf it is.
    pub connection: u32,
    /// What it asks for.
    pub what: What<'m>,
}

/// What a message asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'m> {
    /// To execute a request about one key.
    Request(Request<'m>),
    /// One key of a fetch.
    Fetch(Fetch, &'m [u8]),
    /// A fetch of one key.
    FetchAlone(Fetch, &'m [u8]),
    /// Several keys of a fetch: the body.
    Fetches(&'m [u8]),
    /// To drop the value of a key, if it says so, since a new one was too large.
    TooLarge {
        /// Whether to drop it.
        drop_old: bool,
        /// The key.
        key: &'m [u8],
    },
    /// To flush all items.
    Flush {
        /// When: seconds since the server's start; 0: now.
        at_s: u32,
    },
    /// To flush all items of a member.
    FlushAfter {
        /// After how many seconds; 0: now.
        delay_s: u32,
    },
    /// One piece of a dump: the body.
    Dump(&'m [u8]),
    /// A piece of a hand-over between members: its kind and body.
    Handover(u8, &'m [u8]),
    /// About copies that other members keep: its kind and body.
    Copies(u8, &'m [u8]),
}

impl<'m> Message<'m> {
    /// Takes a message apart; `None` if it is malformed.
    #[inline(always)]
    pub fn of(message: &'m [u8]) -> Option<Message<'m>> {
        let (head, body) = message.split_first_chunk::<HEAD_BYTES>()?;
        let hash = KeyHash::from_bytes(head[..16].try_into().expect("16 of 21 bytes"));
        let connection = u32::from_le_bytes(head[17..].try_into().expect("4 of 21 bytes"));
        let what = match head[16] & !FIRST_RETRY {
            b'r' => {
                let parsed = parse::parse(Some(body).filter(|body| !body.is_empty())?, usize::MAX);
                let Parsed::Request { request, .. } = parsed else {
                    return None;
                };
                What::Request(request)
            }
            b'v' => {
                let (fetch, key) = fetch_of(body)?;
                What::Fetch(fetch, key_of(key)?)
            }
            b'g' => {
                let (fetch, key) = fetch_of(body)?;
                What::FetchAlone(fetch, key_of(key)?)
            }
            b'm' => What::Fetches(body),
            b'x' => {
                let (drop_old, key) = body.split_first()?;
                What::TooLarge {
                    drop_old: *drop_old != 0,
                    key: key_of(key)?,
                }
            }
            b'f' => What::Flush {
                at_s: u32::from_le_bytes(body.try_into().ok()?),
            },
            b'F' => What::FlushAfter {
                delay_s: u32::from_le_bytes(body.try_into().ok()?),
            },
            b'd' => What::Dump(body),
            kind @ (b'p' | b'k' | b's' | b'z') => What::Handover(kind, body),
            kind @ (b'c' | b'i' | b'q') => What::Copies(kind, body),
            _ => return None,
        };
        Some(Message {
            hash,
            connection,
            what,
        })
    }
}

/// The key that is the rest of a message; `None`: it is longer than keys are. The names of changed keys have no space for it.
#[inline(always)]
fn key_of(bytes: &[u8]) -> Option<&[u8]> {
    (bytes.len() <= KEY_BYTES_MAX).then_some(bytes)
}

/// Whether a message is a piece of a hand-over between members.
pub(crate) fn is_handover(message: &[u8]) -> bool {
    matches!(message.get(16), Some(b'p' | b'k' | b's' | b'z'))
}

/// Hash of the key in a message between cores. `None`: the message has less than 21 bytes, or is not about one key.
pub fn key_hash(message: &[u8]) -> Option<KeyHash> {
    let (head, _) = message.split_first_chunk::<HEAD_BYTES>()?;
    let about_a_key = matches!(head[16] & !FIRST_RETRY, b'r' | b'v' | b'g' | b'x');
    about_a_key.then(|| KeyHash::from_bytes(head[..16].try_into().expect("16 of 21 bytes")))
}

impl<C: Cpu, S: Sharing> Executor<'_, C, S> {
    /// Prefetches the bucket of a message that [`serve`](Executor::serve) will get soon. Does nothing for a message
    /// without a key.
    pub fn prefetch(&self, message: &[u8]) {
        if let Some(hash) = key_hash(message) {
            self.partition.prefetch_bucket(self.cpu, hash, false);
        }
    }

    /// Prefetches the item of a message, after its bucket has been [prefetched](Executor::prefetch). Returns the hint
    /// to pass to [`serve`](Executor::serve).
    pub fn hint(&self, message: &[u8]) -> Hint {
        key_hash(message).map_or(Hint::NONE, |hash| self.partition.prefetch_item(self.cpu, hash))
    }

    /// Answers a message of another core: appends the reply, which may be empty, to `output`. The reply to a malformed
    /// message is a line that begins with `SERVER_ERROR`. `hint`: result of [`hint`](Executor::hint) for this message,
    /// or [`Hint::NONE`].
    pub fn serve(&mut self, message: &[u8], hint: Hint, output: &mut Output) {
        self.begin_step();
        if self.try_serve(message, hint, output).is_none() {
            output.push(b"SERVER_ERROR malformed message between cores\r\n");
        }
    }

    fn try_serve(&mut self, message: &[u8], hint: Hint, output: &mut Output) -> Option<()> {
        if self.is_member() {
            if is_of_copies(message) != self.is_source_of_copies() {
                return None;
            }
            if !self.admits_message(message) {
                self.answer_elsewhere(&[message], output);
                return Some(());
            }
        }
        let Message {
            hash,
            connection,
            what,
        } = Message::of(message)?;
        self.core.connection = connection;
        match what {
            What::Request(request) => self.execute(&request, hash, hint, output),
            What::Fetch(how, key) => fetch(self, how, Key { hash, bytes: key }, hint, output),
            What::FetchAlone(how, key) => self.fetch_alone(how, Key { hash, bytes: key }, hint, output),
            What::Fetches(body) => self.serve_many(body, output)?,
            What::TooLarge { drop_old, key } => {
                self.will_change(hash, key);
                self.drop_old(Key { hash, bytes: key }, drop_old);
            }
            What::Flush { at_s } => self.flush(at_s),
            What::FlushAfter { delay_s: 0 } => self.flush(0),
            What::FlushAfter { delay_s } => self.flush(self.now_s.saturating_add(delay_s)),
            What::Dump(body) => Dump::from_bytes(body)?.write(self, output),
            What::Handover(kind, body) => {
                self.reply_with(output, |this, entries| this.hand_over(kind, body, entries))?
            }
            What::Copies(kind, body) => {
                self.reply_with(output, |this, refused| this.serve_copies(kind, body, refused))?
            }
        }
        Some(())
    }

    /// A fetch of one key. Only members send it, so it is kept from the code of what cores send each other.
    #[inline(never)]
    fn fetch_alone(&mut self, how: Fetch, key: Key<'_>, hint: Hint, output: &mut Output) {
        fetch(self, how, key, hint, output);
        output.push(END);
    }

    /// Sends a request about one key to `core`; its reply will fill a pending reply in `output`. `input` is the request
    /// as received.
    ///
    /// # Errors
    /// The ring is full; nothing was sent.
    pub(crate) fn send(
        &mut self,
        core: usize,
        request: &Request<'_>,
        hash: KeyHash,
        input: &[u8],
        output: &mut Output,
    ) -> Result<(), crate::RouteFull> {
        let connection = self.core.connection;
        match request {
            Request::TooLarge(large) => {
                // Only the old value of the key is on the other core.
                let mut send = |key: &[u8]| {
                    let pieces = [
                        &head(hash, b'x', connection)[..],
                        &[u8::from(large.drop_old)],
                        key,
                    ];
                    self.send_pieces(core, OnFailure::Close, &pieces, output)
                };
                match large.binary {
                    true => with_binary_key(large.key, send).unwrap_or(Ok(()))?,
                    false => send(large.key)?,
                }
                if !large.noreply {
                    crate::exec::reply(output, parse::TOO_LARGE);
                }
                Ok(())
            }
            _ => {
                let on_failure = match self.is_member() && request.wants_no_reply() {
                    true => OnFailure::Silence,
                    false => OnFailure::Line,
                };
                let pieces = [&head(hash, b'r', connection)[..], input];
                self.send_pieces(core, on_failure, &pieces, output)
            }
        }
    }

    /// Sends a message and leaves a pending reply for the answer.
    pub(crate) fn send_pieces(
        &mut self,
        core: usize,
        on_failure: OnFailure,
        pieces: &[&[u8]],
        output: &mut Output,
    ) -> Result<(), crate::RouteFull> {
        let pending = (output.next_hole(), on_failure);
        post(
            self.core.member.as_deref_mut(),
            self.router,
            core,
            pending,
            pieces,
        )?;
        output.pending_reply();
        Ok(())
    }

    /// Hash of the request's key (of the first key of a fetch). `None`: the request has no key.
    pub(crate) fn hash_of(&self, request: &Request<'_>) -> Option<KeyHash> {
        let hasher = &self.server.hasher;
        Some(match *request {
            Request::Fetch { keys, .. } => {
                hasher.hash(parse::scan::Words::new(keys).next().unwrap_or_default())
            }
            Request::Store(ref store) => hasher.hash(store.key),
            Request::Delete { key, .. } | Request::Arithmetic { key, .. } | Request::Touch { key, .. } => {
                hasher.hash(key)
            }
            Request::Meta(ref meta) => with_key(meta, |key| hasher.hash(key)),
            Request::TooLarge(ref large) if large.binary => {
                with_binary_key(large.key, |key| hasher.hash(key)).unwrap_or_default()
            }
            Request::TooLarge(ref large) => hasher.hash(large.key),
            Request::General(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_too_long_are_malformed() {
        let (longest, too_long) = (vec![b'k'; KEY_BYTES_MAX], vec![b'k'; KEY_BYTES_MAX + 1]);
        for (kind, before) in [(b'v', 6), (b'g', 6), (b'x', 1)] {
            let message =
                |key: &[u8]| [&head(KeyHash::default(), kind, 0)[..], &vec![0; before], key].concat();
            assert!(Message::of(&message(&longest)).is_some());
            assert_eq!(Message::of(&message(&too_long)), None);
        }
    }
}
